//! Futures that wait: a wheel of wakers beside the wheel of tasks.
//!
//! A *sleeper* is a future's waker with a deadline. It needs less than a task does: nobody runs
//! it, it has no key and no handle but its future. So it has a wheel of its own, in which an entry
//! is the waker itself, and the thread that waits for deadlines wakes all that are due by the
//! batch, without a hand-over to anybody.
//!
//! Ground rules:
//! * The wheel belongs to the timer's lock. Wakers are cloned, woken and dropped without it:
//!   whose they are may call back.
//! * A sleeper is put into the wheel with a tick after the wheel's time. What is due sooner than
//!   that is not put there; its future is ready.
//! * Hence, up to the tick `woken_through` no sleeper is in the wheel, and a future whose tick
//!   that is knows without the lock that it was woken. It never goes back.
//! * Up to the tick `taken_through` a sleeper may have been taken out; that is said before anybody
//!   is woken. So a future with a later tick knows without the lock that its waker is in the wheel,
//!   and which one that is: it goes on waiting if it is polled with the same.
//! * A poll never relies on a thread that may be blocked in a task, an executor or a waker. It reads
//!   the clock itself unless the leader is asleep and wakes up no later than the future's deadline:
//!   reading the clock costs more than the rest of a poll.
//! * Most futures that wait do so for a moment, again and again, with the same limit. So what a
//!   future leaves behind is kept for the next one: an entry without a waker, *vacant*, which is
//!   moved to a later deadline for a fraction of what putting one there and taking it out costs.
//!   No vacant entry wakes anybody, and those that are met in the wheel go.
//! * Sleepers are not tasks: `max_pending` does not limit them, and `stop` does not hand them back
//!   but wakes them. They then go on at the timer's *successor*.

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

/// So many are woken before somebody else may have the lock, or a task its turn.
const BATCH: usize = 128;

/// So many vacant entries are kept.
const VACANT: usize = 64;

/// The part that the lock protects.
pub(crate) struct Sleepers {
    wheel: HierarchicalWheel<Option<Waker>>,
    /// The entries without a waker, all of them.
    vacant: Vec<wheel::Key>,
}

/// The part that it does not.
pub(crate) struct Wakers {
    /// The tick up to which every sleeper was taken out of the wheel.
    woken_through: AtomicU64,
    /// The tick up to which sleepers may have been taken out of the wheel; `u64::MAX` once the timer
    /// is stopped.
    taken_through: AtomicU64,
    /// Wakers that were taken out of the wheel and not called yet. They have a lock of their own, so
    /// that a thread that steps in can continue where a blocked one has stopped. It is taken under
    /// the shard's lock or without it, and no waker is called under it.
    due: Mutex<VecDeque<Waker>>,
}

/// Where a future's waker is: in which shard, and where in its wheel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    shard: u32,
    key: wheel::Key,
    tick: u64,
    waker: Identity,
}

/// Tells wakers apart, as [`Waker::will_wake`] does, while one of them is in the wheel and so its
/// addresses are nobody else's.
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

/// How far a future's waiting is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Progress {
    /// It has not begun.
    New,
    Waits(Waiter),
    /// The deadline has come.
    Elapsed,
}

/// What moving the deadline of a future that waits has met.
pub(crate) enum Moved {
    /// It waits for the new deadline.
    Waits(Nudge),
    /// The new deadline has passed: the waker is the caller's to call.
    Passed(Waker),
    /// It was woken before, and has to begin anew.
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

    /// Takes somebody out who waits.
    #[inline]
    fn remove(&mut self, key: wheel::Key) -> Option<Waker> {
        if self.vacant.len() >= VACANT {
            return self.wheel.remove(key).flatten();
        }
        let waker = self.wheel.get_mut(key)?.take();
        self.vacant.push(key);
        waker
    }

    /// Takes out who is due, or a vacant entry.
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

    /// The wakers of all sleepers, to be called without the lock.
    pub(crate) fn into_wakers(mut self) -> Vec<Waker> {
        self.wheel.drain().filter_map(|due| due.value).collect()
    }
}

/// The futures' way into the timer.
impl Core {
    fn shard_of(&self, waiter: &Waiter) -> &Arc<Shard> {
        self.shard(waiter.shard as usize)
    }

    /// Begins to wait: puts a waker into the wheel, unless the deadline has passed. Leaves the
    /// progress at [`Progress::New`] if the timer is stopped.
    pub(crate) fn fall_asleep(&self, at: Nanos, waker: &Waker, progress: &mut Progress) -> Nudge {
        self.my_shard().fall_asleep(at, waker, progress)
    }

    /// Returns `true` if it is certain that a future continues to wait with this waker.
    #[inline]
    pub(crate) fn surely_sleeps(&self, waiter: &Waiter, waker: &Waker) -> bool {
        let taken_through = self.shard_of(waiter).wakers.taken_through.load(Ordering::Acquire);
        if waiter.tick <= taken_through || waiter.waker != Identity::of(waker) {
            return false;
        }
        let at = waiter.tick.saturating_mul(self.tick());
        self.driver.leader_wakes_by(at) || at > self.clock().now()
    }

    /// Lets a future continue to wait, with this waker. Returns [`Progress::New`] if the timer is
    /// stopped.
    #[inline]
    pub(crate) fn go_on_sleeping(&self, waiter: Waiter, waker: &Waker) -> Progress {
        self.shard_of(&waiter).go_on_sleeping(waiter, waker)
    }

    /// Moves the deadline of a future that waits.
    #[inline]
    pub(crate) fn sleep_till(&self, waiter: &mut Waiter, at: Nanos) -> Moved {
        self.shard_of(waiter).sleep_till(waiter, at)
    }

    /// Ends the waiting of a future that is dropped.
    #[inline]
    pub(crate) fn leave(&self, waiter: Waiter) {
        self.shard_of(&waiter).leave(waiter);
    }

    /// Returns `true` if a deadline, rounded up to a tick, has passed.
    pub(crate) fn has_come(&self, at: Nanos) -> bool {
        let now = self.clock().now();
        at <= now / self.tick() * self.tick()
    }

    /// Calls a batch of due wakers. Returns `true` beside the lock if there may be more.
    #[inline]
    pub(crate) fn wake_some<'a>(
        &self,
        shard: &'a Shard,
        state: MutexGuard<'a, State>,
    ) -> (MutexGuard<'a, State>, bool) {
        // While another thread calls wakers, it may be blocked in one and have others left.
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
            if state.waking == 0 {
                state.waking_since = now;
            }
            state.waking += 1;
            self.unlock_for_wakers(shard, state, count);
            let panicked = shard.call_due_wakers();
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
    fn fall_asleep(&self, at: Nanos, waker: &Waker, progress: &mut Progress) -> Nudge {
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
        let waking_since = state.waking_since;
        let mut nudge = self.unlock_after(state, at);
        // Futures that were just woken mostly wait again at once: that calls no guard yet.
        if nudge.watch {
            let now = self.driver.clock.now();
            nudge.watch = now >= waking_since.saturating_add(nanos(GRACE));
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
    fn go_on_sleeping(&self, waiter: Waiter, waker: &Waker) -> Progress {
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

    /// Ends the waiting of a future that found out by itself that its deadline has passed.
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
                // Without the lock.
                drop(other);
                Progress::Waits(Waiter { waker: identity, ..waiter })
            }
            None => after_waking(&state),
        }
    }

    #[inline]
    fn sleep_till(&self, waiter: &mut Waiter, at: Nanos) -> Moved {
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
    fn leave(&self, waiter: Waiter) {
        if self.wakers.has_woken(&waiter) {
            return;
        }
        let mut state = self.lock();
        let waker = state.sleepers.remove(waiter.key);
        state.cancelled += u64::from(waker.is_some());
        drop(state);
        drop(waker);
    }

    /// Calls the wakers that were taken out, in order. Returns how many panicked.
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

    /// Wakes all futures, when the timer was stopped.
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
    /// Takes due sleepers out, up to a batch. Says whether there may be more.
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
            // Waking a task changes its state, which mostly lies where the waker points, and was
            // not looked at for long: a quarter of the time to fire went into waiting for that.
            wheel::prefetch(waker.data());
            batch.push_back(waker);
            if batch.len() >= BATCH {
                return self.sleepers.wheel.next_wake().is_some_and(|next| next <= tick);
            }
        }
    }
}

/// A future's waker is gone from the wheel: it was woken because its deadline has come, or
/// because the timer was stopped.
fn after_waking(state: &State) -> Progress {
    if state.phase == Phase::Stopped { Progress::New } else { Progress::Elapsed }
}
