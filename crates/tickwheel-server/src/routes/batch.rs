//! Many at once. Each item has its own answer; one that is refused does not spoil the others.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use tickwheel_queue::{Error, JobId, Time};

use super::jobs::with_replayed;
use super::json;
use super::worker::{check_error, check_lease, lease_of, retry_of, when_released};
use crate::api::{
    Acked, BatchCancel, BatchExtend, BatchFail, BatchKick, BatchLease, BatchPut, BatchRelease,
    BatchReschedule, Cancelled, Code, Extended, Failed, Kicked, PutResponse, Released, Rescheduled,
    Results, rfc3339,
};
use crate::app::App;
use crate::auth::Caller;
use crate::convert::when_of;
use crate::extract::{Body, BodyAndBytes};
use crate::idempotency::{IdempotencyKey, Repeatable, verdict_of};
use crate::problem::Failure;
use crate::puts;
use crate::tokens::Scope;

/// So many jobs are read at a time to see whether a caller may touch them.
const SCREENED: usize = 16;

fn check_size(app: &App, items: usize, field: &str) -> Result<(), Failure> {
    let allowed = app.queue_limits().batch;
    if items as u64 > allowed {
        let why = format!("{items} items are over the limit of {allowed}: send several batches");
        return Err(Failure::new(Code::TooLarge, why).at(field));
    }
    Ok(())
}

fn results<T>(verdicts: Vec<Result<T, Failure>>, field: &str) -> Results<T> {
    let place = |index| format!("{field}/{index}");
    let results = verdicts
        .into_iter()
        .enumerate()
        .map(|(index, verdict)| verdict_of(verdict.map_err(|it| it.within(&place(index)))))
        .collect();
    Results { results }
}

/// Put many jobs, each with its queue, in one commit.
///
/// The header `Idempotency-Key` is for the whole batch.
#[utoipa::path(
    post, path = "/v1/jobs/batch", tag = "batches", operation_id = "putJobs",
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255,
            pattern = "^[!-~]([ -~]{0,253}[!-~])?$",
            description = "A name for this request that no other of the caller's has")),
    request_body = BatchPut,
    responses((status = 200, description = "One answer for each job", body = Results<PutResponse>))
)]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    IdempotencyKey(key): IdempotencyKey,
    BodyAndBytes(request, body): BodyAndBytes<BatchPut>,
) -> Result<Response, Failure> {
    caller.may_somewhere(Scope::Produce)?;
    check_size(&app, request.jobs.len(), "/jobs")?;
    let (verdicts, replayed) = match key {
        None => {
            let (jobs, now) = (request.jobs.into_iter(), app.now());
            let plan = jobs.map(|job| puts::plan(&app, &caller, job, None, now)).collect();
            (puts::put_planned(&app, plan, None).await?, false)
        }
        Some(key) => {
            let repeatable = Repeatable { app, caller, key, body, queue: None };
            // On the heap, so that it is no part of the future of a put without a key.
            let answered = Box::pin(repeatable.put(request.jobs)).await?;
            (answered.verdicts, answered.replayed)
        }
    };
    let count = verdicts.len();
    Ok(with_replayed(json(&results(verdicts, "/jobs"), count)?, replayed))
}

/// A batch of items on its way: what is refused already, and what is sent to the queue.
struct Screened<C> {
    refused: Vec<Option<Failure>>,
    sent: Vec<C>,
}

/// Turns items into what the queue takes, and leaves out those that make no sense or that the
/// caller may not touch.
async fn screen<I, C>(
    app: &App,
    caller: &Caller,
    scope: Scope,
    items: Vec<I>,
    convert: impl Fn(I) -> Result<(JobId, C), Failure>,
) -> Result<Screened<C>, Failure> {
    caller.may_somewhere(scope)?;
    check_size(app, items.len(), "/items")?;
    let converted: Vec<_> = items.into_iter().map(convert).collect();
    let mut forbidden = vec![None; converted.len()];
    if !caller.may_everywhere(scope) {
        let sound = converted.iter().enumerate();
        let sound = sound.filter_map(|(place, item)| Some((place, item.as_ref().ok()?.0)));
        let sound: Vec<_> = sound.collect();
        // Jobs come with their payloads: not all of them at once.
        for some in sound.chunks(SCREENED) {
            let jobs = app.queues().get_all(some.iter().map(|(_, id)| *id)).await?;
            for ((place, _), job) in some.iter().zip(jobs) {
                // What is not there is for the queue to say.
                if let Ok(Some(job)) = job {
                    forbidden[*place] = caller.may(scope, &job.queue).err();
                }
            }
        }
    }
    let (mut refused, mut sent) = (Vec::new(), Vec::new());
    for (item, forbidden) in converted.into_iter().zip(forbidden) {
        match (item, forbidden) {
            (Ok((_, command)), None) => {
                refused.push(None);
                sent.push(command);
            }
            (Ok(_), Some(failure)) | (Err(failure), _) => refused.push(Some(failure)),
        }
    }
    Ok(Screened { refused, sent })
}

/// The answers of all items, in order.
fn merge<T, U>(
    refused: Vec<Option<Failure>>,
    outcomes: Vec<Result<T, Error>>,
    answer: impl Fn(T) -> U,
) -> Json<Results<U>> {
    let mut outcomes = outcomes.into_iter();
    let verdicts = refused.into_iter().map(|refused| match refused {
        Some(failure) => Err(failure),
        None => match outcomes.next() {
            Some(outcome) => outcome.map(&answer).map_err(Failure::from),
            None => Err(Failure::new(Code::Internal, "the item has no answer")),
        },
    });
    Json(results(verdicts.collect(), "/items"))
}

/// Say that many jobs are done.
#[utoipa::path(
    post, path = "/v1/jobs/batch/ack", tag = "batches", operation_id = "ackJobs",
    request_body = BatchLease,
    responses((status = 200, description = "One answer for each job", body = Results<Acked>))
)]
pub(crate) async fn ack(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<BatchLease>,
) -> Result<Json<Results<Acked>>, Failure> {
    let Screened { refused, sent } = screen(&app, &caller, Scope::Consume, request.items, |item| {
        Ok((item.id.0, lease_of(item.id.0, item.token)))
    })
    .await?;
    Ok(merge(refused, app.queues().ack_all(sent).await?, |()| Acked::default()))
}

/// Say that many jobs failed.
#[utoipa::path(
    post, path = "/v1/jobs/batch/fail", tag = "batches", operation_id = "failJobs",
    request_body = BatchFail,
    responses((status = 200, description = "One answer for each job", body = Results<Failed>))
)]
pub(crate) async fn fail(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<BatchFail>,
) -> Result<Json<Results<Failed>>, Failure> {
    let Screened { refused, sent } = screen(&app, &caller, Scope::Consume, request.items, |item| {
        let retry = retry_of(item.delay, item.dead)?;
        Ok((item.id.0, (lease_of(item.id.0, item.token), check_error(item.error)?, retry)))
    })
    .await?;
    let outcomes = app.queues().fail_all(sent).await?;
    Ok(merge(refused, outcomes, |state| Failed { state: state.into() }))
}

fn extended(until: Time) -> Extended {
    Extended { until: rfc3339(until), until_ms: until.as_millis() }
}

/// Keep many jobs for longer.
#[utoipa::path(
    post, path = "/v1/jobs/batch/extend", tag = "batches", operation_id = "extendLeases",
    request_body = BatchExtend,
    responses((status = 200, description = "One answer for each job", body = Results<Extended>))
)]
pub(crate) async fn extend(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<BatchExtend>,
) -> Result<Json<Results<Extended>>, Failure> {
    let Screened { refused, sent } = screen(&app, &caller, Scope::Consume, request.items, |item| {
        Ok((item.id.0, (lease_of(item.id.0, item.token), check_lease(item.lease)?)))
    })
    .await?;
    Ok(merge(refused, app.queues().extend_all(sent).await?, extended))
}

/// Give many jobs back undone.
#[utoipa::path(
    post, path = "/v1/jobs/batch/release", tag = "batches", operation_id = "releaseJobs",
    request_body = BatchRelease,
    responses((status = 200, description = "One answer for each job", body = Results<Released>))
)]
pub(crate) async fn release(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<BatchRelease>,
) -> Result<Json<Results<Released>>, Failure> {
    let Screened { refused, sent } = screen(&app, &caller, Scope::Consume, request.items, |item| {
        Ok((item.id.0, (lease_of(item.id.0, item.token), when_released(item.delay))))
    })
    .await?;
    Ok(merge(refused, app.queues().release_all(sent).await?, |()| Released::default()))
}

/// Cancel many jobs.
#[utoipa::path(
    post, path = "/v1/jobs/batch/cancel", tag = "batches", operation_id = "cancelJobs",
    request_body = BatchCancel,
    responses((status = 200, description = "One answer for each job", body = Results<Cancelled>))
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<BatchCancel>,
) -> Result<Json<Results<Cancelled>>, Failure> {
    let Screened { refused, sent } =
        screen(&app, &caller, Scope::Produce, request.items, |item| Ok((item.id.0, item.id.0)))
            .await?;
    let outcomes = app.queues().cancel_all(sent).await?;
    Ok(merge(refused, outcomes, |was| Cancelled { was: was.into() }))
}

/// Give many waiting jobs other due times.
#[utoipa::path(
    post, path = "/v1/jobs/batch/reschedule", tag = "batches", operation_id = "rescheduleJobs",
    request_body = BatchReschedule,
    responses((status = 200, description = "One answer for each job", body = Results<Rescheduled>))
)]
pub(crate) async fn reschedule(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<BatchReschedule>,
) -> Result<Json<Results<Rescheduled>>, Failure> {
    let Screened { refused, sent } = screen(&app, &caller, Scope::Produce, request.items, |item| {
        Ok((item.id.0, (item.id.0, when_of(item.delay, item.due)?)))
    })
    .await?;
    let outcomes = app.queues().reschedule_all(sent).await?;
    Ok(merge(refused, outcomes, |due| Rescheduled { due: rfc3339(due), due_ms: due.as_millis() }))
}

/// Bring many dead jobs back.
#[utoipa::path(
    post, path = "/v1/jobs/batch/kick", tag = "batches", operation_id = "kickJobs",
    request_body = BatchKick,
    responses((status = 200, description = "One answer for each job", body = Results<Kicked>))
)]
pub(crate) async fn kick(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<BatchKick>,
) -> Result<Json<Results<Kicked>>, Failure> {
    let Screened { refused, sent } =
        screen(&app, &caller, Scope::Admin, request.items, |item| Ok((item.id.0, item.id.0)))
            .await?;
    Ok(merge(refused, app.queues().kick_all(sent).await?, |()| Kicked::default()))
}
