//! `async_io::Timer`, whose reactor runs on a thread of its own here.

use std::pin::Pin;
use std::time::{Duration, Instant};

use async_io::Timer;
use futures_lite::StreamExt;

use super::limited::{TooLate, limited};
use crate::r#async::contender::{Contender, Limits};

#[derive(Clone)]
pub(in crate::r#async) struct AsyncIo;

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

    fn sleep(&self, delay: Duration) -> Timer {
        Timer::after(delay)
    }

    fn reset(&self, mut sleep: Pin<&mut Timer>, delay: Duration) {
        sleep.set_after(delay);
    }

    fn ticks(
        &self,
        first: Duration,
        period: Duration,
        count: usize,
    ) -> impl Future<Output = ()> + Send + 'static {
        let mut interval = Timer::interval_at(Instant::now() + first, period);
        async move {
            for _ in 0..count {
                interval.next().await;
            }
        }
    }
}
