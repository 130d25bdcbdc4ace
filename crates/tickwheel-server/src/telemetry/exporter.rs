//! Sends spans to a collector: OTLP over HTTP, as protobuf.
//!
//! One task collects spans to batches and sends each on a connection of its own. A collector that
//! does not answer is tried again a few times; then the batch is dropped, and the log says so. In
//! the meantime spans wait in the channel, which is bounded.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::http::StatusCode;
use axum::http::Uri;
use axum::http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode as SpanStatus;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as WireSpan, Status};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::span::{Attribute, Kind, Span};
use crate::config::Otlp;

/// Spans of one request.
const MAX_BATCH: usize = 512;
/// How long the first span of a batch waits for others.
const COLLECT: Duration = Duration::from_millis(500);
/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait before each repetition.
const PAUSES: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// How long the last spans may take when the server stops.
const LAST: Duration = Duration::from_secs(2);

pub(super) struct Exporter {
    uri: Uri,
    resource: Resource,
    tls: Option<Arc<ClientConfig>>,
}

/// Why a batch was not accepted.
enum Refusal {
    /// It may be accepted later.
    Later(String),
    Never(String),
}

impl Exporter {
    pub(super) fn new(otlp: &Otlp) -> Self {
        let is_tls = otlp.endpoint.scheme_str() == Some("https");
        let tls = is_tls.then(|| crate::push::tls_client_for_the_web().ok()).flatten();
        let attributes = vec![
            pair("service.name", Attribute::Text(otlp.service.clone())),
            pair("service.version", Attribute::Text(env!("CARGO_PKG_VERSION").to_owned())),
            pair("service.instance.id", Attribute::Text(instance())),
        ];
        let resource = Resource { attributes, ..Resource::default() };
        Self { uri: traces_uri(&otlp.endpoint), resource, tls }
    }

    /// Sends batches until the server stops, and then what is left.
    pub(super) async fn run(
        &self,
        mut spans: mpsc::Receiver<Span>,
        stopping: impl Future<Output = ()>,
    ) {
        tracing::info!(endpoint = %self.uri, "traces are sent");
        tokio::pin!(stopping);
        let mut batch = Vec::new();
        loop {
            // What was collected or not sent yet is still in the batch when the server stops.
            tokio::select! {
                () = &mut stopping => break,
                () = collect(&mut spans, &mut batch) => {}
            }
            tokio::select! {
                () = &mut stopping => break,
                () = self.send(&batch) => batch.clear(),
            }
        }
        let last = async {
            spans.close();
            loop {
                let room = MAX_BATCH.saturating_sub(batch.len()).max(1);
                spans.recv_many(&mut batch, room).await;
                if batch.is_empty() {
                    return;
                }
                self.send(&batch).await;
                batch.clear();
            }
        };
        if tokio::time::timeout(LAST, last).await.is_err() {
            tracing::warn!("the last spans were not sent in time");
        }
    }

    async fn send(&self, batch: &[Span]) {
        let spans = batch.len();
        let body = Bytes::from(self.encode(batch));
        let mut pauses = PAUSES.iter();
        loop {
            let sent = tokio::time::timeout(TIMEOUT, self.post(body.clone())).await;
            let refusal = match sent {
                Ok(Ok(())) => return,
                Ok(Err(refusal)) => refusal,
                Err(_) => Refusal::Later(format!("no answer within {TIMEOUT:?}")),
            };
            let endpoint = &self.uri;
            match (refusal, pauses.next()) {
                (Refusal::Later(_), Some(pause)) => tokio::time::sleep(*pause).await,
                (Refusal::Later(why) | Refusal::Never(why), _) => {
                    tracing::warn!(%endpoint, spans, why, "spans were not sent, and are dropped");
                    return;
                }
            }
        }
    }

    async fn post(&self, body: Bytes) -> Result<(), Refusal> {
        let later = |error: &dyn std::fmt::Display| Refusal::Later(error.to_string());
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let default_port = if self.tls.is_some() { 443 } else { 80 };
        let port = self.uri.port_u16().unwrap_or(default_port);
        let stream = TcpStream::connect((&*host, port)).await.map_err(|error| later(&error))?;
        match &self.tls {
            None => self.post_on(stream, body).await,
            Some(config) => {
                let name = ServerName::try_from(host).map_err(|error| later(&error))?;
                let connector = TlsConnector::from(Arc::clone(config));
                let stream =
                    connector.connect(name, stream).await.map_err(|error| later(&error))?;
                self.post_on(stream, body).await
            }
        }
    }

    async fn post_on(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        body: Bytes,
    ) -> Result<(), Refusal> {
        let later = |error: hyper::Error| Refusal::Later(error.to_string());
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(later)?;
        let connection = tokio::spawn(connection);
        let authority = self.uri.authority().map_or("", axum::http::uri::Authority::as_str);
        let path = self.uri.path_and_query().map_or("/", axum::http::uri::PathAndQuery::as_str);
        let request = hyper::Request::post(path)
            .header(HOST, authority)
            .header(USER_AGENT, concat!("tickwheel/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(Full::new(body))
            .map_err(|error| Refusal::Never(error.to_string()))?;
        let answer = sender.send_request(request).await.map_err(later);
        connection.abort();
        match answer?.status() {
            status if status.is_success() => Ok(()),
            // Those that the protocol names as worth a repetition.
            status @ (StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT) => Err(Refusal::Later(format!("answered {status}"))),
            status => Err(Refusal::Never(format!("answered {status}"))),
        }
    }

    fn encode(&self, batch: &[Span]) -> Vec<u8> {
        let scope = InstrumentationScope {
            name: "tickwheel-server".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let spans = ScopeSpans {
            scope: Some(scope),
            spans: batch.iter().cloned().map(wire).collect(),
            ..ScopeSpans::default()
        };
        let resource_spans = vec![ResourceSpans {
            resource: Some(self.resource.clone()),
            scope_spans: vec![spans],
            ..ResourceSpans::default()
        }];
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }
}

/// Waits for a span, and for others that follow soon. Spans stay in the batch if the future is
/// dropped.
async fn collect(spans: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>) {
    if spans.recv_many(batch, MAX_BATCH).await == 0 {
        // Every sender is gone.
        return std::future::pending().await;
    }
    let end = tokio::time::Instant::now() + COLLECT;
    while batch.len() < MAX_BATCH {
        let room = MAX_BATCH - batch.len();
        match tokio::time::timeout_at(end, spans.recv_many(batch, room)).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => break,
        }
    }
}

/// The address for traces below that of a collector.
fn traces_uri(endpoint: &Uri) -> Uri {
    let text = endpoint.to_string();
    let text = format!("{}/v1/traces", text.trim_end_matches('/'));
    text.parse().unwrap_or_else(|_| endpoint.clone())
}

/// Tells this process from others.
fn instance() -> String {
    format!("{:016x}", super::random_span())
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn pair(name: &str, value: Attribute) -> KeyValue {
    let value = match value {
        Attribute::Text(text) => Value::StringValue(text),
        Attribute::Number(number) => Value::IntValue(i64::try_from(number).unwrap_or(i64::MAX)),
    };
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn wire(span: Span) -> WireSpan {
    let kind = match span.kind {
        Kind::Producer => SpanKind::Producer,
        Kind::Consumer => SpanKind::Consumer,
        Kind::Client => SpanKind::Client,
        Kind::Internal => SpanKind::Internal,
    };
    let trace_id = span.trace.to_be_bytes().to_vec();
    let link = span.link.map(|before| Link {
        trace_id: trace_id.clone(),
        span_id: before.to_be_bytes().to_vec(),
        ..Link::default()
    });
    let event = span.event.map(|name| Event {
        time_unix_nano: nanos(span.end),
        name: name.to_owned(),
        ..Event::default()
    });
    let status =
        span.error.map(|message| Status { message, code: SpanStatus::Error as i32 }).or_else(
            || span.event.map(|_| Status { code: SpanStatus::Ok as i32, ..Status::default() }),
        );
    WireSpan {
        trace_id,
        span_id: span.id.to_be_bytes().to_vec(),
        parent_span_id: span.parent.map(|id| id.to_be_bytes().to_vec()).unwrap_or_default(),
        name: span.name,
        kind: kind as i32,
        start_time_unix_nano: nanos(span.start),
        end_time_unix_nano: nanos(span.end),
        attributes: span.attributes.into_iter().map(|(name, it)| pair(name, it)).collect(),
        events: event.into_iter().collect(),
        links: link.into_iter().collect(),
        status,
        ..WireSpan::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_go_below_the_address_of_the_collector() {
        for (endpoint, wanted) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://collector.example/otlp", "https://collector.example/otlp/v1/traces"),
        ] {
            assert_eq!(traces_uri(&endpoint.parse().unwrap()).to_string(), wanted);
        }
    }
}
