//! The commands about a cluster.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  tickwheel cluster status                           nodes, partitions, owners and lag
  tickwheel cluster move 0 node-2
  tickwheel cluster drain node-1                     before node-1 is stopped for longer

Any node of the cluster answers. All but `status` need a token with the scope admin.")]
pub(crate) enum ClusterCommand {
    /// Show the nodes that are alive, and what they do with the partitions
    #[command(after_help = "\
Examples:
  tickwheel cluster status
  tickwheel cluster status --json | jq '.partitions[] | {partition, owner, epoch}'

Lag is the number of records that a replica is behind the most advanced one.")]
    Status,
    /// Move a partition to a node: its owner hands it over, and that node takes it over
    #[command(after_help = "Example:\n  tickwheel cluster move 0 node-2")]
    Move {
        /// The number of the partition
        partition: u32,
        /// The node that shall own it
        node: String,
    },
    /// Move all partitions off a node; until it is started again, it takes none that others can
    #[command(after_help = "Example:\n  tickwheel cluster drain node-1")]
    Drain {
        /// The node
        node: String,
    },
    /// Start again from the most advanced replica, after the log lost records
    Recover(RecoverArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tickwheel cluster recover                          every partition that has halted
  tickwheel cluster recover 0 --from node-2 --yes

A replica that has applied records which the log does not contain halts: the log has lost something.
Start all nodes first, so that the most advanced replica is among them. Recovering deletes what is
left of the log, and starts a new generation from that replica. What the log had acknowledged and no
replica has is lost. docs/guides/cluster.md says more.")]
pub(crate) struct RecoverArgs {
    /// The partitions; all that have halted, if none is named
    #[arg(value_name = "PARTITION")]
    pub(crate) partitions: Vec<u32>,
    /// The node whose replica becomes the truth; that with the most advanced one, if none is named
    #[arg(long, value_name = "NODE")]
    pub(crate) from: Option<String>,
    /// Recover without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
}
