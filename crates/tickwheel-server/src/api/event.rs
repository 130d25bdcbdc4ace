//! What the streams of events tell.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{JobId, JobState};

/// A change of a job, as the `data` of a server-sent event. The event's name is what happened, its
/// id where to go on from.
///
/// ```
/// use tickwheel_server::api::{Event, JobState};
/// let event: Event = serde_json::from_str(
///     r#"{"event": "put", "queue": "orders", "job": "0190163d-8694-739b-aea5-966c26f8ad91",
///         "state": "scheduled", "at": "1970-01-01T00:00:01.000Z", "at_ms": 1000,
///         "due": "1970-01-01T00:00:09.000Z", "due_ms": 9000}"#,
/// )?;
/// assert_eq!(event.state, JobState::Scheduled);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// What happened: `put`, `replaced`, `rescheduled`, `leased`, `extended`, `acked`, `failed`,
    /// `expired`, `released`, `dead`, `cancelled` or `kicked`.
    pub event: String,
    /// The queue.
    pub queue: String,
    /// The job.
    pub job: JobId,
    /// The state that the job has after it. Becoming ready is no event: that is a question of the
    /// time alone.
    pub state: JobState,
    /// When it happened.
    #[schema(format = DateTime)]
    pub at: String,
    /// The same in milliseconds since 1970.
    pub at_ms: u64,
    /// When the job is due now, if it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub due: Option<String>,
    /// The same in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub due_ms: Option<u64>,
    /// When the lease ends, if a worker has the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub until: Option<String>,
    /// The same in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub until_ms: Option<u64>,
    /// How often the job was delivered, when it is leased or dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub attempts: Option<u32>,
    /// The job that replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub by: Option<JobId>,
}

/// The data of an event `reset`: what happened since the given id is not known any more. Whoever
/// follows the events should look at the jobs anew, and goes on from here.
///
/// ```
/// use tickwheel_server::api::Reset;
/// let reset: Reset = serde_json::from_str(r#"{"reason": "the id is too old"}"#)?;
/// assert!(!reset.reason.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reset {
    /// Why.
    pub reason: String,
}
