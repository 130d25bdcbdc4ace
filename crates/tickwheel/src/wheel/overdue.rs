//! Overdue timers: their tick has passed, so they have no slot.
//!
//! Most of them were inserted with a deadline in the past or reset to one. They are ordered by
//! deadline, then by insertion, and an operation costs O(log n). They are in a tree, not in a heap:
//! a heap with ten million timers would take too long to copy when its vector grows, and to sweep.
//! As in the slots, only references are stored, which may be stale.
//!
//! If a hashed wheel is more than a round late, the timers of the missed rounds are overdue as
//! well. They are in a [`Backlog`], ordered by deadline only.

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

/// The overdue timers of a wheel.
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

    /// Prepares for timers of the rounds between two ticks, which the wheel has missed.
    pub(super) fn expect_missed(&mut self, start: u64, end: u64) {
        self.backlog.divide(start, end);
    }

    /// Adds a timer of a round that the wheel has missed. It is not inlined, because the walks over
    /// the slots are inlined and rarely call it.
    #[inline(never)]
    pub(super) fn push_missed(&mut self, deadline: u64, index: u32, stamp: u8) {
        self.len += 1;
        self.backlog.push(Late { deadline, index, stamp });
    }

    /// Returns a tick before which no timer is due.
    #[inline]
    pub(super) fn earliest(&self) -> Option<u64> {
        let missed = self.backlog.earliest();
        match self.timers.first_key_value() {
            Some((&(deadline, _), _)) => Some(missed.map_or(deadline, |tick| tick.min(deadline))),
            None => missed,
        }
    }

    /// Returns the reference that [`pop_until`](Self::pop_until) takes out.
    pub(super) fn first_until(&mut self, tick: u64) -> Option<Late> {
        let Some(late) = self.timers.first_key_value().map(late) else {
            return self.backlog.first_until(tick);
        };
        let missed = self.backlog.first_until(tick.min(late.deadline));
        missed
            .filter(|missed| missed.deadline < late.deadline)
            .or(Some(late))
            .filter(|first| first.deadline <= tick)
    }

    /// Takes out the reference with the smallest deadline, if that is at most `tick`. Calls `prefetch`
    /// with the index of one that will be needed later.
    #[inline]
    pub(super) fn pop_until(&mut self, tick: u64, prefetch: impl FnOnce(u32)) -> Option<Late> {
        let late = if self.timers.is_empty() {
            self.backlog.pop_until(tick, prefetch)
        } else {
            self.pop_either(tick, prefetch)
        };
        self.len -= usize::from(late.is_some());
        late
    }

    fn pop_either(&mut self, tick: u64, prefetch: impl FnOnce(u32)) -> Option<Late> {
        let first = self.timers.first_entry()?;
        let deadline = first.key().0;
        if self.backlog.first_until(tick).is_some_and(|missed| missed.deadline < deadline) {
            return self.backlog.pop_until(tick, prefetch);
        }
        let (rank, reference) = (deadline <= tick).then(|| first.remove_entry())?;
        Some(late((&rank, &reference)))
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

    /// Returns an estimate of the memory in bytes. Nodes of the tree are at least half full.
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
