//! The figures that the workloads yield, and their units.

use serde::{Deserialize, Serialize};

use crate::report::numbers::figure_text;

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
}

/// What a figure counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    /// Nanoseconds an operation
    Nanoseconds,
    /// Seconds for all
    Seconds,
    /// Milliseconds of lateness
    Milliseconds,
    /// Milliseconds of processor time each second
    MillisecondsPerSecond,
    /// Events each second
    PerSecond,
    /// Bytes a pending timer
    Bytes,
    /// A number of timers
    Timers,
}

impl Figure {
    /// Every figure, in the order in which it is shown.
    pub(super) const ALL: [Self; 26] = [
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
    ];

    pub(super) fn label(self) -> &'static str {
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
        }
    }

    pub(super) fn unit(self) -> Unit {
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
            | Self::TwoProducersWall => Unit::Nanoseconds,
            Self::FireCpu => Unit::Seconds,
            Self::FireP50
            | Self::FireP99
            | Self::FireP999
            | Self::FireMax
            | Self::BlockedP50
            | Self::BlockedP99
            | Self::BlockedP999
            | Self::BlockedMax => Unit::Milliseconds,
            Self::FireEarly => Unit::Timers,
            Self::IdleEmptyCpu | Self::IdleFullCpu => Unit::MillisecondsPerSecond,
            Self::IdleEmptySwitches | Self::IdleFullSwitches => Unit::PerSecond,
            Self::Memory | Self::MemoryResident => Unit::Bytes,
        }
    }

    /// Whether the worst round counts instead of the median: once is too often.
    pub(super) fn worst_counts(self) -> bool {
        self == Self::FireEarly
    }
}

impl Unit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::MillisecondsPerSecond => "ms/s",
            Self::PerSecond => "/s",
            Self::Bytes => "bytes",
            Self::Timers => "timers",
        }
    }

    /// A value of this unit with as many digits as mean something.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::Nanoseconds | Self::PerSecond => figure_text(value),
            Self::Bytes | Self::Timers => format!("{value:.0}"),
            Self::Seconds | Self::Milliseconds | Self::MillisecondsPerSecond => {
                if value < 9.995 {
                    format!("{value:.2}")
                } else {
                    figure_text(value)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_shown_once_and_in_order() {
        assert!(Figure::ALL.is_sorted());
        assert_eq!(Figure::ALL.len(), Figure::BlockedMax as usize + 1);
    }

    #[test]
    fn values_are_short() {
        assert_eq!(Unit::Seconds.text(1.754), "1.75");
        assert_eq!(Unit::Milliseconds.text(2_345.6), "2346");
        assert_eq!(Unit::Timers.text(0.0), "0");
        assert_eq!(Unit::Nanoseconds.text(3.44), "3.4");
    }
}
