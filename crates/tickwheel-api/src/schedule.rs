//! Schedules: jobs that are put repeatedly, by a calendar or a period.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::payload::some_json;
use super::{Conflict, Delay, Retry};

/// What happens to occurrences that were missed, for example while the server was down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Misfire {
    /// They are skipped.
    Skip,
    /// One job stands for all of them.
    #[default]
    Once,
    /// Each one puts its job, up to `misfire_limit`.
    All,
}

/// A schedule to set: either `cron` with an optional `timezone`, or `every`, and the job that each
/// occurrence puts, as in [`PutRequest`](super::PutRequest).
///
/// ```
/// use tickwheel_api::ScheduleRequest;
/// let request: ScheduleRequest = serde_json::from_str(
///     r#"{"queue": "reports", "cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin",
///         "text": "daily"}"#,
/// )?;
/// assert!(request.every.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduleRequest {
    /// The queue of the jobs.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$"))]
    pub queue: String,
    /// A cron expression of five or six fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// The time zone of the expression, by its IANA name. Defaults to UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// The period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Delay>,
    /// What happens to missed occurrences. Defaults to `once`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misfire: Option<Misfire>,
    /// How late an occurrence may be without being missed. Defaults to 1 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Delay>,
    /// With `all`: the maximum number of missed occurrences that put a job, the latest ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub misfire_limit: Option<u32>,
    /// A JSON value: nested at most 128 deep, with numbers that fit a 64-bit float and whole
    /// surrogate pairs.
    #[serde(default, deserialize_with = "some_json", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value, required = false))]
    pub payload: Option<Box<RawValue>>,
    /// Text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Bytes, in base 64 with padding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// The delay from an occurrence until its job is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// The key of the jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 512))]
    pub key: Option<String>,
    /// What to do when a live job has the key. Defaults to `replace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_conflict: Option<Conflict>,
    /// The priority of the jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i8>,
    /// Headers that are delivered with the jobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The maximum number of attempts of the jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub max_attempts: Option<u32>,
    /// The delay before each retry of the jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The group of the jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 512))]
    pub group: Option<String>,
}

/// A schedule.
///
/// ```
/// use tickwheel_api::Schedule;
/// let schedule: Schedule = serde_json::from_str(
///     r#"{"name": "beat", "queue": "pulse", "every": "5s", "misfire": "once", "text": "",
///         "priority": 0, "grace": "1s", "paused": false, "fired": 0,
///         "created": "1970-01-01T00:00:01.000Z", "created_ms": 1000}"#,
/// )?;
/// assert!(schedule.next_ms.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Schedule {
    /// The name.
    pub name: String,
    /// The queue of the jobs.
    pub queue: String,
    /// When the jobs are put, in words.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(example = "At 09:00 on Monday, Europe/Berlin"))]
    pub explanation: String,
    /// The cron expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub cron: Option<String>,
    /// The time zone of the expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub timezone: Option<String>,
    /// The period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub every: Option<Delay>,
    /// What happens to missed occurrences.
    pub misfire: Misfire,
    /// With `all`: the maximum number of missed occurrences that put a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub misfire_limit: Option<u32>,
    /// The payload of the jobs, if it is JSON.
    #[serde(default, deserialize_with = "some_json", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value, required = false))]
    pub payload: Option<Box<RawValue>>,
    /// The payload of the jobs, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub text: Option<String>,
    /// The payload of the jobs in base 64, if it is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub base64: Option<String>,
    /// The delay from an occurrence until its job is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub delay: Option<Delay>,
    /// The key of the jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub key: Option<String>,
    /// What the jobs do when a live job has the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub on_conflict: Option<Conflict>,
    /// The priority of the jobs.
    pub priority: i8,
    /// Headers that are delivered with the jobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The maximum number of attempts of the jobs, if the schedule sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub max_attempts: Option<u32>,
    /// The delay before each retry of the jobs, if the schedule sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub retry: Option<Retry>,
    /// The group of the jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub group: Option<String>,
    /// How late an occurrence may be without being missed.
    pub grace: Delay,
    /// Whether the schedule is paused.
    pub paused: bool,
    /// The number of jobs that the schedule has put.
    pub fired: u64,
    /// Why the last occurrence could not put its job, if it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub problem: Option<String>,
    /// When the schedule was created.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created: String,
    /// The same in milliseconds since 1970.
    pub created_ms: u64,
    /// The last occurrence that put a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = DateTime, nullable = false))]
    pub last: Option<String>,
    /// The same in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub last_ms: Option<u64>,
    /// The next occurrence; left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = DateTime, nullable = false))]
    pub next: Option<String>,
    /// The same in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub next_ms: Option<u64>,
}

/// All schedules that the caller may see.
///
/// ```
/// use tickwheel_api::ScheduleList;
/// let list: ScheduleList = serde_json::from_str(r#"{"schedules": []}"#)?;
/// assert!(list.schedules.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduleList {
    /// The schedules, by name.
    pub schedules: Vec<Schedule>,
}

/// A future occurrence of a schedule.
///
/// ```
/// use tickwheel_api::NextRun;
/// let run: NextRun =
///     serde_json::from_str(r#"{"due": "1970-01-01T00:00:01.000Z", "due_ms": 1000}"#)?;
/// assert_eq!(run.due_ms, 1_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NextRun {
    /// The time.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub due: String,
    /// The same in milliseconds since 1970.
    pub due_ms: u64,
}

/// The next occurrences of a schedule.
///
/// ```
/// use tickwheel_api::NextRuns;
/// let runs: NextRuns = serde_json::from_str(r#"{"next": []}"#)?;
/// assert!(runs.next.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NextRuns {
    /// The occurrences, the nearest first.
    pub next: Vec<NextRun>,
}
