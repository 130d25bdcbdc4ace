//! Timers that were late already when they were inserted, or reset to the past.
//!
//! They have no slot to wait in. A heap gives them out in order of deadline, and in order of
//! insertion where that is equal, ahead of all that the wheel still holds. It is the only
//! part of a wheel that is not O(1); it holds nothing unless a caller schedules into the past.
//! As everywhere, what is in it are references: they may be stale.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// The capacity that an emptied heap may keep.
const KEPT: usize = 1024;

/// A reference to an entry, with the deadline that the entry had.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Late {
    pub(super) deadline: u64,
    sequence: u64,
    pub(super) index: u32,
    pub(super) stamp: u8,
}

pub(super) struct Overdue {
    heap: BinaryHeap<Reverse<Late>>,
    /// Counts pushes, to keep the order of insertion.
    sequence: u64,
}

impl Overdue {
    pub(super) fn new() -> Self {
        Self { heap: BinaryHeap::new(), sequence: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    #[cold]
    pub(super) fn push(&mut self, deadline: u64, index: u32, stamp: u8) {
        self.sequence += 1;
        self.heap.push(Reverse(Late { deadline, sequence: self.sequence, index, stamp }));
    }

    /// The smallest deadline.
    pub(super) fn first(&self) -> Option<u64> {
        Some(self.heap.peek()?.0.deadline)
    }

    /// Takes out the reference with the smallest deadline.
    pub(super) fn pop(&mut self) -> Option<Late> {
        let late = self.heap.pop()?.0;
        if self.heap.is_empty() && self.heap.capacity() > KEPT {
            self.heap = BinaryHeap::new();
        }
        Some(late)
    }

    /// Drops the references that are not `live`, and memory that is no longer needed.
    pub(super) fn retain(&mut self, mut live: impl FnMut(Late) -> bool) {
        self.heap.retain(|late| live(late.0));
        self.heap.shrink_to(2 * self.heap.len());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Late> {
        self.heap.iter().map(|late| late.0)
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.heap.capacity() * size_of::<Reverse<Late>>()
    }
}
