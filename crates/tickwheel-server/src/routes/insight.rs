//! What operators see: overview, history, timing wheel, and all of it live.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use tickwheel_page::Language;
use utoipa::IntoParams;

use super::events::stream;
use crate::api::{History, HistoryWindow, Overview, Wheel};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::QueueName;
use crate::insight;
use crate::problem::Failure;
use crate::query::{Params, query};

/// See everything at one glance.
///
/// Health in plain sentences, totals, and for each queue its rates, depth, lateness, oldest ready
/// job, workers, and when its jobs become due. What is not known is `null`. A token that is limited
/// to some queues sees those.
#[utoipa::path(
    get, path = "/v1/overview", tag = "insight", operation_id = "getOverview",
    responses((status = 200, description = "The overview", body = Overview))
)]
pub(crate) async fn overview(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<Overview>, Failure> {
    Ok(Json(insight::overview(&app, &caller, insight::MAX_QUEUES, Language::English).await?))
}

/// Which history is shown.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryQuery {
    /// How far back: `15m` (the default) or `24h`
    window: Option<HistoryWindow>,
    /// The queue; defaults to all that the token includes
    #[param(value_type = Option<String>, pattern = "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$")]
    queue: Option<QueueName>,
}
query!(HistoryQuery { window, queue });

/// See what happened in the last minutes or hours.
///
/// The server keeps a point for each second of the last 15 minutes, and for each minute of the last
/// 24 hours, for all queues together and for the 50 in which most happens. The history begins with
/// the start of the server.
#[utoipa::path(
    get, path = "/v1/history", tag = "insight", operation_id = "getHistory",
    params(HistoryQuery),
    responses(
        (status = 200, description = "The history, in columns", body = History),
        (status = 404, description = "There is no such queue"),
    )
)]
pub(crate) async fn history(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<HistoryQuery>,
) -> Result<Json<History>, Failure> {
    let queue = query.queue.map(|queue| queue.0);
    Ok(Json(insight::history(&app, &caller, query.window.unwrap_or_default(), queue).await?))
}

/// See the timing wheel.
///
/// Its levels, the position of the hand, and for each slot that holds something the number of jobs
/// that become ready and of leases that expire. Only jobs that are due within the horizon are on the
/// wheel; the others are counted in `beyond`.
#[utoipa::path(
    get, path = "/v1/wheel", tag = "insight", operation_id = "getWheel",
    responses((status = 200, description = "The wheel, as counts", body = Wheel))
)]
pub(crate) async fn wheel(State(app): State<App>, caller: Caller) -> Result<Json<Wheel>, Failure> {
    Ok(Json(insight::wheel(&app, &caller).await?))
}

/// Follow everything at one glance.
///
/// Server-sent events, two in a second, named `live`. The data is a `Live`: overview, the newest
/// point of the history, and the timing wheel. The stream ends when the service does, and when the
/// token is removed.
#[utoipa::path(
    get, path = "/v1/live", tag = "insight", operation_id = "followLive",
    responses((status = 200, description = "The events", body = String, content_type = "text/event-stream"))
)]
pub(crate) async fn live(State(app): State<App>, caller: Caller) -> Result<Response, Failure> {
    live_in(app, &caller, Language::English)
}

/// Follows everything at one glance, with the sentences about health in a language.
pub(crate) fn live_in(app: App, caller: &Caller, language: Language) -> Result<Response, Failure> {
    Ok(stream(insight::live::stream(app, caller, language)?))
}
