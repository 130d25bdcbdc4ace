//! What a system must be able to do to take part.
//!
//! Ground rules: ticks are milliseconds from 0, the time at which a contender is made. Nothing is
//! told in advance how many timers will come. A contender does what a careful user of that system
//! would write, and nothing that flatters or burdens it.

use std::time::Duration;

/// A system under test, with `u64` values.
pub(super) trait Contender {
    /// What names a pending timer.
    type Key: Copy;

    /// Whether a timer has the same key after a reset.
    const KEEPS_KEYS: bool;

    fn new() -> Self;

    /// Adds a timer; `deadline` is later than the current tick.
    fn insert(&mut self, deadline: u64, value: u64) -> Self::Key;

    /// Takes a pending timer out and gives back its value.
    fn remove(&mut self, key: Self::Key) -> u64;

    /// Moves a pending timer's deadline. Where the system has no such operation it is a removal
    /// and an insertion.
    fn reset(&mut self, key: &mut Self::Key, deadline: u64);

    /// Moves time to `now` and hands over what is due.
    fn pop_due(&mut self, now: u64, due: impl FnMut(u64));

    /// How long, on the wall, this contender has spent moving a clock that only stands in for real time. It is
    /// no work of the structure and is taken off the figures.
    fn clock_time(&self) -> Duration {
        Duration::ZERO
    }
}
