//! `futures_timer::Delay`, on its thread.

use std::pin::Pin;
use std::time::Duration;

use futures_timer::Delay;

use super::limited::{TooLate, limited};
use crate::r#async::contender::{Contender, Limits};

#[derive(Clone)]
pub(in crate::r#async) struct FuturesTimer;

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

    fn sleep(&self, delay: Duration) -> Delay {
        Delay::new(delay)
    }

    fn reset(&self, mut sleep: Pin<&mut Delay>, delay: Duration) {
        sleep.reset(delay);
    }

    /// Resets a delay, because there is no interval. This drifts.
    fn ticks(
        &self,
        first: Duration,
        period: Duration,
        count: usize,
    ) -> impl Future<Output = ()> + Send + 'static {
        let mut delay = Delay::new(first);
        async move {
            for _ in 0..count {
                (&mut delay).await;
                delay.reset(period);
            }
        }
    }
}
