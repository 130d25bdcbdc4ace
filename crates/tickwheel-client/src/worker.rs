//! A worker: reserves jobs, runs handlers, extends leases, and reports what came of each job.
//!
//! Ground rules:
//! * A lease is extended each third of its length, while its job waits in the worker and while its
//!   handler runs.
//! * Every report carries the token of its lease. When the server says that the lease is stale,
//!   the handler is stopped: another worker may have the job.
//! * On shutdown no further job is reserved or begun. Handlers may finish within the grace period;
//!   whatever was not begun, or did not finish, is given back without counting an attempt.

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tickwheel_api::{Delay, Delivery, Job, ReserveRequest};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use crate::client::{Client, Retry};
use crate::error::Error;
use crate::job::Lease;
use crate::trace::{self, TRACEPARENT};

/// How long one request waits for jobs.
const WAIT: Duration = Duration::from_secs(20);
/// The pause after a reserve that failed although it was repeated.
const PAUSE: Duration = Duration::from_secs(1);

/// What a handler made of a job.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Done, with a result if there is one.
    Done(Option<Box<RawValue>>),
    /// The attempt failed.
    Failed {
        /// What went wrong.
        error: String,
        /// What happens to the job.
        retry: Retry,
    },
    /// Not done, and not tried either: due again at once or after the delay.
    Released(Option<Duration>),
}

impl Outcome {
    /// Returns the outcome of a job that is done, with a result that is kept with the job.
    ///
    /// # Errors
    ///
    /// If the result cannot be written as JSON.
    pub fn result(result: &impl serde::Serialize) -> Result<Self, Error> {
        let json = serde_json::value::to_raw_value(result);
        json.map(|json| Self::Done(Some(json)))
            .map_err(|error| Error::Invalid(format!("the result cannot be JSON: {error}")))
    }

    /// Returns the outcome of a job that failed for good.
    pub fn dead(error: impl Into<String>) -> Self {
        Self::Failed { error: error.into(), retry: Retry::Never }
    }

    /// Returns the outcome of a failed attempt that is retried after the delay.
    pub fn retry_after(error: impl Into<String>, delay: Duration) -> Self {
        Self::Failed { error: error.into(), retry: Retry::After(delay) }
    }
}

/// What handlers may return: nothing, an [`Outcome`], or a `Result` of these. An error fails the
/// attempt, and the job is retried by its policy.
///
/// ```
/// use tickwheel_client::{IntoOutcome, Outcome};
///
/// assert!(matches!(().into_outcome(), Outcome::Done(None)));
/// assert!(matches!(Err::<(), _>("no luck").into_outcome(), Outcome::Failed { .. }));
/// ```
pub trait IntoOutcome {
    /// Returns the outcome.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::Done(None)
    }
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl<T: IntoOutcome, E: fmt::Display> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(value) => value.into_outcome(),
            Err(error) => Outcome::Failed { error: error.to_string(), retry: Retry::ByPolicy },
        }
    }
}

/// A job in the hands of a handler.
///
/// ```
/// use tickwheel_client::{Payload, Work};
///
/// fn order(work: &Work) -> Result<u64, tickwheel_client::Error> {
///     work.job().json()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Work {
    job: Arc<Job>,
    lease: Lease,
    client: Client,
}

impl Work {
    /// Returns the job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Returns the lease, which the worker extends.
    pub fn lease(&self) -> Lease {
        self.lease
    }

    /// Returns the client of the worker, to put further jobs.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

type Pending = Pin<Box<dyn Future<Output = Outcome> + Send>>;
type Handler = Arc<dyn Fn(Work) -> Pending + Send + Sync>;
type Layer = Arc<dyn Fn(Work, Next) -> Pending + Send + Sync>;

/// What comes behind a layer: the next layer, or the handler.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_client::{Next, Outcome, Work};
///
/// /// Fails an attempt that takes longer than a minute.
/// async fn limited(work: Work, next: Next) -> Outcome {
///     let limit = Duration::from_secs(60);
///     let handled = tokio::time::timeout(limit, next.run(work)).await;
///     handled.unwrap_or_else(|_| Outcome::retry_after("took too long", limit))
/// }
/// ```
pub struct Next {
    layers: Arc<[Layer]>,
    /// How many layers the job has passed.
    passed: usize,
    handler: Handler,
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("passed", &self.passed).finish_non_exhaustive()
    }
}

impl Next {
    /// Handles the job.
    pub async fn run(mut self, work: Work) -> Outcome {
        match self.layers.get(self.passed).cloned() {
            Some(layer) => {
                self.passed += 1;
                layer(work, self).await
            }
            None => (self.handler)(work).await,
        }
    }
}

struct Shared {
    client: Client,
    name: Option<String>,
    lease: Duration,
    concurrency: usize,
    prefetch: usize,
    grace: Duration,
    layers: Arc<[Layer]>,
}

/// What a worker is told before it runs; [`Client::worker`] gives one.
///
/// ```
/// # async fn example(client: tickwheel_client::Client) {
/// use std::time::Duration;
/// use tickwheel_client::{Outcome, Work};
///
/// let worker = client
///     .worker()
///     .name("mailer-1")
///     .concurrency(16)
///     .lease(Duration::from_secs(60))
///     .layer(async |work, next| {
///         let outcome = next.run(work).await;
///         println!("{outcome:?}");
///         outcome
///     })
///     .handle("mail", async |_: Work| Outcome::dead("no such address"));
/// worker.run(std::future::pending()).await;
/// # }
/// ```
pub struct WorkerBuilder {
    client: Client,
    name: Option<String>,
    lease: Duration,
    concurrency: usize,
    prefetch: usize,
    grace: Duration,
    layers: Vec<Layer>,
    handlers: Vec<(String, Handler)>,
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues: Vec<_> = self.handlers.iter().map(|(queue, _)| queue).collect();
        f.debug_struct("WorkerBuilder").field("queues", &queues).finish_non_exhaustive()
    }
}

impl WorkerBuilder {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            name: None,
            lease: Duration::from_secs(30),
            concurrency: 1,
            prefetch: 0,
            grace: Duration::from_secs(30),
            layers: Vec::new(),
            handlers: Vec::new(),
        }
    }

    /// Sets the name, which the history of a job shows.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the length of leases. Defaults to 30 seconds. It bounds how long a job waits when this
    /// process dies, not how long a handler may take.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(Duration::from_millis(3));
        self
    }

    /// Sets how many jobs of a queue are handled at once. Defaults to one.
    #[must_use]
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.concurrency = jobs.max(1);
        self
    }

    /// Sets how many further jobs of a queue are reserved in advance, so that a handler need not wait
    /// for the next one. Defaults to none.
    #[must_use]
    pub fn prefetch(mut self, jobs: usize) -> Self {
        self.prefetch = jobs;
        self
    }

    /// Sets how long handlers may continue after the signal to stop. Defaults to 30 seconds.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Something around every handler, such as logging or a timeout. The first layer is outermost.
    #[must_use]
    pub fn layer<F>(mut self, layer: impl Fn(Work, Next) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.layers.push(Arc::new(move |work, next| Box::pin(layer(work, next))));
        self
    }

    /// Handles the jobs of a queue.
    #[must_use]
    pub fn handle<F>(
        mut self,
        queue: impl Into<String>,
        handler: impl Fn(Work) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output: IntoOutcome> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |work| {
            let future = handler(work);
            Box::pin(async { future.await.into_outcome() })
        });
        self.handlers.push((queue.into(), handler));
        self
    }

    /// Returns the worker.
    pub fn build(self) -> Worker {
        let Self { client, name, lease, concurrency, prefetch, grace, layers, handlers } = self;
        let layers = layers.into();
        let shared = Shared { client, name, lease, concurrency, prefetch, grace, layers };
        Worker { shared: Arc::new(shared), handlers }
    }

    /// Runs the worker until `stop` is ready; see [`Worker::run`].
    pub async fn run(self, stop: impl Future<Output = ()>) {
        self.build().run(stop).await;
    }
}

/// Handles jobs of queues; [`WorkerBuilder::build`] makes one.
///
/// ```
/// # fn example(client: tickwheel_client::Client) {
/// use tickwheel_client::{Work, Worker};
///
/// let worker: Worker = client.worker().handle("mail", async |_: Work| ()).build();
/// # }
/// ```
pub struct Worker {
    shared: Arc<Shared>,
    handlers: Vec<(String, Handler)>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("queues", &self.handlers.len()).finish_non_exhaustive()
    }
}

impl Worker {
    /// Handles jobs until `stop` is ready, then shuts down: handlers may finish, and the other
    /// jobs are given back. While the server cannot be reached, the worker keeps trying.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let (stopping, stopped) = watch::channel(false);
        let mut queues = JoinSet::new();
        for (queue, handler) in self.handlers {
            let shared = Arc::clone(&self.shared);
            queues.spawn(serve_queue(shared, queue, handler, stopped.clone()));
        }
        stop.await;
        // Without handlers there is no receiver, and nothing to stop.
        stopping.send(true).ok();
        while queues.join_next().await.is_some() {}
    }
}

/// Reserves jobs of one queue, and handles them.
async fn serve_queue(
    shared: Arc<Shared>,
    queue: String,
    handler: Handler,
    mut stopped: watch::Receiver<bool>,
) {
    let slots = Arc::new(Semaphore::new(shared.concurrency));
    let mut at_hand = JoinSet::new();
    while !*stopped.borrow_and_update() {
        while at_hand.try_join_next().is_some() {}
        let room = (shared.concurrency + shared.prefetch).saturating_sub(at_hand.len());
        if room == 0 {
            tokio::select! {
                _ = at_hand.join_next() => {}
                _ = stopped.changed() => {}
            }
            continue;
        }
        let reserved = tokio::select! {
            reserved = reserve(&shared, &queue, room) => reserved,
            _ = stopped.changed() => continue,
        };
        match reserved {
            Ok(deliveries) => {
                for delivery in deliveries {
                    let (shared, slots) = (Arc::clone(&shared), Arc::clone(&slots));
                    let handler = Arc::clone(&handler);
                    at_hand.spawn(serve_job(shared, delivery, handler, slots, stopped.clone()));
                }
            }
            Err(error) => {
                tracing::warn!(queue, %error, "cannot reserve jobs");
                tokio::select! {
                    () = sleep(PAUSE) => {}
                    _ = stopped.changed() => {}
                }
            }
        }
    }
    while at_hand.join_next().await.is_some() {}
}

async fn reserve(shared: &Shared, queue: &str, room: usize) -> Result<Vec<Delivery>, Error> {
    let request = ReserveRequest {
        limit: Some(u32::try_from(room).unwrap_or(u32::MAX).min(1_000)),
        lease: Some(Delay(shared.lease)),
        wait: Some(Delay(WAIT)),
        worker: shared.name.clone(),
    };
    shared.client.reserve(queue, request).await
}

/// Handles one job, and reports what came of it.
async fn serve_job(
    shared: Arc<Shared>,
    delivery: Delivery,
    handler: Handler,
    slots: Arc<Semaphore>,
    mut stopped: watch::Receiver<bool>,
) {
    let lease = Lease::from(&delivery);
    let begin = tokio::select! {
        slot = slots.acquire_owned() => slot.ok(),
        _ = stopped.wait_for(|stopped| *stopped) => None,
        () = keep(&shared, lease) => return,
    };
    let Some(_slot) = begin else {
        report(&shared, lease, Outcome::Released(None)).await;
        return;
    };
    let work = Work { job: Arc::new(delivery.job), lease, client: shared.client.clone() };
    let next = Next { layers: Arc::clone(&shared.layers), passed: 0, handler };
    let traceparent = work.job.headers.get(TRACEPARENT).cloned();
    let mut running = tokio::spawn(trace::within(traceparent, next.run(work)));
    let deadline = async {
        // If the worker is dropped without a signal, there is no deadline.
        if stopped.wait_for(|stopped| *stopped).await.is_err() {
            std::future::pending::<()>().await;
        }
        sleep(shared.grace).await;
    };
    let outcome = tokio::select! {
        outcome = &mut running => match outcome {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed { error: panic_text(error), retry: Retry::ByPolicy },
        },
        () = keep(&shared, lease) => {
            tracing::warn!(id = %lease.id, "the lease is stale: the handler is stopped");
            running.abort();
            return;
        }
        () = deadline => {
            running.abort();
            Outcome::Released(None)
        }
    };
    report(&shared, lease, outcome).await;
}

/// Extends a lease for ever; returns when it is stale.
async fn keep(shared: &Shared, lease: Lease) {
    let third = shared.lease / 3;
    let mut ticks = interval_at(Instant::now() + third, third);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // An extension that takes too long must not delay the next one.
        match timeout(third, shared.client.extend(lease, shared.lease)).await {
            Ok(Err(error)) if error.is_stale_lease() => return,
            Ok(Err(error)) => tracing::warn!(id = %lease.id, %error, "cannot extend a lease"),
            Ok(Ok(_)) | Err(_) => {}
        }
    }
}

async fn report(shared: &Shared, lease: Lease, outcome: Outcome) {
    let client = &shared.client;
    let reported = match &outcome {
        Outcome::Done(result) => client.ack(lease, result.as_deref()).await.map(drop),
        Outcome::Failed { error, retry } => client.fail(lease, error, *retry).await.map(drop),
        Outcome::Released(delay) => client.release(lease, *delay).await,
    };
    if let Err(error) = reported {
        // The lease runs out, and the job is delivered again.
        tracing::warn!(id = %lease.id, %error, "cannot report the outcome of a job");
    }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let text = |panic: Box<dyn Any + Send>| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => {
            panic.downcast_ref::<&str>().map_or("no message".into(), |text| (*text).into())
        }
    };
    match error.try_into_panic() {
        Ok(panic) => format!("the handler panicked: {}", text(panic)),
        Err(error) => format!("the handler was stopped: {error}"),
    }
}
