//! Event streams.

use std::str::FromStr;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tickwheel_queue::{self as queue, EventId};
use utoipa::IntoParams;

use crate::api::{Code, Event, JobState};
use crate::app::App;
use crate::auth::Caller;
use crate::events::{EventBody, EventFilter};
use crate::extract::QueueName;
use crate::problem::Failure;
use crate::query::{Params, query};
use crate::tokens::Scope;
use crate::wire::IntoWire;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Which events are sent.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventQuery {
    /// The same, for clients that cannot set headers
    #[param(value_type = Option<String>, pattern = "^[0-9]{1,19}-[0-9]{1,9}-[0-9a-f]{8}$")]
    last_event_id: Option<EventId>,
    /// Only these events: names with commas between, such as `failed,dead`
    #[param(value_type = Option<String>)]
    event: Option<EventNames>,
    /// Only events after which the job is in this state
    #[param(value_type = Option<JobState>)]
    state: Option<queue::State>,
    /// Only events of jobs with this key
    #[param(max_length = 512)]
    key: Option<String>,
    /// Only events of jobs whose key begins with this
    #[param(max_length = 512)]
    key_prefix: Option<String>,
    /// Only failures whose error contains this text, in any case of ASCII letters
    #[param(max_length = 4096)]
    error: Option<String>,
}
query!(EventQuery { last_event_id, event, state, key, key_prefix, error });

impl EventQuery {
    /// Returns where the stream begins, and the events that it has.
    fn start(self, headers: &HeaderMap) -> Result<(Option<EventId>, EventFilter), Failure> {
        let from = match self.last_event_id {
            Some(id) => Some(id),
            None => of_header(headers)?,
        };
        let filter = EventFilter {
            names: self.event.map(|names| names.0),
            state: self.state.map(IntoWire::into_wire),
            key: self.key,
            key_prefix: self.key_prefix,
            error: self.error,
        };
        Ok((from, filter))
    }
}

/// Names of events, with commas between.
struct EventNames(Vec<String>);

impl FromStr for EventNames {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        match names.iter().find(|name| !Event::NAMES.contains(&name.as_str())) {
            Some(name) => {
                let name: String = name.chars().take(64).collect();
                let known = Event::NAMES.join(", ");
                Err(format!("unknown event {name:?}: use names from {known}, with commas between"))
            }
            None => Ok(Self(names)),
        }
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
        EventQuery,
    ),
    responses((status = 200, description = "The events", body = String, content_type = "text/event-stream"))
)]
pub(crate) async fn all(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Params(query): Params<EventQuery>,
) -> Result<Response, Failure> {
    let (from, filter) = query.start(&headers)?;
    let events = app.queues_for(&caller, Scope::Read)?.events(from);
    Ok(stream(EventBody::new(app, events, filter)))
}

/// Follow the events of a queue.
///
/// As for all queues. The queue need not exist yet.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/events", tag = "events", operation_id = "followQueue",
    params(
        ("Last-Event-ID" = Option<String>, Header, pattern = "^[0-9]{1,19}-[0-9]{1,9}-[0-9a-f]{8}$",
         description = "The id of the last event seen"),
        EventQuery,
    ),
    responses((status = 200, description = "The events", body = String, content_type = "text/event-stream"))
)]
pub(crate) async fn of_queue(
    State(app): State<App>,
    caller: Caller,
    QueueName(queue): QueueName,
    headers: HeaderMap,
    Params(query): Params<EventQuery>,
) -> Result<Response, Failure> {
    let (from, filter) = query.start(&headers)?;
    caller.may(Scope::Read, &queue)?;
    let events = app.queues_for(&caller, Scope::Read)?.events(from).of_queue(queue);
    Ok(stream(EventBody::new(app, events, filter)))
}
