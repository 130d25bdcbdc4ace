//! Puts, jobs and deliveries.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde_json::value::{RawValue, to_raw_value};
use tickwheel_queue::{self as queue, ImportedJob, NewJob, Time, When};

use super::payload::{CONTENT_TYPE, Parcel, content_fields, content_type, headers_of};
use super::{IntoQueue, IntoWire, invalid, missing, not_zero, rfc3339};
use crate::api::{
    Attempt, AttemptOutcome, Conflict, Content, Delay, Delivery, FollowUp, ImportRequest,
    JSON_TYPE, Job, LeaseInfo, LeaseToken, PutRequest, Retry, Timestamp, escaped_len,
};
use crate::app::begun;
use crate::extract::{NAME_RULE, is_name};
use crate::problem::Failure;

impl IntoQueue for Conflict {
    type Queue = queue::OnConflict;

    fn into_queue(self) -> Self::Queue {
        match self {
            Self::Replace => queue::OnConflict::Replace,
            Self::Keep => queue::OnConflict::Keep,
            Self::Reject => queue::OnConflict::Reject,
        }
    }
}

impl IntoWire for queue::OnConflict {
    type Wire = Conflict;

    fn into_wire(self) -> Conflict {
        match self {
            Self::Replace => Conflict::Replace,
            Self::Keep => Conflict::Keep,
            Self::Reject => Conflict::Reject,
        }
    }
}

/// Returns when a delay from now is over. Zero is the millisecond that has begun; any other delay is
/// rounded up to a whole millisecond, so that it is never short.
fn after(now: SystemTime, delay: Duration) -> Time {
    if delay.is_zero() { begun(now) } else { Time::from(now).after(delay) }
}

/// Returns the due time of a put: at most one of the two is given.
fn due_of(
    delay: Option<Delay>,
    due: Option<Timestamp>,
    now: SystemTime,
) -> Result<Option<Time>, Failure> {
    match (delay, due) {
        (Some(_), Some(_)) => Err(invalid("/due", "give only one of `delay` and `due`")),
        (Some(delay), None) => Ok(Some(after(now, delay.0))),
        (None, Some(due)) => Ok(Some(due.into_queue())),
        (None, None) => Ok(None),
    }
}

/// Returns the new due time of a reschedule: exactly one of the two is given.
pub(crate) fn when_of(delay: Option<Delay>, due: Option<Timestamp>) -> Result<When, Failure> {
    match (delay, due) {
        (Some(_), Some(_)) => Err(invalid("/due", "give only one of `delay` and `due`")),
        (Some(delay), None) => Ok(When::After(delay.0)),
        (None, Some(due)) => Ok(When::At(due.into_queue())),
        (None, None) => Err(missing("/delay", "give `delay` or `due`")),
    }
}

/// The fields that puts and schedules share, besides payload and time.
pub(super) struct Traits {
    pub(super) key: Option<String>,
    pub(super) on_conflict: Option<Conflict>,
    pub(super) priority: Option<i8>,
    pub(super) max_attempts: Option<u32>,
    pub(super) retry: Option<Retry>,
    pub(super) group: Option<String>,
}

impl Traits {
    pub(super) fn apply_to(self, job: &mut NewJob) {
        job.key = self.key;
        job.on_conflict = self.on_conflict.unwrap_or_default().into_queue();
        job.priority = self.priority.unwrap_or_default();
        job.max_attempts = self.max_attempts;
        job.retry = self.retry.map(IntoQueue::into_queue);
        job.group = self.group;
    }
}

/// Returns the job that a request without a `target` puts, and its due time. `path_queue` is the
/// queue that the path names.
pub(crate) fn new_job(
    request: PutRequest,
    path_queue: Option<&str>,
    now: SystemTime,
    max_payload: u64,
) -> Result<NewJob, Failure> {
    let queue = queue_of(path_queue, request.queue)?;
    if request.target.is_some() {
        let why = "an imported job is in the queue of its target already: leave `target` out";
        return Err(invalid("/target", why.to_owned()));
    }
    let due = due_of(request.delay, request.due, now)?.unwrap_or_else(|| begun(now));
    let parcel = Parcel {
        payload: request.payload,
        text: request.text,
        base64: request.base64,
        headers: request.headers,
    };
    let (payload, headers) = parcel.open(max_payload)?;
    let mut job = NewJob::new(queue, payload).at(due);
    job.headers = headers;
    job.id = request.id.map(IntoQueue::into_queue);
    let traits = Traits {
        key: request.key,
        on_conflict: request.on_conflict,
        priority: request.priority,
        max_attempts: request.max_attempts,
        retry: request.retry,
        group: request.group,
    };
    traits.apply_to(&mut job);
    job.max_total_delay = request.max_total_delay.map(|delay| delay.0);
    job.on_success = follow_up_of(request.on_success, "/on_success")?;
    if let Some(follow_up) = &mut job.on_success {
        // Results over HTTP are JSON.
        follow_up.headers.push((CONTENT_TYPE.to_owned(), JSON_TYPE.to_owned()));
    }
    job.on_death = follow_up_of(request.on_death, "/on_death")?;
    Ok(job)
}

/// Returns the job that a request imports.
pub(crate) fn imported_job(
    request: ImportRequest,
    now: SystemTime,
    max_payload: u64,
) -> Result<ImportedJob, Failure> {
    if request.put.id.is_none() {
        return Err(missing("/put/id", "the id is missing"));
    }
    let job = new_job(request.put, None, now, max_payload).map_err(|it| it.within("/put"))?;
    let mut imported = ImportedJob::new(job, request.created.into_queue());
    imported.attempts = request.attempts;
    imported.last_error = request.last_error;
    imported.finished =
        request.finished.map(|finished| (finished.state.into_queue(), finished.at.into_queue()));
    Ok(imported)
}

fn queue_of(path: Option<&str>, body: Option<String>) -> Result<String, Failure> {
    match (path, body) {
        (Some(queue), Some(other)) if queue != other => {
            let why =
                format!("the path names queue {queue:?}: leave `queue` out, or send the same");
            Err(invalid("/queue", why))
        }
        (Some(queue), _) => Ok(queue.to_owned()),
        (None, Some(queue)) if is_name(&queue) => Ok(queue),
        (None, Some(_)) => Err(invalid("/queue", format!("not a queue name: {NAME_RULE}"))),
        (None, None) => Err(missing("/queue", "the queue is missing")),
    }
}

/// Returns an upper bound for the bytes that a job takes as JSON.
pub(crate) fn encoded_len(job: &queue::Job) -> usize {
    /// Field names, times and numbers.
    const FIXED: usize = 640;
    /// The same of an attempt.
    const ATTEMPT: usize = 256;
    let text = |text: &str| escaped_len(text.as_bytes());
    let optional = |it: &Option<String>| it.as_deref().map_or(0, text);
    let headers = job.headers.iter().map(|(name, value)| text(name) + text(value) + 6);
    let payload = Content::max_encoded_len(&job.payload, content_type(&job.headers));
    let texts = optional(&job.key) + optional(&job.group) + optional(&job.last_error);
    let follow_ups = [&job.on_success, &job.on_death].into_iter().flatten();
    let follow_ups = follow_ups.map(|follow_up| follow_up.queue.len() + 64);
    let result = job.result.as_deref().map_or(0, |result| escaped_len(result) + 16);
    let worker = job.worker.as_deref().map_or(0, text);
    let attempts = job.history.iter().map(|attempt| {
        ATTEMPT
            + [&attempt.worker, &attempt.error, &attempt.detail].map(optional).iter().sum::<usize>()
    });
    FIXED
        + worker
        + attempts.sum::<usize>()
        + job.queue.len()
        + headers.sum::<usize>()
        + texts
        + payload
        + follow_ups.sum::<usize>()
        + result
}

impl IntoWire for queue::Job {
    type Wire = Job;

    fn into_wire(self) -> Job {
        let (payload, text, base64) = content_fields(&self.payload, &self.headers);
        Job {
            id: self.id.into_wire(),
            queue: self.queue.as_ref().to_owned(),
            state: self.state.into_wire(),
            key: self.key,
            group: self.group,
            priority: self.priority,
            headers: headers_of(self.headers),
            payload,
            text,
            base64,
            due: rfc3339(self.due),
            due_ms: self.due.as_millis(),
            created: rfc3339(self.created),
            created_ms: self.created.as_millis(),
            attempts: self.attempts,
            max_attempts: self.max_attempts,
            on_success: self.on_success.map(|follow_up| follow_up.into_wire()),
            on_death: self.on_death.map(|follow_up| follow_up.into_wire()),
            result: self.result.and_then(|result| shown_result(&result)),
            retry: self.retry.map(IntoWire::into_wire),
            lease: self.leased_until.map(|until| LeaseInfo {
                until: rfc3339(until),
                until_ms: until.as_millis(),
                since: self.leased_since.map(rfc3339),
                since_ms: self.leased_since.map(Time::as_millis),
                worker: self.worker.as_deref().map(str::to_owned),
            }),
            last_error: self.last_error,
            finished: self.finished.map(rfc3339),
            finished_ms: self.finished.map(Time::as_millis),
            history: self.history.into_iter().map(IntoWire::into_wire).collect(),
        }
    }
}

impl IntoWire for queue::Attempt {
    type Wire = Attempt;

    fn into_wire(self) -> Attempt {
        Attempt {
            number: self.number,
            started: rfc3339(self.started),
            started_ms: self.started.as_millis(),
            ended: rfc3339(self.ended),
            ended_ms: self.ended.as_millis(),
            outcome: self.outcome.into_wire(),
            worker: self.worker,
            error: self.error,
            detail: self.detail,
        }
    }
}

impl IntoWire for queue::AttemptOutcome {
    type Wire = AttemptOutcome;

    fn into_wire(self) -> AttemptOutcome {
        match self {
            Self::Done => AttemptOutcome::Done,
            Self::Failed => AttemptOutcome::Failed,
            Self::Expired => AttemptOutcome::Expired,
            Self::Released => AttemptOutcome::Released,
            Self::Cancelled => AttemptOutcome::Cancelled,
        }
    }
}

impl IntoWire for queue::FollowUp {
    type Wire = FollowUp;

    fn into_wire(self) -> FollowUp {
        FollowUp { queue: self.queue, delay: not_zero(self.delay) }
    }
}

fn follow_up_of(
    follow_up: Option<FollowUp>,
    field: &str,
) -> Result<Option<Box<queue::FollowUp>>, Failure> {
    let Some(FollowUp { queue, delay }) = follow_up else { return Ok(None) };
    if !is_name(&queue) {
        return Err(invalid(&format!("{field}/queue"), format!("not a queue name: {NAME_RULE}")));
    }
    let delay = delay.unwrap_or_default().0;
    Ok(Some(Box::new(queue::FollowUp::to(queue).delay(delay))))
}

/// Returns the bytes of a result, as they are stored.
pub(crate) fn result_of(result: Option<Box<RawValue>>) -> Result<Option<Bytes>, Failure> {
    let bytes = result.map(|result| Content::Json(result).into_bytes()).transpose();
    Ok(bytes.map_err(|why| invalid("/result", why))?.map(Bytes::from))
}

/// Returns a result as JSON; one that is not JSON as a text.
fn shown_result(result: &[u8]) -> Option<Box<RawValue>> {
    let text = String::from_utf8_lossy(result);
    RawValue::from_string(text.to_string()).or_else(|_| to_raw_value(&text)).ok()
}

impl IntoWire for queue::Delivery {
    type Wire = Delivery;

    fn into_wire(self) -> Delivery {
        let until = self.job.leased_until.unwrap_or_default();
        Delivery {
            token: LeaseToken(self.lease.token),
            until: rfc3339(until),
            until_ms: until.as_millis(),
            job: self.job.into_wire(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tickwheel_queue::Queues;

    use super::*;

    #[test]
    fn the_encoded_length_is_an_upper_bound() {
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
            for text in ["\u{1}".repeat(4_000), String::new()] {
                let worker = queues.as_worker("\"".repeat(128));
                let lease = worker.reserve("q", 1, None).wait().unwrap()[0].lease;
                let retry = queue::Retry::After(Duration::ZERO);
                worker.fail_with_detail(lease, text.clone(), text, retry).wait().unwrap();
            }
            let job = queues.get(id).wait().unwrap().unwrap();
            let counted = encoded_len(&job);
            let written = serde_json::to_vec(&job.into_wire()).unwrap().len();
            queues.drain("q").wait().unwrap();
            assert!(written <= counted && counted <= 2 * written + 512, "{written} {counted}");
        }
    }
}
