//! A check of the main invariant: every live entry has a reference that the wheel reaches at or before
//! the entry's deadline.

use alloc::collections::BTreeMap;

use super::entries::Entries;

/// The tick at which the wheel first reaches each entry, by index and stamp.
#[derive(Default)]
pub(super) struct Meetings {
    first: BTreeMap<(u32, u8), u64>,
    references: usize,
}

impl Meetings {
    /// Adds a reference, which the wheel reaches at `tick`.
    pub(super) fn add(&mut self, index: u32, stamp: u8, tick: u64) {
        let first = self.first.entry((index, stamp)).or_insert(tick);
        *first = tick.min(*first);
        self.references += 1;
    }

    /// Returns the number of references, including stale ones.
    pub(super) fn count(&self) -> usize {
        self.references
    }

    /// Panics unless the wheel reaches every live entry in time.
    pub(super) fn check<T>(&self, entries: &Entries<T>) {
        for (index, stamp, deadline) in entries.check_invariants() {
            let tick = self.first.get(&(index, stamp)).expect("a timer without a reference");
            assert!(*tick <= deadline, "entry {index} is met at {tick}, after {deadline}");
        }
    }
}
