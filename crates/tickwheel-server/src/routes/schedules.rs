//! Schedules.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tickwheel_queue::{Error, Queues};
use utoipa::IntoParams;

use crate::api::{NextRun, NextRuns, Schedule, ScheduleList, ScheduleRequest};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Body, ScheduleName};
use crate::http::answer;
use crate::problem::Failure;
use crate::query::{Number, Params, query};
use crate::tokens::Scope;
use crate::wire::{IntoWire, new_schedule, rfc3339};

/// Returns a schedule that the caller may see.
async fn find(queues: &Queues, name: &str) -> Result<tickwheel_queue::Schedule, Failure> {
    let found = queues.schedule(name).await?;
    found.ok_or_else(|| Error::NoSuchSchedule(name.to_owned()).into())
}

/// See all schedules.
#[utoipa::path(
    get, path = "/v1/schedules", tag = "schedules", operation_id = "listSchedules",
    responses((status = 200, description = "The schedules, by name", body = ScheduleList))
)]
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<Response, Failure> {
    answer::schedules(&app, &caller).await
}

/// Add or replace a schedule.
///
/// A schedule with unchanged timing continues where it was.
#[utoipa::path(
    put, path = "/v1/schedules/{name}", tag = "schedules", operation_id = "putSchedule",
    request_body = ScheduleRequest,
    responses(
        (status = 200, description = "It replaced another", body = Schedule),
        (status = 201, description = "It is new", body = Schedule),
    )
)]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    ScheduleName(name): ScheduleName,
    Body(request): Body<ScheduleRequest>,
) -> Result<(StatusCode, Json<Schedule>), Failure> {
    let queues = app.queues_for(&caller, Scope::Admin)?;
    let schedule = new_schedule(name.clone(), request, app.queue_limits().payload)?;
    caller.may(Scope::Admin, &schedule.job.queue)?;
    let put = queues.put_schedule(schedule).await?;
    let status = if put.replaced { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(find(&queues, &name).await?.into_wire())))
}

/// See a schedule.
#[utoipa::path(
    get, path = "/v1/schedules/{name}", tag = "schedules", operation_id = "getSchedule",
    responses((status = 200, description = "The schedule", body = Schedule))
)]
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    ScheduleName(name): ScheduleName,
) -> Result<Json<Schedule>, Failure> {
    let queues = app.queues_for(&caller, Scope::Read)?;
    Ok(Json(find(&queues, &name).await?.into_wire()))
}

/// Remove a schedule. Jobs that it has put stay.
#[utoipa::path(
    delete, path = "/v1/schedules/{name}", tag = "schedules", operation_id = "deleteSchedule",
    responses((status = 200, description = "The schedule that is gone", body = Schedule))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    ScheduleName(name): ScheduleName,
) -> Result<Json<Schedule>, Failure> {
    let queues = app.queues_for(&caller, Scope::Admin)?;
    let found = find(&queues, &name).await?;
    queues.remove_schedule(name).await?;
    Ok(Json(found.into_wire()))
}

/// How many occurrences are shown.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct NextQuery {
    /// The number of occurrences; defaults to 5
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    n: Option<Number<1, 1_000>>,
}
query!(NextQuery { n });

/// See the next occurrences of a schedule.
#[utoipa::path(
    get, path = "/v1/schedules/{name}/next", tag = "schedules", operation_id = "nextRuns",
    params(NextQuery),
    responses((status = 200, description = "The times, the nearest first", body = NextRuns))
)]
pub(crate) async fn next(
    State(app): State<App>,
    caller: Caller,
    ScheduleName(name): ScheduleName,
    Params(query): Params<NextQuery>,
) -> Result<Json<NextRuns>, Failure> {
    let times = query.n.map_or(5, |n| n.0);
    let times = app.queues_for(&caller, Scope::Read)?.next_times(name, times).await?;
    let run = |time| NextRun { due: rfc3339(time), due_ms: time.as_millis() };
    Ok(Json(NextRuns { next: times.into_iter().map(run).collect() }))
}

/// Pause a schedule.
#[utoipa::path(
    post, path = "/v1/schedules/{name}/pause", tag = "schedules", operation_id = "pauseSchedule",
    responses((status = 200, description = "The schedule as it is now", body = Schedule))
)]
pub(crate) async fn pause(
    State(app): State<App>,
    caller: Caller,
    ScheduleName(name): ScheduleName,
) -> Result<Json<Schedule>, Failure> {
    let queues = app.queues_for(&caller, Scope::Admin)?;
    queues.pause_schedule(name.clone()).await?;
    Ok(Json(find(&queues, &name).await?.into_wire()))
}

/// Resume a schedule.
#[utoipa::path(
    post, path = "/v1/schedules/{name}/resume", tag = "schedules", operation_id = "resumeSchedule",
    responses((status = 200, description = "The schedule as it is now", body = Schedule))
)]
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    ScheduleName(name): ScheduleName,
) -> Result<Json<Schedule>, Failure> {
    let queues = app.queues_for(&caller, Scope::Admin)?;
    queues.resume_schedule(name.clone()).await?;
    Ok(Json(find(&queues, &name).await?.into_wire()))
}
