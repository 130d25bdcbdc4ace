//! Futures on a timer, for any async runtime: sleep, timeout, interval and a delay queue.
//!
//! A future that has to wait leaves its waker on the timer's wheel and is woken from there. It
//! needs nothing of the runtime that polls it, so the same code runs on tokio, smol, a
//! hand-written `block_on`, or on a [`ManualClock`](crate::ManualClock) in a test.
//!
//! Ground rules:
//! * What a future leaves with the timer is a waker and a deadline; what it keeps is the timer, the
//!   deadline and a place. So all of them are [`Unpin`] (as far as what they wrap is), and moving
//!   or dropping one is cheap.
//! * A future that is ready at once never touches the wheel. One that waits is there once, from
//!   its first poll until it is ready or dropped.
//! * Nobody is woken under a lock, and no waker of a caller's is cloned or dropped
//!   there: it may call back.

mod block_on;
mod delay_queue;
mod global;
mod interval;
mod sleep;
mod timeout;

use core::future::IntoFuture;
use core::time::Duration;
use std::time::Instant;

#[cfg(feature = "stream")]
pub use delay_queue::Items;
pub use delay_queue::{DelayQueue, ItemKey, KeyedItem, PushError};
pub use global::{interval, interval_at, sleep, sleep_until, timeout, timeout_at};
pub use interval::Interval;
pub use sleep::Sleep;
pub use timeout::{Elapsed, TimeoutFuture};

use crate::Timer;
use crate::timer::{Nanos, nanos};

/// When something is due: after a delay that begins now, or at an instant. Both convert into it.
///
/// ```
/// use std::time::{Duration, Instant};
/// use tickwheel::{ManualClock, Timer};
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let mut sleep = timer.sleep(Duration::from_secs(1));
/// sleep.reset(Duration::from_secs(5)); // five seconds from now
/// sleep.reset(clock.now() + Duration::from_secs(5)); // the same
/// # Ok::<(), tickwheel::BuildError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Deadline {
    /// So long from now; [`Duration::MAX`] is never.
    After(Duration),
    /// At that instant; one in the past is due at once, and one before the timer was made counts
    /// as that moment.
    At(Instant),
}

impl From<Duration> for Deadline {
    fn from(delay: Duration) -> Self {
        Self::After(delay)
    }
}

impl From<Instant> for Deadline {
    fn from(instant: Instant) -> Self {
        Self::At(instant)
    }
}

impl Deadline {
    fn on(self, timer: &Timer) -> Nanos {
        match self {
            Self::After(delay) => timer.core().clock().after(nanos(delay)),
            Self::At(instant) => timer.core().clock().at(instant),
        }
    }

    /// As `on`, where it is known what time it is.
    fn seen_at(self, now: Nanos, timer: &Timer) -> Nanos {
        match self {
            Self::After(delay) => now.saturating_add(nanos(delay)),
            Self::At(instant) => timer.core().clock().at(instant),
        }
    }
}

/// Futures. They run on any async runtime, and begin to cost the timer something when they are
/// polled and have to wait.
///
/// A future holds its timer as a clone does: the timer lives until the last of them is gone. They
/// are not tasks, so they always have a place, also where [`max_pending`] is reached, and [`stop`]
/// does not hand them back. A future that waits when its timer is stopped, or that is polled
/// later, still gets ready at its time and not before: a thread that serves what is left of them
/// starts where that is needed, and ends with the last.
///
/// [`max_pending`]: crate::Builder::max_pending
/// [`stop`]: Timer::stop
impl Timer {
    /// Waits for a while. [`Duration::MAX`] is for ever; zero is ready at once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// async fn greet(timer: &Timer) {
    ///     timer.sleep(Duration::from_millis(5)).await;
    ///     println!("hello");
    /// }
    /// # futures::executor::block_on(greet(&Timer::new()));
    /// ```
    #[inline]
    pub fn sleep(&self, delay: Duration) -> Sleep {
        Sleep::new(self.clone(), Deadline::After(delay))
    }

    /// Waits until an instant; one in the past is ready at once.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tickwheel::Timer;
    ///
    /// async fn greet(timer: &Timer) {
    ///     timer.sleep_until(Instant::now() + Duration::from_millis(5)).await;
    ///     println!("hello");
    /// }
    /// # futures::executor::block_on(greet(&Timer::new()));
    /// ```
    #[inline]
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::new(self.clone(), Deadline::At(deadline))
    }

    /// Gives a future so much time to get ready, counted from when it is first polled and has to
    /// wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Elapsed, Timer};
    ///
    /// async fn patient(timer: &Timer) -> Result<u32, Elapsed> {
    ///     timer.timeout(Duration::from_millis(5), std::future::pending::<u32>()).await
    /// }
    /// # assert!(futures::executor::block_on(patient(&Timer::new())).is_err());
    /// ```
    #[inline]
    pub fn timeout<F: IntoFuture>(
        &self,
        limit: Duration,
        future: F,
    ) -> TimeoutFuture<F::IntoFuture> {
        TimeoutFuture::after(self.clone(), limit, future.into_future())
    }

    /// Gives a future until an instant to get ready.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tickwheel::{Elapsed, Timer};
    ///
    /// async fn quick(timer: &Timer) -> Result<u32, Elapsed> {
    ///     timer.timeout_at(Instant::now() + Duration::from_secs(5), async { 42 }).await
    /// }
    /// # assert_eq!(futures::executor::block_on(quick(&Timer::new())), Ok(42));
    /// ```
    #[inline]
    pub fn timeout_at<F: IntoFuture>(
        &self,
        deadline: Instant,
        future: F,
    ) -> TimeoutFuture<F::IntoFuture> {
        TimeoutFuture::at(self.sleep_until(deadline), future.into_future())
    }

    /// Ticks again and again, at a fixed rate: at once, and then after each period.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{MissedTicks, Timer};
    ///
    /// async fn beat(timer: &Timer) {
    ///     let mut ticks = timer.interval(Duration::from_millis(5)).missed(MissedTicks::Delay);
    ///     for _ in 0..3 {
    ///         ticks.tick().await;
    ///         println!("still here");
    ///     }
    /// }
    /// # futures::executor::block_on(beat(&Timer::new()));
    /// ```
    ///
    /// # Panics
    ///
    /// If the period is zero.
    #[track_caller]
    pub fn interval(&self, period: Duration) -> Interval {
        Interval::new(Sleep::new(self.clone(), Deadline::After(Duration::ZERO)), period)
    }

    /// As [`interval`](Self::interval), with the first tick at an instant.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let start = clock.now() + Duration::from_secs(1);
    /// let mut ticks = timer.interval_at(start, Duration::from_secs(5));
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(futures::executor::block_on(ticks.tick()), start);
    /// # Ok::<(), tickwheel::BuildError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the period is zero.
    #[track_caller]
    pub fn interval_at(&self, start: Instant, period: Duration) -> Interval {
        Interval::new(self.sleep_until(start), period)
    }
}
