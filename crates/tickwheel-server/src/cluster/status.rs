//! `/v1/cluster`: what the nodes know of each other.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use tickwheel_cluster::{Condition, Heartbeat, Node, ReplicaBeat};

use super::dispatch::Dispatcher;
use crate::api::{Cluster, ClusterNode, ClusterPartition, ClusterReplica, ReplicaState};
use crate::config;
use crate::problem::Failure;
use crate::tokens::Scope;

/// Returns the nodes that are alive, and what they do with the partitions.
pub(super) async fn get(
    State(dispatcher): State<Arc<Dispatcher>>,
    headers: HeaderMap,
) -> Result<Json<Cluster>, Failure> {
    dispatcher.common.gate().admit(&headers)?.has(Scope::Read)?;
    Ok(Json(dispatcher.describe()))
}

/// Says that the node runs, owner or not.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

impl Dispatcher {
    /// Describes the cluster as this node sees it.
    pub(super) fn describe(&self) -> Cluster {
        let config = self.common.config().cluster.as_ref();
        describe(&self.node, config.expect("the service is a node of a cluster"))
    }
}

/// Describes a cluster as one of its nodes sees it.
pub(crate) fn describe(node: &Node, config: &config::Cluster) -> Cluster {
    let mut beats = node.nodes();
    beats.sort_by(|a, b| a.node.cmp(&b.node));
    let differences = node.clock_differences_ms();
    let nodes = beats.iter().map(|beat| ClusterNode {
        name: beat.node.clone(),
        address: beat.address.clone(),
        draining: beat.is_draining,
        clock_difference_ms: differences.get(&beat.node).copied().unwrap_or_default(),
    });
    let numbers: BTreeSet<u32> =
        beats.iter().flat_map(|beat| beat.replicas.keys().copied()).collect();
    let owner = |number| node.owner(number).map(|owner| owner.node);
    Cluster {
        name: config.name.clone(),
        node: node.name().to_owned(),
        lazy_sync: config.allow_lazy_sync,
        nodes: nodes.collect(),
        partitions: numbers.into_iter().map(|it| partition(it, owner(it), &beats)).collect(),
    }
}

fn partition(number: u32, owner: Option<String>, beats: &[Heartbeat]) -> ClusterPartition {
    let replicas: Vec<_> =
        beats.iter().filter_map(|beat| Some((beat, beat.replicas.get(&number)?))).collect();
    let end = replicas.iter().map(|(_, it)| (it.generation, it.position)).max();
    let (generation, position) = end.unwrap_or_default();
    let epoch = replicas.iter().map(|(_, it)| it.epoch).max().unwrap_or_default();
    let position = position.0;
    let replica = |(beat, replica): &(&Heartbeat, &ReplicaBeat)| ClusterReplica {
        node: beat.node.clone(),
        state: match replica {
            ReplicaBeat { is_owner: true, .. } => ReplicaState::Owner,
            ReplicaBeat { condition: Condition::Halted, .. } => ReplicaState::Halted,
            ReplicaBeat { condition: Condition::Seeding, .. } => ReplicaState::Seeding,
            _ => ReplicaState::Standby,
        },
        candidate: replica.is_candidate,
        generation: replica.generation,
        epoch: replica.epoch,
        commit: replica.commit,
        position: replica.position.0,
        synced: replica.synced.0,
        lag: if replica.generation == generation {
            position.saturating_sub(replica.position.0)
        } else {
            // Positions of another generation cannot be compared.
            position
        },
        trouble: replica.trouble.clone(),
    };
    let replicas = replicas.iter().map(replica).collect();
    ClusterPartition { partition: number, owner, generation, epoch, position, replicas }
}
