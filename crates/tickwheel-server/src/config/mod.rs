//! The configuration of the service. A flag wins over an environment variable, a variable over the
//! TOML file, the file over the default.
//!
//! One table defines every option ([`OPTIONS`]): its flag, its variable, its key in the file, its
//! help and its row in `docs/SERVER.md` follow from it. A value stays text, with its origin, until
//! all sources are read. Then all values are parsed, and the first invalid one is refused with its
//! origin.

mod file;
mod options;
mod settings;
mod value;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tickwheel::ManualClock;
use tickwheel_cluster::MAX_PARTITIONS;
use tickwheel_queue::Durability;

use crate::beanstalk::MAX_TUBE_BYTES;
pub use options::{OPTIONS, OptionSpec};
pub use settings::{ConfigError, Origin, Setting, Settings, load};
use value::Value;

pub use crate::push::allow::{Denied, PushAllow};

/// Which requests are logged.
///
/// ```
/// use tickwheel_server::config::{AccessLog, Config};
/// assert_eq!(Config::default().access_log, AccessLog::All);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// All.
    All,
    /// Those that were not answered with success.
    Errors,
    /// None.
    None,
}

/// The files for TLS.
///
/// ```
/// use tickwheel_server::config::Config;
/// assert!(Config::default().tls.is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate chain in PEM.
    pub cert: PathBuf,
    /// The private key in PEM.
    pub key: PathBuf,
    /// How often they are checked for changes.
    pub reload: Duration,
}

/// Limits of requests and clients.
///
/// ```
/// use tickwheel_server::config::Config;
/// assert_eq!(Config::default().limits.body, 8 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Bytes of a request's body.
    pub body: usize,
    /// Bytes of a request's headers.
    pub header: usize,
    /// Connections at once. 0 means as many as file descriptors allow, up to 4,096. A number that
    /// they do not allow is lowered.
    pub connections: usize,
    /// Bytes of request bodies and answers in flight, of all connections together.
    pub memory: usize,
    /// Requests per second of one token or address. 0 means no limit.
    pub rate: u32,
    /// How long headers may take to arrive.
    pub header_timeout: Duration,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// How long a client may take to read any part of an answer.
    pub write_timeout: Duration,
}

/// Limits of push delivery.
///
/// ```
/// use tickwheel_server::config::Config;
/// assert_eq!(Config::default().push.connections, 1_024);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// The addresses that targets may have although they are not public.
    pub allow: PushAllow,
    /// Connections to all targets together.
    pub connections: usize,
}

/// Where traces are sent.
///
/// ```
/// let flags = [("otlp.endpoint".to_owned(), "http://127.0.0.1:4318".to_owned())];
/// let settings = tickwheel_server::config::load(&flags, [], None)?;
/// assert_eq!(settings.config().otlp.as_ref().unwrap().service, "tickwheel");
/// # Ok::<(), tickwheel_server::config::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Otlp {
    /// The address of the collector, without `/v1/traces`.
    pub endpoint: axum::http::Uri,
    /// The name of this service.
    pub service: String,
    /// The share of traces without a parent that is recorded, in percent.
    pub sample_percent: u64,
}

/// The node of a cluster that the service is.
///
/// ```
/// use tickwheel_server::config;
///
/// let flags = [("cluster", "nats://a,nats://b,nats://c"), ("node", "node-1")];
/// let flags = flags.map(|(name, value)| (name.to_owned(), value.to_owned()));
/// let settings = config::load(&flags, [], None)?;
/// let cluster = settings.config().cluster.as_ref().unwrap();
/// assert_eq!((cluster.servers.len(), &cluster.node[..]), (3, "node-1"));
/// # Ok::<(), config::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The addresses of the NATS servers, or the connection string of a `PostgreSQL` database.
    pub servers: Vec<String>,
    /// The monitoring addresses of the NATS servers; none for those at the usual port.
    pub monitors: Vec<String>,
    /// The name of the cluster, with which the names of its streams begin.
    pub name: String,
    /// Create the streams if there are none.
    pub create: bool,
    /// The number of partitions that the cluster must have, and that a new one gets.
    pub partitions: Option<u32>,
    /// Accept servers that acknowledge writes before they sync them.
    pub allow_lazy_sync: bool,
    /// The name of this node.
    pub node: String,
    /// Where other nodes reach this one, if that is not the address to listen on.
    pub address: Option<String>,
    /// A PEM file with the certificates to trust when another node serves TLS; the public ones
    /// without it.
    pub node_ca: Option<PathBuf>,
    /// How this node identifies itself to NATS servers, and which of them it trusts.
    pub nats: NatsSecurity,
}

/// How a node identifies itself to NATS servers, and which of them it trusts.
///
/// ```
/// use tickwheel_server::config;
///
/// let flags = [("cluster", "tls://a,tls://b,tls://c"), ("node", "x"), ("cluster_ca", "ca.pem")];
/// let flags = flags.map(|(name, value)| (name.to_owned(), value.to_owned()));
/// let settings = config::load(&flags, [], None)?;
/// let cluster = settings.config().cluster.as_ref().unwrap();
/// assert_eq!(cluster.nats.ca, Some("ca.pem".into()));
/// # Ok::<(), config::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NatsSecurity {
    /// A file with credentials, as `nsc` creates it.
    pub credentials: Option<PathBuf>,
    /// A PEM file with the certificates to trust, instead of those of the system.
    pub ca: Option<PathBuf>,
    /// PEM files with the client's certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl Cluster {
    /// Returns the connection string, if the log is in a `PostgreSQL` database.
    pub(crate) fn postgres_url(&self) -> Option<&str> {
        self.servers.first().map(String::as_str).filter(|url| is_postgres(url))
    }
}

fn is_postgres(url: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme))
}

/// The configuration of the service.
///
/// ```
/// use tickwheel_server::Config;
///
/// let config = Config { listen: "127.0.0.1:0".parse().unwrap(), ..Config::default() };
/// assert!(config.listen.ip().is_loopback());
/// ```
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[derive(Clone, Debug)]
pub struct Config {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The address for the beanstalkd protocol, if it is spoken.
    pub beanstalk: Option<SocketAddr>,
    /// Where jobs and tokens are kept.
    pub data: PathBuf,
    /// Serve everyone on any address, without tokens.
    pub insecure: bool,
    /// How durable an answer is.
    pub durability: Durability,
    /// How far ahead jobs are kept in memory.
    pub horizon: Duration,
    /// The approximate number of jobs in memory.
    pub near: usize,
    /// Bytes of cache for blocks read from disk.
    pub cache: u64,
    /// Bytes on disk that are reserved for when it is full.
    pub reserve: u64,
    /// Opens a damaged directory with what can be read.
    pub salvage: bool,
    /// Serves the dashboard at `/`.
    pub page: bool,
    /// Which requests are logged.
    pub access_log: AccessLog,
    /// How long requests may take after the signal to stop.
    pub shutdown_grace: Duration,
    /// The files for TLS, if it is used.
    pub tls: Option<Tls>,
    /// Limits of requests and clients.
    pub limits: HttpLimits,
    /// Limits of jobs and queues.
    pub queue_limits: tickwheel_queue::Limits,
    /// Limits of push delivery.
    pub push: Push,
    /// Where traces are sent, if they are.
    pub otlp: Option<Otlp>,
    /// The node of a cluster that the service is, if it is one.
    pub cluster: Option<Cluster>,
    /// Uses a manual clock, which requests advance and the data directory keeps.
    pub manual_clock: bool,
    /// A clock that the embedding program moves, instead of the system's.
    pub clock: Option<ManualClock>,
}

impl Default for Config {
    fn default() -> Self {
        load(&[], [], None).expect("the defaults are valid").config().clone()
    }
}

/// Parses all values. The first invalid one is refused.
fn config_of(all: &[Setting]) -> Result<Config, ConfigError> {
    let of = |name: &str| {
        let setting = all.iter().find(|setting| setting.name == name);
        Value(setting.expect("every option is there"))
    };
    let beanstalk = of("beanstalk");
    let beanstalk = if beanstalk.is_empty() { None } else { Some(beanstalk.address()?) };
    let defaults = tickwheel_queue::Limits::default();
    Ok(Config {
        listen: of("listen").address()?,
        beanstalk,
        data: of("data").path()?,
        insecure: of("insecure").boolean()?,
        durability: of("durability").durability()?,
        horizon: of("horizon").length(Duration::from_secs(1), Duration::from_secs(86_400))?,
        near: of("near").number(1, 1_000_000_000)? as usize,
        cache: of("cache").size(1 << 20, 1 << 40)?,
        reserve: of("reserve").size(0, 1 << 30)?,
        salvage: of("salvage").boolean()?,
        page: of("page").boolean()?,
        access_log: of("access_log").access_log()?,
        shutdown_grace: of("shutdown_grace").length(Duration::ZERO, HOUR)?,
        tls: tls_of(&of)?,
        limits: HttpLimits {
            body: of("limits.body").size(1 << 10, 1 << 30)? as usize,
            header: of("limits.header").size(1 << 10, 1 << 20)? as usize,
            connections: of("limits.connections").number(0, 1_000_000)? as usize,
            memory: of("limits.memory").size(1 << 20, 1 << 40)? as usize,
            rate: of("limits.rate").number(0, 1_000_000_000)? as u32,
            header_timeout: of("limits.header_timeout").length(TENTH, HOUR)?,
            body_timeout: of("limits.body_timeout").length(TENTH, HOUR)?,
            write_timeout: of("limits.write_timeout").length(TENTH, HOUR)?,
        },
        queue_limits: tickwheel_queue::Limits {
            payload: of("limits.payload").size(1, 1 << 30)?,
            batch: of("limits.batch").number(1, 10_000)?,
            queues: of("limits.queues").number(1, 1_000_000)?,
            pending: none_if_zero(of("limits.pending").number(0, u64::MAX)?),
            leased: of("limits.leased").number(1, u64::MAX)?,
            disk: none_if_zero(of("limits.disk").size(0, u64::MAX)?),
            // Tubes may have longer names than other queues.
            queue_name: match beanstalk {
                Some(_) => MAX_TUBE_BYTES as u64,
                None => defaults.queue_name,
            },
            ..defaults
        },
        push: Push {
            allow: of("push.allow").push_allow()?,
            connections: of("push.connections").number(1, 100_000)? as usize,
        },
        otlp: otlp_of(&of)?,
        cluster: cluster_of(&of)?,
        manual_clock: of("clock").is_manual()?,
        clock: None,
    })
}

const TENTH: Duration = Duration::from_millis(100);
const HOUR: Duration = Duration::from_secs(3_600);

fn none_if_zero(limit: u64) -> u64 {
    if limit == 0 { u64::MAX } else { limit }
}

fn tls_of<'a>(of: &impl Fn(&str) -> Value<'a>) -> Result<Option<Tls>, ConfigError> {
    let reload = of("tls.reload").length(TENTH, Duration::from_secs(86_400))?;
    let (cert, key) = (of("tls.cert"), of("tls.key"));
    match (cert.is_empty(), key.is_empty()) {
        (true, true) => Ok(None),
        (false, false) => Ok(Some(Tls { cert: cert.path()?, key: key.path()?, reload })),
        (true, false) => Err(key.wrong("a key alone is not enough: give `tls.cert` too")),
        (false, true) => Err(cert.wrong("a certificate alone is not enough: give `tls.key` too")),
    }
}

fn otlp_of<'a>(of: &impl Fn(&str) -> Value<'a>) -> Result<Option<Otlp>, ConfigError> {
    let endpoint = of("otlp.endpoint");
    let sample_percent = of("otlp.sample").number(0, 100)?;
    if endpoint.is_empty() {
        return Ok(None);
    }
    if cfg!(not(feature = "otlp")) {
        return Err(endpoint.wrong("this program was built without the feature `otlp`"));
    }
    let service = of("otlp.service").0.value.clone();
    Ok(Some(Otlp { endpoint: endpoint.http_url()?, service, sample_percent }))
}

fn cluster_of<'a>(of: &impl Fn(&str) -> Value<'a>) -> Result<Option<Cluster>, ConfigError> {
    let (servers, node) = (of("cluster"), of("node"));
    if servers.is_empty() {
        return Ok(None);
    }
    for (option, why) in [
        ("beanstalk", "nodes of a cluster do not speak the beanstalkd protocol"),
        ("salvage", "a damaged node of a cluster gets its jobs from the others: remove its data"),
    ] {
        let value = of(option);
        if !value.is_empty() && value.0.value != "false" {
            return Err(value.wrong(why));
        }
    }
    if of("clock").is_manual()? {
        return Err(of("clock").wrong("a node of a cluster needs the system's clock"));
    }
    let name = |value: &Value<'a>| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let text = &value.0.value;
        if (1..=64).contains(&text.len()) && text.chars().all(is_plain) {
            return Ok(text.clone());
        }
        Err(value.wrong("a name has 1 to 64 letters, digits, `-` and `_`"))
    };
    let list = |value: &Value<'a>| -> Vec<String> {
        value
            .0
            .value
            .split(',')
            .map(str::trim)
            .filter(|it| !it.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let address = of("node_address");
    let schemes = ["http://", "https://"];
    if !address.is_empty() && !schemes.iter().any(|it| address.0.value.starts_with(it)) {
        return Err(address.wrong("must begin with http:// or https://"));
    }
    if address.is_empty() && of("listen").address()?.ip().is_unspecified() {
        let why = "every address of this machine is meant, and other nodes cannot know one: say \
                   where they reach this one with `node_address`";
        return Err(of("listen").wrong(why));
    }
    let file = |name: &str| {
        let value = of(name);
        if value.is_empty() { Ok(None) } else { value.path().map(Some) }
    };
    let (certificate, key) = (file("cluster_cert")?, file("cluster_key")?);
    let certificate = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err(of("cluster_cert").wrong("`cluster_cert` and `cluster_key` go together")),
    };
    let nats = NatsSecurity {
        credentials: file("cluster_credentials")?,
        ca: file("cluster_ca")?,
        certificate,
    };
    Ok(Some(Cluster {
        servers: if is_postgres(&servers.0.value) {
            // Its hosts have commas between them.
            vec![servers.0.value.clone()]
        } else {
            list(&servers)
        },
        monitors: list(&of("cluster_monitors")),
        name: name(&of("cluster_name"))?,
        create: of("cluster_create").boolean()?,
        partitions: match of("cluster_partitions") {
            value if value.is_empty() => None,
            value => Some(value.number(1, u64::from(MAX_PARTITIONS))? as u32),
        },
        allow_lazy_sync: of("cluster_allow_lazy_sync").boolean()?,
        node: name(&node)?,
        address: (!address.is_empty()).then(|| address.0.value.trim_end_matches('/').to_owned()),
        node_ca: file("node_ca")?,
        nats,
    }))
}
