//! Counters since the start, and the health of the server.

use serde::{Deserialize, Serialize};

use super::Delay;

/// When a change is on stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Durability {
    /// Before it is answered.
    Sync,
    /// After the next sync, at a fixed interval.
    Interval,
    /// When the operating system writes it.
    None,
}

/// Percentiles of durations, in microseconds.
///
/// ```
/// use tickwheel_api::Percentiles;
/// let lateness: Percentiles = serde_json::from_str(
///     r#"{"count": 9, "p50_us": 210, "p99_us": 980, "p999_us": 980, "max_us": 980}"#,
/// )?;
/// assert!(lateness.p99_us < 1_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Percentiles {
    /// The number of durations.
    pub count: u64,
    /// The median.
    pub p50_us: u64,
    /// 99 of 100 are at most this long.
    pub p99_us: u64,
    /// 999 of 1,000 are at most this long.
    pub p999_us: u64,
    /// The maximum.
    pub max_us: u64,
}

/// Counters since the start of the server, and current numbers.
///
/// A token that is restricted to some queues sees the number of those queues and of their jobs. The
/// other fields concern the whole server and are `null` for it.
///
/// ```
/// use tickwheel_api::Stats;
/// let stats: Stats = serde_json::from_str(
///     r#"{"durability": "sync", "horizon": "5m", "queues": 2, "pending": 7, "leased": 1,
///         "put": 12}"#,
/// )?;
/// assert_eq!((stats.pending, stats.put), (7, Some(12)));
/// assert_eq!(stats.of_some_queues().put, None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Stats {
    /// When a change is on stable storage.
    pub durability: Durability,
    /// How far ahead jobs are kept in memory.
    pub horizon: Delay,
    /// The number of queues that the caller may see.
    pub queues: u64,
    /// The number of their jobs that are scheduled, ready or leased.
    pub pending: u64,
    /// The number of their jobs that are leased.
    pub leased: u64,
    /// Jobs and leases in memory.
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
    /// Leases that expired.
    pub expired: Option<u64>,
    /// Jobs released by workers.
    pub released: Option<u64>,
    /// Jobs that died.
    pub died: Option<u64>,
    /// Jobs cancelled or replaced.
    pub cancelled: Option<u64>,
    /// Dead jobs made ready again.
    pub kicked: Option<u64>,
    /// Rows and jobs that could not be read.
    pub damaged: Option<u64>,
    /// Group commits.
    pub commits: Option<u64>,
    /// Failures of the store after which it was opened again.
    pub failures: Option<u64>,
    /// The duration of commits, including the sync.
    pub commit_time: Option<Percentiles>,
    /// How long after their due time jobs were delivered.
    pub lateness: Option<Percentiles>,
    /// What happened lately, if the request asks for it with `since`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub recent: Option<Activity>,
}

/// What happened since a time, in all queues.
///
/// ```
/// use tickwheel_api::Activity;
/// let recent: Activity = serde_json::from_str(
///     r#"{"since": "1970-01-01T00:00:01.000Z", "since_ms": 1000, "put": 12}"#,
/// )?;
/// assert_eq!((recent.put, recent.failed), (12, 0));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Activity {
    /// When the window begins: the time that was asked for, or the start of the server.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub since: String,
    /// The same in milliseconds since 1970.
    pub since_ms: u64,
    /// The length of the window until now, in milliseconds.
    pub window_ms: u64,
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
    /// How long after their due time jobs were delivered.
    pub lateness: Percentiles,
}

impl Stats {
    /// Returns the stats without the fields that concern the whole server.
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
            recent: None,
        }
    }
}

/// The health of the server.
///
/// ```
/// use tickwheel_api::Health;
/// let health: Health = serde_json::from_str(r#"{"status": "ok", "version": "0.1.0"}"#)?;
/// assert_eq!(health.status, "ok");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// `ok` or `ready`.
    pub status: String,
    /// The version of the server.
    pub version: String,
}
