//! Jobs as callers write and read them.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tickwheel_api::{
    Conflict, Content, Delay, FollowUp, Job, JobId, LeaseToken, PutRequest, Retry, Timestamp,
};

use crate::error::Error;

/// A job to put: its payload, and when, how often and under which key it is delivered.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_client::NewJob;
///
/// let close = NewJob::json("orders", &serde_json::json!({"order": 42}))?
///     .delay(Duration::from_secs(30 * 60))
///     .key("order-42");
/// assert_eq!(close.request().key.as_deref(), Some("order-42"));
/// # Ok::<(), tickwheel_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NewJob(PutRequest);

impl NewJob {
    /// Returns a job whose payload is a value, written as JSON.
    ///
    /// # Errors
    ///
    /// If the value cannot be written as JSON.
    pub fn json(queue: impl Into<String>, payload: &impl Serialize) -> Result<Self, Error> {
        let payload = serde_json::value::to_raw_value(payload)
            .map_err(|error| Error::Invalid(format!("the payload cannot be JSON: {error}")))?;
        Ok(Self::with(queue, PutRequest { payload: Some(payload), ..PutRequest::default() }))
    }

    /// Returns a job whose payload is a text.
    pub fn text(queue: impl Into<String>, text: impl Into<String>) -> Self {
        Self::with(queue, PutRequest { text: Some(text.into()), ..PutRequest::default() })
    }

    /// Returns a job whose payload is bytes.
    pub fn bytes(queue: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        let base64 = Some(STANDARD.encode(bytes));
        Self::with(queue, PutRequest { base64, ..PutRequest::default() })
    }

    fn with(queue: impl Into<String>, request: PutRequest) -> Self {
        Self(PutRequest { queue: Some(queue.into()), ..request })
    }

    /// Sets the delay after which the job is due.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        (self.0.delay, self.0.due) = (Some(Delay(delay)), None);
        self
    }

    /// Sets the time at which the job is due.
    #[must_use]
    pub fn at(mut self, time: SystemTime) -> Self {
        let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let millis = u64::try_from(since_1970.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        (self.0.delay, self.0.due) = (None, Some(Timestamp::from_millis(millis)));
        self
    }

    /// Sets the key, which only one live job of the queue can have.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.0.key = Some(key.into());
        self
    }

    /// Sets what happens when a live job has the key. By default the new job replaces it.
    #[must_use]
    pub fn on_conflict(mut self, conflict: Conflict) -> Self {
        self.0.on_conflict = Some(conflict);
        self
    }

    /// Sets the priority. Of jobs that are due in the same millisecond, the highest is delivered first.
    #[must_use]
    pub fn priority(mut self, priority: i8) -> Self {
        self.0.priority = Some(priority);
        self
    }

    /// Adds a header, which is delivered with the job.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.headers.insert(name.into(), value.into());
        self
    }

    /// Sets the maximum number of attempts.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.0.max_attempts = Some(attempts);
        self
    }

    /// Sets the delays between attempts.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.0.retry = Some(retry);
        self
    }

    /// Sets the group of the job.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.0.group = Some(group.into());
        self
    }

    /// Sets the follow-up: a job in another queue that is put when this one is done, with the result as
    /// payload.
    #[must_use]
    pub fn on_success(mut self, follow_up: FollowUp) -> Self {
        self.0.on_success = Some(follow_up);
        self
    }

    /// Sets the job in another queue that is put when this one dies, with the same payload.
    #[must_use]
    pub fn on_death(mut self, follow_up: FollowUp) -> Self {
        self.0.on_death = Some(follow_up);
        self
    }

    /// Returns the request as it is sent.
    pub fn request(&self) -> &PutRequest {
        &self.0
    }

    pub(crate) fn into_request(self) -> PutRequest {
        self.0
    }
}

impl From<PutRequest> for NewJob {
    /// Takes any request of the API. The request must name its queue.
    fn from(request: PutRequest) -> Self {
        Self(request)
    }
}

/// Which job: by its id, or by its queue and key.
///
/// ```
/// use tickwheel_client::JobRef;
///
/// assert_eq!(JobRef::from(("orders", "order-42")), JobRef::Key("orders".into(), "order-42".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRef {
    /// The job with this id.
    Id(JobId),
    /// The live job of this queue with this key.
    Key(String, String),
}

impl From<JobId> for JobRef {
    fn from(id: JobId) -> Self {
        Self::Id(id)
    }
}

impl<Q: Into<String>, K: Into<String>> From<(Q, K)> for JobRef {
    fn from((queue, key): (Q, K)) -> Self {
        Self::Key(queue.into(), key.into())
    }
}

/// The right to report about one delivery of a job.
///
/// ```
/// use tickwheel_client::Lease;
/// use tickwheel_client::api::LeaseToken;
///
/// let lease = Lease { id: "0190163d-8694-739b-aea5-966c26f8ad91".parse()?, token: LeaseToken(7) };
/// assert_eq!(lease.token, LeaseToken(7));
/// # Ok::<(), tickwheel_client::api::ParseJobIdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The job.
    pub id: JobId,
    /// What the server gave with this delivery and no other.
    pub token: LeaseToken,
}

impl From<&tickwheel_api::Delivery> for Lease {
    fn from(delivery: &tickwheel_api::Delivery) -> Self {
        Self { id: delivery.job.id, token: delivery.token }
    }
}

/// Reads payloads, whatever form the server sent them in.
///
/// ```
/// use tickwheel_client::Payload;
///
/// # fn show(job: &tickwheel_client::api::Job) -> Result<(), tickwheel_client::Error> {
/// let order: serde_json::Value = job.json()?;
/// println!("{order}, {} bytes", job.bytes()?.len());
/// # Ok(())
/// # }
/// ```
pub trait Payload {
    /// Returns the payload, read as JSON.
    ///
    /// # Errors
    ///
    /// If the payload is not JSON of this type.
    fn json<T: DeserializeOwned>(&self) -> Result<T, Error>;

    /// Returns the bytes of the payload.
    ///
    /// # Errors
    ///
    /// If the server sent something else than base 64.
    fn bytes(&self) -> Result<Vec<u8>, Error>;
}

impl Payload for Job {
    fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let read = match (&self.payload, &self.text) {
            (Some(payload), _) => serde_json::from_str(payload.get()),
            (None, Some(text)) => serde_json::from_str(text),
            (None, None) => serde_json::from_slice(&self.bytes()?),
        };
        read.map_err(|error| Error::Answer(format!("the payload of {}: {error}", self.id)))
    }

    fn bytes(&self) -> Result<Vec<u8>, Error> {
        let content = match (&self.payload, &self.text, &self.base64) {
            (Some(payload), ..) => return Ok(payload.get().as_bytes().to_vec()),
            (None, Some(text), _) => return Ok(text.as_bytes().to_vec()),
            (None, None, base64) => Content::Base64(base64.clone().unwrap_or_default()),
        };
        content
            .into_bytes()
            .map_err(|why| Error::Answer(format!("the payload of {}: {why}", self.id)))
    }
}
