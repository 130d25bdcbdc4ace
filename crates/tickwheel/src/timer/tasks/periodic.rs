//! Periodic tasks.

use core::time::Duration;
use std::boxed::Box;

use crate::timer::clock::{Nanos, nanos};
use crate::timer::tasks::record::Work;
use crate::timer::tasks::recurrence::Recurrence;
use crate::timer::{Key, ScheduleError, Timeout, Timer};

/// The policy for runs that a periodic task could not start in time: because it was still running,
/// all workers were busy, or the machine was suspended.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{ManualClock, MissedTicks, Timer};
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let slow = clock.clone();
/// timer.periodic(Duration::from_secs(1)).missed(MissedTicks::Skip).start(move || {
///     slow.advance(Duration::from_millis(2_500)); // a run takes two and a half periods
/// })?;
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(timer.stats().fired, 1); // at 1 s; the runs at 2 s and 3 s are skipped
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum MissedTicks {
    /// Run all of them, one immediately after the other, until the schedule has caught up.
    Burst,
    /// Run once, and restart the schedule at that time: the next run is due one period later.
    Delay,
    /// Run once, and continue with the next time of the original schedule. The missed runs are
    /// skipped.
    #[default]
    Skip,
}

impl MissedTicks {
    /// Returns the time of the next run, after a run that was due at `due_at` and ended at `now`.
    pub(crate) fn next(self, due_at: Nanos, period: Nanos, now: Nanos) -> Nanos {
        let next = due_at.saturating_add(period);
        match self {
            Self::Burst => next,
            _ if next > now => next,
            Self::Delay => now.saturating_add(period),
            Self::Skip => next.saturating_add(((now - next) / period + 1).saturating_mul(period)),
        }
    }
}

/// The rule by which a periodic task repeats.
#[derive(Debug)]
pub(crate) struct Series {
    period: Nanos,
    rhythm: Rhythm,
    pub(crate) ends_on_panic: bool,
}

#[derive(Debug)]
enum Rhythm {
    /// The period counts from start to start.
    FixedRate(MissedTicks),
    /// The period counts from the end of one run to the start of the next.
    FixedDelay,
    /// The wall-clock times that a rule computes.
    ByRule(Box<dyn Recurrence>),
}

impl Series {
    pub(crate) fn by_rule(rule: Box<dyn Recurrence>, ends_on_panic: bool) -> Self {
        Self { period: 0, rhythm: Rhythm::ByRule(rule), ends_on_panic }
    }

    /// Returns the rule of a series that follows the wall clock.
    pub(crate) fn rule(&self) -> Option<&dyn Recurrence> {
        if let Rhythm::ByRule(rule) = &self.rhythm { Some(&**rule) } else { None }
    }

    /// Returns the time of the next run, after a run that was due at `due_at` and ended at `now`.
    pub(crate) fn next(&self, due_at: Nanos, now: Nanos) -> Nanos {
        match self.rhythm {
            // The deadline is on the wall clock, and the rule has already computed it.
            Rhythm::ByRule(_) => due_at,
            Rhythm::FixedRate(missed) => missed.next(due_at, self.period, now),
            Rhythm::FixedDelay => now.saturating_add(self.period),
        }
    }
}

/// A builder of a periodic task, returned by [`Timer::periodic`].
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{ManualClock, Timer};
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// timer
///     .periodic(Duration::from_secs(60))
///     .first_after(Duration::ZERO)
///     .key("report")
///     .start(|| {})?;
/// clock.advance(Duration::from_secs(120));
/// assert_eq!(timer.stats().fired, 3); // at 0 s, 60 s and 120 s
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a periodic task does nothing until `start` is called"]
pub struct Periodic<'a> {
    timer: &'a Timer,
    key: Option<Key>,
    first: Option<Duration>,
    period: Duration,
    rhythm: Rhythm,
    ends_on_panic: bool,
}

impl<'a> Periodic<'a> {
    pub(crate) fn new(timer: &'a Timer, period: Duration) -> Self {
        Self {
            timer,
            key: None,
            first: None,
            period,
            rhythm: Rhythm::FixedRate(MissedTicks::default()),
            ends_on_panic: false,
        }
    }

    /// Sets the key of the task. A pending task with the same key is replaced.
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the delay until the first run. Defaults to one period.
    pub fn first_after(mut self, delay: Duration) -> Self {
        self.first = Some(delay);
        self
    }

    /// Sets the policy for missed runs, with a fixed rate. Defaults to [`MissedTicks::Skip`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, MissedTicks, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let slow = clock.clone();
    /// let mut first = true;
    /// timer.periodic(Duration::from_secs(1)).missed(MissedTicks::Burst).start(move || {
    ///     if std::mem::take(&mut first) {
    ///         slow.advance(Duration::from_millis(2_500)); // takes two and a half periods
    ///     }
    /// })?;
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(timer.stats().fired, 3); // at 1 s, then the runs of 2 s and 3 s at once
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn missed(mut self, missed: MissedTicks) -> Self {
        self.rhythm = Rhythm::FixedRate(missed);
        self
    }

    /// Counts the period from the end of one run to the start of the next, instead of from start to
    /// start.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let slow = clock.clone();
    /// timer.periodic(Duration::from_secs(2)).fixed_delay().start(move || {
    ///     slow.advance(Duration::from_secs(1)); // a run takes a second
    /// })?;
    /// clock.advance(Duration::from_secs(8));
    /// assert_eq!(timer.stats().fired, 3); // at 2 s, 5 s and 8 s
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fixed_delay(mut self) -> Self {
        self.rhythm = Rhythm::FixedDelay;
        self
    }

    /// Ends the series when a run panics. By default the series continues.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let series = timer.periodic(Duration::from_secs(1)).end_on_panic().start(|| panic!("once"))?;
    /// clock.advance(Duration::from_secs(10));
    /// assert_eq!(timer.stats().fired, 1);
    /// assert!(series.is_expired());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn end_on_panic(mut self) -> Self {
        self.ends_on_panic = true;
        self
    }

    /// Schedules the task. Its runs never overlap: a run that takes longer than the period delays the
    /// next one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let mut count = 0;
    /// let series = timer.periodic(Duration::from_secs(60)).start(move || {
    ///     count += 1;
    ///     println!("report {count}");
    /// })?;
    /// clock.advance(Duration::from_secs(180));
    /// assert!(series.cancel());
    /// assert_eq!(timer.stats().fired, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Timer::every`].
    pub fn start(self, task: impl FnMut() + Send + 'static) -> Result<Timeout, ScheduleError> {
        let period = nanos(self.period);
        if period == 0 {
            return Err(ScheduleError::ZeroPeriod);
        }
        let series = Series { period, rhythm: self.rhythm, ends_on_panic: self.ends_on_panic };
        let core = self.timer.core();
        let at = core.clock().after(nanos(self.first.unwrap_or(self.period)));
        core.schedule_record(self.key, Some(series), Work::Repeat(Box::new(task)), at, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(rhythm: Rhythm, due_at: Nanos, now: Nanos) -> Nanos {
        Series { period: 10, rhythm, ends_on_panic: false }.next(due_at, now)
    }

    #[test]
    fn a_run_in_time_is_followed_by_the_next_of_the_schedule() {
        for missed in [MissedTicks::Burst, MissedTicks::Delay, MissedTicks::Skip] {
            assert_eq!(next(Rhythm::FixedRate(missed), 100, 103), 110);
        }
        assert_eq!(next(Rhythm::FixedDelay, 100, 103), 113);
    }

    #[test]
    fn what_was_missed_is_run_delayed_or_skipped() {
        assert_eq!(next(Rhythm::FixedRate(MissedTicks::Burst), 100, 135), 110);
        assert_eq!(next(Rhythm::FixedRate(MissedTicks::Delay), 100, 135), 145);
        assert_eq!(next(Rhythm::FixedRate(MissedTicks::Skip), 100, 135), 140);
        assert_eq!(next(Rhythm::FixedRate(MissedTicks::Skip), 100, 140), 150);
        assert_eq!(next(Rhythm::FixedDelay, 100, 135), 145);
    }

    #[test]
    fn the_end_of_time_is_never_and_not_now() {
        let missed = Rhythm::FixedRate(MissedTicks::Skip);
        assert_eq!(next(missed, Nanos::MAX - 5, 7), Nanos::MAX);
        assert_eq!(next(Rhythm::FixedDelay, 3, Nanos::MAX - 5), Nanos::MAX);
    }
}
