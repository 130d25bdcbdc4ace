//! Timers without a slot: their tick has passed.
//!
//! These are timers that were inserted with a deadline in the past or reset to one and, in a
//! hashed wheel that is more than a round behind, timers of the rounds it has missed. They are
//! ordered by deadline, then by insertion, and cost O(log n). They are in a tree, not in a heap: the
//! vector of a heap with ten million timers would take too long to copy when it grows, and to sweep.
//! As in the slots, these are references, which may be stale.

use alloc::collections::BTreeMap;
use core::ops::Bound::{Excluded, Unbounded};

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
}

impl Overdue {
    pub(super) fn new() -> Self {
        Self { timers: BTreeMap::new(), sequence: 0, swept: None }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    #[cold]
    pub(super) fn push(&mut self, deadline: u64, index: u32, stamp: u8) {
        self.sequence += 1;
        self.timers.insert((deadline, self.sequence), (index, stamp));
    }

    /// Returns the reference with the smallest deadline.
    pub(super) fn first(&self) -> Option<Late> {
        self.timers.first_key_value().map(late)
    }

    /// Takes out the reference with the smallest deadline.
    pub(super) fn pop(&mut self) -> Option<Late> {
        self.timers.pop_first().as_ref().map(|(rank, reference)| late((rank, reference)))
    }

    /// Examines as many references as a chunk holds, and drops those that are not `live`. Each call
    /// continues where the last one stopped. Returns the number of dropped references.
    #[cold]
    #[inline(never)]
    pub(super) fn sweep_step(&mut self, live: impl Fn(Late) -> bool) -> usize {
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
        }
        for rank in &stale[..dropped] {
            self.timers.remove(rank);
        }
        dropped
    }

    /// Returns `true` between two steps of a sweep.
    pub(super) fn is_being_swept(&self) -> bool {
        self.swept.is_some()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Late> {
        self.timers.iter().map(late)
    }

    /// Returns about the number of bytes that the tree takes, as its nodes are at least half full.
    pub(super) fn memory_usage(&self) -> usize {
        self.timers.len() * 2 * size_of::<(Rank, (u32, u8))>()
    }
}

fn late((&(deadline, _), &(index, stamp)): (&Rank, &(u32, u8))) -> Late {
    Late { deadline, index, stamp }
}
