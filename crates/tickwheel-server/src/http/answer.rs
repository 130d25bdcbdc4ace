//! Answers that carry jobs.
//!
//! A job takes up to six times its payload as JSON, and an answer carries up to 1,000. So a large
//! answer is made in steps: some jobs are read and written as JSON on a thread for such work, and
//! the next step begins when the client has taken that. Neither the memory nor the threads of
//! other requests depend on how large the whole answer is.
//!
//! Ground rules:
//! * A small answer is made at once, as one piece.
//! * What an answer holds counts for the memory of all ([`memory`](super::memory)).
//! * Once it has begun an answer does not fail: a page of a list that cannot be continued ends
//!   there, and names where the next one begins.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::BoxError;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use serde::Serialize;
use tickwheel_queue::{self as queue, List, Page, PageToken, Queues};

use super::memory::Share;
use crate::api::{Code, Deliveries, JSON_TYPE, JobPage};
use crate::app::App;
use crate::extract::off_thread;
use crate::problem::Failure;
use crate::wire::{IntoWire, encoded_len};

/// JSON of one step.
const STEP_BYTES: usize = 256 << 10;
/// JSON that is made at once, on the thread of the request.
const SMALL: usize = 64 << 10;
/// Jobs of a page, as JSON. The job that exceeds it is the last.
const MAX_PAGE_BYTES: usize = 16 << 20;

fn json(text: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, JSON_TYPE)], text).into_response()
}

fn streamed(
    body: impl http_body::Body<Data = Bytes, Error = BoxError> + Send + 'static,
) -> Response {
    ([(CONTENT_TYPE, JSON_TYPE)], Body::new(body)).into_response()
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(value).map_err(|error| unwritable(&error))
}

fn unwritable(error: &serde_json::Error) -> Failure {
    Failure::new(Code::Internal, format!("no answer can be made: {error}"))
}

/// A piece of an answer: some of its items, with what stands before the first and after the last.
/// The answer is given without items, as `{"items":[]}`, and goes around them.
fn piece<T: Serialize>(
    empty: &impl Serialize,
    items: impl IntoIterator<Item = T>,
    is_first: bool,
    is_last: bool,
) -> Result<Vec<u8>, Failure> {
    let around = encode(empty)?;
    let middle = around.iter().position(|&byte| byte == b'[').map_or(0, |place| place + 1);
    let mut text = if is_first { around[..middle].to_vec() } else { Vec::new() };
    let mut needs_comma = !is_first;
    for item in items {
        if std::mem::replace(&mut needs_comma, true) {
            text.push(b',');
        }
        serde_json::to_writer(&mut text, &item).map_err(|error| unwritable(&error))?;
    }
    if is_last {
        text.extend_from_slice(&around[middle..]);
    }
    Ok(text)
}

/// The answer with a single job.
pub(crate) async fn job(app: &App, job: queue::Job) -> Result<Response, Failure> {
    let bytes = encoded_len(&job);
    if bytes <= SMALL {
        return Ok(json(encode(&job.into_wire())?));
    }
    let mut share = app.memory().share();
    share.grow(bytes + job.payload.len())?;
    let text = off_thread(true, move || encode(&job.into_wire())).await?;
    Ok(streamed(Whole { text: Some(text.into()), _share: share }))
}

/// A body that is there as a whole, with its share of the memory.
struct Whole {
    text: Option<Bytes>,
    _share: Share,
}

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(self.text.take().map(|text| Ok(Frame::data(text))))
    }

    fn is_end_stream(&self) -> bool {
        self.text.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.text.as_ref().map_or(0, Bytes::len) as u64)
    }
}

/// What makes an answer step by step.
trait Steps: Send + Sized + 'static {
    /// Makes the next piece; `None` after the last.
    fn step(self) -> impl Future<Output = Result<Option<(Vec<u8>, Self)>, Failure>> + Send;
}

type Step<S> = Pin<Box<dyn Future<Output = Result<Option<(Vec<u8>, S)>, Failure>> + Send>>;

/// A body that is made step by step, as the client takes it.
struct InSteps<S> {
    step: Option<Step<S>>,
}

impl<S: Steps> InSteps<S> {
    fn new(steps: S) -> Self {
        Self { step: Some(Box::pin(steps.step())) }
    }
}

impl<S: Steps> http_body::Body for InSteps<S> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(step) = &mut self.step else { return Poll::Ready(None) };
        let made = ready!(step.as_mut().poll(context));
        self.step = None;
        let (text, next) = match made {
            Ok(made) => made.unzip(),
            Err(failure) => return Poll::Ready(Some(Err(failure.problem.detail.into()))),
        };
        self.step = next.map(|steps| Box::pin(steps.step()) as Step<S>);
        Poll::Ready(text.map(|text| Ok(Frame::data(text.into()))))
    }
}

/// The answer with a page of a list.
pub(crate) async fn page(app: &App, queues: Queues, mut list: List) -> Result<Response, Failure> {
    let mut share = app.memory().share();
    share.grow(2 * STEP_BYTES)?;
    list.bytes = STEP_BYTES;
    let first = queues.list(list.clone()).await?;
    let bytes: usize = first.jobs.iter().map(encoded_len).sum();
    if bytes <= SMALL {
        let next = first.next.map(|token| token.to_string());
        return Ok(json(encode(&JobPage {
            jobs: first.jobs.into_iter().map(IntoWire::into_wire).collect(),
            next,
            damaged: first.damaged.into_iter().map(IntoWire::into_wire).collect(),
            gaps: first.gaps,
        })?));
    }
    let pages = Pages {
        queues,
        list,
        first: Some(first),
        is_begun: false,
        is_over: false,
        room: MAX_PAGE_BYTES,
        damaged: Vec::new(),
        gaps: 0,
        share,
    };
    Ok(streamed(InSteps::new(pages)))
}

/// A page of a list on its way: it is read and written as smaller pages.
struct Pages {
    queues: Queues,
    /// What is left to list.
    list: List,
    first: Option<Page>,
    is_begun: bool,
    is_over: bool,
    /// Bytes that it may still have.
    room: usize,
    damaged: Vec<crate::api::JobId>,
    gaps: u64,
    share: Share,
}

impl Steps for Pages {
    async fn step(mut self) -> Result<Option<(Vec<u8>, Self)>, Failure> {
        if self.is_over {
            return Ok(None);
        }
        let read = match self.first.take() {
            Some(first) => Ok(first),
            None => self.queues.list(self.list.clone()).await,
        };
        let page = read.unwrap_or_else(|error| {
            tracing::debug!(%error, "a page of a list ends early");
            let mut page = Page::default();
            page.next.clone_from(&self.list.after);
            page
        });
        let bytes: usize = page.jobs.iter().map(encoded_len).sum();
        // The job that exceeds the step may be large.
        self.share.grow_anyway(bytes.saturating_sub(STEP_BYTES));
        self.room = self.room.saturating_sub(bytes);
        self.gaps += page.gaps;
        self.list.limit -= page.jobs.len() + page.damaged.len();
        self.damaged.extend(page.damaged.into_iter().map(IntoWire::into_wire));
        self.list.after = page.next;
        // One that is not full ended for another reason: nothing is left, or enough was looked at.
        let is_full = bytes >= STEP_BYTES;
        self.is_over =
            !is_full || self.room == 0 || self.list.limit == 0 || self.list.after.is_none();
        let empty = JobPage {
            jobs: Vec::new(),
            next: self.list.after.as_ref().map(PageToken::to_string),
            damaged: if self.is_over { std::mem::take(&mut self.damaged) } else { Vec::new() },
            gaps: self.gaps,
        };
        let (is_first, is_last) = (!std::mem::replace(&mut self.is_begun, true), self.is_over);
        let jobs = page.jobs;
        let text = off_thread(true, move || {
            piece(&empty, jobs.into_iter().map(IntoWire::into_wire), is_first, is_last)
        });
        Ok(Some((text.await?, self)))
    }
}

/// The answer with jobs for a worker. They are leased by now, so it is made whatever memory is left.
pub(crate) fn deliveries(app: &App, jobs: Vec<queue::Delivery>) -> Result<Response, Failure> {
    let bytes: usize = jobs.iter().map(|delivery| encoded_len(&delivery.job)).sum();
    if bytes <= SMALL {
        let deliveries = jobs.into_iter().map(IntoWire::into_wire).collect();
        return Ok(json(encode(&Deliveries { deliveries })?));
    }
    let mut share = app.memory().share();
    let held: usize = jobs.iter().map(|delivery| delivery.job.payload.len()).sum();
    share.grow_anyway(held + STEP_BYTES);
    let steps =
        Delivered { jobs: jobs.into_iter(), is_begun: false, is_over: false, _share: share };
    Ok(streamed(InSteps::new(steps)))
}

/// Jobs for a worker on their way.
struct Delivered {
    jobs: std::vec::IntoIter<queue::Delivery>,
    is_begun: bool,
    is_over: bool,
    _share: Share,
}

impl Steps for Delivered {
    async fn step(mut self) -> Result<Option<(Vec<u8>, Self)>, Failure> {
        if self.is_over {
            return Ok(None);
        }
        let (mut some, mut bytes) = (Vec::new(), 0);
        while bytes < STEP_BYTES
            && let Some(delivery) = self.jobs.next()
        {
            bytes += encoded_len(&delivery.job);
            some.push(delivery);
        }
        self.is_over = self.jobs.len() == 0;
        let (is_first, is_last) = (!std::mem::replace(&mut self.is_begun, true), self.is_over);
        let text = off_thread(true, move || {
            let empty = Deliveries { deliveries: Vec::new() };
            piece(&empty, some.into_iter().map(IntoWire::into_wire), is_first, is_last)
        });
        Ok(Some((text.await?, self)))
    }
}
