//! Schedules, with their next runs, and what a cron expression means.

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::value::RawValue;
use tickwheel_page::{
    ConfirmView, CronCheck, Language, Run, ScheduleCheckView, ScheduleForm, ScheduleRow,
    SchedulesView,
};
use tickwheel_queue::{Schedule, Timing};

use super::answer::{changed, html, no_such_action};
use super::form::Form;
use super::queues::names;
use super::visitor::Visitor;
use crate::api::{Delay, NextRun, NextRuns, ScheduleList, ScheduleRequest};
use crate::app::App;
use crate::cluster::Fleet;
use crate::extract;
use crate::problem::Failure;
use crate::routes;
use crate::tokens::Scope;
use crate::wire::{IntoWire, rfc3339};

const WEEKDAYS: [&str; 7] = ["周日", "周一", "周二", "周三", "周四", "周五", "周六"];
/// Runs that are shown of each schedule.
const RUNS: usize = 3;
/// Bytes of schedules that are read at once.
const STEP_BYTES: usize = 256 << 10;
/// Runs that are shown of an expression that is being typed.
const CHECKED_RUNS: usize = 5;

/// Returns the next times of a cron schedule, in its own zone.
fn runs_of(
    app: &App,
    cron: &tickwheel_queue::cron::Schedule,
    count: usize,
    language: Language,
) -> Vec<Run> {
    let times = cron.after(app.wall()).take(count);
    times
        .map(|time| {
            let format = match language {
                Language::English => "%a %Y-%m-%d %H:%M:%S %Z".to_owned(),
                Language::Chinese => {
                    let day = time.weekday().to_sunday_zero_offset();
                    let day = usize::try_from(day).ok().and_then(|day| WEEKDAYS.get(day));
                    format!("%Y-%m-%d {} %H:%M:%S %Z", day.unwrap_or(&""))
                }
            };
            Run {
                due_ms: u64::try_from(time.timestamp().as_millisecond()).unwrap_or_default(),
                in_zone: time.strftime(&format).to_string(),
            }
        })
        .collect()
}

/// Describes when a schedule puts jobs.
fn in_words(timing: &Timing, language: Language) -> String {
    match (timing, language) {
        (Timing::Cron(cron), Language::English) => cron.explain(),
        (Timing::Cron(cron), Language::Chinese) => cron.explain_in_chinese(),
        (Timing::Every(period), _) => {
            let text = language.texts().get("every_period").unwrap_or_default();
            text.replace("{}", &Delay(*period).to_string())
        }
    }
}

/// Returns the row of a schedule of any partition.
async fn row_of(
    app: &App,
    visitor: &Visitor,
    fleet: &Fleet,
    mut schedule: crate::api::Schedule,
) -> Result<ScheduleRow, Failure> {
    let language = visitor.frame.language;
    let timing = match (&schedule.cron, schedule.every) {
        (Some(cron), _) => Timing::cron(cron, schedule.timezone.as_deref().unwrap_or("UTC")).ok(),
        (None, every) => every.map(|every| Timing::Every(every.0)),
    };
    let runs = match &timing {
        _ if schedule.paused => Vec::new(),
        Some(Timing::Cron(cron)) => runs_of(app, cron, RUNS, language),
        _ => {
            let (name, queue) = (&schedule.name, &schedule.queue);
            let address = format!("/v1/schedules/{name}/next?n={RUNS}&queue={queue}");
            let found: NextRuns = fleet.get(&address).await?;
            let run = |run: NextRun| Run { due_ms: run.due_ms, in_zone: run.due };
            found.next.into_iter().map(run).collect()
        }
    };
    if let Some(timing) = &timing {
        schedule.explanation = in_words(timing, language);
    }
    Ok(ScheduleRow { schedule, runs })
}

async fn row(app: &App, visitor: &Visitor, schedule: Schedule) -> Result<ScheduleRow, Failure> {
    let language = visitor.frame.language;
    let explanation = in_words(&schedule.timing, language);
    let runs = match &schedule.timing {
        _ if schedule.paused => Vec::new(),
        Timing::Cron(cron) => runs_of(app, cron, RUNS, language),
        Timing::Every(_) => {
            let queues = app.queues_for(&visitor.caller, Scope::Read)?;
            let times = queues.next_times(schedule.name.clone(), RUNS).await?;
            let run = |time| Run {
                due_ms: tickwheel_queue::Time::as_millis(time),
                in_zone: rfc3339(time),
            };
            times.into_iter().map(run).collect()
        }
    };
    let schedule = crate::api::Schedule { explanation, ..schedule.into_wire() };
    Ok(ScheduleRow { schedule, runs })
}

/// Returns all schedules, read in steps: payloads are not shown, and may take gigabytes together.
async fn rows(app: &App, visitor: &Visitor) -> Result<Vec<ScheduleRow>, Failure> {
    let mut rows: Vec<ScheduleRow> = Vec::new();
    if let Some(fleet) = &visitor.fleet {
        let found: ScheduleList = fleet.get("/v1/schedules").await?;
        for schedule in found.schedules {
            rows.push(row_of(app, visitor, fleet, schedule).await?);
        }
        return Ok(rows);
    }
    let queues = app.queues_for(&visitor.caller, Scope::Read)?;
    loop {
        let last = rows.last().map(|row| row.schedule.name.clone());
        let some = queues.schedules_after(last, STEP_BYTES).await?;
        if some.is_empty() {
            return Ok(rows);
        }
        for mut schedule in some {
            schedule.job.payload.clear();
            rows.push(row(app, visitor, schedule).await?);
        }
    }
}

/// The page, with a form that was refused or checked.
async fn page(
    app: &App,
    visitor: &Visitor,
    form: ScheduleForm,
    check: Option<Result<CronCheck, String>>,
    problem: Option<String>,
) -> Result<Response, Failure> {
    let rows = rows(app, visitor).await?;
    let queues = names(app, visitor).await.unwrap_or_default();
    let mut view = SchedulesView::new(&visitor.frame, rows, form, queues);
    if let Some(check) = check {
        view = view.with_check(check);
    }
    let status = if problem.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    if let Some(problem) = problem {
        view = view.with_problem(problem);
    }
    Ok((status, html(view.html())).into_response())
}

pub(super) async fn list(State(app): State<App>, visitor: Visitor) -> Result<Response, Failure> {
    page(&app, &visitor, ScheduleForm::default(), None, None).await
}

/// Says what a cron expression means.
fn explained(app: &App, cron: &str, zone: &str, language: Language) -> Result<CronCheck, String> {
    let zone = if zone.is_empty() { "UTC" } else { zone };
    let timing = Timing::cron(cron, zone).map_err(|error| error.to_string())?;
    let runs = match &timing {
        Timing::Cron(cron) => runs_of(app, cron, CHECKED_RUNS, language),
        Timing::Every(_) => Vec::new(),
    };
    Ok(CronCheck { explanation: in_words(&timing, language), runs })
}

/// Says what the expression of a form means, while the visitor types it.
pub(super) async fn check(
    State(app): State<App>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    visitor.caller.has(Scope::Read)?;
    let form = Form::of_query(query.as_deref());
    let cron = form.trimmed("cron");
    if cron.is_empty() {
        return Ok(html(String::new()));
    }
    let check = explained(&app, &cron, &form.trimmed("timezone"), visitor.frame.language);
    Ok(html(ScheduleCheckView::new(&visitor.frame, check).html()))
}

fn request_of(form: &ScheduleForm) -> Result<ScheduleRequest, String> {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let every = match &form.every[..] {
        "" => None,
        every => Some(every.parse::<Delay>().map_err(|error| error.to_string())?),
    };
    let json = RawValue::from_string(form.payload.trim().to_owned()).ok();
    Ok(ScheduleRequest {
        queue: form.queue.clone(),
        cron: given(&form.cron),
        timezone: given(&form.timezone),
        every,
        text: if json.is_none() { Some(form.payload.clone()) } else { None },
        payload: json,
        ..ScheduleRequest::default()
    })
}

pub(super) async fn put(
    State(app): State<App>,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Failure> {
    let filled = ScheduleForm {
        name: form.trimmed("name"),
        queue: form.trimmed("queue"),
        cron: form.trimmed("cron"),
        timezone: form.trimmed("timezone"),
        every: form.trimmed("every"),
        payload: form.multiline("payload"),
    };
    if form.get("do") == "check" {
        let language = visitor.frame.language;
        let check = (!filled.cron.is_empty())
            .then(|| explained(&app, &filled.cron, &filled.timezone, language));
        return page(&app, &visitor, filled, check, None).await;
    }
    visitor.caller.has(Scope::Admin)?;
    let request = match request_of(&filled) {
        Ok(request) => request,
        Err(why) => return page(&app, &visitor, filled, None, Some(why)).await,
    };
    let caller = visitor.caller.clone();
    let outcome = async {
        let name = extract::schedule_name(&filled.name)?;
        if let Some(fleet) = &visitor.fleet {
            let address = format!("/v1/schedules/{}", name.0);
            return Ok((StatusCode::OK, Json(fleet.put(&address, &request).await?)));
        }
        routes::schedules::put(State(app.clone()), caller, name, extract::Body(request)).await
    };
    match outcome.await {
        Ok((_, Json(schedule))) => {
            let action = "schedule.put";
            Ok(changed(&visitor.caller, action, &schedule.name, 1, "/schedules", "saved"))
        }
        Err(failure) if matches!(failure.problem.status, 400 | 413 | 422) => {
            let why = failure.problem.detail.clone();
            page(&app, &visitor, filled, None, Some(why)).await
        }
        Err(failure) => Err(failure),
    }
}

pub(super) async fn confirm(
    State(app): State<App>,
    visitor: Visitor,
    extract::ScheduleName(name): extract::ScheduleName,
) -> Result<Response, Failure> {
    visitor.caller.has(Scope::Admin)?;
    let found = extract::ScheduleName(name.clone());
    let _ = routes::schedules::get(State(app), visitor.caller, found).await?;
    Ok(html(ConfirmView::of_schedule(&visitor.frame, &name).html()))
}

pub(super) async fn act(
    State(app): State<App>,
    Visitor { caller, .. }: Visitor,
    Path((name, action)): Path<(String, String)>,
    _form: Form,
) -> Result<Response, Failure> {
    let (state, schedule) = (State(app), extract::schedule_name(&name)?);
    let done = match &action[..] {
        "pause" => {
            let _ = routes::schedules::pause(state, caller.clone(), schedule).await?;
            "paused"
        }
        "resume" => {
            let _ = routes::schedules::resume(state, caller.clone(), schedule).await?;
            "resumed"
        }
        "remove" => {
            let _ = routes::schedules::delete(state, caller.clone(), schedule).await?;
            "removed-schedule"
        }
        other => return Err(no_such_action(other)),
    };
    Ok(changed(&caller, &format!("schedule.{action}"), &name, 1, "/schedules", done))
}
