//! What can go wrong, and what to do about it.

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
/// let pacer = Pacer::builder(&timer, 100, Duration::from_secs(1)).max_queued(1).build()?;
/// pacer.pause();
/// pacer.submit(|| println!("later"))?;
/// let error = pacer.submit(|| println!("not at all")).unwrap_err();
/// assert_eq!(error, PaceError::Full { limit: 1, queued: 1 });
///
/// pacer.stop();
/// assert_eq!(pacer.submit(|| {}).unwrap_err(), PaceError::Stopped);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PaceError {
    /// As many tasks wait for this key as `max_queued` allows. Try again when some have started,
    /// cancel some, or build the pacer with a higher limit.
    Full {
        /// The limit that the pacer was built with.
        limit: usize,
        /// How many tasks were waiting.
        queued: usize,
    },
    /// As many tasks wait for all keys together as `max_queued_total` allows.
    TotalFull {
        /// The limit that the pacer was built with.
        limit: usize,
        /// How many tasks were waiting.
        queued: usize,
    },
    /// There is no permit at the moment (`try_acquire` only): others wait for one, the window is
    /// full, as many run as may, or the pacer is paused.
    NotYet {
        /// When the window, or `retry_after`, allows the next start; `None` if that depends on
        /// something else than time.
        until: Option<Instant>,
    },
    /// The pacer or its timer was stopped.
    Stopped,
    /// The timer's thread could not be started; what the operating system said.
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
                "the pacer allows no start yet: others wait for theirs, as many run as may, or it \
                 is paused; submit a task or await `acquire` to wait in line",
            ),
            Self::Stopped => f.write_str("the pacer or its timer is stopped and starts nothing"),
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

/// Why a rate is not possible.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
/// use tickwheel::pace::{Pacer, RateError};
///
/// let timer = Timer::new();
/// let second = Duration::from_secs(1);
/// let error = Pacer::builder(&timer, 0, second).build().unwrap_err();
/// assert_eq!(error, RateError::NoStarts { window: second });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RateError {
    /// No start at all in a window: nothing would ever start.
    NoStarts {
        /// The window that was asked for.
        window: Duration,
    },
    /// A window without length, in which there is no start.
    ZeroWindow {
        /// The number of starts that was asked for.
        starts: usize,
    },
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStarts { window } => write!(
                f,
                "a rate of 0 starts in {window:?} is not possible: allow at least one, or pause \
                 the pacer"
            ),
            Self::ZeroWindow { starts } => write!(
                f,
                "a rate of {starts} starts in a window of no length is not possible: take a longer \
                 window"
            ),
        }
    }
}

impl core::error::Error for RateError {}
