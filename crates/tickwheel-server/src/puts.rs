//! Putting jobs: what a request plans, and what became of it.

use std::time::SystemTime;

use axum::http::StatusCode;
use tickwheel_queue::{IdempotencyKey, NewJob, Put, PutKind};

use crate::api::{Code, PutOutcome, PutRequest, PutResponse};
use crate::app::App;
use crate::auth::Caller;
use crate::problem::Failure;
use crate::tokens::Scope;
use crate::wire::{IntoWire, new_job, rfc3339};

/// The approximate bytes of the answer to a put.
const ANSWER_BYTES: usize = 192;

/// The answers to the jobs of a request, in order.
pub(crate) struct Answered {
    pub(crate) verdicts: Vec<Result<PutResponse, Failure>>,
    /// Whether they are those of an earlier request.
    pub(crate) replayed: bool,
}

fn answer(put: Put, queue: String) -> PutResponse {
    let (outcome, replaced) = match put.kind {
        PutKind::Created => (PutOutcome::Created, None),
        PutKind::Replaced(old) => (PutOutcome::Replaced, Some(old)),
        PutKind::Kept => (PutOutcome::Kept, None),
    };
    PutResponse {
        id: put.id.into_wire(),
        queue,
        outcome,
        replaced: replaced.map(IntoWire::into_wire),
        due: Some(rfc3339(put.due)),
        due_ms: Some(put.due.as_millis()),
    }
}

/// Returns the status of the answer to a put.
pub(crate) fn status(put: &PutResponse) -> StatusCode {
    match put.outcome {
        PutOutcome::Created | PutOutcome::Replaced => StatusCode::CREATED,
        PutOutcome::Kept => StatusCode::OK,
    }
}

/// Returns the answer to a put as JSON.
pub(crate) fn encode(put: &PutResponse) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::with_capacity(ANSWER_BYTES);
    let failure = |error| Failure::new(Code::Internal, format!("no answer can be made: {error}"));
    serde_json::to_writer(&mut text, put).map_err(failure)?;
    Ok(text)
}

/// Returns the failure of a put for which the queue gave no result.
pub(crate) fn unanswered() -> Failure {
    Failure::new(Code::Internal, "the put has no answer")
}

/// The job that a request wants to put, if it makes sense and the caller may.
pub(crate) fn plan(
    app: &App,
    caller: &Caller,
    request: PutRequest,
    queue: Option<&str>,
    now: SystemTime,
) -> Result<NewJob, Failure> {
    let job = new_job(request, queue, now, app.queue_limits().payload)?;
    caller.may(Scope::Produce, &job.queue)?;
    Ok(job)
}

/// Puts the jobs that are planned, in one commit.
pub(crate) async fn put_planned(
    app: &App,
    caller: &Caller,
    plan: Vec<Result<NewJob, Failure>>,
    key: Option<IdempotencyKey>,
) -> Result<Answered, Failure> {
    let mut jobs: Vec<NewJob> = Vec::with_capacity(plan.len());
    // Of each that is planned what it is refused with, or else the queue that it goes to.
    let mut sent = Vec::with_capacity(plan.len());
    for planned in plan {
        sent.push(planned.map(|job| {
            let queue = job.queue.clone();
            jobs.push(job);
            queue
        }));
    }
    let queues = app.queues().limited_to(caller.access().clone());
    let (puts, replayed) = match key {
        Some(key) => {
            let put = queues.put_once(key, jobs).await?;
            (put.puts, put.is_replay)
        }
        None if jobs.is_empty() => (Vec::new(), false),
        None => (queues.put_all(jobs).await?, false),
    };
    let mut puts = puts.into_iter();
    let mut verdict = |queue| Ok(answer(puts.next().ok_or_else(unanswered)??, queue));
    let verdicts = sent.into_iter().map(|sent| sent.and_then(&mut verdict)).collect();
    Ok(Answered { verdicts, replayed })
}
