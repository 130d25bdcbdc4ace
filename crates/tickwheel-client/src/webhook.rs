//! Verification of the signatures of push deliveries, after Standard Webhooks.

use std::fmt;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// How much the sender's clock may differ from ours.
const TOLERANCE: Duration = Duration::from_secs(300);

/// Why a request is not taken for one of the server's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WebhookError {
    /// The secret is not `whsec_` and base 64.
    Secret,
    /// A header is missing or malformed.
    Header(&'static str),
    /// The request was sent too long ago, or in the future.
    Time,
    /// No signature is right for this body.
    Signature,
}

impl fmt::Display for WebhookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret => f.write_str("the signing secret is not whsec_ followed by base 64"),
            Self::Header(name) => write!(f, "the header {name} is missing or malformed"),
            Self::Time => {
                write!(f, "webhook-timestamp is more than {TOLERANCE:?} from this machine's clock")
            }
            Self::Signature => f.write_str("no signature matches the body: the request is forged"),
        }
    }
}

impl std::error::Error for WebhookError {}

/// Checks that a request was signed with the secret, and within five minutes of `now`.
///
/// `header` gives the value of a header by its name in lower case. The body must be the bytes as
/// they arrived.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tickwheel_client::verify_webhook;
///
/// let header = |name: &str| match name {
///     "webhook-id" => Some("0190163d-8694-739b-aea5-966c26f8ad91"),
///     "webhook-timestamp" => Some("1767323045"),
///     "webhook-signature" => Some("v1,mO25x/0GVzFPcgdRVOjHbUU8ckGZdk3PaY1r/6gUMSg="),
///     _ => None,
/// };
/// let secret = "whsec_dGlja3doZWVsIGNvbmZvcm1hbmNlIGtleSAyNCs=";
/// let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_050);
/// let body = r#"{"order":42,"note":"grüße"}"#;
/// verify_webhook(secret, header, body.as_bytes(), now)?;
/// assert!(verify_webhook(secret, header, b"forged", now).is_err());
/// # Ok::<(), tickwheel_client::WebhookError>(())
/// ```
///
/// # Errors
///
/// If the request must not be trusted; the error says why.
pub fn verify_webhook<'a>(
    secret: &str,
    header: impl Fn(&str) -> Option<&'a str>,
    body: &[u8],
    now: SystemTime,
) -> Result<(), WebhookError> {
    let need =
        |name| header(name).filter(|value| !value.is_empty()).ok_or(WebhookError::Header(name));
    let (id, timestamp) = (need("webhook-id")?, need("webhook-timestamp")?);
    let signatures = need("webhook-signature")?;
    let seconds: u64 = timestamp.parse().map_err(|_| WebhookError::Header("webhook-timestamp"))?;
    let sent = Duration::from_secs(seconds);
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if sent.abs_diff(Duration::from_secs(now.as_secs())) > TOLERANCE {
        return Err(WebhookError::Time);
    }
    let key = secret.strip_prefix("whsec_").and_then(|key| STANDARD.decode(key).ok());
    let key = key.filter(|key| !key.is_empty()).ok_or(WebhookError::Secret)?;
    let mut expected = Hmac::<Sha256>::new_from_slice(&key).map_err(|_| WebhookError::Secret)?;
    expected.update(format!("{id}.{timestamp}.").as_bytes());
    expected.update(body);
    let is_right = |signature: &str| {
        let given = signature.strip_prefix("v1,").and_then(|text| STANDARD.decode(text).ok());
        // The comparison takes the same time for any signature.
        given.is_some_and(|given| expected.clone().verify_slice(&given).is_ok())
    };
    if signatures.split(' ').any(is_right) { Ok(()) } else { Err(WebhookError::Signature) }
}
