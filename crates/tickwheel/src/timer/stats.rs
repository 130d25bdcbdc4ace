//! What a timer has done so far, and how late its tasks were.
//!
//! Everything is counted under the lock that the operation takes anyway, in plain integers.

use core::fmt;
use core::time::Duration;
use std::boxed::Box;
use std::vec;

/// Buckets to a doubling: a quantile is exact to an eighth.
const STEPS: u32 = 8;
const BUCKETS: usize = (u64::BITS * STEPS) as usize;

/// Counts of a timer's life so far.
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
    /// Tasks that were accepted, and futures that began to wait. A periodic task counts once.
    pub scheduled: u64,
    /// Starts of tasks, and futures whose time has come. A periodic task counts each time.
    pub fired: u64,
    /// Tasks that were cancelled, or replaced by another of the same key, and futures that were
    /// dropped while they waited, or went elsewhere when the timer was stopped.
    pub cancelled: u64,
    /// Tasks that were refused because the timer was full, and tasks that a custom executor
    /// dropped without running them.
    pub rejected: u64,
    /// Tasks that panicked, and wakers of futures that did.
    pub panicked: u64,
    /// Tasks that are pending now, and futures that wait.
    pub pending: usize,
    /// How often the thread that waits for deadlines woke up.
    pub wakeups: u64,
    /// By how much tasks started, and futures were woken, after the tick of their deadline.
    pub lateness: Histogram,
}

/// A histogram of durations, in buckets an eighth of a doubling wide.
///
/// ```
/// use tickwheel::Timer;
///
/// let stats = Timer::new().stats();
/// assert_eq!(stats.lateness.count(), 0);
/// assert_eq!(stats.lateness.quantile(0.5), None);
/// ```
#[derive(Clone)]
pub struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    max: u64,
}

impl Histogram {
    /// How many durations it has seen.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer.every(Duration::from_secs(1), || {})?;
    /// clock.advance(Duration::from_secs(3));
    /// assert_eq!(timer.stats().lateness.count(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest of them; zero if there was none.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let slow = clock.clone();
    /// timer.after(Duration::from_secs(1), move || slow.advance(Duration::from_secs(4)))?;
    /// timer.after(Duration::from_secs(2), || {})?; // has to wait until 5 s
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(timer.stats().lateness.max(), Duration::from_secs(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The duration that the given share of all stays within, from 0.0 to 1.0, rounded up by at
    /// most an eighth; `None` if there was none.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let slow = clock.clone();
    /// timer.after(Duration::from_secs(1), move || slow.advance(Duration::from_secs(4)))?;
    /// timer.after(Duration::from_secs(2), || {})?; // has to wait until 5 s
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

    /// The buckets that hold something, the shortest first: the longest duration that falls into
    /// each, and how many did.
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

    /// Adds a duration; one that is too long for nanoseconds in 64 bits counts as the longest.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Histogram;
    ///
    /// let mut histogram = Histogram::default();
    /// histogram.record(Duration::from_millis(3));
    /// assert_eq!((histogram.count(), histogram.max()), (1, Duration::from_millis(3)));
    /// ```
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

/// Values below `STEPS` have a bucket each; above, the three bits behind the highest one count.
#[inline]
fn bucket_of(nanos: u64) -> usize {
    if nanos < u64::from(STEPS) {
        return nanos as usize;
    }
    let log = nanos.ilog2();
    let step = nanos >> (log - STEPS.ilog2()) & u64::from(STEPS - 1);
    ((log - STEPS.ilog2() + 1) * STEPS) as usize + step as usize
}

/// The largest value of a bucket.
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
