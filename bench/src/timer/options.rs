//! The command line of `timer`.

use clap::{Args, ValueEnum};

use super::plan::Plan;
use super::system::System;
use super::workload::Workload;
use crate::report::destinations::Files;
use crate::report::numbers::parse_count;
use crate::work::{SEED, Size};

const EXAMPLE: &str = "\
Examples: everything once and small; our timer against two others; the run whose results are kept
  cargo xtask bench timer --quick
  cargo xtask bench timer --peers netty,tokio --workload schedule,churn --rounds 1
  cargo xtask bench timer --save

What the peers need is installed by itself: Debian's libnetty-java and default-jdk-headless with
apt-get, and a Go toolchain from PyPI into bench/target.";

/// More would need more memory and time than tell anything new.
const MOST_TIMERS: usize = 4_000_000;
const TIMERS: usize = 1_000_000;
const QUICK_TIMERS: usize = 20_000;
/// Pauses grow with the number of timers, so they are measured with more of them.
const PAUSE_TIMES: usize = 10;

/// Compares the timer with its peers and says which goals are reached.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Options {
    /// How many timers; k and m stand for thousands and millions [default: 1m]
    #[arg(long, value_name = "N", value_parser = |text: &str| parse_count(text, MOST_TIMERS))]
    timers: Option<usize>,

    /// How often everything is run [default: 5; 3 for those that take long]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,

    /// Only these peers, or none; our own timer always runs
    #[arg(long, value_name = "PEER,...", value_delimiter = ',')]
    peers: Vec<Peer>,

    /// Only these workloads
    #[arg(long, value_name = "WORKLOAD,...", value_delimiter = ',')]
    workload: Vec<Workload>,

    /// Everything once with 20k timers and little waiting: does it all still work?
    #[arg(long, conflicts_with = "save")]
    quick: bool,

    /// Give every Rust program and the JVM huge pages (glibc 2.35 or later)
    #[arg(long)]
    pub(super) huge_pages: bool,

    #[command(flatten)]
    pub(super) files: Files,
}

/// A peer as the command line names it.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peer {
    Netty,
    Jdk,
    Go,
    Tokio,
    AsyncIo,
    /// Our own timer alone
    None,
}

impl Peer {
    fn is(self, system: System) -> bool {
        match self {
            Self::Netty => matches!(system, System::Netty | System::NettyParallel),
            Self::Jdk => system == System::Jdk,
            Self::Go => system == System::Go,
            Self::Tokio => system == System::Tokio,
            Self::AsyncIo => system == System::AsyncIo,
            Self::None => false,
        }
    }
}

impl Options {
    pub(super) fn timers(&self) -> usize {
        self.timers.unwrap_or(if self.quick { QUICK_TIMERS } else { TIMERS })
    }

    /// How often a workload is run.
    pub(super) fn rounds(&self, workload: Workload) -> u32 {
        let usual = match (self.quick, workload.is_long()) {
            (true, _) => 1,
            (false, true) => 3,
            (false, false) => 5,
        };
        self.rounds.unwrap_or(usual)
    }

    pub(super) fn systems(&self) -> Vec<System> {
        let wanted = |system: &System| {
            system.is_ours()
                || self.peers.is_empty()
                || self.peers.iter().any(|peer| peer.is(*system))
        };
        System::ALL.into_iter().filter(wanted).collect()
    }

    pub(super) fn workloads(&self) -> Vec<Workload> {
        let wanted =
            |workload: &Workload| self.workload.is_empty() || self.workload.contains(workload);
        Workload::ALL.into_iter().filter(wanted).collect()
    }

    /// What each system is told to do.
    pub(super) fn plan(&self, workload: Workload) -> Plan {
        let factor = if workload == Workload::Pause { PAUSE_TIMES } else { 1 };
        let timers = factor * self.timers();
        let lead_ms = match (self.quick, workload) {
            (true, _) | (_, Workload::Blocked) => 500,
            // The slowest takes less than two seconds for a million.
            _ => 2_000 + 2_000 * timers.div_ceil(TIMERS) as u64,
        };
        Plan {
            workload,
            size: Size {
                timers,
                seed: SEED,
                moves: 5 * timers,
                lead_ms,
                span_ms: if self.quick { 1_000 } else { 5_000 },
            },
            idle_ms: if self.quick { 500 } else { 3_000 },
        }
    }
}
