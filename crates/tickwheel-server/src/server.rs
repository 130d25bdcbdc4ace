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

use axum::Router;
use tickwheel_cluster::LayoutError;
use tickwheel_cluster::log::LogError;
use tickwheel_queue::{OpenError, Queues};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::app::{App, Common, Documents};
use crate::auth::Gate;
use crate::beanstalk::BeanstalkPort;
use crate::clock::{ClockError, ManualTime};
use crate::cluster::{self, ClusterBackend, ClusterNode, NodeConnector};
use crate::config::Config;
use crate::http::descriptors::Descriptors;
use crate::http::listener::HttpPort;
use crate::http::ports::Ports;
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
    /// The log of the cluster cannot be used.
    Cluster(LogError),
    /// The partitions of the cluster are not those that this node can serve.
    Partitions(LayoutError),
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
            Self::Cluster(error) => write!(f, "the cluster's log: {error}"),
            Self::Partitions(error) => error.fmt(f),
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
    source: Source,
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
        Self::bind_on(config, None).await
    }

    /// As [`bind`](Self::bind), on a log and a network of the caller's, for tests of clusters.
    #[doc(hidden)]
    pub async fn bind_on(
        config: Config,
        backend: Option<ClusterBackend>,
    ) -> Result<Self, StartError> {
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
        let opened =
            tokio::task::spawn_blocking(move || open(&opening, descriptors.store_files(), backend));
        let (gate, certificate, source, manual_time) = match opened.await {
            Ok(opened) => opened?,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        Ok(Self {
            config,
            listener,
            address,
            source,
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
            source,
            manual_time,
            gate,
            certificate,
            descriptors,
            beanstalk,
        } = self;
        let (routes, api) = routes::all().split_for_parts();
        let document = openapi::finish(&api);
        let documents = Documents {
            page: docs_page::render(&document).into(),
            openapi: serde_json::to_vec(&document).unwrap_or_default().into(),
            with_query: openapi::with_query(&document),
        };
        let names = openapi::routes(&document);
        let (telemetry, export) = Telemetry::new(&config);
        let common = Common::new(config, manual_time, gate, shutdown, names, documents, telemetry);
        let (stop_export, stopping) = tokio::sync::oneshot::channel::<()>();
        let exporting = tokio::spawn(export.run(async {
            // It stops when the other end is dropped, too.
            let _ = stopping.await;
        }));
        let mut chores = JoinSet::new();
        chores.spawn(Arc::clone(common.gate()).keep_reading());
        let acceptor = certificate.map(|(certificate, acceptor)| {
            chores.spawn(certificate.keep_reading());
            acceptor
        });
        descriptors.log(common.config().limits.connections);
        let limit = descriptors.connections;
        let entrance = Entrance { listener, address, acceptor, limit, beanstalk };
        match source {
            Source::Own(queues, old_markers) => {
                entrance.serve_alone(&common, routes, queues, old_markers).await;
            }
            Source::Cluster(backend, connector) => {
                entrance.serve_as_node(&common, routes, backend, connector).await;
            }
        }
        chores.shutdown().await;
        drop(stop_export);
        if exporting.await.is_err() {
            tracing::error!("the export of traces failed");
        }
        tracing::info!("stopped");
    }
}

/// Where requests come in.
struct Entrance {
    listener: TcpListener,
    address: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    /// How many connections there may be.
    limit: usize,
    /// For the beanstalkd protocol.
    beanstalk: Option<(TcpListener, SocketAddr)>,
}

impl Entrance {
    /// Serves queues of its own.
    async fn serve_alone(
        self,
        common: &Arc<Common>,
        routes: Router<App>,
        queues: Queues,
        old_markers: OldMarkers,
    ) {
        let shutdown = common.shutdown().clone();
        let opening = Service::open(common, routes, queues, old_markers, shutdown, None);
        let service = match opening.await {
            Ok(service) => service,
            Err(error) => {
                tracing::error!(%error, "the push targets cannot be read");
                return;
            }
        };
        let app = Some(service.app.clone());
        let (mut connections, mut sessions) = self.accept(common, service.router(), app).await;
        let (shutdown, grace) = (common.shutdown(), common.config().shutdown_grace);
        tokio::join!(
            service.stop_push(hurried(shutdown, grace)),
            finish(&mut connections, shutdown, grace),
            finish(&mut sessions, shutdown, grace)
        );
        service.close(std::future::ready(())).await;
    }

    /// Serves as a node of a cluster.
    async fn serve_as_node(
        self,
        common: &Arc<Common>,
        routes: Router<App>,
        backend: ClusterBackend,
        connector: NodeConnector,
    ) {
        let address = cluster::address(common.config(), self.address);
        let node = match ClusterNode::start(common, &routes, backend, connector, &address) {
            Ok(node) => node,
            Err(error) => {
                tracing::error!(%error, "the node does not start");
                return;
            }
        };
        let (mut connections, _) = self.accept(common, node.router(), None).await;
        // The partitions are handed over at once: other nodes answer what comes from now on.
        let stopping = tokio::task::spawn_blocking(move || node.stop());
        let grace = common.config().shutdown_grace;
        let ((), stopped) =
            tokio::join!(finish(&mut connections, common.shutdown(), grace), stopping);
        if stopped.is_err() {
            tracing::error!("the node could not be stopped properly");
        }
    }

    /// Accepts connections until the service is told to stop; returns those that are left, and the
    /// sessions of the beanstalkd protocol.
    async fn accept(
        self,
        common: &Arc<Common>,
        router: Router,
        app: Option<App>,
    ) -> (JoinSet<()>, JoinSet<()>) {
        let Self { listener, address, acceptor, limit, beanstalk } = self;
        tracing::info!(%address, tls = acceptor.is_some(), "serving");
        let ports = Ports::new(limit, Arc::clone(common));
        let (mut connections, mut sessions) = (JoinSet::new(), JoinSet::new());
        let speak_beanstalk = async {
            if let (Some((listener, address)), Some(app)) = (beanstalk, app.clone()) {
                tracing::info!(%address, "serving the beanstalkd protocol");
                ports.accept(listener, &BeanstalkPort::new(app), &mut sessions).await;
            }
        };
        let http = HttpPort::new(router, acceptor, Arc::clone(common), app.clone());
        tokio::join!(ports.accept(listener, &http, &mut connections), speak_beanstalk);
        (connections, sessions)
    }
}

/// Ends with a second signal, or with the grace.
async fn hurried(shutdown: &Shutdown, grace: Duration) {
    tokio::select! {
        () = shutdown.hurried() => {}
        () = tokio::time::sleep(grace) => {}
    }
}

/// Queues and what works on them: the routes, push delivery, and samples for operators.
pub(crate) struct Service {
    app: App,
    router: Router,
    chores: JoinSet<()>,
}

impl Service {
    /// Starts to work on queues, until the signal is given. They are those of a partition, or all.
    pub(crate) async fn open(
        common: &Arc<Common>,
        routes: Router<App>,
        queues: Queues,
        old_markers: OldMarkers,
        shutdown: Shutdown,
        partition: Option<u32>,
    ) -> Result<Self, tickwheel_queue::Error> {
        let memory = common.memory().clone();
        let telemetry = common.telemetry().clone();
        let push = Push::open(queues.clone(), common.config(), memory, telemetry).await?;
        let app = App::new(Arc::clone(common), queues, old_markers, push, shutdown, partition);
        let mut chores = JoinSet::new();
        // What happens from now on is counted.
        insight::take_sample(&app).await;
        chores.spawn(insight::keep_sampling(app.clone()));
        chores.spawn(insight::live::keep_sending(app.clone()));
        Ok(Self { router: routes::service(routes, app.clone()), app, chores })
    }

    pub(crate) fn router(&self) -> Router {
        self.router.clone()
    }

    async fn stop_push(&self, grace: impl Future<Output = ()>) {
        self.app.push().stop(grace).await;
    }

    /// Ends push delivery, after a grace, and closes the queues.
    pub(crate) async fn close(self, grace: impl Future<Output = ()>) {
        self.stop_push(grace).await;
        let Self { app, router, mut chores } = self;
        chores.shutdown().await;
        drop(router);
        // Closing waits for the disk.
        let closing = tokio::task::spawn_blocking(move || drop(app));
        if closing.await.is_err() {
            tracing::error!("the queue could not be closed properly");
        }
    }
}

/// Where the queues come from.
enum Source {
    Own(Queues, OldMarkers),
    Cluster(ClusterBackend, NodeConnector),
}

type Opened = (Arc<Gate>, Option<(Arc<Certificate>, TlsAcceptor)>, Source, Option<Arc<ManualTime>>);

/// Everything that reads files, or waits for other machines.
fn open(
    config: &Config,
    files: usize,
    backend: Option<ClusterBackend>,
) -> Result<Opened, StartError> {
    let data = |error| StartError::Data(config.data.clone(), error);
    if config.data.exists() && !config.data.is_dir() {
        return Err(data(io::Error::from(io::ErrorKind::NotADirectory)));
    }
    let store = TokenStore::new(&config.data);
    let gate = Gate::new(store, config.listen.ip(), config.insecure).map_err(StartError::Tokens)?;
    let is_loopback = config.listen.ip().to_canonical().is_loopback();
    // A node of a cluster gets its tokens from the others, and serves nobody before that.
    let needs_tokens = !config.insecure && config.cluster.is_none();
    if !is_loopback && !gate.has_tokens() && needs_tokens {
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
    if let Some(cluster) = &config.cluster {
        let backend = match backend {
            Some(backend) => backend,
            None => {
                ClusterBackend::connect(cluster, &config.data).map_err(|error| match error {
                    LayoutError::Log(error) => StartError::Cluster(error),
                    error => StartError::Partitions(error),
                })?
            }
        };
        let connector = NodeConnector::new(cluster.node_ca.as_deref()).map_err(StartError::Tls)?;
        return Ok((Arc::new(gate), certificate, Source::Cluster(backend, connector), None));
    }
    let manual_time = ManualTime::open(config).map_err(StartError::Clock)?;
    let mut builder = queue_builder(config).open_files(files).salvage(config.salvage);
    if let Some(time) = &manual_time {
        builder = builder.clock(time.clock().clone());
    }
    let queues = builder.open(config.data.join("queue")).map_err(StartError::Queue)?;
    let now = crate::app::begun(crate::app::wall(manual_time.as_ref()));
    let old_markers = OldMarkers::find(&queues, now).map_err(StartError::Markers)?;
    let source = Source::Own(queues, old_markers);
    Ok((Arc::new(gate), certificate, source, manual_time.map(Arc::new)))
}

/// Returns the settings of queues that the configuration decides.
pub(crate) fn queue_builder(config: &Config) -> tickwheel_queue::Builder {
    Queues::builder()
        .durability(config.durability)
        // Callers over HTTP come back too late to be waited for: an answer and a request are between.
        .patience(Duration::ZERO)
        .horizon(config.horizon)
        .near(config.near)
        .cache(config.cache)
        .reserve(config.reserve)
        .measure(crate::wire::encoded_len)
        .limits(config.queue_limits)
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
