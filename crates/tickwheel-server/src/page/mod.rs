//! The dashboard: what a browser gets at `/`.
//!
//! Handlers read and change things through the same functions as the API, with the same checks of
//! scopes, and `tickwheel-page` turns the outcome into HTML.
//!
//! | file | what it serves |
//! |---|---|
//! | `visitor` | who visits: cookies, preferences, and requests of other sites, which are refused |
//! | `session` | signing in and out, preferences, assets |
//! | `form` | bodies of forms |
//! | `answer` | pages, redirects, problems, and the audit log |
//! | `overview` | overview, wheel, and the data of charts and the live view |
//! | `queues`, `jobs`, `bulk`, `put`, `schedules`, `targets` | the views of that name |
//!
//! Ground rules:
//! * A change is a POST of a form from a page of this origin, answered with a redirect, and logged
//!   for audit with the token that made it.
//! * The cookie holds the token itself, so a removed token loses access at its next request. The
//!   API does not accept the cookie.
//! * Nothing that a job carries is ever served as a type that a browser executes.

mod answer;
mod bulk;
mod form;
mod jobs;
mod overview;
mod put;
mod queues;
mod schedules;
mod session;
mod targets;
mod visitor;

use axum::Router;
use axum::routing::{get, post};

use crate::app::App;

pub(crate) use answer::{protect, write_problem};
pub(crate) use visitor::{Preferences, admit, admit_cookie, token_of};

/// The first segments of the paths that belong to the dashboard.
const SECTIONS: [&str; 13] = [
    "",
    "assets",
    "errors",
    "jobs",
    "login",
    "logout",
    "page",
    "preferences",
    "put",
    "queues",
    "schedules",
    "targets",
    "wheel",
];

/// Whether a path belongs to the dashboard.
pub(crate) fn owns(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    path.starts_with('/') && SECTIONS.contains(&first)
}

/// The routes of the dashboard.
pub(crate) fn router() -> Router<App> {
    Router::new()
        .route("/", get(overview::index))
        .route("/wheel", get(overview::wheel))
        .route("/page/live", get(overview::live))
        .route("/page/history", get(overview::history))
        .route("/page/wheel", get(overview::wheel_data))
        .route("/queues", get(queues::list))
        .route("/queues/{queue}", get(queues::show))
        .route("/queues/{queue}/confirm", get(queues::confirm))
        .route("/queues/{queue}/settings", post(queues::settings))
        .route("/queues/{queue}/groups", post(queues::group))
        .route("/queues/{queue}/{action}", post(queues::act))
        .route("/jobs", get(jobs::list))
        .route("/errors", get(jobs::errors))
        .route("/jobs/bulk", get(bulk::ask_by_address).post(bulk::ask))
        .route("/jobs/bulk/run", post(bulk::run))
        .route("/jobs/{id}", get(jobs::show))
        .route("/jobs/{id}/payload", get(jobs::payload))
        .route("/jobs/{id}/{action}", post(jobs::act))
        .route("/put", get(put::form).post(put::put))
        .route("/put/preview", post(put::preview))
        .route("/schedules", get(schedules::list).post(schedules::put))
        .route("/schedules/check", get(schedules::check))
        .route("/schedules/{name}/confirm", get(schedules::confirm))
        .route("/schedules/{name}/{action}", post(schedules::act))
        .route("/targets", get(targets::list))
        .route("/targets/{target}/{action}", post(targets::act))
        .route("/login", get(session::login_form).post(session::login))
        .route("/logout", post(session::logout))
        .route("/preferences", post(session::preferences))
        .route("/assets/{version}/{name}", get(session::asset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_does_not_belong_to_the_dashboard() {
        for path in ["/", "/queues/mail", "/jobs", "/page/live", "/assets/x/page.css"] {
            assert!(owns(path), "{path}");
        }
        for path in ["/v1/queues", "/metrics", "/healthz", "/docs", "/openapi.json", "", "queues"] {
            assert!(!owns(path), "{path}");
        }
    }
}
