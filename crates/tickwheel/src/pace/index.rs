//! Finds a key's lane by the hash of the key.
//!
//! A table with open addressing whose slots hold a lane's number and 32 bits of its key's hash.
//! The keys themselves are in the lanes, once. So a search reads one slot or a few next to it, and
//! then the lane that is wanted anyway; and growing reads the table alone.
//!
//! Ground rules:
//! * A slot says where its entry would like to be: at `tag & mask`. An entry is there or, if others
//!   were first, in the next free slot after it, with no free slot between.
//! * At most three quarters of the slots are taken.
//!
//! The slots are in memory that is laid out for random access: a search is a cache miss, and should
//! not be one of the address translation as well.

use crate::wheel::block::Block;

/// A lane and the tag of its key; zero if the slot is free.
type Slot = u64;

/// The table never is smaller than this, once it has been used.
const LEAST: usize = 8;

pub(super) struct Index {
    /// A power of two of them, or none.
    slots: Block<Slot>,
    len: usize,
}

#[inline]
fn slot(tag: u32, lane: u32) -> Slot {
    // Lane numbers end below `u32::MAX`, so this does not overflow and is never zero.
    u64::from(tag) << 32 | u64::from(lane + 1)
}

#[inline]
fn tag_of(slot: Slot) -> u32 {
    (slot >> 32) as u32
}

#[inline]
fn lane_of(slot: Slot) -> u32 {
    slot as u32 - 1
}

impl Index {
    pub(super) fn new() -> Self {
        Self { slots: Block::EMPTY, len: 0 }
    }

    #[inline]
    fn mask(&self) -> usize {
        self.slots.len().wrapping_sub(1)
    }

    /// The lane with this tag for which `is` says yes.
    #[inline]
    pub(super) fn find(&self, tag: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = tag as usize & self.mask();
        loop {
            let &slot = self.slots.get(at)?;
            if slot == 0 {
                return None;
            }
            if tag_of(slot) == tag && is(lane_of(slot)) {
                return Some(lane_of(slot));
            }
            at = (at + 1) & self.mask();
        }
    }

    /// Tells the processor that a tag will be searched for soon.
    #[inline]
    pub(super) fn prefetch(&self, tag: u32) {
        self.slots.prefetch(tag as usize & self.mask());
    }

    /// Adds a lane that is not there yet.
    #[inline]
    pub(super) fn insert(&mut self, tag: u32, lane: u32) {
        if 4 * (self.len + 1) > 3 * self.slots.len() {
            self.resize((2 * self.slots.len()).max(LEAST));
        }
        self.len += 1;
        self.put(slot(tag, lane));
    }

    #[inline]
    fn put(&mut self, slot: Slot) {
        let mask = self.mask();
        let mut at = tag_of(slot) as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    /// Takes out a lane that is there.
    pub(super) fn remove(&mut self, tag: u32, lane: u32) {
        let mask = self.mask();
        let mut gap = tag as usize & mask;
        while self.slots[gap] != slot(tag, lane) {
            assert!(self.slots[gap] != 0, "a lane that is in the index");
            gap = (gap + 1) & mask;
        }
        // Entries that were pushed on by others move up.
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let home = tag_of(slot) as usize & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = 0;
        self.len -= 1;
        if self.slots.len() > 1_024 && self.len < self.slots.len() / 16 {
            self.resize((4 * self.len).next_power_of_two().max(LEAST));
        }
    }

    #[cold]
    fn resize(&mut self, slots: usize) {
        let mut new = Block::with_capacity(slots);
        (0..slots).for_each(|_| new.push(0));
        let old = core::mem::replace(&mut self.slots, new);
        for &slot in old.iter().filter(|&&slot| slot != 0) {
            self.put(slot);
        }
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few tags, so that most of them collide; some near the end, so that the table wraps.
        #[test]
        fn finds_what_is_there_and_nothing_else(
            ops in prop::collection::vec((0..40_u32, prop_oneof![0..6_u32, u32::MAX - 3..=u32::MAX]), 1..300)
        ) {
            let mut index = Index::new();
            let mut plain: HashMap<u32, u32> = HashMap::new();
            for (lane, tag) in ops {
                if let Some(tag) = plain.remove(&lane) {
                    index.remove(tag, lane);
                } else {
                    index.insert(tag, lane);
                    plain.insert(lane, tag);
                }
                for lane in 0..40 {
                    for tag in (0..6).chain(u32::MAX - 3..=u32::MAX) {
                        let found = index.find(tag, |other| other == lane);
                        prop_assert_eq!(found.is_some(), plain.get(&lane) == Some(&tag));
                    }
                }
                prop_assert_eq!(index.len, plain.len());
            }
        }
    }

    #[test]
    fn memory_goes_back() {
        let mut index = Index::new();
        for lane in 0..100_000_u32 {
            index.insert(lane.wrapping_mul(0x9E37_79B9), lane);
        }
        assert!(index.memory_usage() <= 100_000 * 8 * 8 / 3);
        for lane in 0..100_000_u32 {
            index.remove(lane.wrapping_mul(0x9E37_79B9), lane);
        }
        assert!(index.memory_usage() <= 1_024 * 8);
    }
}
