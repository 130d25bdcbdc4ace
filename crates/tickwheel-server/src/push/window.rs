//! How many requests a target gets in any window.
//!
//! A request goes through three moments. It is *reserved* with its job, somewhat before there is a
//! place for it in the window. It is *granted* when its connection is ready and it is about to be
//! written. It *starts* when the first bytes were written, at a time that is read afterwards. The
//! grant is given only if the starts of the last window plus the grants that have not started are
//! fewer than the limit.
//!
//! Why no window holds more writes than the limit: take any window and the last grant `g` of the
//! writes in it. Each of the other writes either had started when `g` was given, and then at most a
//! window before it, or was granted and had not started. The rule counts both. A write that took
//! long counts from its end, so delays make requests rarer, never denser.
//!
//! Times are whole milliseconds. Two starts are a window apart when the clock has moved by more
//! than the window, so that fractions of a millisecond cannot add up to one start too many.

use std::collections::VecDeque;

/// Entries of a stored window: starts are stored in this many time steps.
const STORED_STEPS: u64 = 64;
/// Requests are reserved at most so long before their place in the window is free, in milliseconds.
const MAX_LEAD_MS: u64 = 200;

#[derive(Debug, Default)]
pub(super) struct Window {
    /// Starts, and the length of the window in milliseconds; `None` is no limit.
    limit: Option<(u32, u64)>,
    /// When the last requests started, the oldest first.
    starts: VecDeque<u64>,
    /// Requests that are reserved and not granted.
    reserved: u32,
    /// Requests that are being written.
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

    /// How long before their places are free requests may be reserved. The store and the queue are
    /// asked in this time, so that no place stays empty meanwhile.
    pub(super) fn lead(&self) -> u64 {
        self.limit.map_or(0, |(_, length)| (length / 5).min(MAX_LEAD_MS))
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

    /// How many requests may be reserved for places that are free at a time, which is `now` or
    /// later.
    pub(super) fn allowance(&mut self, now: u64, at: u64) -> u32 {
        self.forget_old(now);
        let Some((limit, length)) = self.limit else { return u32::MAX };
        let gone = self.starts.partition_point(|start| start.saturating_add(length) < at);
        let used = u32::try_from(self.starts.len() - gone).unwrap_or(u32::MAX);
        limit.saturating_sub(used.saturating_add(self.granted).saturating_add(self.reserved))
    }

    /// When a place is free besides those that are `taken` before any start leaves the window. The
    /// time may have passed; `None` if a start that is still to come has to leave.
    fn free_at(&self, taken: u32) -> Option<u64> {
        let Some((limit, length)) = self.limit else { return Some(0) };
        // If the limit was lowered, several starts have to leave the window before the next one.
        let used = self.starts.len() as u64 + u64::from(taken);
        let Some(leaving) = used.checked_sub(u64::from(limit)) else { return Some(0) };
        let start = self.starts.get(usize::try_from(leaving).ok()?)?;
        Some(start.saturating_add(length).saturating_add(1))
    }

    /// When one more may be sent, if it is none now and only time is missing.
    pub(super) fn next(&self) -> Option<u64> {
        self.limit.and_then(|_| self.free_at(self.granted + self.reserved))
    }

    /// Reserves a place, and returns when it is free.
    pub(super) fn reserve(&mut self) -> u64 {
        let free = self.next().unwrap_or(0);
        self.reserved += 1;
        free
    }

    /// A reserved request is about to be written. Otherwise returns when that is possible, if only
    /// time is missing.
    pub(super) fn grant(&mut self, now: u64) -> Result<(), Option<u64>> {
        self.forget_old(now);
        match self.free_at(self.granted) {
            Some(time) if time <= now => {
                self.reserved = self.reserved.saturating_sub(1);
                self.granted += 1;
                Ok(())
            }
            later => Err(later),
        }
    }

    /// A granted request was written by now.
    pub(super) fn start(&mut self, now: u64) {
        self.granted = self.granted.saturating_sub(1);
        if self.limit.is_some() {
            self.starts.push_back(now);
        }
    }

    /// A granted request was not written: it is reserved as before.
    pub(super) fn undo(&mut self) {
        self.granted = self.granted.saturating_sub(1);
        self.reserved += 1;
    }

    /// A reserved request is given up.
    pub(super) fn forgo(&mut self) {
        self.reserved = self.reserved.saturating_sub(1);
    }

    /// The starts for the store: times, none of them before the start that it stands for, and
    /// numbers. Requests that have not started count as if they started at `bound`.
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
        if self.granted + self.reserved > 0 {
            stored.push((bound, self.granted + self.reserved));
        }
        stored
    }

    /// Restores stored starts. None of them counts as later than `latest`.
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
    fn no_window_has_more_writes_than_allowed_with_slow_writes_and_restarts() {
        for seed in 0..200_u64 {
            let mut state = seed;
            let (limit, length) = (1 + random(&mut state, 9) as u32, 1 + random(&mut state, 400));
            let mut window = Window::new(Some((limit, length)));
            let (mut now, mut writes, mut reserved) = (1_000_000, Vec::new(), 0);
            // When the bytes of granted requests reached the target, which may be before the start
            // is noted.
            let mut written = Vec::new();
            for _ in 0..2_000 {
                now += random(&mut state, 20);
                let allowed = window.allowance(now, now + window.lead());
                for _ in 0..allowed.min(random(&mut state, 4) as u32) {
                    window.reserve();
                    reserved += 1;
                }
                if reserved > 0 && random(&mut state, 9) == 0 {
                    window.forgo();
                    reserved -= 1;
                }
                if reserved > 0 && window.grant(now).is_ok() {
                    reserved -= 1;
                    if random(&mut state, 9) == 0 {
                        window.undo();
                        reserved += 1;
                    } else {
                        written.push(now + random(&mut state, 60));
                    }
                }
                written.retain(|time| {
                    let is_noted = *time <= now && random(&mut state, 2) == 0;
                    if is_noted {
                        window.start(now);
                        writes.push(*time);
                    }
                    !is_noted
                });
                if random(&mut state, 100) == 0 {
                    // The process dies: requests that are not written never will be.
                    let stored = window.stored(now + 60);
                    assert!(stored.len() <= 2 * STORED_STEPS as usize + 2);
                    window = Window::new(Some((limit, length)));
                    window.restore(&stored, now + 60);
                    writes.extend(written.drain(..).filter(|time| *time <= now));
                    reserved = 0;
                }
            }
            writes.sort_unstable();
            assert!(writes.len() > 20, "{} writes with seed {seed}", writes.len());
            let most = densest(&writes, length);
            assert!(most <= limit as usize, "{most} of {limit} in {length} ms, seed {seed}");
        }
    }

    #[test]
    fn a_place_is_free_neither_early_nor_late() {
        let mut window = Window::new(Some((2, 100)));
        assert_eq!((window.reserve(), window.reserve()), (0, 0));
        assert_eq!((window.allowance(10, 10), window.next()), (0, None));
        assert_eq!((window.grant(10), window.grant(10)), (Ok(()), Ok(())));
        window.start(10);
        window.start(30);
        assert_eq!(window.next(), Some(111));
        assert_eq!((window.allowance(10, 110), window.allowance(10, 111)), (0, 1));
        assert_eq!((window.reserve(), window.reserve()), (111, 131));
        assert_eq!((window.grant(110), window.grant(111)), (Err(Some(111)), Ok(())));
        window.set_limit(Some((1, 100)));
        assert_eq!((window.grant(131), window.allowance(131, 999)), (Err(None), 0));
        window.start(131);
        assert_eq!(window.grant(131), Err(Some(232)));
        window.set_limit(None);
        assert_eq!(window.allowance(131, 131), u32::MAX);
        assert_eq!(window.grant(131), Ok(()));
    }
}
