//! Which node answers for a partition.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tickwheel_cluster::{Layout, Node, Owner};
use tower_service::Service as _;

use super::connector::NodeConnector;
use super::forward::{Forwarder, NotForwarded};
use super::ownership::{Serving, Slot};
use super::{Fleet, OWNER_TIMEOUT};
use crate::api::Code;
use crate::app::Common;
use crate::extract::read_body;
use crate::front;
use crate::http::Visit;
use crate::http::memory::Share;
use crate::page;
use crate::problem::Failure;

/// The name of the node that forwarded a request.
pub(super) const FORWARDED_BY: HeaderName = HeaderName::from_static("tickwheel-forwarded-by");
/// The partition that a forwarded request is for. Defaults to 0.
pub(super) const PARTITION: HeaderName = HeaderName::from_static("tickwheel-partition");
/// The owner's epoch, as far as the node that forwards or answers knows it.
pub(super) const EPOCH: HeaderName = HeaderName::from_static("tickwheel-epoch");
/// The owner's name, in an answer with status 421.
pub(super) const OWNER: HeaderName = HeaderName::from_static("tickwheel-owner");

/// How often a request whose partition has no owner looks for one.
const OWNER_STEP: std::time::Duration = std::time::Duration::from_millis(25);
/// How long the last owner of a partition may still answer a request that was forwarded to it.
const LAST_ANSWER_WAIT: std::time::Duration = std::time::Duration::from_secs(2);
/// The largest body that is read of a caller without a valid token.
const MAX_STRANGER_BODY_BYTES: usize = 16 << 10;

/// The part of a node that sends requests to the owners of their partitions, also to itself.
pub(crate) struct Dispatcher {
    pub(super) common: Arc<Common>,
    pub(super) node: Arc<Node>,
    pub(super) layout: Layout,
    slots: Vec<Slot>,
    forwarder: Forwarder,
}

/// A request whose body was read, so that it can be sent more than once.
#[derive(Clone)]
pub(super) struct Whole {
    pub(super) parts: Parts,
    pub(super) body: Bytes,
    /// The memory of the body.
    _share: Arc<Share>,
}

impl Whole {
    /// Returns `true` if another node has forwarded the request.
    pub(super) fn is_forwarded(&self) -> bool {
        self.parts.headers.contains_key(FORWARDED_BY)
    }
}

/// A request without an answer so far, whose body may have been read.
pub(super) enum Pending {
    Unread(Request),
    Whole(Whole),
}

/// Answers a request, here or at another node.
pub(super) async fn dispatch(
    State(dispatcher): State<Arc<Dispatcher>>,
    request: Request,
) -> Result<Response, Failure> {
    dispatcher.answer(request).await
}

/// Writes the problems of requests that no owner has answered, and the headers of every answer.
pub(super) async fn write_problems(request: Request, next: Next) -> Response {
    let id = front::request_id(request.headers());
    let path = request.uri().path().to_owned();
    let mut response = front::write_problem(next.run(request).await, &id, &path);
    // An owner's answer has these already.
    for (name, value) in [
        (front::REQUEST_ID, HeaderValue::from_str(&id)),
        (CACHE_CONTROL, Ok(HeaderValue::from_static("no-store"))),
        (X_CONTENT_TYPE_OPTIONS, Ok(HeaderValue::from_static("nosniff"))),
    ] {
        if let Ok(value) = value {
            response.headers_mut().entry(name).or_insert(value);
        }
    }
    response
}

impl Dispatcher {
    pub(super) fn new(
        common: Arc<Common>,
        node: Arc<Node>,
        layout: Layout,
        slots: Vec<Slot>,
        connector: NodeConnector,
    ) -> Self {
        Self { common, node, layout, slots, forwarder: Forwarder::new(connector) }
    }

    /// Answers a request of a client, or one that another node forwarded.
    pub(super) async fn answer(self: &Arc<Self>, request: Request) -> Result<Response, Failure> {
        let headers = request.headers();
        if headers.contains_key(FORWARDED_BY) {
            let partition = headers.get(PARTITION).and_then(|it| it.to_str().ok());
            let partition = partition.and_then(|it| it.parse().ok()).unwrap_or_default();
            return self.ask(partition, Pending::Unread(request)).await;
        }
        if self.layout.partitions() == 1 {
            return self.ask(0, Pending::Unread(request)).await;
        }
        self.route(request).await
    }

    /// Returns the answer of a partition's owner.
    pub(super) async fn ask(
        self: &Arc<Self>,
        partition: u32,
        mut pending: Pending,
    ) -> Result<Response, Failure> {
        let Some(slot) = self.slots.get(partition as usize) else {
            let why = format!("there is no partition {partition}");
            return Err(Failure::new(Code::NotFound, why));
        };
        let is_forwarded = match &pending {
            Pending::Unread(request) => request.headers().contains_key(FORWARDED_BY),
            Pending::Whole(whole) => whole.is_forwarded(),
        };
        let started = Instant::now();
        loop {
            if let Some(serving) = slot.get() {
                if self.prove_ownership(partition).await.is_ok() {
                    return self.answer_here(partition, &serving, pending).await;
                }
            } else if let Some(owner) = self.other_owner(partition) {
                if is_forwarded {
                    return Ok(misdirected(&owner));
                }
                let whole = match pending {
                    Pending::Unread(request) => self.read(request).await?,
                    Pending::Whole(whole) => whole,
                };
                let forwarded = tokio::select! {
                    forwarded = self.forward(&owner, partition, &whole) => forwarded,
                    () = self.replaced(partition, &owner) => {
                        let why = "another node owns the partition now".to_owned();
                        Err(NotForwarded::Unanswered(why))
                    }
                };
                match forwarded {
                    Ok(response) if response.status() != StatusCode::MISDIRECTED_REQUEST => {
                        return Ok(response);
                    }
                    Err(NotForwarded::Unanswered(why)) if !whole.parts.method.is_safe() => {
                        let why = format!("the owner, {}, did not answer: {why}", owner.node);
                        return Err(Failure::new(Code::OutcomeUnknown, why).retry_after(1));
                    }
                    Ok(_) | Err(_) => {}
                }
                pending = Pending::Whole(whole);
            }
            if started.elapsed() > OWNER_TIMEOUT {
                let why = "the partition of the request has no owner now: repeat the request";
                return Err(Failure::new(Code::Unavailable, why).retry_after(1));
            }
            tokio::select! {
                () = tokio::time::sleep(OWNER_STEP) => {}
                () = self.common.shutdown().hurried() => {
                    return Err(tickwheel_queue::Error::Closed.into());
                }
            }
        }
    }

    /// Answers at this node, which owns the partition.
    async fn answer_here(
        self: &Arc<Self>,
        partition: u32,
        serving: &Serving,
        pending: Pending,
    ) -> Result<Response, Failure> {
        let (mut request, _share) = match pending {
            Pending::Unread(request) => (request, None),
            Pending::Whole(Whole { parts, body, _share: share }) => {
                (Request::from_parts(parts, Body::from(body)), Some(share))
            }
        };
        let is_safe = request.method().is_safe();
        if self.layout.partitions() > 1 && page::owns(request.uri().path()) {
            let fleet = Fleet::new(Arc::clone(self), &request);
            request.extensions_mut().insert(fleet);
        }
        let mut router = serving.router.clone();
        let response = tokio::select! {
            response = router.call(request) => response.unwrap_or_else(|never| match never {}),
            // Ownership has ended, and so has the grace period after it.
            () = serving.ended.hurried() => {
                let why = "this node does not own the partition any more, and does not know \
                           whether the request took effect";
                return Err(Failure::new(Code::OutcomeUnknown, why).retry_after(1));
            }
        };
        // A change that succeeded is in the log, and a server error says whether the outcome is
        // known. A refusal depends on a read, so it needs the proof as well.
        if is_safe || response.status().is_client_error() {
            self.prove_ownership(partition).await.map_err(|why| {
                Failure::new(Code::Unavailable, format!("another node owns the partition: {why}"))
                    .retry_after(1)
            })?;
        }
        Ok(response)
    }

    /// Proves that this node is the owner. Appends to the log if the last append is too old.
    async fn prove_ownership(&self, partition: u32) -> Result<(), String> {
        if self.node.is_fresh(partition) {
            return Ok(());
        }
        let node = Arc::clone(&self.node);
        let fencing = tokio::task::spawn_blocking(move || node.fence(partition));
        match fencing.await {
            Ok(fenced) => fenced.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Sends a request to another node.
    pub(super) async fn forward(
        &self,
        to: &Owner,
        partition: u32,
        request: &Whole,
    ) -> Result<Response, NotForwarded> {
        let (mut parts, body) = (request.parts.clone(), request.body.clone());
        parts.headers.insert(PARTITION, HeaderValue::from(partition));
        self.forwarder.send(self.node.name(), to, parts, body).await
    }

    /// Waits until a partition has another owner, and its last one had time to answer. A node that is
    /// frozen or lost its power keeps its connections, so nothing else ends the wait for its answer.
    async fn replaced(&self, partition: u32, owner: &Owner) {
        while self.node.owner(partition).is_none_or(|it| it.epoch == owner.epoch) {
            tokio::time::sleep(OWNER_STEP).await;
        }
        tokio::time::sleep(LAST_ANSWER_WAIT).await;
    }

    /// Returns the owner of a partition, if it is another node.
    fn other_owner(&self, partition: u32) -> Option<Owner> {
        self.node.owner(partition).filter(|owner| owner.node != self.node.name())
    }

    /// Returns a partition that this node owns, or else one that any node owns.
    pub(super) fn nearest(&self) -> u32 {
        let mut numbers = 0..self.layout.partitions();
        let own = numbers.clone().find(|it| self.slots[*it as usize].get().is_some());
        own.or_else(|| numbers.find(|it| self.node.owner(*it).is_some())).unwrap_or_default()
    }

    /// Reads the whole body, within the limits of size, time and memory. Without a valid token only
    /// a small body is read, such as that of a sign-in; the owner then decides.
    pub(super) async fn read(&self, request: Request) -> Result<Whole, Failure> {
        let visit = request.extensions().get::<Visit>().cloned();
        let (parts, body) = request.into_parts();
        let (mut limits, memory) = (self.common.config().limits, self.common.memory());
        let gate = self.common.gate();
        let refusal = gate.admit(&parts.headers).err().filter(|_| {
            !page::owns(parts.uri.path()) || page::admit_cookie(gate, &parts.headers).is_err()
        });
        if refusal.is_some() {
            limits.body = limits.body.min(MAX_STRANGER_BODY_BYTES);
        }
        let read = read_body(body, visit.as_ref(), &limits, memory, self.common.shutdown()).await;
        let (body, share) = read.map_err(|failure| refusal.unwrap_or(failure))?;
        Ok(Whole { parts, body, _share: Arc::new(share) })
    }
}

/// Returns the refusal of a forwarded request, which names the owner.
fn misdirected(owner: &Owner) -> Response {
    let mut response = StatusCode::MISDIRECTED_REQUEST.into_response();
    if let Ok(name) = HeaderValue::from_str(&owner.node) {
        response.headers_mut().insert(OWNER, name);
    }
    response.headers_mut().insert(EPOCH, HeaderValue::from(owner.epoch));
    response
}
