//! Connections to targets: resolving, checking, dialling, TLS, and a pool of idle ones.
//!
//! Ground rules:
//! * This is the one place that dials. A name is resolved once for a connection, every address is
//!   checked, and only addresses that passed are dialled. So no second look-up can bring another
//!   address. The address of the other side is checked once more when the connection stands.
//! * An address literal, in any notation, is a name that is resolved like others.
//! * Proxies of the environment are not used.
//! * A connection that was idle may have been closed by the other side. A request that was not
//!   written to it is sent on another one.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::allow::PushAllow;
use super::definition::Definition;
use super::response::{Answer, NoAnswer};

/// How long an idle connection is used again.
const MAX_IDLE: Duration = Duration::from_secs(30);
/// Bytes of a response's headers.
const MAX_HEADER_BYTES: usize = 32 << 10;
/// Bytes of a response's body that are read.
const MAX_BODY_BYTES: usize = tickwheel_queue::Job::MAX_RESULT_BYTES;

type Request = hyper::Request<Full<Bytes>>;
type Response = hyper::Response<hyper::body::Incoming>;
type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;
/// How names become addresses.
pub(super) type Resolve = Arc<dyn Fn(String, u16) -> Resolving + Send + Sync>;

/// The resolver of the operating system.
pub(super) fn system_resolver() -> Resolve {
    Arc::new(|host, port| {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    })
}

/// A client for certificates that chain to one of these roots.
pub(super) fn tls_client(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    let config = ClientConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// A client for certificates of the public authorities.
pub(super) fn tls_client_for_the_web() -> Result<Arc<ClientConfig>, String> {
    tls_client(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect())
}

/// The moment at which a request starts.
pub(super) trait Start {
    /// Called when a connection is ready, right before the request is written.
    fn start(&mut self) -> impl Future<Output = Result<Request, NoAnswer>> + Send;

    /// The request was not written after all, and starts again.
    fn undo(&mut self);
}

/// Makes connections. Shared by all targets.
pub(super) struct Connector {
    allow: PushAllow,
    resolve: Resolve,
    /// One permit for each connection, of all targets together.
    permits: Arc<Semaphore>,
}

/// A connection that can take a request.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    address: SocketAddr,
    idle_since: Instant,
    _permit: OwnedSemaphorePermit,
}

impl Connector {
    pub(super) fn new(allow: PushAllow, resolve: Resolve, connections: usize) -> Self {
        Self { allow, resolve, permits: Arc::new(Semaphore::new(connections)) }
    }

    async fn connect(&self, definition: &Definition) -> Result<Connection, NoAnswer> {
        let endpoint = &definition.endpoint;
        let unreachable = |why: String| NoAnswer::Unreachable(why);
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| unreachable("the server is stopping".to_owned()))?;
        let (stream, address) =
            self.dial(&endpoint.host, endpoint.port).await.map_err(unreachable)?;
        let _ = stream.set_nodelay(true);
        let sender = if endpoint.is_tls {
            let name = ServerName::try_from(endpoint.host.clone())
                .map_err(|_| unreachable(format!("{:?} is no name for TLS", endpoint.host)))?;
            let connector = TlsConnector::from(Arc::clone(&definition.tls));
            let stream = connector.connect(name, stream).await;
            handshake(stream.map_err(|error| unreachable(format!("TLS: {error}")))?).await
        } else {
            handshake(stream).await
        };
        let sender = sender.map_err(|error| unreachable(format!("HTTP: {error}")))?;
        Ok(Connection { sender, address, idle_since: Instant::now(), _permit: permit })
    }

    /// Resolves, checks and dials.
    async fn dial(&self, host: &str, port: u16) -> Result<(TcpStream, SocketAddr), String> {
        let found = (self.resolve)(host.to_owned(), port).await;
        let found = found.map_err(|error| format!("{host} cannot be resolved: {error}"))?;
        let mut failure = format!("{host} has no address");
        for address in found {
            let dialled = match self.allow.allows(host, address.ip()) {
                Ok(()) => TcpStream::connect(address)
                    .await
                    .map_err(|error| format!("{address} cannot be connected to: {error}")),
                Err(denied) => Err(denied.to_string()),
            };
            let checked = dialled.and_then(|stream| {
                let peer = stream.peer_addr().map_err(|error| error.to_string())?;
                self.allow.allows(host, peer.ip()).map_err(|denied| denied.to_string())?;
                Ok((stream, peer))
            });
            match checked {
                Ok(connected) => return Ok(connected),
                Err(why) => failure = why,
            }
        }
        Err(failure)
    }
}

/// Begins HTTP on a stream; a task drives the connection until it ends.
async fn handshake<S>(stream: S) -> hyper::Result<SendRequest<Full<Bytes>>>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEADER_BYTES)
        .handshake(TokioIo::new(stream))
        .await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to a target ended");
        }
    });
    Ok(sender)
}

/// The idle connections of one target.
#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    /// The connection that was used last, if it may still be open.
    fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(connection) = idle.pop() {
            if connection.sender.is_ready() && connection.idle_since.elapsed() < MAX_IDLE {
                return Some(connection);
            }
        }
        None
    }

    fn put_back(&self, mut connection: Connection) {
        connection.idle_since = Instant::now();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }

    /// Closes connections that were idle for long.
    pub(super) fn close_idle(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|it| !it.sender.is_closed() && it.idle_since.elapsed() < MAX_IDLE);
    }

    /// Closes all idle connections: they lead where the target was before.
    pub(super) fn clear(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Sends a request and reads the answer, until the deadline. Returns the address that was
    /// dialled as well.
    pub(super) async fn send(
        &self,
        connector: &Connector,
        definition: &Definition,
        deadline: tokio::time::Instant,
        start: &mut impl Start,
    ) -> (Option<SocketAddr>, Result<Answer, NoAnswer>) {
        let mut address = None;
        let exchange = self.exchange(connector, definition, start, &mut address);
        let outcome = tokio::time::timeout_at(deadline, exchange).await.unwrap_or_else(|_| {
            let why = format!("no answer within {:?}", definition.timeout);
            Err(NoAnswer::Unreachable(why))
        });
        match outcome {
            Ok((response, connection)) => {
                (address, Ok(self.read(response, connection, deadline).await))
            }
            Err(error) => (address, Err(error)),
        }
    }

    async fn exchange(
        &self,
        connector: &Connector,
        definition: &Definition,
        start: &mut impl Start,
        address: &mut Option<SocketAddr>,
    ) -> Result<(Response, Connection), NoAnswer> {
        loop {
            let mut connection = match self.take() {
                Some(connection) => connection,
                None => connector.connect(definition).await?,
            };
            *address = Some(connection.address);
            let request = start.start().await?;
            let mut failed = match connection.sender.try_send_request(request).await {
                Ok(response) => return Ok((response, connection)),
                Err(failed) => failed,
            };
            if failed.take_message().is_none() {
                return Err(NoAnswer::Unreachable(format!("no answer: {}", failed.error())));
            }
            // Nothing was written: the connection was closed while it was idle.
            start.undo();
        }
    }

    /// Reads the bounded body of an answer. The status counts, also if the body ends early.
    async fn read(
        &self,
        response: Response,
        connection: Connection,
        deadline: tokio::time::Instant,
    ) -> Answer {
        let (head, mut body) = response.into_parts();
        let mut bytes = BytesMut::new();
        let is_whole = loop {
            match tokio::time::timeout_at(deadline, body.frame()).await {
                Ok(None) => break true,
                Err(_) | Ok(Some(Err(_))) => break false,
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        let room = MAX_BODY_BYTES - bytes.len();
                        bytes.extend_from_slice(&data[..data.len().min(room)]);
                        if data.len() > room {
                            break false;
                        }
                    }
                }
            }
        };
        if is_whole {
            self.put_back(connection);
        }
        Answer { status: head.status, headers: head.headers, body: bytes.freeze() }
    }
}
