//! tokio's `Sleep`, on the runtime that `#[tokio::main]` makes: a worker for each core.
//!
//! The feature `test-util`, which the suite `wheel` needs, adds an atomic load to each reading of a
//! clock that is not paused.

use std::pin::Pin;
use std::time::Duration;

use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::time::{Instant, Sleep, sleep};

use super::{Waiting, poll_once};
use crate::lateness::Task;
use crate::timer::contender::Contender;

pub(in crate::timer) struct Tokio(Runtime);

impl Tokio {
    pub(in crate::timer) fn new() -> Self {
        let runtime = Builder::new_multi_thread().enable_time().build();
        Self(runtime.expect("the runtime starts its threads"))
    }
}

impl Contender for Tokio {
    type Context<'a> = EnterGuard<'a>;
    type Handle = Waiting;
    type Resettable = Pin<Box<Sleep>>;

    const LIVES_IN_HANDLE: bool = true;

    fn context(&self) -> EnterGuard<'_> {
        self.0.enter()
    }

    fn schedule(&self, delay: Duration, task: Task) -> Waiting {
        Waiting::new(async move {
            sleep(delay).await;
            task.run();
        })
    }

    fn cancel(&self, waiting: &mut Waiting) -> bool {
        waiting.cancel()
    }

    fn schedule_resettable(&self, delay: Duration, _task: Task) -> Self::Resettable {
        let mut sleep = Box::pin(sleep(delay));
        poll_once(sleep.as_mut());
        sleep
    }

    fn reset(&self, sleep: &mut Self::Resettable, delay: Duration) -> bool {
        sleep.as_mut().reset(Instant::now() + delay);
        true
    }

    fn launch(&self, delay: Duration, task: Task) {
        self.0.spawn(async move {
            sleep(delay).await;
            task.run();
        });
    }
}
