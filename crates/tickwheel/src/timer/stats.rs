//! The counters of a timer and the lateness of its tasks.
//!
//! All counts are plain integers, updated under the lock that the operation takes anyway.

use core::fmt;
use core::time::Duration;
use std::boxed::Box;
use std::vec;

/// The number of buckets per power of two. Quantiles are therefore exact to an eighth.
const STEPS: u32 = 8;
const BUCKETS: usize = (u64::BITS * STEPS) as usize;

/// The counters of a timer since it was created.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{ManualClock, Timer};
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// timer.after(Duration::from_secs(1), || {})?;
/// timer.after(Duration::from_secs(9), || {})?.cancel();
/// clock.advance(Duration::from_secs(5));
///
/// let stats = timer.stats();
/// assert_eq!((stats.scheduled, stats.fired, stats.cancelled, stats.pending), (2, 1, 1, 0));
/// assert!(stats.lateness.quantile(0.99).unwrap() < Duration::from_millis(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Accepted tasks, and futures that began to sleep. A periodic task counts once.
    pub scheduled: u64,
    /// Started tasks, and futures whose deadline has passed. A periodic task counts once per run.
    pub fired: u64,
    /// Tasks that were cancelled or replaced by another task with their key, and futures that were
    /// dropped while sleeping or moved to another timer when this one was stopped.
    pub cancelled: u64,
    /// Tasks that were refused because the timer was full, and tasks that a custom executor dropped
    /// without running them.
    pub rejected: u64,
    /// Tasks and wakers that panicked.
    pub panicked: u64,
    /// Pending tasks plus sleeping futures.
    pub pending: usize,
    /// Wake-ups of the leader, the thread that waits for deadlines.
    pub wakeups: u64,
    /// The time from a deadline, rounded up to a tick, to the start of the task or the waking of the
    /// future.
    pub lateness: Histogram,
}

/// A histogram of durations, with eight buckets per power of two.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Histogram;
///
/// let mut histogram = Histogram::default();
/// assert_eq!(histogram.quantile(0.5), None);
/// for millis in 1..=100 {
///     histogram.record(Duration::from_millis(millis));
/// }
/// assert_eq!((histogram.count(), histogram.max()), (100, Duration::from_millis(100)));
/// let median = histogram.quantile(0.5).unwrap();
/// assert!(median >= Duration::from_millis(50) && median <= Duration::from_millis(57));
/// ```
#[derive(Clone)]
pub struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    max: u64,
}

impl Histogram {
    /// Returns the number of recorded durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the longest recorded duration, or zero if there is none.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// Returns the duration that the given share of all recorded durations does not exceed. `share` is
    /// clamped to 0.0..=1.0. The result is rounded up by at most an eighth. Returns `None` if nothing
    /// was recorded.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let slow = clock.clone();
    /// timer.after(Duration::from_secs(1), move || slow.advance(Duration::from_secs(4)))?;
    /// timer.after(Duration::from_secs(2), || {})?; // starts at 5 s
    /// clock.advance(Duration::from_secs(1));
    /// let lateness = timer.stats().lateness;
    /// assert_eq!(lateness.quantile(0.5), Some(Duration::ZERO));
    /// assert_eq!(lateness.quantile(1.0), Some(Duration::from_secs(3)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        #[allow(clippy::cast_sign_loss, reason = "neither factor is negative")]
        let rank = (share.clamp(0.0, 1.0) * self.count as f64).ceil() as u64;
        let mut seen = 0;
        for (bucket, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank.max(1) {
                return Some(Duration::from_nanos(upper_bound(bucket).min(self.max)));
            }
        }
        None
    }

    /// Iterates over the buckets that are not empty, shortest first: the longest duration of each, and
    /// the number of durations in it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Histogram;
    ///
    /// let mut histogram = Histogram::default();
    /// histogram.record(Duration::from_nanos(5));
    /// histogram.record(Duration::from_nanos(5));
    /// histogram.record(Duration::from_secs(1));
    /// let buckets: Vec<_> = histogram.buckets().collect();
    /// assert_eq!(buckets[0], (Duration::from_nanos(5), 2));
    /// assert!(buckets[1].0 >= Duration::from_secs(1) && buckets[1].1 == 1);
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let buckets = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        buckets.map(|(bucket, &count)| (Duration::from_nanos(upper_bound(bucket)), count))
    }

    /// Records a duration. Durations longer than `u64::MAX` nanoseconds count as that long.
    pub fn record(&mut self, duration: Duration) {
        self.record_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds all durations of another histogram.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (bucket, count) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket += count;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    #[inline]
    pub(crate) fn record_nanos(&mut self, nanos: u64) {
        self.buckets[bucket_of(nanos)] += 1;
        self.count += 1;
        self.max = self.max.max(nanos);
    }
}

/// Returns the bucket of a value. Values below `STEPS` have a bucket each; above, the highest bit and
/// the three bits after it select the bucket.
#[inline]
fn bucket_of(nanos: u64) -> usize {
    if nanos < u64::from(STEPS) {
        return nanos as usize;
    }
    let log = nanos.ilog2();
    let step = nanos >> (log - STEPS.ilog2()) & u64::from(STEPS - 1);
    ((log - STEPS.ilog2() + 1) * STEPS) as usize + step as usize
}

/// Returns the largest value of a bucket.
fn upper_bound(bucket: usize) -> u64 {
    let (bucket, steps) = (bucket as u64, u64::from(STEPS));
    if bucket < steps {
        return bucket;
    }
    let shift = bucket / steps - 1;
    let first = (steps + bucket % steps) << shift;
    first + ((1 << shift) - 1)
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS].into_boxed_slice(), count: 0, max: 0 }
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("p99.9", &self.quantile(0.999))
            .field("max", &self.max())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_within_its_bucket() {
        let interesting = (0..u64::BITS).flat_map(|bit| {
            let power = 1_u64 << bit;
            [power - 1, power, power + 1, power + power / 2, power | (power >> 3)]
        });
        for value in interesting.chain([u64::MAX]) {
            let bucket = bucket_of(value);
            assert!(bucket < BUCKETS, "{value} has a bucket");
            let upper = upper_bound(bucket);
            assert!(upper >= value && upper - value <= value / 8, "{value} in ..={upper}");
            assert!(bucket == 0 || upper_bound(bucket - 1) < value, "{value} has the first bucket");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut histogram = Histogram::default();
        for value in 1..=1_000 {
            histogram.record_nanos(value * 1_000);
        }
        for (share, exact) in [(0.0, 1_000), (0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000)] {
            let found = histogram.quantile(share).unwrap().as_nanos() as u64;
            assert!((exact..=exact + exact / 8).contains(&found), "{share}: {found}");
        }
        assert_eq!(histogram.max(), Duration::from_millis(1));
    }
}
