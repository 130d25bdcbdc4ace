//! The work that every system is given: sequences from a fixed seed, made before any clock starts.
//!
//! A timer's value holds its index and the deadline it was inserted with. So a caller that pops a
//! value can check, without a lookup, that it is due.

use std::ops::RangeInclusive;

use fastrand::Rng;

const SEED: u64 = 0x7135_57EE_1000_2024;

/// The low bits of a value hold the index; the other bits hold the deadline.
const INDEX_BITS: u32 = 24;

/// The largest number of timers that a value has room for.
pub(super) const MOST_TIMERS: usize = 1 << INDEX_BITS;

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;

/// Delays of the timers that are inserted, cancelled and moved.
pub(super) const TIMEOUTS: RangeInclusive<u64> = 60 * SECOND..=HOUR;
/// Delays of the timers that are fired tick by tick.
pub(super) const MINUTE: RangeInclusive<u64> = 1..=60 * SECOND;
/// Delays of the timers that one jump fires.
pub(super) const WHOLE_DAY: RangeInclusive<u64> = 1..=DAY;
/// Delays of the timers that empty ticks never reach.
pub(super) const FAR: RangeInclusive<u64> = DAY..=2 * DAY;
/// Delays of the timers that a ring of 512 slots holds within one turn.
pub(super) const RING: RangeInclusive<u64> = 1..=511;
/// The ticks by which a heartbeat moves a deadline.
const HEARTBEAT: RangeInclusive<u64> = 1..=60 * SECOND;

/// The number of resets, independent of the number of timers.
const MOVES: usize = if cfg!(test) { 10_000 } else { 5_000_000 };

/// One reset: which timer, and its new deadline, which fits 32 bits in every workload.
#[derive(Clone, Copy)]
pub(super) struct Move {
    pub(super) index: u32,
    pub(super) deadline: u32,
}

/// Returns the deadline that the timer with this value was inserted with.
pub(super) fn deadline_of(value: u64) -> u64 {
    value >> INDEX_BITS
}

/// Returns the index of the timer with this value.
pub(super) fn index_of(value: u64) -> usize {
    value as usize & (MOST_TIMERS - 1)
}

/// Returns the values of `timers` timers with delays uniform in `delays`.
pub(super) fn values(timers: usize, delays: RangeInclusive<u64>) -> Vec<u64> {
    let mut random = Rng::with_seed(SEED);
    let value = |index| random.u64(delays.clone()) << INDEX_BITS | index as u64;
    (0..timers).map(value).collect()
}

/// Returns the value of the timer that replaces one of [`RING`] when it fires. It depends on that
/// timer alone, so the order in which a tick's timers fire does not matter.
pub(super) fn replacement(value: u64) -> u64 {
    let mixed = (value ^ SEED).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let delay = RING.start() + mixed * RING.end() / (1 << 32);
    (deadline_of(value) + delay) << INDEX_BITS | index_of(value) as u64
}

/// Returns every index once, shuffled.
pub(super) fn shuffled(timers: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..timers as u32).collect();
    Rng::with_seed(SEED + 1).shuffle(&mut order);
    order
}

/// Returns resets of random timers to random delays.
pub(super) fn moves_anywhere(timers: usize) -> Vec<Move> {
    let mut random = Rng::with_seed(SEED + 2);
    let anywhere =
        |_| Move { index: random.u32(0..timers as u32), deadline: random.u64(TIMEOUTS) as u32 };
    (0..MOVES).map(anywhere).collect()
}

/// Returns resets of random timers, each to a deadline later than the timer's current one.
pub(super) fn moves_later(values: &[u64]) -> Vec<Move> {
    let mut random = Rng::with_seed(SEED + 3);
    let mut deadlines: Vec<u64> = values.iter().map(|&value| deadline_of(value)).collect();
    let later = |_| {
        let index = random.usize(0..deadlines.len());
        deadlines[index] += random.u64(HEARTBEAT);
        Move { index: index as u32, deadline: deadlines[index] as u32 }
    };
    (0..MOVES).map(later).collect()
}

/// Returns the deadline of each timer after `moves`.
pub(super) fn final_deadlines(values: &[u64], moves: &[Move]) -> Vec<u64> {
    let mut deadlines: Vec<u64> = values.iter().map(|&value| deadline_of(value)).collect();
    for step in moves {
        deadlines[step.index as usize] = u64::from(step.deadline);
    }
    deadlines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_tells_its_index_and_deadline() {
        for (index, &value) in values(1_000, FAR).iter().enumerate() {
            assert_eq!(index_of(value), index);
            assert!(FAR.contains(&deadline_of(value)));
        }
    }

    #[test]
    fn a_replacement_keeps_the_index_and_is_due_within_a_turn() {
        for value in values(1_000, RING) {
            let next = replacement(value);
            assert_eq!(index_of(next), index_of(value));
            assert!(RING.contains(&(deadline_of(next) - deadline_of(value))));
        }
    }

    #[test]
    fn the_same_work_every_time() {
        assert_eq!(values(1_000, MINUTE), values(1_000, MINUTE));
        assert_eq!(shuffled(1_000), shuffled(1_000));
    }

    #[test]
    fn a_heartbeat_only_moves_later() {
        let values = values(100, TIMEOUTS);
        let mut deadlines = final_deadlines(&values, &[]);
        for step in moves_later(&values) {
            let deadline = &mut deadlines[step.index as usize];
            assert!(u64::from(step.deadline) > *deadline);
            *deadline = u64::from(step.deadline);
        }
    }
}
