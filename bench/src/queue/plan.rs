//! What one run has to do.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::workload::Workload;
use crate::names::name;

/// One workload with its numbers.
#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    #[arg(long)]
    pub(super) workload: Workload,
    /// How long callers put jobs
    #[arg(long)]
    pub(super) time_ms: u64,
    /// How many jobs are pending or cancelled
    #[arg(long)]
    pub(super) jobs: u64,
    /// Where the queue keeps its data
    #[arg(long)]
    pub(super) folder: PathBuf,
}

impl Plan {
    pub(super) fn time(&self) -> Duration {
        Duration::from_millis(self.time_ms)
    }

    /// The arguments that make a run do this.
    pub(super) fn arguments(&self) -> Vec<String> {
        let Self { workload, time_ms, jobs, folder } = self;
        let pairs = [
            ("--workload", name(workload)),
            ("--time-ms", time_ms.to_string()),
            ("--jobs", jobs.to_string()),
            ("--folder", folder.display().to_string()),
        ];
        pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }
}
