//! Ticks at a fixed rate.

use core::fmt;
use core::task::{Context, Poll};
use core::time::Duration;
use std::future::poll_fn;
use std::time::Instant;

use super::{Deadline, Sleep};
use crate::MissedTicks;
use crate::timer::{Nanos, nanos};

/// Ticks at a fixed rate: made by [`Timer::interval`](crate::Timer::interval) and
/// [`Timer::interval_at`](crate::Timer::interval_at).
///
/// It does not drift: ticks are due at multiples of the period after the first one, however late
/// they are awaited. A tick that is not awaited in time is *missed*. Missed ticks are skipped by
/// default; [`missed`](Self::missed) changes that.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{ManualClock, Timer};
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let start = clock.now();
/// let mut ticks = timer.interval(Duration::from_secs(1));
/// futures::executor::block_on(async {
///     assert_eq!(ticks.tick().await, start);
///     clock.advance(Duration::from_millis(2_500));
///     assert_eq!(ticks.tick().await, start + Duration::from_secs(1)); // late
///     clock.advance(Duration::from_millis(500));
///     assert_eq!(ticks.tick().await, start + Duration::from_secs(3)); // the one at 2 s is skipped
/// });
/// # Ok::<(), tickwheel::BuildError>(())
/// ```
pub struct Interval {
    sleep: Sleep,
    period: Nanos,
    missed: MissedTicks,
}

impl Interval {
    #[track_caller]
    pub(super) fn new(first: Sleep, period: Duration) -> Self {
        assert!(!period.is_zero(), "period must be greater than zero");
        Self { sleep: first, period: nanos(period), missed: MissedTicks::default() }
    }

    /// Sets the policy for missed ticks. Defaults to [`MissedTicks::Skip`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, MissedTicks, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let start = clock.now();
    /// let mut ticks = timer.interval(Duration::from_secs(1)).missed(MissedTicks::Burst);
    /// clock.advance(Duration::from_secs(2));
    /// futures::executor::block_on(async {
    ///     for second in 0..=2 {
    ///         assert_eq!(ticks.tick().await, start + Duration::from_secs(second));
    ///     }
    /// });
    /// # Ok::<(), tickwheel::BuildError>(())
    /// ```
    #[must_use = "returns the changed interval"]
    pub fn missed(mut self, missed: MissedTicks) -> Self {
        self.missed = missed;
        self
    }

    /// Waits for the next tick, and returns when it was due. Dropping the future before it is ready
    /// loses no tick.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # futures::executor::block_on(async {
    /// let mut ticks = tickwheel::interval(Duration::from_millis(2));
    /// let first = ticks.tick().await;
    /// assert!(ticks.tick().await > first);
    /// # });
    /// ```
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick, for a future that is written by hand.
    ///
    /// ```
    /// use std::task::{Context, Waker};
    /// use std::time::Duration;
    ///
    /// let mut ticks = tickwheel::interval(Duration::from_secs(60));
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert!(ticks.poll_tick(&mut cx).is_ready());
    /// assert!(ticks.poll_tick(&mut cx).is_pending());
    /// ```
    #[allow(clippy::missing_panics_doc, reason = "what has come is not never")]
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        self.sleep.poll_elapsed(cx).map(|()| {
            let due_at = self.sleep.at();
            let clock = &self.sleep.timer().core().clock();
            let tick = clock.instant(due_at).expect("a deadline that has come is an instant");
            let now = clock.now();
            self.sleep.next(self.missed.next(due_at, self.period, now), now);
            tick
        })
    }

    /// Moves the next tick to a delay from now or to an instant. The later ticks follow it at the
    /// same period.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let mut ticks = timer.interval(Duration::from_secs(10));
    /// ticks.reset(Duration::from_secs(3));
    /// clock.advance(Duration::from_secs(3));
    /// let first = clock.now();
    /// assert_eq!(futures::executor::block_on(ticks.tick()), first);
    /// clock.advance(Duration::from_secs(10));
    /// assert_eq!(futures::executor::block_on(ticks.tick()), first + Duration::from_secs(10));
    /// # Ok::<(), tickwheel::BuildError>(())
    /// ```
    pub fn reset(&mut self, deadline: impl Into<Deadline>) {
        self.sleep.reset(deadline);
    }

    /// Returns the time between two ticks.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let second = Duration::from_secs(1);
    /// assert_eq!(tickwheel::interval(second).period(), second);
    /// ```
    pub fn period(&self) -> Duration {
        match self.period {
            Nanos::MAX => Duration::MAX,
            period => Duration::from_nanos(period),
        }
    }
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("next", &self.sleep.deadline())
            .field("period", &self.period())
            .field("missed", &self.missed)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "stream")]
impl futures_core::Stream for Interval {
    type Item = Instant;

    fn poll_next(
        mut self: core::pin::Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Instant>> {
        self.poll_tick(cx).map(Some)
    }
}
