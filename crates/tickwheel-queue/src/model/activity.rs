//! The lateness of deliveries, and recent activity.

use std::collections::VecDeque;
use std::time::Duration;

use crate::model::time::{Time, millis};

/// A histogram of the lateness of a queue's deliveries. Its fixed bounds are finest between 1 and
/// 60 seconds.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::ManualClock;
/// use tickwheel_queue::{NewJob, Queues};
///
/// let clock = ManualClock::new();
/// let queues = Queues::builder().clock(clock.clone()).in_memory()?;
/// queues.put(NewJob::new("mail", "hello")).wait()?;
/// clock.advance(Duration::from_secs(4));
/// queues.reserve("mail", 1, None).wait()?;
/// let lateness = queues.queue("mail").wait()?.unwrap().lateness;
/// assert_eq!((lateness.count(), lateness.sum()), (1, Duration::from_secs(4)));
/// assert_eq!(lateness.quantile(0.99), Some(Duration::from_secs(4)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// The number of deliveries per bucket. The last bucket has no bound.
    counts: [u64; Lateness::BOUNDS_MS.len() + 1],
    sum_ms: u64,
    max_ms: u64,
}

impl Lateness {
    /// The upper bounds of the buckets, in milliseconds.
    pub const BOUNDS_MS: [u64; 20] = [
        1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 15_000, 20_000,
        30_000, 45_000, 60_000, 300_000, 3_600_000,
    ];

    /// Returns the number of deliveries.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all latenesses.
    pub fn sum(&self) -> Duration {
        Duration::from_millis(self.sum_ms)
    }

    /// Iterates over the buckets: the upper bound of each, and the number of deliveries in it. The
    /// last bucket has no bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        let bounds = Self::BOUNDS_MS.into_iter().map(|bound| Some(Duration::from_millis(bound)));
        bounds.chain([None]).zip(self.counts)
    }

    /// Returns the lateness that the given share of all deliveries does not exceed, rounded up to
    /// the bound of its bucket. `share` is clamped to 0.0..=1.0. Returns `None` if there was no
    /// delivery.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        #[allow(clippy::cast_sign_loss, reason = "neither factor is negative")]
        let rank = (share.clamp(0.0, 1.0) * self.count() as f64).ceil() as u64;
        let max = Duration::from_millis(self.max_ms);
        let mut seen = 0;
        self.buckets().find_map(|(bound, count)| {
            seen += count;
            (seen >= rank.max(1)).then(|| bound.unwrap_or(max).min(max))
        })
    }

    pub(crate) fn record(&mut self, lateness: Duration) {
        // Lateness counts in whole milliseconds, as due times do.
        let millis = u64::try_from(lateness.as_millis()).unwrap_or(u64::MAX);
        let bucket = Self::BOUNDS_MS.partition_point(|bound| *bound < millis);
        self.counts[bucket] += 1;
        self.sum_ms = self.sum_ms.saturating_add(millis);
        self.max_ms = self.max_ms.max(millis);
    }

    /// Returns the deliveries since an earlier state. The maximum is that of all time.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        for (count, earlier) in since.counts.iter_mut().zip(earlier.counts) {
            *count = count.saturating_sub(earlier);
        }
        since.sum_ms = self.sum_ms.saturating_sub(earlier.sum_ms);
        since
    }
}

/// The activity of all queues since a time.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::ManualClock;
/// use tickwheel_queue::{NewJob, Queues};
///
/// let clock = ManualClock::new();
/// let queues = Queues::builder().clock(clock.clone()).in_memory()?;
/// queues.put(NewJob::new("mail", "yesterday")).wait()?;
/// clock.advance(Duration::from_secs(86_400));
/// queues.put(NewJob::new("mail", "today")).wait()?;
/// assert_eq!(queues.activity(Duration::from_secs(300)).wait()?.put, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Activity {
    /// When the window begins. It is later than requested if the queues were opened later.
    pub since: Time,
    /// Jobs put, those of schedules included.
    pub put: u64,
    /// Jobs put by schedules.
    pub fired: u64,
    /// Deliveries to workers.
    pub delivered: u64,
    /// Jobs acknowledged.
    pub acked: u64,
    /// Attempts that workers reported as failed.
    pub failed: u64,
    /// Leases that expired.
    pub expired: u64,
    /// Jobs released by workers.
    pub released: u64,
    /// Jobs that died.
    pub died: u64,
    /// Jobs cancelled or replaced.
    pub cancelled: u64,
    /// Dead jobs made ready again.
    pub kicked: u64,
    /// How long after their due time jobs were delivered.
    pub lateness: Lateness,
}

impl Activity {
    /// The shortest window.
    pub const MIN_WINDOW: Duration = Duration::from_secs(10);
    /// The longest window.
    pub const MAX_WINDOW: Duration = Duration::from_secs(3_600);

    /// Returns the activity since an earlier state.
    fn after(&self, earlier: &Self) -> Self {
        Self {
            since: earlier.since,
            put: self.put - earlier.put,
            fired: self.fired - earlier.fired,
            delivered: self.delivered - earlier.delivered,
            acked: self.acked - earlier.acked,
            failed: self.failed - earlier.failed,
            expired: self.expired - earlier.expired,
            released: self.released - earlier.released,
            died: self.died - earlier.died,
            cancelled: self.cancelled - earlier.cancelled,
            kicked: self.kicked - earlier.kicked,
            lateness: self.lateness.since(&earlier.lateness),
        }
    }
}

/// The least time between two samples, which is the precision of a window.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

/// The totals of the last hour, sampled when groups of commands begin. Without commands nothing
/// changes, so no timer takes samples.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// Each sample has the time of its group, and the totals before that group.
    taken: VecDeque<Activity>,
    opened: Time,
}

impl Samples {
    /// Takes a sample if the last one is old enough. After the clock was set back, samples in the
    /// future are dropped.
    pub(crate) fn take(&mut self, now: Time, totals: impl FnOnce() -> Activity) {
        while self.taken.back().is_some_and(|last| last.since > now) {
            self.taken.pop_back();
        }
        match self.taken.back() {
            Some(last) if last.since.after(SAMPLE_INTERVAL) > now => return,
            Some(_) => {}
            None => self.opened = now,
        }
        while self.taken.front().is_some_and(|it| it.since.after(Activity::MAX_WINDOW) < now) {
            self.taken.pop_front();
        }
        self.taken.push_back(Activity { since: now, ..totals() });
    }

    /// Returns the activity in a window that ends now.
    pub(crate) fn window(&self, now: Time, window: Duration, totals: &Activity) -> Activity {
        let begin = now.as_millis().saturating_sub(millis(window));
        let since = Time::from_millis(begin).max(self.opened);
        let first = self.taken.partition_point(|sample| sample.since < since);
        let activity = match self.taken.get(first) {
            Some(sample) => totals.after(sample),
            None => totals.after(totals),
        };
        Activity { since, ..activity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lateness_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile(0.5), None);
        for (millis, bound) in [(0, 1), (1, 1), (2, 5), (4_999, 5_000), (60_000, 60_000)] {
            let before = lateness.clone();
            lateness.record(Duration::from_millis(millis));
            let grown = lateness.since(&before);
            let found = grown.buckets().find(|(_, count)| *count == 1).unwrap();
            assert_eq!(found.0, Some(Duration::from_millis(bound)), "{millis} ms");
        }
        lateness.record(Duration::MAX);
        assert_eq!(lateness.buckets().last(), Some((None, 1)));
        assert_eq!(lateness.count(), 6);
        assert_eq!(lateness.quantile(0.1), Some(Duration::from_millis(1)));
    }

    #[test]
    fn samples_are_bounded_and_a_window_is_exact_to_their_interval() {
        let mut samples = Samples::default();
        let at = |second: u64| Time::from_millis(1_000_000_000 + second * 1_000);
        let totals = |put| Activity { put, ..Activity::default() };
        // One put per second for three hours.
        for second in 0..3 * 3_600 {
            samples.take(at(second), || totals(second));
        }
        assert!(samples.taken.len() <= 3_600 / 5 + 2, "{}", samples.taken.len());
        let now = 3 * 3_600;
        for window in [10, 60, 300, 3_600] {
            let found = samples.window(at(now), Duration::from_secs(window), &totals(now));
            assert!(found.put <= window && found.put + 5 >= window, "{window}: {}", found.put);
            assert_eq!(found.since, at(now - window));
        }
        // A burst long ago is not part of a later window, even if nothing happened in between.
        let found = samples.window(at(now + 4_000), Duration::from_secs(300), &totals(now));
        assert_eq!(found.put, 0);
    }

    #[test]
    fn a_clock_that_is_set_back_starts_a_new_window() {
        let mut samples = Samples::default();
        let at = |second: u64| Time::from_millis(1_000_000_000 + second * 1_000);
        let totals = |put| Activity { put, ..Activity::default() };
        samples.take(at(5_000), || totals(0));
        samples.take(at(100), || totals(7));
        let found = samples.window(at(101), Duration::from_secs(60), &totals(9));
        assert_eq!((found.put, found.since), (2, at(100)));
    }
}
