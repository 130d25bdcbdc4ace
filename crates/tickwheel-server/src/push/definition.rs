//! What a target is: its settings as a client gave them, checked, with its signing secrets.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method};
use serde::{Deserialize, Serialize};
use tickwheel_queue::{Pacing, RetryPolicy};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::signature::{Secret, Signer};
use super::url::Endpoint;
use crate::api::{Code, TargetMethod, TargetSettings};
use crate::problem::Failure;
use crate::wire::{IntoQueue, pacing_of};

const MAX_TIMEOUT: Duration = Duration::from_secs(30 * 60);
pub(super) const MAX_HEADERS: usize = 64;
const MAX_HEADER_BYTES: usize = 16 << 10;
const MAX_CA_BYTES: usize = 64 << 10;
/// The largest number of requests to one target that are not answered.
pub(crate) const MAX_CONCURRENCY: u32 = 1_024;
/// What is shown in place of a credential.
pub(super) const HIDDEN: &str = "…";
/// Headers that belong to HTTP itself or to the delivery.
const OWN_HEADERS: [&str; 9] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "expect",
];

/// What the store holds of a target, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredDefinition {
    version: u32,
    pub(crate) settings: TargetSettings,
    /// The newest first.
    pub(crate) secrets: Vec<Secret>,
    #[serde(default)]
    pub(crate) paused: bool,
}

impl StoredDefinition {
    const VERSION: u32 = 1;

    pub(crate) fn new(settings: TargetSettings, secret: Secret) -> Self {
        Self { version: Self::VERSION, settings, secrets: vec![secret], paused: false }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let stored: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if stored.version != Self::VERSION {
            return Err(format!("version {} is unknown", stored.version));
        }
        Ok(stored)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// A target that can be delivered to.
pub(super) struct Definition {
    pub(super) endpoint: Endpoint,
    pub(super) method: Method,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) forward: Vec<HeaderName>,
    pub(super) timeout: Duration,
    pub(super) tls: Arc<ClientConfig>,
    pub(super) pacing: Pacing,
    pub(super) retry: Option<RetryPolicy>,
    pub(super) max_attempts: Option<u32>,
    pub(super) signer: Signer,
    pub(super) is_paused: bool,
}

impl Definition {
    /// Checks settings, and prepares what each request needs.
    pub(super) fn new(
        stored: &StoredDefinition,
        public: &Arc<ClientConfig>,
    ) -> Result<Self, Failure> {
        let settings = &stored.settings;
        let wrong = |field: &str, why: String| Failure::field(Code::InvalidField, field, why);
        let endpoint =
            Endpoint::parse(&settings.url).map_err(|why| wrong("/url", format!("url {why}")))?;
        let timeout = settings.timeout.0;
        if !(Duration::from_millis(1)..=MAX_TIMEOUT).contains(&timeout) {
            let why = format!("timeout must be between 1 ms and 30 min, got {timeout:?}");
            return Err(wrong("/timeout", why));
        }
        let pacing = pacing_of(&settings.pacing, "/pacing")?;
        check_pacing(pacing)?;
        let retry = settings.retry.clone().map(IntoQueue::into_queue);
        check_retry(retry.as_ref())?;
        if settings.max_attempts == Some(0) {
            return Err(wrong("/max_attempts", "max_attempts must be at least 1, got 0".into()));
        }
        Ok(Self {
            endpoint,
            method: method_of(settings.method),
            headers: headers_of(settings)?,
            forward: forwarded(settings)?,
            timeout,
            tls: match &settings.ca {
                None => Arc::clone(public),
                Some(ca) => trusting(ca).map_err(|why| wrong("/ca", why))?,
            },
            pacing,
            retry,
            max_attempts: settings.max_attempts,
            signer: Signer::new(&stored.secrets),
            is_paused: stored.paused,
        })
    }

    pub(super) fn concurrency(&self) -> u32 {
        self.pacing.concurrency.unwrap_or(TargetSettings::DEFAULT_CONCURRENCY)
    }

    /// Starts and the length of the window, in milliseconds.
    pub(super) fn window(&self) -> Option<(u32, u64)> {
        self.pacing.starts.map(|(starts, window)| {
            (starts, u64::try_from(window.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
        })
    }
}

fn method_of(method: TargetMethod) -> Method {
    match method {
        TargetMethod::Post => Method::POST,
        TargetMethod::Put => Method::PUT,
        TargetMethod::Patch => Method::PATCH,
        TargetMethod::Delete => Method::DELETE,
        TargetMethod::Get => Method::GET,
    }
}

fn check_pacing(pacing: Pacing) -> Result<(), Failure> {
    let wrong = |field: &str, why: String| Err(Failure::field(Code::InvalidField, field, why));
    if let Some((starts, window)) = pacing.starts {
        if !(1..=Pacing::MAX_STARTS).contains(&starts) {
            let most = Pacing::MAX_STARTS;
            let why = format!("pacing.starts must be between 1 and {most}, got {starts}");
            return wrong("/pacing/starts", why);
        }
        if window.is_zero() {
            return wrong("/pacing/window", "pacing.window must be longer than zero".to_owned());
        }
    }
    match pacing.concurrency {
        Some(concurrency) if !(1..=MAX_CONCURRENCY).contains(&concurrency) => {
            let why = format!(
                "pacing.concurrency must be between 1 and {MAX_CONCURRENCY}, got {concurrency}"
            );
            wrong("/pacing/concurrency", why)
        }
        _ => Ok(()),
    }
}

fn check_retry(retry: Option<&RetryPolicy>) -> Result<(), Failure> {
    let (field, why) = match retry {
        Some(RetryPolicy::Exponential { jitter, .. }) if *jitter > RetryPolicy::MAX_JITTER => {
            let most = RetryPolicy::MAX_JITTER;
            ("/retry/exponential/jitter", format!("jitter must be at most {most} percent"))
        }
        Some(RetryPolicy::List(delays))
            if !(1..=RetryPolicy::MAX_DELAYS).contains(&delays.len()) =>
        {
            let (most, found) = (RetryPolicy::MAX_DELAYS, delays.len());
            ("/retry/list", format!("list must have between 1 and {most} delays, got {found}"))
        }
        _ => return Ok(()),
    };
    Err(Failure::field(Code::InvalidField, field, why))
}

/// Returns a header name that a target may set or forward.
fn header_name(name: &str, field: &str) -> Result<HeaderName, Failure> {
    let wrong = |why: &str| {
        let shown: String = name.chars().take(64).collect();
        Failure::field(Code::InvalidField, field, format!("header {shown:?} {why}"))
    };
    let name: HeaderName = name.parse().map_err(|_| wrong("is not a valid name"))?;
    let text = name.as_str();
    let is_own = OWN_HEADERS.contains(&text)
        || ["webhook-", "tickwheel-", "proxy-"].iter().any(|prefix| text.starts_with(prefix));
    if is_own && text != "proxy-authorization" {
        return Err(wrong("is set by the server"));
    }
    Ok(name)
}

fn headers_of(settings: &TargetSettings) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
    let bytes: usize = settings.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if settings.headers.len() > MAX_HEADERS || bytes > MAX_HEADER_BYTES {
        let why = format!("headers must be at most {MAX_HEADERS}, with {MAX_HEADER_BYTES} bytes");
        return Err(Failure::field(Code::InvalidField, "/headers", why));
    }
    let mut headers = Vec::with_capacity(settings.headers.len());
    for (name, value) in &settings.headers {
        let header = header_name(name, "/headers")?;
        if value == HIDDEN {
            let why = format!("header {header} was shown without its value: send the value itself");
            return Err(Failure::field(Code::InvalidField, "/headers", why));
        }
        let mut value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| {
            let why = format!("the value of header {header} must not have control characters");
            Failure::field(Code::InvalidField, "/headers", why)
        })?;
        value.set_sensitive(is_credential(header.as_str()));
        // Names that differ in case are one name.
        headers.retain(|(other, _)| *other != header);
        headers.push((header, value));
    }
    Ok(headers)
}

fn forwarded(settings: &TargetSettings) -> Result<Vec<HeaderName>, Failure> {
    if settings.forward.len() > MAX_HEADERS {
        let why = format!("forward must name at most {MAX_HEADERS} headers");
        return Err(Failure::field(Code::InvalidField, "/forward", why));
    }
    settings.forward.iter().map(|name| header_name(name, "/forward")).collect()
}

/// Returns `true` if the value of such a header must not be shown.
pub(super) fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "cookie", "token", "secret", "key", "password", "signature"]
        .iter()
        .any(|part| name.contains(part))
}

/// A client that trusts the certificates of a PEM text alone.
pub(crate) fn trusting(ca: &str) -> Result<Arc<ClientConfig>, String> {
    if ca.len() > MAX_CA_BYTES {
        return Err(format!("ca must have at most {MAX_CA_BYTES} bytes, got {}", ca.len()));
    }
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        let certificate = certificate.map_err(|error| format!("ca is not PEM: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("ca has an unusable certificate: {error}"))?;
    }
    if roots.is_empty() {
        return Err("ca has no certificate in PEM".to_owned());
    }
    super::connection::tls_client(roots)
}
