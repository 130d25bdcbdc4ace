//! Checks, for each key, whether one more call is allowed. Two calls an hour are.

use std::mem::ManuallyDrop;
use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Result, ensure};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tickwheel::Timer;
use tickwheel::pace::KeyedPacer;

use super::keys;
use crate::memory::live_bytes;
use crate::meter::Stopwatch;
use crate::suite::Figures;

const ALLOWED: u32 = 2;
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
        let burst = NonZeroU32::new(ALLOWED).expect("two is not zero");
        let quota = Quota::with_period(HOUR / ALLOWED).expect("half an hour is not zero");
        Self(RateLimiter::keyed(quota.allow_burst(burst)))
    }

    #[inline]
    fn check(&self, key: u64) -> bool {
        self.0.check_key(&key).is_ok()
    }
}

/// Checks each key three times: the first two checks succeed, the third is refused.
pub(super) fn measure<C: Checker>(count: usize) -> Result<Figures> {
    let figures = ["check-new", "check-known", "check-refused"];
    let passes: Vec<Vec<u64>> = (0..figures.len() as u64).map(|pass| keys(count, pass)).collect();
    let before = live_bytes();
    // Leaked: the process ends soon.
    let checker = ManuallyDrop::new(C::new());
    let mut outcome = Figures::new();
    for (pass, (figure, keys)) in figures.into_iter().zip(&passes).enumerate() {
        let stopwatch = Stopwatch::start();
        let allowed = keys.iter().filter(|&&key| checker.check(key)).count();
        let time = stopwatch.elapsed_without(Duration::ZERO);
        let expected = if pass < ALLOWED as usize { count } else { 0 };
        ensure!(allowed == expected, "{allowed} of {expected} were allowed in pass {pass}");
        outcome.push((figure, time.as_nanos() as f64 / count as f64));
    }
    outcome.push(("memory-checked", (live_bytes() - before) as f64 / count as f64));
    Ok(outcome)
}
