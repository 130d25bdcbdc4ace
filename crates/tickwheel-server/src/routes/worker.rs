//! Workers: reserve jobs and report their outcome.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Json};
use tickwheel_queue::{Error, Lease, Offer, Retry, When};

use crate::api::{
    AckRequest, Acked, Code, Delay, Deliveries, ExtendRequest, Extended, FailRequest, Failed,
    Kicked, LeaseToken, ReleaseRequest, Released, ReserveRequest,
};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Body, OptionalBody, PathId, QueueName};
use crate::http::{Visit, answer};
use crate::insight::WorkerName;
use crate::problem::Failure;
use crate::telemetry::{Outcome, Receiver};
use crate::tokens::Scope;
use crate::wire::{IntoWire, result_of, rfc3339};

const MAX_JOBS: u32 = 1_000;
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const LONGEST_LEASE: Duration = Duration::from_secs(7 * 24 * 3_600);
const LONGEST_ERROR: usize = 4_096;

/// Reserve jobs.
///
/// If no job is ready, the answer waits for one, up to `wait`, and then has no deliveries. If the
/// client disconnects while it waits, its jobs return to their queue.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/reserve", tag = "workers", operation_id = "reserveJobs",
    request_body(content = Option<ReserveRequest>),
    responses((status = 200, description = "The jobs, maybe none", body = Deliveries))
)]
pub(crate) async fn reserve(
    State(app): State<App>,
    caller: Caller,
    QueueName(queue): QueueName,
    Extension(visit): Extension<Visit>,
    OptionalBody(request): OptionalBody<ReserveRequest>,
) -> Result<Response, Failure> {
    caller.may(Scope::Consume, &queue)?;
    let limit = request.limit.unwrap_or(1);
    if !(1..=MAX_JOBS).contains(&limit) {
        let why = format!("limit must be between 1 and {MAX_JOBS}, got {limit}");
        return Err(Failure::field(Code::InvalidField, "/limit", why));
    }
    let lease = request.lease.map(check_lease).transpose()?;
    let wait = request.wait.unwrap_or_default();
    if wait.0 > LONGEST_WAIT {
        let why =
            format!("wait must be at most 60s, got {wait}: repeat the request to wait longer");
        return Err(Failure::field(Code::InvalidField, "/wait", why));
    }
    let mut queues = app.queues_for(&caller, Scope::Consume)?;
    let name = match &request.worker {
        Some(name) => WorkerName::Given(name),
        None => WorkerName::Address(caller.id(), visit.address().ip()),
    };
    app.insight().workers.note(&queue, name, wait.0);
    if let Some(worker) = request.worker {
        queues = queues.as_worker(worker);
    }
    let charge = answer::Charge::new(&app);
    let admit = {
        let charge = Arc::clone(&charge);
        move |offer: &Offer<'_>| charge.admits(offer)
    };
    let reserved = queues.reserve_while(queue, limit as usize, lease, wait.0, admit);
    let deliveries = tokio::select! {
        biased;
        deliveries = reserved => match deliveries {
            Err(Error::NotAdmitted) => return Err(app.memory().exhausted()),
            deliveries => deliveries?,
        },
        // Jobs that are reserved after this point return to their queue.
        () = app.shutdown().begun(), if !wait.0.is_zero() => Vec::new(),
    };
    app.telemetry().delivered(&deliveries, Receiver::Worker);
    answer::deliveries(&caller, deliveries, charge)
}

pub(super) fn check_lease(lease: Delay) -> Result<Duration, Failure> {
    if lease.0.is_zero() || lease.0 > LONGEST_LEASE {
        let why = format!("lease must be between 1ms and 1w, got {lease}");
        return Err(Failure::field(Code::InvalidField, "/lease", why));
    }
    Ok(lease.0)
}

pub(super) fn lease_of(id: tickwheel_queue::JobId, token: LeaseToken) -> Lease {
    Lease { id, token: token.0 }
}

pub(super) fn retry_of(delay: Option<Delay>, dead: bool) -> Result<Retry, Failure> {
    match (delay, dead) {
        (Some(_), true) => {
            let why = "give only one of `delay` and `dead`";
            Err(Failure::field(Code::InvalidField, "/dead", why))
        }
        (Some(delay), false) => Ok(Retry::After(delay.0)),
        (None, true) => Ok(Retry::Never),
        (None, false) => Ok(Retry::ByPolicy),
    }
}

pub(super) fn check_error(error: String) -> Result<String, Failure> {
    if error.len() > LONGEST_ERROR {
        let why = format!("{} bytes are over the limit of {LONGEST_ERROR}", error.len());
        return Err(Failure::field(Code::InvalidField, "/error", why));
    }
    Ok(error)
}

pub(super) fn when_released(delay: Option<Delay>) -> When {
    When::After(delay.unwrap_or_default().0)
}

/// Acknowledge a job.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/ack", tag = "workers", operation_id = "ackJob",
    request_body = AckRequest,
    responses(
        (status = 200, description = "It is done", body = Acked),
        (status = 409, description = "The lease is over"),
    )
)]
pub(crate) async fn ack(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Body(request): Body<AckRequest>,
) -> Result<Json<Acked>, Failure> {
    let queues = app.queues_for(&caller, Scope::Consume)?;
    let lease = lease_of(id, request.token);
    match result_of(request.result)? {
        Some(result) => queues.ack_with_result(lease, result).await?,
        None => queues.ack(lease).await?,
    }
    app.telemetry().ended(lease, &Outcome::Acked);
    Ok(Json(Acked::default()))
}

/// Report a failed attempt.
///
/// The job is retried as its policy says, or after `delay`. It dies with `dead`, or if this was its
/// last attempt.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/fail", tag = "workers", operation_id = "failJob",
    request_body = FailRequest,
    responses(
        (status = 200, description = "What becomes of it", body = Failed),
        (status = 409, description = "The lease is over"),
    )
)]
pub(crate) async fn fail(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Body(request): Body<FailRequest>,
) -> Result<Json<Failed>, Failure> {
    let queues = app.queues_for(&caller, Scope::Consume)?;
    let retry = retry_of(request.delay, request.dead)?;
    let error = check_error(request.error)?;
    let lease = lease_of(id, request.token);
    let traced = app.telemetry().is_on().then(|| error.clone());
    let state = queues.fail(lease, error, retry).await?;
    if let Some(error) = traced {
        app.telemetry().ended(lease, &Outcome::Failed(error, Some(state)));
    }
    Ok(Json(Failed { state: state.into_wire() }))
}

/// Extend the lease of a job.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/extend", tag = "workers", operation_id = "extendLease",
    request_body = ExtendRequest,
    responses(
        (status = 200, description = "When the lease ends now", body = Extended),
        (status = 409, description = "The lease is over"),
    )
)]
pub(crate) async fn extend(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Body(request): Body<ExtendRequest>,
) -> Result<Json<Extended>, Failure> {
    let queues = app.queues_for(&caller, Scope::Consume)?;
    let (lease, length) = (lease_of(id, request.token), check_lease(request.lease)?);
    let until = queues.extend(lease, length).await?;
    app.telemetry().extended(lease, length);
    Ok(Json(Extended { until: rfc3339(until), until_ms: until.as_millis() }))
}

/// Release a job. This does not count as an attempt.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/release", tag = "workers", operation_id = "releaseJob",
    request_body = ReleaseRequest,
    responses(
        (status = 200, description = "It waits again", body = Released),
        (status = 409, description = "The lease is over"),
    )
)]
pub(crate) async fn release(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Body(request): Body<ReleaseRequest>,
) -> Result<Json<Released>, Failure> {
    let queues = app.queues_for(&caller, Scope::Consume)?;
    let lease = lease_of(id, request.token);
    queues.release(lease, when_released(request.delay)).await?;
    app.telemetry().ended(lease, &Outcome::Released);
    Ok(Json(Released::default()))
}

/// Make a dead job ready again.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/kick", tag = "jobs", operation_id = "kickJob",
    responses(
        (status = 200, description = "It is ready again", body = Kicked),
        (status = 409, description = "It is not dead, or another job has its key"),
    )
)]
pub(crate) async fn kick(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
) -> Result<Json<Kicked>, Failure> {
    app.queues_for(&caller, Scope::Admin)?.kick(id).await?;
    Ok(Json(Kicked::default()))
}
