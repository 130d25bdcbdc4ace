//! The routes. The description of each route is at its handler; parts that all routes share are
//! added in [`openapi`](crate::openapi).

mod batch;
pub(crate) mod bulk;
mod clock;
mod cluster;
mod events;
pub(crate) mod groups;
pub(crate) mod insight;
pub(crate) mod jobs;
pub(crate) mod queues;
pub(crate) mod schedules;
mod system;
pub(crate) mod targets;
pub(crate) mod worker;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::{Code, JSON_TYPE};
use crate::app::App;
use crate::front::{front, no_such_page, wrong_method};
use crate::problem::Failure;

/// The approximate bytes of a small item in an answer.
const ITEM: usize = 192;

/// Answers with JSON of about `count` items. The buffer has room for them from the start, because
/// growing it would copy it repeatedly.
fn json(value: &impl Serialize, count: usize) -> Result<Response, Failure> {
    let mut text = Vec::with_capacity((count + 1) * ITEM);
    let failure = |error| Failure::new(Code::Internal, format!("no answer can be made: {error}"));
    serde_json::to_writer(&mut text, value).map_err(failure)?;
    Ok(([(CONTENT_TYPE, JSON_TYPE)], text).into_response())
}

/// All routes, with their descriptions.
pub(crate) fn all() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(crate::openapi::head())
        .routes(routes!(jobs::put, jobs::list))
        .routes(routes!(jobs::get_by_id, jobs::cancel_by_id))
        .routes(routes!(jobs::get_by_key, jobs::cancel_by_key))
        .routes(routes!(jobs::find_ids))
        .routes(routes!(jobs::reschedule_by_id))
        .routes(routes!(jobs::reschedule_by_key))
        .routes(routes!(worker::reserve))
        .routes(routes!(worker::ack))
        .routes(routes!(worker::fail))
        .routes(routes!(worker::extend))
        .routes(routes!(worker::release))
        .routes(routes!(worker::kick))
        .routes(routes!(batch::put))
        .routes(routes!(batch::ack))
        .routes(routes!(batch::fail))
        .routes(routes!(batch::extend))
        .routes(routes!(batch::release))
        .routes(routes!(batch::cancel))
        .routes(routes!(batch::reschedule))
        .routes(routes!(batch::kick))
        .routes(routes!(batch::import))
        .routes(routes!(bulk::all_errors))
        .routes(routes!(bulk::errors))
        .routes(routes!(bulk::change))
        .routes(routes!(queues::list))
        .routes(routes!(queues::get, queues::remove))
        .routes(routes!(queues::put_settings, queues::patch_settings))
        .routes(routes!(groups::list))
        .routes(routes!(groups::patch))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(queues::kick))
        .routes(routes!(queues::remove_finished))
        .routes(routes!(queues::cancel_waiting))
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::put, schedules::get, schedules::delete))
        .routes(routes!(schedules::next))
        .routes(routes!(schedules::pause))
        .routes(routes!(schedules::resume))
        .routes(routes!(targets::list))
        .routes(routes!(targets::put, targets::patch, targets::get, targets::remove))
        .routes(routes!(targets::pause))
        .routes(routes!(targets::resume))
        .routes(routes!(targets::rotate))
        .routes(routes!(targets::test))
        .routes(routes!(targets::events))
        .routes(routes!(events::all))
        .routes(routes!(events::of_queue))
        .routes(routes!(clock::get))
        .routes(routes!(clock::advance))
        .routes(routes!(cluster::get))
        .routes(routes!(cluster::hand_over))
        .routes(routes!(cluster::drain))
        .routes(routes!(cluster::recover))
        .routes(routes!(insight::overview))
        .routes(routes!(insight::history))
        .routes(routes!(insight::wheel))
        .routes(routes!(insight::live))
        .routes(routes!(system::stats))
        .routes(routes!(system::backup))
        .routes(routes!(system::healthz))
        .routes(routes!(system::readyz))
        .routes(routes!(system::metrics))
        .routes(routes!(system::openapi))
        .routes(routes!(system::docs))
        .routes(routes!(system::problem))
        // The earlier names of two routes, which are no longer described.
        .route("/v1/queues/{queue}/purge", post(queues::remove_finished))
        .route("/v1/queues/{queue}/drain", post(queues::cancel_waiting))
}

/// Returns the service: the routes with the middleware around them.
pub(crate) fn service(router: Router<App>, app: App) -> Router {
    let index = Router::new().route("/", get(system::index));
    router
        .merge(if app.config().page { crate::page::router() } else { index })
        .fallback(no_such_page)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(app.clone(), front))
        .with_state(app)
}
