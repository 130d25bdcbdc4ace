//! The requests that put jobs, and their answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::payload::some_json;
use super::{Delay, FinishedState, JobId, Retry, Timestamp};

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
