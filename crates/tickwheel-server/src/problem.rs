//! How everything that goes wrong becomes a problem document.
//!
//! A handler fails with a [`Failure`]. It goes through the layers as an empty answer that carries
//! the problem, and the outermost layer, which knows the request's id and path, writes it out.

use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tickwheel_queue::{Error, Limit};

use crate::api::{Code, Problem};
use crate::wire::IntoWire;

/// A problem on its way to the client.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) problem: Box<Problem>,
    header: Option<(HeaderName, HeaderValue)>,
}

impl Failure {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { problem: Box::new(Problem::new(code, detail)), header: None }
    }

    /// Says what is at fault.
    pub(crate) fn at(mut self, field: impl Into<String>) -> Self {
        self.problem.field = Some(field.into());
        self
    }

    /// Puts the place of an item of a batch before the field.
    pub(crate) fn within(mut self, place: &str) -> Self {
        let field = self.problem.field.take().unwrap_or_default();
        self.problem.field = Some(format!("{place}{field}"));
        self
    }

    fn with_status(mut self, status: StatusCode) -> Self {
        self.problem.status = status.as_u16();
        self
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.header = Some((name, value));
        self
    }

    pub(crate) fn retry_after(self, seconds: u64) -> Self {
        self.with_header(axum::http::header::RETRY_AFTER, HeaderValue::from(seconds))
    }

    pub(crate) fn field(code: Code, field: &str, detail: impl Into<String>) -> Self {
        Self::new(code, detail).at(field)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response.extensions_mut().insert(self.problem);
        response
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        let new = |code| Self::new(code, detail.clone());
        let about = |code, id: tickwheel_queue::JobId| {
            let mut failure = new(code);
            failure.problem.id = Some(id.into_wire());
            failure
        };
        match error {
            Error::NotFound(_)
            | Error::NoSuchQueue(_)
            | Error::NoSuchSchedule(_)
            | Error::NoSuchTarget(_) => new(Code::NotFound),
            Error::KeyExists { id, .. } => about(Code::KeyExists, id).at("/key"),
            Error::IdExists { id } => about(Code::IdExists, id).at("/id"),
            Error::IdempotencyConflict { .. } => {
                let why = "this idempotency key was used with another request within 24 hours: use a \
                           new key for a new request";
                Self::new(Code::IdempotencyConflict, why).at("idempotency-key")
            }
            Error::UnusableId { .. } => new(Code::InvalidField).at("/id"),
            Error::UnusableName(_) => new(Code::InvalidParameter).at("name"),
            Error::Forbidden(_) | Error::ForbiddenTarget(_) => new(Code::Forbidden),
            Error::Revoked => {
                Self::new(Code::Unauthorized, "the token was removed or changed meanwhile")
                    .at("authorization")
                    .with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
            }
            Error::StaleLease { id } => about(Code::StaleLease, id),
            Error::WrongState { id, .. } => about(Code::WrongState, id),
            Error::QueueNotEmpty { .. } | Error::TargetInUse { .. } => new(Code::WrongState),
            Error::OverLimit { limit, .. } => over_limit(limit, detail),
            Error::DiskFull { .. } => {
                new(Code::Full).with_status(StatusCode::SERVICE_UNAVAILABLE).retry_after(10)
            }
            Error::Invalid { ref field, .. } => {
                new(Code::InvalidField).at(format!("/{}", field.replace('.', "/")))
            }
            Error::Damaged { id, .. } => about(Code::Damaged, id),
            Error::DamagedSchedule { .. } => new(Code::Damaged),
            Error::Failed(_) => new(Code::OutcomeUnknown).retry_after(1),
            Error::Closed => {
                Self::new(Code::Unavailable, "the service is shutting down").retry_after(1)
            }
            // What is unreadable or unavailable now may be there in a second.
            _ => new(Code::Unavailable).retry_after(1),
        }
    }
}

/// What is too large by itself is the caller's fault; what finds no room may find it later.
fn over_limit(limit: Limit, detail: String) -> Failure {
    let of_field = |field: &str, detail| Failure::field(Code::OverLimit, field, detail);
    match limit {
        Limit::Payload => of_field("/payload", detail).with_status(StatusCode::PAYLOAD_TOO_LARGE),
        Limit::Batch => {
            Failure::new(Code::OverLimit, detail).with_status(StatusCode::PAYLOAD_TOO_LARGE)
        }
        Limit::Headers => of_field("/headers", detail),
        Limit::Key => of_field("/key", detail),
        Limit::Result => of_field("/result", detail),
        Limit::Group => of_field("/group", detail),
        Limit::GroupSettings => Failure::new(Code::OverLimit, detail),
        Limit::QueueName => of_field("queue", detail),
        Limit::ScheduleName => of_field("name", detail),
        Limit::TargetName => of_field("target", detail),
        Limit::Disk => Failure::new(Code::Full, detail)
            .with_status(StatusCode::SERVICE_UNAVAILABLE)
            .retry_after(60),
        _ => Failure::new(Code::Full, detail).retry_after(1),
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self { problem: Box::new(problem), header: None }
    }
}
