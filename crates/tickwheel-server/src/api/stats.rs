//! What the service has done so far, and how it is.

use serde::{Deserialize, Serialize};
use tickwheel_queue as queue;
use utoipa::ToSchema;

use super::Delay;

/// How durable an answer is.
///
/// ```
/// use tickwheel_server::api::Durability;
/// assert_eq!(serde_json::to_string(&Durability::Sync).unwrap(), "\"sync\"");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// On stable storage.
    Sync,
    /// Synced now and then.
    Interval,
    /// Left to the operating system.
    None,
}

impl From<queue::Durability> for Durability {
    fn from(durability: queue::Durability) -> Self {
        match durability {
            queue::Durability::Sync => Self::Sync,
            queue::Durability::Interval(_) => Self::Interval,
            queue::Durability::None => Self::None,
        }
    }
}

/// What stays within which time, in microseconds.
///
/// ```
/// use tickwheel_server::api::Percentiles;
/// assert_eq!(Percentiles::from(&tickwheel::Histogram::default()).count, 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Percentiles {
    /// How many there were.
    pub count: u64,
    /// Half of them.
    pub p50_us: u64,
    /// 99 of 100.
    pub p99_us: u64,
    /// 999 of 1000.
    pub p999_us: u64,
    /// All.
    pub max_us: u64,
}

impl From<&tickwheel::Histogram> for Percentiles {
    fn from(histogram: &tickwheel::Histogram) -> Self {
        let micros = |share| {
            histogram.quantile(share).map_or(0, |time| time.as_nanos().div_ceil(1_000) as u64)
        };
        Self {
            count: histogram.count(),
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            p999_us: micros(0.999),
            max_us: micros(1.0),
        }
    }
}

/// What happened since the start, and what is there now.
///
/// A caller that is limited to some queues sees how many of those there are, and of their jobs.
/// What is `None` then is about the whole service.
///
/// ```
/// use tickwheel_server::api::Stats;
/// let stats = Stats::from(&tickwheel_queue::Stats::default());
/// assert_eq!(stats.put, Some(0));
/// assert_eq!(stats.of_some_queues().put, None);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// How durable an answer is.
    pub durability: Durability,
    /// How far ahead jobs are kept in memory.
    pub horizon: Delay,
    /// Queues that the caller may see.
    pub queues: u64,
    /// Their jobs that are scheduled, ready or leased.
    pub pending: u64,
    /// Their jobs that are leased.
    pub leased: u64,
    /// Jobs and leases that are in memory.
    pub in_memory: Option<u64>,
    /// Bytes on disk, as of a few seconds ago.
    pub disk_bytes: Option<u64>,
    /// Jobs put.
    pub put: Option<u64>,
    /// Deliveries to workers.
    pub delivered: Option<u64>,
    /// Jobs acknowledged.
    pub acked: Option<u64>,
    /// Attempts that workers reported as failed.
    pub failed: Option<u64>,
    /// Leases that ran out.
    pub expired: Option<u64>,
    /// Jobs given back by workers.
    pub released: Option<u64>,
    /// Jobs that died.
    pub died: Option<u64>,
    /// Jobs cancelled or replaced.
    pub cancelled: Option<u64>,
    /// Dead jobs brought back.
    pub kicked: Option<u64>,
    /// Rows and jobs that could not be read.
    pub damaged: Option<u64>,
    /// Groups of commands that were committed.
    pub commits: Option<u64>,
    /// How often the store failed and was opened again.
    pub failures: Option<u64>,
    /// How long commits took, the sync included.
    pub commit_time: Option<Percentiles>,
    /// By how much jobs were delivered after they were due.
    pub lateness: Option<Percentiles>,
}

impl Stats {
    /// Without what is about the whole service.
    #[must_use]
    pub fn of_some_queues(self) -> Self {
        let Self { durability, horizon, queues, pending, leased, .. } = self;
        Self {
            durability,
            horizon,
            queues,
            pending,
            leased,
            in_memory: None,
            disk_bytes: None,
            put: None,
            delivered: None,
            acked: None,
            failed: None,
            expired: None,
            released: None,
            died: None,
            cancelled: None,
            kicked: None,
            damaged: None,
            commits: None,
            failures: None,
            commit_time: None,
            lateness: None,
        }
    }
}

impl From<&queue::Stats> for Stats {
    fn from(stats: &queue::Stats) -> Self {
        Self {
            durability: stats.durability.into(),
            horizon: Delay(stats.horizon),
            queues: stats.queues,
            pending: stats.pending,
            leased: stats.leased,
            in_memory: Some(stats.in_memory),
            disk_bytes: Some(stats.disk),
            put: Some(stats.put),
            delivered: Some(stats.delivered),
            acked: Some(stats.acked),
            failed: Some(stats.failed),
            expired: Some(stats.expired),
            released: Some(stats.released),
            died: Some(stats.died),
            cancelled: Some(stats.cancelled),
            kicked: Some(stats.kicked),
            damaged: Some(stats.damaged),
            commits: Some(stats.commits),
            failures: Some(stats.failures),
            commit_time: Some((&stats.commit_time).into()),
            lateness: Some((&stats.lateness).into()),
        }
    }
}

/// How the service is.
///
/// ```
/// use tickwheel_server::api::Health;
/// let health: Health = serde_json::from_str(r#"{"status": "ok", "version": "0.1.0"}"#)?;
/// assert_eq!(health.status, "ok");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok` or `ready`
    pub status: String,
    /// The version of the service.
    pub version: String,
}
