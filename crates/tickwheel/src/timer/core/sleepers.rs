//! Sleeping futures: a wheel of wakers beside the wheel of tasks.
//!
//! A *sleeper* is a future's waker with a deadline. It needs less than a task: no thread runs it, and
//! it has no key and no handle other than its future. So sleepers have a wheel of their own, whose
//! values are the wakers themselves, and the leader wakes due ones in batches.
//!
//! Ground rules:
//! * The wheel is protected by the shard's lock. Wakers are cloned, woken and dropped without it: they
//!   are user code, which may call back.
//! * A sleeper enters the wheel only with a tick after the wheel's time. A future that is due earlier
//!   is ready at once.
//! * So no sleeper in the wheel has a tick up to `woken_through`, and a future with such a tick knows
//!   without the lock that it was woken. `woken_through` never decreases.
//! * Sleepers with ticks up to `taken_through` may have been taken out. It is published before any of
//!   them is woken. So a future with a later tick knows without the lock that its waker is still in
//!   the wheel, and which one that is. If it is polled with the same waker, it returns `Pending`.
//! * A poll never relies on a thread that may be blocked in a task, an executor or a waker. It reads
//!   the clock itself, unless the leader sleeps and wakes up no later than the future's deadline:
//!   reading the clock costs more than the rest of a poll.
//! * Most futures sleep only for a moment, again and again, with the same limit. So the entry of a
//!   future that stops sleeping is kept for the next one, without a waker (*vacant*). Moving it to a
//!   later deadline costs a fraction of inserting and removing an entry. Vacant entries wake nothing,
//!   and are removed when the wheel's time reaches them.
//! * Sleepers are not tasks: `max_pending` does not limit them. `stop` does not hand them back but
//!   wakes them, and they then sleep on the timer's *successor*.

use core::sync::atomic::Ordering;
use core::task::Waker;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::vec::Vec;

use crate::timer::clock::{Nanos, nanos};
use crate::timer::core::Core;
use crate::timer::core::driver::{Nudge, Phase};
use crate::timer::core::shard::Shard;
use crate::timer::core::state::{State, WHEEL_STEP};
use crate::timer::execution::panics;
use crate::timer::execution::roster::GRACE;
use crate::timer::sync::{AtomicU64, Mutex, MutexGuard};
use crate::wheel::{self, Advance, HierarchicalWheel};

/// The number of wakers that are called before the lock is available to other threads, or a task gets
/// its turn.
const WAKE_BATCH: usize = 128;

/// The maximum number of vacant entries.
const MAX_VACANT: usize = 64;

/// The sleepers of a shard, protected by its lock.
pub(crate) struct Sleepers {
    wheel: HierarchicalWheel<Option<Waker>>,
    /// The keys of all vacant entries.
    vacant: Vec<wheel::Key>,
}

/// The part of a shard's sleepers that is used without its lock.
pub(crate) struct Wakers {
    /// Every sleeper up to this tick was taken out of the wheel.
    woken_through: AtomicU64,
    /// Sleepers up to this tick may have been taken out of the wheel; `u64::MAX` once the timer is
    /// stopped.
    taken_through: AtomicU64,
    /// Wakers that were taken out of the wheel and not called yet. They have a lock of their own, so
    /// that a guard that steps in continues where a blocked thread stopped. It is taken with or without
    /// the shard's lock, and no waker is called under it.
    due: Mutex<VecDeque<Waker>>,
}

/// The registration of a sleeping future: its shard, its key and tick there, and its waker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    shard: u32,
    key: wheel::Key,
    tick: u64,
    waker: Identity,
}

/// The identity of a waker, compared like [`Waker::will_wake`]. Valid while the waker is in the wheel,
/// because no other waker can then have its addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Identity {
    data: usize,
    vtable: usize,
}

impl Identity {
    #[inline]
    fn of(waker: &Waker) -> Self {
        Self { data: waker.data().addr(), vtable: core::ptr::from_ref(waker.vtable()).addr() }
    }
}

/// The progress of a sleeping future.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Progress {
    /// It is not registered.
    New,
    Waits(Waiter),
    /// The deadline has passed.
    Elapsed,
}

/// The result of moving the deadline of a sleeping future.
pub(crate) enum Moved {
    /// The future waits for the new deadline.
    Waits(Nudge),
    /// The new deadline has passed. The caller must call the waker.
    Passed(Waker),
    /// The future was woken before, and must register again.
    Woken,
}

impl Wakers {
    pub(crate) fn new() -> Self {
        Self {
            woken_through: AtomicU64::new(0),
            taken_through: AtomicU64::new(0),
            due: Mutex::new(VecDeque::new()),
        }
    }

    fn due(&self) -> MutexGuard<'_, VecDeque<Waker>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn has_woken(&self, waiter: &Waiter) -> bool {
        waiter.tick <= self.woken_through.load(Ordering::Acquire)
    }
}

impl Sleepers {
    pub(crate) fn new() -> Self {
        Self { wheel: HierarchicalWheel::new(), vacant: Vec::new() }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.wheel.len() - self.vacant.len()
    }

    pub(crate) fn next_wake(&self) -> Option<u64> {
        if self.len() == 0 { None } else { self.wheel.next_wake() }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.wheel.memory_usage()
    }

    #[inline]
    fn insert(&mut self, tick: u64, waker: Waker) -> wheel::Key {
        let Some(key) = self.vacant.pop() else { return self.wheel.insert(tick, Some(waker)) };
        self.wheel.reset(key, tick);
        if let Some(entry) = self.wheel.get_mut(key) {
            *entry = Some(waker);
        }
        key
    }

    /// Removes a sleeper and returns its waker.
    #[inline]
    fn remove(&mut self, key: wheel::Key) -> Option<Waker> {
        if self.vacant.len() >= MAX_VACANT {
            return self.wheel.remove(key).flatten();
        }
        let waker = self.wheel.get_mut(key)?.take();
        self.vacant.push(key);
        waker
    }

    /// Takes out the first due entry: a sleeper, or a vacant entry (`None`).
    #[inline]
    fn pop_due(&mut self, tick: u64) -> Option<(u64, Option<Waker>)> {
        let due = self.wheel.pop_due(tick)?;
        if due.value.is_none() {
            self.clear_vacant();
        }
        Some((due.deadline, due.value))
    }

    #[cold]
    fn clear_vacant(&mut self) {
        for key in self.vacant.drain(..) {
            self.wheel.remove(key);
        }
    }

    /// Takes all sleepers out.
    pub(crate) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::new())
    }

    /// Returns the wakers of all sleepers. They must be called without the lock.
    pub(crate) fn into_wakers(mut self) -> Vec<Waker> {
        self.wheel.drain().filter_map(|due| due.value).collect()
    }
}

/// The interface of futures to the timer.
impl Core {
    fn shard_of(&self, waiter: &Waiter) -> &Arc<Shard> {
        self.shard(waiter.shard as usize)
    }

    /// Puts a waker into the wheel, unless the deadline has passed. Leaves `progress` at
    /// [`Progress::New`] if the timer is stopped.
    pub(crate) fn register_waker(
        &self,
        at: Nanos,
        waker: &Waker,
        progress: &mut Progress,
    ) -> Nudge {
        self.my_shard().register_waker(at, waker, progress)
    }

    /// Returns `true` if it is certain that a future still waits with this waker. Takes no lock.
    #[inline]
    pub(crate) fn surely_waits(&self, waiter: &Waiter, waker: &Waker) -> bool {
        let taken_through = self.shard_of(waiter).wakers.taken_through.load(Ordering::Acquire);
        if waiter.tick <= taken_through || waiter.waker != Identity::of(waker) {
            return false;
        }
        let at = waiter.tick.saturating_mul(self.tick());
        self.driver.leader_wakes_by(at) || at > self.clock().now()
    }

    /// Checks the progress of a waiting future, and replaces its waker if it is another one. Returns
    /// [`Progress::New`] if the timer is stopped.
    #[inline]
    pub(crate) fn update_waker(&self, waiter: Waiter, waker: &Waker) -> Progress {
        self.shard_of(&waiter).update_waker(waiter, waker)
    }

    /// Moves the deadline of a waiting future.
    #[inline]
    pub(crate) fn move_waiter(&self, waiter: &mut Waiter, at: Nanos) -> Moved {
        self.shard_of(waiter).move_waiter(waiter, at)
    }

    /// Removes a waiting future, which is about to be dropped or to stop waiting.
    #[inline]
    pub(crate) fn remove_waiter(&self, waiter: Waiter) {
        self.shard_of(&waiter).remove_waiter(waiter);
    }

    /// Returns `true` if a deadline, rounded up to a tick, has passed.
    pub(crate) fn has_elapsed(&self, at: Nanos) -> bool {
        let now = self.clock().now();
        at <= now / self.tick() * self.tick()
    }

    /// Calls a batch of due wakers. Returns the lock, and `true` if more wakers may be due.
    #[inline]
    pub(crate) fn wake_some<'a>(
        &self,
        shard: &'a Shard,
        state: MutexGuard<'a, State>,
    ) -> (MutexGuard<'a, State>, bool) {
        // A thread that is calling wakers may be blocked in one, with others still to be called.
        if state.sleepers.len() == 0 && state.waking == 0 {
            (state, false)
        } else {
            self.wake_batch(shard, state)
        }
    }

    fn wake_batch<'a>(
        &self,
        shard: &'a Shard,
        mut state: MutexGuard<'a, State>,
    ) -> (MutexGuard<'a, State>, bool) {
        let now = self.clock().now();
        let mut due = shard.wakers.due();
        let more = state.take_sleepers(now, &mut due);
        let count = due.len();
        drop(due);
        let through = state.sleepers.wheel.now();
        shard.wakers.taken_through.store(through, Ordering::Release);
        if !more {
            shard.wakers.woken_through.store(through, Ordering::Release);
        }
        if count > 0 {
            state.waking += 1;
            let guarded = self.unlock_for_wakers(shard, state, count, now);
            let panicked = shard.call_due_wakers();
            if !guarded {
                self.driver.end_unguarded_waker();
            }
            state = shard.lock();
            state.waking -= 1;
            state.panicked += panicked;
        } else if more {
            state = shard.relock(state);
        }
        (state, more)
    }
}

impl Shard {
    fn register_waker(&self, at: Nanos, waker: &Waker, progress: &mut Progress) -> Nudge {
        let waker = waker.clone();
        let identity = Identity::of(&waker);
        let mut state = self.lock();
        if state.phase == Phase::Stopped {
            return Nudge::NONE;
        }
        let tick = state.tick_of(at);
        if self.has_passed(&state, at, tick) {
            *progress = Progress::Elapsed;
            return Nudge::NONE;
        }
        state.scheduled += 1;
        let key = state.sleepers.insert(tick, waker);
        *progress = Progress::Waits(Waiter { shard: self.index, key, tick, waker: identity });
        let mut nudge = self.unlock_after(state, at);
        // Most futures that were just woken sleep again at once. That does not need a guard yet.
        if nudge.watch {
            let now = self.driver.clock.now();
            nudge.watch = now >= self.driver.waking_since().saturating_add(nanos(GRACE));
        }
        nudge
    }

    /// Returns `true` if a deadline has passed, to the nanosecond.
    #[inline]
    fn has_passed(&self, state: &State, at: Nanos, tick: u64) -> bool {
        let driver = &self.driver;
        tick <= state.sleepers.wheel.now()
            || (!driver.leader_wakes_by(at) && at <= driver.clock.now())
    }

    #[inline]
    fn update_waker(&self, waiter: Waiter, waker: &Waker) -> Progress {
        if self.wakers.has_woken(&waiter) {
            return Progress::Elapsed;
        }
        let state = self.lock();
        match state.sleepers.wheel.get(waiter.key).map(Option::as_ref) {
            // A thread is taking out the sleepers of this tick: it will take this waker too.
            Some(_) if waiter.tick <= state.sleepers.wheel.now() => Progress::Elapsed,
            Some(_) if self.has_passed(&state, state.time_of(waiter.tick), waiter.tick) => {
                self.wake_up(state, waiter)
            }
            Some(Some(known)) if known.will_wake(waker) => Progress::Waits(waiter),
            Some(_) => {
                drop(state);
                self.replace_waker(waiter, waker.clone())
            }
            None => after_waking(&state),
        }
    }

    /// Removes a future that found out by itself that its deadline has passed.
    #[cold]
    fn wake_up(&self, mut state: MutexGuard<'_, State>, waiter: Waiter) -> Progress {
        let waker = state.sleepers.remove(waiter.key);
        state.fired += 1;
        let late = self.driver.clock.now().saturating_sub(state.time_of(waiter.tick));
        state.lateness.record_nanos(late);
        drop(state);
        drop(waker);
        Progress::Elapsed
    }

    #[cold]
    fn replace_waker(&self, waiter: Waiter, waker: Waker) -> Progress {
        let identity = Identity::of(&waker);
        let mut state = self.lock();
        match state.sleepers.wheel.get_mut(waiter.key) {
            Some(known) => {
                let other = known.replace(waker);
                drop(state);
                // Without the lock: dropping a waker is user code.
                drop(other);
                Progress::Waits(Waiter { waker: identity, ..waiter })
            }
            None => after_waking(&state),
        }
    }

    #[inline]
    fn move_waiter(&self, waiter: &mut Waiter, at: Nanos) -> Moved {
        let mut state = self.lock();
        let tick = state.tick_of(at);
        if self.has_passed(&state, at, tick) {
            let waker = state.sleepers.remove(waiter.key);
            state.fired += u64::from(waker.is_some());
            return waker.map_or(Moved::Woken, Moved::Passed);
        }
        if !state.sleepers.wheel.reset(waiter.key, tick) {
            return Moved::Woken;
        }
        waiter.tick = tick;
        Moved::Waits(self.unlock_after(state, at))
    }

    #[inline]
    fn remove_waiter(&self, waiter: Waiter) {
        if self.wakers.has_woken(&waiter) {
            return;
        }
        let mut state = self.lock();
        let waker = state.sleepers.remove(waiter.key);
        state.cancelled += u64::from(waker.is_some());
        drop(state);
        drop(waker);
    }

    /// Calls the wakers that were taken out, in order. Returns the number of panics.
    fn call_due_wakers(&self) -> u64 {
        let mut panicked = 0;
        while panics::catch(&self.driver.config, || {
            while let Some(waker) = { self.wakers.due().pop_front() } {
                waker.wake();
            }
        }) {
            panicked += 1;
        }
        panicked
    }

    /// Wakes all futures after the timer was stopped.
    pub(crate) fn wake_stopped(&self, wakers: Vec<Waker>) {
        self.wakers.taken_through.store(u64::MAX, Ordering::Release);
        self.wakers.due().extend(wakers);
        let panicked = self.call_due_wakers();
        if panicked > 0 {
            self.lock().panicked += panicked;
        }
    }
}

impl State {
    /// Takes out a batch of due sleepers. Returns `true` if more may be due.
    fn take_sleepers(&mut self, now: Nanos, batch: &mut VecDeque<Waker>) -> bool {
        let tick = self.tick_at(now);
        loop {
            if self.sleepers.wheel.advance(tick, WHEEL_STEP) == Advance::Unfinished {
                return true;
            }
            let Some((deadline, waker)) = self.sleepers.pop_due(tick) else { return false };
            let Some(waker) = waker else { continue };
            self.fired += 1;
            self.lateness.record_nanos(now.saturating_sub(self.time_of(deadline)));
            // Waking a task changes its state, which is usually at the waker's address and not in the
            // cache. Waiting for it took a quarter of the time to fire.
            wheel::prefetch(waker.data());
            batch.push_back(waker);
            if batch.len() >= WAKE_BATCH {
                return self.sleepers.wheel.next_wake().is_some_and(|next| next <= tick);
            }
        }
    }
}

/// Returns the progress of a future whose waker has left the wheel: its deadline has passed, or the
/// timer was stopped.
fn after_waking(state: &State) -> Progress {
    if state.phase == Phase::Stopped { Progress::New } else { Progress::Elapsed }
}
