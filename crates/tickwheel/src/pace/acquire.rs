//! Waiting for a permit, in any async runtime.

use core::fmt;
use core::future::Future;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;

use super::shared::{Desk, Shared};
use super::start::{Answer, Start};
use super::state::TaskRef;
use super::{PaceError, PaceKey, Permit};

/// Waits for a permit: made by [`Pacer::acquire`](super::Pacer::acquire).
///
/// It takes its place in line when it is first polled, beside the tasks that were submitted, and
/// counts as a start when it is ready. Dropping it gives up the place; also after its turn has
/// come but before it was polled again: nothing has started then, so the start is not counted and
/// the next in line has it.
///
/// It is [`Unpin`], and needs no particular runtime.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
/// use tickwheel::pace::{PaceError, Pacer};
///
/// async fn call(pacer: &Pacer) -> Result<(), PaceError> {
///     let _permit = pacer.acquire().await?;
///     // ... ask the partner; the permit takes a place until here
///     Ok(())
/// }
/// ```
#[must_use = "futures do nothing unless they are awaited"]
pub struct Acquire<K: PaceKey = ()> {
    shared: Arc<Shared<K>>,
    priority: i8,
    step: Step<K>,
}

enum Step<K> {
    New(K),
    Waits(TaskRef, Arc<Start>),
    Done,
}

/// What the first poll has led to.
pub(super) enum Acquired {
    Permit(Permit),
    Wait(TaskRef, Arc<Start>),
}

impl<K: PaceKey> Acquire<K> {
    pub(super) fn new(shared: Arc<Shared<K>>, key: K, priority: i8) -> Self {
        Self { shared, priority, step: Step::New(key) }
    }
}

// Nothing in it is ever pinned.
impl<K: PaceKey> Unpin for Acquire<K> {}

impl<K: PaceKey> Future for Acquire<K> {
    type Output = Result<Permit, PaceError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match mem::replace(&mut self.step, Step::Done) {
            Step::New(key) => match self.shared.acquire(key, self.priority, cx.waker().clone())? {
                Acquired::Permit(permit) => return Poll::Ready(Ok(permit)),
                Acquired::Wait(task, start) => self.step = Step::Waits(task, start),
            },
            Step::Waits(task, start) => match start.ask(cx.waker(), || self.shared.host.now()) {
                Answer::Begun => {
                    let desk: Arc<dyn Desk> = Arc::clone(&self.shared) as _;
                    return Poll::Ready(Ok(Permit::awaited(desk, task)));
                }
                Answer::Refused => {
                    // Its turn may have come before the pacer was stopped: that was no start.
                    self.shared.abandon(task);
                    return Poll::Ready(Err(PaceError::Stopped));
                }
                Answer::Wait => self.step = Step::Waits(task, start),
            },
            Step::Done => panic!("a future is not to be polled after it was ready"),
        }
        Poll::Pending
    }
}

impl<K: PaceKey> Drop for Acquire<K> {
    fn drop(&mut self) {
        if let Step::Waits(task, _) = &self.step {
            self.shared.abandon(*task);
        }
    }
}

impl<K: PaceKey> fmt::Debug for Acquire<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waits = matches!(self.step, Step::Waits(..));
        f.debug_struct("Acquire").field("waits", &waits).finish_non_exhaustive()
    }
}
