//! The client, and what it does with single jobs: put, find, reserve and report.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tickwheel_api::{
    AckRequest, Acked, Cancelled, Delay, Deliveries, Delivery, ExtendRequest, Extended, FailItem,
    FailRequest, Failed, Job, JobId, JobPage, JobState, Kicked, PutResponse, ReleaseRequest,
    Released, RescheduleRequest, Rescheduled, ReserveRequest,
};
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;
use crate::events::{EventFilter, Events};
use crate::job::{JobRef, Lease, NewJob};
use crate::puts::{self, Waiting};
use crate::trace;
use crate::transport::{Call, Transport};
use crate::worker::WorkerBuilder;

/// Everything except what a path may hold as it is.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// How a failed delivery is to be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// As the job's retry policy says.
    ByPolicy,
    /// After this delay.
    After(Duration),
    /// Never: the job is dead.
    Never,
}

/// Which jobs to list.
///
/// ```
/// use tickwheel_client::List;
/// use tickwheel_client::api::JobState;
///
/// let list = List { state: Some(JobState::Dead), ..List::of("mail") };
/// assert_eq!(list.queue, "mail");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// The queue.
    pub queue: String,
    /// Jobs in this state; all of them without it.
    pub state: Option<JobState>,
    /// Jobs due at this time or later, in milliseconds since 1970 or as RFC 3339.
    pub due_from: Option<String>,
    /// Jobs due at this time or earlier.
    pub due_to: Option<String>,
    /// Jobs with this key.
    pub key: Option<String>,
    /// Jobs whose key begins with this.
    pub key_prefix: Option<String>,
    /// Jobs whose last error contains this text. The case of ASCII letters does not matter.
    pub error: Option<String>,
    /// Jobs whose last error belongs to this group: `error` of an
    /// [`ErrorGroup`](tickwheel_api::ErrorGroup).
    pub error_group: Option<String>,
    /// The number of jobs in one page, 1 to 1,000. Defaults to 100.
    pub limit: Option<u32>,
    /// Where the page begins: `next` of the page before.
    pub page: Option<String>,
}

impl List {
    /// Returns a list of all jobs of a queue.
    pub fn of(queue: impl Into<String>) -> Self {
        Self { queue: queue.into(), ..Self::default() }
    }
}

/// The settings of a client.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_client::Client;
///
/// let client = Client::builder("https://jobs.example.org")
///     .token("twk_0123456789abcdef")
///     .patience(Duration::from_secs(5))
///     .build()?;
/// # Ok::<(), tickwheel_client::Error>(())
/// ```
pub struct ClientBuilder {
    url: String,
    token: Option<String>,
    /// Certificates to trust, in PEM.
    ca: Option<Vec<u8>>,
    patience: Duration,
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the token, which is a secret.
        f.debug_struct("ClientBuilder").field("url", &self.url).finish_non_exhaustive()
    }
}

impl ClientBuilder {
    /// Sets the token.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Trusts the certificates of a PEM file instead of the public ones.
    #[must_use]
    pub fn ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca = Some(pem.into());
        self
    }

    /// Sets how long a request is repeated while the server is busy or cannot be reached. Defaults to
    /// 30 seconds.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Builds the client. No connection is made before the first call.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the address or the token cannot be used.
    pub fn build(self) -> Result<Client, Error> {
        let (token, ca) = (self.token.as_deref(), self.ca.as_deref());
        Ok(Client::of(Transport::new(&self.url, token, self.patience, ca)?))
    }
}

struct Inner {
    transport: Arc<Transport>,
    puts: OnceLock<mpsc::Sender<Waiting>>,
}

/// A Tickwheel server. Clones are cheap and share connections.
///
/// Calls have to be made inside a tokio runtime; [`blocking::Client`](crate::blocking::Client)
/// needs none.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_client::{Client, NewJob};
///
/// # async fn example() -> Result<(), tickwheel_client::Error> {
/// let client = Client::new("http://127.0.0.1:7300")?;
/// let close = NewJob::text("orders", "close order 42").key("order-42");
/// client.put(close.delay(Duration::from_secs(30 * 60))).await?;
/// // The order is paid.
/// client.cancel(("orders", "order-42")).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    pub(crate) fn of(transport: Transport) -> Self {
        let inner = Inner { transport: Arc::new(transport), puts: OnceLock::new() };
        Self { inner: Arc::new(inner) }
    }

    /// Returns a client of the server at this address, without a token.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the address cannot be used.
    pub fn new(url: impl Into<String>) -> Result<Self, Error> {
        Self::builder(url).build()
    }

    /// Returns a builder for a client with a token or other settings.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        let patience = Duration::from_secs(30);
        ClientBuilder { url: url.into(), token: None, ca: None, patience }
    }

    /// Returns a builder for a worker that handles jobs of this server's queues.
    pub fn worker(&self) -> WorkerBuilder {
        WorkerBuilder::new(self.clone())
    }

    /// Puts a job. Puts of concurrent callers travel together, and repeating a put after a broken
    /// connection puts nothing twice.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the server refuses the job, for example because its key is taken.
    pub async fn put(&self, job: impl Into<NewJob>) -> Result<PutResponse, Error> {
        let mut request = job.into().into_request();
        trace::add_to(&mut request);
        let transport = &self.inner.transport;
        let puts = self.inner.puts.get_or_init(|| puts::start(Arc::clone(transport)));
        let (caller, result) = oneshot::channel();
        let gone = || Error::Invalid("the runtime of the client's first put has ended".to_owned());
        puts.send((request, caller)).await.map_err(|_| gone())?;
        result.await.map_err(|_| gone())?
    }

    /// Puts jobs in one request; the results are in the order of the jobs.
    ///
    /// # Errors
    ///
    /// If the request as a whole fails.
    pub async fn put_all<J: Into<NewJob>>(
        &self,
        jobs: impl IntoIterator<Item = J>,
    ) -> Result<Vec<Result<PutResponse, Error>>, Error> {
        self.put_requests(jobs, None).await
    }

    /// Puts a job under an idempotency key of the caller's: for 24 hours, a repetition with the
    /// same job gets the first answer and puts nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the server refuses the job, or the key was used with another one.
    pub async fn put_once(
        &self,
        idempotency_key: &str,
        job: impl Into<NewJob>,
    ) -> Result<PutResponse, Error> {
        let mut request = job.into().into_request();
        trace::add_to(&mut request);
        puts::put_one(&self.inner.transport, &request, Some(idempotency_key)).await
    }

    /// Puts jobs in one request under an idempotency key of the caller's; see
    /// [`put_once`](Self::put_once).
    ///
    /// # Errors
    ///
    /// If the request as a whole fails, for example because the key was used with other jobs.
    pub async fn put_all_once<J: Into<NewJob>>(
        &self,
        idempotency_key: &str,
        jobs: impl IntoIterator<Item = J>,
    ) -> Result<Vec<Result<PutResponse, Error>>, Error> {
        self.put_requests(jobs, Some(idempotency_key)).await
    }

    async fn put_requests<J: Into<NewJob>>(
        &self,
        jobs: impl IntoIterator<Item = J>,
        key: Option<&str>,
    ) -> Result<Vec<Result<PutResponse, Error>>, Error> {
        let mut requests: Vec<_> = jobs.into_iter().map(|job| job.into().into_request()).collect();
        requests.iter_mut().for_each(trace::add_to);
        puts::put_all(&self.inner.transport, &requests, key).await
    }

    /// Reads a job.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such job.
    pub async fn get(&self, job: impl Into<JobRef>) -> Result<Job, Error> {
        self.call(Call::new(Method::GET, job_path(&job.into()))).await
    }

    /// Cancels a live job, and returns the state in which it was.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_found`] if there is no such job.
    pub async fn cancel(&self, job: impl Into<JobRef>) -> Result<JobState, Error> {
        let call = Call::new(Method::DELETE, job_path(&job.into())).once();
        self.call(call).await.map(|cancelled: Cancelled| cancelled.was)
    }

    /// Changes the due time of a waiting job, and returns the new one.
    ///
    /// # Errors
    ///
    /// If there is no such job, or a worker has it.
    pub async fn reschedule(
        &self,
        job: impl Into<JobRef>,
        when: RescheduleRequest,
    ) -> Result<Rescheduled, Error> {
        self.post(format!("{}/reschedule", job_path(&job.into())), &when, true).await
    }

    /// Reserves up to `limit` jobs, waiting for the first one for up to `wait`.
    ///
    /// # Errors
    ///
    /// If the queue's name is invalid, or no answer comes.
    pub async fn reserve(
        &self,
        queue: &str,
        request: ReserveRequest,
    ) -> Result<Vec<Delivery>, Error> {
        let wait = request.wait.map_or(Duration::ZERO, |wait| wait.0);
        let call = Call::new(Method::POST, queue_path(queue, "/reserve")).json(&request)?;
        let deliveries: Deliveries = self.call(call.once().waiting(wait)).await?;
        Ok(deliveries.deliveries)
    }

    /// Acknowledges a job, with a result if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::is_stale_lease`] if the lease has expired.
    pub async fn ack(&self, lease: Lease, result: Option<&RawValue>) -> Result<JobState, Error> {
        let request = AckRequest { token: lease.token, result: result.map(ToOwned::to_owned) };
        let acked: Acked = self.post(lease_path(lease, "ack"), &request, false).await?;
        Ok(acked.state)
    }

    /// Reports that an attempt failed, and returns the new state of the job.
    ///
    /// # Errors
    ///
    /// [`Error::is_stale_lease`] if the lease has expired.
    pub async fn fail(&self, lease: Lease, error: &str, retry: Retry) -> Result<JobState, Error> {
        let FailItem { token, error, delay, dead, .. } = fail_item(lease, error, retry);
        let request = FailRequest { token, error, delay, dead };
        let failed: Failed = self.post(lease_path(lease, "fail"), &request, false).await?;
        Ok(failed.state)
    }

    /// Extends a lease: it expires after this time from now.
    ///
    /// # Errors
    ///
    /// [`Error::is_stale_lease`] if the lease has expired.
    pub async fn extend(&self, lease: Lease, length: Duration) -> Result<Extended, Error> {
        let request = ExtendRequest { token: lease.token, lease: Delay(length) };
        self.post(lease_path(lease, "extend"), &request, true).await
    }

    /// Releases a job without counting the attempt. It is due at once or after a delay.
    ///
    /// # Errors
    ///
    /// [`Error::is_stale_lease`] if the lease has expired.
    pub async fn release(&self, lease: Lease, delay: Option<Duration>) -> Result<(), Error> {
        let request = ReleaseRequest { token: lease.token, delay: delay.map(Delay) };
        let _: Released = self.post(lease_path(lease, "release"), &request, false).await?;
        Ok(())
    }

    /// Makes a dead job ready again.
    ///
    /// # Errors
    ///
    /// If there is no such job, or it is not dead.
    pub async fn kick(&self, id: JobId) -> Result<JobState, Error> {
        let kicked: Kicked = self.post(format!("/v1/jobs/{id}/kick"), &Empty {}, false).await?;
        Ok(kicked.state)
    }

    /// Lists one page of jobs.
    ///
    /// # Errors
    ///
    /// If the queue does not exist, or a filter is invalid.
    pub async fn list(&self, list: &List) -> Result<JobPage, Error> {
        let limit = list.limit.map(|limit| limit.to_string());
        let state = list.state.map(|state| state.to_string());
        let parameters = [
            ("state", state.as_deref()),
            ("due_from", list.due_from.as_deref()),
            ("due_to", list.due_to.as_deref()),
            ("key", list.key.as_deref()),
            ("key_prefix", list.key_prefix.as_deref()),
            ("error", list.error.as_deref()),
            ("error_group", list.error_group.as_deref()),
            ("limit", limit.as_deref()),
            ("page", list.page.as_deref()),
        ];
        let path = queue_path(&list.queue, &format!("/jobs{}", query(&parameters)));
        self.call(Call::new(Method::GET, path)).await
    }

    /// Lists all jobs, page by page.
    ///
    /// # Errors
    ///
    /// If the queue does not exist, or a filter is invalid.
    pub async fn list_all(&self, mut list: List) -> Result<Vec<Job>, Error> {
        let mut jobs = Vec::new();
        loop {
            let page = self.list(&list).await?;
            jobs.extend(page.jobs);
            list.page = page.next;
            if list.page.is_none() {
                return Ok(jobs);
            }
        }
    }

    /// Follows what happens to the jobs of one queue, or of all queues.
    ///
    /// # Errors
    ///
    /// If the stream cannot be opened.
    pub async fn events(&self, queue: Option<&str>) -> Result<Events, Error> {
        self.events_matching(queue, &EventFilter::default()).await
    }

    /// Follows the events of one queue, or of all queues, that match a filter.
    ///
    /// # Errors
    ///
    /// If the filter names an event that does not exist, or the stream cannot be opened.
    pub async fn events_matching(
        &self,
        queue: Option<&str>,
        filter: &EventFilter,
    ) -> Result<Events, Error> {
        let path = queue.map_or("/v1/events".to_owned(), |queue| queue_path(queue, "/events"));
        let path = path + &filter.query();
        Events::open(Arc::clone(&self.inner.transport), path).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: String,
        body: &impl Serialize,
        repeatable: bool,
    ) -> Result<T, Error> {
        let call = Call::new(Method::POST, path).json(body)?;
        self.call(if repeatable { call } else { call.once() }).await
    }

    pub(crate) fn transport(&self) -> &Arc<Transport> {
        &self.inner.transport
    }

    pub(crate) async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        self.inner.transport.call(call).await
    }
}

/// A body without fields.
#[derive(Serialize)]
pub(crate) struct Empty {}

pub(crate) fn fail_item(lease: Lease, error: &str, retry: Retry) -> FailItem {
    let (delay, dead) = match retry {
        Retry::ByPolicy => (None, false),
        Retry::After(delay) => (Some(Delay(delay)), false),
        Retry::Never => (None, true),
    };
    FailItem { id: lease.id, token: lease.token, error: error.to_owned(), delay, dead }
}

pub(crate) fn encoded(text: &str) -> String {
    // A path of dots alone would be taken for another folder.
    if matches!(text, "." | "..") {
        return text.replace('.', "%2E");
    }
    utf8_percent_encode(text, PATH).to_string()
}

pub(crate) fn queue_path(queue: &str, rest: &str) -> String {
    format!("/v1/queues/{}{rest}", encoded(queue))
}

fn job_path(job: &JobRef) -> String {
    match job {
        JobRef::Id(id) => format!("/v1/jobs/{id}"),
        JobRef::Key(queue, key) => queue_path(queue, &format!("/keys/{}", encoded(key))),
    }
}

fn lease_path(lease: Lease, operation: &str) -> String {
    format!("/v1/jobs/{}/{operation}", lease.id)
}

/// Returns the query of a URL: the parameters that are given.
pub(crate) fn query(parameters: &[(&str, Option<&str>)]) -> String {
    let given = parameters
        .iter()
        .filter_map(|(name, value)| value.map(|value| format!("{name}={}", encoded(value))));
    let text = given.collect::<Vec<_>>().join("&");
    if text.is_empty() { text } else { format!("?{text}") }
}
