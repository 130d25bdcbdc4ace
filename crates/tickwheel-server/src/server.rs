//! The service as a whole: opening, accepting, serving, ending.
//!
//! Ground rules: nothing of an async worker waits for a disk; all connections are gone before the
//! queue is closed.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tickwheel_queue::{OpenError, Queues};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::app::{App, Documents};
use crate::auth::Gate;
use crate::beanstalk::Port;
use crate::clock::{ClockError, ManualTime};
use crate::config::Config;
use crate::http::connections::Connections;
use crate::http::descriptors::Descriptors;
use crate::http::listener::Door;
use crate::http::memory::Memory;
use crate::idempotency::OldMarkers;
use crate::push::Push;
use crate::shutdown::Shutdown;
use crate::telemetry::Telemetry;
use crate::tls::{Certificate, TlsError};
use crate::tokens::{TokenError, TokenStore, make_private};
use crate::{docs_page, insight, openapi, routes};

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
    /// The idempotency keys of an earlier version cannot be read or removed.
    Markers(tickwheel_queue::Error),
    /// The tokens cannot be read.
    Tokens(TokenError),
    /// The certificate cannot be used.
    Tls(TlsError),
    /// The clock cannot be used.
    Clock(ClockError),
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
            Self::Markers(error) => {
                write!(f, "the idempotency keys of an earlier version: {error}")
            }
            Self::Tokens(error) => error.fmt(f),
            Self::Tls(error) => error.fmt(f),
            Self::Clock(error) => error.fmt(f),
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
    old_markers: OldMarkers,
    manual_time: Option<Arc<ManualTime>>,
    gate: Arc<Gate>,
    certificate: Option<(Arc<Certificate>, TlsAcceptor)>,
    descriptors: Descriptors,
    /// For the beanstalkd protocol.
    beanstalk: Option<(TcpListener, SocketAddr)>,
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
    /// If the service cannot start; the error says why and what to do.
    pub async fn bind(config: Config) -> Result<Self, StartError> {
        let at = |error| StartError::Listen(config.listen, error);
        let listener = TcpListener::bind(config.listen).await.map_err(at)?;
        let address = listener.local_addr().map_err(at)?;
        let beanstalk = match config.beanstalk {
            Some(address) => {
                let at = |error| StartError::Listen(address, error);
                let listener = TcpListener::bind(address).await.map_err(at)?;
                let address = listener.local_addr().map_err(at)?;
                Some((listener, address))
            }
            None => None,
        };
        let descriptors = Descriptors::raise(config.limits.connections);
        let opening = config.clone();
        let opened = tokio::task::spawn_blocking(move || open(&opening, descriptors.store_files()));
        let (gate, certificate, queues, old_markers, manual_time) = match opened.await {
            Ok(opened) => opened?,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        Ok(Self {
            config,
            listener,
            address,
            queues,
            old_markers,
            manual_time,
            gate,
            certificate,
            descriptors,
            beanstalk,
        })
    }

    /// The address that it speaks the beanstalkd protocol on, if it does.
    pub fn beanstalk_addr(&self) -> Option<SocketAddr> {
        self.beanstalk.as_ref().map(|(_, address)| *address)
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
        let Self {
            config,
            listener,
            address,
            queues,
            old_markers,
            manual_time,
            gate,
            certificate,
            descriptors,
            beanstalk,
        } = self;
        let (router, api) = routes::all().split_for_parts();
        let document = openapi::finish(&api);
        let documents = Documents {
            page: docs_page::render(&document).into(),
            openapi: serde_json::to_vec(&document).unwrap_or_default().into(),
        };
        let names = openapi::routes(&document);
        let memory = Memory::new(config.limits.memory);
        let (telemetry, export) = Telemetry::new(&config);
        let pushing = Push::open(queues.clone(), &config, memory.clone(), telemetry.clone());
        let push = match pushing.await {
            Ok(push) => push,
            Err(error) => {
                tracing::error!(%error, "the push targets cannot be read");
                return;
            }
        };
        let app = App::new(
            queues,
            config,
            manual_time,
            gate,
            shutdown.clone(),
            names,
            documents,
            old_markers,
            Arc::clone(&push),
            memory,
            telemetry,
        );
        let (stop_export, stopping) = tokio::sync::oneshot::channel::<()>();
        let exporting = tokio::spawn(export.run(async {
            // It stops when the other end is dropped, too.
            let _ = stopping.await;
        }));
        let mut chores = JoinSet::new();
        chores.spawn(Arc::clone(app.gate()).keep_reading());
        // What happens from now on is counted.
        insight::take_sample(&app).await;
        chores.spawn(insight::keep_sampling(app.clone()));
        chores.spawn(insight::live::keep_sending(app.clone()));
        let acceptor = certificate.map(|(certificate, acceptor)| {
            chores.spawn(certificate.keep_reading());
            acceptor
        });
        descriptors.log(app.config().limits.connections);
        tracing::info!(%address, tls = acceptor.is_some(), "serving");
        let router = routes::service(router, app.clone());
        let open = Connections::new(descriptors.connections);
        let door = Door::new(router, acceptor, Arc::clone(&open), app.clone());
        let mut connections = JoinSet::new();
        let mut sessions = JoinSet::new();
        let speak_beanstalk = async {
            if let Some((listener, address)) = beanstalk {
                tracing::info!(%address, "serving the beanstalkd protocol");
                Port::new(app.clone(), open).accept(listener, &mut sessions).await;
            }
        };
        tokio::join!(door.accept(listener, &mut connections), speak_beanstalk);
        drop(door);
        let grace = app.config().shutdown_grace;
        let hurried = async {
            tokio::select! {
                () = shutdown.hurried() => {}
                () = tokio::time::sleep(grace) => {}
            }
        };
        tokio::join!(
            push.stop(hurried),
            finish(&mut connections, &shutdown, grace),
            finish(&mut sessions, &shutdown, grace)
        );
        chores.shutdown().await;
        drop(stop_export);
        if exporting.await.is_err() {
            tracing::error!("the export of traces failed");
        }
        drop(push);
        // Closing waits for the disk.
        let closing = tokio::task::spawn_blocking(move || drop(app));
        if closing.await.is_err() {
            tracing::error!("the queue could not be closed properly");
        }
        tracing::info!("stopped");
    }
}

type Opened = (
    Arc<Gate>,
    Option<(Arc<Certificate>, TlsAcceptor)>,
    Queues,
    OldMarkers,
    Option<Arc<ManualTime>>,
);

/// Everything that reads files.
fn open(config: &Config, files: usize) -> Result<Opened, StartError> {
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
    if let Some(address) = config.beanstalk
        && !address.ip().to_canonical().is_loopback()
        && !gate.has_tokens()
        && !config.insecure
    {
        return Err(StartError::NeedsTokens(address));
    }
    let certificate = match &config.tls {
        Some(files) => {
            let certificate = Certificate::new(files.clone()).map_err(StartError::Tls)?;
            let acceptor = certificate.config().map_err(StartError::Tls)?.into();
            Some((certificate, acceptor))
        }
        None => None,
    };
    make_private(&config.data).map_err(data)?;
    let manual_time = ManualTime::open(config).map_err(StartError::Clock)?;
    let mut queues = Queues::builder()
        .durability(config.durability)
        // Callers over HTTP come back too late to be waited for: an answer and a request are between.
        .patience(Duration::ZERO)
        .horizon(config.horizon)
        .near(config.near)
        .cache(config.cache)
        .reserve(config.reserve)
        .open_files(files)
        .measure(crate::wire::encoded_len)
        .salvage(config.salvage)
        .limits(config.queue_limits);
    if let Some(time) = &manual_time {
        queues = queues.clock(time.clock().clone());
    }
    let queues = queues.open(config.data.join("queue")).map_err(StartError::Queue)?;
    let now = crate::app::begun(crate::app::wall(manual_time.as_ref()));
    let old_markers = OldMarkers::find(&queues, now).map_err(StartError::Markers)?;
    Ok((Arc::new(gate), certificate, queues, old_markers, manual_time.map(Arc::new)))
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
