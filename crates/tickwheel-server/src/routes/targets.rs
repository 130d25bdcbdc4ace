//! Push targets. Every route requires the scope `admin` for all queues, since queues share targets;
//! looking at them requires `read`.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::api::{
    Code, RotateRequest, Target, TargetList, TargetPatch, TargetSettings, TargetTest,
};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Body, OptionalBody, TargetName};
use crate::problem::Failure;
use crate::push::watch::watch;
use crate::tokens::Scope;

/// Refuses a caller without the scope for all queues.
fn allow(caller: &Caller, scope: Scope) -> Result<(), Failure> {
    caller.has(scope)?;
    if caller.access().is_limited() {
        let why = "targets require a token for all queues, since queues share targets";
        return Err(Failure::new(Code::Forbidden, why));
    }
    Ok(())
}

/// See all targets.
#[utoipa::path(
    get, path = "/v1/targets", tag = "targets", operation_id = "listTargets",
    responses((status = 200, description = "The targets, by name", body = TargetList))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<TargetList>, Failure> {
    allow(&caller, Scope::Read)?;
    Ok(Json(TargetList { targets: app.push().list_with_responses() }))
}

/// Add a target, or replace its settings as a whole.
///
/// The answer that adds a target has its signing secret, once. Replacing the settings keeps the
/// secrets, the state and the rate that was used.
#[utoipa::path(
    put, path = "/v1/targets/{target}", tag = "targets", operation_id = "putTarget",
    request_body = TargetSettings,
    responses(
        (status = 200, description = "Its settings are replaced", body = Target),
        (status = 201, description = "It is new", body = Target),
    )
)]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    TargetName(name): TargetName,
    Body(settings): Body<TargetSettings>,
) -> Result<(StatusCode, Json<Target>), Failure> {
    allow(&caller, Scope::Admin)?;
    let (target, is_new) = app.push().put(&name, settings).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(target)))
}

/// Change some settings of a target.
#[utoipa::path(
    patch, path = "/v1/targets/{target}", tag = "targets", operation_id = "patchTarget",
    request_body = TargetPatch,
    responses((status = 200, description = "The target as it is now", body = Target))
)]
pub(crate) async fn patch(
    State(app): State<App>,
    caller: Caller,
    TargetName(name): TargetName,
    Body(patch): Body<TargetPatch>,
) -> Result<Json<Target>, Failure> {
    allow(&caller, Scope::Admin)?;
    Ok(Json(app.push().patch(&name, patch).await?))
}

/// See a target.
#[utoipa::path(
    get, path = "/v1/targets/{target}", tag = "targets", operation_id = "getTarget",
    responses((status = 200, description = "The target", body = Target))
)]
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    TargetName(name): TargetName,
) -> Result<Json<Target>, Failure> {
    allow(&caller, Scope::Read)?;
    Ok(Json(app.push().show(&name)?))
}

/// Remove a target that no queue names.
#[utoipa::path(
    delete, path = "/v1/targets/{target}", tag = "targets", operation_id = "removeTarget",
    responses(
        (status = 200, description = "The target that is gone", body = Target),
        (status = 409, description = "A queue names it"),
    )
)]
pub(crate) async fn remove(
    State(app): State<App>,
    caller: Caller,
    TargetName(name): TargetName,
) -> Result<Json<Target>, Failure> {
    allow(&caller, Scope::Admin)?;
    Ok(Json(app.push().remove(&name).await?))
}

/// Pause deliveries to a target. Its jobs stay in their queues.
#[utoipa::path(
    post, path = "/v1/targets/{target}/pause", tag = "targets", operation_id = "pauseTarget",
    responses((status = 200, description = "The target as it is now", body = Target))
)]
pub(crate) async fn pause(
    State(app): State<App>,
    caller: Caller,
    TargetName(name): TargetName,
) -> Result<Json<Target>, Failure> {
    allow(&caller, Scope::Admin)?;
    Ok(Json(app.push().set_paused(&name, true).await?))
}

/// Resume deliveries to a target that is paused, held or stopped.
#[utoipa::path(
    post, path = "/v1/targets/{target}/resume", tag = "targets", operation_id = "resumeTarget",
    responses((status = 200, description = "The target as it is now", body = Target))
)]
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    TargetName(name): TargetName,
) -> Result<Json<Target>, Failure> {
    allow(&caller, Scope::Admin)?;
    Ok(Json(app.push().set_paused(&name, false).await?))
}

/// Add a signing secret. The old ones sign beside it for a while.
///
/// The answer has the new secret, once.
#[utoipa::path(
    post, path = "/v1/targets/{target}/rotate", tag = "targets", operation_id = "rotateTarget",
    request_body(content = Option<RotateRequest>),
    responses((status = 200, description = "The target with its new secret", body = Target))
)]
pub(crate) async fn rotate(
    State(app): State<App>,
    caller: Caller,
    TargetName(name): TargetName,
    OptionalBody(request): OptionalBody<RotateRequest>,
) -> Result<Json<Target>, Failure> {
    allow(&caller, Scope::Admin)?;
    Ok(Json(app.push().rotate(&name, &request).await?))
}

/// Follow the states of all targets.
///
/// Server-sent events: the stream begins with an event for each target, and has one for each change
/// of a state after that. The name of an event is the state, or `removed`; the data is a
/// `TargetEvent`. A client that reconnects gets all states again.
#[utoipa::path(
    get, path = "/v1/target-events", tag = "targets", operation_id = "followTargets",
    responses((status = 200, description = "The events", body = String, content_type = "text/event-stream"))
)]
pub(crate) async fn events(State(app): State<App>, caller: Caller) -> Result<Response, Failure> {
    allow(&caller, Scope::Read)?;
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        // Buffering proxies would delay events.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let body = watch(app, caller.access().clone());
    Ok((headers, axum::body::Body::new(body)).into_response())
}

/// Send one signed request to a target, and see request and response.
///
/// The request counts towards the target's rate. It changes neither jobs nor the state of the
/// target.
#[utoipa::path(
    post, path = "/v1/targets/{target}/test", tag = "targets", operation_id = "testTarget",
    responses((status = 200, description = "The request and its answer", body = TargetTest))
)]
pub(crate) async fn test(
    State(app): State<App>,
    caller: Caller,
    TargetName(name): TargetName,
) -> Result<Json<TargetTest>, Failure> {
    allow(&caller, Scope::Admin)?;
    Ok(Json(app.push().test(&name).await?))
}
