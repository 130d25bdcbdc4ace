//! The wheel of tasks: hierarchical or hashed, as chosen in the builder.

use std::vec::Vec;

use crate::timer::WheelKind;
use crate::timer::tasks::job::Job;
use crate::wheel::{self, Advance, HashedWheel, HierarchicalWheel};

/// Calls the same method on either wheel.
macro_rules! either {
    ($wheels:expr, $wheel:ident => $call:expr) => {
        match $wheels {
            AnyWheel::Hierarchical($wheel) => $call,
            AnyWheel::Hashed($wheel) => $call,
        }
    };
}

/// A hierarchical or a hashed wheel.
pub(crate) enum AnyWheel {
    Hierarchical(HierarchicalWheel<Job>),
    Hashed(HashedWheel<Job>),
}

impl AnyWheel {
    pub(crate) fn new(kind: WheelKind) -> Self {
        match kind {
            WheelKind::Hierarchical => Self::Hierarchical(HierarchicalWheel::new()),
            WheelKind::Hashed { slots } => Self::Hashed(HashedWheel::new(slots)),
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, tick: u64, job: Job) -> wheel::Key {
        either!(self, wheel => wheel.insert(tick, job))
    }

    #[inline]
    pub(crate) fn remove(&mut self, wheel_key: wheel::Key) -> Option<Job> {
        either!(self, wheel => wheel.remove(wheel_key))
    }

    #[inline]
    pub(crate) fn reset(&mut self, wheel_key: wheel::Key, tick: u64) -> bool {
        either!(self, wheel => wheel.reset(wheel_key, tick))
    }

    #[inline]
    pub(crate) fn advance(&mut self, now: u64, budget: usize) -> Advance {
        either!(self, wheel => wheel.advance(now, budget))
    }

    #[inline]
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<wheel::Due<Job>> {
        either!(self, wheel => wheel.pop_due(now))
    }

    /// Prefetches the entry of a task.
    #[inline]
    pub(crate) fn prefetch(&self, wheel_key: wheel::Key) {
        either!(self, wheel => wheel.prefetch(wheel_key));
    }

    pub(crate) fn deadline(&self, wheel_key: wheel::Key) -> Option<u64> {
        either!(self, wheel => wheel.deadline(wheel_key))
    }

    pub(crate) fn len(&self) -> usize {
        either!(self, wheel => wheel.len())
    }

    pub(crate) fn next_wake(&self) -> Option<u64> {
        either!(self, wheel => wheel.next_wake())
    }

    pub(crate) fn memory_usage(&self) -> usize {
        either!(self, wheel => wheel.memory_usage())
    }

    /// Takes all tasks out and leaves an empty wheel that needs no memory.
    pub(crate) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::new(WheelKind::Hierarchical))
    }

    /// Returns all jobs in order of deadline.
    pub(crate) fn into_jobs(mut self) -> Vec<wheel::Due<Job>> {
        let mut jobs: Vec<_> = either!(&mut self, wheel => wheel.drain()).collect();
        jobs.sort_by_key(|due| due.deadline);
        jobs
    }
}
