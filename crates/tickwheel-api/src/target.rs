//! Push targets: HTTP endpoints that the server calls with the jobs of a queue.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Delay, JobId, Pacing, Retry, TargetCause};

/// The method of the requests to a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum TargetMethod {
    /// `POST`
    #[default]
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
    /// `GET`, without a body
    Get,
}

impl TargetMethod {
    /// All methods.
    pub const ALL: [Self; 5] = [Self::Post, Self::Put, Self::Patch, Self::Delete, Self::Get];

    /// Returns the method as HTTP writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Get => "GET",
        }
    }
}

/// The settings of a target. A field that a request leaves out gets its default.
///
/// ```
/// use tickwheel_api::TargetSettings;
/// let settings: TargetSettings = serde_json::from_str(
///     r#"{"url": "https://partner.example/orders/{key}",
///         "pacing": {"starts": 100, "window": "1s", "concurrency": 8}}"#,
/// )?;
/// assert_eq!(settings.timeout.as_millis(), 10_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TargetSettings {
    /// The URL, `http` or `https`. Path and query may contain `{id}`, `{key}`, `{queue}` and
    /// `{header:NAME}`, which become the job's values, percent-encoded.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 2048))]
    pub url: String,
    /// The method. Defaults to `POST`.
    #[serde(default)]
    pub method: TargetMethod,
    /// Headers of each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Names of job headers that each request carries, besides the content type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forward: Vec<String>,
    /// How long a request may take, from resolving the name to the end of the answer: 1 ms to
    /// 30 min. Defaults to 10 s.
    #[serde(default = "default_timeout")]
    pub timeout: Delay,
    /// Certificates in PEM to trust instead of the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The maximum number of requests in any window and at once. Defaults to 16 at once, and any
    /// rate.
    #[serde(default)]
    pub pacing: Pacing,
    /// The delay before a failed job is sent again, where the job names none. Defaults to the
    /// setting of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The maximum number of attempts, where the job names none. The queue's maximum holds too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub max_attempts: Option<u32>,
}

const fn default_timeout() -> Delay {
    Delay::from_millis(10_000)
}

impl TargetSettings {
    /// How many requests may be without an answer if `pacing.concurrency` is absent.
    pub const DEFAULT_CONCURRENCY: u32 = 16;

    /// Returns the default settings for a URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            method: TargetMethod::default(),
            headers: BTreeMap::new(),
            forward: Vec::new(),
            timeout: default_timeout(),
            ca: None,
            pacing: Pacing::default(),
            retry: None,
            max_attempts: None,
        }
    }
}

/// A change of a target's settings: absent fields stay as they are.
///
/// ```
/// use tickwheel_api::{TargetPatch, TargetSettings};
/// let patch: TargetPatch = serde_json::from_str(r#"{"timeout": "30s"}"#)?;
/// let settings = patch.apply(TargetSettings::new("https://partner.example"));
/// assert_eq!(settings.timeout.as_millis(), 30_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TargetPatch {
    /// The URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<TargetMethod>,
    /// Headers of each request: an empty value removes the header, others stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// Names of job headers that each request carries, replaced as one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward: Option<Vec<String>>,
    /// How long a request may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Delay>,
    /// Certificates in PEM to trust instead of the public ones; an empty text removes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The maximum number of requests in any window and at once, replaced as one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Pacing>,
    /// The delay before a failed job is sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The maximum number of attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub max_attempts: Option<u32>,
}

impl TargetPatch {
    /// Returns the settings with the given fields changed.
    #[must_use]
    pub fn apply(self, settings: TargetSettings) -> TargetSettings {
        let mut headers = settings.headers;
        headers.extend(self.headers.unwrap_or_default());
        headers.retain(|_, value| !value.is_empty());
        TargetSettings {
            url: self.url.unwrap_or(settings.url),
            method: self.method.unwrap_or(settings.method),
            headers,
            forward: self.forward.unwrap_or(settings.forward),
            timeout: self.timeout.unwrap_or(settings.timeout),
            ca: match self.ca {
                Some(ca) => Some(ca).filter(|ca| !ca.is_empty()),
                None => settings.ca,
            },
            pacing: self.pacing.unwrap_or(settings.pacing),
            retry: self.retry.or(settings.retry),
            max_attempts: self.max_attempts.or(settings.max_attempts),
        }
    }
}

/// How deliveries to a target go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum TargetState {
    /// As fast as its pacing allows.
    Active,
    /// Slower than its pacing allows, after trouble: the rate doubles each second.
    Slow,
    /// Not until the next probe.
    Held,
    /// Not until it is resumed: it answered 410.
    Stopped,
    /// Not until it is resumed: it was paused.
    Paused,
}

impl TargetState {
    /// All states.
    pub const ALL: [Self; 5] = [Self::Active, Self::Slow, Self::Held, Self::Stopped, Self::Paused];

    /// Returns the state as JSON writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Slow => "slow",
            Self::Held => "held",
            Self::Stopped => "stopped",
            Self::Paused => "paused",
        }
    }
}

/// A signing secret, without the secret itself.
///
/// ```
/// use tickwheel_api::SecretInfo;
/// let secret: SecretInfo = serde_json::from_str(
///     r#"{"created": "2026-01-01T00:00:00Z", "created_ms": 1767225600000}"#,
/// )?;
/// assert!(secret.expires.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecretInfo {
    /// When it was added.
    pub created: String,
    /// When it was added, in milliseconds.
    pub created_ms: u64,
    /// When it stops signing, if another has replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub expires: Option<String>,
    /// When it stops signing, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub expires_ms: Option<u64>,
}

/// What became of the requests to a target since the server started.
///
/// ```
/// use tickwheel_api::TargetCounts;
/// assert_eq!(TargetCounts::default().delivered, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TargetCounts {
    /// Requests answered with 2xx: their jobs are acknowledged.
    pub delivered: u64,
    /// Failed attempts.
    pub failed: u64,
    /// Jobs that were put back without counting an attempt: 429, 503 or 410.
    pub held: u64,
}

/// A target's answer to the request for a job, or the reason why there was none.
///
/// ```
/// use tickwheel_api::TargetResponse;
/// let response: TargetResponse = serde_json::from_str(
///     r#"{"at": "1970-01-01T00:00:01.000Z", "at_ms": 1000, "duration_ms": 12,
///         "verdict": "failed", "status": 500, "excerpt": "out of paper"}"#,
/// )?;
/// assert_eq!((response.status, response.error), (Some(500), None));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TargetResponse {
    /// When the request ended.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub at: String,
    /// The same in milliseconds since 1970.
    pub at_ms: u64,
    /// How long the request took.
    pub duration_ms: u64,
    /// What became of the job: `delivered`, `failed`, `dead`, `held` or `stopped`.
    pub verdict: String,
    /// The status of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub status: Option<u16>,
    /// The beginning of the answer's body: the first 256 bytes of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub excerpt: Option<String>,
    /// Why there was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub error: Option<String>,
    /// The same for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub cause: Option<TargetCause>,
}

/// A target.
///
/// ```
/// use tickwheel_api::{Target, TargetState};
/// let target: Target = serde_json::from_str(
///     r#"{"name": "partner", "settings": {"url": "https://partner.example"}, "state": "active",
///         "queues": ["orders"], "in_flight": 0, "secrets": [],
///         "counts": {"delivered": 5, "failed": 0, "held": 0}}"#,
/// )?;
/// assert_eq!(target.state, TargetState::Active);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Target {
    /// The name.
    pub name: String,
    /// The settings. Values of headers that look like credentials are replaced by `…`.
    pub settings: TargetSettings,
    /// How deliveries go.
    pub state: TargetState,
    /// Why the target is not active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub reason: Option<String>,
    /// The same for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub cause: Option<TargetCause>,
    /// When a held target is tried again with one job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub next_probe: Option<String>,
    /// The same in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub next_probe_ms: Option<u64>,
    /// The queues whose jobs it gets.
    pub queues: Vec<String>,
    /// Requests that are not answered yet.
    pub in_flight: u64,
    /// What became of requests since the server started.
    pub counts: TargetCounts,
    /// The last 5 answers to jobs since the server started, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub responses: Vec<TargetResponse>,
    /// The signing secrets, the newest first.
    pub secrets: Vec<SecretInfo>,
    /// The new signing secret. Only the answer to the request that made it shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub secret: Option<String>,
}

/// All targets.
///
/// ```
/// use tickwheel_api::TargetList;
/// let list: TargetList = serde_json::from_str(r#"{"targets": []}"#)?;
/// assert!(list.targets.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TargetList {
    /// The targets, by name.
    pub targets: Vec<Target>,
}

/// The state of a target: the `data` of a server-sent event, whose name is the state, or `removed`.
///
/// ```
/// use tickwheel_api::{TargetEvent, TargetState};
/// let event: TargetEvent = serde_json::from_str(
///     r#"{"target": "partner", "state": "held", "reason": "answered 429", "at_ms": 1000,
///         "at": "1970-01-01T00:00:01.000Z"}"#,
/// )?;
/// assert_eq!(event.state, Some(TargetState::Held));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TargetEvent {
    /// The target.
    pub target: String,
    /// Its state; absent if it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub state: Option<TargetState>,
    /// Why it is not active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub reason: Option<String>,
    /// The same for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub cause: Option<TargetCause>,
    /// When a held target is tried again with one job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub next_probe: Option<String>,
    /// The same in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub next_probe_ms: Option<u64>,
    /// When the event was sent.
    pub at: String,
    /// The same in milliseconds.
    pub at_ms: u64,
}

/// A request for a new signing secret.
///
/// ```
/// use tickwheel_api::RotateRequest;
/// let request: RotateRequest = serde_json::from_str(r#"{"keep_old": "1h"}"#)?;
/// assert!(request.keep_old.is_some());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RotateRequest {
    /// How long the old secrets sign beside the new one. Defaults to 24 h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_old: Option<Delay>,
}

/// A header of a request or an answer.
///
/// ```
/// use tickwheel_api::HeaderLine;
/// let header: HeaderLine = serde_json::from_str(r#"{"name": "date", "value": "today"}"#)?;
/// assert_eq!(header.name, "date");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeaderLine {
    /// The name, in lower case.
    pub name: String,
    /// The value.
    pub value: String,
}

/// One request to a target, and what came back.
///
/// ```
/// use tickwheel_api::TargetTest;
/// let test: TargetTest = serde_json::from_str(
///     r#"{"id": "0190163d-8694-739b-aea5-966c26f8ad91", "method": "POST",
///         "url": "https://partner.example/", "request_headers": [], "request_body": "{}",
///         "duration_ms": 3, "verdict": "delivered", "status": 200}"#,
/// )?;
/// assert_eq!(test.status, Some(200));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TargetTest {
    /// The id of the request, which is its `webhook-id`. No job has it.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = "uuid"))]
    pub id: JobId,
    /// The method.
    pub method: String,
    /// The URL.
    pub url: String,
    /// The address that was dialled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub address: Option<String>,
    /// The headers as they were sent. Credentials are replaced by `…`.
    pub request_headers: Vec<HeaderLine>,
    /// The body that was sent.
    pub request_body: String,
    /// How long it took.
    pub duration_ms: u64,
    /// What would become of a job: `delivered`, `failed`, `dead`, `held` or `stopped`.
    pub verdict: String,
    /// The status of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub status: Option<u16>,
    /// The headers of the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub response_headers: Vec<HeaderLine>,
    /// The beginning of the answer's body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub response_body: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub error: Option<String>,
    /// The same for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub cause: Option<TargetCause>,
}
