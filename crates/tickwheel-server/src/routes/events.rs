//! Event streams.

use axum::extract::{FromRequestParts, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tickwheel_queue::{self as queue, EventId};

use crate::api::{Code, Event};
use crate::app::App;
use crate::auth::Caller;
use crate::events::{EventBody, EventFilter};
use crate::extract::{Params, QueueName};
use crate::problem::Failure;
use crate::tokens::Scope;
use crate::wire::IntoWire;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The position from which a client resumes, and the events that it wants.
pub(crate) struct GoOn(Option<EventId>, EventFilter);

impl FromRequestParts<App> for GoOn {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let params = Params::from_request_parts(parts, app).await?;
        params.only(&["last_event_id", "event", "state", "key", "key_prefix", "error"])?;
        let filter = filter_of(&params)?;
        if let Some(id) = params.parse("last_event_id", str::parse)? {
            return Ok(Self(Some(id), filter));
        }
        of_header(&parts.headers).map(|id| Self(id, filter))
    }
}

fn filter_of(params: &Params) -> Result<EventFilter, Failure> {
    let text = |name| params.get(name).map(str::to_owned);
    let names = params.parse("event", |text| {
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        let unknown = names.iter().find(|name| !Event::NAMES.contains(&name.as_str()));
        match unknown {
            Some(name) => {
                let name: String = name.chars().take(64).collect();
                let known = Event::NAMES.join(", ");
                Err(format!("unknown event {name:?}: use names from {known}, with commas between"))
            }
            None => Ok(names),
        }
    })?;
    Ok(EventFilter {
        names,
        state: params.parse("state", str::parse::<queue::State>)?.map(IntoWire::into_wire),
        key: text("key"),
        key_prefix: text("key_prefix"),
        error: text("error"),
    })
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
        ("event" = Option<String>, Query,
         description = "Only these events: names with commas between, such as `failed,dead`"),
        ("state" = Option<crate::api::JobState>, Query,
         description = "Only events after which the job is in this state"),
        ("key" = Option<String>, Query, max_length = 512,
         description = "Only events of jobs with this key"),
        ("key_prefix" = Option<String>, Query, max_length = 512,
         description = "Only events of jobs whose key begins with this"),
        ("error" = Option<String>, Query, max_length = 4096,
         description = "Only failures whose error contains this text, in any case of letters"),
    ),
    responses((status = 200, description = "The events", body = String, content_type = "text/event-stream"))
)]
pub(crate) async fn all(
    State(app): State<App>,
    caller: Caller,
    from: GoOn,
) -> Result<Response, Failure> {
    let events = app.queues_for(&caller, Scope::Read)?.events(from.0);
    Ok(stream(EventBody::new(app, events, from.1)))
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
        ("event" = Option<String>, Query,
         description = "Only these events: names with commas between, such as `failed,dead`"),
        ("state" = Option<crate::api::JobState>, Query,
         description = "Only events after which the job is in this state"),
        ("key" = Option<String>, Query, max_length = 512,
         description = "Only events of jobs with this key"),
        ("key_prefix" = Option<String>, Query, max_length = 512,
         description = "Only events of jobs whose key begins with this"),
        ("error" = Option<String>, Query, max_length = 4096,
         description = "Only failures whose error contains this text, in any case of letters"),
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
    Ok(stream(EventBody::new(app, events, from.1)))
}
