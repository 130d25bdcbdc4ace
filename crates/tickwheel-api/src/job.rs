//! Jobs as answers show them, and the requests that cancel and reschedule them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::payload::some_json;
use super::{Attempt, Delay, FollowUp, JobId, Retry, Timestamp};

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum JobState {
    /// It is not due yet.
    Scheduled,
    /// It is due and waits for a worker.
    Ready,
    /// A worker has it.
    Leased,
    /// Its last attempt failed.
    Dead,
    /// A worker acknowledged it.
    Done,
    /// It was cancelled or replaced.
    Cancelled,
}

impl JobState {
    /// Returns the state as JSON writes it.
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

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A job's lease.
///
/// ```
/// use tickwheel_api::LeaseInfo;
/// let lease: LeaseInfo =
///     serde_json::from_str(r#"{"until": "1970-01-01T00:00:01.000Z", "until_ms": 1000}"#)?;
/// assert_eq!(lease.until_ms, 1_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseInfo {
    /// When the lease expires.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub until: String,
    /// The same in milliseconds since 1970.
    pub until_ms: u64,
    /// When the job was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = DateTime, nullable = false))]
    pub since: Option<String>,
    /// The same in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub since_ms: Option<u64>,
    /// The name that the worker gave when it reserved the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub worker: Option<String>,
}

/// A job. Its content type decides which one of `payload`, `text` and `base64` is present.
///
/// ```
/// use tickwheel_api::{Job, JobState};
/// let job: Job = serde_json::from_str(
///     r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91", "queue": "orders", "state": "ready",
///         "text": "hello", "priority": 0, "attempts": 0,
///         "due": "1970-01-01T00:00:01.000Z", "due_ms": 1000,
///         "created": "1970-01-01T00:00:01.000Z", "created_ms": 1000}"#,
/// )?;
/// assert_eq!(job.state, JobState::Ready);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    /// The id.
    pub id: JobId,
    /// The queue.
    pub queue: String,
    /// Where the job is in its life.
    pub state: JobState,
    /// The producer's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub key: Option<String>,
    /// The group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub group: Option<String>,
    /// Of jobs that are due in the same millisecond, the one with the higher priority is delivered
    /// first.
    pub priority: i8,
    /// Headers that are delivered with the job.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The payload, if it is JSON.
    #[serde(default, deserialize_with = "some_json", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value, required = false))]
    pub payload: Option<Box<RawValue>>,
    /// The payload, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub text: Option<String>,
    /// The payload in base 64, if it is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub base64: Option<String>,
    /// When the job is due.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub due: String,
    /// The same in milliseconds since 1970.
    pub due_ms: u64,
    /// When the job was put.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created: String,
    /// The same in milliseconds since 1970.
    pub created_ms: u64,
    /// The number of deliveries, without those that were released.
    pub attempts: u32,
    /// The job's own maximum number of attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub max_attempts: Option<u32>,
    /// The job that is put when this one is acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub on_success: Option<FollowUp>,
    /// The job that is put when this one dies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub on_death: Option<FollowUp>,
    /// The result of the acknowledgement. Lists leave it out.
    #[serde(default, deserialize_with = "some_json", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value, required = false))]
    pub result: Option<Box<RawValue>>,
    /// The job's own delay before each retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub retry: Option<Retry>,
    /// The lease, if a worker has the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub lease: Option<LeaseInfo>,
    /// The error of the last failed attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub last_error: Option<String>,
    /// When the job was acknowledged, cancelled or given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = DateTime, nullable = false))]
    pub finished: Option<String>,
    /// The same in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub finished_ms: Option<u64>,
    /// The last 20 attempts that have ended, the oldest first. Lists and deliveries leave them out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Attempt>,
}

/// A page of a list of jobs.
///
/// ```
/// use tickwheel_api::JobPage;
/// let page: JobPage = serde_json::from_str(r#"{"jobs": [], "next": null}"#)?;
/// assert!(page.next.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// The value of `page` for the next page; `null` on the last one.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub next: Option<String>,
    /// Jobs that belong on this page and cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<JobId>,
    /// The number of unreadable entries whose job is unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gaps: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The answer to a cancel.
///
/// ```
/// use tickwheel_api::{Cancelled, JobState};
/// let answer: Cancelled = serde_json::from_str(r#"{"was": "scheduled"}"#)?;
/// assert_eq!(answer.was, JobState::Scheduled);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Cancelled {
    /// The state in which the job was.
    pub was: JobState,
}

/// A new due time: exactly one of `delay` and `due`.
///
/// ```
/// use tickwheel_api::RescheduleRequest;
/// let request: RescheduleRequest = serde_json::from_str(r#"{"delay": "10m"}"#)?;
/// assert!(request.due.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RescheduleRequest {
    /// The delay from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// The point in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
}

/// The answer to a reschedule.
///
/// ```
/// use tickwheel_api::Rescheduled;
/// let answer: Rescheduled =
///     serde_json::from_str(r#"{"due": "1970-01-01T00:00:01.000Z", "due_ms": 1000}"#)?;
/// assert_eq!(answer.due_ms, 1_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rescheduled {
    /// When the job is due now.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub due: String,
    /// The same in milliseconds since 1970.
    pub due_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_shown_as_json_writes_it() {
        let json = serde_json::to_string(&JobState::Scheduled).unwrap();
        assert_eq!(json, format!("\"{}\"", JobState::Scheduled));
    }
}
