//! Jobs as callers see them in a queue: their state, and the leases of their workers.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::model::history::Attempt;
use crate::model::id::JobId;
use crate::model::new_job::FollowUp;
use crate::model::retry::RetryPolicy;
use crate::model::time::Time;

/// The state of a job.
///
/// ```
/// use tickwheel_queue::State;
/// assert!(State::Ready.is_live() && !State::Dead.is_live());
/// assert_eq!("dead".parse(), Ok(State::Dead));
/// assert_eq!(State::Scheduled.to_string(), "scheduled");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// It is not due yet.
    Scheduled,
    /// It is due and waits for a worker.
    Ready,
    /// A worker has it, until its lease expires.
    Leased,
    /// Its last attempt failed. It stays until it is kicked or removed.
    Dead,
    /// A worker acknowledged it. Kept only as the queue's retention says.
    Done,
    /// It was cancelled or replaced. Kept only as the queue's retention says.
    Cancelled,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Scheduled, Self::Ready, Self::Leased, Self::Dead, Self::Done, Self::Cancelled];

    /// Returns `true` for a live job: scheduled, ready or leased.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Scheduled | Self::Ready | Self::Leased)
    }

    /// Returns the name, in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Dead => "dead",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for State {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            format!("{text:?} is not a state: use one of {names}")
        })
    }
}

/// A job in a queue.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{NewJob, Queues, State};
///
/// let queues = Queues::in_memory();
/// let id = queues.put(NewJob::new("mail", "hello").delay(Duration::from_secs(60))).wait()?.id;
/// let job = queues.get(id).wait()?.unwrap();
/// assert_eq!((job.state, job.attempts), (State::Scheduled, 0));
/// assert!(job.due.since(job.created) >= Duration::from_secs(60));
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Job {
    /// The id.
    pub id: JobId,
    /// The queue.
    pub queue: Arc<str>,
    /// The state.
    pub state: State,
    /// The key chosen by the caller.
    pub key: Option<String>,
    /// Its priority.
    pub priority: i8,
    /// When it is due, or was due last.
    pub due: Time,
    /// When it was put.
    pub created: Time,
    /// The number of deliveries, including the current one.
    pub attempts: u32,
    /// The maximum number of deliveries; `None` for the queue's setting.
    pub max_attempts: Option<u32>,
    /// The retry policy; `None` for the queue's setting.
    pub retry: Option<RetryPolicy>,
    /// The group.
    pub group: Option<String>,
    /// When its lease began, if it is leased.
    pub leased_since: Option<Time>,
    /// When its lease ends, if it is leased.
    pub leased_until: Option<Time>,
    /// The worker that has it, if it is leased and the worker gave a name.
    pub worker: Option<Arc<str>>,
    /// When it became dead, done or cancelled.
    pub finished: Option<Time>,
    /// The error of the last failed attempt.
    pub last_error: Option<String>,
    /// Its headers.
    pub headers: Vec<(String, String)>,
    /// The payload.
    pub payload: Bytes,
    /// The job that is put when it is acknowledged.
    pub on_success: Option<Box<FollowUp>>,
    /// The job that is put when it dies.
    pub on_death: Option<Box<FollowUp>>,
    /// The result that its worker gave with the acknowledgement. Only `get` reads it; lists omit
    /// it.
    pub result: Option<Bytes>,
    /// Its last attempts that have ended, the oldest first. Only `get` reads them; lists omit them.
    pub history: Vec<Attempt>,
}

/// Bytes of payloads and headers in one answer. The job that exceeds them is the last, so no job is
/// too large to be delivered.
pub(crate) const ANSWER_BYTES: usize = 16 << 20;

impl Job {
    /// The largest size of a result, in bytes.
    pub const MAX_RESULT_BYTES: usize = 64 << 10;

    /// Returns the approximate size of the job in an answer.
    pub(crate) fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len());
        let result = self.result.as_ref().map_or(0, Bytes::len);
        let attempts = self.history.iter().map(Attempt::bytes);
        self.payload.len() + headers.sum::<usize>() + result + attempts.sum::<usize>()
    }
}

/// A job by its id, or by its key in a queue.
///
/// ```
/// use tickwheel_queue::{JobId, JobRef, Time};
///
/// let id = JobId::new(Time::from_millis(0));
/// assert_eq!(JobRef::from(id), JobRef::Id(id));
/// assert_eq!(JobRef::from(("orders", "order-42")).to_string(), r#"key "order-42" of queue "orders""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum JobRef {
    /// By its id.
    Id(JobId),
    /// The live job with this key.
    Key {
        /// The queue.
        queue: String,
        /// The key.
        key: String,
    },
}

impl JobRef {
    /// Returns roughly how much memory it holds.
    pub(crate) fn bytes(&self) -> usize {
        let names = match self {
            Self::Id(_) => 0,
            Self::Key { queue, key } => queue.len() + key.len(),
        };
        size_of::<Self>() + names
    }
}

impl From<JobId> for JobRef {
    fn from(id: JobId) -> Self {
        Self::Id(id)
    }
}

impl<Q: Into<String>, K: Into<String>> From<(Q, K)> for JobRef {
    fn from((queue, key): (Q, K)) -> Self {
        Self::Key { queue: queue.into(), key: key.into() }
    }
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "job {id}"),
            Self::Key { queue, key } => write!(f, "key {key:?} of queue {queue:?}"),
        }
    }
}

/// A worker's right to a delivered job: its id, and the token of this one delivery.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{Lease, NewJob, Queues};
///
/// let queues = Queues::in_memory();
/// queues.put(NewJob::new("mail", "hello")).wait()?;
/// let jobs = queues.reserve("mail", 1, Duration::from_secs(30)).wait()?;
/// let lease: Lease = jobs[0].lease;
/// queues.ack(lease).wait()?;
/// assert!(queues.ack(lease).wait().is_err()); // once
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The job.
    pub id: JobId,
    /// The token of this delivery of the job.
    pub token: u64,
}

/// A job that was delivered to a worker.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{NewJob, Queues, State};
///
/// let queues = Queues::in_memory();
/// queues.put(NewJob::new("mail", "hello")).wait()?;
/// let delivered = &queues.reserve("mail", 1, Duration::from_secs(30)).wait()?[0];
/// assert_eq!((delivered.job.state, delivered.job.attempts), (State::Leased, 1));
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// The lease, which `ack`, `fail`, `extend` and `release` require.
    pub lease: Lease,
    /// The job, with its payload.
    pub job: Job,
}
