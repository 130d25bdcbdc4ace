//! Rate limits of clients.
//!
//! Each client has a token bucket: it holds the requests of one second, a request takes one, and it
//! refills evenly. A full bucket is the same as none, so full buckets are dropped each time the
//! number of buckets has doubled: the sweep costs a constant per new client.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The number of buckets before the first sweep.
const MANY: usize = 4_096;

struct Table<K> {
    of_client: HashMap<K, Bucket>,
    /// The number of buckets at which the next sweep is made.
    many: usize,
}

struct Bucket {
    drops: f64,
    filled: Instant,
}

/// Buckets of clients.
pub(crate) struct Buckets<K> {
    size: f64,
    /// Requests per second.
    rate: f64,
    table: Mutex<Table<K>>,
}

impl<K: Hash + Eq> Buckets<K> {
    pub(crate) fn new(size: u32, rate: u32) -> Self {
        let table = Table { of_client: HashMap::new(), many: MANY };
        Self { size: size.into(), rate: rate.into(), table: table.into() }
    }

    /// Takes a request from the bucket. Returns how long to wait if it is empty.
    pub(crate) fn take(&self, client: K, now: Instant) -> Result<(), Duration> {
        if self.rate == 0.0 {
            return Ok(());
        }
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let Table { of_client: buckets, many } = &mut *table;
        if buckets.len() >= *many && !buckets.contains_key(&client) {
            buckets.retain(|_, bucket| self.drops(bucket, now) < self.size);
            *many = MANY.max(2 * buckets.len());
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
        assert!(buckets.table.lock().unwrap().of_client.len() <= MANY);
    }

    #[test]
    fn full_buckets_are_not_looked_for_at_every_new_client() {
        let start = Instant::now();
        let buckets = Buckets::new(2, 1);
        // None of them is full again, so none is dropped.
        for client in 0..5 * MANY {
            let _ = buckets.take(client, start);
        }
        assert_eq!(buckets.table.lock().unwrap().many, 8 * MANY);
        // A second later all are full, and the next sweep drops them.
        let later = start + Duration::from_secs(1);
        for client in 5 * MANY..=8 * MANY {
            let _ = buckets.take(client, later);
        }
        let table = buckets.table.lock().unwrap();
        assert!(table.of_client.len() <= 3 * MANY + 1, "{}", table.of_client.len());
        assert!(table.many <= 6 * MANY + 2);
    }

    #[test]
    fn a_rate_of_zero_is_no_limit() {
        let buckets = Buckets::new(0, 0);
        for _ in 0..100 {
            assert!(buckets.take((), Instant::now()).is_ok());
        }
    }
}
