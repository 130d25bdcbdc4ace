//! How many requests a target gets in any window.
//!
//! A request goes through two moments. It is *granted* before its job is reserved, and it *starts*
//! when its connection is ready and the request is about to be written. The grant is given only if
//! the starts of the last window plus the grants that have not started are fewer than the limit.
//!
//! Why no window holds more starts than the limit: take any window and the last grant `g` of the
//! starts in it. Each of the other starts either had started when `g` was given, and then at most a
//! window before it, or was granted and had not started. The rule counts both.
//!
//! Times are whole milliseconds. Two starts are a window apart when the clock has moved by more
//! than the window, so that fractions of a millisecond cannot add up to one start too many.

use std::collections::VecDeque;

/// Entries of a stored window: starts are stored in this many time steps.
const STORED_STEPS: u64 = 64;

#[derive(Debug, Default)]
pub(super) struct Window {
    /// Starts, and the length of the window in milliseconds; `None` is no limit.
    limit: Option<(u32, u64)>,
    /// When the last requests started, the oldest first.
    starts: VecDeque<u64>,
    /// Requests that may start and have not.
    granted: u32,
}

impl Window {
    pub(super) fn new(limit: Option<(u32, u64)>) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Changes the limit. Starts and grants so far count under the new one.
    pub(super) fn set_limit(&mut self, limit: Option<(u32, u64)>) {
        self.limit = limit;
    }

    pub(super) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    fn forget_old(&mut self, now: u64) {
        match self.limit {
            None => self.starts.clear(),
            Some((_, length)) => {
                while self.starts.front().is_some_and(|start| start.saturating_add(length) < now) {
                    self.starts.pop_front();
                }
            }
        }
    }

    /// How many requests may be granted now.
    pub(super) fn allowance(&mut self, now: u64) -> u32 {
        self.forget_old(now);
        let Some((limit, _)) = self.limit else { return u32::MAX };
        let used = u32::try_from(self.starts.len()).unwrap_or(u32::MAX);
        limit.saturating_sub(used.saturating_add(self.granted))
    }

    /// When one more may be granted, if it is none now and only time is missing.
    pub(super) fn next(&self) -> Option<u64> {
        let (limit, length) = self.limit?;
        // If the limit was lowered, several starts have to leave the window before the next one.
        let used = self.starts.len() as u64 + u64::from(self.granted);
        let leaving = used.checked_sub(u64::from(limit))?;
        let start = self.starts.get(usize::try_from(leaving).ok()?)?;
        Some(start.saturating_add(length).saturating_add(1))
    }

    pub(super) fn grant(&mut self, requests: u32) {
        self.granted += requests;
    }

    /// A granted request starts.
    pub(super) fn start(&mut self, now: u64) {
        self.forgo();
        if self.limit.is_some() {
            self.starts.push_back(now);
        }
    }

    /// A request that started at this time was not written: it is granted as before.
    pub(super) fn undo(&mut self, start: u64) {
        if let Some(place) = self.starts.iter().rposition(|it| *it == start) {
            self.starts.remove(place);
        }
        self.granted += 1;
    }

    /// A granted request does not start.
    pub(super) fn forgo(&mut self) {
        self.granted = self.granted.saturating_sub(1);
    }

    /// The starts for the store: times, none of them before the start that it stands for, and
    /// numbers. Requests that are granted count as if they started at `bound`.
    pub(super) fn stored(&self, bound: u64) -> Vec<(u64, u32)> {
        let Some((_, length)) = self.limit else { return Vec::new() };
        let step = (length / STORED_STEPS).max(1);
        let mut stored: Vec<(u64, u32)> = Vec::new();
        for start in &self.starts {
            match stored.last_mut() {
                Some((until, count)) if *start <= *until => *count += 1,
                _ => stored.push((start.saturating_add(step - 1), 1)),
            }
        }
        if self.granted > 0 {
            stored.push((bound, self.granted));
        }
        stored
    }

    /// Takes stored starts over. None of them counts as later than `latest`.
    pub(super) fn restore(&mut self, stored: &[(u64, u32)], latest: u64) {
        let Some((limit, _)) = self.limit else { return };
        let mut starts: Vec<u64> = Vec::new();
        for (time, count) in stored {
            starts.extend(std::iter::repeat_n((*time).min(latest), (*count).min(limit) as usize));
        }
        starts.sort_unstable();
        let surplus = starts.len().saturating_sub(limit as usize);
        self.starts = starts.split_off(surplus).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest number of starts in any window of this length.
    fn densest(starts: &[u64], length: u64) -> usize {
        (0..starts.len())
            .map(|first| {
                starts[first..].iter().take_while(|start| **start - starts[first] <= length).count()
            })
            .max()
            .unwrap_or(0)
    }

    /// A small generator: the test repeats exactly.
    fn random(state: &mut u64, below: u64) -> u64 {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    #[test]
    fn no_window_has_more_starts_than_allowed_with_slow_starts_and_restarts() {
        for seed in 0..200_u64 {
            let mut state = seed;
            let (limit, length) = (1 + random(&mut state, 9) as u32, 1 + random(&mut state, 400));
            let mut window = Window::new(Some((limit, length)));
            let (mut now, mut starts, mut waiting) = (1_000_000, Vec::new(), 0);
            for _ in 0..2_000 {
                now += random(&mut state, 20);
                let granted = window.allowance(now).min(random(&mut state, 4) as u32);
                window.grant(granted);
                waiting += granted;
                if waiting > 0 && random(&mut state, 3) > 0 {
                    window.start(now);
                    starts.push(now);
                    waiting -= 1;
                } else if waiting > 0 && random(&mut state, 9) == 0 {
                    window.forgo();
                    waiting -= 1;
                }
                if random(&mut state, 100) == 0 {
                    // The process dies: requests that did not start never will.
                    let stored = window.stored(now + 50);
                    assert!(stored.len() <= 2 * STORED_STEPS as usize + 2);
                    window = Window::new(Some((limit, length)));
                    window.restore(&stored, now + 50);
                    waiting = 0;
                }
            }
            assert!(starts.len() > 20, "{} starts with seed {seed}", starts.len());
            let most = densest(&starts, length);
            assert!(most <= limit as usize, "{most} of {limit} in {length} ms, seed {seed}");
        }
    }

    #[test]
    fn the_next_grant_is_neither_early_nor_late() {
        let mut window = Window::new(Some((2, 100)));
        window.grant(2);
        assert_eq!((window.allowance(10), window.next()), (0, None));
        window.start(10);
        window.start(30);
        assert_eq!(window.next(), Some(111));
        assert_eq!((window.allowance(110), window.allowance(111)), (0, 1));
        window.set_limit(Some((1, 100)));
        assert_eq!(window.allowance(111), 0);
        assert_eq!(window.next(), Some(131));
        window.set_limit(None);
        assert_eq!(window.allowance(111), u32::MAX);
    }
}
