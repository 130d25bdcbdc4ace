//! Jobs, and the requests of their producers.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::payload::some_json;
use super::{Attempt, Delay, FinishedState, Retry, Timestamp};

/// The id of a job: a UUID.
///
/// ```
/// use tickwheel_api::JobId;
/// let id: JobId = serde_json::from_str(r#""0190163d-8694-739b-aea5-966c26f8ad91""#)?;
/// assert_eq!(id.to_string(), "0190163d-8694-739b-aea5-966c26f8ad91");
/// assert_eq!(JobId::from_bytes(*id.as_bytes()), id);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(
    value_type = String, format = "uuid", example = "0190163d-8694-739b-aea5-966c26f8ad91",
))]
pub struct JobId(Uuid);

impl JobId {
    /// Returns the id with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Returns the bytes of the id.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// The ids of the jobs that a short id stands for.
///
/// ```
/// use tickwheel_api::JobIds;
/// let json = r#"{"ids": ["0190163d-8694-739b-aea5-966c26f8ad91"]}"#;
/// let found: JobIds = serde_json::from_str(json)?;
/// assert_eq!(found.ids.len(), 1); // it is unambiguous
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobIds {
    /// One id if the short id is unambiguous, none if there is no such job, and at most ten.
    pub ids: Vec<JobId>,
}

/// The error for text that is not a job's id.
///
/// ```
/// use tickwheel_api::JobId;
/// let error = "order-42".parse::<JobId>().unwrap_err();
/// assert!(error.to_string().starts_with("\"order-42\" is not a job id"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseJobIdError(String);

impl fmt::Display for ParseJobIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a job id: write a UUID, 32 hexadecimal digits in groups of 8-4-4-4-12",
            self.0
        )
    }
}

impl std::error::Error for ParseJobIdError {}

impl FromStr for JobId {
    type Err = ParseJobIdError;

    fn from_str(text: &str) -> Result<Self, ParseJobIdError> {
        // Other lengths are other ways to write a UUID, such as with braces.
        let id = (text.len() == 36).then(|| Uuid::try_parse(text).ok()).flatten();
        id.map(Self).ok_or_else(|| ParseJobIdError(text.chars().take(64).collect()))
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What a put does when a live job of the queue has the same key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Conflict {
    /// Cancels that job and puts the new one.
    #[default]
    Replace,
    /// Keeps that job and changes nothing.
    Keep,
    /// Refuses the put.
    Reject,
}

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

/// A job to put. Exactly one of `payload`, `text` and `base64` is given, and at most one of
/// `delay` and `due`: without either the job is due at once.
///
/// ```
/// use tickwheel_api::PutRequest;
/// let put: PutRequest = serde_json::from_str(r#"{"payload": {"order": 42}, "delay": "30m"}"#)?;
/// assert_eq!(put.delay.unwrap().to_string(), "30m");
/// assert!(serde_json::from_str::<PutRequest>(r#"{"text": "a", "dealy": "30m"}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PutRequest {
    /// The queue. Required in a batch; where the path names the queue, it is left out or the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(pattern = "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$", nullable = false,)
    )]
    pub queue: Option<String>,
    /// A JSON value: nested at most 128 deep, with numbers that fit a 64-bit float and whole
    /// surrogate pairs. It is stored as its text without white space.
    #[serde(default, deserialize_with = "some_json", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value, required = false))]
    pub payload: Option<Box<RawValue>>,
    /// Text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Bytes, in base 64 with padding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// The delay from now until the job is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// The time at which the job is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// A key of the producer's, unique among the live jobs of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 512))]
    pub key: Option<String>,
    /// What to do when a live job has the key. Defaults to `replace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_conflict: Option<Conflict>,
    /// Of jobs that are due in the same millisecond, the one with the higher priority is delivered
    /// first. Defaults to 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i8>,
    /// Headers that are delivered with the job. Their names are those of HTTP headers, in lower
    /// case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The maximum number of attempts. Defaults to the queue's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub max_attempts: Option<u32>,
    /// The delay before each retry. Defaults to the queue's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The group, whose jobs share the queue's `group_pacing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 512))]
    pub group: Option<String>,
    /// The push target that gets this job. The job goes to the queue `QUEUE.TARGET`, which has this
    /// target; the first such job creates that queue with the settings of the named queue. Requires
    /// the scope `admin` for all queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$"))]
    pub target: Option<String>,
    /// An id of the producer's. A second put with the same id is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<JobId>,
    /// The longest time by which puts that replace each other under one key can postpone the job,
    /// counted from the first of them. Requires a `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_total_delay: Option<Delay>,
    /// A job to put when this one is acknowledged, with the result as its payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_success: Option<FollowUp>,
    /// A job to put when this one dies, with the same payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_death: Option<FollowUp>,
}

/// A job that is put when another one ends, in the same commit. The header `tickwheel-parent` is
/// the id of that job.
///
/// ```
/// use tickwheel_api::PutRequest;
/// let put: PutRequest = serde_json::from_str(
///     r#"{"text": "cat.jpg", "on_success": {"queue": "publish"}, "on_death": {"queue": "failed"}}"#,
/// )?;
/// assert_eq!(put.on_death.unwrap().queue, "failed");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FollowUp {
    /// The queue that the job goes to.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$"))]
    pub queue: String,
    /// The delay from the end of the other job. Defaults to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
}

/// A job of another server, with what has happened to it there.
///
/// ```
/// use tickwheel_api::ImportRequest;
/// let json = r#"{"put": {"id": "0190163d-8694-739b-aea5-966c26f8ad91", "queue": "mail",
///     "text": "hi", "due": 1000}, "created": 500, "attempts": 3,
///     "finished": {"state": "dead", "at": 2000}, "last_error": "no such address"}"#;
/// let import: ImportRequest = serde_json::from_str(json)?;
/// assert_eq!(import.attempts, 3);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImportRequest {
    /// The job as it would be put, with its id, queue and due time.
    pub put: PutRequest,
    /// When the job was put.
    pub created: Timestamp,
    /// The number of deliveries.
    #[serde(default)]
    pub attempts: u32,
    /// The error of the last failed attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub last_error: Option<String>,
    /// How the job finished; left out if it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub finished: Option<FinishedAt>,
}

/// How and when a job finished.
///
/// ```
/// use tickwheel_api::{FinishedAt, FinishedState};
/// let finished: FinishedAt = serde_json::from_str(r#"{"state": "done", "at": 1000}"#)?;
/// assert_eq!(finished.state, FinishedState::Done);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FinishedAt {
    /// The state.
    pub state: FinishedState,
    /// The time.
    pub at: Timestamp,
}

/// The answer for a job that was imported.
///
/// ```
/// use tickwheel_api::Imported;
/// let answer: Imported = serde_json::from_str(r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91"}"#)?;
/// assert_eq!(answer.id.to_string().len(), 36);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Imported {
    /// The job.
    pub id: JobId,
}

/// What a put did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum PutOutcome {
    /// It put a new job.
    Created,
    /// It put a new job and cancelled the one that had its key.
    Replaced,
    /// It kept the job that has the key.
    Kept,
}

/// The answer to a put.
///
/// ```
/// use tickwheel_api::{PutOutcome, PutResponse};
/// let answer: PutResponse = serde_json::from_str(
///     r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91", "queue": "orders", "outcome": "created",
///         "due": "2026-01-02T03:04:05.678Z", "due_ms": 1767323045678}"#,
/// )?;
/// assert_eq!(answer.outcome, PutOutcome::Created);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PutResponse {
    /// The new job, or the one that was kept.
    pub id: JobId,
    /// The queue of the job.
    pub queue: String,
    /// What the put did.
    pub outcome: PutOutcome,
    /// The job that was cancelled, if one was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub replaced: Option<JobId>,
    /// When the job is due. Left out if the job that was kept has finished meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = DateTime, nullable = false))]
    pub due: Option<String>,
    /// The same in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub due_ms: Option<u64>,
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
    fn an_id_in_json_is_its_text() {
        let bytes = std::array::from_fn(|place| 0xf1_u8.wrapping_add(17 * place as u8));
        let id = JobId::from_bytes(bytes);
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, format!("\"{id}\""));
        assert_eq!(serde_json::from_str::<JobId>(&json).unwrap(), id);
        assert_eq!(id.to_string().to_uppercase().parse(), Ok(id));
    }

    #[test]
    fn an_id_is_written_in_one_way_only() {
        let id = "0190163d-8694-739b-aea5-966c26f8ad91";
        for wrong in [
            "",
            &id[1..],
            &id.replace('-', ""),
            &id.replacen('-', "0", 1),
            &format!("{{{id}}}"),
            &format!("urn:uuid:{id}"),
            "0190163d-8694-739b-aea5-966c26f8adxx",
            "0190163d-8694-739b-aea5-966c26f8adé",
        ] {
            assert!(wrong.parse::<JobId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_state_is_shown_as_json_writes_it() {
        let json = serde_json::to_string(&JobState::Scheduled).unwrap();
        assert_eq!(json, format!("\"{}\"", JobState::Scheduled));
    }
}
