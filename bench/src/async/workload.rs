//! The workloads by name.

use clap::ValueEnum;
use serde::Serialize;

/// What one run makes a system do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Workload {
    /// A timeout around a future that is ready at once, after one poll, and after several
    Timeout,
    /// A timeout around each receive, on a runtime, of tasks that send messages to and fro
    Receive,
    /// All sleeps are made and polled; then, beside them, one after the other is made, polled and
    /// dropped; then all are dropped, in shuffled order
    Sleep,
    /// As often as there are sleeps, a random one is dropped and made anew
    Churn,
    /// The same with a reset
    Reset,
    /// Sleeps spread over some seconds, each in a task of a runtime that ends then: processor time,
    /// how late they are, how many are early
    Fire,
    /// The same with tasks that stay, which leaves out what a runtime takes to end them
    FireStay,
    /// A thousandth as many intervals of 10 ms, each in a task of a runtime
    Interval,
    /// A delay queue: push, reset, remove; push again, and pop what is due
    Queue,
}

impl Workload {
    /// Every workload, in the order in which it is run.
    pub(super) const ALL: [Self; 9] = [
        Self::Timeout,
        Self::Receive,
        Self::Sleep,
        Self::Churn,
        Self::Reset,
        Self::Fire,
        Self::FireStay,
        Self::Interval,
        Self::Queue,
    ];

    /// Whether a run takes several seconds, so that fewer rounds have to do.
    pub(super) fn is_long(self) -> bool {
        !matches!(self, Self::Timeout | Self::Receive | Self::Interval)
    }

    /// About how many seconds a run takes, for the progress bar.
    pub(super) fn weight(self) -> u64 {
        match self {
            Self::Timeout | Self::Receive => 2,
            Self::Interval => 3,
            Self::Sleep | Self::Churn | Self::Reset | Self::Queue => 4,
            Self::Fire | Self::FireStay => 8,
        }
    }
}
