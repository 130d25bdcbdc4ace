//! Answers: the result of every operation, for threads and for async tasks.
//!
//! Ground rules:
//! * Nothing is sent before the answer is first polled or waited for.
//! * A reply is written once and taken once. If an answer is dropped before that, jobs delivered in
//!   the reply are returned to their queue.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::model::access::Access;
use crate::model::error::Error;
use crate::runtime::core::Core;
use crate::runtime::reading::Reading;
use crate::runtime::reply::{Reply, thread_waker};
use crate::runtime::request::{Request, Response};

/// The answer to an operation: `.await` it in a task of any runtime, or [`wait`](Answer::wait) for
/// it on a thread.
///
/// Nothing happens before that. Dropping an answer that was polled does not undo its operation,
/// except that the jobs of a dropped `reserve` return to their queue.
///
/// ```
/// use tickwheel_queue::{NewJob, Queues};
///
/// let queues = Queues::in_memory();
/// let put = queues.put(NewJob::new("mail", "one")).wait()?; // on a thread
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let put = queues.put(NewJob::new("mail", "two")).await?; // in a task
/// # Ok::<(), tickwheel_queue::Error>(())
/// # })?;
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[must_use = "nothing is done until this is awaited or waited for"]
pub struct Answer<T> {
    core: Arc<Core>,
    access: Access,
    stage: Stage,
    convert: fn(Response) -> Result<T, Error>,
}

enum Stage {
    New(Option<Request>),
    Sent(Arc<Reply>),
    Ended,
}

impl<T> Answer<T> {
    pub(crate) fn new(
        core: &Arc<Core>,
        request: Request,
        access: &Access,
        convert: fn(Response) -> Result<T, Error>,
    ) -> Self {
        let (core, access) = (Arc::clone(core), access.clone());
        Self { core, access, stage: Stage::New(Some(request)), convert }
    }

    /// Performs the operation, and waits for its result on this thread.
    ///
    /// # Errors
    ///
    /// Returns the result of the operation.
    pub fn wait(mut self) -> Result<T, Error> {
        // A thread reads by itself. Only a task must not wait for the disk.
        if matches!(self.stage, Stage::New(Some(Request::Read(_)))) {
            let stage = std::mem::replace(&mut self.stage, Stage::Ended);
            let Stage::New(Some(Request::Read(read))) = stage else { unreachable!() };
            let reading = Reading::new(read, std::mem::take(&mut self.access));
            return (self.convert)(reading.finish(&self.core));
        }
        let waker = thread_waker();
        let mut context = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut self).poll(&mut context) {
                Poll::Ready(result) => return result,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Stage::New(request) = &mut this.stage {
            match this.core.poll_send(request, &this.access, context.waker()) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(reply)) => this.stage = Stage::Sent(reply),
                Poll::Ready(Err(error)) => {
                    this.stage = Stage::Ended;
                    return Poll::Ready(Err(error));
                }
            }
        }
        let Stage::Sent(reply) = &this.stage else {
            panic!("an answer was polled after it was given");
        };
        let outcome = match reply.poll_take(context.waker()) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(outcome) => outcome,
        };
        this.stage = Stage::Ended;
        Poll::Ready((this.convert)(outcome))
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        if let Stage::Sent(reply) = &self.stage
            && let Some(outcome) = reply.abandon()
        {
            self.core.take_back(outcome);
        }
    }
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::New(_) => "not sent",
            Stage::Sent(_) => "sent",
            Stage::Ended => "given",
        };
        f.debug_tuple("Answer").field(&stage).finish()
    }
}
