//! What workers say and hear.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use super::{Delay, Job, JobState};

/// What a worker shows to say that it has the job: 16 hexadecimal digits.
///
/// ```
/// use tickwheel_server::api::LeaseToken;
/// let token: LeaseToken = serde_json::from_str(r#""00000000000000ff""#)?;
/// assert_eq!(token, LeaseToken(255));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ToSchema)]
#[schema(value_type = String, pattern = "^[0-9a-f]{16}$", example = "5f0c1d9e7a3b2468")]
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
            format!("{shown:?} is not the token of a lease: give back what `reserve` gave")
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

/// What a worker asks for.
///
/// ```
/// use tickwheel_server::api::ReserveRequest;
/// let request: ReserveRequest = serde_json::from_str(r#"{"limit": 10, "wait": "20s"}"#)?;
/// assert!(request.lease.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReserveRequest {
    /// At most so many jobs; 1 if this is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// How long the worker has them; as the queue says if this is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Delay>,
    /// How long to wait if there is none, at most 60 s; not at all if this is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Delay>,
}

/// A job that was given to a worker.
///
/// ```
/// use tickwheel_server::api::Delivery;
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
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Delivery {
    /// The job.
    pub job: Job,
    /// What to show when it is done.
    pub token: LeaseToken,
    /// When the lease ends.
    #[schema(format = DateTime)]
    pub until: String,
    /// The same in milliseconds since 1970.
    pub until_ms: u64,
}

/// What a worker gets; nothing if the wait was over first.
///
/// ```
/// use tickwheel_server::api::Deliveries;
/// let answer: Deliveries = serde_json::from_str(r#"{"deliveries": []}"#)?;
/// assert!(answer.deliveries.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Deliveries {
    /// The jobs.
    pub deliveries: Vec<Delivery>,
}

/// A worker is done with a job.
///
/// ```
/// use tickwheel_server::api::AckRequest;
/// let request: AckRequest = serde_json::from_str(r#"{"token": "00000000000000ff"}"#)?;
/// assert_eq!(request.token.0, 255);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AckRequest {
    /// The token of the delivery.
    pub token: LeaseToken,
}

/// The job is done.
///
/// ```
/// use tickwheel_server::api::{Acked, JobState};
/// assert_eq!(Acked::default().state, JobState::Done);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Acked {
    /// `done`
    pub state: JobState,
}

impl Default for Acked {
    fn default() -> Self {
        Self { state: JobState::Done }
    }
}

/// A worker could not do a job. It is tried again as its retry policy says, or after `delay`, or
/// never if `dead` is true.
///
/// ```
/// use tickwheel_server::api::FailRequest;
/// let request: FailRequest =
///     serde_json::from_str(r#"{"token": "00000000000000ff", "error": "timeout"}"#)?;
/// assert!(!request.dead);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailRequest {
    /// The token of the delivery.
    pub token: LeaseToken,
    /// What went wrong; it is kept with the job.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 4096)]
    pub error: String,
    /// Try again after this long, if there is an attempt left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// Do not try again.
    #[serde(default)]
    pub dead: bool,
}

/// What became of a job that failed.
///
/// ```
/// use tickwheel_server::api::{Failed, JobState};
/// let answer: Failed = serde_json::from_str(r#"{"state": "dead"}"#)?;
/// assert_eq!(answer.state, JobState::Dead);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Failed {
    /// `scheduled` or `ready` if it is tried again, `dead` if not.
    pub state: JobState,
}

/// A worker needs longer.
///
/// ```
/// use tickwheel_server::api::ExtendRequest;
/// let request: ExtendRequest =
///     serde_json::from_str(r#"{"token": "00000000000000ff", "lease": "1m"}"#)?;
/// assert_eq!(request.lease.as_millis(), 60_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtendRequest {
    /// The token of the delivery.
    pub token: LeaseToken,
    /// How long from now the lease shall last.
    pub lease: Delay,
}

/// When the lease ends now.
///
/// ```
/// use tickwheel_server::api::Extended;
/// let answer: Extended =
///     serde_json::from_str(r#"{"until": "1970-01-01T00:00:01.000Z", "until_ms": 1000}"#)?;
/// assert_eq!(answer.until_ms, 1_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Extended {
    /// When the lease ends.
    #[schema(format = DateTime)]
    pub until: String,
    /// The same in milliseconds since 1970.
    pub until_ms: u64,
}

/// A worker gives a job back undone. That does not count as an attempt.
///
/// ```
/// use tickwheel_server::api::ReleaseRequest;
/// let request: ReleaseRequest =
///     serde_json::from_str(r#"{"token": "00000000000000ff", "delay": "5s"}"#)?;
/// assert_eq!(request.delay.unwrap().as_millis(), 5_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// The token of the delivery.
    pub token: LeaseToken,
    /// How long it waits; not at all, in its old place, if this is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
}

/// The job waits again.
///
/// ```
/// use tickwheel_server::api::Released;
/// assert!(Released::default().released);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Released {
    /// `true`
    pub released: bool,
}

impl Default for Released {
    fn default() -> Self {
        Self { released: true }
    }
}

/// The dead job is ready again.
///
/// ```
/// use tickwheel_server::api::{JobState, Kicked};
/// assert_eq!(Kicked::default().state, JobState::Ready);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Kicked {
    /// `ready`
    pub state: JobState,
}

impl Default for Kicked {
    fn default() -> Self {
        Self { state: JobState::Ready }
    }
}
