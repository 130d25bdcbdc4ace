//! What can go wrong, and what to do about it.

use core::fmt;
use core::time::Duration;
use std::string::String;

/// Why a task was not scheduled.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{ScheduleError, Timer};
///
/// let timer = Timer::builder().max_pending(1).build()?;
/// timer.after(Duration::from_secs(60), || {})?;
/// let error = timer.after(Duration::from_secs(60), || {}).unwrap_err();
/// assert_eq!(error, ScheduleError::Full { limit: 1, pending: 1 });
///
/// timer.stop();
/// let error = timer.after(Duration::from_secs(60), || {}).unwrap_err();
/// assert_eq!(error, ScheduleError::Stopped);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The timer was stopped, or is draining. Schedule on another timer.
    Stopped,
    /// As many tasks are pending as `max_pending` allows. Try again when some have run or were
    /// cancelled, or build the timer with a higher limit.
    Full {
        /// The limit that the timer was built with.
        limit: usize,
        /// How many tasks were pending.
        pending: usize,
    },
    /// A period of zero, which would run without end.
    ZeroPeriod,
    /// The thread could not be started; what the operating system or the thread hook said. The next
    /// call tries again; while that keeps failing, calls within a pause of up to a second get the
    /// same error without another attempt.
    Thread(String),
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("the timer is stopped and takes no more tasks"),
            Self::Full { limit, pending } => write!(
                f,
                "the timer is full (pending: {pending}, limit: {limit}): wait until tasks have \
                 run, cancel some, or raise `max_pending`"
            ),
            Self::ZeroPeriod => {
                f.write_str("a period of zero would run without end: it must be greater than zero")
            }
            Self::Thread(why) => write!(f, "the timer's thread could not be started: {why}"),
        }
    }
}

impl core::error::Error for ScheduleError {}

/// Why a timer was not built.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{BuildError, Timer};
///
/// let error = Timer::builder().tick(Duration::ZERO).build().unwrap_err();
/// assert_eq!(error, BuildError::Tick(Duration::ZERO));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// A tick shorter than a microsecond or longer than a day.
    Tick(Duration),
    /// A hashed wheel with no slots, or with more than 2²⁴.
    Slots(usize),
    /// No workers, or more than 1024.
    Workers(usize),
    /// A thread name with a zero byte in it.
    ThreadName(String),
    /// Both a clock that is moved by hand and `workers`, `inline` or an `executor`: such a timer
    /// runs its tasks on the thread that moves the clock.
    ClockNeedsNoThread,
    /// A `wake_hook` on a timer that is not `caller_driven`.
    WakeHookNeedsCaller,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tick(tick) => {
                write!(f, "a tick of {tick:?} is not possible: take one from 1 µs to 1 day")
            }
            Self::Slots(slots) => write!(
                f,
                "a hashed wheel of {slots} slots is not possible: take from 1 to 16777216, or the \
                 hierarchical wheel, which has nothing to choose"
            ),
            Self::Workers(workers) => {
                write!(f, "{workers} workers are not possible: take from 1 to 1024")
            }
            Self::ThreadName(name) => {
                write!(f, "the thread name {name:?} has a zero byte in it: leave that out")
            }
            Self::ClockNeedsNoThread => f.write_str(
                "a timer with a manual clock runs its tasks on the thread that advances the \
                 clock: leave `workers`, `inline` and `executor` out",
            ),
            Self::WakeHookNeedsCaller => f.write_str(
                "`wake_hook` wakes the event loop of a timer that is `caller_driven`; this timer \
                 has its own threads: leave the hook out, or add `caller_driven`",
            ),
        }
    }
}

impl core::error::Error for BuildError {}
