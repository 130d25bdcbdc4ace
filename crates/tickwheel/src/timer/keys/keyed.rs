//! Scheduling, resetting and inspecting a task by its key.

use core::time::Duration;

use crate::timer::clock::{Clock, nanos};
use crate::timer::tasks::job::Job;
use crate::timer::tasks::when;
use crate::timer::{Key, Periodic, ScheduleError, Timeout, Timer, When};

/// A key of a timer, returned by [`Timer::key`]: schedules a task with the key, or accesses the
/// pending one.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{ManualClock, Timer};
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// timer.key(7).after(Duration::from_secs(10), || panic!("replaced"))?;
/// timer.key(7).after(Duration::from_secs(20), || {})?;
/// clock.advance(Duration::from_secs(30));
/// assert_eq!(timer.stats().fired, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a `Keyed` does nothing until a method is called"]
pub struct Keyed<'a> {
    pub(crate) timer: &'a Timer,
    pub(crate) key: Key,
}

impl<'a> Keyed<'a> {
    pub(crate) fn new(timer: &'a Timer, key: Key) -> Self {
        Self { timer, key }
    }

    /// Runs a task like [`Timer::after`], replacing the pending task with this key.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer.key("order-42").after(Duration::from_secs(1800), || println!("close order 42"))?;
    /// timer.key("order-42").after(Duration::from_secs(3600), || println!("close it later"))?;
    /// clock.advance(Duration::from_secs(1800));
    /// assert_eq!(timer.pending(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Timer::after`].
    pub fn after(
        self,
        delay: Duration,
        task: impl FnOnce() + Send + 'static,
    ) -> Result<Timeout, ScheduleError> {
        let at = |clock: &Clock| clock.after(nanos(delay));
        self.timer.core().schedule_keyed(self.key, at, Job::keyed(task))
    }

    /// Sets the deadline of the pending task with this key to `delay` from now, earlier or later
    /// than it was. Returns `false` if no task with this key is pending.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// timer.key("session-7").after(Duration::from_secs(60), || println!("log out"))?;
    /// assert!(timer.key("session-7").reset(Duration::from_secs(60))); // the user is active
    /// assert!(!timer.key("session-8").reset(Duration::from_secs(60)));
    /// # Ok::<(), tickwheel::ScheduleError>(())
    /// ```
    pub fn reset(&self, delay: Duration) -> bool {
        self.timer.core().reset_key(&self.key, nanos(delay))
    }

    /// Returns the time until the task with this key is due: zero if it is late, and
    /// [`Duration::MAX`] if it is never due. Returns `None` if no task with this key is pending,
    /// or if a periodic one is running.
    pub fn remaining(&self) -> Option<Duration> {
        let core = self.timer.core();
        Some(core.clock().remaining(core.key_due_at(&self.key)?))
    }

    /// Returns `true` if a task with this key is pending. A periodic task is pending until its
    /// series ends, even while it runs.
    pub fn is_pending(&self) -> bool {
        self.timer.core().has_key(&self.key)
    }

    /// Runs a task like [`Timer::at`], replacing the pending task with this key.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let noon = clock.wall() + Duration::from_secs(3_600);
    /// timer.key("lunch").at(noon, || println!("lunch"))?;
    /// clock.set_wall(noon); // the wall clock is set
    /// assert_eq!(timer.stats().fired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Timer::after`].
    pub fn at(
        self,
        when: impl Into<When>,
        task: impl FnOnce() + Send + 'static,
    ) -> Result<Timeout, ScheduleError> {
        when::at(self.timer.core(), Some(self.key), when.into(), task)
    }

    /// Runs a task like [`Timer::every`], replacing the pending task with this key.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer.key("beat").every(Duration::from_secs(5), || {})?;
    /// clock.advance(Duration::from_secs(10));
    /// timer.key("beat").every(Duration::from_secs(1), || {})?; // faster from now on
    /// clock.advance(Duration::from_secs(10));
    /// assert_eq!(timer.stats().fired, 12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Timer::every`].
    pub fn every(
        self,
        period: Duration,
        task: impl FnMut() + Send + 'static,
    ) -> Result<Timeout, ScheduleError> {
        self.periodic(period).start(task)
    }

    /// Runs a task like [`Timer::every_after`], replacing the pending task with this key.
    ///
    /// # Errors
    ///
    /// As [`Timer::every`].
    pub fn every_after(
        self,
        delay: Duration,
        task: impl FnMut() + Send + 'static,
    ) -> Result<Timeout, ScheduleError> {
        self.periodic(delay).fixed_delay().start(task)
    }

    /// Returns a builder like [`Timer::periodic`], of a task that replaces the pending one with this
    /// key.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer.key("report").periodic(Duration::from_secs(60)).first_after(Duration::ZERO).start(|| {})?;
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(timer.stats().fired, 2);
    /// assert!(timer.cancel("report"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn periodic(self, period: Duration) -> Periodic<'a> {
        self.timer.periodic(period).key(self.key)
    }

    /// Cancels the pending task with this key. Returns `false` if there is none.
    pub fn cancel(self) -> bool {
        self.timer.cancel(self.key)
    }
}
