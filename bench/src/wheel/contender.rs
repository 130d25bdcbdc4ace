//! The operations that a system needs.
//!
//! Ground rules: ticks are milliseconds from 0, the time at which a contender is created. No system
//! is told the number of timers in advance. A contender uses its system as a careful user would,
//! without advantage or handicap.

use std::time::Duration;

/// A system under test, with `u64` values.
pub(super) trait Contender {
    /// Identifies a pending timer.
    type Key: Copy;

    /// Whether a timer has the same key after a reset.
    const KEEPS_KEYS: bool;

    fn new() -> Self;

    /// Adds a timer; `deadline` is later than the current tick.
    fn insert(&mut self, deadline: u64, value: u64) -> Self::Key;

    /// Removes a pending timer and returns its value.
    fn remove(&mut self, key: Self::Key) -> u64;

    /// Moves a pending timer's deadline. A system without this operation removes and inserts.
    fn reset(&mut self, key: &mut Self::Key, deadline: u64);

    /// Advances time to `now` and passes each value that is due to the callback.
    fn pop_due(&mut self, now: u64, due: impl FnMut(u64));

    /// Returns the wall time spent on moving a simulated clock. It is not work of the structure, so
    /// it is subtracted from the figures.
    fn clock_time(&self) -> Duration {
        Duration::ZERO
    }
}
