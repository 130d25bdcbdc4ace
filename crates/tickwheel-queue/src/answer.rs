//! What every operation gives: an answer that a thread waits for or a task awaits.
//!
//! Ground rules:
//! * Nothing is sent before the answer is first polled or waited for.
//! * A reply is written once and taken once. Whoever drops an answer early says so, and what the
//!   writer has to give back (delivered jobs that nobody will see) it takes back.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::access::Access;
use crate::engine::{Command, Outcome as Done};
use crate::error::Error;
use crate::hub::{Ask, Hub, Outcome, Request, Submission};
use crate::job::{JobRef, When};
use crate::read::{Read, Reading};

/// The answer to an operation: `.await` it in a task of any runtime, or [`wait`](Answer::wait) for
/// it on a thread.
///
/// Nothing happens before that. Dropping an answer that was polled does not undo its operation;
/// but a dropped `reserve` gives back what it was given.
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
    hub: Arc<Hub>,
    access: Access,
    stage: Stage,
    convert: fn(Outcome) -> Result<T, Error>,
}

enum Stage {
    New(Option<Request>),
    Sent(Arc<Reply>),
    Ended,
}

impl<T> Answer<T> {
    pub(crate) fn new(
        hub: &Arc<Hub>,
        request: Request,
        access: &Access,
        convert: fn(Outcome) -> Result<T, Error>,
    ) -> Self {
        let (hub, access) = (Arc::clone(hub), access.clone());
        Self { hub, access, stage: Stage::New(Some(request)), convert }
    }

    /// Does it, and waits for it on this thread.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let put = queues.put(NewJob::new("mail", "hello")).wait()?;
    /// assert!(queues.get(put.id).wait()?.is_some());
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What the operation says.
    pub fn wait(mut self) -> Result<T, Error> {
        // A thread reads by itself: only a task must not wait for the disk.
        if matches!(self.stage, Stage::New(Some(Request::Read(_)))) {
            let stage = std::mem::replace(&mut self.stage, Stage::Ended);
            let Stage::New(Some(Request::Read(read))) = stage else { unreachable!() };
            let reading = Reading::new(read, std::mem::take(&mut self.access));
            return (self.convert)(reading.finish(&self.hub));
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
            match this.hub.poll_send(request, &this.access, context.waker()) {
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
            self.hub.take_back(outcome);
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

/// Where the writer leaves the outcome of a submission.
pub(crate) struct Reply {
    state: Mutex<ReplyState>,
}

enum ReplyState {
    Empty(Option<Waker>),
    Full(Outcome),
    /// Taken, or nobody will.
    Over,
}

/// The writer's side of a reply. One that is dropped unkept says that the queue is closed, so that
/// nobody waits for ever, whatever becomes of the writer.
pub(crate) struct Promise {
    reply: Option<Arc<Reply>>,
}

impl Promise {
    /// A promise that nobody waits for.
    pub(crate) fn to_nobody() -> Self {
        Self { reply: None }
    }

    /// Gives the outcome; back if nobody waits for it any more.
    pub(crate) fn keep(mut self, outcome: Outcome) -> Option<Outcome> {
        match self.reply.take() {
            Some(reply) => reply.give(outcome),
            None => Some(outcome),
        }
    }

    /// Whether nobody waits for it any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.reply.as_ref().is_none_or(|reply| matches!(*reply.lock(), ReplyState::Over))
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            reply.give(Outcome::Refused(Error::Closed));
        }
    }
}

impl Reply {
    /// A reply, and the promise that it will come.
    pub(crate) fn promised() -> (Arc<Self>, Promise) {
        let reply = Arc::new(Self { state: ReplyState::Empty(None).into() });
        (Arc::clone(&reply), Promise { reply: Some(reply) })
    }

    fn lock(&self) -> MutexGuard<'_, ReplyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, outcome: Outcome) -> Option<Outcome> {
        let mut state = self.lock();
        let ReplyState::Empty(waker) = &mut *state else { return Some(outcome) };
        let waker = waker.take();
        *state = ReplyState::Full(outcome);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        None
    }

    fn poll_take(&self, waker: &Waker) -> Poll<Outcome> {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, ReplyState::Over) {
            ReplyState::Full(outcome) => Poll::Ready(outcome),
            ReplyState::Empty(older) => {
                let same = older.filter(|older| older.will_wake(waker));
                *state = ReplyState::Empty(Some(same.unwrap_or_else(|| waker.clone())));
                Poll::Pending
            }
            ReplyState::Over => unreachable!("a reply is taken once"),
        }
    }

    fn abandon(&self) -> Option<Outcome> {
        match std::mem::replace(&mut *self.lock(), ReplyState::Over) {
            ReplyState::Full(outcome) => Some(outcome),
            ReplyState::Empty(_) | ReplyState::Over => None,
        }
    }
}

impl Hub {
    /// Sends a request, if there is room for it.
    fn poll_send(
        &self,
        request: &mut Option<Request>,
        access: &Access,
        waker: &Waker,
    ) -> Poll<Result<Arc<Reply>, Error>> {
        let Some(taken) = request.take() else {
            unreachable!("a request is sent once");
        };
        let bytes = taken.bytes();
        let taken = match taken {
            Request::Read(read) => {
                let mut read = Some(read);
                let sent = self.readers.poll_push(&self.this, &mut read, access, bytes, waker);
                *request = read.map(Request::Read);
                return sent;
            }
            taken => taken,
        };
        let (reply, promise) = Reply::promised();
        let access = access.clone();
        let mut submission = Some(Submission { request: taken, access, reply: promise, bytes });
        match self.inbox.poll_push(&mut submission, bytes, waker) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(reply)),
            Poll::Ready(Err(_)) => Poll::Ready(Err(Error::Closed)),
            Poll::Pending => {
                *request = submission.map(|submission| submission.request);
                Poll::Pending
            }
        }
    }

    /// Gives deliveries back that nobody will see.
    pub(crate) fn take_back(&self, outcome: Outcome) {
        let Outcome::Done(Done::Deliveries(Ok(deliveries))) = outcome else { return };
        if deliveries.is_empty() {
            return;
        }
        let now = When::After(std::time::Duration::ZERO);
        let leases = deliveries.iter().map(|delivery| (delivery.lease, now)).collect();
        let request = Request::Command(Command::Release(leases));
        let bytes = request.bytes();
        let (access, reply) = (Access::default(), Promise::to_nobody());
        self.inbox.push_now(Submission { request, access, reply, bytes }, bytes);
    }
}

impl Request {
    /// About how much memory it holds, with its submission.
    pub(crate) fn bytes(&self) -> usize {
        const FIXED: usize = 256;
        let more = match self {
            Self::Command(command) => command.bytes(),
            Self::Read(Read::Get(jobs)) => jobs.iter().map(JobRef::bytes).sum(),
            Self::Read(Read::List(list)) => {
                list.queue.len() + list.key_prefix.as_ref().map_or(0, String::len)
            }
            Self::Read(Read::Schedule(name) | Read::NextTimes(name, _))
            | Self::Ask(Ask::Queues(Some(name))) => name.len(),
            Self::Read(Read::Schedules) | Self::Ask(Ask::Stats | Ask::Queues(None)) => 0,
        };
        FIXED + more
    }
}

/// Wakes this thread from `park`.
pub(crate) fn thread_waker() -> Waker {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }

        fn wake_by_ref(self: &Arc<Self>) {
            self.0.unpark();
        }
    }

    thread_local! {
        static WAKER: Waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    }
    WAKER.with(Waker::clone)
}
