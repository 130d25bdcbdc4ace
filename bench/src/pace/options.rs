//! The command line of `pace`.

use clap::Args;

use super::figure::{System, Workload};
use crate::report::destinations::Files;
use crate::report::numbers::parse_count;

const EXAMPLE: &str = "\
Examples: everything once and small; a look at two workloads; the run whose results are kept
  cargo xtask bench pace --quick
  cargo xtask bench pace --rounds 1 --workload start,check
  cargo xtask bench pace --save";

const MOST_KEYS: usize = 8_000_000;
const KEYS: usize = 1_000_000;
const QUICK_KEYS: usize = 20_000;
const ROUNDS: u32 = 5;

/// Measures pacing with many keys, and the check alone against governor.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Options {
    /// How many keys; k and m stand for thousands and millions [default: 1m]
    #[arg(long, value_name = "N", value_parser = |text: &str| parse_count(text, MOST_KEYS))]
    keys: Option<usize>,

    /// How often everything is run; a figure is the median over the rounds [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,

    /// Only these systems
    #[arg(long, value_name = "SYSTEM,...", value_delimiter = ',')]
    only: Vec<System>,

    /// Only these workloads
    #[arg(long, value_name = "WORKLOAD,...", value_delimiter = ',')]
    workload: Vec<Workload>,

    /// Everything once with 20k keys: does it all still work?
    #[arg(long, conflicts_with = "save")]
    quick: bool,

    #[command(flatten)]
    pub(super) files: Files,
}

impl Options {
    pub(super) fn keys(&self) -> usize {
        self.keys.unwrap_or(if self.quick { QUICK_KEYS } else { KEYS })
    }

    pub(super) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { ROUNDS })
    }

    pub(super) fn systems(&self, workload: Workload) -> Vec<System> {
        let wanted = |system: &System| self.only.is_empty() || self.only.contains(system);
        System::ALL.into_iter().filter(|s| wanted(s) && s.does(workload)).collect()
    }

    pub(super) fn workloads(&self) -> Vec<Workload> {
        let wanted = |w: &Workload| self.workload.is_empty() || self.workload.contains(w);
        Workload::ALL.into_iter().filter(wanted).collect()
    }
}
