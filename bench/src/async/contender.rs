//! The operations that a system needs. The caller has entered a tokio runtime.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

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
    type Interval: Send + 'static;

    /// Returns a future that is ready after `delay` from now.
    fn sleep(&self, delay: Duration) -> Self::Sleep;

    /// Sets a new delay from now.
    fn reset(&self, sleep: Pin<&mut Self::Sleep>, delay: Duration);

    /// Returns an interval whose first tick comes after `first`.
    fn interval(&self, first: Duration, period: Duration) -> Self::Interval;

    /// Waits for the next tick.
    fn tick(interval: &mut Self::Interval) -> impl Future<Output = ()> + Send;
}

/// Polls a future once and returns `true` if it is ready.
pub(super) fn poll_once<F: Future>(future: Pin<&mut F>, cx: &mut Context<'_>) -> bool {
    matches!(future.poll(cx), Poll::Ready(_))
}
