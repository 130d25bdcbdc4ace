//! Serving HTTP requests on connections.
//!
//! Ground rules: a connection ends when its client closes, when it is asked to make room for another
//! ([`connections`](super::connections)), and when the service stops: at once if it waits for its
//! client, else after the answer.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use super::connections::{Answering, Place};
use super::pipeline;
use super::ports::Port;
use super::stall::Impatient;
use crate::api::{Code, Problem};
use crate::app::{App, Common};

/// The time limit for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a client may take to read that the port speaks TLS.
const SUGGESTION: Duration = Duration::from_secs(1);
/// The number of bytes that are read of a plain request to the TLS port.
const MAX_PLAIN_INPUT: u64 = 64 << 10;

/// The port for HTTP, with or without TLS.
pub(crate) struct HttpPort {
    router: Router,
    acceptor: Option<TlsAcceptor>,
    common: Arc<Common>,
    /// The queues for puts that are served without the router. A node of a cluster has none.
    app: Option<App>,
}

impl HttpPort {
    pub(crate) fn new(
        router: Router,
        acceptor: Option<TlsAcceptor>,
        common: Arc<Common>,
        app: Option<App>,
    ) -> Self {
        Self { router, acceptor, common, app }
    }
}

impl Port for HttpPort {
    fn serve(
        &self,
        stream: TcpStream,
        place: Arc<Place>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let connection = Connection {
            router: self.router.clone(),
            common: Arc::clone(&self.common),
            app: self.app.clone(),
            place,
        };
        connection.run(stream, self.acceptor.clone())
    }

    fn refusal(&self) -> Option<Vec<u8>> {
        let why = "there are too many connections: close some, or try again later";
        // A client of the TLS port expects a handshake.
        self.acceptor.is_none().then(|| only_answer(&Problem::new(Code::Unavailable, why)))
    }
}

/// Tells a client that sent plain HTTP to the TLS port which URL to use.
async fn suggest_https(mut stream: TcpStream) {
    let why =
        "this port speaks TLS: repeat the request with https:// instead of http:// in its URL";
    let answer = async {
        stream.write_all(&only_answer(&Problem::new(Code::TlsRequired, why))).await?;
        stream.shutdown().await?;
        // Closing a socket with unread input resets the connection, and the answer is lost.
        tokio::io::copy(&mut stream.take(MAX_PLAIN_INPUT), &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(SUGGESTION, answer).await;
}

/// Returns a problem document as the only answer of a connection.
fn only_answer(problem: &Problem) -> Vec<u8> {
    let body = serde_json::to_string(problem).unwrap_or_default();
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_REQUEST);
    let retry = if problem.status == 503 { "retry-after: 1\r\n" } else { "" };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\n{retry}connection: close\r\n\r\n{body}",
        body.len()
    );
    answer.into_bytes()
}

/// Returns `true` if a client speaks plain HTTP: its first byte is a letter, where TLS sends 22.
async fn is_plain_http(stream: &TcpStream) -> std::io::Result<bool> {
    let mut first = [0];
    let length = stream.peek(&mut first).await?;
    Ok(length == 1 && first[0].is_ascii_alphabetic())
}

/// One connection.
struct Connection {
    router: Router,
    common: Arc<Common>,
    app: Option<App>,
    place: Arc<Place>,
}

impl Connection {
    /// Serves until the end, or until another connection needs the place.
    async fn run(self, stream: TcpStream, acceptor: Option<TlsAcceptor>) {
        let serving = pin!(self.handshake_and_serve(stream, acceptor));
        serve_until_asked(&self.place, serving).await;
    }

    async fn handshake_and_serve(&self, stream: TcpStream, acceptor: Option<TlsAcceptor>) {
        let Some(acceptor) = acceptor else { return self.serve(stream).await };
        let address = self.place.address();
        let handshake = async {
            if is_plain_http(&stream).await? {
                suggest_https(stream).await;
                return Ok(None);
            }
            acceptor.accept(stream).await.map(Some)
        };
        let handshake = tokio::time::timeout(HANDSHAKE, handshake);
        let shutdown = self.common.shutdown().clone();
        let outcome: Result<std::io::Result<_>, _> = tokio::select! {
            outcome = handshake => outcome,
            () = shutdown.begun() => return,
        };
        match outcome {
            Ok(Ok(Some(stream))) => self.serve(stream).await,
            Ok(Ok(None)) => tracing::debug!(%address, "plain HTTP to the TLS port"),
            Ok(Err(error)) => tracing::debug!(%address, %error, "no TLS handshake"),
            Err(_) => tracing::debug!(%address, "the TLS handshake took too long"),
        }
    }

    async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&self, stream: S) {
        let _counted = self.common.counts().connect();
        let limits = self.common.config().limits;
        let mut stream = Impatient::new(stream, limits.write_timeout, self.place.stall());
        if let Some(app) = &self.app {
            let Some(received) = pipeline::serve(app, &self.place, &mut stream).await else {
                return;
            };
            stream.unread(received);
        }
        let service = service_fn(|request| self.answer(request));
        let mut connection = pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.header_timeout)
                .max_header_size(limits.header)
                .serve_connection(TokioIo::new(stream), service)
        );
        let shutdown = self.common.shutdown();
        let outcome = tokio::select! {
            biased;
            outcome = connection.as_mut() => outcome,
            () = shutdown.begun() => {
                connection.as_mut().graceful_shutdown();
                if !poll_again(connection.as_mut()).await || !self.place.is_busy() {
                    return;
                }
                connection.await
            }
        };
        if let Err(error) = outcome {
            let address = self.place.address();
            tracing::debug!(%address, %error, "the connection ended early");
        }
    }

    /// Answers a request. The connection is busy until the answer's body is sent or dropped.
    async fn answer(
        &self,
        request: hyper::Request<Incoming>,
    ) -> Result<hyper::Response<Sent>, Infallible> {
        let visit = self.place.begin();
        let answering = visit.answering();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(visit.clone());
        let response = self.router.clone().call(request).await?;
        // This releases the request's memory. That of the answer is counted with its body.
        drop(visit);
        Ok(response.map(|body| Sent { body, _answering: answering }))
    }
}

/// Serves a connection until its end, or until another connection needs its place.
pub(crate) async fn serve_until_asked(
    place: &Place,
    mut serving: Pin<&mut impl Future<Output = ()>>,
) {
    loop {
        tokio::select! {
            biased;
            () = &mut serving => return,
            () = place.asked_to_close() => {}
        }
        if !poll_again(serving.as_mut()).await || place.is_waiting() {
            tracing::debug!(address = %place.address(), "closed to make room");
            return;
        }
        place.stay();
    }
}

/// Polls a future once more, after the runtime has looked for input; returns `false` if it ended.
async fn poll_again(future: Pin<&mut impl Future>) -> bool {
    // The runtime looks for input before it polls a task that has yielded.
    tokio::select! {
        biased;
        _ = future => false,
        () = yield_now() => true,
    }
}

/// The body of an answer.
struct Sent {
    body: Body,
    _answering: Answering,
}

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
