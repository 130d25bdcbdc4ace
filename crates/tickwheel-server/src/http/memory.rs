//! The memory that requests and answers in flight may take together.
//!
//! Each takes its share before it grows and gives it back when it is dropped. When there is not
//! enough, a request is refused with 503, and its client comes again.
//!
//! Ground rules:
//! * A part is left for small shares, so that large requests cannot keep small ones out.
//! * What is asked for alone is always given, however large: else a job that is larger than the
//!   budget could never be fetched.
//! * An answer that must not be lost, because it reports a change, takes its share in any case.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::api::Code;
use crate::problem::Failure;

/// A share up to this size counts as small.
const SMALL: usize = 64 << 10;
/// This part of the budget is for small shares only.
const PART_FOR_SMALL: usize = 8;

/// A budget of bytes. Clones are the same.
#[derive(Clone)]
pub(crate) struct Memory(Arc<Budget>);

struct Budget {
    used: AtomicUsize,
    limit: usize,
}

impl Memory {
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Budget { used: AtomicUsize::new(0), limit }))
    }

    pub(crate) fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Whether a share that grows to this size would be given now.
    pub(crate) fn check(&self, bytes: usize) -> Result<(), Failure> {
        let used = self.used();
        if self.has_room(used, bytes) { Ok(()) } else { Err(self.exhausted()) }
    }

    fn has_room(&self, used: usize, bytes: usize) -> bool {
        let limit = self.0.limit;
        let limit = if bytes <= SMALL { limit } else { limit - limit / PART_FOR_SMALL };
        used == 0 || used.saturating_add(bytes) <= limit
    }

    fn exhausted(&self) -> Failure {
        let why = format!(
            "requests and answers in flight take {} of {} bytes (`limits.memory`): try again",
            self.used(),
            self.0.limit
        );
        Failure::new(Code::Unavailable, why).retry_after(1)
    }

    /// A share of nothing, which grows.
    pub(crate) fn share(&self) -> Share {
        Share { memory: self.clone(), bytes: 0 }
    }
}

/// Bytes of the budget, given back when this is dropped.
pub(crate) struct Share {
    memory: Memory,
    bytes: usize,
}

impl Share {
    /// Takes so many bytes more, if there are.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        let memory = &self.memory;
        let own = self.bytes;
        let taken = memory.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            // A large share that grows in small steps is a large one.
            let others = used - own;
            memory.has_room(others, own + bytes).then(|| used + bytes)
        });
        if taken.is_err() {
            return Err(memory.exhausted());
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Takes so many bytes more, whether there are or not.
    pub(crate) fn grow_anyway(&mut self, bytes: usize) {
        self.memory.0.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_shares_leave_a_part_for_small_ones() {
        let memory = Memory::new(1 << 20);
        let mut large = memory.share();
        for _ in 0..7 {
            large.grow(128 << 10).unwrap();
        }
        assert!(memory.check(SMALL + 1).is_err());
        assert!(memory.share().grow(SMALL + 1).is_err());
        let mut small = memory.share();
        small.grow(SMALL).unwrap();
        // One that grows does not stay small.
        assert!(small.grow(1).is_err());
        let mut other = memory.share();
        other.grow(SMALL).unwrap();
        assert!(memory.check(1).is_err());
        let failure = memory.check(1).unwrap_err();
        assert!(failure.problem.detail.contains("limits.memory"), "{failure:?}");
        drop((large, small, other));
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_giant_goes_alone_and_what_must_be_told_goes_anyway() {
        let memory = Memory::new(100 << 10);
        let mut giant = memory.share();
        giant.grow(1 << 20).unwrap();
        assert!(memory.check(1).is_err());
        let mut told = memory.share();
        told.grow_anyway(10);
        assert_eq!(memory.used(), (1 << 20) + 10);
        drop(giant);
        assert!(memory.check(1).is_ok());
    }
}
