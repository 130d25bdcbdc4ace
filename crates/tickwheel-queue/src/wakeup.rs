//! When the writer wakes up without a caller, by a real clock or by one that tests move.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use tickwheel::{ManualClock, Timer};

use crate::hub::Hub;
use crate::time::{Clock, Time, instant_now};

/// How long a wall clock that was set may go unnoticed.
const CLOCK_CHECK: Duration = Duration::from_secs(1);

pub(crate) enum Alarm {
    System,
    /// A timer on the manual clock pings the inbox when its time comes.
    Manual {
        clock: ManualClock,
        timer: Timer,
        hub: Weak<Hub>,
    },
}

impl Alarm {
    pub(crate) fn new(hub: &Arc<Hub>) -> Self {
        match &hub.clock {
            Clock::System => Self::System,
            Clock::Manual(clock) => {
                let timer = Timer::builder().clock(clock.clone()).build();
                let timer = timer.expect("a timer with only a manual clock is always possible");
                Self::Manual { clock: clock.clone(), timer, hub: Arc::downgrade(hub) }
            }
        }
    }

    /// The monotonic time.
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::System => instant_now(),
            Self::Manual { clock, .. } => clock.now(),
        }
    }

    /// Sets the alarm for a time of the wall clock and one of the monotonic clock, and gives the
    /// instant until which the writer may sleep.
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
            Self::Manual { clock, timer, hub } => {
                if wall.is_some_and(|time| SystemTime::from(time) <= clock.wall())
                    || instant.is_some_and(|instant| instant <= clock.now())
                {
                    return Some(instant_now());
                }
                if let Some(time) = wall {
                    Self::ping_at(timer, "wall", hub, SystemTime::from(time));
                }
                if let Some(instant) = instant {
                    Self::ping_at(timer, "instant", hub, instant);
                }
                None
            }
        }
    }

    fn ping_at(
        timer: &Timer,
        key: &'static str,
        hub: &Weak<Hub>,
        when: impl Into<tickwheel::When>,
    ) {
        let hub = Weak::clone(hub);
        let ping = move || {
            if let Some(hub) = hub.upgrade() {
                hub.inbox.ping();
            }
        };
        // Only a stopped or full timer refuses, and this one is neither.
        if let Err(error) = timer.key(key).at(when, ping) {
            tracing::error!(%error, "the manual clock's timer");
        }
    }
}
