//! The checks of callers' values. Every value is checked here and nowhere else.
//!
//! A bound is a public constant of the type that it belongs to. The HTTP service writes these
//! constants into its API description and passes the errors on.

use std::time::Duration;

use bytes::Bytes;
use tickwheel::cron::Misfire;

use crate::model::activity::Activity;
use crate::model::error::{Error, Limit};
use crate::model::group::{GroupList, GroupSettings};
use crate::model::history::{Attempt, prefix};
use crate::model::idempotency::IdempotencyKey;
use crate::model::job::{Job, State};
use crate::model::list::List;
use crate::model::new_job::{NewJob, When};
use crate::model::retry::RetryPolicy;
use crate::model::schedule::{NewSchedule, Schedule, Timing};
use crate::model::settings::{Limits, Pacing, QueueSettings};

/// The error for a field, named as in the API: `pacing.starts`.
fn invalid(field: impl Into<String>, why: impl Into<String>) -> Error {
    Error::Invalid { field: field.into(), why: why.into() }
}

pub(crate) fn over(limit: Limit, allowed: u64, found: usize) -> Result<(), Error> {
    let found = found as u64;
    if found > allowed { Err(Error::OverLimit { limit, allowed, found }) } else { Ok(()) }
}

pub(crate) fn check_lease(lease: Duration) -> Result<(), Error> {
    if lease.is_zero() {
        return Err(invalid("lease", "must be longer than zero"));
    }
    Ok(())
}

/// Checks the name of a worker.
pub(crate) fn check_worker(name: &str) -> Result<(), Error> {
    let most = Attempt::MAX_WORKER_BYTES;
    if !(1..=most).contains(&name.len()) || name.chars().any(char::is_control) {
        let found = prefix(name, most);
        let why = format!(
            "must have between 1 and {most} bytes and no control characters, got {found:?} ({} \
             bytes)",
            name.len()
        );
        return Err(invalid("worker", why));
    }
    Ok(())
}

/// Checks the result of an acknowledgement.
pub(crate) fn check_result(result: Option<&Bytes>) -> Result<(), Error> {
    over(Limit::Result, Job::MAX_RESULT_BYTES as u64, result.map_or(0, Bytes::len))
}

fn check_attempts(attempts: u32) -> Result<(), Error> {
    if attempts == 0 {
        return Err(invalid("max_attempts", "must be at least 1, got 0"));
    }
    Ok(())
}

/// Checks the name of a queue or a schedule.
pub(crate) fn check_name(
    field: &str,
    name: &str,
    limit: Limit,
    limits: &Limits,
) -> Result<(), Error> {
    over(limit, limits.queue_name, name.len())?;
    if name.is_empty() || name.chars().any(char::is_control) {
        let why =
            format!("must have at least one character and no control characters, got {name:?}");
        return Err(invalid(field, why));
    }
    Ok(())
}

/// Refuses to remove jobs that are not finished.
pub(crate) fn check_purged(state: State) -> Result<(), Error> {
    if state.is_live() {
        let why = format!(
            "must be dead, done or cancelled, got {state}; to cancel waiting jobs, use cancel_waiting"
        );
        return Err(invalid("state", why));
    }
    Ok(())
}

/// Checks the length of a window of the past.
pub(crate) fn check_window(window: Duration) -> Result<(), Error> {
    let (shortest, longest) = (Activity::MIN_WINDOW, Activity::MAX_WINDOW);
    if !(shortest..=longest).contains(&window) {
        let why = format!("must be between {shortest:?} and {longest:?}, got {window:?}");
        return Err(invalid("window", why));
    }
    Ok(())
}

/// Checks how many occurrences of a schedule are requested.
pub(crate) fn check_times(times: usize) -> Result<(), Error> {
    if times > Schedule::MAX_UPCOMING {
        let why = format!("must be at most {}, got {times}", Schedule::MAX_UPCOMING);
        return Err(invalid("count", why));
    }
    Ok(())
}

impl RetryPolicy {
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self {
            Self::Exponential { jitter, .. } if *jitter > Self::MAX_JITTER => {
                let why = format!("must be at most {} percent, got {jitter}", Self::MAX_JITTER);
                Err(invalid("retry.exponential.jitter", why))
            }
            Self::List(delays) if !(1..=Self::MAX_DELAYS).contains(&delays.len()) => {
                let (most, found) = (Self::MAX_DELAYS, delays.len());
                let why = format!("must have between 1 and {most} delays, got {found}");
                Err(invalid("retry.list", why))
            }
            Self::Fixed(_) | Self::Exponential { .. } | Self::List(_) => Ok(()),
        }
    }
}

impl Pacing {
    fn check(self, field: &str) -> Result<(), Error> {
        if let Some((starts, window)) = self.starts {
            if !(1..=Self::MAX_STARTS).contains(&starts) {
                let most = Self::MAX_STARTS;
                let why = format!(
                    "must be between 1 and {most}, got {starts}; pause the queue to stop \
                     deliveries, or choose a shorter window"
                );
                return Err(invalid(format!("{field}.starts"), why));
            }
            if window.is_zero() {
                return Err(invalid(format!("{field}.window"), "must be longer than zero"));
            }
        }
        if self.concurrency == Some(0) {
            let why = "must be at least 1, got 0; pause the queue to stop deliveries";
            return Err(invalid(format!("{field}.concurrency"), why));
        }
        Ok(())
    }
}

/// Checks the name of a group and its new settings.
pub(crate) fn check_group(
    group: &str,
    settings: GroupSettings,
    limits: &Limits,
) -> Result<(), Error> {
    over(Limit::Group, limits.key, group.len())?;
    if group.is_empty() {
        return Err(invalid("group", "must not be empty"));
    }
    settings.pacing.map_or(Ok(()), |pacing| pacing.check("pacing"))
}

impl GroupList {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(1..=Self::MAX_LIMIT).contains(&self.limit) {
            let why = format!("must be between 1 and {}, got {}", Self::MAX_LIMIT, self.limit);
            return Err(invalid("limit", why));
        }
        Ok(())
    }
}

impl QueueSettings {
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_lease(self.lease)?;
        check_attempts(self.max_attempts)?;
        self.pacing.check("pacing")?;
        self.group_pacing.check("group_pacing")?;
        self.retry.check()
    }
}

impl NewJob {
    pub(crate) fn check(&self, limits: &Limits) -> Result<(), Error> {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len());
        over(Limit::Payload, limits.payload, self.payload.len())?;
        over(Limit::Headers, limits.headers, headers.sum())?;
        over(Limit::Key, limits.key, length(&self.key))?;
        over(Limit::Group, limits.key, length(&self.group))?;
        for (field, text) in [("key", &self.key), ("group", &self.group)] {
            if text.as_deref() == Some("") {
                return Err(invalid(field, "must not be empty; leave it out"));
            }
        }
        if self.max_total_delay.is_some() && self.key.is_none() {
            return Err(invalid(
                "max_total_delay",
                "requires a key: it limits puts that replace it",
            ));
        }
        let follow_ups = [("on_success", &self.on_success), ("on_death", &self.on_death)];
        for (field, follow_up) in follow_ups {
            if let Some(follow_up) = follow_up {
                let field = format!("{field}.queue");
                check_name(&field, &follow_up.queue, Limit::QueueName, limits)?;
                let headers =
                    follow_up.headers.iter().map(|(name, value)| name.len() + value.len());
                over(Limit::Headers, limits.headers, headers.sum())?;
            }
        }
        self.max_attempts.map_or(Ok(()), check_attempts)?;
        self.retry.as_ref().map_or(Ok(()), RetryPolicy::check)
    }
}

impl NewSchedule {
    /// Checks the schedule itself; its job is checked with the headers that an occurrence adds.
    pub(crate) fn check(&self, limits: &Limits) -> Result<(), Error> {
        check_name("name", &self.name, Limit::ScheduleName, limits)?;
        check_name("queue", &self.job.queue, Limit::QueueName, limits)?;
        match &self.timing {
            Timing::Every(period) if period.is_zero() || period.subsec_nanos() % 1_000_000 > 0 => {
                let why = format!("must be whole milliseconds, at least 1, got {period:?}");
                return Err(invalid("every", why));
            }
            Timing::Cron(cron)
                if cron.to_string().parse::<tickwheel::cron::Schedule>().is_err() =>
            {
                let why = format!(
                    "must have a time zone with a name, such as Europe/Berlin, to be stored, got \
                     \"{cron}\""
                );
                return Err(invalid("cron", why));
            }
            Timing::Every(_) | Timing::Cron(_) => {}
        }
        if let Misfire::All { limit } = self.misfire
            && limit > Self::MAX_MISSED
        {
            let why = format!("must be at most {}, got {limit}", Self::MAX_MISSED);
            return Err(invalid("misfire_limit", why));
        }
        if self.job.id.is_some() {
            return Err(invalid("id", "must be left out: each occurrence gets an id of its own"));
        }
        if matches!(self.job.when, When::At(_)) {
            return Err(invalid("due", "must be left out: give a delay after the occurrence"));
        }
        Ok(())
    }
}

impl List {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(1..=Self::MAX_LIMIT).contains(&self.limit) {
            let why = format!("must be between 1 and {}, got {}", Self::MAX_LIMIT, self.limit);
            return Err(invalid("limit", why));
        }
        Ok(())
    }
}

pub(crate) fn check_idempotency_key(key: &IdempotencyKey) -> Result<(), Error> {
    let (found, allowed) = (key.key.len(), IdempotencyKey::MAX_KEY);
    if !(1..=allowed).contains(&found) {
        let why = format!("must have 1 to {allowed} bytes, got {found}");
        return Err(invalid("idempotency_key", why));
    }
    let (found, allowed) = (key.fingerprint.len(), IdempotencyKey::MAX_FINGERPRINT);
    if found > allowed {
        let why = format!("must have at most {allowed} bytes, got {found}");
        return Err(invalid("idempotency_key.fingerprint", why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the field that an error names.
    fn field(checked: Result<(), Error>) -> String {
        match checked {
            Err(Error::Invalid { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_error_names_the_field_the_bound_and_the_value() {
        let settings = QueueSettings {
            group_pacing: Pacing::starts(Pacing::MAX_STARTS + 1, Duration::from_secs(1)),
            ..QueueSettings::default()
        };
        let error = settings.check().unwrap_err().to_string();
        let start = "group_pacing.starts must be between 1 and 100000, got 100001";
        assert!(error.starts_with(start), "{error}");
        let pacing = Pacing::starts(Pacing::MAX_STARTS, Duration::from_secs(1));
        assert_eq!(QueueSettings { pacing, ..QueueSettings::default() }.check(), Ok(()));
    }

    #[test]
    fn every_bound_is_checked() {
        let settings = |change: fn(&mut QueueSettings)| {
            let mut settings = QueueSettings::default();
            change(&mut settings);
            field(settings.check())
        };
        assert_eq!(settings(|it| it.lease = Duration::ZERO), "lease");
        assert_eq!(settings(|it| it.max_attempts = 0), "max_attempts");
        assert_eq!(settings(|it| it.pacing.concurrency = Some(0)), "pacing.concurrency");
        assert_eq!(settings(|it| it.pacing = Pacing::starts(1, Duration::ZERO)), "pacing.window");
        assert_eq!(settings(|it| it.retry = RetryPolicy::list([])), "retry.list");
        let jitter = |it: &mut QueueSettings| {
            let second = Duration::from_secs(1);
            it.retry = RetryPolicy::Exponential { first: second, max: second, jitter: 101 };
        };
        assert_eq!(settings(jitter), "retry.exponential.jitter");
        let job = |job: NewJob| field(job.check(&Limits::default()));
        assert_eq!(job(NewJob::new("q", "").key("")), "key");
        assert_eq!(job(NewJob::new("q", "").group("")), "group");
        assert_eq!(job(NewJob::new("q", "").max_attempts(0)), "max_attempts");
        assert_eq!(field(List::of("q").limit(List::MAX_LIMIT + 1).check()), "limit");
        assert_eq!(field(check_purged(State::Ready)), "state");
        assert_eq!(field(check_times(Schedule::MAX_UPCOMING + 1)), "count");
        let schedule = NewSchedule::new("s", Duration::from_micros(1), NewJob::new("q", ""));
        assert_eq!(field(schedule.check(&Limits::default())), "every");
    }
}
