//! What a dashboard shows: one glance at everything, the last hours, and the timing wheel.
//!
//! Unlike elsewhere, a number that is not known is `null` here and never left out or 0, so that a
//! display can tell "nothing happened" from "no data".

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Counts;

/// What is wrong, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum TroubleCode {
    /// The store fails or does not answer.
    StoreFailing,
    /// The disk has little room left for puts, or none.
    DiskNearlyFull,
    /// Stored rows cannot be read.
    DamagedRows,
    /// A job has been ready for too long.
    JobsWait,
    /// A target gets nothing because it is held or stopped.
    TargetHeld,
}

/// One thing that is wrong.
///
/// ```
/// use tickwheel_api::{Trouble, TroubleCode};
/// let trouble: Trouble = serde_json::from_str(
///     r#"{"code": "jobs-wait", "queue": "mail", "target": null,
///         "message": "mail: the oldest ready job has waited for 4 min, 3 workers"}"#,
/// )?;
/// assert_eq!(trouble.code, TroubleCode::JobsWait);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Trouble {
    /// What is wrong, for programs.
    pub code: TroubleCode,
    /// What is wrong, as one sentence for people.
    pub message: String,
    /// The queue that it concerns.
    pub queue: Option<String>,
    /// The target that it concerns.
    pub target: Option<String>,
}

/// How many waiting jobs become due when. The ranges do not overlap.
///
/// ```
/// use tickwheel_api::Upcoming;
/// let upcoming: Upcoming = serde_json::from_str(
///     r#"{"at_ms": 1700000000000, "ready": 1, "minute": 2, "hour": 3, "day": 0, "month": 0, "later": 4}"#,
/// )?;
/// assert_eq!(upcoming.waiting(), 10);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Upcoming {
    /// When the jobs were counted, in milliseconds since 1970. Counting millions of jobs takes
    /// seconds, so it is done now and then.
    pub at_ms: u64,
    /// Jobs that are due already.
    pub ready: u64,
    /// Jobs due within a minute.
    pub minute: u64,
    /// Jobs due within an hour, and not within the minute.
    pub hour: u64,
    /// Jobs due within a day, and not within the hour.
    pub day: u64,
    /// Jobs due within 30 days, and not within the day.
    pub month: u64,
    /// Jobs due after 30 days.
    pub later: u64,
}

impl Upcoming {
    /// Returns the number of all jobs that wait.
    pub fn waiting(&self) -> u64 {
        self.ready + self.minute + self.hour + self.day + self.month + self.later
    }

    /// Adds the jobs of another queue, which were counted in the same pass.
    pub fn add(&mut self, other: &Self) {
        self.at_ms = self.at_ms.max(other.at_ms);
        self.ready += other.ready;
        self.minute += other.minute;
        self.hour += other.hour;
        self.day += other.day;
        self.month += other.month;
        self.later += other.later;
    }
}

/// What happens in a queue, or in all of them: jobs in each second, averaged over the last 10.
///
/// ```
/// use tickwheel_api::Rates;
/// let rates: Rates = serde_json::from_str(
///     r#"{"put": 12.5, "delivered": 12.5, "acked": 12.0, "failed": 0.5, "died": 0.0}"#,
/// )?;
/// assert!(rates.put > rates.acked);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rates {
    /// Jobs put.
    pub put: f64,
    /// Deliveries to workers.
    pub delivered: f64,
    /// Jobs acknowledged.
    pub acked: f64,
    /// Attempts that failed, including leases that expired.
    pub failed: f64,
    /// Jobs that died.
    pub died: f64,
}

/// A queue at one glance.
///
/// ```
/// use tickwheel_api::QueueOverview;
/// let queue: QueueOverview = serde_json::from_str(
///     r#"{"name": "mail", "paused": false, "target": null, "more_ready": false, "held": 0,
///         "jobs": {"scheduled": 1, "ready": 0, "leased": 0, "dead": 0, "done": 0, "cancelled": 0},
///         "rates": null, "oldest_ready_ms": null, "waiting_ms": null, "lateness_p50_ms": null,
///         "lateness_p99_ms": null, "workers": 3, "upcoming": null, "pacing_utilisation": null}"#,
/// )?;
/// assert_eq!(queue.workers, Some(3));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueOverview {
    /// The name.
    pub name: String,
    /// Whether deliveries are paused.
    pub paused: bool,
    /// The target that gets its jobs.
    pub target: Option<String>,
    /// The number of jobs in each state.
    pub jobs: Counts,
    /// Whether more jobs are ready than memory holds; those count as scheduled.
    pub more_ready: bool,
    /// Ready jobs that are not delivered because the queue or their group is paused or at one of
    /// its limits. Jobs that memory does not hold are not counted.
    pub held: u64,
    /// What happens in each second; `null` until the server has watched for some seconds.
    pub rates: Option<Rates>,
    /// When the job was due that has been ready for the longest time, in milliseconds since 1970.
    pub oldest_ready_ms: Option<u64>,
    /// How long that job has waited since, in milliseconds.
    pub waiting_ms: Option<u64>,
    /// How long after their due time half of the jobs were delivered at most, in the last minute,
    /// rounded up; `null` without a delivery.
    pub lateness_p50_ms: Option<u64>,
    /// The same for 99 of 100 jobs.
    pub lateness_p99_ms: Option<u64>,
    /// The number of workers that reserved jobs in the last minute; `null` if the jobs go to a
    /// target, or to workers that the server cannot tell apart.
    pub workers: Option<u64>,
    /// When the waiting jobs become due.
    pub upcoming: Option<Upcoming>,
    /// The share of the queue's limits that is used, from 0 to 1; `null` without a limit.
    pub pacing_utilisation: Option<f64>,
}

/// The numbers of all queues that the caller may see.
///
/// ```
/// use tickwheel_api::OverviewTotals;
/// let totals: OverviewTotals = serde_json::from_str(
///     r#"{"queues": 0, "paused_queues": 0, "held": 0, "rates": null, "lateness_p50_ms": null,
///         "jobs": {"scheduled": 0, "ready": 0, "leased": 0, "dead": 0, "done": 0, "cancelled": 0},
///         "lateness_p99_ms": null, "workers": null, "upcoming": null, "disk_bytes": null,
///         "disk_free_bytes": null}"#,
/// )?;
/// assert_eq!(totals.queues, 0);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OverviewTotals {
    /// The number of queues.
    pub queues: u64,
    /// The number of paused queues among them.
    pub paused_queues: u64,
    /// The number of jobs in each state.
    pub jobs: Counts,
    /// Ready jobs that are not delivered because of a pause or a limit.
    pub held: u64,
    /// What happens in each second; `null` until the server has watched for some seconds.
    pub rates: Option<Rates>,
    /// How long after their due time half of the jobs were delivered at most, in the last minute,
    /// rounded up; `null` without a delivery, and for a token that is restricted to some queues.
    pub lateness_p50_ms: Option<u64>,
    /// The same for 99 of 100 jobs.
    pub lateness_p99_ms: Option<u64>,
    /// The number of workers that reserved jobs in the last minute.
    pub workers: Option<u64>,
    /// When the waiting jobs become due.
    pub upcoming: Option<Upcoming>,
    /// Bytes on disk, as of a few seconds ago; `null` for a token that is restricted to some
    /// queues.
    pub disk_bytes: Option<u64>,
    /// Bytes that the file system has left, as of a few seconds ago; likewise.
    pub disk_free_bytes: Option<u64>,
}

/// Everything at one glance.
///
/// ```
/// use tickwheel_api::Overview;
/// let overview: Overview = serde_json::from_str(
///     r#"{"at": "1970-01-01T00:00:01.000Z", "at_ms": 1000, "summary": "all on time",
///         "health": [], "queues": [], "queues_left_out": 0,
///         "totals": {"queues": 0, "paused_queues": 0, "held": 0, "rates": null,
///         "jobs": {"scheduled": 0, "ready": 0, "leased": 0, "dead": 0, "done": 0, "cancelled": 0},
///         "lateness_p50_ms": null, "lateness_p99_ms": null, "workers": null, "upcoming": null,
///         "disk_bytes": null, "disk_free_bytes": null}}"#,
/// )?;
/// assert!(overview.health.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Overview {
    /// The time of the server.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub at: String,
    /// The same in milliseconds since 1970.
    pub at_ms: u64,
    /// The health in one sentence: `all on time`, or the worst trouble.
    pub summary: String,
    /// What is wrong, the worst first; empty if nothing is.
    pub health: Vec<Trouble>,
    /// The numbers of all queues that the caller may see; `null` while the store does not answer.
    pub totals: Option<OverviewTotals>,
    /// The queues, by name. If there are more than 200, those in which most happens or waits.
    pub queues: Vec<QueueOverview>,
    /// The number of queues that are left out.
    pub queues_left_out: u64,
}

/// How far back a history goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum HistoryWindow {
    /// The last 15 minutes, a point for each second.
    #[default]
    #[serde(rename = "15m")]
    Minutes15,
    /// The last 24 hours, a point for each minute.
    #[serde(rename = "24h")]
    Hours24,
}

impl HistoryWindow {
    /// Returns the window as it is written in a request.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Minutes15 => "15m",
            Self::Hours24 => "24h",
        }
    }

    /// Returns the time between two points, in milliseconds.
    pub const fn step_ms(self) -> u64 {
        match self {
            Self::Minutes15 => 1_000,
            Self::Hours24 => 60_000,
        }
    }

    /// Returns the largest number of points.
    pub const fn max_points(self) -> usize {
        match self {
            Self::Minutes15 => 900,
            Self::Hours24 => 1_440,
        }
    }
}

impl FromStr for HistoryWindow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Minutes15, Self::Hours24]
            .into_iter()
            .find(|window| window.as_str() == text)
            .ok_or_else(|| format!("window must be 15m or 24h, got {text:?}"))
    }
}

/// What happened in the last minutes or hours, in columns: the values at one index belong together.
///
/// A value is `null` where the server has no data, for example because it was not running.
///
/// ```
/// use tickwheel_api::History;
/// let history: History = serde_json::from_str(
///     r#"{"window": "15m", "step_ms": 1000, "queue": null, "tracked": true,
///         "at_ms": [1000, 2000], "put": [5, null], "delivered": [4, null], "acked": [4, null],
///         "failed": [0, null], "died": [0, null], "lateness_p50_ms": [1, null],
///         "lateness_p99_ms": [5, null], "lateness_max_ms": [5, null], "scheduled": [9, null],
///         "ready": [1, null], "leased": [0, null], "dead": [0, null],
///         "pacing_utilisation": [null, null]}"#,
/// )?;
/// assert_eq!(history.put.iter().flatten().sum::<u64>(), 5);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct History {
    /// How far back it goes.
    pub window: HistoryWindow,
    /// The time between two points, in milliseconds.
    pub step_ms: u64,
    /// The queue; `null` for all that the caller may see.
    pub queue: Option<String>,
    /// Whether the server keeps a history of this queue. It does so for all queues together, and
    /// for those in which most happens; of the others the columns are empty.
    pub tracked: bool,
    /// The end of the time that each point covers, in milliseconds since 1970.
    pub at_ms: Vec<u64>,
    /// Jobs put.
    pub put: Vec<Option<u64>>,
    /// Deliveries to workers.
    pub delivered: Vec<Option<u64>>,
    /// Jobs acknowledged.
    pub acked: Vec<Option<u64>>,
    /// Attempts that failed, including leases that expired.
    pub failed: Vec<Option<u64>>,
    /// Jobs that died.
    pub died: Vec<Option<u64>>,
    /// How long after their due time half of the jobs were delivered at most, rounded up; `null`
    /// without a delivery.
    pub lateness_p50_ms: Vec<Option<u64>>,
    /// The same for 99 of 100 jobs.
    pub lateness_p99_ms: Vec<Option<u64>>,
    /// The longest lateness, rounded up.
    pub lateness_max_ms: Vec<Option<u64>>,
    /// Jobs that were not due yet, at the end.
    pub scheduled: Vec<Option<u64>>,
    /// Jobs that waited for a worker, at the end.
    pub ready: Vec<Option<u64>>,
    /// Jobs that workers had, at the end.
    pub leased: Vec<Option<u64>>,
    /// Dead jobs, at the end.
    pub dead: Vec<Option<u64>>,
    /// The share of the queue's limits that was used, from 0 to 1; `null` without a limit, and for
    /// all queues together.
    pub pacing_utilisation: Vec<Option<f64>>,
}

/// One level of the timing wheel. Slot `s` begins at `start_ms + s * slot_ms`.
///
/// The last three fields are columns: the values at one index belong to one slot.
///
/// ```
/// use tickwheel_api::WheelLevel;
/// let level: WheelLevel = serde_json::from_str(
///     r#"{"level": 1, "slots": 256, "slot_ms": 256, "position": 7, "start_ms": 65536,
///         "occupied": [9, 12], "jobs": [5, 1], "leases": [0, 2]}"#,
/// )?;
/// assert_eq!(level.span_of(9), (67_840, 68_095));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WheelLevel {
    /// The level; 0 is the innermost.
    pub level: u32,
    /// The number of its slots.
    pub slots: u32,
    /// How many milliseconds (ticks) a slot spans.
    pub slot_ms: u64,
    /// The slot in which the present is: where the hand points.
    pub position: u32,
    /// When slot 0 begins, in milliseconds since 1970.
    pub start_ms: u64,
    /// The slots that hold something, in ascending order.
    pub occupied: Vec<u32>,
    /// The number of jobs in each of these slots that become ready.
    pub jobs: Vec<u64>,
    /// The number of leases in each of these slots that expire.
    pub leases: Vec<u64>,
}

impl WheelLevel {
    /// Returns the first and the last millisecond of a slot.
    pub fn span_of(&self, slot: u32) -> (u64, u64) {
        let first = self.start_ms.saturating_add(u64::from(slot).saturating_mul(self.slot_ms));
        (first, first.saturating_add(self.slot_ms.saturating_sub(1)))
    }
}

/// The timing wheel of the queue: how many jobs and leases each slot holds.
///
/// ```
/// use tickwheel_api::Wheel;
/// let wheel: Wheel = serde_json::from_str(
///     r#"{"at_ms": 1000, "horizon_ms": 300000, "levels": [], "ready": 2, "beyond": 5}"#,
/// )?;
/// assert_eq!(wheel.beyond, 5);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Wheel {
    /// The time of the wheel, in milliseconds since 1970. A tick is a millisecond.
    pub at_ms: u64,
    /// How far ahead jobs are kept on the wheel, in milliseconds.
    pub horizon_ms: u64,
    /// The levels from the innermost outward. Outer levels that hold nothing are left out.
    pub levels: Vec<WheelLevel>,
    /// Jobs in memory that left the wheel because they are due.
    pub ready: u64,
    /// Jobs beyond the horizon, and jobs for which memory has no room: they are on disk only.
    pub beyond: u64,
}

/// What a live view shows: the `data` of a server-sent event `live`, twice a second.
///
/// ```
/// use tickwheel_api::Live;
/// # let overview = r#"{"at": "1970-01-01T00:00:01.000Z", "at_ms": 1000, "summary": "all on time",
/// #   "health": [], "queues": [], "queues_left_out": 0,
/// #   "totals": {"queues": 0, "paused_queues": 0, "held": 0, "rates": null,
/// #   "jobs": {"scheduled": 0, "ready": 0, "leased": 0, "dead": 0, "done": 0, "cancelled": 0},
/// #   "lateness_p50_ms": null, "lateness_p99_ms": null, "workers": null, "upcoming": null,
/// #   "disk_bytes": null, "disk_free_bytes": null}}"#;
/// let data = format!(r#"{{"overview": {overview}, "point": null, "wheel": null}}"#);
/// let live: Live = serde_json::from_str(&data)?;
/// assert_eq!(live.overview.summary, "all on time");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Live {
    /// Everything at one glance.
    pub overview: Overview,
    /// The newest second of the history of all queues, as columns of one value.
    pub point: Option<History>,
    /// The timing wheel; `null` while the store does not answer.
    pub wheel: Option<Wheel>,
}
