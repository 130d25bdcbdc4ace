//! The workloads by name.

use clap::ValueEnum;
use serde::Serialize;

/// What one run makes a timer do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Workload {
    /// Timers due in 60 s to 3600 s, on a fresh timer
    Schedule,
    /// All of those, in shuffled order
    Cancel,
    /// 5 times as often as there are timers, a random one is cancelled and scheduled anew
    Churn,
    /// The same with a reset, by those that have one
    Reset,
    /// Two threads schedule half of the timers each
    TwoProducers,
    /// Two threads churn timers that they scheduled themselves
    TwoChurn,
    /// Two threads cancel the timers that the other one scheduled, in shuffled order
    TwoCancel,
    /// Eight threads schedule an eighth of the timers each
    EightProducers,
    /// Eight threads churn timers that they scheduled themselves
    EightChurn,
    /// Timers spread over 5 s: processor time, how late they are, how many are early
    Fire,
    /// Nothing is due: processor time and context switches, with no timer and with all of them
    Idle,
    /// Bytes a pending timer whose task captures 16 bytes
    Memory,
    /// 10,000 tasks a second, one in a thousand sleeps 100 ms: how late are the others
    Blocked,
    /// The longest single call with ten times as many timers, and how long another thread waits
    Pause,
}

/// About how many seconds a short run takes.
const SHORT: u64 = 2;

impl Workload {
    /// Every workload, in the order in which it is run.
    pub(super) const ALL: [Self; 14] = [
        Self::Schedule,
        Self::Cancel,
        Self::Churn,
        Self::Reset,
        Self::TwoProducers,
        Self::TwoChurn,
        Self::TwoCancel,
        Self::EightProducers,
        Self::EightChurn,
        Self::Fire,
        Self::Idle,
        Self::Memory,
        Self::Blocked,
        Self::Pause,
    ];

    /// Whether a run takes many seconds, so that fewer rounds have to do.
    pub(super) fn is_long(self) -> bool {
        self.weight() > SHORT
    }

    /// On how many threads the timer is used, by workloads that have only that in common.
    pub(super) fn threads(self) -> usize {
        match self {
            Self::TwoChurn | Self::TwoCancel => 2,
            Self::EightProducers | Self::EightChurn => 8,
            _ => 1,
        }
    }

    /// About how many seconds a run takes, for the progress bar.
    pub(super) fn weight(self) -> u64 {
        match self {
            Self::Schedule
            | Self::Cancel
            | Self::TwoProducers
            | Self::TwoCancel
            | Self::EightProducers
            | Self::Memory => SHORT,
            Self::Blocked | Self::TwoChurn | Self::EightChurn => 7,
            Self::Churn | Self::Reset | Self::Fire | Self::Idle => 9,
            Self::Pause => 30,
        }
    }
}
