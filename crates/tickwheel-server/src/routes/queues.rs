//! Queues.

use axum::Json;
use axum::extract::State;
use tickwheel_queue::{Error, QueueInfo, Queues};
use utoipa::IntoParams;

use crate::api::{
    Count, KickRequest, Queue, QueueList, QueueSettings, QueueSettingsPatch, RemoveFinishedRequest,
};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Body, OptionalBody, QueueName, is_name};
use crate::problem::Failure;
use crate::puts::about_target;
use crate::query::{Flag, Params, query};
use crate::tokens::Scope;
use crate::wire::{IntoQueue, IntoWire, patch_of, settings_of};

/// Returns the queues that a caller may see, without internal ones.
pub(crate) async fn seen_by(app: &App, caller: &Caller) -> Result<Vec<QueueInfo>, Failure> {
    let mut queues = app.queues_for(caller, Scope::Read)?.queues().await?;
    queues.retain(|queue| is_name(&queue.name));
    queues.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(queues)
}

/// See all queues.
#[utoipa::path(
    get, path = "/v1/queues", tag = "queues", operation_id = "listQueues",
    responses((status = 200, description = "The queues, by name", body = QueueList))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<QueueList>, Failure> {
    let queues = seen_by(&app, &caller).await?;
    Ok(Json(QueueList { queues: queues.into_iter().map(IntoWire::into_wire).collect() }))
}

async fn info(queues: &Queues, name: String) -> Result<QueueInfo, Failure> {
    let found = queues.queue(name.clone()).await?;
    found.ok_or_else(|| Error::NoSuchQueue(name).into())
}

async fn shown(queues: &Queues, name: String) -> Result<Json<Queue>, Failure> {
    Ok(Json(info(queues, name).await?.into_wire()))
}

/// Returns the queues for a caller that may administer this one.
fn named(app: &App, caller: &Caller, name: &str) -> Result<Queues, Failure> {
    caller.may(Scope::Admin, name)?;
    app.queues_for(caller, Scope::Admin)
}

/// See a queue.
#[utoipa::path(
    get, path = "/v1/queues/{queue}", tag = "queues", operation_id = "getQueue",
    responses((status = 200, description = "The queue", body = Queue))
)]
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    QueueName(name): QueueName,
) -> Result<Json<Queue>, Failure> {
    caller.may(Scope::Read, &name)?;
    shown(&app.queues_for(&caller, Scope::Read)?, name).await
}

/// How a queue is removed.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct RemoveQuery {
    /// Whether a queue is removed that has jobs; defaults to `false`
    #[param(value_type = Option<bool>)]
    pub(crate) force: Option<Flag>,
}
query!(RemoveQuery { force });

/// Remove a queue with its settings.
///
/// A queue that has jobs, finished ones included, is removed only with `force`, and its jobs with
/// it. The count is that of its jobs.
#[utoipa::path(
    delete, path = "/v1/queues/{queue}", tag = "queues", operation_id = "removeQueue",
    params(RemoveQuery),
    responses(
        (status = 200, description = "The number of jobs that were removed with it", body = Count),
        (status = 409, description = "It has jobs, and `force` was not given"),
    )
)]
pub(crate) async fn remove(
    State(app): State<App>,
    caller: Caller,
    QueueName(name): QueueName,
    Params(query): Params<RemoveQuery>,
) -> Result<Json<Count>, Failure> {
    caller.may(Scope::Admin, &name)?;
    let force = query.force.is_some_and(|force| force.0);
    let count = app.queues().remove_queue(name, force).await?;
    app.push().queues_changed().await;
    Ok(Json(Count { count }))
}

/// Replace all settings of a queue. Omitted settings get their defaults.
///
/// A queue that does not exist is created.
#[utoipa::path(
    put, path = "/v1/queues/{queue}/settings", tag = "queues", operation_id = "putSettings",
    request_body = QueueSettings,
    responses((status = 200, description = "The queue as it is now", body = Queue))
)]
pub(crate) async fn put_settings(
    State(app): State<App>,
    caller: Caller,
    QueueName(name): QueueName,
    Body(settings): Body<QueueSettings>,
) -> Result<Json<Queue>, Failure> {
    let queues = named(&app, &caller, &name)?;
    let settings = settings_of(settings)?;
    let configured = queues.configure(name.clone(), settings).await;
    configured.map_err(|error| about_target(&app, error))?;
    app.push().queues_changed().await;
    shown(&queues, name).await
}

/// Change some settings of a queue.
///
/// A queue that does not exist is created, with defaults for the other settings.
#[utoipa::path(
    patch, path = "/v1/queues/{queue}/settings", tag = "queues", operation_id = "patchSettings",
    request_body = QueueSettingsPatch,
    responses((status = 200, description = "The queue as it is now", body = Queue))
)]
pub(crate) async fn patch_settings(
    State(app): State<App>,
    caller: Caller,
    QueueName(name): QueueName,
    Body(patch): Body<QueueSettingsPatch>,
) -> Result<Json<Queue>, Failure> {
    let queues = named(&app, &caller, &name)?;
    let patched = queues.patch_settings(name.clone(), patch_of(patch)?).await;
    patched.map_err(|error| about_target(&app, error))?;
    app.push().queues_changed().await;
    shown(&queues, name).await
}

/// Pause deliveries. Jobs can still be put.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/pause", tag = "queues", operation_id = "pauseQueue",
    responses((status = 200, description = "The queue as it is now", body = Queue))
)]
pub(crate) async fn pause(
    State(app): State<App>,
    caller: Caller,
    QueueName(name): QueueName,
) -> Result<Json<Queue>, Failure> {
    let queues = named(&app, &caller, &name)?;
    info(&queues, name.clone()).await?;
    queues.pause(name.clone()).await?;
    shown(&queues, name).await
}

/// Resume deliveries.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/resume", tag = "queues", operation_id = "resumeQueue",
    responses((status = 200, description = "The queue as it is now", body = Queue))
)]
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    QueueName(name): QueueName,
) -> Result<Json<Queue>, Failure> {
    let queues = named(&app, &caller, &name)?;
    info(&queues, name.clone()).await?;
    queues.resume(name.clone()).await?;
    shown(&queues, name).await
}

/// Make dead jobs ready again, the oldest first.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/kick", tag = "queues", operation_id = "kickQueue",
    request_body(content = Option<KickRequest>),
    responses((status = 200, description = "How many are ready again", body = Count))
)]
pub(crate) async fn kick(
    State(app): State<App>,
    caller: Caller,
    QueueName(name): QueueName,
    OptionalBody(request): OptionalBody<KickRequest>,
) -> Result<Json<Count>, Failure> {
    let queues = named(&app, &caller, &name)?;
    let count = queues.kick_some(name, request.limit.unwrap_or(u64::MAX)).await?;
    Ok(Json(Count { count }))
}

/// Remove finished jobs.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/remove-finished", tag = "queues",
    operation_id = "removeFinishedJobs",
    request_body = RemoveFinishedRequest,
    responses((status = 200, description = "How many were removed", body = Count))
)]
pub(crate) async fn remove_finished(
    State(app): State<App>,
    caller: Caller,
    QueueName(name): QueueName,
    Body(request): Body<RemoveFinishedRequest>,
) -> Result<Json<Count>, Failure> {
    let queues = named(&app, &caller, &name)?;
    let age = request.older_than.unwrap_or_default().as_millis();
    let before = match request.older_than {
        Some(_) => tickwheel_queue::Time::from_millis(app.now().as_millis().saturating_sub(age)),
        None => tickwheel_queue::Time::MAX,
    };
    let count = queues.remove_finished(name, request.state.into_queue(), before).await?;
    Ok(Json(Count { count }))
}

/// Cancel the scheduled and ready jobs.
///
/// Leased jobs are not touched.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/cancel-waiting", tag = "queues",
    operation_id = "cancelWaitingJobs",
    responses((status = 200, description = "How many were cancelled", body = Count))
)]
pub(crate) async fn cancel_waiting(
    State(app): State<App>,
    caller: Caller,
    QueueName(name): QueueName,
) -> Result<Json<Count>, Failure> {
    let queues = named(&app, &caller, &name)?;
    let count = queues.cancel_waiting(name).await?;
    Ok(Json(Count { count }))
}
