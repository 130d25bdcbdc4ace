//! Tasks that run at the times of a cron expression.
//!
//! Such a task has a wall-clock deadline: after each run it is scheduled for the next time of its
//! schedule. The [`Misfire`] policy decides about times that were missed.

use core::time::Duration;
use std::time::SystemTime;

use super::error::CronError;
use super::recurrence::{Course, Misfire};
use super::schedule::Schedule;
use super::zone::Zone;
use crate::timer::clock::{nanos, unix_nanos};
use crate::timer::{Key, Keyed, Timeout, Timer};

/// The default grace: a run that starts later than this counts as missed.
const DEFAULT_GRACE: Duration = Duration::from_secs(10);

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
        let now = self.timer.core().clock().wall();
        let since = self.since.map(unix_nanos);
        let (course, first) =
            Course::new(self.schedule, self.misfire, nanos(self.grace), since, now);
        Ok(self.timer.recur(self.key, course, first, self.ends_on_panic, task)?)
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

impl<'a> Keyed<'a> {
    /// Runs a task like [`Timer::cron`], replacing the pending task with this key.
    ///
    /// ```
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// timer.key("report").cron("0 9 * * MON-FRI", "Europe/Berlin", || println!("report"))?;
    /// assert!(timer.cancel("report"));
    /// # Ok::<(), tickwheel::cron::CronError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Timer::cron`].
    pub fn cron(
        self,
        expression: &str,
        zone: impl Into<Zone>,
        task: impl FnMut() + Send + 'static,
    ) -> Result<Timeout, CronError> {
        self.calendar(Schedule::new(expression, zone)?).start(task)
    }

    /// Returns a builder like [`Timer::calendar`], of a task that replaces the pending one with this
    /// key.
    ///
    /// ```
    /// use tickwheel::Timer;
    /// use tickwheel::cron::{Misfire, Schedule};
    ///
    /// let timer = Timer::new();
    /// let daily = Schedule::new("@daily", "Europe/Berlin")?;
    /// timer.key("report").calendar(daily).misfire(Misfire::Skip).start(|| println!("report"))?;
    /// assert!(timer.cancel("report"));
    /// # Ok::<(), tickwheel::cron::CronError>(())
    /// ```
    pub fn calendar(self, schedule: Schedule) -> CalendarTask<'a> {
        self.timer.calendar(schedule).key(self.key)
    }
}
