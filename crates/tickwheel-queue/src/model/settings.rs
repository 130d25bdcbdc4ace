//! The settings of a queue, and the limits of a store.

use std::time::Duration;

use crate::model::job::State;
use crate::model::retry::RetryPolicy;

/// How long finished jobs are kept: up to an age and up to a number. Jobs beyond either are
/// removed, the oldest first.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::Keep;
///
/// let keep = Keep { age: Duration::from_secs(3_600), count: 1_000 };
/// assert_ne!(keep, Keep::NOTHING);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The age, counted from when the job finished.
    pub age: Duration,
    /// The maximum number of jobs in a queue.
    pub count: u64,
}

impl Keep {
    /// Removed at once.
    pub const NOTHING: Self = Self { age: Duration::ZERO, count: 0 };

    /// Kept until it is removed by a call.
    pub const FOREVER: Self = Self { age: Duration::MAX, count: u64::MAX };

    pub(crate) fn is_nothing(self) -> bool {
        self.age.is_zero() || self.count == 0
    }
}

/// How long the finished jobs of each state are kept.
///
/// ```
/// use tickwheel_queue::{Keep, Retention};
/// let retention = Retention::default();
/// assert_eq!((retention.done, retention.dead), (Keep::NOTHING, Keep::FOREVER));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Jobs that were acknowledged.
    pub done: Keep,
    /// Jobs whose last attempt failed.
    pub dead: Keep,
    /// Jobs that were cancelled or replaced.
    pub cancelled: Keep,
}

impl Retention {
    /// Returns how long jobs in this finished state are kept; for ever for other states.
    pub fn of(&self, state: State) -> Keep {
        match state {
            State::Done => self.done,
            State::Dead => self.dead,
            State::Cancelled => self.cancelled,
            State::Scheduled | State::Ready | State::Leased => Keep::FOREVER,
        }
    }
}

impl Default for Retention {
    /// Dead jobs are kept until they are kicked or removed, the others are removed at once.
    fn default() -> Self {
        Self { done: Keep::NOTHING, dead: Keep::FOREVER, cancelled: Keep::NOTHING }
    }
}

/// Limits on deliveries: in any window of time, and leased at once.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::Pacing;
///
/// // A partner allows 100 calls a second, five at a time.
/// let pacing = Pacing::starts(100, Duration::from_secs(1)).concurrency(5);
/// assert_eq!(pacing.concurrency, Some(5));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pacing {
    /// The maximum number of deliveries, up to 100,000, in any window of this length, wherever it
    /// begins.
    pub starts: Option<(u32, Duration)>,
    /// The maximum number of leased jobs.
    pub concurrency: Option<u32>,
}

impl Pacing {
    /// The largest number of deliveries in a window, whose times are stored with each delivery.
    pub const MAX_STARTS: u32 = 100_000;

    /// Limits the deliveries in any window of this length.
    pub fn starts(starts: u32, window: Duration) -> Self {
        Self { starts: Some((starts, window)), concurrency: None }
    }

    /// Limits the jobs that are leased at once.
    #[must_use]
    pub fn concurrency(mut self, jobs: u32) -> Self {
        self.concurrency = Some(jobs);
        self
    }
}

/// The order in which the ready jobs of a queue are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By due time. Of jobs due in the same millisecond, the higher priority goes first, then the
    /// job that was put first.
    #[default]
    DueTime,
    /// By priority, the highest first; jobs of the same priority by due time.
    Priority,
}

/// The settings of a queue. They survive a restart.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{Queues, QueueSettings};
///
/// let queues = Queues::in_memory();
/// let settings = QueueSettings { lease: Duration::from_secs(5), ..QueueSettings::default() };
/// queues.configure("mail", settings.clone()).wait()?;
/// assert_eq!(queues.queue("mail").wait()?.unwrap().settings, settings);
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// The default length of a lease.
    pub lease: Duration,
    /// The default maximum number of deliveries.
    pub max_attempts: u32,
    /// The default retry policy.
    pub retry: RetryPolicy,
    /// How long finished jobs are kept.
    pub retention: Retention,
    /// The pace of the whole queue.
    pub pacing: Pacing,
    /// The pace of each group in it.
    pub group_pacing: Pacing,
    /// The order in which ready jobs are delivered.
    pub order: Order,
    /// The name of the push target that gets the jobs.
    pub target: Option<String>,
    /// Whether groups are served in turn, one job each, so that the backlog of one does not delay
    /// the others. Jobs without a group count as one group. Within a group the order holds.
    pub fair_groups: bool,
}

impl Default for QueueSettings {
    /// A lease of 30 seconds, 10 attempts, no pacing.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            max_attempts: 10,
            retry: RetryPolicy::default(),
            retention: Retention::default(),
            pacing: Pacing::default(),
            group_pacing: Pacing::default(),
            order: Order::default(),
            target: None,
            fair_groups: false,
        }
    }
}

/// A change of some settings of a queue. Fields that are `None` stay as they are.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{Queues, SettingsPatch};
///
/// let queues = Queues::in_memory();
/// queues.pause("mail").wait()?; // makes the queue
/// let patch = SettingsPatch { lease: Some(Duration::from_secs(5)), ..SettingsPatch::default() };
/// let settings = queues.patch_settings("mail", patch).wait()?;
/// assert_eq!((settings.lease, settings.max_attempts), (Duration::from_secs(5), 10));
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsPatch {
    /// See [`QueueSettings::lease`].
    pub lease: Option<Duration>,
    /// See [`QueueSettings::max_attempts`].
    pub max_attempts: Option<u32>,
    /// See [`QueueSettings::retry`].
    pub retry: Option<RetryPolicy>,
    /// See [`Retention::done`].
    pub done: Option<Keep>,
    /// See [`Retention::dead`].
    pub dead: Option<Keep>,
    /// See [`Retention::cancelled`].
    pub cancelled: Option<Keep>,
    /// See [`QueueSettings::pacing`].
    pub pacing: Option<Pacing>,
    /// See [`QueueSettings::group_pacing`].
    pub group_pacing: Option<Pacing>,
    /// See [`QueueSettings::order`].
    pub order: Option<Order>,
    /// See [`QueueSettings::target`]; `Some(None)` removes it.
    #[allow(clippy::option_option, reason = "no change differs from no target")]
    pub target: Option<Option<String>>,
    /// See [`QueueSettings::fair_groups`].
    pub fair_groups: Option<bool>,
}

impl SettingsPatch {
    /// Returns the settings with the given fields changed.
    pub(crate) fn apply(&self, settings: &QueueSettings) -> QueueSettings {
        let Retention { done, dead, cancelled } = settings.retention;
        QueueSettings {
            lease: self.lease.unwrap_or(settings.lease),
            max_attempts: self.max_attempts.unwrap_or(settings.max_attempts),
            retry: self.retry.clone().unwrap_or_else(|| settings.retry.clone()),
            retention: Retention {
                done: self.done.unwrap_or(done),
                dead: self.dead.unwrap_or(dead),
                cancelled: self.cancelled.unwrap_or(cancelled),
            },
            pacing: self.pacing.unwrap_or(settings.pacing),
            group_pacing: self.group_pacing.unwrap_or(settings.group_pacing),
            order: self.order.unwrap_or(settings.order),
            target: self.target.clone().unwrap_or_else(|| settings.target.clone()),
            fair_groups: self.fair_groups.unwrap_or(settings.fair_groups),
        }
    }

    /// Returns how much memory it holds beside itself.
    pub(crate) fn bytes(&self) -> usize {
        let target = self.target.as_ref().and_then(Option::as_ref).map_or(0, String::len);
        target + self.retry.as_ref().map_or(0, RetryPolicy::bytes)
    }
}

/// The limits of a store. Whatever exceeds a limit is refused with an error that names it.
///
/// ```
/// use tickwheel_queue::{Error, Limit, Limits, NewJob, Queues};
///
/// let limits = Limits { payload: 3, ..Limits::default() };
/// let queues = Queues::builder().limits(limits).in_memory()?;
/// let error = queues.put(NewJob::new("mail", "four")).wait().unwrap_err();
/// assert_eq!(error, Error::OverLimit { limit: Limit::Payload, allowed: 3, found: 4 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a payload.
    pub payload: u64,
    /// Bytes of all names and values of a job's headers together.
    pub headers: u64,
    /// Bytes of a key or a group.
    pub key: u64,
    /// Bytes of a queue's or a schedule's name.
    pub queue_name: u64,
    /// Items of one batch.
    pub batch: u64,
    /// Queues.
    pub queues: u64,
    /// Schedules.
    pub schedules: u64,
    /// Push targets.
    pub targets: u64,
    /// Jobs that are scheduled, ready or leased.
    pub pending: u64,
    /// Jobs that are leased at once, whose leases are kept in memory.
    pub leased: u64,
    /// Bytes on disk. A put is refused if the bytes on disk, the bytes that it adds, and the space
    /// for merging tables (as much as the tables, up to 256 MiB) would exceed the limit. Existing
    /// jobs can still be delivered and acknowledged. An empty store takes 64 MiB for its journal,
    /// plus the [reserve](crate::Builder::reserve).
    pub disk: u64,
}

impl Default for Limits {
    /// A payload of 1 MiB, 64 KiB of headers, keys of 512 bytes, queue names of 128 bytes, batches
    /// of 10,000 items, 10,000 queues and as many schedules and targets, a million leases, and as
    /// many jobs as the disk holds.
    fn default() -> Self {
        Self {
            payload: 1 << 20,
            headers: 64 << 10,
            key: 512,
            queue_name: 128,
            batch: 10_000,
            queues: 10_000,
            schedules: 10_000,
            targets: 10_000,
            pending: u64::MAX,
            leased: 1_000_000,
            disk: u64::MAX,
        }
    }
}
