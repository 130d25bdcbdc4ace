//! A wheel and the model of it, side by side.
//!
//! Each op is played on both, and their answers are compared at once. After the op, everything
//! observable is compared: the time, the size, the next wake and every timer (a sample if there are
//! many); stale and foreign keys must be refused. Then the wheel checks its invariants. Where
//! several timers have the same deadline the wheel may pop any of them, unless it promises the
//! order of insertion.

use std::collections::HashSet;
use tickwheel::wheel::{Advance, Due, Key, Wheel};

use super::plain::{Plain, Timer};
use super::{Op, Pick, When};

/// Up to this number of pending timers, all are compared after each pop. With more, a sample is
/// compared after each op.
const FEW: usize = 24;

/// The number of spurious wake-ups of a driver that each deadline may cause.
const EARLY_WAKES: usize = 16;

/// The most pending timers, which keeps a case short.
const MANY: usize = 4096;

pub(super) struct Pair<W> {
    wheel: W,
    plain: Plain,
    foreign: Vec<Key>,
    /// Whether timers with equal deadlines must be popped in the order of insertion.
    fifo: bool,
    /// How often a deadline was set.
    set: usize,
}

impl<W: Wheel<u64>> Pair<W> {
    pub(super) fn new(wheel: W, plain: Plain, foreign: Vec<Key>, fifo: bool) -> Self {
        let pair = Pair { wheel, plain, foreign, fifo, set: 0 };
        pair.compare();
        pair
    }

    pub(super) fn step(&mut self, op: Op) {
        match op {
            Op::Insert(when) => self.insert(when.tick(&self.plain)),
            Op::InsertMany(count, when, step) => self.insert_many(count, when, step),
            Op::Remove(pick) => self.remove(self.key(pick)),
            Op::RemoveEvery(stride) => {
                self.every(stride).into_iter().for_each(|key| self.remove(Some(key)));
            }
            Op::Reset(pick, when) => self.reset(self.key(pick), when.tick(&self.plain)),
            Op::ResetEvery(stride, when, step) => self.reset_every(stride, when, step),
            Op::Change(pick) => self.change(self.key(pick)),
            Op::Pop(when) => _ = self.pop(when.tick(&self.plain)),
            Op::PopAll(when) => _ = self.pop_all(when.tick(&self.plain)),
            Op::Advance(when, budget) => _ = self.advance(when.tick(&self.plain), budget),
            Op::PopInSteps(when, budget) => self.pop_in_steps(when.tick(&self.plain), budget),
            Op::Wake => self.wake(),
            Op::Clear => self.clear(),
            Op::Drain(count) => self.drain(usize::from(count)),
            Op::Shrink => self.wheel.shrink_to_fit(),
            Op::Reserve(additional) => self.wheel.reserve(usize::from(additional)),
        }
        self.compare();
    }

    /// Fires the remaining timers, each exactly at its deadline if they are few.
    pub(super) fn finish(&mut self) {
        if self.plain.len() > FEW {
            self.pop_all(u64::MAX);
        }
        for _ in 0..self.set * (EARLY_WAKES + 1) {
            self.wake();
        }
        assert_eq!(self.plain.len(), 0, "timers that are pending after {} settings", self.set);
        self.compare();
    }

    fn key(&self, pick: Pick) -> Option<Key> {
        match pick {
            Pick::Foreign(place) => Some(self.foreign[usize::from(place) % self.foreign.len()]),
            own => self.plain.pick(own),
        }
    }

    /// Returns every `stride`-th pending key.
    fn every(&self, stride: u8) -> Vec<Key> {
        self.plain.keys().step_by(usize::from(stride.max(1))).collect()
    }

    fn insert(&mut self, deadline: u64) {
        if self.plain.len() < MANY {
            let key = self.wheel.insert(deadline, self.plain.next_value());
            assert!(!self.foreign.contains(&key), "{key:?} is another wheel's");
            self.plain.insert(key, deadline);
            self.set += 1;
        }
    }

    fn insert_many(&mut self, count: u8, when: When, step: u16) {
        let mut deadline = when.tick(&self.plain);
        for _ in 0..count {
            self.insert(deadline);
            deadline = deadline.saturating_add(u64::from(step));
        }
    }

    fn remove(&mut self, key: Option<Key>) {
        let Some(key) = key else { return };
        let expected = self.plain.remove(key).map(|timer| timer.value);
        assert_eq!(self.wheel.remove(key), expected, "remove({key:?})");
        assert_eq!(self.wheel.remove(key), None, "remove({key:?}) a second time");
        self.fifo &= expected.is_none();
    }

    fn reset(&mut self, key: Option<Key>, deadline: u64) {
        let Some(key) = key else { return };
        let expected = self.plain.reset(key, deadline);
        assert_eq!(self.wheel.reset(key, deadline), expected, "reset({key:?}, {deadline})");
        self.fifo &= !expected;
        self.set += usize::from(expected);
    }

    fn reset_every(&mut self, stride: u8, when: When, step: u16) {
        let mut deadline = when.tick(&self.plain);
        for key in self.every(stride) {
            self.reset(Some(key), deadline);
            deadline = deadline.saturating_add(u64::from(step));
        }
    }

    fn change(&mut self, key: Option<Key>) {
        let Some(key) = key else { return };
        let (seen, expected) = (self.wheel.get_mut(key), self.plain.value_mut(key));
        assert_eq!(seen, expected, "get_mut({key:?})");
        for value in [seen, expected].into_iter().flatten() {
            *value = !*value;
        }
    }

    /// Pops one timer from both; returns `true` if there was one.
    fn pop(&mut self, now: u64) -> bool {
        let due = self.wheel.pop_due(now);
        let first = self.plain.first_due(now);
        let (due, first) = match (due, first) {
            (None, None) => return false,
            (Some(due), Some(first)) => (due, first),
            (due, first) => panic!("pop_due({now}) gave {due:?}, expected was {first:?}"),
        };
        assert_eq!(due.deadline, first.deadline, "{due:?} was popped before {first:?}");
        let timer = self.leave(due);
        assert!(!self.fifo || timer.rank == first.rank, "{timer:?} overtook {first:?}");
        true
    }

    /// Advances once; returns `true` if that was enough.
    fn advance(&mut self, now: u64, budget: u8) -> bool {
        let advance = self.wheel.advance(now, usize::from(budget));
        let first = self.plain.first_due(now);
        match advance {
            Advance::Due => assert!(first.is_some(), "advance({now}) found a timer, none is due"),
            Advance::Idle => assert!(first.is_none(), "advance({now}) did not find {first:?}"),
            Advance::Unfinished => return false,
        }
        true
    }

    fn pop_in_steps(&mut self, now: u64, budget: u8) {
        let mut steps = 0;
        while !self.advance(now, budget) {
            steps += 1;
            assert!(steps < 100 * MANY, "advance({now}, {budget}) does not end");
            if steps <= FEW {
                self.compare();
            }
        }
        self.pop(now);
    }

    /// Checks a timer that left the wheel, and removes it from the model.
    fn leave(&mut self, due: Due<u64>) -> Timer {
        let Some(timer) = self.plain.remove(due.key) else { panic!("{due:?} is not pending") };
        assert_eq!((due.deadline, due.value), (timer.deadline, timer.value), "of {:?}", due.key);
        timer
    }

    /// Pops until nothing is due, and returns the number of timers.
    fn pop_all(&mut self, now: u64) -> usize {
        let mut count = 0;
        while self.pop(now) {
            count += 1;
            if self.plain.len() <= FEW {
                self.compare();
            }
        }
        count
    }

    /// Advances to `next_wake`. After a wake without a due timer, the next wake must be later.
    fn wake(&mut self) {
        let Some(wake) = self.wheel.next_wake() else {
            return;
        };
        let popped = self.pop_all(wake.max(self.plain.now()));
        let next = self.wheel.next_wake();
        assert!(popped > 0 || next > Some(wake), "woken at {wake} for nothing, then at {next:?}");
    }

    fn clear(&mut self) {
        self.wheel.clear();
        for key in self.every(1) {
            self.plain.remove(key);
        }
    }

    fn drain(&mut self, count: usize) {
        let pending = self.plain.len();
        let drained: Vec<_> = self.wheel.drain().take(count).collect();
        assert_eq!(drained.len(), pending.min(count), "drained");
        for due in drained {
            self.leave(due);
        }
        for key in self.every(1) {
            self.plain.remove(key);
        }
    }

    /// Compares everything that is observable.
    fn compare(&self) {
        let (wheel, plain) = (&self.wheel, &self.plain);
        assert_eq!(wheel.now(), plain.now(), "now");
        assert_eq!(wheel.len(), plain.len(), "len");
        assert_eq!(wheel.is_empty(), plain.len() == 0, "is_empty");
        self.compare_wake();
        let sample = plain.len() / FEW + 1;
        for key in plain.keys().step_by(sample).chain(plain.stale().take(4)) {
            self.compare_key(key);
        }
        let stride = plain.stale().len() / 4 + 1;
        for key in plain.stale().step_by(stride).chain(self.foreign.iter().copied()) {
            self.compare_key(key);
        }
        self.compare_iter();
        wheel.check_invariants();
    }

    /// Checks `next_wake`, which may be early, never late.
    fn compare_wake(&self) {
        let wake = self.wheel.next_wake();
        let latest = self.plain.first_deadline().map(|first| first.max(self.plain.now()));
        assert_eq!(wake.is_some(), latest.is_some(), "next_wake is {wake:?}");
        assert!(wake <= latest, "next_wake is {wake:?}, something is due at {latest:?}");
    }

    fn compare_key(&self, key: Key) {
        let timer = self.plain.get(key);
        let deadline = timer.map(|timer| timer.deadline);
        assert_eq!(self.wheel.deadline(key), deadline, "deadline({key:?})");
        assert_eq!(self.wheel.get(key), timer.map(|timer| &timer.value), "get({key:?})");
        assert_eq!(self.wheel.contains(key), timer.is_some(), "contains({key:?})");
    }

    fn compare_iter(&self) {
        let mut seen = HashSet::new();
        for pending in self.wheel.iter() {
            let timer = self.plain.get(pending.key).expect("iter shows a timer that is pending");
            assert_eq!(pending.deadline, timer.deadline, "iter at {:?}", pending.key);
            assert_eq!(*pending.value, timer.value, "iter at {:?}", pending.key);
            assert!(seen.insert(pending.key), "iter shows {:?} twice", pending.key);
        }
        assert_eq!(seen.len(), self.plain.len(), "timers shown by iter");
    }
}
