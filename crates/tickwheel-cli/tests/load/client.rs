//! A client of the load: one connection, one thread, and the accounts.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use ureq::Agent;

use crate::account::{Account, Delivered};

pub(crate) const QUEUE: &str = "load";
/// The length of a lease: short, so that leases expire during the test.
const LEASE: u64 = 400;

/// State that all clients share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) account: Account,
    pub(crate) stop: AtomicBool,
    /// Whether a request may be cut off, because the server is killed meanwhile.
    pub(crate) may_be_cut_off: bool,
}

pub(crate) struct Client<'a> {
    shared: &'a Shared,
    agent: Agent,
    url: &'a str,
    seed: Cell<u64>,
    /// The slowest answer, without the time that the request asked to wait.
    pub(crate) slowest: Cell<Duration>,
}

/// The connection was lost, so the outcome is unknown.
#[derive(Debug)]
pub(crate) struct CutOff;

pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    since.as_millis() as u64
}

impl<'a> Client<'a> {
    pub(crate) fn new(shared: &'a Shared, url: &'a str, seed: u64) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(Duration::from_secs(60)))
            .build()
            .new_agent();
        let seed = Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Self { shared, agent, url, seed, slowest: Cell::default() }
    }

    fn goes_on(&self) -> bool {
        !self.shared.stop.load(Ordering::Relaxed)
    }

    /// Returns a random number (xorshift).
    fn chance(&self, below: u64) -> u64 {
        let mut x = self.seed.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.seed.set(x);
        (x >> 11) % below
    }

    /// Returns a unique id: a UUID of version 8.
    fn new_id(&self) -> String {
        let (a, b) = (self.chance(u64::MAX), self.chance(u64::MAX));
        let text = format!("{a:016x}{b:016x}");
        format!(
            "{}-{}-4{}-8{}-{}",
            &text[..8],
            &text[8..12],
            &text[13..16],
            &text[17..20],
            &text[20..]
        )
    }

    /// Sends a request, and returns its status and body.
    pub(crate) fn send(&self, path: &str, body: &Value) -> Result<(u16, Value), CutOff> {
        let start = Instant::now();
        let url = format!("{}/v1{path}", self.url);
        let request = self.agent.post(url).header("content-type", "application/json");
        self.answer(start, path, request.send(body.to_string()))
    }

    pub(crate) fn get(&self, path: &str) -> Result<(u16, Value), CutOff> {
        let answer = self.agent.get(format!("{}/v1{path}", self.url)).call();
        self.answer(Instant::now(), path, answer)
    }

    fn answer(
        &self,
        start: Instant,
        path: &str,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<(u16, Value), CutOff> {
        let account = &self.shared.account;
        let read = answer.and_then(|mut response| {
            let body = response.body_mut().with_config().limit(1 << 30).read_to_string()?;
            Ok((response.status().as_u16(), body))
        });
        match read {
            Err(error) => {
                account.cut_off.fetch_add(1, Ordering::Relaxed);
                if !self.shared.may_be_cut_off {
                    account.error(format!("{path}: {error}"));
                }
                Err(CutOff)
            }
            Ok((status, body)) => {
                self.slowest.set(self.slowest.get().max(start.elapsed()));
                // A server that is shutting down answers with this status; no other failure is
                // allowed.
                let is_closing = self.shared.may_be_cut_off && status == 503;
                if status >= 500 && !is_closing {
                    account.error(format!("{path}: {status} {body}"));
                }
                if is_closing {
                    return Err(CutOff);
                }
                Ok((status, serde_json::from_str(&body).unwrap_or_default()))
            }
        }
    }

    /// Puts, cancels and moves jobs of its own until it is stopped.
    pub(crate) fn produce(&self) -> Result<(), CutOff> {
        let mut own: Vec<String> = Vec::new();
        while self.goes_on() {
            match (self.chance(10), own.is_empty()) {
                (0..5, _) | (_, true) => own.push(self.put()?),
                (5, _) => own.extend(self.put_batch()?),
                (6..8, _) => {
                    self.cancel(&own.swap_remove(self.chance(own.len() as u64) as usize))?;
                }
                _ => self.reschedule(&own[self.chance(own.len() as u64) as usize])?,
            }
            if own.len() > 200 {
                own.drain(..100);
            }
        }
        Ok(())
    }

    fn new_job(&self) -> (String, Value) {
        let (id, due) = (self.new_id(), now() + self.chance(150));
        self.shared.account.put(&id, due);
        let text = "x".repeat(self.chance(400) as usize);
        // Thousands of leases expire in this test, and no job may die of that.
        let job = json!({
            "queue": QUEUE, "id": id, "due": due, "text": text, "max_attempts": 1_000,
        });
        (id, job)
    }

    fn put(&self) -> Result<String, CutOff> {
        let (id, mut job) = self.new_job();
        job.as_object_mut().expect("an object").remove("queue");
        let (status, answer) = self.send(&format!("/queues/{QUEUE}/jobs"), &job)?;
        if status == 201 {
            self.shared.account.put_done(&id);
        } else {
            self.shared.account.error(format!("a put got {status} {answer}"));
        }
        Ok(id)
    }

    fn put_batch(&self) -> Result<Vec<String>, CutOff> {
        let (ids, jobs): (Vec<String>, Vec<Value>) = (0..10).map(|_| self.new_job()).unzip();
        let (status, answer) = self.send("/jobs/batch", &json!({ "jobs": jobs }))?;
        for (id, place) in ids.iter().zip(0..) {
            if status == 200 && answer["results"][place]["ok"]["id"] == **id {
                self.shared.account.put_done(id);
            } else {
                self.shared.account.error(format!("a batch of puts got {status} {answer}"));
            }
        }
        Ok(ids)
    }

    fn cancel(&self, id: &str) -> Result<(), CutOff> {
        let account = &self.shared.account;
        account.ending(id);
        let answer = self.agent.delete(format!("{}/v1/jobs/{id}", self.url)).call();
        let (status, answer) = self.answer(Instant::now(), "cancel", answer)?;
        // The job may be done or dead by now.
        if !matches!(status, 200 | 404 | 409) {
            account.error(format!("a cancel got {status} {answer}"));
        }
        if status == 200 {
            account.cancels.fetch_add(1, Ordering::Relaxed);
        }
        account.ended(id, status == 200);
        Ok(())
    }

    fn reschedule(&self, id: &str) -> Result<(), CutOff> {
        let account = &self.shared.account;
        account.moving(id, false);
        let body = json!({ "delay": self.chance(100) });
        let (status, answer) = self.send(&format!("/jobs/{id}/reschedule"), &body)?;
        // The job may be gone or leased.
        if !matches!(status, 200 | 404 | 409) {
            account.error(format!("a reschedule got {status} {answer}"));
        }
        Ok(())
    }

    /// Works on jobs until it is stopped.
    pub(crate) fn work(&self) -> Result<(), CutOff> {
        while self.goes_on() {
            self.work_once(100)?;
        }
        Ok(())
    }

    /// Works until nothing is left.
    pub(crate) fn work_off(&self, patience: Duration) -> Result<(), CutOff> {
        let start = Instant::now();
        loop {
            self.work_once(50)?;
            let (_, queue) = self.get(&format!("/queues/{QUEUE}"))?;
            let live = ["scheduled", "ready", "leased"].map(|state| count(&queue, state));
            if live.iter().sum::<u64>() == 0 {
                return Ok(());
            }
            if start.elapsed() > patience {
                self.shared.account.error(format!("the queue is not worked off: {queue}"));
                return Ok(());
            }
        }
    }

    fn work_once(&self, wait: u64) -> Result<(), CutOff> {
        let account = &self.shared.account;
        let begun = account.stamp();
        let limit = 1 + self.chance(10);
        let body = json!({ "limit": limit, "lease": LEASE, "wait": wait });
        let (status, answer) = self.send(&format!("/queues/{QUEUE}/reserve"), &body)?;
        let received = now();
        // The queue is created with its first job.
        if !matches!(status, 200 | 404) {
            account.error(format!("a reserve got {status} {answer}"));
        }
        let none = Vec::new();
        let deliveries = answer["deliveries"].as_array().unwrap_or(&none);
        if deliveries.len() as u64 > limit {
            account.error(format!("{} jobs came, {limit} were asked for", deliveries.len()));
        }
        for delivery in deliveries {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (id, token) = (text(&delivery["job"]["id"]), text(&delivery["token"]));
            account.delivered(&Delivered {
                id: &id,
                begun,
                due: delivery["job"]["due_ms"].as_u64().unwrap_or(u64::MAX),
                until: delivery["until_ms"].as_u64().unwrap_or(0),
                lease: LEASE,
                now: received,
            });
            self.finish(&id, &token)?;
        }
        Ok(())
    }

    fn finish(&self, id: &str, token: &str) -> Result<(), CutOff> {
        let account = &self.shared.account;
        match self.chance(20) {
            0 => Ok(()), // Forgotten: its lease runs out.
            1 => {
                account.moving(id, true);
                let body =
                    json!({ "token": token, "error": "by chance", "delay": self.chance(50) });
                self.send(&format!("/jobs/{id}/fail"), &body).map(drop)
            }
            2 => {
                account.moving(id, true);
                self.send(&format!("/jobs/{id}/release"), &json!({ "token": token })).map(drop)
            }
            _ => {
                account.ending(id);
                let body = json!({ "token": token });
                let (status, answer) = self.send(&format!("/jobs/{id}/ack"), &body)?;
                // The lease may have expired, or the job may have been cancelled.
                if !matches!(status, 200 | 404 | 409) {
                    account.error(format!("an ack got {status} {answer}"));
                }
                if status == 200 {
                    account.acks.fetch_add(1, Ordering::Relaxed);
                }
                account.ended(id, status == 200);
                Ok(())
            }
        }
    }

    /// Returns the ids of all live and dead jobs.
    pub(crate) fn everything(&self) -> Result<Vec<String>, CutOff> {
        let mut ids = Vec::new();
        let mut next = String::new();
        loop {
            let (status, page) = self.get(&format!("/queues/{QUEUE}/jobs?limit=1000{next}"))?;
            if status == 404 {
                return Ok(ids);
            }
            let jobs = page["jobs"].as_array().cloned().unwrap_or_default();
            ids.extend(jobs.iter().filter_map(|job| job["id"].as_str().map(str::to_owned)));
            match page["next"].as_str() {
                Some(token) => next = format!("&page={token}"),
                None => return Ok(ids),
            }
        }
    }
}

fn count(queue: &Value, state: &str) -> u64 {
    queue["jobs"][state].as_u64().or_else(|| queue[state].as_u64()).unwrap_or(u64::MAX / 8)
}
