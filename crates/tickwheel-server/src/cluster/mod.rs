//! The service as a node of a cluster.
//!
//! All nodes serve the whole API. The node that owns the partition answers; the others forward
//! requests to it over HTTP. While a node is the owner, it has an [`App`] and the routes of a
//! service of its own, which begin and end with its ownership.
//!
//! Ground rules:
//! * An answer that depends on a read is sent only by a node that has just proved its ownership,
//!   before the read and again after it.
//! * A request is forwarded once. The node that it is forwarded to answers or says 421.
//! * A request without an owner waits for one up to [`OWNER_TIMEOUT`].
//!
//! | file | what it holds |
//! |---|---|
//! | `connector` | connections to other nodes, plain or with TLS |
//! | `dispatch` | which node answers a request |
//! | `forward` | sending a request to another node |
//! | `ownership` | the service of an owner: opened by a takeover, closed when ownership ends |
//! | `operations` | what operators ask for: moving partitions, draining nodes, recovery |
//! | `servers` | the servers that keep the log: NATS, or `PostgreSQL` |
//! | `tokens` | tokens, which are the same on all nodes |
//! | `status` | `/v1/cluster`: what the nodes know of each other |

mod connector;
mod dispatch;
mod forward;
mod operations;
mod ownership;
mod servers;
mod status;
mod tokens;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use tickwheel_cluster::log::{Log, LogError};
use tickwheel_cluster::{Machine, Node, Partition, Replica, ReplicaOptions, Transport};
use tickwheel_queue::store::{Directory, StoreOptions};

use crate::app::{App, Common};
use crate::config::{Cluster, Config};
pub(crate) use connector::NodeConnector;
use dispatch::Dispatcher;
use ownership::{Owned, Slot};
use servers::Servers;
pub(crate) use status::describe;

/// The one partition.
const PARTITION: u32 = 0;
/// How long a request waits for an owner.
const OWNER_TIMEOUT: Duration = Duration::from_secs(5);

/// What a node shares with the others: the log, and a way to send messages.
///
/// ```
/// use std::sync::Arc;
/// use tickwheel_cluster::log::{LogError, Nats, NatsOptions};
/// use tickwheel_cluster::NatsTransport;
/// use tickwheel_server::ClusterBackend;
///
/// fn backend(options: NatsOptions, node: &str) -> Result<ClusterBackend, LogError> {
///     let nats = Nats::connect(options)?;
///     let transport = Box::new(NatsTransport::connect(&nats, "tickwheel", node)?);
///     Ok(ClusterBackend { log: Arc::new(nats.open("tickwheel")?), transport })
/// }
/// ```
pub struct ClusterBackend {
    /// The log of the partition.
    pub log: Arc<dyn Log>,
    /// How messages reach the other nodes.
    pub transport: Box<dyn Transport>,
}

impl fmt::Debug for ClusterBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterBackend").field("log", &self.log).finish_non_exhaustive()
    }
}

impl ClusterBackend {
    /// Connects to the servers of a cluster's log. Creates the log if that is asked for and there is
    /// none.
    ///
    /// # Errors
    ///
    /// If the servers do not answer or could lose acknowledged records, or if there is no stream.
    pub(crate) fn connect(cluster: &Cluster) -> Result<Self, LogError> {
        let servers = Servers::connect(cluster)?;
        let log = match servers.open(&cluster.name) {
            Err(LogError::Missing(_)) if cluster.create => {
                match servers.create(&cluster.name) {
                    // Another node was faster.
                    Ok(()) | Err(LogError::Exists(_)) => servers.open(&cluster.name)?,
                    Err(error) => return Err(error),
                }
            }
            opened => opened?,
        };
        let transport = servers.transport(&cluster.name, &cluster.node)?;
        Ok(Self { log, transport })
    }
}

/// A node that runs.
pub(crate) struct ClusterNode {
    node: Arc<Node>,
    slot: Slot,
    common: Arc<Common>,
    connector: NodeConnector,
}

impl ClusterNode {
    /// Starts the node's threads.
    pub(crate) fn start(
        common: &Arc<Common>,
        routes: Router<App>,
        backend: ClusterBackend,
        connector: NodeConnector,
        address: &str,
    ) -> std::io::Result<Self> {
        let config = common.config();
        let cluster = config.cluster.as_ref().expect("the service is a node of a cluster");
        let machine = Arc::new(Machine::new());
        let options = ReplicaOptions {
            may_create: cluster.create,
            store: StoreOptions { cache: config.cache, ..StoreOptions::default() },
            ..ReplicaOptions::new(&cluster.node)
        };
        let disk = Box::new(Directory::new(config.data.join("queue")));
        let replica = Replica::new(disk, backend.log, machine.clone(), options);
        let slot = Slot::default();
        let opener = ownership::opener(Arc::clone(common), routes, slot.clone());
        let partition: Partition<Owned> = Partition::new(PARTITION, replica, opener);
        let partitions = vec![partition];
        let node = Node::start(&cluster.node, address, partitions, backend.transport, machine)?;
        let node = Arc::new(node);
        let (shared, data) = (Arc::downgrade(&node), config.data.clone());
        tokio::spawn(async move { tokens::keep_sharing(shared, &data).await });
        common.set_cluster_node(&node);
        Ok(Self { node, slot, common: Arc::clone(common), connector })
    }

    /// Returns the service: everything goes to the owner, but for what concerns this node.
    pub(crate) fn router(&self) -> Router {
        let (common, node) = (Arc::clone(&self.common), Arc::clone(&self.node));
        let connector = self.connector.clone();
        let dispatcher = Dispatcher::new(common, node, self.slot.clone(), connector);
        Router::new()
            .route("/v1/cluster", get(status::get))
            .route("/v1/cluster/move", post(operations::hand_over))
            .route("/v1/cluster/drain", post(operations::drain))
            .route("/v1/cluster/recover", post(operations::recover))
            .route("/healthz", get(status::healthz))
            .fallback(dispatch::dispatch)
            .layer(axum::middleware::from_fn(dispatch::write_problems))
            .with_state(Arc::new(dispatcher))
    }

    /// Hands the partition over and ends the threads. Blocks for as long as that takes.
    pub(crate) fn stop(self) {
        self.node.stop();
    }
}

/// Returns the address that other nodes are told, unless one is configured.
pub(crate) fn address(config: &Config, listening: std::net::SocketAddr) -> String {
    let configured = config.cluster.as_ref().and_then(|cluster| cluster.address.clone());
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    configured.unwrap_or_else(|| format!("{scheme}://{listening}"))
}
