//! All lanes of a pacer, which its lock protects: which may start a task, and which wait.
//!
//! A lane with a task that may start now is *ready*; ready lanes are served in turn. A lane that
//! waits for a time is in a timing wheel, in ticks of the timer: for its next start, or to be
//! forgotten when its window has passed. The earliest of these times is when the alarm rings
//! (`alarm.rs`).
//!
//! Ground rules:
//! * Nothing here calls or drops anything of a caller's: closures, wakers and keys come in and go
//!   out. Keys are compared here, and cloned to be handed back.
//! * Every change to a lane [settles](Lanes::settle) it: makes it ready, puts it into the wheel, or
//!   forgets it. Before the lock is released, the alarm is set.
//! * A lane exists while it has tasks, runs some, remembers starts, or has settings.
//! * A lane's time in the wheel may be early, never late: when it comes, the lane is settled again.

use core::mem;
use std::boxed::Box;
use std::collections::VecDeque;
use std::sync::Arc;
use std::vec::Vec;

use super::alarm::{Alarm, AlarmState};
use super::builder::Bounds;
use super::engine::Now;
use super::lane::{Lane, Outlook};
use super::limit::Rate;
use super::permit::Start;
use super::queue::{Stage, Submission, Submissions};
use super::{Attempt, PaceError, PaceKey, PacerStats};
use crate::timer::{Job, Nanos};
use crate::wheel::HierarchicalWheel;
use crate::wheel::hash_index::HashIndex;
use crate::wheel::pool::Pool;

/// How many lanes are checked before another thread may have the lock.
const CHECKS_PER_LOCK: usize = 64;

/// How many times per window idle lanes are forgotten, in batches.
const FORGET_BATCHES: u64 = 16;

/// How much memory is kept when the last key is forgotten.
const KEPT_BYTES: usize = 16 << 10;

pub(super) struct Lanes<K> {
    pool: Pool<Lane<K>>,
    /// Finds a key's lane.
    index: HashIndex,
    tasks: Submissions,
    pub(super) ready: VecDeque<u32>,
    pub(super) wheel: HierarchicalWheel<u32>,
    pub(super) alarm: AlarmState,
    rate: Rate,
    pub(super) bounds: Bounds,
    last_id: u64,
    pub(super) paused: bool,
    pub(super) phase: PacerPhase,
    /// Keys of forgotten lanes, to be dropped without the lock.
    forgotten: Vec<K>,
    stats: PacerStats,
}

/// The phases of a pacer's life, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum PacerPhase {
    Open,
    /// No task is accepted; queued tasks still start.
    Draining,
    /// The timer is stopped, so nothing starts; `stop` still hands back the tasks.
    TimerStopped,
    Stopped,
}

/// A submission as its handle knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TaskId {
    pub(super) index: u32,
    pub(super) id: u64,
}

/// What a ticket's task is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TaskStatus {
    Queued,
    HandedBack,
    /// It was released, or its ticket has cancelled it.
    Gone,
}

/// What the thread that serves the lanes has to do.
pub(super) enum Next {
    /// Begin this task, which was released.
    Start(TaskId, Stage),
    /// Nothing yet: more lanes are to be checked.
    Again,
    Nothing,
}

/// What was queued when a pacer was stopped.
pub(super) struct Leftovers<K> {
    pub(super) tasks: Vec<(K, i8, Job)>,
    /// Starts whose futures are to be woken.
    pub(super) refused: Vec<Arc<Start>>,
    pub(super) alarm: Option<Alarm>,
}

impl<K: PaceKey> Lanes<K> {
    pub(super) fn new(rate: Rate, bounds: Bounds, now: Nanos) -> Self {
        Self {
            pool: Pool::new(),
            index: HashIndex::new(),
            tasks: Submissions::new(),
            ready: VecDeque::new(),
            wheel: HierarchicalWheel::with_start(now / bounds.tick),
            alarm: AlarmState::new(),
            rate,
            bounds,
            last_id: 0,
            paused: false,
            phase: PacerPhase::Open,
            forgotten: Vec::new(),
            stats: PacerStats::default(),
        }
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Returns `true` while the pacer and its timer start tasks.
    pub(super) fn starts(&self) -> bool {
        self.phase <= PacerPhase::Draining
    }

    /// Advances to a later phase.
    pub(super) fn enter(&mut self, phase: PacerPhase) {
        self.phase = self.phase.max(phase);
    }

    /// Returns `true` if a draining pacer has nothing left to start.
    pub(super) fn is_drained(&self) -> bool {
        self.phase == PacerPhase::Draining && self.stats.queued == 0
    }

    /// Returns `true` while tasks can start or run.
    pub(super) fn has_work(&self) -> bool {
        self.starts() && (self.stats.queued > 0 || self.stats.running > 0)
    }

    // Finding a lane.

    /// Returns the lane of a key, if there is one.
    #[inline]
    pub(super) fn find(&self, hash: u32, key: &K) -> Option<u32> {
        self.index.find(hash, |lane| {
            // The whole record: it is most likely the lane that is wanted.
            self.pool.prefetch(lane);
            self.pool[lane].key == *key
        })
    }

    /// Has the processor fetch the memory in which a key will be looked up.
    #[inline]
    pub(super) fn prefetch(&self, hash: u32) {
        self.index.prefetch(hash);
    }

    /// Returns the lane that was found, or makes one. Gives back a key that is not needed.
    #[inline]
    pub(super) fn find_or_add(
        &mut self,
        found: Option<u32>,
        hash: u32,
        key: K,
    ) -> (u32, Option<K>) {
        if let Some(lane) = found {
            return (lane, Some(key));
        }
        let lane = self.pool.insert(Lane::new(key, hash));
        self.index.insert(hash, lane);
        (lane, None)
    }

    // Queueing.

    /// Refuses one more task in a lane, or in a new one, if a queue is full.
    #[inline]
    pub(super) fn ensure_room(&mut self, lane: Option<u32>) -> Result<(), PaceError> {
        let Bounds { max_queued, max_queued_total, .. } = self.bounds;
        let queued = lane.map_or(0, |lane| self.pool[lane].queue.len());
        let error = if queued >= max_queued {
            PaceError::Full { limit: max_queued, queued }
        } else if self.stats.queued >= max_queued_total {
            PaceError::TotalFull { limit: max_queued_total, queued: self.stats.queued }
        } else {
            return Ok(());
        };
        Err(self.reject(error))
    }

    /// Counts a rejection, and returns its reason.
    pub(super) fn reject(&mut self, error: PaceError) -> PaceError {
        self.stats.rejected += 1;
        error
    }

    /// Adds a task to the queue of a lane.
    #[inline]
    pub(super) fn enqueue(&mut self, lane: u32, priority: i8, stage: Stage, now: &Now) -> TaskId {
        let id = self.new_id();
        let index = self.tasks.insert(Submission::new(id, lane, priority, stage));
        let queue = &mut self.pool[lane].queue;
        let was_empty = queue.is_empty();
        queue.push(&mut self.tasks, index);
        self.stats.queued += 1;
        self.stats.submitted += 1;
        if was_empty {
            self.settle(lane, now);
        }
        TaskId { index, id }
    }

    /// Removes a task that waits. Its closure is to be dropped without the lock.
    pub(super) fn cancel(&mut self, task: TaskId, now: &Now) -> Option<Stage> {
        let lane = self.get(task).filter(|task| task.stage.waits())?.lane;
        self.pool[lane].queue.remove(&mut self.tasks, task.index);
        let stage = self.tasks.remove(task.index).stage;
        self.stats.queued -= 1;
        self.stats.cancelled += 1;
        self.settle(lane, now);
        Some(stage)
    }

    /// As [`cancel`](Self::cancel), for a task that could not be accepted after all.
    pub(super) fn withdraw(&mut self, task: TaskId, now: &Now) -> Option<Stage> {
        let stage = self.cancel(task, now)?;
        self.stats.cancelled -= 1;
        self.stats.submitted -= 1;
        self.stats.rejected += 1;
        Some(stage)
    }

    // Settling a lane.

    /// Puts a lane where it belongs after a change.
    pub(super) fn settle(&mut self, lane: u32, now: &Now) {
        if !self.pool[lane].is_ready {
            let outlook = self.outlook(lane, now);
            self.place(lane, &outlook, now);
        }
    }

    /// Settles a lane that refused a permit: one that was made for it is forgotten.
    pub(super) fn settle_refused(&mut self, found: Option<u32>, lane: u32, now: &Now) {
        if found.is_none() {
            self.settle(lane, now);
        }
    }

    fn outlook(&mut self, lane: u32, now: &Now) -> Outlook {
        self.pool[lane].outlook(&mut self.tasks, &self.rate, self.bounds.max_running, now)
    }

    fn place(&mut self, lane: u32, outlook: &Outlook, now: &Now) {
        match *outlook {
            Outlook::Start(time) if now.has_come(time) => {
                self.pool[lane].is_ready = true;
                self.ready.push_back(lane);
            }
            Outlook::Start(Nanos::MAX) | Outlook::Idle(Nanos::MAX) | Outlook::Held => {}
            Outlook::Start(time) => self.check_at(lane, time, 1),
            // Forgetting is not urgent, so it is not worth a clock reading.
            Outlook::Idle(time) if time <= now.at_least() => self.forget(lane),
            Outlook::Idle(time) => {
                let batch = self.rate.window / self.bounds.tick / FORGET_BATCHES;
                self.check_at(lane, time, batch);
            }
        }
    }

    /// Has a lane checked when a time has come: at the first tick from then on that is a multiple
    /// of `batch`.
    fn check_at(&mut self, lane: u32, time: Nanos, batch: u64) {
        let (at, lane, tick) = (lane, &mut self.pool[lane], self.bounds.tick);
        if lane.check_at.saturating_mul(tick) <= time {
            return;
        }
        let due = time.div_ceil(tick);
        let due = if batch > 1 { due.div_ceil(batch).saturating_mul(batch) } else { due };
        if due >= lane.check_at {
            return;
        }
        if lane.check_at == u64::MAX {
            lane.wheel_key = self.wheel.insert(due, at);
        } else {
            self.wheel.reset(lane.wheel_key, due);
        }
        lane.check_at = due;
        self.alarm.soonest = self.alarm.soonest.min(due);
    }

    fn forget(&mut self, lane: u32) {
        let Lane { key, hash, check_at, wheel_key, .. } = self.pool.remove(lane);
        if check_at < u64::MAX {
            self.wheel.remove(wheel_key);
        }
        self.index.remove(hash, lane);
        if mem::needs_drop::<K>() {
            self.forgotten.push(key);
        }
        if self.pool.len() == 0 {
            self.shrink();
        }
    }

    /// Frees the memory of a pacer without keys, unless it is little.
    fn shrink(&mut self) {
        if self.pool.memory_usage() + self.tasks.memory_usage() > KEPT_BYTES {
            self.pool.shrink();
            self.tasks.shrink();
            self.wheel = HierarchicalWheel::with_start(self.wheel.now());
            self.ready = VecDeque::new();
            self.index = HashIndex::new();
        }
    }

    /// Returns the keys of forgotten lanes, to be dropped without the lock.
    pub(super) fn take_forgotten(&mut self) -> Vec<K> {
        mem::take(&mut self.forgotten)
    }

    // Starting and ending tasks.

    /// Checks lanes whose time has come, and releases the first task that may start. A closure
    /// begins `start`.
    pub(super) fn next_start(&mut self, now: &Now, start: &Arc<Start>) -> Next {
        let tick = now.at_least() / self.bounds.tick;
        for _ in 0..CHECKS_PER_LOCK {
            if let Some(due) = self.wheel.pop_due(tick) {
                self.pool[due.value].check_at = u64::MAX;
                self.settle(due.value, now);
                continue;
            }
            if self.paused {
                return Next::Nothing;
            }
            let Some(lane) = self.ready.pop_front() else { return Next::Nothing };
            if let Some(&next) = self.ready.front() {
                self.pool.prefetch(next);
            }
            self.pool[lane].is_ready = false;
            let outlook = self.outlook(lane, now);
            match outlook {
                Outlook::Start(time) if now.has_come(time) => {
                    return self.release(lane, start, now);
                }
                _ => self.place(lane, &outlook, now),
            }
        }
        Next::Again
    }

    fn release(&mut self, at: u32, start: &Arc<Start>, now: &Now) -> Next {
        let lane = &mut self.pool[at];
        let Some(index) = lane.queue.pop(&mut self.tasks) else { return Next::Again };
        let Submission { id, stage, .. } = &mut self.tasks[index];
        let id = *id;
        let open = match stage {
            Stage::Permit(awaited) => {
                awaited.release();
                Arc::clone(awaited)
            }
            _ => Arc::clone(start),
        };
        let stage = mem::replace(stage, Stage::Open(open));
        lane.release(&mut self.tasks, index);
        self.stats.queued -= 1;
        self.stats.started += 1;
        self.stats.running += 1;
        self.settle(at, now);
        Next::Start(TaskId { index, id }, stage)
    }

    /// Starts something at once, if nothing waits and a start is allowed. Returns whether its end
    /// must be reported; or else when a start will be allowed, if time decides that.
    pub(super) fn start_now(&mut self, at: u32, now: &Now) -> Result<bool, Option<Nanos>> {
        let max_running = self.bounds.max_running;
        let lane = &mut self.pool[at];
        let is_held = self.paused || lane.is_paused() || lane.running as usize >= max_running;
        if !lane.queue.is_empty() || is_held {
            return Err(None);
        }
        let time = lane.earliest(&mut self.tasks, &self.rate, now);
        if !now.has_come(time) {
            return Err(Some(time));
        }
        lane.log_start(now.get(), &self.rate);
        let counts = max_running < usize::MAX;
        lane.running += u32::from(counts);
        self.stats.running += usize::from(counts);
        self.stats.submitted += 1;
        self.stats.started += 1;
        self.settle(at, now);
        Ok(counts)
    }

    /// Removes a task that has ended. The result is to be dropped without the lock.
    pub(super) fn finish(&mut self, index: u32, now: &Now) -> Stage {
        let lane = self.close_start(index);
        let stage = self.tasks.remove(index).stage;
        self.end_run(lane, now);
        stage
    }

    /// Logs the start of a task whose start is still open; returns the task's lane.
    fn close_start(&mut self, index: u32) -> u32 {
        let Submission { lane, stage, .. } = &self.tasks[index];
        let lane = *lane;
        if let Stage::Open(start) = stage {
            let began = start.time();
            self.pool[lane].close(&mut self.tasks, index, began, &self.rate);
        }
        lane
    }

    /// Frees the place of something that ran in a lane.
    pub(super) fn end_run(&mut self, lane: u32, now: &Now) {
        self.pool[lane].running -= 1;
        self.stats.running -= 1;
        if self.phase < PacerPhase::Stopped {
            self.settle(lane, now);
        }
    }

    /// Returns a task to its place in the queue after an attempt, and holds its key for `delay`.
    /// A stopped pacer gives the closure back, to be dropped without the lock.
    pub(super) fn retry(
        &mut self,
        task: TaskId,
        call: Box<dyn FnMut() -> Attempt + Send>,
        delay: Nanos,
        now: &Now,
    ) -> Option<Box<dyn FnMut() -> Attempt + Send>> {
        if self.phase == PacerPhase::Stopped {
            self.finish(task.index, now);
            return Some(call);
        }
        let at = self.close_start(task.index);
        self.tasks[task.index].stage = Stage::Attempts(call);
        let lane = &mut self.pool[at];
        lane.queue.put_back(&mut self.tasks, task.index);
        lane.hold_until(now.get().saturating_add(delay));
        self.stats.queued += 1;
        self.stats.retried += 1;
        self.end_run(at, now);
        None
    }

    /// Gives back a released start that will not begin.
    pub(super) fn give_back(&mut self, task: TaskId, now: &Now) -> Option<Stage> {
        if !matches!(self.get(task)?.stage, Stage::Open(_)) {
            return None;
        }
        self.stats.started -= 1;
        self.stats.cancelled += 1;
        Some(self.finish(task.index, now))
    }

    // Questions of tickets.

    fn get(&self, task: TaskId) -> Option<&Submission> {
        self.tasks.get(task.index).filter(|found| found.id == task.id)
    }

    pub(super) fn status(&self, task: TaskId) -> TaskStatus {
        match self.get(task).map(|task| &task.stage) {
            Some(Stage::HandedBack) => TaskStatus::HandedBack,
            Some(stage) if stage.waits() => TaskStatus::Queued,
            _ => TaskStatus::Gone,
        }
    }

    /// Returns how many tasks are ahead of one that waits.
    pub(super) fn position(&self, task: TaskId) -> Option<usize> {
        let found = self.get(task).filter(|task| task.stage.waits())?;
        Some(self.pool[found.lane].queue.position(&self.tasks, task.index))
    }

    /// Returns when a task that waits is expected to start, as things stand.
    pub(super) fn expected(&mut self, task: TaskId, now: Nanos) -> Option<Nanos> {
        let ahead = self.position(task).filter(|_| !self.paused)?;
        let lane = self.get(task)?.lane;
        let time = self.pool[lane].expected(&mut self.tasks, &self.rate, ahead, now)?;
        if time <= now {
            return Some(now);
        }
        time.div_ceil(self.bounds.tick).checked_mul(self.bounds.tick)
    }

    // Settings.

    /// Changes the settings of a lane.
    pub(super) fn change(&mut self, lane: u32, now: &Now, change: impl FnOnce(&mut Lane<K>)) {
        change(&mut self.pool[lane]);
        self.settle(lane, now);
    }

    /// Gives a lane a rate of its own, or the common one.
    pub(super) fn set_rate_of(&mut self, at: u32, rate: Option<Rate>, now: &Now) {
        let lane = &mut self.pool[at];
        lane.close_rate(&mut self.tasks, &self.rate, now.get());
        lane.set_rate(rate);
        self.settle(at, now);
    }

    /// Changes the common rate.
    pub(super) fn set_rate(&mut self, rate: Rate, now: &Now) {
        let lanes: Vec<u32> = self.pool.indices().collect();
        for &at in &lanes {
            let lane = &mut self.pool[at];
            if !lane.has_own_rate() {
                lane.close_rate(&mut self.tasks, &self.rate, now.get());
            }
        }
        self.rate = rate;
        for lane in lanes {
            self.settle(lane, now);
        }
    }

    /// Ends the pacer's life, and takes out what waits.
    pub(super) fn stop(&mut self) -> Leftovers<K> {
        let alarm = self.alarm.take(None);
        let mut left = Leftovers { tasks: Vec::new(), refused: Vec::new(), alarm };
        if self.phase == PacerPhase::Stopped {
            return left;
        }
        self.phase = PacerPhase::Stopped;
        let lanes: Vec<u32> = self.pool.indices().collect();
        for lane in lanes {
            let lane = &mut self.pool[lane];
            while let Some(index) = lane.queue.pop(&mut self.tasks) {
                let Submission { stage, priority, .. } = &mut self.tasks[index];
                let job = match mem::replace(stage, Stage::HandedBack) {
                    Stage::Call(job) => job,
                    Stage::Attempts(mut call) => Job::new(move || _ = call()),
                    Stage::Permit(start) => {
                        start.refuse();
                        left.refused.push(start);
                        continue;
                    }
                    Stage::Open(_) | Stage::Begun | Stage::HandedBack => continue,
                };
                left.tasks.push((lane.key.clone(), *priority, job));
            }
            // Released permits whose futures have not taken them. A released closure is called.
            lane.each_open(&mut self.tasks, |start| {
                start.refuse();
                left.refused.push(Arc::clone(start));
            });
        }
        self.stats.queued = 0;
        left
    }

    pub(super) fn queued(&self, lane: u32) -> usize {
        self.pool[lane].queue.len()
    }

    pub(super) fn stats(&self) -> PacerStats {
        PacerStats { keys: self.pool.len(), ..self.stats }
    }

    pub(super) fn memory_usage(&self) -> usize {
        let lanes = self.pool.indices().map(|at| self.pool[at].memory_usage()).sum::<usize>();
        let ready = self.ready.capacity() * size_of::<u32>();
        let forgotten = self.forgotten.capacity() * size_of::<K>();
        let pools = self.pool.memory_usage() + self.tasks.memory_usage();
        lanes + ready + forgotten + pools + self.index.memory_usage() + self.wheel.memory_usage()
    }
}
