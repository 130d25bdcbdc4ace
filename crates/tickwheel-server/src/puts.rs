//! Putting jobs: what a request plans, and what became of it.

use tickwheel_queue::{NewJob, Put, PutKind, Queues, Time};

use crate::api::{Code, PutOutcome, PutRequest, PutResponse};
use crate::app::App;
use crate::auth::Caller;
use crate::problem::Failure;
use crate::tokens::Scope;
use crate::wire::{IntoWire, new_job, rfc3339};

/// A job that a request wants to put.
pub(crate) struct Planned {
    pub(crate) job: NewJob,
    due: Time,
}

impl Planned {
    /// The answer if there is a new job.
    pub(crate) fn created(self) -> PutResponse {
        let id = self.job.id.unwrap_or(tickwheel_queue::JobId::from_bytes([0; 16]));
        answer(id, self.job.queue, PutOutcome::Created, None, Some(self.due))
    }
}

fn answer(
    id: tickwheel_queue::JobId,
    queue: String,
    outcome: PutOutcome,
    replaced: Option<tickwheel_queue::JobId>,
    due: Option<Time>,
) -> PutResponse {
    PutResponse {
        id: id.into_wire(),
        queue,
        outcome,
        replaced: replaced.map(IntoWire::into_wire),
        due: due.map(rfc3339),
        due_ms: due.map(Time::as_millis),
    }
}

/// What a request wants to put, if it makes sense and the caller may.
pub(crate) fn plan(
    app: &App,
    caller: &Caller,
    request: PutRequest,
    queue: Option<&str>,
    now: Time,
) -> Result<Planned, Failure> {
    let (job, due) = new_job(request, queue, now, app.queue_limits().payload)?;
    caller.may(Scope::Produce, &job.queue)?;
    Ok(Planned { job, due })
}

/// Puts what is planned, and a marker before it, in one commit; the answers in the same order.
pub(crate) async fn put_planned(
    app: &App,
    caller: &Caller,
    plan: Vec<Result<Planned, Failure>>,
    marker: Option<NewJob>,
) -> Result<Vec<Result<PutResponse, Failure>>, Failure> {
    let has_marker = marker.is_some();
    let mut jobs: Vec<NewJob> = Vec::with_capacity(plan.len() + 1);
    jobs.extend(marker);
    // Of each that is planned what it is refused with, or else what is sent.
    let mut sent = Vec::with_capacity(plan.len());
    for planned in plan {
        sent.push(planned.map(|Planned { job, due }| {
            let queue = job.queue.clone();
            jobs.push(job);
            (queue, due)
        }));
    }
    if sent.iter().all(Result::is_err) {
        return Ok(sent.into_iter().filter_map(Result::err).map(Err).collect());
    }
    let access = if has_marker { caller.access_with_markers() } else { caller.access() };
    let queues = app.queues().limited_to(access.clone());
    let mut outcomes = queues.put_all(jobs).await?.into_iter();
    if has_marker && let Some(marker) = outcomes.next() {
        app.markers().count_put(&marker?);
    }
    let mut kept = Vec::new();
    let mut verdicts = Vec::with_capacity(sent.len());
    for (place, sent) in sent.into_iter().enumerate() {
        verdicts.push(sent.and_then(|(queue, due)| {
            let none = || Failure::new(Code::Internal, "the put has no answer");
            let put: Put = outcomes.next().ok_or_else(none)??;
            let (outcome, replaced) = match put.kind {
                PutKind::Created => (PutOutcome::Created, None),
                PutKind::Replaced(old) => (PutOutcome::Replaced, Some(old)),
                PutKind::Kept => {
                    kept.push((place, put.id));
                    (PutOutcome::Kept, None)
                }
            };
            Ok(answer(put.id, queue, outcome, replaced, Some(due)))
        }));
    }
    tell_due_of_kept(&queues, kept, &mut verdicts).await?;
    Ok(verdicts)
}

/// A job that was kept has a due time of its own.
async fn tell_due_of_kept(
    queues: &Queues,
    kept: Vec<(usize, tickwheel_queue::JobId)>,
    verdicts: &mut [Result<PutResponse, Failure>],
) -> Result<(), Failure> {
    if kept.is_empty() {
        return Ok(());
    }
    // Jobs come with their payloads: not all of them at once.
    for some in kept.chunks(16) {
        let jobs = queues.get_all(some.iter().map(|(_, id)| *id)).await?;
        for ((place, _), job) in some.iter().zip(jobs) {
            let due = job.ok().flatten().map(|job| job.due);
            if let Ok(answer) = &mut verdicts[*place] {
                answer.due = due.map(rfc3339);
                answer.due_ms = due.map(Time::as_millis);
            }
        }
    }
    Ok(())
}
