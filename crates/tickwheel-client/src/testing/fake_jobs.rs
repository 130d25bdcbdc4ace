//! The jobs of a fake.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tickwheel_api::{
    Code, Conflict, Counts, Delay, Delivery, Exponential, FailRequest, Job, JobId, JobPage,
    JobState, LeaseInfo, LeaseToken, Problem, PutOutcome, PutRequest, PutResponse, Queue,
    QueueSettings, RescheduleRequest, ReserveRequest, Retry, Timestamp, rfc3339,
};

/// Why a request is refused.
pub(super) type Refusal = Box<Problem>;

/// The defaults of a queue of the real server.
const DEFAULT_LEASE_MS: u64 = 30_000;
const DEFAULT_ATTEMPTS: u32 = 10;
/// When the clock of a fake starts.
const START_MS: u64 = 1_767_323_045_678;

#[derive(Debug)]
pub(super) struct FakeJobs {
    now: u64,
    /// The number of ids and tokens made.
    made: u64,
    jobs: BTreeMap<String, Entry>,
    queues: BTreeSet<String>,
    paused: BTreeSet<String>,
}

#[derive(Debug)]
struct Entry {
    job: Job,
    /// The order of insertion.
    order: u64,
    token: Option<LeaseToken>,
}

impl Default for FakeJobs {
    fn default() -> Self {
        let (jobs, queues, paused) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { now: START_MS, made: 0, jobs, queues, paused }
    }
}

fn refuse<T>(code: Code, why: impl Into<String>) -> Result<T, Refusal> {
    let mut problem = Problem::new(code, why);
    problem.request_id = Some("fake".to_owned());
    Err(Box::new(problem))
}

fn typed<T: serde::de::DeserializeOwned>(call: &Value) -> Result<T, Refusal> {
    serde_json::from_value(call.clone())
        .or_else(|error| refuse(Code::InvalidField, error.to_string()))
}

impl Entry {
    /// Sets when the job is due.
    fn set_due(&mut self, due_ms: u64) {
        (self.job.due, self.job.due_ms) = (rfc3339(due_ms), due_ms);
    }

    /// Returns the delay before the next attempt, without jitter.
    fn backoff(&self) -> u64 {
        let attempts = self.job.attempts.max(1);
        match &self.job.retry {
            Some(Retry::Fixed(delay)) => delay.as_millis(),
            Some(Retry::List(delays)) => {
                let index = (attempts as usize).min(delays.len()).saturating_sub(1);
                delays.get(index).map_or(0, |delay| delay.as_millis())
            }
            Some(Retry::Exponential(Exponential { first, max, .. })) => {
                doubled(first.as_millis(), attempts).min(max.as_millis())
            }
            None => doubled(1_000, attempts).min(3_600_000),
        }
    }
}

fn doubled(first: u64, attempts: u32) -> u64 {
    first.saturating_mul(1 << (attempts - 1).min(30))
}

impl FakeJobs {
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn advance(&mut self, by: Duration) {
        self.now += u64::try_from(by.as_millis()).unwrap_or(u64::MAX - self.now);
        self.settle();
    }

    /// Applies the current time: leases expire, and jobs become ready.
    fn settle(&mut self) {
        let now = self.now;
        for entry in self.jobs.values_mut() {
            if entry.job.lease.as_ref().is_some_and(|lease| lease.until_ms <= now) {
                let due = entry.job.due_ms;
                end_attempt(entry, due, now);
            }
            if entry.job.state == JobState::Scheduled && entry.job.due_ms <= now {
                entry.job.state = JobState::Ready;
            }
        }
    }

    /// Returns the id of the live job with the key.
    pub(super) fn find_key(&self, queue: &str, key: &str) -> Option<String> {
        let is_named = |entry: &&Entry| {
            entry.job.queue == queue
                && entry.job.key.as_deref() == Some(key)
                && entry.job.state != JobState::Dead
        };
        self.jobs.values().find(is_named).map(|entry| entry.job.id.to_string())
    }

    /// Returns the ids of the queue's jobs in the order of delivery.
    fn order(&self, queue: &str) -> Vec<String> {
        let mut entries: Vec<&Entry> =
            self.jobs.values().filter(|entry| entry.job.queue == queue).collect();
        entries
            .sort_by_key(|entry| (entry.job.due_ms, -i16::from(entry.job.priority), entry.order));
        entries.iter().map(|entry| entry.job.id.to_string()).collect()
    }

    /// Returns the jobs of a queue in the order of delivery.
    pub(super) fn sorted(&self, queue: &str) -> Vec<Job> {
        self.order(queue).iter().map(|id| self.jobs[id].job.clone()).collect()
    }

    pub(super) fn get(&self, id: &str) -> Result<Job, Refusal> {
        match self.jobs.get(id) {
            Some(entry) => Ok(entry.job.clone()),
            None => refuse(Code::NotFound, "there is no such job"),
        }
    }

    pub(super) fn put(&mut self, put: PutRequest) -> Result<PutResponse, Refusal> {
        let Some(queue) = put.queue.clone() else {
            return refuse(Code::MissingField, "queue is missing");
        };
        if put.payload.is_none() && put.text.is_none() && put.base64.is_none() {
            return refuse(Code::MissingField, "one of payload, text and base64 is required");
        }
        if let Some(id) = put.id.filter(|id| self.jobs.contains_key(&id.to_string())) {
            return refuse(Code::IdExists, format!("a job has the id {id}"));
        }
        let old = put.key.as_deref().and_then(|key| self.find_key(&queue, key));
        let old = old.and_then(|id| self.jobs.get(&id)).map(|entry| entry.job.clone());
        let mut outcome = PutOutcome::Created;
        if let Some(old) = &old {
            match put.on_conflict.unwrap_or_default() {
                Conflict::Keep => return Ok(response(old, PutOutcome::Kept, None)),
                Conflict::Reject => {
                    return refuse(Code::KeyExists, "a live job has the key").map_err(
                        |mut problem: Refusal| {
                            problem.id = Some(old.id);
                            problem
                        },
                    );
                }
                Conflict::Replace => {
                    self.jobs.remove(&old.id.to_string());
                    outcome = PutOutcome::Replaced;
                }
            }
        }
        let job = self.create(queue, put);
        Ok(response(&job, outcome, old.map(|old| old.id)))
    }

    fn create(&mut self, queue: String, put: PutRequest) -> Job {
        self.made += 1;
        let delay = put.delay.map_or(0, Delay::as_millis);
        let due_ms = put.due.map_or(self.now + delay, Timestamp::as_millis);
        let kind = match (&put.payload, &put.text) {
            (Some(_), _) => "application/json",
            (None, Some(_)) => "text/plain; charset=utf-8",
            (None, None) => "application/octet-stream",
        };
        let mut headers = put.headers;
        headers.entry("content-type".to_owned()).or_insert_with(|| kind.to_owned());
        let job = Job {
            id: put.id.unwrap_or_else(|| new_id(self.now, self.made)),
            queue: queue.clone(),
            state: JobState::Scheduled,
            key: put.key,
            group: put.group,
            priority: put.priority.unwrap_or_default(),
            headers,
            payload: put.payload,
            text: put.text,
            base64: put.base64,
            due: rfc3339(due_ms),
            due_ms,
            created: rfc3339(self.now),
            created_ms: self.now,
            attempts: 0,
            max_attempts: put.max_attempts,
            on_success: put.on_success,
            on_death: put.on_death,
            result: None,
            retry: put.retry,
            lease: None,
            last_error: None,
            finished: None,
            finished_ms: None,
            history: Vec::new(),
        };
        self.queues.insert(queue);
        let entry = Entry { job: job.clone(), order: self.made, token: None };
        self.jobs.insert(job.id.to_string(), entry);
        self.settle();
        job
    }

    pub(super) fn lease(&mut self, queue: &str, request: &ReserveRequest) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        if self.paused.contains(queue) {
            return deliveries;
        }
        let until_ms = self.now + request.lease.map_or(DEFAULT_LEASE_MS, Delay::as_millis);
        for id in self.order(queue) {
            let is_full = deliveries.len() >= request.limit.unwrap_or(1) as usize;
            let Some(entry) = self.jobs.get_mut(&id).filter(|_| !is_full) else { continue };
            if entry.job.state != JobState::Ready {
                continue;
            }
            self.made += 1;
            let token = LeaseToken(self.made);
            entry.token = Some(token);
            entry.job.state = JobState::Leased;
            entry.job.attempts += 1;
            entry.job.lease = Some(LeaseInfo {
                until: rfc3339(until_ms),
                until_ms,
                since: Some(rfc3339(self.now)),
                since_ms: Some(self.now),
                worker: request.worker.clone(),
            });
            let job = entry.job.clone();
            deliveries.push(Delivery { job, token, until: rfc3339(until_ms), until_ms });
        }
        deliveries
    }

    /// Performs a request about one job, and returns the answer.
    pub(super) fn apply(&mut self, verb: &str, id: &str, call: &Value) -> Result<Value, Refusal> {
        let now = self.now;
        let Some(entry) = self.jobs.get_mut(id) else {
            return refuse(Code::NotFound, "there is no such job");
        };
        let state = entry.job.state;
        let wrong = || refuse(Code::WrongState, format!("the job is {state:?}"));
        let answer = match verb {
            "ack" | "fail" | "extend" | "release" => {
                let token = typed::<LeaseToken>(&call["token"])?;
                if entry.token != Some(token) {
                    return refuse(Code::StaleLease, "the lease has expired");
                }
                if verb == "ack" {
                    self.jobs.remove(id);
                    return Ok(json!({"state": JobState::Done}));
                }
                on_lease(entry, verb, call, now)?
            }
            "kick" => {
                if state != JobState::Dead {
                    return wrong();
                }
                (entry.job.state, entry.job.attempts) = (JobState::Ready, 0);
                (entry.job.finished, entry.job.finished_ms) = (None, None);
                entry.set_due(now);
                json!({"state": JobState::Ready})
            }
            "reschedule" => {
                if !matches!(state, JobState::Scheduled | JobState::Ready) {
                    return wrong();
                }
                let when: RescheduleRequest = typed(&without_id(call))?;
                let delay = when.delay.map_or(0, Delay::as_millis);
                entry.set_due(when.due.map_or(now + delay, Timestamp::as_millis));
                entry.job.state = JobState::Scheduled;
                json!({"due": entry.job.due, "due_ms": entry.job.due_ms})
            }
            "cancel" => {
                if state == JobState::Dead {
                    return wrong();
                }
                self.jobs.remove(id);
                return Ok(json!({"was": state}));
            }
            _ => {
                return refuse(Code::MethodNotAllowed, format!("the fake does not have {verb}"));
            }
        };
        self.settle();
        Ok(answer)
    }

    /// Returns all matching jobs on one page.
    pub(super) fn list(&self, queue: &str, query: &str) -> Result<JobPage, Refusal> {
        let mut state = None;
        for (name, value) in query.split('&').filter_map(|part| part.split_once('=')) {
            match name {
                "state" => state = Some(value),
                "limit" | "page" => {}
                _ => {
                    let why = format!("the fake cannot list jobs by {name}");
                    return refuse(Code::InvalidParameter, why);
                }
            }
        }
        let is_wanted = |job: &Job| state.is_none_or(|state| json!(job.state) == json!(state));
        let jobs = self.sorted(queue).into_iter().filter(is_wanted).collect();
        Ok(JobPage { jobs, next: None, damaged: Vec::new(), gaps: 0 })
    }

    pub(super) fn queues(&self) -> Vec<Queue> {
        self.queues.iter().filter_map(|queue| self.queue(queue).ok()).collect()
    }

    pub(super) fn queue(&self, name: &str) -> Result<Queue, Refusal> {
        if !self.queues.contains(name) {
            return refuse(Code::NotFound, format!("there is no queue {name}"));
        }
        let mut jobs = Counts::default();
        for job in self.sorted(name) {
            match job.state {
                JobState::Scheduled => jobs.scheduled += 1,
                JobState::Ready => jobs.ready += 1,
                JobState::Leased => jobs.leased += 1,
                JobState::Dead => jobs.dead += 1,
                JobState::Done | JobState::Cancelled => {}
            }
        }
        let paused = self.paused.contains(name);
        let settings = QueueSettings::default();
        let queue = json!({
            "name": name, "paused": paused, "jobs": jobs, "more_ready": false, "settings": settings,
        });
        typed(&queue)
    }

    pub(super) fn pause(&mut self, name: &str, paused: bool) -> Result<Queue, Refusal> {
        self.queue(name)?;
        if paused {
            self.paused.insert(name.to_owned());
        } else {
            self.paused.remove(name);
        }
        self.queue(name)
    }
}

fn response(job: &Job, outcome: PutOutcome, replaced: Option<JobId>) -> PutResponse {
    PutResponse {
        id: job.id,
        queue: job.queue.clone(),
        outcome,
        replaced,
        due: Some(job.due.clone()),
        due_ms: Some(job.due_ms),
    }
}

/// Returns an id of the form of the server's: the time, and a number that counts up.
fn new_id(now: u64, number: u64) -> JobId {
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&now.to_be_bytes()[2..]);
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    bytes[6] = 0x70;
    bytes[8] = 0x80;
    JobId::from_bytes(bytes)
}

fn without_id(call: &Value) -> Value {
    let mut call = call.clone();
    call.as_object_mut().map(|call| call.remove("id"));
    call
}

/// Makes the job ready at the time, or dead if no attempt is left.
fn end_attempt(entry: &mut Entry, due_ms: u64, now: u64) {
    if entry.job.attempts >= entry.job.max_attempts.unwrap_or(DEFAULT_ATTEMPTS) {
        bury(entry, now);
        return;
    }
    (entry.token, entry.job.lease) = (None, None);
    entry.set_due(due_ms);
    entry.job.state = if due_ms <= now { JobState::Ready } else { JobState::Scheduled };
}

fn bury(entry: &mut Entry, now: u64) {
    (entry.token, entry.job.lease) = (None, None);
    entry.job.state = JobState::Dead;
    (entry.job.finished, entry.job.finished_ms) = (Some(rfc3339(now)), Some(now));
}

/// Performs a request of the worker that has the job, except for an acknowledgement.
fn on_lease(entry: &mut Entry, verb: &str, call: &Value, now: u64) -> Result<Value, Refusal> {
    if verb == "extend" {
        let lease: Delay = typed(&call["lease"])?;
        let until_ms = now + lease.as_millis();
        if let Some(lease) = &mut entry.job.lease {
            (lease.until, lease.until_ms) = (rfc3339(until_ms), until_ms);
        }
        return Ok(json!({"until": rfc3339(until_ms), "until_ms": until_ms}));
    }
    let delay: Option<Delay> = typed(&call["delay"])?;
    if verb == "release" {
        entry.job.attempts -= 1;
        let due = delay.map_or(entry.job.due_ms, |delay| now + delay.as_millis());
        end_attempt(entry, due, now);
        return Ok(json!({"released": true}));
    }
    let failure: FailRequest = typed(&without_id(call))?;
    entry.job.last_error = Some(failure.error);
    let backoff = entry.backoff();
    if failure.dead {
        bury(entry, now);
    } else {
        end_attempt(entry, now + delay.map_or(backoff, Delay::as_millis), now);
    }
    Ok(json!({"state": entry.job.state}))
}
