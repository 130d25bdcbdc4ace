//! The invariant that all else serves, as a check: every live entry has a reference that is met at
//! or before its deadline.

use alloc::collections::BTreeMap;

use super::entries::Entries;

/// When each entry is met first, by index and stamp.
#[derive(Default)]
pub(super) struct Meetings {
    first: BTreeMap<(u32, u8), u64>,
    references: usize,
}

impl Meetings {
    /// A reference to this entry is met at this tick.
    pub(super) fn add(&mut self, index: u32, stamp: u8, tick: u64) {
        let first = self.first.entry((index, stamp)).or_insert(tick);
        *first = tick.min(*first);
        self.references += 1;
    }

    /// Returns how many references there are, stale ones included.
    pub(super) fn count(&self) -> usize {
        self.references
    }

    /// Panics unless every live entry is met in time.
    pub(super) fn check<T>(&self, entries: &Entries<T>) {
        for (index, stamp, deadline) in entries.check_invariants() {
            let tick = self.first.get(&(index, stamp)).expect("a timer without a reference");
            assert!(*tick <= deadline, "entry {index} is met at {tick}, after {deadline}");
        }
    }
}
