//! Why a pacer refuses a task, a permit or a rate.

use core::fmt;
use core::time::Duration;
use std::string::String;
use std::time::Instant;

use crate::ScheduleError;

/// Why a task or a permit was refused.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
/// use tickwheel::pace::{PaceError, Pacer};
///
/// let timer = Timer::new();
/// let pacer = Pacer::builder(&timer, 1, Duration::from_secs(60)).max_queued(1).build()?;
/// let permit = pacer.try_acquire()?;
/// match pacer.try_acquire() {
///     Err(PaceError::NotYet { until: Some(time) }) => println!("try again at {time:?}"),
///     other => unreachable!("{other:?}"),
/// }
/// pacer.submit(|| println!("in a minute"))?;
/// let error = pacer.submit(|| println!("never")).unwrap_err();
/// assert_eq!(error, PaceError::Full { limit: 1, queued: 1 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PaceError {
    /// As many tasks of this key are queued as `max_queued` allows. Try again when some have
    /// started, cancel some, or build the pacer with a higher limit.
    Full {
        /// The limit that the pacer was built with.
        limit: usize,
        /// How many tasks were queued.
        queued: usize,
    },
    /// As many tasks of all keys together are queued as `max_queued_total` allows.
    TotalFull {
        /// The limit that the pacer was built with.
        limit: usize,
        /// How many tasks were queued.
        queued: usize,
    },
    /// `try_acquire` has no permit at the moment: others wait for one, the window is full, as many
    /// tasks run as may, or the pacer is paused.
    NotYet {
        /// When the window, or `retry_after`, allows the next start; `None` if something other
        /// than time decides that.
        until: Option<Instant>,
    },
    /// The pacer or its timer is draining or stopped.
    Stopped,
    /// The timer's thread could not be started; the message of the operating system.
    Thread(String),
}

impl fmt::Display for PaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { limit, queued } => write!(
                f,
                "the queue of the pacer is full (queued: {queued}, limit: {limit}): wait until \
                 tasks have started, cancel some, or raise `max_queued`"
            ),
            Self::TotalFull { limit, queued } => write!(
                f,
                "the queues of the pacer are full (queued for all keys: {queued}, limit: {limit}): \
                 wait until tasks have started, cancel some, or raise `max_queued_total`"
            ),
            Self::NotYet { until: Some(_) } => {
                f.write_str("the pacer allows no start yet: try again at the time in `until`")
            }
            Self::NotYet { until: None } => f.write_str(
                "the pacer allows no start yet: others wait for theirs, as many tasks run as may, \
                 or it is paused; submit a task or await `acquire` to wait in the queue",
            ),
            Self::Stopped => f.write_str("the pacer or its timer is draining or stopped"),
            Self::Thread(why) => write!(f, "the timer's thread could not be started: {why}"),
        }
    }
}

impl core::error::Error for PaceError {}

impl From<ScheduleError> for PaceError {
    fn from(error: ScheduleError) -> Self {
        match error {
            ScheduleError::Thread(why) => Self::Thread(why),
            _ => Self::Stopped,
        }
    }
}

/// Why a rate was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RateError {
    /// The number of starts is zero: nothing would ever start.
    NoStarts {
        /// The window of the refused rate.
        window: Duration,
    },
    /// The window is zero: it could contain no start.
    ZeroWindow {
        /// The number of starts of the refused rate.
        starts: usize,
    },
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStarts { window } => write!(
                f,
                "the number of starts must be at least 1, got 0 in a window of {window:?}; to \
                 start nothing, pause the pacer"
            ),
            Self::ZeroWindow { starts } => write!(
                f,
                "the window must be longer than zero, got {starts} starts in a window of 0 ns"
            ),
        }
    }
}

impl core::error::Error for RateError {}
