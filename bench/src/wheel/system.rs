//! The systems by name, and how a run finds the code of one.

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::ours::{Hashed, Hierarchical};
use super::peers::{HashWheelTimer, LazyHeap, OrderedMap, TokioDelayQueue};
use super::run::{Outcome, Run, perform};

/// A system under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum System {
    /// Tickwheel's `HierarchicalWheel`
    Hierarchical,
    /// Tickwheel's `HashedWheel` with 512 slots
    Hashed,
    /// `tokio_util::time::DelayQueue`
    DelayQueue,
    /// `std::collections::BinaryHeap` with lazy cancel
    BinaryHeap,
    /// `std::collections::BTreeMap` by deadline
    #[value(name = "btree-map")]
    #[serde(rename = "btree-map")]
    BTreeMap,
    /// The cancellable wheel of `hierarchical_hash_wheel_timer`
    HashWheelTimer,
}

/// Up to this many timers every system runs by default.
const ALL_RUN_UP_TO: usize = 2_000_000;

impl System {
    pub(super) const ALL: [Self; 6] = [
        Self::Hierarchical,
        Self::Hashed,
        Self::DelayQueue,
        Self::BinaryHeap,
        Self::BTreeMap,
        Self::HashWheelTimer,
    ];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Hierarchical => "hierarchical",
            Self::Hashed => "hashed",
            Self::DelayQueue => "DelayQueue",
            Self::BinaryHeap => "BinaryHeap",
            Self::BTreeMap => "BTreeMap",
            Self::HashWheelTimer => "hash_wheel_timer",
        }
    }

    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Hierarchical | Self::Hashed)
    }

    /// Whether the system runs with this many timers unless it is asked for by name. The slow
    /// peers would take most of an hour to say at 10M what they said at 1M.
    pub(super) fn runs_by_default(self, timers: usize) -> bool {
        timers <= ALL_RUN_UP_TO || self.is_ours() || self == Self::DelayQueue
    }

    /// Makes this process do `run` with this system.
    pub(super) fn perform(self, run: &Run) -> Result<Outcome> {
        match self {
            Self::Hierarchical => perform::<Hierarchical>(run),
            Self::Hashed => perform::<Hashed>(run),
            Self::DelayQueue => perform::<TokioDelayQueue>(run),
            Self::BinaryHeap => perform::<LazyHeap>(run),
            Self::BTreeMap => perform::<OrderedMap>(run),
            Self::HashWheelTimer => perform::<HashWheelTimer>(run),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wheel::workload::Workload;

    #[test]
    fn every_system_does_the_same_work() {
        for workload in Workload::ALL {
            let tally = |system: System| {
                let run = Run { system, workload, timers: 2_000, verify: true };
                system.perform(&run).expect("the run passes its checks").tally
            };
            for system in System::ALL {
                assert_eq!(tally(system), tally(System::BTreeMap), "{system:?}, {workload:?}");
            }
        }
    }
}
