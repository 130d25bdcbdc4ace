//! The live stream: everything at one glance, twice a second, as server-sent events.
//!
//! One task makes the events while there are listeners, and one event serves all listeners with the
//! same token and language. A listener that reads slowly skips events.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tickwheel_page::Language;
use tokio::sync::{Notify, mpsc, watch};

use super::{overview, wheel};
use crate::api::Live;
use crate::app::App;
use crate::auth::Caller;
use crate::problem::Failure;
use crate::push::watch::WatchBody;
use crate::tokens::Scope;

/// The time between two events.
const PERIOD: Duration = Duration::from_millis(500);
/// The largest number of queues in an event.
const MAX_QUEUES: usize = 100;
/// Events that wait for a slow client.
const MAX_CHUNKS: usize = 2;

/// What tells listeners apart: the id of the caller and the language.
type Audience = (String, &'static str);

/// The listeners.
#[derive(Default)]
pub(super) struct Hub {
    channels: Mutex<HashMap<Audience, Channel>>,
    /// Wakes the task that makes events.
    wanted: Notify,
}

/// All listeners with one token and language.
struct Channel {
    caller: Caller,
    language: Language,
    /// The last event.
    events: watch::Sender<Option<Bytes>>,
}

impl Hub {
    fn channels(&self) -> MutexGuard<'_, HashMap<Audience, Channel>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(&self, caller: &Caller, language: Language) -> watch::Receiver<Option<Bytes>> {
        let mut channels = self.channels();
        let audience = audience(caller, language);
        channels.retain(|_, channel| !channel.caller.access().is_revoked());
        let channel = channels.entry(audience).or_insert_with(|| Channel {
            caller: caller.clone(),
            language,
            events: watch::Sender::new(None),
        });
        let receiver = channel.events.subscribe();
        drop(channels);
        self.wanted.notify_one();
        receiver
    }

    /// Returns who listens, in which language. Forgets channels without a listener, and those of
    /// removed tokens.
    fn listeners(&self) -> Vec<(Caller, Language)> {
        let mut channels = self.channels();
        channels.retain(|_, channel| {
            channel.events.receiver_count() > 0 && !channel.caller.access().is_revoked()
        });
        channels.values().map(|channel| (channel.caller.clone(), channel.language)).collect()
    }

    fn send(&self, caller: &Caller, language: Language, event: Bytes) {
        if let Some(channel) = self.channels().get(&audience(caller, language)) {
            channel.events.send_replace(Some(event));
        }
    }
}

fn audience(caller: &Caller, language: Language) -> Audience {
    (caller.id().to_owned(), language.code())
}

/// Begins a stream for a caller, with sentences in a language. It ends when the service stops, and when the token is removed.
pub(crate) fn stream(app: App, caller: &Caller, language: Language) -> Result<WatchBody, Failure> {
    caller.has(Scope::Read)?;
    let (chunks, body) = WatchBody::new(MAX_CHUNKS);
    let events = app.insight().live.listen(caller, language);
    let access = caller.access().clone();
    tokio::spawn(async move {
        app.counts().stream_began();
        tokio::select! {
            () = app.shutdown().begun() => {}
            () = chunks.closed() => {}
            () = forward(events, &access, &chunks) => {}
        }
        app.counts().stream_ended();
    });
    Ok(body)
}

async fn forward(
    mut events: watch::Receiver<Option<Bytes>>,
    access: &tickwheel_queue::Access,
    chunks: &mpsc::Sender<Bytes>,
) {
    // The first event of a listener that joins others is the last that these got.
    events.mark_changed();
    if chunks.send(Bytes::from_static(b"retry: 1000\n\n")).await.is_err() {
        return;
    }
    while events.changed().await.is_ok() && !access.is_revoked() {
        let event = events.borrow_and_update().clone();
        if let Some(event) = event
            && chunks.send(event).await.is_err()
        {
            return;
        }
    }
}

/// Makes events while there are listeners, as long as the service runs.
pub(crate) async fn keep_sending(app: App) {
    loop {
        let listeners = app.insight().live.listeners();
        if listeners.is_empty() {
            app.insight().live.wanted.notified().await;
            continue;
        }
        for (caller, language) in listeners {
            if let Ok(live) = gather(&app, &caller, language).await {
                let data = serde_json::to_string(&live).unwrap_or_default();
                let event = format!("event: live\ndata: {data}\n\n").into();
                app.insight().live.send(&caller, language, event);
            }
        }
        tokio::time::sleep(PERIOD).await;
    }
}

async fn gather(app: &App, caller: &Caller, language: Language) -> Result<Live, Failure> {
    let overview = overview(app, caller, MAX_QUEUES, language).await?;
    // A store that has just not answered is not asked again.
    let wheel = match overview.totals {
        Some(_) => wheel(app, caller).await.ok(),
        None => None,
    };
    let samples = app.insight().samples();
    let access = caller.access();
    let point = if access.is_limited() {
        samples.newest_of_some(|name| access.allows(name))
    } else {
        samples.newest()
    };
    Ok(Live { overview, point, wheel })
}
