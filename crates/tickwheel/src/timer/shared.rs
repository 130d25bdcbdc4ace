//! One timer, as its handles and its threads share it: the lock, the clock, and every operation.
//!
//! Ground rules:
//! * Closures are called and dropped without the lock.
//! * Whoever makes something due earlier than the thread that waits for deadlines expects wakes
//!   that thread, after unlocking. Nobody else does.
//! * A poisoned lock is as good as any: nothing that can panic runs under it.

use core::sync::atomic::Ordering;
use std::hash::{BuildHasher, RandomState};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, PoisonError};
use std::vec::Vec;

use super::builder::Config;
use super::clock::{Clock, Nanos};
use super::executor::{Executor, Task};
use super::handle::Timeout;
use super::job::Job;
use super::names::Named;
use super::periodic::Series;
use super::record::{Fate, Record, Work};
use super::sleepers::Unlocked;
use super::state::{Cancelled, Fire, Phase, Popped, State};
use super::sync::{AtomicBool, Condvar, Mutex, MutexGuard, yield_now};
use super::{Key, ScheduleError, panics};
use crate::wheel;

/// What is left to do after something was scheduled: the leader sleeps past the new deadline, or
/// there is no thread yet.
#[must_use = "pass it to `nudge`: the leader may sleep past the new deadline"]
#[derive(Clone, Copy, Default)]
pub(crate) struct Nudge {
    wake: bool,
    start: bool,
    /// A thread is calling wakers, and no guard watches whether one of them blocks.
    pub(super) watch: bool,
}

impl Nudge {
    /// Whether there is anything to do.
    #[inline]
    pub(crate) fn is_needed(self) -> bool {
        self.wake || self.start || self.watch
    }
}

pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) clock: Clock,
    pub(super) config: Config,
    /// Where the thread that waits for deadlines sleeps.
    pub(super) leader: Condvar,
    /// Where the thread sleeps that steps in when tasks are held up.
    pub(super) guard: Condvar,
    /// Where threads without work sleep.
    pub(super) idle: Condvar,
    /// Where callers wait for tasks and threads to end, and for the first thread to be started.
    pub(super) ended: Condvar,
    /// What futures know without the lock.
    pub(super) sleepers: Unlocked,
    /// Hashes keys, which is done without the lock.
    hasher: RandomState,
    /// The places of the plain tasks that were pending when the timer was stopped, in order: so their
    /// handles can tell what became of them. Taken after the lock of the state.
    pub(super) left: Mutex<Vec<wheel::Key>>,
    /// No more tasks are taken: the phase says so too, but this can be read without the lock.
    pub(super) closed: AtomicBool,
    #[cfg(feature = "pace")]
    pub(super) tenants: super::host::Tenants,
}

/// No panic leaves a timer half changed: no code of a caller's runs under its lock, and panics of
/// tasks and hooks are caught.
impl UnwindSafe for Shared {}
impl RefUnwindSafe for Shared {}

impl Shared {
    pub(super) fn new(config: Config, clock: Clock) -> Arc<Self> {
        let state = State::new(&config);
        let shared = Arc::new(Self {
            state: Mutex::new(state),
            clock,
            config,
            leader: Condvar::new(),
            guard: Condvar::new(),
            idle: Condvar::new(),
            ended: Condvar::new(),
            sleepers: Unlocked::new(),
            hasher: RandomState::new(),
            left: Mutex::new(Vec::new()),
            closed: AtomicBool::new(false),
            #[cfg(feature = "pace")]
            tenants: super::host::Tenants::default(),
        });
        if let Clock::Manual(clock) = &shared.clock {
            clock.attach(&shared);
        }
        shared
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether tasks run on threads of this timer.
    pub(super) fn has_threads(&self) -> bool {
        !matches!(self.config.executor, Executor::Caller)
    }

    /// Unlocks after something was scheduled for `at`, and wakes or starts the leader if that is
    /// necessary.
    #[inline]
    fn announce(
        self: &Arc<Self>,
        state: MutexGuard<'_, State>,
        at: Nanos,
    ) -> Result<(), ScheduleError> {
        let nudge = self.unlock_after(state, at);
        if nudge.is_needed() { self.nudge(nudge) } else { Ok(()) }
    }

    /// Unlocks after something was scheduled for `at`. Says what is left to do, which may call hooks
    /// of the timer's owner: it is done when no other lock is held either.
    #[inline]
    pub(super) fn unlock_after(&self, mut state: MutexGuard<'_, State>, at: Nanos) -> Nudge {
        let without_thread = !state.threads.are_there() && self.has_threads();
        Nudge {
            wake: state.threads.expects_later_than(at),
            start: state.phase == Phase::NotStarted || without_thread,
            watch: state.threads.are_wakers_unwatched(),
        }
    }

    /// Wakes or starts the leader. No lock may be held.
    #[cold]
    pub(crate) fn nudge(self: &Arc<Self>, nudge: Nudge) -> Result<(), ScheduleError> {
        if nudge.wake {
            match &self.config.wake_hook {
                None => self.leader.notify_one(),
                Some(hook) => panics::call_hook("wake hook", &**hook),
            }
        }
        if nudge.watch {
            self.watch_wakers();
        }
        if !nudge.start {
            return Ok(());
        }
        match self.start() {
            // The task was accepted, and whoever stopped the timer has it.
            Err(ScheduleError::Stopped) => Ok(()),
            started => started,
        }
    }

    /// Schedules a closure.
    #[inline]
    pub(super) fn schedule(
        self: &Arc<Self>,
        at: Nanos,
        job: Job,
    ) -> Result<Timeout, ScheduleError> {
        let mut state = self.lock();
        state.admit()?;
        state.scheduled += 1;
        let place = state.insert(at, job);
        let timeout = Timeout::plain(Arc::clone(self), place);
        match self.announce(state, at) {
            // No thread, no task: what is refused must not run later. But a thread that another
            // caller could start may have run it, and then it was not refused.
            Err(error) if timeout.cancel() => Err(error),
            _ => Ok(timeout),
        }
    }

    /// Schedules a named closure, in place of the task that has the key.
    pub(super) fn schedule_named(
        self: &Arc<Self>,
        key: Key,
        at: impl FnOnce(&Clock) -> Nanos,
        job: Job,
    ) -> Result<Timeout, ScheduleError> {
        let hash = self.hasher.hash_one(&key);
        let mut state = self.lock();
        // Where the key is kept is a cache miss, and asking for the time takes a good part of one.
        state.names.prefetch(hash);
        let at = at(&self.clock);
        let named = state.find(&key, hash);
        if named.is_some() { state.admit_instead() } else { state.admit() }?;
        // The task that is replaced makes room for this one; on a timer that takes none it stays.
        let replaced = named.map_or(Cancelled::No, |named| state.cancel_named(&named));
        state.scheduled += 1;
        let place = state.insert(at, job);
        state.names.insert(key, hash, place);
        let timeout = Timeout::named(Arc::clone(self), place);
        let announced = self.announce(state, at);
        drop_cancelled(replaced);
        match announced {
            // As in `schedule`.
            Err(error) if timeout.cancel() => Err(error),
            _ => Ok(timeout),
        }
    }

    /// Schedules a task that has a period or a wall-clock deadline, and maybe a key.
    pub(super) fn schedule_record(
        self: &Arc<Self>,
        key: Option<Key>,
        series: Option<Series>,
        work: Work,
        at: Nanos,
        wall: Option<Nanos>,
    ) -> Result<Timeout, ScheduleError> {
        let record = Arc::new(Record::new(key.clone(), series, wall, work));
        let hash = key.as_ref().map_or(0, |key| self.hasher.hash_one(key));
        let mut state = self.lock();
        let named = key.as_ref().and_then(|key| state.find(key, hash));
        // The task that is replaced makes room for this one; on a timer that takes none it stays.
        let admitted = if named.is_some() { state.admit_instead() } else { state.admit() };
        let mut replaced = Cancelled::No;
        if admitted.is_ok() {
            replaced = named.map_or(Cancelled::No, |named| state.cancel_named(&named));
            state.scheduled += 1;
            state.place(&record, at, &self.clock);
            state.records.insert(Arc::clone(&record));
            if let Some(key) = key {
                state.names.insert_record(key, Arc::clone(&record));
            }
        }
        let announced = if admitted.is_ok() {
            let at = state.look_at(&record);
            self.announce(state, at)
        } else {
            drop(state);
            Ok(())
        };
        drop_cancelled(replaced);
        admitted?;
        match announced {
            // As in `schedule`.
            Err(error) if self.cancel_record(&record) => Err(error),
            _ => Ok(Timeout::record(Arc::clone(self), record)),
        }
    }

    /// Cancels a plain task.
    #[inline]
    pub(super) fn cancel(&self, place: wheel::Key, cancelled: &AtomicBool) -> bool {
        let mut state = self.lock();
        if state.phase == Phase::Stopped {
            return false;
        }
        let Some(job) = state.cancel_plain(place) else { return false };
        cancelled.store(true, Ordering::Release);
        self.progress(&state);
        drop(state);
        drop(job);
        true
    }

    pub(super) fn cancel_record(&self, record: &Arc<Record>) -> bool {
        self.cancel_by(|state| state.cancel(record))
    }

    pub(super) fn cancel_key(&self, key: &Key) -> bool {
        let hash = self.hasher.hash_one(key);
        self.cancel_by(|state| {
            let named = state.find(key, hash);
            named.map_or(Cancelled::No, |named| state.cancel_named(&named))
        })
    }

    fn cancel_by(&self, cancel: impl FnOnce(&mut State) -> Cancelled) -> bool {
        let mut state = self.lock();
        if state.phase == Phase::Stopped {
            return false;
        }
        let cancelled = cancel(&mut state);
        self.progress(&state);
        drop(state);
        let was_cancelled = cancelled.was_cancelled();
        drop_cancelled(cancelled);
        was_cancelled
    }

    /// The handle of a named task is gone.
    pub(super) fn unwatch(&self, place: wheel::Key) {
        self.lock().names.unwatch(place);
    }

    /// Moves the deadline of a pending task.
    pub(super) fn reset(self: &Arc<Self>, place: wheel::Key, delay: Nanos) -> bool {
        let mut state = self.lock();
        // The task is a cache miss, and asking for the time takes a good part of one.
        state.prefetch(place);
        let at = self.clock.now().saturating_add(delay);
        if state.phase == Phase::Stopped || !state.reset(place, at) {
            return false;
        }
        self.announce(state, at).is_ok()
    }

    pub(super) fn reset_record(self: &Arc<Self>, record: &Arc<Record>, delay: Nanos) -> bool {
        let mut state = self.lock();
        let at = self.clock.now().saturating_add(delay);
        if state.phase == Phase::Stopped || !state.reset_record(record, at) {
            return false;
        }
        self.announce(state, at).is_ok()
    }

    /// Moves the deadline of the pending task with a key.
    pub(super) fn reset_key(self: &Arc<Self>, key: &Key, delay: Nanos) -> bool {
        let hash = self.hasher.hash_one(key);
        let mut state = self.lock();
        let at = self.clock.now().saturating_add(delay);
        let is_reset = match state.find(key, hash) {
            _ if state.phase == Phase::Stopped => false,
            Some(Named::Plain(place)) => state.reset(place, at),
            Some(Named::Record(record)) => state.reset_record(&record, at),
            None => false,
        };
        is_reset && self.announce(state, at).is_ok()
    }

    /// Returns `true` if a task with this key is pending, or is a series that is running.
    pub(super) fn has_key(&self, key: &Key) -> bool {
        let hash = self.hasher.hash_one(key);
        let state = self.lock();
        state.phase != Phase::Stopped && state.find(key, hash).is_some()
    }

    /// When the pending task with a key is due, rounded up to a tick.
    pub(super) fn key_due_at(&self, key: &Key) -> Option<Nanos> {
        let hash = self.hasher.hash_one(key);
        let state = self.lock();
        let place = match state.find(key, hash)? {
            Named::Plain(place) => place,
            Named::Record(record) if record.fate() == Fate::Pending => record.place(),
            Named::Record(_) => return None,
        };
        let tick = state.wheel.deadline(place).filter(|_| state.phase != Phase::Stopped)?;
        Some(state.time_of(tick))
    }

    /// When a task in the wheel is due, rounded up to a tick.
    pub(super) fn due_at(&self, place: wheel::Key) -> Option<Nanos> {
        let state = self.lock();
        let tick = state.wheel.deadline(place).filter(|_| state.phase != Phase::Stopped)?;
        Some(state.time_of(tick))
    }

    /// What has become of a plain task. One that is not in the wheel has fired, unless its handle
    /// knows that it cancelled it.
    pub(super) fn fate(&self, place: wheel::Key) -> Fate {
        let state = self.lock();
        if state.names.was_cancelled(place) {
            return Fate::Cancelled;
        }
        if state.phase != Phase::Stopped {
            let is_pending = state.wheel.deadline(place).is_some();
            return if is_pending { Fate::Pending } else { Fate::Fired };
        }
        let left = state.left;
        drop(state);
        if self.left().binary_search(&place).is_ok() { left } else { Fate::Fired }
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.lock().memory_usage() + self.left().capacity() * size_of::<wheel::Key>()
    }

    /// When something may be due next.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        let state = self.lock();
        if state.phase == Phase::Stopped {
            return None;
        }
        state.next_wake().filter(|&at| at < Nanos::MAX)
    }

    /// As [`next_deadline`](Self::next_deadline), for an event loop that sleeps until then: from now
    /// on, what is scheduled for an earlier time calls the wake hook.
    pub(super) fn sleep_until_next(&self) -> Option<Nanos> {
        let mut state = self.lock();
        let next = if state.phase == Phase::Stopped { None } else { state.next_wake() };
        if self.config.wake_hook.is_some() {
            state.threads.set_caller_until(Some(next.unwrap_or(Nanos::MAX)));
        }
        next.filter(|&at| at < Nanos::MAX)
    }

    /// Runs what is due, on this thread; says how many tasks that were. Does nothing, and gives
    /// `None`, while another call does it, as it does for a task that calls this.
    pub(super) fn turn(self: &Arc<Self>) -> Option<usize> {
        let mut state = self.lock();
        if core::mem::replace(&mut state.threads.turning, true) {
            return None;
        }
        // The event loop is awake, and asks for the next deadline before it sleeps again.
        state.threads.set_caller_until(None);
        let _inside = panics::enter(self);
        let mut count = 0;
        loop {
            let more;
            (state, more) = self.wake_some(state);
            if state.phase == Phase::Stopped && !more {
                break;
            }
            match state.pop(&self.clock) {
                Popped::Fire(fire) => {
                    drop(state);
                    state = self.run(fire);
                    count += 1;
                }
                Popped::Again => state = self.relock(state),
                Popped::Nothing if more => {}
                Popped::Nothing => {
                    let searched;
                    (state, searched) = self.search(state);
                    if !searched {
                        break;
                    }
                }
            }
        }
        state.threads.turning = false;
        Some(count)
    }

    /// Lets others have the lock.
    pub(super) fn relock<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        drop(state);
        yield_now();
        self.lock()
    }

    /// Searches the next time of a task by the calendar that waits for that, without the lock. Says
    /// whether there was one.
    #[cfg(feature = "cron")]
    pub(super) fn search<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
    ) -> (MutexGuard<'a, State>, bool) {
        let Some((record, due)) = state.next_search() else { return (state, false) };
        drop(state);
        let next = record.course().map_or(due, |course| course.search(due, self.clock.wall()));
        let mut state = self.lock();
        if let Some(at) = state.found(&record, due, next, &self.clock) {
            // A thread that cannot be started was logged; the next call tries again.
            let _ = self.announce(state, at);
        } else {
            drop(state);
        }
        // Its closure goes with it, if it has come to its end meanwhile.
        panics::catch(&self.config, || drop(record));
        (self.lock(), true)
    }

    #[cfg(not(feature = "cron"))]
    #[allow(clippy::unused_self, reason = "as with the feature")]
    pub(super) fn search<'a>(&self, state: MutexGuard<'a, State>) -> (MutexGuard<'a, State>, bool) {
        (state, false)
    }

    /// Runs a task that was taken out of the wheel, here or where the executor takes it. Locks
    /// again, because there is always something to do after that.
    #[inline]
    pub(super) fn run(self: &Arc<Self>, fire: Fire) -> MutexGuard<'_, State> {
        if let Executor::Custom(execute) = &self.config.executor {
            let task = Task::new(Arc::clone(self), fire);
            panics::catch(&self.config, || execute(task));
            self.lock()
        } else {
            self.execute(fire)
        }
    }

    /// Calls a task's closure and sees to what comes after.
    #[inline]
    pub(super) fn execute(self: &Arc<Self>, fire: Fire) -> MutexGuard<'_, State> {
        let (record, work) = match fire {
            Fire::Plain(job) => (None, Some(Work::Once(job))),
            Fire::Record(record) => {
                let work = record.take_work();
                (Some(record), work)
            }
        };
        let mut again = None;
        let panicked = match work {
            Some(Work::Once(job)) => panics::catch(&self.config, || job.call()),
            Some(Work::Again(mut call)) => {
                let panicked = panics::catch(&self.config, &mut call);
                again = Some(call);
                panicked
            }
            None => false,
        };
        self.after_run(record, again, panicked)
    }

    /// A task has run, or was rejected by its executor.
    fn after_run(
        self: &Arc<Self>,
        record: Option<Arc<Record>>,
        again: Option<std::boxed::Box<dyn FnMut() + Send>>,
        panicked: bool,
    ) -> MutexGuard<'_, State> {
        let mut again = again;
        // Before it can be due again, it needs its closure.
        if let (Some(record), Some(call)) = (&record, again.take()) {
            record.put_work(Work::Again(call));
        }
        #[cfg(feature = "cron")]
        if let Some((record, course)) = record.as_ref().and_then(|r| Some((r, r.course()?))) {
            record.set_wall(course.next(self.clock.wall()));
        }
        let mut state = self.lock();
        state.panicked += u64::from(panicked);
        let Some(record) = record else {
            self.leave_run(&mut state);
            return state;
        };
        if state.finish(&record, panicked, &self.clock) {
            let at = state.look_at(&record);
            // A thread that cannot be started was logged; the next call tries again.
            let _ = self.announce(state, at);
        } else {
            drop(state);
            panics::catch(&self.config, || drop(record.take_work()));
        }
        // A caller that has cancelled the record meanwhile may have left its closure to this thread.
        panics::catch(&self.config, || drop(record));
        // The closure is gone by now: dropping it may block, as running it may.
        let mut state = self.lock();
        self.leave_run(&mut state);
        state
    }

    /// A task has run, and its closure was dropped or put back.
    #[inline]
    fn leave_run(&self, state: &mut State) {
        state.running -= 1;
        self.progress(state);
    }

    /// An executor dropped a task without running it.
    pub(super) fn rejected(self: &Arc<Self>, fire: Fire) {
        panics::log(|| tracing::warn!("the executor of a timer dropped a task without running it"));
        let mut state = self.lock();
        state.rejected += 1;
        state.leave_queue();
        drop(state);
        let record = match fire {
            Fire::Plain(job) => {
                panics::catch(&self.config, || drop(job));
                None
            }
            Fire::Record(record) => Some(record),
        };
        drop(self.after_run(record, None, false));
    }

    /// Wakes who waits for the end, if it may have come.
    #[inline]
    fn progress(&self, state: &State) {
        if state.phase != Phase::Running && state.running == 0 {
            self.ended.notify_all();
        }
    }
}

/// Drops what was cancelled, without the lock. A pending task's closure goes at once; that of a
/// running one when the run has ended.
pub(super) fn drop_cancelled(cancelled: Cancelled) {
    if let Cancelled::Pending(job) = &cancelled
        && let Some(record) = job.record()
    {
        drop(record.take_work());
    }
    drop(cancelled);
}
