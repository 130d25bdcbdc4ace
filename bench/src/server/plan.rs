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
    /// How long callers put jobs, and how long the service is left idle
    #[arg(long)]
    pub(super) time_ms: u64,
    /// How many jobs are pending
    #[arg(long)]
    pub(super) jobs: u64,
    /// Where data is kept
    #[arg(long)]
    pub(super) folder: PathBuf,
    /// The service's binary
    #[arg(long)]
    pub(super) binary: PathBuf,
}

impl Plan {
    pub(super) fn time(&self) -> Duration {
        Duration::from_millis(self.time_ms)
    }

    /// The arguments that make a run do this.
    pub(super) fn arguments(&self) -> Vec<String> {
        let Self { workload, time_ms, jobs, folder, binary } = self;
        let pairs = [
            ("--workload", name(workload)),
            ("--time-ms", time_ms.to_string()),
            ("--jobs", jobs.to_string()),
            ("--folder", folder.display().to_string()),
            ("--binary", binary.display().to_string()),
        ];
        pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }
}
