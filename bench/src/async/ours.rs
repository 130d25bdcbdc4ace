//! The futures of this project, on a timer as `Timer::new` makes it.

use std::pin::Pin;
use std::time::{Duration, Instant};

use tickwheel::{Elapsed, Sleep, Timer};

use super::contender::{Contender, Limits};

#[derive(Clone)]
pub(super) struct Ours(pub(super) Timer);

impl Limits for Ours {
    type Elapsed = Elapsed;

    fn timeout<F: Future<Output: Send> + Send>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> + Send {
        self.0.timeout(limit, future)
    }
}

impl Contender for Ours {
    type Sleep = Sleep;

    fn sleep(&self, delay: Duration) -> Sleep {
        self.0.sleep(delay)
    }

    fn reset(&self, mut sleep: Pin<&mut Sleep>, delay: Duration) {
        sleep.reset(delay);
    }

    fn ticks(
        &self,
        first: Duration,
        period: Duration,
        count: usize,
    ) -> impl Future<Output = ()> + Send + 'static {
        let mut interval = self.0.interval_at(Instant::now() + first, period);
        async move {
            for _ in 0..count {
                interval.tick().await;
            }
        }
    }
}
