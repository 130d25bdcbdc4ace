//! Schedules.

use tickwheel_queue::cron::Misfire as QueueMisfire;
use tickwheel_queue::{self as queue, NewJob, NewSchedule, Time, Timing, When};

use super::job::Traits;
use super::payload::{Parcel, content_fields, content_type, headers_of};
use super::{IntoWire, invalid, missing, not_zero, rfc3339};
use crate::api::{Content, Delay, Misfire, Schedule, ScheduleRequest, escaped_len};
use crate::extract::{NAME_RULE, is_name};
use crate::problem::Failure;

const DEFAULT_MISFIRES: u32 = 100;

fn timing_of(request: &ScheduleRequest) -> Result<Timing, Failure> {
    match (&request.cron, request.every) {
        (Some(expression), None) => {
            let zone = request.timezone.as_deref().unwrap_or("UTC");
            Timing::cron(expression, zone).map_err(|error| {
                let field = match error {
                    queue::cron::CronError::Zone { .. } => "/timezone",
                    _ => "/cron",
                };
                invalid(field, error.to_string())
            })
        }
        (None, Some(_)) if request.timezone.is_some() => {
            Err(invalid("/timezone", "`every` takes no time zone: leave it out, or give `cron`"))
        }
        (None, Some(every)) => Ok(Timing::Every(every.0)),
        (Some(_), Some(_)) => Err(invalid("/every", "give only one of `cron` and `every`")),
        (None, None) => Err(missing("/cron", "give `cron` or `every`")),
    }
}

fn misfire_of(request: &ScheduleRequest) -> Result<QueueMisfire, Failure> {
    let misfire = request.misfire.unwrap_or_default();
    match (misfire, request.misfire_limit) {
        (Misfire::All, Some(0)) => {
            let why = "misfire_limit must be at least 1, got 0: to skip all, leave it out and give \
                       `\"misfire\": \"skip\"`";
            Err(invalid("/misfire_limit", why))
        }
        (Misfire::All, limit) => {
            Ok(QueueMisfire::All { limit: limit.unwrap_or(DEFAULT_MISFIRES) as usize })
        }
        (_, Some(_)) => {
            Err(invalid("/misfire_limit", "misfire_limit requires `\"misfire\": \"all\"`"))
        }
        (Misfire::Skip, None) => Ok(QueueMisfire::Skip),
        (Misfire::Once, None) => Ok(QueueMisfire::Once),
    }
}

/// Returns the schedule that a request sets.
pub(crate) fn new_schedule(
    name: String,
    request: ScheduleRequest,
    max_payload: u64,
) -> Result<NewSchedule, Failure> {
    if !is_name(&request.queue) {
        return Err(invalid("/queue", format!("not a queue name: {NAME_RULE}")));
    }
    let timing = timing_of(&request)?;
    let misfire = misfire_of(&request)?;
    let parcel = Parcel {
        payload: request.payload,
        text: request.text,
        base64: request.base64,
        headers: request.headers,
    };
    let (payload, headers) = parcel.open(max_payload)?;
    let mut job = NewJob::new(request.queue, payload);
    job.headers = headers;
    job.when = When::After(request.delay.unwrap_or_default().0);
    let traits = Traits {
        key: request.key,
        on_conflict: request.on_conflict,
        priority: request.priority,
        max_attempts: request.max_attempts,
        retry: request.retry,
        group: request.group,
    };
    traits.apply_to(&mut job);
    let mut schedule = NewSchedule::new(name, timing, job).misfire(misfire);
    if let Some(grace) = request.grace {
        schedule = schedule.grace(grace.0);
    }
    Ok(schedule)
}

/// Returns an upper bound for the bytes of a schedule as JSON.
pub(crate) fn schedule_encoded_len(schedule: &queue::Schedule) -> usize {
    /// Field names, times, numbers and the timing in words.
    const FIXED: usize = 2_048;
    let job = &schedule.job;
    let text = |text: &str| escaped_len(text.as_bytes());
    let optional = |it: &Option<String>| it.as_deref().map_or(0, text);
    let headers = job.headers.iter().map(|(name, value)| text(name) + text(value) + 6);
    let payload = Content::max_encoded_len(&job.payload, content_type(&job.headers));
    let texts = optional(&job.key) + optional(&job.group) + optional(&schedule.problem);
    FIXED + schedule.name.len() + job.queue.len() + headers.sum::<usize>() + texts + payload
}

impl IntoWire for queue::Schedule {
    type Wire = Schedule;

    fn into_wire(self) -> Schedule {
        let job = self.job;
        let (cron, timezone, every) = match &self.timing {
            Timing::Cron(cron) => {
                let zone = cron.time_zone().iana_name().unwrap_or("UTC").to_owned();
                (Some(cron.expression().to_owned()), Some(zone), None)
            }
            Timing::Every(period) => (None, None, Some(Delay(*period))),
        };
        let explanation = match &self.timing {
            Timing::Cron(cron) => cron.explain(),
            Timing::Every(period) => format!("Every {}", Delay(*period)),
        };
        let (misfire, misfire_limit) = match self.misfire {
            QueueMisfire::Skip => (Misfire::Skip, None),
            QueueMisfire::Once => (Misfire::Once, None),
            QueueMisfire::All { limit } => (Misfire::All, Some(limit as u32)),
        };
        let (payload, text, base64) = content_fields(&job.payload, &job.headers);
        let delay = match job.when {
            When::After(delay) => not_zero(delay),
            When::At(_) => None,
        };
        Schedule {
            name: self.name,
            queue: job.queue,
            explanation,
            cron,
            timezone,
            every,
            misfire,
            misfire_limit,
            payload,
            text,
            base64,
            delay,
            on_conflict: job.key.as_ref().map(|_| job.on_conflict.into_wire()),
            key: job.key,
            priority: job.priority,
            headers: headers_of(job.headers),
            max_attempts: job.max_attempts,
            retry: job.retry.map(IntoWire::into_wire),
            group: job.group,
            grace: Delay(self.grace),
            paused: self.paused,
            fired: self.fired,
            problem: self.problem,
            created: rfc3339(self.created),
            created_ms: self.created.as_millis(),
            last: self.last.map(rfc3339),
            last_ms: self.last.map(Time::as_millis),
            next: self.next.map(rfc3339),
            next_ms: self.next.map(Time::as_millis),
        }
    }
}
