//! Deliveries to one target: a task that reserves jobs of its queues, and lanes that send them.
//!
//! The task asks the queue for jobs, starts lanes, and reports outcomes, all of it in batches. A lane
//! sends jobs one after the other on its connection, as long as there are any. `control` decides.
//!
//! Ground rules:
//! * Jobs for a held or busy target stay in their queue, in order, and cost nothing.
//! * With a rate, the durable state counts a request before it is written (see `window`).
//! * A change of health is durable before the job that caused it goes back to its queue.
//! * Targets share the queue's writer, the limit of connections and the budget of memory, and
//!   nothing else.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::Poll;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_queue::{Error, Lease, Queues};
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinSet;

use super::charge::{Reservation, Reserved};
use super::connection::{Connector, Kept, Pool};
use super::control::{Bounds, Control, Plan, Waiting};
use super::definition::Definition;
use super::health::{Health, Mode};
use super::permit::{Permit, Starting};
use super::request::Message;
use super::response::{Answer, NoAnswer, Verdict};
use super::responses::Responses;
use super::settlement::Settled;
use super::window::Window;
use super::{SteadyClock, random};
use crate::http::memory::Memory;
use crate::telemetry::{Receiver, Telemetry};

/// How long one reservation waits for a job.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How long to wait after the store failed.
pub(super) const STORE_PAUSE: Duration = Duration::from_secs(1);
/// How long to wait for memory if no request of the target ends.
const MEMORY_PAUSE: Duration = Duration::from_millis(100);
/// How long a stored state covers requests that were not written when it was stored, in
/// milliseconds.
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
    /// Times by which requests arrive at the target, and the number of requests by each.
    starts: Vec<(u64, u32)>,
}

/// The answer to whether a reserved request may be written.
pub(super) enum Begin {
    Now,
    At(u64),
    /// Once other requests that are being written are written.
    AfterOthers,
    /// Once the durable state covers it.
    NotCovered,
}

/// A future that the task waits for besides others.
pub(super) type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// Reserved jobs, and the length of their leases.
type Jobs = Result<(Vec<Reserved>, Duration), Error>;

/// The numbers of requests since the server started, by outcome. Only committed outcomes count.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) delivered: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) held: AtomicU64,
}

/// One target and its deliveries.
pub(super) struct Deliverer {
    pub(super) name: String,
    pub(super) queues: Queues,
    connector: Arc<Connector>,
    /// The memory of requests and answers in flight, to which jobs on their way are charged.
    memory: Memory,
    pub(super) telemetry: Telemetry,
    clock: SteadyClock,
    definition: RwLock<Arc<Definition>>,
    sources: RwLock<Arc<[Source]>>,
    control: Mutex<Control>,
    /// One state is written at a time, so that an older one cannot follow a newer one.
    persisting: tokio::sync::Mutex<()>,
    /// Settings, queues or the health changed.
    changed: Notify,
    /// There is something else for the task to do.
    pub(super) news: Notify,
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
        window.restore(&stored.starts, now);
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
            control: Mutex::new(Control::new(window, health)),
            persisting: tokio::sync::Mutex::default(),
            changed: Notify::new(),
            news: Notify::new(),
            pool,
            counts: Counts::default(),
            responses: Responses::default(),
            changes,
        })
    }

    pub(super) fn control(&self) -> MutexGuard<'_, Control> {
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
        self.pool.renew();
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
        look(&control.health, control.in_flight())
    }

    fn bounds(&self) -> Bounds {
        let definition = self.definition();
        let lease = self.sources().iter().map(|source| source.lease).min().unwrap_or_default();
        Bounds {
            concurrency: definition.concurrency(),
            is_paused: definition.is_paused,
            lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
            is_crowded: self.connector.is_crowded(),
        }
    }

    /// Delivers until `stop` is set, and then waits for the requests in flight and reports them.
    pub(super) async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut lanes = JoinSet::new();
        let mut reserving: Option<Pending<Jobs>> = None;
        let mut settling: Option<Pending<()>> = None;
        loop {
            while lanes.try_join_next().is_some() {}
            let plan = self.plan(reserving.is_none(), settling.is_none());
            (0..plan.lanes).for_each(|_| drop(lanes.spawn(Arc::clone(&self).lane())));
            self.give_back(plan.stale).await;
            if !plan.settled.is_empty() {
                settling = Some(Box::pin(Arc::clone(&self).settle(plan.settled)));
            }
            if plan.reserve > 0 {
                let deliverer = Arc::clone(&self);
                reserving = Some(Box::pin(async move { deliverer.next_jobs(plan.reserve).await }));
            }
            let jobs = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                () = self.changed.notified() => {
                    // A reservation that waits may ask the wrong queues, or for too many jobs.
                    reserving = None;
                    continue;
                }
                () = ready(&mut settling) => continue,
                jobs = ready(&mut reserving) => jobs,
                () = self.news.notified() => continue,
                () = self.sleep_until(plan.wake_at.unwrap_or(0)), if plan.wake_at.is_some() => {
                    continue;
                }
            };
            match jobs {
                Ok((jobs, lease)) => self.accept(jobs, lease).await,
                Err(Error::Closed) => break,
                Err(error) => reserving = Some(self.pause(&error)),
            }
        }
        drop(reserving);
        let waiting = self.control().stop();
        tokio::join!(self.give_back(waiting), self.settle_last(lanes, settling));
        self.pool.clear();
        if self.control().window.is_limited()
            && let Err(error) = self.persist().await
        {
            tracing::debug!(target = self.name, %error, "the rate cannot be stored");
        }
    }

    pub(super) fn plan(&self, may_reserve: bool, may_settle: bool) -> Plan {
        let bounds = self.bounds();
        self.control().plan(self.clock.now_ms(), bounds, may_reserve, may_settle)
    }

    /// Returns a reservation that yields no jobs after a pause, because the last one failed.
    fn pause(&self, error: &Error) -> Pending<Jobs> {
        let pause = if matches!(error, Error::NotAdmitted) {
            MEMORY_PAUSE
        } else {
            tracing::warn!(target = self.name, %error, "no jobs can be reserved");
            STORE_PAUSE
        };
        Box::pin(async move {
            tokio::time::sleep(pause).await;
            Ok((Vec::new(), Duration::ZERO))
        })
    }

    /// Reserves jobs of the next queue that has some, and waits if none has. Dropping the future
    /// releases the reserved jobs.
    async fn next_jobs(&self, room: u32) -> Jobs {
        let sources = self.sources();
        if sources.is_empty() {
            return std::future::pending().await;
        }
        let turn = self.control().next_turn();
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

    /// Counts the requests, stores the count if the target has a rate, and lets the jobs wait for
    /// lanes.
    async fn accept(&self, jobs: Vec<Reserved>, lease: Duration) {
        if jobs.is_empty() {
            return;
        }
        let (mut waiting, is_limited) = {
            let mut control = self.control();
            let waiting = control.permit(self.clock.now_ms(), jobs, lease);
            (waiting, control.window.is_limited())
        };
        if is_limited {
            match self.persist().await {
                Ok(until) => waiting.iter_mut().for_each(|job| job.covered_until = until),
                Err(error) => {
                    tracing::warn!(target = self.name, %error, "the rate cannot be stored");
                    self.control().forgo(waiting.len());
                    self.give_back(waiting).await;
                    tokio::time::sleep(STORE_PAUSE).await;
                    return;
                }
            }
        }
        self.control().wait(self.clock.now_ms(), waiting);
    }

    /// Releases jobs that are not sent and have no permit, back to their queues. If the store fails,
    /// their leases expire.
    async fn give_back(&self, jobs: Vec<Waiting>) {
        if jobs.is_empty() {
            return;
        }
        let leases = jobs.iter().map(|job| (job.reserved.delivery.lease, Duration::ZERO));
        let _ = self.queues.release_all(leases).await;
    }

    /// Writes health and the window to the store. Requests that are reserved now are covered until the
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

    /// Grants a request that is about to be written.
    pub(super) fn begin(&self, covered_until: u64) -> Begin {
        let mut control = self.control();
        let now = self.clock.now_ms();
        if control.window.is_limited() && now > covered_until {
            return Begin::NotCovered;
        }
        match control.grant(now) {
            Ok(()) => Begin::Now,
            Err(Some(time)) => Begin::At(time),
            Err(None) => Begin::AfterOthers,
        }
    }

    /// Returns whether the durable state covers a write now.
    pub(super) fn is_covered(&self, covered_until: u64) -> bool {
        self.clock.now_ms() <= covered_until || !self.control().window.is_limited()
    }

    /// Changes what is under way, and wakes the task if the change says so.
    fn change(&self, change: impl FnOnce(&mut Control, u64) -> bool) {
        let has_news = change(&mut self.control(), self.clock.now_ms());
        if has_news {
            self.news.notify_one();
        }
    }

    /// Notes that a granted request was written. Returns the time by which it arrives.
    pub(super) fn note_write(&self) -> u64 {
        let mut arrives = 0;
        self.change(|control, now| {
            let (time, has_news) = control.written(now);
            arrives = time;
            has_news
        });
        arrives
    }

    /// Notes that a written request, which was to arrive by a time, is answered.
    pub(super) fn note_answer(&self, arrives: u64, took: Duration) {
        self.change(|control, now| control.answered(arrives, now, took));
    }

    pub(super) fn undo_grant(&self) {
        self.control().undo_grant();
    }

    pub(super) async fn sleep_until(&self, time: u64) {
        let wait = time.saturating_sub(self.clock.now_ms());
        if wait > 0 {
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
    }

    pub(super) fn permit_ended(&self, is_unused: bool) {
        self.change(|control, _| control.permit_ended(is_unused));
    }

    /// Returns a permit for a test request.
    ///
    /// # Errors
    ///
    /// The time until the rate allows a request, in milliseconds, or why the count cannot be stored.
    pub(super) async fn permit_for_test(self: &Arc<Self>) -> Result<Permit, Result<u64, Error>> {
        let (mut permit, is_limited) = {
            let mut control = self.control();
            control.permit_for_test(self.clock.now_ms()).map_err(Ok)?;
            (Permit::new(self, 0), control.window.is_limited())
        };
        if is_limited {
            permit.covered_until = self.persist().await.map_err(Err)?;
        }
        Ok(permit)
    }

    /// Returns the definition for the next request on a connection.
    pub(super) fn prepare(&self, kept: &mut Kept) -> Arc<Definition> {
        self.pool.prepare(kept);
        self.definition()
    }

    pub(super) async fn send(
        &self,
        definition: &Definition,
        deadline: tokio::time::Instant,
        start: &mut Starting<'_>,
        kept: &mut Kept,
    ) -> (Option<SocketAddr>, Result<Answer, NoAnswer>) {
        self.pool.send(&self.connector, definition, deadline, start, kept).await
    }

    /// Sends jobs one after the other, on one connection, as long as there are any.
    async fn lane(self: Arc<Self>) {
        let mut lane = Lane { deliverer: &self, is_running: true };
        let mut kept = Kept::default();
        loop {
            let bounds = self.bounds();
            let job = self.control().take(self.clock.now_ms(), bounds);
            let Some(job) = job else { break };
            self.deliver(job, &mut kept).await;
        }
        lane.is_running = false;
        self.pool.take_over(kept);
    }

    /// Sends one job, and adds the outcome to those that are reported to the queue.
    async fn deliver(self: &Arc<Self>, job: Waiting, kept: &mut Kept) {
        let Waiting { reserved: Reserved { delivery, share }, lease, covered_until, epoch, .. } =
            job;
        let mut permit = Permit::new(self, covered_until);
        self.telemetry.delivered([&delivery], Receiver::Target(&self.name));
        let definition = self.prepare(kept);
        let began = tokio::time::Instant::now();
        let deadline = began + definition.timeout;
        let mut start = Starting {
            permit: &mut permit,
            definition: &definition,
            message: Message::of(&delivery.job),
            traceparent: self.telemetry.traceparent(&delivery),
            is_kept: false,
            sent: None,
        };
        let sending = self.send(&definition, deadline, &mut start, kept);
        let (_, outcome) = if definition.timeout <= lease / 3 {
            sending.await
        } else {
            self.keep_lease(delivery.lease, lease, sending).await
        };
        let took = began.elapsed();
        let verdict = self.judge(&outcome, epoch).await;
        self.responses.add(super::wall_clock_ms(), took, &verdict, &outcome);
        let settled = Settled::new(&delivery, share, &definition, verdict, took);
        self.change(|control, now| control.settle(now, settled));
    }

    /// Runs `work`, and extends the lease after each third of its length meanwhile.
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
                Verdict::Failed { why, is_trouble: true, .. } => {
                    health.troubled(now, epoch, why, random());
                }
                // The target answers: a job that it refuses does not keep it held.
                Verdict::Done(_) | Verdict::Failed { .. } => health.succeeded(now, epoch),
                Verdict::Hold { wait_ms, why } => {
                    health.asked_to_wait(now, *wait_ms, why, random());
                }
                Verdict::Stop { why } => health.stop(why),
            }
            let state = health.state();
            let told =
                (state != state_before).then(|| (state, health.why().map(|why| why.text.clone())));
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
}

/// A guard that notices a lane that panics or is dropped.
struct Lane<'a> {
    deliverer: &'a Deliverer,
    is_running: bool,
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        if self.is_running {
            self.deliverer.control().lane_lost();
        }
    }
}

/// Waits for a future, and removes it once it is ready. Never ends if there is none.
pub(super) async fn ready<T>(pending: &mut Option<Pending<T>>) -> T {
    let Some(future) = pending else { return std::future::pending().await };
    let output = future.await;
    *pending = None;
    output
}
