//! The workloads by name, and the figures that each of them yields.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What one run makes a system do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Workload {
    /// Delays of 60 s to 3600 s into a fresh structure; also memory per timer
    Insert,
    /// All of those, in shuffled order
    Cancel,
    /// 5M times a random timer gets a new random delay; also memory per timer afterwards
    Churn,
    /// 5M times a random timer's deadline moves later: a heartbeat
    PushLater,
    /// Timers spread over 60 s, popped tick by tick
    Fire,
    /// A tick that finds nothing, with no timer and with all timers a day away
    EmptyTick,
    /// Timers spread over 24 h, popped after one step of 24 h
    Jump,
    /// Timers less than 512 ticks away, each replaced by another when it fires, for 512 ticks
    Ring,
}

impl Workload {
    /// Every workload, in the order in which it is run.
    pub(super) const ALL: [Self; 8] = [
        Self::Insert,
        Self::Cancel,
        Self::Churn,
        Self::PushLater,
        Self::Fire,
        Self::EmptyTick,
        Self::Jump,
        Self::Ring,
    ];

    /// Whether more timers would tell nothing new, so that the smallest size is enough.
    pub(super) fn once(self) -> bool {
        matches!(self, Self::Fire | Self::EmptyTick | Self::Ring)
    }
}

/// One row of the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Figure {
    Insert,
    Cancel,
    Churn,
    PushLater,
    Fire,
    EmptyTickAlone,
    EmptyTick,
    Jump,
    Ring,
    Memory,
    MemoryAfterChurn,
}

/// What a figure counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Nanoseconds,
    Bytes,
}

impl Figure {
    /// Every figure, in the order in which it is shown.
    pub(super) const ALL: [Self; 11] = [
        Self::Insert,
        Self::Cancel,
        Self::Churn,
        Self::PushLater,
        Self::Fire,
        Self::EmptyTickAlone,
        Self::EmptyTick,
        Self::Jump,
        Self::Ring,
        Self::Memory,
        Self::MemoryAfterChurn,
    ];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Cancel => "cancel, shuffled",
            Self::Churn => "churn: random reset",
            Self::PushLater => "push later",
            Self::Fire => "fire over 60 s",
            Self::EmptyTickAlone => "empty tick, 0 pending",
            Self::EmptyTick => "empty tick, all far",
            Self::Jump => "jump of 24 h",
            Self::Ring => "ring: pop and insert",
            Self::Memory => "memory after insert",
            Self::MemoryAfterChurn => "memory after churn",
        }
    }

    pub(super) fn unit(self) -> Unit {
        match self {
            Self::Memory | Self::MemoryAfterChurn => Unit::Bytes,
            _ => Unit::Nanoseconds,
        }
    }
}

impl Unit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Bytes => "bytes",
        }
    }
}
