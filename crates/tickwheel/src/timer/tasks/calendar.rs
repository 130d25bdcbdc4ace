//! Tasks that run at the times of a cron expression.
//!
//! Such a task is a periodic task with a wall-clock deadline: after each run it is scheduled for the
//! next time of its schedule. The [`Misfire`] policy decides about times that were missed.
//!
//! Ground rules:
//! * The search for the next time of a schedule takes microseconds, and much longer for rare times.
//!   It is done without the lock: by the worker after a run, and otherwise (a time is skipped, or the
//!   clock was set back) as `wall.rs` describes.
//! * When the clock is set back by less than [`MAX_CORRECTION`], times that have had their run are not
//!   repeated: a job must not run twice because a clock ran fast. When it is set back further, it was
//!   wrong before, and the new time is followed.

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

/// A wall clock that is set back by more than this was wrong before. Cron uses the same limit.
const MAX_CORRECTION: Nanos = 3 * 3600 * 1_000_000_000;

/// The default grace: a run that starts later than this counts as missed.
const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// The policy for times that a calendar task missed: because the machine was suspended, its clock was
/// set forward, the process was not running (see [`CalendarTask::since`]), the task was still running,
/// or all workers were busy.
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
///     clock.set_wall(clock.wall() + Duration::from_secs(9_000)); // suspended until 02:30
///     Ok::<_, Box<dyn std::error::Error>>(timer.stats().fired)
/// };
/// assert_eq!(runs(Misfire::Skip)?, 0); // the next run is at 03:00
/// assert_eq!(runs(Misfire::Once)?, 1);
/// assert_eq!(runs(Misfire::All { limit: 100 })?, 2); // for 01:00 and 02:00
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Misfire {
    /// Skip them, and continue with the next time in the future. A run that starts late by no more
    /// than the [grace](CalendarTask::grace) is not missed.
    Skip,
    /// Run once for all of them, as soon as possible.
    #[default]
    Once,
    /// Run for each of them, one immediately after the other, but at most `limit` times in a row. The
    /// rest are skipped. A limit of 0 means [`Skip`](Self::Skip).
    All {
        /// The maximum number of runs in a row.
        limit: usize,
    },
}

/// The schedule of a calendar task and its progress.
#[derive(Debug)]
pub(crate) struct Course {
    schedule: Schedule,
    misfire: Misfire,
    grace: Nanos,
    /// Times of the schedule up to this one do not count. Set if the task begins in the future.
    begin: Nanos,
    /// The last time of the schedule that has had its run or was skipped; 0 if there is none.
    handled: AtomicU64,
    /// The number of runs in a row that ended after the next time had already passed.
    behind: AtomicUsize,
}

impl Course {
    /// Returns the next time of the schedule, or `Nanos::MAX` if there is none.
    fn next_after(&self, wall: Nanos) -> Nanos {
        let after = i128::from(wall.max(self.begin));
        let after = Timestamp::from_nanosecond(after).unwrap_or(Timestamp::MAX);
        let next = self.schedule.next_timestamp(after);
        next.map_or(Nanos::MAX, |next| unix_nanos(next.into()))
    }

    /// Returns `true` if a time has passed so long ago that its run is skipped.
    pub(crate) fn is_missed(&self, due: Nanos, now: Nanos) -> bool {
        self.misfire == Misfire::Skip && now.saturating_sub(due) > self.grace
    }

    /// Notes the start of a run, for a time of the schedule or because of a reset (`None`).
    pub(crate) fn start(&self, due: Option<Nanos>, now: Nanos) {
        let each = matches!(self.misfire, Misfire::All { .. });
        let handled = due.filter(|_| each).unwrap_or(now);
        self.handled.store(handled, Ordering::Relaxed);
    }

    /// Returns the time for which the pending task runs instead of `due`: a later one if that was
    /// missed, an earlier one if the clock was set back.
    pub(crate) fn search(&self, due: Nanos, now: Nanos) -> Nanos {
        if due > now {
            self.set_back(due, now)
        } else if self.is_missed(due, now) {
            // A time that passed just within the grace is not missed.
            self.next_after((now - self.grace).saturating_sub(1))
        } else {
            due
        }
    }

    /// Returns the time of the next run, after a run has ended.
    pub(crate) fn next(&self, now: Nanos) -> Nanos {
        let mut handled = self.handled.load(Ordering::Relaxed);
        if handled > now.saturating_add(MAX_CORRECTION) {
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

    /// Returns the new time of a pending task, after the wall clock was set back.
    fn set_back(&self, due: Nanos, now: Nanos) -> Nanos {
        let handled = self.handled.load(Ordering::Relaxed);
        if handled > 0 && handled <= now.saturating_add(MAX_CORRECTION) {
            return due;
        }
        due.min(self.next_after(now))
    }
}

/// A builder of a calendar task, returned by [`Timer::calendar`].
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tickwheel::Timer;
/// use tickwheel::cron::{Misfire, Schedule};
///
/// let timer = Timer::new();
/// let last_report = SystemTime::now() - Duration::from_secs(3 * 86_400); // read from a file
/// timer
///     .calendar(Schedule::new("0 9 * * *", "Europe/Berlin")?)
///     .key("report")
///     .misfire(Misfire::All { limit: 7 })
///     .since(last_report)
///     .start(|| println!("one report"))?; // three at once, then one a day
/// # timer.stop();
/// # Ok::<(), tickwheel::cron::CronError>(())
/// ```
#[derive(Debug)]
#[must_use = "a calendar task does nothing until `start` is called"]
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
    /// Sets the key of the task. A pending task with the same key is replaced.
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the policy for missed times. Defaults to [`Misfire::Once`].
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
    /// clock.set_wall(clock.wall() + Duration::from_secs(10 * 3600)); // suspended for ten hours
    /// assert_eq!(timer.stats().fired, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn misfire(mut self, misfire: Misfire) -> Self {
        self.misfire = misfire;
        self
    }

    /// Sets how late a run may start without being [skipped](Misfire::Skip). Defaults to 10 seconds.
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
    /// clock.set_wall(clock.wall() + Duration::from_secs(4_500)); // suspended until 01:15
    /// assert_eq!(timer.stats().fired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the time from which times of the schedule count. Defaults to now.
    ///
    /// Pass the time of the last run before the process ended, and the [policy](Self::misfire) decides
    /// about the times missed since then. With a time in the future, the task begins later.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::cron::Schedule;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let last_run = clock.wall() - Duration::from_secs(3 * 86_400); // read from a file
    /// timer.calendar(Schedule::new("@daily", "UTC")?).since(last_run).start(|| {})?;
    /// timer.turn();
    /// assert_eq!(timer.stats().fired, 1); // one run for all missed times
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn since(mut self, time: impl Into<SystemTime>) -> Self {
        self.since = Some(time.into());
        self
    }

    /// Ends the series when a run panics. By default the series continues.
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

    /// Schedules the task. Its runs never overlap: times that pass while it runs are missed, and the
    /// [policy](Self::misfire) decides about them. A [reset](Timeout::reset) moves only the next run;
    /// then the schedule continues.
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
    /// Returns [`CronError::Schedule`] if the timer is stopped or full, or cannot start a thread.
    pub fn start(self, task: impl FnMut() + Send + 'static) -> Result<Timeout, CronError> {
        let misfire = match self.misfire {
            Misfire::All { limit: 0 } => Misfire::Skip,
            misfire => misfire,
        };
        let core = self.timer.core();
        let now = core.clock().wall();
        let since = self.since.map(unix_nanos);
        // A time in the past has had its run. A time in the future delays the beginning.
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
        let work = Work::Repeat(Box::new(task));
        Ok(core.schedule_record(self.key, Some(series), work, 0, Some(first))?)
    }
}

impl Timer {
    /// Runs a task at the times of a cron expression, in a time zone.
    ///
    /// The task follows the wall clock: the timer reads it once a second, as for [`at`](Self::at). The
    /// module [`cron`](crate::cron) describes what happens when the clock is set, and when daylight
    /// saving time begins and ends.
    ///
    /// Runs of the task never overlap, and a panic does not end the series. Missed times are made up
    /// for by one run; [`calendar`](Self::calendar) offers other policies.
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
    /// // Until Monday 09:00; daylight saving time ends on the way.
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

    /// Returns a builder of a calendar task: key, missed times, beginning.
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
            grace: DEFAULT_GRACE,
            since: None,
            ends_on_panic: false,
        }
    }
}
