//! Requests that several partitions answer: asking them, and collecting their answers.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::task::JoinSet;

use super::dispatch::{Dispatcher, Pending, Whole};
use super::merge::{self, Merge};
use super::route::{self, Route};
use super::{split, streams};
use crate::api::{Code, JSON_TYPE, Problem, PutRequest, ScheduleRequest};
use crate::http::answer::charged;
use crate::http::memory::Share;
use crate::problem::Failure;

/// What a partition answered.
pub(super) type Answer = Result<Response, Failure>;

/// The whole answer of a partition.
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The memory of the body.
    share: Share,
}

impl Answered {
    /// Replaces the body, and charges that one.
    fn with_body(mut self, body: Vec<u8>) -> Result<Self, Failure> {
        self.share.grow_to(body.len())?;
        self.share.shrink_to(body.len());
        self.body = body.into();
        Ok(self)
    }

    /// Replaces the answer by JSON, and keeps the other headers.
    pub(super) fn with_json(mut self, json: Vec<u8>) -> Result<Self, Failure> {
        self.status = StatusCode::OK;
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON_TYPE));
        self.with_body(json)
    }

    pub(super) fn into_response(self) -> Response {
        let mut response = (self.status, charged(self.body, self.share)).into_response();
        *response.headers_mut() = self.headers;
        response.headers_mut().remove(CONTENT_LENGTH);
        response
    }

    /// Returns the problem in the body of an answer that is not a success.
    pub(super) fn problem(&self) -> Problem {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| {
            let why = format!("a partition answered with status {}", self.status);
            Problem::new(Code::Unavailable, why)
        })
    }
}

impl Dispatcher {
    /// Answers a request of a client in a cluster with several partitions.
    pub(super) async fn route(self: &Arc<Self>, request: Request) -> Answer {
        let uri = request.uri();
        let query = uri.query().unwrap_or_default();
        let route = route::route(&self.layout, request.method(), uri.path(), query)?;
        let one = |partition, request| self.ask(partition, Pending::Unread(request));
        match route {
            Route::One(partition) => one(partition, request).await,
            Route::OneWithout(partition, name) => one(partition, without(request, name)).await,
            Route::Any => one(self.nearest(), request).await,
            Route::Ready => self.ready(self.read(request).await?).await,
            Route::Search(first) => self.search(first, self.read(request).await?).await,
            Route::All(merge) => self.merged(merge, self.read(request).await?).await,
            Route::Stream(stream) => streams::open(self, stream, self.read(request).await?).await,
            Route::Batch(items) => split::answer(self, items, self.read(request).await?).await,
            Route::Put(queue) => self.put(&queue, self.read(request).await?).await,
            Route::Schedule => self.put_schedule(self.read(request).await?).await,
            Route::Form => {
                let whole = self.read(request).await?;
                let queue = std::str::from_utf8(&whole.body).unwrap_or_default();
                let queue = route::parameter(queue, "queue").unwrap_or_default();
                let partition = route::of_queue(&self.layout, queue.trim());
                self.ask(partition, Pending::Whole(whole)).await
            }
        }
    }

    /// Asks some partitions at the same time; returns their answers in the order of the requests.
    pub(super) async fn ask_some(self: &Arc<Self>, requests: Vec<(u32, Whole)>) -> Vec<Answer> {
        let count = requests.len();
        // If the client disconnects, the tasks end with the set.
        let mut asked = JoinSet::new();
        for (index, (partition, whole)) in requests.into_iter().enumerate() {
            let dispatcher = Arc::clone(self);
            asked.spawn(
                async move { (index, dispatcher.ask(partition, Pending::Whole(whole)).await) },
            );
        }
        let lost = || Err(Failure::new(Code::Internal, "a partition was not asked"));
        let mut answers: Vec<Answer> = (0..count).map(|_| lost()).collect();
        while let Some(Ok((index, answer))) = asked.join_next().await {
            answers[index] = answer;
        }
        answers
    }

    /// Asks all partitions but one at the same time.
    async fn ask_others(self: &Arc<Self>, but: u32, whole: &Whole) -> Vec<Answer> {
        let others = (0..self.layout.partitions()).filter(|number| *number != but);
        self.ask_some(others.map(|number| (number, whole.clone())).collect()).await
    }

    /// Asks all partitions at the same time.
    pub(super) async fn ask_all(self: &Arc<Self>, whole: &Whole) -> Vec<Answer> {
        self.ask_others(u32::MAX, whole).await
    }

    /// Reads the whole body of an answer.
    pub(super) async fn collect(&self, response: Response) -> Result<Answered, Failure> {
        let (parts, mut body) = response.into_parts();
        let (mut share, mut bytes) = (self.common.memory().share(), Vec::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                let why = format!("the answer of a partition broke off: {error}");
                Failure::new(Code::Unavailable, why).retry_after(1)
            })?;
            let Ok(piece) = frame.into_data() else { continue };
            // The merged answer takes about as much memory again.
            share.grow(2 * piece.len())?;
            bytes.extend_from_slice(&piece);
        }
        let (status, headers) = (parts.status, parts.headers);
        Ok(Answered { status, headers, body: bytes.into(), share })
    }

    /// Merges the answers of all partitions. If one fails, so does the request: an answer never
    /// silently leaves out some of the queues.
    async fn merged(self: &Arc<Self>, merge: Merge, mut whole: Whole) -> Answer {
        if whole.parts.method == Method::HEAD {
            whole.parts.method = Method::GET;
        }
        let query = whole.parts.uri.query().unwrap_or_default().to_owned();
        let mut answers = Vec::new();
        for answer in self.ask_all(&whole).await {
            let answer = self.collect(answer?).await?;
            if answer.status != StatusCode::OK {
                return Ok(answer.into_response());
            }
            answers.push(answer);
        }
        let bodies: Vec<_> = answers.iter().map(|answer| answer.body.clone()).collect();
        let merged = merge::merge(merge, &bodies, &query, &self.common)?;
        let mut answers = answers.into_iter();
        let Some(first) = answers.next() else {
            return Err(Failure::new(Code::Internal, "there is no partition"));
        };
        drop(answers);
        Ok(first.with_body(merged)?.into_response())
    }

    /// Returns the first answer of a partition that is ready, or else that of the last one. A partition
    /// without an owner does not make the node unready: it still serves the queues of the others.
    async fn ready(self: &Arc<Self>, whole: Whole) -> Answer {
        let mut asked = JoinSet::new();
        for partition in 0..self.layout.partitions() {
            let (dispatcher, whole) = (Arc::clone(self), whole.clone());
            asked.spawn(async move { dispatcher.ask(partition, Pending::Whole(whole)).await });
        }
        let mut last = Err(Failure::new(Code::Internal, "there is no partition"));
        while let Some(Ok(answer)) = asked.join_next().await {
            let is_ready = answer.as_ref().is_ok_and(|answer| answer.status().is_success());
            last = answer;
            if is_ready {
                break;
            }
        }
        last
    }

    /// Asks the partition that most likely has what is asked for, and all others if it does not.
    async fn search(self: &Arc<Self>, first: u32, whole: Whole) -> Answer {
        let is_missing = |answer: &Answer| {
            answer.as_ref().is_ok_and(|answer| answer.status() == StatusCode::NOT_FOUND)
        };
        let answer = self.ask(first, Pending::Whole(whole.clone())).await;
        if !is_missing(&answer) {
            return answer;
        }
        let mut others = if whole.parts.method.is_safe() {
            self.ask_others(first, &whole).await
        } else {
            self.change_first(first, &whole).await
        };
        others.retain(|answer| !is_missing(answer));
        // If no partition has it, a failure is returned: the partition that failed may have it.
        let is_found = |answer: &Answer| {
            answer.as_ref().is_ok_and(|answer| !answer.status().is_server_error())
        };
        match others.iter().position(is_found) {
            Some(found) => others.swap_remove(found),
            None => others.pop().unwrap_or(answer),
        }
    }

    /// Asks all partitions but one in turn, until one of them has what is to be changed: several may
    /// have a job with an id that a caller chose, and only one of them is changed.
    async fn change_first(self: &Arc<Self>, but: u32, whole: &Whole) -> Vec<Answer> {
        let mut answers = Vec::new();
        for partition in (0..self.layout.partitions()).filter(|number| *number != but) {
            let answer = self.ask(partition, Pending::Whole(whole.clone())).await;
            let is_last =
                answer.as_ref().is_ok_and(|answer| answer.status() != StatusCode::NOT_FOUND);
            answers.push(answer);
            if is_last {
                break;
            }
        }
        answers
    }

    /// Puts a job. A job that names a target goes to the queue `QUEUE.TARGET`, which may be in
    /// another partition.
    async fn put(self: &Arc<Self>, queue: &str, whole: Whole) -> Answer {
        let mut partition = route::of_queue(&self.layout, queue);
        if let Some(target) = target_of(&whole.body) {
            partition = route::of_queue(&self.layout, &split::aimed(queue, &target));
        }
        self.ask(partition, Pending::Whole(whole)).await
    }

    /// Puts a schedule into the partition of its queue. Its name must be free in all others.
    async fn put_schedule(self: &Arc<Self>, whole: Whole) -> Answer {
        let Ok(request) = serde_json::from_slice::<ScheduleRequest>(&whole.body) else {
            // Any partition refuses it and says why.
            return self.ask(self.nearest(), Pending::Whole(whole)).await;
        };
        let partition = route::of_queue(&self.layout, &request.queue);
        let mut look = whole.clone();
        (look.parts.method, look.body) = (Method::GET, Bytes::new());
        for answer in self.ask_others(partition, &look).await {
            let answer = answer?;
            if answer.status() == StatusCode::OK {
                let why = "a schedule of a queue in another partition has this name: remove it \
                           first, or choose another name";
                return Err(Failure::new(Code::WrongState, why));
            }
            if answer.status().is_server_error() {
                return Ok(answer);
            }
        }
        self.ask(partition, Pending::Whole(whole)).await
    }
}

/// Returns the target that a put names.
fn target_of(body: &[u8]) -> Option<String> {
    let needle = b"\"target\"";
    if !body.windows(needle.len()).any(|window| window == needle) {
        return None;
    }
    serde_json::from_slice::<PutRequest>(body).ok()?.target
}

/// Removes a parameter from the query of a request.
fn without(mut request: Request, name: &str) -> Request {
    let uri = request.uri().clone();
    let query = route::without(uri.query().unwrap_or_default(), name);
    *request.uri_mut() = with_query(&uri, &query);
    request
}

/// Returns an address with another query.
pub(super) fn with_query(uri: &Uri, query: &str) -> Uri {
    let mark = if query.is_empty() { "" } else { "?" };
    let mut parts = uri.clone().into_parts();
    let path = format!("{}{mark}{query}", uri.path());
    parts.path_and_query = path.parse::<PathAndQuery>().ok();
    Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_of_a_put_is_found() {
        assert_eq!(target_of(br#"{"text": "x"}"#), None);
        assert_eq!(target_of(br#"{"text": "\"target\""}"#), None);
        assert_eq!(target_of(br#"{"payload": {"target": "a"}}"#), None);
        assert_eq!(target_of(br#"{"target": "shop"}"#), Some("shop".into()));
    }

    #[test]
    fn an_address_gets_another_query() {
        let uri: Uri = "/v1/jobs/x?queue=a".parse().unwrap();
        assert_eq!(with_query(&uri, "").to_string(), "/v1/jobs/x");
        assert_eq!(with_query(&uri, "a=1").to_string(), "/v1/jobs/x?a=1");
    }
}
