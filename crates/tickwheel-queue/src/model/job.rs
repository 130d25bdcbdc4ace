//! Jobs: as callers put them, and as they see them in a queue.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::model::history::Attempt;
use crate::model::id::JobId;
use crate::model::retry::RetryPolicy;
use crate::model::settings::Order;
use crate::model::time::{Now, Time};

/// When a job becomes due: after a delay, or at a time.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tickwheel_queue::{Time, When};
///
/// assert_eq!(When::from(Duration::from_secs(1)), When::After(Duration::from_secs(1)));
/// assert_eq!(When::from(SystemTime::UNIX_EPOCH), When::At(Time::from_millis(0)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// This long after the command is applied; zero means at once.
    After(Duration),
    /// At this time; a time in the past means at once.
    At(Time),
}

impl When {
    pub(crate) fn due(self, now: Now) -> Time {
        match self {
            Self::After(delay) => now.after(delay),
            Self::At(time) => time,
        }
    }
}

impl From<Duration> for When {
    fn from(delay: Duration) -> Self {
        Self::After(delay)
    }
}

impl From<SystemTime> for When {
    fn from(time: SystemTime) -> Self {
        Self::At(time.into())
    }
}

impl From<Time> for When {
    fn from(time: Time) -> Self {
        Self::At(time)
    }
}

/// What a put does when a live job of the queue has the same key.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{NewJob, OnConflict, PutKind, Queues};
///
/// let queues = Queues::in_memory();
/// let close = |on_conflict| {
///     NewJob::new("orders", "close").key("order-42").on_conflict(on_conflict)
/// };
/// let first = queues.put(close(OnConflict::Reject)).wait()?;
/// assert_eq!(queues.put(close(OnConflict::Keep)).wait()?.id, first.id);
/// assert!(queues.put(close(OnConflict::Reject)).wait().is_err());
/// let second = queues.put(close(OnConflict::Replace)).wait()?;
/// assert_eq!(second.kind, PutKind::Replaced(first.id));
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// The new job replaces the old one, which is cancelled even if a worker has it.
    #[default]
    Replace,
    /// The old job stays, and the new one is not put.
    Keep,
    /// The put is refused with [`Error::KeyExists`](crate::Error::KeyExists).
    Reject,
}

/// A job to be put.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{NewJob, RetryPolicy};
///
/// let job = NewJob::new("orders", r#"{"order":42}"#)
///     .delay(Duration::from_secs(30 * 60))
///     .key("order-42")
///     .priority(5)
///     .header("content-type", "application/json")
///     .max_attempts(3)
///     .retry(RetryPolicy::fixed(Duration::from_secs(10)));
/// assert_eq!(job.queue, "orders");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewJob {
    /// The queue. Its first job creates it.
    pub queue: String,
    /// The payload, which the queue does not interpret.
    pub payload: Bytes,
    /// Names and values beside the payload, in the given order.
    pub headers: Vec<(String, String)>,
    /// When it becomes due.
    pub when: When,
    /// A key chosen by the caller, unique among the live jobs of the queue.
    pub key: Option<String>,
    /// What happens if a live job has the key.
    pub on_conflict: OnConflict,
    /// The priority. Of two jobs due in the same millisecond, the one with the higher priority goes
    /// first.
    pub priority: i8,
    /// The maximum number of deliveries. Defaults to the queue's setting.
    pub max_attempts: Option<u32>,
    /// The delay before the next attempt. Defaults to the queue's setting.
    pub retry: Option<RetryPolicy>,
    /// The group, for queues that pace or serve their groups.
    pub group: Option<String>,
    /// The id. Defaults to a new one.
    pub id: Option<JobId>,
    /// The longest time from the first put with this key until a job that replaces it is due.
    pub max_total_delay: Option<Duration>,
    /// A job to put when this one is acknowledged.
    pub on_success: Option<Box<FollowUp>>,
    /// A job to put when this one dies.
    pub on_death: Option<Box<FollowUp>>,
    /// The order of the queue, if this put creates it.
    pub queue_order: Option<Order>,
}

impl NewJob {
    /// Returns roughly how much memory it holds.
    pub(crate) fn bytes(&self) -> usize {
        let headers = self.headers.iter();
        size_of::<Self>()
            + self.queue.len()
            + self.payload.len()
            + headers.map(|it| size_of_val(it) + it.0.len() + it.1.len()).sum::<usize>()
            + self.key.as_ref().map_or(0, String::len)
            + self.group.as_ref().map_or(0, String::len)
            + self.retry.as_ref().map_or(0, RetryPolicy::bytes)
            + self.on_success.as_ref().map_or(0, |it| it.bytes())
            + self.on_death.as_ref().map_or(0, |it| it.bytes())
    }

    /// Creates a job that is due at once.
    pub fn new(queue: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self {
            queue: queue.into(),
            payload: payload.into(),
            headers: Vec::new(),
            when: When::After(Duration::ZERO),
            key: None,
            on_conflict: OnConflict::default(),
            priority: 0,
            max_attempts: None,
            retry: None,
            group: None,
            id: None,
            max_total_delay: None,
            on_success: None,
            on_death: None,
            queue_order: None,
        }
    }

    /// Makes the job due this long after the command is applied.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.when = When::After(delay);
        self
    }

    /// Makes the job due at this time.
    #[must_use]
    pub fn at(mut self, time: impl Into<Time>) -> Self {
        self.when = When::At(time.into());
        self
    }

    /// Sets the key, which is unique among the live jobs of the queue: scheduled, ready and leased
    /// ones.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets what happens if a live job has the key. By default the new job replaces it.
    #[must_use]
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.on_conflict = on_conflict;
        self
    }

    /// Sets the priority. Defaults to 0. Of two jobs due in the same millisecond, the one with the
    /// higher priority goes first.
    #[must_use]
    pub fn priority(mut self, priority: i8) -> Self {
        self.priority = priority;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the maximum number of deliveries, after which the job is dead.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// Sets the job's own retry policy.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(policy);
        self
    }

    /// Sets the group, for example one per customer, for queues that pace or serve their groups.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Sets an id chosen by the caller. A put with an existing id is refused, so a put whose answer
    /// was lost can be repeated.
    ///
    /// ```
    /// use tickwheel_queue::{Error, JobId, NewJob, Queues, Time};
    ///
    /// let queues = Queues::in_memory();
    /// let job = NewJob::new("mail", "hello").id(JobId::new(Time::from_millis(1)));
    /// let id = queues.put(job.clone()).wait()?.id;
    /// assert_eq!(queues.put(job).wait(), Err(Error::IdExists { id }));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }
}

impl NewJob {
    /// Limits how long replacing puts can postpone a job: it is due at the latest this long after
    /// the first of them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::ManualClock;
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let clock = ManualClock::new();
    /// let queues = Queues::builder().clock(clock.clone()).in_memory()?;
    /// let seconds = Duration::from_secs;
    /// // Index a document when it has not changed for 10 s, but at least every 25 s.
    /// let index = || {
    ///     NewJob::new("index", "doc 7").key("doc-7").delay(seconds(10)).max_total_delay(seconds(25))
    /// };
    /// for _ in 0..3 {
    ///     queues.put(index()).wait()?;
    ///     clock.advance(seconds(8));
    /// }
    /// queues.put(index()).wait()?;
    /// assert!(queues.reserve("index", 1, None).wait()?.is_empty());
    /// clock.advance(seconds(2));
    /// assert_eq!(queues.reserve("index", 1, None).wait()?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn max_total_delay(mut self, delay: Duration) -> Self {
        self.max_total_delay = Some(delay);
        self
    }

    /// Sets the order of the queue if this put creates it. Such a queue has no settings of its own:
    /// it is removed when it is empty and was not used for a day.
    #[must_use]
    pub fn queue_order(mut self, order: Order) -> Self {
        self.queue_order = Some(order);
        self
    }

    /// Puts another job, with the result as its payload, in the commit that acknowledges this one.
    #[must_use]
    pub fn on_success(mut self, follow_up: FollowUp) -> Self {
        self.on_success = Some(Box::new(follow_up));
        self
    }

    /// Puts another job, with the same payload and headers, in the commit in which this one dies.
    #[must_use]
    pub fn on_death(mut self, follow_up: FollowUp) -> Self {
        self.on_death = Some(Box::new(follow_up));
        self
    }
}

/// A job that is put when another one ends, in the same commit. Its header `tickwheel-parent` is
/// the id of that job; after a death, `tickwheel-error` is its last error.
///
/// ```
/// use tickwheel_queue::{FollowUp, NewJob, Queues};
///
/// let queues = Queues::in_memory();
/// let resize = NewJob::new("resize", "cat.jpg").on_success(FollowUp::to("publish"));
/// queues.put(resize).wait()?;
/// let lease = queues.reserve("resize", 1, None).wait()?[0].lease;
/// queues.ack_with_result(lease, "cat-small.jpg").wait()?;
/// let publish = &queues.reserve("publish", 1, None).wait()?[0];
/// assert_eq!(&publish.job.payload[..], b"cat-small.jpg");
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowUp {
    /// The queue of the follow-up. The caller of the put needs access to it.
    pub queue: String,
    /// The delay from the end of the other job.
    pub delay: Duration,
    /// Headers beside those that are always set.
    pub headers: Vec<(String, String)>,
}

impl FollowUp {
    /// The header with the id of the job that ended.
    pub const PARENT_HEADER: &str = "tickwheel-parent";

    /// The header with the last error of a job that died.
    pub const ERROR_HEADER: &str = "tickwheel-error";

    /// Creates a follow-up that is due at once.
    pub fn to(queue: impl Into<String>) -> Self {
        Self { queue: queue.into(), delay: Duration::ZERO, headers: Vec::new() }
    }

    /// Makes the follow-up due this long after the other job has ended.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Returns roughly how much memory it holds.
    pub(crate) fn bytes(&self) -> usize {
        let headers = self.headers.iter();
        size_of::<Self>()
            + self.queue.len()
            + headers.map(|it| size_of_val(it) + it.0.len() + it.1.len()).sum::<usize>()
    }
}

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
