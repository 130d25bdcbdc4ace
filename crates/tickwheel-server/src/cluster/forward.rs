//! Sending a request to another node.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tickwheel_cluster::Owner;

use super::connector::NodeConnector;
use super::dispatch::{EPOCH, FORWARDED_BY};

/// How long an idle connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Headers that concern one connection only.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// A client with a pool of connections to other nodes.
pub(super) struct Forwarder {
    client: Client<NodeConnector, Full<Bytes>>,
}

/// Why a request has no answer.
pub(super) enum NotForwarded {
    /// It was not sent.
    Unsent,
    /// It was sent, and may have taken effect.
    Unanswered(String),
}

impl Forwarder {
    pub(super) fn new(connector: NodeConnector) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(connector);
        Self { client }
    }

    /// Sends a request to the owner. The body of the answer is streamed.
    pub(super) async fn send(
        &self,
        node: &str,
        owner: &Owner,
        mut parts: Parts,
        body: Bytes,
    ) -> Result<Response, NotForwarded> {
        let path = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let uri: Result<Uri, _> = format!("{}{path}", owner.address).parse();
        parts.uri = uri.map_err(|_| NotForwarded::Unsent)?;
        parts.version = axum::http::Version::HTTP_11;
        remove_hop_by_hop(&mut parts.headers);
        if let Ok(name) = HeaderValue::from_str(node) {
            parts.headers.insert(FORWARDED_BY, name);
        }
        parts.headers.insert(EPOCH, HeaderValue::from(owner.epoch));
        parts.extensions.clear();
        let request = Request::from_parts(parts, Full::new(body));
        match self.client.request(request).await {
            Ok(response) => {
                let (mut parts, body) = response.into_parts();
                remove_hop_by_hop(&mut parts.headers);
                Ok(Response::from_parts(parts, Body::new(body)))
            }
            Err(error) if error.is_connect() => {
                tracing::debug!(owner = owner.node, %error, "the owner was not reached");
                Err(NotForwarded::Unsent)
            }
            Err(error) => Err(NotForwarded::Unanswered(error.to_string())),
        }
    }
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}
