//! The alarm: a pacer's one job in its timer, which starts tasks when it rings.
//!
//! It is set to the earliest time at which a lane may have something to do. When it rings, the
//! timer's thread starts one task after the other, for a short while. Before it calls a task, it
//! sets the alarm for whatever else there is to do. So if the task blocks, another thread of the
//! timer continues from there, as it does for every task that blocks; and if the task does not
//! block, the alarm is set once for many tasks.

use core::mem;
use std::boxed::Box;
use std::sync::{Arc, MutexGuard};

use super::engine::{Engine, Now};
use super::lanes::{Lanes, Next, PacerPhase, TaskId};
use super::permit::Start;
use super::queue::Stage;
use super::{Attempt, PaceKey};
use crate::ScheduleError;
use crate::timer::{Job, JobKey, Nanos, Nudge, nanos};

/// How long the alarm runs tasks before it returns the timer's thread, on which other tasks may be
/// due.
const MAX_SLICE: Nanos = 500_000;
/// How many tasks it runs before that.
const MAX_BATCH: usize = 1024;

/// How long the alarm waits, at least, before it tries an executor again that dropped it.
const EXECUTOR_RETRY: Nanos = 1_000_000;

/// The alarm as it is set.
#[derive(Clone, Copy)]
pub(super) struct Alarm {
    id: u64,
    at: Nanos,
    /// Set for ready lanes: no earlier time can be wanted.
    for_ready: bool,
    place: JobKey,
}

impl Alarm {
    /// Where the alarm is in the timer.
    pub(super) fn place(&self) -> JobKey {
        self.place
    }
}

/// What the lanes know of their alarm.
pub(super) struct AlarmState {
    set: Option<Alarm>,
    /// The earliest tick for which a lane was put into the wheel since the alarm was set.
    pub(super) soonest: u64,
    /// How many threads start tasks at the moment.
    ringing: usize,
    /// The end of the tick in which the last ring left nothing to do.
    quiet_until: Nanos,
}

impl AlarmState {
    pub(super) fn new() -> Self {
        Self { set: None, soonest: u64::MAX, ringing: 0, quiet_until: 0 }
    }

    /// Removes the alarm; if an id is given, only the alarm with that id.
    pub(super) fn take(&mut self, id: Option<u64>) -> Option<Alarm> {
        self.set.take_if(|alarm| id.is_none_or(|id| alarm.id == id))
    }

    fn set(&mut self, alarm: Alarm) {
        self.set = Some(alarm);
        self.soonest = u64::MAX;
    }
}

impl<K: PaceKey> Lanes<K> {
    /// Returns when the alarm should ring, and whether for ready lanes; `None` if it is set right.
    ///
    /// For ready lanes that is now. But while a thread starts tasks it will most likely serve them,
    /// and after it has found nothing to do the next tick is soon enough, where ticks are short. So
    /// the timer is woken at most once a tick, however many tasks are submitted.
    fn alarm_wanted(&self, now: &Now) -> Option<(Nanos, bool)> {
        if !self.starts() {
            return None;
        }
        let tick = self.bounds.tick;
        match &self.alarm.set {
            Some(alarm) if alarm.for_ready => None,
            // A drain does not wait for keys to be forgotten.
            Some(_) if self.is_drained() => Some((self.tick_before(now), true)),
            None if self.is_drained() => None,
            _ if !self.ready.is_empty() && !self.paused => {
                let at = self.tick_before(now);
                let is_served = self.alarm.ringing > 0 || at < self.alarm.quiet_until;
                let defers = is_served && self.bounds.spares_wakes;
                Some((if defers { at + tick } else { at }, true))
            }
            Some(alarm) => {
                let at = self.alarm.soonest.saturating_mul(tick);
                (at < alarm.at).then_some((at, false))
            }
            None => {
                // While the queued tasks wait for a call, an alarm that never rings shows a
                // draining timer that they are there.
                let never = (self.phase == PacerPhase::Draining).then_some(u64::MAX);
                let first = self.wheel.next_wake().or(never)?;
                Some((first.saturating_mul(tick), false))
            }
        }
    }

    /// Returns the time of the last tick that has come.
    fn tick_before(&self, now: &Now) -> Nanos {
        now.get() / self.bounds.tick * self.bounds.tick
    }
}

/// The job in the timer. If it is dropped without being run, the engine hears of it.
struct AlarmJob<K: PaceKey> {
    /// `None` once it has rung.
    engine: Option<Arc<Engine<K>>>,
    id: u64,
}

impl<K: PaceKey> AlarmJob<K> {
    fn run(mut self) {
        if let Some(engine) = self.engine.take() {
            engine.ring(self.id);
        }
    }
}

impl<K: PaceKey> Drop for AlarmJob<K> {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.alarm_dropped(self.id);
        }
    }
}

/// While it lives, a caller's code runs. If that panics, the ring ends here.
struct Calling<'a, K: PaceKey> {
    engine: &'a Arc<Engine<K>>,
    /// The task that is called; `None` for a waker.
    task: Option<TaskId>,
}

impl<K: PaceKey> Drop for Calling<'_, K> {
    fn drop(&mut self) {
        let now = Now::new(&self.engine.host);
        let mut lanes = self.engine.lock();
        if let Some(task) = self.task {
            lanes.finish(task.index, &now);
        }
        self.engine.end_ring(lanes, &now);
    }
}

impl<K: PaceKey> Engine<K> {
    /// Sets the alarm to the time at which there may be something to do.
    #[inline]
    pub(super) fn set_alarm(
        self: &Arc<Self>,
        lanes: &mut Lanes<K>,
        now: &Now,
    ) -> Result<Nudge, ScheduleError> {
        match lanes.alarm_wanted(now) {
            Some((at, for_ready)) => self.set_alarm_to(lanes, at, for_ready),
            None => Ok(Nudge::NONE),
        }
    }

    fn set_alarm_to(
        self: &Arc<Self>,
        lanes: &mut Lanes<K>,
        at: Nanos,
        for_ready: bool,
    ) -> Result<Nudge, ScheduleError> {
        if let Some(alarm) = lanes.alarm.take(None)
            && let Some(nudge) = self.host.move_to(alarm.place, at)
        {
            lanes.alarm.set(Alarm { at, for_ready, ..alarm });
            return Ok(nudge);
        }
        // There was none, or it has left the timer's wheel and is about to ring.
        let id = lanes.new_id();
        let job = || {
            let job = AlarmJob { engine: Some(Arc::clone(self)), id };
            Job::new(move || job.run())
        };
        let (place, nudge) = self.host.place(at, job)?;
        lanes.alarm.set(Alarm { id, at, for_ready, place });
        Ok(nudge)
    }

    /// Removes an alarm that no thread will run. The next operation sets it again.
    #[cold]
    pub(super) fn lose_alarm(&self) {
        let alarm = self.lock().alarm.take(None);
        if let Some(alarm) = alarm {
            self.host.take_back(alarm.place);
        }
    }

    /// Sets the alarm again after it was dropped: by an executor, which may accept it later, or
    /// with its timer.
    #[cold]
    fn alarm_dropped(self: &Arc<Self>, id: u64) {
        let now = Now::new(&self.host);
        let mut lanes = self.lock();
        if lanes.alarm.take(Some(id)).is_none() {
            return;
        }
        let Some((at, _)) = lanes.alarm_wanted(&now) else { return };
        let later = now.get().saturating_add(self.host.tick().max(EXECUTOR_RETRY));
        let nudge = self.set_alarm_to(&mut lanes, at.max(later), false);
        drop(lanes);
        let _ = nudge.and_then(|nudge| self.host.nudge(nudge));
    }

    /// Starts tasks: the alarm has rung.
    fn ring(self: &Arc<Self>, id: u64) {
        let start = Arc::new(Start::open());
        let rang_at = self.host.now();
        let mut now = Now::since(&self.host, rang_at);
        let mut lanes = self.lock();
        lanes.alarm.take(Some(id));
        lanes.alarm.ringing += 1;
        for _ in 0..MAX_BATCH {
            if !lanes.starts() {
                break;
            }
            start.open_again();
            match lanes.next_start(&now, &start) {
                Next::Nothing => break,
                Next::Again => {
                    self.unlock_quietly(lanes, &now);
                    lanes = self.lock();
                }
                Next::Start(task, stage) => {
                    self.unlock_quietly(lanes, &now);
                    lanes = self.begin(task, stage, &start, &mut now);
                }
            }
            if now.at_least() - rang_at > MAX_SLICE {
                break;
            }
        }
        self.end_ring(lanes, &now);
    }

    /// Begins what was released, and locks again. A closure has ended then; a permit begins when
    /// its future is polled.
    #[inline]
    fn begin<'a>(
        self: &'a Arc<Self>,
        task: TaskId,
        stage: Stage,
        start: &Start,
        now: &mut Now<'a>,
    ) -> MutexGuard<'a, Lanes<K>> {
        match stage {
            Stage::Call(job) => {
                let calling = Calling { engine: self, task: Some(task) };
                // From here on nothing of the pacer's delays the task.
                let time = self.host.now();
                start.begin(time);
                job.call();
                mem::forget(calling);
                *now = Now::since(&self.host, time);
                let mut lanes = self.lock();
                lanes.finish(task.index, now);
                lanes
            }
            Stage::Attempts(call) => self.attempt(task, call, start, now),
            Stage::Permit(awaited) => {
                let calling = Calling { engine: self, task: None };
                awaited.wake();
                mem::forget(calling);
                self.lock()
            }
            Stage::Open(_) | Stage::Begun | Stage::HandedBack => self.lock(),
        }
    }

    /// Calls a task that may ask for another attempt, and locks again.
    #[inline(never)]
    fn attempt<'a>(
        self: &'a Arc<Self>,
        task: TaskId,
        mut call: Box<dyn FnMut() -> Attempt + Send>,
        start: &Start,
        now: &mut Now<'a>,
    ) -> MutexGuard<'a, Lanes<K>> {
        let calling = Calling { engine: self, task: Some(task) };
        let time = self.host.now();
        start.begin(time);
        let again = match call() {
            Attempt::Done => {
                drop(call);
                None
            }
            Attempt::RetryAfter(delay) => Some((call, nanos(delay))),
        };
        mem::forget(calling);
        *now = Now::since(&self.host, time);
        let mut lanes = self.lock();
        let Some((call, delay)) = again else {
            lanes.finish(task.index, now);
            return lanes;
        };
        if let Some(call) = lanes.retry(task, call, delay, now) {
            drop(lanes);
            self.host.catch(|| drop(call));
            lanes = self.lock();
        }
        lanes
    }

    /// Ends a ring. What it leaves to do is done at once, by the next ring.
    fn end_ring(self: &Arc<Self>, mut lanes: MutexGuard<'_, Lanes<K>>, now: &Now) {
        lanes.alarm.ringing -= 1;
        let at = lanes.tick_before(now);
        let nudge = if lanes.ready.is_empty() {
            lanes.alarm.quiet_until = at.saturating_add(lanes.bounds.tick);
            self.set_alarm(&mut lanes, now)
        } else if lanes.starts() && !lanes.paused {
            self.set_alarm_to(&mut lanes, at, true)
        } else {
            self.set_alarm(&mut lanes, now)
        };
        // There is no caller to tell of an error.
        let _ = self.unlock_and_nudge(lanes, nudge);
    }
}
