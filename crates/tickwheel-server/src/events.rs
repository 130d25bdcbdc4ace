//! Server-sent events.
//!
//! A stream is a response body without an end. Each chunk holds as many events as fit. A quiet
//! stream sends its position now and then, so that the connection is seen to be alive and a client
//! can resume from there. The stream ends when the service stops, when the client's token is
//! removed, and when the client does not read.

use std::fmt::Write;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tickwheel_queue::{self as queue, Events, EventsError};
use tokio::time::{Instant, Sleep};

use crate::api::{Event, JobState, Reset};
use crate::app::App;
use crate::extract::is_name;
use crate::wire::IntoWire;

/// How often a quiet stream sends its position.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The delay in milliseconds after which a disconnected client reconnects.
const RETRY: u64 = 1_000;
/// The size at which a chunk is sent, in bytes.
const CHUNK: usize = 32 << 10;
/// The number of events that are examined before other tasks get a turn.
const MOST_AT_ONCE: usize = 1_000;

/// The events that a client wants. An event has to match every field that is given.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventFilter {
    pub(crate) names: Option<Vec<String>>,
    pub(crate) state: Option<JobState>,
    pub(crate) key: Option<String>,
    pub(crate) key_prefix: Option<String>,
    /// A part of the error, in any case of ASCII letters.
    pub(crate) error: Option<String>,
}

impl EventFilter {
    fn wants(&self, event: &Event) -> bool {
        let key = event.key.as_deref();
        let has_error = |text: &String| {
            let error = event.error.as_deref().unwrap_or_default().to_ascii_lowercase();
            event.error.is_some() && error.contains(&text.to_ascii_lowercase())
        };
        self.names.as_ref().is_none_or(|names| names.contains(&event.event))
            && self.state.is_none_or(|state| state == event.state)
            && self.key.as_deref().is_none_or(|wanted| key == Some(wanted))
            && self.key_prefix.as_ref().is_none_or(|it| key.is_some_and(|key| key.starts_with(it)))
            && self.error.as_ref().is_none_or(has_error)
    }
}

/// A stream of events.
pub(crate) struct EventBody {
    app: App,
    events: Events,
    filter: EventFilter,
    heartbeat: Pin<Box<Sleep>>,
    ending: Pin<Box<dyn Future<Output = ()> + Send>>,
    has_begun: bool,
    has_ended: bool,
}

impl EventBody {
    pub(crate) fn new(app: App, events: Events, filter: EventFilter) -> Self {
        let shutdown = app.shutdown().clone();
        app.counts().stream_began();
        Self {
            app,
            events,
            filter,
            heartbeat: Box::pin(tokio::time::sleep(HEARTBEAT)),
            ending: Box::pin(async move { shutdown.begun().await }),
            has_begun: false,
            has_ended: false,
        }
    }

    /// Adds events to the chunk.
    fn gather(&mut self, context: &mut Context<'_>, chunk: &mut String) {
        for _ in 0..MOST_AT_ONCE {
            if chunk.len() >= CHUNK || self.has_ended {
                return;
            }
            match self.events.poll_next(context) {
                Poll::Pending => return,
                Poll::Ready(Ok(event)) => {
                    if is_name(&event.queue) {
                        write_event(chunk, &event, &self.filter);
                    }
                }
                Poll::Ready(Err(EventsError::Lost)) => {
                    let reason = EventsError::Lost.to_string();
                    let data = serde_json::to_string(&Reset { reason }).unwrap_or_default();
                    let id = self.events.position();
                    let _ = write!(chunk, "event: reset\nid: {id}\ndata: {data}\n\n");
                }
                Poll::Ready(Err(_)) => self.has_ended = true,
            }
        }
        // There may be more events; other tasks get a turn first.
        context.waker().wake_by_ref();
    }
}

impl Drop for EventBody {
    fn drop(&mut self) {
        self.app.counts().stream_ended();
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.has_ended || self.ending.as_mut().poll(context).is_ready() {
            self.has_ended = true;
            return Poll::Ready(None);
        }
        let mut chunk = String::new();
        if !self.has_begun {
            self.has_begun = true;
            let id = self.events.position();
            let _ = write!(chunk, "retry: {RETRY}\nid: {id}\n\n");
        }
        self.gather(context, &mut chunk);
        let is_time = self.heartbeat.as_mut().poll(context).is_ready();
        if is_time && chunk.is_empty() && !self.has_ended {
            let _ = write!(chunk, "id: {}\n\n", self.events.position());
        }
        if chunk.is_empty() {
            return if self.has_ended { Poll::Ready(None) } else { Poll::Pending };
        }
        self.heartbeat.as_mut().reset(Instant::now() + HEARTBEAT);
        Poll::Ready(Some(Ok(Frame::data(chunk.into()))))
    }
}

fn write_event(chunk: &mut String, event: &queue::Event, filter: &EventFilter) {
    let shown = event.into_wire();
    if !filter.wants(&shown) {
        return;
    }
    let data = serde_json::to_string(&shown).unwrap_or_default();
    let _ = write!(chunk, "event: {}\nid: {}\ndata: {data}\n\n", shown.event, event.id);
}
