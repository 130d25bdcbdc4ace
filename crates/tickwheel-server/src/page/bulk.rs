//! Actions on many jobs: those that were selected.

use axum::extract::State;
use axum::response::Response;
use tickwheel_page::{BulkProgress, BulkView, ConfirmView};
use tickwheel_queue::JobId;

use super::answer::{audit, html, no_such_action, redirect};
use super::form::Form;
use super::jobs::filter_of;
use super::visitor::Visitor;
use crate::api::{Code, Delay};
use crate::app::App;
use crate::auth::Caller;
use crate::problem::Failure;
use crate::tokens::Scope;

/// A reload after an action begins anew.
pub(super) async fn ask_again() -> Response {
    redirect("/jobs")
}

/// Asks before something is done to the jobs of a list.
pub(super) async fn ask(
    State(_app): State<App>,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Failure> {
    let action = form.get("action");
    let ids: Vec<_> = form.all("job").map(str::to_owned).collect();
    if ids.is_empty() {
        let why = visitor.frame.language.texts().get("select_some").unwrap_or_default();
        return Err(Failure::new(Code::InvalidParameter, why).at("job"));
    }
    let mut fields: Vec<_> = ids.iter().map(|id| ("job".to_owned(), id.clone())).collect();
    fields.push(("action".to_owned(), action.to_owned()));
    fields.push(("delay".to_owned(), form.trimmed("delay")));
    let back = filter_of(&form).path("/jobs");
    let count = ids.len() as u64;
    let view = ConfirmView::of_jobs(&visitor.frame, action, count, false, fields, back);
    view.map(|view| html(view.html())).ok_or_else(|| no_such_action(action))
}

/// Does it.
pub(super) async fn run(
    State(app): State<App>,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Failure> {
    let action = form.get("action").to_owned();
    let ids: Result<Vec<JobId>, _> = form.all("job").map(str::parse).collect();
    let ids = ids.map_err(|error: tickwheel_queue::ParseIdError| {
        Failure::new(Code::InvalidParameter, error.to_string()).at("job")
    })?;
    let total = ids.len() as u64;
    let done = apply(&app, &visitor.caller, &action, form.get("delay"), ids).await?;
    audit(&visitor.caller, &format!("jobs.{action}"), "selected", done);
    let bulk = BulkProgress {
        action,
        done,
        skipped: total - done,
        total,
        fields: None,
        back: "/jobs".to_owned(),
    };
    Ok(html(BulkView::new(&visitor.frame, bulk).html()))
}

/// Does something to jobs; returns the number of those whose state allowed it.
async fn apply(
    app: &App,
    caller: &Caller,
    action: &str,
    delay: &str,
    ids: Vec<JobId>,
) -> Result<u64, Failure> {
    let count = |outcomes: Vec<bool>| outcomes.into_iter().filter(|ok| *ok).count() as u64;
    let queues = |scope| app.queues_for(caller, scope);
    Ok(match action {
        "retry" => {
            let outcomes = queues(Scope::Admin)?.kick_all(ids).await?;
            count(outcomes.iter().map(Result::is_ok).collect())
        }
        "cancel" => {
            let outcomes = queues(Scope::Produce)?.cancel_all(ids).await?;
            count(outcomes.iter().map(Result::is_ok).collect())
        }
        "run" | "reschedule" => {
            let delay = match action {
                "run" => Delay::default(),
                _ => delay.trim().parse().map_err(|error: crate::api::ParseDelayError| {
                    Failure::new(Code::InvalidParameter, error.to_string()).at("delay")
                })?,
            };
            let moves = ids.into_iter().map(|id| (id, delay.0));
            let outcomes = queues(Scope::Produce)?.reschedule_all(moves).await?;
            count(outcomes.iter().map(Result::is_ok).collect())
        }
        other => return Err(no_such_action(other)),
    })
}
