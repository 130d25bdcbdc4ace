//! Batches. Each item has its own answer, and a refused item does not affect the others.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use tickwheel_queue::{Error, Lease, Queues, Time};

use super::jobs::with_replayed;
use super::json;
use super::worker::{check_error, check_lease, lease_of, retry_of, when_released};
use crate::api::{
    Acked, Batch, Cancelled, Code, ExtendItem, Extended, FailItem, Failed, ImportRequest, Imported,
    JobItem, Kicked, LeaseItem, PutRequest, PutResponse, ReleaseItem, Released, RescheduleItem,
    Rescheduled, Results,
};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Body, BodyAndBytes};
use crate::idempotency::{IdempotencyKey, Repeatable, verdict_of};
use crate::problem::Failure;
use crate::puts::{self, Answered};
use crate::telemetry::Outcome;
use crate::tokens::Scope;
use crate::wire::{IntoQueue, IntoWire, imported_job, result_of, rfc3339, when_of};

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

/// Returns the name of the field with the items, which puts used to call `jobs`.
fn items_field(body: &[u8]) -> &'static str {
    match body.split(|&byte| byte == b'"').nth(1) {
        Some(b"jobs") => "/jobs",
        _ => "/items",
    }
}

/// Put many jobs, each with its queue, in one commit.
///
/// The header `Idempotency-Key` is for the whole batch.
#[utoipa::path(
    post, path = "/v1/jobs/batch", tag = "batches", operation_id = "putJobs",
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255,
            pattern = "^[!-~]([ -~]{0,253}[!-~])?$",
            description = "A name for this request that no other of the caller's has")),
    request_body = Batch<PutRequest>,
    responses((status = 200, description = "One answer for each job", body = Results<PutResponse>))
)]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    IdempotencyKey(key): IdempotencyKey,
    BodyAndBytes(request, body): BodyAndBytes<Batch<PutRequest>>,
) -> Result<Response, Failure> {
    caller.has(Scope::Produce)?;
    let field = items_field(&body);
    check_size(&app, request.items.len(), field)?;
    let Answered { verdicts, replayed } = match key {
        None => {
            let (jobs, now) = (request.items.into_iter(), app.wall());
            let plan = jobs.map(|job| puts::plan(&app, &caller, job, None, now)).collect();
            puts::put_planned(&app, &caller, plan, None).await?
        }
        Some(key) => {
            let repeatable = Repeatable { app, caller, key, body, queue: None };
            // On the heap, so that it is no part of the future of a put without a key.
            Box::pin(repeatable.put(request.items)).await?
        }
    };
    let count = verdicts.len();
    Ok(with_replayed(json(&results(verdicts, field), count)?, replayed))
}

/// A batch in progress: refused items, and items for the queue.
struct Screened<C> {
    /// The queues with the caller's access.
    queues: Queues,
    refused: Vec<Option<Failure>>,
    sent: Vec<C>,
}

/// Converts items for the queue, and keeps the errors of invalid ones.
fn screen<I, C>(
    app: &App,
    caller: &Caller,
    scope: Scope,
    items: Vec<I>,
    convert: impl Fn(I) -> Result<C, Failure>,
) -> Result<Screened<C>, Failure> {
    let queues = app.queues_for(caller, scope)?;
    check_size(app, items.len(), "/items")?;
    let (mut refused, mut sent) = (Vec::new(), Vec::new());
    for item in items {
        match convert(item) {
            Ok(item) => {
                refused.push(None);
                sent.push(item);
            }
            Err(failure) => refused.push(Some(failure)),
        }
    }
    Ok(Screened { queues, refused, sent })
}

/// Returns the answers of all items, in order.
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

/// Returns a part of each item if traces are recorded, and nothing otherwise.
fn traced<C, T>(app: &App, sent: &[C], part: impl Fn(&C) -> T) -> Vec<T> {
    if app.telemetry().is_on() { sent.iter().map(part).collect() } else { Vec::new() }
}

/// Notes the attempts that ended.
fn note_ended(app: &App, leases: Vec<Lease>, outcomes: &[Result<(), Error>], outcome: &Outcome) {
    for (lease, result) in leases.into_iter().zip(outcomes) {
        if result.is_ok() {
            app.telemetry().ended(lease, outcome);
        }
    }
}

/// Acknowledge many jobs.
#[utoipa::path(
    post, path = "/v1/jobs/batch/ack", tag = "batches", operation_id = "ackJobs",
    request_body = Batch<LeaseItem>,
    responses((status = 200, description = "One answer for each job", body = Results<Acked>))
)]
pub(crate) async fn ack(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<Batch<LeaseItem>>,
) -> Result<Json<Results<Acked>>, Failure> {
    let Screened { queues, refused, sent } =
        screen(&app, &caller, Scope::Consume, request.items, |item| {
            Ok((lease_of(item.id.into_queue(), item.token), result_of(item.result)?))
        })?;
    let leases = traced(&app, &sent, |(lease, _)| *lease);
    let outcomes = queues.ack_all_with_results(sent).await?;
    note_ended(&app, leases, &outcomes, &Outcome::Acked);
    Ok(merge(refused, outcomes, |()| Acked::default()))
}

/// Report many failed attempts.
#[utoipa::path(
    post, path = "/v1/jobs/batch/fail", tag = "batches", operation_id = "failJobs",
    request_body = Batch<FailItem>,
    responses((status = 200, description = "One answer for each job", body = Results<Failed>))
)]
pub(crate) async fn fail(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<Batch<FailItem>>,
) -> Result<Json<Results<Failed>>, Failure> {
    let Screened { queues, refused, sent } =
        screen(&app, &caller, Scope::Consume, request.items, |item| {
            let retry = retry_of(item.delay, item.dead)?;
            Ok((lease_of(item.id.into_queue(), item.token), check_error(item.error)?, retry))
        })?;
    let failures = traced(&app, &sent, |(lease, error, _)| (*lease, error.clone()));
    let outcomes = queues.fail_all(sent).await?;
    for ((lease, error), outcome) in failures.into_iter().zip(&outcomes) {
        if let Ok(state) = outcome {
            app.telemetry().ended(lease, &Outcome::Failed(error, Some(*state)));
        }
    }
    Ok(merge(refused, outcomes, |state| Failed { state: state.into_wire() }))
}

fn extended(until: Time) -> Extended {
    Extended { until: rfc3339(until), until_ms: until.as_millis() }
}

/// Extend many leases.
#[utoipa::path(
    post, path = "/v1/jobs/batch/extend", tag = "batches", operation_id = "extendLeases",
    request_body = Batch<ExtendItem>,
    responses((status = 200, description = "One answer for each job", body = Results<Extended>))
)]
pub(crate) async fn extend(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<Batch<ExtendItem>>,
) -> Result<Json<Results<Extended>>, Failure> {
    let Screened { queues, refused, sent } =
        screen(&app, &caller, Scope::Consume, request.items, |item| {
            Ok((lease_of(item.id.into_queue(), item.token), check_lease(item.lease)?))
        })?;
    let leases = traced(&app, &sent, |it| *it);
    let outcomes = queues.extend_all(sent).await?;
    for ((lease, length), outcome) in leases.into_iter().zip(&outcomes) {
        if outcome.is_ok() {
            app.telemetry().extended(lease, length);
        }
    }
    Ok(merge(refused, outcomes, extended))
}

/// Release many jobs. This does not count as an attempt.
#[utoipa::path(
    post, path = "/v1/jobs/batch/release", tag = "batches", operation_id = "releaseJobs",
    request_body = Batch<ReleaseItem>,
    responses((status = 200, description = "One answer for each job", body = Results<Released>))
)]
pub(crate) async fn release(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<Batch<ReleaseItem>>,
) -> Result<Json<Results<Released>>, Failure> {
    let Screened { queues, refused, sent } =
        screen(&app, &caller, Scope::Consume, request.items, |item| {
            Ok((lease_of(item.id.into_queue(), item.token), when_released(item.delay)))
        })?;
    let leases = traced(&app, &sent, |(lease, _)| *lease);
    let outcomes = queues.release_all(sent).await?;
    note_ended(&app, leases, &outcomes, &Outcome::Released);
    Ok(merge(refused, outcomes, |()| Released::default()))
}

/// Cancel many jobs.
#[utoipa::path(
    post, path = "/v1/jobs/batch/cancel", tag = "batches", operation_id = "cancelJobs",
    request_body = Batch<JobItem>,
    responses((status = 200, description = "One answer for each job", body = Results<Cancelled>))
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<Batch<JobItem>>,
) -> Result<Json<Results<Cancelled>>, Failure> {
    let Screened { queues, refused, sent } =
        screen(&app, &caller, Scope::Produce, request.items, |item| Ok(item.id.into_queue()))?;
    let outcomes = queues.cancel_all(sent).await?;
    Ok(merge(refused, outcomes, |was| Cancelled { was: was.into_wire() }))
}

/// Change the due times of many waiting jobs.
#[utoipa::path(
    post, path = "/v1/jobs/batch/reschedule", tag = "batches", operation_id = "rescheduleJobs",
    request_body = Batch<RescheduleItem>,
    responses((status = 200, description = "One answer for each job", body = Results<Rescheduled>))
)]
pub(crate) async fn reschedule(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<Batch<RescheduleItem>>,
) -> Result<Json<Results<Rescheduled>>, Failure> {
    let Screened { queues, refused, sent } =
        screen(&app, &caller, Scope::Produce, request.items, |item| {
            Ok((item.id.into_queue(), when_of(item.delay, item.due)?))
        })?;
    let outcomes = queues.reschedule_all(sent).await?;
    Ok(merge(refused, outcomes, |due| Rescheduled { due: rfc3339(due), due_ms: due.as_millis() }))
}

/// Import jobs of another server, with their ids, attempts and states.
///
/// A job whose id exists is refused with `id-exists`, so that an import can be repeated. A finished
/// job is refused if its queue would not keep it.
#[utoipa::path(
    post, path = "/v1/jobs/batch/import", tag = "batches", operation_id = "importJobs",
    request_body = Batch<ImportRequest>,
    responses((status = 200, description = "One answer for each job", body = Results<Imported>))
)]
pub(crate) async fn import(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<Batch<ImportRequest>>,
) -> Result<Json<Results<Imported>>, Failure> {
    let (now, max_payload) = (app.wall(), app.queue_limits().payload);
    let Screened { queues, refused, sent } =
        screen(&app, &caller, Scope::Admin, request.items, |item| {
            imported_job(item, now, max_payload)
        })?;
    let outcomes = queues.import(sent).await?;
    Ok(merge(refused, outcomes, |put| Imported { id: put.id.into_wire() }))
}

/// Make many dead jobs ready again.
#[utoipa::path(
    post, path = "/v1/jobs/batch/kick", tag = "batches", operation_id = "kickJobs",
    request_body = Batch<JobItem>,
    responses((status = 200, description = "One answer for each job", body = Results<Kicked>))
)]
pub(crate) async fn kick(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<Batch<JobItem>>,
) -> Result<Json<Results<Kicked>>, Failure> {
    let Screened { queues, refused, sent } =
        screen(&app, &caller, Scope::Admin, request.items, |item| Ok(item.id.into_queue()))?;
    Ok(merge(refused, queues.kick_all(sent).await?, |()| Kicked::default()))
}
