//! Puts that can be repeated without harm: the header `Idempotency-Key`.
//!
//! With the jobs of such a put goes a *marker*, in the same commit: a job in a queue of its own,
//! which no request can reach, under a key made of the caller and the header. It holds a
//! fingerprint of the request and when it was, and is due after 24 hours, when it is dropped.
//!
//! A repetition finds the marker. The ids and times of the jobs follow from the marker and the
//! request, so their answers are made again and not stored; what ended otherwise than with a new
//! job is written to the marker after the commit. If the process ends between the two, or there is no
//! room, a repetition says `created` for those jobs too. Nothing is ever put twice, also if the job is long done.
//!
//! Where jobs or bytes are limited, a marker may find no room, and jobs that replace others still
//! do. There a *draft* is put first, which says nothing yet and keeps the marker's place.
//!
//! Ground rules: requests of the same key go one after the other; a single put that is refused
//! leaves no marker, so that it can be tried again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::HeaderName;
use axum::http::request::Parts;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tickwheel_queue::{
    Error, JobId, NewJob, OnConflict, Put, PutKind, QueueSettings, Queues, Time,
};

use crate::api::{Code, PutRequest, PutResponse, Verdict};
use crate::app::{App, NamedLocks};
use crate::auth::Caller;
use crate::problem::Failure;
use crate::puts::{self, Planned};
use crate::tokens::hex;

/// No queue of a client can be called so.
pub(crate) const MARKERS: &str = "tickwheel:idempotency";
/// For so long a repetition is recognised.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(24 * 3_600);
/// A marker's parts are well below any limit of payloads.
pub(crate) const LARGEST_PART: usize = 32 << 10;

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
const LONGEST_KEY: usize = 255;

/// What is known about markers while the service runs.
#[derive(Default)]
pub(crate) struct Markers {
    locks: NamedLocks,
    put: AtomicU64,
    cancelled: AtomicU64,
    dropped: AtomicU64,
}

/// What the queue counts and its clients do not: markers are no jobs of theirs.
pub(crate) struct MarkerCounts {
    pub(crate) put: u64,
    /// Replaced ones too.
    pub(crate) cancelled: u64,
    pub(crate) dropped: u64,
}

impl Markers {
    pub(crate) fn counts(&self) -> MarkerCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        MarkerCounts {
            put: of(&self.put),
            cancelled: of(&self.cancelled),
            dropped: of(&self.dropped),
        }
    }

    /// A marker, or a part of one, was put.
    pub(crate) fn count_put(&self, put: &Put) {
        self.put.fetch_add(1, Ordering::Relaxed);
        if matches!(put.kind, PutKind::Replaced(_)) {
            self.cancelled.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The header, if it is there.
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

/// What a marker holds.
#[derive(Serialize, Deserialize)]
struct Marker {
    fingerprint: String,
    at: u64,
    /// How many parts with odd answers there are.
    parts: usize,
    /// It only keeps a place: nothing was put yet.
    #[serde(default)]
    is_draft: bool,
}

/// Answers that do not follow from the request.
type Odd = Vec<(usize, Verdict<PutResponse>)>;

/// A put that can be repeated.
pub(crate) struct Repeatable {
    pub(crate) app: App,
    pub(crate) caller: Caller,
    pub(crate) key: String,
    pub(crate) body: Bytes,
    /// The queue in the path, if there is one.
    pub(crate) queue: Option<String>,
}

/// The answers, and whether they are those of an earlier request.
pub(crate) struct Answered {
    pub(crate) verdicts: Vec<Result<PutResponse, Failure>>,
    pub(crate) replayed: bool,
}

impl Repeatable {
    /// Puts, or tells what became of it earlier. Once begun this goes on to its end, also if the
    /// client does not wait for it: the marker has to tell what really happened.
    pub(crate) async fn put(self, requests: Vec<PutRequest>) -> Result<Answered, Failure> {
        let busy = self.app.busy().await;
        let work = tokio::spawn(async move {
            // Dropped last: until then the queue stays open.
            let _busy = busy;
            let this = self;
            let key = this.marker_key();
            let work = this.put_or_repeat(&key, requests);
            this.app.markers().locks.with(&key, work).await
        });
        work.await.unwrap_or_else(|error| Err(Failure::new(Code::Internal, error.to_string())))
    }

    async fn put_or_repeat(
        &self,
        key: &str,
        requests: Vec<PutRequest>,
    ) -> Result<Answered, Failure> {
        let now = self.app.now();
        let found = self.app.queues().get((MARKERS, key)).await?;
        let found = found.filter(|marker| marker.due > now);
        let marker = found.map(|found| serde_json::from_slice::<Marker>(&found.payload));
        match marker.transpose().map_err(damaged)?.filter(|marker| !marker.is_draft) {
            Some(marker) => self.repeat(key, &marker, requests).await,
            None => self.begin(key, requests, now).await,
        }
    }

    /// What the same caller sent with the same header shares a marker.
    fn marker_key(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.caller.id().as_bytes());
        hash.update([0]);
        hash.update(self.key.as_bytes());
        hex(&hash.finalize())
    }

    fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.queue.as_deref().unwrap_or_default().as_bytes());
        hash.update([0]);
        hash.update(&self.body);
        hex(&hash.finalize())
    }

    /// What is to be put, with ids and times that can be found again.
    fn plan(
        &self,
        key: &str,
        requests: Vec<PutRequest>,
        at: Time,
    ) -> Vec<Result<Planned, Failure>> {
        requests
            .into_iter()
            .enumerate()
            .map(|(index, request)| {
                let mut planned =
                    puts::plan(&self.app, &self.caller, request, self.queue.as_deref(), at)?;
                planned.job.id.get_or_insert_with(|| id_of(key, at, index));
                Ok(planned)
            })
            .collect()
    }

    async fn begin(
        &self,
        key: &str,
        requests: Vec<PutRequest>,
        now: Time,
    ) -> Result<Answered, Failure> {
        let is_single = self.queue.is_some();
        let plan = self.plan(key, requests, now);
        if plan.iter().all(Result::is_err) {
            let verdicts =
                plan.into_iter().map(|planned| planned.map(|_| unreachable!())).collect();
            return Ok(Answered { verdicts, replayed: false });
        }
        let (fingerprint, at) = (self.fingerprint(), now.as_millis());
        let mut marker = Marker { fingerprint, at, parts: 0, is_draft: true };
        if self.app.can_be_full() {
            let draft = marker_job(key.to_owned(), &marker, now);
            self.app.markers().count_put(&self.app.queues().put(draft).await?);
        }
        marker.is_draft = false;
        let marker_job = marker_job(key.to_owned(), &marker, now);
        let verdicts = puts::put_planned(&self.app, &self.caller, plan, Some(marker_job)).await?;
        if is_single && verdicts[0].is_err() {
            // Whoever cannot drop it now finds it dropped in a day.
            if self.app.queues().cancel((MARKERS, key)).await.is_ok() {
                self.app.markers().cancelled.fetch_add(1, Ordering::Relaxed);
            }
        } else if let Err(failure) = self.note_odd(key, marker, &verdicts, now).await {
            // What was put is put, and this answer is true.
            let detail = failure.problem.detail;
            tracing::warn!(detail, "the answer to an idempotent put could not be kept");
        }
        Ok(Answered { verdicts, replayed: false })
    }

    /// Writes down what does not follow from the request.
    async fn note_odd(
        &self,
        key: &str,
        marker: Marker,
        verdicts: &[Result<PutResponse, Failure>],
        now: Time,
    ) -> Result<(), Failure> {
        let is_odd = |verdict: &Result<PutResponse, Failure>| !matches!(verdict, Ok(answer) if answer.outcome == crate::api::PutOutcome::Created);
        let odd = verdicts.iter().enumerate().filter(|(_, verdict)| is_odd(verdict));
        let mut parts: Vec<Vec<u8>> = Vec::new();
        for (index, verdict) in odd {
            let text =
                serde_json::to_vec(&(index, verdict_of(verdict.clone()))).unwrap_or_default();
            match parts.last_mut().filter(|part| part.len() + text.len() < LARGEST_PART) {
                Some(part) => {
                    part.push(b',');
                    part.extend(text);
                }
                None => parts.push(text),
            }
        }
        if parts.is_empty() {
            return Ok(());
        }
        let marker = Marker { parts: parts.len(), ..marker };
        let jobs = parts.into_iter().enumerate().map(|(index, part)| {
            let payload = [b"[", &part[..], b"]"].concat();
            kept_until(part_key(key, index), payload, now)
        });
        let jobs: Vec<_> = jobs.chain([marker_job(key.to_owned(), &marker, now)]).collect();
        for put in self.app.queues().put_all(jobs).await? {
            self.app.markers().count_put(&put?);
        }
        Ok(())
    }

    async fn repeat(
        &self,
        key: &str,
        marker: &Marker,
        requests: Vec<PutRequest>,
    ) -> Result<Answered, Failure> {
        if marker.fingerprint != self.fingerprint() {
            let why = "this idempotency key was used with another request within 24 hours: take a \
                       new key for a new request";
            return Err(Failure::new(Code::IdempotencyConflict, why).at("idempotency-key"));
        }
        let plan = self.plan(key, requests, Time::from_millis(marker.at));
        let mut verdicts: Vec<_> =
            plan.into_iter().map(|planned| planned.map(Planned::created)).collect();
        let keys = (0..marker.parts).map(|index| (MARKERS, part_key(key, index)));
        for part in self.app.queues().get_all(keys).await? {
            let Some(part) = part? else { continue };
            let odd: Odd = serde_json::from_slice(&part.payload).map_err(damaged)?;
            for (index, verdict) in odd {
                if let Some(place) = verdicts.get_mut(index) {
                    *place = match verdict {
                        Verdict::Ok(answer) => Ok(answer),
                        Verdict::Error(problem) => Err(Failure::from(problem)),
                    };
                }
            }
        }
        Ok(Answered { verdicts, replayed: true })
    }
}

pub(crate) fn verdict_of<T>(result: Result<T, Failure>) -> Verdict<T> {
    match result {
        Ok(answer) => Verdict::Ok(answer),
        Err(failure) => Verdict::Error(*failure.problem),
    }
}

fn damaged(_: serde_json::Error) -> Failure {
    Failure::new(Code::Damaged, "the record of this idempotency key is damaged")
}

fn part_key(key: &str, index: usize) -> String {
    format!("{key}/{index}")
}

fn marker_job(key: String, marker: &Marker, now: Time) -> NewJob {
    kept_until(key, serde_json::to_vec(marker).unwrap_or_default(), now)
}

fn kept_until(key: String, payload: Vec<u8>, now: Time) -> NewJob {
    let job = NewJob::new(MARKERS, payload).key(key).on_conflict(OnConflict::Replace);
    job.at(now.after(REMEMBERED))
}

/// A UUID of version 7 with its time, and a hash in place of chance.
fn id_of(key: &str, at: Time, index: usize) -> JobId {
    let mut hash = Sha256::new();
    hash.update(key.as_bytes());
    hash.update(at.as_millis().to_be_bytes());
    hash.update((index as u64).to_be_bytes());
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&at.as_millis().to_be_bytes()[2..]);
    bytes[6..].copy_from_slice(&hash.finalize()[..10]);
    bytes[6] = 0x70 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    JobId::from_bytes(bytes)
}

/// Makes the queue of the markers, so that there is room for it whatever clients fill, and lets its
/// jobs be delivered as often as it takes to drop them.
pub(crate) fn make_queue(queues: &Queues) -> Result<(), Error> {
    let settings = QueueSettings { max_attempts: u32::MAX, ..QueueSettings::default() };
    match queues.queue(MARKERS).wait()? {
        Some(queue) if queue.settings == settings => Ok(()),
        _ => queues.configure(MARKERS, settings).wait(),
    }
}

/// Drops markers whose time is over, until the task is dropped.
pub(crate) async fn keep_dropping(app: App) {
    let (lease, wait) = (Duration::from_secs(60), Duration::from_secs(3_600));
    loop {
        let due = app.queues().reserve_within(MARKERS, 1_000, lease, wait).await;
        let leases = match due {
            Ok(due) => due.into_iter().map(|delivery| delivery.lease).collect::<Vec<_>>(),
            Err(error) => {
                tracing::debug!(%error, "old idempotency keys could not be looked for");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        app.markers().dropped.fetch_add(leases.len() as u64, Ordering::Relaxed);
        if let Err(error) = app.queues().ack_all(leases).await {
            tracing::debug!(%error, "old idempotency keys could not be dropped");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_that_differ_and_repeat() {
        let at = Time::from_millis(1_767_323_045_678);
        let id = id_of("k", at, 0);
        assert_eq!(id, id_of("k", at, 0));
        assert_ne!(id, id_of("k", at, 1));
        assert_ne!(id, id_of("l", at, 0));
        assert_eq!(id.to_string().as_bytes()[14], b'7');
        assert!(id < JobId::new(Time::from_millis(1_767_323_045_679)));
    }
}
