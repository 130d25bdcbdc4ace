//! Memory for many small records of one type, addressed by index.
//!
//! Records are in *segments* of a fixed power-of-two number of places, so they never move, and
//! growing copies nothing. Only the first segment grows by doubling, so that a small wheel takes
//! little memory. A freed place goes to the free list of its segment. When the last record of a
//! segment is freed, so is the segment's memory. One empty segment is kept, so that a wheel whose
//! size varies a little does not allocate and free the same segment again and again.
//!
//! Ground rules:
//! * [`Arena::vacancy`] takes a place, which its caller then fills. [`Arena::free`] gives it back.
//!   A free place still holds a record, which links to the next free place.
//! * A freed place is the next one to be used if its segment is at least half full: it is still in
//!   the cache. Segments that are less than half full get no new records, so that they become
//!   empty. If no other segment has room, the lowest one is used first.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use super::block::Block;

/// No index: marks the end of a linked list.
pub(crate) const NIL: u32 = u32::MAX;

/// The minimum size of a segment: a huge page. A segment is less than twice as large.
const SEGMENT_BYTES: usize = 2 << 20;

/// A record of an arena.
pub(crate) trait Record: Sized {
    /// What a segment remembers about its records after their memory was freed.
    type Legacy: Copy;
    /// What the arena keeps beside its records, by index.
    type Beside;
    /// Returns the link to the next free place. Valid in a free place only.
    fn link(&self) -> u32;
    /// Makes this a free place that links to `next`.
    fn set_link(&mut self, next: u32);
    /// Returns the segment's legacy after this free record was overwritten.
    fn pass_on(&self, legacy: Self::Legacy) -> Self::Legacy;
    /// Returns the segment's legacy after its memory was freed.
    fn renew(legacy: Self::Legacy) -> Self::Legacy;
    /// Frees what is kept beside the records, from the index `places` on.
    fn forget_from(beside: &mut Self::Beside, places: usize);
}

struct Segment<E: Record> {
    places: Block<E>,
    /// The head of the free list, as an offset into `places`.
    free: u32,
    /// The number of taken places.
    taken: u32,
    legacy: E::Legacy,
}

/// A place for a new record.
pub(crate) enum Vacancy<'a, E: Record> {
    /// A place that was used before: overwrite its record.
    Used(&'a mut E),
    /// A place that was never used: push a record.
    Fresh(&'a mut Block<E>, E::Legacy),
}

pub(crate) struct Arena<E: Record> {
    segments: Vec<Segment<E>>,
    /// The segment of the next vacancy, if it has room.
    current: usize,
    /// The number of taken places.
    len: usize,
    /// The number of places that have memory, free or taken.
    capacity: usize,
    /// The legacy of a segment that has had no records yet.
    origin: E::Legacy,
    pub(super) beside: E::Beside,
}

impl<E: Record> Arena<E> {
    const SHIFT: u32 = SEGMENT_BYTES.div_ceil(size_of::<E>()).next_power_of_two().ilog2();
    /// The number of places in a segment.
    pub(super) const PLACES: usize = 1 << Self::SHIFT;

    pub(crate) fn new(origin: E::Legacy, beside: E::Beside) -> Self {
        Self { segments: Vec::new(), current: 0, len: 0, capacity: 0, origin, beside }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn split(index: u32) -> (usize, usize) {
        ((index >> Self::SHIFT) as usize, index as usize & (Self::PLACES - 1))
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&E> {
        let (segment, offset) = Self::split(index);
        self.segments.get(segment)?.places.get(offset)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut E> {
        let (segment, offset) = Self::split(index);
        self.segments.get_mut(segment)?.places.get_mut(offset)
    }

    /// Prefetches the record at `index`.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        let (segment, offset) = Self::split(index);
        if let Some(segment) = self.segments.get(segment) {
            segment.places.prefetch(offset);
        }
    }

    /// Takes a place for a new record. The caller must fill it.
    #[inline(always)]
    pub(crate) fn vacancy(&mut self) -> (u32, Vacancy<'_, E>, &mut E::Beside) {
        if self.segments.get(self.current).is_some_and(Segment::has_memory_for_one) {
            self.take_place()
        } else {
            self.make_room();
            self.take_place_in_new_room()
        }
    }

    /// As [`take_place`](Self::take_place), for the rare case that a segment was added. A function
    /// of its own, so that in the frequent case the compiler knows that there is room and omits the
    /// checks.
    #[cold]
    #[inline(never)]
    fn take_place_in_new_room(&mut self) -> (u32, Vacancy<'_, E>, &mut E::Beside) {
        self.take_place()
    }

    #[inline(always)]
    fn take_place(&mut self) -> (u32, Vacancy<'_, E>, &mut E::Beside) {
        let base = (self.current as u32) << Self::SHIFT;
        let segment = &mut self.segments[self.current];
        segment.taken += 1;
        self.len += 1;
        if segment.free == NIL {
            let index = base | segment.places.len() as u32;
            let vacancy = Vacancy::Fresh(&mut segment.places, segment.legacy);
            (index, vacancy, &mut self.beside)
        } else {
            let offset = segment.free;
            let record = &mut segment.places[offset as usize];
            segment.free = record.link();
            segment.legacy = record.pass_on(segment.legacy);
            (base | offset, Vacancy::Used(record), &mut self.beside)
        }
    }

    /// Empties the place at `index` with the function `empty`, and returns what that returns. The
    /// place is free afterwards if `empty` also returns `true`; otherwise it is never used again.
    /// Does nothing if `empty` returns `None`.
    #[inline]
    pub(crate) fn free<R>(
        &mut self,
        index: u32,
        empty: impl FnOnce(&mut E, &mut E::Beside) -> Option<(R, bool)>,
    ) -> Option<R> {
        let (number, offset) = Self::split(index);
        let segment = self.segments.get_mut(number)?;
        let record = segment.places.get_mut(offset)?;
        let (held, reusable) = empty(record, &mut self.beside)?;
        if reusable {
            record.set_link(segment.free);
            segment.free = offset as u32;
            segment.taken -= 1;
            self.len -= 1;
            if segment.taken == 0 {
                self.emptied();
            } else if 2 * segment.taken as usize >= Self::PLACES {
                self.current = number;
            }
        }
        Some(held)
    }

    /// Makes `current` a segment with memory for one more record: the lowest one with room, or
    /// else one whose memory was freed, or else a new one.
    #[cold]
    fn make_room(&mut self) {
        let usable = |segment: &Segment<E>| segment.has_room() && segment.places.capacity() > 0;
        let found = (self.segments.iter().position(usable))
            .or_else(|| self.segments.iter().position(Segment::has_room));
        self.current = found.unwrap_or_else(|| {
            assert!(
                self.segments.len() < (1 << (u32::BITS - Self::SHIFT)) - 1,
                "a wheel holds fewer than 2^32 timers"
            );
            self.segments.push(Segment::new(self.origin));
            self.segments.len() - 1
        });
        let segment = &self.segments[self.current];
        if !segment.has_memory_for_one() {
            let first = self.current == 0;
            let places = if first { (segment.places.capacity() * 2).max(4) } else { Self::PLACES };
            self.set_capacity(self.current, places.min(Self::PLACES));
        }
    }

    /// Reallocates a segment with memory for `places`, which must hold its records.
    fn set_capacity(&mut self, number: usize, places: usize) {
        let block = &mut self.segments[number].places;
        self.capacity = self.capacity - block.capacity() + places;
        *block = core::mem::take(block).with_other_capacity(places);
    }

    /// Takes the memory of a segment, with all records in it.
    fn give_up(&mut self, number: usize) -> Block<E> {
        let block = self.segments[number].give_up();
        self.capacity -= block.capacity();
        block
    }

    /// Returns `true` if more than three quarters of the memory are unused, and more than two
    /// segments.
    #[inline]
    pub(super) fn is_sparse(&self) -> bool {
        self.capacity > 4 * self.len + 2 * Self::PLACES
    }

    /// Moves a record to the lowest segment with room, if that is lower than its own, so that the
    /// highest segments become empty. Returns the new index. The caller must update all references
    /// to the old one.
    pub(super) fn lower(&mut self, index: u32) -> Option<u32>
    where
        E: Copy,
    {
        let (number, _) = Self::split(index);
        let lower = self.segments[..number].iter().position(Segment::has_memory_for_one)?;
        let record = self[index];
        self.current = lower;
        let (moved, vacancy, _) = self.take_place();
        match vacancy {
            Vacancy::Used(place) => *place = record,
            Vacancy::Fresh(places, _) => places.push(record),
        }
        self.free(index, |_, _| Some(((), true)));
        Some(moved)
    }

    /// Called when a segment has become empty. Keeps the memory of the lowest empty segment, and
    /// frees that of another one.
    #[cold]
    fn emptied(&mut self) {
        let mut spare = (0..self.segments.len()).filter(|&number| self.segments[number].is_spare());
        if let (Some(_), Some(higher)) = (spare.next(), spare.next()) {
            self.segments[higher].places.forget_records();
            self.give_up(higher);
            self.forget_end();
        }
    }

    /// Frees what is kept beside the places after the last one that has memory.
    fn forget_end(&mut self) {
        let end = self.segments.iter().rposition(|segment| segment.places.capacity() > 0);
        E::forget_from(&mut self.beside, end.map_or(0, |last| (last + 1) << Self::SHIFT));
    }

    /// Takes all records out, to be dropped by the caller. The legacies of the segments remain.
    pub(super) fn take_all(&mut self) -> Vec<Block<E>> {
        let old = (0..self.segments.len()).map(|number| self.give_up(number)).collect();
        self.forget_end();
        self.len = 0;
        self.current = 0;
        old
    }

    /// Iterates over all places that have memory, free or taken, with their indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &E)> {
        self.segments.iter().enumerate().flat_map(|(number, segment)| {
            let base = (number as u32) << Self::SHIFT;
            segment.places.iter().enumerate().map(move |(offset, e)| (base | offset as u32, e))
        })
    }

    /// Returns the first place at or after `index` that has memory.
    pub(super) fn next_place(&self, index: u32) -> Option<u32> {
        let (mut number, offset) = Self::split(index);
        if offset < self.segments.get(number)?.places.len() {
            return Some(index);
        }
        loop {
            number += 1;
            if !self.segments.get(number)?.places.is_empty() {
                return Some((number as u32) << Self::SHIFT);
            }
        }
    }

    /// Returns the last place before `index` that has memory.
    #[cfg(feature = "std")]
    pub(super) fn place_before(&self, index: u32) -> Option<u32> {
        let (number, offset) = Self::split(index);
        let len = |number: usize| self.segments.get(number).map_or(0, |s| s.places.len());
        let last_of = |number: usize, end: usize| (number << Self::SHIFT | (end - 1)) as u32;
        let end = offset.min(len(number));
        if end > 0 {
            return Some(last_of(number, end));
        }
        let lower = (0..number.min(self.segments.len())).rev().find(|&number| len(number) > 0)?;
        Some(last_of(lower, len(lower)))
    }

    /// Allocates memory for `additional` more records.
    ///
    /// # Panics
    ///
    /// Panics if an arena cannot hold as many.
    #[track_caller]
    pub(super) fn reserve(&mut self, additional: usize) {
        let wanted = self.len.saturating_add(additional);
        assert!(wanted < NIL as usize, "a wheel holds fewer than 2^32 timers, not {wanted}");
        let mut missing = wanted.saturating_sub(self.capacity);
        for number in 0.. {
            if missing == 0 {
                break;
            }
            if number == self.segments.len() {
                self.segments.push(Segment::new(self.origin));
            }
            let before = self.segments[number].places.capacity();
            if before < Self::PLACES {
                let grown =
                    if number == 0 { (before + missing).min(Self::PLACES) } else { Self::PLACES };
                self.set_capacity(number, grown);
                missing = missing.saturating_sub(grown - before);
            }
        }
    }

    /// Iterates over the legacies of all segments.
    pub(super) fn legacies(&self) -> impl Iterator<Item = E::Legacy> {
        self.segments.iter().map(|segment| segment.legacy)
    }

    /// Frees the memory of empty segments and, if there is only one segment, its unused end.
    pub(crate) fn shrink_to_fit(&mut self) {
        for number in 0..self.segments.len() {
            if self.segments[number].is_spare() {
                self.give_up(number);
            }
        }
        self.forget_end();
        if let [only] = &self.segments[..] {
            self.set_capacity(0, only.places.len());
        }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.capacity * size_of::<E>() + self.segments.capacity() * size_of::<Segment<E>>()
    }

    /// Panics unless the counts and free lists agree with each other.
    pub(super) fn check_invariants(&self, is_free: impl Fn(&E) -> bool) {
        let sum = |f: fn(&Segment<E>) -> usize| self.segments.iter().map(f).sum::<usize>();
        assert_eq!(sum(|s| s.taken as usize), self.len, "taken places");
        assert_eq!(sum(|s| s.places.capacity()), self.capacity, "places with memory");
        for segment in &self.segments {
            let mut free = 0;
            let mut at = segment.free;
            while at != NIL {
                let record = &segment.places[at as usize];
                assert!(is_free(record), "a taken place is on the free list");
                free += 1;
                assert!(free <= segment.places.len(), "the free list runs in a circle");
                at = record.link();
            }
            assert_eq!(free + segment.taken as usize, segment.places.len(), "free list length");
        }
    }
}

impl<E: Record> Index<u32> for Arena<E> {
    type Output = E;
    #[inline]
    fn index(&self, index: u32) -> &E {
        let (segment, offset) = Self::split(index);
        &self.segments[segment].places[offset]
    }
}

impl<E: Record> IndexMut<u32> for Arena<E> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut E {
        let (segment, offset) = Self::split(index);
        &mut self.segments[segment].places[offset]
    }
}

impl<E: Record> Segment<E> {
    fn new(legacy: E::Legacy) -> Self {
        Self { places: Block::EMPTY, free: NIL, taken: 0, legacy }
    }

    /// Returns `true` if the segment has memory but no records.
    fn is_spare(&self) -> bool {
        self.taken == 0 && self.places.capacity() > 0
    }

    fn has_room(&self) -> bool {
        (self.taken as usize) < Arena::<E>::PLACES
    }

    #[inline]
    fn has_memory_for_one(&self) -> bool {
        self.free != NIL || !self.places.is_full()
    }

    fn give_up(&mut self) -> Block<E> {
        self.legacy = E::renew(self.legacy);
        self.free = NIL;
        self.taken = 0;
        core::mem::replace(&mut self.places, Block::EMPTY)
    }
}
