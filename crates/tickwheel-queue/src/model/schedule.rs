//! What a schedule is: what callers hand in, and what they get to see.

use std::time::Duration;

use tickwheel::cron::{self, CronError, Misfire, Zone};

use crate::model::job::NewJob;
use crate::model::occurrences::MAX_OCCURRENCES;
use crate::model::time::Time;

/// How late an occurrence may be dealt with and still not count as missed, unless said otherwise.
const GRACE: Duration = Duration::from_secs(1);

/// When a schedule puts its jobs: by the calendar, or after equal periods. Each such time is an
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
    /// Whenever the clock on the wall of a time zone shows a time of a cron expression.
    Cron(Box<cron::Schedule>),
    /// Each time this much has passed since the schedule was made: whole milliseconds.
    Every(Duration),
}

impl Timing {
    /// By a cron expression in a time zone; [`cron`] says what expressions mean, and what
    /// happens when clocks change.
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
    /// If the expression is wrong or never matches, or if there is no such time zone.
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
    /// What it is called. Putting the same name again replaces the schedule.
    pub name: String,
    /// When its occurrences are.
    pub timing: Timing,
    /// What is put. Its delay counts from the occurrence; it has no id, since each job gets
    /// one of its own. Two headers are added to it:
    /// `tickwheel-schedule`, the schedule's name, and `tickwheel-occurrence`, the milliseconds of
    /// the occurrence.
    pub job: NewJob,
    /// What is done about occurrences that were missed: while the queue was closed, or because
    /// the clock was set forward. With `Skip` they are left out, with `Once` one job is put for
    /// all that are due, the last of them, and with `All` one for each of the last so many.
    pub misfire: Misfire,
    /// How late an occurrence may be dealt with and still not count as missed. While none that is
    /// due is later than this, each gets its job, whatever `misfire` says.
    pub grace: Duration,
}

impl NewSchedule {
    /// The largest limit of [`Misfire::All`].
    pub const MAX_MISSED: usize = MAX_OCCURRENCES;

    /// A schedule with [`Misfire::Once`] and a grace of a second.
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

    /// What is done about occurrences that were missed.
    #[must_use]
    pub fn misfire(mut self, misfire: Misfire) -> Self {
        self.misfire = misfire;
        self
    }

    /// How late an occurrence may be dealt with and still not count as missed.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}

/// A schedule as it is in the queue.
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
    /// What it is called.
    pub name: String,
    /// When its occurrences are.
    pub timing: Timing,
    /// What it puts.
    pub job: NewJob,
    /// What it does about occurrences that were missed.
    pub misfire: Misfire,
    /// How late an occurrence may be and still not count as missed.
    pub grace: Duration,
    /// Since when it has its timing: periods count from here.
    pub created: Time,
    /// Whether it puts nothing until it is resumed.
    pub paused: bool,
    /// The next occurrence; `None` if it is paused, or if there is none any more.
    pub next: Option<Time>,
    /// The last occurrence for which a job was put.
    pub last: Option<Time>,
    /// How many jobs it has put.
    pub fired: u64,
    /// Why the last occurrence has no job of its own, if so: it is tried again each second, unless
    /// another job has its key.
    pub problem: Option<String>,
}

impl Schedule {
    /// The largest number of upcoming occurrences that can be asked for at once.
    pub const MAX_UPCOMING: usize = MAX_OCCURRENCES;
}

/// What putting a schedule did.
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
    /// Whether there was one of this name, which it replaced.
    pub replaced: bool,
    /// The first occurrence to come; `None` if it is paused, or if there is none.
    pub next: Option<Time>,
}
