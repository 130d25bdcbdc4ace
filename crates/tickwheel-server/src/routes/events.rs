//! Event streams.

use axum::extract::{FromRequestParts, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tickwheel_queue::EventId;

use crate::api::Code;
use crate::app::App;
use crate::auth::Caller;
use crate::events::EventBody;
use crate::extract::{Params, QueueName};
use crate::problem::Failure;
use crate::tokens::Scope;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The position from which a client resumes.
pub(crate) struct GoOn(Option<EventId>);

impl FromRequestParts<App> for GoOn {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let params = Params::from_request_parts(parts, app).await?;
        params.only(&["last_event_id"])?;
        if let Some(id) = params.parse("last_event_id", str::parse)? {
            return Ok(Self(Some(id)));
        }
        of_header(&parts.headers).map(Self)
    }
}

fn of_header(headers: &HeaderMap) -> Result<Option<EventId>, Failure> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let id = value.to_str().unwrap_or_default().parse();
    id.map(Some).map_err(|error: tickwheel_queue::ParseEventIdError| {
        Failure::new(Code::InvalidHeader, error.to_string()).at("last-event-id")
    })
}

/// An answer with server-sent events.
pub(super) fn stream(
    body: impl http_body::Body<Data = Bytes, Error = std::convert::Infallible> + Send + 'static,
) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        // Buffering proxies would delay events.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, axum::body::Body::new(body)).into_response()
}

/// Follow the events of all queues that the caller may see.
///
/// Server-sent events: the name is the kind, the data is an `Event`. With the id of the last event
/// seen, as header or as parameter, the stream resumes after it. If later events are no longer
/// known, it begins with an event `reset`. The stream ends when the service stops.
#[utoipa::path(
    get, path = "/v1/events", tag = "events", operation_id = "followAll",
    params(
        ("Last-Event-ID" = Option<String>, Header, pattern = "^[0-9]{1,19}-[0-9]{1,9}-[0-9a-f]{8}$",
         description = "The id of the last event seen"),
        ("last_event_id" = Option<String>, Query, pattern = "^[0-9]{1,19}-[0-9]{1,9}-[0-9a-f]{8}$",
         description = "The same, for those who cannot set headers"),
    ),
    responses((status = 200, description = "The events", body = String, content_type = "text/event-stream"))
)]
pub(crate) async fn all(
    State(app): State<App>,
    caller: Caller,
    from: GoOn,
) -> Result<Response, Failure> {
    let events = app.queues_for(&caller, Scope::Read)?.events(from.0);
    Ok(stream(EventBody::new(app, events)))
}

/// Follow the events of a queue.
///
/// As for all queues. The queue need not exist yet.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/events", tag = "events", operation_id = "followQueue",
    params(
        ("Last-Event-ID" = Option<String>, Header, pattern = "^[0-9]{1,19}-[0-9]{1,9}-[0-9a-f]{8}$",
         description = "The id of the last event seen"),
        ("last_event_id" = Option<String>, Query, pattern = "^[0-9]{1,19}-[0-9]{1,9}-[0-9a-f]{8}$",
         description = "The same, for those who cannot set headers"),
    ),
    responses((status = 200, description = "The events", body = String, content_type = "text/event-stream"))
)]
pub(crate) async fn of_queue(
    State(app): State<App>,
    caller: Caller,
    QueueName(queue): QueueName,
    from: GoOn,
) -> Result<Response, Failure> {
    caller.may(Scope::Read, &queue)?;
    let events = app.queues_for(&caller, Scope::Read)?.events(from.0).of_queue(queue);
    Ok(stream(EventBody::new(app, events)))
}
