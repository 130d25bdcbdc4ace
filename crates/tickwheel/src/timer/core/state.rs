//! The state that a shard's lock protects: the wheels, the keys and the counters.
//!
//! Ground rules:
//! * No user code is called or dropped here: closures are moved in and out.
//! * Sleeping futures are not tasks. They have a wheel of their own (`sleepers.rs`).
//! * A pending task is in the wheel, or is periodic and running (`held`). So [`State::pending_tasks`]
//!   is exact, and so is `max_pending`.
//! * A key is in `keys`, or with its record in `records`, exactly while its task is pending, or
//!   periodic and running. It is never in both.

use std::sync::Arc;
use std::vec::Vec;

use crate::timer::builder::{Config, DEFAULT_TICK};
use crate::timer::clock::{Clock, Nanos};
use crate::timer::core::any_wheel::AnyWheel;
use crate::timer::core::driver::Phase;
use crate::timer::core::sleepers::Sleepers;
use crate::timer::core::wall::{self, Wall};
use crate::timer::execution::executor::Executor;
use crate::timer::keys::table::KeyTable;
use crate::timer::stats::{Histogram, Stats};
use crate::timer::tasks::job::Job;
use crate::timer::tasks::record::{Fate, Record};
use crate::timer::tasks::records::Records;
use crate::timer::{Key, ScheduleError};
use crate::wheel::{self, Advance};

/// The number of references that a wheel examines before the lock is released: 0.2 ms at most.
pub(crate) const WHEEL_STEP: usize = 4096;

/// The result of [`State::pop`].
pub(crate) enum Popped {
    Fire(Fire),
    /// No task is due.
    Nothing,
    /// The call has done its share of work under the lock. Release the lock, then call again.
    Yield,
}

/// A due task that was taken out of the wheel to be run.
pub(crate) enum Fire {
    Plain(Job),
    Record(Arc<Record>),
}

/// The task that has a key.
pub(crate) enum KeyHolder {
    /// A closure that is called once.
    Plain(wheel::Key),
    Record(Arc<Record>),
}

/// The result of cancelling a task.
pub(crate) enum Cancelled {
    /// The task was not pending.
    No,
    /// The task was pending and has left the wheel.
    Pending(Job),
    /// The task is periodic and running, and will not run again.
    Running,
}

pub(crate) struct State {
    pub(crate) wheel: AnyWheel,
    pub(crate) sleepers: Sleepers,
    pub(crate) keys: KeyTable,
    pub(crate) records: Records,
    pub(crate) wall: Wall,
    /// The phase of the timer. Here it is never `NotStarted`.
    pub(crate) phase: Phase,
    /// The length of a tick in nanoseconds.
    pub(crate) tick: Nanos,
    /// The number of tasks that this shard may hold: its part of `max_pending`.
    pub(crate) quota: usize,
    /// The number of periodic tasks that are running.
    held: usize,
    /// The number of running tasks of any kind.
    pub(crate) running: usize,
    /// The number of tasks that a custom executor holds and has not started.
    pub(crate) queued: usize,
    /// The fate of the tasks that were in the wheel when the timer was stopped.
    pub(crate) fate_at_stop: Fate,
    /// Whether a task runs as soon as it is taken out of the wheel, instead of on a custom executor.
    runs_at_once: bool,
    /// The number of threads that are calling wakers.
    pub(crate) waking: usize,
    /// Whether a caller is running due tasks on its own thread.
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
            records: Records::new(),
            wall: Wall::default(),
            phase,
            tick: config.tick,
            quota: if takes_all { config.max_pending } else { 0 },
            held: 0,
            running: 0,
            queued: 0,
            fate_at_stop: Fate::Unfired,
            runs_at_once: !matches!(config.executor, Executor::Custom(_)),
            waking: 0,
            turning: false,
            scheduled: 0,
            fired: 0,
            cancelled: 0,
            rejected: 0,
            panicked: 0,
            lateness: Histogram::default(),
        }
    }

    /// Returns the first tick at or after a time, or `u64::MAX` if the time means never.
    #[inline]
    pub(crate) fn tick_of(&self, at: Nanos) -> u64 {
        match self.tick {
            _ if at == Nanos::MAX => u64::MAX,
            // A division by a constant is compiled to a multiplication.
            DEFAULT_TICK => at.div_ceil(DEFAULT_TICK),
            tick => at.div_ceil(tick),
        }
    }

    /// Returns the last tick at or before a time.
    #[inline]
    pub(crate) fn tick_at(&self, now: Nanos) -> u64 {
        if self.tick == DEFAULT_TICK { now / DEFAULT_TICK } else { now / self.tick }
    }

    /// Returns the time of a tick, or `Nanos::MAX` if it means never.
    #[inline]
    pub(crate) fn time_of(&self, tick: u64) -> Nanos {
        tick.saturating_mul(self.tick)
    }

    /// Returns the number of tasks that have neither run nor been cancelled.
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

    /// Returns `true` if this shard has used up its quota.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.pending_tasks() >= self.quota
    }

    /// Returns an error if the timer accepts no tasks. Does not check for room.
    #[inline]
    pub(crate) fn check_accepts_tasks(&self) -> Result<(), ScheduleError> {
        if self.phase.takes_tasks() { Ok(()) } else { Err(ScheduleError::Stopped) }
    }

    #[inline]
    pub(crate) fn insert(&mut self, at: Nanos, job: Job) -> wheel::Key {
        let tick = self.tick_of(at);
        self.wheel.insert(tick, job)
    }

    /// Puts a record into the wheel, at its wall-clock deadline if it has one, otherwise at `at`.
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

    /// Returns the time at which a thread must wake up for a record: its deadline or, if it follows the
    /// wall clock, the next time to read that clock, whichever is earlier.
    pub(crate) fn wake_time_of(&self, record: &Record) -> Nanos {
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

    /// Returns the time at which a task or future may be due, the wall clock must be read, or a
    /// wall-clock deadline must be revised.
    pub(crate) fn next_wake(&self) -> Option<Nanos> {
        let first = earlier(self.wheel.next_wake(), self.sleepers.next_wake());
        let mut at = first.map(|tick| self.time_of(tick));
        if self.wall.has_followers() {
            at = at.map(|at| at.min(self.wall.check_at()));
        }
        earlier(at, self.wall.unfinished_since())
    }

    /// Takes out the first due task.
    #[inline]
    pub(crate) fn pop(&mut self, clock: &Clock) -> Popped {
        let now = clock.now();
        if self.wall.has_followers() && self.follow_wall(clock, now) {
            return Popped::Yield;
        }
        for _ in 0..wall::STEP {
            let tick = self.tick_at(now);
            if self.wheel.advance(tick, WHEEL_STEP) == Advance::Unfinished {
                return Popped::Yield;
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
        Popped::Yield
    }

    /// Counts a queued task of a custom executor as running.
    pub(crate) fn leave_queue(&mut self) {
        self.queued -= 1;
        self.running += 1;
    }

    /// Starts the run of a record whose tick has come. Returns `false` if its wall-clock deadline has
    /// not come yet, or was missed.
    fn start(&mut self, record: &Arc<Record>, clock: &Clock) -> bool {
        let wall = record.wall().filter(|_| self.wall.unfollow(record));
        if let Some(wall) = wall {
            let early = wall.saturating_sub(clock.wall());
            if early > 0 {
                // The clock was set back since it was last read, or runs slower than expected.
                self.place_at(record, clock.now().saturating_add(early));
                self.wall.follow(record);
                return false;
            }
        }
        if let Some(rule) = record.rule() {
            let now = clock.wall();
            if wall.is_some_and(|wall| rule.is_missed(wall, now)) {
                self.revise_later(record);
                return false;
            }
            rule.start(wall, now);
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

    /// Removes a record that has ended.
    fn forget(&mut self, record: &Arc<Record>) {
        self.wall.unfollow(record);
        self.records.remove(record);
    }

    /// Ends a run of a periodic task. Returns `true` if the task was scheduled again.
    pub(crate) fn finish(&mut self, record: &Arc<Record>, panicked: bool, clock: &Clock) -> bool {
        let Some(series) = &record.series else { return false };
        // A caller that cancelled the task during its run has already uncounted it.
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

    /// Cancels the task of a record, if it is pending or running. The result must be dropped without
    /// the lock.
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

    /// Cancels the periodic tasks among a number of records before `unvisited`, and lowers `unvisited`,
    /// to 0 at the end. The results must be dropped without the lock.
    pub(crate) fn cancel_series(&mut self, unvisited: &mut u32) -> Vec<Cancelled> {
        let mut cancelled = Vec::new();
        for _ in 0..wall::STEP {
            *unvisited = self.records.place_before(*unvisited).unwrap_or(0);
            let record = self.records.get(*unvisited).filter(|record| record.series.is_some());
            if let Some(record) = record.cloned() {
                cancelled.push(self.cancel(&record));
            }
            if *unvisited == 0 {
                break;
            }
        }
        cancelled
    }

    /// Cancels a plain task. The job must be dropped without the lock.
    #[inline]
    pub(crate) fn cancel_plain(&mut self, wheel_key: wheel::Key) -> Option<Job> {
        let job = self.wheel.remove(wheel_key)?;
        if job.has_key() {
            self.keys.forget(wheel_key);
        }
        self.cancelled += 1;
        Some(job)
    }

    /// Finds the task with a key. `hash` is the key's hash.
    #[inline]
    pub(crate) fn find(&self, key: &Key, hash: u64) -> Option<KeyHolder> {
        let prefetch = |index| self.prefetch(wheel::Key { index, generation: 0 });
        if let Some(wheel_key) = self.keys.find(key, hash, prefetch) {
            return Some(KeyHolder::Plain(wheel_key));
        }
        self.records.find(key, hash as u32).cloned().map(KeyHolder::Record)
    }

    /// Cancels the task with a key, if it is pending or running. The result must be dropped without
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

    /// Prefetches the entry of a task.
    #[inline]
    pub(crate) fn prefetch(&self, wheel_key: wheel::Key) {
        self.wheel.prefetch(wheel_key);
    }

    /// Returns the deadline of a task in the wheel, rounded up to a tick.
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

    /// Adds the counters of this shard to `stats`.
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

/// Returns the earlier of two optional times or ticks.
fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
