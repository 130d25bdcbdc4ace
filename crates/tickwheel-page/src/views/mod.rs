//! One struct for each page, with its template.
//!
//! | file | pages |
//! |---|---|
//! | `overview` | the overview and the wheel |
//! | `queues` | the list of queues, and one queue |
//! | `jobs` | search, one job, errors by text, actions on many jobs |
//! | `forms` | put a job, schedules, targets |
//! | `plain_pages` | sign in, problems, questions |

mod forms;
mod jobs;
mod overview;
mod plain_pages;
mod queues;

use askama::Template;

pub use forms::{
    CONFLICTS, Commands, CronCheck, PAYLOAD_KINDS, PutForm, PutView, Run, ScheduleCheckView,
    ScheduleForm, ScheduleRow, SchedulesView, TargetTestView, TargetsView,
};
pub use jobs::{
    BulkProgress, BulkView, ErrorRow, ErrorsView, JOB_STATES, JobFilter, JobRow, JobView, JobsView,
};
pub use overview::{OverviewView, WheelView};
pub use plain_pages::{ConfirmView, LoginView, ProblemView};
pub use queues::{QueueSort, QueueView, QueuesView};

/// Renders a template. Writing to memory fails only if a value cannot be written, and all of ours
/// can.
fn render(template: &impl Template) -> String {
    template.render().unwrap_or_default()
}

/// Percent-encodes a value of a query.
pub(crate) fn encoded(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::with_capacity(text.len()), |mut shown, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            shown.push(byte as char);
        } else {
            let _ = write!(shown, "%{byte:02X}");
        }
        shown
    })
}

/// Returns a path with a query; parameters without a value are left out.
///
/// ```
/// let path = tickwheel_page::path_with("/jobs", [("queue", "mail"), ("state", ""), ("error", "a b")]);
/// assert_eq!(path, "/jobs?queue=mail&error=a%20b");
/// ```
pub fn path_with<'a>(path: &str, query: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let query: Vec<_> = query
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={}", encoded(value)))
        .collect();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) }
}
