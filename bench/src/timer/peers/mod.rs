//! The peers that are written in Rust. Both are futures, which are nothing until they are polled.
//!
//! Where nothing fires, a timer is a boxed future that was polled once: the least that makes it
//! pending, without a task of an executor around it. Where timers fire, each is a task that is
//! spawned, as it is in every program that uses them.

mod async_io;
mod tokio;

use std::pin::Pin;
use std::task::{Context, Waker};

pub(super) use async_io::AsyncIo;
pub(super) use tokio::Tokio;

/// A future that waits, and then runs a task.
pub(super) struct Waiting(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Waiting {
    fn new(future: impl Future<Output = ()> + Send + 'static) -> Self {
        let mut future: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(future);
        poll_once(future.as_mut());
        Self(Some(future))
    }

    /// Drops the future, which is what cancels it.
    fn cancel(&mut self) -> bool {
        self.0.take().is_some()
    }
}

/// Makes a future pending by polling it once, with a waker that does nothing.
fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) {
    let polled = future.poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "the deadline is far away");
}
