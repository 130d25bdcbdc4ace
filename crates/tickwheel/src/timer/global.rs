//! The process-wide timer, for programs that need only one.
//!
//! It is created on first use, with the settings of [`Timer::new`](super::Timer::new), and lives
//! until the process ends.

use core::time::Duration;
use std::sync::OnceLock;

use super::{Builder, Key, Keyed, ScheduleError, Timeout, Timer, When, builder};

/// Returns the process-wide timer, for methods that have no free function.
///
/// ```
/// use std::time::Duration;
///
/// let timer = tickwheel::default_timer();
/// let poll = timer.every_after(Duration::from_secs(5), || println!("poll"))?;
/// # poll.cancel();
/// # Ok::<(), tickwheel::ScheduleError>(())
/// ```
#[allow(clippy::missing_panics_doc, reason = "the default settings are valid")]
pub fn default_timer() -> &'static Timer {
    static TIMER: OnceLock<Timer> = OnceLock::new();
    if let Some(timer) = TIMER.get() {
        return timer;
    }
    let timer = TIMER
        .get_or_init(|| Builder::new().build_quietly().expect("the default settings are valid"));
    builder::warn_of_many_timers();
    timer
}

/// Runs a task once, after a delay, on the process-wide timer. See [`Timer::after`].
///
/// ```
/// use std::time::Duration;
///
/// tickwheel::after(Duration::from_secs(1), || println!("a second later"))?;
/// # Ok::<(), tickwheel::ScheduleError>(())
/// ```
///
/// # Errors
///
/// As [`Timer::after`].
pub fn after(
    delay: Duration,
    task: impl FnOnce() + Send + 'static,
) -> Result<Timeout, ScheduleError> {
    default_timer().after(delay, task)
}

/// Runs a task once, at a point in time, on the process-wide timer. See [`Timer::at`].
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// tickwheel::at(SystemTime::now() + Duration::from_secs(1), || println!("a second later"))?;
/// # Ok::<(), tickwheel::ScheduleError>(())
/// ```
///
/// # Errors
///
/// As [`Timer::after`].
pub fn at(
    when: impl Into<When>,
    task: impl FnOnce() + Send + 'static,
) -> Result<Timeout, ScheduleError> {
    default_timer().at(when, task)
}

/// Runs a task periodically on the process-wide timer. See [`Timer::every`].
///
/// ```
/// use std::time::Duration;
///
/// let beat = tickwheel::every(Duration::from_secs(5), || println!("still here"))?;
/// beat.cancel();
/// # Ok::<(), tickwheel::ScheduleError>(())
/// ```
///
/// # Errors
///
/// As [`Timer::every`].
pub fn every(
    period: Duration,
    task: impl FnMut() + Send + 'static,
) -> Result<Timeout, ScheduleError> {
    default_timer().every(period, task)
}

/// Selects a key of the process-wide timer. See [`Timer::key`].
///
/// ```
/// use std::time::Duration;
///
/// tickwheel::key("order-42").after(Duration::from_secs(1800), || println!("close it"))?;
/// assert!(tickwheel::cancel("order-42"));
/// # Ok::<(), tickwheel::ScheduleError>(())
/// ```
pub fn key(key: impl Into<Key>) -> Keyed<'static> {
    default_timer().key(key)
}

/// Cancels the pending task with a key on the process-wide timer. See [`Timer::cancel`].
///
/// ```
/// use std::time::Duration;
///
/// tickwheel::key("order-42").after(Duration::from_secs(1800), || println!("close it"))?;
/// assert!(tickwheel::cancel("order-42"));
/// assert!(!tickwheel::cancel("order-42"));
/// # Ok::<(), tickwheel::ScheduleError>(())
/// ```
pub fn cancel(key: impl Into<Key>) -> bool {
    default_timer().cancel(key)
}
