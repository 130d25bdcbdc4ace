//! The threads that put jobs, and those that reserve and acknowledge them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tickwheel_api::{Batch, Delay, Deliveries, JobId, LeaseItem, ReserveRequest, Results, Verdict};

use super::plan::Plan;
use super::record::{Record, Stage};
use super::{ClockOffset, sleep_until, wall_micros};
use crate::args::Connection;
use crate::client::{Client, Extra, Path};
use crate::failure::Failure;
use crate::output::Output;
use ureq::http::Method;

/// Jobs that a worker reserves at once.
const RESERVE_LIMIT: u32 = 100;
/// How long a reserve waits for jobs.
const RESERVE_WAIT: Duration = Duration::from_secs(1);
const LEASE: Delay = Delay::from_millis(300_000);
/// How long workers continue without any progress, once the last job should be due.
const DRAIN_PATIENCE: Duration = Duration::from_secs(30);
/// How often the progress is shown.
const PROGRESS: Duration = Duration::from_millis(250);

/// A load while it runs.
pub(super) struct Load {
    pub(super) plan: Plan,
    offset: ClockOffset,
    is_stopped: Arc<AtomicBool>,
    /// The request that is sent next.
    next: AtomicU64,
    putters: AtomicU64,
    put: AtomicU64,
    acked: AtomicU64,
    failed: AtomicU64,
    /// The jobs that were put, if they have to be removed one by one.
    ids: Option<Mutex<Vec<JobId>>>,
}

/// The part of an answer to a put that is needed.
#[derive(Deserialize)]
struct PutId {
    id: JobId,
}

impl Load {
    pub(super) fn new(
        plan: Plan,
        offset: ClockOffset,
        keeps_ids: bool,
        is_stopped: Arc<AtomicBool>,
    ) -> Self {
        let zero = AtomicU64::default;
        Self {
            putters: AtomicU64::new(plan.connections.into()),
            plan,
            offset,
            is_stopped,
            next: zero(),
            put: zero(),
            acked: zero(),
            failed: zero(),
            ids: keeps_ids.then(Mutex::default),
        }
    }

    /// The jobs that were put, if they are kept.
    pub(super) fn put_ids(&self) -> Vec<JobId> {
        let ids = self.ids.as_ref();
        ids.map(|ids| ids.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .unwrap_or_default()
    }

    /// Runs all threads to their end.
    pub(super) fn run(&self, connection: &Connection, output: &Output) -> Result<Record, Failure> {
        let client = || Client::new(connection);
        let number = |count: u16| (0..count).map(|_| client()).collect::<Result<Vec<_>, _>>();
        let putters = number(self.plan.connections)?;
        let workers = number(if self.plan.is_end_to_end { self.plan.workers } else { 0 })?;
        let start = Instant::now();
        let mut record = Record::default();
        std::thread::scope(|threads| {
            let putters: Vec<_> =
                putters.iter().map(|client| threads.spawn(|| self.put(client, start))).collect();
            let workers: Vec<_> =
                workers.iter().map(|client| threads.spawn(|| self.work(client, start))).collect();
            let all = || putters.iter().chain(&workers);
            while !all().all(std::thread::ScopedJoinHandle::is_finished) {
                self.show_progress(output, start);
                std::thread::sleep(PROGRESS);
            }
            for thread in putters.into_iter().chain(workers) {
                match thread.join() {
                    Ok(one) => record.add(&one),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        if self.plan.is_end_to_end && !self.is_stopped.load(Ordering::Relaxed) {
            let lost = record.put.saturating_sub(record.acked);
            if lost > 0 {
                record.error("not delivered in time", lost);
            }
        }
        Ok(record)
    }

    fn show_progress(&self, output: &Output, start: Instant) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (put, failed) = (count(&self.put), count(&self.failed));
        let elapsed = start.elapsed().as_secs_f64();
        let acked = if self.plan.is_end_to_end {
            format!(", {} acknowledged", count(&self.acked))
        } else {
            String::new()
        };
        output.status(&format!(
            "{elapsed:.0} s of {:.0} s: {put} put ({:.0}/s){acked}, {failed} failed",
            self.plan.duration().as_secs_f64(),
            put as f64 / elapsed.max(0.001)
        ));
    }

    fn put(&self, client: &Client, start: Instant) -> Record {
        let _last = Leaving(&self.putters);
        let mut record = Record::default();
        let path = self.plan.path();
        let jobs = u64::from(self.plan.batch);
        loop {
            let request = self.next.fetch_add(1, Ordering::Relaxed);
            let intended = start + self.plan.offset_of(request);
            if request >= self.plan.requests || !sleep_until(intended, &self.is_stopped) {
                return record;
            }
            let sent = Instant::now();
            let answer = if self.plan.batch == 1 {
                client.post(&path, &self.plan.job(request))
            } else {
                client.post(&path, &self.plan.batch(request))
            };
            let end = Instant::now();
            record.time(Stage::SendDelay, sent - intended, 1);
            match answer.and_then(|answer| self.read_ids(&answer, &mut record)) {
                Ok(put) => {
                    record.time(Stage::Put, end - intended, put);
                    record.put += put;
                    record.took = end - start;
                    self.put.fetch_add(put, Ordering::Relaxed);
                    self.failed.fetch_add(jobs - put, Ordering::Relaxed);
                }
                Err(failure) => {
                    record.failure(&failure, jobs);
                    self.failed.fetch_add(jobs, Ordering::Relaxed);
                }
            }
        }
    }

    /// Returns how many jobs of a request were put.
    fn read_ids(
        &self,
        answer: &crate::client::Answer,
        record: &mut Record,
    ) -> Result<u64, Failure> {
        let mut put = Vec::with_capacity(self.plan.batch as usize);
        if self.plan.batch == 1 {
            put.push(answer.read::<PutId>()?.id);
        } else {
            for verdict in answer.read::<Results<PutId>>()?.results {
                match verdict {
                    Verdict::Ok(PutId { id }) => put.push(id),
                    Verdict::Error(problem) => {
                        record.error(format!("{} {}", problem.status, problem.code), 1);
                    }
                }
            }
        }
        if let Some(ids) = &self.ids {
            ids.lock().unwrap_or_else(PoisonError::into_inner).extend(&put);
        }
        Ok(put.len() as u64)
    }

    /// Reserves and acknowledges until every job is, or nothing comes any more.
    fn work(&self, client: &Client, start: Instant) -> Record {
        let mut record = Record::default();
        let last_due = start + self.plan.duration() + self.plan.delay.0;
        let mut patience_ends = last_due + DRAIN_PATIENCE;
        let mut seen = 0;
        loop {
            let acked = self.acked.load(Ordering::Relaxed);
            let is_put = self.putters.load(Ordering::Acquire) == 0;
            let is_done = is_put && acked >= self.put.load(Ordering::Relaxed);
            let now = Instant::now();
            if acked > seen {
                seen = acked;
                patience_ends = patience_ends.max(now + DRAIN_PATIENCE);
            }
            if is_done || now > patience_ends || self.is_stopped.load(Ordering::Relaxed) {
                return record;
            }
            if let Err(failure) = self.work_once(client, start, &mut record) {
                // An error of the load, and not of one job. The next reserve follows later, so
                // that a server that is gone is not asked without a pause.
                record.failure(&failure, 1);
                self.failed.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(PROGRESS);
            }
        }
    }

    fn work_once(
        &self,
        client: &Client,
        start: Instant,
        record: &mut Record,
    ) -> Result<(), Failure> {
        let reserve = ReserveRequest {
            limit: Some(RESERVE_LIMIT),
            lease: Some(LEASE),
            wait: Some(Delay(RESERVE_WAIT)),
            ..ReserveRequest::default()
        };
        let path = Path::new(&["queues", &self.plan.queue, "reserve"]);
        let extra = Extra { wait: RESERVE_WAIT, ..Extra::default() };
        let answer = match client.call(Method::POST, &path, Some(&reserve), &extra) {
            // The queue appears with its first job.
            Err(failure) if failure.is_not_found() => {
                std::thread::sleep(Duration::from_millis(10));
                return Ok(());
            }
            answer => answer?,
        };
        let received = wall_micros();
        let deliveries = answer.read::<Deliveries>()?.deliveries;
        if deliveries.is_empty() {
            return Ok(());
        }
        let mut requests = Vec::with_capacity(deliveries.len());
        let mut items = Vec::with_capacity(deliveries.len());
        for delivery in &deliveries {
            let due = i64::try_from(delivery.job.due_ms).unwrap_or(i64::MAX / 1_000) * 1_000;
            let late = received + self.offset.micros - due;
            record.early += u64::from(late < -self.offset.error);
            let late = Duration::from_micros(u64::try_from(late).unwrap_or(0));
            record.time(Stage::Lateness, late, 1);
            requests.push(self.plan.request_of(delivery.job.text.as_deref().unwrap_or_default()));
            items.push(LeaseItem { id: delivery.job.id, token: delivery.token, result: None });
        }
        let sent = Instant::now();
        let answer = client.post(&Path::new(&["jobs", "batch", "ack"]), &Batch { items })?;
        let end = Instant::now();
        record.time(Stage::Ack, end - sent, 1);
        let results = answer.read::<Results<serde::de::IgnoredAny>>()?.results;
        for (verdict, request) in results.iter().zip(requests) {
            match (verdict, request) {
                (Verdict::Ok(_), Some(request)) => {
                    let intended = start + self.plan.offset_of(request);
                    record.time(Stage::Whole, end.saturating_duration_since(intended), 1);
                    record.acked += 1;
                    self.acked.fetch_add(1, Ordering::Relaxed);
                }
                (Verdict::Ok(_), None) => {}
                (Verdict::Error(problem), _) => {
                    record.error(format!("{} {}", problem.status, problem.code), 1);
                }
            }
        }
        Ok(())
    }
}

/// Counts a thread down when it ends, also by a panic.
struct Leaving<'a>(&'a AtomicU64);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
