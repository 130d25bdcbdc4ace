//! Futures on the process-wide timer.

use core::future::IntoFuture;
use core::time::Duration;
use std::time::Instant;

use super::{Interval, Sleep, TimeoutFuture};
use crate::default_timer;

/// Waits for a delay, on the process-wide timer. See [`Timer::sleep`](crate::Timer::sleep).
///
/// ```
/// use std::time::Duration;
///
/// # futures::executor::block_on(async {
/// tickwheel::sleep(Duration::from_millis(1)).await;
/// # });
/// ```
pub fn sleep(delay: Duration) -> Sleep {
    default_timer().sleep(delay)
}

/// Waits until an instant, on the process-wide timer. See
/// [`Timer::sleep_until`](crate::Timer::sleep_until).
///
/// ```
/// use std::time::{Duration, Instant};
///
/// # futures::executor::block_on(async {
/// tickwheel::sleep_until(Instant::now() + Duration::from_millis(1)).await;
/// # });
/// ```
pub fn sleep_until(deadline: Instant) -> Sleep {
    default_timer().sleep_until(deadline)
}

/// Limits the time of a future, on the process-wide timer. See
/// [`Timer::timeout`](crate::Timer::timeout).
///
/// ```
/// use std::time::Duration;
///
/// # futures::executor::block_on(async {
/// let answer = tickwheel::timeout(Duration::from_secs(5), async { 42 }).await;
/// assert_eq!(answer, Ok(42));
/// # });
/// ```
pub fn timeout<F: IntoFuture>(limit: Duration, future: F) -> TimeoutFuture<F::IntoFuture> {
    default_timer().timeout(limit, future)
}

/// Limits a future to end at an instant, on the process-wide timer. See
/// [`Timer::timeout_at`](crate::Timer::timeout_at).
///
/// ```
/// use std::time::{Duration, Instant};
///
/// # futures::executor::block_on(async {
/// let soon = Instant::now() + Duration::from_millis(1);
/// let answer = tickwheel::timeout_at(soon, std::future::pending::<()>()).await;
/// assert!(answer.is_err());
/// # });
/// ```
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> TimeoutFuture<F::IntoFuture> {
    default_timer().timeout_at(deadline, future)
}

/// Ticks at a fixed rate, on the process-wide timer. See [`Timer::interval`](crate::Timer::interval).
///
/// ```
/// use std::time::Duration;
///
/// # futures::executor::block_on(async {
/// let mut ticks = tickwheel::interval(Duration::from_millis(1));
/// ticks.tick().await; // at once
/// ticks.tick().await; // a millisecond later
/// # });
/// ```
///
/// # Panics
///
/// If the period is zero.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    default_timer().interval(period)
}

/// Ticks at a fixed rate from an instant on, on the process-wide timer. See
/// [`Timer::interval_at`](crate::Timer::interval_at).
///
/// ```
/// use std::time::{Duration, Instant};
///
/// # futures::executor::block_on(async {
/// let start = Instant::now() + Duration::from_millis(1);
/// let mut ticks = tickwheel::interval_at(start, Duration::from_secs(60));
/// assert_eq!(ticks.tick().await, start);
/// # });
/// ```
///
/// # Panics
///
/// If the period is zero.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    default_timer().interval_at(start, period)
}
