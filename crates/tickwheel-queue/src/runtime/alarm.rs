//! The alarm: wakes the writer at a time of the system's clock or of a manual clock.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use tickwheel::{ManualClock, Timer};

use crate::model::time::{Time, instant_now};
use crate::runtime::core::Core;

/// The longest time after which a step of the wall clock is noticed.
const CLOCK_CHECK: Duration = Duration::from_secs(1);

pub(crate) enum Alarm {
    System,
    /// A timer on the manual clock pings the inbox when the alarm is due.
    Manual {
        clock: ManualClock,
        timer: Timer,
        core: Weak<Core>,
    },
}

impl Alarm {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        match &core.clock.manual {
            None => Self::System,
            Some(clock) => {
                let timer = Timer::builder().clock(clock.clone()).build();
                let timer = timer.expect("a timer with only a manual clock is always possible");
                Self::Manual { clock: clock.clone(), timer, core: Arc::downgrade(core) }
            }
        }
    }

    /// Returns the monotonic time.
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::System => instant_now(),
            Self::Manual { clock, .. } => clock.now(),
        }
    }

    /// Sets the alarm for a time of the wall clock and an instant of the monotonic clock. Returns
    /// the instant until which the writer may sleep.
    pub(crate) fn set(&self, (wall, instant): (Option<Time>, Option<Instant>)) -> Option<Instant> {
        match self {
            Self::System => {
                let now = instant_now();
                let wall = wall.map(|time| {
                    let wall_now = SystemTime::now();
                    let left = SystemTime::from(time).duration_since(wall_now).unwrap_or_default();
                    now + left.min(CLOCK_CHECK)
                });
                [wall, instant].into_iter().flatten().min()
            }
            Self::Manual { clock, timer, core } => {
                if wall.is_some_and(|time| SystemTime::from(time) <= clock.wall())
                    || instant.is_some_and(|instant| instant <= clock.now())
                {
                    return Some(instant_now());
                }
                if let Some(time) = wall {
                    Self::ping_at(timer, "wall", core, SystemTime::from(time));
                }
                if let Some(instant) = instant {
                    Self::ping_at(timer, "instant", core, instant);
                }
                None
            }
        }
    }

    fn ping_at(
        timer: &Timer,
        key: &'static str,
        core: &Weak<Core>,
        when: impl Into<tickwheel::When>,
    ) {
        let core = Weak::clone(core);
        let ping = move || {
            if let Some(core) = core.upgrade() {
                core.inbox.ping();
            }
        };
        // Only a stopped or full timer refuses a task, and this one is neither.
        if let Err(error) = timer.key(key).at(when, ping) {
            tracing::error!(%error, "the manual clock's timer");
        }
    }
}
