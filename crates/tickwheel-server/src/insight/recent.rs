//! What happened in a queue in the last seconds.
//!
//! **Memory.** A queue in which something happens takes up to a KiB, an idle one about 300 bytes.
//! There are as many as there are queues, of which the queue has a limit.

use std::collections::VecDeque;

use tickwheel_queue::{Lateness, QueueCounters, QueueSample};

use crate::api::Rates;

/// The time over which rates are averaged.
const RATE_MS: u64 = 10_000;
/// Lateness is that of the last one or two of these.
const HALF_WINDOW_MS: u64 = 30_000;

/// The counters of a queue in the last seconds.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Counters, and when a sample had them, the oldest first. The first is from before the time
    /// over which rates are averaged, or from when the queue was first seen.
    marks: VecDeque<(u64, QueueCounters)>,
    late: Option<Box<Late>>,
}

/// How late deliveries were in all: now, and at two moments in the last minute.
#[derive(Debug)]
struct Late {
    now: Lateness,
    newer: Lateness,
    older: Lateness,
    turned_ms: u64,
}

impl Recent {
    /// A queue that did not exist before `at_ms`.
    pub(super) fn of_new_queue(at_ms: u64) -> Self {
        Self { marks: [(at_ms, QueueCounters::default())].into(), late: None }
    }

    pub(super) fn take(&mut self, at_ms: u64, sample: &QueueSample) {
        let went_back = |last: &(u64, QueueCounters)| {
            last.0 > at_ms
                || last.1.put > sample.counters.put
                || last.1.acked > sample.counters.acked
        };
        if self.marks.back().is_some_and(went_back) {
            *self = Self::default();
        }
        if self.marks.back().is_none_or(|last| last.1 != sample.counters) {
            self.marks.push_back((at_ms, sample.counters));
        }
        self.prune(at_ms);
        self.take_lateness(at_ms, &sample.lateness);
    }

    /// Forgets what is too old to count.
    pub(super) fn prune(&mut self, now_ms: u64) {
        while self.marks.get(1).is_some_and(|mark| mark.0 + RATE_MS <= now_ms) {
            self.marks.pop_front();
        }
        if self.marks.len() <= 1 {
            self.marks.shrink_to_fit();
        }
    }

    fn take_lateness(&mut self, at_ms: u64, lateness: &Lateness) {
        if self.late.is_none() && lateness.count() > 0 {
            // What was delivered before this queue was first seen does not count.
            let before = if self.marks.len() > 1 { Lateness::default() } else { lateness.clone() };
            let (newer, older) = (before.clone(), before.clone());
            self.late = Some(Box::new(Late { now: before, newer, older, turned_ms: at_ms }));
        }
        let Some(late) = &mut self.late else { return };
        if late.turned_ms + HALF_WINDOW_MS <= at_ms {
            let is_old = late.turned_ms + 2 * HALF_WINDOW_MS <= at_ms;
            let newer = std::mem::replace(&mut late.newer, late.now.clone());
            late.older = if is_old { late.now.clone() } else { newer };
            late.turned_ms = at_ms;
        }
        late.now = lateness.clone();
    }

    /// Returns what happens in a second, as an average; `None` if it was not watched for long enough.
    pub(super) fn rates(&self, now_ms: u64) -> Option<Rates> {
        let (first_ms, first) = self.marks.front()?;
        let (_, last) = self.marks.back()?;
        let base = self.marks.iter().rev().find(|mark| mark.0 + RATE_MS <= now_ms);
        let (from_ms, from) = base.map_or((*first_ms, first), |base| (now_ms - RATE_MS, &base.1));
        let seconds = now_ms.checked_sub(from_ms).filter(|ms| *ms >= 1_000)? as f64 / 1_000.0;
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        Some(Rates {
            put: rate(last.put, from.put),
            delivered: rate(last.delivered, from.delivered),
            acked: rate(last.acked, from.acked),
            failed: rate(last.failed + last.expired, from.failed + from.expired),
            died: rate(last.died, from.died),
        })
    }

    /// Returns the lateness of deliveries in about the last minute that a share of them did not
    /// exceed, in milliseconds; `None` without a delivery.
    pub(super) fn lateness_ms(&self, now_ms: u64, share: f64) -> Option<u64> {
        let late = self.late.as_ref()?;
        let from = match now_ms.saturating_sub(late.turned_ms) {
            0..HALF_WINDOW_MS => &late.older,
            age if age < 2 * HALF_WINDOW_MS => &late.newer,
            _ => return None,
        };
        let lateness = late.now.since(from);
        lateness.quantile(share).map(|late| late.as_millis() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(put: u64, lateness: Lateness) -> QueueSample {
        let mut sample = QueueSample::default();
        sample.counters.put = put;
        sample.lateness = lateness;
        sample
    }

    #[test]
    fn a_rate_is_the_average_of_ten_seconds() {
        let mut recent = Recent::default();
        recent.take(0, &sample(1_000, Lateness::default()));
        assert_eq!(recent.rates(500), None, "too early to say");
        for second in 1..=20 {
            recent.take(second * 1_000, &sample(1_000 + second * 50, Lateness::default()));
        }
        assert!(recent.marks.len() <= 12, "{}", recent.marks.len());
        let put = |now| recent.rates(now).unwrap().put;
        assert!((put(20_000) - 50.0).abs() < f64::EPSILON);
        // Nothing has happened for five seconds, and then for ten.
        assert!((put(25_000) - 25.0).abs() < f64::EPSILON);
        assert!(put(30_000).abs() < f64::EPSILON);
    }

    #[test]
    fn a_new_queue_begins_at_zero_and_one_that_is_made_anew_too() {
        let mut recent = Recent::of_new_queue(1_000);
        recent.take(2_000, &sample(5, Lateness::default()));
        assert!((recent.rates(2_000).unwrap().put - 5.0).abs() < f64::EPSILON);
        recent.take(3_000, &sample(2, Lateness::default()));
        assert_eq!(recent.rates(3_500), None);
        recent.take(4_000, &sample(4, Lateness::default()));
        assert!((recent.rates(4_000).unwrap().put - 2.0).abs() < f64::EPSILON);
    }
}
