//! Queues and their settings.

use serde::{Deserialize, Serialize};

use super::{Delay, Percentiles};

/// The delay before a failed job is retried.
///
/// ```
/// use tickwheel_api::Retry;
/// let fixed: Retry = serde_json::from_str(r#"{"fixed": "10s"}"#)?;
/// let doubling: Retry =
///     serde_json::from_str(r#"{"exponential": {"first": "1s", "max": "1h", "jitter": 20}}"#)?;
/// let list: Retry = serde_json::from_str(r#"{"list": ["1s", "10s", "1m"]}"#)?;
/// assert_ne!(fixed, list);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Retry {
    /// The same delay each time.
    Fixed(Delay),
    /// A delay that doubles each time.
    Exponential(Exponential),
    /// One delay for each retry; the last one repeats.
    List(Vec<Delay>),
}

/// A delay that doubles with each attempt, up to a maximum.
///
/// ```
/// use tickwheel_api::Exponential;
/// let retry: Exponential = serde_json::from_str(r#"{"first": "1s", "max": "1h"}"#)?;
/// assert_eq!(retry.jitter, 0);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Exponential {
    /// The delay after the first attempt.
    pub first: Delay,
    /// The longest delay, without jitter.
    pub max: Delay,
    /// A random addition of up to this many percent. Defaults to 0.
    #[serde(default)]
    pub jitter: u8,
}

/// Limits for deliveries. Without `starts` and `window` their rate is not limited, without
/// `concurrency` the number of leased jobs is not.
///
/// ```
/// use tickwheel_api::Pacing;
/// let pacing: Pacing = serde_json::from_str(r#"{"starts": 100, "window": "1s"}"#)?;
/// assert!(pacing.concurrency.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Pacing {
    /// The maximum number of deliveries in any window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub starts: Option<u32>,
    /// The length of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Delay>,
    /// The maximum number of leased jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub concurrency: Option<u32>,
}

/// How long finished jobs are kept: up to an age and up to a number. An absent bound is no bound.
///
/// ```
/// use tickwheel_api::Keep;
/// let keep: Keep = serde_json::from_str(r#"{"age": "7d", "count": 1000}"#)?;
/// assert_eq!(keep.count, Some(1_000));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Keep {
    /// How long a job is kept after it finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<Delay>,
    /// The maximum number of jobs; 0 keeps none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// How long finished jobs are kept, by their state.
///
/// ```
/// use tickwheel_api::Retention;
/// assert_eq!(Retention::default().done.count, Some(0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Retention {
    /// Jobs that were acknowledged. Defaults to keeping none.
    pub done: Keep,
    /// Jobs whose last attempt failed. Defaults to keeping all.
    pub dead: Keep,
    /// Jobs that were cancelled or replaced. Defaults to keeping none.
    pub cancelled: Keep,
}

impl Default for Retention {
    fn default() -> Self {
        let none = Keep { age: None, count: Some(0) };
        Self { done: none.clone(), dead: Keep::default(), cancelled: none }
    }
}

/// The order in which the ready jobs of a queue are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Order {
    /// By due time; priority decides among jobs due in the same millisecond.
    #[default]
    Due,
    /// By priority, the highest first, then by due time.
    Priority,
}

/// The settings of a queue. A field that a request leaves out gets its default.
///
/// ```
/// use tickwheel_api::QueueSettings;
/// let settings: QueueSettings = serde_json::from_str(r#"{"lease": "1m"}"#)?;
/// assert_eq!(settings.max_attempts, 10);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueSettings {
    /// The duration of a lease, where the worker names none. Defaults to 30 s.
    pub lease: Delay,
    /// The maximum number of attempts, where the job names none. Defaults to 10.
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub max_attempts: u32,
    /// The delay before a retry, where the job names none. Defaults to one second that doubles up
    /// to an hour, with 20 % jitter.
    pub retry: Retry,
    /// The limits of the whole queue. Defaults to none.
    pub pacing: Pacing,
    /// The limits of each of its groups. Defaults to none.
    pub group_pacing: Pacing,
    /// How long finished jobs are kept.
    pub retention: Retention,
    /// The order in which ready jobs are delivered. Defaults to `due`.
    pub order: Order,
    /// The name of the target that gets the jobs. Defaults to none: workers reserve them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Whether groups are served in turn, one job each. Jobs without a group count as one group.
    /// Defaults to `false`.
    pub fair_groups: bool,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            lease: Delay::from_millis(30_000),
            max_attempts: 10,
            retry: Retry::Exponential(Exponential {
                first: Delay::from_millis(1_000),
                max: Delay::from_millis(3_600_000),
                jitter: 20,
            }),
            pacing: Pacing::default(),
            group_pacing: Pacing::default(),
            retention: Retention::default(),
            order: Order::default(),
            target: None,
            fair_groups: false,
        }
    }
}

/// A change of a queue's settings: absent fields stay as they are.
///
/// ```
/// use tickwheel_api::QueueSettingsPatch;
/// let patch: QueueSettingsPatch = serde_json::from_str(r#"{"max_attempts": 3}"#)?;
/// assert_eq!(patch.apply(Default::default()).max_attempts, 3);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueSettingsPatch {
    /// The duration of a lease, where the worker names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Delay>,
    /// The maximum number of attempts, where the job names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub max_attempts: Option<u32>,
    /// The delay before a retry, where the job names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The limits of the whole queue, replaced as one; `{}` removes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Pacing>,
    /// The limits of each of its groups, replaced as one; `{}` removes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_pacing: Option<Pacing>,
    /// How long finished jobs are kept, for the given states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<RetentionPatch>,
    /// The order in which ready jobs are delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// The name of the target that gets the jobs; an empty text removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Whether groups are served in turn, one job each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair_groups: Option<bool>,
}

impl QueueSettingsPatch {
    /// Returns the settings with the given fields changed.
    #[must_use]
    pub fn apply(self, settings: QueueSettings) -> QueueSettings {
        let patch = self.retention.unwrap_or_default();
        let retention = settings.retention;
        QueueSettings {
            lease: self.lease.unwrap_or(settings.lease),
            max_attempts: self.max_attempts.unwrap_or(settings.max_attempts),
            retry: self.retry.unwrap_or(settings.retry),
            pacing: self.pacing.unwrap_or(settings.pacing),
            group_pacing: self.group_pacing.unwrap_or(settings.group_pacing),
            retention: Retention {
                done: patch.done.unwrap_or(retention.done),
                dead: patch.dead.unwrap_or(retention.dead),
                cancelled: patch.cancelled.unwrap_or(retention.cancelled),
            },
            order: self.order.unwrap_or(settings.order),
            target: match self.target {
                Some(target) => Some(target).filter(|target| !target.is_empty()),
                None => settings.target,
            },
            fair_groups: self.fair_groups.unwrap_or(settings.fair_groups),
        }
    }
}

/// A change of how long finished jobs are kept: absent states stay as they are.
///
/// ```
/// use tickwheel_api::RetentionPatch;
/// let patch: RetentionPatch = serde_json::from_str(r#"{"done": {"age": "1d"}}"#)?;
/// assert!(patch.dead.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RetentionPatch {
    /// Jobs that were acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<Keep>,
    /// Jobs whose last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead: Option<Keep>,
    /// Jobs that were cancelled or replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<Keep>,
}

/// The number of a queue's jobs in each state.
///
/// ```
/// use tickwheel_api::Counts;
/// let counts: Counts = serde_json::from_str(
///     r#"{"scheduled": 5, "ready": 1, "leased": 2, "dead": 0, "done": 0, "cancelled": 0}"#,
/// )?;
/// assert_eq!(counts.scheduled + counts.ready + counts.leased, 8);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Counts {
    /// Jobs that are not due yet, and ready ones that `ready` does not count.
    pub scheduled: u64,
    /// Jobs that wait for a worker.
    pub ready: u64,
    /// Jobs that workers have.
    pub leased: u64,
    /// Jobs whose last attempt failed.
    pub dead: u64,
    /// Acknowledged jobs that are kept.
    pub done: u64,
    /// Cancelled jobs that are kept.
    pub cancelled: u64,
}

/// A queue.
///
/// ```
/// use tickwheel_api::Queue;
/// let queue: Queue = serde_json::from_str(
///     r#"{"name": "mail", "paused": false, "more_ready": false, "settings": {},
///         "jobs": {"scheduled": 1, "ready": 0, "leased": 0, "dead": 0, "done": 0, "cancelled": 0}}"#,
/// )?;
/// assert_eq!(queue.jobs.scheduled, 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Queue {
    /// The name.
    pub name: String,
    /// Whether deliveries are paused.
    pub paused: bool,
    /// The number of jobs in each state.
    pub jobs: Counts,
    /// Whether more jobs are ready than memory holds; those count as scheduled.
    pub more_ready: bool,
    /// The settings.
    pub settings: QueueSettings,
    /// When the job was due that has been ready for the longest time; absent if none is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = DateTime, nullable = false))]
    pub oldest_ready: Option<String>,
    /// The same in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub oldest_ready_ms: Option<u64>,
    /// What has happened since the queue was created.
    #[serde(default)]
    pub counters: QueueCounters,
    /// How long after their due time jobs were delivered, since the start of the server.
    #[serde(default)]
    pub lateness: Percentiles,
}

/// What has happened in a queue since it was created. A restart does not reset these numbers.
///
/// ```
/// use tickwheel_api::QueueCounters;
/// let counters: QueueCounters = serde_json::from_str(r#"{"put": 12, "acked": 9}"#)?;
/// assert_eq!((counters.put, counters.failed), (12, 0));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueCounters {
    /// Jobs put.
    pub put: u64,
    /// Deliveries to workers.
    pub delivered: u64,
    /// Jobs acknowledged.
    pub acked: u64,
    /// Attempts that workers reported as failed.
    pub failed: u64,
    /// Leases that expired.
    pub expired: u64,
    /// Jobs released by workers.
    pub released: u64,
    /// Jobs that died.
    pub died: u64,
    /// Jobs cancelled or replaced.
    pub cancelled: u64,
    /// Dead jobs made ready again.
    pub kicked: u64,
}

/// All queues that the caller may see.
///
/// ```
/// use tickwheel_api::QueueList;
/// let list: QueueList = serde_json::from_str(r#"{"queues": []}"#)?;
/// assert!(list.queues.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueList {
    /// The queues, by name.
    pub queues: Vec<Queue>,
}

/// A request to make dead jobs ready again.
///
/// ```
/// use tickwheel_api::KickRequest;
/// let request: KickRequest = serde_json::from_str("{}")?;
/// assert!(request.limit.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KickRequest {
    /// The maximum number of jobs, the oldest first. Defaults to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// A state in which a job is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FinishedState {
    /// Jobs whose last attempt failed.
    Dead,
    /// Jobs that were acknowledged.
    Done,
    /// Jobs that were cancelled or replaced.
    Cancelled,
}

/// A request to remove finished jobs.
///
/// ```
/// use tickwheel_api::RemoveFinishedRequest;
/// let json = r#"{"state": "dead", "older_than": "7d"}"#;
/// let request: RemoveFinishedRequest = serde_json::from_str(json)?;
/// assert!(request.older_than.is_some());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RemoveFinishedRequest {
    /// The state of the jobs to remove.
    pub state: FinishedState,
    /// Remove only jobs that finished longer ago than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than: Option<Delay>,
}

/// The number of jobs that a request changed.
///
/// ```
/// use tickwheel_api::Count;
/// let count: Count = serde_json::from_str(r#"{"count": 3}"#)?;
/// assert_eq!(count.count, 3);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Count {
    /// The number.
    pub count: u64,
}
