//! `cluster`: the nodes of a cluster and their partitions.

use std::time::Duration;

use serde::Serialize;
use tickwheel_api::{
    Cluster, ClusterPartition, ClusterReplica, DrainRequest, MoveRequest, RecoverRequest,
    ReplicaState,
};
use ureq::http::Method;

use super::Context;
use crate::args::{ClusterCommand, RecoverArgs};
use crate::client::{Answer, Extra, Path};
use crate::failure::Failure;
use crate::output::{self, text};

/// How long the server may take to move partitions, beyond the usual.
const MOVE_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn run(context: &Context, command: ClusterCommand) -> Result<(), Failure> {
    let output = context.output;
    match command {
        ClusterCommand::Status => {
            let answer = context.client.get(&Path::new(&["cluster"]))?;
            output.answer(&answer, |cluster: &Cluster| output::cluster::status(output, cluster))
        }
        ClusterCommand::Move { partition, node } => {
            let answer = ask(context, "move", &MoveRequest { partition, to: node.clone() })?;
            output.answer(&answer, |_: &Cluster| {
                output.line(format!("{} owns partition {partition}", text::safe(&node)))
            })
        }
        ClusterCommand::Drain { node } => {
            let answer = ask(context, "drain", &DrainRequest { node: node.clone() })?;
            output.answer(&answer, |_: &Cluster| {
                output.line(format!("{} owns no partition", text::safe(&node)))
            })
        }
        ClusterCommand::Recover(args) => recover(context, &args),
    }
}

fn ask(context: &Context, what: &str, request: &impl Serialize) -> Result<Answer, Failure> {
    let extra = Extra { wait: MOVE_TIMEOUT, ..Extra::default() };
    context.client.call(Method::POST, &Path::new(&["cluster", what]), Some(request), &extra)
}

/// Shows what would happen, asks, and recovers one partition after the other.
fn recover(context: &Context, args: &RecoverArgs) -> Result<(), Failure> {
    let output = context.output;
    let cluster: Cluster = context.client.get(&Path::new(&["cluster"]))?.read()?;
    let mut plan = Vec::new();
    for partition in chosen(&cluster, &args.partitions)? {
        plan.push((partition, source(partition, args.from.as_deref())?));
    }
    if plan.is_empty() {
        let why = "no partition has halted without an owner: there is nothing to recover";
        return Err(Failure::Other(why.to_owned()));
    }
    if !output.json {
        output::cluster::plan(output, &plan)?;
    }
    let what = "this deletes what is left of the log of these partitions";
    if !args.yes && !output.is_confirmed(what)? {
        output.remark("nothing was changed");
        return Ok(());
    }
    for (partition, replica) in plan {
        let number = partition.partition;
        let request = RecoverRequest { partition: number, from: replica.node.clone() };
        let answer = ask(context, "recover", &request)?;
        output.answer(&answer, |cluster: &Cluster| {
            let now = cluster.partitions.iter().find(|other| other.partition == number);
            let generation = now.map_or(0, |now| now.generation);
            output.line(format!("partition {number}: generation {generation} has started"))
        })?;
    }
    Ok(())
}

/// The named partitions; all that have halted and have no owner, if none is named.
fn chosen<'a>(cluster: &'a Cluster, named: &[u32]) -> Result<Vec<&'a ClusterPartition>, Failure> {
    let all = &cluster.partitions;
    if named.is_empty() {
        let is_lost = |partition: &&ClusterPartition| {
            partition.owner.is_none()
                && partition.replicas.iter().any(|it| it.state == ReplicaState::Halted)
        };
        return Ok(all.iter().filter(is_lost).collect());
    }
    let find = |number: &u32| {
        let found = all.iter().find(|partition| partition.partition == *number);
        found.ok_or_else(|| Failure::NotFound(format!("there is no partition {number}")))
    };
    named.iter().map(find).collect()
}

/// The replica to recover from: that of the named node, or the most advanced one.
fn source<'a>(
    partition: &'a ClusterPartition,
    from: Option<&str>,
) -> Result<&'a ClusterReplica, Failure> {
    let number = partition.partition;
    let mut replicas = partition.replicas.iter();
    let found = match from {
        Some(node) => replicas.find(|replica| replica.node == node),
        None => replicas.max_by_key(|it| (it.generation, it.commit, it.position)),
    };
    let Some(replica) = found else {
        let from = from.unwrap_or("any node");
        let why = format!("no replica of partition {number} is alive on {}", text::safe(from));
        return Err(Failure::NotFound(why));
    };
    if replica.state != ReplicaState::Halted {
        return Err(Failure::Other(format!(
            "the replica of partition {number} on {} has not halted: there is nothing to recover \
             from",
            text::safe(&replica.node)
        )));
    }
    Ok(replica)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(node: &str, state: ReplicaState, commit: u64) -> ClusterReplica {
        ClusterReplica {
            node: node.to_owned(),
            state,
            candidate: false,
            generation: 0,
            epoch: 1,
            commit,
            position: commit,
            synced: commit,
            lag: 0,
            trouble: None,
        }
    }

    fn partition(replicas: Vec<ClusterReplica>) -> ClusterPartition {
        let owner = None;
        ClusterPartition { partition: 0, owner, generation: 0, epoch: 1, position: 9, replicas }
    }

    #[test]
    fn the_most_advanced_replica_is_chosen() {
        let halted = ReplicaState::Halted;
        let partition = partition(vec![replica("a", halted, 7), replica("b", halted, 9)]);
        assert_eq!(source(&partition, None).unwrap().node, "b");
        assert_eq!(source(&partition, Some("a")).unwrap().node, "a");
        assert!(matches!(source(&partition, Some("c")), Err(Failure::NotFound(_))));
    }

    #[test]
    fn a_replica_that_has_not_halted_is_refused() {
        let standby = replica("a", ReplicaState::Standby, 9);
        let partition = partition(vec![standby, replica("b", ReplicaState::Halted, 7)]);
        let refused = source(&partition, None).unwrap_err().to_string();
        assert!(refused.contains("has not halted"), "{refused}");
    }
}
