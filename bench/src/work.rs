//! The work, which is the same in every language: see `peers/README.md`. It is generated before the
//! clock starts.

use std::time::Duration;

use anyhow::Result;

use crate::suite::{Outcome, Run};

/// The seed of every comparison.
pub(crate) const SEED: u64 = 0x7135_57EE_1000_2024;

const DAY_MS: u64 = 86_400_000;

/// The numbers that determine the work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) timers: usize,
    pub(crate) seed: u64,
    /// The number of moves of timers.
    pub(crate) moves: usize,
    /// The time for scheduling everything before the first deadline.
    pub(crate) lead_ms: u64,
    /// The time from the first deadline to the last.
    pub(crate) span_ms: u64,
}

impl Size {
    pub(crate) fn of(run: &Run) -> Result<Self> {
        Ok(Self {
            timers: run.number("timers")? as usize,
            seed: run.number("seed")?,
            moves: run.number("moves")? as usize,
            lead_ms: run.number("lead-ms")?,
            span_ms: run.number("span-ms")?,
        })
    }

    /// Returns these numbers as settings of another process.
    pub(crate) fn settings(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("timers", self.timers as u64),
            ("seed", self.seed),
            ("moves", self.moves as u64),
            ("lead-ms", self.lead_ms),
            ("span-ms", self.span_ms),
        ]
    }
}

/// The generator splitmix64, which is a few lines in any language.
struct Random(u64);

impl Random {
    fn of(size: &Size, stream: u64) -> Self {
        Self(size.seed.wrapping_add(stream))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, which is less than 2^32.
    fn below(&mut self, bound: u64) -> u64 {
        ((self.next() >> 32) * bound) >> 32
    }

    fn far_ms(&mut self) -> u64 {
        60_000 + self.below(3_540_001)
    }
}

fn delays(size: &Size, mut one: impl FnMut(&mut Random) -> Duration) -> Vec<Duration> {
    let mut random = Random::of(size, 1);
    (0..size.timers).map(|_| one(&mut random)).collect()
}

/// Returns delays of 60 s to 3600 s.
pub(crate) fn far(size: &Size) -> Vec<Duration> {
    delays(size, |random| Duration::from_millis(random.far_ms()))
}

/// Returns delays of one to two days.
pub(crate) fn tomorrow(size: &Size) -> Vec<Duration> {
    delays(size, |random| Duration::from_millis(DAY_MS + random.below(DAY_MS)))
}

/// Returns delays within the span after the lead.
pub(crate) fn soon(size: &Size) -> Vec<Duration> {
    let lead = Duration::from_millis(size.lead_ms);
    delays(size, |random| lead + Duration::from_micros(random.below(size.span_ms * 1_000)))
}

/// Returns a delay every 100 µs of the span after the lead.
pub(crate) fn steady(size: &Size) -> Vec<Duration> {
    let lead = Duration::from_millis(size.lead_ms);
    (0..size.span_ms * 10).map(|i| lead + Duration::from_micros(i * 100)).collect()
}

/// Returns every index once, shuffled.
pub(crate) fn order(size: &Size) -> Vec<u32> {
    let mut random = Random::of(size, 2);
    let mut order: Vec<u32> = (0..size.timers as u32).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    order
}

/// A new delay for a timer.
#[derive(Clone, Copy)]
pub(crate) struct Move {
    pub(crate) index: u32,
    delay_ms: u32,
}

impl Move {
    pub(crate) fn delay(self) -> Duration {
        Duration::from_millis(self.delay_ms.into())
    }
}

pub(crate) fn moves(size: &Size) -> Vec<Move> {
    let mut random = Random::of(size, 3);
    let timers = size.timers as u64;
    let anywhere =
        |_| Move { index: random.below(timers) as u32, delay_ms: random.far_ms() as u32 };
    (0..size.moves).map(anywhere).collect()
}

/// A checksum that is equal for systems that were given the same work.
#[derive(Clone, Copy, Default)]
pub(crate) struct Checksum(u64);

impl Checksum {
    fn add(&mut self, values: impl IntoIterator<Item = u64>) {
        for value in values {
            self.0 = self.0.wrapping_mul(31).wrapping_add(value);
        }
    }

    /// Returns the outcome of a run with this checksum.
    pub(crate) fn outcome(self, figures: impl IntoIterator<Item = (&'static str, f64)>) -> Outcome {
        Outcome::new(self.0, figures)
    }

    pub(crate) fn delays(mut self, delays: &[Duration]) -> Self {
        self.add(delays.iter().map(|delay| delay.as_nanos() as u64));
        self
    }

    pub(crate) fn order(mut self, order: &[u32]) -> Self {
        self.add(order.iter().map(|&index| index.into()));
        self
    }

    pub(crate) fn moves(mut self, moves: &[Move]) -> Self {
        self.add(moves.iter().map(|step| step.index.into()));
        self.add(moves.iter().map(|step| step.delay_ms.into()));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { timers: 1_000, seed: 7, moves: 5_000, lead_ms: 10, span_ms: 100 };

    #[test]
    fn delays_are_where_they_should_be() {
        let within = |delays: Vec<Duration>, from, to| {
            let range = Duration::from_millis(from)..=Duration::from_millis(to);
            assert!(delays.iter().all(|delay| range.contains(delay)));
        };
        within(far(&SIZE), 60_000, 3_600_000);
        within(tomorrow(&SIZE), DAY_MS, 2 * DAY_MS);
        within(soon(&SIZE), 10, 110);
        within(steady(&SIZE), 10, 110);
    }

    #[test]
    fn every_timer_is_cancelled_once() {
        let mut order = order(&SIZE);
        order.sort_unstable();
        assert!(order.into_iter().eq(0..1_000));
    }

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        // The first numbers of the published generator from 1234567.
        let mut random = Random(1_234_567);
        let first = [random.next(), random.next(), random.next()];
        assert_eq!(first, [0x599E_D017_FB08_FC85, 0x2C73_F084_5854_0FA5, 0x883E_BCE5_A3F2_7C77]);
    }
}
