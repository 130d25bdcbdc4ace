//! Problem documents of RFC 9457: what went wrong, in a form that programs and people can read.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::JobId;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $slug:literal, $status:literal, $title:literal;)*) => {
        /// What kind of problem it is: a word for programs.
        ///
        /// ```
        /// use tickwheel_server::api::Code;
        /// assert_eq!(Code::StaleLease.as_str(), "stale-lease");
        /// assert_eq!(Code::StaleLease.status(), 409);
        /// assert_eq!(Code::StaleLease.title(), "The lease is over");
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $slug)] $name,)*
        }

        impl Code {
            /// All of them.
            ///
            /// ```
            /// use tickwheel_server::api::Code;
            /// assert!(Code::ALL.contains(&Code::NotFound));
            /// ```
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// As it is written in a problem document.
            ///
            /// ```
            /// assert_eq!(tickwheel_server::api::Code::NotFound.as_str(), "not-found");
            /// ```
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $slug,)* }
            }

            /// The HTTP status that it comes with, unless the problem says otherwise.
            ///
            /// ```
            /// assert_eq!(tickwheel_server::api::Code::NotFound.status(), 404);
            /// ```
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// A short text for people; the same each time.
            ///
            /// ```
            /// assert_eq!(tickwheel_server::api::Code::NotFound.title(), "There is no such thing");
            /// ```
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

codes! {
    /// The body is not JSON, or not UTF-8.
    MalformedJson = "malformed-json", 400, "The body is not JSON";
    /// A parameter of the path or the query makes no sense.
    InvalidParameter = "invalid-parameter", 400, "A parameter makes no sense";
    /// A header makes no sense.
    InvalidHeader = "invalid-header", 400, "A header makes no sense";
    /// The body did not arrive, or not in time.
    IncompleteBody = "incomplete-body", 400, "The body did not arrive";
    /// There is no token, or not a valid one.
    Unauthorized = "unauthorized", 401, "A valid token is needed";
    /// The token does not allow this.
    Forbidden = "forbidden", 403, "The token does not allow this";
    /// A web page of another origin asks.
    CrossOrigin = "cross-origin", 403, "Requests from other origins are refused";
    /// The request is addressed to another host.
    WrongHost = "wrong-host", 403, "The request is addressed to another host";
    /// There is no such job, queue, schedule or page.
    NotFound = "not-found", 404, "There is no such thing";
    /// The page does not know this method.
    MethodNotAllowed = "method-not-allowed", 405, "The method is not allowed here";
    /// A live job has the key.
    KeyExists = "key-exists", 409, "A live job has this key";
    /// There is a job with the id.
    IdExists = "id-exists", 409, "There is a job with this id";
    /// The lease is over.
    StaleLease = "stale-lease", 409, "The lease is over";
    /// The job or queue is in a state in which this cannot be done.
    WrongState = "wrong-state", 409, "The job or queue is in another state";
    /// The body is too large.
    TooLarge = "too-large", 413, "The body is too large";
    /// The path or query is too long.
    UriTooLong = "uri-too-long", 414, "The address is too long";
    /// The body is of another type.
    UnsupportedMediaType = "unsupported-media-type", 415, "The body has to be JSON";
    /// A field makes no sense.
    InvalidField = "invalid-field", 422, "A field makes no sense";
    /// A field is not known.
    UnknownField = "unknown-field", 422, "A field is not known";
    /// A field is missing.
    MissingField = "missing-field", 422, "A field is missing";
    /// Something is over a limit.
    OverLimit = "over-limit", 422, "Something is over a limit";
    /// The idempotency key was used with another body.
    IdempotencyConflict = "idempotency-conflict", 422, "The key was used with another body";
    /// Too many requests.
    RateLimited = "rate-limited", 429, "Too many requests";
    /// There is no room for more.
    Full = "full", 429, "There is no room for more";
    /// Something is broken in the service.
    Internal = "internal", 500, "Something is broken in the service";
    /// The record of a job cannot be read.
    Damaged = "damaged", 500, "The record cannot be read";
    /// The service cannot answer now.
    Unavailable = "unavailable", 503, "The service cannot answer now";
    /// The store failed, and what was asked for may be done or not.
    OutcomeUnknown = "outcome-unknown", 503, "Whether it was done is unknown";
}

// The derive does not see the names that a macro gives.
impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        let slugs = Self::ALL.iter().map(|code| code.as_str());
        ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(slugs))
            .description(Some("What kind of problem it is: a word for programs"))
            .into()
    }
}

impl ToSchema for Code {}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A problem document of RFC 9457.
///
/// ```
/// use tickwheel_server::api::{Code, Problem};
///
/// let problem = Problem::new(Code::InvalidField, "a delay of \"soon\" is none").at("/delay");
/// let json = serde_json::to_value(&problem).unwrap();
/// assert_eq!(json["type"], "/problems/invalid-field");
/// assert_eq!(json["status"], 422);
/// assert_eq!(json["field"], "/delay");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Where the kind of problem is explained.
    #[serde(rename = "type")]
    #[schema(format = "uri-reference", example = "/problems/invalid-field")]
    pub kind: String,
    /// A short text; the same for each problem of its kind.
    pub title: String,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// What was wrong this time, and what to do.
    pub detail: String,
    /// The path of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub instance: Option<String>,
    /// A word for programs.
    pub code: Code,
    /// What is at fault: a JSON pointer into the body, or the name of a parameter or header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub field: Option<String>,
    /// The id of the request, as it is in the logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub request_id: Option<String>,
    /// The job that is in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub id: Option<JobId>,
}

impl Problem {
    /// A problem of this kind.
    ///
    /// ```
    /// use tickwheel_server::api::{Code, Problem};
    /// assert_eq!(Problem::new(Code::NotFound, "no job").status, 404);
    /// ```
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

    /// Says what is at fault.
    ///
    /// ```
    /// use tickwheel_server::api::{Code, Problem};
    /// let problem = Problem::new(Code::InvalidParameter, "no such state").at("state");
    /// assert_eq!(problem.field.as_deref(), Some("state"));
    /// ```
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
