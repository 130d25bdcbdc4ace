//! The command line of `pace`.

use clap::Args;

use super::figure::{System, Workload};
use crate::report::destinations::Files;
use crate::report::numbers::parse_count;

const EXAMPLE: &str = "\
Examples: a quick look at two workloads, then the run whose results are kept
  cargo xtask bench pace --rounds 1 --workload start,check
  cargo xtask bench pace --save";

const MOST_KEYS: usize = 8_000_000;

/// Measures pacing with many keys, and the check alone against governor.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Options {
    /// How many keys; k and m stand for thousands and millions
    #[arg(long, value_name = "N", default_value = "1m", value_parser = |text: &str| parse_count(text, MOST_KEYS))]
    pub(super) keys: usize,

    /// How often everything is run; a figure is the median over the rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rounds: u32,

    /// Only these systems
    #[arg(long, value_name = "SYSTEM,...", value_delimiter = ',')]
    only: Vec<System>,

    /// Only these workloads
    #[arg(long, value_name = "WORKLOAD,...", value_delimiter = ',')]
    workload: Vec<Workload>,

    #[command(flatten)]
    pub(super) files: Files,
}

impl Options {
    pub(super) fn systems(&self, workload: Workload) -> Vec<System> {
        let wanted = |system: &System| self.only.is_empty() || self.only.contains(system);
        System::ALL.into_iter().filter(|s| wanted(s) && s.does(workload)).collect()
    }

    pub(super) fn workloads(&self) -> Vec<Workload> {
        let wanted = |w: &Workload| self.workload.is_empty() || self.workload.contains(w);
        Workload::ALL.into_iter().filter(wanted).collect()
    }
}
