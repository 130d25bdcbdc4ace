//! The clocks of a node, which simulations replace.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use tickwheel_queue::Time;

/// What a node needs of its machine: a wall clock, a monotonic clock, and a way to pause.
///
/// ```
/// use tickwheel_cluster::{Environment, Machine};
///
/// let machine = Machine::new();
/// let before = machine.elapsed();
/// machine.pause(std::time::Duration::from_millis(2));
/// assert!(machine.elapsed() - before >= std::time::Duration::from_millis(2));
/// ```
pub trait Environment: Send + Sync + fmt::Debug {
    /// Returns the time of the wall clock.
    fn time(&self) -> Time;

    /// Returns the time that has passed on the monotonic clock since a fixed moment.
    fn elapsed(&self) -> Duration;

    /// Blocks the thread for this long.
    fn pause(&self, length: Duration);
}

/// The clocks of this machine.
///
/// ```
/// use tickwheel_cluster::{Environment, Machine};
///
/// assert!(Machine::new().time() > tickwheel_queue::Time::from_millis(1_700_000_000_000));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    start: Instant,
}

impl Machine {
    /// Returns the clocks; the monotonic one starts at zero now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Environment for Machine {
    fn time(&self) -> Time {
        SystemTime::now().into()
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn pause(&self, length: Duration) {
        std::thread::sleep(length);
    }
}
