//! The checks of a cluster, as the node sees it that was asked.

use tickwheel_api::{Cluster, ClusterPartition, ClusterReplica, ReplicaState};
use tickwheel_server::diagnosis::{Finding, Severity};

use crate::output::text::count;

/// The lag, in records, from which a standby takes noticeably longer to take over.
const LARGE_LAG: u64 = 1_000;
/// A node whose clock differs by more owns no partition.
const MAX_CLOCK_DIFFERENCE_MS: u64 = 500;
/// Clocks that are synchronized differ by less, delays of the network included.
const CLOCK_DIFFERENCE_MS: u64 = 100;
/// A log is trimmed below what this many replicas have.
const SAFE_REPLICAS: usize = 2;

/// Checks a cluster. Returns `false` if a partition has no owner, so that its node cannot be asked
/// for more.
pub(super) fn check(cluster: &Cluster, findings: &mut Vec<Finding>) -> bool {
    let before = findings.len();
    nodes(cluster, findings);
    for partition in &cluster.partitions {
        ownership(partition, findings);
        redundancy(partition, findings);
        for it in &partition.replicas {
            replica(partition, it, findings);
        }
    }
    if findings[before..].iter().all(|finding| finding.severity < Severity::Warning) {
        let what = format!(
            "{} and {}: each partition has an owner, and no replica lags",
            count(cluster.nodes.len() as u64, "node"),
            count(cluster.partitions.len() as u64, "partition")
        );
        findings.push(Finding::new(Severity::Fine, "cluster", what));
    }
    cluster.partitions.iter().all(|partition| partition.owner.is_some())
}

fn nodes(cluster: &Cluster, findings: &mut Vec<Finding>) {
    if cluster.lazy_sync {
        let what = "lazy sync is allowed: a power failure can lose acknowledged jobs";
        let advice = "set `sync_interval: always` on all NATS servers, or name a synchronous standby \
                      in PostgreSQL, and remove `cluster_allow_lazy_sync`";
        findings.push(Finding::new(Severity::Warning, "lazy sync", what).advice(advice));
    }
    for node in &cluster.nodes {
        let difference = node.clock_difference_ms;
        if difference > CLOCK_DIFFERENCE_MS {
            let is_large = difference > MAX_CLOCK_DIFFERENCE_MS;
            let severity = if is_large { Severity::Error } else { Severity::Warning };
            let what = format!(
                "the clocks of {} and {} differ by {difference} ms; a node that differs by more than \
                 {MAX_CLOCK_DIFFERENCE_MS} ms from most others owns no partition",
                node.name, cluster.node
            );
            let advice = "synchronize them, with chrony or systemd-timesyncd";
            findings.push(Finding::new(severity, "cluster clocks", what).advice(advice));
        }
        if node.draining {
            let what =
                format!("{} is drained: it takes a partition only if no other can", node.name);
            let advice = "start it again to end that";
            findings.push(Finding::new(Severity::Note, "cluster", what).advice(advice));
        }
    }
}

fn ownership(partition: &ClusterPartition, findings: &mut Vec<Finding>) {
    if partition.owner.is_some() {
        return;
    }
    let what = format!("partition {} has no owner: its queues do not answer", partition.partition);
    let has_halted = partition.replicas.iter().any(|it| it.state == ReplicaState::Halted);
    let advice = if has_halted {
        "start all nodes, then recover it with `tickwheel cluster recover`"
    } else {
        "wait a few seconds and check again; then look at the servers of the log, and at the log of \
         each node"
    };
    findings.push(Finding::new(Severity::Error, "owner", what).advice(advice));
}

/// A partition with one replica is lost with its node: the log is trimmed.
fn redundancy(partition: &ClusterPartition, findings: &mut Vec<Finding>) {
    let is_whole =
        |it: &&ClusterReplica| matches!(it.state, ReplicaState::Owner | ReplicaState::Standby);
    let whole: Vec<_> = partition.replicas.iter().filter(is_whole).collect();
    if whole.len() < SAFE_REPLICAS {
        let where_it_is = whole.first().map_or("no node", |replica| &*replica.node);
        let what = format!(
            "partition {} is complete on {where_it_is} only: the log alone does not replace a disk",
            partition.partition
        );
        let advice = "start the other nodes";
        findings.push(Finding::new(Severity::Warning, "replicas", what).advice(advice));
    }
}

fn replica(partition: &ClusterPartition, it: &ClusterReplica, findings: &mut Vec<Finding>) {
    let (number, node) = (partition.partition, &it.node);
    let trouble = it.trouble.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    let finding = |severity, what: String, advice: &str| {
        Finding::new(severity, "replicas", what).advice(advice)
    };
    findings.push(match it.state {
        ReplicaState::Halted => finding(
            Severity::Error,
            format!("the replica of partition {number} on {node} has halted{trouble}"),
            match partition.owner {
                None => "`tickwheel cluster recover` starts again from the most advanced replica",
                Some(_) => {
                    "the partition continues on another node: if that is right, stop this node, \
                     remove its data and start it again"
                }
            },
        ),
        ReplicaState::Seeding => finding(
            Severity::Note,
            format!("the replica of partition {number} on {node} is incomplete{trouble}"),
            "it gets its rows from another node by itself",
        ),
        _ if it.lag > LARGE_LAG => finding(
            Severity::Warning,
            format!(
                "the replica of partition {number} on {node} lags: it is {} behind",
                count(it.lag, "record")
            ),
            "look at the disk and the network of this node",
        ),
        _ if it.trouble.is_some() => finding(
            Severity::Note,
            format!("the replica of partition {number} on {node}{trouble}"),
            "see the log of this node",
        ),
        _ => return,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwheel_api::ClusterNode;

    fn replica(node: &str, state: ReplicaState) -> ClusterReplica {
        ClusterReplica {
            node: node.to_owned(),
            state,
            candidate: true,
            generation: 0,
            epoch: 3,
            commit: 40,
            position: 50,
            synced: 50,
            lag: 0,
            trouble: None,
        }
    }

    /// A cluster of two nodes in which all is well.
    fn cluster() -> Cluster {
        let node = |name: &str| ClusterNode {
            name: name.to_owned(),
            address: format!("http://{name}:7300"),
            draining: false,
            clock_difference_ms: 1,
        };
        Cluster {
            name: "tickwheel".into(),
            node: "a".into(),
            lazy_sync: false,
            nodes: vec![node("a"), node("b")],
            partitions: vec![ClusterPartition {
                partition: 0,
                owner: Some("a".into()),
                generation: 0,
                epoch: 3,
                position: 50,
                replicas: vec![
                    replica("a", ReplicaState::Owner),
                    replica("b", ReplicaState::Standby),
                ],
            }],
        }
    }

    /// The most severe finding after a change.
    fn worst(change: impl FnOnce(&mut Cluster)) -> Finding {
        let (mut cluster, mut findings) = (cluster(), Vec::new());
        change(&mut cluster);
        check(&cluster, &mut findings);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        findings.swap_remove(0)
    }

    #[test]
    fn a_sound_cluster_has_nothing_wrong() {
        assert_eq!(worst(|_| {}).severity, Severity::Fine);
    }

    #[test]
    fn each_trouble_is_found() {
        let found = |change: fn(&mut Cluster), severity, text: &str| {
            let finding = worst(change);
            assert_eq!(finding.severity, severity, "{}", finding.message);
            assert!(finding.message.contains(text), "{}", finding.message);
        };
        found(|it| it.partitions[0].owner = None, Severity::Error, "no owner");
        found(|it| it.lazy_sync = true, Severity::Warning, "lazy sync");
        found(|it| it.nodes[1].clock_difference_ms = 501, Severity::Error, "clocks of b and a");
        found(|it| it.nodes[1].clock_difference_ms = 101, Severity::Warning, "clocks of b and a");
        found(|it| it.nodes[1].draining = true, Severity::Note, "drained");
        found(|it| it.partitions[0].replicas[1].lag = 1_001, Severity::Warning, "1,001 records");
        found(
            |it| it.partitions[0].replicas[1].state = ReplicaState::Halted,
            Severity::Error,
            "has halted",
        );
        found(
            |it| it.partitions[0].replicas[1].state = ReplicaState::Seeding,
            Severity::Warning,
            "complete on a only",
        );
    }
}
