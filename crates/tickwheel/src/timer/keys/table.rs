//! The table that finds the pending task of a key, if the task is a closure that is called once. Tasks
//! with a record are found by `tasks/records.rs`.
//!
//! A task with a key is an entry of the wheel like any other. The table keeps the key beside the
//! wheel, in pages that are addressed like the wheel's entries: the [`Slot`] with the key has the
//! index of the entry. A [`HashIndex`] finds that index by the key's hash. Neither direction allocates
//! per task. A key costs 32 bytes for its slot and about 16 for the index; both use huge pages once
//! they are large.
//!
//! If only a few entries of a page have a key, their slots are in a map instead, so that a few keys
//! among many tasks do not cost a page each.
//!
//! The handle of a task does not learn that another caller cancelled the task by its key. So a slot
//! records whether the handle still exists (`watched`). If it does when the task is cancelled by key,
//! the task is listed in `cancelled` until the handle is dropped.
//!
//! Ground rules:
//! * Everything here is used under the shard's lock.
//! * A slot is in use exactly while the entry with its index is in the wheel and its job
//!   [has a key](crate::timer::tasks::job::Job::has_key).
//! * No call takes long, however many keys there are: pages have a fixed size, and the index and the
//!   list of cancellations grow in steps.

use std::collections::HashMap;
use std::vec::Vec;

use crate::timer::Key;
use crate::timer::core::shrink::shrink;
use crate::timer::keys::cancellations::Cancellations;
use crate::wheel;
use crate::wheel::block::Block;
use crate::wheel::hash_index::HashIndex;

/// The number of slots in a page. A page then has the size of a huge page of the system.
const PAGE_SLOTS: usize = 1 << 16;
/// The minimum number of slots in the first page.
const MIN_SLOTS: usize = 64;
/// Up to this many slots of a page are in a map: clearing a page takes as long as using the map a
/// thousand times. Tests use a smaller number, to reach both forms in few steps.
const MAX_SPARSE: usize = if cfg!(test) { 16 } else { 1024 };
/// Set in the mark of a slot while the task's handle exists.
const WATCHED: u32 = 1 << 31;

pub(crate) struct KeyTable {
    /// Only the first page grows, by doubling, so that few keys take little memory.
    pages: Vec<Page>,
    /// The slots of a page that became empty, kept for the next page that needs some.
    spare: Block<Slot>,
    index: HashIndex,
    cancelled: Cancellations,
}

#[derive(Default)]
struct Page {
    /// The number of slots in use.
    used: usize,
    /// The slots in use, by offset, while they are few.
    sparse: HashMap<u16, Slot>,
    /// All slots, once many are in use, until none is.
    slots: Block<Slot>,
}

/// The key of the wheel's entry with the same index.
#[derive(Default)]
struct Slot {
    key: Option<Key>,
    generation: u32,
    /// The bits of the key's hash that the index uses, and the bit [`WATCHED`].
    mark: u32,
}

impl KeyTable {
    pub(crate) fn new() -> Self {
        Self {
            pages: Vec::new(),
            spare: Block::EMPTY,
            index: HashIndex::new(),
            cancelled: Cancellations::new(),
        }
    }

    /// Finds the task with a key. Calls `on_candidate` with the index of each task whose hash matches,
    /// so that its entry can be prefetched while the key is compared.
    #[inline]
    pub(crate) fn find(
        &self,
        key: &Key,
        hash: u64,
        on_candidate: impl Fn(u32),
    ) -> Option<wheel::Key> {
        let mut generation = 0;
        let index = self.index.find(short(hash), |index| {
            on_candidate(index);
            let slot = self.slot(index).filter(|slot| slot.key.as_ref() == Some(key));
            slot.inspect(|slot| generation = slot.generation).is_some()
        })?;
        Some(wheel::Key { index, generation })
    }

    /// Prefetches the memory in which the key with this hash will be searched.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.index.prefetch(short(hash));
    }

    /// Adds the key of a task whose handle exists. The key must not be in the table.
    #[inline]
    pub(crate) fn insert(&mut self, key: Key, hash: u64, wheel_key: wheel::Key) {
        let hash = short(hash);
        self.index.insert(hash, wheel_key.index);
        let slot = Slot { key: Some(key), generation: wheel_key.generation, mark: hash | WATCHED };
        let (number, offset) = split(wheel_key.index);
        match self.pages.get_mut(number) {
            Some(page) if offset < page.slots.len() => {
                page.used += 1;
                page.slots[offset] = slot;
            }
            _ => self.grow_and_insert(number, offset, slot),
        }
    }

    /// Adds a slot to a page that has no memory for it.
    #[cold]
    fn grow_and_insert(&mut self, number: usize, offset: usize, slot: Slot) {
        if number >= self.pages.len() {
            self.pages.resize_with(number + 1, Page::default);
        }
        let page = &mut self.pages[number];
        page.used += 1;
        if number > 0 && page.used <= MAX_SPARSE {
            page.sparse.insert(offset as u16, slot);
            return;
        }
        let slots = &mut page.slots;
        if slots.is_empty() {
            *slots = core::mem::take(&mut self.spare);
        }
        let len =
            if number == 0 { (offset + 1).next_power_of_two().max(MIN_SLOTS) } else { PAGE_SLOTS };
        if slots.len() < len {
            *slots = core::mem::take(slots).with_other_capacity(len);
            slots.fill_up(Slot::default);
        }
        slots[offset] = slot;
        for (offset, slot) in core::mem::take(&mut page.sparse) {
            slots[usize::from(offset)] = slot;
        }
    }

    /// Removes the key of a task that has left the wheel.
    #[inline]
    pub(crate) fn forget(&mut self, wheel_key: wheel::Key) -> Option<Key> {
        self.take(wheel_key).map(|(key, _)| key)
    }

    /// Removes the key of a task that was cancelled by key. If the task's handle exists, the
    /// table remembers the cancellation for it.
    pub(crate) fn forget_cancelled(&mut self, wheel_key: wheel::Key) {
        if let Some((_, true)) = self.take(wheel_key) {
            self.cancelled.insert(wheel_key);
        }
    }

    /// Empties a slot. Returns its key, and whether the task's handle exists.
    fn take(&mut self, wheel_key: wheel::Key) -> Option<(Key, bool)> {
        let (number, offset) = split(wheel_key.index);
        let page = self.pages.get_mut(number)?;
        let Slot { key, mark, .. } = match page.slots.get_mut(offset) {
            Some(slot) => core::mem::take(slot),
            None => page.sparse.remove(&(offset as u16))?,
        };
        let key = key?;
        page.used -= 1;
        if page.slots.is_empty() {
            shrink(&mut page.sparse);
        } else if page.used == 0 {
            self.spare = core::mem::take(&mut page.slots);
        }
        self.index.remove(mark & !WATCHED, wheel_key.index);
        Some((key, mark & WATCHED != 0))
    }

    /// Takes all keys out, except the cancellations that handles do not know of yet.
    pub(crate) fn take_all(&mut self) -> Self {
        let cancelled = core::mem::replace(&mut self.cancelled, Cancellations::new());
        core::mem::replace(self, Self { cancelled, ..Self::new() })
    }

    /// Notes that the handle of a task was dropped.
    pub(crate) fn unwatch(&mut self, wheel_key: wheel::Key) {
        if let Some(slot) = self.slot_mut(wheel_key.index)
            && slot.key.is_some()
            && slot.generation == wheel_key.generation
        {
            slot.mark &= !WATCHED;
        } else {
            self.cancelled.remove(wheel_key);
        }
    }

    /// Returns `true` if a task was cancelled by key and its handle exists.
    pub(crate) fn was_cancelled(&self, wheel_key: wheel::Key) -> bool {
        self.cancelled.contains(wheel_key)
    }

    /// Returns the bytes allocated for keys, without strings that are too long to be stored inline.
    pub(crate) fn memory_usage(&self) -> usize {
        let slots = self.pages.iter().map(|page| page.slots.capacity()).sum::<usize>();
        let sparse = self.pages.iter().map(|page| page.sparse.capacity()).sum::<usize>();
        (slots + self.spare.capacity()) * size_of::<Slot>()
            + sparse * size_of::<(u16, Slot)>()
            + self.pages.capacity() * size_of::<Page>()
            + self.index.memory_usage()
            + self.cancelled.memory_usage()
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot> {
        let (number, offset) = split(index);
        let page = self.pages.get(number)?;
        page.slots.get(offset).or_else(|| page.sparse.get(&(offset as u16)))
    }

    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot> {
        let (number, offset) = split(index);
        let page = self.pages.get_mut(number)?;
        page.slots.get_mut(offset).or_else(|| page.sparse.get_mut(&(offset as u16)))
    }
}

/// Returns the bits of a hash that the index uses.
fn short(hash: u64) -> u32 {
    hash as u32 & !WATCHED
}

/// Returns the page of an index, and the offset in it.
fn split(index: u32) -> (usize, usize) {
    (index as usize / PAGE_SLOTS, index as usize % PAGE_SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    fn wheel_key(index: u32, generation: u32) -> wheel::Key {
        wheel::Key { index, generation }
    }

    /// Few different hashes, so that they collide, and some that wrap around the end of the table.
    fn hash(key: u16) -> u64 {
        u64::from(match key % 4 {
            0 => 7,
            1 => u32::MAX,
            2 => u32::from(key % 8),
            _ => u32::from(key),
        })
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u16, u32),
        Forget(u16),
        ForgetCancelled(u16),
        Unwatch(u16),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let key = 0..200_u16;
        // On the first page, and on others with a few or many slots in use.
        let index =
            prop_oneof![2 => 0..3_000_u32, 1 => 65_500..65_600_u32, 1 => 200_000..200_020_u32];
        let step = prop_oneof![
            4 => (key.clone(), index).prop_map(|(key, index)| Step::Insert(key, index)),
            1 => key.clone().prop_map(Step::Forget),
            1 => key.clone().prop_map(Step::ForgetCancelled),
            1 => key.prop_map(Step::Unwatch),
        ];
        vec(step, 0..400)
    }

    proptest! {
        #[test]
        fn the_table_behaves_like_a_map(steps in steps()) {
            let mut keys = KeyTable::new();
            let mut model: HashMap<u16, (wheel::Key, bool)> = HashMap::new();
            let mut cancelled = HashSet::new();
            for (n, step) in (0..).zip(steps) {
                match step {
                    Step::Insert(key, index) => {
                        let free = model.values().all(|(at, _)| at.index != index);
                        if free && !model.contains_key(&key) {
                            keys.insert(key.into(), hash(key), wheel_key(index, n));
                            model.insert(key, (wheel_key(index, n), true));
                        }
                    }
                    Step::Forget(key) => {
                        if let Some((at, _)) = model.remove(&key) {
                            prop_assert_eq!(keys.forget(at), Some(key.into()));
                        }
                    }
                    Step::ForgetCancelled(key) => {
                        if let Some((at, watched)) = model.remove(&key) {
                            keys.forget_cancelled(at);
                            if watched {
                                cancelled.insert(at);
                            }
                        }
                    }
                    Step::Unwatch(key) => {
                        if let Some((at, watched)) = model.get_mut(&key) {
                            keys.unwatch(*at);
                            *watched = false;
                        } else if let Some(&at) = cancelled.iter().next() {
                            keys.unwatch(at);
                            cancelled.remove(&at);
                        }
                    }
                }
                prop_assert_eq!(keys.index.len(), model.len());
                prop_assert_eq!(keys.pages.iter().map(|page| page.used).sum::<usize>(), model.len());
                prop_assert_eq!(keys.cancelled.len(), cancelled.len());
                prop_assert!(cancelled.iter().all(|&at| keys.was_cancelled(at)));
                for key in 0..200 {
                    let found = keys.find(&key.into(), hash(key), |_| ());
                    prop_assert_eq!(found, model.get(&key).map(|&(at, _)| at));
                }
            }
        }
    }

    #[test]
    fn removed_keys_free_their_memory() {
        let mut keys = KeyTable::new();
        let count = 100_000;
        for n in 0..count {
            keys.insert(n.into(), u64::from(n).wrapping_mul(0x9E37_79B9), wheel_key(n, 0));
        }
        let full = keys.memory_usage();
        // The index is being resized at this moment, so its old and its new table are there.
        assert!(full < 80 * count as usize, "{full}");
        for n in 0..count {
            assert_eq!(keys.forget(wheel_key(n, 0)), Some(n.into()));
        }
        // One page is kept as the spare.
        assert!(keys.memory_usage() <= (2 << 20) + (64 << 10), "{}", keys.memory_usage());
    }

    #[test]
    fn few_keys_among_many_entries_take_little_memory() {
        let mut keys = KeyTable::new();
        keys.insert("near".into(), 1, wheel_key(3, 0));
        assert!(keys.memory_usage() < 8 << 10, "{}", keys.memory_usage());
        let far = |n| wheel_key(100_000 * (n + 1), n);
        for n in 0..100 {
            keys.insert(n.into(), 1, far(n));
        }
        assert!(keys.memory_usage() < 200 << 10, "{}", keys.memory_usage());
        for n in 0..100 {
            let found = keys.find(&n.into(), 1, |_| ());
            assert_eq!(found, Some(far(n)));
            assert_eq!(keys.forget(far(n)), Some(n.into()));
        }
    }

    #[test]
    fn cancellations_are_forgotten_with_their_handles() {
        let mut keys = KeyTable::new();
        let count = 20_000;
        for n in 0..count {
            keys.insert("same".into(), 1, wheel_key(0, n));
            keys.forget_cancelled(wheel_key(0, n));
        }
        assert!(keys.was_cancelled(wheel_key(0, 7)));
        for n in 0..count {
            keys.unwatch(wheel_key(0, n));
        }
        assert!(keys.memory_usage() < 32 << 10, "{}", keys.memory_usage());
    }
}
