//! The workloads by name.

use clap::ValueEnum;
use serde::Serialize;

/// What one run makes a queue do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Workload {
    /// 1, 8 and 64 callers put single jobs, due in a week
    Put,
    /// The same in batches of 100
    PutBatch,
    /// 32 callers put single jobs, due in a second; 32 workers reserve up to 10 and acknowledge
    EndToEnd,
    /// 64 callers cancel jobs by their key
    Cancel,
    /// 10,000 jobs a second, due 2 s after they are put: how late are they delivered
    Lateness,
    /// A million jobs due in a week: memory, and the time to start again after a kill
    Pending,
    /// The same with ten million, for ours alone; only with --full
    PendingMany,
}

impl Workload {
    /// Every workload, in the order in which it is run.
    pub(super) const ALL: [Self; 7] = [
        Self::Put,
        Self::PutBatch,
        Self::EndToEnd,
        Self::Cancel,
        Self::Lateness,
        Self::Pending,
        Self::PendingMany,
    ];

    /// Whether a run takes so long that one has to do.
    pub(super) fn is_long(self) -> bool {
        matches!(self, Self::Pending | Self::PendingMany)
    }

    /// About how many seconds a run takes, for the progress bar.
    pub(super) fn weight(self) -> u64 {
        match self {
            Self::Put | Self::PutBatch | Self::Cancel => 4,
            Self::EndToEnd | Self::Lateness => 6,
            Self::Pending => 25,
            Self::PendingMany => 150,
        }
    }
}
