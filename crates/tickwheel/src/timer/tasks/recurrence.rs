//! Tasks that recur at wall-clock times, which a rule computes from one run to the next.
//!
//! The timer knows such a rule only as a [`Recurrence`]. The calendar implements it.
//!
//! Ground rules:
//! * Computing a time may take long. [`Recurrence::next`] and [`Recurrence::revise`] are called
//!   without the shard's lock: `next` by the worker after a run, `revise` as `core/wall.rs`
//!   describes. [`Recurrence::is_missed`] and [`Recurrence::start`] are called under the lock, and
//!   return at once.
//! * All times are wall-clock times in nanoseconds since 1970. `Nanos::MAX` means never.

use core::fmt;
use std::boxed::Box;
use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::timer::clock::Nanos;
use crate::timer::tasks::periodic::Series;
use crate::timer::tasks::record::Work;
use crate::timer::{Key, ScheduleError, Timeout, Timer};

/// A rule that computes the wall-clock times at which a task runs.
pub(crate) trait Recurrence:
    fmt::Debug + Send + Sync + UnwindSafe + RefUnwindSafe + 'static
{
    /// Returns `true` if a run that was due at `due` is skipped, because it could only start at `now`.
    fn is_missed(&self, due: Nanos, now: Nanos) -> bool;

    /// Notes the start of a run, which was due at `due`, or was [reset](Timeout::reset) (`None`).
    fn start(&self, due: Option<Nanos>, now: Nanos);

    /// Returns the time of the next run, after a run has ended.
    fn next(&self, now: Nanos) -> Nanos;

    /// Returns the time at which a pending task is due instead of at `due`: a later one if that time
    /// was missed, an earlier one if the clock was set back, otherwise the same.
    fn revise(&self, due: Nanos, now: Nanos) -> Nanos;
}

impl Timer {
    /// Schedules a task that runs first at `first`, and then at the times of a rule.
    #[cfg_attr(not(any(feature = "cron", test)), allow(dead_code, reason = "only calendars recur"))]
    pub(crate) fn recur(
        &self,
        key: Option<Key>,
        rule: impl Recurrence,
        first: Nanos,
        ends_on_panic: bool,
        task: impl FnMut() + Send + 'static,
    ) -> Result<Timeout, ScheduleError> {
        let series = Series::by_rule(Box::new(rule), ends_on_panic);
        let work = Work::Repeat(Box::new(task));
        self.core().schedule_record(key, Some(series), work, 0, Some(first))
    }
}
