//! The errors of building a timer and of scheduling on it.

use core::fmt;
use core::time::Duration;
use std::string::String;

/// The reason why a task was not scheduled.
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
    /// The timer is stopped or draining. Schedule on another timer.
    Stopped,
    /// The timer holds `max_pending` tasks. Retry when some have run or were cancelled, or build the
    /// timer with a higher limit.
    Full {
        /// The timer's `max_pending`.
        limit: usize,
        /// The number of pending tasks.
        pending: usize,
    },
    /// The period of a periodic task is zero.
    ZeroPeriod,
    /// A thread could not be started. Holds the error of the operating system or of the thread hook.
    /// The next call tries again. While attempts keep failing, the timer backs off for up to one
    /// second; calls during that time return the same error without another attempt.
    Thread(String),
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => {
                f.write_str("the timer is stopped and accepts no tasks: schedule on another timer")
            }
            Self::Full { limit, pending } => write!(
                f,
                "the timer is full (pending: {pending}, limit: {limit}): wait until tasks have \
                 run, cancel some, or raise `max_pending`"
            ),
            Self::ZeroPeriod => f.write_str("period must be greater than zero"),
            Self::Thread(error) => write!(f, "the timer's thread could not be started: {error}"),
        }
    }
}

impl core::error::Error for ScheduleError {}

/// The reason why a timer was not built.
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
    /// The tick is shorter than 1 µs or longer than 1 day.
    Tick(Duration),
    /// The hashed wheel has no slots, or more than 2²⁴.
    Slots(usize),
    /// The number of workers is 0 or greater than 1024.
    Workers(usize),
    /// The thread name contains a NUL byte.
    ThreadName(String),
    /// A manual clock is combined with `workers`, `inline` or `executor`. Such a timer runs its tasks
    /// on the thread that advances the clock.
    ClockNeedsNoThread,
    /// The timer has a `wake_hook` but is not `caller_driven`.
    WakeHookNeedsCaller,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tick(tick) => write!(f, "tick must be between 1 µs and 1 day, got {tick:?}"),
            Self::Slots(slots) => write!(
                f,
                "slots must be between 1 and 16777216, got {slots}; the hierarchical wheel needs \
                 no number of slots"
            ),
            Self::Workers(workers) => {
                write!(f, "workers must be between 1 and 1024, got {workers}")
            }
            Self::ThreadName(name) => {
                write!(f, "thread name must not contain a NUL byte, got {name:?}")
            }
            Self::ClockNeedsNoThread => f.write_str(
                "a timer with a manual clock runs its tasks on the thread that advances the \
                 clock: remove `workers`, `inline` or `executor`",
            ),
            Self::WakeHookNeedsCaller => f.write_str(
                "`wake_hook` needs a `caller_driven` timer, but this timer has threads of its own: \
                 add `caller_driven` or remove `wake_hook`",
            ),
        }
    }
}

impl core::error::Error for BuildError {}
