//! The figures that the workloads yield, and their units.

use serde::{Deserialize, Serialize};

use crate::report::results::{Measured, Named};
use crate::report::unit::Unit;

/// One row of the result.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Figure {
    ScheduleCpu,
    ScheduleWall,
    CancelCpu,
    CancelWall,
    ChurnCpu,
    ChurnWall,
    ResetCpu,
    ResetWall,
    TwoProducersCpu,
    TwoProducersWall,
    TwoChurnCpu,
    TwoChurnWall,
    TwoCancelCpu,
    TwoCancelWall,
    EightProducersCpu,
    EightProducersWall,
    EightChurnCpu,
    EightChurnWall,
    FireCpu,
    FireP50,
    FireP99,
    FireP999,
    FireMax,
    FireEarly,
    IdleEmptyCpu,
    IdleEmptySwitches,
    IdleFullCpu,
    IdleFullSwitches,
    Memory,
    MemoryResident,
    BlockedP50,
    BlockedP99,
    BlockedP999,
    BlockedMax,
    PauseSchedule,
    PauseCancel,
    PauseKey,
    PauseWait,
}

impl Figure {
    /// Every figure, in the order in which it is shown.
    pub(super) const ALL: [Self; 38] = [
        Self::ScheduleCpu,
        Self::ScheduleWall,
        Self::CancelCpu,
        Self::CancelWall,
        Self::ChurnCpu,
        Self::ChurnWall,
        Self::ResetCpu,
        Self::ResetWall,
        Self::TwoProducersCpu,
        Self::TwoProducersWall,
        Self::TwoChurnCpu,
        Self::TwoChurnWall,
        Self::TwoCancelCpu,
        Self::TwoCancelWall,
        Self::EightProducersCpu,
        Self::EightProducersWall,
        Self::EightChurnCpu,
        Self::EightChurnWall,
        Self::FireCpu,
        Self::FireP50,
        Self::FireP99,
        Self::FireP999,
        Self::FireMax,
        Self::FireEarly,
        Self::IdleEmptyCpu,
        Self::IdleEmptySwitches,
        Self::IdleFullCpu,
        Self::IdleFullSwitches,
        Self::Memory,
        Self::MemoryResident,
        Self::BlockedP50,
        Self::BlockedP99,
        Self::BlockedP999,
        Self::BlockedMax,
        Self::PauseSchedule,
        Self::PauseCancel,
        Self::PauseKey,
        Self::PauseWait,
    ];
}

impl Named for Figure {
    fn label(self) -> &'static str {
        match self {
            Self::ScheduleCpu => "schedule",
            Self::ScheduleWall => "schedule, wall",
            Self::CancelCpu => "cancel, shuffled",
            Self::CancelWall => "cancel, wall",
            Self::ChurnCpu => "churn: cancel and schedule",
            Self::ChurnWall => "churn, wall",
            Self::ResetCpu => "reset",
            Self::ResetWall => "reset, wall",
            Self::TwoProducersCpu => "schedule, two producers",
            Self::TwoProducersWall => "two producers, wall",
            Self::TwoChurnCpu => "churn, two threads",
            Self::TwoChurnWall => "churn, two threads, wall",
            Self::TwoCancelCpu => "cancel another thread's",
            Self::TwoCancelWall => "cancel another thread's, wall",
            Self::EightProducersCpu => "schedule, eight threads",
            Self::EightProducersWall => "schedule, eight threads, wall",
            Self::EightChurnCpu => "churn, eight threads",
            Self::EightChurnWall => "churn, eight threads, wall",
            Self::FireCpu => "fire",
            Self::FireP50 => "fire: late, p50",
            Self::FireP99 => "fire: late, p99",
            Self::FireP999 => "fire: late, p99.9",
            Self::FireMax => "fire: late, at most",
            Self::FireEarly => "fire: early",
            Self::IdleEmptyCpu => "idle, 0 pending",
            Self::IdleEmptySwitches => "idle, 0 pending: switches",
            Self::IdleFullCpu => "idle, all pending",
            Self::IdleFullSwitches => "idle, all pending: switches",
            Self::Memory => "memory",
            Self::MemoryResident => "memory, resident",
            Self::BlockedP50 => "blocked: others late, p50",
            Self::BlockedP99 => "blocked: others late, p99",
            Self::BlockedP999 => "blocked: others late, p99.9",
            Self::BlockedMax => "blocked: others late, at most",
            Self::PauseSchedule => "longest call: schedule",
            Self::PauseCancel => "longest call: cancel",
            Self::PauseKey => "longest call: schedule by key",
            Self::PauseWait => "longest wait of another thread",
        }
    }
}

impl Measured for Figure {
    fn unit(self) -> Unit {
        match self {
            Self::ScheduleCpu
            | Self::ScheduleWall
            | Self::CancelCpu
            | Self::CancelWall
            | Self::ChurnCpu
            | Self::ChurnWall
            | Self::ResetCpu
            | Self::ResetWall
            | Self::TwoProducersCpu
            | Self::TwoProducersWall
            | Self::TwoChurnCpu
            | Self::TwoChurnWall
            | Self::TwoCancelCpu
            | Self::TwoCancelWall
            | Self::EightProducersCpu
            | Self::EightProducersWall
            | Self::EightChurnCpu
            | Self::EightChurnWall => Unit::Nanoseconds,
            Self::FireCpu => Unit::Seconds,
            Self::FireP50
            | Self::FireP99
            | Self::FireP999
            | Self::FireMax
            | Self::BlockedP50
            | Self::BlockedP99
            | Self::BlockedP999
            | Self::BlockedMax
            | Self::PauseSchedule
            | Self::PauseCancel
            | Self::PauseKey
            | Self::PauseWait => Unit::Milliseconds,
            Self::FireEarly => Unit::Timers,
            Self::IdleEmptyCpu | Self::IdleFullCpu => Unit::MillisecondsPerSecond,
            Self::IdleEmptySwitches | Self::IdleFullSwitches => Unit::PerSecond,
            Self::Memory | Self::MemoryResident => Unit::Bytes,
        }
    }

    fn worst_counts(self) -> bool {
        self == Self::FireEarly
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_shown_once_and_in_order() {
        assert!(Figure::ALL.is_sorted());
        assert_eq!(Figure::ALL.len(), Figure::PauseWait as usize + 1);
    }
}
