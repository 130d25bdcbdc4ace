//! The overview, the wheel, and the data of charts and the live view.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use tickwheel_page::{OverviewView, WheelView};

use super::answer::html;
use super::visitor::Visitor;
use crate::app::App;
use crate::auth::Caller;
use crate::insight;
use crate::problem::Failure;
use crate::query::Params;
use crate::routes;

pub(super) async fn index(State(app): State<App>, visitor: Visitor) -> Result<Response, Failure> {
    let Visitor { caller, frame, fleet } = visitor;
    let cluster = app.cluster();
    let overview = match fleet {
        Some(fleet) => fleet.get("/v1/overview").await?,
        None => insight::overview(&app, &caller, insight::MAX_QUEUES, frame.language).await?,
    };
    Ok(html(OverviewView::new(&frame, &overview).cluster(cluster.as_ref()).html()))
}

pub(super) async fn wheel(State(app): State<App>, visitor: Visitor) -> Result<Response, Failure> {
    let wheel = match visitor.fleet {
        Some(fleet) => fleet.get("/v1/wheel").await?,
        None => routes::insight::wheel(State(app), visitor.caller).await?.0,
    };
    Ok(html(WheelView::new(&visitor.frame, &wheel).html()))
}

/// Serves the live view to scripts: as `/v1/live`, by the cookie and in the visitor's language.
pub(super) async fn live(State(app): State<App>, visitor: Visitor) -> Result<Response, Failure> {
    routes::insight::live_in(app, &visitor.caller, visitor.frame.language)
}

/// Serves the columns of the charts.
pub(super) async fn history(
    State(app): State<App>,
    caller: Caller,
    params: Params<routes::insight::HistoryQuery>,
) -> Result<Response, Failure> {
    Ok(routes::insight::history(State(app), caller, params).await?.into_response())
}

/// Serves the counts of the wheel.
pub(super) async fn wheel_data(
    State(app): State<App>,
    caller: Caller,
) -> Result<Response, Failure> {
    Ok(routes::insight::wheel(State(app), caller).await?.into_response())
}
