//! What a shard's lock protects: the wheels, the keys and the counters.
//!
//! Ground rules:
//! * No user code is called or dropped in here: closures are moved in and out.
//! * Futures that wait are not tasks, and have a wheel of their own (`sleepers.rs`).
//! * A pending task is in the wheel, or is a periodic one that is running (`held`). So
//!   [`State::pending_tasks`] is exact, and so is `max_pending`.
//! * A key is in `keys` exactly while its task is pending or a periodic one that is running.

use std::sync::Arc;
use std::vec::Vec;

use crate::timer::builder::{Config, DEFAULT_TICK};
use crate::timer::clock::{Clock, Nanos};
use crate::timer::core::any_wheel::AnyWheel;
use crate::timer::core::driver::Phase;
use crate::timer::core::sleepers::Sleepers;
use crate::timer::core::wall::{self, Wall};
use crate::timer::execution::executor::Executor;
use crate::timer::keys::table::{KeyHolder, KeyTable};
use crate::timer::stats::{Histogram, Stats};
use crate::timer::tasks::job::Job;
use crate::timer::tasks::record::{Fate, Record, Records};
use crate::timer::{Key, ScheduleError};
use crate::wheel::{self, Advance};

/// How many timers a wheel looks at before other threads may have the lock: 0.2 ms at most.
pub(crate) const WHEEL_STEP: usize = 4096;

/// What there is to run.
pub(crate) enum Popped {
    Fire(Fire),
    /// No task is due.
    Nothing,
    /// So much was done under the lock that others may have it before the next try.
    Again,
}

/// A task of a caller, taken out of the wheel to be run.
pub(crate) enum Fire {
    Plain(Job),
    Record(Arc<Record>),
}

/// What cancelling met.
pub(crate) enum Cancelled {
    /// Nothing that could be cancelled.
    No,
    /// A pending task, which has left the wheel.
    Pending(Job),
    /// A periodic task that is running, and will not run again.
    Running,
}

pub(crate) struct State {
    pub(crate) wheel: AnyWheel,
    pub(crate) sleepers: Sleepers,
    pub(crate) keys: KeyTable,
    pub(crate) records: Records,
    pub(crate) wall: Wall,
    /// The phase of the timer; here it is never `NotStarted`.
    pub(crate) phase: Phase,
    /// Nanoseconds in a tick.
    pub(crate) tick: Nanos,
    /// How many tasks this shard may hold: its part of `max_pending`.
    pub(crate) quota: usize,
    /// Periodic tasks that are running.
    held: usize,
    /// Tasks of any kind that are running.
    pub(crate) running: usize,
    /// Tasks that an executor has taken and not started.
    pub(crate) queued: usize,
    /// What became of the tasks that were in the wheel when the timer was stopped.
    pub(crate) left: Fate,
    /// Whether a task runs as soon as it is taken out of the wheel, and not when an executor likes.
    runs_at_once: bool,
    /// Threads that are calling wakers, and since when there is one.
    pub(crate) waking: usize,
    pub(crate) waking_since: Nanos,
    /// A caller runs what is due, on its own thread.
    pub(crate) turning: bool,
    pub(crate) scheduled: u64,
    pub(crate) fired: u64,
    pub(crate) cancelled: u64,
    pub(crate) rejected: u64,
    pub(crate) panicked: u64,
    pub(crate) lateness: Histogram,
}

impl Cancelled {
    pub(crate) fn was_cancelled(&self) -> bool {
        !matches!(self, Self::No)
    }
}

impl State {
    pub(crate) fn new(config: &Config, phase: Phase) -> Self {
        let takes_all = config.shards == 1 || config.max_pending == usize::MAX;
        Self {
            wheel: AnyWheel::new(config.wheel),
            sleepers: Sleepers::new(),
            keys: KeyTable::new(),
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
    pub(crate) fn tick_of(&self, at: Nanos) -> u64 {
        match self.tick {
            _ if at == Nanos::MAX => u64::MAX,
            // Dividing by what the compiler knows is a multiplication.
            DEFAULT_TICK => at.div_ceil(DEFAULT_TICK),
            tick => at.div_ceil(tick),
        }
    }

    /// The last tick that has come at a time.
    #[inline]
    pub(crate) fn tick_at(&self, now: Nanos) -> u64 {
        if self.tick == DEFAULT_TICK { now / DEFAULT_TICK } else { now / self.tick }
    }

    /// When a tick comes; `Nanos::MAX` if that is never.
    #[inline]
    pub(crate) fn time_of(&self, tick: u64) -> Nanos {
        tick.saturating_mul(self.tick)
    }

    /// How many tasks have neither run nor been cancelled.
    #[inline]
    pub(crate) fn pending_tasks(&self) -> usize {
        if self.phase == Phase::Stopped { 0 } else { self.wheel.len() + self.held }
    }

    /// Pending tasks plus sleeping futures.
    pub(crate) fn pending(&self) -> usize {
        self.pending_tasks() + self.sleepers.len()
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.wheel.memory_usage()
            + self.keys.memory_usage()
            + self.records.memory_usage()
            + self.sleepers.memory_usage()
    }

    /// Returns `true` if this shard may hold no more tasks.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.pending_tasks() >= self.quota
    }

    /// Checks that a task may be scheduled that replaces another.
    #[inline]
    pub(crate) fn admit_instead(&self) -> Result<(), ScheduleError> {
        if self.phase.takes_tasks() { Ok(()) } else { Err(ScheduleError::Stopped) }
    }

    #[inline]
    pub(crate) fn insert(&mut self, at: Nanos, job: Job) -> wheel::Key {
        let tick = self.tick_of(at);
        self.wheel.insert(tick, job)
    }

    /// Puts a record into the wheel, for a time of its own clock.
    pub(crate) fn place(&mut self, record: &Arc<Record>, at: Nanos, clock: &Clock) {
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
    pub(crate) fn look_at(&self, record: &Record) -> Nanos {
        if record.follows_wall() {
            record.due_at().min(self.wall.check_at())
        } else {
            record.due_at()
        }
    }

    pub(crate) fn place_at(&mut self, record: &Arc<Record>, at: Nanos) {
        record.set_due_at(at);
        let wheel_key = self.insert(at, Job::of(Arc::clone(record)));
        record.set_wheel_key(wheel_key);
        record.set_fate(Fate::Pending);
    }

    /// Returns when something may be due next, the wall clock has to be read, or a calendar has to be
    /// searched.
    pub(crate) fn next_wake(&self) -> Option<Nanos> {
        if self.wall.has_searches() {
            return Some(0);
        }
        let first = earlier(self.wheel.next_wake(), self.sleepers.next_wake());
        let at = first.map(|tick| self.time_of(tick));
        if self.wall.has_followers() { at.map(|at| at.min(self.wall.check_at())) } else { at }
    }

    /// Takes out the first task that is due.
    #[inline]
    pub(crate) fn pop(&mut self, clock: &Clock) -> Popped {
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
                    if due.value.has_key() {
                        self.keys.forget(due.key);
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
    pub(crate) fn leave_queue(&mut self) {
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
        self.keys.forget_record(record);
        self.records.remove(record);
    }

    /// A periodic task has run: says whether it goes on.
    pub(crate) fn finish(&mut self, record: &Arc<Record>, panicked: bool, clock: &Clock) -> bool {
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
    pub(crate) fn cancel(&mut self, record: &Arc<Record>) -> Cancelled {
        let cancelled = match record.fate() {
            Fate::Pending => {
                let Some(job) = self.wheel.remove(record.wheel_key()) else { return Cancelled::No };
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
    pub(crate) fn cancel_series(&mut self, unvisited: &mut usize) -> Vec<Cancelled> {
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
    pub(crate) fn cancel_plain(&mut self, wheel_key: wheel::Key) -> Option<Job> {
        let job = self.wheel.remove(wheel_key)?;
        if job.has_key() {
            self.keys.forget(wheel_key);
        }
        self.cancelled += 1;
        Some(job)
    }

    /// Which task has a key, by its hash.
    #[inline]
    pub(crate) fn find(&self, key: &Key, hash: u64) -> Option<KeyHolder> {
        self.keys.find(key, hash, |index| self.prefetch(wheel::Key { index, generation: 0 }))
    }

    /// Cancels the task that has a key, if it can still be. The answer is to be dropped without
    /// the lock.
    pub(crate) fn cancel_holder(&mut self, holder: &KeyHolder) -> Cancelled {
        match holder {
            KeyHolder::Record(record) => self.cancel(record),
            KeyHolder::Plain(wheel_key) => {
                let Some(job) = self.wheel.remove(*wheel_key) else { return Cancelled::No };
                self.keys.forget_cancelled(*wheel_key);
                self.cancelled += 1;
                Cancelled::Pending(job)
            }
        }
    }

    /// Has the memory of a task fetched, while its caller does something else.
    #[inline]
    pub(crate) fn prefetch(&self, wheel_key: wheel::Key) {
        self.wheel.prefetch(wheel_key);
    }

    /// Returns when a task in the wheel is due, rounded up to a tick.
    pub(crate) fn due_at(&self, wheel_key: wheel::Key) -> Option<Nanos> {
        let tick = self.wheel.deadline(wheel_key).filter(|_| self.phase != Phase::Stopped)?;
        Some(self.time_of(tick))
    }

    /// Moves the deadline of a task in the wheel.
    pub(crate) fn reset(&mut self, wheel_key: wheel::Key, at: Nanos) -> bool {
        let tick = self.tick_of(at);
        self.wheel.reset(wheel_key, tick)
    }

    /// Moves the deadline of a pending record, which follows the monotonic clock from then on.
    pub(crate) fn reset_record(&mut self, record: &Arc<Record>, at: Nanos) -> bool {
        if record.fate() != Fate::Pending || !self.reset(record.wheel_key(), at) {
            return false;
        }
        self.wall.unfollow(record);
        record.set_due_at(at);
        true
    }

    /// Adds the counts of this shard to those of others.
    pub(crate) fn add_to(&self, stats: &mut Stats) {
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
