//! The tasks that were cancelled by key and whose handle still exists.
//!
//! A set of wheel keys. Unlike a `HashSet` it grows and shrinks in steps, so that no call takes long
//! with millions of cancelled tasks.

use crate::wheel;
use crate::wheel::hash_index::HashIndex;
use crate::wheel::pool::Pool;

/// An empty set with no more memory than this keeps it.
const KEPT_BYTES: usize = 16 << 10;

pub(crate) struct Cancellations {
    wheel_keys: Pool<wheel::Key>,
    index: HashIndex,
}

impl Cancellations {
    pub(crate) fn new() -> Self {
        Self { wheel_keys: Pool::new(), index: HashIndex::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.wheel_keys.len()
    }

    /// Adds a task that is not in the set.
    pub(crate) fn insert(&mut self, wheel_key: wheel::Key) {
        let place = self.wheel_keys.insert(wheel_key);
        self.index.insert(hash(wheel_key), place);
    }

    pub(crate) fn contains(&self, wheel_key: wheel::Key) -> bool {
        self.find(wheel_key).is_some()
    }

    /// Removes a task, if it is in the set.
    pub(crate) fn remove(&mut self, wheel_key: wheel::Key) {
        let Some(place) = self.find(wheel_key) else { return };
        self.index.remove(hash(wheel_key), place);
        self.wheel_keys.remove(place);
        if self.len() == 0 && self.memory_usage() > KEPT_BYTES {
            *self = Self::new();
        }
    }

    #[inline]
    fn find(&self, wheel_key: wheel::Key) -> Option<u32> {
        if self.len() == 0 {
            return None;
        }
        self.index.find(hash(wheel_key), |place| self.wheel_keys[place] == wheel_key)
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.wheel_keys.memory_usage() + self.index.memory_usage()
    }
}

/// Spreads wheel keys over all hashes.
fn hash(wheel_key: wheel::Key) -> u32 {
    /// 2⁶⁴ divided by the golden ratio.
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let key = u64::from(wheel_key.generation) << 32 | u64::from(wheel_key.index);
    (key.wrapping_mul(FACTOR) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_set_grows_in_steps() {
        const COUNT: u32 = 1_000_000;
        // One segment of the pool and three of the index. A `HashSet` would grow by 19 MB.
        const MAX_STEP: usize = 10 << 20;
        let wheel_key = |n: u32| wheel::Key { index: n / 4, generation: n };
        let mut set = Cancellations::new();
        for n in 0..COUNT {
            let before = set.memory_usage();
            set.insert(wheel_key(n));
            let grown = set.memory_usage().saturating_sub(before);
            assert!(grown <= MAX_STEP, "{grown} bytes at once, with {n} keys");
        }
        assert!((0..COUNT).all(|n| set.contains(wheel_key(n))));
        assert!(!set.contains(wheel_key(COUNT)));
        for n in 0..COUNT {
            set.remove(wheel_key(n));
        }
        assert!(set.len() == 0 && set.memory_usage() <= KEPT_BYTES, "{}", set.memory_usage());
    }
}
