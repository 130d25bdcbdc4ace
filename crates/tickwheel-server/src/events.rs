//! What happens, as server-sent events.
//!
//! A stream is a body that never ends by itself. It takes what the queue's feed has, as much at
//! once as fits a chunk, and says where it is when nothing happened for a while, so that the
//! connection is seen to live and a client can go on from there. It ends when the service does, when
//! the client's token is removed, and when the client does not read.

use std::fmt::Write;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tickwheel_queue::{self as queue, Events, EventsError};
use tokio::time::{Instant, Sleep};

use crate::api::Reset;
use crate::app::App;
use crate::extract::is_name;
use crate::wire::IntoWire;

/// So often a quiet stream says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// After so many milliseconds a client that was cut off comes back.
const RETRY: u64 = 1_000;
/// A chunk is sent when it has so many bytes.
const CHUNK: usize = 32 << 10;
/// So many events are looked at before others get their turn.
const MOST_AT_ONCE: usize = 1_000;

/// A stream of events.
pub(crate) struct EventBody {
    app: App,
    events: Events,
    heartbeat: Pin<Box<Sleep>>,
    ending: Pin<Box<dyn Future<Output = ()> + Send>>,
    has_begun: bool,
    has_ended: bool,
}

impl EventBody {
    pub(crate) fn new(app: App, events: Events) -> Self {
        let shutdown = app.shutdown().clone();
        app.counts().stream_began();
        Self {
            app,
            events,
            heartbeat: Box::pin(tokio::time::sleep(HEARTBEAT)),
            ending: Box::pin(async move { shutdown.begun().await }),
            has_begun: false,
            has_ended: false,
        }
    }

    /// Adds what has happened to the chunk.
    fn gather(&mut self, context: &mut Context<'_>, chunk: &mut String) {
        for _ in 0..MOST_AT_ONCE {
            if chunk.len() >= CHUNK || self.has_ended {
                return;
            }
            match self.events.poll_next(context) {
                Poll::Pending => return,
                Poll::Ready(Ok(event)) => {
                    if is_name(&event.queue) {
                        write_event(chunk, &event);
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
        // There may be more, and others want to go on too.
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

fn write_event(chunk: &mut String, event: &queue::Event) {
    let shown = event.into_wire();
    let data = serde_json::to_string(&shown).unwrap_or_default();
    let _ = write!(chunk, "event: {}\nid: {}\ndata: {data}\n\n", shown.event, event.id);
}
