//! The figures that the workloads yield, and their units.

use serde::{Deserialize, Serialize};

use crate::report::results::{Measured, Named};
use crate::report::unit::Unit;

/// One row of the result.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Figure {
    Put1,
    Put8,
    Put64,
    PutBatch1,
    PutBatch8,
    PutBatch64,
    EndToEnd,
    Cancel,
    LateP50,
    LateP99,
    LateMax,
    Early,
    Memory,
    MemoryAgain,
    Restart,
    MemoryMany,
    MemoryManyAgain,
    RestartMany,
}

impl Figure {
    /// Every figure, in the order in which it is shown.
    pub(super) const ALL: [Self; 18] = [
        Self::Put1,
        Self::Put8,
        Self::Put64,
        Self::PutBatch1,
        Self::PutBatch8,
        Self::PutBatch64,
        Self::EndToEnd,
        Self::Cancel,
        Self::LateP50,
        Self::LateP99,
        Self::LateMax,
        Self::Early,
        Self::Memory,
        Self::MemoryAgain,
        Self::Restart,
        Self::MemoryMany,
        Self::MemoryManyAgain,
        Self::RestartMany,
    ];
}

impl Named for Figure {
    fn label(self) -> &'static str {
        match self {
            Self::Put1 => "put, 1 caller",
            Self::Put8 => "put, 8 callers",
            Self::Put64 => "put, 64 callers",
            Self::PutBatch1 => "put in batches of 100, 1 caller",
            Self::PutBatch8 => "put in batches of 100, 8 callers",
            Self::PutBatch64 => "put in batches of 100, 64 callers",
            Self::EndToEnd => "put, due, reserve, ack",
            Self::Cancel => "cancel by key, 64 callers",
            Self::LateP50 => "10k jobs/s: late, p50",
            Self::LateP99 => "10k jobs/s: late, p99",
            Self::LateMax => "10k jobs/s: late, at most",
            Self::Early => "10k jobs/s: early",
            Self::Memory => "memory, 1M put",
            Self::MemoryAgain => "memory, 1M, started again",
            Self::Restart => "start again with 1M",
            Self::MemoryMany => "memory, 10M put",
            Self::MemoryManyAgain => "memory, 10M, started again",
            Self::RestartMany => "start again with 10M",
        }
    }
}

impl Measured for Figure {
    fn unit(self) -> Unit {
        match self {
            Self::Put1
            | Self::Put8
            | Self::Put64
            | Self::PutBatch1
            | Self::PutBatch8
            | Self::PutBatch64
            | Self::EndToEnd
            | Self::Cancel => Unit::JobsPerSecond,
            Self::LateP50 | Self::LateP99 | Self::LateMax => Unit::Milliseconds,
            Self::Early => Unit::Jobs,
            Self::Memory | Self::MemoryAgain | Self::MemoryMany | Self::MemoryManyAgain => {
                Unit::Mebibytes
            }
            Self::Restart | Self::RestartMany => Unit::Seconds,
        }
    }

    fn worst_counts(self) -> bool {
        self == Self::Early
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_shown_once_and_in_order() {
        assert!(Figure::ALL.is_sorted());
        assert_eq!(Figure::ALL.len(), Figure::RestartMany as usize + 1);
    }
}
