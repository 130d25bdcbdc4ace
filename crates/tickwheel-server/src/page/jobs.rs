//! Search, one job, its payload, and errors by text.

use axum::extract::{Path, RawQuery, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use tickwheel_page::{ErrorRow, ErrorsView, JobFilter, JobRow, JobView, JobsView, short_id};
use tickwheel_queue::{Error, ErrorList, JobId, List, PageToken, ShortId};

use super::answer::{changed, html, no_such_action, redirect};
use super::form::Form;
use super::queues::names;
use super::visitor::Visitor;
use crate::api::{self, Code, Delay, ErrorGroups, JobIds, JobPage, RescheduleRequest, Timestamp};
use crate::app::App;
use crate::auth::Caller;
use crate::cluster::Fleet;
use crate::extract::{self, PathId, off_thread};
use crate::problem::Failure;
use crate::routes;
use crate::tokens::Scope;
use crate::wire::{IntoQueue, IntoWire, encoded_len};

/// Jobs in a page of a list.
const PAGE: usize = 50;
/// Bytes of jobs, as JSON, that a page of a list reads.
const PAGE_BYTES: usize = 2 << 20;
/// Queues that one search over all queues looks into before it offers to continue.
const MAX_QUEUES_AT_ONCE: usize = 200;
/// A larger job is rendered on another thread.
const LARGE_JOB: usize = 64 << 10;

pub(super) fn filter_of(form: &Form) -> JobFilter {
    JobFilter {
        id: form.trimmed("id"),
        queue: form.trimmed("queue"),
        state: form.trimmed("state"),
        key: form.get("key").to_owned(),
        key_prefix: form.get("key_prefix").to_owned(),
        error: form.get("error").to_owned(),
        error_group: form.get("error_group").to_owned(),
        due_from: form.trimmed("due_from"),
        due_to: form.trimmed("due_to"),
    }
}

fn invalid(field: &str, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(Code::InvalidParameter, why.to_string()).at(field)
}

/// Returns the list of a queue that a filter asks for.
pub(super) fn list_of(filter: &JobFilter, queue: &str) -> Result<List, Failure> {
    let mut list = List::of(queue);
    if !filter.state.is_empty() {
        list.state = Some(filter.state.parse().map_err(|error| invalid("state", &error))?);
    }
    let time = |field: &str, text: &str| -> Result<Option<Timestamp>, Failure> {
        let given = (!text.is_empty()).then(|| text.parse::<Timestamp>()).transpose();
        given.map_err(|error| invalid(field, &error))
    };
    if let Some(from) = time("due_from", &filter.due_from)? {
        list.due_from = from.into_queue();
    }
    if let Some(to) = time("due_to", &filter.due_to)? {
        list.due_to = to.into_queue();
    }
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    list.key = given(&filter.key);
    list.key_prefix = given(&filter.key_prefix);
    list.error = given(&filter.error);
    list.error_group = given(&filter.error_group);
    list.limit = PAGE;
    list.bytes = PAGE_BYTES;
    Ok(list)
}

/// A page of a search: the jobs, where the next page begins, and how many cannot be read.
#[derive(Default)]
struct Found {
    rows: Vec<JobRow>,
    next: Option<String>,
    damaged: u64,
}

/// Searches one queue, or all of them in order of their names. The text of a page is the queue it is
/// in and the page of that queue.
async fn search(
    app: &App,
    visitor: &Visitor,
    filter: &JobFilter,
    all: &[String],
    page: &str,
) -> Result<Found, Failure> {
    let caller = &visitor.caller;
    let queues = app.queues_for(caller, Scope::Read)?;
    let (first, mut token) = match page.split_once('~') {
        Some((queue, token)) => (queue, token),
        None => (page, ""),
    };
    let wanted: Vec<&String> = match &filter.queue[..] {
        "" => all.iter().filter(|name| &name[..] >= first).collect(),
        name => {
            caller.may(Scope::Read, name)?;
            vec![&filter.queue]
        }
    };
    let mut found = Found::default();
    // The rows of a page are small, whatever they were made of.
    let mut share = app.memory().share();
    share.grow(2 * PAGE_BYTES)?;
    for (looked_into, name) in wanted.iter().enumerate() {
        if looked_into == MAX_QUEUES_AT_ONCE || found.rows.len() >= PAGE {
            found.next = Some(format!("{name}~"));
            break;
        }
        let mut list = list_of(filter, name)?;
        list.limit = PAGE - found.rows.len();
        if let Some(fleet) = &visitor.fleet {
            let page = page_of(fleet, filter, name, list.limit, std::mem::take(&mut token)).await?;
            found.damaged += page.damaged.len() as u64;
            found.rows.extend(page.jobs.iter().map(JobRow::of));
            if let Some(next) = page.next {
                found.next = Some(format!("{name}~{next}"));
                break;
            }
            continue;
        }
        let after = Some(std::mem::take(&mut token)).filter(|token| !token.is_empty());
        list.after = after
            .map(str::parse::<PageToken>)
            .transpose()
            .map_err(|error| invalid("page", &error))?;
        let page = queues.list(list).await?;
        found.damaged += page.damaged.len() as u64;
        found.rows.extend(page.jobs.into_iter().map(|job| JobRow::of(&job.into_wire())));
        if let Some(next) = page.next {
            found.next = Some(format!("{name}~{next}"));
            break;
        }
    }
    Ok(found)
}

/// Returns a text as a segment of a path.
pub(super) fn segment(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// Returns a page of a queue of any partition.
async fn page_of(
    fleet: &Fleet,
    filter: &JobFilter,
    queue: &str,
    limit: usize,
    token: &str,
) -> Result<JobPage, Failure> {
    let query = {
        let mut query = form_urlencoded::Serializer::new(format!("limit={limit}"));
        for (name, value) in filter.fields() {
            if name != "queue" && !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        if !token.is_empty() {
            query.append_pair("page", token);
        }
        query.finish()
    };
    fleet.get(&format!("/v1/queues/{}/jobs?{query}", segment(queue))).await
}

/// Finds a job by its id, whole or short: the path of the one that it means.
async fn find_id(app: &App, visitor: &Visitor, text: &str) -> Result<String, Failure> {
    if let Ok(id) = text.parse::<JobId>() {
        return Ok(format!("/jobs/{}", id.into_wire()));
    }
    let short: ShortId = text.parse().map_err(|error| invalid("id", &error))?;
    let ids: Vec<api::JobId> = if let Some(fleet) = &visitor.fleet {
        fleet.get::<JobIds>(&format!("/v1/ids/{}", segment(text))).await?.ids
    } else {
        let ids = app.queues_for(&visitor.caller, Scope::Read)?.find_ids(short).await?;
        ids.into_iter().map(IntoWire::into_wire).collect()
    };
    match &ids[..] {
        [id] => Ok(format!("/jobs/{id}")),
        [] => {
            Err(Failure::new(Code::NotFound, format!("no job has an id that begins with {text:?}")))
        }
        more => {
            let ids: Vec<_> = more.iter().take(10).map(|id| short_id(&id.to_string())).collect();
            let why = format!("{} jobs have such an id, among them {}", more.len(), ids.join(", "));
            Err(invalid("id", &why))
        }
    }
}

pub(super) async fn list(
    State(app): State<App>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let form = Form::of_query(query.as_deref());
    let filter = filter_of(&form);
    visitor.caller.has(Scope::Read)?;
    let all = names(&app, &visitor).await?;
    let mut problem = None;
    if !filter.id.is_empty() {
        match find_id(&app, &visitor, &filter.id).await {
            Ok(path) => return Ok(redirect(&path)),
            Err(failure) => problem = Some(failure.problem.detail.clone()),
        }
    }
    let found = match search(&app, &visitor, &filter, &all, form.get("page")).await {
        Ok(found) => found,
        Err(failure) if failure.problem.status == 400 => {
            problem = Some(failure.problem.detail.clone());
            Found::default()
        }
        Err(failure) => return Err(failure),
    };
    let view = JobsView::new(&visitor.frame, &filter, all, found.rows)
        .next(found.next)
        .damaged(found.damaged)
        .problem(problem);
    Ok(html(view.html()))
}

async fn find(app: &App, caller: &Caller, id: JobId) -> Result<tickwheel_queue::Job, Failure> {
    let found = app.queues_for(caller, Scope::Read)?.get(id).await?;
    found.ok_or_else(|| Error::NotFound(id.into()).into())
}

pub(super) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    PathId(id): PathId,
) -> Result<Response, Failure> {
    let job = find(&app, &visitor.caller, id).await?;
    let size = encoded_len(&job);
    let mut share = app.memory().share();
    share.grow(2 * size)?;
    let page = off_thread(size > LARGE_JOB, move || {
        let _share = share;
        Ok(JobView::new(&visitor.frame, &job.into_wire()).html())
    });
    Ok(html(page.await?))
}

/// Serves the bytes of a payload as a download, never as something that a browser shows.
pub(super) async fn payload(
    State(app): State<App>,
    visitor: Visitor,
    PathId(id): PathId,
) -> Result<Response, Failure> {
    let job = find(&app, &visitor.caller, id).await?;
    let name = format!("attachment; filename=\"{}.bin\"", job.id.into_wire());
    let headers = [
        (CONTENT_TYPE, "application/octet-stream"),
        (CONTENT_DISPOSITION, &name),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
    ];
    Ok((headers, job.payload).into_response())
}

/// Does something to a job.
pub(super) async fn act(
    State(app): State<App>,
    Visitor { caller, .. }: Visitor,
    Path((id, action)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Failure> {
    let job: JobId = id.parse().map_err(|error| invalid("id", &error))?;
    let (state, who, place) = (State(app), caller.clone(), PathId(job));
    let move_to = |delay| extract::Body(RescheduleRequest { delay: Some(delay), due: None });
    let done = match &action[..] {
        "cancel" => {
            let _ = routes::jobs::cancel_by_id(state, who, place).await?;
            "cancelled"
        }
        "retry" => {
            let _ = routes::worker::kick(state, who, place).await?;
            "kicked"
        }
        "run" => {
            let _ = routes::jobs::reschedule_by_id(state, who, place, move_to(Delay::default()))
                .await?;
            "run"
        }
        "reschedule" => {
            let delay = form.trimmed("delay").parse().map_err(|error| invalid("delay", &error))?;
            let _ = routes::jobs::reschedule_by_id(state, who, place, move_to(delay)).await?;
            "rescheduled"
        }
        other => return Err(no_such_action(other)),
    };
    // Of a cancelled job nothing may be left to show.
    let back = if done == "cancelled" { "/jobs".to_owned() } else { format!("/jobs/{id}") };
    Ok(changed(&caller, &format!("job.{action}"), &id, 1, &back, done))
}

/// Returns why the jobs of a queue fail, the most frequent error first, and whether not all jobs
/// were read.
pub(super) async fn error_rows(
    app: &App,
    visitor: &Visitor,
    queue: &str,
) -> Result<(Vec<ErrorRow>, bool), Failure> {
    let list = if queue.is_empty() { ErrorList::all() } else { ErrorList::of(queue) };
    let found: ErrorGroups = match &visitor.fleet {
        Some(fleet) if queue.is_empty() => fleet.get("/v1/errors").await?,
        Some(fleet) => fleet.get(&format!("/v1/queues/{}/errors", segment(queue))).await?,
        None => routes::bulk::grouped(app, &visitor.caller, list).await?,
    };
    let rows = found.groups.into_iter().map(|group| ErrorRow::of(group, queue)).collect();
    Ok((rows, !found.complete || found.others > 0))
}

pub(super) async fn errors(
    State(app): State<App>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let form = Form::of_query(query.as_deref());
    let queue = form.trimmed("queue");
    visitor.caller.has(Scope::Read)?;
    let (rows, is_partial) = error_rows(&app, &visitor, &queue).await?;
    let names = names(&app, &visitor).await?;
    Ok(html(ErrorsView::new(&visitor.frame, &queue, names, rows, is_partial).html()))
}
