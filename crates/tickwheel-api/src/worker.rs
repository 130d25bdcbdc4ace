//! Deliveries, and the requests of workers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::payload::some_json;
use super::{Delay, Job, JobState};

/// The token of a lease, which a worker's requests about its job carry: 16 hexadecimal digits.
///
/// ```
/// use tickwheel_api::LeaseToken;
/// let token: LeaseToken = serde_json::from_str(r#""00000000000000ff""#)?;
/// assert_eq!(token, LeaseToken(255));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(
    value_type = String, pattern = "^[0-9a-f]{16}$", example = "5f0c1d9e7a3b2468",
))]
pub struct LeaseToken(pub u64);

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for LeaseToken {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let token = (text.len() == 16 && text.bytes().all(is_hex))
            .then(|| u64::from_str_radix(text, 16).ok())
            .flatten();
        token.map(Self).ok_or_else(|| {
            let shown: String = text.chars().take(64).collect();
            format!("{shown:?} is not a lease token: send the one that `reserve` returned")
        })
    }
}

impl Serialize for LeaseToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LeaseToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A request for jobs. Every field is optional.
///
/// ```
/// use tickwheel_api::ReserveRequest;
/// let request: ReserveRequest = serde_json::from_str(r#"{"limit": 10, "wait": "20s"}"#)?;
/// assert!(request.lease.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReserveRequest {
    /// The maximum number of jobs. Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// The duration of the lease. Defaults to the queue's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Delay>,
    /// How long to wait for a job if none is ready, at most 60 s. Defaults to no wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Delay>,
    /// The name of the worker, which is shown with its jobs and in their history: 1 to 128 bytes
    /// without control characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 128))]
    pub worker: Option<String>,
}

/// A job that is leased to a worker.
///
/// ```
/// use tickwheel_api::Delivery;
/// let delivery: Delivery = serde_json::from_str(
///     r#"{"job": {"id": "0190163d-8694-739b-aea5-966c26f8ad91", "queue": "orders",
///                 "state": "leased", "text": "hello", "priority": 0, "attempts": 1,
///                 "due": "1970-01-01T00:00:01.000Z", "due_ms": 1000,
///                 "created": "1970-01-01T00:00:01.000Z", "created_ms": 1000},
///         "token": "00000000000000ff",
///         "until": "1970-01-01T00:00:31.000Z", "until_ms": 31000}"#,
/// )?;
/// assert_eq!(delivery.until_ms, 31_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Delivery {
    /// The job.
    pub job: Job,
    /// The lease token, which acknowledging, failing, extending and releasing require.
    pub token: LeaseToken,
    /// When the lease expires.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub until: String,
    /// The same in milliseconds since 1970.
    pub until_ms: u64,
}

/// The jobs for a worker; none if the wait ended first.
///
/// ```
/// use tickwheel_api::Deliveries;
/// let answer: Deliveries = serde_json::from_str(r#"{"deliveries": []}"#)?;
/// assert!(answer.deliveries.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Deliveries {
    /// The jobs.
    pub deliveries: Vec<Delivery>,
}

/// Acknowledges a job.
///
/// ```
/// use tickwheel_api::AckRequest;
/// let request: AckRequest = serde_json::from_str(r#"{"token": "00000000000000ff"}"#)?;
/// assert_eq!(request.token.0, 255);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AckRequest {
    /// The lease token of the delivery.
    pub token: LeaseToken,
    /// The result, a JSON value of at most 64 KiB. It is kept as long as the queue keeps done jobs,
    /// and is the payload of the job's follow-up.
    #[serde(default, deserialize_with = "some_json", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value, required = false))]
    pub result: Option<Box<RawValue>>,
}

/// The answer to an acknowledgement.
///
/// ```
/// use tickwheel_api::{Acked, JobState};
/// assert_eq!(Acked::default().state, JobState::Done);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Acked {
    /// Always `done`.
    pub state: JobState,
}

impl Default for Acked {
    fn default() -> Self {
        Self { state: JobState::Done }
    }
}

/// Reports that an attempt failed. The job is retried by its retry policy, after `delay`, or, if
/// `dead` is true, not at all.
///
/// ```
/// use tickwheel_api::FailRequest;
/// let request: FailRequest =
///     serde_json::from_str(r#"{"token": "00000000000000ff", "error": "timeout"}"#)?;
/// assert!(!request.dead);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailRequest {
    /// The lease token of the delivery.
    pub token: LeaseToken,
    /// What went wrong; kept with the job.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_length = 4096))]
    pub error: String,
    /// Retry after this delay, if an attempt is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// Do not retry.
    #[serde(default)]
    pub dead: bool,
}

/// The answer to a failed attempt.
///
/// ```
/// use tickwheel_api::{Failed, JobState};
/// let answer: Failed = serde_json::from_str(r#"{"state": "dead"}"#)?;
/// assert_eq!(answer.state, JobState::Dead);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Failed {
    /// `scheduled` or `ready` if the job is retried, else `dead`.
    pub state: JobState,
}

/// Extends a lease.
///
/// ```
/// use tickwheel_api::ExtendRequest;
/// let request: ExtendRequest =
///     serde_json::from_str(r#"{"token": "00000000000000ff", "lease": "1m"}"#)?;
/// assert_eq!(request.lease.as_millis(), 60_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExtendRequest {
    /// The lease token of the delivery.
    pub token: LeaseToken,
    /// The new duration of the lease, from now.
    pub lease: Delay,
}

/// The answer to an extension.
///
/// ```
/// use tickwheel_api::Extended;
/// let answer: Extended =
///     serde_json::from_str(r#"{"until": "1970-01-01T00:00:01.000Z", "until_ms": 1000}"#)?;
/// assert_eq!(answer.until_ms, 1_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Extended {
    /// When the lease expires.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub until: String,
    /// The same in milliseconds since 1970.
    pub until_ms: u64,
}

/// Releases a job, so that another worker may get it. Does not count as an attempt.
///
/// ```
/// use tickwheel_api::ReleaseRequest;
/// let request: ReleaseRequest =
///     serde_json::from_str(r#"{"token": "00000000000000ff", "delay": "5s"}"#)?;
/// assert_eq!(request.delay.unwrap().as_millis(), 5_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReleaseRequest {
    /// The lease token of the delivery.
    pub token: LeaseToken,
    /// How long the job waits before it is ready. Without it the job is ready at once, in its old
    /// position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
}

/// The answer to a release.
///
/// ```
/// use tickwheel_api::Released;
/// assert!(Released::default().released);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Released {
    /// Always `true`.
    pub released: bool,
}

impl Default for Released {
    fn default() -> Self {
        Self { released: true }
    }
}

/// The answer to a kick.
///
/// ```
/// use tickwheel_api::{JobState, Kicked};
/// assert_eq!(Kicked::default().state, JobState::Ready);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Kicked {
    /// Always `ready`.
    pub state: JobState,
}

impl Default for Kicked {
    fn default() -> Self {
        Self { state: JobState::Ready }
    }
}
