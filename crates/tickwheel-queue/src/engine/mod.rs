//! The engine: every change is a command, applied to one index, in one atomic batch.
//!
//! Ground rules:
//! * The engine has no thread, no lock and no clock: the time and random bits are passed in. The
//!   same commands produce the same rows, except for lease tokens, which must be unpredictable.
//! * It belongs to the writer's thread. A group of commands is applied between [`Engine::begin`]
//!   and [`Engine::finish`], and its changes are one batch. Callers are answered only after that
//!   batch is committed. If the commit fails, the engine is ahead of the disk and must be
//!   discarded.
//! * A command reads before it changes anything, so a refused command has changed nothing.
//! * Lookups see the batch first and then the store. Scans see the store only, so code that scans
//!   to fill the memory ([`window`]) or to move a low-water mark runs before the first change of a
//!   group.
//! * A waiting job has a row in the due index. Whether it is scheduled or ready depends on the time
//!   alone, so becoming ready writes nothing.

mod command;
mod deliver;
mod finished;
mod group_rows;
mod groups;
mod history;
mod idempotency;
mod import;
mod insight;
mod lookup;
mod opening;
mod pace;
mod put;
mod queue;
mod ready;
mod removal;
mod repair;
mod room;
mod schedule;
mod target;
#[cfg(test)]
mod tests;
mod window;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tickwheel::wheel::{HierarchicalWheel, Key};

pub(crate) use command::{
    Command, FailedAttempt, LeaseOf, Outcome, ReleasedJob, Removal, Reserve, Reserved, Source,
    Sweep,
};
pub use command::{Put, PutKind};
use deliver::Tokens;
use group_rows::TouchedGroups;
pub(crate) use lookup::{changed_priority, damaged, unreadable};
pub(crate) use pace::may_start;
use queue::Creators;
pub(crate) use queue::Queue;
pub(crate) use repair::repair;
pub(crate) use room::Room;
use schedule::Course;

use crate::model::access::Access;
use crate::model::error::{Error, Limit};
use crate::model::error_group::beginning;
use crate::model::event::EventKind;
use crate::model::id::{JobId, Secret};
use crate::model::job::{Job, State};
use crate::model::new_job::NewJob;
use crate::model::placement::Placement;
use crate::model::settings::Limits;
use crate::model::stats::Tally;
use crate::model::time::{Now, Time};
use crate::store::records::{LeaseRow, Totals};
use crate::store::rows::{self, Place};
use crate::store::{Table, View, WriteBatch};

/// Bytes that leases, retention and schedules may each add to the batch of a group. The rest is
/// done in the next group, which follows at once.
const STEP_BYTES: usize = 4 << 20;

/// The engine's options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineOptions {
    pub(crate) limits: Limits,
    /// How far ahead jobs are kept in memory.
    pub(crate) horizon: Duration,
    /// The approximate number of jobs in memory, of all queues together.
    pub(crate) near: usize,
    /// Returns the size of a job in an answer.
    pub(crate) measure: fn(&Job) -> usize,
    /// Which queues the store has, if it is one of several.
    pub(crate) placement: Option<Placement>,
}

pub(crate) struct Engine {
    options: EngineOptions,
    now: Now,
    /// Random bits for ids, seeded for each group.
    random: fastrand::Rng,
    tokens: Tokens,
    /// The secret from which the ids of occurrences are derived.
    secret: Secret,
    /// Whether the secret is in the store or in this group's batch.
    secret_is_stored: bool,
    /// The last generated id.
    last_id: JobId,
    /// The queue of the last put.
    last_put: u32,
    totals: Totals,
    queues: Vec<Queue>,
    names: HashMap<Arc<str>, u32>,
    creators: Creators,
    wheel: HierarchicalWheel<Timed>,
    leases: HashMap<JobId, Leased>,
    schedules: BTreeMap<Arc<str>, Course>,
    /// The names of all push targets.
    targets: BTreeSet<Arc<str>>,
    batch: WriteBatch,
    /// Queues whose counts must be written.
    dirty: Vec<u32>,
    /// Paces that must be written.
    dirty_paces: Vec<(u32, Arc<str>)>,
    /// Queues in which a job became ready.
    woken: Vec<u32>,
    /// Queues of which more rows must be read.
    to_load: Vec<u32>,
    /// Groups, with their queues, of which more rows must be read.
    groups_to_load: Vec<(u32, u32)>,
    /// Groups whose counts must be written.
    touched_groups: TouchedGroups,
    /// Jobs that are scheduled, ready or leased.
    pending: u64,
    room: Room,
    /// The access of the caller whose command is being applied.
    caller: Access,
    /// Fires when the next idempotency key expires.
    idempotency_timer: Option<Key>,
    /// Whether it has fired.
    keys_may_expire: bool,
    /// When to check next whether queues are unused.
    unused_at: Option<Time>,
    /// Queues that were removed, with their numbers.
    removed: Vec<(Arc<str>, u32)>,
    /// The events of this group, if there is a listener.
    happened: Option<Vec<Happened>>,
    pub(crate) tally: Tally,
}

/// An entry of the wheel: an id and the queue that it belongs to, never a payload.
#[derive(Debug)]
enum Timed {
    /// A job becomes ready.
    Due { queue: u32, place: Place, entry: Entry },
    /// A lease expires.
    Lease(JobId),
    /// The next row of a queue comes within the horizon.
    Load(u32),
    /// A finished job reaches the end of its retention.
    Retention(u32),
    /// A pace may allow another delivery.
    Pace { queue: u32, group: Arc<str> },
    /// An occurrence of a schedule is due.
    Schedule(Arc<str>),
    /// An idempotency key expires.
    Idempotency,
    /// A pause of limited length ends.
    Resume(u32),
}

/// Something that happened to a job.
#[derive(Debug)]
pub(crate) struct Happened {
    pub(crate) queue: u32,
    pub(crate) job: JobId,
    pub(crate) key: Option<Arc<str>>,
    /// The beginning of the error, if the job failed.
    pub(crate) error: Option<Arc<str>>,
    pub(crate) kind: EventKind,
}

/// A waiting job in memory.
#[derive(Clone, Copy, Debug)]
struct Entry {
    id: JobId,
    has_status: bool,
    /// The index of the group that it waits in, or [`NO_GROUP`].
    group: u32,
}

/// The group index of jobs without a group.
const NO_GROUP: u32 = u32::MAX;

impl Entry {
    fn group(&self) -> Option<u32> {
        (self.group != NO_GROUP).then_some(self.group)
    }
}

/// A leased job in memory.
#[derive(Debug)]
struct Leased {
    queue: u32,
    timer: Key,
    row: LeaseRow,
}

impl Engine {
    /// Starts a group of commands: sets the time, reads rows that came within the horizon, and
    /// applies what is due.
    pub(crate) fn begin(&mut self, view: &dyn View, now: Now, seed: u64) {
        debug_assert!(self.batch.is_empty(), "a group was begun before the last was finished");
        let was = self.wheel.now();
        self.now = now;
        self.random.seed(seed);
        self.caller = Access::default();
        self.tally.sample(now.time());
        if now.time().as_millis() < was {
            self.clock_was_set_back();
        }
        let (mut retentions, mut leases, mut paces, mut schedules) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        while let Some(due) = self.wheel.pop_due(now.time().as_millis()) {
            match due.value {
                Timed::Due { queue, place, entry } => self.became_due(queue, place, entry),
                Timed::Load(queue) => self.load_timer_fired(queue),
                Timed::Retention(queue) => retentions.push(queue),
                Timed::Lease(id) => leases.push(id),
                Timed::Pace { queue, group } => paces.push((queue, group)),
                Timed::Schedule(name) => schedules.push(name),
                Timed::Idempotency => {
                    (self.idempotency_timer, self.keys_may_expire) = (None, true);
                }
                Timed::Resume(queue) => {
                    self.queue(queue).resume_timer = None;
                    self.wake(queue);
                }
            }
        }
        self.load_what_is_near(view);
        self.load_groups(view);
        self.forget_expired_keys(view);
        // Retention runs before the leases: it scans, and would not see jobs that die with their
        // leases.
        self.retentions_are_due(view, retentions);
        self.leases_ran_out(view, leases);
        for (queue, group) in paces {
            self.pace_timer_fired(queue, &group);
        }
        // Schedules run after the leases: the key of a job that has just died is free.
        self.schedules_are_due(view, schedules);
        self.remove_unused(view);
    }

    /// Sets whether the next group records events.
    pub(crate) fn tell_events(&mut self, tell: bool) {
        self.happened = tell.then(Vec::new);
    }

    /// Returns the events of the last group, or `None` if they were not recorded.
    pub(crate) fn take_happened(&mut self) -> Option<Vec<Happened>> {
        self.happened.take()
    }

    /// Records an event, if the group records them.
    fn tell(&mut self, queue: u32, job: JobId, key: Option<&str>, kind: EventKind) {
        self.tell_failure(queue, job, key, None, kind);
    }

    /// Records an event of a job that failed.
    fn tell_failure(
        &mut self,
        queue: u32,
        job: JobId,
        key: Option<&str>,
        error: Option<&str>,
        kind: EventKind,
    ) {
        if let Some(happened) = &mut self.happened {
            let error = error.map(|error| beginning(error).as_ref().into());
            happened.push(Happened { queue, job, key: key.map(Arc::from), error, kind });
        }
    }

    /// Returns the number of the last commit.
    pub(crate) fn commit(&self) -> u64 {
        self.totals.commit
    }

    /// Returns the time of this group.
    pub(crate) fn time(&self) -> Time {
        self.now.time()
    }

    /// Applies a command with its caller's access.
    pub(crate) fn apply(
        &mut self,
        view: &dyn View,
        command: &mut Command,
        access: &Access,
    ) -> Outcome {
        fn each<I, T>(items: &mut [I], apply: impl FnMut(&mut I) -> T) -> Vec<T> {
            items.iter_mut().map(apply).collect()
        }
        let checked = command.check(access).and_then(|()| self.check_batch(command.len()));
        if let Err(error) = checked {
            return Outcome::Refused(error);
        }
        self.caller = access.clone();
        match command {
            Command::Put(jobs) => {
                Outcome::Puts(each(jobs, |job| self.put(view, job, access)), std::mem::take(jobs))
            }
            Command::PutOnce(key, jobs) => {
                let put = self.put_once(view, key, jobs, access);
                Outcome::PutOnce(put, std::mem::take(jobs))
            }
            Command::Import(jobs) => {
                Outcome::Puts(each(jobs, |job| self.import(view, job, access)), Vec::new())
            }
            Command::Cancel(jobs) => {
                Outcome::States(each(jobs, |job| self.cancel(view, job, access)))
            }
            Command::Reschedule(jobs) => {
                Outcome::Times(each(jobs, |(job, when)| self.reschedule(view, job, *when, access)))
            }
            Command::Ack(leases) => Outcome::Units(each(leases, |(lease, result)| {
                self.ack(view, *lease, result.as_ref(), access)
            })),
            Command::Fail(failures) => {
                Outcome::States(each(failures, |failure| self.fail(view, failure, access)))
            }
            Command::Extend(leases) => Outcome::Times(each(leases, |(lease, length)| {
                self.extend(view, *lease, *length, access)
            })),
            Command::Release(jobs) => {
                Outcome::Units(each(jobs, |job| self.release(view, job, access)))
            }
            Command::Kick(ids) => Outcome::Units(each(ids, |id| self.kick(view, *id, access))),
            Command::Remove(ids) => {
                Outcome::States(each(ids, |id| self.remove_one(view, *id, access)))
            }
            Command::KickSome(sweep) => self.kick_some(view, sweep),
            Command::Purge(sweep) => self.purge(view, sweep),
            Command::Drain(sweep) => self.drain(view, sweep),
            Command::RemoveQueue(removal) => self.remove(view, removal),
            Command::Pause { queue, paused } => {
                Outcome::Units(vec![self.set_paused(queue, *paused)])
            }
            Command::PauseFor { queue, length } => {
                Outcome::Units(vec![self.pause_for(queue, *length)])
            }
            Command::Configure { queue, settings } => {
                Outcome::Units(vec![self.configure(queue, settings)])
            }
            Command::PatchSettings { queue, patch } => {
                Outcome::Settings(self.patch_settings(queue, patch).map(Box::new))
            }
            Command::PatchGroup { queue, group, patch } => {
                Outcome::Group(self.patch_group(queue, group, *patch))
            }
            Command::PutSchedule(schedule) => {
                Outcome::Schedule(self.put_schedule(view, schedule, access))
            }
            Command::RemoveSchedule(name) => {
                Outcome::Units(vec![self.remove_schedule(view, name, access)])
            }
            Command::PauseSchedule { name, paused } => {
                Outcome::Units(vec![self.pause_schedule(name, *paused, access)])
            }
            Command::PutTarget { name, definition } => {
                Outcome::Units(vec![self.put_target(name, definition)])
            }
            Command::PutTargetState { name, state } => {
                Outcome::Units(vec![self.put_target_state(name, state)])
            }
            Command::RemoveTarget(name) => Outcome::Units(vec![self.remove_target(name)]),
        }
    }

    /// Refuses a command with more items than a batch may have.
    fn check_batch(&self, items: usize) -> Result<(), Error> {
        let (allowed, found) = (self.options.limits.batch, items as u64);
        if found > allowed {
            return Err(Error::OverLimit { limit: Limit::Batch, allowed, found });
        }
        Ok(())
    }

    /// Ends a group. Returns the batch to commit, or `None` if nothing changed.
    pub(crate) fn finish(&mut self, view: &dyn View) -> Option<&WriteBatch> {
        self.write_group_counts(view);
        self.write_paces();
        for queue in std::mem::take(&mut self.dirty) {
            let counts = self.queues[queue as usize].counts_to_write(self.now.time());
            let key = rows::of_queue(rows::COUNTS, queue);
            self.batch.put_with(Table::Counters, &key, |bytes| counts.encode(bytes));
        }
        if self.batch.is_empty() {
            return None;
        }
        self.totals.commit += 1;
        let totals = self.totals;
        self.batch.put_with(Table::Counters, rows::TOTALS, |bytes| totals.encode(bytes));
        Some(&self.batch)
    }

    /// Notes that the batch of the last group is committed.
    pub(crate) fn committed(&mut self) {
        self.room.take(self.batch.bytes());
        self.batch.clear();
    }

    /// Returns when `begin` must be called without a command, or `None` if nothing is due in the
    /// future. A time in the past means at once.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        if !self.to_load.is_empty() || !self.groups_to_load.is_empty() {
            return Some(Time::default());
        }
        let wheel = self.wheel.next_wake().map(Time::from_millis);
        [wheel, self.unused_at].into_iter().flatten().min()
    }

    /// Returns the queues in which a job became ready since the last call.
    pub(crate) fn take_woken(&mut self) -> Vec<u32> {
        for &queue in &self.woken {
            self.queues[queue as usize].marks.woken = false;
        }
        std::mem::take(&mut self.woken)
    }

    /// Returns the bytes of the batch so far.
    pub(crate) fn batch_bytes(&self) -> usize {
        self.batch.bytes()
    }

    /// Sets how many bytes may be put before the disk is full.
    pub(crate) fn set_room(&mut self, room: Room) {
        self.room = room;
    }

    pub(crate) fn queues(&self) -> &[Queue] {
        &self.queues
    }

    pub(crate) fn number_of(&self, queue: &str) -> Option<u32> {
        self.names.get(queue).copied()
    }

    /// Returns the number of queues.
    pub(crate) fn queue_count(&self) -> usize {
        self.names.len()
    }

    /// Returns the number of schedules.
    pub(crate) fn schedules(&self) -> usize {
        self.schedules.len()
    }

    /// Returns the number of jobs, finished ones included.
    pub(crate) fn jobs(&self) -> u64 {
        self.queues.iter().map(Queue::jobs).sum()
    }

    pub(crate) fn pending(&self) -> u64 {
        self.pending
    }

    /// Returns the number of jobs and leases in memory.
    pub(crate) fn in_memory(&self) -> usize {
        self.queues.iter().map(Queue::in_memory).sum::<usize>() + self.leases.len()
    }

    fn queue(&mut self, queue: u32) -> &mut Queue {
        &mut self.queues[queue as usize]
    }

    /// Returns a queue whose counts are about to change.
    fn touch(&mut self, number: u32) -> &mut Queue {
        self.expect_unused();
        let queue = &mut self.queues[number as usize];
        if !queue.marks.dirty {
            queue.marks.dirty = true;
            queue.used = self.now.time();
            self.dirty.push(number);
        }
        queue
    }

    /// Counts that a job of a queue leaves a state. After a salvage, counts may be too low.
    fn count_down(&mut self, number: u32, state: State) {
        let count = self.touch(number).counts.of(state);
        *count = count.saturating_sub(1);
        if state.is_live() {
            self.pending = self.pending.saturating_sub(1);
        }
    }

    /// Returns a new id for a job of a queue, greater than all others of this millisecond.
    fn new_id(&mut self, queue: &str) -> JobId {
        self.last_id = self.last_id.next(self.now.time(), self.random.u128(..));
        self.placed(self.last_id, queue)
    }

    /// Returns the id with the bucket of the queue, if the store is one of several.
    fn placed(&self, id: JobId, queue: &str) -> JobId {
        self.options.placement.map_or(id, |placement| placement.place(id, queue))
    }

    /// Refuses a job for queues of another store.
    fn check_placement(&self, job: &NewJob) -> Result<(), Error> {
        self.options.placement.map_or(Ok(()), |placement| placement.check_job(job))
    }

    /// Returns the number of a queue, which is created if it does not exist.
    fn queue_for(&mut self, name: &str) -> Result<u32, Error> {
        match self.number_of(name) {
            Some(number) => Ok(number),
            None => self.new_queue(name),
        }
    }
}
