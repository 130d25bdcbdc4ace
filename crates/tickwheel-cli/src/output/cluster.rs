//! A cluster, for people.

use tickwheel_api::{Cluster, ClusterPartition, ClusterReplica, ReplicaState};

use super::Output;
use super::style::Style;
use super::table::{Cell, Table};
use super::text::{grouped, safe};
use crate::failure::Failure;

fn state_cell(state: ReplicaState) -> Cell {
    let style = match state {
        ReplicaState::Owner => Style::Good,
        ReplicaState::Seeding => Style::Warning,
        ReplicaState::Halted => Style::Bad,
        _ => Style::Faint,
    };
    Cell::new(state.as_str()).style(style)
}

fn owner_cell(owner: Option<&String>) -> Cell {
    match owner {
        Some(owner) => safe(owner).into(),
        None => Cell::new("none").style(Style::Bad),
    }
}

/// The nodes, then the partitions with their replicas.
pub(crate) fn status(output: &Output, cluster: &Cluster) -> Result<(), Failure> {
    let mut table = Table::new(["node", "address", "owns", "clock", "remark"]);
    for node in &cluster.nodes {
        let is_own = |it: &&ClusterPartition| it.owner.as_ref() == Some(&node.name);
        let owned = cluster.partitions.iter().filter(is_own).count();
        table.row([
            safe(&node.name).into(),
            safe(&node.address).into(),
            Cell::number(owned as u64),
            Cell::new(format!("±{} ms", grouped(node.clock_difference_ms))).right_aligned(),
            if node.draining { "draining" } else { "" }.into(),
        ]);
    }
    output.table(&table)?;
    output.line("")?;
    let mut table =
        Table::new(["partition", "owner", "epoch", "node", "state", "position", "lag", "trouble"]);
    for partition in &cluster.partitions {
        for (index, replica) in partition.replicas.iter().enumerate() {
            let is_first = index == 0;
            let owner = if is_first { owner_cell(partition.owner.as_ref()) } else { "".into() };
            table.row([
                if is_first { partition.partition.to_string() } else { String::new() }.into(),
                owner,
                if is_first { grouped(partition.epoch) } else { String::new() }.into(),
                safe(&replica.node).into(),
                state_cell(replica.state),
                Cell::number(replica.position),
                Cell::number(replica.lag),
                safe(replica.trouble.as_deref().unwrap_or_default()).into(),
            ]);
        }
    }
    output.table(&table)
}

/// What recovering would do.
pub(crate) fn plan(
    output: &Output,
    plan: &[(&ClusterPartition, &ClusterReplica)],
) -> Result<(), Failure> {
    let mut table = Table::new(["partition", "node", "state", "generation", "commit", ""]);
    for (partition, chosen) in plan {
        for replica in &partition.replicas {
            let is_chosen = replica.node == chosen.node;
            table.row([
                Cell::new(partition.partition.to_string()),
                safe(&replica.node).into(),
                state_cell(replica.state),
                Cell::number(replica.generation),
                Cell::number(replica.commit),
                if is_chosen { Cell::new("becomes the truth") } else { "".into() },
            ]);
        }
    }
    output.table(&table)
}
