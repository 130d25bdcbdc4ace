//! The process-wide timer, for programs that want one and no more.
//!
//! It is made when it is first used, with the defaults of [`Timer::new`](super::Timer::new), and
//! lives until the process ends.

use core::time::Duration;
use std::sync::OnceLock;

use super::{Builder, Key, Keyed, ScheduleError, Timeout, Timer, When, builder};

/// The process-wide timer itself, for what has no function here.
///
/// ```
/// assert_eq!(tickwheel::default_timer().stats().panicked, 0);
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

/// [`Timer::after`] on the process-wide timer.
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

/// [`Timer::at`] on the process-wide timer.
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

/// [`Timer::every`] on the process-wide timer.
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

/// [`Timer::key`] on the process-wide timer.
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

/// [`Timer::cancel`] on the process-wide timer.
///
/// ```
/// assert!(!tickwheel::cancel("nobody has this key"));
/// ```
pub fn cancel(key: impl Into<Key>) -> bool {
    default_timer().cancel(key)
}
