//! tokio's own timers.
//!
//! The feature `test-util`, which the suite `wheel` needs, adds an atomic load to each reading of a
//! clock that is not paused.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::error::Elapsed;
use tokio::time::{Instant, Sleep, interval_at, sleep, timeout};

use crate::r#async::contender::{Contender, Limits};

#[derive(Clone)]
pub(in crate::r#async) struct Tokio;

impl Limits for Tokio {
    type Elapsed = Elapsed;

    fn timeout<F: Future<Output: Send> + Send>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> + Send {
        timeout(limit, future)
    }
}

impl Contender for Tokio {
    type Sleep = Sleep;

    fn sleep(&self, delay: Duration) -> Sleep {
        sleep(delay)
    }

    fn reset(&self, sleep: Pin<&mut Sleep>, delay: Duration) {
        sleep.reset(Instant::now() + delay);
    }

    fn ticks(
        &self,
        first: Duration,
        period: Duration,
        count: usize,
    ) -> impl Future<Output = ()> + Send + 'static {
        let mut interval = interval_at(Instant::now() + first, period);
        async move {
            for _ in 0..count {
                interval.tick().await;
            }
        }
    }
}
