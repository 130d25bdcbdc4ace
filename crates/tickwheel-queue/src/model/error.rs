//! The errors of operations and of opening, and what to do about them.

use std::fmt;
use std::path::PathBuf;

use crate::model::id::JobId;
use crate::model::job::{JobRef, State};

/// A limit that was exceeded; see [`Limits`](crate::Limits).
///
/// ```
/// use tickwheel_queue::Limit;
/// assert_eq!(Limit::Payload.to_string(), "bytes of a payload");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// `Limits::payload`
    Payload,
    /// `Limits::headers`
    Headers,
    /// `Limits::key`, for a key
    Key,
    /// `Limits::key`, for a group
    Group,
    /// `Limits::queue_name`
    QueueName,
    /// `Limits::batch`
    Batch,
    /// `Limits::queues`
    Queues,
    /// `Limits::pending`
    Pending,
    /// `Limits::leased`
    Leased,
    /// `Limits::disk`
    Disk,
    /// `Limits::schedules`
    Schedules,
    /// `Limits::targets`
    Targets,
    /// `Limits::queue_name`, for a push target
    TargetName,
    /// `Limits::queue_name`, for a schedule
    ScheduleName,
    /// [`Job::MAX_RESULT_BYTES`](crate::Job::MAX_RESULT_BYTES)
    Result,
    /// [`GroupSettings::MAX_GROUPS`](crate::GroupSettings::MAX_GROUPS)
    GroupSettings,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Payload => "bytes of a payload",
            Self::Headers => "bytes of a job's headers",
            Self::Key => "bytes of a key",
            Self::Group => "bytes of a group",
            Self::QueueName => "bytes of a queue's name",
            Self::Batch => "items of a batch",
            Self::Queues => "queues",
            Self::Pending => "pending jobs",
            Self::Leased => "leased jobs",
            Self::Disk => "bytes on disk",
            Self::Schedules => "schedules",
            Self::Targets => "targets",
            Self::TargetName => "bytes of a target's name",
            Self::ScheduleName => "bytes of a schedule's name",
            Self::Result => "bytes of a result",
            Self::GroupSettings => "groups of a queue with settings",
        })
    }
}

/// Why a command was not carried out. Nothing has changed unless the variant says otherwise.
///
/// ```
/// use tickwheel_queue::{Error, JobId, Queues, Time};
///
/// let queues = Queues::in_memory();
/// let id = JobId::new(Time::from_millis(0));
/// let error = queues.cancel(id).wait().unwrap_err();
/// assert_eq!(error, Error::NotFound(id.into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The job does not exist: it was never put, or it has been removed.
    NotFound(JobRef),
    /// The queue does not exist. Its first job or `configure` creates it.
    NoSuchQueue(String),
    /// The schedule does not exist.
    NoSuchSchedule(String),
    /// The push target does not exist.
    NoSuchTarget(String),
    /// Queues name this push target, so it cannot be removed.
    TargetInUse {
        /// The target.
        target: String,
        /// One of the queues.
        queue: String,
    },
    /// The caller has no [`Access`](crate::Access) to all queues, which push targets require.
    ForbiddenTarget(String),
    /// The stored schedule cannot be read, or its time zone is unknown now. It puts no jobs until
    /// it is put again. Other schedules are not affected.
    DamagedSchedule {
        /// The schedule.
        name: String,
        /// What was found.
        why: String,
    },
    /// A live job has this key, and the put asked to be rejected in that case.
    KeyExists {
        /// The queue.
        queue: String,
        /// The key.
        key: String,
        /// The job with the key.
        id: JobId,
    },
    /// A job with this id exists.
    IdExists {
        /// The id.
        id: JobId,
    },
    /// The idempotency key was used with another request, and is still remembered.
    IdempotencyConflict {
        /// The key.
        key: String,
    },
    /// A new job cannot have this id: only schedules make ids of this form, or a job that the
    /// caller may not see has it.
    UnusableId {
        /// The id.
        id: JobId,
    },
    /// A schedule that the caller may not see has this name.
    UnusableName(String),
    /// The caller named a queue to which it has no [`Access`](crate::Access).
    Forbidden(String),
    /// The caller's [`Access`](crate::Access) was revoked.
    Revoked,
    /// The lease has ended: it expired, or the job was acknowledged, failed, released, cancelled or
    /// delivered again. Another worker may repeat the work.
    StaleLease {
        /// The job.
        id: JobId,
    },
    /// The job's state does not allow this operation.
    WrongState {
        /// The job.
        id: JobId,
        /// Its state.
        state: State,
        /// The operation.
        action: &'static str,
    },
    /// The queue has jobs, and `force` was not given.
    QueueNotEmpty {
        /// The queue.
        queue: String,
        /// The number of its jobs, finished ones included.
        jobs: u64,
    },
    /// A limit was exceeded.
    OverLimit {
        /// The limit.
        limit: Limit,
        /// The maximum.
        allowed: u64,
        /// The value that was refused.
        found: u64,
    },
    /// The disk is full. Nothing was changed; reads still work.
    DiskFull {
        /// Bytes that are free.
        free: u64,
        /// Bytes that must be free.
        needed: u64,
    },
    /// The caller of `reserve_while` did not admit the first ready job, which stays ready.
    NotAdmitted,
    /// A value is out of bounds. The text of the error names the field.
    Invalid {
        /// The field, with dots between levels: `pacing.starts`.
        field: String,
        /// What the value must be and what it is, to be read after the field's name.
        why: String,
    },
    /// The stored job cannot be read. Other jobs are not affected.
    Damaged {
        /// The job.
        id: JobId,
        /// What was found.
        why: String,
    },
    /// A read failed; the text is the store's.
    Unreadable(String),
    /// The store failed. Whether this command is durable is unknown: check before repeating it.
    /// Requests are refused until the store is open again, which is tried each second.
    Failed(String),
    /// The store is being opened again after a failure; this command was not started. Try again
    /// later.
    Unavailable(String),
    /// The queue was closed; this command was not started.
    Closed,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(job) => write!(f, "there is no {job}, or it is finished"),
            Self::NoSuchQueue(name) => write!(
                f,
                "there is no queue {name:?}: it comes into being with its first job or settings"
            ),
            Self::NoSuchSchedule(name) => write!(f, "there is no schedule {name:?}"),
            Self::NoSuchTarget(name) => {
                write!(f, "there is no target {name:?}: add it first, or check its name")
            }
            Self::TargetInUse { target, queue } => write!(
                f,
                "queue {queue:?} names target {target:?}: give the queue another target, or none, \
                 and then remove this one"
            ),
            Self::ForbiddenTarget(name) => write!(
                f,
                "target {name:?} requires access to all queues, since queues share targets"
            ),
            Self::DamagedSchedule { name, why } => write!(
                f,
                "schedule {name:?} cannot be read: {why}. It puts nothing: put it again, or remove \
                 it"
            ),
            Self::KeyExists { queue, key, id } => write!(
                f,
                "queue {queue:?} has a live job with the key {key:?} already: {id}. Cancel it, or \
                 put with `replace` or `keep`"
            ),
            Self::IdExists { id } => write!(
                f,
                "there is a job {id} already: if this repeats a put, the first put succeeded; otherwise \
                 use a new id"
            ),
            Self::IdempotencyConflict { key } => write!(
                f,
                "the idempotency key {key:?} was used with another request: use a new key for a \
                 new request"
            ),
            Self::UnusableId { id } => {
                write!(f, "the id {id} cannot be used: choose another UUID, of version 4 or 7")
            }
            Self::UnusableName(name) => {
                write!(f, "the schedule name {name:?} cannot be used: choose another name")
            }
            Self::Forbidden(queue) => write!(f, "access does not include queue {queue:?}"),
            Self::Revoked => f.write_str("access was revoked"),
            Self::StaleLease { id } => write!(
                f,
                "the lease of job {id} is over, or the token is not that of its last delivery, and \
                 nothing was changed: the lease expired, or the job was finished, cancelled or \
                 delivered again. Reserve with a longer lease, or extend it in time"
            ),
            Self::WrongState { id, state, action } => {
                write!(f, "job {id} is {state}: it cannot be {action}")
            }
            Self::QueueNotEmpty { queue, jobs: 1 } => write!(
                f,
                "queue {queue:?} has 1 job: cancel or remove it first, or force the removal"
            ),
            Self::QueueNotEmpty { queue, jobs } => write!(
                f,
                "queue {queue:?} has {jobs} jobs: cancel and remove them first, or force its removal"
            ),
            Self::OverLimit { limit, allowed, found } => {
                write!(f, "over the limit of {allowed} {limit}: {found}")
            }
            Self::DiskFull { free, needed } => write!(
                f,
                "the disk is full: this needs {} MiB and {} MiB are free. Nothing was changed. \
                 Free space on the disk, or cancel or remove jobs",
                needed.div_ceil(1 << 20),
                free >> 20
            ),
            Self::NotAdmitted => {
                f.write_str("the first ready job was not admitted, and nothing was leased")
            }
            Self::Invalid { field, why } => write!(f, "{field} {why}"),
            Self::Damaged { id, why } => write!(f, "job {id} is damaged in the store: {why}"),
            Self::Unreadable(why) => write!(f, "the store could not be read: {why}"),
            Self::Failed(why) => write!(
                f,
                "the store failed, and whether this is durable is unknown: {why}. Look before \
                 repeating it"
            ),
            Self::Unavailable(why) => {
                write!(f, "the store failed and is not open again yet: {why}. Try again later")
            }
            Self::Closed => f.write_str("the queue is closed"),
        }
    }
}

impl std::error::Error for Error {}

/// Why a queue could not be opened.
///
/// ```
/// use tickwheel_queue::{OpenError, Queues};
///
/// let folder = tempfile::tempdir()?;
/// let queues = Queues::open(folder.path())?;
/// assert!(matches!(Queues::open(folder.path()), Err(OpenError::Locked { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process, or this one, has the directory open.
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// A newer Tickwheel wrote the directory.
    NewerVersion {
        /// The directory.
        path: PathBuf,
        /// The format of the directory.
        found: u32,
        /// The newest format that this Tickwheel knows.
        known: u32,
    },
    /// The directory holds something else.
    NotAQueue {
        /// The directory.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// The operating system reported an error.
    Io {
        /// The directory.
        path: PathBuf,
        /// The text of the error.
        why: String,
    },
    /// Acknowledged data cannot be read. Nothing was changed.
    Damaged {
        /// The directory.
        path: PathBuf,
        /// What was found, and where.
        why: String,
    },
    /// A setting of the builder is out of bounds.
    Setting(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { path } => write!(
                f,
                "{} is open already, in another process or in this one: close it there, or take \
                 another directory",
                path.display()
            ),
            Self::NewerVersion { path, found, known } => write!(
                f,
                "{} has format {found}, and this version knows formats up to {known}: use a newer \
                 version",
                path.display()
            ),
            Self::NotAQueue { path, why } => write!(
                f,
                "{} is not a queue's directory ({why}): use an empty or a new one",
                path.display()
            ),
            Self::Io { path, why } => write!(f, "{}: {why}", path.display()),
            Self::Damaged { path, why } => write!(
                f,
                "{} is damaged: {why}. Nothing was changed. Restore it from a copy, or open it \
                 with `salvage` to go on with what can be read",
                path.display()
            ),
            Self::Setting(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for OpenError {}
