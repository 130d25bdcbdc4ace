//! The client for programs without an async runtime.
//!
//! [`Client`] runs the async client on a thread of its own and waits for it. Several threads may
//! share one client; their puts travel together.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tickwheel_api::{
    BulkRequest, BulkResponse, Clock, Delivery, ErrorGroups, Extended, Job, JobId, JobPage,
    JobState, Overview, PutResponse, Queue, QueueSettingsPatch, RescheduleRequest, Rescheduled,
    ReserveRequest, Schedule, ScheduleRequest, Stats,
};
use tokio::runtime::{Builder, Runtime};

use crate::client::{List, Retry};
use crate::error::Error;
use crate::job::{JobRef, Lease, NewJob};

/// A Tickwheel server, for callers that block. Clones are cheap and share connections.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_client::{NewJob, blocking};
///
/// # fn example() -> Result<(), tickwheel_client::Error> {
/// let client = blocking::Client::new("http://127.0.0.1:7300")?;
/// let close = NewJob::text("orders", "close order 42").key("order-42");
/// client.put(close.delay(Duration::from_secs(30 * 60)))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    client: crate::Client,
    runtime: Arc<Runtime>,
}

/// Methods that wait for the async ones of the same name.
macro_rules! waiting {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)*) => {
        impl Client {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                ///
                /// As the async method of the same name.
                pub fn $name(&self, $($arg: $kind),*) -> Result<$answer, Error> {
                    self.wait(self.client.$name($($arg),*))
                }
            )*
        }
    };
}

waiting! {
    /// Puts a job.
    put(job: impl Into<NewJob>) -> PutResponse;
    /// Reads a job.
    get(job: impl Into<JobRef>) -> Job;
    /// Cancels a live job, and returns the state in which it was.
    cancel(job: impl Into<JobRef>) -> JobState;
    /// Changes the due time of a waiting job.
    reschedule(job: impl Into<JobRef>, when: RescheduleRequest) -> Rescheduled;
    /// Reserves jobs.
    reserve(queue: &str, request: ReserveRequest) -> Vec<Delivery>;
    /// Acknowledges a job, with a result if there is one.
    ack(lease: Lease, result: Option<&RawValue>) -> JobState;
    /// Reports that an attempt failed.
    fail(lease: Lease, error: &str, retry: Retry) -> JobState;
    /// Extends a lease.
    extend(lease: Lease, length: Duration) -> Extended;
    /// Releases a job without counting the attempt.
    release(lease: Lease, delay: Option<Duration>) -> ();
    /// Makes a dead job ready again.
    kick(id: JobId) -> JobState;
    /// Lists one page of jobs.
    list(list: &List) -> JobPage;
    /// Lists all jobs, page by page.
    list_all(list: List) -> Vec<Job>;
    /// Returns all queues.
    queues() -> Vec<Queue>;
    /// Returns a queue.
    queue(queue: &str) -> Queue;
    /// Changes some settings of a queue.
    patch_settings(queue: &str, patch: &QueueSettingsPatch) -> Queue;
    /// Pauses the deliveries of a queue.
    pause_queue(queue: &str) -> Queue;
    /// Resumes the deliveries of a queue.
    resume_queue(queue: &str) -> Queue;
    /// Creates or replaces a schedule.
    put_schedule(name: &str, schedule: &ScheduleRequest) -> Schedule;
    /// Removes a schedule.
    remove_schedule(name: &str) -> Schedule;
    /// Returns why jobs of one queue, or of all queues, fail.
    errors(queue: Option<&str>, limit: Option<u32>) -> ErrorGroups;
    /// Changes every job of a queue that matches, step by step.
    change_all_matching(queue: &str, change: BulkRequest) -> BulkResponse;
    /// Returns everything at one glance.
    overview() -> Overview;
    /// Returns counters of the whole server.
    stats() -> Stats;
    /// Advances the clock of a server that was started with `--clock manual`.
    advance(by: Duration) -> Clock;
}

impl Client {
    /// Returns a client of the server at this address, without a token.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the address cannot be used.
    pub fn new(url: impl Into<String>) -> Result<Self, Error> {
        Self::of(crate::Client::new(url)?)
    }

    /// Returns a client that waits for the calls of an async client.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if no thread can be started.
    pub fn of(client: crate::Client) -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tickwheel-client")
            .enable_all()
            .build()
            .map_err(|error| Error::Invalid(format!("no thread can be started: {error}")))?;
        Ok(Self { client, runtime: Arc::new(runtime) })
    }

    /// Puts jobs in one request; the results are in the order of the jobs.
    ///
    /// # Errors
    ///
    /// If the request as a whole fails.
    pub fn put_all<J: Into<NewJob>>(
        &self,
        jobs: impl IntoIterator<Item = J>,
    ) -> Result<Vec<Result<PutResponse, Error>>, Error> {
        self.wait(self.client.put_all(jobs))
    }

    /// Waits for any call of the async client.
    pub fn wait<T>(&self, call: impl Future<Output = T>) -> T {
        self.runtime.block_on(call)
    }

    /// Returns the async client.
    pub fn client(&self) -> &crate::Client {
        &self.client
    }
}
