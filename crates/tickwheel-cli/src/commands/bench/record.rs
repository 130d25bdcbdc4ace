//! What a run measured: histograms in microseconds, and errors by kind.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::failure::Failure;

/// The longest time that is told apart.
const LONGEST_US: u64 = 3_600_000_000;
/// Significant digits of a time.
const DIGITS: u8 = 3;

/// A stretch of time in the life of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// From when a put was to be sent until it is answered.
    Put,
    /// From when a put was to be sent until it is sent: how far this program is behind.
    SendDelay,
    /// From when a job is due until a worker has it.
    Lateness,
    /// From when an acknowledgement is sent until it is answered.
    Ack,
    /// From when the put was to be sent until the acknowledgement is answered.
    Whole,
}

impl Stage {
    pub(super) const ALL: [Self; 5] =
        [Self::Put, Self::SendDelay, Self::Lateness, Self::Ack, Self::Whole];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::SendDelay => "send delay",
            Self::Lateness => "lateness",
            Self::Ack => "ack",
            Self::Whole => "put to ack",
        }
    }

    /// The name as JSON writes it.
    pub(super) const fn field(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::SendDelay => "send_delay",
            Self::Lateness => "lateness",
            Self::Ack => "ack",
            Self::Whole => "put_to_ack",
        }
    }
}

/// What one thread measured, or all of them.
#[derive(Debug)]
pub(super) struct Record {
    times: [Histogram<u64>; Stage::ALL.len()],
    pub(super) errors: BTreeMap<String, u64>,
    /// Jobs that were put.
    pub(super) put: u64,
    /// Jobs that were acknowledged.
    pub(super) acked: u64,
    /// Jobs that came before they were due, by more than the clocks can differ.
    pub(super) early: u64,
    /// How long the puts took, from the first to the last.
    pub(super) took: Duration,
}

impl Default for Record {
    fn default() -> Self {
        let times = Stage::ALL.map(|_| {
            Histogram::new_with_max(LONGEST_US, DIGITS).expect("the bounds are constants")
        });
        let (errors, took) = (BTreeMap::new(), Duration::ZERO);
        Self { times, errors, put: 0, acked: 0, early: 0, took }
    }
}

impl Record {
    pub(super) fn time(&mut self, stage: Stage, time: Duration, count: u64) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.times[stage as usize].saturating_record_n(micros, count);
    }

    pub(super) fn of(&self, stage: Stage) -> &Histogram<u64> {
        &self.times[stage as usize]
    }

    pub(super) fn error(&mut self, kind: impl Into<String>, count: u64) {
        *self.errors.entry(kind.into()).or_default() += count;
    }

    /// Counts a request that failed, with its jobs.
    pub(super) fn failure(&mut self, failure: &Failure, count: u64) {
        match failure {
            Failure::Refused { problem, .. } => {
                self.error(format!("{} {}", problem.status, problem.code), count);
            }
            Failure::Unreachable { why, .. } => self.error(format!("unreachable: {why}"), count),
            other => self.error(other.to_string(), count),
        }
    }

    pub(super) fn errors(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Adds what another thread measured.
    pub(super) fn add(&mut self, other: &Self) {
        for (times, others) in self.times.iter_mut().zip(&other.times) {
            times.add(others).expect("the bounds are the same");
        }
        for (kind, count) in &other.errors {
            self.error(kind.clone(), *count);
        }
        self.put += other.put;
        self.acked += other.acked;
        self.early += other.early;
        self.took = self.took.max(other.took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_threads_add_up() {
        let (mut one, mut other) = (Record::default(), Record::default());
        one.time(Stage::Put, Duration::from_millis(1), 99);
        other.time(Stage::Put, Duration::from_secs(7_200), 1);
        other.error("busy", 2);
        one.error("busy", 1);
        one.add(&other);
        let put = one.of(Stage::Put);
        assert_eq!((put.len(), put.value_at_quantile(0.5), one.errors()), (100, 1_000, 3));
        assert!(put.max() >= LONGEST_US, "what is longer counts as the longest");
        assert!(one.of(Stage::Ack).is_empty());
    }
}
