//! Between what requests say and what the queue takes.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde_json::value::RawValue;
use tickwheel_queue::{self as queue, NewJob, Time, When};

use crate::api::escaped;
use crate::api::{
    Code, Content, Delay, Delivery, Job, JobId, LeaseInfo, LeaseToken, Pacing, PutRequest,
    QueueSettings, Retry, Timestamp, rfc3339,
};
use crate::extract::{NAME_RULE, is_name};
use crate::problem::Failure;

const CONTENT_TYPE: &str = "content-type";
const LONGEST_LIST: usize = 1_000;

/// The millisecond that has begun by the machine's clock, by which the queue too decides what is due.
pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// When a delay that begins now is over. No delay is now; any other counts from the next whole
/// millisecond, so that it is never short.
fn after(now: Time, delay: Duration) -> Time {
    if delay.is_zero() { now } else { now.after(delay.saturating_add(Duration::from_millis(1))) }
}

fn invalid(field: &str, why: impl Into<String>) -> Failure {
    Failure::field(Code::InvalidField, field, why)
}

/// The payload of a request, in one of its three forms.
pub(crate) struct Parcel {
    pub(crate) payload: Option<Box<RawValue>>,
    pub(crate) text: Option<String>,
    pub(crate) base64: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Parcel {
    /// The bytes to store, at most so many, and the headers that say what they are.
    pub(crate) fn open(self, allowed: u64) -> Result<(Bytes, Vec<(String, String)>), Failure> {
        let (content, field) = match (self.payload, self.text, self.base64) {
            (Some(json), None, None) => (Content::Json(json), "/payload"),
            (None, Some(text), None) => (Content::Text(text), "/text"),
            (None, None, Some(text)) => (Content::Base64(text), "/base64"),
            (None, None, None) => {
                let why = "a payload is missing: give one of `payload` (JSON), `text` and `base64`";
                return Err(Failure::field(Code::MissingField, "/payload", why));
            }
            (payload, text, _) => {
                let field = match (payload, text) {
                    (Some(_), Some(_)) => "/text",
                    _ => "/base64",
                };
                return Err(invalid(field, "give only one of `payload`, `text` and `base64`"));
            }
        };
        let mut headers = Vec::with_capacity(self.headers.len() + 1);
        for (name, value) in self.headers {
            check_header(&name, &value)?;
            headers.push((name, value));
        }
        let has_type = headers.iter().any(|(name, _)| name == CONTENT_TYPE);
        if let (false, Some(kind)) = (has_type, content.content_type()) {
            headers.push((CONTENT_TYPE.to_owned(), kind.to_owned()));
        }
        let bytes = content.into_bytes().map_err(|why| invalid(field, why))?;
        if bytes.len() as u64 > allowed {
            let why = format!("a payload of {} bytes is over the limit of {allowed}", bytes.len());
            return Err(Failure::field(Code::TooLarge, field, why));
        }
        Ok((bytes.into(), headers))
    }
}

/// A header is to be one that can be sent over HTTP as it is.
fn check_header(name: &str, value: &str) -> Result<(), Failure> {
    let is_token = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte)
    };
    let field = || format!("/headers/{}", name.replace('~', "~0").replace('/', "~1"));
    if name.is_empty() || !name.bytes().all(is_token) {
        let why = "the name of a header has small letters, digits and -_.!#$%&'*+^`|~ only";
        return Err(invalid(&field(), why));
    }
    if value.chars().any(|character| character.is_control() && character != '\t') {
        return Err(invalid(&field(), "the value of a header has no control characters"));
    }
    Ok(())
}

/// When something shall be due: at most one of the two.
pub(crate) fn due_of(
    delay: Option<Delay>,
    due: Option<Timestamp>,
    now: Time,
) -> Result<Option<Time>, Failure> {
    match (delay, due) {
        (Some(_), Some(_)) => Err(invalid("/due", "give only one of `delay` and `due`")),
        (Some(delay), None) => Ok(Some(after(now, delay.0))),
        (None, Some(due)) => Ok(Some(due.0)),
        (None, None) => Ok(None),
    }
}

/// When something shall be due: exactly one of the two.
pub(crate) fn when_of(delay: Option<Delay>, due: Option<Timestamp>) -> Result<When, Failure> {
    match (delay, due) {
        (Some(_), Some(_)) => Err(invalid("/due", "give only one of `delay` and `due`")),
        (Some(delay), None) => Ok(When::After(delay.0)),
        (None, Some(due)) => Ok(When::At(due.0)),
        (None, None) => {
            let why = "say when: give `delay` or `due`";
            Err(Failure::field(Code::MissingField, "/delay", why))
        }
    }
}

pub(crate) fn retry_of(
    retry: Option<Retry>,
    field: &str,
) -> Result<Option<queue::RetryPolicy>, Failure> {
    match &retry {
        Some(Retry::Exponential { jitter, .. }) if *jitter > 100 => {
            let why = format!("a jitter of {jitter} % is not possible: take at most 100");
            Err(invalid(&format!("{field}/exponential/jitter"), why))
        }
        Some(Retry::List(delays)) if delays.is_empty() || delays.len() > LONGEST_LIST => {
            let why =
                format!("{} delays are not possible: take from 1 to {LONGEST_LIST}", delays.len());
            Err(invalid(&format!("{field}/list"), why))
        }
        _ => Ok(retry.map(Into::into)),
    }
}

/// What requests can say about a job besides its payload and time.
pub(crate) struct Traits {
    pub(crate) priority: Option<i8>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) retry: Option<Retry>,
    pub(crate) group: Option<String>,
}

impl Traits {
    pub(crate) fn give_to(self, job: &mut NewJob) -> Result<(), Failure> {
        if self.max_attempts == Some(0) {
            return Err(invalid("/max_attempts", "0 attempts are not possible: take at least 1"));
        }
        if self.group.as_deref() == Some("") {
            return Err(invalid("/group", "an empty group is not possible: leave it out"));
        }
        job.priority = self.priority.unwrap_or_default();
        job.max_attempts = self.max_attempts;
        job.retry = retry_of(self.retry, "/retry")?;
        job.group = self.group;
        Ok(())
    }
}

/// The job that a request puts, due at a time that is known by that.
pub(crate) fn new_job(
    request: PutRequest,
    queue: Option<&str>,
    now: Time,
    largest: u64,
) -> Result<(NewJob, Time), Failure> {
    let queue = match (queue, request.queue) {
        (Some(queue), Some(other)) if queue != other => {
            let why = format!("the path says {queue:?}: leave the queue out, or give the same");
            return Err(invalid("/queue", why));
        }
        (Some(queue), _) => queue.to_owned(),
        (None, Some(queue)) if is_name(&queue) => queue,
        (None, Some(_)) => {
            let why = format!("this is not possible as the name of a queue: {NAME_RULE}");
            return Err(invalid("/queue", why));
        }
        (None, None) => {
            return Err(Failure::field(Code::MissingField, "/queue", "the queue is missing"));
        }
    };
    if request.key.as_deref() == Some("") {
        return Err(invalid("/key", "an empty key is not possible: leave it out"));
    }
    let due = due_of(request.delay, request.due, now)?.unwrap_or(now);
    let parcel = Parcel {
        payload: request.payload,
        text: request.text,
        base64: request.base64,
        headers: request.headers,
    };
    let (payload, headers) = parcel.open(largest)?;
    let mut job = NewJob::new(queue, payload).at(due);
    job.headers = headers;
    job.key = request.key;
    job.on_conflict = request.on_conflict.unwrap_or_default().into();
    job.id = request.id.map(|id| id.0);
    let (priority, max_attempts) = (request.priority, request.max_attempts);
    Traits { priority, max_attempts, retry: request.retry, group: request.group }
        .give_to(&mut job)?;
    Ok((job, due))
}

/// Headers as JSON has them; those of the same name in one.
pub(crate) fn headers_of(headers: Vec<(String, String)>) -> BTreeMap<String, String> {
    let mut map = BTreeMap::new();
    for (name, value) in headers {
        map.entry(name)
            .and_modify(|values: &mut String| {
                values.push_str(", ");
                values.push_str(&value);
            })
            .or_insert(value);
    }
    map
}

fn content_type(headers: &[(String, String)]) -> Option<&str> {
    let is_type = |name: &str| name.eq_ignore_ascii_case(CONTENT_TYPE);
    headers.iter().find(|(name, _)| is_type(name)).map(|(_, value)| &value[..])
}

pub(crate) fn content_of(bytes: &[u8], headers: &[(String, String)]) -> Content {
    Content::of(bytes, content_type(headers))
}

/// The three fields of a payload, one of them filled.
pub(crate) type Shown = (Option<Box<RawValue>>, Option<String>, Option<String>);

pub(crate) fn shown(content: Content) -> Shown {
    match content {
        Content::Json(json) => (Some(json), None, None),
        Content::Text(text) => (None, Some(text), None),
        Content::Base64(text) => (None, None, Some(text)),
    }
}

/// How many bytes a job has as JSON, at most.
pub(crate) fn encoded_bytes(job: &queue::Job) -> usize {
    /// Names, times and numbers.
    const FIXED: usize = 512;
    let text = |text: &str| escaped(text.as_bytes());
    let optional = |it: &Option<String>| it.as_deref().map_or(0, text);
    let headers = job.headers.iter().map(|(name, value)| text(name) + text(value) + 6);
    let payload = Content::max_encoded(&job.payload, content_type(&job.headers));
    let texts = optional(&job.key) + optional(&job.group) + optional(&job.last_error);
    FIXED + job.queue.len() + headers.sum::<usize>() + texts + payload
}

pub(crate) fn job_of(job: queue::Job) -> Job {
    let (payload, text, base64) = shown(content_of(&job.payload, &job.headers));
    Job {
        id: JobId(job.id),
        queue: job.queue.as_ref().to_owned(),
        state: job.state.into(),
        key: job.key,
        group: job.group,
        priority: job.priority,
        headers: headers_of(job.headers),
        payload,
        text,
        base64,
        due: rfc3339(job.due),
        due_ms: job.due.as_millis(),
        created: rfc3339(job.created),
        created_ms: job.created.as_millis(),
        attempts: job.attempts,
        max_attempts: job.max_attempts,
        retry: job.retry.as_ref().map(Into::into),
        lease: job
            .leased_until
            .map(|until| LeaseInfo { until: rfc3339(until), until_ms: until.as_millis() }),
        last_error: job.last_error,
        finished: job.finished.map(rfc3339),
        finished_ms: job.finished.map(Time::as_millis),
    }
}

pub(crate) fn delivery_of(delivery: queue::Delivery) -> Delivery {
    let until = delivery.job.leased_until.unwrap_or_default();
    Delivery {
        token: LeaseToken(delivery.lease.token),
        until: rfc3339(until),
        until_ms: until.as_millis(),
        job: job_of(delivery.job),
    }
}

fn pacing_of(pacing: &Pacing, field: &str) -> Result<queue::Pacing, Failure> {
    let starts = match (pacing.starts, pacing.window) {
        (None, None) => None,
        (Some(starts @ 1..=1_000_000), Some(window)) if !window.0.is_zero() => {
            Some((starts, window.0))
        }
        (Some(1..=1_000_000), Some(_)) => {
            let why = "a window of no time is not possible: take a longer one";
            return Err(invalid(&format!("{field}/window"), why));
        }
        (Some(starts), Some(_)) => {
            let why = format!("{starts} starts are not possible: take from 1 to 1000000, or pause");
            return Err(invalid(&format!("{field}/starts"), why));
        }
        (Some(_), None) => {
            let why = "`starts` need a `window`";
            return Err(Failure::field(Code::MissingField, &format!("{field}/window"), why));
        }
        (None, Some(_)) => {
            let why = "a `window` needs `starts`";
            return Err(Failure::field(Code::MissingField, &format!("{field}/starts"), why));
        }
    };
    if pacing.concurrency == Some(0) {
        let why = "a concurrency of 0 is not possible: pause the queue instead";
        return Err(invalid(&format!("{field}/concurrency"), why));
    }
    Ok(queue::Pacing { starts, concurrency: pacing.concurrency })
}

pub(crate) fn settings_of(settings: QueueSettings) -> Result<queue::QueueSettings, Failure> {
    if settings.lease.0.is_zero() {
        return Err(invalid("/lease", "a lease of no time is not possible: take a longer one"));
    }
    if settings.max_attempts == 0 {
        return Err(invalid("/max_attempts", "0 attempts are not possible: take at least 1"));
    }
    Ok(queue::QueueSettings {
        lease: settings.lease.0,
        max_attempts: settings.max_attempts,
        retry: retry_of(Some(settings.retry), "/retry")?.unwrap_or_default(),
        retention: settings.retention.into(),
        pacing: pacing_of(&settings.pacing, "/pacing")?,
        group_pacing: pacing_of(&settings.group_pacing, "/group_pacing")?,
    })
}

#[cfg(test)]
mod tests {
    use tickwheel_queue::Queues;

    use super::*;

    #[test]
    fn a_job_is_never_longer_than_it_counts() {
        let queues = Queues::in_memory();
        let json = ("content-type".to_owned(), "application/json".to_owned());
        let plain = ("content-type".to_owned(), "text/plain".to_owned());
        let zeros = vec![0; 10_000];
        let quotes = format!("[{}]", vec![r#""\\""#; 2_000].join(","));
        for (payload, kind) in [
            (&zeros[..], Some(&plain)),
            (&zeros, None),
            (&[0xff; 10_001], Some(&plain)),
            (quotes.as_bytes(), Some(&json)),
            (quotes.as_bytes(), Some(&plain)),
            (&[b'9'; 5_000], Some(&json)),
            (b"", None),
        ] {
            let mut job = NewJob::new("q", payload.to_vec()).key("\u{1}".repeat(500));
            job.headers =
                kind.into_iter().cloned().chain([("x".into(), "\t".repeat(99))]).collect();
            let id = queues.put(job).wait().unwrap().id;
            let job = queues.get(id).wait().unwrap().unwrap();
            let counted = encoded_bytes(&job);
            let written = serde_json::to_vec(&job_of(job)).unwrap().len();
            assert!(written <= counted && counted <= 2 * written + 512, "{written} {counted}");
        }
    }
}
