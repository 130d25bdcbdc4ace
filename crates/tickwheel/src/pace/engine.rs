//! The engine of a pacer: the lock that its handles and its timer share, and every operation.
//!
//! `submit` shows the pattern: lock, find the key's lane, change it, and [unlock](Engine::unlock),
//! which sets the alarm. The rest happens when the alarm rings (`alarm.rs`).
//!
//! Ground rules:
//! * Closures are called and dropped, wakers woken and keys dropped without the lock.
//! * The timer's lock may be taken while this one is held, never the other way round.
//! * Poisoning is ignored: only the comparison of keys can panic under the lock, before anything
//!   has changed.

use core::cell::Cell;
use core::hash::BuildHasher;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;
use core::time::Duration;
use std::hash::RandomState;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;
use std::vec::Vec;

use super::builder::Bounds;
use super::lanes::{Lanes, PacerPhase, TaskId, TaskStatus};
use super::limit::Rate;
use super::permit::{Acquired, Permit, Start};
use super::queue::Stage;
use super::{PaceError, PaceKey, PacerStats, Unstarted};
use crate::ScheduleError;
use crate::timer::{Host, Nanos, Nudge, Tenant};

pub(super) struct Engine<K> {
    lanes: Mutex<Lanes<K>>,
    pub(super) host: Host,
    hasher: RandomState,
    /// Where `drain` waits for tasks to start and end.
    drained: Condvar,
}

/// What tickets and permits need of an engine, whatever its keys are.
pub(super) trait AnyEngine: Send + Sync {
    fn status(&self, task: TaskId) -> TaskStatus;
    /// Cancels a task that waits, and sets the flag before any other call can see the task gone.
    fn cancel(self: Arc<Self>, task: TaskId, cancelled: &AtomicBool) -> bool;
    fn position(&self, task: TaskId) -> Option<usize>;
    fn expected_start(&self, task: TaskId) -> Option<Instant>;
    fn end_permit_of_task(self: Arc<Self>, task: TaskId);
    fn end_permit_in_lane(self: Arc<Self>, lane: u32);
}

impl<K: PaceKey> Engine<K> {
    pub(super) fn new(host: Host, rate: Rate, bounds: Bounds) -> Arc<Self> {
        let lanes = Mutex::new(Lanes::new(rate, bounds, host.now()));
        let drained = Condvar::new();
        let engine = Arc::new(Self { lanes, host, hasher: RandomState::new(), drained });
        let tenant = Arc::downgrade(&engine);
        engine.host.attach(tenant as Weak<dyn Tenant>);
        engine
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, Lanes<K>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the alarm, unlocks, and drops what must be dropped without the lock.
    #[inline]
    fn unlock(
        self: &Arc<Self>,
        mut lanes: MutexGuard<'_, Lanes<K>>,
        now: &Now,
    ) -> Result<(), ScheduleError> {
        let nudge = self.set_alarm(&mut lanes, now);
        self.unlock_and_nudge(lanes, nudge)
    }

    pub(super) fn unlock_and_nudge(
        &self,
        mut lanes: MutexGuard<'_, Lanes<K>>,
        nudge: Result<Nudge, ScheduleError>,
    ) -> Result<(), ScheduleError> {
        let forgotten = lanes.take_forgotten();
        if lanes.phase > PacerPhase::Open {
            self.drained.notify_all();
        }
        drop(lanes);
        for key in forgotten {
            // A destructor that panics must not keep the timer from hearing of its alarm.
            self.host.catch(|| drop(key));
        }
        self.host.nudge(nudge?).inspect_err(|_| self.lose_alarm())
    }

    /// As [`unlock`](Self::unlock), where there is no caller to tell of an error. A stopped timer
    /// needs no alarm; that a thread could not be started was logged, and the next call tries
    /// again.
    #[inline]
    pub(super) fn unlock_quietly(self: &Arc<Self>, lanes: MutexGuard<'_, Lanes<K>>, now: &Now) {
        let _ = self.unlock(lanes, now);
    }

    #[inline]
    fn hash(&self, key: &K) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }

    /// Refuses what comes when the pacer or its timer is draining or stopped.
    #[inline]
    fn ensure_open(&self, lanes: &mut Lanes<K>) -> Result<(), PaceError> {
        if lanes.phase > PacerPhase::Open || !self.host.takes_tasks() {
            return Err(lanes.reject(PaceError::Stopped));
        }
        Ok(())
    }

    /// Queues a task for a key.
    #[inline]
    pub(super) fn submit(
        self: &Arc<Self>,
        key: K,
        priority: i8,
        task: Stage,
    ) -> Result<TaskId, PaceError> {
        let hash = self.hash(&key);
        let now = Now::new(&self.host);
        let mut lanes = self.lock();
        lanes.prefetch(hash);
        // A refused key and task are dropped after the guard: parameters outlive local variables.
        self.ensure_open(&mut lanes)?;
        let found = lanes.find(hash, &key);
        lanes.ensure_room(found)?;
        let (lane, _unused_key) = lanes.find_or_add(found, hash, key);
        let task = lanes.enqueue(lane, priority, task, &now);
        match self.unlock(lanes, &now) {
            Ok(()) => Ok(task),
            Err(error) => self.withdraw(task, error),
        }
    }

    /// Takes back a task of which the timer could not be told: what is refused must not start
    /// later. A task that has started meanwhile was accepted.
    #[cold]
    fn withdraw(self: &Arc<Self>, task: TaskId, error: ScheduleError) -> Result<TaskId, PaceError> {
        let now = Now::new(&self.host);
        let mut lanes = self.lock();
        let stage = lanes.withdraw(task, &now);
        self.unlock_quietly(lanes, &now);
        if stage.is_some() { Err(error.into()) } else { Ok(task) }
    }

    /// Gives a permit at once, or queues a future that waits for one.
    pub(super) fn acquire(
        self: &Arc<Self>,
        key: K,
        priority: i8,
        waker: Waker,
    ) -> Result<Acquired, PaceError> {
        let hash = self.hash(&key);
        let now = Now::new(&self.host);
        let mut lanes = self.lock();
        self.ensure_open(&mut lanes)?;
        let found = lanes.find(hash, &key);
        let (lane, _unused_key) = lanes.find_or_add(found, hash, key);
        if let Ok(counts) = lanes.start_now(lane, &now) {
            self.unlock_quietly(lanes, &now);
            return Ok(Acquired::Permit(self.permit(lane, counts)));
        }
        if let Err(error) = lanes.ensure_room(Some(lane)) {
            lanes.settle_refused(found, lane, &now);
            self.unlock_quietly(lanes, &now);
            return Err(error);
        }
        let start = Arc::new(Start::awaited(waker));
        let task = lanes.enqueue(lane, priority, Stage::Permit(Arc::clone(&start)), &now);
        match self.unlock(lanes, &now) {
            Ok(()) => Ok(Acquired::Queued(task, start)),
            Err(error) => self.withdraw(task, error).map(|task| Acquired::Queued(task, start)),
        }
    }

    /// Gives a permit if a start is allowed now and nothing waits for one.
    #[inline]
    pub(super) fn try_acquire(self: &Arc<Self>, key: K) -> Result<Permit, PaceError> {
        let hash = self.hash(&key);
        let now = Now::new(&self.host);
        let mut lanes = self.lock();
        lanes.prefetch(hash);
        self.ensure_open(&mut lanes)?;
        // The clock is read while the memory is fetched.
        now.get();
        let found = lanes.find(hash, &key);
        let (lane, _unused_key) = lanes.find_or_add(found, hash, key);
        let started = lanes.start_now(lane, &now);
        if started.is_err() {
            lanes.settle_refused(found, lane, &now);
        }
        self.unlock_quietly(lanes, &now);
        match started {
            Ok(counts) => Ok(self.permit(lane, counts)),
            Err(time) => {
                Err(PaceError::NotYet { until: time.and_then(|at| self.host.instant(at)) })
            }
        }
    }

    fn permit(self: &Arc<Self>, lane: u32, counts: bool) -> Permit {
        if counts {
            Permit::in_lane(Arc::clone(self) as Arc<dyn AnyEngine>, lane)
        } else {
            Permit::free()
        }
    }

    /// Removes the submission of a future that was dropped, or refused.
    pub(super) fn abandon(self: &Arc<Self>, task: TaskId) {
        let now = Now::new(&self.host);
        let mut lanes = self.lock();
        let stage = lanes.cancel(task, &now).or_else(|| lanes.give_back(task, &now));
        self.unlock_quietly(lanes, &now);
        drop(stage);
    }

    /// Changes the lane of a key, which is made if there is none.
    pub(super) fn change(self: &Arc<Self>, key: K, change: impl FnOnce(&mut Lanes<K>, u32, &Now)) {
        let hash = self.hash(&key);
        let now = Now::new(&self.host);
        let mut lanes = self.lock();
        if lanes.phase == PacerPhase::Stopped {
            return;
        }
        let found = lanes.find(hash, &key);
        let (lane, _unused_key) = lanes.find_or_add(found, hash, key);
        change(&mut lanes, lane, &now);
        self.unlock_quietly(lanes, &now);
    }

    pub(super) fn queued(&self, key: &K) -> usize {
        let hash = self.hash(key);
        let lanes = self.lock();
        lanes.find(hash, key).map_or(0, |lane| lanes.queued(lane))
    }

    pub(super) fn set_rate(self: &Arc<Self>, rate: Rate) {
        let now = Now::new(&self.host);
        let mut lanes = self.lock();
        if lanes.phase < PacerPhase::Stopped {
            lanes.set_rate(rate, &now);
        }
        self.unlock_quietly(lanes, &now);
    }

    pub(super) fn set_paused(self: &Arc<Self>, paused: bool) {
        let now = Now::new(&self.host);
        let mut lanes = self.lock();
        lanes.paused = paused;
        self.unlock_quietly(lanes, &now);
    }

    pub(super) fn stats(&self) -> PacerStats {
        self.lock().stats()
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.lock().memory_usage()
    }

    /// Lets queued tasks start for up to `limit`, then stops.
    pub(super) fn drain(self: &Arc<Self>, limit: Duration) -> Vec<Unstarted<K>> {
        let now = Now::new(&self.host);
        let mut lanes = self.lock();
        lanes.enter(PacerPhase::Draining);
        self.unlock_quietly(lanes, &now);
        if self.host.has_threads() && !self.host.is_inside() {
            let has_work = |lanes: &mut Lanes<K>| lanes.has_work();
            drop(self.drained.wait_timeout_while(self.lock(), limit, has_work));
        }
        self.stop()
    }

    /// Stops, and returns the tasks that have not started.
    pub(super) fn stop(&self) -> Vec<Unstarted<K>> {
        let left = self.lock().stop();
        self.drained.notify_all();
        if let Some(alarm) = left.alarm {
            self.host.take_back(alarm.place());
        }
        for start in left.refused {
            self.host.catch(|| start.wake());
        }
        let unstarted =
            |(key, priority, job)| Unstarted::new(key, priority, job, self.host.clone());
        left.tasks.into_iter().map(unstarted).collect()
    }
}

impl<K: PaceKey> AnyEngine for Engine<K> {
    fn status(&self, task: TaskId) -> TaskStatus {
        self.lock().status(task)
    }

    fn cancel(self: Arc<Self>, task: TaskId, cancelled: &AtomicBool) -> bool {
        let now = Now::new(&self.host);
        let mut lanes = self.lock();
        let stage = lanes.cancel(task, &now);
        cancelled.fetch_or(stage.is_some(), Ordering::AcqRel);
        self.unlock_quietly(lanes, &now);
        stage.is_some()
    }

    fn position(&self, task: TaskId) -> Option<usize> {
        self.lock().position(task)
    }

    fn expected_start(&self, task: TaskId) -> Option<Instant> {
        let now = self.host.now();
        let at = self.lock().expected(task, now)?;
        self.host.instant(at)
    }

    fn end_permit_of_task(self: Arc<Self>, task: TaskId) {
        let now = Now::new(&self.host);
        let mut lanes = self.lock();
        let stage = lanes.finish(task.index, &now);
        self.unlock_quietly(lanes, &now);
        drop(stage);
    }

    fn end_permit_in_lane(self: Arc<Self>, lane: u32) {
        let now = Now::new(&self.host);
        let mut lanes = self.lock();
        lanes.end_run(lane, &now);
        self.unlock_quietly(lanes, &now);
    }
}

impl<K: PaceKey> Tenant for Engine<K> {
    fn timer_drains(self: Arc<Self>) {
        let now = Now::new(&self.host);
        let mut lanes = self.lock();
        lanes.enter(PacerPhase::Draining);
        // The timer need not wait for an alarm that would only forget keys.
        let idle = if lanes.is_drained() { lanes.alarm.take(None) } else { None };
        self.unlock_quietly(lanes, &now);
        if let Some(alarm) = idle {
            self.host.take_back(alarm.place());
        }
    }

    fn timer_stopped(&self) {
        self.lock().enter(PacerPhase::TimerStopped);
        self.drained.notify_all();
    }
}

/// The present, read from the clock at most once and only if needed: reading it costs more than
/// most of what is done with it.
pub(super) struct Now<'a> {
    host: &'a Host,
    /// A time that has come.
    known: Cell<Nanos>,
    was_read: Cell<bool>,
}

impl<'a> Now<'a> {
    pub(super) fn new(host: &'a Host) -> Self {
        Self::since(host, 0)
    }

    /// Returns the present, which is not before a time that was read earlier.
    pub(super) fn since(host: &'a Host, known: Nanos) -> Self {
        Self { host, known: Cell::new(known), was_read: Cell::new(false) }
    }

    /// Returns a time that has come, without reading the clock.
    #[inline]
    pub(super) fn at_least(&self) -> Nanos {
        self.known.get()
    }

    #[inline]
    pub(super) fn get(&self) -> Nanos {
        if !self.was_read.replace(true) {
            self.known.set(self.host.now());
        }
        self.known.get()
    }

    /// Returns `true` if a time has come.
    #[inline]
    pub(super) fn has_come(&self, time: Nanos) -> bool {
        time <= self.known.get() || time <= self.get()
    }
}
