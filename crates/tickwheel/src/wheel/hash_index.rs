//! A hash index: finds the number of a record by the hash of the record's key.
//!
//! It is a table with open addressing and linear probing. A slot holds the number of a record and
//! 32 bits of its key's hash; the keys are in the records, once. So a search reads one slot, or a
//! few next to it, and then the record that is wanted anyway. Growing reads the table alone.
//!
//! Ground rules:
//! * The home of an entry is the slot `hash & mask`. The entry is there or, if others came first, in
//!   the next free slot after it, with no free slot in between.
//! * At most three quarters of the slots are taken.
//!
//! The slots are in a [`Block`], laid out for random access: a search is a cache miss, and should
//! not miss in the address translation as well. `docs/TIMER.md` has the figures beside hashbrown's.

use super::block::Block;

/// The number of a record plus one, and above it the hash of the record's key; 0 if free.
type Slot = u64;

/// The smallest table.
const MIN_SLOTS: usize = 8;

/// A table with no more slots is not made smaller.
const KEPT_SLOTS: usize = 1_024;

pub(crate) struct HashIndex {
    /// Their number is a power of two, or zero.
    slots: Block<Slot>,
    len: usize,
}

#[inline]
fn slot(hash: u32, record: u32) -> Slot {
    // Numbers end below `u32::MAX`, so the sum does not overflow and no slot is 0.
    u64::from(hash) << 32 | u64::from(record + 1)
}

#[inline]
fn hash_of(slot: Slot) -> u32 {
    (slot >> 32) as u32
}

#[inline]
fn record_of(slot: Slot) -> u32 {
    slot as u32 - 1
}

impl HashIndex {
    pub(crate) const fn new() -> Self {
        Self { slots: Block::EMPTY, len: 0 }
    }

    #[inline]
    fn mask(&self) -> usize {
        self.slots.len().wrapping_sub(1)
    }

    /// Returns the record with this hash for which `is_it` returns `true`.
    #[inline]
    pub(crate) fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = hash as usize & self.mask();
        loop {
            let &slot = self.slots.get(at)?;
            if slot == 0 {
                return None;
            }
            if hash_of(slot) == hash && is_it(record_of(slot)) {
                return Some(record_of(slot));
            }
            at = (at + 1) & self.mask();
        }
    }

    /// Returns the number of records.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Has the processor fetch the memory in which a hash will be looked up.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u32) {
        self.slots.prefetch(hash as usize & self.mask());
    }

    /// Adds a record that is not there yet.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, record: u32) {
        if 4 * (self.len + 1) > 3 * self.slots.len() {
            self.resize((2 * self.slots.len()).max(MIN_SLOTS));
        }
        self.len += 1;
        self.put(slot(hash, record));
    }

    #[inline]
    fn put(&mut self, slot: Slot) {
        let mask = self.mask();
        let mut at = hash_of(slot) as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    /// Removes a record that is there.
    pub(crate) fn remove(&mut self, hash: u32, record: u32) {
        let mask = self.mask();
        let removed = slot(hash, record);
        let mut gap = hash as usize & mask;
        while self.slots[gap] != removed {
            assert!(self.slots[gap] != 0, "the record is in the index");
            gap = (gap + 1) & mask;
        }
        // Entries after the gap move up, so that no search ends at it too early.
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            // An entry may move unless its home is after the gap.
            let home = hash_of(slot) as usize & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = 0;
        self.len -= 1;
        if self.slots.len() > KEPT_SLOTS && self.len < self.slots.len() / 16 {
            self.resize((4 * self.len).next_power_of_two().max(MIN_SLOTS));
        }
    }

    #[cold]
    fn resize(&mut self, slots: usize) {
        let mut new = Block::with_capacity(slots);
        new.fill_up(|| 0);
        let old = core::mem::replace(&mut self.slots, new);
        for &slot in old.iter().filter(|&&slot| slot != 0) {
            self.put(slot);
        }
    }

    /// Returns the number of allocated bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::hint::black_box;
    use std::println;
    use std::time::Instant;
    use std::vec::Vec;

    use hashbrown::HashTable;
    use proptest::prelude::*;

    use super::*;

    /// Spreads numbers over all hashes, as a hash function does.
    fn spread(number: u32) -> u32 {
        let mixed = (number ^ number >> 16).wrapping_mul(0x85EB_CA6B);
        let mixed = (mixed ^ mixed >> 13).wrapping_mul(0xC2B2_AE35);
        mixed ^ mixed >> 16
    }

    proptest! {
        /// Few hashes, so that most of them collide; some at the end, so that the table wraps.
        #[test]
        fn finds_what_is_there_and_nothing_else(
            ops in prop::collection::vec((0..40_u32, prop_oneof![0..6_u32, u32::MAX - 3..=u32::MAX]), 1..300)
        ) {
            let mut index = HashIndex::new();
            let mut plain: HashMap<u32, u32> = HashMap::new();
            for (record, hash) in ops {
                if let Some(hash) = plain.remove(&record) {
                    index.remove(hash, record);
                } else {
                    index.insert(hash, record);
                    plain.insert(record, hash);
                }
                for record in 0..40 {
                    for hash in (0..6).chain(u32::MAX - 3..=u32::MAX) {
                        let found = index.find(hash, |other| other == record);
                        prop_assert_eq!(found.is_some(), plain.get(&record) == Some(&hash));
                    }
                }
                prop_assert_eq!(index.len, plain.len());
            }
        }
    }

    #[test]
    fn memory_goes_back() {
        let mut index = HashIndex::new();
        for record in 0..100_000 {
            index.insert(spread(record), record);
        }
        assert!(index.memory_usage() <= 100_000 * 8 * 8 / 3);
        for record in 0..100_000 {
            index.remove(spread(record), record);
        }
        assert!(index.memory_usage() <= KEPT_SLOTS * 8);
    }

    /// Measures the index beside `hashbrown::HashTable`:
    /// `cargo test --release -p tickwheel --lib beside_hashbrown -- --ignored --nocapture`.
    #[test]
    #[ignore = "measures, and checks nothing"]
    fn beside_hashbrown() {
        const COUNT: u32 = 1_000_000;
        // A record is a cache line with its key.
        let records: Vec<[u64; 8]> = (0..COUNT).map(|number| [u64::from(number); 8]).collect();
        let is = |record: u32, key: u32| records[record as usize][0] == u64::from(key);
        let mut order: Vec<u32> = (0..COUNT).collect();
        order.sort_by_key(|&number| spread(!number));
        let time = |what: &str, work: &mut dyn FnMut(u32)| {
            let start = Instant::now();
            for &number in &order {
                work(number);
            }
            println!("{what:30}{:6.1} ns", start.elapsed().as_nanos() as f64 / f64::from(COUNT));
        };
        // hashbrown takes its tag from the top of the hash, and the bucket from the bottom.
        let wide = |hash: u32| u64::from(hash) << 32 | u64::from(hash);
        for _ in 0..3 {
            let mut own = HashIndex::new();
            time("own, insert", &mut |n| own.insert(spread(n), n));
            time("own, hit", &mut |n| _ = black_box(own.find(spread(n), |found| is(found, n))));
            time("own, miss", &mut |n| _ = black_box(own.find(!spread(n), |_| false)));
            time("own, remove and insert", &mut |n| {
                own.remove(spread(n), n);
                own.insert(spread(n), n);
            });
            let mut table: HashTable<(u32, u32)> = HashTable::new();
            let hash = |entry: &(u32, u32)| wide(entry.0);
            time("hashbrown, insert", &mut |n| {
                table.insert_unique(wide(spread(n)), (spread(n), n), hash);
            });
            time("hashbrown, hit", &mut |n| {
                _ = black_box(table.find(wide(spread(n)), |e| e.0 == spread(n) && is(e.1, n)));
            });
            time("hashbrown, miss", &mut |n| {
                _ = black_box(table.find(wide(!spread(n)), |e| e.0 == !spread(n)));
            });
            time("hashbrown, remove and insert", &mut |n| {
                table.find_entry(wide(spread(n)), |e| e.1 == n).unwrap().remove();
                table.insert_unique(wide(spread(n)), (spread(n), n), hash);
            });
        }
    }
}
