//! Streams of target states, as server-sent events.
//!
//! A stream begins with the state of every target, so a client that reconnects has missed nothing
//! that counts. After that it has an event for each change of a state.

use std::fmt::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tickwheel_queue::Access;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::{Push, wall_clock_ms};
use crate::api::{Target, TargetEvent};
use crate::app::App;

/// How often a stream without events sends a comment, so that proxies keep it open.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Chunks that wait for a slow client.
const MAX_CHUNKS: usize = 16;

/// A body that a task fills.
pub(crate) struct WatchBody(mpsc::Receiver<Bytes>);

impl WatchBody {
    /// A body, and where its chunks are sent to. At most this many wait for a slow client.
    pub(crate) fn new(max_chunks: usize) -> (mpsc::Sender<Bytes>, Self) {
        let (chunks, body) = mpsc::channel(max_chunks);
        (chunks, Self(body))
    }
}

impl Body for WatchBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}

/// Begins a stream. It ends when the service stops, and when the access is revoked.
pub(crate) fn watch(app: App, access: Access) -> WatchBody {
    let (chunks, body) = WatchBody::new(MAX_CHUNKS);
    tokio::spawn(async move {
        app.counts().stream_began();
        fill(&app, &access, &chunks).await;
        app.counts().stream_ended();
    });
    body
}

async fn fill(app: &App, access: &Access, chunks: &mpsc::Sender<Bytes>) {
    let push: &Arc<Push> = app.push();
    let mut changes = push.changes.subscribe();
    let mut chunk = "retry: 1000\n\n".to_owned();
    push.list().iter().for_each(|target| write_event(&mut chunk, target));
    loop {
        if access.is_revoked() || chunks.send(Bytes::from(chunk)).await.is_err() {
            return;
        }
        chunk = String::new();
        tokio::select! {
            () = app.shutdown().begun() => return,
            () = chunks.closed() => return,
            () = tokio::time::sleep(HEARTBEAT) => chunk.push_str(":\n\n"),
            change = changes.recv() => match change {
                Ok(name) => match push.show(&name) {
                    Ok(target) => write_event(&mut chunk, &target),
                    Err(_) => write_removal(&mut chunk, &name),
                },
                // The client is slow: all states once more.
                Err(RecvError::Lagged(_)) => {
                    push.list().iter().for_each(|target| write_event(&mut chunk, target));
                }
                Err(RecvError::Closed) => return,
            },
        }
    }
}

fn write_event(chunk: &mut String, target: &Target) {
    let at_ms = wall_clock_ms();
    let event = TargetEvent {
        target: target.name.clone(),
        state: Some(target.state),
        reason: target.reason.clone(),
        cause: target.cause.clone(),
        next_probe: target.next_probe.clone(),
        next_probe_ms: target.next_probe_ms,
        at: crate::api::rfc3339(at_ms),
        at_ms,
    };
    let data = serde_json::to_string(&event).unwrap_or_default();
    let _ = write!(chunk, "event: {}\ndata: {data}\n\n", target.state.as_str());
}

fn write_removal(chunk: &mut String, name: &str) {
    let at_ms = wall_clock_ms();
    let event = TargetEvent {
        target: name.to_owned(),
        state: None,
        reason: None,
        cause: None,
        next_probe: None,
        next_probe_ms: None,
        at: crate::api::rfc3339(at_ms),
        at_ms,
    };
    let data = serde_json::to_string(&event).unwrap_or_default();
    let _ = write!(chunk, "event: removed\ndata: {data}\n\n");
}
