//! Queues and their settings, for people.

use tickwheel_api::{Exponential, GroupPage, Keep, Pacing, Queue, Retry};

use super::Output;
use super::style::Style;
use super::table::{Cell, Table};
use super::text::{count, grouped, safe};
use crate::commands::stats::percentiles;
use crate::failure::Failure;

pub(crate) fn list(output: &Output, queues: &[Queue]) -> Result<(), Failure> {
    if queues.is_empty() {
        return Ok(());
    }
    let mut table =
        Table::new(["queue", "scheduled", "ready", "leased", "dead", "done", "cancelled", ""]);
    for Queue { name, paused, jobs, .. } in queues {
        let dead = Cell::number(jobs.dead);
        table.row([
            safe(name).into(),
            Cell::number(jobs.scheduled),
            Cell::number(jobs.ready),
            Cell::number(jobs.leased),
            if jobs.dead > 0 { dead.style(Style::Bad) } else { dead },
            Cell::number(jobs.done),
            Cell::number(jobs.cancelled),
            paused_cell(*paused),
        ]);
    }
    output.table(&table)
}

pub(crate) fn groups(output: &Output, page: &GroupPage) -> Result<(), Failure> {
    if page.groups.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(["group", "waiting", "running", "held", "pacing", ""]);
    for group in &page.groups {
        let own = group.pacing.as_ref().map_or_else(|| "as the queue".to_owned(), pacing);
        let held = Cell::number(group.held);
        table.row([
            safe(&group.name).into(),
            Cell::number(group.waiting),
            Cell::number(group.running),
            if group.held > 0 { held.style(Style::Warning) } else { held },
            own.into(),
            paused_cell(group.paused),
        ]);
    }
    output.table(&table)?;
    if let Some(next) = &page.next {
        output.remark(&format!("there are more: --page {}, or --all", safe(next)));
    }
    Ok(())
}

fn paused_cell(paused: bool) -> Cell {
    Cell::new(if paused { "paused" } else { "" }).style(Style::Warning)
}

pub(crate) fn show(output: &Output, queue: &Queue) -> Result<(), Failure> {
    let Queue { name, paused, jobs, more_ready, settings, counters, .. } = queue;
    let mut table = Table::of_fields();
    table.field("queue", safe(name));
    table.field("deliveries", if *paused { paused_cell(true) } else { Cell::new("running") });
    table.field("scheduled", grouped(jobs.scheduled));
    table.field("ready", grouped(jobs.ready));
    table.field("leased", grouped(jobs.leased));
    table.field("dead", grouped(jobs.dead));
    table.field("done", grouped(jobs.done));
    table.field("cancelled", grouped(jobs.cancelled));
    if let Some(due) = queue.oldest_ready_ms {
        table.field("oldest ready", output.wall.both(due));
    }
    table.field("lateness", percentiles(Some(&queue.lateness)));
    output.table(&table)?;
    if *more_ready {
        output.line("(more are ready than memory holds: those are counted as scheduled)")?;
    }
    output.line("\nSince the queue was created")?;
    let mut table = Table::of_fields();
    for (what, count) in [
        ("put", counters.put),
        ("delivered", counters.delivered),
        ("acked", counters.acked),
        ("failed", counters.failed),
        ("leases run out", counters.expired),
        ("released", counters.released),
        ("died", counters.died),
        ("cancelled", counters.cancelled),
        ("kicked", counters.kicked),
    ] {
        table.field(what, grouped(count));
    }
    output.table(&table)?;
    output.line("")?;
    let mut table = Table::of_fields();
    table.field("lease", settings.lease.to_string());
    table.field("attempts", settings.max_attempts.to_string());
    table.field("retry", retry(&settings.retry));
    table.field("pacing", pacing(&settings.pacing));
    table.field("group pacing", pacing(&settings.group_pacing));
    if let Some(target) = &settings.target {
        table.field("target", safe(target));
    }
    table.field("groups", if settings.fair_groups { "served in turn" } else { "not in turn" });
    table.field("keeps done", keep(&settings.retention.done));
    table.field("keeps dead", keep(&settings.retention.dead));
    table.field("keeps cancelled", keep(&settings.retention.cancelled));
    output.table(&table)
}

/// How a failed job is tried again, in words.
pub(crate) fn retry(retry: &Retry) -> String {
    match retry {
        Retry::Fixed(delay) => format!("every {delay}"),
        Retry::Exponential(Exponential { first, max, jitter: 0 }) => {
            format!("{first}, doubling up to {max}")
        }
        Retry::Exponential(Exponential { first, max, jitter }) => {
            format!("{first}, doubling up to {max}, and up to {jitter} % more by chance")
        }
        Retry::List(delays) => {
            let delays: Vec<String> = delays.iter().map(ToString::to_string).collect();
            format!("after {}", delays.join(", "))
        }
    }
}

pub(crate) fn pacing(pacing: &Pacing) -> String {
    let starts = pacing.starts.zip(pacing.window);
    let starts = starts.map(|(starts, window)| format!("{starts} in {window}"));
    let at_once = pacing.concurrency.map(|jobs| format!("{jobs} at once"));
    let parts: Vec<String> = starts.into_iter().chain(at_once).collect();
    if parts.is_empty() { "no limit".to_owned() } else { parts.join(", ") }
}

fn keep(keep: &Keep) -> String {
    match (keep.age, keep.count) {
        (_, Some(0)) => "nothing".to_owned(),
        (None, None) => "all".to_owned(),
        (Some(age), None) => format!("for {age}"),
        (None, Some(jobs)) => format!("up to {}", count(jobs, "job")),
        (Some(age), Some(jobs)) => format!("for {age}, up to {}", count(jobs, "job")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_told_in_words() {
        let week = Some("1w".parse().unwrap());
        assert_eq!(keep(&Keep { age: week, count: Some(1_000) }), "for 1w, up to 1,000 jobs");
        assert_eq!(keep(&Keep { age: week, count: Some(0) }), "nothing");
        assert_eq!(keep(&Keep::default()), "all");
        let starts =
            Pacing { starts: Some(100), window: Some("1s".parse().unwrap()), concurrency: Some(5) };
        assert_eq!(pacing(&starts), "100 in 1s, 5 at once");
        assert_eq!(pacing(&Pacing::default()), "no limit");
        let list = Retry::List(vec!["1s".parse().unwrap(), "1m".parse().unwrap()]);
        assert_eq!(retry(&list), "after 1s, 1m");
    }
}
