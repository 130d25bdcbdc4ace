//! Schedules: as callers put them, and as they see them in a queue.

use std::time::Duration;

use tickwheel::cron::{self, CronError, Misfire, Zone};

use crate::model::new_job::NewJob;
use crate::model::occurrences::MAX_OCCURRENCES;
use crate::model::time::Time;

/// The default grace: how late an occurrence may be handled without counting as missed.
const GRACE: Duration = Duration::from_secs(1);

/// When a schedule puts its jobs: by a calendar, or periodically. Each such time is an
/// *occurrence*.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::Timing;
///
/// let weekdays = Timing::cron("0 9 * * MON-FRI", "Europe/Berlin")?;
/// assert_eq!(weekdays.to_string(), "CRON_TZ=Europe/Berlin 0 9 * * MON-FRI");
/// assert_eq!(Timing::from(Duration::from_secs(90)).to_string(), "every 90s");
/// # Ok::<(), tickwheel_queue::cron::CronError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timing {
    /// At each time that matches a cron expression in a time zone.
    Cron(Box<cron::Schedule>),
    /// After each period of whole milliseconds, counted from when the schedule was created.
    Every(Duration),
}

impl Timing {
    /// Creates a timing from a cron expression and a time zone; [`cron`] describes expressions, and
    /// what happens when clocks change.
    ///
    /// ```
    /// use tickwheel_queue::Timing;
    ///
    /// assert!(Timing::cron("*/15 * * * *", "UTC").is_ok());
    /// let error = Timing::cron("61 * * * *", "UTC").unwrap_err();
    /// assert!(error.to_string().contains("minute"));
    /// ```
    ///
    /// # Errors
    ///
    /// If the expression is malformed or never matches, or the time zone does not exist.
    pub fn cron(expression: &str, zone: impl Into<Zone>) -> Result<Self, CronError> {
        cron::Schedule::new(expression, zone).map(Self::from)
    }
}

impl From<cron::Schedule> for Timing {
    fn from(schedule: cron::Schedule) -> Self {
        Self::Cron(Box::new(schedule))
    }
}

impl From<Duration> for Timing {
    fn from(period: Duration) -> Self {
        Self::Every(period)
    }
}

impl std::fmt::Display for Timing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cron(schedule) => schedule.fmt(f),
            Self::Every(period) => write!(f, "every {period:?}"),
        }
    }
}

/// A schedule to be put: it puts a job at each of its occurrences.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::ManualClock;
/// use tickwheel_queue::{NewJob, NewSchedule, Queues};
///
/// let clock = ManualClock::new();
/// let queues = Queues::builder().clock(clock.clone()).in_memory()?;
/// let sweep = NewJob::new("chores", "sweep").max_attempts(3);
/// queues.put_schedule(NewSchedule::new("sweep", Duration::from_secs(60), sweep)).wait()?;
///
/// assert!(queues.reserve("chores", 1, None).wait()?.is_empty());
/// clock.advance(Duration::from_secs(61));
/// let delivery = &queues.reserve("chores", 1, None).wait()?[0];
/// assert_eq!(&delivery.job.payload[..], b"sweep");
/// assert_eq!(delivery.job.headers[0], ("tickwheel-schedule".into(), "sweep".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewSchedule {
    /// The name. Putting the same name again replaces the schedule.
    pub name: String,
    /// When its occurrences are.
    pub timing: Timing,
    /// The job that is put. Its delay counts from the occurrence. It has no id, because each job
    /// gets its own. Two headers are added: `tickwheel-schedule`, the schedule's name, and
    /// `tickwheel-occurrence`, the milliseconds of the occurrence.
    pub job: NewJob,
    /// What to do about missed occurrences: those while the queue was closed, or skipped by a clock
    /// that was set forward. `Skip` puts no job, `Once` puts one job for the last of them, and
    /// `All` puts a job for each of the last ones, up to its limit.
    pub misfire: Misfire,
    /// How late an occurrence may be handled without counting as missed. If all due occurrences are
    /// within it, each gets its job, whatever `misfire` says.
    pub grace: Duration,
}

impl NewSchedule {
    /// The largest limit of [`Misfire::All`].
    pub const MAX_MISSED: usize = MAX_OCCURRENCES;

    /// Creates a schedule with [`Misfire::Once`] and a grace of one second.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, NewSchedule, Timing};
    ///
    /// let job = NewJob::new("reports", "daily");
    /// let schedule = NewSchedule::new("daily report", Timing::cron("@daily", "Asia/Tokyo")?, job);
    /// assert_eq!(schedule.name, "daily report");
    /// # Ok::<(), tickwheel_queue::cron::CronError>(())
    /// ```
    pub fn new(name: impl Into<String>, timing: impl Into<Timing>, job: NewJob) -> Self {
        Self {
            name: name.into(),
            timing: timing.into(),
            job,
            misfire: Misfire::default(),
            grace: GRACE,
        }
    }

    /// Sets what to do about missed occurrences.
    #[must_use]
    pub fn misfire(mut self, misfire: Misfire) -> Self {
        self.misfire = misfire;
        self
    }

    /// Sets how late an occurrence may be handled without counting as missed.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}

/// A schedule in the queue.
///
/// ```
/// use tickwheel_queue::{NewJob, NewSchedule, Queues, Timing};
///
/// let queues = Queues::in_memory();
/// let job = NewJob::new("reports", "daily");
/// queues.put_schedule(NewSchedule::new("daily", Timing::cron("@daily", "UTC")?, job)).wait()?;
/// let daily = queues.schedule("daily").wait()?.unwrap();
/// assert_eq!((daily.job.queue.as_str(), daily.fired, daily.last), ("reports", 0, None));
/// assert!(daily.next > Some(daily.created));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Schedule {
    /// The name.
    pub name: String,
    /// When its occurrences are.
    pub timing: Timing,
    /// The job that it puts.
    pub job: NewJob,
    /// What it does about missed occurrences.
    pub misfire: Misfire,
    /// How late an occurrence may be handled without counting as missed.
    pub grace: Duration,
    /// When its timing began. Periods count from here.
    pub created: Time,
    /// Whether it is paused.
    pub paused: bool,
    /// The next occurrence; `None` if it is paused or there is none.
    pub next: Option<Time>,
    /// The last occurrence for which a job was put.
    pub last: Option<Time>,
    /// The number of jobs that it has put.
    pub fired: u64,
    /// Why the last occurrence has no job of its own. It is tried again each second, unless another
    /// job has its key.
    pub problem: Option<String>,
}

impl Schedule {
    /// The largest number of upcoming occurrences that can be asked for at once.
    pub const MAX_UPCOMING: usize = MAX_OCCURRENCES;
}

/// The result of putting a schedule.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{NewJob, NewSchedule, Queues};
///
/// let queues = Queues::in_memory();
/// let hour = Duration::from_secs(3_600);
/// let schedule = NewSchedule::new("hourly", hour, NewJob::new("reports", ""));
/// assert!(!queues.put_schedule(schedule.clone()).wait()?.replaced);
/// assert!(queues.put_schedule(schedule).wait()?.replaced);
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PutSchedule {
    /// Whether it replaced a schedule with the same name.
    pub replaced: bool,
    /// The next occurrence; `None` if it is paused or there is none.
    pub next: Option<Time>,
}
