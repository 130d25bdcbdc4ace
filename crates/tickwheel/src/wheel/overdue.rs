//! Timers without a slot: their tick has passed.
//!
//! These are timers that were inserted with a deadline in the past or reset to one. They are ordered
//! by deadline, then by insertion, and cost O(log n). They are in a tree, not in a heap: the vector
//! of a heap with ten million timers would take too long to copy when it grows, and to sweep. As in
//! the slots, these are references, which may be stale.
//!
//! In a hashed wheel that is more than a round behind, there are also timers of the rounds that it
//! has missed. They are in a [`Backlog`], ordered by deadline only.

use alloc::collections::BTreeMap;
use core::ops::Bound::{Excluded, Unbounded};

use super::backlog::Backlog;
use super::references::CHUNK;

/// A reference to an entry, with the deadline that the entry had.
#[derive(Clone, Copy)]
pub(super) struct Late {
    pub(super) deadline: u64,
    pub(super) index: u32,
    pub(super) stamp: u8,
}

/// The deadline and the number of the insertion.
type Rank = (u64, u64);

pub(super) struct Overdue {
    timers: BTreeMap<Rank, (u32, u8)>,
    /// Counts insertions, to keep their order among equal deadlines.
    sequence: u64,
    /// The sweep has examined all references up to this rank.
    swept: Option<Rank>,
    backlog: Backlog,
    /// The number of references in the tree and the backlog.
    len: usize,
}

impl Overdue {
    pub(super) fn new() -> Self {
        Self { timers: BTreeMap::new(), sequence: 0, swept: None, backlog: Backlog::EMPTY, len: 0 }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[cold]
    pub(super) fn push(&mut self, deadline: u64, index: u32, stamp: u8) {
        self.sequence += 1;
        self.len += 1;
        self.timers.insert((deadline, self.sequence), (index, stamp));
    }

    /// Adds a timer of a round that the wheel has missed. Not inlined, so that the walks are, which
    /// rarely find one.
    #[inline(never)]
    pub(super) fn push_missed(&mut self, deadline: u64, index: u32, stamp: u8) {
        self.len += 1;
        self.backlog.push(Late { deadline, index, stamp });
    }

    /// Returns the reference with the smallest deadline.
    #[inline]
    pub(super) fn first(&self) -> Option<Late> {
        let missed = self.backlog.first();
        match self.timers.first_key_value().map(late) {
            Some(late) if missed.is_none_or(|missed| late.deadline <= missed.deadline) => {
                Some(late)
            }
            _ => missed,
        }
    }

    /// Takes out the reference that [`first`](Self::first) returns. Calls `prefetch` with the index
    /// of one that will be needed later.
    #[inline]
    pub(super) fn pop(&mut self, prefetch: impl FnOnce(u32)) -> Option<Late> {
        self.len = self.len.saturating_sub(1);
        if self.timers.is_empty() {
            return self.backlog.pop(prefetch);
        }
        self.pop_either(prefetch)
    }

    fn pop_either(&mut self, prefetch: impl FnOnce(u32)) -> Option<Late> {
        let missed = self.backlog.first();
        match self.timers.first_entry() {
            Some(first) if missed.is_none_or(|missed| first.key().0 <= missed.deadline) => {
                let (rank, reference) = first.remove_entry();
                Some(late((&rank, &reference)))
            }
            _ => self.backlog.pop(prefetch),
        }
    }

    /// Examines as many references as a chunk holds, and drops those that are not `live`. Each call
    /// continues where the last one stopped. Returns the number of dropped references.
    #[cold]
    #[inline(never)]
    pub(super) fn sweep_step(&mut self, live: impl Fn(Late) -> bool) -> usize {
        if self.backlog.is_being_swept() {
            let dropped = self.backlog.sweep_step(live);
            self.len -= dropped;
            return dropped;
        }
        let from = self.swept.map_or(Unbounded, Excluded);
        let mut stale = [(0, 0); CHUNK];
        let (mut dropped, mut seen) = (0, 0);
        for (&rank, reference) in self.timers.range((from, Unbounded)).take(CHUNK) {
            stale[dropped] = rank;
            dropped += usize::from(!live(late((&rank, reference))));
            self.swept = Some(rank);
            seen += 1;
        }
        if seen < CHUNK {
            self.swept = None;
            self.backlog.begin_sweep();
        }
        for rank in &stale[..dropped] {
            self.timers.remove(rank);
        }
        self.len -= dropped;
        dropped
    }

    /// Returns `true` between two steps of a sweep.
    pub(super) fn is_being_swept(&self) -> bool {
        self.swept.is_some() || self.backlog.is_being_swept()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Late> {
        self.timers.iter().map(late).chain(self.backlog.iter())
    }

    /// Returns about the number of bytes that it takes. Nodes of the tree are at least half full.
    pub(super) fn memory_usage(&self) -> usize {
        self.timers.len() * 2 * size_of::<(Rank, (u32, u8))>() + self.backlog.memory_usage()
    }

    pub(super) fn check_invariants(&self) {
        assert_eq!(self.len, self.iter().count(), "the number of overdue timers");
        self.backlog.check_invariants();
    }
}

fn late((&(deadline, _), &(index, stamp)): (&Rank, &(u32, u8))) -> Late {
    Late { deadline, index, stamp }
}
