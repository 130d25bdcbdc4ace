//! Jobs, and what those who put them say and hear.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use tickwheel_queue as queue;
use utoipa::ToSchema;

use super::payload::some_json;
use super::{Delay, Retry, Timestamp};

/// The name of a job: a UUID.
///
/// ```
/// use tickwheel_server::api::JobId;
/// let id: JobId = serde_json::from_str(r#""0190163d-8694-739b-aea5-966c26f8ad91""#)?;
/// assert_eq!(id.to_string(), "0190163d-8694-739b-aea5-966c26f8ad91");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema)]
#[schema(value_type = String, format = "uuid", example = "0190163d-8694-739b-aea5-966c26f8ad91")]
pub struct JobId(pub queue::JobId);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = queue::ParseIdError;

    fn from_str(text: &str) -> Result<Self, queue::ParseIdError> {
        text.parse().map(Self)
    }
}

impl From<queue::JobId> for JobId {
    fn from(id: queue::JobId) -> Self {
        Self(id)
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Answers to batches have thousands of them, and formatting takes many times as long.
        let mut text = [b'-'; 36];
        let places = (0..text.len()).filter(|place| ![8, 13, 18, 23].contains(place));
        let bytes = self.0.as_bytes().iter();
        let digits = bytes.flat_map(|byte| [byte >> 4, byte & 15]);
        for (place, digit) in places.zip(digits) {
            text[place] = b"0123456789abcdef"[usize::from(digit)];
        }
        serializer.serialize_str(std::str::from_utf8(&text).map_err(serde::ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What a put does when a live job of the queue has the key already.
///
/// ```
/// use tickwheel_server::api::Conflict;
/// assert_eq!(serde_json::to_string(&Conflict::default()).unwrap(), "\"replace\"");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Conflict {
    /// That job is cancelled, and the new one takes its place.
    #[default]
    Replace,
    /// That job stays, and nothing changes.
    Keep,
    /// The put is refused.
    Reject,
}

impl From<Conflict> for queue::OnConflict {
    fn from(conflict: Conflict) -> Self {
        match conflict {
            Conflict::Replace => Self::Replace,
            Conflict::Keep => Self::Keep,
            Conflict::Reject => Self::Reject,
        }
    }
}

impl From<queue::OnConflict> for Conflict {
    fn from(conflict: queue::OnConflict) -> Self {
        match conflict {
            queue::OnConflict::Replace => Self::Replace,
            queue::OnConflict::Keep => Self::Keep,
            queue::OnConflict::Reject => Self::Reject,
        }
    }
}

/// Where a job is in its life.
///
/// ```
/// use tickwheel_server::api::JobState;
/// assert_eq!(serde_json::to_string(&JobState::Scheduled).unwrap(), "\"scheduled\"");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Its time has not come.
    Scheduled,
    /// It waits for a worker.
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

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        queue::State::from(*self).fmt(f)
    }
}

impl From<queue::State> for JobState {
    fn from(state: queue::State) -> Self {
        match state {
            queue::State::Scheduled => Self::Scheduled,
            queue::State::Ready => Self::Ready,
            queue::State::Leased => Self::Leased,
            queue::State::Dead => Self::Dead,
            queue::State::Done => Self::Done,
            queue::State::Cancelled => Self::Cancelled,
        }
    }
}

impl From<JobState> for queue::State {
    fn from(state: JobState) -> Self {
        match state {
            JobState::Scheduled => Self::Scheduled,
            JobState::Ready => Self::Ready,
            JobState::Leased => Self::Leased,
            JobState::Dead => Self::Dead,
            JobState::Done => Self::Done,
            JobState::Cancelled => Self::Cancelled,
        }
    }
}

/// A job to put. Exactly one of `payload`, `text` and `base64` is given, and at most one of
/// `delay` and `due`: without either the job is due at once.
///
/// ```
/// use tickwheel_server::api::PutRequest;
/// let put: PutRequest = serde_json::from_str(r#"{"payload": {"order": 42}, "delay": "30m"}"#)?;
/// assert_eq!(put.delay.unwrap().to_string(), "30m");
/// assert!(serde_json::from_str::<PutRequest>(r#"{"text": "a", "dealy": "30m"}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutRequest {
    /// The queue. In a batch it has to be given; with the queue in the path it is left out, or the
    /// same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$", nullable = false)]
    pub queue: Option<String>,
    /// A JSON value: nested at most 128 deep, with numbers that fit a 64-bit float and whole
    /// surrogate pairs. It is stored as its text without white space.
    #[serde(default, deserialize_with = "some_json", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub payload: Option<Box<RawValue>>,
    /// A text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Bytes, in base 64 with padding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// How long from now the job is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// When the job is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// A name of the caller's, unique among the live jobs of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 512)]
    pub key: Option<String>,
    /// What to do if a live job has the key already; `replace` if this is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_conflict: Option<Conflict>,
    /// Among jobs that are due at the same millisecond the higher one goes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i8>,
    /// Texts that go with the job. Names are those of HTTP headers, in small letters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How often it is tried; as its queue says if this is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_attempts: Option<u32>,
    /// How long it waits after a failure; as its queue says if this is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Jobs of one group share the queue's pace for groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 512)]
    pub group: Option<String>,
    /// An id of the caller's. A second put with the same id is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<JobId>,
}

/// How a put ended.
///
/// ```
/// use tickwheel_server::api::PutOutcome;
/// assert_eq!(serde_json::to_string(&PutOutcome::Kept).unwrap(), "\"kept\"");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PutOutcome {
    /// There is a new job.
    Created,
    /// There is a new job, and the one that had its key is cancelled.
    Replaced,
    /// The job that has the key stays.
    Kept,
}

/// The answer to a put.
///
/// ```
/// use tickwheel_server::api::{PutOutcome, PutResponse};
/// let answer: PutResponse = serde_json::from_str(
///     r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91", "queue": "orders", "outcome": "created",
///         "due": "2026-01-02T03:04:05.678Z", "due_ms": 1767323045678}"#,
/// )?;
/// assert_eq!(answer.outcome, PutOutcome::Created);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PutResponse {
    /// The job: the new one, or the one that was kept.
    pub id: JobId,
    /// Its queue.
    pub queue: String,
    /// How the put ended.
    pub outcome: PutOutcome,
    /// The job that was cancelled, if one was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub replaced: Option<JobId>,
    /// When the job is due. Left out if the job that was kept is finished by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub due: Option<String>,
    /// The same in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub due_ms: Option<u64>,
}

/// Until when a worker has a job.
///
/// ```
/// use tickwheel_server::api::LeaseInfo;
/// let lease: LeaseInfo =
///     serde_json::from_str(r#"{"until": "1970-01-01T00:00:01.000Z", "until_ms": 1000}"#)?;
/// assert_eq!(lease.until_ms, 1_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaseInfo {
    /// When the lease ends.
    #[schema(format = DateTime)]
    pub until: String,
    /// The same in milliseconds since 1970.
    pub until_ms: u64,
}

/// A job. One of `payload`, `text` and `base64` is there, by its content type.
///
/// ```
/// use tickwheel_server::api::{Job, JobState};
/// let job: Job = serde_json::from_str(
///     r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91", "queue": "orders", "state": "ready",
///         "text": "hello", "priority": 0, "attempts": 0,
///         "due": "1970-01-01T00:00:01.000Z", "due_ms": 1000,
///         "created": "1970-01-01T00:00:01.000Z", "created_ms": 1000}"#,
/// )?;
/// assert_eq!(job.state, JobState::Ready);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its name.
    pub id: JobId,
    /// Its queue.
    pub queue: String,
    /// Where it is in its life.
    pub state: JobState,
    /// The caller's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub key: Option<String>,
    /// Its group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub group: Option<String>,
    /// Among jobs that are due at the same millisecond the higher one goes first.
    pub priority: i8,
    /// Texts that go with the job.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Its JSON.
    #[serde(default, deserialize_with = "some_json", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub payload: Option<Box<RawValue>>,
    /// Its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub text: Option<String>,
    /// Its bytes, in base 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub base64: Option<String>,
    /// When it is due.
    #[schema(format = DateTime)]
    pub due: String,
    /// The same in milliseconds since 1970.
    pub due_ms: u64,
    /// When it was put.
    #[schema(format = DateTime)]
    pub created: String,
    /// The same in milliseconds since 1970.
    pub created_ms: u64,
    /// How often it was delivered; deliveries that were released do not count.
    pub attempts: u32,
    /// How often it is tried, if it says so itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub max_attempts: Option<u32>,
    /// How long it waits after a failure, if it says so itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub retry: Option<Retry>,
    /// Until when a worker has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub lease: Option<LeaseInfo>,
    /// What the last failed attempt said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_error: Option<String>,
    /// When it was done, dead or cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub finished: Option<String>,
    /// The same in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub finished_ms: Option<u64>,
}

/// A page of a list of jobs.
///
/// ```
/// use tickwheel_server::api::JobPage;
/// let page: JobPage = serde_json::from_str(r#"{"jobs": [], "next": null}"#)?;
/// assert!(page.next.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// What to give as `page` to get the next ones; `null` if these are the last.
    #[schema(required = true)]
    pub next: Option<String>,
    /// Jobs that belong here and cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<JobId>,
    /// So many places of the list could not be read; what stood there is not known.
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
/// use tickwheel_server::api::{Cancelled, JobState};
/// let answer: Cancelled = serde_json::from_str(r#"{"was": "scheduled"}"#)?;
/// assert_eq!(answer.was, JobState::Scheduled);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cancelled {
    /// The state that it had.
    pub was: JobState,
}

/// When a job shall be due instead: exactly one of the two.
///
/// ```
/// use tickwheel_server::api::RescheduleRequest;
/// let request: RescheduleRequest = serde_json::from_str(r#"{"delay": "10m"}"#)?;
/// assert!(request.due.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RescheduleRequest {
    /// How long from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// At this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
}

/// The answer to a reschedule.
///
/// ```
/// use tickwheel_server::api::Rescheduled;
/// let answer: Rescheduled =
///     serde_json::from_str(r#"{"due": "1970-01-01T00:00:01.000Z", "due_ms": 1000}"#)?;
/// assert_eq!(answer.due_ms, 1_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rescheduled {
    /// When the job is due now.
    #[schema(format = DateTime)]
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
        let id = JobId(queue::JobId::from_bytes(bytes));
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, format!("\"{id}\""));
        assert_eq!(serde_json::from_str::<JobId>(&json).unwrap(), id);
    }
}
