//! The peers. A peer without a timeout gets the one that its users write: it polls the future
//! first, and then the timer.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use async_io::Timer;
use futures_lite::StreamExt;
use futures_timer::Delay;
use tokio::time as tokio;

use super::contender::{Contender, Limits};

/// The timer of a [`limited`] future was ready first.
pub(super) struct TooLate;

/// Waits for a future until the timer is ready.
async fn limited<F: Future>(timer: impl Future, future: F) -> Result<F::Output, TooLate> {
    let (mut future, mut timer) = (pin!(future), pin!(timer));
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => timer.as_mut().poll(cx).map(|_| Err(TooLate)),
    })
    .await
}

/// No timeout: measures the receive alone.
#[derive(Clone)]
pub(super) struct Bare;

impl Limits for Bare {
    type Elapsed = Infallible;

    async fn timeout<F: Future<Output: Send> + Send>(
        &self,
        _limit: Duration,
        future: F,
    ) -> Result<F::Output, Infallible> {
        Ok(future.await)
    }
}

/// tokio's own timers.
///
/// The feature `test-util`, which the suite `wheel` needs, adds an atomic load to each reading of a
/// clock that is not paused.
#[derive(Clone)]
pub(super) struct Tokio;

impl Limits for Tokio {
    type Elapsed = tokio::error::Elapsed;

    fn timeout<F: Future<Output: Send> + Send>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
        tokio::timeout(limit, future)
    }
}

impl Contender for Tokio {
    type Sleep = tokio::Sleep;
    type Interval = tokio::Interval;

    fn sleep(&self, delay: Duration) -> tokio::Sleep {
        tokio::sleep(delay)
    }

    fn reset(&self, sleep: Pin<&mut tokio::Sleep>, delay: Duration) {
        sleep.reset(tokio::Instant::now() + delay);
    }

    fn interval(&self, first: Duration, period: Duration) -> tokio::Interval {
        tokio::interval_at(tokio::Instant::now() + first, period)
    }

    async fn tick(interval: &mut tokio::Interval) {
        interval.tick().await;
    }
}

/// `async_io::Timer`, whose reactor runs on a thread of its own here.
#[derive(Clone)]
pub(super) struct AsyncIo;

impl Limits for AsyncIo {
    type Elapsed = TooLate;

    fn timeout<F: Future<Output: Send> + Send>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, TooLate>> + Send {
        limited(Timer::after(limit), future)
    }
}

impl Contender for AsyncIo {
    type Sleep = Timer;
    type Interval = Timer;

    fn sleep(&self, delay: Duration) -> Timer {
        Timer::after(delay)
    }

    fn reset(&self, mut sleep: Pin<&mut Timer>, delay: Duration) {
        sleep.set_after(delay);
    }

    fn interval(&self, first: Duration, period: Duration) -> Self::Interval {
        Timer::interval_at(Instant::now() + first, period)
    }

    async fn tick(interval: &mut Timer) {
        interval.next().await;
    }
}

/// `futures_timer::Delay`, on its thread.
#[derive(Clone)]
pub(super) struct FuturesTimer;

impl Limits for FuturesTimer {
    type Elapsed = TooLate;

    fn timeout<F: Future<Output: Send> + Send>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, TooLate>> + Send {
        limited(Delay::new(limit), future)
    }
}

impl Contender for FuturesTimer {
    type Sleep = Delay;
    type Interval = (Delay, Duration);

    fn sleep(&self, delay: Duration) -> Delay {
        Delay::new(delay)
    }

    fn reset(&self, mut sleep: Pin<&mut Delay>, delay: Duration) {
        sleep.reset(delay);
    }

    fn interval(&self, first: Duration, period: Duration) -> Self::Interval {
        (Delay::new(first), period)
    }

    /// Resets a delay, because there is no interval. This drifts.
    async fn tick((delay, period): &mut Self::Interval) {
        (&mut *delay).await;
        delay.reset(*period);
    }
}
