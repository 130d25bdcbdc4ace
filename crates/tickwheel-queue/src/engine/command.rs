//! The commands of the engine, and their outcomes.
//!
//! Most commands are lists of items: a single put is a list of one. The outcome has a result for
//! each item, and a refused item does not affect the others.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::model::access::Access;
use crate::model::admission::Admission;
use crate::model::error::Error;
use crate::model::group::{GroupPatch, GroupSettings};
use crate::model::id::JobId;
use crate::model::idempotency::{IdempotencyKey, PutOnce};
use crate::model::import::ImportedJob;
use crate::model::job::{Delivery, JobRef, Lease, State};
use crate::model::new_job::{NewJob, When};
use crate::model::retry::Retry;
use crate::model::schedule::{NewSchedule, PutSchedule};
use crate::model::settings::{QueueSettings, SettingsPatch};
use crate::model::time::Time;
use crate::store::rows::Place;

#[derive(Debug)]
pub(crate) enum Command {
    Put(Vec<NewJob>),
    PutOnce(Box<IdempotencyKey>, Vec<NewJob>),
    Import(Vec<ImportedJob>),
    Cancel(Vec<JobRef>),
    Reschedule(Vec<(JobRef, When)>),
    /// Leases, each with the result of its job.
    Ack(Vec<(Lease, Option<Bytes>)>),
    Fail(Vec<FailedAttempt>),
    Extend(Vec<(Lease, Duration)>),
    Release(Vec<ReleasedJob>),
    Kick(Vec<JobId>),
    /// Jobs that no worker has.
    Remove(Vec<JobId>),
    KickSome(Sweep),
    Purge(Sweep),
    Drain(Sweep),
    RemoveQueue(Removal),
    Pause {
        queue: String,
        paused: bool,
    },
    PauseFor {
        queue: String,
        length: Duration,
    },
    Configure {
        queue: String,
        settings: Box<QueueSettings>,
    },
    PatchSettings {
        queue: String,
        patch: Box<SettingsPatch>,
    },
    PatchGroup {
        queue: String,
        group: String,
        patch: GroupPatch,
    },
    PutSchedule(Box<NewSchedule>),
    RemoveSchedule(String),
    PauseSchedule {
        name: String,
        paused: bool,
    },
    PutTarget {
        name: String,
        definition: Bytes,
    },
    PutTargetState {
        name: String,
        state: Bytes,
    },
    RemoveTarget(String),
}

impl Command {
    /// Returns the number of items.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Put(items) | Self::PutOnce(_, items) => items.len(),
            Self::Import(items) => items.len(),
            Self::Cancel(items) => items.len(),
            Self::Reschedule(items) => items.len(),
            Self::Ack(items) => items.len(),
            Self::Fail(items) => items.len(),
            Self::Extend(items) => items.len(),
            Self::Release(items) => items.len(),
            Self::Kick(items) | Self::Remove(items) => items.len(),
            Self::KickSome(_)
            | Self::Purge(_)
            | Self::Drain(_)
            | Self::RemoveQueue(_)
            | Self::Pause { .. }
            | Self::PauseFor { .. }
            | Self::Configure { .. }
            | Self::PatchSettings { .. }
            | Self::PatchGroup { .. }
            | Self::PutSchedule(_)
            | Self::RemoveSchedule(_)
            | Self::PauseSchedule { .. }
            | Self::PutTarget { .. }
            | Self::PutTargetState { .. }
            | Self::RemoveTarget(_) => 1,
        }
    }

    /// Returns roughly how much memory the command holds beside itself.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Put(jobs) | Self::PutOnce(_, jobs) => jobs.iter().map(NewJob::bytes).sum(),
            Self::Import(jobs) => jobs.iter().map(ImportedJob::bytes).sum(),
            Self::Cancel(jobs) => jobs.iter().map(JobRef::bytes).sum(),
            Self::Reschedule(jobs) => {
                jobs.iter().map(|(job, _)| job.bytes() + size_of::<When>()).sum()
            }
            Self::Ack(leases) => {
                let results =
                    leases.iter().map(|(_, result)| result.as_ref().map_or(0, Bytes::len));
                size_of_val(&leases[..]) + results.sum::<usize>()
            }
            Self::Fail(failures) => {
                let texts =
                    |it: &FailedAttempt| it.error.len() + it.detail.as_ref().map_or(0, String::len);
                failures.iter().map(|failure| size_of_val(failure) + texts(failure)).sum()
            }
            Self::Extend(leases) => size_of_val(&leases[..]),
            Self::Release(leases) => size_of_val(&leases[..]),
            Self::Kick(ids) | Self::Remove(ids) => size_of_val(&ids[..]),
            Self::KickSome(sweep) | Self::Purge(sweep) | Self::Drain(sweep) => sweep.queue.len(),
            Self::RemoveQueue(removal) => removal.sweep.queue.len(),
            Self::Pause { queue, .. } | Self::PauseFor { queue, .. } => queue.len(),
            Self::Configure { queue, settings } => {
                queue.len() + size_of::<QueueSettings>() + settings.retry.bytes()
            }
            Self::PatchSettings { queue, patch } => {
                queue.len() + size_of::<SettingsPatch>() + patch.bytes()
            }
            Self::PatchGroup { queue, group, .. } => queue.len() + group.len(),
            Self::PutSchedule(schedule) => schedule.name.len() + schedule.job.bytes(),
            Self::RemoveSchedule(name)
            | Self::PauseSchedule { name, .. }
            | Self::RemoveTarget(name) => name.len(),
            Self::PutTarget { name, definition: value }
            | Self::PutTargetState { name, state: value } => name.len() + value.len(),
        }
    }

    /// Refuses a command whose caller has no access, or no access to the queue that the command
    /// names. Access to jobs and schedules is checked where they are looked up.
    pub(super) fn check(&self, access: &Access) -> Result<(), Error> {
        access.check()?;
        match self {
            Self::Pause { queue, .. }
            | Self::PauseFor { queue, .. }
            | Self::Configure { queue, .. }
            | Self::PatchSettings { queue, .. }
            | Self::PatchGroup { queue, .. } => access.check_queue(queue),
            Self::RemoveQueue(removal) => access.check_queue(&removal.sweep.queue),
            Self::KickSome(sweep) | Self::Purge(sweep) | Self::Drain(sweep) => {
                access.check_queue(&sweep.queue)
            }
            Self::PutTarget { name, .. }
            | Self::PutTargetState { name, .. }
            | Self::RemoveTarget(name) => access.check_targets(name),
            Self::Put(_)
            | Self::PutOnce(..)
            | Self::Import(_)
            | Self::Cancel(_)
            | Self::Reschedule(_)
            | Self::Ack(_)
            | Self::Fail(_)
            | Self::Extend(_)
            | Self::Release(_)
            | Self::Kick(_)
            | Self::Remove(_)
            | Self::PutSchedule(_)
            | Self::RemoveSchedule(_)
            | Self::PauseSchedule { .. } => Ok(()),
        }
    }

    /// Returns `true` for a command in steps of which at least one is committed.
    pub(crate) fn is_half_done(&self) -> bool {
        match self {
            Self::KickSome(sweep) | Self::Purge(sweep) | Self::Drain(sweep) => sweep.from.is_some(),
            Self::RemoveQueue(removal) => removal.phase > 0 || removal.sweep.from.is_some(),
            _ => false,
        }
    }

    /// Returns the command to apply again after its first application was lost, or `None` for a
    /// put, whose jobs are returned with its outcome.
    pub(crate) fn into_repeat(mut self) -> Option<Self> {
        match &mut self {
            Self::Put(_) | Self::PutOnce(..) => return None,
            Self::KickSome(sweep) | Self::Purge(sweep) | Self::Drain(sweep) => sweep.restart(),
            Self::RemoveQueue(removal) => removal.sweep.restart(),
            _ => {}
        }
        Some(self)
    }
}

/// A worker's request for jobs.
#[derive(Clone, Debug)]
pub(crate) struct Reserve {
    pub(crate) source: Source,
    /// The largest number of jobs.
    pub(crate) jobs: usize,
    /// Defaults to the queue's setting.
    pub(crate) lease: Option<Duration>,
    /// Reads the length of a job's lease from its headers, which then wins over `lease`.
    pub(crate) lease_of: Option<LeaseOf>,
    /// Asked before each job is leased.
    pub(crate) admission: Admission,
    /// The name of the worker.
    pub(crate) worker: Option<Arc<str>>,
}

/// Reads the length of a lease from the headers of a job.
pub(crate) type LeaseOf = fn(&[(String, String)]) -> Option<Duration>;

/// Where the jobs of a [`Reserve`] come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The ready jobs of a queue.
    Queue(String),
    /// The ready jobs of several queues, by priority.
    AnyOf(Arc<[Arc<str>]>),
    /// This job, if no worker has it.
    Job(JobId),
}

impl Source {
    /// The queues that it waits for; none if it does not wait.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &str> {
        let (one, many) = match self {
            Self::Queue(name) => (Some(name.as_str()), None),
            Self::AnyOf(names) => (None, Some(names.iter().map(|name| &**name))),
            Self::Job(_) => (None, None),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

/// A job that its worker gives back.
#[derive(Clone, Debug)]
pub(crate) struct ReleasedJob {
    pub(crate) lease: Lease,
    pub(crate) when: When,
    /// Why the worker gives it back, for the history.
    pub(crate) error: Option<String>,
    /// The job's priority from now on; unchanged if `None`.
    pub(crate) priority: Option<i8>,
}

/// The engine's answer to a [`Reserve`].
#[derive(Debug)]
pub(crate) enum Reserved {
    /// At least one job, leased to the worker.
    Jobs(Vec<Delivery>),
    /// No job can be delivered now. The queue is woken when that may have changed.
    NoneReady,
    /// Ready rows must be read first: reserve again in the next group.
    NeedsRows,
}

/// A failed attempt.
#[derive(Debug)]
pub(crate) struct FailedAttempt {
    pub(crate) lease: Lease,
    pub(crate) error: String,
    /// Details for the history, beside the error.
    pub(crate) detail: Option<String>,
    pub(crate) retry: Retry,
    /// The job's priority from now on; unchanged if `None`.
    pub(crate) priority: Option<i8>,
}

/// A change of many jobs of a queue, in steps of bounded size.
#[derive(Debug)]
pub(crate) struct Sweep {
    pub(crate) queue: String,
    /// The state of the finished jobs to remove.
    pub(crate) state: State,
    /// Removes only jobs that finished before this time.
    pub(crate) before: Time,
    /// The maximum number of jobs.
    pub(crate) at_most: u64,
    /// The number of jobs changed so far.
    pub(crate) done: u64,
    /// Where the next step continues.
    pub(crate) from: Option<Cursor>,
}

/// The removal of a queue, in steps of bounded size.
#[derive(Debug)]
pub(crate) struct Removal {
    /// Whether its jobs are removed as well.
    pub(crate) force: bool,
    /// The number of removed jobs.
    pub(crate) jobs: u64,
    /// What is removed next: waiting jobs, leased ones, and each kind of finished ones.
    pub(crate) phase: usize,
    pub(crate) sweep: Sweep,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Cursor {
    Due(Place),
    Finished(Time, JobId),
}

impl Sweep {
    pub(crate) fn new(queue: String) -> Self {
        Self {
            queue,
            state: State::Dead,
            before: Time::MAX,
            at_most: u64::MAX,
            done: 0,
            from: None,
        }
    }

    fn restart(&mut self) {
        (self.done, self.from) = (0, None);
    }
}

#[derive(Debug)]
pub(crate) enum Outcome {
    /// Also returns the jobs, so that the caller's thread frees them and not the writer's.
    Puts(Vec<Result<Put, Error>>, Vec<NewJob>),
    PutOnce(Result<PutOnce, Error>, Vec<NewJob>),
    States(Vec<Result<State, Error>>),
    Times(Vec<Result<Time, Error>>),
    Units(Vec<Result<(), Error>>),
    Count(Result<u64, Error>),
    Schedule(Result<PutSchedule, Error>),
    Settings(Result<Box<QueueSettings>, Error>),
    Group(Result<GroupSettings, Error>),
    /// The command was refused as a whole.
    Refused(Error),
    /// A step is done. Apply the command again in the next group.
    More,
}

/// The result of a put.
///
/// ```
/// use tickwheel_queue::{NewJob, PutKind, Queues};
///
/// let queues = Queues::in_memory();
/// let put = queues.put(NewJob::new("mail", "hello")).wait()?;
/// assert_eq!(put.kind, PutKind::Created);
/// assert!(queues.get(put.id).wait()?.is_some());
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Put {
    /// The new job, or the one that keeps the key.
    pub id: JobId,
    /// What the put did.
    pub kind: PutKind,
    /// When it is due.
    pub due: Time,
}

/// How a put ended.
///
/// ```
/// use tickwheel_queue::{JobId, PutKind};
/// assert_ne!(PutKind::Created, PutKind::Kept);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutKind {
    /// A new job.
    Created,
    /// A new job, and the one that had its key before is cancelled.
    Replaced(JobId),
    /// The job that had the key stays, and nothing changed.
    Kept,
}
