//! Connections to other nodes: plain, or with TLS if the address of the node begins with `https`.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tower_service::Service;

use crate::push;
use crate::tls::TlsError;

/// How long a connection to another node may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A connector for other nodes.
#[derive(Clone)]
pub(crate) struct NodeConnector {
    tcp: HttpConnector,
    tls: Arc<ClientConfig>,
}

impl NodeConnector {
    /// Creates a connector that trusts the certificates of a PEM file, or the public authorities.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or has no certificate.
    pub(crate) fn new(ca: Option<&Path>) -> Result<Self, TlsError> {
        let tls = match ca {
            Some(path) => {
                let wrong = |why: String| TlsError::new(path, why);
                let pem =
                    std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
                push::tls_client_trusting(&pem).map_err(wrong)?
            }
            None => push::tls_client_for_the_web()
                .map_err(|why| TlsError::new(Path::new("the public certificates"), why))?,
        };
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        Ok(Self { tcp, tls })
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Service<Uri> for NodeConnector {
    type Response = TokioIo<NodeStream>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let is_tls = uri.scheme_str() == Some("https");
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let connecting = self.tcp.call(uri);
        let tls = Arc::clone(&self.tls);
        Box::pin(async move {
            let tcp = connecting.await?.into_inner();
            if !is_tls {
                return Ok(TokioIo::new(NodeStream::Plain(tcp)));
            }
            let handshake = TlsConnector::from(tls).connect(ServerName::try_from(host)?, tcp);
            let stream = tokio::time::timeout(CONNECT_TIMEOUT, handshake).await??;
            Ok(TokioIo::new(NodeStream::Tls(Box::new(stream))))
        })
    }
}

/// A connection to another node.
pub(crate) enum NodeStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection for NodeStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// Calls a method of the stream, whichever it is.
macro_rules! of_stream {
    ($stream:expr, $method:ident, $($argument:expr),*) => {
        match $stream.get_mut() {
            NodeStream::Plain(stream) => Pin::new(stream).$method($($argument),*),
            NodeStream::Tls(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for NodeStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        of_stream!(self, poll_read, context, buffer)
    }
}

impl AsyncWrite for NodeStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        of_stream!(self, poll_write, context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_stream!(self, poll_flush, context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_stream!(self, poll_shutdown, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        of_stream!(self, poll_write_vectored, context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
