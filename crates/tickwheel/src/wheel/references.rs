//! The slots of a wheel: lists of references to entries.
//!
//! A list is a chain of *chunks* of two cache lines with 8-byte references. Appending writes to the
//! end of the last chunk, which is in the cache. Emptying a list reads its chunks in order; in a list
//! of linked entries every step would be a cache miss that depends on the one before.
//!
//! Ground rules:
//! * Only the last chunk of a list may be appended to; no chunk is empty.
//! * References leave a list in the order in which they were appended.
//! * Nothing here knows whether a reference is stale: callers of [`Lists::compact`] do.

use alloc::boxed::Box;
use alloc::vec;

use super::arena::{Arena, NIL, Record, Vacancy};

/// A reference to an entry: examine the entry at this tick.
#[derive(Clone, Copy)]
pub(super) struct Reference {
    pub(super) index: u32,
    /// 24 bits of the tick above 8 bits of the entry's stamp.
    tick_and_stamp: u32,
}

impl Reference {
    pub(super) const TICK_BITS: u32 = 24;

    /// Keeps the low [`TICK_BITS`](Self::TICK_BITS) of `tick`.
    #[inline]
    pub(super) fn new(index: u32, tick: u64, stamp: u8) -> Self {
        Self { index, tick_and_stamp: (tick as u32) << 8 | u32::from(stamp) }
    }

    #[inline]
    pub(super) fn tick(self) -> u64 {
        u64::from(self.tick_and_stamp >> 8)
    }

    #[inline]
    pub(super) fn stamp(self) -> u8 {
        self.tick_and_stamp as u8
    }

    const NONE: Self = Self { index: NIL, tick_and_stamp: 0 };
}

/// The number of references in a chunk, which then fills two cache lines.
pub(super) const CHUNK: usize = 15;

#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Chunk {
    references: [Reference; CHUNK],
    len: u32,
    /// The next chunk of the list, or of the free list.
    next: u32,
}

impl Chunk {
    pub(super) const EMPTY: Self = Self { references: [Reference::NONE; CHUNK], len: 0, next: NIL };

    #[inline]
    pub(super) fn references(&self) -> &[Reference] {
        &self.references[..self.len as usize]
    }
}

impl Record for Chunk {
    type Legacy = ();
    type Beside = ();

    fn link(&self) -> u32 {
        self.next
    }

    fn set_link(&mut self, next: u32) {
        self.next = next;
        self.len = 0;
    }

    fn pass_on(&self, (): ()) {}

    fn renew((): ()) {}

    fn forget_from((): &mut (), _places: usize) {}
}

#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    /// A lower bound of the ticks of all references that were noted.
    min_tick: u32,
}

impl List {
    const EMPTY: Self = Self { head: NIL, tail: NIL, min_tick: u32::MAX };

    #[cold]
    fn note(&mut self, earliest: Reference) {
        self.min_tick = earliest.tick() as u32;
    }
}

/// A fixed number of lists, with their chunks and a bitmap of those that are not empty.
pub(super) struct Lists {
    heads: Box<[List]>,
    /// A bit for each list.
    occupied: Box<[u64]>,
    /// A bit for each word of `occupied`.
    summary: Box<[u64]>,
    chunks: Arena<Chunk>,
    sweep: Position,
}

/// The position of a chunk in a list, given by the chunk before it ([`NIL`] for the first).
#[derive(Clone, Copy)]
pub(super) struct Position {
    pub(super) list: usize,
    before: u32,
}

impl Lists {
    pub(super) fn new(count: usize) -> Self {
        let words = count.div_ceil(64);
        Self {
            heads: vec![List::EMPTY; count].into_boxed_slice(),
            occupied: vec![0; words].into_boxed_slice(),
            summary: vec![0; words.div_ceil(64)].into_boxed_slice(),
            chunks: Arena::new((), ()),
            sweep: Position { list: 0, before: NIL },
        }
    }

    /// Returns `true` if most of the memory for chunks is unused.
    #[inline]
    pub(super) fn are_sparse(&self) -> bool {
        self.chunks.is_sparse()
    }

    #[inline]
    pub(super) fn is_empty(&self, list: usize) -> bool {
        self.heads[list].head == NIL
    }

    /// Returns the first list that is not empty.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        // All lists of a hierarchical wheel are in the first group.
        let mut group = 0;
        let mut words = *self.summary.first()?;
        while words == 0 {
            group += 1;
            words = *self.summary.get(group)?;
        }
        let word = group * 64 + words.trailing_zeros() as usize;
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }

    /// Returns the first list at or after `list` that is not empty.
    #[inline]
    pub(super) fn next_occupied(&self, list: usize) -> Option<usize> {
        let word = list / 64;
        let rest = self.occupied.get(word)? & (!0 << (list % 64));
        if rest != 0 {
            return Some(word * 64 + rest.trailing_zeros() as usize);
        }
        let mut group = (word + 1) / 64;
        let mut words = self.summary.get(group)? & (!0 << ((word + 1) % 64));
        while words == 0 {
            group += 1;
            words = *self.summary.get(group)?;
        }
        let word = group * 64 + words.trailing_zeros() as usize;
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }

    /// Returns a lower bound of the ticks of all references in the list that were noted, or `None` if
    /// the list is empty.
    #[inline]
    pub(super) fn min_tick(&self, list: usize) -> Option<u64> {
        let List { head, min_tick, .. } = self.heads[list];
        (head != NIL).then_some(u64::from(min_tick))
    }

    /// Appends a reference, and notes its tick for [`min_tick`](Self::min_tick).
    #[inline(always)]
    pub(super) fn append_and_note(&mut self, list: usize, reference: Reference) {
        let head = &mut self.heads[list];
        // Few references are the earliest so far, so a branch costs less than a write each time.
        if reference.tick() < u64::from(head.min_tick) {
            head.note(reference);
        }
        let tail = head.tail;
        self.append_after(tail, list, reference);
    }

    #[inline(always)]
    pub(super) fn append(&mut self, list: usize, reference: Reference) {
        self.append_after(self.heads[list].tail, list, reference);
    }

    /// Appends to a list whose last chunk is `tail`.
    #[inline(always)]
    fn append_after(&mut self, tail: u32, list: usize, reference: Reference) {
        // There is no chunk `NIL`, which is the tail of an empty list.
        if let Some(chunk) = self.chunks.get_mut(tail)
            && let Some(place) = chunk.references.get_mut(chunk.len as usize)
        {
            *place = reference;
            chunk.len += 1;
            return;
        }
        self.append_chunk(list, reference);
    }

    /// Adds a chunk with one reference to the end of a list.
    #[inline(never)]
    fn append_chunk(&mut self, list: usize, reference: Reference) {
        let (index, vacancy, ()) = self.chunks.vacancy();
        match vacancy {
            Vacancy::Used(chunk) => {
                chunk.references[0] = reference;
                chunk.len = 1;
                chunk.next = NIL;
            }
            Vacancy::Fresh(places, ()) => {
                let mut references = [Reference::NONE; CHUNK];
                references[0] = reference;
                places.push(Chunk { references, len: 1, ..Chunk::EMPTY });
            }
        }
        let entry = &mut self.heads[list];
        let tail = core::mem::replace(&mut entry.tail, index);
        if tail == NIL {
            entry.head = index;
            self.occupied[list / 64] |= 1 << (list % 64);
            self.summary[list / 4096] |= 1 << (list / 64 % 64);
        } else {
            self.chunks[tail].next = index;
        }
    }

    /// Takes the first chunk off a list.
    #[inline]
    pub(super) fn pop_chunk(&mut self, list: usize) -> Option<Chunk> {
        let mut chunk = Chunk::EMPTY;
        self.pop_chunk_into(list, &mut chunk).then_some(chunk)
    }

    /// Takes the first chunk off a list. Returns `false` if the list is empty.
    #[inline]
    pub(super) fn pop_chunk_into(&mut self, list: usize, chunk: &mut Chunk) -> bool {
        let head = self.heads[list].head;
        let Some(first) = self.chunks.get(head) else {
            return false;
        };
        *chunk = *first;
        // The next chunk of the list is at a random place in memory, and is needed soon.
        self.chunks.prefetch(chunk.next);
        self.unlink(Position { list, before: NIL }, head, chunk.next);
        true
    }

    /// Removes `chunk`, whose neighbours are `at.before` and `next`, from its list.
    fn unlink(&mut self, at: Position, chunk: u32, next: u32) {
        let entry = &mut self.heads[at.list];
        if at.before == NIL {
            entry.head = next;
        } else {
            self.chunks[at.before].next = next;
        }
        if next == NIL {
            entry.tail = at.before;
            if at.before == NIL {
                *entry = List::EMPTY;
                let word = &mut self.occupied[at.list / 64];
                *word &= !(1 << (at.list % 64));
                if *word == 0 {
                    self.summary[at.list / 4096] &= !(1 << (at.list / 64 % 64));
                }
            }
        }
        if self.sweep.list == at.list && self.sweep.before == chunk {
            self.sweep.before = at.before;
        }
        self.chunks.free(chunk, |_, ()| Some(((), true)));
    }

    /// Returns the position of a list's first chunk.
    pub(super) fn start(list: usize) -> Position {
        Position { list, before: NIL }
    }

    /// Returns the index of the chunk at a position, or [`NIL`] if the list ends there.
    fn at(&self, at: Position) -> u32 {
        match at.before {
            NIL => self.heads[at.list].head,
            before => self.chunks[before].next,
        }
    }

    /// Drops the references of one chunk for which `keep` returns `false`, and moves others to the
    /// chunk before it until that is full. Returns the position of the next chunk of the list, or
    /// `None` at its end, and the number of dropped references.
    #[inline(always)]
    pub(super) fn compact(
        &mut self,
        at: Position,
        mut keep: impl FnMut(Reference) -> bool,
    ) -> (Option<Position>, usize) {
        let index = self.at(at);
        if index == NIL {
            return (None, 0);
        }
        // A branch on `keep` could not be predicted. So each reference is written, and counted only
        // if it stays.
        let chunk = self.chunks[index];
        let (next, references) = (chunk.next, chunk.references());
        let (mut read, mut dropped) = (0, references.len());
        if let Some(before) = self.chunks.get_mut(at.before) {
            let start = before.len as usize;
            let mut len = start;
            while let (Some(&reference), Some(place)) =
                (references.get(read), before.references.get_mut(len))
            {
                *place = reference;
                len += usize::from(keep(reference));
                read += 1;
            }
            before.len = len as u32;
            dropped -= len - start;
        }
        let rest = &mut self.chunks[index];
        let mut len = 0;
        for &reference in &references[read..] {
            rest.references[len] = reference;
            len += usize::from(keep(reference));
        }
        rest.len = len as u32;
        dropped -= len;
        let before = if len == 0 {
            self.unlink(at, index, next);
            at.before
        } else {
            index
        };
        ((next != NIL).then_some(Position { before, ..at }), dropped)
    }

    /// Drops the references of one chunk that are not `live`. Each call examines the next chunk, of
    /// one list after the other, except the list `walked`. Returns the number of dropped references,
    /// or `None` after the last list.
    #[inline(always)]
    pub(super) fn sweep_step(
        &mut self,
        walked: Option<usize>,
        live: impl Fn(Reference) -> bool,
    ) -> Option<usize> {
        if self.sweep.before == NIL {
            let Some(list) = self.next_occupied(self.sweep.list) else {
                self.sweep.list = 0;
                return None;
            };
            self.sweep.list = list;
        }
        let end = Position { list: self.sweep.list + 1, before: NIL };
        if walked == Some(self.sweep.list) {
            self.sweep = end;
            return Some(0);
        }
        if self.are_sparse() {
            self.lower(self.sweep);
        }
        let (next, dropped) = self.compact(self.sweep, live);
        self.sweep = next.unwrap_or(end);
        // The next step comes a few operations later. Its chunk is prefetched until then.
        if let Some(before) = self.chunks.get(self.sweep.before) {
            self.chunks.prefetch(before.next);
        }
        Some(dropped)
    }

    /// Moves a chunk to a lower segment, so that the highest segments can be freed.
    #[cold]
    fn lower(&mut self, at: Position) {
        let index = self.at(at);
        if let Some(lower) = self.chunks.lower(index) {
            match at.before {
                NIL => self.heads[at.list].head = lower,
                before => self.chunks[before].next = lower,
            }
            let tail = &mut self.heads[at.list].tail;
            if *tail == index {
                *tail = lower;
            }
        }
    }

    /// Returns the references that the next [`pop_chunk`](Self::pop_chunk) of a list returns.
    #[inline]
    pub(super) fn to_pop(&self, list: usize) -> &[Reference] {
        self.preview(self.heads[list].head)
    }

    /// Returns the references of a chunk, and prefetches the chunk after it.
    #[inline]
    fn preview(&self, chunk: u32) -> &[Reference] {
        let Some(chunk) = self.chunks.get(chunk) else {
            return &[];
        };
        self.chunks.prefetch(chunk.next);
        chunk.references()
    }

    /// Iterates over the references of a list, stale ones included.
    pub(super) fn iter(&self, list: usize) -> impl Iterator<Item = Reference> {
        let mut next = self.heads[list].head;
        let chunks = core::iter::from_fn(move || {
            let chunk = self.chunks.get(next)?;
            next = chunk.next;
            Some(chunk.references())
        });
        chunks.flatten().copied()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.heads.len());
    }

    pub(super) fn reserve(&mut self, additional: usize) {
        // The partly used chunk at the end of each list is not counted.
        self.chunks.reserve(additional / CHUNK);
    }

    /// Packs the references of each list into as few chunks as possible, in new memory.
    pub(super) fn shrink_to_fit(&mut self) {
        let mut packed = Self::new(self.heads.len());
        while let Some(list) = self.first() {
            packed.heads[list].min_tick = self.heads[list].min_tick;
            while let Some(chunk) = self.pop_chunk(list) {
                for &reference in chunk.references() {
                    packed.append(list, reference);
                }
            }
        }
        packed.chunks.shrink_to_fit();
        *self = packed;
    }

    pub(super) fn memory_usage(&self) -> usize {
        size_of_val(&*self.heads)
            + size_of_val(&*self.occupied)
            + size_of_val(&*self.summary)
            + self.chunks.memory_usage()
    }

    /// Panics if the lists are inconsistent. Calls `see` with each reference and its list.
    pub(super) fn check_invariants(&self, mut see: impl FnMut(usize, Reference)) {
        self.chunks.check_invariants(|chunk| chunk.len == 0);
        let mut chunks = 0;
        for (number, list) in self.heads.iter().enumerate() {
            let occupied = self.occupied[number / 64] >> (number % 64) & 1 == 1;
            assert_eq!(occupied, list.head != NIL, "occupancy of list {number}");
            let (mut at, mut before) = (list.head, NIL);
            while at != NIL {
                let chunk = &self.chunks[at];
                assert!(!chunk.references().is_empty(), "an empty chunk in list {number}");
                for &reference in chunk.references() {
                    see(number, reference);
                }
                chunks += 1;
                (at, before) = (chunk.next, at);
            }
            assert_eq!(list.tail, before, "tail of list {number}");
        }
        for (number, &word) in self.occupied.iter().enumerate() {
            let summary = self.summary[number / 64] >> (number % 64) & 1 == 1;
            assert_eq!(summary, word != 0, "summary of word {number}");
        }
        assert_eq!(chunks, self.chunks.len(), "chunks");
    }
}
