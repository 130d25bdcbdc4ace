//! The figures that the workloads yield.

use serde::{Deserialize, Serialize};

use crate::report::results::{Measured, Named};
use crate::report::unit::Unit;

/// One row of the result.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Figure {
    TimeoutReadyCpu,
    TimeoutReadyWall,
    TimeoutOnceCpu,
    TimeoutOnceWall,
    TimeoutSeveralCpu,
    TimeoutSeveralWall,
    ReceiveCpu,
    ReceiveWall,
    CreateCpu,
    CreateWall,
    BriefCpu,
    BriefWall,
    ChurnCpu,
    ChurnWall,
    ResetCpu,
    ResetWall,
    DropCpu,
    DropWall,
    FireCpu,
    FireP50,
    FireP99,
    FireMax,
    FireEarly,
    FireStayCpu,
    IntervalCpu,
    PushCpu,
    PushWall,
    QueueResetCpu,
    QueueResetWall,
    RemoveCpu,
    RemoveWall,
    PopCpu,
    PopWall,
}

impl Figure {
    /// Every figure, in the order in which it is shown.
    pub(super) const ALL: [Self; 33] = [
        Self::TimeoutReadyCpu,
        Self::TimeoutReadyWall,
        Self::TimeoutOnceCpu,
        Self::TimeoutOnceWall,
        Self::TimeoutSeveralCpu,
        Self::TimeoutSeveralWall,
        Self::ReceiveCpu,
        Self::ReceiveWall,
        Self::CreateCpu,
        Self::CreateWall,
        Self::BriefCpu,
        Self::BriefWall,
        Self::ChurnCpu,
        Self::ChurnWall,
        Self::ResetCpu,
        Self::ResetWall,
        Self::DropCpu,
        Self::DropWall,
        Self::FireCpu,
        Self::FireP50,
        Self::FireP99,
        Self::FireMax,
        Self::FireEarly,
        Self::FireStayCpu,
        Self::IntervalCpu,
        Self::PushCpu,
        Self::PushWall,
        Self::QueueResetCpu,
        Self::QueueResetWall,
        Self::RemoveCpu,
        Self::RemoveWall,
        Self::PopCpu,
        Self::PopWall,
    ];
}

impl Named for Figure {
    fn label(self) -> &'static str {
        match self {
            Self::TimeoutReadyCpu => "timeout, ready at once",
            Self::TimeoutReadyWall => "timeout, ready at once, wall",
            Self::TimeoutOnceCpu => "timeout, ready after 1 poll",
            Self::TimeoutOnceWall => "timeout, ready after 1 poll, wall",
            Self::TimeoutSeveralCpu => "timeout, ready after 4 polls",
            Self::TimeoutSeveralWall => "timeout, ready after 4 polls, wall",
            Self::ReceiveCpu => "timeout, around a receive",
            Self::ReceiveWall => "timeout, around a receive, wall",
            Self::CreateCpu => "sleep: create and poll",
            Self::CreateWall => "sleep: create and poll, wall",
            Self::BriefCpu => "sleep: create, poll and drop",
            Self::BriefWall => "sleep: create, poll and drop, wall",
            Self::ChurnCpu => "sleep: drop a random one, create",
            Self::ChurnWall => "sleep: drop a random one, create, wall",
            Self::ResetCpu => "sleep: reset",
            Self::ResetWall => "sleep: reset, wall",
            Self::DropCpu => "sleep: drop, shuffled",
            Self::DropWall => "sleep: drop, shuffled, wall",
            Self::FireCpu => "fire",
            Self::FireP50 => "fire: late, p50",
            Self::FireP99 => "fire: late, p99",
            Self::FireMax => "fire: late, at most",
            Self::FireEarly => "fire: early",
            Self::FireStayCpu => "fire, tasks stay",
            Self::IntervalCpu => "interval: tick",
            Self::PushCpu => "delay queue: push",
            Self::PushWall => "delay queue: push, wall",
            Self::QueueResetCpu => "delay queue: reset",
            Self::QueueResetWall => "delay queue: reset, wall",
            Self::RemoveCpu => "delay queue: remove, shuffled",
            Self::RemoveWall => "delay queue: remove, shuffled, wall",
            Self::PopCpu => "delay queue: pop",
            Self::PopWall => "delay queue: pop, wall",
        }
    }
}

impl Measured for Figure {
    fn unit(self) -> Unit {
        match self {
            Self::FireCpu | Self::FireStayCpu => Unit::Seconds,
            Self::FireP50 | Self::FireP99 | Self::FireMax => Unit::Milliseconds,
            Self::FireEarly => Unit::Timers,
            _ => Unit::Nanoseconds,
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
        assert_eq!(Figure::ALL.len(), Figure::PopWall as usize + 1);
    }
}
