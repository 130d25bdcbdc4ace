//! The work, the same in every language: see `peers/README.md`. Made before any clock starts.

use std::time::Duration;

use super::plan::Plan;

const DAY_MS: u64 = 86_400_000;

/// splitmix64: a few lines in any language.
struct Random(u64);

impl Random {
    fn of(plan: &Plan, stream: u64) -> Self {
        Self(plan.seed.wrapping_add(stream))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is less than 2^32.
    fn below(&mut self, bound: u64) -> u64 {
        ((self.next() >> 32) * bound) >> 32
    }

    fn far_ms(&mut self) -> u64 {
        60_000 + self.below(3_540_001)
    }
}

fn delays(plan: &Plan, mut one: impl FnMut(&mut Random) -> Duration) -> Vec<Duration> {
    let mut random = Random::of(plan, 1);
    (0..plan.timers).map(|_| one(&mut random)).collect()
}

/// Delays of 60 s to 3600 s.
pub(super) fn far(plan: &Plan) -> Vec<Duration> {
    delays(plan, |random| Duration::from_millis(random.far_ms()))
}

/// Delays of one to two days.
pub(super) fn tomorrow(plan: &Plan) -> Vec<Duration> {
    delays(plan, |random| Duration::from_millis(DAY_MS + random.below(DAY_MS)))
}

/// Delays within the span after the lead.
pub(super) fn soon(plan: &Plan) -> Vec<Duration> {
    let lead = Duration::from_millis(plan.lead_ms);
    delays(plan, |random| lead + Duration::from_micros(random.below(plan.span_ms * 1_000)))
}

/// A delay every 100 µs of the span after the lead.
pub(super) fn steady(plan: &Plan) -> Vec<Duration> {
    let lead = Duration::from_millis(plan.lead_ms);
    (0..plan.span_ms * 10).map(|i| lead + Duration::from_micros(i * 100)).collect()
}

/// Every index once, shuffled.
pub(super) fn order(plan: &Plan) -> Vec<u32> {
    let mut random = Random::of(plan, 2);
    let mut order: Vec<u32> = (0..plan.timers as u32).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    order
}

/// Which timer moves, and to which delay.
#[derive(Clone, Copy)]
pub(super) struct Move {
    pub(super) index: u32,
    delay_ms: u32,
}

impl Move {
    pub(super) fn delay(self) -> Duration {
        Duration::from_millis(self.delay_ms.into())
    }
}

pub(super) fn moves(plan: &Plan) -> Vec<Move> {
    let mut random = Random::of(plan, 3);
    let timers = plan.timers as u64;
    let anywhere =
        |_| Move { index: random.below(timers) as u32, delay_ms: random.far_ms() as u32 };
    (0..plan.moves).map(anywhere).collect()
}

/// Equal for systems that were given the same work.
#[derive(Clone, Copy, Default)]
pub(super) struct Checksum(pub(super) u64);

impl Checksum {
    fn add(&mut self, values: impl IntoIterator<Item = u64>) {
        for value in values {
            self.0 = self.0.wrapping_mul(31).wrapping_add(value);
        }
    }

    pub(super) fn delays(mut self, delays: &[Duration]) -> Self {
        self.add(delays.iter().map(|delay| delay.as_nanos() as u64));
        self
    }

    pub(super) fn order(mut self, order: &[u32]) -> Self {
        self.add(order.iter().map(|&index| index.into()));
        self
    }

    pub(super) fn moves(mut self, moves: &[Move]) -> Self {
        self.add(moves.iter().map(|step| step.index.into()));
        self.add(moves.iter().map(|step| step.delay_ms.into()));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::workload::Workload;

    fn plan() -> Plan {
        Plan {
            workload: Workload::Churn,
            timers: 1_000,
            seed: 7,
            moves: 5_000,
            lead_ms: 10,
            span_ms: 100,
            idle_ms: 0,
        }
    }

    #[test]
    fn delays_are_where_they_should_be() {
        let within = |delays: Vec<Duration>, from, to| {
            let range = Duration::from_millis(from)..=Duration::from_millis(to);
            assert!(delays.iter().all(|delay| range.contains(delay)));
        };
        within(far(&plan()), 60_000, 3_600_000);
        within(tomorrow(&plan()), DAY_MS, 2 * DAY_MS);
        within(soon(&plan()), 10, 110);
        within(steady(&plan()), 10, 110);
    }

    #[test]
    fn every_timer_is_cancelled_once() {
        let mut order = order(&plan());
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
