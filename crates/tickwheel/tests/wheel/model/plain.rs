//! The model: the promises of a wheel, implemented with a `BTreeMap` and without regard to speed.
//!
//! Timers are ordered by deadline and, among equal deadlines, by when they were inserted. The model
//! uses the keys of the wheel under test and remembers all of them, so that it detects a key that
//! is given out twice.

use std::collections::{BTreeMap, HashMap, HashSet};
use tickwheel::wheel::Key;

use super::Pick;

/// A pending timer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    pub(super) deadline: u64,
    pub(super) value: u64,
    /// How many timers were inserted before this one.
    pub(super) rank: u64,
}

/// All pending timers, and all stale keys.
#[derive(Debug)]
pub(super) struct Plain {
    now: u64,
    inserted: u64,
    timers: HashMap<Key, Timer>,
    /// The pending keys by deadline and rank.
    order: BTreeMap<(u64, u64), Key>,
    stale: Vec<Key>,
    given: HashSet<Key>,
}

impl Plain {
    pub(super) fn new(now: u64) -> Self {
        Plain {
            now,
            inserted: 0,
            timers: HashMap::new(),
            order: BTreeMap::new(),
            stale: Vec::new(),
            given: HashSet::new(),
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn len(&self) -> usize {
        self.timers.len()
    }

    pub(super) fn get(&self, key: Key) -> Option<&Timer> {
        self.timers.get(&key)
    }

    pub(super) fn deadline(&self, key: Key) -> Option<u64> {
        self.get(key).map(|timer| timer.deadline)
    }

    /// Returns the smallest pending deadline.
    pub(super) fn first_deadline(&self) -> Option<u64> {
        self.order.keys().next().map(|&(deadline, _)| deadline)
    }

    /// Returns the pending keys in order.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        self.order.values().copied()
    }

    /// Returns the stale keys, the latest first.
    pub(super) fn stale(&self) -> impl ExactSizeIterator<Item = Key> {
        self.stale.iter().rev().copied()
    }

    /// Returns the key that is picked, if it is one of this wheel.
    pub(super) fn pick(&self, pick: Pick) -> Option<Key> {
        match pick {
            Pick::First => self.keys().next(),
            Pick::Any(place) => self.keys().nth(usize::from(place).checked_rem(self.len())?),
            Pick::Stale(place) => {
                self.stale().nth(usize::from(place).checked_rem(self.stale.len())?)
            }
            Pick::Foreign(_) => None,
        }
    }

    /// Adds a timer to which the wheel gave this key; its value is its rank.
    pub(super) fn insert(&mut self, key: Key, deadline: u64) {
        assert!(self.given.insert(key), "{key:?} was given out before");
        let rank = self.inserted;
        self.inserted += 1;
        self.timers.insert(key, Timer { deadline, value: rank, rank });
        self.order.insert((deadline, rank), key);
    }

    /// Returns the value of the next insert.
    pub(super) fn next_value(&self) -> u64 {
        self.inserted
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Timer> {
        let timer = self.timers.remove(&key)?;
        self.order.remove(&(timer.deadline, timer.rank));
        self.stale.push(key);
        Some(timer)
    }

    pub(super) fn reset(&mut self, key: Key, deadline: u64) -> bool {
        let Some(timer) = self.timers.get_mut(&key) else {
            return false;
        };
        self.order.remove(&(timer.deadline, timer.rank));
        timer.deadline = deadline;
        self.order.insert((deadline, timer.rank), key);
        true
    }

    pub(super) fn value_mut(&mut self, key: Key) -> Option<&mut u64> {
        self.timers.get_mut(&key).map(|timer| &mut timer.value)
    }

    /// Advances the time, and returns the timer to be popped: of several with the same deadline,
    /// the one that was inserted first.
    pub(super) fn first_due(&mut self, now: u64) -> Option<Timer> {
        self.now = self.now.max(now);
        let (&(deadline, _), key) = self.order.first_key_value()?;
        (deadline <= self.now).then(|| self.timers[key])
    }
}
