//! Search, one job, errors by text, and actions on many jobs.

use askama::Template;
use tickwheel_api::{ErrorGroup, Job, JobState};

use super::{path_with, render};
use crate::show::first_line;
use crate::texts::Texts;
use crate::{Frame, PayloadView, plain, short_id};

/// The states of jobs, by name.
pub const JOB_STATES: [&str; 6] = ["scheduled", "ready", "leased", "dead", "done", "cancelled"];

/// Characters of a payload or an error that a list shows.
const PREVIEW: usize = 120;

/// What a search for jobs is limited to; an empty text is no limit.
///
/// ```
/// use tickwheel_page::JobFilter;
/// let filter = JobFilter { queue: "mail".into(), error: "time out".into(), ..JobFilter::default() };
/// assert_eq!(filter.path("/jobs"), "/jobs?queue=mail&error=time%20out");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// An id, whole or short.
    pub id: String,
    /// The queue.
    pub queue: String,
    /// The state.
    pub state: String,
    /// The whole key.
    pub key: String,
    /// The beginning of the key.
    pub key_prefix: String,
    /// A part of the last error.
    pub error: String,
    /// The text of an error, with numbers and ids folded.
    pub error_group: String,
    /// The earliest due time.
    pub due_from: String,
    /// The latest due time.
    pub due_to: String,
}

impl JobFilter {
    /// Returns its fields with their names, except the id.
    pub fn fields(&self) -> [(&'static str, &str); 8] {
        [
            ("queue", &self.queue),
            ("state", &self.state),
            ("key", &self.key),
            ("key_prefix", &self.key_prefix),
            ("error", &self.error),
            ("error_group", &self.error_group),
            ("due_from", &self.due_from),
            ("due_to", &self.due_to),
        ]
    }

    /// Returns a path with the filter as its query.
    pub fn path(&self, path: &str) -> String {
        path_with(path, self.fields())
    }
}

/// A job in a list.
///
/// ```
/// # let job: tickwheel_api::Job = serde_json::from_str(r#"{
/// #   "id": "0190163d-8694-739b-aea5-966c26f8ad91", "queue": "mail", "state": "dead",
/// #   "due": "1970-01-01T00:00:00.000Z", "due_ms": 0, "created": "1970-01-01T00:00:00.000Z",
/// #   "created_ms": 0, "attempts": 3, "priority": 0, "text": "hello",
/// #   "last_error": "mailbox full\nat smtp.rs:7"}"#)?;
/// use tickwheel_page::{Frame, JobFilter, JobRow, JobsView};
///
/// let (frame, filter) = (Frame::at("/jobs", 0), JobFilter::default());
/// let html = JobsView::new(&frame, &filter, Vec::new(), vec![JobRow::of(&job)]).html();
/// assert!(html.contains("mailbox full…") && html.contains("0190163d8694..f8ad91"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct JobRow {
    id: String,
    short: String,
    queue: String,
    state: &'static str,
    key: String,
    due_ms: u64,
    attempts: u32,
    preview: String,
    is_error: bool,
}

impl JobRow {
    /// Returns the line of a job.
    pub fn of(job: &Job) -> Self {
        let is_error = job.last_error.is_some();
        let preview = match (&job.last_error, &job.payload, &job.text, &job.base64) {
            (Some(error), ..) => first_line(error, PREVIEW),
            (None, Some(json), ..) => first_line(json.get(), PREVIEW),
            (None, None, Some(text), _) => first_line(text, PREVIEW),
            (None, None, None, Some(base64)) => first_line(base64, PREVIEW),
            (None, None, None, None) => String::new(),
        };
        let id = job.id.to_string();
        Self {
            short: short_id(&id),
            id,
            queue: job.queue.clone(),
            state: job.state.as_str(),
            key: job.key.as_deref().map(plain).unwrap_or_default(),
            due_ms: job.due_ms,
            attempts: job.attempts,
            preview,
            is_error,
        }
    }
}

/// The search for jobs, with a page of what was found.
///
/// ```
/// use tickwheel_page::{Frame, JobFilter, JobsView};
/// let (frame, filter) = (Frame::at("/jobs", 0), JobFilter::default());
/// let html = JobsView::new(&frame, &filter, Vec::new(), Vec::new()).html();
/// assert!(html.contains("Nothing matches."));
/// ```
#[derive(Debug, Template)]
#[template(path = "jobs.html")]
pub struct JobsView<'a> {
    f: &'a Frame,
    t: &'static Texts,
    filter: &'a JobFilter,
    queues: Vec<String>,
    jobs: Vec<JobRow>,
    next_path: Option<String>,
    damaged: u64,
    problem: Option<String>,
}

impl<'a> JobsView<'a> {
    /// Returns the page with these jobs; `queues` are the names to choose from.
    pub fn new(
        frame: &'a Frame,
        filter: &'a JobFilter,
        queues: Vec<String>,
        jobs: Vec<JobRow>,
    ) -> Self {
        let t = frame.language.texts();
        Self { f: frame, t, filter, queues, jobs, next_path: None, damaged: 0, problem: None }
    }

    /// Shows a link to the next page.
    #[must_use]
    pub fn next(self, next: Option<String>) -> Self {
        let next_path = next.map(|page| {
            let fields = self.filter.fields().into_iter().chain([("page", &page[..])]);
            path_with("/jobs", fields)
        });
        Self { next_path, ..self }
    }

    /// Says how many jobs could not be read.
    #[must_use]
    pub fn damaged(self, damaged: u64) -> Self {
        Self { damaged, ..self }
    }

    /// Says why the search did not work.
    #[must_use]
    pub fn problem(self, problem: Option<String>) -> Self {
        Self { problem, ..self }
    }

    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        render(self)
    }
}

/// One job.
///
/// ```
/// # let job: tickwheel_api::Job = serde_json::from_str(r#"{
/// #   "id": "0190163d-8694-739b-aea5-966c26f8ad91", "queue": "mail", "state": "dead", "priority": 0,
/// #   "text": "<script>alert(1)</script>", "due": "", "due_ms": 0, "created": "", "created_ms": 0,
/// #   "attempts": 3, "last_error": "no such address"}"#)?;
/// use tickwheel_page::{Frame, JobView};
/// let html = JobView::new(&Frame::at("/jobs/0190163d-8694-739b-aea5-966c26f8ad91", 0), &job).html();
/// assert!(html.contains("&#60;script&#62;") && !html.contains("<script>alert"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Template)]
#[template(path = "job.html")]
pub struct JobView<'a> {
    f: &'a Frame,
    t: &'static Texts,
    job: &'a Job,
    short: String,
    payload: PayloadView,
    result: Option<PayloadView>,
    is_live: bool,
    is_waiting: bool,
    is_dead: bool,
}

impl<'a> JobView<'a> {
    /// Returns the page of a job.
    pub fn new(frame: &'a Frame, job: &'a Job) -> Self {
        let is_waiting = matches!(job.state, JobState::Scheduled | JobState::Ready);
        Self {
            f: frame,
            t: frame.language.texts(),
            job,
            short: short_id(&job.id.to_string()),
            payload: PayloadView::of(job),
            result: job.result.as_ref().map(|result| PayloadView::of_json(result.get())),
            is_live: is_waiting || job.state == JobState::Leased,
            is_waiting,
            is_dead: job.state == JobState::Dead,
        }
    }

    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        render(self)
    }
}

/// Jobs that failed with the same error.
///
/// ```
/// # let group: tickwheel_api::ErrorGroup = serde_json::from_str(r##"{"error": "card # declined",
/// #   "count": 2, "dead": 2, "retrying": 0, "newest_ms": 5, "oldest_ms": 1, "queue": "billing",
/// #   "example": "0190163d-8694-739b-aea5-966c26f8ad91", "example_error": "card 7 declined"}"##)?;
/// let row = tickwheel_page::ErrorRow::of(group, "billing");
/// assert_eq!(row.list_path, "/jobs?queue=billing&error_group=card%20%23%20declined");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ErrorRow {
    /// The error, with numbers and ids folded.
    pub error: String,
    /// The queue.
    pub queue: String,
    /// The number of jobs.
    pub count: u64,
    /// When the last of them failed, in milliseconds since 1970, if that is known.
    pub newest_ms: Option<u64>,
    /// The path of one of the jobs.
    pub example_path: String,
    /// The path of the list of these jobs.
    pub list_path: String,
    /// The path that asks whether to retry those that are dead; `None` if none is.
    pub retry_path: Option<String>,
}

impl ErrorRow {
    /// Returns the line of a group. `queue` is the queue that was asked for, or empty for all.
    pub fn of(group: ErrorGroup, queue: &str) -> Self {
        let filter = [("queue", queue), ("error_group", &group.error[..])];
        let retry = [("all", "true"), ("action", "retry")].into_iter().chain(filter);
        Self {
            list_path: path_with("/jobs", filter),
            retry_path: (group.dead > 0).then(|| path_with("/jobs/bulk", retry)),
            example_path: format!("/jobs/{}", group.example),
            error: group.error,
            queue: group.queue,
            count: group.count,
            newest_ms: group.newest_ms,
        }
    }
}

/// Why jobs fail: errors by text.
///
/// ```
/// use tickwheel_page::{ErrorsView, Frame};
/// let html = ErrorsView::new(&Frame::at("/errors", 0), "", Vec::new(), Vec::new(), false).html();
/// assert!(html.contains("No job has failed."));
/// ```
#[derive(Debug, Template)]
#[template(path = "errors_page.html")]
pub struct ErrorsView<'a> {
    f: &'a Frame,
    t: &'static Texts,
    queue: &'a str,
    queues: Vec<String>,
    errors: Vec<ErrorRow>,
    is_partial: bool,
}

impl<'a> ErrorsView<'a> {
    /// Returns the page of a queue, or of all if its name is empty. `is_partial` says that not all
    /// jobs were read.
    pub fn new(
        frame: &'a Frame,
        queue: &'a str,
        queues: Vec<String>,
        errors: Vec<ErrorRow>,
        is_partial: bool,
    ) -> Self {
        Self { f: frame, t: frame.language.texts(), queue, queues, errors, is_partial }
    }

    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        render(self)
    }
}

/// How far an action on many jobs is.
///
/// ```
/// use tickwheel_page::{BulkProgress, BulkView, Frame};
///
/// let rest = vec![("after".to_owned(), "42".to_owned())];
/// let progress = BulkProgress {
///     action: "cancel".into(), done: 1000, skipped: 2, total: 2500, fields: Some(rest),
///     ..BulkProgress::default()
/// };
/// let html = BulkView::new(&Frame::at("/jobs/bulk/run", 0), progress).html();
/// assert!(html.contains("2 were skipped") && html.contains("name=\"after\" value=\"42\""));
/// ```
#[derive(Clone, Debug, Default)]
pub struct BulkProgress {
    /// The action: `retry`, `run`, `reschedule` or `cancel`.
    pub action: String,
    /// The number of jobs that were changed.
    pub done: u64,
    /// The number of jobs that were skipped because of their state.
    pub skipped: u64,
    /// The number of jobs that matched when the action began.
    pub total: u64,
    /// The fields that continue the action; `None` when it is complete.
    pub fields: Option<Vec<(String, String)>>,
    /// Where the visitor goes afterwards.
    pub back: String,
}

/// An action on many jobs, with a progress bar.
///
/// ```
/// use tickwheel_page::{BulkProgress, BulkView, Frame};
/// let progress = BulkProgress {
///     action: "retry".into(), done: 3, total: 3, back: "/jobs".into(), ..BulkProgress::default()
/// };
/// let html = BulkView::new(&Frame::at("/jobs/bulk/run", 0), progress).html();
/// assert!(html.contains("3 of 3 jobs retried"));
/// ```
#[derive(Debug, Template)]
#[template(path = "bulk.html", blocks = ["progress_bar"])]
pub struct BulkView<'a> {
    f: &'a Frame,
    t: &'static Texts,
    title: &'static str,
    progress: String,
    done: u64,
    total: u64,
    is_complete: bool,
    fields: Vec<(String, String)>,
    back: String,
}

impl<'a> BulkView<'a> {
    /// Returns the page.
    pub fn new(frame: &'a Frame, bulk: BulkProgress) -> Self {
        let t = frame.language.texts();
        let title = match &bulk.action[..] {
            "retry" => t.retry,
            "run" => t.run_now,
            "reschedule" => t.reschedule,
            _ => t.cancel,
        };
        let total = bulk.total.max(bulk.done + bulk.skipped);
        let mut progress = t
            .progress(&bulk.action)
            .replace("{done}", &frame.n(bulk.done))
            .replace("{total}", &frame.n(total));
        if bulk.skipped > 0 {
            progress.push_str("; ");
            progress.push_str(&frame.fill(t.progress_skipped, frame.n(bulk.skipped)));
        }
        Self {
            f: frame,
            t,
            title,
            progress,
            done: bulk.done + bulk.skipped,
            total,
            is_complete: bulk.fields.is_none(),
            fields: bulk.fields.unwrap_or_default(),
            back: bulk.back,
        }
    }

    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        render(self)
    }

    /// Returns the progress bar alone, for a script that replaces it.
    pub fn fragment(&self) -> String {
        render(&self.as_progress_bar())
    }
}
