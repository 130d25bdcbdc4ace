//! Three NATS servers and three nodes on loopback, all with data in one folder.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tickwheel_test_servers::free_port;
use tickwheel_test_servers::nats::NatsCluster;
use tickwheel_test_servers::node::Node;

use super::PARTITIONS_OPTION;
use crate::queue::servers::process::processor_time;
use crate::server::http::Connection;
use crate::server::ours::Service;

const NAMES: [&str; 3] = ["a", "b", "c"];
/// How long the cluster may take until all replicas have caught up.
const PATIENCE: Duration = Duration::from_mins(2);
const STEP: Duration = Duration::from_millis(20);

/// A running cluster.
pub(super) struct Cluster {
    pub(super) nats: NatsCluster,
    pub(super) nodes: Vec<Node>,
}

/// The part of `/v1/cluster` that matters here.
#[derive(Deserialize)]
struct Status {
    partitions: Vec<PartitionStatus>,
}

#[derive(Deserialize)]
struct PartitionStatus {
    owner: Option<String>,
    replicas: Vec<ReplicaStatus>,
}

#[derive(Deserialize)]
struct ReplicaStatus {
    lag: u64,
    candidate: bool,
}

impl Status {
    fn read(node: &Node) -> Result<Self> {
        let mut connection = Connection::open(node.port)?;
        let answer = connection.ask("GET", "/v1/cluster", b"")?.expect(200)?;
        serde_json::from_slice(answer.body).context("the status of the cluster cannot be read")
    }
}

impl PartitionStatus {
    fn is_at_rest(&self) -> bool {
        let has_caught_up = |replica: &ReplicaStatus| replica.lag == 0 && replica.candidate;
        self.owner.is_some()
            && self.replicas.len() == NAMES.len()
            && self.replicas.iter().all(has_caught_up)
    }
}

impl Cluster {
    /// Starts a cluster and waits until all nodes follow the owners. Without a number of partitions,
    /// the binary has no option for it, and one partition.
    pub(super) fn start(binary: &Path, folder: &Path, partitions: Option<u64>) -> Result<Self> {
        let nats = NatsCluster::start(&folder.join("nats"), NAMES.len())?;
        let mut options = nats.node_options().to_vec();
        options.push("--access-log=errors".to_owned());
        // All connections come from one address, which would be limited.
        options.push("--limits-rate=0".to_owned());
        options.extend(partitions.map(|number| format!("{PARTITIONS_OPTION}={number}")));
        let mut nodes = Vec::new();
        for name in NAMES {
            // One after the other: the first one creates the cluster.
            let mut node = Node::start(binary, folder, name, free_port()?, &options, "KILL")?;
            await_status(&mut node)?;
            nodes.push(node);
        }
        let cluster = Self { nats, nodes };
        cluster.await_rest()?;
        Ok(cluster)
    }

    /// Returns a client whose callers use the owner of the first partition.
    pub(super) fn at_owner(&self) -> Result<Service> {
        let owner = self.await_rest()?;
        Ok(Service::of_nodes(vec![self.nodes[owner].port], 1))
    }

    /// Returns a client whose callers use all nodes in turn, and this many queues in turn.
    pub(super) fn at_any_node(&self, queues: usize) -> Service {
        Service::of_nodes(self.nodes.iter().map(|node| node.port).collect(), queues)
    }

    /// Waits until all nodes know the same owners, and all replicas have caught up and may take
    /// over. Returns the index of the node that owns the first partition.
    pub(super) fn await_rest(&self) -> Result<usize> {
        let asked = Instant::now();
        loop {
            let found: Result<Vec<Status>> = self.nodes.iter().map(Status::read).collect();
            if let Some(owner) = found.ok().and_then(|all| owner_at_rest(&all)) {
                return Ok(owner);
            }
            ensure!(asked.elapsed() < PATIENCE, "the cluster does not come to rest");
            sleep(STEP);
        }
    }

    /// Returns the processor time of the NATS servers together, and of each node.
    pub(super) fn processor_times(&self) -> Result<(Duration, Vec<Duration>)> {
        let nodes = self.nodes.iter().map(|node| processor_time(node.process().id()));
        Ok((nats_processor_time(&self.nats)?, nodes.collect::<Result<_>>()?))
    }
}

/// Waits until a node answers.
fn await_status(node: &mut Node) -> Result<()> {
    node.await_port()?;
    while Status::read(node).is_err() {
        ensure!(node.is_running(), "a node has ended; its log is {}", node.log().display());
        sleep(STEP);
    }
    Ok(())
}

/// Returns the processor time of NATS servers together.
pub(super) fn nats_processor_time(nats: &NatsCluster) -> Result<Duration> {
    nats.servers.iter().map(|server| processor_time(server.process().id())).sum()
}

/// Returns the owner of the first partition, if all nodes see the same and all replicas are ready.
fn owner_at_rest(all: &[Status]) -> Option<usize> {
    let first = all.first()?.partitions.first()?.owner.as_deref()?;
    let agrees = |status: &Status| {
        status.partitions.iter().all(PartitionStatus::is_at_rest)
            && status.partitions.first().is_some_and(|it| it.owner.as_deref() == Some(first))
    };
    if !all.iter().all(agrees) {
        return None;
    }
    NAMES.iter().position(|name| *name == first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(owner: &str, lag: u64) -> Status {
        let replica = |lag| ReplicaStatus { lag, candidate: true };
        let replicas = vec![replica(0), replica(0), replica(lag)];
        Status { partitions: vec![PartitionStatus { owner: Some(owner.to_owned()), replicas }] }
    }

    #[test]
    fn a_cluster_is_at_rest_when_all_nodes_agree_and_no_replica_lags() {
        assert_eq!(owner_at_rest(&[status("b", 0), status("b", 0)]), Some(1));
        assert_eq!(owner_at_rest(&[status("b", 0), status("b", 1)]), None);
        assert_eq!(owner_at_rest(&[status("b", 0), status("a", 0)]), None);
        assert_eq!(owner_at_rest(&[Status { partitions: Vec::new() }]), None);
    }
}
