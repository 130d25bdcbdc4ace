//! What one run has to do, as every harness is told on its command line: see `peers/README.md`.

use clap::Args;

use super::workload::Workload;
use crate::names::name;

/// One workload with its numbers.
#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    #[arg(long)]
    pub(super) workload: Workload,
    #[arg(long)]
    pub(super) timers: usize,
    #[arg(long)]
    pub(super) seed: u64,
    /// How many timers are moved
    #[arg(long)]
    pub(super) moves: usize,
    /// How long before the first deadline everything is scheduled
    #[arg(long)]
    pub(super) lead_ms: u64,
    /// How long it takes from the first deadline to the last
    #[arg(long)]
    pub(super) span_ms: u64,
    /// How long nothing is done
    #[arg(long)]
    pub(super) idle_ms: u64,
}

impl Plan {
    /// The arguments that make a harness do this.
    pub(super) fn arguments(&self) -> Vec<String> {
        let numbers = [
            ("--timers", self.timers as u64),
            ("--seed", self.seed),
            ("--moves", self.moves as u64),
            ("--lead-ms", self.lead_ms),
            ("--span-ms", self.span_ms),
            ("--idle-ms", self.idle_ms),
        ];
        let mut arguments = vec![String::from("--workload"), name(&self.workload)];
        for (name, number) in numbers {
            arguments.extend([name.to_owned(), number.to_string()]);
        }
        arguments
    }
}
