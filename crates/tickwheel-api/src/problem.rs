//! Problem documents of RFC 9457: errors that programs and people can read.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::JobId;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $slug:literal, $status:literal, $title:literal;)*) => {
        /// The kind of a problem, for programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $slug)] $name,)*
        }

        impl Code {
            /// All kinds of problems.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the code as a problem document writes it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $slug,)* }
            }

            /// Returns the usual HTTP status. A problem may have another one.
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// Returns a short text for people, the same for each problem of this kind.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

codes! {
    /// The body is not JSON, or not UTF-8.
    MalformedJson = "malformed-json", 400, "The body is not JSON";
    /// A parameter of the path or the query is invalid.
    InvalidParameter = "invalid-parameter", 400, "A parameter is invalid";
    /// A header is invalid.
    InvalidHeader = "invalid-header", 400, "A header is invalid";
    /// The body did not arrive, or not in time.
    IncompleteBody = "incomplete-body", 400, "The body did not arrive in full";
    /// Plain HTTP was sent to a port that speaks TLS.
    TlsRequired = "tls-required", 400, "The port speaks TLS";
    /// The token is missing or invalid.
    Unauthorized = "unauthorized", 401, "A valid token is required";
    /// The token does not allow this.
    Forbidden = "forbidden", 403, "The token does not allow this";
    /// A web page of another origin sent the request.
    CrossOrigin = "cross-origin", 403, "Requests from other origins are refused";
    /// The request is addressed to another host.
    WrongHost = "wrong-host", 403, "The request is addressed to another host";
    /// The job, queue, schedule or page does not exist.
    NotFound = "not-found", 404, "Not found";
    /// The path does not support this method.
    MethodNotAllowed = "method-not-allowed", 405, "The method is not allowed here";
    /// A live job has the key.
    KeyExists = "key-exists", 409, "A live job has this key";
    /// A job has the id.
    IdExists = "id-exists", 409, "A job has this id";
    /// The lease has expired, or its job is finished.
    StaleLease = "stale-lease", 409, "The lease has expired";
    /// The state of the job or queue does not allow the request.
    WrongState = "wrong-state", 409, "The state of the job or queue does not allow this";
    /// The body is too large.
    TooLarge = "too-large", 413, "The body is too large";
    /// The path or query is too long.
    UriTooLong = "uri-too-long", 414, "The address is too long";
    /// The body is not declared as JSON.
    UnsupportedMediaType = "unsupported-media-type", 415, "The body must be JSON";
    /// A field is invalid.
    InvalidField = "invalid-field", 422, "A field is invalid";
    /// A field is unknown.
    UnknownField = "unknown-field", 422, "A field is unknown";
    /// A field is missing.
    MissingField = "missing-field", 422, "A field is missing";
    /// A value exceeds a limit.
    OverLimit = "over-limit", 422, "A limit is exceeded";
    /// The idempotency key was used with another request.
    IdempotencyConflict = "idempotency-conflict", 422, "The key was used with another request";
    /// Too many requests.
    RateLimited = "rate-limited", 429, "Too many requests";
    /// The server has no room for more jobs or data.
    Full = "full", 429, "No room for more";
    /// The server has a bug.
    Internal = "internal", 500, "Internal error";
    /// The record of a job cannot be read.
    Damaged = "damaged", 500, "The record cannot be read";
    /// The server cannot answer now.
    Unavailable = "unavailable", 503, "The server cannot answer now";
    /// The store failed: the request may or may not have been applied.
    OutcomeUnknown = "outcome-unknown", 503, "The outcome is unknown";
}

// The derive does not see the names that a macro gives.
#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Code {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::{ObjectBuilder, Type};
        let slugs = Self::ALL.iter().map(|code| code.as_str());
        ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(slugs))
            .description(Some("The kind of a problem, for programs"))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Code {}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A problem document of RFC 9457.
///
/// ```
/// use tickwheel_api::{Code, Problem};
///
/// let problem = Problem::new(Code::InvalidField, "\"soon\" is not a duration").at("/delay");
/// let json = serde_json::to_value(&problem).unwrap();
/// assert_eq!(json["type"], "/problems/invalid-field");
/// assert_eq!(json["status"], 422);
/// assert_eq!(json["field"], "/delay");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// Where the kind of problem is explained.
    #[serde(rename = "type")]
    #[cfg_attr(
        feature = "openapi",
        schema(format = "uri-reference", example = "/problems/invalid-field",)
    )]
    pub kind: String,
    /// A short text; the same for each problem of its kind.
    pub title: String,
    /// The HTTP status.
    #[cfg_attr(feature = "openapi", schema(minimum = 400, maximum = 599))]
    pub status: u16,
    /// What is wrong with this request, and what to do.
    pub detail: String,
    /// The path of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub instance: Option<String>,
    /// The kind of problem, for programs.
    pub code: Code,
    /// What is at fault: a JSON pointer into the body, or the name of a parameter or header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub field: Option<String>,
    /// The id of the request, which the server's log shows too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub request_id: Option<String>,
    /// The job that is concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub id: Option<JobId>,
}

impl Problem {
    /// Returns a problem of this kind, with its usual status.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("/problems/{code}"),
            title: code.title().to_owned(),
            status: code.status(),
            detail: detail.into(),
            instance: None,
            code,
            field: None,
            request_id: None,
            id: None,
        }
    }

    /// Names the field, parameter or header at fault.
    #[must_use]
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        match &self.field {
            Some(field) => write!(f, " ({} at {field})", self.code),
            None => write!(f, " ({})", self.code),
        }
    }
}

impl std::error::Error for Problem {}
