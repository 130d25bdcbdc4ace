//! Requests that go to the engine together, and answers that are waited for, in order.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tickwheel_queue::{Answer, Error, Lease, NewJob};

/// An answer of the engine that is waited for.
pub(super) struct Waited<T> {
    answer: Answer<T>,
    pub(super) result: Option<Result<T, Error>>,
}

impl<T> Waited<T> {
    pub(super) fn new(answer: Answer<T>) -> Self {
        Self { answer, result: None }
    }

    /// Sends the request if that was not done, and looks for the result.
    fn poll(&mut self, context: &mut Context<'_>) {
        if self.result.is_none()
            && let Poll::Ready(result) = Pin::new(&mut self.answer).poll(context)
        {
            self.result = Some(result);
        }
    }
}

/// The answer to requests that were taken up, in their order.
pub(super) enum Pending {
    Line(Cow<'static, str>),
    /// Puts, with the memory of their bodies.
    Puts(Waited<Vec<Result<tickwheel_queue::Put, Error>>>, usize, usize),
    Deletes(Waited<Vec<Result<(), Error>>>, Vec<Arc<str>>),
}

impl Pending {
    fn poll(&mut self, context: &mut Context<'_>) {
        match self {
            Self::Line(_) => {}
            Self::Puts(waited, ..) => waited.poll(context),
            Self::Deletes(waited, _) => waited.poll(context),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        match self {
            Self::Line(_) => true,
            Self::Puts(waited, ..) => waited.result.is_some(),
            Self::Deletes(waited, _) => waited.result.is_some(),
        }
    }
}

/// Requests of one kind that go to the engine together.
pub(super) enum Batch {
    Puts(Vec<NewJob>, usize),
    /// Leases, with the tubes of their jobs.
    Deletes(Vec<(Lease, Arc<str>)>),
}

/// Waits for the first answer. Sends all requests that were not sent yet, in their order.
pub(super) fn poll_first(pending: &mut VecDeque<Pending>, context: &mut Context<'_>) -> Poll<()> {
    for pending in &mut *pending {
        pending.poll(context);
    }
    let is_ready = pending.front().is_none_or(Pending::is_ready);
    if is_ready { Poll::Ready(()) } else { Poll::Pending }
}
