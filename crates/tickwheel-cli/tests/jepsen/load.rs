//! Clients that share queues: clients of keys, of a schedule and of a paced queue, and a probe that
//! shows when the service accepts jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::checks::occurrences::Occurrences;
use crate::checks::pacing::{Limits, Start};
use crate::checks::registers::{Action, Operation};
use crate::client::new_id;
use crate::history::{Outcome, Span};
use crate::http::{Http, Test};

/// How long a request may take before its outcome is unknown.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The timeout of the probe: longer than a node waits for an owner.
const PROBE_TIMEOUT: Duration = Duration::from_secs(6);

/// How long a key is used, and how many are in use at a time.
const KEY_ROUND_MS: u64 = 4_000;
const KEYS: u64 = 2;

/// The period of the schedule.
pub(crate) const PERIOD_MS: u64 = 500;
/// The limits of the paced queue.
pub(crate) const LIMITS: Limits = Limits { starts: 20, window_ms: 1_000, concurrency: 6 };
const SHARED_LEASE_MS: u64 = 5_000;
/// Twice the tolerated difference of clocks, as in the history.
const TOLERANCE_MS: u64 = 1_200;

fn pause(up_to_ms: u64) {
    std::thread::sleep(Duration::from_millis(fastrand::u64(..up_to_ms)));
}

/// A client of keys that other clients use as well.
pub(crate) struct KeyClient {
    pub(crate) http: Http,
    pub(crate) keys: BTreeMap<String, Vec<Operation>>,
}

impl KeyClient {
    pub(crate) fn new(test: &Test) -> Self {
        Self { http: test.http(TIMEOUT), keys: BTreeMap::new() }
    }

    pub(crate) fn run(mut self) -> Self {
        while !self.http.is_over() {
            self.act();
            pause(40);
        }
        self
    }

    fn act(&mut self) {
        let round = self.http.now() / KEY_ROUND_MS;
        let key = format!("round-{round}-{}", fastrand::u64(..KEYS));
        let path = format!("/v1/queues/keys/keys/{key}");
        let id = new_id();
        let value = u128::from_be_bytes(*id.as_bytes());
        let put = |conflict: &str| {
            json!({"text": "", "id": id.to_string(), "key": key, "delay": "1h",
                   "on_conflict": conflict})
        };
        let jobs = "/v1/queues/keys/jobs";
        let (name, method, path, body, action) = match fastrand::u8(..6) {
            0 | 1 => ("replace", "POST", jobs, Some(put("replace")), Action::Write(value)),
            2 => ("create", "POST", jobs, Some(put("reject")), Action::Create(value)),
            3 => ("cancel", "DELETE", &path[..], None, Action::Clear),
            _ => ("read", "GET", &path[..], None, Action::Read(None)),
        };
        let (span, outcome, answer) = self.http.change(name, method, path, body.as_ref());
        let action = match (outcome, action, &answer) {
            (Outcome::Done, Action::Read(_), Some((_, job))) => {
                let id: tickwheel_queue::JobId =
                    job["id"].as_str().and_then(|id| id.parse().ok()).expect("a job has an id");
                Action::Read(Some(u128::from_be_bytes(*id.as_bytes())))
            }
            (Outcome::Unknown, Action::Read(_), _) => return,
            (Outcome::Refused, Action::Read(_) | Action::Clear, Some((404, _))) => {
                Action::Read(None)
            }
            (Outcome::Refused, Action::Create(_), Some((409, _))) => Action::FindTaken,
            (Outcome::Refused, ..) => return,
            (_, action, _) => action,
        };
        let answered = (outcome != Outcome::Unknown).then_some(span.answered);
        let operation = Operation { sent: span.sent, answered, action };
        self.keys.entry(key).or_default().push(operation);
    }
}

/// A worker of the queue that a schedule fills.
pub(crate) struct ScheduleWorker {
    pub(crate) http: Http,
    pub(crate) occurrences: Occurrences,
}

impl ScheduleWorker {
    /// Puts the schedule.
    pub(crate) fn new(test: &Test) -> Self {
        let mut http = test.http(TIMEOUT);
        let schedule = json!({"queue": "ticks", "every": format!("{PERIOD_MS}ms"), "text": "tick",
                              "misfire": "all", "misfire_limit": 1_000, "max_attempts": 1_000});
        http.insist("schedule", "PUT", "/v1/schedules/ticks", &schedule);
        Self { http, occurrences: Occurrences::default() }
    }

    pub(crate) fn run(mut self) -> Self {
        while !self.http.is_over() {
            self.work();
        }
        self
    }

    /// Ends the schedule, and works until no job is left.
    pub(crate) fn finish(&mut self) {
        self.http.insist("pause schedule", "POST", "/v1/schedules/ticks/pause", &json!({}));
        loop {
            self.work();
            let Some((200, queue)) = self.http.send("GET", "/v1/queues/ticks", None) else {
                continue;
            };
            let left = |state: &str| queue["jobs"][state].as_u64().expect("a count");
            if left("scheduled") + left("ready") + left("leased") == 0 {
                return;
            }
        }
    }

    fn work(&mut self) {
        for (delivery, _) in reserve(&mut self.http, "ticks", 10) {
            let job = &delivery["job"];
            let occurrence = job["headers"]["tickwheel-occurrence"].as_str();
            let occurrence = occurrence.and_then(|text| text.parse().ok()).expect("its occurrence");
            let id = job["id"].as_str().expect("its id");
            self.occurrences.note(occurrence, id);
            let path = format!("/v1/jobs/{id}/ack");
            let body = json!({"token": delivery["token"]});
            self.http.change("ack", "POST", &path, Some(&body));
        }
    }
}

/// A client of the paced queue, which puts more jobs than it allows, and works on them.
pub(crate) struct PacedWorker {
    pub(crate) http: Http,
    pub(crate) starts: Vec<Start>,
}

impl PacedWorker {
    /// Sets the limits of the queue.
    pub(crate) fn new(test: &Test) -> Self {
        let mut http = test.http(TIMEOUT);
        let Limits { starts, window_ms, concurrency } = LIMITS;
        let window = format!("{window_ms}ms");
        let pacing = json!({"starts": starts, "window": window, "concurrency": concurrency});
        let settings = json!({"pacing": pacing});
        http.insist("settings", "PATCH", "/v1/queues/paced/settings", &settings);
        Self { http, starts: Vec::new() }
    }

    pub(crate) fn run(mut self) -> Self {
        while !self.http.is_over() {
            let item = json!({"queue": "paced", "text": "call", "max_attempts": 1_000});
            let batch = json!({"items": vec![item; 6]});
            self.http.change("put paced", "POST", "/v1/jobs/batch", Some(&batch));
            self.work();
        }
        self
    }

    fn work(&mut self) {
        let deliveries = reserve(&mut self.http, "paced", 4);
        pause(60);
        for (delivery, Span { sent, answered }) in deliveries {
            let until = delivery["until_ms"].as_u64().expect("the end of the lease");
            let id = delivery["job"]["id"].as_str().expect("its id");
            let live_until = self.http.now().min(sent + SHARED_LEASE_MS - TOLERANCE_MS);
            let owner_ms = until - SHARED_LEASE_MS;
            self.starts.push(Start { owner_ms, live_from: answered, live_until });
            let path = format!("/v1/jobs/{id}/ack");
            let body = json!({"token": delivery["token"]});
            self.http.change("ack", "POST", &path, Some(&body));
        }
    }
}

fn reserve(http: &mut Http, queue: &str, limit: u32) -> Vec<(Value, Span)> {
    let lease = format!("{SHARED_LEASE_MS}ms");
    let body = json!({"limit": limit, "lease": lease, "wait": "300ms"});
    let path = format!("/v1/queues/{queue}/reserve");
    let (span, _, answer) = http.change("reserve", "POST", &path, Some(&body));
    let Some((200, answer)) = answer else { return Vec::new() };
    let deliveries = answer["deliveries"].as_array().expect("a list of deliveries");
    deliveries.iter().map(|delivery| (delivery.clone(), span)).collect()
}

/// A probe that puts jobs all the time, to find out when the service accepts them.
pub(crate) struct Probe {
    pub(crate) http: Http,
    /// The times at which successful puts were answered.
    pub(crate) puts: Vec<u64>,
}

impl Probe {
    pub(crate) fn new(test: &Test) -> Self {
        Self { http: test.http(PROBE_TIMEOUT), puts: Vec::new() }
    }

    pub(crate) fn run(mut self, last: &std::sync::atomic::AtomicU64) -> Self {
        let body = json!({"text": "", "delay": "1h"});
        while !self.http.is_over() {
            let path = "/v1/queues/probe/jobs";
            let (span, outcome, _) = self.http.change("put", "POST", path, Some(&body));
            if outcome == Outcome::Done {
                self.puts.push(span.answered);
                last.fetch_max(span.answered, std::sync::atomic::Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self
    }
}
