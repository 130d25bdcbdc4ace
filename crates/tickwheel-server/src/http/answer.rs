//! Answers that carry jobs or schedules.
//!
//! A job takes up to six times the size of its payload as JSON, and an answer carries up to 1,000
//! jobs. So a large answer is made in steps: a blocking thread reads some jobs and writes them as
//! JSON, and the next step begins when the client has received them. Memory and threads do not depend
//! on the size of the whole answer.
//!
//! Ground rules:
//! * A small answer is made at once, as one piece.
//! * An answer has a share of the memory of all answers ([`memory`](super::memory)), which each of
//!   its pieces holds until it is sent or dropped.
//! * If a step fails, a page of a list ends early, and its `next` continues there. Other answers
//!   break off, so that the client notices.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use axum::BoxError;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::Frame;
use serde::Serialize;
use tickwheel_queue::{self as queue, Access, List, Offer, Page, PageToken, Queues};

use super::memory::Share;
use crate::api::{Code, Deliveries, JSON_TYPE, JobPage, ScheduleList};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::off_thread;
use crate::problem::Failure;
use crate::tokens::Scope;
use crate::wire::{IntoWire, encoded_len, schedule_encoded_len};

/// The bytes of JSON of one step.
const STEP_BYTES: usize = 256 << 10;
/// The bytes of JSON up to which an answer is made on the thread of the request.
const SMALL: usize = 64 << 10;
/// The bytes of a page as JSON; the job that exceeds them is the last one.
const MAX_PAGE_BYTES: usize = 16 << 20;

/// Bytes of an answer, with their share of the memory.
struct Charged<T, S> {
    text: T,
    _share: S,
}

impl<T: AsRef<[u8]>, S> AsRef<[u8]> for Charged<T, S> {
    fn as_ref(&self) -> &[u8] {
        self.text.as_ref()
    }
}

/// Attaches a share to bytes. The share is released when the bytes are sent or dropped.
pub(crate) fn charged(
    text: impl AsRef<[u8]> + Send + 'static,
    share: impl Send + 'static,
) -> Bytes {
    Bytes::from_owner(Charged { text, _share: share })
}

/// The memory of the jobs in an answer that is made in steps, in bytes: all payloads, the JSON that
/// is being sent, and the JSON that is being made, which ends with the job that exceeds a step.
#[derive(Clone, Copy, Default)]
struct Footprint {
    payloads: usize,
    encoded: usize,
    largest: usize,
}

impl Footprint {
    fn add(&mut self, job: &queue::Job, encoded: usize) {
        self.payloads += job.payload.len();
        self.encoded += encoded;
        self.largest = self.largest.max(encoded);
    }

    fn of(jobs: &[queue::Job]) -> Self {
        let mut footprint = Self::default();
        for job in jobs {
            footprint.add(job, encoded_len(job));
        }
        footprint
    }

    fn total(&self) -> usize {
        self.payloads + self.encoded.min(2 * STEP_BYTES + self.largest)
    }
}

fn json(text: Vec<u8>, share: impl Send + 'static) -> Response {
    ([(CONTENT_TYPE, JSON_TYPE)], charged(text, share)).into_response()
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
    Failure::new(Code::Internal, format!("the answer cannot be encoded: {error}"))
}

/// Encodes a piece of an answer: some items, with the JSON before the first and after the last one.
/// That JSON comes from the answer without items, `{"items":[]}`. The items take about `bytes` bytes.
fn piece<T: Serialize>(
    empty: &impl Serialize,
    items: impl IntoIterator<Item = T>,
    bytes: usize,
    is_first: bool,
    is_last: bool,
) -> Result<Vec<u8>, Failure> {
    let around = encode(empty)?;
    let middle = around.iter().position(|&byte| byte == b'[').map_or(0, |place| place + 1);
    // A buffer that doubles as it grows would take twice the memory that was charged.
    let mut text = Vec::with_capacity(bytes + around.len());
    if is_first {
        text.extend_from_slice(&around[..middle]);
    }
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

/// Answers with a single job.
pub(crate) async fn job(app: &App, job: queue::Job) -> Result<Response, Failure> {
    let bytes = encoded_len(&job);
    let mut share = app.memory().share();
    share.grow(bytes + job.payload.len())?;
    let text = off_thread(bytes > SMALL, move || {
        let mut text = Vec::with_capacity(bytes);
        serde_json::to_writer(&mut text, &job.into_wire()).map_err(|error| unwritable(&error))?;
        Ok(text)
    });
    Ok(json(text.await?, share))
}

/// The source of an answer that is made in steps.
trait Steps: Send + Sized + 'static {
    /// Makes the next piece; `None` after the last.
    fn step(self) -> impl Future<Output = Result<Option<(Bytes, Self)>, Failure>> + Send;
}

type Step<S> = Pin<Box<dyn Future<Output = Result<Option<(Bytes, S)>, Failure>> + Send>>;

/// A body that is made in steps, as the client receives it. It ends with an error when the access of
/// its caller is revoked.
struct InSteps<S> {
    step: Option<Step<S>>,
    access: Access,
}

impl<S: Steps> InSteps<S> {
    fn new(steps: S, access: Access) -> Self {
        Self { step: Some(Box::pin(steps.step())), access }
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
            Ok(Some(_)) if self.access.is_revoked() => {
                return Poll::Ready(Some(Err("access was revoked".into())));
            }
            Ok(made) => made.unzip(),
            Err(failure) => return Poll::Ready(Some(Err(failure.problem.detail.into()))),
        };
        self.step = next.map(|steps| Box::pin(steps.step()) as Step<S>);
        Poll::Ready(text.map(|text| Ok(Frame::data(text))))
    }
}

/// Answers with a page of a list.
pub(crate) async fn page(app: &App, caller: &Caller, mut list: List) -> Result<Response, Failure> {
    let queues = app.queues_for(caller, Scope::Read)?;
    let mut share = app.memory().share();
    share.grow(2 * STEP_BYTES)?;
    list.bytes = STEP_BYTES;
    let first = queues.list(list.clone()).await?;
    let footprint = Footprint::of(&first.jobs);
    if footprint.encoded <= SMALL {
        let next = first.next.map(|token| token.to_string());
        let text = encode(&JobPage {
            jobs: first.jobs.into_iter().map(IntoWire::into_wire).collect(),
            next,
            damaged: first.damaged.into_iter().map(IntoWire::into_wire).collect(),
            gaps: first.gaps,
        })?;
        share.shrink_to(text.len());
        return Ok(json(text, share));
    }
    share.grow_to(footprint.total())?;
    let pages = Pages {
        queues,
        list,
        first: Some(first),
        is_begun: false,
        is_over: false,
        room: MAX_PAGE_BYTES,
        damaged: Vec::new(),
        gaps: 0,
        share: Arc::new(Mutex::new(share)),
    };
    Ok(streamed(InSteps::new(pages, caller.access().clone())))
}

/// A page of a list that is being sent: it is read and written as smaller pages.
struct Pages {
    queues: Queues,
    /// The rest of the list.
    list: List,
    first: Option<Page>,
    is_begun: bool,
    is_over: bool,
    /// The bytes that the page may still have.
    room: usize,
    damaged: Vec<crate::api::JobId>,
    gaps: u64,
    share: Arc<Mutex<Share>>,
}

impl Pages {
    /// Reads the next part of the list, if there is room for it.
    async fn read(&mut self) -> Result<(Page, Footprint), Failure> {
        let page = match self.first.take() {
            Some(first) => first,
            None => self.queues.list(self.list.clone()).await?,
        };
        let footprint = Footprint::of(&page.jobs);
        // The job that exceeds the step may be large.
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        share.grow_to(footprint.total())?;
        Ok((page, footprint))
    }
}

impl Steps for Pages {
    async fn step(mut self) -> Result<Option<(Bytes, Self)>, Failure> {
        if self.is_over {
            return Ok(None);
        }
        let (page, Footprint { encoded: bytes, .. }) =
            self.read().await.unwrap_or_else(|failure| {
                tracing::debug!(error = failure.problem.detail, "a page of a list ends early");
                let mut page = Page::default();
                page.next.clone_from(&self.list.after);
                (page, Footprint::default())
            });
        self.room = self.room.saturating_sub(bytes);
        self.gaps += page.gaps;
        self.list.limit -= page.jobs.len() + page.damaged.len();
        self.damaged.extend(page.damaged.into_iter().map(IntoWire::into_wire));
        self.list.after = page.next;
        // A page that is not full ended for another reason: the list ended, or enough rows were read.
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
            piece(&empty, jobs.into_iter().map(IntoWire::into_wire), bytes, is_first, is_last)
        });
        let text = charged(text.await?, Arc::clone(&self.share));
        Ok(Some((text, self)))
    }
}

/// Answers with all schedules. Their templates may take gigabytes together, so they are read and
/// written in steps.
pub(crate) async fn schedules(app: &App, caller: &Caller) -> Result<Response, Failure> {
    let queues = app.queues_for(caller, Scope::Read)?;
    let mut share = app.memory().share();
    share.grow(2 * STEP_BYTES)?;
    let share = Arc::new(Mutex::new(share));
    let mut steps = Schedules { queues, first: None, last: None, is_over: false, share };
    // What fails before the answer has begun can be answered as a problem.
    steps.first = Some(steps.read().await?);
    Ok(streamed(InSteps::new(steps, caller.access().clone())))
}

/// Schedules that are being sent.
struct Schedules {
    queues: Queues,
    /// The schedules of the first piece, with their bytes as JSON, until it is made.
    first: Option<(Vec<queue::Schedule>, usize)>,
    /// The name of the last schedule of the piece before this one.
    last: Option<String>,
    is_over: bool,
    share: Arc<Mutex<Share>>,
}

impl Schedules {
    /// Reads the schedules of the next piece, none after the last, and charges their memory.
    async fn read(&self) -> Result<(Vec<queue::Schedule>, usize), Failure> {
        let some = self.queues.schedules_after(self.last.clone(), STEP_BYTES).await?;
        let payloads: usize = some.iter().map(|schedule| schedule.job.payload.len()).sum();
        let bytes: usize = some.iter().map(schedule_encoded_len).sum();
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        // The piece before this one may still be on its way.
        share.grow_to(payloads + 2 * bytes)?;
        Ok((some, bytes))
    }
}

impl Steps for Schedules {
    async fn step(mut self) -> Result<Option<(Bytes, Self)>, Failure> {
        if self.is_over {
            return Ok(None);
        }
        let is_first = self.last.is_none();
        let (some, bytes) = match self.first.take() {
            Some(first) => first,
            None => self.read().await?,
        };
        let is_last = some.is_empty();
        self.is_over = is_last;
        self.last = some.last().map(|schedule| schedule.name.clone());
        let text = off_thread(bytes > SMALL, move || {
            let empty = ScheduleList { schedules: Vec::new() };
            piece(&empty, some.into_iter().map(IntoWire::into_wire), bytes, is_first, is_last)
        });
        let text = charged(text.await?, Arc::clone(&self.share));
        Ok(Some((text, self)))
    }
}

/// Answers with a backup, which is made as the client receives it.
pub(crate) fn backup(
    app: &App,
    caller: &Caller,
    backup: queue::Backup,
) -> Result<Response, Failure> {
    let mut share = app.memory().share();
    share.grow(2 * STEP_BYTES)?;
    let steps = BackingUp { backup, _share: share };
    let body = Body::new(InSteps::new(steps, caller.access().clone()));
    Ok(([(CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

/// A backup that is being sent.
struct BackingUp {
    backup: queue::Backup,
    _share: Share,
}

impl Steps for BackingUp {
    async fn step(mut self) -> Result<Option<(Bytes, Self)>, Failure> {
        off_thread(true, move || {
            let piece = self.backup.next_piece().inspect_err(|error| {
                tracing::error!(%error, "a backup ends early");
            })?;
            Ok(piece.map(|piece| (piece.into(), self)))
        })
        .await
    }
}

/// The memory of an answer to `reserve`, charged while its jobs are leased.
pub(crate) struct Charge(Mutex<(Footprint, Share)>);

impl Charge {
    pub(crate) fn new(app: &App) -> Arc<Self> {
        Arc::new(Self(Mutex::new((Footprint::default(), app.memory().share()))))
    }

    /// Charges a job that is about to be leased; `false` if there is no room for it. The first job
    /// may be larger than the budget if no other share is held; later jobs may not.
    pub(crate) fn admits(&self, offer: &Offer<'_>) -> bool {
        let mut charged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (footprint, share) = &mut *charged;
        if offer.before == 0 {
            *footprint = Footprint::default();
            share.shrink_to(0);
        }
        let mut larger = *footprint;
        larger.add(offer.job, offer.bytes);
        let has_room = (offer.before == 0 || share.fits(larger.total()))
            && share.grow_to(larger.total()).is_ok();
        if has_room {
            *footprint = larger;
        }
        has_room
    }
}

/// Answers with jobs for a worker, whose memory was charged while they were leased.
pub(crate) fn deliveries(
    caller: &Caller,
    jobs: Vec<queue::Delivery>,
    charge: Arc<Charge>,
) -> Result<Response, Failure> {
    let bytes: usize = jobs.iter().map(|delivery| encoded_len(&delivery.job)).sum();
    if bytes <= SMALL {
        let deliveries = jobs.into_iter().map(IntoWire::into_wire).collect();
        return Ok(json(encode(&Deliveries { deliveries })?, charge));
    }
    let steps = Delivered { jobs: jobs.into_iter(), is_begun: false, is_over: false, charge };
    Ok(streamed(InSteps::new(steps, caller.access().clone())))
}

/// Jobs for a worker that are being sent.
struct Delivered {
    jobs: std::vec::IntoIter<queue::Delivery>,
    is_begun: bool,
    is_over: bool,
    charge: Arc<Charge>,
}

impl Steps for Delivered {
    async fn step(mut self) -> Result<Option<(Bytes, Self)>, Failure> {
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
            piece(&empty, some.into_iter().map(IntoWire::into_wire), bytes, is_first, is_last)
        });
        let text = charged(text.await?, Arc::clone(&self.charge));
        Ok(Some((text, self)))
    }
}
