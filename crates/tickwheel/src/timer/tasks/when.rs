//! Points in time that a task can be scheduled for.

use std::time::{Instant, SystemTime};

use crate::timer::clock::unix_nanos;
use crate::timer::core::Core;
use crate::timer::tasks::job::Job;
use crate::timer::tasks::record::Work;
use crate::timer::{Key, ScheduleError, Timeout};

/// A point in time, by one of two clocks; both convert into it.
///
/// ```
/// use std::time::{Instant, SystemTime};
/// use tickwheel::When;
///
/// assert!(matches!(When::from(Instant::now()), When::Monotonic(_)));
/// assert!(matches!(When::from(SystemTime::now()), When::Wall(_)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum When {
    /// By the clock that never is set, and stands still while the machine sleeps.
    Monotonic(Instant),
    /// By the clock on the wall, wherever it is set.
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
