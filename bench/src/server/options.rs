//! The command line of `server`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use super::plan::Plan;
use super::program;
use super::system::System;
use super::workload::Workload;
use crate::names::name;
use crate::queue::peers::Peer;
use crate::queue::servers;
use crate::report::destinations::Files;

const EXAMPLE: &str = "\
Examples: everything once and small; one workload of ours alone; the run whose results are kept
  cargo xtask bench server --quick
  cargo xtask bench server --peers none --workload put-batch --rounds 1
  cargo xtask bench server --save

The service is built from this repository, as `cargo build --release` builds it. The peers' servers
are installed by themselves with apt-get: Debian's redis-server, postgresql and beanstalkd. Each run
has its own, on a free port of loopback, and stops it.";

/// Where data is kept if nobody says otherwise: on the disk that the project is on.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/server");

/// Compares the service with the queue in it and with peers, and says which goals are reached.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Options {
    /// How often everything is run; pending only once [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,

    /// Only these peers, or none; the service and the embedded queue always run
    #[arg(long, value_name = "PEER,...", value_delimiter = ',')]
    peers: Vec<Peer>,

    /// Only these workloads
    #[arg(long, value_name = "WORKLOAD,...", value_delimiter = ',')]
    workload: Vec<Workload>,

    /// Everything once and small: does it all still work?
    #[arg(long, conflicts_with = "save")]
    quick: bool,

    /// Where all keep their data while they run [default: bench/target/server]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// Measure this binary of the service instead of building one
    #[arg(long, value_name = "FILE", conflicts_with = "save")]
    binary: Option<PathBuf>,

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
        let wanted =
            |workload: &Workload| self.workload.is_empty() || self.workload.contains(workload);
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

    /// The binary to measure, built unless one was given.
    pub(super) fn program(&self) -> Result<PathBuf> {
        let Some(binary) = &self.binary else { return program::build() };
        binary.canonicalize().with_context(|| format!("there is no binary {}", binary.display()))
    }

    /// What a system is told to do.
    pub(super) fn plan(&self, system: System, workload: Workload, binary: &Path) -> Plan {
        let (time_ms, jobs) = match (self.quick, workload) {
            (true, _) => (200, 4_000),
            (false, Workload::Put | Workload::PutBatch) => (2_000, 0),
            (false, Workload::Lateness) => (4_000, 0),
            (false, Workload::Pending) => (10_000, 1_000_000),
        };
        let folder = self.folder().join(name(&system));
        Plan { workload, time_ms, jobs, folder, binary: binary.to_owned() }
    }

    /// Whether the numbers are those that the goals are stated for.
    pub(super) fn is_quick(&self) -> bool {
        self.quick
    }
}
