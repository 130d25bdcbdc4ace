//! The systems, the workloads and the figures by name.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::report::results::{Measured, Named};
use crate::report::unit::Unit;

/// A system under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum System {
    /// Tickwheel's `KeyedPacer`
    Tickwheel,
    /// governor's keyed rate limiter on its default store
    Governor,
}

impl System {
    pub(super) const ALL: [Self; 2] = [Self::Tickwheel, Self::Governor];

    /// A rate limiter has no queue: it can only check.
    pub(super) fn does(self, workload: Workload) -> bool {
        self == Self::Tickwheel || workload == Workload::Check
    }
}

impl Named for System {
    fn label(self) -> &'static str {
        match self {
            Self::Tickwheel => "tickwheel",
            Self::Governor => "governor",
        }
    }
}

/// What one run makes a system do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Workload {
    /// A task for each key, submitted in random order and then started, twice: for new keys, and
    /// for the same again
    Start,
    /// The same once, with the timer's own thread beside
    Threads,
    /// Three tasks for each key where only one may start in a second
    Wait,
    /// A window without tasks passes, and all keys are forgotten
    Forget,
    /// Three times each key in random order: new and allowed, known and allowed, and refused
    Check,
}

impl Workload {
    /// Every workload, in the order in which it is run.
    pub(super) const ALL: [Self; 5] =
        [Self::Start, Self::Threads, Self::Wait, Self::Forget, Self::Check];
}

/// One row of the result.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Figure {
    SubmitNew,
    DispatchNew,
    BothNew,
    SubmitKnown,
    DispatchKnown,
    BothKnown,
    Threads,
    Wait,
    Forget,
    CheckNew,
    CheckKnown,
    CheckRefused,
    MemoryQueued,
    MemoryChecked,
}

impl Figure {
    /// Every figure, in the order in which it is shown.
    pub(super) const ALL: [Self; 14] = [
        Self::SubmitNew,
        Self::DispatchNew,
        Self::BothNew,
        Self::SubmitKnown,
        Self::DispatchKnown,
        Self::BothKnown,
        Self::Threads,
        Self::Wait,
        Self::Forget,
        Self::CheckNew,
        Self::CheckKnown,
        Self::CheckRefused,
        Self::MemoryQueued,
        Self::MemoryChecked,
    ];
}

impl Named for Figure {
    fn label(self) -> &'static str {
        match self {
            Self::SubmitNew => "submit, new key",
            Self::DispatchNew => "dispatch, new key",
            Self::BothNew => "submit + dispatch, new key",
            Self::SubmitKnown => "submit, known key",
            Self::DispatchKnown => "dispatch, known key",
            Self::BothKnown => "submit + dispatch, known key",
            Self::Threads => "submit + dispatch, with the timer's thread",
            Self::Wait => "submit + wait + dispatch",
            Self::Forget => "forget a key",
            Self::CheckNew => "check, new key",
            Self::CheckKnown => "check, known key",
            Self::CheckRefused => "check, refused",
            Self::MemoryQueued => "memory a key with a task",
            Self::MemoryChecked => "memory a key with two starts",
        }
    }
}

impl Measured for Figure {
    fn unit(self) -> Unit {
        match self {
            Self::MemoryQueued | Self::MemoryChecked => Unit::Bytes,
            _ => Unit::Nanoseconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_shown_once_and_in_order() {
        assert!(Figure::ALL.is_sorted());
        assert_eq!(Figure::ALL.len(), Figure::MemoryChecked as usize + 1);
    }
}
