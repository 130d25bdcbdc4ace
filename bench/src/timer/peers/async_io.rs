//! `async_io::Timer`, on one thread that runs an `async_executor` and drives the reactor, which is
//! what `smol` does by default.

use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_executor::Executor;
use async_io::Timer;

use super::{Waiting, poll_once};
use crate::lateness::Task;
use crate::timer::contender::Contender;

pub(in crate::timer) struct AsyncIo(Arc<Executor<'static>>);

impl AsyncIo {
    pub(in crate::timer) fn new() -> Self {
        let executor = Arc::new(Executor::new());
        let runs = Arc::clone(&executor);
        thread::spawn(move || async_io::block_on(runs.run(std::future::pending::<()>())));
        Self(executor)
    }
}

impl Contender for AsyncIo {
    type Context<'a> = ();
    type Handle = Waiting;
    type Resettable = Box<Timer>;

    const LIVES_IN_HANDLE: bool = true;

    fn context(&self) {}

    fn schedule(&self, delay: Duration, task: Task) -> Waiting {
        Waiting::new(async move {
            Timer::after(delay).await;
            task.run();
        })
    }

    fn cancel(&self, waiting: &mut Waiting) -> bool {
        waiting.cancel()
    }

    fn schedule_resettable(&self, delay: Duration, _task: Task) -> Box<Timer> {
        let mut timer = Box::new(Timer::after(delay));
        poll_once(Pin::new(&mut *timer));
        timer
    }

    fn reset(&self, timer: &mut Box<Timer>, delay: Duration) -> bool {
        timer.set_after(delay);
        true
    }

    fn launch(&self, delay: Duration, task: Task) {
        let wait = async move {
            Timer::after(delay).await;
            task.run();
        };
        self.0.spawn(wait).detach();
    }
}
