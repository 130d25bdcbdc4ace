//! The fake, and which request means what.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tickwheel_api::{
    AdvanceRequest, Clock, Code, Delay, Deliveries, Health, Job, Problem, PutRequest,
    ReserveRequest, rfc3339,
};
use tokio::sync::Notify;

use super::fake_jobs::{FakeJobs, Refusal};
use crate::Client;
use crate::transport::Transport;

/// A server in memory, on a manual clock, for unit tests. The ordinary client and worker use it
/// through [`Fake::client`]; no socket is opened.
///
/// It has jobs, keys, leases, retries, batches, idempotency keys, pauses and the clock. It does not
/// have schedules, settings, targets, pacing, events and follow-ups, keeps no finished jobs except
/// dead ones, and validates little. Requests for the rest fail with the code `method-not-allowed`.
/// Use [`Server`](super::Server) for these.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_client::NewJob;
/// use tickwheel_client::testing::Fake;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tickwheel_client::Error> {
/// let fake = Fake::new();
/// let client = fake.client();
/// let close = NewJob::text("orders", "42").key("order-42");
/// client.put(close.delay(Duration::from_secs(30 * 60))).await?;
/// client.cancel(("orders", "order-42")).await?;
/// fake.advance(Duration::from_secs(31 * 60));
/// assert!(fake.jobs("orders").is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Fake {
    server: Arc<FakeServer>,
}

impl Fake {
    /// Returns a fake without jobs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a client of the fake.
    ///
    /// # Panics
    ///
    /// Never: the address is valid.
    #[must_use]
    pub fn client(&self) -> Client {
        let transport = Transport::new("http://fake", None, Duration::from_secs(30), None);
        Client::of(transport.expect("a valid address").with_fake(Arc::clone(&self.server)))
    }

    /// Advances the clock: jobs become ready, and leases expire.
    pub fn advance(&self, by: Duration) {
        self.server.lock().jobs.advance(by);
        self.server.changed.notify_waiters();
    }

    /// Returns the jobs of a queue, by due time.
    #[must_use]
    pub fn jobs(&self, queue: &str) -> Vec<Job> {
        self.server.lock().jobs.sorted(queue)
    }
}

/// Answers the requests of clients.
#[derive(Debug, Default)]
pub(crate) struct FakeServer {
    state: Mutex<State>,
    /// Wakes reserves that wait.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    jobs: FakeJobs,
    /// The bodies and answers of requests with an idempotency key.
    replays: HashMap<String, (Vec<u8>, Vec<u8>)>,
}

#[derive(Deserialize)]
struct Items {
    items: Vec<Value>,
}

impl FakeServer {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Poisoning is ignored: no user code runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request: the body of the answer, or a problem.
    pub(crate) async fn answer(
        &self,
        method: &str,
        target: &str,
        key: Option<&str>,
        body: &[u8],
    ) -> Result<Vec<u8>, Box<Problem>> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let decode = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let path: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        if let ["v1", "queues", queue, "reserve"] = path[..] {
            return self.reserve(queue, parse(body)?).await;
        }
        let mut state = self.lock();
        if let Some((old, answer)) = key.and_then(|key| state.replays.get(key)) {
            if old == body {
                return Ok(answer.clone());
            }
            let why = "the key was used with another request";
            return Err(Box::new(Problem::new(Code::IdempotencyConflict, why)));
        }
        let answer = route(&mut state.jobs, method, &path, query, body)?;
        if let Some(key) = key {
            state.replays.insert(key.to_owned(), (body.to_vec(), answer.clone()));
        }
        drop(state);
        self.changed.notify_waiters();
        Ok(answer)
    }

    /// Waits by the manual clock: other tasks put jobs and advance it meanwhile.
    async fn reserve(&self, queue: &str, request: ReserveRequest) -> Result<Vec<u8>, Box<Problem>> {
        let end = self.lock().jobs.now() + request.wait.map_or(0, Delay::as_millis);
        loop {
            // Registered before the look at the jobs, so that no change is missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = self.lock();
                let deliveries = state.jobs.lease(queue, &request);
                if !deliveries.is_empty() || state.jobs.now() >= end {
                    return json(&Deliveries { deliveries });
                }
            }
            changed.await;
        }
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Box<Problem>> {
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body)
        .map_err(|error| Box::new(Problem::new(Code::InvalidField, error.to_string())))
}

fn json(answer: &impl Serialize) -> Result<Vec<u8>, Box<Problem>> {
    serde_json::to_vec(answer)
        .map_err(|error| Box::new(Problem::new(Code::Internal, error.to_string())))
}

fn missing(method: &str, path: &[&str]) -> Box<Problem> {
    let why = format!("the fake does not have {method} /{}", path.join("/"));
    Box::new(Problem::new(Code::MethodNotAllowed, why))
}

/// Performs a request other than a reserve.
fn route(
    jobs: &mut FakeJobs,
    method: &str,
    path: &[&str],
    query: &str,
    body: &[u8],
) -> Result<Vec<u8>, Box<Problem>> {
    match (method, path) {
        (_, ["healthz"]) => json(&Health { status: "ok".to_owned(), version: "fake".to_owned() }),
        ("GET", ["v1", "clock"]) => json(&clock(jobs)),
        (_, ["v1", "clock", "advance"]) => {
            jobs.advance(parse::<AdvanceRequest>(body)?.by.0);
            json(&clock(jobs))
        }
        (_, ["v1", "jobs", "batch"]) => batch(jobs, "", &parse::<Items>(body)?),
        (_, ["v1", "jobs", "batch", verb]) => batch(jobs, verb, &parse::<Items>(body)?),
        ("POST", ["v1", "queues", queue, "jobs"]) => {
            let mut put: PutRequest = parse(body)?;
            put.queue = Some((*queue).to_owned());
            json(&jobs.put(put)?)
        }
        ("GET", ["v1", "queues", queue, "jobs"]) => json(&jobs.list(queue, query)?),
        ("GET", ["v1", "queues"]) => json(&json!({"queues": jobs.queues()})),
        ("GET", ["v1", "queues", queue]) => json(&jobs.queue(queue)?),
        ("POST", ["v1", "queues", queue, "pause"]) => json(&jobs.pause(queue, true)?),
        ("POST", ["v1", "queues", queue, "resume"]) => json(&jobs.pause(queue, false)?),
        (_, ["v1", "queues", queue, "keys", key, verb @ ..]) => {
            let id = jobs.find_key(queue, key).unwrap_or_default();
            on_job(jobs, method, &id, verb, body)
        }
        (_, ["v1", "jobs", id, verb @ ..]) => on_job(jobs, method, id, verb, body),
        _ => Err(missing(method, path)),
    }
}

fn clock(jobs: &FakeJobs) -> Clock {
    let now_ms = jobs.now();
    Clock { now: rfc3339(now_ms), now_ms, manual: true }
}

fn on_job(
    jobs: &mut FakeJobs,
    method: &str,
    id: &str,
    verb: &[&str],
    body: &[u8],
) -> Result<Vec<u8>, Box<Problem>> {
    match (method, verb) {
        ("GET", []) => json(&jobs.get(id)?),
        ("DELETE", []) => json(&jobs.apply("cancel", id, &Value::Null)?),
        ("POST", [verb]) => json(&jobs.apply(verb, id, &parse(body)?)?),
        _ => Err(missing(method, &["v1", "jobs", id])),
    }
}

fn batch(jobs: &mut FakeJobs, verb: &str, batch: &Items) -> Result<Vec<u8>, Box<Problem>> {
    let mut one = |item: &Value| -> Result<Value, Refusal> {
        if verb.is_empty() {
            // Through the text: a payload that is null differs from one that is absent.
            let put = parse(item.to_string().as_bytes())?;
            let put = serde_json::to_value(jobs.put(put)?);
            return Ok(put.unwrap_or_default());
        }
        jobs.apply(verb, item["id"].as_str().unwrap_or_default(), item)
    };
    let results: Vec<Value> = batch
        .items
        .iter()
        .map(|item| match one(item) {
            Ok(ok) => json!({"ok": ok}),
            Err(error) => json!({"error": error}),
        })
        .collect();
    json(&json!({"results": results}))
}
