//! Rate limits of clients.
//!
//! A client may send a burst of requests, and then further requests at an even rate. A client whose
//! whole burst is available again is the same as a new one. Such clients are evicted each time the
//! number of clients has doubled, so that eviction takes constant time per new client.

use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use governor::clock::{Clock, MonotonicClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

/// The number of clients at which the first eviction takes place.
const MANY: usize = 4_096;

type Limiter<K, C> = RateLimiter<K, HashMapStateStore<K>, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// A rate limit for each client.
pub(crate) struct RateLimits<K: Hash + Eq + Clone, C: Clock = MonotonicClock> {
    /// `None` if there is no limit.
    limiter: Option<Limiter<K, C>>,
    /// The number of clients at which the next eviction takes place.
    many: AtomicUsize,
}

impl<K: Hash + Eq + Clone> RateLimits<K> {
    /// Creates limits that allow bursts of `burst` requests, and `rate` requests per second. A rate
    /// of 0 means no limit.
    pub(crate) fn new(burst: u32, rate: u32) -> Self {
        Self::with_clock(burst, rate, MonotonicClock)
    }
}

impl<K: Hash + Eq + Clone, C: Clock> RateLimits<K, C> {
    fn with_clock(burst: u32, rate: u32, clock: C) -> Self {
        let quota = NonZeroU32::new(rate).map(|rate| {
            Quota::per_second(rate).allow_burst(NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN))
        });
        let limiter =
            quota.map(|quota| RateLimiter::new(quota, HashMapStateStore::default(), clock));
        Self { limiter, many: AtomicUsize::new(MANY) }
    }

    /// Counts a request of a client. If it exceeds the limit, returns how long the client must
    /// wait.
    pub(crate) fn take(&self, client: &K) -> Result<(), Duration> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        if limiter.len() >= self.many.load(Ordering::Relaxed) {
            limiter.retain_recent();
            self.many.store(MANY.max(2 * limiter.len()), Ordering::Relaxed);
        }
        limiter.check_key(client).map_err(|refusal| refusal.wait_time_from(limiter.clock().now()))
    }

    #[cfg(test)]
    fn clients(&self) -> usize {
        self.limiter.as_ref().map_or(0, Limiter::len)
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    #[test]
    fn a_burst_is_possible_again_at_the_rate() {
        let clock = FakeRelativeClock::default();
        let limits = RateLimits::with_clock(3, 10, clock.clone());
        for _ in 0..3 {
            assert!(limits.take(&"a").is_ok());
        }
        assert_eq!(limits.take(&"a"), Err(Duration::from_millis(100)));
        assert!(limits.take(&"b").is_ok());
        clock.advance(Duration::from_millis(100));
        assert!(limits.take(&"a").is_ok());
        assert!(limits.take(&"a").is_err());
        clock.advance(Duration::from_secs(60));
        for _ in 0..3 {
            assert!(limits.take(&"a").is_ok());
        }
        assert!(limits.take(&"a").is_err());
    }

    #[test]
    fn clients_with_a_whole_burst_are_forgotten() {
        let clock = FakeRelativeClock::default();
        let limits = RateLimits::with_clock(1, 1_000, clock.clone());
        for client in 0..3 * MANY {
            let _ = limits.take(&client);
            clock.advance(Duration::from_millis(1));
        }
        assert!(limits.clients() <= MANY);
    }

    #[test]
    fn clients_are_not_searched_at_every_new_one() {
        let clock = FakeRelativeClock::default();
        let limits = RateLimits::with_clock(2, 1, clock.clone());
        // None of them has its whole burst again, so none is forgotten.
        for client in 0..5 * MANY {
            let _ = limits.take(&client);
        }
        assert_eq!(limits.many.load(Ordering::Relaxed), 8 * MANY);
        // Two seconds later all have it, and the next search forgets them.
        clock.advance(Duration::from_secs(2));
        for client in 5 * MANY..=8 * MANY {
            let _ = limits.take(&client);
        }
        assert!(limits.clients() <= 3 * MANY + 1, "{}", limits.clients());
    }

    #[test]
    fn a_rate_of_zero_is_no_limit() {
        let limits = RateLimits::new(0, 0);
        for _ in 0..100 {
            assert!(limits.take(&()).is_ok());
        }
    }
}
