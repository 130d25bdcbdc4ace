//! What the dashboard asks of all partitions.
//!
//! The owner of one partition renders a page. For what the page shows of other partitions, it sends
//! requests to the API, as the visitor would: with the token of the visitor's cookie.

use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, HeaderValue, Method};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::dispatch::Dispatcher;
use crate::api::{Code, JSON_TYPE, Problem};
use crate::http::Visit;
use crate::page;
use crate::problem::Failure;

/// All partitions of a cluster, for one visitor of the dashboard.
#[derive(Clone)]
pub(crate) struct Fleet {
    dispatcher: Arc<Dispatcher>,
    headers: HeaderMap,
    visit: Option<Visit>,
}

impl Fleet {
    pub(super) fn new(dispatcher: Arc<Dispatcher>, request: &Request) -> Self {
        let mut headers = HeaderMap::new();
        if let Some(host) = request.headers().get(HOST) {
            headers.insert(HOST, host.clone());
        }
        let token = page::token_of(request.headers()).map(|token| format!("Bearer {token}"));
        if let Some(Ok(token)) = token.map(HeaderValue::try_from) {
            headers.insert(AUTHORIZATION, token);
        }
        let visit = request.extensions().get::<Visit>().cloned();
        Self { dispatcher, headers, visit }
    }

    /// Sends a GET request, and returns the decoded answer.
    pub(crate) async fn get<T: DeserializeOwned>(&self, address: &str) -> Result<T, Failure> {
        self.send(Method::GET, address, Bytes::new()).await
    }

    /// Sends a POST request, and returns the decoded answer.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        address: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(body).unwrap_or_default();
        self.send(Method::POST, address, body.into()).await
    }

    /// Sends a PUT request, and returns the decoded answer.
    pub(crate) async fn put<T: DeserializeOwned>(
        &self,
        address: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(body).unwrap_or_default();
        self.send(Method::PUT, address, body.into()).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        address: &str,
        body: Bytes,
    ) -> Result<T, Failure> {
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = method;
        let invalid = |error| Failure::new(Code::InvalidParameter, format!("{address:?}: {error}"));
        *request.uri_mut() = address.parse().map_err(invalid)?;
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON_TYPE));
        if let Some(visit) = &self.visit {
            request.extensions_mut().insert(visit.clone());
        }
        // The request may return to the service of this node, so the type of the future would
        // contain itself without the box.
        let asked: Pin<Box<dyn Future<Output = _> + Send>> =
            Box::pin(self.dispatcher.answer(request));
        let answered = self.dispatcher.collect(asked.await?).await?;
        if !answered.status.is_success() {
            return Err(answered.problem().into());
        }
        let unreadable = |error| {
            let why = format!("a partition answered what is not expected: {error}");
            Failure::from(Problem::new(Code::Internal, why))
        };
        serde_json::from_slice(&answered.body).map_err(unreadable)
    }
}
