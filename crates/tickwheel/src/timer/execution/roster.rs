//! The roles of a timer's threads. The [driver](crate::timer::core::driver) holds the roster's lock.

use core::time::Duration;
use std::borrow::ToOwned;
use std::string::String;

use crate::timer::clock::{Nanos, nanos};
use crate::timer::core::driver::{NEVER, Phase};

/// The time for which a blocked call may delay other tasks before another thread steps in.
pub(crate) const GRACE: Duration = Duration::from_millis(1);

/// The guard's waiting time is halved up to this many times, from `GRACE` down to 31 µs.
const MAX_HALVINGS: u32 = 5;

/// The number of failures in a row to start a thread before attempts are spaced out.
const EAGER_ATTEMPTS: u32 = 4;

/// The longest time between two attempts to start a thread.
const MAX_BACK_OFF: Duration = Duration::from_secs(1);

pub(crate) struct Roster {
    pub(crate) phase: Phase,
    /// Threads that were started and have not ended.
    pub(crate) count: usize,
    /// Set while the first thread is being started, which may fail.
    pub(crate) starting: Option<Starting>,
    /// The number of failures in a row to start a thread, the last reason, and when to retry.
    pub(crate) failures: u32,
    pub(crate) failure: String,
    pub(crate) retry_at: Nanos,
    pub(crate) guard: Guard,
    /// How often in a row a guard had to step in.
    pub(crate) step_ins: u32,
    /// Threads without work.
    pub(crate) idle: usize,
    /// How often a leader woke up.
    pub(crate) wakeups: u64,
    /// Until when the event loop of a timer with a wake hook sleeps.
    pub(crate) caller_until: Nanos,
}

/// Events while the first thread is being started.
#[derive(Default)]
pub(crate) struct Starting {
    /// A task was accepted in the expectation of that thread.
    pub(crate) promised: bool,
    /// The body of that thread was dropped.
    pub(crate) body_dropped: bool,
}

/// The state of the guard.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Guard {
    None,
    /// A thread was told to become the guard.
    Coming,
    /// The guard wakes up once per `GRACE` and checks for progress.
    Watching,
    /// The guard sleeps until tasks run again.
    Resting,
}

impl Default for Roster {
    fn default() -> Self {
        Self {
            phase: Phase::NotStarted,
            count: 0,
            starting: None,
            failures: 0,
            failure: String::new(),
            retry_at: 0,
            guard: Guard::None,
            step_ins: 0,
            idle: 0,
            wakeups: 0,
            // An event loop that has not asked for a deadline yet may sleep without end.
            caller_until: NEVER,
        }
    }
}

impl Roster {
    /// Returns the time after which the guard steps in.
    pub(crate) fn grace(&self) -> Duration {
        GRACE / (1 << self.step_ins.min(MAX_HALVINGS))
    }

    /// Returns `true` if starting a thread failed recently and the next attempt is not due yet.
    pub(crate) fn backs_off(&self, now: Nanos) -> bool {
        self.failures > 0 && now < self.retry_at
    }

    /// Records that a thread could not be started.
    pub(crate) fn note_failure(&mut self, why: &str, now: Nanos) {
        self.failures = self.failures.saturating_add(1);
        why.clone_into(&mut self.failure);
        let pause = match self.failures.checked_sub(EAGER_ATTEMPTS) {
            None | Some(0) => Duration::ZERO,
            Some(n) => Duration::from_millis(1 << n.min(11)) / 2,
        };
        self.retry_at = now.saturating_add(nanos(pause.min(MAX_BACK_OFF)));
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn guards_step_in_faster_while_calls_block() {
        let delay = |blocked| -> Duration {
            (0..blocked).map(|step_ins| Roster { step_ins, ..Roster::default() }.grace()).sum()
        };
        assert_eq!(delay(1), GRACE);
        assert!(delay(62) < 4 * GRACE, "{:?}", delay(62));
    }

    #[test]
    fn attempts_to_start_a_thread_get_rarer() {
        let (mut roster, mut now, mut attempts) = (Roster::default(), 0, 0);
        while now < 10_000_000_000 {
            roster.note_failure("no more threads", now);
            now = roster.retry_at;
            attempts += 1;
        }
        assert!((15..25).contains(&attempts), "{attempts} attempts in ten seconds");
    }
}
