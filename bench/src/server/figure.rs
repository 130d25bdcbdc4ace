//! The figures that the workloads yield, and their units.

use serde::{Deserialize, Serialize};

use crate::report::results::{Measured, Named};
use crate::report::unit::Unit;

/// One row of the result.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Figure {
    Put8,
    Put64,
    PutAhead64,
    PutBatch8,
    PutBatch64,
    LateP50,
    LateP99,
    LateMax,
    Early,
    StartAfterKill,
    StartAfterStop,
    Memory,
    Idle,
    Binary,
}

impl Figure {
    /// Every figure, in the order in which it is shown.
    pub(super) const ALL: [Self; 14] = [
        Self::Put8,
        Self::Put64,
        Self::PutAhead64,
        Self::PutBatch8,
        Self::PutBatch64,
        Self::LateP50,
        Self::LateP99,
        Self::LateMax,
        Self::Early,
        Self::StartAfterKill,
        Self::StartAfterStop,
        Self::Memory,
        Self::Idle,
        Self::Binary,
    ];
}

impl Named for Figure {
    fn label(self) -> &'static str {
        match self {
            Self::Put8 => "put, 8 connections",
            Self::Put64 => "put, 64 connections",
            Self::PutAhead64 => "put, 64 connections, 16 sent ahead on each",
            Self::PutBatch8 => "put in batches of 100, 8 connections",
            Self::PutBatch64 => "put in batches of 100, 64 connections",
            Self::LateP50 => "5k jobs/s: late, p50",
            Self::LateP99 => "5k jobs/s: late, p99",
            Self::LateMax => "5k jobs/s: late, at most",
            Self::Early => "5k jobs/s: early",
            Self::StartAfterKill => "first answer after a kill, 1M pending",
            Self::StartAfterStop => "first answer after a stop, 1M pending",
            Self::Memory => "memory, 1M pending",
            Self::Idle => "idle, 1M pending",
            Self::Binary => "binary",
        }
    }
}

impl Measured for Figure {
    fn unit(self) -> Unit {
        match self {
            Self::Put8 | Self::Put64 | Self::PutAhead64 | Self::PutBatch8 | Self::PutBatch64 => {
                Unit::JobsPerSecond
            }
            Self::LateP50 | Self::LateP99 | Self::LateMax => Unit::Milliseconds,
            Self::Early => Unit::Jobs,
            Self::StartAfterKill | Self::StartAfterStop => Unit::Seconds,
            Self::Memory => Unit::Mebibytes,
            Self::Idle => Unit::PercentOfCore,
            Self::Binary => Unit::Megabytes,
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
        assert_eq!(Figure::ALL.len(), Figure::Binary as usize + 1);
    }
}
