//! The rule of a calendar task: its schedule, and the policy for missed times.
//!
//! Ground rules:
//! * The search for the next time of a schedule takes microseconds, and much longer for rare times.
//!   The timer calls it without a lock.
//! * When the clock is set back by less than [`MAX_CORRECTION`], times that have had their run are not
//!   repeated: a job must not run twice because a clock ran fast. When it is set back further, it was
//!   wrong before, and the new time is followed.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use jiff::Timestamp;

use super::schedule::Schedule;
#[cfg(doc)]
use super::task::CalendarTask;
use crate::timer::clock::{Nanos, unix_nanos};
use crate::timer::tasks::recurrence::Recurrence;

/// A wall clock that is set back by more than this was wrong before. Cron uses the same limit.
const MAX_CORRECTION: Nanos = 3 * 3600 * 1_000_000_000;

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
pub(super) struct Course {
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
    /// Creates the rule of a task, and returns it with the time of the first run. `since` is the time
    /// from which times of the schedule count; `None` means `now`.
    pub(super) fn new(
        schedule: Schedule,
        misfire: Misfire,
        grace: Nanos,
        since: Option<Nanos>,
        now: Nanos,
    ) -> (Self, Nanos) {
        let misfire = match misfire {
            Misfire::All { limit: 0 } => Misfire::Skip,
            misfire => misfire,
        };
        // A time in the past has had its run. A time in the future delays the beginning.
        let (begin, handled) = match since {
            Some(since) if since > now => (since, 0),
            past => (0, past.unwrap_or(0)),
        };
        let handled = AtomicU64::new(handled);
        let course = Self { schedule, misfire, grace, begin, handled, behind: AtomicUsize::new(0) };
        let first = course.next_after(since.unwrap_or(now));
        (course, first)
    }

    /// Returns the next time of the schedule, or `Nanos::MAX` if there is none.
    fn next_after(&self, wall: Nanos) -> Nanos {
        let after = i128::from(wall.max(self.begin));
        let after = Timestamp::from_nanosecond(after).unwrap_or(Timestamp::MAX);
        let next = self.schedule.next_timestamp(after);
        next.map_or(Nanos::MAX, |next| unix_nanos(next.into()))
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

impl Recurrence for Course {
    fn is_missed(&self, due: Nanos, now: Nanos) -> bool {
        self.misfire == Misfire::Skip && now.saturating_sub(due) > self.grace
    }

    fn start(&self, due: Option<Nanos>, now: Nanos) {
        let each = matches!(self.misfire, Misfire::All { .. });
        let handled = due.filter(|_| each).unwrap_or(now);
        self.handled.store(handled, Ordering::Relaxed);
    }

    fn next(&self, now: Nanos) -> Nanos {
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

    fn revise(&self, due: Nanos, now: Nanos) -> Nanos {
        if due > now {
            self.set_back(due, now)
        } else if self.is_missed(due, now) {
            // A time that passed just within the grace is not missed.
            self.next_after((now - self.grace).saturating_sub(1))
        } else {
            due
        }
    }
}
