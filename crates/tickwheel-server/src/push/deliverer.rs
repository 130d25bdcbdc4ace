//! Deliveries to one target: a task that reserves jobs of its queues and sends them.
//!
//! Ground rules:
//! * A job is reserved only when a request may be sent for it, or in a moment (see `window`). What
//!   waits for a held or busy target stays in its queue, in order, and costs nothing.
//! * With a rate, the durable state counts a request before it is written (see `window`).
//! * A change of health is durable before the job that caused it goes back to its queue.
//! * Nothing here is shared between targets but the queue's writer and the limit of connections.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::Poll;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_queue::{Delivery, Error, Lease, Queues, Retry};
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinSet;

use super::charge::{Reservation, Reserved};
use super::connection::{Connector, Pool};
use super::definition::Definition;
use super::health::{Grant, Health, Mode};
use super::permit::{Permit, Starting};
use super::request::Message;
use super::response::{Answer, NoAnswer, Verdict};
use super::responses::Responses;
use super::window::Window;
use super::{SteadyClock, random};
use crate::http::memory::Memory;
use crate::telemetry::{Outcome, Receiver, Telemetry};

/// Jobs that one reservation takes.
const MAX_RESERVE: u32 = 64;
/// How long one reservation waits for a job.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How long to wait after the store failed.
const STORE_PAUSE: Duration = Duration::from_secs(1);
/// How long to wait for memory if no request of the target ends.
const MEMORY_PAUSE: Duration = Duration::from_millis(100);
/// How often a verdict is reported to a queue whose store fails.
const SETTLE_ATTEMPTS: u32 = 10;
/// How long the durable state covers a granted request that has not started, in milliseconds.
const COVER_MS: u64 = 2_000;

/// A queue whose jobs the target gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) queue: String,
    pub(super) lease: Duration,
}

/// What survives a restart, as JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
struct StoredState {
    version: u32,
    mode: Mode,
    /// Times and numbers of starts.
    starts: Vec<(u64, u32)>,
}

/// Whether a reserved request may be written.
pub(super) enum Begin {
    Now,
    At(u64),
    /// As soon as requests that are being written have started.
    AfterOthers,
    /// Once the durable state covers it.
    NotCovered,
}

struct Control {
    window: Window,
    health: Health,
    in_flight: u32,
    /// The queue that is asked first next time.
    turn: usize,
}

/// The outcomes of requests since the server started.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) delivered: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) held: AtomicU64,
}

pub(super) struct Deliverer {
    name: String,
    queues: Queues,
    connector: Arc<Connector>,
    /// What requests and answers in flight may take, jobs on their way to a target included.
    memory: Memory,
    telemetry: Telemetry,
    clock: SteadyClock,
    definition: RwLock<Arc<Definition>>,
    sources: RwLock<Arc<[Source]>>,
    control: Mutex<Control>,
    /// One state is written at a time, so that an older one cannot follow a newer one.
    persisting: tokio::sync::Mutex<()>,
    /// Settings, queues or the health changed.
    changed: Notify,
    /// A request ended or started.
    freed: Notify,
    pool: Arc<Pool>,
    pub(super) counts: Counts,
    pub(super) responses: Responses,
    /// The names of targets whose state has changed.
    changes: broadcast::Sender<String>,
}

impl Deliverer {
    #[allow(clippy::too_many_arguments, reason = "each is one part of the service, given once")]
    pub(super) fn new(
        name: String,
        queues: &Queues,
        connector: Arc<Connector>,
        memory: Memory,
        telemetry: Telemetry,
        clock: SteadyClock,
        definition: Definition,
        state: &[u8],
        changes: broadcast::Sender<String>,
    ) -> Arc<Self> {
        let now = clock.now_ms();
        // The history of a job names the target as its worker.
        let mut worker = format!("target {name}");
        worker.truncate(tickwheel_queue::Attempt::MAX_WORKER_BYTES);
        let queues = queues.as_worker(worker);
        let stored = if state.is_empty() {
            StoredState::default()
        } else {
            serde_json::from_slice(state).unwrap_or_else(|error| {
                tracing::error!(target = name, %error, "the state of a target is not readable");
                StoredState::default()
            })
        };
        let mut window = Window::new(definition.window());
        window.restore(&stored.starts, now + COVER_MS);
        let health = Health::new(stored.mode, now);
        let pool = connector.pool();
        Arc::new(Self {
            name,
            queues,
            connector,
            memory,
            telemetry,
            clock,
            definition: RwLock::new(Arc::new(definition)),
            sources: RwLock::new([].into()),
            control: Mutex::new(Control { window, health, in_flight: 0, turn: 0 }),
            persisting: tokio::sync::Mutex::default(),
            changed: Notify::new(),
            freed: Notify::new(),
            pool,
            counts: Counts::default(),
            responses: Responses::default(),
            changes,
        })
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn definition(&self) -> Arc<Definition> {
        Arc::clone(&self.definition.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn sources(&self) -> Arc<[Source]> {
        Arc::clone(&self.sources.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the definition, for the requests that follow.
    pub(super) fn redefine(&self, definition: Definition) {
        self.control().window.set_limit(definition.window());
        *self.definition.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(definition);
        self.pool.clear();
        self.changed.notify_one();
    }

    pub(super) fn set_sources(&self, sources: Arc<[Source]>) {
        *self.sources.write().unwrap_or_else(PoisonError::into_inner) = sources;
        self.changed.notify_one();
    }

    /// Ends a hold or a stop.
    pub(super) async fn resume(&self) -> Result<(), Error> {
        self.control().health.resume(self.clock.now_ms());
        self.persist().await?;
        self.changed.notify_one();
        Ok(())
    }

    /// Reads the health and the number of requests in flight, under the lock.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Health, u32) -> T) -> T {
        let control = self.control();
        look(&control.health, control.in_flight)
    }

    /// Delivers until `stop` is set, and then waits for the requests in flight.
    pub(super) async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut requests = JoinSet::new();
        loop {
            while requests.try_join_next().is_some() {}
            let wait = match self.room() {
                Grant::Now(room) => {
                    let jobs = tokio::select! {
                        biased;
                        _ = stop.wait_for(|stop| *stop) => break,
                        () = self.changed.notified() => continue,
                        jobs = self.next_jobs(room) => jobs,
                    };
                    match jobs {
                        Ok((jobs, lease)) => {
                            self.start(jobs, lease, &mut requests).await;
                            continue;
                        }
                        Err(Error::Closed) => break,
                        Err(Error::NotAdmitted) => MEMORY_PAUSE,
                        Err(error) => {
                            tracing::warn!(target = self.name, %error, "no jobs can be reserved");
                            STORE_PAUSE
                        }
                    }
                }
                Grant::At(time) => {
                    Duration::from_millis(time.saturating_sub(self.clock.now_ms()).max(1))
                }
                Grant::Never => MAX_WAIT,
            };
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                () = self.changed.notified() => {}
                () = self.freed.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
        while requests.join_next().await.is_some() {}
        self.pool.clear();
    }

    /// Returns how many requests may be sent now, or when that may change.
    fn room(&self) -> Grant {
        let (now, definition) = (self.clock.now_ms(), self.definition());
        let mut control = self.control();
        let slots = definition.concurrency().saturating_sub(control.in_flight);
        if definition.is_paused || slots == 0 {
            return Grant::Never;
        }
        let in_flight = control.in_flight;
        let healthy = match control.health.grant(now, in_flight) {
            Grant::Now(requests) => requests,
            later => return later,
        };
        // What can wait is reserved later, together with more.
        let lead = control.window.lead();
        let urgent = lead / 4;
        if control.window.allowance(now, now + urgent) == 0 {
            let next = control.window.next();
            return next.map_or(Grant::Never, |next| Grant::At(next.saturating_sub(urgent)));
        }
        let allowed = control.window.allowance(now, now + lead);
        Grant::Now(allowed.min(slots).min(healthy).min(MAX_RESERVE))
    }

    /// Reserves jobs of the next queue that has some, and waits if none has. Dropping the future
    /// releases the reserved jobs.
    async fn next_jobs(&self, room: u32) -> Result<(Vec<Reserved>, Duration), Error> {
        let sources = self.sources();
        if sources.is_empty() {
            return std::future::pending().await;
        }
        let turn = {
            let mut control = self.control();
            control.turn = control.turn.wrapping_add(1);
            control.turn
        };
        self.pool.close_idle();
        let room = room as usize;
        let in_turn = || (0..sources.len()).map(|place| &sources[(turn + place) % sources.len()]);
        let reserve =
            |source, wait| Reservation::new(&self.queues, &self.memory, source, room, wait);
        for source in in_turn() {
            let mut reservation = reserve(source, Duration::ZERO);
            let jobs = (&mut reservation.answer).await;
            let jobs = reservation.settle(jobs)?;
            if !jobs.is_empty() {
                return Ok((jobs, source.lease));
            }
        }
        let mut waits: Vec<_> = in_turn().map(|source| reserve(source, MAX_WAIT)).collect();
        poll_fn(|context| {
            for wait in &mut waits {
                if let Poll::Ready(jobs) = Pin::new(&mut wait.answer).poll(context) {
                    return Poll::Ready(wait.settle(jobs).map(|jobs| (jobs, wait.lease)));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Counts the requests, stores the count if the target has a rate, and sends the jobs.
    async fn start(
        self: &Arc<Self>,
        jobs: Vec<Reserved>,
        lease: Duration,
        requests: &mut JoinSet<()>,
    ) {
        if jobs.is_empty() {
            return;
        }
        let (mut permits, is_limited) = {
            let mut control = self.control();
            let count = jobs.len() as u32;
            control.health.granted(self.clock.now_ms(), count);
            control.in_flight += count;
            let epoch = control.health.epoch();
            let mut permit = || Permit::new(self, control.window.reserve(), epoch);
            let permits: Vec<_> = jobs.iter().map(|_| permit()).collect();
            (permits, control.window.is_limited())
        };
        if is_limited {
            match self.persist().await {
                Ok(until) => permits.iter_mut().for_each(|permit| permit.covered_until = until),
                Err(error) => {
                    tracing::warn!(target = self.name, %error, "the rate cannot be stored");
                    let leases = jobs.iter().map(|job| (job.delivery.lease, Duration::ZERO));
                    let _ = self.queues.release_all(leases).await;
                    drop(permits);
                    tokio::time::sleep(STORE_PAUSE).await;
                    return;
                }
            }
        }
        for (job, permit) in jobs.into_iter().zip(permits) {
            requests.spawn(Arc::clone(self).deliver(job, lease, permit));
        }
    }

    /// Writes health and starts to the store. Requests that are reserved now are covered until the
    /// time that is returned.
    pub(super) async fn persist(&self) -> Result<u64, Error> {
        let _one_at_a_time = self.persisting.lock().await;
        let until = self.clock.now_ms() + COVER_MS;
        let state = {
            let control = self.control();
            let mode = control.health.mode().clone();
            StoredState { version: 1, mode, starts: control.window.stored(until) }
        };
        let bytes = serde_json::to_vec(&state).unwrap_or_default();
        self.queues.put_target_state(&*self.name, bytes).await?;
        Ok(until)
    }

    /// Grants a reserved request, which is about to be written.
    pub(super) fn begin(&self, covered_until: u64) -> Begin {
        let mut control = self.control();
        let now = self.clock.now_ms();
        if control.window.is_limited() && now > covered_until {
            return Begin::NotCovered;
        }
        match control.window.grant(now) {
            Ok(()) => Begin::Now,
            Err(Some(time)) => Begin::At(time),
            Err(None) => Begin::AfterOthers,
        }
    }

    /// Returns whether the durable state covers a start now.
    pub(super) fn is_covered(&self, covered_until: u64) -> bool {
        self.clock.now_ms() <= covered_until || !self.control().window.is_limited()
    }

    /// Notes that a granted request was written.
    pub(super) fn note_start(&self) {
        let mut control = self.control();
        control.window.start(self.clock.now_ms());
        let is_limited = control.window.is_limited();
        drop(control);
        if is_limited {
            self.freed.notify_one();
        }
    }

    pub(super) fn undo_grant(&self) {
        self.control().window.undo();
    }

    /// Returns whether the target has been neither held, stopped nor paused since an epoch.
    pub(super) fn is_open(&self, epoch: u64) -> bool {
        !self.definition().is_paused && self.control().health.epoch() == epoch
    }

    pub(super) async fn sleep_until(&self, time: u64) {
        let wait = time.saturating_sub(self.clock.now_ms());
        if wait > 0 {
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
    }

    pub(super) fn permit_ended(&self, is_unused: bool) {
        let mut control = self.control();
        control.in_flight = control.in_flight.saturating_sub(1);
        if is_unused {
            control.window.forgo();
        }
        drop(control);
        self.freed.notify_one();
    }

    /// Returns a permit for one request besides the jobs.
    ///
    /// # Errors
    ///
    /// The time until the rate allows a request, in milliseconds, or why the start cannot be stored.
    pub(super) async fn permit_for_test(self: &Arc<Self>) -> Result<Permit, Result<u64, Error>> {
        let (mut permit, is_limited) = {
            let mut control = self.control();
            let now = self.clock.now_ms();
            if control.window.allowance(now, now) == 0 {
                let next = control.window.next().unwrap_or(now + 1);
                return Err(Ok(next.saturating_sub(now)));
            }
            control.in_flight += 1;
            let free_at = control.window.reserve();
            (Permit::new(self, free_at, control.health.epoch()), control.window.is_limited())
        };
        if is_limited {
            permit.covered_until = self.persist().await.map_err(Err)?;
        }
        Ok(permit)
    }

    pub(super) async fn send(
        &self,
        definition: &Definition,
        deadline: tokio::time::Instant,
        start: &mut Starting<'_>,
    ) -> (Option<SocketAddr>, Result<Answer, NoAnswer>) {
        self.pool.send(&self.connector, definition, deadline, start).await
    }

    /// Sends one job, and reports the outcome to its queue.
    async fn deliver(self: Arc<Self>, job: Reserved, lease: Duration, mut permit: Permit) {
        let Reserved { delivery, share } = job;
        if !permit.is_free().await {
            // Expires by itself if the store fails.
            let _ = self.queues.release(delivery.lease, Duration::ZERO).await;
            return;
        }
        self.telemetry.delivered([&delivery], Receiver::Target(&self.name));
        let definition = self.definition();
        let began = tokio::time::Instant::now();
        let deadline = began + definition.timeout;
        let mut start = Starting {
            permit: &mut permit,
            definition: &definition,
            message: Message::of(&delivery.job),
            traceparent: self.telemetry.traceparent(&delivery),
            attempt: None,
        };
        let sending = self.send(&definition, deadline, &mut start);
        let (_, outcome) = if definition.timeout <= lease / 3 {
            sending.await
        } else {
            self.keep_lease(delivery.lease, lease, sending).await
        };
        let took = began.elapsed();
        let epoch = permit.epoch;
        let verdict = self.judge(&outcome, epoch).await;
        self.responses.add(super::wall_clock_ms(), took, &verdict, &outcome);
        drop(permit);
        self.settle(&delivery, &definition, verdict, took).await;
        drop(share);
        // The next job may have waited for this memory.
        self.freed.notify_one();
    }

    /// Extends a lease each third of its length while something runs.
    async fn keep_lease<T>(
        &self,
        lease: Lease,
        length: Duration,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(work);
        let period = (length / 3).max(Duration::from_millis(1));
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep(period) => {
                    // An expired lease is noticed when the verdict is reported.
                    self.telemetry.extended(lease, length);
                    let extending = self.queues.extend(lease, length);
                    tokio::select! {
                        biased;
                        done = &mut work => return done,
                        _ = extending => {}
                    }
                }
            }
        }
    }

    /// Decides what an outcome means for job and target. Stores a change of the target's health.
    async fn judge(&self, outcome: &Result<Answer, NoAnswer>, epoch: u64) -> Verdict {
        let verdict = Verdict::of(outcome, super::wall_clock_ms());
        let now = self.clock.now_ms();
        let (is_changed, told) = {
            let mut control = self.control();
            let health = &mut control.health;
            let (before, state_before) = (health.mode().clone(), health.state());
            match &verdict {
                Verdict::Failed { error, is_trouble: true, .. } => {
                    health.troubled(now, epoch, error, random());
                }
                // The target answers: a job that it refuses does not keep it held.
                Verdict::Done(_) | Verdict::Failed { .. } => health.succeeded(now, epoch),
                Verdict::Hold { wait_ms, reason } => {
                    health.asked_to_wait(now, *wait_ms, reason, random());
                }
                Verdict::Stop { reason } => health.stop(reason),
            }
            let state = health.state();
            let told =
                (state != state_before).then(|| (state, health.reason().0.map(str::to_owned)));
            (before != *health.mode(), told)
        };
        if let Some((state, reason)) = told {
            let (target, state) = (&self.name, state.as_str());
            tracing::info!(target, state, reason, "the state of a target changed");
            let _ = self.changes.send(self.name.clone());
        }
        if is_changed {
            if let Err(error) = self.persist().await {
                let target = &self.name;
                tracing::warn!(target, %error, "the state of a target cannot be stored");
            }
            self.changed.notify_one();
        }
        verdict
    }

    /// Reports the outcome of a job to its queue.
    async fn settle(
        &self,
        delivery: &Delivery,
        definition: &Definition,
        verdict: Verdict,
        took: Duration,
    ) {
        let (lease, job) = (delivery.lease, &delivery.job);
        let count = match &verdict {
            Verdict::Done(_) => &self.counts.delivered,
            Verdict::Failed { .. } => &self.counts.failed,
            Verdict::Hold { .. } | Verdict::Stop { .. } => &self.counts.held,
        };
        count.fetch_add(1, Ordering::Relaxed);
        for attempt in 1..=SETTLE_ATTEMPTS {
            let told = match &verdict {
                Verdict::Done(None) => self.queues.ack(lease).await,
                Verdict::Done(Some(result)) => {
                    self.queues.ack_with_result(lease, result.clone()).await
                }
                Verdict::Failed { error, detail, is_final, .. } => {
                    let is_last = job.max_attempts.is_none()
                        && definition.max_attempts.is_some_and(|most| job.attempts >= most);
                    let retry = match (&job.retry, &definition.retry) {
                        _ if *is_final || is_last => Retry::Never,
                        (None, Some(policy)) => Retry::After(policy.delay(job.id, job.attempts)),
                        _ => Retry::ByPolicy,
                    };
                    let text = format!("{error} (after {} ms)", took.as_millis());
                    let failing = match detail {
                        Some(detail) => self.queues.fail_with_detail(lease, text, &**detail, retry),
                        None => self.queues.fail(lease, text, retry),
                    };
                    failing.await.map(drop)
                }
                Verdict::Hold { .. } | Verdict::Stop { .. } => {
                    self.queues.release(lease, Duration::ZERO).await
                }
            };
            match told {
                Ok(()) => {
                    self.telemetry.ended(lease, &outcome(&verdict));
                    return;
                }
                Err(error @ (Error::StaleLease { .. } | Error::NotFound(_))) => {
                    tracing::debug!(target = self.name, %error, "a delivery came too late");
                    return;
                }
                Err(error) => {
                    tracing::warn!(target = self.name, job = %job.id, %error, attempt,
                        "the outcome of a delivery was not reported to its queue");
                    if matches!(error, Error::Closed) {
                        return;
                    }
                    tokio::time::sleep(STORE_PAUSE).await;
                }
            }
        }
    }
}

/// How a verdict ends the attempt in its trace.
fn outcome(verdict: &Verdict) -> Outcome {
    match verdict {
        Verdict::Done(_) => Outcome::Acked,
        Verdict::Failed { error, .. } => Outcome::Failed(error.clone(), None),
        Verdict::Hold { .. } | Verdict::Stop { .. } => Outcome::Released,
    }
}
