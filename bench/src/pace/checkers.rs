//! Who can say whether one more call is allowed, for each key: two an hour.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tickwheel::Timer;
use tickwheel::pace::KeyedPacer;

pub(super) const ALLOWED: u32 = 2;
const HOUR: Duration = Duration::from_hours(1);

pub(super) trait Checker {
    fn new() -> Self;
    fn check(&self, key: u64) -> bool;
}

pub(super) struct Ours(KeyedPacer<u64>);

impl Checker for Ours {
    fn new() -> Self {
        Self(KeyedPacer::new(&Timer::new(), ALLOWED as usize, HOUR))
    }

    #[inline]
    fn check(&self, key: u64) -> bool {
        self.0.key(key).try_acquire().is_ok()
    }
}

pub(super) struct Governor(DefaultKeyedRateLimiter<u64>);

impl Checker for Governor {
    fn new() -> Self {
        let burst = NonZeroU32::new(ALLOWED).expect("more than none");
        let quota = Quota::with_period(HOUR / ALLOWED).expect("an hour is a time");
        Self(RateLimiter::keyed(quota.allow_burst(burst)))
    }

    #[inline]
    fn check(&self, key: u64) -> bool {
        self.0.check_key(&key).is_ok()
    }
}
