//! Putting jobs: what a request plans, and what became of it.

use std::collections::BTreeSet;
use std::time::SystemTime;

use axum::http::StatusCode;
use tickwheel_queue::{Error, IdempotencyKey, NewJob, Put, PutKind};

use crate::api::{Code, PutOutcome, PutRequest, PutResponse};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{NAME_RULE, is_name};
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

/// A job to put.
pub(crate) struct Planned {
    job: NewJob,
    /// Boxed, as few jobs have one.
    aim: Option<Box<Aim>>,
}

/// The target that a request names.
struct Aim {
    target: String,
    /// The queue that the request names.
    queue: String,
}

/// The job that a request wants to put, if it makes sense and the caller may.
pub(crate) fn plan(
    app: &App,
    caller: &Caller,
    mut request: PutRequest,
    queue: Option<&str>,
    now: SystemTime,
) -> Result<Planned, Failure> {
    let target = request.target.take();
    let mut job = new_job(request, queue, now, app.queue_limits().payload)?;
    caller.may(Scope::Produce, &job.queue)?;
    let aim = target.map(|target| {
        let aimed = format!("{}.{target}", job.queue);
        let queue = std::mem::replace(&mut job.queue, aimed);
        Box::new(Aim { target, queue })
    });
    Ok(Planned { job, aim })
}

impl Aim {
    /// Makes sure that the queue of the job delivers to the target. A caller that may not manage
    /// targets may not choose one for a job either.
    async fn take(&self, app: &App, caller: &Caller, aimed: &str) -> Result<(), Failure> {
        let invalid = |why| Failure::field(Code::InvalidField, "/target", why);
        let Self { target, queue } = self;
        caller.has(Scope::Admin)?;
        if caller.access().is_limited() {
            let why = "naming the target of a job requires a token for all queues, since queues \
                       share targets";
            return Err(Failure::new(Code::Forbidden, why));
        }
        if !is_name(target) || !is_name(aimed) {
            let why = format!("{aimed:?} is not a valid name of a queue: {NAME_RULE}");
            return Err(invalid(why));
        }
        match app.queues().queue(aimed).await? {
            Some(found) if found.settings.target.as_ref() == Some(target) => return Ok(()),
            Some(_) => {
                return Err(invalid(format!(
                    "queue {aimed:?} exists and does not deliver to target {target:?}: set its \
                     target, or put the job into another queue"
                )));
            }
            None => {}
        }
        let settings = app.queues().queue(&**queue).await?.map(|found| found.settings);
        let mut settings = settings.unwrap_or_default();
        settings.target = Some(target.clone());
        app.queues().configure(aimed, settings).await.map_err(|it| about_target(app, it))?;
        app.push().queues_changed().await;
        Ok(())
    }
}

/// A setting that names a missing target is an invalid field, not an unknown path.
pub(crate) fn about_target(app: &App, error: Error) -> Failure {
    match error {
        Error::NoSuchTarget(ref name) if app.is_one_of_several() => {
            let why = format!(
                "there is no target {name:?} in the partition of this queue: in a cluster with several \
                 partitions, a queue delivers to targets of its own partition only, and a target \
                 with the name of the queue is always there"
            );
            Failure::field(Code::InvalidField, "/target", why)
        }
        Error::NoSuchTarget(_) => Failure::field(Code::InvalidField, "/target", error.to_string()),
        error => error.into(),
    }
}

/// Makes sure that the queue of a job that names its target delivers to that. `known` are those for
/// which that was done.
async fn aimed(
    app: &App,
    caller: &Caller,
    planned: Planned,
    known: &mut BTreeSet<String>,
) -> Result<NewJob, Failure> {
    let Planned { job, aim } = planned;
    if let Some(aim) = aim
        && !known.contains(&job.queue)
    {
        aim.take(app, caller, &job.queue).await?;
        known.insert(job.queue.clone());
    }
    Ok(job)
}

/// Puts the jobs that are planned, in one commit.
pub(crate) async fn put_planned(
    app: &App,
    caller: &Caller,
    plan: Vec<Result<Planned, Failure>>,
    key: Option<IdempotencyKey>,
) -> Result<Answered, Failure> {
    let mut jobs: Vec<NewJob> = Vec::with_capacity(plan.len());
    // Of each that is planned what it is refused with, or else the queue that it goes to.
    let mut sent = Vec::with_capacity(plan.len());
    let mut known = BTreeSet::new();
    for planned in plan {
        let planned = match planned {
            Ok(Planned { job, aim: None }) => Ok(job),
            // On the heap, so that it is no part of the future of a put without a target.
            Ok(planned) => Box::pin(aimed(app, caller, planned, &mut known)).await,
            Err(failure) => Err(failure),
        };
        sent.push(planned.map(|job| {
            let queue = job.queue.clone();
            jobs.push(job);
            queue
        }));
    }
    let traced = app.telemetry().begin_puts(&mut jobs);
    let queues = app.queues().limited_to(caller.access().clone());
    let (puts, replayed) = match key {
        Some(key) => {
            let put = queues.put_once(key, jobs).await?;
            (put.puts, put.is_replay)
        }
        None if jobs.is_empty() => (Vec::new(), false),
        None => (queues.put_all(jobs).await?, false),
    };
    if !replayed {
        app.telemetry().end_puts(traced, &puts);
    }
    let mut puts = puts.into_iter();
    let mut verdict = |queue| Ok(answer(puts.next().ok_or_else(unanswered)??, queue));
    let verdicts = sent.into_iter().map(|sent| sent.and_then(&mut verdict)).collect();
    Ok(Answered { verdicts, replayed })
}
