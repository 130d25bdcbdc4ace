//! A cluster: its nodes, and what they do with the partitions of the queues.

use serde::{Deserialize, Serialize};

/// A cluster, as one of its nodes sees it.
///
/// ```
/// use tickwheel_api::Cluster;
/// let cluster: Cluster = serde_json::from_str(
///     r#"{"name": "tickwheel", "node": "a", "lazy_sync": false, "nodes": [], "partitions": []}"#,
/// )?;
/// assert_eq!(cluster.node, "a");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Cluster {
    /// The name of the cluster.
    pub name: String,
    /// The node that answers.
    pub node: String,
    /// Whether this node accepts a log that acknowledges records before they are synced.
    pub lazy_sync: bool,
    /// The nodes that are alive, by name.
    pub nodes: Vec<ClusterNode>,
    /// The partitions, by number.
    pub partitions: Vec<ClusterPartition>,
}

/// A node that is alive.
///
/// ```
/// use tickwheel_api::ClusterNode;
/// let node: ClusterNode = serde_json::from_str(
///     r#"{"name": "a", "address": "http://10.0.0.1:7300", "draining": false,
///         "clock_difference_ms": 3}"#,
/// )?;
/// assert!(node.clock_difference_ms < 500);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// Where other nodes reach it.
    pub address: String,
    /// Whether it gives its partitions away, until it is started again.
    pub draining: bool,
    /// How much its clock differs from that of the node that answers, in milliseconds.
    pub clock_difference_ms: u64,
}

/// A partition: queues that share a log.
///
/// ```
/// use tickwheel_api::ClusterPartition;
/// let partition: ClusterPartition = serde_json::from_str(
///     r#"{"partition": 0, "owner": null, "generation": 0, "epoch": 3, "position": 70,
///         "replicas": []}"#,
/// )?;
/// assert_eq!(partition.owner, None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClusterPartition {
    /// Its number.
    pub partition: u32,
    /// The node that owns it; `null` if there is none now.
    pub owner: Option<String>,
    /// The generation, which recovery from a loss of the log increments.
    pub generation: u64,
    /// The epoch, which each takeover increments.
    pub epoch: u64,
    /// The last position of the log that any replica has applied.
    pub position: u64,
    /// Its replicas, by node.
    pub replicas: Vec<ClusterReplica>,
}

/// A node's copy of a partition.
///
/// ```
/// use tickwheel_api::{ClusterReplica, ReplicaState};
/// let replica: ClusterReplica = serde_json::from_str(
///     r#"{"node": "b", "state": "standby", "candidate": true, "generation": 0, "epoch": 3,
///         "commit": 60, "position": 68, "synced": 50, "lag": 2}"#,
/// )?;
/// assert_eq!((replica.state, replica.lag), (ReplicaState::Standby, 2));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClusterReplica {
    /// The node.
    pub node: String,
    /// What it does.
    pub state: ReplicaState,
    /// Whether it could own the partition: it is complete, and its node's clock is right.
    pub candidate: bool,
    /// The last generation that it has applied.
    pub generation: u64,
    /// The last epoch that it has applied.
    pub epoch: u64,
    /// The last group of rows that it has applied.
    pub commit: u64,
    /// The last position of the log that it has applied.
    pub position: u64,
    /// The last position that is durable on its disk.
    pub synced: u64,
    /// How many records it is behind the most advanced replica.
    pub lag: u64,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub trouble: Option<String>,
}

/// What a node does with a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub enum ReplicaState {
    /// It owns the partition.
    Owner,
    /// It follows the log.
    Standby,
    /// It gets its rows from another node.
    Seeding,
    /// It contradicts the log, and waits for an operator.
    Halted,
}

impl ReplicaState {
    /// Returns the state as an answer writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Standby => "standby",
            Self::Seeding => "seeding",
            Self::Halted => "halted",
        }
    }
}

/// Moves a partition to a node.
///
/// ```
/// use tickwheel_api::MoveRequest;
/// let request: MoveRequest = serde_json::from_str(r#"{"partition": 0, "to": "node-2"}"#)?;
/// assert_eq!(request.to, "node-2");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MoveRequest {
    /// The partition.
    pub partition: u32,
    /// The node that takes it over.
    pub to: String,
}

/// Moves all partitions off a node.
///
/// ```
/// use tickwheel_api::DrainRequest;
/// let request: DrainRequest = serde_json::from_str(r#"{"node": "node-2"}"#)?;
/// assert_eq!(request.node, "node-2");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DrainRequest {
    /// The node.
    pub node: String,
}

/// Starts a new generation of a partition whose log lost records.
///
/// ```
/// use tickwheel_api::RecoverRequest;
/// let request: RecoverRequest = serde_json::from_str(r#"{"partition": 0, "from": "node-2"}"#)?;
/// assert_eq!(request.from, "node-2");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecoverRequest {
    /// The partition.
    pub partition: u32,
    /// The node whose replica is the new truth. It must have halted.
    pub from: String,
}
