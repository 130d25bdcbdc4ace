//! Why jobs fail, and changes to every job that matches a filter.

use axum::Json;
use axum::extract::State;
use tickwheel_queue::{self as queue, Error, ErrorList, Time};
use utoipa::IntoParams;

use crate::api::{BulkRequest, BulkResponse, ErrorGroup, ErrorGroups};
use crate::app::App;
use crate::auth::Caller;
use crate::bulk;
use crate::extract::{Body, QueueName};
use crate::problem::Failure;
use crate::query::{Number, Params, query};
use crate::tokens::Scope;
use crate::wire::IntoWire;

/// The largest number of groups in an answer.
const MAX_GROUPS: usize = 1_000;

/// How many groups of errors are shown.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ErrorQuery {
    /// The maximum number of groups; defaults to 100
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<Number<1, MAX_GROUPS>>,
}
query!(ErrorQuery { limit });

impl ErrorQuery {
    fn list(&self, queue: Option<String>) -> ErrorList {
        ErrorList { queue, limit: self.limit.map_or(100, |limit| limit.0) }
    }
}

/// Returns the errors that a caller may see, grouped.
pub(crate) async fn grouped(
    app: &App,
    caller: &Caller,
    list: ErrorList,
) -> Result<ErrorGroups, Failure> {
    let queues = app.queues_for(caller, Scope::Read)?;
    if let Some(queue) = &list.queue {
        caller.may(Scope::Read, queue)?;
        if queues.queue(queue.clone()).await?.is_none() {
            return Err(Error::NoSuchQueue(queue.clone()).into());
        }
    }
    let page = queues.errors(list).await?;
    let group = |group: queue::ErrorGroup| ErrorGroup {
        error: group.text,
        count: group.count,
        dead: group.dead,
        retrying: group.count - group.dead,
        newest_ms: group.newest.map(Time::as_millis),
        oldest_ms: group.oldest.map(Time::as_millis),
        example: group.example.into_wire(),
        queue: group.queue.to_string(),
        example_error: group.example_error,
    };
    Ok(ErrorGroups {
        groups: page.groups.into_iter().map(group).collect(),
        others: page.others,
        complete: page.is_complete,
    })
}

/// See why jobs of all queues fail.
///
/// As for one queue, for all queues that the caller may see.
#[utoipa::path(
    get, path = "/v1/errors", tag = "insight", operation_id = "listAllErrors",
    params(ErrorQuery),
    responses((status = 200, description = "The errors, by group", body = ErrorGroups))
)]
pub(crate) async fn all_errors(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<ErrorQuery>,
) -> Result<Json<ErrorGroups>, Failure> {
    Ok(Json(grouped(&app, &caller, query.list(None)).await?))
}

/// See why jobs of a queue fail.
///
/// Groups dead jobs, and jobs that will be tried again, by the first line of their last error, with
/// `#` for numbers, ids, addresses and times. The text of a group is the parameter `error_group` of
/// lists and bulk changes.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/errors", tag = "insight", operation_id = "listErrors",
    params(ErrorQuery),
    responses((status = 200, description = "The errors, by group", body = ErrorGroups))
)]
pub(crate) async fn errors(
    State(app): State<App>,
    caller: Caller,
    QueueName(queue): QueueName,
    Params(query): Params<ErrorQuery>,
) -> Result<Json<ErrorGroups>, Failure> {
    caller.may(Scope::Read, &queue)?;
    Ok(Json(grouped(&app, &caller, query.list(Some(queue))).await?))
}

/// Change every job of a queue that matches.
///
/// Retries dead jobs, makes scheduled ones ready now, reschedules or cancels waiting ones. Each
/// request is one step of up to `limit` jobs: repeat it with `next` of the answer as `cursor` until
/// `next` is `null`. With `dry_run` the jobs are counted and not changed.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/bulk", tag = "jobs", operation_id = "changeMatchingJobs",
    request_body = BulkRequest,
    responses((status = 200, description = "What this step did", body = BulkResponse))
)]
pub(crate) async fn change(
    State(app): State<App>,
    caller: Caller,
    QueueName(queue): QueueName,
    Body(request): Body<BulkRequest>,
) -> Result<Json<BulkResponse>, Failure> {
    caller.may(Scope::Admin, &queue)?;
    let queues = app.queues_for(&caller, Scope::Admin)?;
    Ok(Json(bulk::step(&queues, queue, request, app.now()).await?))
}
