//! A client with a queue of its own, which notes what it was told.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tickwheel_queue::{JobId, State};

use crate::history::{Event, History, Outcome, Span};

const LEASE_MS: u64 = 8_000;
/// How long a request may take before its outcome is unknown.
const TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) struct Client {
    queue: String,
    addresses: Vec<String>,
    agent: ureq::Agent,
    started: Instant,
    history: History,
    jobs: Vec<JobId>,
    /// Ids and tokens of deliveries.
    leases: Vec<(JobId, String)>,
}

/// What a request gave: a status and a body, or nothing.
type Answer = Option<(u16, Value)>;

impl Client {
    pub(crate) fn new(number: usize, addresses: Vec<String>, started: Instant) -> Self {
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .build()
            .into();
        Self {
            queue: format!("queue-{number}"),
            addresses,
            agent,
            started,
            history: History::default(),
            jobs: Vec::new(),
            leases: Vec::new(),
        }
    }

    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn send(&self, path: &str, body: Option<&Value>) -> Answer {
        let address = &self.addresses[fastrand::usize(..self.addresses.len())];
        let url = format!("{address}{path}");
        let answer = match body {
            Some(body) => self
                .agent
                .post(&url)
                .header("content-type", "application/json")
                .send(serde_json::to_vec(body).expect("a JSON value")),
            None => self.agent.get(&url).call(),
        };
        let answer = answer.ok()?;
        let status = answer.status().as_u16();
        let text = answer.into_body().read_to_string().ok()?;
        Some((status, serde_json::from_str(&text).unwrap_or(Value::Null)))
    }

    /// One operation.
    pub(crate) fn act(&mut self) {
        let lease = (!self.leases.is_empty())
            .then(|| self.leases[fastrand::usize(..self.leases.len())].clone());
        let job = (!self.jobs.is_empty()).then(|| self.jobs[fastrand::usize(..self.jobs.len())]);
        match (fastrand::u8(..10), lease, job) {
            (0..=2, ..) => self.put(),
            (3, _, Some(id)) => {
                let path = format!("/v1/jobs/{id}/cancel");
                self.change(&path, &json!({}), Event::Cancel { id });
            }
            (4, Some((id, token)), _) => {
                let event = Event::Ack { id, token: number(&token) };
                self.change(&format!("/v1/jobs/{id}/ack"), &json!({"token": token}), event);
            }
            (5, Some((id, token)), _) => {
                let body = json!({"token": token, "error": "no", "retry": {"after": "1s"}});
                self.change(&format!("/v1/jobs/{id}/fail"), &body, Event::Fail { id });
            }
            (6, Some((id, token)), _) => {
                let event = Event::Extend { id, token: number(&token), lease_ms: LEASE_MS };
                let body = json!({"token": token, "lease": format!("{LEASE_MS}ms")});
                self.change(&format!("/v1/jobs/{id}/extend"), &body, event);
            }
            (7, _, Some(id)) => self.read(id),
            _ => self.reserve(),
        }
    }

    fn put(&mut self) {
        let id = new_id();
        self.jobs.push(id);
        let delay_ms = if fastrand::bool() { 0 } else { fastrand::u64(..10_000) };
        let body = json!({
            "text": "x".repeat(fastrand::usize(..2_000)),
            "id": id.to_string(),
            "delay": format!("{delay_ms}ms"),
            "max_attempts": 1_000,
        });
        let path = format!("/v1/queues/{}/jobs", self.queue);
        self.change(&path, &body, Event::Put { id, key: None, delay_ms });
    }

    fn change(&mut self, path: &str, body: &Value, event: Event) {
        let sent = self.now();
        let answer = self.send(path, Some(body));
        let outcome = match answer {
            Some((200..=299, _)) => Outcome::Done,
            // The service says for each problem whether it knows that nothing happened.
            Some((_, problem)) if problem["code"] == "outcome-unknown" => Outcome::Unknown,
            Some((400..=499, _)) => Outcome::Refused,
            Some((503, problem)) if problem["code"] == "unavailable" => Outcome::Refused,
            Some(_) | None => Outcome::Unknown,
        };
        let span = Span { sent, answered: self.now() };
        self.history.note(span, event, outcome);
    }

    fn reserve(&mut self) {
        let sent = self.now();
        let body = json!({"jobs": 2, "lease": format!("{LEASE_MS}ms"), "wait": "200ms"});
        let path = format!("/v1/queues/{}/reserve", self.queue);
        let Some((200, answer)) = self.send(&path, Some(&body)) else { return };
        for delivery in answer["deliveries"].as_array().into_iter().flatten() {
            let id = delivery["job"]["id"].as_str().and_then(|id| id.parse().ok());
            let token = delivery["token"].as_str();
            let (Some(id), Some(token)) = (id, token) else { panic!("a delivery: {delivery}") };
            let event = Event::Delivered { id, token: number(token), lease_ms: LEASE_MS };
            let span = Span { sent, answered: self.now() };
            self.history.note(span, event, Outcome::Done);
            self.leases.push((id, token.to_owned()));
        }
        if self.leases.len() > 10 {
            self.leases.drain(..self.leases.len() - 10);
        }
    }

    fn read(&mut self, id: JobId) {
        let sent = self.now();
        let found = match self.send(&format!("/v1/jobs/{id}"), None) {
            Some((200, job)) => Some(state(&job)),
            Some((404, _)) => None,
            _ => return,
        };
        let span = Span { sent, answered: self.now() };
        self.history.note(span, Event::Read { id, found }, Outcome::Done);
    }

    /// The state of every job, asked for until each is known.
    pub(crate) fn final_states(&self) -> BTreeMap<JobId, State> {
        let mut states = BTreeMap::new();
        for id in &self.jobs {
            loop {
                match self.send(&format!("/v1/jobs/{id}"), None) {
                    Some((200, job)) => {
                        states.insert(*id, state(&job));
                        break;
                    }
                    Some((404, _)) => break,
                    _ => {}
                }
            }
        }
        states
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

/// A number for a token: the history only compares them.
fn number(token: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    token.hash(&mut hasher);
    hasher.finish()
}

/// A random id of version 7.
fn new_id() -> JobId {
    let mut bytes = fastrand::u128(..).to_be_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x70;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    JobId::from_bytes(bytes)
}
