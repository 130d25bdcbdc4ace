//! The list of queues, one queue, and what can be done with it.

use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tickwheel_page::{
    ConfirmView, QueueSort, QueueView, QueuesView, parse_keep, parse_pacing, parse_retry,
};
use tickwheel_queue::GroupList;

use super::answer::{changed, html, no_such_action};
use super::form::Form;
use super::jobs::error_rows;
use super::visitor::Visitor;
use crate::api::{
    Code, Delay, FinishedState, GroupPatch, KickRequest, Order, Queue, QueueList,
    QueueSettingsPatch, RemoveFinishedRequest, RetentionPatch,
};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{self, OptionalBody, QueueName};
use crate::problem::Failure;
use crate::query::{Flag, Params};
use crate::routes;
use crate::tokens::Scope;
use crate::wire::IntoWire;

/// Groups that the page of a queue shows.
const MAX_GROUPS: usize = 50;
/// Errors that the page of a queue shows.
const MAX_ERRORS: usize = 10;

pub(super) async fn list(
    State(app): State<App>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let form = Form::of_query(query.as_deref());
    let found: QueueList = match &visitor.fleet {
        Some(fleet) => fleet.get("/v1/queues").await?,
        None => routes::queues::list(State(app), visitor.caller).await?.0,
    };
    let sort = QueueSort::of_name(form.get("sort"));
    Ok(html(QueuesView::new(&visitor.frame, found.queues, sort, form.get("filter").trim()).html()))
}

/// Returns the names of the queues that a visitor may see. Fails without the scope `read`, and if a
/// partition does not answer: some of the queues are not all of them.
pub(super) async fn names(app: &App, visitor: &Visitor) -> Result<Vec<String>, Failure> {
    if let Some(fleet) = &visitor.fleet {
        let seen: QueueList = fleet.get("/v1/queues").await?;
        return Ok(seen.queues.into_iter().map(|queue| queue.name).collect());
    }
    let seen = routes::queues::seen_by(app, &visitor.caller).await?;
    Ok(seen.into_iter().map(|queue| queue.name).collect())
}

async fn find(app: &App, caller: &Caller, name: &str) -> Result<Queue, Failure> {
    let name = QueueName(name.to_owned());
    Ok(routes::queues::get(State(app.clone()), caller.clone(), name).await?.0)
}

pub(super) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    QueueName(name): QueueName,
) -> Result<Response, Failure> {
    page(&app, &visitor, &name, None).await
}

/// The page of a queue, with the settings that were refused.
async fn page(
    app: &App,
    visitor: &Visitor,
    name: &str,
    refused: Option<(String, &Form)>,
) -> Result<Response, Failure> {
    let queue = find(app, &visitor.caller, name).await?;
    let list = GroupList { limit: MAX_GROUPS, ..GroupList::of(name) };
    let groups = app.queues_for(&visitor.caller, Scope::Read)?.groups(list).await?.into_wire();
    let mut errors = if queue.jobs.dead + queue.jobs.scheduled + queue.jobs.ready > 0 {
        error_rows(app, visitor, name).await?.0
    } else {
        Vec::new()
    };
    errors.truncate(MAX_ERRORS);
    let mut view = QueueView::new(&visitor.frame, &queue)
        .groups(groups.groups, groups.next.is_some())
        .errors(errors);
    let status = if refused.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    if let Some((problem, form)) = refused {
        view = view.refused(problem, |field| form.all(field).next().map(str::to_owned));
    }
    Ok((status, html(view.html())).into_response())
}

/// The number of jobs that an action concerns.
fn concerned(queue: &Queue, action: &str) -> u64 {
    let jobs = &queue.jobs;
    match action {
        "kick" | "remove-dead" => jobs.dead,
        "remove-done" => jobs.done,
        "remove-cancelled" => jobs.cancelled,
        "cancel-waiting" => jobs.scheduled + jobs.ready,
        _ => jobs.scheduled + jobs.ready + jobs.leased + jobs.dead + jobs.done + jobs.cancelled,
    }
}

pub(super) async fn confirm(
    State(app): State<App>,
    visitor: Visitor,
    QueueName(name): QueueName,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    visitor.caller.may(Scope::Admin, &name)?;
    let form = Form::of_query(query.as_deref());
    let action = form.get("action");
    let queue = find(&app, &visitor.caller, &name).await?;
    let view = ConfirmView::of_queue(&visitor.frame, action, &name, concerned(&queue, action));
    view.map(|view| html(view.html())).ok_or_else(|| no_such_action(action))
}

/// Does something to a queue as a whole.
pub(super) async fn act(
    State(app): State<App>,
    Visitor { caller, .. }: Visitor,
    Path((name, action)): Path<(String, String)>,
    _form: Form,
) -> Result<Response, Failure> {
    let queue = || -> Result<QueueName, Failure> { extract::queue_name(&name) };
    let (state, who) = (State(app.clone()), caller.clone());
    let finished = |state| extract::Body(RemoveFinishedRequest { state, older_than: None });
    let (count, done) = match &action[..] {
        "pause" => routes::queues::pause(state, who, queue()?).await.map(|_| (1, "paused"))?,
        "resume" => routes::queues::resume(state, who, queue()?).await.map(|_| (1, "resumed"))?,
        "kick" => {
            let all = OptionalBody(KickRequest::default());
            let kicked = routes::queues::kick(state, who, queue()?, all).await?;
            (kicked.0.count, "kicked")
        }
        "cancel-waiting" => {
            let cancelled = routes::queues::cancel_waiting(state, who, queue()?).await?;
            (cancelled.0.count, "cancelled")
        }
        "remove-dead" | "remove-done" | "remove-cancelled" => {
            let kind = match &action[..] {
                "remove-dead" => FinishedState::Dead,
                "remove-done" => FinishedState::Done,
                _ => FinishedState::Cancelled,
            };
            let removed =
                routes::queues::remove_finished(state, who, queue()?, finished(kind)).await?;
            (removed.0.count, "removed")
        }
        "remove" => {
            let force = Params(routes::queues::RemoveQuery { force: Some(Flag(true)) });
            let removed = routes::queues::remove(state, who, queue()?, force).await?;
            let action = "queue.remove";
            return Ok(changed(
                &caller,
                action,
                &name,
                removed.0.count,
                "/queues",
                "removed-queue",
            ));
        }
        other => return Err(no_such_action(other)),
    };
    let back = format!("/queues/{name}");
    Ok(changed(&caller, &format!("queue.{action}"), &name, count, &back, done))
}

/// Pauses or resumes a group.
pub(super) async fn group(
    State(app): State<App>,
    Visitor { caller, .. }: Visitor,
    QueueName(name): QueueName,
    form: Form,
) -> Result<Response, Failure> {
    let paused = form.get("paused") == "true";
    let group = form.get("group").to_owned();
    let allowed = app.queue_limits().key;
    if group.is_empty() || group.len() as u64 > allowed {
        let why = format!("a group must have 1 to {allowed} bytes, got {}", group.len());
        return Err(Failure::new(Code::InvalidParameter, why).at("group"));
    }
    let patch = extract::Body(GroupPatch { paused: Some(paused), pacing: None });
    let place = extract::PathGroup(group.clone());
    let queue = QueueName(name.clone());
    let _ = routes::groups::patch(State(app), caller.clone(), queue, place, patch).await?;
    let (action, done) =
        if paused { ("group.pause", "paused") } else { ("group.resume", "resumed") };
    let subject = format!("{name}/{group}");
    Ok(changed(&caller, action, &subject, 1, &format!("/queues/{name}"), done))
}

/// Reads the settings of a form.
fn patch_of(form: &Form) -> Result<QueueSettingsPatch, String> {
    let named = |name: &'static str| move |why: String| format!("{name}: {why}");
    let lease = form.trimmed("lease").parse::<Delay>().map_err(|error| error.to_string());
    let attempts = form.trimmed("max_attempts");
    let attempts =
        attempts.parse().map_err(|_| format!("{attempts:?} must be a whole number from 1 up"));
    let pacing = parse_pacing(form.get("rate"), form.get("concurrency"));
    let group_pacing = parse_pacing(form.get("group_rate"), form.get("group_concurrency"));
    let keep = |name| parse_keep(form.get(name)).map_err(named(name)).map(Some);
    Ok(QueueSettingsPatch {
        lease: Some(lease.map_err(named("lease"))?),
        max_attempts: Some(attempts.map_err(named("max_attempts"))?),
        retry: Some(parse_retry(form.get("retry").trim()).map_err(named("retry"))?),
        pacing: Some(pacing.map_err(named("rate"))?),
        group_pacing: Some(group_pacing.map_err(named("group_rate"))?),
        retention: Some(RetentionPatch {
            done: keep("keep_done")?,
            dead: keep("keep_dead")?,
            cancelled: keep("keep_cancelled")?,
        }),
        order: Some(if form.get("order") == "priority" { Order::Priority } else { Order::Due }),
        target: Some(form.trimmed("target")),
        fair_groups: Some(form.get("fair_groups") == "true"),
    })
}

pub(super) async fn settings(
    State(app): State<App>,
    visitor: Visitor,
    QueueName(name): QueueName,
    form: Form,
) -> Result<Response, Failure> {
    visitor.caller.may(Scope::Admin, &name)?;
    let patch = match patch_of(&form) {
        Ok(patch) => patch,
        Err(why) => return page(&app, &visitor, &name, Some((why, &form))).await,
    };
    let (queue, patch) = (QueueName(name.clone()), extract::Body(patch));
    let patched =
        routes::queues::patch_settings(State(app.clone()), visitor.caller.clone(), queue, patch);
    match patched.await {
        Ok(_) => {
            let back = format!("/queues/{name}");
            Ok(changed(&visitor.caller, "queue.settings", &name, 1, &back, "saved"))
        }
        Err(failure) if failure.problem.status == 422 => {
            let why = failure.problem.detail.clone();
            page(&app, &visitor, &name, Some((why, &form))).await
        }
        Err(failure) => Err(failure),
    }
}
