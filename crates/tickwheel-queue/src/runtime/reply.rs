//! Replies: one-shot channels from the writer and the readers to a caller.
//!
//! A reply is written once and taken once. Dropping a [`Promise`] without an answer answers
//! [`Error::Closed`], so no caller waits for ever.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;

use crate::model::error::Error;
use crate::runtime::request::Response;

/// The caller's side of a reply.
pub(crate) struct Reply {
    state: Mutex<ReplyState>,
}

enum ReplyState {
    Empty(Option<Waker>),
    Full(Response),
    /// The response was taken, or the caller has stopped waiting.
    Over,
}

/// The sender's side of a reply: the writer's or a reader's.
pub(crate) struct Promise {
    reply: Option<Arc<Reply>>,
}

impl Promise {
    /// Creates a promise without a waiting caller.
    pub(crate) fn to_nobody() -> Self {
        Self { reply: None }
    }

    /// Delivers the response. Returns it if the caller has stopped waiting.
    pub(crate) fn keep(mut self, outcome: Response) -> Option<Response> {
        match self.reply.take() {
            Some(reply) => reply.give(outcome),
            None => Some(outcome),
        }
    }

    /// Returns `true` if the caller has stopped waiting.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.reply.as_ref().is_none_or(|reply| matches!(*reply.lock(), ReplyState::Over))
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            reply.give(Response::Refused(Error::Closed));
        }
    }
}

impl Reply {
    /// Creates the two sides of a reply.
    pub(crate) fn promised() -> (Arc<Self>, Promise) {
        let reply = Arc::new(Self { state: ReplyState::Empty(None).into() });
        (Arc::clone(&reply), Promise { reply: Some(reply) })
    }

    fn lock(&self) -> MutexGuard<'_, ReplyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, outcome: Response) -> Option<Response> {
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

    pub(crate) fn poll_take(&self, waker: &Waker) -> Poll<Response> {
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

    pub(crate) fn abandon(&self) -> Option<Response> {
        match std::mem::replace(&mut *self.lock(), ReplyState::Over) {
            ReplyState::Full(outcome) => Some(outcome),
            ReplyState::Empty(_) | ReplyState::Over => None,
        }
    }
}

/// Returns a waker that unparks this thread.
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
