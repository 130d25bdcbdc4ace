//! Requests to random nodes, and the meaning of their answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::history::{Outcome, Span};

/// The answer to a request: a status and a body, or nothing.
pub(crate) type Answer = Option<(u16, Value)>;

/// The number of outcomes of each operation.
pub(crate) type Counts = BTreeMap<&'static str, Tally>;

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) done: u64,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.done += other.done;
        self.refused += other.refused;
        self.unknown += other.unknown;
    }
}

/// A client of the cluster.
#[derive(Debug)]
pub(crate) struct Http {
    addresses: Vec<String>,
    agent: ureq::Agent,
    started: Instant,
    is_over: Arc<AtomicBool>,
    pub(crate) counts: Counts,
}

/// State that all clients share.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    pub(crate) addresses: Vec<String>,
    pub(crate) started: Instant,
    pub(crate) is_over: Arc<AtomicBool>,
}

impl Test {
    /// Returns the milliseconds since the test began.
    pub(crate) fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Returns a client whose requests may take this long before their outcome is unknown.
    pub(crate) fn http(&self, timeout: Duration) -> Http {
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .build()
            .into();
        Http {
            addresses: self.addresses.clone(),
            agent,
            started: self.started,
            is_over: Arc::clone(&self.is_over),
            counts: Counts::new(),
        }
    }
}

impl Http {
    pub(crate) fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Sends a request to a random node.
    ///
    /// # Panics
    ///
    /// If the node does not understand the request: the test itself would be wrong.
    pub(crate) fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let address = &self.addresses[fastrand::usize(..self.addresses.len())];
        let url = format!("{address}{path}");
        let bytes = body.map(|body| serde_json::to_vec(body).expect("a JSON value"));
        let json = "application/json";
        let answer = match (method, bytes) {
            ("GET", None) => self.agent.get(&url).call(),
            ("DELETE", None) => self.agent.delete(&url).call(),
            ("POST", Some(bytes)) => self.agent.post(&url).header("content-type", json).send(bytes),
            ("PUT", Some(bytes)) => self.agent.put(&url).header("content-type", json).send(bytes),
            ("PATCH", Some(bytes)) => {
                self.agent.patch(&url).header("content-type", json).send(bytes)
            }
            other => panic!("no request is made like {other:?}"),
        };
        let answer = answer.ok()?;
        let status = answer.status().as_u16();
        let text = answer.into_body().read_to_string().ok()?;
        let answer: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        let is_understood = match status {
            400 | 405 | 415 | 422 => false,
            404 => answer["code"] == "not-found",
            _ => true,
        };
        assert!(is_understood, "{method} {path} {body:?}: {status} {text}");
        Some((status, answer))
    }

    /// Sends a change, and returns when it was sent and answered, how it ended, and the answer.
    pub(crate) fn change(
        &mut self,
        name: &'static str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> (Span, Outcome, Answer) {
        let sent = self.now();
        let answer = self.send(method, path, body);
        let outcome = outcome(&answer);
        let tally = self.counts.entry(name).or_default();
        match outcome {
            Outcome::Done => tally.done += 1,
            Outcome::Refused => tally.refused += 1,
            Outcome::Unknown => tally.unknown += 1,
        }
        (Span { sent, answered: self.now() }, outcome, answer)
    }

    /// Repeats a change until it succeeds. The change must be idempotent.
    pub(crate) fn insist(&mut self, name: &'static str, method: &str, path: &str, body: &Value) {
        let body = (!body.is_null()).then_some(body);
        while self.change(name, method, path, body).1 != Outcome::Done {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Returns the outcome for a problem: the service states whether the request certainly had no
/// effect.
fn outcome(answer: &Answer) -> Outcome {
    match answer {
        Some((200..=299, _)) => Outcome::Done,
        Some((400..=499, _)) => Outcome::Refused,
        Some((503, problem)) if problem["code"] != "outcome-unknown" => Outcome::Refused,
        Some(_) | None => Outcome::Unknown,
    }
}

/// Adds up the counts of clients.
pub(crate) fn add(total: &mut Counts, counts: &Counts) {
    for (name, tally) in counts {
        *total.entry(name).or_default() += *tally;
    }
}
