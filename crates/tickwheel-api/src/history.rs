//! The attempts of a job.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum AttemptOutcome {
    /// The worker acknowledged the job.
    Done,
    /// The worker reported a failure.
    Failed,
    /// The lease expired.
    Expired,
    /// The worker gave the job back.
    Released,
    /// The job was cancelled or replaced while a worker had it.
    Cancelled,
}

impl AttemptOutcome {
    /// Returns the outcome as JSON writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Released => "released",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for AttemptOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An attempt that has ended: one delivery of a job to a worker.
///
/// ```
/// use tickwheel_api::{Attempt, AttemptOutcome};
/// let attempt: Attempt = serde_json::from_str(
///     r#"{"number": 1, "outcome": "failed", "error": "timeout", "worker": "mail-7",
///         "started": "1970-01-01T00:00:01.000Z", "started_ms": 1000,
///         "ended": "1970-01-01T00:00:03.000Z", "ended_ms": 3000}"#,
/// )?;
/// assert_eq!(attempt.outcome, AttemptOutcome::Failed);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Attempt {
    /// The value of `attempts` during the attempt. A kick starts again at 1, and a released attempt
    /// shares its number with the next one.
    pub number: u32,
    /// When the job was delivered.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub started: String,
    /// The same in milliseconds since 1970.
    pub started_ms: u64,
    /// When the attempt ended.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub ended: String,
    /// The same in milliseconds since 1970.
    pub ended_ms: u64,
    /// How the attempt ended.
    pub outcome: AttemptOutcome,
    /// The name that the worker gave when it reserved the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub worker: Option<String>,
    /// What went wrong: the first 512 bytes of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub error: Option<String>,
    /// What is known beside the error, such as an excerpt of a response: the first 512 bytes of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub detail: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_shown_as_json_writes_it() {
        let json = serde_json::to_string(&AttemptOutcome::Expired).unwrap();
        assert_eq!(json, format!("\"{}\"", AttemptOutcome::Expired));
    }
}
