//! Futures on a timer, for any async runtime: sleep, timeout, interval and a delay queue.
//!
//! A future that must wait leaves its waker in the timer's wheel, and the timer wakes it. It needs
//! nothing from the runtime that polls it. So the same code runs on tokio, smol, a hand-written
//! `block_on`, or on a [`ManualClock`](crate::ManualClock) in a test.
//!
//! * `sleep.rs`: waiting for a deadline; the other futures are built on it
//! * `timeout.rs`, `interval.rs`: a limit for another future; ticks at a fixed rate
//! * `delay_queue/`: a queue whose items come out when they are due
//! * `spawner.rs`: timer tasks that are futures, run by the caller's runtime
//! * `global.rs`: the same functions on the process-wide timer
//!
//! Ground rules:
//! * The timer holds a future's waker and deadline. The future holds the timer, the deadline and
//!   its key in the wheel. So every future is [`Unpin`] if the future that it wraps is, and moving
//!   or dropping one is cheap.
//! * A future that is ready at once never touches the wheel. A future that waits has one entry
//!   there, from its first poll until it is ready or dropped.
//! * Wakers are woken, cloned and dropped without a lock: they are the caller's code, which may
//!   call back.

mod block_on;
mod delay_queue;
mod global;
mod interval;
mod sleep;
mod spawner;
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
pub use spawner::{SpawnedFuture, Spawner};
pub use timeout::{Elapsed, TimeoutFuture};

use crate::Timer;
use crate::timer::{Nanos, nanos};

/// A deadline: a delay from now, or an instant. [`Duration`] and [`Instant`] convert into it.
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
    /// This long from now; [`Duration::MAX`] is never.
    After(Duration),
    /// At this instant. An instant in the past is due at once. An instant before the timer was made
    /// counts as the moment when it was made.
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

/// Futures, for any async runtime. A future costs the timer nothing until it is polled and must
/// wait.
///
/// A future keeps its timer alive, as a clone of the timer does. Futures are not tasks:
/// [`max_pending`] does not limit them, and [`stop`] does not hand them back. A future of a stopped
/// timer is still ready at its deadline and not before. If needed, a thread is started for these
/// futures, and ends with the last of them.
///
/// [`max_pending`]: crate::Builder::max_pending
/// [`stop`]: Timer::stop
impl Timer {
    /// Waits for `delay`. [`Duration::MAX`] waits for ever; zero is ready at once.
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

    /// Waits until `deadline`; an instant in the past is ready at once.
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

    /// Limits the time of a future to `limit`, counted from its first poll that is not ready.
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

    /// Limits the time of a future to end at `deadline`.
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

    /// Ticks at a fixed rate: at once, and then after each period.
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
