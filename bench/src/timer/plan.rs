//! What one run has to do, as every harness is told on its command line: see `peers/README.md`.

use clap::Args;

use super::workload::Workload;
use crate::names::name;
use crate::work::Size;

/// One workload with its numbers.
#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    #[arg(long)]
    pub(super) workload: Workload,
    #[command(flatten)]
    pub(super) size: Size,
    /// How long nothing is done
    #[arg(long)]
    pub(super) idle_ms: u64,
}

impl Plan {
    /// The arguments that make a harness do this.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![String::from("--workload"), name(&self.workload)];
        arguments.extend(self.size.arguments());
        arguments.extend([String::from("--idle-ms"), self.idle_ms.to_string()]);
        arguments
    }
}
