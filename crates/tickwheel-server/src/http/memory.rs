//! The memory that requests and answers in flight may take together.
//!
//! Each has a share of one budget. A share grows before its memory is used and returns its bytes
//! when it is dropped. When the budget is used up, a request is refused with 503 and
//! `Retry-After`.
//!
//! Ground rules:
//! * Part of the budget is kept for small shares, so that large requests cannot keep small ones
//!   out.
//! * A share may have any size while it is the only one: otherwise a job larger than the budget could
//!   never be fetched. So the memory in use is at most the budget, or one such share.
//! * A share grows before the memory is used. The size of an answer to `reserve` is charged while the engine
//!   leases the jobs, and a job for which there is no room is not leased.

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

    /// Refuses a share that could not grow to this size now.
    pub(crate) fn check(&self, bytes: usize) -> Result<(), Failure> {
        let used = self.used();
        if self.has_room(used, bytes) { Ok(()) } else { Err(self.exhausted()) }
    }

    fn has_room(&self, used: usize, bytes: usize) -> bool {
        let limit = self.0.limit;
        let limit = if bytes <= SMALL { limit } else { limit - limit / PART_FOR_SMALL };
        used == 0 || used.saturating_add(bytes) <= limit
    }

    /// Returns the answer to a request for which there is no room.
    pub(crate) fn exhausted(&self) -> Failure {
        let why = format!(
            "requests and answers in flight take {} of {} bytes (`limits.memory`): try again",
            self.used(),
            self.0.limit
        );
        Failure::new(Code::Unavailable, why).retry_after(1)
    }

    /// Returns a share of 0 bytes.
    pub(crate) fn share(&self) -> Share {
        Share { memory: self.clone(), bytes: 0 }
    }
}

/// Bytes of the budget, which gets them back when the share is dropped.
pub(crate) struct Share {
    memory: Memory,
    bytes: usize,
}

impl Share {
    /// Grows by this many bytes.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        self.grow_to(self.bytes.saturating_add(bytes))
    }

    /// Grows to this size. A share that is as large already stays as it is.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Failure> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let (memory, own) = (&self.memory, self.bytes);
        let taken = memory.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            // A large share that grows in small steps is a large one.
            let others = used - own;
            memory.has_room(others, bytes).then(|| others + bytes)
        });
        if taken.is_err() {
            return Err(memory.exhausted());
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Returns all bytes beyond this size.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let excess = self.bytes.saturating_sub(bytes);
        self.memory.0.used.fetch_sub(excess, Ordering::Relaxed);
        self.bytes -= excess;
    }

    /// Returns `true` if a share of this size is within the budget. The only share there is may be
    /// larger.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        bytes <= self.memory.0.limit
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink_to(0);
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
    fn a_share_over_the_budget_is_the_only_one() {
        let memory = Memory::new(100 << 10);
        let mut giant = memory.share();
        giant.grow(1 << 20).unwrap();
        assert!(!giant.fits(1 << 20) && giant.fits(100 << 10));
        assert!(memory.check(1).is_err());
        assert!(memory.share().grow(1).is_err());
        giant.shrink_to(SMALL);
        let mut small = memory.share();
        small.grow(1).unwrap();
        assert!(giant.grow_to(1 << 20).is_err());
        giant.grow_to(1).unwrap();
        assert_eq!(memory.used(), SMALL + 1);
        drop((giant, small));
        assert_eq!(memory.used(), 0);
    }
}
