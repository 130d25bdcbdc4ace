//! Repeatable puts: the header `Idempotency-Key`.
//!
//! The queue stores a key with the results of its jobs, in the same commit as the jobs. This module
//! derives the queue's key from the caller and the header, so that callers do not share keys, and
//! computes the fingerprint of the request.
//!
//! Before format 2, keys were jobs (*markers*) in a queue of their own, which held too little to
//! repeat the first answer. Until they expire, a request with such a key is refused, so that
//! nothing is put twice. After that, the next start of the service removes their queue.

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::HeaderName;
use axum::http::request::Parts;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use tickwheel_queue::{Error, List, Queues, Time};

use crate::api::{Code, PutRequest, Verdict};
use crate::app::App;
use crate::auth::Caller;
use crate::problem::Failure;
use crate::puts::{self, Answered};
use crate::tokens::hex;

/// The queue of the markers of earlier versions. No client's queue can have this name.
const MARKERS: &str = "tickwheel:idempotency";
/// How long a repetition is recognised.
const REMEMBERED: Duration = Duration::from_secs(24 * 3_600);

/// The header with the key.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
const LONGEST_KEY: usize = 255;

/// Returns the header, if it is present.
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

impl FromRequestParts<App> for IdempotencyKey {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Failure> {
        let wrong = |why| Failure::new(Code::InvalidHeader, why).at("idempotency-key");
        let mut values = parts.headers.get_all(&HEADER).iter();
        let Some(value) = values.next() else { return Ok(Self(None)) };
        if values.next().is_some() {
            return Err(wrong("there are two idempotency keys: send one".to_owned()));
        }
        let key = value.to_str().ok().filter(|key| (1..=LONGEST_KEY).contains(&key.len()));
        key.map(|key| Self(Some(key.to_owned()))).ok_or_else(|| {
            wrong(format!("an idempotency key has 1 to {LONGEST_KEY} visible ASCII characters"))
        })
    }
}

/// A repeatable put.
pub(crate) struct Repeatable {
    pub(crate) app: App,
    pub(crate) caller: Caller,
    pub(crate) key: String,
    pub(crate) body: Bytes,
    /// The queue in the path, if there is one.
    pub(crate) queue: Option<String>,
}

impl Repeatable {
    /// Puts the jobs, or returns the results of the first put.
    pub(crate) async fn put(self, requests: Vec<PutRequest>) -> Result<Answered, Failure> {
        let (app, caller, now) = (&self.app, &self.caller, self.app.wall());
        let name = self.name();
        if app.old_markers().has(app, &name).await? {
            let why = "this idempotency key was used before the service was upgraded, and what became \
                       of its request is no longer known: look for the jobs, and use a new key";
            return Err(Failure::new(Code::IdempotencyConflict, why).at("idempotency-key"));
        }
        let key = tickwheel_queue::IdempotencyKey::new(name)
            .fingerprint(self.fingerprint())
            .lifetime(REMEMBERED);
        let plan = |request| puts::plan(app, caller, request, self.queue.as_deref(), now);
        puts::put_planned(app, caller, requests.into_iter().map(plan).collect(), Some(key)).await
    }

    /// Returns the queue's key: the same for the same caller and header.
    fn name(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.caller.id().as_bytes());
        hash.update([0]);
        hash.update(self.key.as_bytes());
        hex(&hash.finalize())
    }

    fn fingerprint(&self) -> Vec<u8> {
        let mut hash = Sha256::new();
        hash.update(self.queue.as_deref().unwrap_or_default().as_bytes());
        hash.update([0]);
        hash.update(&self.body);
        hash.finalize().to_vec()
    }
}

/// Whether there were markers of an earlier version when the service started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OldMarkers(bool);

impl OldMarkers {
    /// Finds out whether there are markers, and removes them once all have expired.
    pub(crate) fn find(queues: &Queues, now: Time) -> Result<Self, Error> {
        if queues.queue(MARKERS).wait()?.is_none() {
            return Ok(Self(false));
        }
        let mut list = List::of(MARKERS);
        (list.due_from, list.limit) = (now, 1);
        let has_some = !queues.list(list).wait()?.jobs.is_empty();
        if !has_some {
            queues.remove_queue(MARKERS, true).wait()?;
        }
        Ok(Self(has_some))
    }

    /// Returns `true` if there is an unexpired marker for this key.
    async fn has(self, app: &App, name: &str) -> Result<bool, Failure> {
        if !self.0 {
            return Ok(false);
        }
        let marker = app.queues().get((MARKERS, name)).await?;
        Ok(marker.is_some_and(|marker| marker.due > app.now()))
    }
}

pub(crate) fn verdict_of<T>(result: Result<T, Failure>) -> Verdict<T> {
    match result {
        Ok(answer) => Verdict::Ok(answer),
        Err(failure) => Verdict::Error(*failure.problem),
    }
}
