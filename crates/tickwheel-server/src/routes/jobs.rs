//! Single jobs: put, see, cancel, reschedule.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use tickwheel_queue::{self as queue, Error, JobRef, List, PageToken, Queues, Time};
use utoipa::IntoParams;

use crate::api::{
    Cancelled, JSON_TYPE, Job, JobIds, JobPage, JobState, PutRequest, PutResponse,
    RescheduleRequest, Rescheduled, Timestamp,
};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Body, BodyAndBytes, PathId, PathKey, PathShortId, QueueName};
use crate::http::answer;
use crate::idempotency::{IdempotencyKey, Repeatable};
use crate::problem::Failure;
use crate::puts::{self, Answered};
use crate::query::{Number, Params, query};
use crate::tokens::Scope;
use crate::wire::{IntoQueue, IntoWire, rfc3339, when_of};

/// Put a job.
///
/// The job is durable when the answer arrives. With the header `Idempotency-Key` the request can be
/// repeated for 24 hours without putting the job twice: the answer is the same, with the header
/// `Idempotency-Replayed: true`.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/jobs", tag = "jobs", operation_id = "putJob",
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255,
            pattern = "^[!-~]([ -~]{0,253}[!-~])?$",
            description = "A name for this request that no other of the caller's has")),
    request_body = PutRequest,
    responses(
        (status = 200, description = "A job with the key was kept", body = PutResponse),
        (status = 201, description = "There is a new job", body = PutResponse),
        (status = 409, description = "A live job has the key, or there is a job with the id"),
    )
)]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    QueueName(queue): QueueName,
    IdempotencyKey(key): IdempotencyKey,
    BodyAndBytes(request, body): BodyAndBytes<PutRequest>,
) -> Result<Response, Failure> {
    caller.may(Scope::Produce, &queue)?;
    let Answered { mut verdicts, replayed } = match key {
        None => {
            let plan = puts::plan(&app, &caller, request, Some(&queue), app.wall())?;
            puts::put_planned(&app, &caller, vec![Ok(plan)], None).await?
        }
        Some(key) => {
            let repeatable = Repeatable { app, caller, key, body, queue: Some(queue) };
            // On the heap, so that it is no part of the future of a put without a key.
            Box::pin(repeatable.put(vec![request])).await?
        }
    };
    let answer = verdicts.pop().unwrap_or_else(|| Err(puts::unanswered()))?;
    let body = ([(CONTENT_TYPE, JSON_TYPE)], puts::encode(&answer)?);
    Ok(with_replayed((puts::status(&answer), body).into_response(), replayed))
}

/// Marks an answer as that of an earlier request.
pub(super) fn with_replayed(mut response: Response, replayed: bool) -> Response {
    if replayed {
        let name = HeaderName::from_static("idempotency-replayed");
        response.headers_mut().insert(name, HeaderValue::from_static("true"));
    }
    response
}

/// Which jobs are listed.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only jobs in this state
    #[param(value_type = Option<JobState>)]
    state: Option<queue::State>,
    /// Only jobs due at this time or later
    due_from: Option<Timestamp>,
    /// Only jobs due at this time or earlier
    due_to: Option<Timestamp>,
    /// Only jobs with this key: the live one, and finished ones that are kept
    #[param(max_length = 512)]
    key: Option<String>,
    /// Only jobs whose key begins with this: live ones, in order of their keys, or with a `state` in
    /// which jobs are finished those
    #[param(max_length = 512)]
    key_prefix: Option<String>,
    /// Only jobs whose last error contains this text, in any case of ASCII letters
    #[param(max_length = 4096)]
    error: Option<String>,
    /// Only jobs whose last error belongs to this group: `error` of `listErrors`
    #[param(max_length = 4096)]
    error_group: Option<String>,
    /// The maximum number of jobs in a page; defaults to 100
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<Number<1, 1_000>>,
    /// `next` of the page before
    #[param(value_type = Option<String>)]
    page: Option<PageToken>,
}
query!(ListQuery { state, due_from, due_to, key, key_prefix, error, error_group, limit, page });

/// List the jobs of a queue.
///
/// Live jobs come first, in order of delivery, then leased, dead, done and cancelled ones.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/jobs", tag = "jobs", operation_id = "listJobs",
    params(ListQuery),
    responses((status = 200, description = "A page of jobs", body = JobPage))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    QueueName(queue): QueueName,
    Params(query): Params<ListQuery>,
) -> Result<Response, Failure> {
    caller.may(Scope::Read, &queue)?;
    let mut list = List::of(queue);
    list.state = query.state;
    list.due_from = query.due_from.map_or(Time::default(), IntoQueue::into_queue);
    list.due_to = query.due_to.map_or(Time::MAX, IntoQueue::into_queue);
    (list.key, list.key_prefix) = (query.key, query.key_prefix);
    (list.error, list.error_group) = (query.error, query.error_group);
    list.limit = query.limit.map_or(100, |limit| limit.0);
    list.after = query.page;
    answer::page(&app, &caller, list).await
}

/// Returns a job, if the caller may see it.
async fn find(app: &App, caller: &Caller, job: JobRef) -> Result<Response, Failure> {
    let found = app.queues_for(caller, Scope::Read)?.get(job.clone()).await?;
    answer::job(app, found.ok_or_else(|| Failure::from(Error::NotFound(job)))?).await
}

/// See a job.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", tag = "jobs", operation_id = "getJob",
    responses((status = 200, description = "The job", body = Job))
)]
pub(crate) async fn get_by_id(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
) -> Result<Response, Failure> {
    find(&app, &caller, id.into()).await
}

/// Find the jobs that a short id stands for.
///
/// A short id is the first four or more digits of an id, or the first twelve, two dots and some of
/// the last: `01890a5dac96..9a8057`. Jobs of one batch have the same first digits.
#[utoipa::path(
    get, path = "/v1/ids/{short}", tag = "jobs", operation_id = "findIds",
    responses((status = 200, description = "The ids; one if it is unambiguous", body = JobIds))
)]
pub(crate) async fn find_ids(
    State(app): State<App>,
    caller: Caller,
    PathShortId(short): PathShortId,
) -> Result<Json<JobIds>, Failure> {
    let ids = app.queues_for(&caller, Scope::Read)?.find_ids(short).await?;
    Ok(Json(JobIds { ids: ids.into_iter().map(IntoWire::into_wire).collect() }))
}

/// See the live job that has a key.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/keys/{key}", tag = "jobs", operation_id = "getJobByKey",
    responses((status = 200, description = "The job", body = Job))
)]
pub(crate) async fn get_by_key(
    State(app): State<App>,
    caller: Caller,
    QueueName(queue): QueueName,
    PathKey(key): PathKey,
) -> Result<Response, Failure> {
    caller.may(Scope::Read, &queue)?;
    find(&app, &caller, (queue, key).into()).await
}

/// Cancel a job.
///
/// It may be scheduled, ready or leased. A worker that has it is told when it acknowledges.
#[utoipa::path(
    delete, path = "/v1/jobs/{id}", tag = "jobs", operation_id = "cancelJob",
    responses(
        (status = 200, description = "It is cancelled", body = Cancelled),
        (status = 409, description = "It is finished already, and kept"),
    )
)]
pub(crate) async fn cancel_by_id(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
) -> Result<Json<Cancelled>, Failure> {
    let was = app.queues_for(&caller, Scope::Produce)?.cancel(id).await?.into_wire();
    Ok(Json(Cancelled { was }))
}

/// Cancel the live job that has a key.
#[utoipa::path(
    delete, path = "/v1/queues/{queue}/keys/{key}", tag = "jobs", operation_id = "cancelJobByKey",
    responses(
        (status = 200, description = "It is cancelled", body = Cancelled),
        (status = 409, description = "It is finished already, and kept"),
    )
)]
pub(crate) async fn cancel_by_key(
    State(app): State<App>,
    caller: Caller,
    QueueName(queue): QueueName,
    PathKey(key): PathKey,
) -> Result<Json<Cancelled>, Failure> {
    caller.may(Scope::Produce, &queue)?;
    let was = app.queues_for(&caller, Scope::Produce)?.cancel((queue, key)).await?.into_wire();
    Ok(Json(Cancelled { was }))
}

async fn move_to(
    queues: &Queues,
    job: JobRef,
    request: RescheduleRequest,
) -> Result<Json<Rescheduled>, Failure> {
    let due = queues.reschedule(job, when_of(request.delay, request.due)?).await?;
    Ok(Json(Rescheduled { due: rfc3339(due), due_ms: due.as_millis() }))
}

/// Change the due time of a waiting job.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/reschedule", tag = "jobs", operation_id = "rescheduleJob",
    request_body = RescheduleRequest,
    responses(
        (status = 200, description = "When it is due now", body = Rescheduled),
        (status = 409, description = "It is leased or finished"),
    )
)]
pub(crate) async fn reschedule_by_id(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Body(request): Body<RescheduleRequest>,
) -> Result<Json<Rescheduled>, Failure> {
    move_to(&app.queues_for(&caller, Scope::Produce)?, id.into(), request).await
}

/// Change the due time of the waiting job that has a key.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/keys/{key}/reschedule", tag = "jobs",
    operation_id = "rescheduleJobByKey", request_body = RescheduleRequest,
    responses(
        (status = 200, description = "When it is due now", body = Rescheduled),
        (status = 409, description = "It is leased"),
    )
)]
pub(crate) async fn reschedule_by_key(
    State(app): State<App>,
    caller: Caller,
    QueueName(queue): QueueName,
    PathKey(key): PathKey,
    Body(request): Body<RescheduleRequest>,
) -> Result<Json<Rescheduled>, Failure> {
    caller.may(Scope::Produce, &queue)?;
    move_to(&app.queues_for(&caller, Scope::Produce)?, (queue, key).into(), request).await
}
