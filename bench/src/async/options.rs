//! The command line of `async`.

use clap::{Args, ValueEnum};

use super::system::System;
use super::workload::Workload;
use crate::report::destinations::Files;
use crate::report::numbers::parse_count;
use crate::work::{SEED, Size};

const EXAMPLE: &str = "\
Examples: everything once and small; two peers at two workloads; the run whose results are kept
  cargo xtask bench async --quick
  cargo xtask bench async --peers tokio,async-io --workload timeout,fire --rounds 1
  cargo xtask bench async --save";

/// More would need more memory and time than tell anything new.
const MOST_TIMERS: usize = 4_000_000;
const TIMERS: usize = 1_000_000;
const QUICK_TIMERS: usize = 20_000;

/// Compares futures on the timer with those of the runtimes and says which goals are reached.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Options {
    /// How many timers; k and m stand for thousands and millions [default: 1m]
    #[arg(long, value_name = "N", value_parser = |text: &str| parse_count(text, MOST_TIMERS))]
    timers: Option<usize>,

    /// How often everything is run [default: 5; 3 of what takes seconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,

    /// Only these peers, or none; our own futures always run
    #[arg(long, value_name = "PEER,...", value_delimiter = ',')]
    peers: Vec<Peer>,

    /// Only these workloads
    #[arg(long, value_name = "WORKLOAD,...", value_delimiter = ',')]
    workload: Vec<Workload>,

    /// Everything once with 20k timers and little waiting: does it all still work?
    #[arg(long, conflicts_with = "save")]
    quick: bool,

    #[command(flatten)]
    pub(super) files: Files,
}

/// A peer as the command line names it.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peer {
    Tokio,
    AsyncIo,
    FuturesTimer,
    /// Our own futures alone
    None,
}

impl Peer {
    fn is(self, system: System) -> bool {
        match self {
            Self::Tokio => system == System::Tokio,
            Self::AsyncIo => system == System::AsyncIo,
            Self::FuturesTimer => system == System::FuturesTimer,
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

    pub(super) fn systems(&self, workload: Workload) -> Vec<System> {
        let wanted = |system: System| {
            matches!(system, System::Tickwheel | System::Bare)
                || self.peers.is_empty()
                || self.peers.iter().any(|peer| peer.is(system))
        };
        System::ALL.into_iter().filter(|&s| wanted(s) && s.does(workload)).collect()
    }

    pub(super) fn workloads(&self) -> Vec<Workload> {
        let wanted =
            |workload: &Workload| self.workload.is_empty() || self.workload.contains(workload);
        Workload::ALL.into_iter().filter(wanted).collect()
    }

    /// What each system is told to do.
    pub(super) fn size(&self, workload: Workload) -> Size {
        let timers = self.timers();
        let (lead_ms, span_ms) = match (self.quick, workload) {
            (true, _) => (500, 500),
            (false, Workload::Interval) => (100, 2_000),
            // The slowest takes two to three seconds until a million tasks wait.
            _ => (1_000 + 4_000 * timers.div_ceil(TIMERS) as u64, 3_000),
        };
        Size { timers, seed: SEED, moves: timers, lead_ms, span_ms }
    }
}
