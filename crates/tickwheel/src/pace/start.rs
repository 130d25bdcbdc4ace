//! One start on its way: whether it was let go, and when it really began.
//!
//! A start is let go under the pacer's lock, but begins without it: a thread may be held up
//! between the two for as long as the operating system likes. What counts for the window is when
//! it begins. So whoever begins notes the time here, as the last thing before, without a lock;
//! and the pacer reads it when it next has to know.

use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(feature = "async")]
use core::task::Waker;
#[cfg(feature = "async")]
use std::sync::{Mutex, PoisonError};

use crate::timer::Nanos;

/// Waits for its turn.
#[cfg(feature = "async")]
const WAITING: u64 = u64::MAX;
/// Was let go, and has not begun. Above this are states, below are times.
const OPEN: u64 = u64::MAX - 1;
/// Will never begin: the pacer was stopped.
#[cfg(feature = "async")]
const REFUSED: u64 = u64::MAX - 2;
const LATEST: u64 = u64::MAX - 3;

pub(super) struct Start {
    /// The time at which it began, or a state.
    began: AtomicU64,
    /// Whom to wake when it is let go.
    #[cfg(feature = "async")]
    waker: Mutex<Option<Waker>>,
}

/// What a future finds when it asks.
#[cfg(feature = "async")]
pub(super) enum Answer {
    Wait,
    Begun,
    Refused,
}

impl Start {
    fn with(state: u64) -> Self {
        Self {
            began: AtomicU64::new(state),
            #[cfg(feature = "async")]
            waker: Mutex::new(None),
        }
    }

    /// A start that is let go already.
    pub(super) fn open() -> Self {
        Self::with(OPEN)
    }

    /// Makes this the next start of the same thread.
    #[inline]
    pub(super) fn open_again(&self) {
        self.began.store(OPEN, Ordering::Release);
    }

    /// It begins.
    #[inline]
    pub(super) fn begin(&self, now: Nanos) {
        self.began.store(now.min(LATEST), Ordering::Release);
    }

    /// When it began, if it did.
    #[inline]
    pub(super) fn time(&self) -> Option<Nanos> {
        let began = self.began.load(Ordering::Acquire);
        (began <= LATEST).then_some(began)
    }
}

#[cfg(feature = "async")]
impl Start {
    /// A start that somebody waits for.
    pub(super) fn awaited(waker: Waker) -> Self {
        Self { waker: Mutex::new(Some(waker)), ..Self::with(WAITING) }
    }

    /// Lets it go. Whoever waits has to be [woken](Self::wake), without a lock.
    pub(super) fn let_go(&self) {
        self.began.store(OPEN, Ordering::Release);
    }

    /// Says that it never will be, unless it has begun already. Whoever waits has to be
    /// [woken](Self::wake), without a lock.
    pub(super) fn refuse(&self) {
        let refuse = |began: u64| (began > LATEST).then_some(REFUSED);
        let _ = self.began.fetch_update(Ordering::AcqRel, Ordering::Acquire, refuse);
    }

    pub(super) fn wake(&self) {
        let waker = self.lock_waker().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock_waker(&self) -> std::sync::MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins if it was let go; else sees to it that `waker` is woken when that happens.
    pub(super) fn ask(&self, waker: &Waker, now: impl Fn() -> Nanos) -> Answer {
        if let Some(answer) = self.try_begin(&now) {
            return answer;
        }
        if !self.lock_waker().as_ref().is_some_and(|known| known.will_wake(waker)) {
            // Cloned and dropped without the lock: a waker is the caller's.
            let new = waker.clone();
            let old = self.lock_waker().replace(new);
            drop(old);
        }
        // Whoever let it go meanwhile may have met the old waker, or none.
        self.try_begin(now).unwrap_or(Answer::Wait)
    }

    fn try_begin(&self, now: impl Fn() -> Nanos) -> Option<Answer> {
        let state = self.began.load(Ordering::Acquire);
        if state == WAITING {
            return None;
        }
        // Nobody has to be woken any more. From here on the start has nothing of a caller's in
        // it, and may be dropped under a lock.
        let waker = self.lock_waker().take();
        drop(waker);
        if state == REFUSED {
            return Some(Answer::Refused);
        }
        let time = now().min(LATEST);
        let begun = self.began.compare_exchange(OPEN, time, Ordering::AcqRel, Ordering::Acquire);
        Some(if begun.is_ok() { Answer::Begun } else { Answer::Refused })
    }
}
