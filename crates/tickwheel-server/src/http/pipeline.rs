//! Puts that arrive together, served without hyper and the router.
//!
//! hyper answers the requests of a connection one after the other, so each put of a client that
//! pipelines would wait for a commit of its own. Every connection therefore starts here. The
//! complete puts at the head of the received bytes are put with one command, and their answers are
//! sent with one write. A single put does not go through hyper and the router either.
//!
//! Ground rules:
//! * Only plain puts are served here: `POST /v1/queues/{queue}/jobs` with a content length, a small
//!   body and no idempotency key. Any other request, and everything unusual in HTTP, hands the
//!   connection over to hyper for good, with all bytes that were not served.
//! * A put gets the same checks, in the same order, and the same answer as from the handler
//!   [`jobs::put`](crate::routes): both use `front`, `extract` and `puts`.
//! * Answers have the order of the requests, and so have their effects, because a group of puts is
//!   one command. All puts of a group have the same token.

use std::time::SystemTime;

use axum::http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use axum::http::{HeaderName, HeaderValue, Method, Request, Response, Uri};
use axum::response::IntoResponse;
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use super::connections::{Place, Visit};
use super::memory::Share;
use crate::api::{JSON_TYPE, PutRequest, PutResponse};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{BODY_COPIES, LARGE_BODY, is_json, is_name, need_json, parse};
use crate::front::{Exchange, admit};
use crate::idempotency;
use crate::problem::Failure;
use crate::puts::{self, Planned};
use crate::telemetry::{self, TraceContext};
use crate::tokens::Scope;

/// The route of a put.
const ROUTE: &str = "/v1/queues/{queue}/jobs";
const PREFIX: &str = "/v1/queues/";
const SUFFIX: &str = "/jobs";
/// The beginning of every put.
const START: &[u8] = b"POST /v1/queues/";
/// Requests with more headers are left to hyper.
const MAX_HEADERS: usize = 24;
/// The maximum number of puts in one command, and the bytes of their bodies after which it ends.
const MAX_GROUP: usize = 64;
const MAX_GROUP_BYTES: usize = 256 << 10;
/// The size of the buffer for each read.
const READ_BYTES: usize = 8 << 10;

/// Serves puts until the connection ends (`None`) or must be served by hyper, which continues with
/// the returned bytes.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    app: &App,
    place: &std::sync::Arc<Place>,
    stream: &mut S,
) -> Option<BytesMut> {
    let limits = &app.config().limits;
    let mut received = BytesMut::new();
    let mut answers = Vec::new();
    let mut is_pipelining = false;
    let mut deadline = Instant::now() + limits.header_timeout;
    loop {
        let next = parse_put(&received, limits.header, limits.body);
        if let Ok(first) = next {
            let visit = place.begin();
            let _answering = visit.answering();
            let mut group = Group::new(app, &visit, first.head.headers().get(AUTHORIZATION));
            group.take(first, &mut received);
            group.take_more(&mut received);
            is_pipelining = group.puts.len() > 1;
            group.answer(&mut answers).await;
            stream.write_all(&answers).await.ok()?;
            stream.flush().await.ok()?;
            answers.clear();
            deadline = Instant::now() + limits.header_timeout;
            continue;
        }
        // A partial request is left to hyper as well, unless more puts are likely to follow.
        let is_expected = is_pipelining && matches!(next, Err(NotPut::Partial));
        if !received.is_empty() && !is_expected {
            return Some(received);
        }
        received.reserve(READ_BYTES);
        tokio::select! {
            biased;
            read = timeout_at(deadline, stream.read_buf(&mut received)) => match read {
                Ok(Ok(1..)) => {}
                // The connection ended or failed, or the time limit passed.
                _ if received.is_empty() => return None,
                _ => return Some(received),
            },
            () = app.shutdown().begun() => return Some(received),
        }
    }
}

/// What is at the head of the received bytes instead of a put.
enum NotPut {
    /// The beginning of what may be a put, or nothing.
    Partial,
    /// A request that is not served here.
    Other,
}

/// A complete put at the head of the received bytes.
struct Put {
    head: Request<()>,
    queue: String,
    head_bytes: usize,
    body_bytes: usize,
}

/// Parses the request at the head of the received bytes.
fn parse_put(received: &[u8], max_head: usize, max_body: usize) -> Result<Put, NotPut> {
    let start = START.len().min(received.len());
    if received[..start] != START[..start] {
        return Err(NotPut::Other);
    }
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let head_bytes = match request.parse(received) {
        Ok(httparse::Status::Complete(bytes)) if bytes <= max_head => bytes,
        Ok(httparse::Status::Partial) if received.len() <= max_head => return Err(NotPut::Partial),
        _ => return Err(NotPut::Other),
    };
    let (head, queue, body_bytes) = head_of_put(&request).ok_or(NotPut::Other)?;
    if body_bytes > max_body.min(LARGE_BODY) {
        return Err(NotPut::Other);
    }
    if received.len() < head_bytes + body_bytes {
        return Err(NotPut::Partial);
    }
    Ok(Put { head, queue, head_bytes, body_bytes })
}

/// Returns the head of a plain put, its queue, and the length of its body.
fn head_of_put(request: &httparse::Request<'_, '_>) -> Option<(Request<()>, String, usize)> {
    if request.version != Some(1) || request.method != Some("POST") {
        return None;
    }
    let path = request.path?;
    let queue = path.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    if !is_name(queue) {
        return None;
    }
    let mut head = Request::new(());
    *head.method_mut() = Method::POST;
    *head.uri_mut() = path.parse::<Uri>().ok()?;
    let headers = head.headers_mut();
    headers.reserve(request.headers.len());
    let mut body_bytes = None;
    for header in request.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        if name == CONTENT_LENGTH {
            let is_number = header.value.iter().all(u8::is_ascii_digit);
            let length = std::str::from_utf8(header.value).ok()?.parse::<usize>().ok();
            body_bytes = length.filter(|_| is_number && body_bytes.is_none());
            body_bytes?;
        }
        let is_keep_alive = name == CONNECTION && header.value.eq_ignore_ascii_case(b"keep-alive");
        if is_for_hyper(&name) && !is_keep_alive {
            return None;
        }
        headers.append(name, HeaderValue::from_bytes(header.value).ok()?);
    }
    Some((head, queue.to_owned(), body_bytes?))
}

/// Returns `true` for headers that change how a connection or a request is handled.
fn is_for_hyper(name: &HeaderName) -> bool {
    [CONNECTION, EXPECT, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, idempotency::HEADER]
        .contains(name)
}

/// Puts that are answered together.
struct Group<'a> {
    app: &'a App,
    visit: &'a Visit,
    /// The `Authorization` of all puts.
    authorization: Option<HeaderValue>,
    caller: Option<Caller>,
    puts: Vec<(Exchange, Option<Failure>)>,
    /// The jobs of the puts that are not refused yet, in order.
    jobs: Vec<Planned>,
    /// The traces that some of them continue, with their indices.
    traces: Vec<(usize, TraceContext)>,
    bytes: usize,
    /// The memory of the bodies.
    share: Share,
}

impl<'a> Group<'a> {
    fn new(app: &'a App, visit: &'a Visit, authorization: Option<&HeaderValue>) -> Self {
        Self {
            app,
            visit,
            authorization: authorization.cloned(),
            caller: None,
            puts: Vec::new(),
            jobs: Vec::new(),
            traces: Vec::new(),
            bytes: 0,
            share: app.memory().share(),
        }
    }

    /// Takes the puts that follow, as long as they fit into the group.
    fn take_more(&mut self, received: &mut BytesMut) {
        let limits = &self.app.config().limits;
        let most = usize::try_from(self.app.queue_limits().batch)
            .map_or(MAX_GROUP, |batch| batch.min(MAX_GROUP));
        while self.puts.len() < most && self.bytes < MAX_GROUP_BYTES {
            let Ok(put) = parse_put(received, limits.header, limits.body) else { return };
            if put.head.headers().get(AUTHORIZATION) != self.authorization.as_ref() {
                return;
            }
            self.take(put, received);
        }
    }

    /// Takes a put from the head of the received bytes.
    fn take(&mut self, mut put: Put, received: &mut BytesMut) {
        put.head.extensions_mut().insert(self.visit.clone());
        let exchange = Exchange::begin(&put.head, ROUTE);
        let body = &received[put.head_bytes..put.head_bytes + put.body_bytes];
        let refusal = match self.plan(&put, body) {
            Ok(job) => {
                self.traces.extend(exchange.trace.map(|trace| (self.jobs.len(), trace)));
                self.jobs.push(job);
                None
            }
            Err(failure) => Some(failure),
        };
        self.puts.push((exchange, refusal));
        self.bytes += put.body_bytes;
        received.advance(put.head_bytes + put.body_bytes);
    }

    /// Returns the job of a put, or why the put is refused.
    fn plan(&mut self, put: &Put, body: &[u8]) -> Result<Planned, Failure> {
        let caller = self.caller.insert(admit(self.app, &put.head, ROUTE)?);
        self.share.grow(body.len() * BODY_COPIES)?;
        need_json(is_json(put.head.headers()))?;
        let request: PutRequest = parse(body)?;
        caller.may(Scope::Produce, &put.queue)?;
        puts::plan(self.app, caller, request, Some(&put.queue), self.app.wall())
    }

    /// Puts the jobs, and appends the answers of all puts.
    async fn answer(self, answers: &mut Vec<u8>) {
        let Self { app, caller, puts, jobs, traces, share, .. } = self;
        let _in_flight: Vec<_> = puts.iter().map(|_| app.counts().begin()).collect();
        let traces = telemetry::one_each(jobs.len(), &traces);
        let putting = telemetry::within(traces, put_all(app, caller.as_ref(), jobs));
        let mut verdicts = putting.await.into_iter();
        drop(share);
        let date = httpdate::fmt_http_date(SystemTime::now());
        for (exchange, refusal) in puts {
            let verdict = match refusal {
                Some(failure) => Err(failure),
                None => verdicts.next().unwrap_or_else(|| Err(puts::unanswered())),
            };
            let response = exchange.end(app, response(verdict), caller.as_ref());
            write(&response, &date, answers);
        }
    }
}

/// Puts jobs with one command, and returns the result of each.
async fn put_all(
    app: &App,
    caller: Option<&Caller>,
    jobs: Vec<Planned>,
) -> Vec<Result<PutResponse, Failure>> {
    let Some(caller) = caller else { return Vec::new() };
    let count = jobs.len();
    match puts::put_planned(app, caller, jobs.into_iter().map(Ok).collect(), None).await {
        Ok(answered) => answered.verdicts,
        Err(failure) => vec![Err(failure); count],
    }
}

/// Returns the answer to a put. A problem is written when the exchange ends.
fn response(verdict: Result<PutResponse, Failure>) -> Response<Vec<u8>> {
    let answer = verdict.and_then(|put| Ok((puts::status(&put), puts::encode(&put)?)));
    match answer {
        Ok((status, body)) => {
            let mut response = Response::new(body);
            *response.status_mut() = status;
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON_TYPE));
            response
        }
        Err(failure) => failure.into_response().map(|_| Vec::new()),
    }
}

/// Appends an answer as it is sent.
fn write(response: &Response<Vec<u8>>, date: &str, answers: &mut Vec<u8>) {
    let status = response.status();
    answers.extend_from_slice(b"HTTP/1.1 ");
    answers.extend_from_slice(status.as_str().as_bytes());
    answers.push(b' ');
    answers.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    answers.extend_from_slice(b"\r\n");
    let length = response.body().len().to_string();
    let own = [("content-length", length.as_bytes()), ("date", date.as_bytes())];
    let others = response.headers().iter().filter(|(name, _)| **name != CONTENT_LENGTH);
    for (name, value) in others.map(|(name, value)| (name.as_str(), value.as_bytes())).chain(own) {
        answers.extend_from_slice(name.as_bytes());
        answers.extend_from_slice(b": ");
        answers.extend_from_slice(value);
        answers.extend_from_slice(b"\r\n");
    }
    answers.extend_from_slice(b"\r\n");
    answers.extend_from_slice(response.body());
}
