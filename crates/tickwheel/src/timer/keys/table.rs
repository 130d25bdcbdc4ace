//! Which pending task has which key.
//!
//! A task with a key is an entry of the wheel like any other. What its key adds is kept beside the
//! wheel, in pages that are addressed as the wheel's entries are: a [`Slot`] with the key at the
//! index of the entry. A [`HashIndex`] finds the index by the key's hash. So neither
//! direction allocates for a task, and a key costs 32 bytes and some 16 of the table; both are in
//! huge pages once they are large. Where only a few entries of a page have a key, their slots are
//! in a map instead, so that some keys among many tasks do not cost a page each. A task that has a
//! [`Record`] (a series, a wall-clock deadline) moves about in the wheel, and is kept by key in a
//! map.
//!
//! The handle of a task cannot know that somebody else cancelled it by its key. So a slot knows
//! whether the handle is still there (`watched`), and what was cancelled over its head is noted
//! among the `cancelled` until the handle is gone.
//!
//! Ground rules:
//! * Everything here is used under the shard's lock.
//! * A slot is in use exactly while the entry of its index is in the wheel and its job
//!   [has a key](crate::timer::tasks::job::Job::has_key).
//! * A key is in the table or in the map, never in both.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::vec::Vec;

use crate::timer::Key;
use crate::timer::core::shrink::{shrink, shrink_set};
use crate::timer::tasks::record::Record;
use crate::wheel;
use crate::wheel::block::Block;
use crate::wheel::hash_index::HashIndex;

/// Slots in a page, which has the size of a huge page of the system then.
const PAGE: usize = 1 << 16;
/// A page has at least so many places.
const SMALLEST: usize = 64;
/// Up to so many slots of a page are in a map: clearing a page takes as long as using the map a
/// thousand times. The tests have both with few steps.
const FEW: usize = if cfg!(test) { 16 } else { 1024 };
/// Set in the mark of a slot: the handle of the task is still there.
const WATCHED: u32 = 1 << 31;

/// The task that has a key.
#[derive(Clone)]
pub(crate) enum KeyHolder {
    /// A closure that is called once.
    Plain(wheel::Key),
    Record(Arc<Record>),
}

pub(crate) struct KeyTable {
    /// The first one alone grows, by doubling, so that few keys take little memory.
    pages: Vec<Page>,
    /// The slots of a page that was emptied, kept for the next one that needs some.
    spare: Block<Slot>,
    index: HashIndex,
    records: HashMap<Key, Arc<Record>>,
    /// Plain tasks that were cancelled by their key, and whose handle is still there.
    cancelled: HashSet<wheel::Key>,
}

#[derive(Default)]
struct Page {
    /// How many slots are in use.
    used: usize,
    /// Those in use, by offset, while they are few.
    few: HashMap<u16, Slot>,
    /// All of them since they are many, until none is in use.
    slots: Block<Slot>,
}

/// What is known of the key at an index of the wheel.
#[derive(Default)]
struct Slot {
    key: Option<Key>,
    generation: u32,
    /// What the table finds the key by, and whether it is watched.
    mark: u32,
}

impl KeyTable {
    pub(crate) fn new() -> Self {
        Self {
            pages: Vec::new(),
            spare: Block::EMPTY,
            index: HashIndex::new(),
            records: HashMap::new(),
            cancelled: HashSet::new(),
        }
    }

    /// Which task has a key. `near` is told the index of a plain one as soon as it is likely, so
    /// that its entry can be fetched while its key is.
    #[inline]
    pub(crate) fn find(&self, key: &Key, hash: u64, near: impl Fn(u32)) -> Option<KeyHolder> {
        if let Some(wheel_key) = self.find_plain(key, short(hash), near) {
            return Some(KeyHolder::Plain(wheel_key));
        }
        if self.records.is_empty() {
            return None;
        }
        self.records.get(key).cloned().map(KeyHolder::Record)
    }

    #[inline]
    fn find_plain(&self, key: &Key, hash: u32, near: impl Fn(u32)) -> Option<wheel::Key> {
        let mut generation = 0;
        let index = self.index.find(hash, |index| {
            near(index);
            let slot = self.slot(index).filter(|slot| slot.key.as_ref() == Some(key));
            slot.inspect(|slot| generation = slot.generation).is_some()
        })?;
        Some(wheel::Key { index, generation })
    }

    /// Has the memory fetched in which a key will be looked for.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.index.prefetch(short(hash));
    }

    /// A key that no task has is given to a plain one, whose handle is there.
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
            _ => self.insert_in_new_room(number, offset, slot),
        }
    }

    /// Puts a slot where a page has no memory for it.
    #[cold]
    fn insert_in_new_room(&mut self, number: usize, offset: usize, slot: Slot) {
        if number >= self.pages.len() {
            self.pages.resize_with(number + 1, Page::default);
        }
        let page = &mut self.pages[number];
        page.used += 1;
        if number > 0 && page.used <= FEW {
            page.few.insert(offset as u16, slot);
            return;
        }
        let slots = &mut page.slots;
        if slots.is_empty() {
            *slots = core::mem::take(&mut self.spare);
        }
        let len = if number == 0 { (offset + 1).next_power_of_two().max(SMALLEST) } else { PAGE };
        if slots.len() < len {
            *slots = core::mem::take(slots).with_other_capacity(len);
            slots.fill_up(Slot::default);
        }
        slots[offset] = slot;
        for (offset, slot) in core::mem::take(&mut page.few) {
            slots[usize::from(offset)] = slot;
        }
    }

    pub(crate) fn insert_record(&mut self, key: Key, record: Arc<Record>) {
        self.records.insert(key, record);
    }

    /// Removes the key of a plain task that has left the wheel.
    #[inline]
    pub(crate) fn forget(&mut self, wheel_key: wheel::Key) -> Option<Key> {
        self.take(wheel_key).map(|(key, _)| key)
    }

    /// As [`forget`](Self::forget), for a task that was cancelled by somebody who does not have
    /// its handle.
    pub(crate) fn forget_cancelled(&mut self, wheel_key: wheel::Key) {
        if let Some((_, true)) = self.take(wheel_key) {
            self.cancelled.insert(wheel_key);
        }
    }

    /// Gives the key, and whether the task's handle is still there.
    fn take(&mut self, wheel_key: wheel::Key) -> Option<(Key, bool)> {
        let (number, offset) = split(wheel_key.index);
        let page = self.pages.get_mut(number)?;
        let Slot { key, mark, .. } = match page.slots.get_mut(offset) {
            Some(slot) => core::mem::take(slot),
            None => page.few.remove(&(offset as u16))?,
        };
        let key = key?;
        page.used -= 1;
        if page.slots.is_empty() {
            shrink(&mut page.few);
        } else if page.used == 0 {
            self.spare = core::mem::take(&mut page.slots);
        }
        self.index.remove(mark & !WATCHED, wheel_key.index);
        Some((key, mark & WATCHED != 0))
    }

    /// The key of a record that is no longer pending is out of use.
    pub(crate) fn forget_record(&mut self, record: &Arc<Record>) {
        if let Some(key) = &record.key
            && self.records.get(key).is_some_and(|holder| Arc::ptr_eq(holder, record))
        {
            self.records.remove(key);
            shrink(&mut self.records);
        }
    }

    /// Takes all keys out. What was cancelled over the head of a handle stays known.
    pub(crate) fn take_all(&mut self) -> Self {
        let cancelled = core::mem::take(&mut self.cancelled);
        core::mem::replace(self, Self { cancelled, ..Self::new() })
    }

    /// The handle of a plain task is gone.
    pub(crate) fn unwatch(&mut self, wheel_key: wheel::Key) {
        if let Some(slot) = self.slot_mut(wheel_key.index)
            && slot.key.is_some()
            && slot.generation == wheel_key.generation
        {
            slot.mark &= !WATCHED;
        } else if !self.cancelled.is_empty() && self.cancelled.remove(&wheel_key) {
            shrink_set(&mut self.cancelled);
        }
    }

    /// Whether a plain task was cancelled by its key, while its handle is there.
    pub(crate) fn was_cancelled(&self, wheel_key: wheel::Key) -> bool {
        self.cancelled.contains(&wheel_key)
    }

    /// Bytes that are allocated for keys, not counting texts that are too long to be kept in place.
    pub(crate) fn memory_usage(&self) -> usize {
        let slots = self.pages.iter().map(|page| page.slots.capacity()).sum::<usize>();
        let few = self.pages.iter().map(|page| page.few.capacity()).sum::<usize>();
        (slots + self.spare.capacity()) * size_of::<Slot>()
            + few * size_of::<(u16, Slot)>()
            + self.pages.capacity() * size_of::<Page>()
            + self.index.memory_usage()
            + self.records.capacity() * size_of::<(Key, Arc<Record>)>()
            + self.cancelled.capacity() * size_of::<wheel::Key>()
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot> {
        let (number, offset) = split(index);
        let page = self.pages.get(number)?;
        page.slots.get(offset).or_else(|| page.few.get(&(offset as u16)))
    }

    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot> {
        let (number, offset) = split(index);
        let page = self.pages.get_mut(number)?;
        page.slots.get_mut(offset).or_else(|| page.few.get_mut(&(offset as u16)))
    }
}

/// The bits of a hash that are kept.
fn short(hash: u64) -> u32 {
    hash as u32 & !WATCHED
}

/// Which page an index is on, and where.
fn split(index: u32) -> (usize, usize) {
    (index as usize / PAGE, index as usize % PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn place(index: u32, generation: u32) -> wheel::Key {
        wheel::Key { index, generation }
    }

    /// Few hashes, so that they collide, and some that wrap around the end of the table.
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
        // On the first page, and on others that have a few slots in use or many.
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
        fn names_do_what_a_map_does(steps in steps()) {
            let mut keys = KeyTable::new();
            let mut model: HashMap<u16, (wheel::Key, bool)> = HashMap::new();
            let mut cancelled = HashSet::new();
            for (n, step) in (0..).zip(steps) {
                match step {
                    Step::Insert(key, index) => {
                        let free = model.values().all(|(at, _)| at.index != index);
                        if free && !model.contains_key(&key) {
                            keys.insert(key.into(), hash(key), place(index, n));
                            model.insert(key, (place(index, n), true));
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
                prop_assert_eq!(&keys.cancelled, &cancelled);
                for key in 0..200 {
                    let found = keys.find(&key.into(), hash(key), |_| ());
                    let found = found.map(|holder| match holder {
                        KeyHolder::Plain(wheel_key) => wheel_key,
                        KeyHolder::Record(_) => panic!("there are no records"),
                    });
                    prop_assert_eq!(found, model.get(&key).map(|&(at, _)| at));
                }
            }
        }
    }

    #[test]
    fn what_is_forgotten_leaves_no_memory_behind() {
        let mut keys = KeyTable::new();
        let count = 100_000;
        for n in 0..count {
            keys.insert(n.into(), u64::from(n).wrapping_mul(0x9E37_79B9), place(n, 0));
        }
        let full = keys.memory_usage();
        assert!(full < 64 * count as usize, "{full}");
        for n in 0..count {
            assert_eq!(keys.forget(place(n, 0)), Some(n.into()));
        }
        // One page is kept, as the wheel keeps a segment.
        assert!(keys.memory_usage() <= (2 << 20) + (64 << 10), "{}", keys.memory_usage());
    }

    #[test]
    fn few_names_among_many_entries_are_small() {
        let mut keys = KeyTable::new();
        keys.insert("near".into(), 1, place(3, 0));
        assert!(keys.memory_usage() < 8 << 10, "{}", keys.memory_usage());
        let far = |n| place(100_000 * (n + 1), n);
        for n in 0..100 {
            keys.insert(n.into(), 1, far(n));
        }
        assert!(keys.memory_usage() < 200 << 10, "{}", keys.memory_usage());
        for n in 0..100 {
            let found = keys.find(&n.into(), 1, |_| ());
            assert!(matches!(found, Some(KeyHolder::Plain(at)) if at == far(n)), "{n}");
            assert_eq!(keys.forget(far(n)), Some(n.into()));
        }
    }

    #[test]
    fn what_handles_had_to_know_is_forgotten_with_them() {
        let mut keys = KeyTable::new();
        let count = 20_000;
        for n in 0..count {
            keys.insert("same".into(), 1, place(0, n));
            keys.forget_cancelled(place(0, n));
        }
        assert!(keys.was_cancelled(place(0, 7)));
        for n in 0..count {
            keys.unwatch(place(0, n));
        }
        assert!(keys.memory_usage() < 32 << 10, "{}", keys.memory_usage());
    }
}
