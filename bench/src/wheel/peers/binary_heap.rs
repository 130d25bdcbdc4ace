//! `BinaryHeap` with lazy cancel: the heap holds references, a slab holds the values.
//!
//! Removing a timer frees its place in the slab and bumps the place's generation; the reference
//! stays in the heap until it comes to the top and is seen to be stale. So a removal is cheap, and
//! a heap whose timers are moved often grows without bound.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::wheel::contender::Contender;

/// A place in the slab, as it was when the key was made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::wheel) struct Key {
    index: u32,
    generation: u32,
}

struct Place {
    value: u64,
    generation: u32,
}

pub(in crate::wheel) struct LazyHeap {
    references: BinaryHeap<Reverse<(u64, Key)>>,
    places: Vec<Place>,
    free: Vec<u32>,
}

impl LazyHeap {
    /// Frees the place that `key` names, unless the key is stale.
    fn take(&mut self, key: Key) -> Option<u64> {
        let place = &mut self.places[key.index as usize];
        if place.generation != key.generation {
            return None;
        }
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(place.value)
    }
}

impl Contender for LazyHeap {
    type Key = Key;

    fn new() -> Self {
        Self {
            references: BinaryHeap::new(),
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    fn insert(&mut self, deadline: u64, value: u64) -> Key {
        let key = if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            place.value = value;
            Key {
                index,
                generation: place.generation,
            }
        } else {
            self.places.push(Place {
                value,
                generation: 0,
            });
            Key {
                index: (self.places.len() - 1) as u32,
                generation: 0,
            }
        };
        self.references.push(Reverse((deadline, key)));
        key
    }

    fn remove(&mut self, key: Key) -> u64 {
        self.take(key).expect("the timer is pending")
    }

    fn reset(&mut self, key: &mut Key, deadline: u64) {
        let place = &mut self.places[key.index as usize];
        assert!(place.generation == key.generation, "the timer is pending");
        place.generation = place.generation.wrapping_add(1);
        key.generation = place.generation;
        self.references.push(Reverse((deadline, *key)));
    }

    fn pop_due(&mut self, now: u64, mut due: impl FnMut(u64)) {
        while let Some(&Reverse((deadline, key))) = self.references.peek()
            && deadline <= now
        {
            self.references.pop();
            if let Some(value) = self.take(key) {
                due(value);
            }
        }
    }
}
