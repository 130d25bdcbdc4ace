//! The service as a node of a cluster.
//!
//! All nodes serve the whole API. The queues are spread over partitions, and each partition has one
//! owner among the nodes. While a node owns a partition, it runs a service for the queues of that
//! partition, with an [`App`] and routes of its own. A *slot* for each partition holds that
//! service; it is empty while the node does not own the partition.
//!
//! ```text
//! request ─▶ route: which partitions? ─▶ dispatch: a partition ─┬▶ slot: this node owns it
//!                     │                                          └▶ forward: another node does
//!                     └ several: split or merge
//! ```
//!
//! Ground rules:
//! * An answer that depends on a read is sent only by a node that has just proved its ownership of
//!   the partition, before the read and again after it.
//! * A request is forwarded with the number of its partition. The node that receives it answers, or
//!   refuses with status 421 if it is not the owner; it never forwards the request again.
//! * A request for a partition without an owner waits for one up to [`OWNER_TIMEOUT`].
//! * The node that a client asks chooses the partitions, splits and merges. A node that receives a
//!   forwarded request never does.
//! * Only the thread of a partition writes its slot. The lock of the slot is held just long enough
//!   to replace a pointer, and never while a partition is asked.
//!
//! | file | what it holds |
//! |---|---|
//! | `connector` | connections to other nodes, plain or with TLS |
//! | `route` | which partitions a request concerns |
//! | `dispatch` | which node answers for a partition |
//! | `forward` | sending a request to another node |
//! | `gather` | requests that several partitions answer |
//! | `merge` | merging the answers of all partitions into one |
//! | `split` | batches whose items belong to several partitions |
//! | `streams` | streams of events of all partitions |
//! | `fleet` | what the dashboard asks of all partitions |
//! | `logs` | the logs of the partitions, and their layout |
//! | `ownership` | the service of an owner: opened by a takeover, closed when ownership ends |
//! | `operations` | what operators ask for: moving partitions, draining nodes, recovery |
//! | `servers` | the servers that keep the logs: NATS, or `PostgreSQL` |
//! | `tokens` | tokens, which are the same on all nodes |
//! | `status` | `/v1/cluster`: what the nodes know of each other |

mod connector;
mod dispatch;
mod fleet;
mod forward;
mod gather;
mod logs;
mod merge;
mod operations;
mod ownership;
mod route;
mod servers;
mod split;
mod status;
mod streams;
mod tokens;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use tickwheel_cluster::log::Log;
use tickwheel_cluster::{
    Layout, LayoutError, Machine, Node, Partition, Replica, ReplicaOptions, Transport,
};
use tickwheel_queue::store::{Directory, StoreOptions};

use crate::app::{App, Common};
use crate::config::{Cluster, Config};
pub(crate) use connector::NodeConnector;
use dispatch::Dispatcher;
pub(crate) use fleet::Fleet;
pub(crate) use logs::stores_in;
use ownership::{Owned, Slot};
use servers::Servers;
pub(crate) use status::describe;

/// How long a request waits for an owner of its partition.
const OWNER_TIMEOUT: Duration = Duration::from_secs(5);

/// What a node shares with the others: the logs, and a way to send messages.
///
/// ```
/// use std::sync::Arc;
/// use tickwheel_cluster::log::{LogError, Nats, NatsOptions};
/// use tickwheel_cluster::{Layout, NatsTransport};
/// use tickwheel_server::ClusterBackend;
///
/// fn backend(options: NatsOptions, node: &str) -> Result<ClusterBackend, LogError> {
///     let nats = Nats::connect(options)?;
///     let transport = Box::new(NatsTransport::connect(&nats, "tickwheel", node)?);
///     let layout = Layout::even(1).expect("one partition is possible");
///     Ok(ClusterBackend { layout, logs: vec![Arc::new(nats.open("tickwheel")?)], transport })
/// }
/// ```
pub struct ClusterBackend {
    /// How queues are spread over partitions.
    pub layout: Layout,
    /// The log of each partition.
    pub logs: Vec<Arc<dyn Log>>,
    /// How messages reach the other nodes.
    pub transport: Box<dyn Transport>,
}

impl fmt::Debug for ClusterBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterBackend").field("logs", &self.logs).finish_non_exhaustive()
    }
}

impl ClusterBackend {
    /// Connects to the servers of a cluster's logs. Creates missing logs if the configuration
    /// allows it.
    ///
    /// # Errors
    ///
    /// If the servers do not answer or could lose acknowledged records, if a stream is missing, or if
    /// the cluster has other partitions than this node expects.
    pub(crate) fn connect(cluster: &Cluster, data: &Path) -> Result<Self, LayoutError> {
        let servers = Servers::connect(cluster)?;
        let (layout, logs) = logs::open(&servers, cluster, data)?;
        let transport = servers.transport(&cluster.name, &cluster.node)?;
        Ok(Self { layout, logs, transport })
    }
}

/// A running node of a cluster.
pub(crate) struct ClusterNode {
    node: Arc<Node>,
    layout: Layout,
    /// The services of the partitions, in their order.
    slots: Vec<Slot>,
    common: Arc<Common>,
    connector: NodeConnector,
}

impl ClusterNode {
    /// Starts the node's threads.
    pub(crate) fn start(
        common: &Arc<Common>,
        routes: &Router<App>,
        backend: ClusterBackend,
        connector: NodeConnector,
        address: &str,
    ) -> std::io::Result<Self> {
        let ClusterBackend { layout, logs, transport } = backend;
        let config = common.config();
        let cluster = config.cluster.as_ref().expect("the service is a node of a cluster");
        let machine = Arc::new(Machine::new());
        let slots: Vec<_> = logs.iter().map(|_| Slot::default()).collect();
        let mut partitions: Vec<Partition<Owned>> = Vec::new();
        for ((number, log), slot) in (0..).zip(logs).zip(&slots) {
            let options = ReplicaOptions {
                may_create: cluster.create,
                store: store_options(config, layout.partitions()),
                ..ReplicaOptions::new(&cluster.node)
            };
            let directory = logs::directory(&config.data, &layout, number);
            if let Some(parent) = directory.parent() {
                std::fs::create_dir_all(parent)?;
            }
            let disk = Box::new(Directory::new(directory));
            let replica = Replica::new(disk, log, machine.clone(), options);
            let (common, routes) = (Arc::clone(common), routes.clone());
            let opener = ownership::opener(common, routes, slot.clone(), &layout, number);
            partitions.push(Partition::new(number, replica, opener));
        }
        let node = Node::start(&cluster.node, address, partitions, transport, machine)?;
        let node = Arc::new(node);
        let (shared, data) = (Arc::downgrade(&node), config.data.clone());
        tokio::spawn(async move { tokens::keep_sharing(shared, &data).await });
        common.set_cluster_node(&node);
        Ok(Self { node, layout, slots, common: Arc::clone(common), connector })
    }

    /// Returns the service of the node. It sends requests to the owners of their partitions, except
    /// those about the node or the cluster.
    pub(crate) fn router(&self) -> Router {
        let dispatcher = Dispatcher::new(
            Arc::clone(&self.common),
            Arc::clone(&self.node),
            self.layout.clone(),
            self.slots.clone(),
            self.connector.clone(),
        );
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

    /// Hands the partitions over and ends the threads. Blocks until that is done.
    pub(crate) fn stop(self) {
        self.node.stop();
    }
}

/// Returns the options of each store of a node. The stores share the memory and the open files that
/// one server has.
fn store_options(config: &Config, stores: u32) -> StoreOptions {
    let all = StoreOptions { cache: config.cache, ..StoreOptions::default() };
    StoreOptions {
        cache: all.cache / u64::from(stores),
        open_files: all.open_files / stores as usize,
        reserve: all.reserve / u64::from(stores),
        stores,
        ..all
    }
}

/// Returns the address under which other nodes reach this one: the configured one, or else the one
/// on which it listens.
pub(crate) fn address(config: &Config, listening: std::net::SocketAddr) -> String {
    let configured = config.cluster.as_ref().and_then(|cluster| cluster.address.clone());
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    configured.unwrap_or_else(|| format!("{scheme}://{listening}"))
}
