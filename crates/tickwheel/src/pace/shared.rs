//! One pacer, as its handles and the timer share it: the lock, and every operation.
//!
//! Ground rules:
//! * Closures are called and dropped, wakers woken and keys dropped without the lock. So every
//!   operation gives the lock away by [`Shared::leave`], which also sets the alarm.
//! * The timer's lock may be taken while this one is held, never the other way round.
//! * A poisoned lock is as good as any: only a key's comparison can panic under it, and that is
//!   made before anything is changed.

use core::hash::BuildHasher;
use core::sync::atomic::{AtomicBool, Ordering};
#[cfg(feature = "async")]
use core::task::Waker;
use core::time::Duration;
use std::hash::RandomState;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;
use std::vec::Vec;

#[cfg(feature = "async")]
use super::acquire::Acquired;
use super::limit::Rate;
use super::now::Now;
use super::permit::Permit;
use super::queue::Work;
#[cfg(feature = "async")]
use super::start::Start;
use super::state::{Alarm, Bounds, Fate, Phase, State, TaskRef};
use super::turn::Turn;
use super::unstarted::Unstarted;
use super::{PaceError, PaceKey, PacerStats};
use crate::ScheduleError;
use crate::timer::{Host, Job, Nanos, Nudge, Tenant};

/// How long the alarm waits before it tries an executor again that took no task.
const RETRY: Nanos = 1_000_000;

pub(super) struct Shared<K> {
    state: Mutex<State<K>>,
    pub(super) host: Host,
    hasher: RandomState,
    /// Where `drain` waits for tasks to start and end.
    drained: Condvar,
}

/// What a handle needs of a pacer, whatever its keys are.
pub(super) trait Desk: Send + Sync {
    fn fate(&self, task: TaskRef) -> Fate;
    /// Cancels a task that waits, and notes that before anybody can ask.
    fn cancel(self: Arc<Self>, task: TaskRef, cancelled: &AtomicBool) -> bool;
    fn position(&self, task: TaskRef) -> Option<usize>;
    fn expected_start(&self, task: TaskRef) -> Option<Instant>;
    /// A permit that was waited for has ended.
    #[cfg(feature = "async")]
    fn end_task(self: Arc<Self>, task: TaskRef);
    /// A permit that was given at once has ended.
    fn end_run(self: Arc<Self>, lane: u32);
}

impl<K: PaceKey> Shared<K> {
    pub(super) fn new(host: Host, rate: Rate, bounds: Bounds) -> Arc<Self> {
        let state = Mutex::new(State::new(rate, bounds, host.now()));
        let drained = Condvar::new();
        let shared = Arc::new(Self { state, host, hasher: RandomState::new(), drained });
        let tenant = Arc::downgrade(&shared);
        shared.host.attach(tenant as Weak<dyn Tenant>);
        shared
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn tag(&self, key: &K) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }

    /// Whether the pacer and its timer start anything.
    #[inline]
    fn ensure_open(&self, state: &mut State<K>) -> Result<(), PaceError> {
        if state.phase > Phase::Open || !self.host.takes_tasks() {
            return Err(state.refuse(PaceError::Stopped));
        }
        Ok(())
    }

    /// Gives the lock away: sets the alarm, and drops what has to be dropped without the lock.
    #[inline]
    pub(super) fn leave(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State<K>>,
        now: &Now,
    ) -> Result<(), ScheduleError> {
        let nudge = self.set_alarm(&mut state, now);
        self.unlock(state, nudge)
    }

    fn unlock(
        &self,
        mut state: MutexGuard<'_, State<K>>,
        nudge: Result<Nudge, ScheduleError>,
    ) -> Result<(), ScheduleError> {
        let forgotten = state.take_forgotten();
        if state.phase > Phase::Open {
            self.drained.notify_all();
        }
        drop(state);
        for key in forgotten {
            // A destructor that panics must not keep the timer from hearing of its alarm.
            self.host.catch(|| drop(key));
        }
        self.host.nudge(nudge?).inspect_err(|_| self.lose_alarm())
    }

    /// As [`leave`](Self::leave), where nobody can be told. A timer that was stopped needs no alarm;
    /// a thread that could not be started was logged, and the next call tries again.
    #[inline]
    pub(super) fn leave_quietly(self: &Arc<Self>, state: MutexGuard<'_, State<K>>, now: &Now) {
        let _ = self.leave(state, now);
    }

    /// As [`leave`](Self::leave), at the end of a turn: what is left to do is done at once.
    pub(super) fn leave_turn(self: &Arc<Self>, mut state: MutexGuard<'_, State<K>>, now: &Now) {
        let nudge = if state.end_turn(now) {
            let at = state.at_once(now);
            self.set_alarm_to(&mut state, at, true)
        } else {
            self.set_alarm(&mut state, now)
        };
        // As above: nobody can be told.
        let _ = self.unlock(state, nudge);
    }

    /// Sets the alarm to the time at which something may be to do.
    #[inline]
    fn set_alarm(
        self: &Arc<Self>,
        state: &mut State<K>,
        now: &Now,
    ) -> Result<Nudge, ScheduleError> {
        let Some((at, for_ready)) = state.wanted(now) else { return Ok(Nudge::default()) };
        self.set_alarm_to(state, at, for_ready)
    }

    fn set_alarm_to(
        self: &Arc<Self>,
        state: &mut State<K>,
        at: Nanos,
        for_ready: bool,
    ) -> Result<Nudge, ScheduleError> {
        if let Some(alarm) = state.take_alarm(None)
            && let Some(nudge) = self.host.move_to(alarm.place, at)
        {
            state.set_alarm(Alarm { at, for_ready, ..alarm });
            return Ok(nudge);
        }
        // Either there was none, or it has rung, and its turn is about to come.
        let id = state.new_id();
        let turn = || {
            let turn = Turn::new(Arc::clone(self), id);
            Job::new(move || turn.run())
        };
        let (place, nudge) = self.host.place(at, turn)?;
        state.set_alarm(Alarm { id, at, for_ready, place });
        Ok(nudge)
    }

    /// No thread will see to the alarm: the next one who needs it sets it anew.
    #[cold]
    fn lose_alarm(&self) {
        let alarm = self.lock().take_alarm(None);
        if let Some(alarm) = alarm {
            self.host.take_back(alarm.place);
        }
    }

    /// The alarm was dropped: by an executor that took no task, or with its timer. An executor may
    /// take one later.
    #[cold]
    pub(super) fn alarm_dropped(self: &Arc<Self>, id: u64) {
        let now = Now::new(&self.host);
        let mut state = self.lock();
        if state.take_alarm(Some(id)).is_none() {
            return;
        }
        let Some((at, _)) = state.wanted(&now) else { return };
        let later = now.get().saturating_add(self.host.tick().max(RETRY));
        let nudge = self.set_alarm_to(&mut state, at.max(later), false);
        drop(state);
        let _ = nudge.and_then(|nudge| self.host.nudge(nudge));
    }

    /// Puts something into the queue of a key.
    #[inline]
    pub(super) fn submit(
        self: &Arc<Self>,
        key: K,
        priority: i8,
        work: Work,
    ) -> Result<TaskRef, PaceError> {
        let tag = self.tag(&key);
        let now = Now::new(&self.host);
        let mut state = self.lock();
        state.prefetch(tag);
        // What is refused is dropped after the lock is.
        self.ensure_open(&mut state)?;
        let found = state.find(tag, &key);
        state.admit(found)?;
        let (lane, _unused) = state.find_or_add(found, tag, key);
        let task = state.enqueue(lane, priority, work, &now);
        match self.leave(state, &now) {
            Ok(()) => Ok(task),
            Err(error) => self.withdraw(task, error),
        }
    }

    /// The timer could not be told of a task. What is refused must not start later; unless it has
    /// started already.
    #[cold]
    fn withdraw(
        self: &Arc<Self>,
        task: TaskRef,
        error: ScheduleError,
    ) -> Result<TaskRef, PaceError> {
        let now = Now::new(&self.host);
        let mut state = self.lock();
        let work = state.withdraw(task, &now);
        self.leave_quietly(state, &now);
        if work.is_some() { Err(error.into()) } else { Ok(task) }
    }

    /// Something that was let go has ended.
    #[cfg(feature = "async")]
    pub(super) fn finish(self: &Arc<Self>, task: TaskRef, now: &Now) {
        let mut state = self.lock();
        let work = state.finish(task.task, now);
        self.leave_quietly(state, now);
        drop(work);
    }

    /// A future that waits is dropped.
    #[cfg(feature = "async")]
    pub(super) fn abandon(self: &Arc<Self>, task: TaskRef) {
        let now = Now::new(&self.host);
        let mut state = self.lock();
        let work = state.cancel(task, &now).or_else(|| state.give_back(task, &now));
        self.leave_quietly(state, &now);
        drop(work);
    }

    /// Gives a permit at once, or puts somebody who waits for one into the queue.
    #[cfg(feature = "async")]
    pub(super) fn acquire(
        self: &Arc<Self>,
        key: K,
        priority: i8,
        waker: Waker,
    ) -> Result<Acquired, PaceError> {
        let tag = self.tag(&key);
        let now = Now::new(&self.host);
        let mut state = self.lock();
        self.ensure_open(&mut state)?;
        let found = state.find(tag, &key);
        let (lane, _unused) = state.find_or_add(found, tag, key);
        if let Ok(counted) = state.start_now(lane, &now) {
            self.leave_quietly(state, &now);
            return Ok(Acquired::Permit(self.permit(lane, counted)));
        }
        if let Err(error) = state.admit(Some(lane)) {
            state.settle_refused(found, lane, &now);
            self.leave_quietly(state, &now);
            return Err(error);
        }
        let start = Arc::new(Start::awaited(waker));
        let task = state.enqueue(lane, priority, Work::Permit(Arc::clone(&start)), &now);
        match self.leave(state, &now) {
            Ok(()) => Ok(Acquired::Wait(task, start)),
            Err(error) => self.withdraw(task, error).map(|task| Acquired::Wait(task, start)),
        }
    }

    /// Gives a permit if a start is allowed now and nothing waits for one.
    #[inline]
    pub(super) fn try_acquire(self: &Arc<Self>, key: K) -> Result<Permit, PaceError> {
        let tag = self.tag(&key);
        let now = Now::new(&self.host);
        let mut state = self.lock();
        state.prefetch(tag);
        self.ensure_open(&mut state)?;
        now.get();
        let found = state.find(tag, &key);
        let (lane, _unused) = state.find_or_add(found, tag, key);
        let started = state.start_now(lane, &now);
        if started.is_err() {
            state.settle_refused(found, lane, &now);
        }
        self.leave_quietly(state, &now);
        match started {
            Ok(counted) => Ok(self.permit(lane, counted)),
            Err(time) => {
                Err(PaceError::NotYet { until: time.and_then(|at| self.host.instant(at)) })
            }
        }
    }

    fn permit(self: &Arc<Self>, lane: u32, counted: bool) -> Permit {
        if counted {
            Permit::counted(Arc::clone(self) as Arc<dyn Desk>, lane)
        } else {
            Permit::free()
        }
    }

    /// Does something with the lane of a key, which is made if there is none.
    pub(super) fn with_lane(self: &Arc<Self>, key: K, work: impl FnOnce(&mut State<K>, u32, &Now)) {
        let tag = self.tag(&key);
        let now = Now::new(&self.host);
        let mut state = self.lock();
        if state.phase == Phase::Stopped {
            return;
        }
        let found = state.find(tag, &key);
        let (lane, _unused) = state.find_or_add(found, tag, key);
        work(&mut state, lane, &now);
        self.leave_quietly(state, &now);
    }

    pub(super) fn queued(&self, key: &K) -> usize {
        let tag = self.tag(key);
        let state = self.lock();
        state.find(tag, key).map_or(0, |lane| state.queued(lane))
    }

    pub(super) fn set_rate(self: &Arc<Self>, rate: Rate) {
        let now = Now::new(&self.host);
        let mut state = self.lock();
        if state.phase < Phase::Stopped {
            state.set_rate(rate, &now);
        }
        self.leave_quietly(state, &now);
    }

    pub(super) fn set_paused(self: &Arc<Self>, paused: bool) {
        let now = Now::new(&self.host);
        let mut state = self.lock();
        state.paused = paused;
        self.leave_quietly(state, &now);
    }

    pub(super) fn stats(&self) -> PacerStats {
        self.lock().stats()
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.lock().memory_usage()
    }

    /// Lets queued tasks start for up to `limit`, and gives back what has not started then.
    pub(super) fn drain(self: &Arc<Self>, limit: Duration) -> Vec<Unstarted<K>> {
        let now = Now::new(&self.host);
        let mut state = self.lock();
        state.enter(Phase::Draining);
        self.leave_quietly(state, &now);
        if self.host.has_threads() && !self.host.is_inside() {
            let waited =
                self.drained.wait_timeout_while(self.lock(), limit, |state| state.has_work());
            drop(waited);
        }
        self.stop()
    }

    /// Takes the pacer out of service and gives back what has not started.
    pub(super) fn stop(&self) -> Vec<Unstarted<K>> {
        let rest = self.lock().stop();
        self.drained.notify_all();
        if let Some(alarm) = rest.alarm {
            self.host.take_back(alarm.place);
        }
        #[cfg(feature = "async")]
        for start in rest.refused {
            self.host.catch(|| start.wake());
        }
        let unstarted =
            |(key, priority, job)| Unstarted::new(key, priority, job, self.host.clone());
        rest.calls.into_iter().map(unstarted).collect()
    }
}

impl<K: PaceKey> Tenant for Shared<K> {
    fn timer_drains(self: Arc<Self>) {
        let now = Now::new(&self.host);
        let mut state = self.lock();
        state.enter(Phase::Draining);
        // An alarm that is set to forget keys is not worth waiting for.
        let idle = if state.is_drained() { state.take_alarm(None) } else { None };
        self.leave_quietly(state, &now);
        if let Some(alarm) = idle {
            self.host.take_back(alarm.place);
        }
    }

    fn timer_stopped(&self) {
        self.lock().enter(Phase::TimerStopped);
        self.drained.notify_all();
    }
}

impl<K: PaceKey> Desk for Shared<K> {
    fn fate(&self, task: TaskRef) -> Fate {
        self.lock().fate(task)
    }

    fn cancel(self: Arc<Self>, task: TaskRef, cancelled: &AtomicBool) -> bool {
        let now = Now::new(&self.host);
        let mut state = self.lock();
        let work = state.cancel(task, &now);
        cancelled.fetch_or(work.is_some(), Ordering::AcqRel);
        self.leave_quietly(state, &now);
        work.is_some()
    }

    fn position(&self, task: TaskRef) -> Option<usize> {
        self.lock().position(task)
    }

    fn expected_start(&self, task: TaskRef) -> Option<Instant> {
        let now = self.host.now();
        let at = self.lock().expected(task, now)?;
        self.host.instant(at)
    }

    #[cfg(feature = "async")]
    fn end_task(self: Arc<Self>, task: TaskRef) {
        self.finish(task, &Now::new(&self.host));
    }

    fn end_run(self: Arc<Self>, lane: u32) {
        let now = Now::new(&self.host);
        let mut state = self.lock();
        state.end_run(lane, &now);
        self.leave_quietly(state, &now);
    }
}
