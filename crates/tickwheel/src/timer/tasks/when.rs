//! The points in time that a task can be scheduled for.

use std::time::{Instant, SystemTime};

use crate::timer::clock::unix_nanos;
use crate::timer::core::Core;
use crate::timer::tasks::job::Job;
use crate::timer::tasks::record::Work;
use crate::timer::{Key, ScheduleError, Timeout};

/// A point in time on the monotonic clock or the wall clock. Converts from [`Instant`] and
/// [`SystemTime`].
///
/// ```
/// use std::time::{Duration, Instant, SystemTime};
/// use tickwheel::{ScheduleError, Timer, When};
///
/// fn remind(timer: &Timer, when: impl Into<When>) -> Result<(), ScheduleError> {
///     timer.at(when, || println!("reminder")).map(drop)
/// }
///
/// let timer = Timer::new();
/// remind(&timer, Instant::now() + Duration::from_secs(60))?;
/// remind(&timer, SystemTime::now() + Duration::from_secs(60))?;
/// # Ok::<(), ScheduleError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum When {
    /// A time on the monotonic clock, which is never set. On Linux it stands still while the machine
    /// is suspended.
    Monotonic(Instant),
    /// A time on the wall clock. Follows the clock when it is set.
    Wall(SystemTime),
}

impl From<Instant> for When {
    fn from(instant: Instant) -> Self {
        Self::Monotonic(instant)
    }
}

impl From<SystemTime> for When {
    fn from(time: SystemTime) -> Self {
        Self::Wall(time)
    }
}

pub(crate) fn at(
    core: &Core,
    key: Option<Key>,
    when: When,
    task: impl FnOnce() + Send + 'static,
) -> Result<Timeout, ScheduleError> {
    match (when, key) {
        (When::Monotonic(instant), None) => core.schedule(core.clock().at(instant), Job::new(task)),
        (When::Monotonic(instant), Some(key)) => {
            core.schedule_keyed(key, |clock| clock.at(instant), Job::keyed(task))
        }
        (When::Wall(time), key) => {
            let work = Work::Once(Job::new(task));
            core.schedule_record(key, None, work, 0, Some(unix_nanos(time)))
        }
    }
}
