//! What a timer's lock protects: the wheel, the keys, the counts, and who waits for what.
//!
//! Ground rules:
//! * Nothing in here calls, drops or waits for anything of a caller: closures come in and go out.
//! * Futures that wait are not tasks, and have a wheel of their own (`sleepers.rs`).
//! * A pending task is in the wheel, or is a periodic one that is running (`held`). So
//!   [`State::pending_tasks`] is exact, and so is `max_pending`.
//! * A key is in `names` exactly while its task is pending or a periodic one that is running.

use core::hash::Hash;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::vec::Vec;

use super::builder::{Config, DEFAULT_TICK};
use super::clock::{Clock, Nanos};
use super::driver::Phase;
use super::executor::Executor;
use super::job::Job;
use super::names::{Named, Names};
use super::record::{Fate, Record, Records};
use super::sleepers::Sleepers;
use super::stats::{Histogram, Stats};
use super::wall::{self, Wall};
use super::{Key, ScheduleError, WheelKind};
use crate::wheel::{self, Advance, HashedWheel, HierarchicalWheel};

/// How many timers a wheel looks at before other threads may have the lock: 0.2 ms at most.
pub(super) const WHEEL_STEP: usize = 4096;

/// Does the same with either wheel.
macro_rules! either {
    ($wheels:expr, $wheel:ident => $call:expr) => {
        match $wheels {
            AnyWheel::Hierarchical($wheel) => $call,
            AnyWheel::Hashed($wheel) => $call,
        }
    };
}

/// What there is to run.
pub(super) enum Popped {
    Fire(Fire),
    /// No task is due.
    Nothing,
    /// So much was done under the lock that others may have it before the next try.
    Again,
}

/// A task of a caller, taken out of the wheel to be run.
pub(super) enum Fire {
    Plain(Job),
    Record(Arc<Record>),
}

/// What cancelling met.
pub(super) enum Cancelled {
    /// Nothing that could be cancelled.
    No,
    /// A pending task, which has left the wheel.
    Pending(Job),
    /// A periodic task that is running, and will not run again.
    Running,
}

pub(super) struct State {
    pub(super) wheel: AnyWheel,
    pub(super) sleepers: Sleepers,
    pub(super) names: Names,
    pub(super) records: Records,
    pub(super) wall: Wall,
    /// The phase of the timer; here it is never `NotStarted`.
    pub(super) phase: Phase,
    /// Nanoseconds in a tick.
    pub(super) tick: Nanos,
    /// How many tasks this shard may hold: its part of `max_pending`.
    pub(super) quota: usize,
    /// Periodic tasks that are running.
    held: usize,
    /// Tasks of any kind that are running.
    pub(super) running: usize,
    /// Tasks that an executor has taken and not started.
    pub(super) queued: usize,
    /// What became of the tasks that were in the wheel when the timer was stopped.
    pub(super) left: Fate,
    /// Whether a task runs as soon as it is taken out of the wheel, and not when an executor likes.
    runs_at_once: bool,
    /// Threads that are calling wakers, and since when there is one.
    pub(super) waking: usize,
    pub(super) waking_since: Nanos,
    /// A caller runs what is due, on its own thread.
    pub(super) turning: bool,
    pub(super) scheduled: u64,
    pub(super) fired: u64,
    pub(super) cancelled: u64,
    pub(super) rejected: u64,
    pub(super) panicked: u64,
    pub(super) lateness: Histogram,
}

impl Cancelled {
    pub(super) fn was_cancelled(&self) -> bool {
        !matches!(self, Self::No)
    }
}

impl State {
    pub(super) fn new(config: &Config, phase: Phase) -> Self {
        let takes_all = config.shards == 1 || config.max_pending == usize::MAX;
        Self {
            wheel: AnyWheel::new(config.wheel),
            sleepers: Sleepers::new(),
            names: Names::new(),
            records: Records::default(),
            wall: Wall::default(),
            phase,
            tick: config.tick,
            quota: if takes_all { config.max_pending } else { 0 },
            held: 0,
            running: 0,
            queued: 0,
            left: Fate::Unfired,
            runs_at_once: !matches!(config.executor, Executor::Custom(_)),
            waking: 0,
            waking_since: 0,
            turning: false,
            scheduled: 0,
            fired: 0,
            cancelled: 0,
            rejected: 0,
            panicked: 0,
            lateness: Histogram::default(),
        }
    }

    /// The first tick that is not before a time; `u64::MAX` if that is never.
    #[inline]
    pub(super) fn tick_of(&self, at: Nanos) -> u64 {
        match self.tick {
            _ if at == Nanos::MAX => u64::MAX,
            // Dividing by what the compiler knows is a multiplication.
            DEFAULT_TICK => at.div_ceil(DEFAULT_TICK),
            tick => at.div_ceil(tick),
        }
    }

    /// The last tick that has come at a time.
    #[inline]
    pub(super) fn tick_at(&self, now: Nanos) -> u64 {
        if self.tick == DEFAULT_TICK { now / DEFAULT_TICK } else { now / self.tick }
    }

    /// When a tick comes; `Nanos::MAX` if that is never.
    #[inline]
    pub(super) fn time_of(&self, tick: u64) -> Nanos {
        tick.saturating_mul(self.tick)
    }

    /// How many tasks have neither run nor been cancelled.
    #[inline]
    pub(super) fn pending_tasks(&self) -> usize {
        if self.phase == Phase::Stopped { 0 } else { self.wheel.len() + self.held }
    }

    /// Pending tasks plus sleeping futures.
    pub(super) fn pending(&self) -> usize {
        self.pending_tasks() + self.sleepers.len()
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.wheel.memory_usage()
            + self.names.memory_usage()
            + self.records.memory_usage()
            + self.sleepers.memory_usage()
    }

    /// Returns `true` if this shard may hold no more tasks.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.pending_tasks() >= self.quota
    }

    /// Whether a task may be scheduled that takes the place of another.
    #[inline]
    pub(super) fn admit_instead(&self) -> Result<(), ScheduleError> {
        if self.phase.takes_tasks() { Ok(()) } else { Err(ScheduleError::Stopped) }
    }

    #[inline]
    pub(super) fn insert(&mut self, at: Nanos, job: Job) -> wheel::Key {
        let tick = self.tick_of(at);
        self.wheel.insert(tick, job)
    }

    /// Puts a record into the wheel, for a time of its own clock.
    pub(super) fn place(&mut self, record: &Arc<Record>, at: Nanos, clock: &Clock) {
        let at = match record.wall() {
            Some(wall) => self.wall_to_monotonic(wall, clock),
            None => at,
        };
        self.place_at(record, at);
        if record.wall().is_some_and(|wall| wall < Nanos::MAX) {
            self.wall.follow(record);
        }
    }

    /// When a thread must look at a record that was placed: when it is due or, if it follows the
    /// wall clock, when that is to be read.
    pub(super) fn look_at(&self, record: &Record) -> Nanos {
        if record.follows_wall() {
            record.due_at().min(self.wall.check_at())
        } else {
            record.due_at()
        }
    }

    pub(super) fn place_at(&mut self, record: &Arc<Record>, at: Nanos) {
        record.set_due_at(at);
        let place = self.insert(at, Job::of(Arc::clone(record)));
        record.set_place(place);
        record.set_fate(Fate::Pending);
    }

    /// Returns when something may be due next, the wall clock has to be read, or a calendar has to be
    /// searched.
    pub(super) fn next_wake(&self) -> Option<Nanos> {
        if self.wall.has_searches() {
            return Some(0);
        }
        let first = earlier(self.wheel.next_wake(), self.sleepers.next_wake());
        let at = first.map(|tick| self.time_of(tick));
        if self.wall.has_followers() { at.map(|at| at.min(self.wall.check_at())) } else { at }
    }

    /// Takes out the first task that is due.
    #[inline]
    pub(super) fn pop(&mut self, clock: &Clock) -> Popped {
        let now = clock.now();
        if self.wall.has_followers() && self.follow_wall(clock, now) {
            return Popped::Again;
        }
        for _ in 0..wall::STEP {
            let tick = self.tick_at(now);
            if self.wheel.advance(tick, WHEEL_STEP) == Advance::Unfinished {
                return Popped::Again;
            }
            let Some(due) = self.wheel.pop_due(tick) else { return Popped::Nothing };
            let fire = match due.value.record() {
                None => {
                    if due.value.is_named() {
                        self.names.forget(due.key);
                    }
                    Fire::Plain(due.value)
                }
                Some(record) => {
                    let record = Arc::clone(record);
                    if !self.start(&record, clock) {
                        continue;
                    }
                    Fire::Record(record)
                }
            };
            self.fired += 1;
            if self.runs_at_once {
                self.running += 1;
            } else {
                self.queued += 1;
            }
            self.lateness.record_nanos(now - self.time_of(due.deadline).min(now));
            return Popped::Fire(fire);
        }
        Popped::Again
    }

    /// A task that an executor had taken is run, or dropped.
    pub(super) fn leave_queue(&mut self) {
        self.queued -= 1;
        self.running += 1;
    }

    /// A record's tick has come; `false` if its wall-clock deadline has not, or was missed.
    fn start(&mut self, record: &Arc<Record>, clock: &Clock) -> bool {
        let wall = record.wall().filter(|_| self.wall.unfollow(record));
        if let Some(wall) = wall {
            let early = wall.saturating_sub(clock.wall());
            if early > 0 {
                // The clock was set back since it was last read, or runs slower.
                self.place_at(record, clock.now().saturating_add(early));
                self.wall.follow(record);
                return false;
            }
        }
        #[cfg(feature = "cron")]
        if let Some(course) = record.course() {
            let now = clock.wall();
            if wall.is_some_and(|wall| course.is_missed(wall, now)) {
                self.search_later(record);
                return false;
            }
            course.start(wall, now);
        }
        if record.series.is_some() {
            record.set_fate(Fate::Running);
            self.held += 1;
        } else {
            record.set_fate(Fate::Fired);
            self.forget(record);
        }
        true
    }

    /// A record has come to its end.
    fn forget(&mut self, record: &Arc<Record>) {
        self.wall.unfollow(record);
        self.names.forget_record(record);
        self.records.remove(record);
    }

    /// A periodic task has run: says whether it goes on.
    pub(super) fn finish(&mut self, record: &Arc<Record>, panicked: bool, clock: &Clock) -> bool {
        let Some(series) = &record.series else { return false };
        // Whoever cancelled it while it ran has let it go already.
        self.held -= usize::from(record.fate() == Fate::Running);
        let ends = panicked && series.ends_on_panic;
        if record.fate() != Fate::Running || ends || !self.phase.takes_tasks() {
            if record.fate() == Fate::Running {
                record.set_fate(if ends { Fate::Fired } else { Fate::Cancelled });
                self.cancelled += u64::from(!ends);
            }
            self.forget(record);
            return false;
        }
        let next = series.next(record.due_at(), clock.now());
        self.place(record, next, clock);
        true
    }

    /// Cancels the task of a record, if it can still be. The answer is to be dropped without the
    /// lock.
    pub(super) fn cancel(&mut self, record: &Arc<Record>) -> Cancelled {
        let cancelled = match record.fate() {
            Fate::Pending => {
                let Some(job) = self.wheel.remove(record.place()) else { return Cancelled::No };
                Cancelled::Pending(job)
            }
            Fate::Running => {
                self.held -= 1;
                Cancelled::Running
            }
            Fate::Fired | Fate::Cancelled | Fate::Unfired => return Cancelled::No,
        };
        record.set_fate(Fate::Cancelled);
        self.forget(record);
        self.cancelled += 1;
        cancelled
    }

    /// Cancels periodic tasks among a number of records before `unvisited`, which is moved on. The
    /// answers are to be dropped without the lock.
    pub(super) fn cancel_series(&mut self, unvisited: &mut usize) -> Vec<Cancelled> {
        let end = self.records.len().min(*unvisited);
        let start = end.saturating_sub(wall::STEP);
        *unvisited = start;
        let records: Vec<_> =
            (start..end).map(|number| Arc::clone(&self.records[number])).collect();
        let series = records.iter().filter(|record| record.series.is_some());
        series.map(|record| self.cancel(record)).collect()
    }

    /// Cancels a plain task. The answer is to be dropped without the lock.
    #[inline]
    pub(super) fn cancel_plain(&mut self, place: wheel::Key) -> Option<Job> {
        let job = self.wheel.remove(place)?;
        if job.is_named() {
            self.names.forget(place);
        }
        self.cancelled += 1;
        Some(job)
    }

    /// Which task has a key, by its hash.
    #[inline]
    pub(super) fn find(&self, key: &Key, hash: u64) -> Option<Named> {
        self.names.find(key, hash, |index| self.prefetch(wheel::Key { index, generation: 0 }))
    }

    /// Cancels the task that has a key, if it can still be. The answer is to be dropped without
    /// the lock.
    pub(super) fn cancel_named(&mut self, named: &Named) -> Cancelled {
        match named {
            Named::Record(record) => self.cancel(record),
            Named::Plain(place) => {
                let Some(job) = self.wheel.remove(*place) else { return Cancelled::No };
                self.names.forget_cancelled(*place);
                self.cancelled += 1;
                Cancelled::Pending(job)
            }
        }
    }

    /// Has the memory of a task fetched, while its caller does something else.
    #[inline]
    pub(super) fn prefetch(&self, place: wheel::Key) {
        either!(&self.wheel, wheel => wheel.prefetch(place));
    }

    /// Returns when a task in the wheel is due, rounded up to a tick.
    pub(super) fn due_at(&self, place: wheel::Key) -> Option<Nanos> {
        let tick = self.wheel.deadline(place).filter(|_| self.phase != Phase::Stopped)?;
        Some(self.time_of(tick))
    }

    /// Moves the deadline of a task in the wheel.
    pub(super) fn reset(&mut self, place: wheel::Key, at: Nanos) -> bool {
        let tick = self.tick_of(at);
        self.wheel.reset(place, tick)
    }

    /// Moves the deadline of a pending record, which follows the monotonic clock from then on.
    pub(super) fn reset_record(&mut self, record: &Arc<Record>, at: Nanos) -> bool {
        if record.fate() != Fate::Pending || !self.reset(record.place(), at) {
            return false;
        }
        self.wall.unfollow(record);
        record.set_due_at(at);
        true
    }

    /// Adds the counts of this shard to those of others.
    pub(super) fn add_to(&self, stats: &mut Stats) {
        stats.scheduled += self.scheduled;
        stats.fired += self.fired;
        stats.cancelled += self.cancelled;
        stats.rejected += self.rejected;
        stats.panicked += self.panicked;
        stats.pending += self.pending();
        stats.lateness.merge(&self.lateness);
    }
}

/// The earlier of two ticks that may not be there.
fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Gives back the memory of a map that was much larger once.
pub(crate) fn shrink<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if let Some(capacity) = enough(map.len(), map.capacity()) {
        map.shrink_to(capacity);
    }
}

/// As [`shrink`], for a set.
pub(super) fn shrink_set<K: Eq + Hash>(set: &mut HashSet<K>) {
    if let Some(capacity) = enough(set.len(), set.capacity()) {
        set.shrink_to(capacity);
    }
}

/// Which capacity is enough, if there is much more.
pub(super) fn enough(len: usize, capacity: usize) -> Option<usize> {
    const KEPT: usize = 1024;
    (capacity > KEPT && len < capacity / 8).then_some(2 * len)
}

/// Either wheel, chosen when the timer is built.
pub(super) enum AnyWheel {
    Hierarchical(HierarchicalWheel<Job>),
    Hashed(HashedWheel<Job>),
}

impl AnyWheel {
    fn new(kind: WheelKind) -> Self {
        match kind {
            WheelKind::Hierarchical => Self::Hierarchical(HierarchicalWheel::new()),
            WheelKind::Hashed { slots } => Self::Hashed(HashedWheel::new(slots)),
        }
    }

    #[inline]
    fn insert(&mut self, tick: u64, job: Job) -> wheel::Key {
        either!(self, wheel => wheel.insert(tick, job))
    }

    #[inline]
    pub(super) fn remove(&mut self, place: wheel::Key) -> Option<Job> {
        either!(self, wheel => wheel.remove(place))
    }

    #[inline]
    pub(super) fn reset(&mut self, place: wheel::Key, tick: u64) -> bool {
        either!(self, wheel => wheel.reset(place, tick))
    }

    #[inline]
    fn advance(&mut self, now: u64, budget: usize) -> Advance {
        either!(self, wheel => wheel.advance(now, budget))
    }

    #[inline]
    fn pop_due(&mut self, now: u64) -> Option<wheel::Due<Job>> {
        either!(self, wheel => wheel.pop_due(now))
    }

    pub(super) fn deadline(&self, place: wheel::Key) -> Option<u64> {
        either!(self, wheel => wheel.deadline(place))
    }

    pub(super) fn len(&self) -> usize {
        either!(self, wheel => wheel.len())
    }

    fn next_wake(&self) -> Option<u64> {
        either!(self, wheel => wheel.next_wake())
    }

    pub(super) fn memory_usage(&self) -> usize {
        either!(self, wheel => wheel.memory_usage())
    }

    /// Takes everything out, and leaves a wheel that takes no memory.
    pub(super) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::new(WheelKind::Hierarchical))
    }

    /// Takes every job out, with its place and its deadline, in order of deadline.
    pub(super) fn into_jobs(mut self) -> Vec<wheel::Due<Job>> {
        let mut jobs: Vec<_> = either!(&mut self, wheel => wheel.drain()).collect();
        jobs.sort_by_key(|due| due.deadline);
        jobs
    }
}
