//! What a pacer's lock protects: the lanes, the tasks, and which lane is to be looked at when.
//!
//! A lane with a task that may start now is *ready*; ready lanes are served in turns. One that
//! waits for a time is in a timing wheel, in ticks of the timer: for its next start, or to be
//! forgotten when its window has passed. The earliest of these times is what the pacer's one task
//! in the timer, its *alarm*, is set to.
//!
//! Ground rules:
//! * Nothing in here calls, drops or waits for anything of a caller's: closures, wakers and keys
//!   come in and go out. (Keys are compared here, and cloned to be handed back.)
//! * Whatever changes a lane [settles](State::settle) it. Whoever has the lock sets the alarm
//!   before giving it away.
//! * A lane is there while it has tasks, runs some, remembers starts, or was told something.
//! * A lane's place in the wheel may be early, never late: where it is met it is settled anew.

use core::mem;
use std::collections::VecDeque;
use std::sync::Arc;
use std::vec::Vec;

use super::index::Index;
use super::lane::{Lane, Outlook};
use super::limit::Rate;
use super::now::Now;
use super::pool::Pool;
use super::queue::{Task, Tasks, Work};
use super::start::Start;
use super::{PaceError, PaceKey, PacerStats};
use crate::timer::{Job, Nanos};
use crate::wheel::{self, HierarchicalWheel};

/// So many lanes are looked at before somebody else may have the lock.
const LOOKS: usize = 64;

/// Lanes are forgotten at so many times a window, by the batch.
const BATCHES: u64 = 16;

/// What stays the same through a pacer's life.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) max_queued: usize,
    pub(super) max_queued_total: usize,
    pub(super) max_running: usize,
    /// Nanoseconds in a tick of the timer.
    pub(super) tick: Nanos,
    /// Whether a task may wait for the next tick where that spares the timer a wake-up: it has
    /// threads, which cost something to wake, and short ticks.
    pub(super) spares_wakes: bool,
}

/// The pacer's task in the timer.
#[derive(Clone, Copy)]
pub(super) struct Alarm {
    pub(super) id: u64,
    pub(super) at: Nanos,
    /// It was set for ready lanes: nothing is wanted earlier.
    pub(super) for_ready: bool,
    pub(super) place: wheel::Key,
}

pub(super) struct State<K> {
    lanes: Pool<Lane<K>>,
    index: Index,
    tasks: Tasks,
    ready: VecDeque<u32>,
    wheel: HierarchicalWheel<u32>,
    /// The earliest tick at which a lane is to be looked at, of those that were added since the
    /// alarm was set.
    soonest: u64,
    rate: Rate,
    bounds: Bounds,
    alarm: Option<Alarm>,
    /// How many turns are under way.
    turns: usize,
    /// The end of the tick in which the last turn has left nothing to do.
    quiet_until: Nanos,
    next_id: u64,
    pub(super) paused: bool,
    pub(super) phase: Phase,
    /// Keys of lanes that were forgotten, to be dropped without the lock.
    forgotten: Vec<K>,
    stats: PacerStats,
}

/// How far a pacer has come in its life; it never goes back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Phase {
    Open,
    /// No task is accepted any more; what is queued still starts.
    Draining,
    /// The timer is stopped, so nothing starts any more; `stop` still hands the tasks back.
    TimerStopped,
    Stopped,
}

/// A task as its handle knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TaskRef {
    pub(super) task: u32,
    pub(super) id: u64,
}

/// What has become of a task so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Waits,
    HandedBack,
    /// It was let go; or its handle has cancelled it.
    Gone,
}

/// What there is to do.
pub(super) enum Look {
    /// This task was let go: it has to begin.
    Start(TaskRef, Work),
    /// Nothing so far, but more lanes are to be looked at.
    Again,
    Nothing,
}

/// What was in the queues when a pacer was stopped.
pub(super) struct Rest<K> {
    pub(super) calls: Vec<(K, i8, Job)>,
    /// Those who wait for a permit, to be woken.
    #[cfg(feature = "async")]
    pub(super) refused: Vec<Arc<Start>>,
    pub(super) alarm: Option<Alarm>,
}

impl<K: PaceKey> State<K> {
    pub(super) fn new(rate: Rate, bounds: Bounds, now: Nanos) -> Self {
        Self {
            lanes: Pool::new(),
            index: Index::new(),
            tasks: Tasks::new(),
            ready: VecDeque::new(),
            wheel: HierarchicalWheel::with_start(now / bounds.tick),
            soonest: u64::MAX,
            rate,
            bounds,
            alarm: None,
            turns: 0,
            quiet_until: 0,
            next_id: 0,
            paused: false,
            phase: Phase::Open,
            forgotten: Vec::new(),
            stats: PacerStats::default(),
        }
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The lane of a key, if there is one.
    #[inline]
    pub(super) fn find(&self, tag: u32, key: &K) -> Option<u32> {
        self.index.find(tag, |lane| {
            // All of it, at once: it is what is wanted, most likely.
            self.lanes.prefetch(lane);
            self.lanes[lane].key == *key
        })
    }

    /// Tells the processor that a key will be searched for soon.
    #[inline]
    pub(super) fn prefetch(&self, tag: u32) {
        self.index.prefetch(tag);
    }

    /// The lane of a key, which is made if none was found. A key that is not needed is given back.
    #[inline]
    pub(super) fn find_or_add(&mut self, found: Option<u32>, tag: u32, key: K) -> (u32, Option<K>) {
        if let Some(lane) = found {
            return (lane, Some(key));
        }
        let lane = self.lanes.insert(Lane::new(key, tag));
        self.index.insert(tag, lane);
        (lane, None)
    }

    /// Whether one more task may wait in a lane, or in a new one.
    #[inline]
    pub(super) fn admit(&mut self, lane: Option<u32>) -> Result<(), PaceError> {
        let Bounds { max_queued, max_queued_total, .. } = self.bounds;
        let queued = lane.map_or(0, |lane| self.lanes[lane].queue.len());
        let why = if queued >= max_queued {
            PaceError::Full { limit: max_queued, queued }
        } else if self.stats.queued >= max_queued_total {
            PaceError::TotalFull { limit: max_queued_total, queued: self.stats.queued }
        } else {
            return Ok(());
        };
        Err(self.refuse(why))
    }

    /// Counts what is refused, and gives the reason back.
    pub(super) fn refuse(&mut self, why: PaceError) -> PaceError {
        self.stats.rejected += 1;
        why
    }

    /// Puts a task into the queue of a lane.
    #[inline]
    pub(super) fn enqueue(&mut self, lane: u32, priority: i8, work: Work, now: &Now) -> TaskRef {
        let id = self.new_id();
        let task = self.tasks.insert(Task::new(id, lane, priority, work));
        let queue = &mut self.lanes[lane].queue;
        let was_empty = queue.is_empty();
        queue.push(&mut self.tasks, task);
        self.stats.queued += 1;
        self.stats.submitted += 1;
        if was_empty {
            self.settle(lane, now);
        }
        TaskRef { task, id }
    }

    /// Puts a lane where it belongs after something about it has changed.
    pub(super) fn settle(&mut self, at: u32, now: &Now) {
        if !self.lanes[at].is_ready {
            let outlook = self.outlook(at, now);
            self.put(at, &outlook, now);
        }
    }

    /// A permit was refused. A lane that was made for it has nothing to be there for.
    pub(super) fn settle_refused(&mut self, found: Option<u32>, at: u32, now: &Now) {
        if found.is_none() {
            self.settle(at, now);
        }
    }

    fn outlook(&mut self, at: u32, now: &Now) -> Outlook {
        self.lanes[at].outlook(&mut self.tasks, &self.rate, self.bounds.max_running, now)
    }

    /// Puts a lane where it belongs.
    fn put(&mut self, at: u32, outlook: &Outlook, now: &Now) {
        match *outlook {
            Outlook::Start(time) if now.has_come(time) => {
                self.lanes[at].is_ready = true;
                self.ready.push_back(at);
            }
            Outlook::Start(Nanos::MAX) | Outlook::Idle(Nanos::MAX) | Outlook::Held => {}
            Outlook::Start(time) => self.look_at(at, time, 1),
            // To be forgotten is not urgent: no need to ask for the time.
            Outlook::Idle(time) if time <= now.at_least() => self.forget(at),
            Outlook::Idle(time) => {
                self.look_at(at, time, self.rate.window / self.bounds.tick / BATCHES);
            }
        }
    }

    /// Sees to it that a lane is looked at when a time has come, with the first tick after it that
    /// is a multiple of `step`.
    fn look_at(&mut self, at: u32, time: Nanos, step: u64) {
        let (lane, length) = (&mut self.lanes[at], self.bounds.tick);
        if lane.look_at.saturating_mul(length) <= time {
            return;
        }
        let tick = time.div_ceil(length);
        let tick = if step > 1 { tick.div_ceil(step).saturating_mul(step) } else { tick };
        if tick >= lane.look_at {
            return;
        }
        if lane.look_at == u64::MAX {
            lane.place = self.wheel.insert(tick, at);
        } else {
            self.wheel.reset(lane.place, tick);
        }
        lane.look_at = tick;
        self.soonest = self.soonest.min(tick);
    }

    fn forget(&mut self, at: u32) {
        let lane = self.lanes.remove(at);
        if lane.look_at < u64::MAX {
            self.wheel.remove(lane.place);
        }
        self.index.remove(lane.tag, at);
        if mem::needs_drop::<K>() {
            self.forgotten.push(lane.key);
        }
        if self.lanes.len() == 0 {
            self.shrink();
        }
    }

    /// Gives all memory back, unless that is little: there are no keys any more.
    fn shrink(&mut self) {
        const KEPT: usize = 16 << 10;
        if self.lanes.memory_usage() + self.tasks.memory_usage() > KEPT {
            self.lanes.shrink();
            self.tasks.shrink();
            self.wheel = HierarchicalWheel::with_start(self.wheel.now());
            self.ready = VecDeque::new();
            self.index = Index::new();
        }
    }

    /// The keys of lanes that were forgotten, to be dropped without the lock.
    pub(super) fn take_forgotten(&mut self) -> Vec<K> {
        mem::take(&mut self.forgotten)
    }

    /// Looks at lanes whose time has come, and lets the first task go that may start. If that is a
    /// closure, it is to begin `start`.
    pub(super) fn look(&mut self, now: &Now, start: &Arc<Start>) -> Look {
        let tick = now.at_least() / self.bounds.tick;
        for _ in 0..LOOKS {
            if let Some(due) = self.wheel.pop_due(tick) {
                self.lanes[due.value].look_at = u64::MAX;
                self.settle(due.value, now);
                continue;
            }
            if self.paused {
                // Nothing starts. Idle keys were forgotten above.
                return Look::Nothing;
            }
            let Some(at) = self.ready.pop_front() else { return Look::Nothing };
            if let Some(&next) = self.ready.front() {
                self.lanes.prefetch(next);
            }
            self.lanes[at].is_ready = false;
            let outlook = self.outlook(at, now);
            match outlook {
                Outlook::Start(time) if now.has_come(time) => return self.let_go(at, start, now),
                _ => self.put(at, &outlook, now),
            }
        }
        Look::Again
    }

    fn let_go(&mut self, at: u32, start: &Arc<Start>, now: &Now) -> Look {
        let lane = &mut self.lanes[at];
        let Some(task) = lane.queue.pop(&mut self.tasks) else { return Look::Again };
        let Task { id, work, .. } = &mut self.tasks[task];
        let id = *id;
        let open = match work {
            #[cfg(feature = "async")]
            Work::Permit(awaited) => {
                awaited.let_go();
                Arc::clone(awaited)
            }
            _ => Arc::clone(start),
        };
        let work = mem::replace(work, Work::Open(open));
        lane.let_go(&mut self.tasks, task);
        self.stats.queued -= 1;
        self.stats.started += 1;
        self.stats.running += 1;
        self.settle(at, now);
        Look::Start(TaskRef { task, id }, work)
    }

    /// A task that was let go has ended; what is left of it is to be dropped without the lock.
    pub(super) fn finish(&mut self, task: u32, now: &Now) -> Work {
        let at = self.tasks[task].lane;
        let lane = &mut self.lanes[at];
        if let Work::Open(start) = &self.tasks[task].work {
            let began = start.time();
            lane.close(&mut self.tasks, task, began, &self.rate);
        }
        let work = self.tasks.remove(task).work;
        self.end_run(at, now);
        work
    }

    /// Something that ran in a lane has ended.
    pub(super) fn end_run(&mut self, at: u32, now: &Now) {
        self.lanes[at].running -= 1;
        self.stats.running -= 1;
        if self.phase < Phase::Stopped {
            self.settle(at, now);
        }
    }

    /// Starts something at once, if nothing waits and a start is allowed; says whether it has to
    /// tell of its end. Else says when a start will be allowed, if that is known.
    pub(super) fn start_now(&mut self, at: u32, now: &Now) -> Result<bool, Option<Nanos>> {
        let max_running = self.bounds.max_running;
        let lane = &mut self.lanes[at];
        if !lane.queue.is_empty() || self.paused || lane.is_paused() {
            return Err(None);
        }
        if lane.running as usize >= max_running {
            return Err(None);
        }
        let time = lane.earliest(&mut self.tasks, &self.rate, now);
        if !now.has_come(time) {
            return Err(Some(time));
        }
        lane.note(now.get(), &self.rate);
        let counted = max_running < usize::MAX;
        lane.running += u32::from(counted);
        self.stats.running += usize::from(counted);
        self.stats.started += 1;
        self.settle(at, now);
        Ok(counted)
    }

    fn task(&self, task: TaskRef) -> Option<&Task> {
        self.tasks.get(task.task).filter(|found| found.id == task.id)
    }

    pub(super) fn fate(&self, task: TaskRef) -> Fate {
        match self.task(task).map(|task| &task.work) {
            Some(Work::HandedBack) => Fate::HandedBack,
            Some(work) if work.waits() => Fate::Waits,
            _ => Fate::Gone,
        }
    }

    /// Takes a task out that waits; what it would have done is to be dropped without the lock.
    pub(super) fn cancel(&mut self, task: TaskRef, now: &Now) -> Option<Work> {
        let at = self.task(task).filter(|task| task.work.waits())?.lane;
        self.lanes[at].queue.remove(&mut self.tasks, task.task);
        let work = self.tasks.remove(task.task).work;
        self.stats.queued -= 1;
        self.stats.cancelled += 1;
        self.settle(at, now);
        Some(work)
    }

    /// As [`cancel`](Self::cancel), for a task that should not have been accepted.
    pub(super) fn withdraw(&mut self, task: TaskRef, now: &Now) -> Option<Work> {
        let work = self.cancel(task, now)?;
        self.stats.cancelled -= 1;
        self.stats.submitted -= 1;
        self.stats.rejected += 1;
        Some(work)
    }

    /// Gives back a start that was let go and will not begin.
    #[cfg(feature = "async")]
    pub(super) fn give_back(&mut self, task: TaskRef, now: &Now) -> Option<Work> {
        if !matches!(self.task(task)?.work, Work::Open(_)) {
            return None;
        }
        self.stats.started -= 1;
        self.stats.cancelled += 1;
        Some(self.finish(task.task, now))
    }

    /// How many tasks are ahead of one that waits.
    pub(super) fn position(&self, task: TaskRef) -> Option<usize> {
        let found = self.task(task).filter(|task| task.work.waits())?;
        Some(self.lanes[found.lane].queue.position(&self.tasks, task.task))
    }

    /// When a task that waits is expected to start, as things stand.
    pub(super) fn expected(&mut self, task: TaskRef, now: Nanos) -> Option<Nanos> {
        let ahead = self.position(task).filter(|_| !self.paused)?;
        let lane = self.task(task)?.lane;
        let time = self.lanes[lane].expected(&mut self.tasks, &self.rate, ahead, now)?;
        if time <= now {
            return Some(now);
        }
        time.div_ceil(self.bounds.tick).checked_mul(self.bounds.tick)
    }

    /// When the alarm is wanted, if that is not what it is set to. The second part of the answer
    /// says whether it is for ready lanes.
    ///
    /// For these that is at once; but with the next tick, if that is not far, where a turn is under
    /// way, which comes to them most likely, or has ended in this tick: so the timer is woken at most
    /// once in a tick, however many tasks come.
    pub(super) fn wanted(&self, now: &Now) -> Option<(Nanos, bool)> {
        if !self.starts() {
            return None;
        }
        let tick = self.bounds.tick;
        match &self.alarm {
            Some(alarm) if alarm.for_ready => None,
            // Forgetting keys is no reason for the timer to wait.
            Some(_) if self.is_drained() => Some((self.at_once(now), true)),
            None if self.is_drained() => None,
            _ if !self.ready.is_empty() && !self.paused => {
                let at = self.at_once(now);
                let busy = self.turns > 0 || at < self.quiet_until;
                Some((if busy && self.bounds.spares_wakes { at + tick } else { at }, true))
            }
            Some(alarm) => {
                let at = self.soonest.saturating_mul(tick);
                (at < alarm.at).then_some((at, false))
            }
            None => {
                // While tasks wait for something else than time, an alarm that never rings tells
                // a draining timer of them.
                let never = (self.phase == Phase::Draining).then_some(u64::MAX);
                let first = self.wheel.next_wake().or(never)?;
                Some((first.saturating_mul(tick), false))
            }
        }
    }

    /// Whether the pacer and its timer start tasks.
    pub(super) fn starts(&self) -> bool {
        self.phase <= Phase::Draining
    }

    /// Goes on to a later phase.
    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = self.phase.max(phase);
    }

    /// Whether a draining pacer has nothing left to start.
    pub(super) fn is_drained(&self) -> bool {
        self.phase == Phase::Draining && self.stats.queued == 0
    }

    /// Whether a draining pacer has tasks left that may start, or that run.
    pub(super) fn has_work(&self) -> bool {
        self.starts() && (self.stats.queued > 0 || self.stats.running > 0)
    }

    /// The latest tick that has come.
    pub(super) fn at_once(&self, now: &Now) -> Nanos {
        now.get() / self.bounds.tick * self.bounds.tick
    }

    pub(super) fn begin_turn(&mut self, id: u64) {
        self.take_alarm(Some(id));
        self.turns += 1;
    }

    /// Says whether the turn leaves something to do at once.
    pub(super) fn end_turn(&mut self, now: &Now) -> bool {
        self.turns -= 1;
        if self.ready.is_empty() {
            self.quiet_until = self.at_once(now).saturating_add(self.bounds.tick);
            return false;
        }
        self.starts() && !self.paused
    }

    /// The alarm is set for all that there is to do.
    pub(super) fn set_alarm(&mut self, alarm: Alarm) {
        self.alarm = Some(alarm);
        self.soonest = u64::MAX;
    }

    /// There is no alarm any more; if an id is given, only if it is that one.
    pub(super) fn take_alarm(&mut self, id: Option<u64>) -> Option<Alarm> {
        self.alarm.take_if(|alarm| id.is_none_or(|id| alarm.id == id))
    }

    /// Changes what was said about a lane.
    pub(super) fn change(&mut self, at: u32, now: &Now, change: impl FnOnce(&mut Lane<K>)) {
        change(&mut self.lanes[at]);
        self.settle(at, now);
    }

    /// Gives a lane a rate of its own, or the one that all have.
    pub(super) fn set_rate_of(&mut self, at: u32, rate: Option<Rate>, now: &Now) {
        let lane = &mut self.lanes[at];
        lane.close_rate(&mut self.tasks, &self.rate, now.get());
        lane.set_rate(rate);
        self.settle(at, now);
    }

    /// Gives all lanes another rate, except for those that have their own.
    pub(super) fn set_rate(&mut self, rate: Rate, now: &Now) {
        let lanes: Vec<u32> = self.lanes.indices().collect();
        for &at in &lanes {
            let lane = &mut self.lanes[at];
            if !lane.has_own_rate() {
                lane.close_rate(&mut self.tasks, &self.rate, now.get());
            }
        }
        self.rate = rate;
        for at in lanes {
            self.settle(at, now);
        }
    }

    /// Takes the pacer out of service, and out of it what waits.
    pub(super) fn stop(&mut self) -> Rest<K> {
        let mut rest = Rest {
            calls: Vec::new(),
            #[cfg(feature = "async")]
            refused: Vec::new(),
            alarm: self.alarm.take(),
        };
        if self.phase == Phase::Stopped {
            return rest;
        }
        self.phase = Phase::Stopped;
        let lanes: Vec<u32> = self.lanes.indices().collect();
        for at in lanes {
            let lane = &mut self.lanes[at];
            while let Some(task) = lane.queue.pop(&mut self.tasks) {
                let Task { work, priority, .. } = &mut self.tasks[task];
                match mem::replace(work, Work::HandedBack) {
                    Work::Call(job) => rest.calls.push((lane.key.clone(), *priority, job)),
                    #[cfg(feature = "async")]
                    Work::Permit(start) => {
                        start.refuse();
                        rest.refused.push(start);
                    }
                    Work::Open(_) | Work::Begun | Work::HandedBack => {}
                }
            }
            // Permits that nobody has taken yet. A closure that was let go is called all the same.
            #[cfg(feature = "async")]
            lane.each_open(&mut self.tasks, |start| {
                start.refuse();
                rest.refused.push(Arc::clone(start));
            });
        }
        self.stats.queued = 0;
        rest
    }

    pub(super) fn queued(&self, lane: u32) -> usize {
        self.lanes[lane].queue.len()
    }

    pub(super) fn stats(&self) -> PacerStats {
        PacerStats { keys: self.lanes.len(), ..self.stats }
    }

    pub(super) fn memory_usage(&self) -> usize {
        let lanes = self.lanes.indices().map(|at| self.lanes[at].memory_usage()).sum::<usize>();
        let ready = self.ready.capacity() * size_of::<u32>();
        let forgotten = self.forgotten.capacity() * size_of::<K>();
        let pools = self.lanes.memory_usage() + self.tasks.memory_usage();
        lanes + ready + forgotten + pools + self.index.memory_usage() + self.wheel.memory_usage()
    }
}
