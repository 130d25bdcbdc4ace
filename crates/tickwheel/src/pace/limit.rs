//! The window limiter: when recent starts were, and when the next one may be.
//!
//! Ground rules:
//! * Nothing here reads a clock. Times are nanoseconds of the timer's clock; `Nanos::MAX` is never.
//! * A start is *open* from its release, under the pacer's lock, until the pacer has seen when it
//!   really began. It can begin at any moment from now on, so it counts as if it began now. Once
//!   its time is known, it moves to the log.
//! * A window is half open: of two starts exactly one window apart, only one is in it.
//!
//! Why no window ever has more than N starts: at every moment, the log's starts within the last
//! window plus the open starts are at most N. A release adds one, and is allowed only while they
//! are fewer than N. A start that begins moves from the open ones to the log, so the sum stays the
//! same. The passing of time only lowers the sum. And the starts in a window that ends at some
//! moment are all in the log at that moment.

use core::time::Duration;
use std::collections::VecDeque;

use super::RateError;
use crate::timer::{Nanos, nanos};

/// A rate: at most `starts` in any `window`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rate {
    pub(super) starts: usize,
    pub(super) window: Nanos,
    /// The least time between two starts: a part of the window for smooth starts, else 0.
    pub(super) gap: Nanos,
}

impl Rate {
    pub(super) fn new(starts: usize, window: Duration, smooth: bool) -> Result<Self, RateError> {
        if starts == 0 {
            return Err(RateError::NoStarts { window });
        }
        if window.is_zero() {
            return Err(RateError::ZeroWindow { starts });
        }
        let window = nanos(window);
        // Rounded up, so that N gaps are at least one window.
        let gap = if smooth { window.div_ceil(starts as u64) } else { 0 };
        Ok(Self { starts, window, gap })
    }
}

/// How many times fit in place, without an allocation.
const FEW: usize = 2;

/// The times of recent starts, in order.
pub(super) enum Log {
    Few(u8, [Nanos; FEW]),
    Many(VecDeque<Nanos>),
}

impl Log {
    pub(super) const fn new() -> Self {
        Self::Few(0, [0; FEW])
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(len, _) => usize::from(*len),
            Self::Many(times) => times.len(),
        }
    }

    /// Returns the n-th time, counted from the oldest.
    #[inline]
    fn get(&self, n: usize) -> Option<Nanos> {
        match self {
            Self::Few(len, times) => times[..usize::from(*len)].get(n).copied(),
            Self::Many(times) => times.get(n).copied(),
        }
    }

    /// Returns the time of the last start.
    #[inline]
    pub(super) fn latest(&self) -> Option<Nanos> {
        self.get(self.len().wrapping_sub(1))
    }

    /// Adds a time. Times arrive in order or nearly so: two threads may report theirs in the
    /// opposite order.
    pub(super) fn add(&mut self, time: Nanos) {
        let mut place = self.len();
        while place > 0 && self.get(place - 1).is_some_and(|earlier| earlier > time) {
            place -= 1;
        }
        match self {
            Self::Few(len, times) if usize::from(*len) < FEW => {
                times.copy_within(place..usize::from(*len), place + 1);
                times[place] = time;
                *len += 1;
            }
            Self::Few(_, times) => {
                let mut many: VecDeque<_> = (*times).into();
                many.insert(place, time);
                *self = Self::Many(many);
            }
            Self::Many(times) => times.insert(place, time),
        }
    }

    /// Removes the times that have left the window.
    pub(super) fn forget(&mut self, now: Nanos, window: Nanos) {
        match self {
            Self::Few(len, times) => {
                let old =
                    times[..usize::from(*len)].partition_point(|&time| has_left(time, now, window));
                times.copy_within(old.., 0);
                *len -= old as u8;
            }
            Self::Many(times) => {
                while times.front().is_some_and(|&time| has_left(time, now, window)) {
                    times.pop_front();
                }
                if times.is_empty() {
                    *self = Self::new();
                } else if times.capacity() > 32 && times.len() < times.capacity() / 4 {
                    times.shrink_to(2 * times.len());
                }
            }
        }
    }

    /// Returns the time from which one more start may be released. While starts are open it may
    /// be too early, never too late: the caller asks again then.
    #[inline]
    pub(super) fn earliest(&self, rate: &Rate, open: usize, now: impl Fn() -> Nanos) -> Nanos {
        let by_gap = match (rate.gap, open) {
            (0, _) => 0,
            (gap, 0) => self.latest().map_or(0, |latest| latest.saturating_add(gap)),
            (gap, _) => now().saturating_add(gap),
        };
        let starts = self.len() + open;
        if starts < rate.starts {
            return by_gap;
        }
        // The start that must leave the window first.
        let oldest = self.get(starts - rate.starts).unwrap_or_else(now);
        by_gap.max(oldest.saturating_add(rate.window))
    }

    /// Returns when the start is expected that has `ahead` others ahead of it, if none of them is
    /// before `from`.
    pub(super) fn expected(
        &self,
        rate: &Rate,
        open: usize,
        ahead: usize,
        now: Nanos,
        from: Nanos,
    ) -> Nanos {
        let starts = self.len() + open;
        let by_window = |n: usize| {
            let first = (starts + n).checked_sub(rate.starts);
            first.map_or(0, |first| self.get(first).unwrap_or(now).saturating_add(rate.window))
        };
        if rate.gap == 0 {
            let windows = (ahead / rate.starts) as u64;
            let first = by_window(ahead % rate.starts).max(from);
            return first.saturating_add(windows.saturating_mul(rate.window));
        }
        // From the N-th start on the gaps alone keep to the window.
        let near = ahead.min(rate.starts - 1);
        let mut time = self.earliest(rate, open, || now).max(from);
        for n in 1..=near {
            time = time.saturating_add(rate.gap).max(by_window(n));
        }
        time.saturating_add(((ahead - near) as u64).saturating_mul(rate.gap))
    }

    /// Returns the number of allocated bytes.
    pub(super) fn memory_usage(&self) -> usize {
        match self {
            Self::Few(..) => 0,
            Self::Many(times) => times.capacity() * size_of::<Nanos>(),
        }
    }
}

/// Returns `true` if a start has left the window.
#[inline]
fn has_left(time: Nanos, now: Nanos, window: Nanos) -> bool {
    time.saturating_add(window) <= now
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn rate(starts: usize, window: Nanos, smooth: bool) -> Rate {
        Rate::new(starts, Duration::from_nanos(window), smooth).unwrap()
    }

    fn log(times: &[Nanos]) -> Log {
        let mut log = Log::new();
        for &time in times {
            log.add(time);
        }
        log
    }

    fn times(log: &Log) -> Vec<Nanos> {
        (0..log.len()).map(|n| log.get(n).unwrap()).collect()
    }

    #[test]
    fn rates_of_zero_are_refused() {
        let second = Duration::from_secs(1);
        assert_eq!(Rate::new(0, second, false), Err(RateError::NoStarts { window: second }));
        assert_eq!(Rate::new(7, Duration::ZERO, true), Err(RateError::ZeroWindow { starts: 7 }));
    }

    #[test]
    fn gaps_fill_the_window() {
        assert_eq!(rate(3, 10, true).gap, 4);
        assert_eq!(rate(100, 3, true).gap, 1);
        assert_eq!(Rate::new(2, Duration::MAX, true).unwrap().gap, Nanos::MAX / 2 + 1);
    }

    #[test]
    fn the_end_of_time_is_never_and_not_now() {
        let forever = Rate::new(1, Duration::MAX, false).unwrap();
        let mut log = log(&[5]);
        assert_eq!(log.earliest(&forever, 0, || 100), Nanos::MAX);
        assert_eq!(log.expected(&forever, 0, 9, 100, 100), Nanos::MAX);
        log.forget(Nanos::MAX - 1, forever.window);
        assert_eq!(times(&log), [5]);
    }

    #[test]
    fn open_starts_count_as_now() {
        let bursty = rate(2, 10, false);
        assert_eq!(log(&[3]).earliest(&bursty, 0, || 5), 0);
        assert_eq!(log(&[3]).earliest(&bursty, 1, || 5), 13);
        assert_eq!(log(&[3]).earliest(&bursty, 2, || 5), 15);
        assert_eq!(log(&[]).earliest(&rate(2, 10, true), 1, || 7), 12);
    }

    #[test]
    fn a_log_that_was_large_gives_its_memory_back() {
        let mut log = log(&(0..10_000).collect::<Vec<_>>());
        assert!(log.memory_usage() >= 80_000);
        log.forget(9_990 + 5, 5);
        assert_eq!(times(&log), (9_991..10_000).collect::<Vec<_>>());
        assert!(log.memory_usage() < 1_000);
        log.forget(20_000, 5);
        assert_eq!((log.len(), log.memory_usage()), (0, 0));
    }

    proptest! {
        #[test]
        fn a_log_is_a_sorted_list(ops in prop::collection::vec((any::<bool>(), 0..100_u64), 1..60)) {
            let mut log = Log::new();
            let mut plain: Vec<Nanos> = Vec::new();
            for (adds, number) in ops {
                if adds {
                    log.add(number);
                    plain.push(number);
                    plain.sort_unstable();
                } else {
                    log.forget(number, 20);
                    plain.retain(|time| time + 20 > number);
                }
                prop_assert_eq!(times(&log), plain.clone());
                prop_assert_eq!(log.latest(), plain.last().copied());
            }
        }

        /// Starts that are made as early as allowed come when they were expected, and no window
        /// has too many: also when the log stems from another rate.
        #[test]
        fn what_is_expected_is_what_comes(
            mut past in prop::collection::vec(0..50_u64, 0..8),
            starts in 1..6_usize,
            window in 1..40_u64,
            smooth: bool,
            from in 50..90_u64,
        ) {
            past.sort_unstable();
            let rate = rate(starts, window, smooth);
            let mut log = log(&past);
            let expected: Vec<_> =
                (0..20).map(|ahead| log.expected(&rate, 0, ahead, 50, from)).collect();
            let mut now = from;
            for expected in expected {
                now = now.max(log.earliest(&rate, 0, || now));
                prop_assert_eq!(now, expected);
                log.add(now);
                let times = times(&log);
                let in_window = times.iter().filter(|&&time| time + window > now).count();
                prop_assert!(in_window <= starts);
                if smooth && times.len() > past.len() + 1 {
                    prop_assert!(now - times[times.len() - 2] >= window.div_ceil(starts as u64));
                }
            }
        }
    }
}
