//! Putting a job by a form.

use axum::extract::State;
use axum::http::header::HOST;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use tickwheel_page::{PutForm, PutView};

use super::answer::{audit, html};
use super::form::Form;
use super::queues::names;
use super::visitor::Visitor;
use crate::api::{Code, PutRequest, PutResponse};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{self, QueueName};
use crate::problem::Failure;
use crate::puts;
use crate::tokens::Scope;

/// Returns the address of the server as the visitor has it.
fn origin(app: &App, headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1:7300");
    let forwarded = headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
    let scheme = if app.config().tls.is_some() || forwarded { "https" } else { "http" };
    format!("{scheme}://{host}")
}

fn filled(form: &Form) -> PutForm {
    PutForm {
        queue: form.trimmed("queue"),
        delay: form.trimmed("delay"),
        due: form.trimmed("due"),
        key: form.get("key").to_owned(),
        on_conflict: form.trimmed("on_conflict"),
        group: form.get("group").to_owned(),
        priority: form.trimmed("priority"),
        max_attempts: form.trimmed("max_attempts"),
        payload: form.multiline("payload"),
        kind: form.trimmed("kind"),
        headers: form.multiline("headers"),
    }
}

pub(super) async fn form(State(app): State<App>, visitor: Visitor) -> Result<Response, Failure> {
    visitor.caller.has(Scope::Produce)?;
    let queues = names(&app, &visitor).await.unwrap_or_default();
    Ok(html(PutView::new(&visitor.frame, PutForm::default(), queues).html()))
}

/// Shows commands that do what the form would do.
pub(super) async fn preview(
    State(app): State<App>,
    visitor: Visitor,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Failure> {
    visitor.caller.has(Scope::Produce)?;
    let queues = names(&app, &visitor).await.unwrap_or_default();
    let view = PutView::new(&visitor.frame, filled(&form), queues);
    Ok(html(view.with_commands(&origin(&app, &headers)).html()))
}

pub(super) async fn put(
    State(app): State<App>,
    visitor: Visitor,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Failure> {
    if form.get("do") == "preview" {
        return preview(State(app), visitor, headers, form).await;
    }
    visitor.caller.has(Scope::Produce)?;
    let filled = filled(&form);
    let queues = names(&app, &visitor).await.unwrap_or_default();
    let outcome = put_job(&app, &visitor.caller, &filled).await;
    let view = PutView::new(&visitor.frame, filled, queues);
    match outcome {
        Ok(put) => {
            audit(&visitor.caller, "job.put", &put.id.to_string(), 1);
            Ok(html(view.with_job(put).html()))
        }
        Err(failure) if matches!(failure.problem.status, 400 | 409 | 413 | 422) => {
            let status = StatusCode::from_u16(failure.problem.status);
            let page = html(view.with_problem(failure.problem.to_string()).html());
            Ok((status.unwrap_or(StatusCode::BAD_REQUEST), page).into_response())
        }
        Err(failure) => Err(failure),
    }
}

async fn put_job(app: &App, caller: &Caller, form: &PutForm) -> Result<PutResponse, Failure> {
    let QueueName(queue) = extract::queue_name(&form.queue)?;
    form.header_lines().map_err(|why| Failure::field(Code::InvalidField, "/headers", why))?;
    let request: PutRequest = extract::parse(form.body().as_bytes())?;
    let plan = puts::plan(app, caller, request, Some(&queue), app.wall())?;
    let mut answered = puts::put_planned(app, caller, vec![Ok(plan)], None).await?;
    let none = || Err(Failure::new(Code::Internal, "the put has no answer"));
    answered.verdicts.pop().unwrap_or_else(none)
}
