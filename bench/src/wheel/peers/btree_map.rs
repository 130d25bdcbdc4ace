//! `BTreeMap` ordered by deadline, then by order of insertion.
//!
//! Every operation is O(log n), and the earliest timer comes first. A reset is a removal and an
//! insertion.

use std::collections::BTreeMap;

use crate::wheel::contender::Contender;

pub(in crate::wheel) struct OrderedMap {
    timers: BTreeMap<(u64, u64), u64>,
    inserted: u64,
}

impl Contender for OrderedMap {
    type Key = (u64, u64);
    const KEEPS_KEYS: bool = false;

    fn new() -> Self {
        Self { timers: BTreeMap::new(), inserted: 0 }
    }

    fn insert(&mut self, deadline: u64, value: u64) -> Self::Key {
        let key = (deadline, self.inserted);
        self.inserted += 1;
        self.timers.insert(key, value);
        key
    }

    fn remove(&mut self, key: Self::Key) -> u64 {
        self.timers.remove(&key).expect("the timer is pending")
    }

    fn reset(&mut self, key: &mut Self::Key, deadline: u64) {
        let value = self.remove(*key);
        *key = self.insert(deadline, value);
    }

    fn pop_due(&mut self, now: u64, mut due: impl FnMut(u64)) {
        while let Some(first) = self.timers.first_entry()
            && first.key().0 <= now
        {
            due(first.remove());
        }
    }
}
