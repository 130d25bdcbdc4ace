//! A shard of a timer: a lock, and the tasks and futures that it protects.
//!
//! Threads schedule into different shards, so they neither wait for each other's locks nor share
//! cache lines. A handle knows its shard. A timer that promises an order of deadlines has one shard.
//!
//! Ground rules:
//! * Closures are called and dropped without the lock.
//! * `next` is written under the lock and never later than the shard's true next wake-up. A call
//!   that schedules lowers it; only a thread that serves the shard raises it. Cancelling does not
//!   touch it.
//! * Every call that schedules returns or uses a [`Nudge`], which wakes or starts the leader after
//!   the lock was released.

use core::sync::atomic::Ordering;
use std::boxed::Box;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, PoisonError};
use std::vec::Vec;

use crate::timer::clock::Nanos;
use crate::timer::core::driver::{CacheAligned, Driver, NEVER, Nudge, Phase};
use crate::timer::core::sleepers::Wakers;
use crate::timer::core::state::{Cancelled, Fire, KeyHolder, State};
use crate::timer::execution::panics;
use crate::timer::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, yield_now};
use crate::timer::tasks::record::{Fate, Record, Work};
use crate::timer::{Key, ScheduleError};
use crate::wheel;

/// `next` of a shard in which nothing is pending.
pub(crate) const EMPTY: Nanos = Nanos::MAX;

#[repr(align(128))]
pub(crate) struct Shard {
    pub(crate) driver: Arc<Driver>,
    pub(crate) index: u32,
    /// A time before which nothing in this shard is due, or [`NEVER`] or [`EMPTY`].
    next: AtomicU64,
    /// The number of tasks and batches of wakers taken out so far. The guard uses it to see progress.
    starts: AtomicU64,
    /// The number of threads that are running tasks of this shard.
    serving: AtomicU64,
    pub(crate) wakers: Wakers,
    /// The sorted wheel keys of the plain tasks that were pending when the timer was stopped. Their
    /// handles need them to report the fate of the task. Locked after the state.
    unfired_keys: Mutex<Vec<wheel::Key>>,
    state: CacheAligned<Mutex<State>>,
}

/// No panic leaves a shard half changed: no user code runs under its lock.
impl UnwindSafe for Shard {}
impl RefUnwindSafe for Shard {}

impl Shard {
    pub(crate) fn new(driver: Arc<Driver>, index: u32, phase: Phase) -> Self {
        let state = State::new(&driver.config, phase);
        Self {
            driver,
            index,
            next: AtomicU64::new(EMPTY),
            starts: AtomicU64::new(0),
            serving: AtomicU64::new(0),
            wakers: Wakers::new(),
            unfired_keys: Mutex::new(Vec::new()),
            state: CacheAligned(Mutex::new(state)),
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the lock for a moment, so that other threads can take it.
    pub(crate) fn relock<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        drop(state);
        yield_now();
        self.lock()
    }

    /// Returns a time before which nothing in this shard is due, or [`NEVER`] or [`EMPTY`].
    #[inline]
    pub(crate) fn next(&self) -> Nanos {
        self.next.load(Ordering::Acquire)
    }

    /// Publishes the shard's next wake-up time, which may be later than the published one.
    pub(crate) fn publish_next(&self, state: &State) {
        let next = state.next_wake().map_or(EMPTY, |at| at.min(NEVER));
        self.next.store(next, Ordering::Release);
    }

    /// Counts a task or a batch of wakers that is about to be called. The lock must be held.
    #[inline]
    pub(crate) fn note_start(&self) {
        self.starts.store(self.starts.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn starts(&self) -> u64 {
        self.starts.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn is_served(&self) -> bool {
        self.serving.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn begin_serving(&self) {
        self.serving.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_serving(&self) {
        self.serving.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the wheel keys of the plain tasks that were pending when the timer was stopped. Waits
    /// while `stop` is collecting them.
    pub(crate) fn unfired_keys(&self) -> MutexGuard<'_, Vec<wheel::Key>> {
        self.unfired_keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the lock after something was scheduled for `at`. The returned nudge must be used when
    /// no lock is held.
    #[inline]
    pub(crate) fn unlock_after(&self, state: MutexGuard<'_, State>, at: Nanos) -> Nudge {
        let wake_at = at.min(NEVER);
        let earlier = wake_at < self.next.load(Ordering::Relaxed);
        if earlier {
            self.next.store(wake_at, Ordering::Release);
        }
        drop(state);
        self.driver.nudge_for(wake_at, earlier)
    }

    /// Releases the lock after something was scheduled for `at`, and wakes or starts the leader if
    /// necessary.
    #[inline]
    pub(crate) fn announce(
        &self,
        state: MutexGuard<'_, State>,
        at: Nanos,
    ) -> Result<(), ScheduleError> {
        let nudge = self.unlock_after(state, at);
        if nudge.is_needed() { self.driver.nudge(nudge) } else { Ok(()) }
    }

    /// Cancels a plain task.
    #[inline]
    pub(crate) fn cancel(&self, wheel_key: wheel::Key, cancelled: &AtomicBool) -> bool {
        let mut state = self.lock();
        if state.phase == Phase::Stopped {
            return false;
        }
        let Some(job) = state.cancel_plain(wheel_key) else { return false };
        cancelled.store(true, Ordering::Release);
        drop(state);
        self.note_progress();
        drop(job);
        true
    }

    pub(crate) fn cancel_record(&self, record: &Arc<Record>) -> bool {
        self.cancel_by(|state| state.cancel(record))
    }

    pub(crate) fn cancel_key(&self, key: &Key, hash: u64) -> bool {
        self.cancel_by(|state| {
            let holder = state.find(key, hash);
            holder.map_or(Cancelled::No, |holder| state.cancel_holder(&holder))
        })
    }

    fn cancel_by(&self, cancel: impl FnOnce(&mut State) -> Cancelled) -> bool {
        let mut state = self.lock();
        if state.phase == Phase::Stopped {
            return false;
        }
        let cancelled = cancel(&mut state);
        drop(state);
        self.note_progress();
        let was_cancelled = cancelled.was_cancelled();
        drop_cancelled(cancelled);
        was_cancelled
    }

    /// Notes that the handle of a task with a key was dropped.
    pub(crate) fn unwatch(&self, wheel_key: wheel::Key) {
        self.lock().keys.unwatch(wheel_key);
    }

    /// Moves the deadline of a pending task.
    pub(crate) fn reset(&self, wheel_key: wheel::Key, delay: Nanos) -> bool {
        let mut state = self.lock();
        // Reading the clock hides a part of the cache miss on the task's entry.
        state.prefetch(wheel_key);
        let at = self.driver.clock.after(delay);
        if state.phase == Phase::Stopped || !state.reset(wheel_key, at) {
            return false;
        }
        self.announce(state, at).is_ok()
    }

    pub(crate) fn reset_record(&self, record: &Arc<Record>, delay: Nanos) -> bool {
        let mut state = self.lock();
        let at = self.driver.clock.after(delay);
        if state.phase == Phase::Stopped || !state.reset_record(record, at) {
            return false;
        }
        self.announce(state, at).is_ok()
    }

    /// Moves the deadline of the pending task with a key.
    pub(crate) fn reset_key(&self, key: &Key, hash: u64, delay: Nanos) -> bool {
        let mut state = self.lock();
        let at = self.driver.clock.after(delay);
        let is_reset = match state.find(key, hash) {
            _ if state.phase == Phase::Stopped => false,
            Some(KeyHolder::Plain(wheel_key)) => state.reset(wheel_key, at),
            Some(KeyHolder::Record(record)) => state.reset_record(&record, at),
            None => false,
        };
        is_reset && self.announce(state, at).is_ok()
    }

    /// Returns `true` if a task with this key is pending, or is periodic and running.
    pub(crate) fn has_key(&self, key: &Key, hash: u64) -> bool {
        let state = self.lock();
        state.phase != Phase::Stopped && state.find(key, hash).is_some()
    }

    /// Returns the deadline of the pending task with a key, rounded up to a tick.
    pub(crate) fn key_due_at(&self, key: &Key, hash: u64) -> Option<Nanos> {
        let state = self.lock();
        let wheel_key = match state.find(key, hash)? {
            KeyHolder::Plain(wheel_key) => wheel_key,
            KeyHolder::Record(record) if record.fate() == Fate::Pending => record.wheel_key(),
            KeyHolder::Record(_) => return None,
        };
        state.due_at(wheel_key)
    }

    /// Returns the deadline of a task in the wheel, rounded up to a tick.
    pub(crate) fn due_at(&self, wheel_key: wheel::Key) -> Option<Nanos> {
        self.lock().due_at(wheel_key)
    }

    /// Returns the fate of a plain task. A task that is not in the wheel has fired, unless its handle
    /// has recorded that it cancelled the task.
    pub(crate) fn fate(&self, wheel_key: wheel::Key) -> Fate {
        let state = self.lock();
        if state.keys.was_cancelled(wheel_key) {
            return Fate::Cancelled;
        }
        if state.phase != Phase::Stopped {
            let is_pending = state.wheel.deadline(wheel_key).is_some();
            return if is_pending { Fate::Pending } else { Fate::Fired };
        }
        let fate = state.fate_at_stop;
        drop(state);
        if self.unfired_keys().binary_search(&wheel_key).is_ok() { fate } else { Fate::Fired }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.lock().memory_usage() + self.unfired_keys().capacity() * size_of::<wheel::Key>()
    }

    /// Revises the wall-clock deadline of one task that needs it, without holding the lock. Returns
    /// the lock, and `false` if no task needs it.
    pub(crate) fn revise<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> (MutexGuard<'a, State>, bool) {
        let clock = &self.driver.clock;
        let Some((record, due)) = state.next_to_revise(clock) else { return (state, false) };
        drop(state);
        let revised = record.rule().map_or(due, |rule| rule.revise(due, clock.wall()));
        let mut state = self.lock();
        if let Some(at) = state.apply_revised(&record, due, revised, clock) {
            // A failure to start a thread was logged; the next call tries again.
            let _ = self.announce(state, at);
        } else {
            drop(state);
        }
        // If the task has ended meanwhile, this drops its closure.
        panics::catch(&self.driver.config, || drop(record));
        (self.lock(), true)
    }

    /// Calls a task's closure and counts the run. Returns with the shard locked.
    #[inline]
    pub(crate) fn execute(&self, fire: Fire) -> MutexGuard<'_, State> {
        let config = &self.driver.config;
        let (record, work) = match fire {
            Fire::Plain(job) => (None, Some(Work::Once(job))),
            Fire::Record(record) => {
                let work = record.take_work();
                (Some(record), work)
            }
        };
        let mut again = None;
        let panicked = match work {
            Some(Work::Once(job)) => panics::catch(config, || job.call()),
            Some(Work::Repeat(mut call)) => {
                let panicked = panics::catch(config, &mut call);
                again = Some(call);
                panicked
            }
            None => false,
        };
        self.after_run(record, again, panicked)
    }

    /// Counts a task that has run or that an executor dropped, and schedules the next run of a series.
    fn after_run(
        &self,
        record: Option<Arc<Record>>,
        mut again: Option<Box<dyn FnMut() + Send>>,
        panicked: bool,
    ) -> MutexGuard<'_, State> {
        // The closure must be in place before the task can be due again.
        if let (Some(record), Some(call)) = (&record, again.take()) {
            record.put_work(Work::Repeat(call));
        }
        if let Some((record, rule)) = record.as_ref().and_then(|r| Some((r, r.rule()?))) {
            record.set_wall(rule.next(self.driver.clock.wall()));
        }
        let mut state = self.lock();
        state.panicked += u64::from(panicked);
        let Some(record) = record else { return self.leave_run(state) };
        if state.finish(&record, panicked, &self.driver.clock) {
            let at = state.wake_time_of(&record);
            // A failure to start a thread was logged; the next call tries again.
            let _ = self.announce(state, at);
        } else {
            drop(state);
            panics::catch(&self.driver.config, || drop(record.take_work()));
        }
        // A caller that has cancelled the record meanwhile may have left its closure to this thread.
        panics::catch(&self.driver.config, || drop(record));
        // The run ends only now: dropping the closure may block, like running it.
        self.leave_run(self.lock())
    }

    /// Counts the end of a run, after its closure was dropped or put back.
    #[inline]
    fn leave_run<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.running -= 1;
        if self.driver.takes_tasks() {
            return state;
        }
        drop(state);
        self.driver.note_progress();
        self.lock()
    }

    /// Wakes callers that wait for the end of the timer, if there may be any. The lock must not be held.
    #[inline]
    fn note_progress(&self) {
        if !self.driver.takes_tasks() {
            self.driver.note_progress();
        }
    }

    /// Counts a task that an executor dropped without running it.
    pub(crate) fn rejected(&self, fire: Fire) {
        panics::log(|| tracing::warn!("the executor of a timer dropped a task without running it"));
        let mut state = self.lock();
        state.rejected += 1;
        state.leave_queue();
        drop(state);
        let record = match fire {
            Fire::Plain(job) => {
                panics::catch(&self.driver.config, || drop(job));
                None
            }
            Fire::Record(record) => Some(record),
        };
        drop(self.after_run(record, None, false));
    }
}

/// Drops a cancelled task. The lock must not be held. The closure of a pending task is dropped at
/// once, that of a running one after its run.
pub(crate) fn drop_cancelled(cancelled: Cancelled) {
    if let Cancelled::Pending(job) = &cancelled
        && let Some(record) = job.record()
    {
        drop(record.take_work());
    }
    drop(cancelled);
}
