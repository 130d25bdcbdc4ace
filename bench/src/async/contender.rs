//! What a system has to offer to take part. All of it is called with a tokio runtime entered.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::figure::Figure;
use crate::meter::Reading;

/// Gives a future a limit.
pub(super) trait Limits: Clone + Send + Sync + 'static {
    type Elapsed: Send;

    fn timeout<F: Future<Output: Send> + Send>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send;
}

/// Waits.
pub(super) trait Contender: Limits {
    type Sleep: Future<Output: Send> + Send + 'static;

    /// A future that is ready after `delay` from now.
    fn sleep(&self, delay: Duration) -> Self::Sleep;

    /// Sets a new delay from now.
    fn reset(&self, sleep: Pin<&mut Self::Sleep>, delay: Duration);

    /// Waits for so many ticks, the first of which comes after `first`.
    fn ticks(
        &self,
        first: Duration,
        period: Duration,
        count: usize,
    ) -> impl Future<Output = ()> + Send + 'static;
}

/// Whether a future that is polled once, by hand, is ready.
pub(super) fn poll_once<F: Future>(future: Pin<&mut F>, cx: &mut Context<'_>) -> bool {
    matches!(future.poll(cx), Poll::Ready(_))
}

/// What came of a section: nanoseconds for each of `count` operations.
pub(super) fn each(
    [processor, wall]: [Figure; 2],
    reading: &Reading,
    count: usize,
) -> [(Figure, f64); 2] {
    let each = |time: Duration| time.as_nanos() as f64 / count as f64;
    [(processor, each(reading.processor)), (wall, each(reading.wall))]
}
