//! The service as a whole: opening, accepting, serving, ending.
//!
//! Ground rules: nothing of an async worker waits for a disk; each connection is a task of its own,
//! and all of them are gone before the queue is closed.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tickwheel_queue::{OpenError, Queues};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::app::{App, Documents};
use crate::auth::{Gate, Peer};
use crate::config::Config;
use crate::idempotency::{self, LARGEST_PART};
use crate::shutdown::Shutdown;
use crate::stall::Impatient;
use crate::tls::{Certificate, TlsError};
use crate::tokens::{TokenError, TokenStore, make_private};
use crate::{docs_page, openapi, routes};

/// A client that does not finish its handshake within this time is given up.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Why the service could not be started.
///
/// ```
/// use tickwheel_server::{Config, Server, StartError};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let folder = tempfile::tempdir().unwrap();
/// let listen = "0.0.0.0:0".parse().unwrap();
/// let config = Config { listen, data: folder.path().into(), ..Config::default() };
/// let error = Server::bind(config).await.unwrap_err();
/// assert!(matches!(error, StartError::NeedsTokens(_)));
/// # });
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// The address can be reached by others, and there is no token.
    NeedsTokens(SocketAddr),
    /// The data directory cannot be made or used.
    Data(PathBuf, io::Error),
    /// The queue cannot be opened.
    Queue(OpenError),
    /// The queue for idempotency keys cannot be made.
    Markers(tickwheel_queue::Error),
    /// The tokens cannot be read.
    Tokens(TokenError),
    /// The certificate cannot be used.
    Tls(TlsError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(address, error) if error.kind() == io::ErrorKind::AddrInUse => write!(
                f,
                "{address} is in use: another service, or another Tickwheel, listens there. Stop \
                 it, or choose another address with `--listen`"
            ),
            Self::Listen(address, error) => write!(
                f,
                "{address} cannot be listened on: {error}. Choose another address with `--listen`"
            ),
            Self::NeedsTokens(address) => write!(
                f,
                "{address} can be reached from other machines, and there is no token: make one \
                 with `tickwheel token new`, listen on 127.0.0.1, or say `--insecure` to serve \
                 anybody"
            ),
            Self::Data(path, error) => write!(
                f,
                "{} cannot be the data directory: {error}. Choose another with `--data`",
                path.display()
            ),
            Self::Queue(error) => error.fmt(f),
            Self::Markers(error) => write!(f, "no room for idempotency keys: {error}"),
            Self::Tokens(error) => error.fmt(f),
            Self::Tls(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

/// The service, listening and not yet serving.
///
/// ```
/// use tickwheel_server::{Config, Server, Shutdown};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let folder = tempfile::tempdir()?;
/// let listen = "127.0.0.1:0".parse()?; // port 0 takes a free one
/// let config = Config { listen, data: folder.path().into(), ..Config::default() };
/// let server = Server::bind(config).await?;
/// println!("listening on {}", server.local_addr());
///
/// let shutdown = Shutdown::new(); // or `Shutdown::on_signals()?`
/// shutdown.begin();
/// server.run(shutdown).await;
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    config: Config,
    listener: TcpListener,
    address: SocketAddr,
    queues: Queues,
    gate: Arc<Gate>,
    certificate: Option<(Arc<Certificate>, TlsAcceptor)>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Opens everything and listens. Nothing is served before [`run`](Self::run).
    ///
    /// ```
    /// use tickwheel_server::{Config, Server};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let config = Config {
    ///     listen: "127.0.0.1:0".parse()?,
    ///     data: folder.path().into(),
    ///     ..Config::default()
    /// };
    /// let server = Server::bind(config).await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If something of that is not possible; the error says what, and what to do.
    pub async fn bind(config: Config) -> Result<Self, StartError> {
        let at = |error| StartError::Listen(config.listen, error);
        let listener = TcpListener::bind(config.listen).await.map_err(at)?;
        let address = listener.local_addr().map_err(at)?;
        let opening = config.clone();
        let opened = tokio::task::spawn_blocking(move || open(&opening));
        let (gate, certificate, queues) = match opened.await {
            Ok(opened) => opened?,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        Ok(Self { config, listener, address, queues, gate, certificate })
    }

    /// The address that it listens on.
    ///
    /// ```
    /// # use tickwheel_server::{Config, Server};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// # let listen = "127.0.0.1:0".parse()?;
    /// # let config = Config { listen, data: folder.path().into(), ..Config::default() };
    /// let server = Server::bind(config).await?;
    /// assert_ne!(server.local_addr().port(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Whether it speaks TLS.
    ///
    /// ```
    /// # use tickwheel_server::{Config, Server};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// # let listen = "127.0.0.1:0".parse()?;
    /// # let config = Config { listen, data: folder.path().into(), ..Config::default() };
    /// let server = Server::bind(config).await?;
    /// assert!(!server.is_tls());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_tls(&self) -> bool {
        self.certificate.is_some()
    }

    /// Serves until it is told to stop: then nothing new is accepted, what is in flight is
    /// answered, and the queue is closed. A second signal, or the end of the grace, drops what is
    /// still in flight.
    ///
    /// ```
    /// # use tickwheel_server::{Config, Server, Shutdown};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// # let listen = "127.0.0.1:0".parse()?;
    /// # let config = Config { listen, data: folder.path().into(), ..Config::default() };
    /// let server = Server::bind(config).await?;
    /// let shutdown = Shutdown::new();
    /// let serving = tokio::spawn(server.run(shutdown.clone()));
    /// shutdown.begin();
    /// serving.await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn run(self, shutdown: Shutdown) {
        let Self { config, listener, address, queues, gate, certificate } = self;
        let (router, api) = routes::all().split_for_parts();
        let document = openapi::finish(&api);
        let documents = Documents {
            page: docs_page::render(&document).into(),
            openapi: serde_json::to_vec(&document).unwrap_or_default().into(),
        };
        let names = openapi::routes(&document);
        let app = App::new(queues, config, gate, shutdown.clone(), names, documents);
        let mut chores = JoinSet::new();
        chores.spawn(Arc::clone(app.gate()).keep_reading());
        chores.spawn(idempotency::keep_dropping(app.clone()));
        let acceptor = certificate.map(|(certificate, acceptor)| {
            chores.spawn(certificate.keep_reading());
            acceptor
        });
        tracing::info!(%address, tls = acceptor.is_some(), "serving");
        let door = Door {
            router: routes::service(router, app.clone()),
            acceptor,
            room: Arc::new(Semaphore::new(app.config().limits.connections)),
            app: app.clone(),
        };
        let mut connections = JoinSet::new();
        door.accept(listener, &mut connections).await;
        drop(door);
        finish(&mut connections, &shutdown, app.config().shutdown_grace).await;
        chores.shutdown().await;
        app.not_busy().await;
        // Closing waits for the disk.
        let closing = tokio::task::spawn_blocking(move || drop(app));
        if closing.await.is_err() {
            tracing::error!("the queue could not be closed properly");
        }
        tracing::info!("stopped");
    }
}

type Opened = (Arc<Gate>, Option<(Arc<Certificate>, TlsAcceptor)>, Queues);

/// Everything that reads files.
fn open(config: &Config) -> Result<Opened, StartError> {
    let data = |error| StartError::Data(config.data.clone(), error);
    if config.data.exists() && !config.data.is_dir() {
        return Err(data(io::Error::from(io::ErrorKind::NotADirectory)));
    }
    let store = TokenStore::new(&config.data);
    let gate = Gate::new(store, config.listen.ip(), config.insecure).map_err(StartError::Tokens)?;
    let is_loopback = config.listen.ip().to_canonical().is_loopback();
    if !is_loopback && !gate.has_tokens() && !config.insecure {
        return Err(StartError::NeedsTokens(config.listen));
    }
    let certificate = match &config.tls {
        Some(files) => {
            let certificate = Certificate::new(files.clone()).map_err(StartError::Tls)?;
            let acceptor = certificate.config().map_err(StartError::Tls)?.into();
            Some((certificate, acceptor))
        }
        None => None,
    };
    let limits = &config.queue_limits;
    let limits = tickwheel_queue::Limits {
        // Markers of idempotency keys go with the jobs. What clients may do is checked before.
        payload: limits.payload.max(2 * LARGEST_PART as u64),
        batch: limits.batch + 1,
        queues: limits.queues.saturating_add(1),
        ..*limits
    };
    make_private(&config.data).map_err(data)?;
    let mut queues = Queues::builder()
        .durability(config.durability)
        // Callers over HTTP come back too late to be waited for: an answer and a request are between.
        .patience(Duration::ZERO)
        .horizon(config.horizon)
        .near(config.near)
        .cache(config.cache)
        .salvage(config.salvage)
        .limits(limits);
    if let Some(clock) = &config.clock {
        queues = queues.clock(clock.clone());
    }
    let queues = queues.open(config.data.join("queue")).map_err(StartError::Queue)?;
    idempotency::make_queue(&queues).map_err(StartError::Markers)?;
    Ok((Arc::new(gate), certificate, queues))
}

/// Where connections come in.
struct Door {
    router: Router,
    acceptor: Option<TlsAcceptor>,
    room: Arc<Semaphore>,
    app: App,
}

impl Door {
    /// Accepts connections until the service is told to stop.
    async fn accept(&self, listener: TcpListener, connections: &mut JoinSet<()>) {
        let shutdown = self.app.shutdown().clone();
        let mut begun = pin!(shutdown.begun());
        loop {
            let accepted = tokio::select! {
                () = &mut begun => return,
                accepted = listener.accept() => accepted,
                // Those that are over, so that they do not pile up.
                Some(_) = connections.join_next() => continue,
            };
            match accepted {
                Ok((stream, address)) => self.admit(stream, address, connections),
                Err(error) => {
                    // Mostly: no file descriptors left. Some will be given back.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn admit(&self, stream: TcpStream, address: SocketAddr, connections: &mut JoinSet<()>) {
        // Answers are small and complete: waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else {
            self.app.counts().refuse();
            tracing::warn!(%address, "too many connections");
            if self.acceptor.is_none() {
                connections.spawn(refuse(stream));
            }
            return;
        };
        let visitor =
            Visitor { router: self.router.clone(), app: self.app.clone(), address, _place: place };
        match self.acceptor.clone() {
            None => connections.spawn(visitor.serve(stream)),
            Some(acceptor) => connections.spawn(async move {
                match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => visitor.serve(stream).await,
                    Ok(Err(error)) => tracing::debug!(%address, %error, "no TLS handshake"),
                    Err(_) => tracing::debug!(%address, "the TLS handshake took too long"),
                }
            }),
        };
    }
}

/// Tells a client that there is no room, without waiting for its request.
async fn refuse(mut stream: TcpStream) {
    let problem = crate::api::Problem::new(
        crate::api::Code::Unavailable,
        "there are too many connections: close some, or try again later",
    );
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\nretry-after: 1\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let write = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), write).await;
}

/// One connection.
struct Visitor {
    router: Router,
    app: App,
    address: SocketAddr,
    _place: OwnedSemaphorePermit,
}

impl Visitor {
    async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S) {
        let Self { router, app, address, _place } = self;
        let _counted = app.counts().connect();
        let limits = app.config().limits;
        let service = TowerToHyperService::new(WithPeer { router, peer: Peer(address) });
        let stream = TokioIo::new(Impatient::new(stream, limits.write_timeout));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            .max_header_size(limits.header)
            .serve_connection(stream, service);
        let mut connection = pin!(connection);
        let outcome = tokio::select! {
            outcome = connection.as_mut() => outcome,
            () = app.shutdown().begun() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = outcome {
            tracing::debug!(%address, %error, "the connection ended early");
        }
    }
}

/// Tells the routes where a request came from.
#[derive(Clone)]
struct WithPeer {
    router: Router,
    peer: Peer,
}

impl<B> tower_service::Service<axum::http::Request<B>> for WithPeer
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = axum::response::Response;
    type Error = Infallible;
    type Future = <Router as tower_service::Service<axum::http::Request<B>>>::Future;

    fn poll_ready(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        <Router as tower_service::Service<axum::http::Request<B>>>::poll_ready(
            &mut self.router,
            context,
        )
    }

    fn call(&mut self, mut request: axum::http::Request<B>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        self.router.call(request)
    }
}

/// Lets connections finish; those that take too long are dropped.
async fn finish(connections: &mut JoinSet<()>, shutdown: &Shutdown, grace: Duration) {
    let waiting = connections.len();
    tracing::info!(connections = waiting, ?grace, "finishing what is in flight");
    let all = async { while connections.join_next().await.is_some() {} };
    tokio::select! {
        () = all => return,
        () = shutdown.hurried() => {}
        () = tokio::time::sleep(grace) => {}
    }
    tracing::warn!(connections = connections.len(), "dropping what is still in flight");
    connections.shutdown().await;
}
