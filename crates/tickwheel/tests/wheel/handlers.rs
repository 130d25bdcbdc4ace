//! Handlers that use the wheel they were popped from, as real ones do.
//!
//! A timer's value is a closure. When it fires it inserts, cancels and resets other timers, arms
//! itself again, or pops the next due timer itself and so runs a handler from within a handler.
//! Every operation is also applied to a plain set of deadlines, and after every step the two must
//! agree. This is the fuzzer of Caffeine's timer wheel, ported to Rust.

use crate::kinds::{Kind, on_both_wheels, pop_all};
use crate::random::Random;
use std::collections::BTreeMap;
use tickwheel::wheel::{Key, Wheel};

on_both_wheels! {
    handlers_may_use_the_wheel_they_came_from,
    handlers_may_use_an_old_wheel,
    handlers_may_use_a_wheel_at_the_end_of_time,
}

/// The maximum number of timers: with more, handlers insert no further ones.
const CROWD: usize = 400;

/// The maximum number of nested handlers.
const DEPTH: u32 = 4;

/// A value of the wheel: the handler of its timer.
struct Handler<K: Kind>(Box<Action<K>>);

type Action<K> = dyn FnOnce(&mut World<K>);

/// The wheel, and the timers that must be pending.
struct World<K: Kind> {
    wheel: K::Wheel<Handler<K>>,
    pending: BTreeMap<Key, u64>,
    random: Random,
    now: u64,
    depth: u32,
    fired: u64,
}

impl<K: Kind + 'static> World<K> {
    fn new(wheel: K::Wheel<Handler<K>>, seed: u64) -> Self {
        World {
            now: wheel.now(),
            wheel,
            pending: BTreeMap::new(),
            random: Random(seed),
            depth: 0,
            fired: 0,
        }
    }

    /// Returns a deadline in the past, at this tick, near or far.
    fn deadline(&mut self) -> u64 {
        let few = self.random.below(6);
        let far = self.random.next() >> (20 + self.random.below(44));
        match self.random.below(8) {
            0 => self.now.saturating_sub(few),
            1..=3 => self.now,
            4..=6 => self.now.saturating_add(few),
            _ => self.now.saturating_add(far),
        }
    }

    fn insert(&mut self) {
        if self.pending.len() < CROWD {
            let deadline = self.deadline();
            let key = self.wheel.insert(deadline, Handler(Box::new(Self::handle)));
            assert_eq!(self.pending.insert(key, deadline), None, "{key:?} is in use");
        }
    }

    /// Returns one of the pending timers, if there is any.
    fn pick(&mut self) -> Option<Key> {
        let place = self.random.next().checked_rem(self.pending.len() as u64)?;
        self.pending.keys().nth(place as usize).copied()
    }

    fn cancel(&mut self) {
        if let Some(key) = self.pick() {
            assert!(self.wheel.remove(key).is_some(), "{key:?} is pending");
            self.pending.remove(&key);
        }
    }

    fn reset(&mut self) {
        if let Some(key) = self.pick() {
            let deadline = self.deadline();
            assert!(self.wheel.reset(key, deadline), "{key:?} is pending");
            self.pending.insert(key, deadline);
        }
    }

    /// Performs a few random operations, as each handler does.
    fn handle(&mut self) {
        for _ in 0..self.random.below(5) {
            match self.random.below(10) {
                0..=3 => self.insert(),
                4..=5 => self.cancel(),
                6..=8 => self.reset(),
                _ if self.depth < DEPTH => _ = self.fire(self.now),
                _ => self.now = self.now.saturating_add(1),
            }
            self.compare();
        }
    }

    /// Pops one timer and runs its handler; returns `true` if there was one.
    fn fire(&mut self, now: u64) -> bool {
        self.now = self.now.max(now);
        let due = self.wheel.pop_due(now);
        let first = self.pending.values().min().copied();
        let Some(due) = due else {
            assert!(first.is_none_or(|first| first > self.wheel.now()), "{first:?} is due");
            return false;
        };
        assert_eq!(Some(due.deadline), first, "popped out of order");
        assert!(due.deadline <= self.now, "popped early");
        assert_eq!(self.pending.remove(&due.key), first, "another timer's key");
        self.fired += 1;
        self.compare();
        self.depth += 1;
        (due.value.0)(self);
        self.depth -= 1;
        true
    }

    fn compare(&self) {
        assert_eq!(self.wheel.len(), self.pending.len());
        for (&key, &deadline) in &self.pending {
            assert_eq!(self.wheel.deadline(key), Some(deadline), "{key:?}");
        }
        let wake = self.wheel.next_wake();
        let first = self.pending.values().min().map(|&first| first.max(self.wheel.now()));
        assert!(wake.is_some() == first.is_some() && wake <= first, "{wake:?}, {first:?}");
        self.wheel.check_invariants();
    }
}

/// Runs about `most` handlers, and then removes the remaining timers.
fn play<K: Kind + 'static>(wheel: K::Wheel<Handler<K>>, seed: u64, most: u64) {
    let mut world = World::<K>::new(wheel, seed);
    let mut turns = 0;
    while world.fired < most && turns < most {
        turns += 1;
        for _ in 0..5 {
            world.insert();
        }
        let step = world.random.next() >> (30 + world.random.below(34));
        let now = world.now.saturating_add(step);
        while world.fired < most && world.fire(now) {}
    }
    let left = pop_all(&mut world.wheel, u64::MAX);
    assert_eq!(left.len(), world.pending.len());
}

fn handlers_may_use_the_wheel_they_came_from<K: Kind + 'static>() {
    for seed in 0..8 {
        play::<K>(K::new(), seed, 500);
    }
}

fn handlers_may_use_an_old_wheel<K: Kind + 'static>() {
    for (seed, exponent) in [8, 9, 24, 32, 40, 48, 63].into_iter().enumerate() {
        play::<K>(K::with_start((1 << exponent) - 2), seed as u64, 300);
    }
}

fn handlers_may_use_a_wheel_at_the_end_of_time<K: Kind + 'static>() {
    for before in 0..8 {
        play::<K>(K::with_start(u64::MAX - before * before), before, 200);
    }
}
