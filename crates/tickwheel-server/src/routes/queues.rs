//! Queues as a whole.

use axum::Json;
use axum::extract::State;
use tickwheel_queue::{Error, QueueInfo};

use crate::api::{
    Count, KickRequest, PurgeRequest, Queue, QueueList, QueueSettings, QueueSettingsPatch,
};
use crate::app::App;
use crate::auth::Caller;
use crate::convert::settings_of;
use crate::extract::{Body, OptionalBody, QueueName, is_name};
use crate::problem::Failure;
use crate::tokens::Scope;

/// The queues that a caller may see; never those that are no client's.
pub(crate) async fn seen_by(app: &App, caller: &Caller) -> Result<Vec<QueueInfo>, Failure> {
    let mut queues = app.queues().queues().await?;
    queues.retain(|queue| is_name(&queue.name) && caller.sees(&queue.name));
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
    caller.may_somewhere(Scope::Read)?;
    let queues = seen_by(&app, &caller).await?;
    Ok(Json(QueueList { queues: queues.iter().map(Into::into).collect() }))
}

async fn info(app: &App, name: String) -> Result<QueueInfo, Failure> {
    let found = app.queues().queue(name.clone()).await?;
    found.ok_or_else(|| Error::NoSuchQueue(name).into())
}

async fn shown(app: &App, name: String) -> Result<Json<Queue>, Failure> {
    Ok(Json((&info(app, name).await?).into()))
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
    shown(&app, name).await
}

/// Set everything of a queue. What is left out gets its default.
///
/// A queue that was not there is there after this.
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
    caller.may(Scope::Admin, &name)?;
    let settings = settings_of(settings)?;
    let _alone = app.settings_lock().lock().await;
    app.queues().configure(name.clone(), settings).await?;
    shown(&app, name).await
}

/// Change some settings of a queue that is there.
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
    caller.may(Scope::Admin, &name)?;
    let _alone = app.settings_lock().lock().await;
    let current = QueueSettings::from(&info(&app, name.clone()).await?.settings);
    let settings = settings_of(patch.apply(current))?;
    app.queues().configure(name.clone(), settings).await?;
    shown(&app, name).await
}

/// Hold deliveries back.
///
/// A queue that was not there is there after this.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/pause", tag = "queues", operation_id = "pauseQueue",
    responses((status = 200, description = "The queue as it is now", body = Queue))
)]
pub(crate) async fn pause(
    State(app): State<App>,
    caller: Caller,
    QueueName(name): QueueName,
) -> Result<Json<Queue>, Failure> {
    caller.may(Scope::Admin, &name)?;
    app.queues().pause(name.clone()).await?;
    shown(&app, name).await
}

/// Deliver again.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/resume", tag = "queues", operation_id = "resumeQueue",
    responses((status = 200, description = "The queue as it is now", body = Queue))
)]
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    QueueName(name): QueueName,
) -> Result<Json<Queue>, Failure> {
    caller.may(Scope::Admin, &name)?;
    info(&app, name.clone()).await?;
    app.queues().resume(name.clone()).await?;
    shown(&app, name).await
}

/// Bring dead jobs back, the oldest first.
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
    caller.may(Scope::Admin, &name)?;
    let count = app.queues().kick_some(name, request.limit.unwrap_or(u64::MAX)).await?;
    Ok(Json(Count { count }))
}

/// Drop finished jobs.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/purge", tag = "queues", operation_id = "purgeQueue",
    request_body = PurgeRequest,
    responses((status = 200, description = "How many are gone", body = Count))
)]
pub(crate) async fn purge(
    State(app): State<App>,
    caller: Caller,
    QueueName(name): QueueName,
    Body(request): Body<PurgeRequest>,
) -> Result<Json<Count>, Failure> {
    caller.may(Scope::Admin, &name)?;
    let age = request.older_than.unwrap_or_default().as_millis();
    let before = match request.older_than {
        Some(_) => tickwheel_queue::Time::from_millis(app.now().as_millis().saturating_sub(age)),
        None => tickwheel_queue::Time::MAX,
    };
    let count = app.queues().purge(name, request.state.into(), before).await?;
    Ok(Json(Count { count }))
}

/// Cancel all jobs that wait.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/drain", tag = "queues", operation_id = "drainQueue",
    responses((status = 200, description = "How many are cancelled", body = Count))
)]
pub(crate) async fn drain(
    State(app): State<App>,
    caller: Caller,
    QueueName(name): QueueName,
) -> Result<Json<Count>, Failure> {
    caller.may(Scope::Admin, &name)?;
    let count = app.queues().drain(name).await?;
    Ok(Json(Count { count }))
}
