//! Schedules: jobs that are put again and again, by a calendar or a period.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::payload::some_json;
use super::{Conflict, Delay, Retry};

/// What becomes of times that passed while nobody was there.
///
/// ```
/// use tickwheel_server::api::Misfire;
/// assert_eq!(serde_json::to_string(&Misfire::Once).unwrap(), "\"once\"");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Misfire {
    /// They are left out.
    Skip,
    /// One job stands for all of them.
    #[default]
    Once,
    /// Each gets its job, up to `misfire_limit`.
    All,
}

/// A schedule to set: `cron` with an optional `timezone`, or `every`; and the job that it puts each
/// time, as in [`PutRequest`](super::PutRequest).
///
/// ```
/// use tickwheel_server::api::ScheduleRequest;
/// let request: ScheduleRequest = serde_json::from_str(
///     r#"{"queue": "reports", "cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin",
///         "text": "daily"}"#,
/// )?;
/// assert!(request.every.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleRequest {
    /// The queue that its jobs are put into.
    #[schema(pattern = "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$")]
    pub queue: String,
    /// A cron expression of five or six fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// The time zone of the expression, by its IANA name; UTC if this is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// A period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Delay>,
    /// What becomes of times that passed while nobody was there; `once` if this is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misfire: Option<Misfire>,
    /// How late a time may be noticed without having been missed; 1 s if this is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Delay>,
    /// With `all`: at most so many, the latest ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub misfire_limit: Option<u32>,
    /// A JSON value: nested at most 128 deep, with numbers that fit a 64-bit float and whole
    /// surrogate pairs.
    #[serde(default, deserialize_with = "some_json", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub payload: Option<Box<RawValue>>,
    /// A text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Bytes, in base 64 with padding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// How long after its time each job is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// The key of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 512)]
    pub key: Option<String>,
    /// What to do if a live job has the key already; `replace` if this is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_conflict: Option<Conflict>,
    /// The priority of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i8>,
    /// Texts that go with its jobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How often its jobs are tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_attempts: Option<u32>,
    /// How long its jobs wait after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The group of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 512)]
    pub group: Option<String>,
}

/// A schedule.
///
/// ```
/// use tickwheel_server::api::Schedule;
/// let schedule: Schedule = serde_json::from_str(
///     r#"{"name": "beat", "queue": "pulse", "every": "5s", "misfire": "once", "text": "",
///         "priority": 0, "grace": "1s", "paused": false, "fired": 0,
///         "created": "1970-01-01T00:00:01.000Z", "created_ms": 1000}"#,
/// )?;
/// assert!(schedule.next_ms.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// The queue that its jobs are put into.
    pub queue: String,
    /// Its cron expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub cron: Option<String>,
    /// The time zone of the expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub timezone: Option<String>,
    /// Its period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub every: Option<Delay>,
    /// What becomes of times that passed while nobody was there.
    pub misfire: Misfire,
    /// With `all`: at most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub misfire_limit: Option<u32>,
    /// The JSON of its jobs.
    #[serde(default, deserialize_with = "some_json", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub payload: Option<Box<RawValue>>,
    /// The text of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub text: Option<String>,
    /// The bytes of its jobs, in base 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub base64: Option<String>,
    /// How long after its time each job is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub delay: Option<Delay>,
    /// The key of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub key: Option<String>,
    /// What its jobs do if a live job has the key already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub on_conflict: Option<Conflict>,
    /// The priority of its jobs.
    pub priority: i8,
    /// Texts that go with its jobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How often its jobs are tried, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub max_attempts: Option<u32>,
    /// How long its jobs wait after a failure, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub retry: Option<Retry>,
    /// The group of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub group: Option<String>,
    /// How late a time may be noticed without having been missed.
    pub grace: Delay,
    /// Whether it is held back.
    pub paused: bool,
    /// How many jobs it has put.
    pub fired: u64,
    /// Why its last job could not be put, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub problem: Option<String>,
    /// When it was made.
    #[schema(format = DateTime)]
    pub created: String,
    /// The same in milliseconds since 1970.
    pub created_ms: u64,
    /// The last time that it put a job for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub last: Option<String>,
    /// The same in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_ms: Option<u64>,
    /// The next time; left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub next: Option<String>,
    /// The same in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_ms: Option<u64>,
}

/// All schedules that the caller may see.
///
/// ```
/// use tickwheel_server::api::ScheduleList;
/// let list: ScheduleList = serde_json::from_str(r#"{"schedules": []}"#)?;
/// assert!(list.schedules.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ScheduleList {
    /// The schedules, by name.
    pub schedules: Vec<Schedule>,
}

/// A coming time of a schedule.
///
/// ```
/// use tickwheel_server::api::NextRun;
/// let run: NextRun =
///     serde_json::from_str(r#"{"due": "1970-01-01T00:00:01.000Z", "due_ms": 1000}"#)?;
/// assert_eq!(run.due_ms, 1_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NextRun {
    /// When.
    #[schema(format = DateTime)]
    pub due: String,
    /// The same in milliseconds since 1970.
    pub due_ms: u64,
}

/// The coming times of a schedule.
///
/// ```
/// use tickwheel_server::api::NextRuns;
/// let runs: NextRuns = serde_json::from_str(r#"{"next": []}"#)?;
/// assert!(runs.next.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NextRuns {
    /// The times, the nearest first.
    pub next: Vec<NextRun>,
}
