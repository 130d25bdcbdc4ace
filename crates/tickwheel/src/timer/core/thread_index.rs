//! A small number for each thread, different for threads that schedule at the same time.
//!
//! A thread takes the lowest free number on first use, and returns it when it ends. So a program that
//! starts and ends many threads uses few numbers, and a timer creates few shards. When all numbers are
//! taken, further threads share them.

#[cfg(not(tickwheel_loom))]
use std::sync::atomic::{AtomicU64, Ordering};

use crate::timer::sync::thread_local;

/// A bit for each number that a live thread has.
#[cfg(not(tickwheel_loom))]
static TAKEN: AtomicU64 = AtomicU64::new(0);

#[cfg(not(tickwheel_loom))]
fn update_taken(update: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
    TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update)
}

/// The threads of a loom model take turns on one thread of the system. Models that run at the same
/// time must not take each other's numbers.
#[cfg(tickwheel_loom)]
fn update_taken(update: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
    std::thread_local! {
        static TAKEN: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
    }
    TAKEN.with(|taken| {
        let before = taken.get();
        taken.set(update(before).ok_or(before)?);
        Ok(before)
    })
}

struct ThreadIndex {
    number: u32,
    /// Whether this thread took the number exclusively and must return it.
    owned: bool,
}

impl ThreadIndex {
    fn take() -> Self {
        match update_taken(|taken| (taken != u64::MAX).then(|| taken | (taken + 1))) {
            Ok(taken) => Self { number: taken.trailing_ones(), owned: true },
            Err(_) => Self { number: any_number(), owned: false },
        }
    }
}

/// Returns a number for a thread that must share one, derived from the address of its stack.
fn any_number() -> u32 {
    let on_stack = 0_u8;
    (core::ptr::from_ref(&on_stack).addr() >> 12) as u32 % u64::BITS
}

impl Drop for ThreadIndex {
    fn drop(&mut self) {
        if self.owned {
            let _ = update_taken(|taken| Some(taken & !(1 << self.number)));
        }
    }
}

thread_local! {
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's macro has no such form")]
    static INDEX: ThreadIndex = ThreadIndex::take();
}

/// Returns the number of the calling thread, below 64. A thread whose thread-locals are already
/// destroyed gets 0.
#[inline]
pub(crate) fn thread_index() -> usize {
    INDEX.try_with(|index| index.number as usize).unwrap_or(0)
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    use std::thread;
    use std::vec::Vec;

    /// Returns the numbers of threads that are alive at the same time.
    fn numbers_of(threads: usize) -> BTreeSet<usize> {
        let all_have_one = Barrier::new(threads);
        thread::scope(|scope| {
            let number = || {
                let number = thread_index();
                all_have_one.wait();
                assert_eq!(thread_index(), number);
                number
            };
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(number)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// A single test, because two would take numbers from each other.
    #[test]
    fn threads_have_different_numbers_while_there_are_enough() {
        assert_eq!(numbers_of(8).len(), 8);
        let shared = numbers_of(100);
        assert!(shared.iter().all(|&number| number < 64), "{shared:?}");
        assert_eq!(numbers_of(8).len(), 8, "ended threads have returned their numbers");
    }
}
