//! The queue as a stream.
#![cfg(feature = "stream")]

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;

use futures_core::Stream;

use super::waiters::Ticket;
use super::{DelayQueue, Inner};

/// A stream of a queue's items, each when it is due; returned by [`DelayQueue::stream`]. It ends
/// when the queue is closed. A queue may have several streams and other consumers beside them.
///
/// A stream whose poll returned `Pending` is a waiting consumer until it is polled again or
/// dropped. As with [`pop`](DelayQueue::pop), the other consumers wait for one that was woken and is
/// not polled.
///
/// ```
/// use std::time::Duration;
/// use futures::StreamExt;
/// use tickwheel::{DelayQueue, Timer};
///
/// # futures::executor::block_on(async {
/// let queue = DelayQueue::new(&Timer::new());
/// queue.push("first", Duration::from_millis(1))?;
/// queue.push("second", Duration::from_millis(2))?;
/// let items: Vec<_> = queue.stream().take(2).collect().await;
/// assert_eq!(items, ["first", "second"]);
/// # Ok::<(), tickwheel::PushError<&str>>(())
/// # });
/// ```
#[must_use = "a stream does nothing unless it is polled"]
pub struct Items<T> {
    inner: Arc<Inner<T>>,
    ticket: Option<Ticket>,
}

impl<T> DelayQueue<T> {
    /// Returns the items as a stream, each when it is due.
    ///
    /// ```
    /// use futures::StreamExt;
    /// use tickwheel::{DelayQueue, Timer};
    ///
    /// let queue: DelayQueue<u64> = DelayQueue::new(&Timer::new());
    /// queue.close();
    /// assert_eq!(futures::executor::block_on(queue.stream().next()), None);
    /// ```
    pub fn stream(&self) -> Items<T> {
        Items { inner: Arc::clone(&self.inner), ticket: None }
    }
}

impl<T> Stream for Items<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let Self { inner, ticket } = &mut *self;
        inner.poll_pop(ticket, cx.waker())
    }
}

impl<T> Drop for Items<T> {
    fn drop(&mut self) {
        self.inner.give_up(&mut self.ticket);
    }
}

impl<T> fmt::Debug for Items<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items").finish_non_exhaustive()
    }
}
