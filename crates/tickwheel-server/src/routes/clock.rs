//! The clock of the server.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;

use crate::api::{AdvanceRequest, Clock, Code, Delay};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::Body;
use crate::problem::Failure;
use crate::tokens::Scope;
use crate::wire::rfc3339;

const MAX_ADVANCE: Duration = Duration::from_secs(366 * 24 * 3_600);

fn shown(app: &App) -> Json<Clock> {
    let (now, manual) = (app.now(), app.manual_time().is_some());
    Json(Clock { now: rfc3339(now), now_ms: now.as_millis(), manual })
}

/// See the time of the server.
#[utoipa::path(
    get, path = "/v1/clock", tag = "system", operation_id = "getClock",
    responses((status = 200, description = "The time", body = Clock))
)]
pub(crate) async fn get(State(app): State<App>, caller: Caller) -> Result<Json<Clock>, Failure> {
    caller.has(Scope::Read)?;
    Ok(shown(&app))
}

/// Advance the manual clock of a server that was started with `--clock manual`.
///
/// The answer comes when everything that is due at the new time is done: jobs are ready, leases have
/// expired, schedules have put their jobs. Occurrences of a schedule before the new time count as
/// missed and follow its misfire policy; to see each of them, advance in steps.
#[utoipa::path(
    post, path = "/v1/clock/advance", tag = "system", operation_id = "advanceClock",
    request_body = AdvanceRequest,
    responses(
        (status = 200, description = "The new time", body = Clock),
        (status = 409, description = "The server uses real time"),
    )
)]
pub(crate) async fn advance(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<AdvanceRequest>,
) -> Result<Json<Clock>, Failure> {
    caller.has(Scope::Admin)?;
    if caller.access().is_limited() {
        let why = "the clock concerns all queues, and this token is restricted to some";
        return Err(Failure::new(Code::Forbidden, why));
    }
    if !(Duration::from_millis(1)..=MAX_ADVANCE).contains(&request.by.0) {
        let (by, max) = (request.by, Delay(MAX_ADVANCE));
        let why = format!("by must be between 1ms and {max}, got {by}");
        return Err(Failure::field(Code::InvalidField, "/by", why));
    }
    let Some(time) = app.manual_time().map(Arc::clone) else {
        let why = "the server uses real time: start it with `--clock manual` to advance its clock";
        return Err(Failure::new(Code::WrongState, why));
    };
    // A client that goes away must not leave the clock half-way.
    let queues = app.queues().clone();
    let advancing = tokio::spawn(async move { time.advance(request.by.0, &queues).await });
    let failure = |error: tokio::task::JoinError| Failure::new(Code::Internal, error.to_string());
    advancing.await.map_err(failure)??;
    Ok(shown(&app))
}
