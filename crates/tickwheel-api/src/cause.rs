//! Why a target fails, for programs: a code and a value, which a display can put into any language.

use serde::{Deserialize, Serialize};

/// What went wrong with a request to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum TargetCauseCode {
    /// The target answered with an error. The detail is the status and the beginning of the body.
    Answered,
    /// The target answered with a redirect, which is not followed. The detail is the status.
    Redirected,
    /// No answer came in time. The detail is the timeout.
    Timeout,
    /// The name has no address. The detail is the name.
    Unresolved,
    /// The server may not call this address. The detail is the address.
    Denied,
    /// No connection was possible. The detail is the address, and the error.
    Unreachable,
    /// The TLS handshake failed. The detail is the error.
    Tls,
    /// The connection ended before the answer. The detail is the error.
    Disconnected,
    /// Nothing went wrong since the target was resumed: its rate grows from a low one.
    Resumed,
    /// Something else. The detail is a sentence in English.
    Other,
}

impl TargetCauseCode {
    /// All codes.
    pub const ALL: [Self; 10] = [
        Self::Answered,
        Self::Redirected,
        Self::Timeout,
        Self::Unresolved,
        Self::Denied,
        Self::Unreachable,
        Self::Tls,
        Self::Disconnected,
        Self::Resumed,
        Self::Other,
    ];

    /// Returns the code as JSON writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Redirected => "redirected",
            Self::Timeout => "timeout",
            Self::Unresolved => "unresolved",
            Self::Denied => "denied",
            Self::Unreachable => "unreachable",
            Self::Tls => "tls",
            Self::Disconnected => "disconnected",
            Self::Resumed => "resumed",
            Self::Other => "other",
        }
    }
}

/// Why a target is not active or a request to it failed, for programs. A field next to it says the
/// same in English.
///
/// ```
/// use tickwheel_api::{TargetCause, TargetCauseCode};
/// let cause: TargetCause = serde_json::from_str(
///     r#"{"code": "answered", "detail": "429 Too Many Requests", "recovering": true}"#,
/// )?;
/// assert_eq!(cause.code, TargetCauseCode::Answered);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TargetCause {
    /// What went wrong.
    pub code: TargetCauseCode,
    /// The value that belongs to the code; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// `true` if a request has succeeded since, so that the rate grows again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recovering: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_written_as_they_are_named() {
        for code in TargetCauseCode::ALL {
            let json = serde_json::to_string(&code).unwrap();
            assert_eq!(json, format!("{:?}", code.as_str()));
        }
    }
}
