//! A limit for the time of another future.
//!
//! Ground rule of the `unsafe` code: `future` is structurally pinned. Once the [`TimeoutFuture`] is
//! pinned, nothing moves it: there is no destructor that could, and the methods that hand it out by
//! value or by `&mut` need a `TimeoutFuture` that is not pinned, or is `Unpin`.
//!
//! The safe alternative is an `async` block, which reserves space for the inner future twice. With
//! it, a timeout took 2080 bytes around a future of 1025, and 4192 where two were nested. This type
//! takes 64 bytes more than the future.
#![allow(unsafe_code)]

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::future::Future;
use std::io;
use std::time::Instant;

use super::Sleep;
use crate::Timer;

/// A future that gives up at its deadline: made by [`Timer::timeout`](crate::Timer::timeout) and
/// [`Timer::timeout_at`](crate::Timer::timeout_at).
///
/// The inner future is polled first, so if it is ready it wins, also after the deadline. With
/// `timeout`, the time begins with the first poll that finds the inner future not ready. So the time
/// that a task spends in a run queue before that does not count, and a future that is ready at once
/// costs almost nothing. With `timeout_at` the deadline is fixed.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{ManualClock, Timer};
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let ready = timer.timeout(Duration::from_secs(1), async { "in time" });
/// let never = timer.timeout_at(clock.now() + Duration::from_secs(1), std::future::pending::<()>());
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(futures::executor::block_on(ready), Ok("in time"));
/// assert!(futures::executor::block_on(never).is_err());
/// # Ok::<(), tickwheel::BuildError>(())
/// ```
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct TimeoutFuture<F> {
    sleep: Sleep,
    /// Whether the time has begun. The clock is read only then: for a future that is ready at once,
    /// reading it would be most of the cost.
    runs: bool,
    future: F,
}

impl<F> TimeoutFuture<F> {
    #[inline]
    pub(super) fn after(timer: Timer, limit: Duration, future: F) -> Self {
        Self { sleep: Sleep::later(timer, limit), runs: false, future }
    }

    #[inline]
    pub(super) fn at(sleep: Sleep, future: F) -> Self {
        Self { sleep, runs: true, future }
    }

    /// Returns the deadline; `None` for never, or if the time has not begun.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// let soon = Instant::now() + Duration::from_secs(1);
    /// assert_eq!(timer.timeout_at(soon, async {}).deadline(), Some(soon));
    /// assert_eq!(timer.timeout(Duration::from_secs(1), async {}).deadline(), None);
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        if self.runs { self.sleep.deadline() } else { None }
    }

    /// Returns the inner future.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let limited = Timer::new().timeout(Duration::from_secs(1), std::future::ready(7));
    /// println!("{:?}", limited.get_ref());
    /// ```
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// Returns the inner future for changes.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let mut limited = Timer::new().timeout(Duration::from_secs(1), std::future::ready(7));
    /// *limited.get_mut() = std::future::ready(8);
    /// assert_eq!(futures::executor::block_on(limited), Ok(8));
    /// ```
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// Removes the limit, and returns the inner future.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let limited = Timer::new().timeout(Duration::from_secs(1), async { 7 });
    /// assert_eq!(futures::executor::block_on(limited.into_inner()), 7);
    /// ```
    pub fn into_inner(self) -> F {
        self.future
    }

    #[inline]
    fn project(self: Pin<&mut Self>) -> (&mut Sleep, &mut bool, Pin<&mut F>) {
        // SAFETY: nothing is moved out of `self` here.
        let Self { sleep, runs, future } = unsafe { self.get_unchecked_mut() };
        // SAFETY: `future` is structurally pinned: see the ground rule.
        (sleep, runs, unsafe { Pin::new_unchecked(future) })
    }
}

impl<F: Future> Future for TimeoutFuture<F> {
    type Output = Result<F::Output, Elapsed>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (sleep, runs, future) = self.project();
        if let Poll::Ready(output) = future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        if !core::mem::replace(runs, true) {
            sleep.begin();
        }
        sleep.poll_elapsed(cx).map(|()| Err(Elapsed(())))
    }
}

/// The error of a [`TimeoutFuture`]: its deadline passed before the future was ready.
///
/// ```
/// use std::io;
/// use std::time::Duration;
/// use tickwheel::Timer;
///
/// async fn read(timer: &Timer) -> io::Result<()> {
///     let answer = std::future::pending::<io::Result<()>>();
///     timer.timeout(Duration::from_millis(1), answer).await? // `?` converts it to an `io::Error`
/// }
///
/// let error = futures::executor::block_on(read(&Timer::new())).unwrap_err();
/// assert_eq!(error.kind(), io::ErrorKind::TimedOut);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the deadline passed before the future was ready")
    }
}

impl core::error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(io::ErrorKind::TimedOut, elapsed)
    }
}
