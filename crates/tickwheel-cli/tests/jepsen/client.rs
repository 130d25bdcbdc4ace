//! A client with a queue of its own, which records the answers about each job.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tickwheel_queue::{JobId, State};

use crate::history::{Event, History, Outcome, Span};
use crate::http::{Http, Test};

const LEASE_MS: u64 = 8_000;
/// How long a request may take before its outcome is unknown.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The most leases and jobs that a client keeps using.
const MAX_LEASES: usize = 20;
const RECENT_JOBS: usize = 60;
/// The number of keys in use at a time.
const KEYS: u32 = 3;
/// The longest pause between two operations.
const MAX_PAUSE_MS: u64 = 20;

pub(crate) struct Client {
    queue: String,
    pub(crate) http: Http,
    pub(crate) history: History,
    jobs: Vec<JobId>,
    /// Ids and tokens of deliveries.
    leases: Vec<(JobId, String)>,
    /// The first key in use. A put without an answer may take effect at any later time, so its key
    /// is not used again.
    first_key: u32,
}

impl Client {
    pub(crate) fn new(number: usize, test: &Test) -> Self {
        Self {
            queue: format!("queue-{number}"),
            http: test.http(TIMEOUT),
            history: History::default(),
            jobs: Vec::new(),
            leases: Vec::new(),
            first_key: 0,
        }
    }

    /// Works until the test is over.
    pub(crate) fn run(mut self) -> Self {
        while !self.http.is_over() {
            self.act();
            std::thread::sleep(Duration::from_millis(fastrand::u64(..MAX_PAUSE_MS)));
        }
        self
    }

    /// Performs one operation.
    fn act(&mut self) {
        let lease = (!self.leases.is_empty())
            .then(|| self.leases.swap_remove(fastrand::usize(..self.leases.len())));
        let recent = self.jobs.len().saturating_sub(RECENT_JOBS);
        let job =
            (!self.jobs.is_empty()).then(|| self.jobs[fastrand::usize(recent..self.jobs.len())]);
        match (fastrand::u8(..20), lease, job) {
            (0..=7, Some(lease), _) => self.finish(lease),
            (8 | 9, Some(lease), _) => self.extend(lease),
            (choice, lease, job) => {
                self.leases.extend(lease);
                self.act_without_lease(choice, job);
            }
        }
    }

    fn act_without_lease(&mut self, choice: u8, job: Option<JobId>) {
        match (choice, job) {
            (10, Some(id)) => {
                self.change(
                    "cancel",
                    "DELETE",
                    &format!("/v1/jobs/{id}"),
                    None,
                    Event::Cancel { id },
                );
            }
            (11, Some(id)) => {
                let delay_ms = fastrand::u64(..6_000);
                let path = format!("/v1/jobs/{id}/reschedule");
                let body = json!({"delay": format!("{delay_ms}ms")});
                let event = Event::Reschedule { id, delay_ms };
                self.change("reschedule", "POST", &path, Some(&body), event);
            }
            (12 | 13, Some(id)) => self.read(id),
            (14, _) => self.put(Some(self.first_key + fastrand::u32(..KEYS))),
            (5..=9 | 15..=17, _) => self.reserve(),
            _ => self.put(None),
        }
    }

    fn put(&mut self, key: Option<u32>) {
        let id = new_id();
        self.jobs.push(id);
        let delay_ms = if fastrand::bool() { 0 } else { fastrand::u64(..6_000) };
        let mut body = json!({
            "text": "x".repeat(fastrand::usize(..600)),
            "id": id.to_string(),
            "delay": format!("{delay_ms}ms"),
            "max_attempts": 1_000,
        });
        if let Some(key) = key {
            body["key"] = json!(format!("key-{key}"));
        }
        let name = if key.is_some() { "replace" } else { "put" };
        let path = format!("/v1/queues/{}/jobs", self.queue);
        let event = Event::Put { id, key, delay_ms };
        let outcome = self.change(name, "POST", &path, Some(&body), event);
        if key.is_some() && outcome == Outcome::Unknown {
            self.first_key += KEYS;
        }
    }

    /// Acknowledges or fails a job.
    fn finish(&mut self, (id, token): (JobId, String)) {
        if fastrand::u8(..4) > 0 {
            let event = Event::Ack { id, token: number(&token) };
            let path = format!("/v1/jobs/{id}/ack");
            self.change("ack", "POST", &path, Some(&json!({"token": token})), event);
        } else {
            let body = json!({"token": token, "error": "no", "delay": "1s"});
            let path = format!("/v1/jobs/{id}/fail");
            self.change("fail", "POST", &path, Some(&body), Event::Fail { id });
        }
    }

    fn extend(&mut self, (id, token): (JobId, String)) {
        let event = Event::Extend { id, token: number(&token), lease_ms: LEASE_MS };
        let body = json!({"token": token, "lease": format!("{LEASE_MS}ms")});
        let path = format!("/v1/jobs/{id}/extend");
        if self.change("extend", "POST", &path, Some(&body), event) != Outcome::Refused {
            self.leases.push((id, token));
        }
    }

    fn change(
        &mut self,
        name: &'static str,
        method: &str,
        path: &str,
        body: Option<&Value>,
        event: Event,
    ) -> Outcome {
        let (span, outcome, _) = self.http.change(name, method, path, body);
        self.history.note(span, event, outcome);
        outcome
    }

    fn reserve(&mut self) {
        let body = json!({"limit": 3, "lease": format!("{LEASE_MS}ms"), "wait": "200ms"});
        let path = format!("/v1/queues/{}/reserve", self.queue);
        let (span, _, answer) = self.http.change("reserve", "POST", &path, Some(&body));
        let Some((200, answer)) = answer else { return };
        for delivery in answer["deliveries"].as_array().expect("a list of deliveries") {
            let id = delivery["job"]["id"].as_str().and_then(|id| id.parse().ok());
            let token = delivery["token"].as_str();
            let (Some(id), Some(token)) = (id, token) else { panic!("a delivery: {delivery}") };
            let event = Event::Delivered { id, token: number(token), lease_ms: LEASE_MS };
            self.history.note(span, event, Outcome::Done);
            self.leases.push((id, token.to_owned()));
            self.http.counts.entry("delivery").or_default().done += 1;
        }
        let surplus = self.leases.len().saturating_sub(MAX_LEASES);
        self.leases.drain(..surplus);
    }

    fn read(&mut self, id: JobId) {
        let sent = self.http.now();
        let found = match self.http.send("GET", &format!("/v1/jobs/{id}"), None) {
            Some((200, job)) => Some(state(&job)),
            Some((404, _)) => None,
            _ => return,
        };
        self.http.counts.entry("read").or_default().done += 1;
        let span = Span { sent, answered: self.http.now() };
        self.history.note(span, Event::Read { id, found }, Outcome::Done);
    }

    /// Checks the history against the state of every job; requests are repeated until each state is
    /// known.
    pub(crate) fn check(&self) -> Vec<String> {
        let mut states = BTreeMap::new();
        for id in &self.jobs {
            loop {
                match self.http.send("GET", &format!("/v1/jobs/{id}"), None) {
                    Some((200, job)) => {
                        states.insert(*id, state(&job));
                        break;
                    }
                    Some((404, _)) => break,
                    _ => {}
                }
            }
        }
        self.history.check(&states)
    }
}

fn state(job: &Value) -> State {
    match job["state"].as_str() {
        Some("scheduled") => State::Scheduled,
        Some("ready") => State::Ready,
        Some("leased") => State::Leased,
        Some("dead") => State::Dead,
        Some("done") => State::Done,
        Some("cancelled") => State::Cancelled,
        other => panic!("a state {other:?}"),
    }
}

/// Returns a number for a token, because the history only compares tokens.
fn number(token: &str) -> u64 {
    u64::from_str_radix(token, 16).expect("a token has hexadecimal digits")
}

/// A random id of version 7.
pub(crate) fn new_id() -> JobId {
    let mut bytes = fastrand::u128(..).to_be_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x70;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    JobId::from_bytes(bytes)
}
