//! Jobs as callers put them: payload, due time, key, retries and follow-ups.

use std::time::{Duration, SystemTime};

use bytes::Bytes;

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
    /// The group, for queues that pace their groups or serve them in turn.
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

    /// Sets the group, for example one per customer, for queues that pace their groups or serve
    /// them in turn.
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
    /// Limits how long puts with the same key can postpone a job: it is due this long after the
    /// first put at the latest.
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
