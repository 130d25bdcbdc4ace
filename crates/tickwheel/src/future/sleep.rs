//! Waiting for a deadline.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::future::Future;
use std::time::Instant;

use super::Deadline;
use crate::Timer;
use crate::timer::{Moved, Nanos, Nudge, Progress, nanos};

/// A future that waits for its deadline: made by [`Timer::sleep`] and [`Timer::sleep_until`].
///
/// It is never early, and late by at most a tick of its timer plus the delays of the machine. Its
/// delay counts from when it was made, and it enters the wheel with its first poll. Dropping it
/// removes it from the wheel. Once ready, it stays ready until it is [`reset`](Self::reset).
///
/// It is [`Unpin`], because nothing in it has a fixed address. So it can be polled by `&mut`
/// repeatedly, without pinning; code that pins it, as the sleeps of other crates require, works too.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{ManualClock, Timer};
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let mut sleep = timer.sleep(Duration::from_secs(60));
///
/// clock.advance(Duration::from_secs(59));
/// sleep.reset(Duration::from_secs(60)); // a sign of life
/// clock.advance(Duration::from_secs(59));
/// assert!(!sleep.is_elapsed());
/// clock.advance(Duration::from_secs(1));
/// futures::executor::block_on(&mut sleep);
/// assert!(sleep.is_elapsed());
/// # Ok::<(), tickwheel::BuildError>(())
/// ```
///
/// # Panics
///
/// Polling panics if the timer's thread could not be started, because nothing would wake the
/// future.
#[must_use = "a future does nothing unless it is polled"]
pub struct Sleep {
    timer: Timer,
    at: Nanos,
    progress: Progress,
}

impl Sleep {
    #[inline]
    pub(super) fn new(timer: Timer, deadline: Deadline) -> Self {
        let progress = match deadline {
            Deadline::After(Duration::ZERO) => Progress::Elapsed,
            _ => Progress::New,
        };
        Self { at: deadline.on(&timer), timer, progress }
    }

    /// Creates a sleep whose delay counts from the call of [`begin`](Self::begin).
    #[inline]
    pub(super) fn later(timer: Timer, delay: Duration) -> Self {
        Self { timer, at: nanos(delay), progress: Progress::New }
    }

    /// Starts the delay of a sleep created by [`later`](Self::later).
    pub(super) fn begin(&mut self) {
        if self.at == 0 {
            self.progress = Progress::Elapsed;
        }
        self.at = self.timer.core().clock().after(self.at);
    }

    /// Moves the deadline to a delay from now or to an instant, also after it has passed. A task
    /// that waits for this future is woken at the new deadline. If it was woken for the old one and
    /// has not polled yet, that poll is spurious.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let mut sleep = timer.sleep(Duration::from_secs(1));
    /// clock.advance(Duration::from_secs(1));
    /// assert!(sleep.is_elapsed());
    /// sleep.reset(clock.now() + Duration::from_secs(1));
    /// assert!(!sleep.is_elapsed());
    /// # Ok::<(), tickwheel::BuildError>(())
    /// ```
    pub fn reset(&mut self, deadline: impl Into<Deadline>) {
        match self.set(deadline.into().on(&self.timer)) {
            Moved::Waits(nudge) if nudge.is_needed() => {
                // While a future waits, the timer has a thread. So none is started, which could fail.
                let _ = self.timer.core().nudge(nudge);
            }
            Moved::Passed(waker) => waker.wake(),
            Moved::Waits(_) | Moved::Woken => {}
        }
    }

    /// Sets the deadline.
    #[inline]
    fn set(&mut self, at: Nanos) -> Moved {
        self.at = at;
        let moved = match &mut self.progress {
            Progress::Waits(waiter) => self.timer.core().move_waiter(waiter, at),
            Progress::New | Progress::Elapsed => Moved::Woken,
        };
        match moved {
            Moved::Waits(_) => {}
            Moved::Passed(_) => self.progress = Progress::Elapsed,
            Moved::Woken => self.progress = Progress::New,
        }
        moved
    }

    /// Sets the next deadline after the last one has passed. `now` is the current time.
    pub(super) fn next(&mut self, at: Nanos, now: Nanos) {
        self.at = at;
        self.progress = if at <= now { Progress::Elapsed } else { Progress::New };
    }

    /// Sets the deadline and waits for it. Calls no user code. The returned nudge must be used when no
    /// lock is held.
    pub(super) fn wait_until(&mut self, at: Nanos, waker: &Waker) -> (Poll<()>, Nudge) {
        match self.set(at) {
            Moved::Waits(nudge) => (Poll::Pending, nudge),
            Moved::Passed(_) | Moved::Woken => self.poll_quietly(waker),
        }
    }

    /// Removes the waker from the wheel. The next poll registers again.
    #[inline]
    pub(super) fn stop_waiting(&mut self) {
        if let Progress::Waits(waiter) = self.progress {
            self.timer.core().remove_waiter(waiter);
            self.progress = Progress::New;
        }
    }

    /// Returns the deadline; `None` for never.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let second = Duration::from_secs(1);
    /// assert_eq!(timer.sleep(second).deadline(), Some(clock.now() + second));
    /// assert_eq!(timer.sleep(Duration::MAX).deadline(), None);
    /// # Ok::<(), tickwheel::BuildError>(())
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        self.timer.core().clock().instant(self.at)
    }

    /// Returns `true` once the deadline, rounded up to a tick, has passed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// assert!(timer.sleep(Duration::ZERO).is_elapsed());
    /// assert!(!timer.sleep(Duration::from_secs(60)).is_elapsed());
    /// ```
    pub fn is_elapsed(&self) -> bool {
        matches!(self.progress, Progress::Elapsed) || self.timer.core().has_elapsed(self.at)
    }

    pub(super) fn at(&self) -> Nanos {
        self.at
    }

    pub(super) fn timer(&self) -> &Timer {
        &self.timer
    }

    #[inline]
    pub(super) fn poll_elapsed(&mut self, cx: &Context<'_>) -> Poll<()> {
        let (polled, nudge) = self.poll_quietly(cx.waker());
        if nudge.is_needed()
            && let Err(error) = self.timer.core().nudge(nudge)
        {
            self.stop_waiting();
            panic!("nothing can wake this future: {error}");
        }
        polled
    }

    /// Polls like [`poll_elapsed`](Self::poll_elapsed), but leaves the nudge to the caller.
    #[inline]
    fn poll_quietly(&mut self, waker: &Waker) -> (Poll<()>, Nudge) {
        loop {
            let core = self.timer.core();
            let mut nudge = Nudge::NONE;
            match &self.progress {
                Progress::Waits(waiter) if core.surely_waits(waiter, waker) => {
                    return (Poll::Pending, nudge);
                }
                Progress::Waits(waiter) => {
                    self.progress = core.update_waker(*waiter, waker);
                }
                Progress::New => {
                    nudge = core.register_waker(self.at, waker, &mut self.progress);
                }
                Progress::Elapsed => {}
            }
            match self.progress {
                Progress::Waits(_) => return (Poll::Pending, nudge),
                Progress::Elapsed => return (Poll::Ready(()), nudge),
                // The timer was stopped. The future completes on its successor.
                Progress::New => self.timer = core.successor(),
            }
        }
    }
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_elapsed(cx)
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        self.stop_waiting();
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline())
            .field("elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}
