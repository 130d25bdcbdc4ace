//! The events of a stream.

use serde::{Deserialize, Serialize};

use super::{JobId, JobState};

/// A change of a job: the `data` of a server-sent event. The name of the event says what happened;
/// a listener that reconnects with the id of the event resumes after it.
///
/// ```
/// use tickwheel_api::{Event, JobState};
/// let event: Event = serde_json::from_str(
///     r#"{"event": "put", "queue": "orders", "job": "0190163d-8694-739b-aea5-966c26f8ad91",
///         "state": "scheduled", "at": "1970-01-01T00:00:01.000Z", "at_ms": 1000,
///         "due": "1970-01-01T00:00:09.000Z", "due_ms": 9000}"#,
/// )?;
/// assert_eq!(event.state, JobState::Scheduled);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Event {
    /// What happened: `put`, `replaced`, `rescheduled`, `leased`, `extended`, `acked`, `failed`,
    /// `expired`, `released`, `dead`, `cancelled` or `kicked`.
    pub event: String,
    /// The queue.
    pub queue: String,
    /// The job.
    pub job: JobId,
    /// The key of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub key: Option<String>,
    /// The error of an attempt that failed or whose lease expired: its first 256 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub error: Option<String>,
    /// The state of the job after it. A job becomes ready without an event, when its time comes.
    pub state: JobState,
    /// When it happened.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub at: String,
    /// The same in milliseconds since 1970.
    pub at_ms: u64,
    /// When the job is due, if it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = DateTime, nullable = false))]
    pub due: Option<String>,
    /// The same in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub due_ms: Option<u64>,
    /// When the lease expires, if a worker has the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = DateTime, nullable = false))]
    pub until: Option<String>,
    /// The same in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub until_ms: Option<u64>,
    /// The number of deliveries, if the job is leased or dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub attempts: Option<u32>,
    /// The job that replaced this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub by: Option<JobId>,
}

impl Event {
    /// The names of all events that happen to jobs.
    pub const NAMES: [&str; 12] = [
        "put",
        "replaced",
        "rescheduled",
        "leased",
        "extended",
        "acked",
        "failed",
        "expired",
        "released",
        "dead",
        "cancelled",
        "kicked",
    ];
}

/// The data of an event `reset`: the server no longer has all events since the id that the listener
/// sent. The listener should read the jobs again; the stream continues from here.
///
/// ```
/// use tickwheel_api::Reset;
/// let reset: Reset = serde_json::from_str(r#"{"reason": "the id is too old"}"#)?;
/// assert!(!reset.reason.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reset {
    /// Why the stream was reset.
    pub reason: String,
}
