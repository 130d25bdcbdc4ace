//! The rate of a target: how many requests it gets in any window.
//!
//! The limit holds where it matters: at the target. The server knows when it wrote a request and
//! when the answer came, and that the request arrived in between. So a request counts from its write
//! until one window after its answer:
//!
//! ```text
//!   reserved ──▶ granted ──▶ written ──────▶ answered ────────────▶ its place is free
//!                             └─ it arrives ─┘└──── one window ────┘
//! ```
//!
//! A request is *reserved* with its job, somewhat before there is a place for it in the window. It is
//! *granted* when its connection is ready and it is about to be written. It is *written* when the
//! first bytes were handed to the network, at a time that is read afterwards. The grant is given only
//! if the grants that are not written, plus the written requests that may have arrived within the
//! last window, are fewer than the limit.
//!
//! Why no window at the target contains more requests than the limit: consider the requests that
//! arrive within one window, and let `g` be the one of them that was granted last. When `g` was
//! granted, each of the others was either not answered yet, and the rule counts it; or it had been
//! answered. An answer comes after its request has arrived, and that was at most a window before
//! `g` arrives. `g` was granted before it arrives, so the answer came at most a window before the
//! grant, and the rule counts that request too. Delays anywhere make requests rarer, never denser.
//!
//! A request without an answer counts as if it arrived [`transit`](Window::transit) after its write:
//! a window, and at most [`MAX_TRANSIT_MS`]. Otherwise a target that answers slowly would get next to
//! nothing.
//!
//! Times are whole milliseconds. Two requests are a window apart when the clock has moved by more
//! than the window, so that fractions of a millisecond cannot add up to one request too many.

use std::collections::BTreeMap;

/// The time steps of a stored window. Arrivals of one step are stored together.
const STORED_STEPS: u64 = 64;
/// The longest time by which a reservation precedes its place in the window, in milliseconds.
const MAX_LEAD_MS: u64 = 200;
/// The longest time for which an unanswered request counts as on its way, in milliseconds.
const MAX_TRANSIT_MS: u64 = 10_000;

/// The requests of one target that count towards its rate.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Requests, and the length of the window in milliseconds; `None` is no limit.
    limit: Option<(u32, u64)>,
    /// The times by which the last requests had arrived, and how many by each.
    arrivals: BTreeMap<u64, u32>,
    /// The sum of these numbers.
    arrived: u32,
    /// Requests that are reserved and not granted.
    reserved: u32,
    /// Requests that are being written.
    granted: u32,
}

impl Window {
    pub(super) fn new(limit: Option<(u32, u64)>) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Changes the limit. Requests so far count under the new one.
    pub(super) fn set_limit(&mut self, limit: Option<(u32, u64)>) {
        self.limit = limit;
    }

    pub(super) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Returns how long before its place is free a request may be reserved, in milliseconds. The
    /// queue and the store are asked in this time, so that no place stays empty meanwhile.
    pub(super) fn lead(&self) -> u64 {
        self.limit.map_or(0, |(_, length)| (length / 5).min(MAX_LEAD_MS))
    }

    /// Returns how long an unanswered request counts as on its way, in milliseconds.
    pub(super) fn transit(&self) -> u64 {
        self.limit.map_or(0, |(_, length)| length.min(MAX_TRANSIT_MS))
    }

    fn forget_old(&mut self, now: u64) {
        let Some((_, length)) = self.limit else {
            self.arrivals.clear();
            self.arrived = 0;
            return;
        };
        while let Some(first) = self.arrivals.first_entry()
            && first.key().saturating_add(length) < now
        {
            self.arrived -= first.remove();
        }
    }

    /// Returns how many requests may be reserved for places that are free at a time, which is `now`
    /// or later.
    pub(super) fn allowance(&mut self, now: u64, at: u64) -> u32 {
        self.forget_old(now);
        self.places(self.reserved, at)
    }

    /// Returns how many places are free now, apart from those of grants and of `others`.
    pub(super) fn places(&self, others: u32, now: u64) -> u32 {
        let Some((limit, length)) = self.limit else { return u32::MAX };
        let gone = self.arrivals.iter().take_while(|(time, _)| time.saturating_add(length) < now);
        let used = self.arrived - gone.map(|(_, count)| count).sum::<u32>();
        limit.saturating_sub(used.saturating_add(self.granted).saturating_add(others))
    }

    /// Returns when a place is free, apart from those of grants and of `others`. The time may have
    /// passed. `None` if a request that is not written yet must leave the window first.
    pub(super) fn place_at(&self, others: u32) -> Option<u64> {
        let Some((limit, length)) = self.limit else { return Some(0) };
        // If the limit was lowered, several arrivals have to leave the window before the next one.
        let used = u64::from(self.arrived) + u64::from(self.granted) + u64::from(others);
        let Some(leaving) = used.checked_sub(u64::from(limit)) else { return Some(0) };
        let mut left = 0;
        let last = self.arrivals.iter().find(|(_, count)| {
            left += u64::from(**count);
            left > leaving
        });
        last.map(|(time, _)| time.saturating_add(length).saturating_add(1))
    }

    /// Returns when a request that arrived by a time leaves the window.
    pub(super) fn leaves(&self, arrives: u64) -> Option<u64> {
        self.limit.map(|(_, length)| arrives.saturating_add(length).saturating_add(1))
    }

    /// Returns when a place is free for one more reservation. `None` if there is no limit, or if a
    /// request that is not written yet must leave the window first.
    pub(super) fn next(&self) -> Option<u64> {
        self.limit.and_then(|_| self.place_at(self.reserved))
    }

    /// Reserves a place.
    pub(super) fn reserve(&mut self) {
        self.reserved += 1;
    }

    /// Grants a reserved request, which is about to be written. Otherwise returns when to try
    /// again; `None` if a request that is being written must be written first.
    pub(super) fn grant(&mut self, now: u64) -> Result<(), Option<u64>> {
        self.forget_old(now);
        match self.place_at(0) {
            Some(time) if time <= now => {
                self.reserved = self.reserved.saturating_sub(1);
                self.granted += 1;
                Ok(())
            }
            later => Err(later),
        }
    }

    /// Notes that a granted request was written by now. Returns the time by which it arrives,
    /// unless an answer shows that it arrived before.
    pub(super) fn written(&mut self, now: u64) -> u64 {
        self.granted = self.granted.saturating_sub(1);
        let arrives = now.saturating_add(self.transit());
        self.arrives(arrives);
        arrives
    }

    /// Notes that a written request, which was to arrive by a time, is answered now.
    pub(super) fn answered(&mut self, arrives: u64, now: u64) {
        if now >= arrives {
            return;
        }
        // The arrival is missing if there was no limit for a while.
        if let Some(count) = self.arrivals.get_mut(&arrives) {
            *count -= 1;
            if *count == 0 {
                self.arrivals.remove(&arrives);
            }
            self.arrived -= 1;
            self.arrives(now);
        }
    }

    /// Counts a request that arrives by a time.
    pub(super) fn arrives(&mut self, time: u64) {
        if self.limit.is_some() {
            *self.arrivals.entry(time).or_default() += 1;
            self.arrived += 1;
        }
    }

    /// Takes back a grant. The request was not written, and is reserved as before.
    pub(super) fn undo(&mut self) {
        self.granted = self.granted.saturating_sub(1);
        self.reserved += 1;
    }

    /// Gives up a reserved request.
    pub(super) fn forgo(&mut self) {
        self.reserved = self.reserved.saturating_sub(1);
    }

    /// Returns the arrivals for the store: times, and the number of arrivals by each. Times are
    /// rounded up. Requests that are not written count as if they were written at `bound`.
    pub(super) fn stored(&self, bound: u64) -> Vec<(u64, u32)> {
        let Some((_, length)) = self.limit else { return Vec::new() };
        let step = (length / STORED_STEPS).max(1);
        let mut stored: Vec<(u64, u32)> = Vec::new();
        for (time, count) in &self.arrivals {
            match stored.last_mut() {
                Some((until, sum)) if *time <= *until => *sum += count,
                _ => stored.push((time.saturating_add(step - 1), *count)),
            }
        }
        if self.granted + self.reserved > 0 {
            let arrives = bound.saturating_add(self.transit());
            stored.push((arrives, self.granted + self.reserved));
        }
        stored
    }

    /// Restores stored arrivals. No request was written after `now`, so none arrives later than the
    /// transit time after it.
    pub(super) fn restore(&mut self, stored: &[(u64, u32)], now: u64) {
        let Some((limit, _)) = self.limit else { return };
        let latest = now.saturating_add(self.transit());
        let mut surplus: u32 = 0;
        for (time, count) in stored {
            *self.arrivals.entry((*time).min(latest)).or_default() += (*count).min(limit);
            surplus = surplus.saturating_add((*count).min(limit));
        }
        self.arrived = surplus.min(limit);
        surplus -= self.arrived;
        // The latest arrivals decide when places are free.
        while surplus > 0
            && let Some(mut first) = self.arrivals.first_entry()
        {
            let dropped = surplus.min(*first.get());
            surplus -= dropped;
            *first.get_mut() -= dropped;
            if *first.get() == 0 {
                first.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest number of arrivals in any window of this length.
    fn densest(arrivals: &[u64], length: u64) -> usize {
        (0..arrivals.len())
            .map(|first| {
                let start = arrivals[first];
                arrivals[first..].iter().take_while(|time| **time - start <= length).count()
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

    /// A request on its way to the target and back.
    #[derive(Clone, Copy)]
    struct Flight {
        arrives: u64,
        /// When the answer comes; `None` if none does.
        answer: Option<u64>,
        /// By when it arrives, as the window says; `None` until the write is noted.
        bound: Option<u64>,
    }

    impl Flight {
        /// A request that is written now, with or without an answer.
        fn new(state: &mut u64, now: u64, transit: u64) -> Self {
            let arrives = now + random(state, transit + 1);
            let answer = (random(state, 5) > 0).then(|| arrives + random(state, 60));
            Self { arrives, answer, bound: None }
        }
    }

    #[test]
    fn no_window_at_the_target_is_exceeded_with_slow_transit_and_restarts() {
        for seed in 0..300_u64 {
            let mut state = seed;
            let (limit, length) = (1 + random(&mut state, 9) as u32, 1 + random(&mut state, 400));
            let mut window = Window::new(Some((limit, length)));
            let transit = window.transit();
            let (mut now, mut arrived, mut reserved) = (1_000_000, Vec::new(), 0);
            let mut flights: Vec<Flight> = Vec::new();
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
                // The state on disk counts what is reserved now, up to a time.
                let stored = window.stored(now + 60);
                assert!(stored.len() <= 3 * STORED_STEPS as usize + 3);
                if reserved > 0 && window.grant(now).is_ok() {
                    reserved -= 1;
                    if random(&mut state, 9) == 0 {
                        window.undo();
                        reserved += 1;
                    } else {
                        flights.push(Flight::new(&mut state, now, transit));
                    }
                }
                flights.retain_mut(|flight| {
                    // The write is noted some time after it happened.
                    if flight.bound.is_none() && random(&mut state, 2) == 0 {
                        flight.bound = Some(window.written(now));
                    }
                    let Some(bound) = flight.bound else { return true };
                    match flight.answer {
                        Some(answer) if answer <= now => window.answered(bound, now),
                        None if bound < now => {}
                        _ => return true,
                    }
                    arrived.push(flight.arrives);
                    false
                });
                if random(&mut state, 100) == 0 {
                    // The process dies. What it has written arrives all the same.
                    arrived.extend(flights.drain(..).map(|flight| flight.arrives));
                    now += random(&mut state, 20);
                    window = Window::new(Some((limit, length)));
                    window.restore(&stored, now);
                    reserved = 0;
                }
            }
            arrived.sort_unstable();
            assert!(arrived.len() > 20, "{} requests with seed {seed}", arrived.len());
            let most = densest(&arrived, length);
            assert!(most <= limit as usize, "{most} of {limit} in {length} ms, seed {seed}");
        }
    }

    #[test]
    fn a_place_is_free_one_window_after_the_answer() {
        let mut window = Window::new(Some((2, 100)));
        assert_eq!(window.next(), Some(0));
        (0..2).for_each(|_| window.reserve());
        assert_eq!((window.allowance(10, 10), window.next()), (0, None));
        assert_eq!((window.grant(10), window.grant(10)), (Ok(()), Ok(())));
        let (one, other) = (window.written(10), window.written(30));
        assert_eq!((one, other), (110, 130), "the transit is a window");
        assert_eq!(window.next(), Some(211), "one without an answer");
        window.answered(other, 40);
        assert_eq!(window.next(), Some(141), "the answer came before");
        assert_eq!((window.allowance(40, 140), window.allowance(40, 141)), (0, 1));
        (0..2).for_each(|_| window.reserve());
        assert_eq!((window.place_at(0), window.place_at(1)), (Some(141), Some(211)));
        assert_eq!((window.grant(140), window.grant(141)), (Err(Some(141)), Ok(())));
        window.answered(one, 150);
        assert_eq!(window.grant(210), Err(Some(211)), "a late answer changes nothing");
        window.set_limit(Some((1, 100)));
        assert_eq!((window.grant(211), window.allowance(211, 999)), (Err(None), 0));
        let last = window.written(211);
        window.answered(last, 212);
        assert_eq!(window.grant(212), Err(Some(313)));
        window.set_limit(None);
        assert_eq!(window.allowance(131, 131), u32::MAX);
        assert_eq!(window.grant(131), Ok(()));
    }

    /// The bound that is stored covers requests that are written just before a crash and are still on
    /// their way when the server is back.
    #[test]
    fn a_request_that_was_on_its_way_at_a_crash_counts_after_the_restart() {
        let mut window = Window::new(Some((1, 100)));
        window.reserve();
        let stored = window.stored(2_000);
        assert_eq!(stored, [(2_100, 1)]);
        let mut restored = Window::new(Some((1, 100)));
        restored.restore(&stored, 50);
        // Written at 49 at the latest, it arrives by 149.
        assert_eq!(restored.allowance(50, 250), 0);
        assert_eq!(restored.next(), Some(251));
        // The stored numbers may have been of a higher limit: the latest count.
        let mut lowered = Window::new(Some((2, 100)));
        lowered.restore(&[(10, 2), (20, 1), (30, 9)], 50);
        assert_eq!((lowered.arrived, lowered.next()), (2, Some(131)));
    }
}
