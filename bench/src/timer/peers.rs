//! The peers that are written in Rust. Both are futures, which do nothing until they are polled.
//!
//! In workloads where no timer fires, a timer is a boxed future that was polled once. That is the
//! least that makes it pending; it needs no task of an executor. Where timers fire, each is a
//! spawned task, as in every program that uses them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use async_executor::Executor;
use async_io::Timer;
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::time;

use super::contender::Contender;
use crate::lateness::Task;

/// A future that waits, and then runs a task.
pub(super) struct Waiting(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Waiting {
    fn new(future: impl Future<Output = ()> + Send + 'static) -> Self {
        let mut future: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(future);
        poll_once(future.as_mut());
        Self(Some(future))
    }

    /// Cancels the timer by dropping the future.
    fn cancel(&mut self) -> bool {
        self.0.take().is_some()
    }
}

/// Makes a future pending by polling it once, with a waker that does nothing.
fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) {
    let polled = future.poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "the deadline is far away");
}

/// `async_io::Timer`, on one thread that runs an `async_executor` and drives the reactor, which is
/// what `smol` does by default.
pub(super) struct AsyncIo(Arc<Executor<'static>>);

impl AsyncIo {
    pub(super) fn new() -> Self {
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

/// tokio's `Sleep`, on the runtime that `#[tokio::main]` makes: a worker for each core.
///
/// The feature `test-util`, which the suite `wheel` needs, adds an atomic load to each reading of a
/// clock that is not paused.
pub(super) struct Tokio(Runtime);

impl Tokio {
    pub(super) fn new() -> Self {
        let runtime = Builder::new_multi_thread().enable_time().build();
        Self(runtime.expect("the runtime starts its threads"))
    }
}

impl Contender for Tokio {
    type Context<'a> = EnterGuard<'a>;
    type Handle = Waiting;
    type Resettable = Pin<Box<time::Sleep>>;

    const LIVES_IN_HANDLE: bool = true;

    fn context(&self) -> EnterGuard<'_> {
        self.0.enter()
    }

    fn schedule(&self, delay: Duration, task: Task) -> Waiting {
        Waiting::new(async move {
            time::sleep(delay).await;
            task.run();
        })
    }

    fn cancel(&self, waiting: &mut Waiting) -> bool {
        waiting.cancel()
    }

    fn schedule_resettable(&self, delay: Duration, _task: Task) -> Self::Resettable {
        let mut sleep = Box::pin(time::sleep(delay));
        poll_once(sleep.as_mut());
        sleep
    }

    fn reset(&self, sleep: &mut Self::Resettable, delay: Duration) -> bool {
        sleep.as_mut().reset(time::Instant::now() + delay);
        true
    }

    fn launch(&self, delay: Duration, task: Task) {
        self.0.spawn(async move {
            time::sleep(delay).await;
            task.run();
        });
    }
}
