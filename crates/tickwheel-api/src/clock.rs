//! The clock of the server.

use serde::{Deserialize, Serialize};

use super::Delay;

/// The time of the server.
///
/// ```
/// use tickwheel_api::Clock;
/// let clock: Clock = serde_json::from_str(
///     r#"{"now": "2026-01-02T03:04:05.678Z", "now_ms": 1767323045678, "manual": true}"#,
/// )?;
/// assert!(clock.manual);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Clock {
    /// The current time.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub now: String,
    /// The same in milliseconds since 1970.
    pub now_ms: u64,
    /// Whether the clock is manual: it stands still until a request advances it.
    pub manual: bool,
}

/// Advances a manual clock.
///
/// ```
/// use tickwheel_api::AdvanceRequest;
/// let request: AdvanceRequest = serde_json::from_str(r#"{"by": "30m"}"#)?;
/// assert_eq!(request.by.as_millis(), 1_800_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AdvanceRequest {
    /// By how much: from 1 ms to 366 days.
    pub by: Delay,
}
