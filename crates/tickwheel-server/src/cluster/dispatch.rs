//! Which node answers a request.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use tickwheel_cluster::{Node, Owner};
use tower_service::Service as _;

use super::connector::NodeConnector;
use super::forward::{Forwarder, NotForwarded};
use super::ownership::{Serving, Slot};
use super::{OWNER_TIMEOUT, PARTITION};
use crate::api::Code;
use crate::app::Common;
use crate::front;
use crate::http::Visit;
use crate::http::memory::Share;
use crate::problem::Failure;

/// The name of the node that forwarded a request.
pub(super) const FORWARDED_BY: HeaderName = HeaderName::from_static("tickwheel-forwarded-by");
/// The owner's epoch, as the node knows it that forwards or answers.
pub(super) const EPOCH: HeaderName = HeaderName::from_static("tickwheel-epoch");
/// The owner's name, in an answer with status 421.
pub(super) const OWNER: HeaderName = HeaderName::from_static("tickwheel-owner");

/// How often a request without an owner looks for one.
const OWNER_STEP: std::time::Duration = std::time::Duration::from_millis(25);

/// Sends requests to the owner, which may be this node.
pub(crate) struct Dispatcher {
    pub(super) common: Arc<Common>,
    pub(super) node: Arc<Node>,
    slot: Slot,
    forwarder: Forwarder,
}

/// A request whose body was read, so that it can be sent more than once.
pub(super) struct Whole {
    parts: Parts,
    pub(super) body: Bytes,
    /// The memory of the body.
    _share: Share,
}

impl Whole {
    /// Returns `true` if another node has forwarded the request.
    pub(super) fn is_forwarded(&self) -> bool {
        self.parts.headers.contains_key(FORWARDED_BY)
    }
}

/// A request that nobody has answered yet.
enum Pending {
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
        slot: Slot,
        connector: NodeConnector,
    ) -> Self {
        Self { common, node, slot, forwarder: Forwarder::new(connector) }
    }

    pub(super) async fn answer(&self, request: Request) -> Result<Response, Failure> {
        let started = Instant::now();
        let is_forwarded = request.headers().contains_key(FORWARDED_BY);
        let mut pending = Pending::Unread(request);
        loop {
            if let Some(serving) = self.slot.get() {
                if self.prove_ownership().await.is_ok() {
                    return self.answer_here(&serving, pending).await;
                }
            } else if let Some(owner) = self.other_owner() {
                if is_forwarded {
                    return Ok(misdirected(&owner));
                }
                let whole = match pending {
                    Pending::Unread(request) => self.read(request).await?,
                    Pending::Whole(whole) => whole,
                };
                match self.forward(&owner, &whole).await {
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
                let why = "no node owns the queues now: repeat the request";
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
    async fn answer_here(&self, serving: &Serving, pending: Pending) -> Result<Response, Failure> {
        let (request, _share) = match pending {
            Pending::Unread(request) => (request, None),
            Pending::Whole(Whole { parts, body, _share: share }) => {
                (Request::from_parts(parts, Body::from(body)), Some(share))
            }
        };
        let is_safe = request.method().is_safe();
        let mut router = serving.router.clone();
        let response = tokio::select! {
            response = router.call(request) => response.unwrap_or_else(|never| match never {}),
            // Ownership has ended, and the grace after it.
            () = serving.ended.hurried() => {
                let why = "this node does not own the queues any more, and does not know whether \
                           the request took effect";
                return Err(Failure::new(Code::OutcomeUnknown, why).retry_after(1));
            }
        };
        // A change that succeeded is in the log, and a failed one says what is known about it. A
        // refusal depends on a read.
        if is_safe || response.status().is_client_error() {
            self.prove_ownership().await.map_err(|why| {
                Failure::new(Code::Unavailable, format!("another node owns the queues: {why}"))
                    .retry_after(1)
            })?;
        }
        Ok(response)
    }

    /// Proves that this node is the owner, by an append if the last one is too old.
    async fn prove_ownership(&self) -> Result<(), String> {
        if self.node.is_fresh(PARTITION) {
            return Ok(());
        }
        let node = Arc::clone(&self.node);
        let fencing = tokio::task::spawn_blocking(move || node.fence(PARTITION));
        match fencing.await {
            Ok(fenced) => fenced.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Sends a request to another node.
    pub(super) async fn forward(
        &self,
        to: &Owner,
        request: &Whole,
    ) -> Result<Response, NotForwarded> {
        let (parts, body) = (request.parts.clone(), request.body.clone());
        self.forwarder.send(self.node.name(), to, parts, body).await
    }

    /// The owner, if it is another node.
    pub(super) fn other_owner(&self) -> Option<Owner> {
        self.node.owner(PARTITION).filter(|owner| owner.node != self.node.name())
    }

    /// Reads the whole body, within the limits of bodies.
    pub(super) async fn read(&self, request: Request) -> Result<Whole, Failure> {
        let limits = self.common.config().limits;
        let visit = request.extensions().get::<Visit>().cloned();
        let (parts, mut body) = request.into_parts();
        let mut share = self.common.memory().share();
        let receiving = async {
            let mut bytes = BytesMut::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| {
                    let why = format!("the body could not be read: {error}");
                    Failure::new(Code::IncompleteBody, why)
                })?;
                let Ok(piece) = frame.into_data() else { continue };
                if bytes.len() + piece.len() > limits.body {
                    let why = format!("the body has more than {} bytes", limits.body);
                    return Err(Failure::new(Code::TooLarge, why));
                }
                share.grow(piece.len())?;
                bytes.extend_from_slice(&piece);
            }
            Ok(bytes.freeze())
        };
        let _receiving = visit.as_ref().map(Visit::receiving);
        let Ok(body) = tokio::time::timeout(limits.body_timeout, receiving).await else {
            let why = format!("the body did not arrive within {:?}", limits.body_timeout);
            return Err(Failure::new(Code::IncompleteBody, why));
        };
        Ok(Whole { parts, body: body?, _share: share })
    }
}

/// Tells the node that forwarded a request who the owner is.
fn misdirected(owner: &Owner) -> Response {
    let mut response = StatusCode::MISDIRECTED_REQUEST.into_response();
    if let Ok(name) = HeaderValue::from_str(&owner.node) {
        response.headers_mut().insert(OWNER, name);
    }
    response.headers_mut().insert(EPOCH, HeaderValue::from(owner.epoch));
    response
}
