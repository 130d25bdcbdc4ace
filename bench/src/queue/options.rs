//! The command line of `queue`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::peers::Peer;
use super::plan::Plan;
use super::servers;
use super::system::System;
use super::workload::Workload;
use crate::names::name;
use crate::report::destinations::Files;

const EXAMPLE: &str = "\
Examples: everything once and small; two workloads against one peer; the run whose results are kept
  cargo xtask bench queue --quick
  cargo xtask bench queue --peers redis --workload put,end-to-end --rounds 1
  cargo xtask bench queue --full --save

The peers' servers are installed by themselves with apt-get: Debian's redis-server, postgresql and
beanstalkd. Each run has its own, on a free port of loopback, and stops it.";

/// Where data is kept if nobody says otherwise: on the disk that the project is on.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/queue");

/// Compares the durable queue with its peers and says which goals are reached.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Options {
    /// How often everything is run; pending only once [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,

    /// Only these peers, or none; our own queue always runs
    #[arg(long, value_name = "PEER,...", value_delimiter = ',')]
    peers: Vec<Peer>,

    /// Only these workloads
    #[arg(long, value_name = "WORKLOAD,...", value_delimiter = ',')]
    workload: Vec<Workload>,

    /// Everything once and small: does it all still work?
    #[arg(long, conflicts_with = "save")]
    quick: bool,

    /// Also ten million pending jobs of our own, which takes about three minutes and 5 GB of disk
    #[arg(long)]
    full: bool,

    /// Where all queues keep their data while they run [default: bench/target/queue]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,

    #[command(flatten)]
    pub(super) files: Files,
}

impl Options {
    /// How often a workload is run.
    pub(super) fn rounds(&self, workload: Workload) -> u32 {
        if self.quick || workload.is_long() { 1 } else { self.rounds.unwrap_or(3) }
    }

    pub(super) fn systems(&self) -> Vec<System> {
        let wanted = |system: &System| {
            let Some(peer) = system.peer() else { return true };
            self.peers.is_empty() || self.peers.contains(&peer)
        };
        System::ALL.into_iter().filter(wanted).collect()
    }

    pub(super) fn workloads(&self) -> Vec<Workload> {
        let wanted = |workload: &Workload| {
            if self.workload.is_empty() {
                self.full || *workload != Workload::PendingMany
            } else {
                self.workload.contains(workload)
            }
        };
        Workload::ALL.into_iter().filter(wanted).collect()
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.as_deref().unwrap_or(Path::new(FOLDER))
    }

    /// All folders that hold data while they run.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let runs = self.systems().into_iter().map(|system| self.folder().join(name(&system)));
        runs.chain([servers::template(self.folder())]).collect()
    }

    /// What a system is told to do.
    pub(super) fn plan(&self, system: System, workload: Workload) -> Plan {
        let (time_ms, jobs) = match (self.quick, workload) {
            (true, Workload::PendingMany) => (200, 40_000),
            (true, _) => (200, 4_000),
            (false, Workload::EndToEnd | Workload::Lateness) => (3_000, 0),
            (false, Workload::Pending) => (0, 1_000_000),
            (false, Workload::PendingMany) => (0, 10_000_000),
            (false, Workload::Put | Workload::PutBatch | Workload::Cancel) => (1_000, 10_000),
        };
        Plan { workload, time_ms, jobs, folder: self.folder().join(name(&system)) }
    }

    /// Whether the numbers are those that the goals are stated for.
    pub(super) fn is_quick(&self) -> bool {
        self.quick
    }
}
