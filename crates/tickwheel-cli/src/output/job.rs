//! Jobs, for people.

use std::time::Duration;

use tickwheel_api::{Attempt, AttemptOutcome, Content, Delivery, Job, JobId, JobPage};

use super::Output;
use super::json::indented;
use super::style::Style;
use super::table::{Cell, Table, WIDTH};
use super::text::{bytes, count, safe, safe_lines, shortened};
use super::time::{relative, rough};
use crate::failure::Failure;
use crate::payload;

/// The length of a key or an error in a list.
const SHOWN: usize = 13;

/// Returns the short id: the millisecond of the put and six random digits. Commands accept it.
pub(super) fn short_id(id: JobId) -> String {
    let digits = id.to_string().replace('-', "");
    format!("{}..{}", &digits[..12], &digits[26..])
}

/// Shows one job in full.
pub(crate) fn show(output: &Output, job: &Job) -> Result<(), Failure> {
    output.table(&fields(output, job))?;
    if let Some(error) = job.last_error.as_deref().map(str::trim).filter(|it| it.contains('\n')) {
        output.line("\nLast error")?;
        output.line(safe_lines(error))?;
    }
    if !job.history.is_empty() {
        output.line("\nAttempts")?;
        output.table(&timeline(output, &job.history))?;
    }
    output.line("")?;
    content(output, payload::of(job))?;
    if let Some(result) = &job.result {
        output.line("\nResult")?;
        output.line(safe_lines(&indented(result.get())))?;
    }
    Ok(())
}

/// Shows the payload in full.
pub(crate) fn content(output: &Output, content: Option<Content>) -> Result<(), Failure> {
    match content {
        None => output.line("(no payload)"),
        Some(Content::Json(json)) => output.line(safe_lines(&indented(json.get()))),
        Some(Content::Text(text)) => output.line(safe_lines(&text)),
        Some(content @ Content::Base64(_)) => {
            let size = content.into_bytes().map_or(0, |bytes| bytes.len() as u64);
            output.line(format!("({}; `tickwheel get --payload` writes them)", bytes(size)))
        }
    }
}

fn fields(output: &Output, job: &Job) -> Table {
    let wall = &output.wall;
    let mut table = Table::of_fields();
    table.field("id", job.id.to_string());
    table.field("queue", safe(&job.queue));
    table.field("state", state(job));
    table.field("due", wall.both(job.due_ms));
    table.field("created", wall.both(job.created_ms));
    if let Some(lease) = &job.lease {
        if let Some(worker) = &lease.worker {
            table.field("worker", safe(worker));
        }
        if let Some(since) = lease.since_ms {
            table.field("leased", wall.both(since));
        }
        table.field("lease ends", wall.both(lease.until_ms));
    }
    if let Some(finished) = job.finished_ms {
        table.field("finished", wall.both(finished));
    }
    if let Some(key) = &job.key {
        table.field("key", safe(key));
    }
    if let Some(group) = &job.group {
        table.field("group", safe(group));
    }
    if job.priority != 0 {
        table.field("priority", job.priority.to_string());
    }
    table.field(
        "attempts",
        match job.max_attempts {
            Some(max) => format!("{} of {max}", job.attempts),
            None => job.attempts.to_string(),
        },
    );
    if let Some(retry) = &job.retry {
        table.field("retry", super::queue::retry(retry));
    }
    // An error of several lines, such as a stack trace, has its own place.
    if let Some(error) = job.last_error.as_ref().filter(|error| !error.trim().contains('\n')) {
        table.field("last error", Cell::new(safe(error)).style(Style::Bad));
    }
    for (name, value) in &job.headers {
        table.field(&format!("header {}", safe(name)), safe(value));
    }
    table
}

/// Shows the attempts of a job, one per line, the oldest first.
fn timeline(output: &Output, attempts: &[Attempt]) -> Table {
    let mut table = Table::new(["try", "started", "took", "outcome", "worker", "error"]);
    for attempt in attempts {
        let took = Duration::from_millis(attempt.ended_ms.saturating_sub(attempt.started_ms));
        let texts = [&attempt.error, &attempt.detail].into_iter().flatten();
        let first_line = |text: &String| safe(text.lines().next().unwrap_or_default());
        let error: Vec<String> = texts.map(first_line).collect();
        table.row([
            Cell::number(attempt.number.into()),
            output.wall.absolute(attempt.started_ms).into(),
            rough(took).into(),
            Cell::new(attempt.outcome.as_str()).style(style_of(attempt.outcome)),
            safe(attempt.worker.as_deref().unwrap_or_default()).into(),
            error.join(" | ").into(),
        ]);
    }
    table
}

fn style_of(outcome: AttemptOutcome) -> Style {
    match outcome {
        AttemptOutcome::Done => Style::Good,
        AttemptOutcome::Failed | AttemptOutcome::Expired => Style::Bad,
        AttemptOutcome::Released | AttemptOutcome::Cancelled => Style::Faint,
    }
}

fn state(job: &Job) -> Cell {
    Cell::new(job.state.to_string()).style(Style::of_state(job.state))
}

/// Shows a page of a list.
pub(crate) fn list(output: &Output, page: &JobPage) -> Result<(), Failure> {
    // Where jobs have failed, why is more important than what they carry.
    let has_errors = page.jobs.iter().any(|job| job.last_error.is_some());
    let last = if has_errors { "error" } else { "payload" };
    let mut table = Table::new(["id", "state", "due", "key", "tries", last]).narrow();
    for job in &page.jobs {
        table.row([
            short_id(job.id).into(),
            state(job),
            relative(job.due_ms).into(),
            short(job.key.as_deref().unwrap_or_default()).into(),
            Cell::number(job.attempts.into()),
            if has_errors { error(job) } else { summary(job).into() },
        ]);
    }
    if !page.jobs.is_empty() {
        output.table(&table)?;
    }
    for id in &page.damaged {
        output.remark(&format!("{id} cannot be read: its record is damaged"));
    }
    if page.gaps > 0 {
        let places = count(page.gaps, "place");
        output.remark(&format!("{places} of the list cannot be read: jobs may be missing here"));
    }
    if let Some(next) = &page.next {
        output.remark(&format!("there is more: --all, or --page {next}"));
    }
    Ok(())
}

fn short(text: &str) -> String {
    shortened(&safe(text), SHOWN)
}

/// Returns the first line of a job's last error.
fn error(job: &Job) -> Cell {
    let error = job.last_error.as_deref().unwrap_or_default();
    let line = error.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Cell::new(shortened(&safe(line.trim()), WIDTH)).style(Style::Bad)
}

/// Returns the beginning of a payload, on one line.
fn summary(job: &Job) -> String {
    match payload::of(job) {
        None => String::new(),
        Some(Content::Json(json)) => shortened(&safe(json.get()), WIDTH),
        Some(Content::Text(text)) => shortened(&safe(&text), WIDTH),
        Some(content @ Content::Base64(_)) => {
            content.into_bytes().map_or_else(|_| String::new(), |raw| bytes(raw.len() as u64))
        }
    }
}

/// Shows delivered jobs.
pub(crate) fn deliveries(output: &Output, deliveries: &[Delivery]) -> Result<(), Failure> {
    if deliveries.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(["id", "token", "lease ends", "key", "try", "payload"]).narrow();
    for Delivery { job, token, until_ms, .. } in deliveries {
        table.row([
            short_id(job.id).into(),
            token.to_string().into(),
            relative(*until_ms).into(),
            short(job.key.as_deref().unwrap_or_default()).into(),
            Cell::number(job.attempts.into()),
            summary(job).into(),
        ]);
    }
    output.table(&table)
}
