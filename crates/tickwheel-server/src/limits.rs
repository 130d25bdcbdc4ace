//! How fast one client may ask.
//!
//! A bucket for each client: it holds as many drops as requests are allowed in a second, a request
//! takes one, and it fills up evenly. Full buckets are as good as none, so they are dropped when
//! there are many.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many buckets are kept before full ones are looked for.
const MANY: usize = 4_096;

struct Bucket {
    drops: f64,
    filled: Instant,
}

/// Buckets of clients.
pub(crate) struct Buckets<K> {
    size: f64,
    /// Drops a second.
    rate: f64,
    of_client: Mutex<HashMap<K, Bucket>>,
}

impl<K: Hash + Eq> Buckets<K> {
    pub(crate) fn new(size: u32, rate: u32) -> Self {
        Self { size: size.into(), rate: rate.into(), of_client: Mutex::default() }
    }

    /// Takes a drop; how long to wait for the next if there is none.
    pub(crate) fn take(&self, client: K, now: Instant) -> Result<(), Duration> {
        if self.rate == 0.0 {
            return Ok(());
        }
        let mut buckets = self.of_client.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MANY && !buckets.contains_key(&client) {
            buckets.retain(|_, bucket| self.drops(bucket, now) < self.size);
        }
        let bucket = buckets.entry(client).or_insert(Bucket { drops: self.size, filled: now });
        bucket.drops = self.drops(bucket, now);
        bucket.filled = now;
        if bucket.drops < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.drops) / self.rate));
        }
        bucket.drops -= 1.0;
        Ok(())
    }

    /// Whether a drop is left, without taking it.
    pub(crate) fn has_left(&self, client: &K, now: Instant) -> bool {
        let buckets = self.of_client.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.get(client).is_none_or(|bucket| self.drops(bucket, now) >= 1.0)
    }

    fn drops(&self, bucket: &Bucket, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        (bucket.drops + passed * self.rate).min(self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_and_fills_again() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let buckets = Buckets::new(3, 10);
        for _ in 0..3 {
            assert!(buckets.take("a", at(0)).is_ok());
        }
        let wait = buckets.take("a", at(0)).unwrap_err();
        assert_eq!(wait, Duration::from_millis(100));
        assert!(buckets.take("b", at(0)).is_ok());
        assert!(!buckets.has_left(&"a", at(50)) && buckets.has_left(&"c", at(50)));
        assert!(buckets.take("a", at(100)).is_ok());
        assert!(buckets.take("a", at(100)).is_err());
        for _ in 0..3 {
            assert!(buckets.take("a", at(60_000)).is_ok());
        }
        assert!(buckets.take("a", at(60_000)).is_err());
    }

    #[test]
    fn full_buckets_do_not_pile_up() {
        let start = Instant::now();
        let buckets = Buckets::new(1, 1_000);
        for client in 0..3 * MANY as u64 {
            let _ = buckets.take(client, start + Duration::from_millis(client));
        }
        assert!(buckets.of_client.lock().unwrap().len() <= MANY);
    }

    #[test]
    fn a_rate_of_zero_is_no_limit() {
        let buckets = Buckets::new(0, 0);
        for _ in 0..100 {
            assert!(buckets.take((), Instant::now()).is_ok());
        }
    }
}
