//! Actions on many jobs: those that were selected, or all that match a search.
//!
//! First a question names their number, counted by a dry run. Then the action runs in steps of the
//! bulk route of the API: a script repeats the form of the progress bar until it is done, and
//! without scripts the visitor presses its button.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use tickwheel_page::{BulkProgress, BulkView, ConfirmView, JobFilter};
use tickwheel_queue::{JobId, Time};

use super::answer::{audit, html, no_such_action, redirect, safe_path};
use super::form::Form;
use super::jobs::{filter_of, segment};
use super::queues::names;
use super::visitor::Visitor;
use crate::api::{
    self, BulkAction, BulkRequest, BulkResponse, Code, Delay, JobState, Results, Timestamp, Verdict,
};
use crate::app::App;
use crate::cluster::Fleet;
use crate::extract::{Body, QueueName};
use crate::problem::Failure;
use crate::routes;
use crate::tokens::Scope;
use crate::wire::IntoWire;

/// Steps of a dry run, after which the number is a lower bound.
const COUNTED_STEPS: usize = 50;
/// Steps of an action in one request without scripts. With scripts, each request is one step.
const STEPS_AT_ONCE: usize = 20;

fn invalid(field: &str, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(Code::InvalidParameter, why.to_string()).at(field)
}

fn action_of(name: &str) -> Result<BulkAction, Failure> {
    let known = BulkAction::ALL.into_iter().find(|action| action.as_str() == name);
    known.ok_or_else(|| no_such_action(name))
}

/// Returns the filter of a bulk request.
fn wire_filter(filter: &JobFilter) -> Result<api::JobFilter, Failure> {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let time = |field: &str, text: &str| {
        let time = (!text.is_empty()).then(|| text.parse::<Timestamp>()).transpose();
        time.map_err(|error| invalid(field, &error))
    };
    let state = match &filter.state[..] {
        "" => None,
        "scheduled" => Some(JobState::Scheduled),
        "ready" => Some(JobState::Ready),
        "leased" => Some(JobState::Leased),
        "dead" => Some(JobState::Dead),
        "done" => Some(JobState::Done),
        "cancelled" => Some(JobState::Cancelled),
        other => return Err(invalid("state", &format!("there is no state {other:?}"))),
    };
    Ok(api::JobFilter {
        state,
        error: given(&filter.error),
        error_group: given(&filter.error_group),
        key: given(&filter.key),
        key_prefix: given(&filter.key_prefix),
        due_from: time("due_from", &filter.due_from)?,
        due_to: time("due_to", &filter.due_to)?,
    })
}

/// An action on all jobs that match, and how far it is.
struct Bulk<'a> {
    app: &'a App,
    visitor: &'a Visitor,
    request: BulkRequest,
    /// The queues that are left, in order; the cursor belongs to the first.
    queues: Vec<String>,
}

impl<'a> Bulk<'a> {
    /// Begins with a filter, or continues where a text of [`place`](Self::place) says.
    async fn new(
        app: &'a App,
        visitor: &'a Visitor,
        action: BulkAction,
        filter: &JobFilter,
        place: &str,
    ) -> Result<Self, Failure> {
        visitor.caller.has(Scope::Admin)?;
        let mut request = BulkRequest::new(action);
        request.filter = wire_filter(filter)?;
        let (first, cursor) = place.split_once('~').unwrap_or((place, ""));
        request.cursor = (!cursor.is_empty()).then(|| cursor.to_owned());
        let queues = match &filter.queue[..] {
            "" => {
                names(app, visitor).await?.into_iter().filter(|name| &name[..] >= first).collect()
            }
            queue => vec![queue.to_owned()],
        };
        Ok(Self { app, visitor, request, queues })
    }

    fn is_complete(&self) -> bool {
        self.queues.is_empty()
    }

    /// Returns where the action is, to continue it in another request.
    fn place(&self) -> Option<String> {
        let queue = self.queues.first()?;
        Some(format!("{queue}~{}", self.request.cursor.as_deref().unwrap_or_default()))
    }

    async fn step(&mut self) -> Result<BulkResponse, Failure> {
        let Some(queue) = self.queues.first() else { return Ok(BulkResponse::default()) };
        let step = if let Some(fleet) = &self.visitor.fleet {
            let address = format!("/v1/queues/{}/bulk", segment(queue));
            fleet.post(&address, &self.request).await.map(Json)
        } else {
            let (state, who) = (State(self.app.clone()), self.visitor.caller.clone());
            let place = QueueName(queue.clone());
            routes::bulk::change(state, who, place, Body(self.request.clone())).await
        };
        let Json(did) = match step {
            // A queue of many that is gone meanwhile has no job that matches.
            Err(failure) if failure.problem.code == Code::NotFound && self.queues.len() > 1 => {
                Json(BulkResponse::default())
            }
            other => other?,
        };
        self.request.cursor.clone_from(&did.next);
        if did.next.is_none() {
            self.queues.remove(0);
        }
        Ok(did)
    }
}

/// Asks again what an address asks, such as that of an error whose jobs are to be retried.
pub(super) async fn ask_by_address(
    state: State<App>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let form = Form::of_query(query.as_deref());
    if form.get("all") != "true" {
        return Ok(redirect("/jobs"));
    }
    ask(state, visitor, form).await
}

/// Asks before something is done to the jobs of a list.
pub(super) async fn ask(
    State(app): State<App>,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Failure> {
    let action = action_of(form.get("action"))?;
    let filter = filter_of(&form);
    let mut fields = vec![("action".to_owned(), action.as_str().to_owned())];
    if action == BulkAction::Reschedule {
        // One time for all, whenever the step with a job comes.
        let delay = form.trimmed("delay").parse::<Delay>();
        let delay = delay.map_err(|error| invalid("delay", &error))?;
        let due = app.now().as_millis().saturating_add(delay.as_millis());
        fields.push(("due".to_owned(), due.to_string()));
    }
    let back = filter.path("/jobs");
    fields.push(("back".to_owned(), back.clone()));
    let (count, is_partial) = if form.get("all") == "true" {
        let filled = filter.fields().into_iter().filter(|(_, value)| !value.is_empty());
        fields.extend(filled.map(|(name, value)| (name.to_owned(), value.to_owned())));
        fields.push(("all".to_owned(), "true".to_owned()));
        count(&app, &visitor, action, &filter).await?
    } else {
        let ids: Vec<_> = form.all("job").map(|id| ("job".to_owned(), id.to_owned())).collect();
        if ids.is_empty() {
            let why = visitor.frame.language.texts().get("select_some").unwrap_or_default();
            return Err(invalid("job", &why));
        }
        let count = ids.len() as u64;
        fields.extend(ids);
        (count, false)
    };
    fields.push(("total".to_owned(), count.to_string()));
    let name = action.as_str();
    let view = ConfirmView::of_jobs(&visitor.frame, name, count, is_partial, fields, back);
    view.map(|view| html(view.html())).ok_or_else(|| no_such_action(name))
}

/// Counts the jobs that match; whether there may be more.
async fn count(
    app: &App,
    visitor: &Visitor,
    action: BulkAction,
    filter: &JobFilter,
) -> Result<(u64, bool), Failure> {
    let mut bulk = Bulk::new(app, visitor, action, filter, "").await?;
    bulk.request.dry_run = true;
    if action == BulkAction::Reschedule {
        bulk.request.due = Some(Timestamp::from_millis(app.now().as_millis()));
    }
    let mut matched = 0;
    for _ in 0..COUNTED_STEPS {
        if bulk.is_complete() {
            break;
        }
        matched += bulk.step().await?.matched;
    }
    Ok((matched, !bulk.is_complete()))
}

/// Does it, or the next steps of it.
pub(super) async fn run(
    State(app): State<App>,
    visitor: Visitor,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Failure> {
    let action = action_of(form.get("action"))?;
    let number = |name: &str| form.get(name).parse::<u64>().unwrap_or_default();
    let mut progress = BulkProgress {
        action: action.as_str().to_owned(),
        done: number("done"),
        skipped: number("skipped"),
        total: number("total"),
        fields: None,
        back: safe_path(form.get("back")).to_owned(),
    };
    let due = match form.get("due") {
        "" => None,
        due => Some(due.parse::<Timestamp>().map_err(|error| invalid("due", &error))?),
    };
    let is_script = headers.contains_key("hx-request");
    if form.get("all") == "true" {
        run_matching(&app, &visitor, action, due, &form, is_script, &mut progress).await?;
    } else {
        run_selected(&app, &visitor, action, due, &form, &mut progress).await?;
    }
    let view = BulkView::new(&visitor.frame, progress);
    Ok(html(if is_script { view.fragment() } else { view.html() }))
}

async fn run_matching(
    app: &App,
    visitor: &Visitor,
    action: BulkAction,
    due: Option<Timestamp>,
    form: &Form,
    is_script: bool,
    progress: &mut BulkProgress,
) -> Result<(), Failure> {
    let filter = filter_of(form);
    let mut bulk = Bulk::new(app, visitor, action, &filter, form.get("cursor")).await?;
    bulk.request.due = due;
    let mut changed = 0;
    for _ in 0..if is_script { 1 } else { STEPS_AT_ONCE } {
        if bulk.is_complete() {
            break;
        }
        let did = bulk.step().await?;
        changed += did.changed;
        progress.skipped += did.skipped;
    }
    progress.done += changed;
    audit(&visitor.caller, &format!("jobs.{}", action.as_str()), &filter.path("/jobs"), changed);
    let Some(place) = bulk.place() else { return Ok(()) };
    let now = [
        ("action", action.as_str().to_owned()),
        ("all", "true".to_owned()),
        ("due", due.map_or_else(String::new, |due| due.as_millis().to_string())),
        ("back", progress.back.clone()),
        ("done", progress.done.to_string()),
        ("skipped", progress.skipped.to_string()),
        ("total", progress.total.to_string()),
        ("cursor", place),
    ];
    let filter = filter.fields().map(|(name, value)| (name, value.to_owned()));
    let all = now.into_iter().chain(filter).filter(|(_, value)| !value.is_empty());
    progress.fields = Some(all.map(|(name, value)| (name.to_owned(), value)).collect());
    Ok(())
}

/// Does something to selected jobs; those whose state does not allow it are skipped.
async fn run_selected(
    app: &App,
    visitor: &Visitor,
    action: BulkAction,
    due: Option<Timestamp>,
    form: &Form,
    progress: &mut BulkProgress,
) -> Result<(), Failure> {
    let ids: Result<Vec<JobId>, _> = form.all("job").map(str::parse).collect();
    let ids = ids.map_err(|error: tickwheel_queue::ParseIdError| invalid("job", &error))?;
    progress.total = ids.len() as u64;
    let at = match (action, due) {
        (BulkAction::Reschedule, None) => return Err(invalid("due", &"the time is missing")),
        (_, Some(due)) => crate::wire::IntoQueue::into_queue(due),
        (_, None) => app.now(),
    };
    let queues = |scope| app.queues_for(&visitor.caller, scope);
    let selected = ids.clone();
    let is_done: Vec<bool> = match (action, &visitor.fleet) {
        (_, Some(fleet)) => change_in(fleet, action, &ids, at).await?,
        (BulkAction::Retry, None) => {
            let outcomes = queues(Scope::Admin)?.kick_all(ids).await?;
            outcomes.iter().map(Result::is_ok).collect()
        }
        (BulkAction::Cancel, None) => {
            let outcomes = queues(Scope::Produce)?.cancel_all(ids).await?;
            outcomes.iter().map(Result::is_ok).collect()
        }
        (BulkAction::Run | BulkAction::Reschedule, None) => {
            let moves = ids.into_iter().map(|id| (id, at));
            let outcomes = queues(Scope::Produce)?.reschedule_all(moves).await?;
            outcomes.iter().map(Result::is_ok).collect()
        }
    };
    progress.done = is_done.iter().filter(|is_done| **is_done).count() as u64;
    progress.skipped = progress.total - progress.done;
    let name = format!("jobs.{}", action.as_str());
    for (id, _) in selected.iter().zip(is_done).filter(|(_, is_done)| *is_done) {
        audit(&visitor.caller, &name, &id.to_string(), 1);
    }
    Ok(())
}

/// Does something to jobs of all partitions; says which of them it was done to.
async fn change_in(
    fleet: &Fleet,
    action: BulkAction,
    ids: &[JobId],
    at: Time,
) -> Result<Vec<bool>, Failure> {
    let path = match action {
        BulkAction::Retry => "kick",
        BulkAction::Cancel => "cancel",
        BulkAction::Run | BulkAction::Reschedule => "reschedule",
    };
    let due = matches!(action, BulkAction::Run | BulkAction::Reschedule)
        .then(|| Timestamp::from_millis(at.as_millis()));
    let items: Vec<_> = ids
        .iter()
        .map(|id| {
            let mut item = serde_json::json!({"id": id.into_wire()});
            if let Some(due) = due {
                item["due"] = serde_json::json!(due);
            }
            item
        })
        .collect();
    let address = format!("/v1/jobs/batch/{path}");
    let batch = serde_json::json!({ "items": items });
    let found: Results<serde_json::Value> = fleet.post(&address, &batch).await?;
    Ok(found.results.iter().map(|it| matches!(it, Verdict::Ok(_))).collect())
}
