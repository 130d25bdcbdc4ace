//! Queues and their settings.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_queue as queue;
use utoipa::ToSchema;

use super::Delay;

/// How long a failed job waits for its next attempt.
///
/// ```
/// use tickwheel_server::api::Retry;
/// let fixed: Retry = serde_json::from_str(r#"{"fixed": "10s"}"#)?;
/// let doubling: Retry =
///     serde_json::from_str(r#"{"exponential": {"first": "1s", "max": "1h", "jitter": 20}}"#)?;
/// let list: Retry = serde_json::from_str(r#"{"list": ["1s", "10s", "1m"]}"#)?;
/// assert_ne!(fixed, list);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Retry {
    /// Always the same.
    Fixed(Delay),
    /// Twice as long each time.
    #[serde(rename_all = "lowercase")]
    Exponential {
        /// After the first attempt.
        first: Delay,
        /// Never longer than this, jitter aside.
        max: Delay,
        /// Up to this many percent more, by chance; 0 if this is not given.
        #[serde(default)]
        #[schema(maximum = 100)]
        jitter: u8,
    },
    /// One after the other; the last one for all further attempts.
    List(Vec<Delay>),
}

impl From<&queue::RetryPolicy> for Retry {
    fn from(policy: &queue::RetryPolicy) -> Self {
        match policy {
            queue::RetryPolicy::Fixed(delay) => Self::Fixed(Delay(*delay)),
            queue::RetryPolicy::Exponential { first, max, jitter } => {
                Self::Exponential { first: Delay(*first), max: Delay(*max), jitter: *jitter }
            }
            queue::RetryPolicy::List(delays) => {
                Self::List(delays.iter().copied().map(Delay).collect())
            }
        }
    }
}

impl From<Retry> for queue::RetryPolicy {
    fn from(retry: Retry) -> Self {
        match retry {
            Retry::Fixed(delay) => Self::Fixed(delay.0),
            Retry::Exponential { first, max, jitter } => {
                Self::Exponential { first: first.0, max: max.0, jitter }
            }
            Retry::List(delays) => Self::List(delays.into_iter().map(|delay| delay.0).collect()),
        }
    }
}

/// How fast jobs may start, and how many may be out at once. Without `starts` and `window` at any
/// pace, without `concurrency` any number.
///
/// ```
/// use tickwheel_server::api::Pacing;
/// let pacing: Pacing = serde_json::from_str(r#"{"starts": 100, "window": "1s"}"#)?;
/// assert!(pacing.concurrency.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Pacing {
    /// At most so many deliveries in any window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub starts: Option<u32>,
    /// How long a window is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Delay>,
    /// At most so many leased jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub concurrency: Option<u32>,
}

impl From<queue::Pacing> for Pacing {
    fn from(pacing: queue::Pacing) -> Self {
        Self {
            starts: pacing.starts.map(|(starts, _)| starts),
            window: pacing.starts.map(|(_, window)| Delay(window)),
            concurrency: pacing.concurrency,
        }
    }
}

/// How finished jobs are kept: up to an age, and up to a number. What is not given is no bound.
///
/// ```
/// use tickwheel_server::api::Keep;
/// let keep: Keep = serde_json::from_str(r#"{"age": "7d", "count": 1000}"#)?;
/// assert_eq!(keep.count, Some(1_000));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Keep {
    /// For this long after it finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<Delay>,
    /// At most so many; 0 keeps none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl From<queue::Keep> for Keep {
    fn from(keep: queue::Keep) -> Self {
        if keep.age.is_zero() || keep.count == 0 {
            return Self { age: None, count: Some(0) };
        }
        Self {
            age: (keep.age != Duration::MAX).then_some(Delay(keep.age)),
            count: (keep.count != u64::MAX).then_some(keep.count),
        }
    }
}

impl From<Keep> for queue::Keep {
    fn from(keep: Keep) -> Self {
        Self {
            age: keep.age.map_or(Duration::MAX, |age| age.0),
            count: keep.count.unwrap_or(u64::MAX),
        }
    }
}

/// How finished jobs of each kind are kept.
///
/// ```
/// use tickwheel_server::api::Retention;
/// assert_eq!(Retention::default().done.count, Some(0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    /// Jobs that were acknowledged; without this none.
    pub done: Keep,
    /// Jobs whose last attempt failed; without this all.
    pub dead: Keep,
    /// Jobs that were cancelled or replaced; without this none.
    pub cancelled: Keep,
}

impl Default for Retention {
    fn default() -> Self {
        queue::Retention::default().into()
    }
}

impl From<queue::Retention> for Retention {
    fn from(retention: queue::Retention) -> Self {
        Self {
            done: retention.done.into(),
            dead: retention.dead.into(),
            cancelled: retention.cancelled.into(),
        }
    }
}

impl From<Retention> for queue::Retention {
    fn from(retention: Retention) -> Self {
        Self {
            done: retention.done.into(),
            dead: retention.dead.into(),
            cancelled: retention.cancelled.into(),
        }
    }
}

/// What is set for a queue. What a request leaves out is set to its default.
///
/// ```
/// use tickwheel_server::api::QueueSettings;
/// let settings: QueueSettings = serde_json::from_str(r#"{"lease": "1m"}"#)?;
/// assert_eq!(settings.max_attempts, 10);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QueueSettings {
    /// How long a worker has a job if it does not say; 30 s.
    pub lease: Delay,
    /// How often a job is tried if it does not say; 10.
    #[schema(minimum = 1)]
    pub max_attempts: u32,
    /// How long a failed job waits if it does not say; a second, doubling up to an hour, with up
    /// to 20 % more by chance.
    pub retry: Retry,
    /// The pace of the whole queue; none.
    pub pacing: Pacing,
    /// The pace of each of its groups; none.
    pub group_pacing: Pacing,
    /// How finished jobs are kept.
    pub retention: Retention,
}

impl Default for QueueSettings {
    fn default() -> Self {
        (&queue::QueueSettings::default()).into()
    }
}

impl From<&queue::QueueSettings> for QueueSettings {
    fn from(settings: &queue::QueueSettings) -> Self {
        Self {
            lease: Delay(settings.lease),
            max_attempts: settings.max_attempts,
            retry: (&settings.retry).into(),
            pacing: settings.pacing.into(),
            group_pacing: settings.group_pacing.into(),
            retention: settings.retention.into(),
        }
    }
}

/// What shall change in a queue's settings: the fields that are given.
///
/// ```
/// use tickwheel_server::api::QueueSettingsPatch;
/// let patch: QueueSettingsPatch = serde_json::from_str(r#"{"max_attempts": 3}"#)?;
/// assert!(patch.lease.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QueueSettingsPatch {
    /// How long a worker has a job if it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Delay>,
    /// How often a job is tried if it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_attempts: Option<u32>,
    /// How long a failed job waits if it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The pace of the whole queue, as a whole; `{}` is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Pacing>,
    /// The pace of each of its groups, as a whole; `{}` is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_pacing: Option<Pacing>,
    /// How finished jobs are kept, for the kinds that are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<RetentionPatch>,
}

impl QueueSettingsPatch {
    /// These settings with what is given changed.
    ///
    /// ```
    /// use tickwheel_server::api::{QueueSettings, QueueSettingsPatch};
    /// let patch = QueueSettingsPatch { max_attempts: Some(3), ..Default::default() };
    /// assert_eq!(patch.apply(QueueSettings::default()).max_attempts, 3);
    /// ```
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
        }
    }
}

/// What shall change in how finished jobs are kept.
///
/// ```
/// use tickwheel_server::api::RetentionPatch;
/// let patch: RetentionPatch = serde_json::from_str(r#"{"done": {"age": "1d"}}"#)?;
/// assert!(patch.dead.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
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

/// How many jobs a queue has in each state.
///
/// ```
/// use tickwheel_server::api::Counts;
/// assert_eq!(Counts::default().ready, 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// Their time has not come, or they are ready and not counted in `ready`.
    pub scheduled: u64,
    /// They wait for a worker.
    pub ready: u64,
    /// They are with a worker.
    pub leased: u64,
    /// Their last attempt failed.
    pub dead: u64,
    /// They are done and kept.
    pub done: u64,
    /// They are cancelled and kept.
    pub cancelled: u64,
}

/// A queue.
///
/// ```
/// use tickwheel_server::api::Queue;
/// let queue: Queue = serde_json::from_str(
///     r#"{"name": "mail", "paused": false, "more_ready": false, "settings": {},
///         "jobs": {"scheduled": 1, "ready": 0, "leased": 0, "dead": 0, "done": 0, "cancelled": 0}}"#,
/// )?;
/// assert_eq!(queue.jobs.scheduled, 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Whether deliveries are held back.
    pub paused: bool,
    /// How many jobs it has.
    pub jobs: Counts,
    /// More jobs are ready than memory holds: those are counted as scheduled.
    pub more_ready: bool,
    /// What is set for it.
    pub settings: QueueSettings,
}

impl From<&queue::QueueInfo> for Queue {
    fn from(info: &queue::QueueInfo) -> Self {
        Self {
            name: info.name.clone(),
            paused: info.paused,
            jobs: Counts {
                scheduled: info.scheduled,
                ready: info.ready,
                leased: info.leased,
                dead: info.dead,
                done: info.done,
                cancelled: info.cancelled,
            },
            more_ready: info.more_ready,
            settings: (&info.settings).into(),
        }
    }
}

/// All queues that the caller may see.
///
/// ```
/// use tickwheel_server::api::QueueList;
/// let list: QueueList = serde_json::from_str(r#"{"queues": []}"#)?;
/// assert!(list.queues.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct QueueList {
    /// The queues, by name.
    pub queues: Vec<Queue>,
}

/// How many dead jobs to bring back.
///
/// ```
/// use tickwheel_server::api::KickRequest;
/// let request: KickRequest = serde_json::from_str("{}")?;
/// assert!(request.limit.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KickRequest {
    /// At most so many, the oldest first; all if this is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// The states that can be purged.
///
/// ```
/// use tickwheel_server::api::PurgeState;
/// assert_eq!(serde_json::to_string(&PurgeState::Dead).unwrap(), "\"dead\"");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PurgeState {
    /// Jobs whose last attempt failed.
    Dead,
    /// Jobs that were acknowledged.
    Done,
    /// Jobs that were cancelled or replaced.
    Cancelled,
}

impl From<PurgeState> for queue::State {
    fn from(state: PurgeState) -> Self {
        match state {
            PurgeState::Dead => Self::Dead,
            PurgeState::Done => Self::Done,
            PurgeState::Cancelled => Self::Cancelled,
        }
    }
}

/// Which finished jobs to drop.
///
/// ```
/// use tickwheel_server::api::PurgeRequest;
/// let request: PurgeRequest = serde_json::from_str(r#"{"state": "dead", "older_than": "7d"}"#)?;
/// assert!(request.older_than.is_some());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PurgeRequest {
    /// Those in this state.
    pub state: PurgeState,
    /// Only those that finished longer ago than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than: Option<Delay>,
}

/// How many jobs something was done to.
///
/// ```
/// use tickwheel_server::api::Count;
/// let count: Count = serde_json::from_str(r#"{"count": 3}"#)?;
/// assert_eq!(count.count, 3);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Count {
    /// So many.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_back_as_they_were_shown() {
        let settings = queue::QueueSettings {
            lease: Duration::from_secs(90),
            max_attempts: 3,
            retry: queue::RetryPolicy::list([Duration::from_secs(1)]),
            retention: queue::Retention {
                done: queue::Keep { age: Duration::from_secs(60), count: 7 },
                dead: queue::Keep::NOTHING,
                cancelled: queue::Keep::FOREVER,
            },
            pacing: queue::Pacing::starts(3, Duration::from_secs(1)).concurrency(2),
            group_pacing: queue::Pacing::default(),
        };
        let shown = QueueSettings::from(&settings);
        let text = serde_json::to_string(&shown).unwrap();
        assert_eq!(serde_json::from_str::<QueueSettings>(&text).unwrap(), shown);
        assert_eq!(queue::Retention::from(shown.retention).done, settings.retention.done);
    }
}
