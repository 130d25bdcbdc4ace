//! The futures of this project, on a timer as `Timer::new` makes it.

use std::pin::Pin;
use std::time::{Duration, Instant};

use tickwheel::{Elapsed, Interval, Sleep, Timer};

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
    type Interval = Interval;

    fn sleep(&self, delay: Duration) -> Sleep {
        self.0.sleep(delay)
    }

    fn reset(&self, mut sleep: Pin<&mut Sleep>, delay: Duration) {
        sleep.reset(delay);
    }

    fn interval(&self, first: Duration, period: Duration) -> Interval {
        self.0.interval_at(Instant::now() + first, period)
    }

    async fn tick(interval: &mut Interval) {
        interval.tick().await;
    }
}
