//! The workloads by name.

use clap::ValueEnum;
use serde::Serialize;

/// What one run makes a system do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Workload {
    /// 8 and 64 connections put single jobs, due in a week; where clients can, also 16 sent ahead
    Put,
    /// 8 and 64 connections put batches of 100
    PutBatch,
    /// 5,000 jobs a second, due 2 s after they are put: how late are they delivered
    Lateness,
    /// A million jobs due in a week: first answer after a kill and after a stop, memory, idling
    Pending,
}

impl Workload {
    /// Every workload, in the order in which it is run.
    pub(super) const ALL: [Self; 4] = [Self::Put, Self::PutBatch, Self::Lateness, Self::Pending];

    /// Whether a run takes so long that one has to do.
    pub(super) fn is_long(self) -> bool {
        self == Self::Pending
    }

    /// About how many seconds a run takes, for the progress bar.
    pub(super) fn weight(self) -> u64 {
        match self {
            Self::Put => 6,
            Self::PutBatch => 5,
            Self::Lateness => 7,
            Self::Pending => 35,
        }
    }
}
