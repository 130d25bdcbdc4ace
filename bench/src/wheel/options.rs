//! The command line of `wheel`.

use clap::Args;

use super::system::System;
use super::work::MOST_TIMERS;
use super::workload::Workload;
use crate::report::destinations::Files;
use crate::report::numbers::parse_count;

const EXAMPLE: &str = "\
Example: a quick look at two systems, then the run whose results are kept
  cargo xtask bench wheel --sizes 1m --rounds 1 --only hierarchical,delay-queue --workload churn,fire
  cargo xtask bench wheel --save";

/// Compares the wheels with their peers and says which goals are reached.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Options {
    /// How many timers; k and m stand for thousands and millions
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1m,10m", value_parser = parse_size)]
    sizes: Vec<usize>,

    /// How often everything is run; a figure is the median over the rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rounds: u32,

    /// Only these systems; above 2M timers all but tickwheel and DelayQueue must be named here
    #[arg(long, value_name = "SYSTEM,...", value_delimiter = ',')]
    pub(super) only: Vec<System>,

    /// Only these workloads; fire and empty-tick run at the smallest size alone
    #[arg(long, value_name = "WORKLOAD,...", value_delimiter = ',')]
    pub(super) workload: Vec<Workload>,

    /// Give every system huge pages, not only the one that asks for them (glibc 2.35 or later)
    #[arg(long)]
    pub(super) huge_pages: bool,

    #[command(flatten)]
    pub(super) files: Files,
}

impl Options {
    /// How many timers, smallest first.
    pub(super) fn sizes(&self) -> Vec<usize> {
        let mut sizes = self.sizes.clone();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The systems that run with this many timers.
    pub(super) fn systems(&self, timers: usize) -> Vec<System> {
        let wanted = |system: &System| {
            if self.only.is_empty() {
                system.runs_by_default(timers)
            } else {
                self.only.contains(system)
            }
        };
        System::ALL.into_iter().filter(wanted).collect()
    }

    /// The workloads that run with this many timers.
    pub(super) fn workloads(&self, timers: usize) -> Vec<Workload> {
        let smallest = self.sizes.iter().all(|&other| timers <= other);
        let wanted = |workload: &Workload| {
            (self.workload.is_empty() || self.workload.contains(workload))
                && (smallest || !workload.once())
        };
        Workload::ALL.into_iter().filter(wanted).collect()
    }
}

fn parse_size(text: &str) -> Result<usize, String> {
    parse_count(text, MOST_TIMERS)
}
