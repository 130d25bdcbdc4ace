//! The operations that a system needs. They are called with a tokio runtime entered.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::meter::Reading;

/// A system with timeouts.
pub(super) trait Limits: Clone + Send + Sync + 'static {
    type Elapsed: Send;

    fn timeout<F: Future<Output: Send> + Send>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send;
}

/// A system with sleeps and intervals.
pub(super) trait Contender: Limits {
    type Sleep: Future<Output: Send> + Send + 'static;

    /// Returns a future that is ready after `delay` from now.
    fn sleep(&self, delay: Duration) -> Self::Sleep;

    /// Sets a new delay from now.
    fn reset(&self, sleep: Pin<&mut Self::Sleep>, delay: Duration);

    /// Waits for `count` ticks, the first of which comes after `first`.
    fn ticks(
        &self,
        first: Duration,
        period: Duration,
        count: usize,
    ) -> impl Future<Output = ()> + Send + 'static;
}

/// Polls a future once and returns `true` if it is ready.
pub(super) fn poll_once<F: Future>(future: Pin<&mut F>, cx: &mut Context<'_>) -> bool {
    matches!(future.poll(cx), Poll::Ready(_))
}

/// Returns nanoseconds for each of `count` operations of a section.
pub(super) fn each(
    [processor, wall]: [&'static str; 2],
    reading: &Reading,
    count: usize,
) -> [(&'static str, f64); 2] {
    let each = |time: Duration| time.as_nanos() as f64 / count as f64;
    [(processor, each(reading.processor)), (wall, each(reading.wall))]
}
