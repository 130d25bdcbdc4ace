//! A hash index: finds the number of a record by the hash of the record's key.
//!
//! It is a table with open addressing and linear probing. A slot holds the number of a record and
//! 32 bits of its key's hash; the keys are in the records, once. So a search reads one slot, or a
//! few next to it, and then the record that is wanted anyway. Growing reads the table alone.
//!
//! The index grows and shrinks in steps, so that no call takes long. A table of the new size
//! receives the new entries, and each insertion and removal moves the entries of
//! [`SLOTS_PER_STEP`] slots there from the old table. Until the old table is empty, a search
//! examines both.
//!
//! Ground rules:
//! * The home of an entry is the slot `hash & mask`. The entry is there or, if others came first, in
//!   the next free slot after it, with no free slot in between.
//! * At most three quarters of the slots are taken.
//! * An entry is in one of the two tables. One that leaves the old table leaves the mark [`MOVED`]
//!   there, so that no search ends too early. The old table gets no new entries.
//! * A resize ends long before the next one is due: it takes one insertion or removal for each
//!   [`SLOTS_PER_STEP`] slots of the old table, and one for each of its segments.
//!
//! The slots are in segments of the size of a huge page: a search is a cache miss, and should not
//! miss in the address translation as well. A segment gets memory with its first entry, and the
//! segments of the old table are freed one by one: large blocks take long to clear and to free.
//! `docs/TIMER.md` has the figures beside hashbrown's.

use alloc::vec::Vec;
use core::iter::repeat_with;

use super::block::Block;

/// The number of a record plus one, and above it the hash of the record's key; or [`FREE`] or
/// [`MOVED`].
type Slot = u64;

const FREE: Slot = 0;

/// An entry was here. In the old table only.
const MOVED: Slot = 1 << 32;

/// The smallest table.
const MIN_SLOTS: usize = 8;

/// A table with no more slots than this is not made smaller.
const KEPT_SLOTS: usize = 1_024;

/// The number of slots in a segment of 2 MiB.
const SEGMENT: usize = 1 << 18;

/// The number of slots of the old table that one insertion or removal empties.
const SLOTS_PER_STEP: usize = 32;

pub(crate) struct HashIndex {
    table: Table,
    /// The table that is being emptied, and has been up to the slot `moved`. Without slots if no
    /// resize is in progress.
    old: Table,
    moved: usize,
    len: usize,
    /// With this many records an insertion grows the index, or continues a resize.
    full: usize,
    /// With fewer records a removal shrinks the index, or continues a resize.
    sparse: usize,
}

#[inline]
fn slot(hash: u32, record: u32) -> Slot {
    // Numbers end below `u32::MAX`, so the sum does not overflow and no slot is `FREE` or `MOVED`.
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
        Self { table: Table::EMPTY, old: Table::EMPTY, moved: 0, len: 0, full: 0, sparse: 0 }
    }

    /// Returns the record with this hash for which `is_it` returns `true`.
    #[inline]
    pub(crate) fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        match self.table.search(hash, |slot| is_it(record_of(slot))) {
            Some((_, slot)) => Some(record_of(slot)),
            None if self.old.is_empty() => None,
            None => self.find_old(hash, is_it),
        }
    }

    #[cold]
    fn find_old(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let found = self.old.search(hash, |slot| slot != MOVED && is_it(record_of(slot)));
        found.map(|(_, slot)| record_of(slot))
    }

    /// Returns the number of records.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Prefetches the slot in which the search for a hash begins.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u32) {
        self.table.prefetch(hash);
    }

    /// Adds a record that is not there yet.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, record: u32) {
        if self.len >= self.full {
            self.grow();
        }
        self.len += 1;
        self.table.put(slot(hash, record));
    }

    /// Removes a record that is there.
    pub(crate) fn remove(&mut self, hash: u32, record: u32) {
        let removed = slot(hash, record);
        match self.table.search(hash, |slot| slot == removed) {
            Some((at, _)) => self.table.close(at),
            None => self.remove_old(hash, removed),
        }
        self.len -= 1;
        if self.len < self.sparse {
            self.shrink();
        }
    }

    #[cold]
    fn remove_old(&mut self, hash: u32, removed: Slot) {
        let found = self.old.search(hash, |slot| slot == removed);
        let (at, _) = found.expect("the record is in the index");
        self.old.set(at, MOVED);
    }

    /// Begins to make the table larger, or continues a resize.
    #[cold]
    fn grow(&mut self) {
        if self.old.is_empty() {
            self.resize((2 * self.table.slots()).max(MIN_SLOTS));
        }
        self.move_some();
    }

    /// Begins to make the table smaller, or continues a resize.
    #[cold]
    fn shrink(&mut self) {
        if self.old.is_empty() {
            self.resize((4 * self.len).next_power_of_two().max(MIN_SLOTS));
        }
        self.move_some();
    }

    fn resize(&mut self, slots: usize) {
        self.old = core::mem::replace(&mut self.table, Table::new(slots));
        self.moved = 0;
        // The next calls continue the resize, whatever the number of records.
        (self.full, self.sparse) = (0, usize::MAX);
    }

    /// Does one step of a resize.
    fn move_some(&mut self) {
        let end = self.old.slots().min(self.moved + SLOTS_PER_STEP);
        for at in self.moved..end {
            let slot = self.old.get(at);
            if slot != FREE && slot != MOVED {
                self.old.set(at, MOVED);
                self.table.put(slot);
            }
        }
        self.moved = end;
        if end == self.old.slots() {
            self.old.segments.pop();
        }
        if self.old.is_empty() {
            self.old = Table::EMPTY;
            let slots = self.table.slots();
            self.full = slots / 4 * 3;
            self.sparse = if slots > KEPT_SLOTS { slots / 16 } else { 0 };
        }
    }

    /// Returns the number of allocated bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.table.memory_usage() + self.old.memory_usage()
    }
}

/// A table of a fixed number of slots, which is a power of two, or zero.
struct Table {
    /// A segment without memory has only free slots. A small table has one small segment.
    segments: Vec<Block<Slot>>,
    mask: usize,
}

impl Table {
    const EMPTY: Self = Self { segments: Vec::new(), mask: 0 };

    fn new(slots: usize) -> Self {
        let segments = repeat_with(|| Block::EMPTY).take(slots.div_ceil(SEGMENT)).collect();
        Self { segments, mask: slots - 1 }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    fn slots(&self) -> usize {
        if self.is_empty() { 0 } else { self.mask + 1 }
    }

    #[inline]
    fn get(&self, at: usize) -> Slot {
        let slot = self.segments.get(at / SEGMENT).and_then(|segment| segment.get(at % SEGMENT));
        slot.copied().unwrap_or(FREE)
    }

    #[inline]
    fn set(&mut self, at: usize, slot: Slot) {
        match self.segments[at / SEGMENT].get_mut(at % SEGMENT) {
            Some(place) => *place = slot,
            None => self.set_in_new_segment(at, slot),
        }
    }

    #[cold]
    fn set_in_new_segment(&mut self, at: usize, slot: Slot) {
        let mut segment = Block::with_capacity(SEGMENT.min(self.slots()));
        segment.fill_up(|| FREE);
        segment[at % SEGMENT] = slot;
        self.segments[at / SEGMENT] = segment;
    }

    /// Returns the first entry with this hash for which `is_it` returns `true`, and its slot.
    #[inline]
    fn search(&self, hash: u32, mut is_it: impl FnMut(Slot) -> bool) -> Option<(usize, Slot)> {
        let mut at = hash as usize & self.mask;
        loop {
            let slot = self.get(at);
            if slot == FREE {
                return None;
            }
            if hash_of(slot) == hash && is_it(slot) {
                return Some((at, slot));
            }
            at = (at + 1) & self.mask;
        }
    }

    #[inline]
    fn prefetch(&self, hash: u32) {
        let at = hash as usize & self.mask;
        if let Some(segment) = self.segments.get(at / SEGMENT) {
            segment.prefetch(at % SEGMENT);
        }
    }

    /// Adds an entry. There must be a free slot.
    #[inline]
    fn put(&mut self, slot: Slot) {
        let mut at = hash_of(slot) as usize & self.mask;
        while self.get(at) != FREE {
            at = (at + 1) & self.mask;
        }
        self.set(at, slot);
    }

    /// Removes the entry at a slot. Entries after it move up, so that no search ends too early.
    fn close(&mut self, mut gap: usize) {
        let mask = self.mask;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let slot = self.get(at);
            if slot == FREE {
                break;
            }
            // An entry may move unless its home is after the gap.
            let home = hash_of(slot) as usize & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.set(gap, slot);
                gap = at;
            }
        }
        self.set(gap, FREE);
    }

    fn memory_usage(&self) -> usize {
        let slots = self.segments.iter().map(Block::capacity).sum::<usize>();
        slots * size_of::<Slot>() + self.segments.capacity() * size_of::<Block<Slot>>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, VecDeque};
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

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u32),
        Remove(u32),
    }

    proptest! {
        /// Grows and shrinks far enough that several resizes begin, go on and end.
        #[test]
        fn finds_what_is_there_while_it_is_resized(
            steps in prop::collection::vec(
                prop_oneof![(1..4_000_u32).prop_map(Step::Insert), (1..4_000_u32).prop_map(Step::Remove)],
                1..8,
            ),
            seed in any::<u32>(),
        ) {
            let mut index = HashIndex::new();
            // Every record shares its hash with one to three others.
            let hash = |record: u32| spread((record.min(record ^ 2) / 3 * 3) ^ seed);
            let mut plain: VecDeque<u32> = VecDeque::new();
            let mut next = 0;
            for step in steps {
                match step {
                    Step::Insert(count) => for _ in 0..count {
                        index.insert(hash(next), next);
                        plain.push_back(next);
                        next += 1;
                        let some = plain[spread(next) as usize % plain.len()];
                        prop_assert_eq!(index.find(hash(some), |other| other == some), Some(some));
                    },
                    Step::Remove(count) => for _ in 0..count.min(plain.len() as u32) {
                        let place = spread(next ^ plain.len() as u32) as usize % plain.len();
                        let gone = plain.swap_remove_back(place).unwrap();
                        index.remove(hash(gone), gone);
                        prop_assert_eq!(index.find(hash(gone), |other| other == gone), None);
                    },
                }
                prop_assert_eq!(index.len(), plain.len());
                for &record in &plain {
                    prop_assert_eq!(index.find(hash(record), |other| other == record), Some(record));
                }
            }
        }
    }

    #[test]
    fn every_call_does_a_bounded_part_of_a_resize() {
        const COUNT: u32 = 450_000;
        let mut index = HashIndex::new();
        let mut resizes = 0;
        let mut check = |index: &HashIndex, before: (usize, usize, usize)| {
            let (moved, segments, memory) = before;
            if index.moved < moved || segments == 0 && !index.old.is_empty() {
                resizes += 1;
                assert_eq!(segments, 0, "a resize begins when the one before has ended");
                assert!(index.moved <= SLOTS_PER_STEP);
            } else {
                assert!(index.moved - moved <= SLOTS_PER_STEP);
                assert!(index.old.segments.len() + 1 >= segments, "one segment is freed at a time");
            }
            // The step and the insertion itself touch three places of the new table.
            let grown = index.memory_usage().saturating_sub(memory);
            assert!(grown <= 3 * SEGMENT * size_of::<Slot>() + 1_024, "{grown} bytes at once");
        };
        let state =
            |index: &HashIndex| (index.moved, index.old.segments.len(), index.memory_usage());
        for record in 0..COUNT {
            let before = state(&index);
            index.insert(spread(record), record);
            check(&index, before);
        }
        for record in 0..COUNT {
            let before = state(&index);
            assert_eq!(index.find(spread(record), |found| found == record), Some(record));
            index.remove(spread(record), record);
            check(&index, before);
            let last = COUNT - 1;
            let found = index.find(spread(last), |found| found == last);
            assert_eq!(found.is_some(), record < last);
        }
        assert!(resizes > 10, "{resizes}");
    }

    #[test]
    fn memory_goes_back() {
        let mut index = HashIndex::new();
        for record in 0..110_000 {
            index.insert(spread(record), record);
        }
        assert!(index.memory_usage() <= 110_000 * 8 * 8 / 3);
        for record in 0..110_000 {
            index.remove(spread(record), record);
        }
        assert!(index.memory_usage() <= KEPT_SLOTS * 8 + 1_024);
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
