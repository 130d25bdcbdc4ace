//! Changes to every job that matches a filter, in steps.
//!
//! A step lists some jobs that match and changes them in one commit. Its answer has a cursor for the
//! next step, so a client can show progress, stop, and resume. A job that matches when a step reaches
//! it is changed once: each change makes the job stop matching, or moves it before the cursor, or to
//! the due time that the cursor remembers.

use tickwheel_queue::{Error, JobId, List, PageToken, Queues, State, Time, When};

use crate::api::{BulkAction, BulkRequest, BulkResponse, Code, JobFilter, JobState};
use crate::problem::Failure;
use crate::wire::{IntoQueue, when_of};

/// Jobs that one step changes at most.
const MAX_JOBS: u32 = 1_000;
/// Jobs that one step of a dry run counts at most.
const MAX_COUNTED: usize = 10_000;

/// Where a step begins.
#[derive(Default)]
struct Cursor {
    /// When the jobs are due, if the action gives them a due time.
    due: Option<Time>,
    after: Option<PageToken>,
}

impl Cursor {
    fn parse(text: Option<&str>) -> Result<Self, Failure> {
        let Some(text) = text else { return Ok(Self::default()) };
        let wrong = || {
            let why = "not a cursor: send `next` of the last answer";
            Failure::field(Code::InvalidField, "/cursor", why)
        };
        let (due, token) = text.split_once('-').ok_or_else(wrong)?;
        let due = match due {
            "" => None,
            millis => Some(Time::from_millis(millis.parse().map_err(|_| wrong())?)),
        };
        Ok(Self { due, after: Some(token.parse().map_err(|_| wrong())?) })
    }

    fn text(due: Option<Time>, after: &PageToken) -> String {
        let due = due.map_or_else(String::new, |due| due.as_millis().to_string());
        format!("{due}-{after}")
    }
}

/// Does one step.
pub(crate) async fn step(
    queues: &Queues,
    queue: String,
    request: BulkRequest,
    now: Time,
) -> Result<BulkResponse, Failure> {
    let cursor = Cursor::parse(request.cursor.as_deref())?;
    let limit = request.limit.unwrap_or(MAX_JOBS);
    if !(1..=MAX_JOBS).contains(&limit) {
        let why = format!("must be between 1 and {MAX_JOBS}, got {limit}");
        return Err(Failure::field(Code::InvalidField, "/limit", why));
    }
    let due = due_of(&request, cursor.due, now)?;
    let mut list = filtered(List::of(queue.clone()), &request)?;
    if queues.queue(queue.clone()).await?.is_none() {
        return Err(Error::NoSuchQueue(queue).into());
    }
    list.payloads = false;
    list.limit = if request.dry_run { MAX_COUNTED } else { limit as usize };
    list.after = cursor.after;
    if request.action == BulkAction::Run {
        // What is due already need not be moved, and what this change has moved is due.
        list.due_from = list.due_from.max(Time::from_millis(now.as_millis().saturating_add(1)));
    }
    let page = queues.list(list).await?;
    let is_moved = |job: &tickwheel_queue::Job| cursor.due.is_some() && Some(job.due) == due;
    let ids: Vec<JobId> = page.jobs.iter().filter(|job| !is_moved(job)).map(|job| job.id).collect();
    let next = page.next.map(|after| Cursor::text(due, &after));
    let matched = ids.len() as u64;
    if request.dry_run || ids.is_empty() {
        return Ok(BulkResponse { matched, next, ..BulkResponse::default() });
    }
    let errors = change(queues, request.action, ids, due).await?;
    let skipped = errors.len() as u64;
    let why = errors.first().map(ToString::to_string);
    Ok(BulkResponse { matched, changed: matched - skipped, skipped, why, next })
}

/// Changes jobs in one commit; returns the errors of those that could not be changed.
async fn change(
    queues: &Queues,
    action: BulkAction,
    ids: Vec<JobId>,
    due: Option<Time>,
) -> Result<Vec<Error>, Failure> {
    fn errors<T>(results: Vec<Result<T, Error>>) -> Vec<Error> {
        results.into_iter().filter_map(Result::err).collect()
    }
    Ok(match (action, due) {
        (BulkAction::Retry, _) => errors(queues.kick_all(ids).await?),
        (BulkAction::Cancel, _) => errors(queues.cancel_all(ids).await?),
        (BulkAction::Run | BulkAction::Reschedule, due) => {
            let when = When::At(due.unwrap_or_default());
            errors(queues.reschedule_all(ids.into_iter().map(|id| (id, when))).await?)
        }
    })
}

/// The due time that the action gives to jobs. A later step continues with that of the first one.
fn due_of(request: &BulkRequest, given: Option<Time>, now: Time) -> Result<Option<Time>, Failure> {
    let has_time = request.delay.is_some() || request.due.is_some();
    match request.action {
        BulkAction::Reschedule => {
            if !has_time {
                let why = "`reschedule` requires `delay` or `due`";
                return Err(Failure::field(Code::MissingField, "/delay", why));
            }
            let due = match when_of(request.delay, request.due)? {
                When::At(due) => due,
                When::After(delay) => {
                    Time::from_millis(now.as_millis().saturating_add(delay.as_millis() as u64))
                }
            };
            Ok(Some(given.unwrap_or(due)))
        }
        _ if has_time => {
            let why = format!("`{}` takes no due time", request.action.as_str());
            let field = if request.due.is_some() { "/due" } else { "/delay" };
            Err(Failure::field(Code::InvalidField, field, why))
        }
        BulkAction::Run => Ok(Some(given.unwrap_or(now))),
        BulkAction::Retry | BulkAction::Cancel => Ok(None),
    }
}

/// The jobs that match, of those that the action can change.
fn filtered(mut list: List, request: &BulkRequest) -> Result<List, Failure> {
    let JobFilter { state, error, error_group, key, key_prefix, due_from, due_to } =
        request.filter.clone();
    let possible: &[JobState] = match request.action {
        BulkAction::Retry => &[JobState::Dead],
        BulkAction::Run => &[JobState::Scheduled],
        BulkAction::Reschedule => &[JobState::Scheduled, JobState::Ready],
        BulkAction::Cancel => &[JobState::Scheduled, JobState::Ready, JobState::Leased],
    };
    if let Some(state) = state.filter(|state| !possible.contains(state)) {
        let possible: Vec<String> = possible.iter().map(ToString::to_string).collect();
        let why = format!(
            "`{}` changes {} jobs only, not {state} ones",
            request.action.as_str(),
            possible.join(" and ")
        );
        return Err(Failure::field(Code::InvalidField, "/filter/state", why));
    }
    match (state, request.action) {
        (Some(state), _) => list.state = Some(state.into_queue()),
        (None, BulkAction::Retry) => list.state = Some(State::Dead),
        (None, BulkAction::Run) => list.state = Some(State::Scheduled),
        (None, BulkAction::Reschedule | BulkAction::Cancel) => list.only_waiting = true,
    }
    (list.error, list.error_group) = (error, error_group);
    (list.key, list.key_prefix) = (key, key_prefix);
    list.due_from = due_from.map_or(Time::default(), IntoQueue::into_queue);
    list.due_to = due_to.map_or(Time::MAX, IntoQueue::into_queue);
    Ok(list)
}
