//! `BinaryHeap` with lazy cancel: the heap holds references, a slab holds the values.
//!
//! A reference is valid while it has the stamp of its slab entry. Removing or moving a timer
//! changes the stamp; the stale reference stays in the heap until it reaches the top. So both
//! operations are cheap, but a heap whose timers are moved often grows without bound.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::wheel::contender::Contender;

/// The index of a slab entry, and how often the entry had been freed when the key was created.
#[derive(Clone, Copy)]
pub(in crate::wheel) struct Key {
    index: u32,
    generation: u32,
}

struct Place {
    value: u64,
    generation: u32,
    stamp: u32,
}

/// Ordered by deadline first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Reference {
    deadline: u64,
    index: u32,
    stamp: u32,
}

pub(in crate::wheel) struct LazyHeap {
    references: BinaryHeap<Reverse<Reference>>,
    places: Vec<Place>,
    free: Vec<u32>,
}

impl LazyHeap {
    /// Returns the slab entry of a pending timer.
    fn place(&mut self, key: Key) -> &mut Place {
        let place = &mut self.places[key.index as usize];
        assert!(place.generation == key.generation, "the timer is pending");
        place
    }

    /// Stores `value` in a free slab entry or a new one.
    fn occupy(&mut self, value: u64) -> u32 {
        if let Some(index) = self.free.pop() {
            self.places[index as usize].value = value;
            return index;
        }
        self.places.push(Place { value, generation: 0, stamp: 0 });
        (self.places.len() - 1) as u32
    }

    fn vacate(&mut self, index: u32) -> u64 {
        let place = &mut self.places[index as usize];
        place.generation = place.generation.wrapping_add(1);
        place.stamp = place.stamp.wrapping_add(1);
        self.free.push(index);
        place.value
    }

    fn refer(&mut self, index: u32, stamp: u32, deadline: u64) {
        self.references.push(Reverse(Reference { deadline, index, stamp }));
    }
}

impl Contender for LazyHeap {
    type Key = Key;
    const KEEPS_KEYS: bool = true;

    fn new() -> Self {
        Self { references: BinaryHeap::new(), places: Vec::new(), free: Vec::new() }
    }

    fn insert(&mut self, deadline: u64, value: u64) -> Key {
        let index = self.occupy(value);
        let Place { generation, stamp, .. } = self.places[index as usize];
        self.refer(index, stamp, deadline);
        Key { index, generation }
    }

    fn remove(&mut self, key: Key) -> u64 {
        self.place(key);
        self.vacate(key.index)
    }

    fn reset(&mut self, key: &mut Key, deadline: u64) {
        let place = self.place(*key);
        place.stamp = place.stamp.wrapping_add(1);
        let stamp = place.stamp;
        self.refer(key.index, stamp, deadline);
    }

    fn pop_due(&mut self, now: u64, mut due: impl FnMut(u64)) {
        while let Some(Reverse(first)) = self.references.peek()
            && first.deadline <= now
        {
            let (index, stamp) = (first.index, first.stamp);
            self.references.pop();
            if self.places[index as usize].stamp == stamp {
                due(self.vacate(index));
            }
        }
    }
}
