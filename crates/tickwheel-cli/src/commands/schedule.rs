//! Schedules: add, list, show, pause, resume, remove, the next times.

use serde::de::IgnoredAny;
use tickwheel_api::{Content, NextRuns, Schedule, ScheduleList, ScheduleRequest};
use ureq::http::Method;

use super::Context;
use crate::args::{ScheduleAddArgs, ScheduleCommand};
use crate::client::{Answer, Extra, Path};
use crate::failure::Failure;
use crate::output::style::Style;
use crate::output::table::{Cell, Table};
use crate::output::time::relative;
use crate::output::{self, Output, text};
use crate::{payload, suggest};

pub(crate) fn run(context: &Context, command: ScheduleCommand) -> Result<(), Failure> {
    match command {
        ScheduleCommand::Add(args) => add(context, *args),
        ScheduleCommand::Ls => ls(context),
        ScheduleCommand::Show { name } => {
            let answer = explained(context, &name, context.client.get(&path(&name)))?;
            context.output.answer(&answer, |schedule: &Schedule| show(context.output, schedule))
        }
        ScheduleCommand::Rm { name } => {
            let answer = explained(context, &name, context.client.delete(&path(&name)))?;
            context.output.answer(&answer, |_: &IgnoredAny| {
                context.output.line(format!("schedule {:?} is removed", text::safe(&name)))
            })
        }
        ScheduleCommand::Pause { name } => switch(context, &name, "pause"),
        ScheduleCommand::Resume { name } => switch(context, &name, "resume"),
        ScheduleCommand::Next { name, count } => next(context, &name, count),
    }
}

fn switch(context: &Context, name: &str, action: &str) -> Result<(), Failure> {
    let path = Path::new(&["schedules", name, action]);
    let answer = explained(context, name, context.client.post(&path, &serde_json::json!({})))?;
    context.output.answer(&answer, |schedule: &Schedule| {
        let name = text::safe(&schedule.name);
        if schedule.paused {
            return context.output.line(format!("schedule {name:?} is paused"));
        }
        let next = coming(context.output, schedule);
        context.output.line(format!("schedule {name:?} is resumed, next {next}"))
    })
}

fn path(name: &str) -> Path {
    Path::new(&["schedules", name])
}

/// Adds a suggestion if the schedule does not exist.
fn explained(
    context: &Context,
    name: &str,
    answer: Result<Answer, Failure>,
) -> Result<Answer, Failure> {
    answer.map_err(|failure| {
        if !failure.is_not_found() {
            return failure;
        }
        let hint = suggest::schedule(&context.client, name);
        failure.with_hint(hint)
    })
}

fn add(context: &Context, args: ScheduleAddArgs) -> Result<(), Failure> {
    let bytes = payload::read(&args.payload)?;
    let mut request = ScheduleRequest {
        queue: args.queue,
        cron: args.cron,
        timezone: args.timezone,
        every: args.every,
        misfire: args.misfire,
        misfire_limit: args.misfire_limit,
        priority: args.options.priority,
        headers: args.options.headers.into_iter().collect(),
        max_attempts: args.options.max_attempts,
        retry: args.options.retry,
        group: args.options.group,
        ..ScheduleRequest::default()
    };
    match payload::content(&bytes, args.payload.kind)? {
        Content::Json(json) => request.payload = Some(json),
        Content::Text(text) => request.text = Some(text),
        Content::Base64(text) => request.base64 = Some(text),
    }
    let answer =
        context.client.call(Method::PUT, &path(&args.name), Some(&request), &Extra::default())?;
    context.output.answer(&answer, |schedule: &Schedule| {
        let (name, words) = (text::safe(&schedule.name), text::safe(&schedule.explanation));
        let next = coming(context.output, schedule);
        context.output.line(format!("schedule {name:?}: {words}\nnext {next}"))
    })
}

fn coming(output: &Output, schedule: &Schedule) -> String {
    let wall = output.wall.in_zone(schedule.timezone.as_deref());
    schedule.next_ms.map_or_else(|| "never".to_owned(), |next| wall.both(next))
}

/// Describes the timing in words.
fn times(schedule: &Schedule) -> String {
    match (&schedule.every, &schedule.cron) {
        (Some(every), _) => format!("every {every}"),
        (None, Some(cron)) => {
            let zone = schedule.timezone.as_deref().unwrap_or("UTC");
            format!("{} {}", text::safe(cron), text::safe(zone))
        }
        (None, None) => String::new(),
    }
}

fn ls(context: &Context) -> Result<(), Failure> {
    let answer = context.client.get(&Path::new(&["schedules"]))?;
    context.output.answer(&answer, |list: &ScheduleList| {
        if list.schedules.is_empty() {
            context.output.remark("there are no schedules; `tickwheel schedule add` makes one");
            return Ok(());
        }
        let mut table = Table::new(["schedule", "queue", "times", "next", "at"]);
        for schedule in &list.schedules {
            let wall = &context.output.wall;
            let next = schedule.next_ms;
            table.row([
                text::safe(&schedule.name).into(),
                text::safe(&schedule.queue).into(),
                times(schedule).into(),
                next.map_or_else(|| "never".to_owned(), relative).into(),
                Cell::new(next.map_or_else(String::new, |next| wall.absolute(next)))
                    .style(Style::Faint),
            ]);
        }
        context.output.table(&table)
    })
}

fn show(output: &Output, schedule: &Schedule) -> Result<(), Failure> {
    let mut table = Table::of_fields();
    table.field("schedule", text::safe(&schedule.name));
    table.field("queue", text::safe(&schedule.queue));
    table.field("times", times(schedule));
    table.field("in words", text::safe(&schedule.explanation));
    if schedule.paused {
        table.field("state", Cell::new("paused").style(Style::Warning));
    }
    table.field("next", coming(output, schedule));
    let misfire = serde_json::to_value(schedule.misfire).unwrap_or_default();
    let misfire = misfire.as_str().unwrap_or_default();
    let limit = schedule.misfire_limit.map_or_else(String::new, |limit| format!(", up to {limit}"));
    table.field("missed times", format!("{misfire}{limit}"));
    if schedule.priority != 0 {
        table.field("priority", schedule.priority.to_string());
    }
    if let Some(group) = &schedule.group {
        table.field("group", text::safe(group));
    }
    if let Some(attempts) = schedule.max_attempts {
        table.field("attempts", attempts.to_string());
    }
    if let Some(retry) = &schedule.retry {
        table.field("retry", output::queue::retry(retry));
    }
    for (name, value) in &schedule.headers {
        table.field(&format!("header {}", text::safe(name)), text::safe(value));
    }
    output.table(&table)?;
    output.line("")?;
    let Schedule { payload: json, text, base64, .. } = schedule.clone();
    output::job::content(output, payload::from_fields(json, text, base64))
}

fn next(context: &Context, name: &str, count: u32) -> Result<(), Failure> {
    let path = Path::new(&["schedules", name, "next"]).query("n", &count.to_string());
    let answer = explained(context, name, context.client.get(&path))?;
    context.output.answer(&answer, |runs: &NextRuns| {
        let schedule: Schedule = context.client.get(&self::path(name))?.read()?;
        let wall = context.output.wall.in_zone(schedule.timezone.as_deref());
        let mut table = Table::of_fields();
        for run in &runs.next {
            table.row([wall.absolute(run.due_ms).into(), relative(run.due_ms).into()]);
        }
        context.output.table(&table)
    })
}
