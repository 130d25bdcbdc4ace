//! Schedules.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use tickwheel_queue::cron::Misfire as QueueMisfire;
use tickwheel_queue::{Error, NewJob, NewSchedule, Queues, Time, Timing, When};

use crate::api::{
    Code, Delay, Misfire, NextRun, NextRuns, Schedule, ScheduleList, ScheduleRequest, rfc3339,
};
use crate::app::App;
use crate::auth::Caller;
use crate::convert::{Parcel, Traits, content_of, headers_of, shown as shown_content};
use crate::extract::{Body, NAME_RULE, Params, ScheduleName, is_name};
use crate::problem::Failure;
use crate::tokens::Scope;

const MOST_MISSED: u32 = 1_000;
const DEFAULT_MISSED: u32 = 100;

fn invalid(field: &str, why: impl Into<String>) -> Failure {
    Failure::field(Code::InvalidField, field, why)
}

fn timing_of(request: &ScheduleRequest) -> Result<Timing, Failure> {
    match (&request.cron, request.every) {
        (Some(expression), None) => {
            let zone = request.timezone.as_deref().unwrap_or("UTC");
            Timing::cron(expression, zone).map_err(|error| {
                let field = match error {
                    tickwheel_queue::cron::CronError::Zone { .. } => "/timezone",
                    _ => "/cron",
                };
                invalid(field, error.to_string())
            })
        }
        (None, Some(_)) if request.timezone.is_some() => {
            Err(invalid("/timezone", "a period has no time zone: leave it out, or give `cron`"))
        }
        (None, Some(every)) if every.0 < Duration::from_millis(1) => {
            Err(invalid("/every", "a period of no time is not possible: take at least 1ms"))
        }
        (None, Some(every)) => Ok(Timing::Every(every.0)),
        (Some(_), Some(_)) => Err(invalid("/every", "give only one of `cron` and `every`")),
        (None, None) => {
            let why = "say when: give `cron` or `every`";
            Err(Failure::field(Code::MissingField, "/cron", why))
        }
    }
}

fn misfire_of(request: &ScheduleRequest) -> Result<QueueMisfire, Failure> {
    let misfire = request.misfire.unwrap_or_default();
    match (misfire, request.misfire_limit) {
        (Misfire::All, Some(limit)) if !(1..=MOST_MISSED).contains(&limit) => {
            let why = format!("{limit} is not possible: take from 1 to {MOST_MISSED}");
            Err(invalid("/misfire_limit", why))
        }
        (Misfire::All, limit) => {
            Ok(QueueMisfire::All { limit: limit.unwrap_or(DEFAULT_MISSED) as usize })
        }
        (_, Some(_)) => {
            Err(invalid("/misfire_limit", "this goes with `\"misfire\": \"all\"` only"))
        }
        (Misfire::Skip, None) => Ok(QueueMisfire::Skip),
        (Misfire::Once, None) => Ok(QueueMisfire::Once),
    }
}

fn new_schedule(app: &App, name: String, request: ScheduleRequest) -> Result<NewSchedule, Failure> {
    if !is_name(&request.queue) {
        let why = format!("this is not possible as the name of a queue: {NAME_RULE}");
        return Err(invalid("/queue", why));
    }
    if request.key.as_deref() == Some("") {
        return Err(invalid("/key", "an empty key is not possible: leave it out"));
    }
    let timing = timing_of(&request)?;
    let misfire = misfire_of(&request)?;
    let parcel = Parcel {
        payload: request.payload,
        text: request.text,
        base64: request.base64,
        headers: request.headers,
    };
    let (payload, headers) = parcel.open(app.queue_limits().payload)?;
    let mut job = NewJob::new(request.queue, payload);
    job.headers = headers;
    job.when = When::After(request.delay.unwrap_or_default().0);
    job.key = request.key;
    job.on_conflict = request.on_conflict.unwrap_or_default().into();
    let (priority, max_attempts) = (request.priority, request.max_attempts);
    Traits { priority, max_attempts, retry: request.retry, group: request.group }
        .give_to(&mut job)?;
    let mut schedule = NewSchedule::new(name, timing, job).misfire(misfire);
    if let Some(grace) = request.grace {
        schedule = schedule.grace(grace.0);
    }
    Ok(schedule)
}

fn shown(schedule: tickwheel_queue::Schedule) -> Schedule {
    let job = schedule.job;
    let (cron, timezone, every) = match &schedule.timing {
        Timing::Cron(cron) => {
            let zone = cron.time_zone().iana_name().unwrap_or("UTC").to_owned();
            (Some(cron.expression().to_owned()), Some(zone), None)
        }
        Timing::Every(period) => (None, None, Some(Delay(*period))),
    };
    let (misfire, misfire_limit) = match schedule.misfire {
        QueueMisfire::Skip => (Misfire::Skip, None),
        QueueMisfire::Once => (Misfire::Once, None),
        QueueMisfire::All { limit } => (Misfire::All, Some(limit as u32)),
    };
    let (payload, text, base64) = shown_content(content_of(&job.payload, &job.headers));
    let delay = match job.when {
        When::After(delay) => Some(Delay(delay)).filter(|delay| !delay.0.is_zero()),
        When::At(_) => None,
    };
    Schedule {
        name: schedule.name,
        queue: job.queue,
        cron,
        timezone,
        every,
        misfire,
        misfire_limit,
        payload,
        text,
        base64,
        delay,
        on_conflict: job.key.as_ref().map(|_| job.on_conflict.into()),
        key: job.key,
        priority: job.priority,
        headers: headers_of(job.headers),
        max_attempts: job.max_attempts,
        retry: job.retry.as_ref().map(Into::into),
        group: job.group,
        grace: Delay(schedule.grace),
        paused: schedule.paused,
        fired: schedule.fired,
        problem: schedule.problem,
        created: rfc3339(schedule.created),
        created_ms: schedule.created.as_millis(),
        last: schedule.last.map(rfc3339),
        last_ms: schedule.last.map(Time::as_millis),
        next: schedule.next.map(rfc3339),
        next_ms: schedule.next.map(Time::as_millis),
    }
}

/// A schedule that is there for these queues.
async fn find(queues: &Queues, name: &str) -> Result<tickwheel_queue::Schedule, Failure> {
    let found = queues.schedule(name).await?;
    found.ok_or_else(|| Error::NoSuchSchedule(name.to_owned()).into())
}

/// See all schedules.
#[utoipa::path(
    get, path = "/v1/schedules", tag = "schedules", operation_id = "listSchedules",
    responses((status = 200, description = "The schedules, by name", body = ScheduleList))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<ScheduleList>, Failure> {
    let schedules = app.queues_for(&caller, Scope::Read)?.schedules().await?;
    Ok(Json(ScheduleList { schedules: schedules.into_iter().map(shown).collect() }))
}

/// Add a schedule, or replace it as a whole.
///
/// One that has the same timing as before goes on where it was.
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
    let schedule = new_schedule(&app, name.clone(), request)?;
    caller.may(Scope::Admin, &schedule.job.queue)?;
    let put = queues.put_schedule(schedule).await?;
    let status = if put.replaced { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(shown(find(&queues, &name).await?))))
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
    Ok(Json(shown(find(&queues, &name).await?)))
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
    Ok(Json(shown(found)))
}

/// See the coming times of a schedule.
#[utoipa::path(
    get, path = "/v1/schedules/{name}/next", tag = "schedules", operation_id = "nextRuns",
    params(("n" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "So many times; 5 if this is not given")),
    responses((status = 200, description = "The times, the nearest first", body = NextRuns))
)]
pub(crate) async fn next(
    State(app): State<App>,
    caller: Caller,
    ScheduleName(name): ScheduleName,
    params: Params,
) -> Result<Json<NextRuns>, Failure> {
    params.only(&["n"])?;
    let times = params.number("n", 1, 1_000)?.unwrap_or(5);
    let times = app.queues_for(&caller, Scope::Read)?.next_times(name, times).await?;
    let run = |time| NextRun { due: rfc3339(time), due_ms: time.as_millis() };
    Ok(Json(NextRuns { next: times.into_iter().map(run).collect() }))
}

/// Hold a schedule back.
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
    Ok(Json(shown(find(&queues, &name).await?)))
}

/// Let a schedule go on.
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
    Ok(Json(shown(find(&queues, &name).await?)))
}
