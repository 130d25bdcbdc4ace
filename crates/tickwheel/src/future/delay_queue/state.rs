//! The state that a queue's lock protects: the items, the waiters, and the alarm.
//!
//! Ground rules:
//! * No user code runs in here: items and wakers are moved in and out, never called or dropped.
//! * The timer's lock may be taken under this one, never the other way round: the timer wakes the
//!   alarm without holding its lock.
//! * When the lock is released, one of these holds: no consumer waits; a woken consumer has not
//!   been polled yet; the alarm is set for the first deadline. Likewise no producer waits, or as
//!   many were woken as there is room for. [`State::next_to_do`] ensures this. It is called after
//!   every change until it returns `None`.
//! * A consumer is woken for an item that is due, not for one whose deadline was moved.
//! * The wheel is advanced in steps of at most [`STEP`] items, and the lock is released between
//!   them. Only a batch keeps it until it is complete.
//! * The table of keys grows in steps as well.

use core::hash::BuildHasher;
use core::task::{Poll, Waker};
use std::hash::RandomState;
use std::vec::Vec;

use super::waiters::Waiters;
use crate::future::{Deadline, Sleep};
use crate::timer::{KeyTable, Nanos, Nudge};
use crate::wheel::{self, Advance, HierarchicalWheel};
use crate::{Key, Timer};

/// The number of items that the wheel examines before the lock is released.
const STEP: usize = 4096;

pub(super) struct State<T> {
    items: HierarchicalWheel<Item<T>>,
    /// The keys of items that have one.
    keys: KeyTable,
    hasher: RandomState,
    pub(super) consumers: Waiters,
    pub(super) producers: Waiters,
    alarm: Sleep,
    /// The tick that the alarm is set for; `u64::MAX` if it is not.
    alarm_tick: u64,
    capacity: usize,
    pub(super) closed: bool,
}

struct Item<T> {
    value: T,
    has_key: bool,
}

/// An action for which the lock must be released.
pub(super) enum Next {
    Wake(Waker),
    /// Wake or start the thread of the timer that rings the alarm.
    Nudge(Timer, Nudge),
    /// Let other threads have the lock: the wheel is not advanced yet.
    Yield,
}

/// The clock, read only when needed: a reading costs more than most operations on the state.
pub(super) struct Now<'a>(pub(super) &'a Timer);

impl Now<'_> {
    fn tick(&self) -> u64 {
        let core = self.0.core();
        core.clock().now() / core.tick()
    }

    /// Returns the tick at which an item is due: the first one at or after its deadline. If the
    /// deadline has passed, that is at most the present tick.
    pub(super) fn tick_of(&self, deadline: Deadline) -> u64 {
        let core = self.0.core();
        let now = core.clock().now();
        match deadline.seen_at(now, self.0) {
            Nanos::MAX => u64::MAX,
            at if at <= now => at.div_ceil(core.tick()).min(now / core.tick()),
            at => at.div_ceil(core.tick()),
        }
    }

    pub(super) fn time_of(&self, tick: u64) -> Nanos {
        tick.saturating_mul(self.0.core().tick())
    }
}

impl<T> State<T> {
    pub(super) fn new(timer: &Timer, capacity: usize) -> Self {
        Self {
            items: HierarchicalWheel::new(),
            keys: KeyTable::new(),
            hasher: RandomState::new(),
            consumers: Waiters::default(),
            producers: Waiters::default(),
            alarm: timer.sleep(core::time::Duration::MAX),
            alarm_tick: u64::MAX,
            capacity,
            closed: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn next_wake(&self) -> Option<u64> {
        self.items.next_wake()
    }

    /// Returns `true` if an item fits, or replaces the one with the same key.
    pub(super) fn has_room_for(&self, key: Option<&Key>) -> bool {
        self.items.len() < self.capacity || key.is_some_and(|key| self.find(key).is_some())
    }

    /// Adds an item, for which there is room. Returns its key and the item that it replaces.
    pub(super) fn push(
        &mut self,
        tick: u64,
        value: T,
        key: Option<Key>,
    ) -> (wheel::Key, Option<T>) {
        let replaced = key.as_ref().and_then(|key| self.remove_by_key(key));
        let item_key = self.items.insert(tick, Item { value, has_key: key.is_some() });
        if let Some(key) = key {
            let hash = self.hasher.hash_one(&key);
            self.keys.insert(key, hash, item_key);
        }
        (item_key, replaced)
    }

    /// Advances the wheel to the present by one step: first by the time that it knows already,
    /// then by the clock.
    pub(super) fn advance(&mut self, now: &Now<'_>) -> Advance {
        match self.items.advance(0, STEP) {
            Advance::Idle if !self.items.is_empty() => self.items.advance(now.tick(), STEP),
            advance => advance,
        }
    }

    /// Takes out the first item that is due.
    pub(super) fn pop(&mut self, now: &Now<'_>) -> Option<T> {
        loop {
            match self.advance(now) {
                Advance::Due => break,
                Advance::Idle => return None,
                Advance::Unfinished => {}
            }
        }
        let due = self.items.pop_due(0)?;
        Some(self.free_key(due.key, due.value))
    }

    /// Takes out all due items, up to `max`.
    pub(super) fn pop_batch(&mut self, max: usize, now: &Now<'_>) -> Vec<T> {
        let mut batch = Vec::new();
        while batch.len() < max
            && let Some(value) = self.pop(now)
        {
            batch.push(value);
        }
        batch
    }

    pub(super) fn remove(&mut self, item_key: wheel::Key) -> Option<T> {
        let item = self.items.remove(item_key)?;
        Some(self.free_key(item_key, item))
    }

    pub(super) fn remove_by_key(&mut self, key: &Key) -> Option<T> {
        let item_key = self.find(key)?;
        self.remove(item_key)
    }

    pub(super) fn find(&self, key: &Key) -> Option<wheel::Key> {
        self.keys.find(key, self.hasher.hash_one(key), |_| ())
    }

    pub(super) fn reset(&mut self, item_key: wheel::Key, tick: u64) -> bool {
        self.items.reset(item_key, tick)
    }

    pub(super) fn deadline(&self, item_key: wheel::Key) -> Option<u64> {
        self.items.deadline(item_key)
    }

    /// Frees the key of an item that has left.
    fn free_key(&mut self, item_key: wheel::Key, item: Item<T>) -> T {
        if item.has_key {
            self.keys.forget(item_key);
        }
        item.value
    }

    /// Refuses further items and returns the rest, by deadline.
    pub(super) fn close(&mut self) -> Vec<T> {
        self.closed = true;
        self.alarm.stop_waiting();
        self.keys = KeyTable::new();
        let mut rest: Vec<_> = self.items.drain().collect();
        rest.sort_by_key(|due| due.deadline);
        rest.into_iter().map(|due| due.value.value).collect()
    }

    /// Notes that the alarm has rung.
    pub(super) fn rung(&mut self) {
        self.alarm_tick = u64::MAX;
    }

    /// Returns a waiter that can proceed and was not woken yet. If none can before an item is due,
    /// sets the alarm.
    pub(super) fn next_to_do(&mut self, now: &Now<'_>, alarm: &Waker) -> Option<Next> {
        if self.closed {
            let next = self.consumers.wake_next().or_else(|| self.producers.wake_next());
            return next.map(Next::Wake);
        }
        if self.items.len() + self.producers.woken() < self.capacity
            && let Some(producer) = self.producers.wake_next()
        {
            return Some(Next::Wake(producer));
        }
        if self.consumers.woken() > 0 || !self.consumers.are_waiting() {
            return None;
        }
        if self.alarm_tick <= self.items.next_wake()? {
            return None;
        }
        match self.advance(now) {
            Advance::Due => self.consumers.wake_next().map(Next::Wake),
            Advance::Unfinished => Some(Next::Yield),
            Advance::Idle => self.set_alarm(now, alarm),
        }
    }

    /// Sets the alarm for the next tick at which an item may be due.
    fn set_alarm(&mut self, now: &Now<'_>, alarm: &Waker) -> Option<Next> {
        let first = self.items.next_wake()?;
        match self.alarm.wait_until(now.time_of(first), alarm) {
            (Poll::Pending, nudge) => {
                self.alarm_tick = first;
                nudge.is_needed().then(|| Next::Nudge(self.alarm.timer().clone(), nudge))
            }
            // The tick has passed just now, and moving the alarm has unset it.
            (Poll::Ready(()), _) => {
                self.alarm_tick = u64::MAX;
                self.consumers.wake_next().map(Next::Wake)
            }
        }
    }

    /// Unsets the alarm, because there is no thread to ring it.
    pub(super) fn unset_alarm(&mut self) {
        self.alarm.stop_waiting();
        self.alarm_tick = u64::MAX;
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::ManualClock;

    /// Otherwise the queue would rely on an alarm that never rings, and its consumers would wait
    /// for an item that is due.
    #[test]
    fn an_alarm_whose_tick_comes_while_it_is_moved_is_not_set() {
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(clock.clone()).build().unwrap();
        let mut state = State::new(&timer, usize::MAX);
        let (now, waker) = (Now(&timer), Waker::noop());
        state.push(20, "later", None);
        assert!(state.set_alarm(&now, waker).is_none_or(|next| matches!(next, Next::Nudge(..))));
        assert_eq!(state.alarm_tick, 20);
        state.push(10, "sooner", None);
        clock.advance(Duration::from_millis(10));
        assert!(state.set_alarm(&now, waker).is_none(), "no consumer waits");
        assert_eq!(state.alarm_tick, u64::MAX);
    }
}
