//! The list of queues, and one queue.

use std::cmp::Reverse;

use askama::Template;
use tickwheel_api::{Group, Order, Queue, QueueSettings};

use super::jobs::ErrorRow;
use super::{encoded, render};
use crate::texts::Texts;
use crate::{Frame, format_keep, format_pacing, format_retry};

/// The column that a list of queues is sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueSort {
    /// The name.
    #[default]
    Name,
    /// Scheduled jobs, the largest number first; likewise below.
    Scheduled,
    /// Ready jobs.
    Ready,
    /// Leased jobs.
    Leased,
    /// Dead jobs.
    Dead,
    /// The age of the oldest ready job.
    Oldest,
    /// The lateness of 99 of 100 jobs.
    Lateness,
}

impl QueueSort {
    /// All columns, in order.
    pub const ALL: [Self; 7] = [
        Self::Name,
        Self::Scheduled,
        Self::Ready,
        Self::Leased,
        Self::Dead,
        Self::Oldest,
        Self::Lateness,
    ];

    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Scheduled => "scheduled",
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Dead => "dead",
            Self::Oldest => "oldest",
            Self::Lateness => "lateness",
        }
    }

    /// Returns the column with a name; the first one if there is none.
    pub fn of_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|sort| sort.as_str() == name).unwrap_or_default()
    }

    pub(crate) fn is_number(self) -> bool {
        self != Self::Name
    }

    fn apply(self, queues: &mut [Queue]) {
        match self {
            Self::Name => queues.sort_by(|a, b| a.name.cmp(&b.name)),
            Self::Scheduled => queues.sort_by_key(|queue| Reverse(queue.jobs.scheduled)),
            Self::Ready => queues.sort_by_key(|queue| Reverse(queue.jobs.ready)),
            Self::Leased => queues.sort_by_key(|queue| Reverse(queue.jobs.leased)),
            Self::Dead => queues.sort_by_key(|queue| Reverse(queue.jobs.dead)),
            Self::Oldest => queues.sort_by_key(|queue| queue.oldest_ready_ms.unwrap_or(u64::MAX)),
            Self::Lateness => queues.sort_by_key(|queue| Reverse(queue.lateness.p99_us)),
        }
    }
}

/// The list of queues.
///
/// ```
/// use tickwheel_page::{Frame, QueueSort, QueuesView};
/// let frame = Frame::at("/queues", 0);
/// let html = QueuesView::new(&frame, Vec::new(), QueueSort::Name, "").html();
/// assert!(html.contains("There is no queue yet"));
/// ```
#[derive(Debug, Template)]
#[template(path = "queues.html")]
pub struct QueuesView<'a> {
    f: &'a Frame,
    t: &'static Texts,
    rows: Vec<Queue>,
    sort: QueueSort,
    filter: &'a str,
    filter_encoded: String,
}

impl<'a> QueuesView<'a> {
    /// Returns the page of the queues whose names contain `filter`.
    pub fn new(frame: &'a Frame, mut queues: Vec<Queue>, sort: QueueSort, filter: &'a str) -> Self {
        let wanted = filter.to_lowercase();
        queues.retain(|queue| queue.name.to_lowercase().contains(&wanted));
        sort.apply(&mut queues);
        let filter_encoded = encoded(filter);
        Self { f: frame, t: frame.language.texts(), rows: queues, sort, filter, filter_encoded }
    }

    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        render(self)
    }
}

/// A setting of a queue as a line of a form.
#[derive(Clone, Debug)]
struct SettingField {
    name: &'static str,
    value: String,
    example: &'static str,
}

/// One queue with its settings.
///
/// ```
/// # let queue: tickwheel_api::Queue = serde_json::from_str(r#"{"name": "mail", "paused": true,
/// #   "jobs": {"scheduled": 0, "ready": 0, "leased": 0, "dead": 3, "done": 0, "cancelled": 0},
/// #   "more_ready": false, "settings": {}}"#)?;
/// use tickwheel_page::{Frame, QueueView};
/// let frame = Frame::at("/queues/mail", 0);
/// let html = QueueView::new(&frame, &queue).html();
/// assert!(html.contains("/queues/mail/resume") && html.contains("value=\"1s..1h\""));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Template)]
#[template(path = "queue.html")]
pub struct QueueView<'a> {
    f: &'a Frame,
    t: &'static Texts,
    queue: &'a Queue,
    fields: Vec<SettingField>,
    by_priority: bool,
    fair_groups: bool,
    groups: Vec<Group>,
    more_groups: bool,
    errors: Vec<ErrorRow>,
    problem: Option<String>,
}

impl<'a> QueueView<'a> {
    /// Returns the page of a queue.
    pub fn new(frame: &'a Frame, queue: &'a Queue) -> Self {
        Self {
            f: frame,
            t: frame.language.texts(),
            queue,
            fields: fields_of(&queue.settings),
            by_priority: queue.settings.order == Order::Priority,
            fair_groups: queue.settings.fair_groups,
            groups: Vec::new(),
            more_groups: false,
            errors: Vec::new(),
            problem: None,
        }
    }

    /// Shows groups, and whether there are more.
    #[must_use]
    pub fn groups(self, groups: Vec<Group>, more: bool) -> Self {
        Self { groups, more_groups: more, ..self }
    }

    /// Shows why jobs fail.
    #[must_use]
    pub fn errors(self, errors: Vec<ErrorRow>) -> Self {
        Self { errors, ..self }
    }

    /// Shows settings that were refused, and why.
    #[must_use]
    pub fn refused(mut self, problem: String, given: impl Fn(&str) -> Option<String>) -> Self {
        for field in &mut self.fields {
            if let Some(value) = given(field.name) {
                field.value = value;
            }
        }
        Self { problem: Some(problem), ..self }
    }

    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        render(self)
    }
}

fn fields_of(settings: &QueueSettings) -> Vec<SettingField> {
    let (rate, concurrency) = format_pacing(&settings.pacing);
    let (group_rate, group_concurrency) = format_pacing(&settings.group_pacing);
    let field = |name, value, example| SettingField { name, value, example };
    vec![
        field("lease", settings.lease.to_string(), "30s"),
        field("max_attempts", settings.max_attempts.to_string(), "10"),
        field("retry", format_retry(&settings.retry), "1s..1h"),
        field("rate", rate, "100/1s"),
        field("concurrency", concurrency, "8"),
        field("group_rate", group_rate, "10/1s"),
        field("group_concurrency", group_concurrency, "1"),
        field("keep_done", format_keep(&settings.retention.done), "7d,1000"),
        field("keep_dead", format_keep(&settings.retention.dead), "forever"),
        field("keep_cancelled", format_keep(&settings.retention.cancelled), "nothing"),
        field("target", settings.target.clone().unwrap_or_default(), ""),
    ]
}
