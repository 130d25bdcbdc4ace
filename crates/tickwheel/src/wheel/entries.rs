//! The timers themselves: value, deadline and generation, addressed by [`Key`].
//!
//! Ground rules:
//! * An entry is live exactly while it holds a value.
//! * `generation` changes when the entry is freed, so a key matches for one life only. An entry
//!   that has gone through all 2³² generations is never used again.
//! * `stamp` changes whenever a reference to the entry becomes stale: when the entry is removed
//!   before it is due, and when it is placed again for an earlier deadline. It has only 8 bits and
//!   may wrap around. A stale reference that then matches by chance does no harm, because
//!   `deadline` is always checked before the timer fires.
//! * The stamps are also kept in an array of bytes, so that a sweep, which tells stale references
//!   from live ones, reads a small part of the memory that the entries take. A stamp outlives the
//!   memory of its entry, unless no later entry has memory either.

use alloc::boxed::Box;
use alloc::vec::{self, Vec};
use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;
#[cfg(target_has_atomic = "32")]
use core::sync::atomic::{AtomicU32, Ordering};

use super::arena::{Arena, Record, Vacancy};
use super::block::Block;
use super::{Due, Key, Pending};

pub(super) struct Entry<T> {
    /// The deadline; in a free entry, the link to the next one.
    deadline: u64,
    value: Option<T>,
    generation: u32,
    stamp: u8,
}

impl<T> Entry<T> {
    #[inline]
    fn is(&self, key: Key) -> bool {
        self.generation == key.generation && self.value.is_some()
    }

    /// Takes the timer out, if there is one.
    #[inline]
    fn take(&mut self, index: u32) -> Option<Due<T>> {
        let value = self.value.take()?;
        let key = Key { index, generation: self.generation };
        Some(Due { key, deadline: self.deadline, value })
    }

    /// Makes the keys of an emptied entry stale. Returns `false` if the entry has no generation left.
    /// It is then never used again, so that no key is given out twice.
    #[inline]
    fn renew(&mut self, first_generation: u32, worn: &mut usize) -> bool {
        let next = self.generation.wrapping_add(1);
        if next == first_generation {
            *worn += 1;
            return false;
        }
        self.generation = next;
        true
    }
}

/// The number of stamps in a page.
const PAGE: usize = 4096;

/// The stamps of all entries, by index, in pages: they grow without being copied.
pub(super) struct Stamps(Vec<Box<[u8; PAGE]>>);

impl Stamps {
    /// Adds the page with the stamp of an entry. All entries of that page start with the stamp
    /// `first`, which is also returned.
    #[cold]
    fn grow(&mut self, index: u32, first: u8) -> u8 {
        while self.0.len() <= index as usize / PAGE {
            self.0.push(Box::new([first; PAGE]));
        }
        first
    }

    /// Frees the pages that hold only stamps of `places` and later places.
    fn truncate(&mut self, places: usize) {
        self.0.truncate(places.div_ceil(PAGE));
        self.0.shrink_to_fit();
    }

    #[inline]
    fn get(&self, index: u32) -> Option<u8> {
        Some(self.0.get(index as usize / PAGE)?[index as usize % PAGE])
    }

    #[inline]
    fn view(&self) -> StampsView<'_> {
        StampsView(&self.0)
    }

    #[inline]
    fn set(&mut self, index: u32, stamp: u8) {
        self.0[index as usize / PAGE][index as usize % PAGE] = stamp;
    }

    fn memory_usage(&self) -> usize {
        self.0.len() * PAGE + self.0.capacity() * size_of::<Box<[u8; PAGE]>>()
    }
}

/// A view of the stamps, for many lookups. Unlike a reference to [`Stamps`], it can stay in
/// registers while other parts of the wheel are written to.
#[derive(Clone, Copy)]
pub(super) struct StampsView<'a>(&'a [Box<[u8; PAGE]>]);

impl StampsView<'_> {
    /// Returns `false` if a reference with this stamp is stale. A stale one may match by chance.
    #[inline(always)]
    pub(super) fn has(self, index: u32, stamp: u8) -> bool {
        match self.0.get(index as usize / PAGE) {
            Some(page) => page[index as usize % PAGE] == stamp,
            None => no_page(),
        }
    }
}

/// The answer for a reference whose stamps were freed, because its entry is gone. A function of its
/// own: inlined, the compiler would compute this rare case each time.
#[cold]
#[inline(never)]
fn no_page() -> bool {
    false
}

impl<T> Record for Entry<T> {
    /// The latest generation in the segment. Fresh entries start with it.
    type Legacy = Generation;
    type Beside = Stamps;

    fn link(&self) -> u32 {
        self.deadline as u32
    }

    fn set_link(&mut self, next: u32) {
        self.deadline = u64::from(next);
    }

    #[inline]
    fn pass_on(&self, latest: Generation) -> Generation {
        let later = self.generation.wrapping_sub(latest.first) > latest.age;
        let age = if later { self.generation.wrapping_sub(latest.first) } else { latest.age };
        Generation { age, ..latest }
    }

    fn renew(latest: Generation) -> Generation {
        Generation { age: latest.age.saturating_add(1), ..latest }
    }

    fn forget_from(stamps: &mut Stamps, places: usize) {
        stamps.truncate(places);
    }
}

/// A generation: the first one of the wheel, and the number of generations since.
#[derive(Clone, Copy)]
pub(super) struct Generation {
    first: u32,
    age: u32,
}

impl Generation {
    /// Returns the first stamp of entries whose old stamps were freed. It is far from those, so
    /// that few stale references to the old entries match by chance.
    fn first_stamp(self) -> u8 {
        (self.age as u8).wrapping_mul(37)
    }
}

/// All timers of one wheel.
pub(super) struct Entries<T> {
    arena: Arena<Entry<T>>,
    /// The generation that this wheel started with. An entry that comes round to it is worn out.
    first_generation: u32,
    /// The number of worn-out entries, which are never used again. The arena counts them as taken.
    worn: usize,
}

/// Returns the first generation of a new wheel. Those of different wheels are far apart, so that
/// one wheel rejects the keys of another.
fn first_generation() -> u32 {
    /// 2³² divided by the golden ratio: its multiples are as far apart as possible.
    const STRIDE: u32 = 0x9E37_79B9;
    #[cfg(target_has_atomic = "32")]
    {
        static NEXT: AtomicU32 = AtomicU32::new(STRIDE);
        NEXT.fetch_add(STRIDE, Ordering::Relaxed)
    }
    #[cfg(not(target_has_atomic = "32"))]
    STRIDE
}

impl<T> Entries<T> {
    pub(super) fn new() -> Self {
        let first_generation = first_generation();
        Self {
            arena: Arena::new(Generation { first: first_generation, age: 0 }, Stamps(Vec::new())),
            first_generation,
            worn: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.arena.len() - self.worn
    }

    /// Adds an entry, and returns its key and its stamp.
    #[inline(always)]
    pub(super) fn insert(&mut self, deadline: u64, value: T) -> (Key, u8) {
        let (index, vacancy, stamps) = self.arena.vacancy();
        let (generation, stamp) = match vacancy {
            Vacancy::Used(entry) => {
                entry.deadline = deadline;
                entry.value = Some(value);
                (entry.generation, entry.stamp)
            }
            Vacancy::Fresh(places, latest) => {
                let generation = latest.first.wrapping_add(latest.age);
                let stamp = stamps.get(index);
                let stamp = stamp.unwrap_or_else(|| stamps.grow(index, latest.first_stamp()));
                places.push(Entry { deadline, value: Some(value), generation, stamp });
                (generation, stamp)
            }
        };
        (Key { index, generation }, stamp)
    }

    #[inline]
    fn find(&self, key: Key) -> Option<&Entry<T>> {
        self.arena.get(key.index).filter(|entry| entry.is(key))
    }

    #[inline]
    fn find_mut(&mut self, key: Key) -> Option<&mut Entry<T>> {
        self.arena.get_mut(key.index).filter(|entry| entry.is(key))
    }

    #[inline]
    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let Key { index, generation } = key;
        let Self { arena, worn, first_generation } = self;
        arena.free(index, |entry, stamps| {
            if entry.generation != generation {
                return None;
            }
            let due = entry.take(index)?;
            entry.stamp = entry.stamp.wrapping_add(1);
            stamps.set(index, entry.stamp);
            Some((due.value, entry.renew(*first_generation, worn)))
        })
    }

    /// Follows a reference at its tick, and takes the timer out if it is due.
    #[inline]
    pub(super) fn meet(&mut self, index: u32, stamp: u8, tick: u64) -> Meeting<T> {
        let Self { arena, worn, first_generation } = self;
        let mut meeting = Meeting::Stale;
        let due = arena.free(index, |entry, _| {
            if entry.stamp != stamp {
                return None;
            }
            if entry.deadline > tick {
                if entry.value.is_some() {
                    meeting = Meeting::Later(entry.deadline);
                }
                return None;
            }
            let due = entry.take(index)?;
            Some((due, entry.renew(*first_generation, worn)))
        });
        due.map_or(meeting, Meeting::Due)
    }

    #[inline]
    pub(super) fn deadline(&self, key: Key) -> Option<u64> {
        Some(self.find(key)?.deadline)
    }

    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<&T> {
        self.find(key)?.value.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.find_mut(key)?.value.as_mut()
    }

    /// Sets a deadline. A later one needs no new reference: the wheel reaches the old one first, and
    /// places the timer again then.
    #[inline]
    pub(super) fn reset(&mut self, key: Key, deadline: u64) -> Reset {
        let Some(entry) = self.find_mut(key) else {
            return Reset::Stale;
        };
        let earlier = deadline < entry.deadline;
        entry.deadline = deadline;
        if earlier {
            let stamp = entry.stamp.wrapping_add(1);
            entry.stamp = stamp;
            self.arena.beside.set(key.index, stamp);
            Reset::Earlier { stamp }
        } else {
            Reset::Later
        }
    }

    /// Returns the deadline of the entry that a reference with this index and stamp points to, or
    /// `None` if the reference is stale.
    #[inline]
    pub(super) fn referenced(&self, index: u32, stamp: u8) -> Option<u64> {
        let entry = self.arena.get(index)?;
        (entry.stamp == stamp && entry.value.is_some()).then_some(entry.deadline)
    }

    /// Returns the timer that a reference points to, or `None` if the reference is stale.
    pub(super) fn pending(&self, index: u32, stamp: u8) -> Option<Pending<'_, T>> {
        let entry = self.arena.get(index).filter(|entry| entry.stamp == stamp)?;
        let key = Key { index, generation: entry.generation };
        Some(Pending { key, deadline: entry.deadline, value: entry.value.as_ref()? })
    }

    /// Returns `true` if the timer that a reference points to is due at `tick`.
    #[inline]
    pub(super) fn is_due(&self, index: u32, stamp: u8, tick: u64) -> bool {
        self.referenced(index, stamp).is_some_and(|deadline| deadline <= tick)
    }

    /// Returns the stamps of all entries, to tell stale references from others.
    #[inline]
    pub(super) fn stamps(&self) -> StampsView<'_> {
        self.arena.beside.view()
    }

    /// Prefetches the entry at `index`.
    #[inline]
    pub(super) fn prefetch(&self, index: u32) {
        self.arena.prefetch(index);
    }

    /// Removes all entries. The returned iterator owns them, so a destructor of a value that panics
    /// cannot harm the wheel.
    pub(super) fn drain<'a>(&mut self) -> Drain<'a, T> {
        let left = self.len();
        let segments = self.arena.take_all();
        if self.worn > 0 || self.arena.legacies().any(|latest| latest.age == u32::MAX) {
            // Keys of worn-out entries could be given out again. Start like a new wheel instead.
            *self = Self::new();
        }
        Drain {
            segment: Block::EMPTY,
            base: 0u32.wrapping_sub(Arena::<Entry<T>>::PLACES as u32),
            offset: 0,
            rest: segments.into_iter(),
            left,
            wheel: PhantomData,
        }
    }

    pub(super) fn iter(&self) -> Iter<'_, T> {
        Iter { entries: self, next: 0, left: self.len() }
    }

    #[track_caller]
    pub(super) fn reserve(&mut self, additional: usize) {
        self.arena.reserve(additional);
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.arena.shrink_to_fit();
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.arena.memory_usage() + self.arena.beside.memory_usage()
    }

    /// Returns the smallest deadline. Examines every entry.
    pub(super) fn earliest(&self) -> Option<u64> {
        self.iter().map(|pending| pending.deadline).min()
    }

    /// Panics if the arena is inconsistent. Returns the index, stamp and deadline of each live entry.
    pub(super) fn check_invariants(&self) -> impl Iterator<Item = (u32, u8, u64)> {
        self.arena.check_invariants(|entry| entry.value.is_none());
        let live = |(index, entry): (u32, &Entry<T>)| {
            let stamp = self.arena.beside.get(index).expect("a page");
            assert_eq!(stamp, entry.stamp, "the two stamps of entry {index}");
            entry.value.is_some().then_some((index, stamp, entry.deadline))
        };
        self.arena.iter().filter_map(live)
    }
}

/// The result of following a reference.
pub(super) enum Meeting<T> {
    /// A timer that is due; it has left the entries.
    Due(Due<T>),
    /// A timer that is due at this later tick. It needs a reference for that tick.
    Later(u64),
    /// The reference was stale.
    Stale,
}

/// The result of [`Entries::reset`].
pub(super) enum Reset {
    /// No such timer.
    Stale,
    /// The deadline moved earlier: the timer needs a reference with this stamp.
    Earlier { stamp: u8 },
    /// The deadline moved later or stayed. The old reference serves it.
    Later,
}

/// An iterator over the pending timers of a wheel, in no particular order.
///
/// ```
/// use tickwheel::wheel::HierarchicalWheel;
///
/// let wheel: HierarchicalWheel<char> = [(3, 'c'), (1, 'a')].into_iter().collect();
/// assert_eq!(wheel.iter().map(|pending| pending.deadline).sum::<u64>(), 4);
/// ```
pub struct Iter<'a, T> {
    entries: &'a Entries<T>,
    next: u32,
    left: usize,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = Pending<'a, T>;

    fn next(&mut self) -> Option<Pending<'a, T>> {
        while self.left > 0 {
            let index = self.entries.arena.next_place(self.next)?;
            self.next = index + 1;
            let entry = &self.entries.arena[index];
            if let Some(value) = &entry.value {
                self.left -= 1;
                let key = Key { index, generation: entry.generation };
                return Some(Pending { key, deadline: entry.deadline, value });
            }
        }
        None
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}
impl<T> FusedIterator for Iter<'_, T> {}

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<T: fmt::Debug> fmt::Debug for Iter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

/// An iterator that takes all pending timers out of a wheel, in no particular order.
///
/// The wheel is empty from the start. Dropping the iterator drops the timers that are left in it.
///
/// ```
/// use tickwheel::wheel::HierarchicalWheel;
///
/// let mut wheel: HierarchicalWheel<char> = [(3, 'c'), (1, 'a')].into_iter().collect();
/// let mut rest: Vec<_> = wheel.drain().map(|due| (due.deadline, due.value)).collect();
/// rest.sort();
/// assert_eq!(rest, [(1, 'a'), (3, 'c')]);
/// assert!(wheel.is_empty());
/// ```
pub struct Drain<'a, T> {
    /// The segment being emptied, its first index, and the offset of the next place in it.
    segment: Block<Entry<T>>,
    base: u32,
    offset: usize,
    /// The segments after that one.
    rest: vec::IntoIter<Block<Entry<T>>>,
    left: usize,
    /// A drain owns the timers, and borrows the wheel only by convention.
    wheel: PhantomData<&'a mut T>,
}

impl<T> Iterator for Drain<'_, T> {
    type Item = Due<T>;

    fn next(&mut self) -> Option<Due<T>> {
        loop {
            while let Some(entry) = self.segment.get_mut(self.offset) {
                let index = self.base + self.offset as u32;
                let key = Key { index, generation: entry.generation };
                self.offset += 1;
                if let Some(value) = entry.value.take() {
                    self.left -= 1;
                    return Some(Due { key, deadline: entry.deadline, value });
                }
            }
            self.segment = self.rest.next()?;
            self.base = self.base.wrapping_add(Arena::<Entry<T>>::PLACES as u32);
            self.offset = 0;
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for Drain<'_, T> {}
impl<T> FusedIterator for Drain<'_, T> {}

impl<T> fmt::Debug for Drain<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").field("left", &self.left).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_out_of_generations_is_not_used_again() {
        let mut entries = Entries::new();
        let (first, _) = entries.insert(1, 'a');
        let last = Key { generation: entries.first_generation.wrapping_sub(1), ..first };
        entries.arena[first.index].generation = last.generation;

        assert_eq!(entries.remove(last), Some('a'));
        assert_eq!((entries.len(), entries.get(last), entries.get(first)), (0, None, None));
        let (next, _) = entries.insert(2, 'b');
        assert_ne!(next.index, first.index);
        assert_eq!(entries.len(), 1);

        assert_eq!(entries.drain().count(), 1);
        let (again, _) = entries.insert(3, 'c');
        assert!(again != last && again != first && again != next);
    }

    #[test]
    fn stamps_are_freed_with_the_last_segments() {
        let places = Arena::<Entry<u64>>::PLACES;
        let mut entries = Entries::new();
        let keys: Vec<Key> = (0..3 * places as u64).map(|n| entries.insert(n, n).0).collect();
        // The last segment first: the lowest one without timers is kept.
        for &key in keys.iter().rev() {
            assert!(entries.remove(key).is_some());
        }
        assert_eq!(entries.stamps().0.len(), places / PAGE);
        assert!(entries.memory_usage() < (places + 1) * (size_of::<Entry<u64>>() + 1) + PAGE);

        // In their next life the entries have stamps that no reference of this life has.
        let (again, stamps): (Vec<Key>, Vec<u8>) =
            (0..3 * places as u64).map(|n| entries.insert(n, n)).unzip();
        assert!(stamps.iter().all(|&stamp| stamp != 0));
        assert!(again.iter().zip(&keys).all(|(again, key)| again != key));
        assert_eq!(entries.check_invariants().count(), 3 * places);
    }

    #[test]
    fn generations_go_on_after_the_segment_was_emptied() {
        let mut entries = Entries::new();
        let (first, _) = entries.insert(1, 'a');
        entries.remove(first);
        let (second, _) = entries.insert(1, 'b');
        assert_eq!((first.index, second.index), (0, 0));
        drop(entries.drain());
        let (third, _) = entries.insert(1, 'c');
        assert_eq!(third.index, 0);
        assert!(entries.get(first).is_none() && entries.get(second).is_none());
        assert_eq!(entries.get(third), Some(&'c'));
    }
}
