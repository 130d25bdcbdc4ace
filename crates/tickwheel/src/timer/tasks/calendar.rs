//! Tasks that run by the calendar.
//!
//! Such a task is a periodic one with a deadline by the wall clock: each time that it has run, it
//! is placed again for the next time of its schedule. What was missed meanwhile is up to its
//! [`Misfire`] policy.
//!
//! Ground rules:
//! * The search for the next time of a schedule takes microseconds, and for rare times much longer.
//!   It is done without the lock: by the worker after a run, and where a time is skipped or the
//!   clock was set back, as `wall.rs` describes.
//! * A time of the schedule that has had its run has none again when the clock is set back a
//!   little ([`CORRECTION`]): otherwise a job could be done twice because a clock ran fast. If it
//!   is set back further, it was wrong before, and what it shows now is followed.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::boxed::Box;
use std::time::SystemTime;

use jiff::Timestamp;

use crate::cron::{CronError, Schedule, Zone};
use crate::timer::clock::{Nanos, nanos, unix_nanos};
use crate::timer::tasks::periodic::Series;
use crate::timer::tasks::record::Work;
use crate::timer::{Key, Timeout, Timer};

/// The wall clock was wrong if it is set back by more than this. Cron has the same limit.
const CORRECTION: Nanos = 3 * 3600 * 1_000_000_000;

/// How late a run may start and still not count as missed, unless said otherwise.
const GRACE: Duration = Duration::from_secs(10);

/// What a task by the calendar does about times that it missed: because the machine slept or its
/// clock was set forward, because the process was stopped (see [`CalendarTask::since`]), because
/// it was still running, or because all workers were busy.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::cron::{Misfire, Schedule};
/// use tickwheel::{ManualClock, Timer};
///
/// let runs = |misfire| {
///     let clock = ManualClock::new();
///     clock.set_wall(std::time::UNIX_EPOCH);
///     let timer = Timer::builder().clock(clock.clone()).build()?;
///     timer.calendar(Schedule::new("0 * * * *", "UTC")?).misfire(misfire).start(|| {})?;
///     clock.set_wall(clock.wall() + Duration::from_secs(9_000)); // asleep until 02:30
///     Ok::<_, Box<dyn std::error::Error>>(timer.stats().fired)
/// };
/// assert_eq!(runs(Misfire::Skip)?, 0); // the next is at 03:00
/// assert_eq!(runs(Misfire::Once)?, 1);
/// assert_eq!(runs(Misfire::All { limit: 100 })?, 2); // for 01:00 and 02:00
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Misfire {
    /// Leave them out, and go on with the next time to come. A run that starts late by no more
    /// than the [grace](CalendarTask::grace) is not missed.
    Skip,
    /// Run once, as soon as possible, for all of them.
    #[default]
    Once,
    /// Run for each of them, one right after the other, but at most `limit` times in a row; the
    /// rest is left out. A limit of 0 is [`Skip`](Self::Skip).
    All {
        /// The largest number of runs in a row.
        limit: usize,
    },
}

/// How a task goes on by the calendar.
#[derive(Debug)]
pub(crate) struct Course {
    schedule: Schedule,
    misfire: Misfire,
    grace: Nanos,
    /// No time of the schedule counts up to this, which was to come when the task was started.
    begin: Nanos,
    /// All times of the schedule up to this have had their run, or were left out; 0 if none had.
    handled: AtomicU64,
    /// How many runs in a row have ended when the next time had come already.
    behind: AtomicUsize,
}

impl Course {
    /// The next time of the schedule; `Nanos::MAX` if that is never.
    fn next_after(&self, wall: Nanos) -> Nanos {
        let after = i128::from(wall.max(self.begin));
        let after = Timestamp::from_nanosecond(after).unwrap_or(Timestamp::MAX);
        let next = self.schedule.next_timestamp(after);
        next.map_or(Nanos::MAX, |next| unix_nanos(next.into()))
    }

    /// Whether a time came so long ago that the task does not run for it.
    pub(crate) fn is_missed(&self, due: Nanos, now: Nanos) -> bool {
        self.misfire == Misfire::Skip && now.saturating_sub(due) > self.grace
    }

    /// The task runs for a time of the schedule, or because it was reset (`None`).
    pub(crate) fn start(&self, due: Option<Nanos>, now: Nanos) {
        let each = matches!(self.misfire, Misfire::All { .. });
        let handled = due.filter(|_| each).unwrap_or(now);
        self.handled.store(handled, Ordering::Relaxed);
    }

    /// The time for which the pending task runs instead of `due`: a later one if that was missed,
    /// an earlier one if the clock was set back.
    pub(crate) fn search(&self, due: Nanos, now: Nanos) -> Nanos {
        if due > now {
            self.set_back(due, now)
        } else if self.is_missed(due, now) {
            // A time that came just within the grace is not missed.
            self.next_after((now - self.grace).saturating_sub(1))
        } else {
            due
        }
    }

    /// A run has ended: when the next is due.
    pub(crate) fn next(&self, now: Nanos) -> Nanos {
        let mut handled = self.handled.load(Ordering::Relaxed);
        if handled > now.saturating_add(CORRECTION) {
            handled = now;
        }
        match self.misfire {
            Misfire::Skip => self.next_after(handled.max(now)),
            Misfire::Once => self.next_after(handled),
            Misfire::All { limit } => {
                let next = self.next_after(handled);
                let behind = self.behind.load(Ordering::Relaxed) + 1;
                let (next, behind) = match () {
                    () if next > now => (next, 0),
                    () if behind >= limit => (self.next_after(now), 0),
                    () => (next, behind),
                };
                self.behind.store(behind, Ordering::Relaxed);
                next
            }
        }
    }

    /// The wall clock was set back while the task was pending: when it is due now.
    fn set_back(&self, due: Nanos, now: Nanos) -> Nanos {
        let handled = self.handled.load(Ordering::Relaxed);
        if handled > 0 && handled <= now.saturating_add(CORRECTION) {
            return due;
        }
        due.min(self.next_after(now))
    }
}

/// A task by the calendar about to be started: made by [`Timer::calendar`].
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tickwheel::Timer;
/// use tickwheel::cron::{Misfire, Schedule};
///
/// let timer = Timer::new();
/// let last_report = SystemTime::now() - Duration::from_secs(3 * 86_400); // noted down somewhere
/// timer
///     .calendar(Schedule::new("0 9 * * *", "Europe/Berlin")?)
///     .key("report")
///     .misfire(Misfire::All { limit: 7 })
///     .since(last_report)
///     .start(|| println!("one report"))?; // three at once, and then one a day
/// # timer.stop();
/// # Ok::<(), tickwheel::cron::CronError>(())
/// ```
#[derive(Debug)]
#[must_use = "a task by the calendar runs once it is started"]
pub struct CalendarTask<'a> {
    timer: &'a Timer,
    key: Option<Key>,
    schedule: Schedule,
    misfire: Misfire,
    grace: Duration,
    since: Option<SystemTime>,
    ends_on_panic: bool,
}

impl CalendarTask<'_> {
    /// Gives the task a key; a pending task with the same key is replaced.
    ///
    /// ```
    /// use tickwheel::Timer;
    /// use tickwheel::cron::Schedule;
    ///
    /// let timer = Timer::new();
    /// timer.calendar(Schedule::new("@daily", "UTC")?).key("report").start(|| {})?;
    /// assert!(timer.cancel("report"));
    /// # Ok::<(), tickwheel::cron::CronError>(())
    /// ```
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// What to do about times that were missed; [`Misfire::Once`] unless said here.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::cron::{Misfire, Schedule};
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let hourly = Schedule::new("@hourly", "UTC")?;
    /// timer.calendar(hourly).misfire(Misfire::All { limit: 24 }).start(|| {})?;
    /// clock.set_wall(clock.wall() + Duration::from_secs(10 * 3600)); // asleep for ten hours
    /// assert_eq!(timer.stats().fired, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn misfire(mut self, misfire: Misfire) -> Self {
        self.misfire = misfire;
        self
    }

    /// How late a run may start and still not be [skipped](Misfire::Skip); 10 seconds unless said
    /// here.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::cron::{Misfire, Schedule};
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// clock.set_wall(std::time::UNIX_EPOCH);
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let hourly = Schedule::new("@hourly", "UTC")?;
    /// let grace = Duration::from_secs(900);
    /// timer.calendar(hourly).misfire(Misfire::Skip).grace(grace).start(|| {})?;
    /// clock.set_wall(clock.wall() + Duration::from_secs(4_500)); // asleep until 01:15
    /// assert_eq!(timer.stats().fired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Counts times from this one on, and not from now: with the time of the last run before the
    /// process was stopped, what it missed is up to the [policy](Self::misfire). A time to come
    /// makes the task begin later.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::cron::Schedule;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let last_run = clock.wall() - Duration::from_secs(3 * 86_400); // noted down by then
    /// timer.calendar(Schedule::new("@daily", "UTC")?).since(last_run).start(|| {})?;
    /// timer.turn();
    /// assert_eq!(timer.stats().fired, 1); // once for all that was missed
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn since(mut self, time: impl Into<SystemTime>) -> Self {
        self.since = Some(time.into());
        self
    }

    /// Ends the series when a run panics, instead of going on with the next.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::cron::Schedule;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let hourly = Schedule::new("@hourly", "UTC")?;
    /// let task = timer.calendar(hourly).end_on_panic().start(|| panic!("no disk"))?;
    /// clock.advance(Duration::from_secs(86_400));
    /// assert_eq!(timer.stats().fired, 1);
    /// assert!(task.is_expired());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn end_on_panic(mut self) -> Self {
        self.ends_on_panic = true;
        self
    }

    /// Schedules the task. It never runs beside itself: what comes due while it runs is missed,
    /// and up to the [policy](Self::misfire). A [reset](Timeout::reset) moves the next run alone;
    /// after it the schedule goes on.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::cron::Schedule;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let mut number = 0;
    /// timer.calendar(Schedule::new("@daily", "UTC")?).start(move || {
    ///     number += 1;
    ///     println!("report {number}");
    /// })?;
    /// clock.advance(Duration::from_secs(7 * 86_400));
    /// assert_eq!(timer.stats().fired, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`CronError::Schedule`] if the timer is stopped, full, or could not start its thread.
    pub fn start(self, task: impl FnMut() + Send + 'static) -> Result<Timeout, CronError> {
        let misfire = match self.misfire {
            Misfire::All { limit: 0 } => Misfire::Skip,
            misfire => misfire,
        };
        let core = self.timer.core();
        let now = core.clock().wall();
        let since = self.since.map(unix_nanos);
        // What was noted of the last run is not to come; and what is to come has had no run.
        let (begin, handled) = match since {
            Some(since) if since > now => (since, 0),
            past => (0, past.unwrap_or(0)),
        };
        let course = Course {
            schedule: self.schedule,
            misfire,
            grace: nanos(self.grace),
            begin,
            handled: AtomicU64::new(handled),
            behind: AtomicUsize::new(0),
        };
        let first = course.next_after(since.unwrap_or(now));
        let series = Series::by_calendar(course, self.ends_on_panic);
        let work = Work::Again(Box::new(task));
        Ok(core.schedule_record(self.key, Some(series), work, 0, Some(first))?)
    }
}

impl Timer {
    /// Runs a task by the calendar: whenever the clock on the wall of a time zone shows a time
    /// that a cron expression names. It follows a clock that is set, for which the timer looks at
    /// it once a second, as for [`at`](Self::at). What happens then, and when summer time begins
    /// and ends, is said in [`cron`](crate::cron).
    ///
    /// The task never runs beside itself, and a panic does not end the series. Times that it
    /// missed are made up for by one run; [`calendar`](Self::calendar) has the other choices.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    /// # use tickwheel::cron::jiff;
    ///
    /// let clock = ManualClock::new();
    /// let friday: jiff::Zoned = "2026-10-23T12:00[Europe/Berlin]".parse()?;
    /// clock.set_wall(friday.into());
    ///
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let report = timer.cron("0 9 * * MON-FRI", "Europe/Berlin", || println!("good morning"))?;
    /// // Until Monday at 09:00, in the night when summer time ends.
    /// assert_eq!(report.remaining(), Some(Duration::from_secs((12 + 24 + 25 + 9) * 3600)));
    /// clock.advance(Duration::from_secs(7 * 86_400));
    /// assert_eq!(timer.stats().fired, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Schedule::new`], and [`CronError::Schedule`] as for [`after`](Self::after).
    pub fn cron(
        &self,
        expression: &str,
        zone: impl Into<Zone>,
        task: impl FnMut() + Send + 'static,
    ) -> Result<Timeout, CronError> {
        self.calendar(Schedule::new(expression, zone)?).start(task)
    }

    /// Sets up a task by the calendar with all its choices.
    ///
    /// ```
    /// use tickwheel::Timer;
    /// use tickwheel::cron::{Misfire, Schedule};
    ///
    /// let timer = Timer::new();
    /// let nightly = Schedule::new("30 3 * * *", "America/New_York")?;
    /// timer.calendar(nightly).misfire(Misfire::Skip).start(|| println!("clean up"))?;
    /// # Ok::<(), tickwheel::cron::CronError>(())
    /// ```
    pub fn calendar(&self, schedule: Schedule) -> CalendarTask<'_> {
        CalendarTask {
            timer: self,
            key: None,
            schedule,
            misfire: Misfire::default(),
            grace: GRACE,
            since: None,
            ends_on_panic: false,
        }
    }
}
