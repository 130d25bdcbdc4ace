//! How a pacer is set up.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use super::keyed::KeyedPacer;
use super::limit::Rate;
use super::shared::Shared;
use super::state::Bounds;
use super::{PaceKey, Pacer, RateError};
use crate::Timer;
use crate::timer::{Host, Nanos};

/// So many tasks may wait for one key, unless told otherwise: enough for any burst that is meant,
/// and an end to those that are not.
const DEFAULT_MAX_QUEUED: usize = 1_000_000;

/// So many tasks have a number.
const MOST_QUEUED: usize = (u32::MAX / 2) as usize;

/// So long a task that may start now can wait for the next tick, to spare the timer a wake-up; no
/// tick that is longer is waited for.
const MOST_DEFERRED: Nanos = 1_000_000;

/// Sets a pacer up: made by [`Pacer::builder`].
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
/// use tickwheel::pace::Pacer;
///
/// let timer = Timer::new();
/// let pacer = Pacer::builder(&timer, 100, Duration::from_secs(1))
///     .smooth() // one every 10 ms
///     .max_queued(10_000)
///     .max_running(8)
///     .build()?;
/// # Ok::<(), tickwheel::pace::RateError>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
#[derive(Clone)]
pub struct Builder {
    timer: Timer,
    starts: usize,
    window: Duration,
    smooth: bool,
    max_queued: usize,
    max_queued_total: usize,
    max_running: usize,
}

impl Builder {
    pub(super) fn new(timer: &Timer, starts: usize, window: Duration) -> Self {
        Self {
            timer: timer.clone(),
            starts,
            window,
            smooth: false,
            max_queued: DEFAULT_MAX_QUEUED,
            max_queued_total: 0,
            max_running: 0,
        }
    }

    /// Spreads starts evenly: there is at least the N-th part of the window from each to the next.
    /// Without this they come in bursts: as many at once as the window allows.
    ///
    /// A start waits for a tick of the timer, and the gap counts from when it really began. So if
    /// gaps are to be short, let the ticks be much shorter.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = Pacer::builder(&timer, 100, Duration::from_secs(1)).smooth().build()?;
    /// for _ in 0..100 {
    ///     pacer.submit(|| {})?;
    /// }
    /// clock.advance(Duration::from_millis(95));
    /// assert_eq!(pacer.stats().started, 10); // at 0, 10, 20, ... 90 ms
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn smooth(mut self) -> Self {
        self.smooth = true;
        self
    }

    /// How many tasks may wait for one key: a million unless said here; no limit if 0.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::{PaceError, Pacer};
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let pacer = Pacer::builder(&timer, 100, Duration::from_secs(1)).max_queued(2).build()?;
    /// pacer.submit(|| {})?;
    /// pacer.submit(|| {})?;
    /// assert_eq!(pacer.submit(|| {}).unwrap_err(), PaceError::Full { limit: 2, queued: 2 });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_queued(mut self, limit: usize) -> Self {
        self.max_queued = limit;
        self
    }

    /// How many tasks may wait for all keys together; no limit if 0, or not said.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::{PaceError, Pacer};
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let builder = Pacer::builder(&timer, 100, Duration::from_secs(1)).max_queued_total(2);
    /// let pacer = builder.build_keyed()?;
    /// pacer.key("acme").submit(|| {})?;
    /// pacer.key("umbrella").submit(|| {})?;
    /// let error = pacer.key("initech").submit(|| {}).unwrap_err();
    /// assert_eq!(error, PaceError::TotalFull { limit: 2, queued: 2 });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_queued_total(mut self, limit: usize) -> Self {
        self.max_queued_total = limit;
        self
    }

    /// How many tasks of one key may run at once; no limit if 0, or not said. A start takes one of
    /// these places until the task has ended, also by a panic, or its permit was dropped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = Pacer::builder(&timer, 100, Duration::from_secs(1)).max_running(1).build()?;
    /// let permit = pacer.try_acquire()?;
    /// let ticket = pacer.submit(|| {})?;
    /// clock.advance(Duration::from_secs(60));
    /// assert!(ticket.is_queued()); // the rate allows it, but one is at work
    /// drop(permit);
    /// clock.advance(Duration::ZERO);
    /// assert!(ticket.is_started());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_running(mut self, limit: usize) -> Self {
        self.max_running = limit;
        self
    }

    /// Builds a pacer.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::{Pacer, RateError};
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// assert!(Pacer::builder(&timer, 100, Duration::from_secs(1)).build().is_ok());
    /// let error = Pacer::builder(&timer, 100, Duration::ZERO).build().unwrap_err();
    /// assert_eq!(error, RateError::ZeroWindow { starts: 100 });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the rate is not possible; the error says why.
    pub fn build(self) -> Result<Pacer, RateError> {
        let (timer, smooth) = (self.timer.clone(), self.smooth);
        Ok(Pacer::of(self.shared()?, timer, smooth))
    }

    /// Builds a pacer that gives each key a rate of its own.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    /// use tickwheel::pace::{KeyedPacer, Pacer};
    ///
    /// let timer = Timer::new();
    /// let pacer: KeyedPacer<u64> = Pacer::builder(&timer, 100, Duration::from_secs(1))
    ///     .max_queued(1_000)
    ///     .max_queued_total(1_000_000)
    ///     .build_keyed()?;
    /// # Ok::<(), tickwheel::pace::RateError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn build_keyed<K: PaceKey>(self) -> Result<KeyedPacer<K>, RateError> {
        let (timer, smooth) = (self.timer.clone(), self.smooth);
        Ok(KeyedPacer::of(self.shared()?, timer, smooth))
    }

    fn shared<K: PaceKey>(&self) -> Result<Arc<Shared<K>>, RateError> {
        let rate = Rate::new(self.starts, self.window, self.smooth)?;
        let host = Host::of(&self.timer);
        let limit = |limit: usize, none: usize| if limit == 0 { none } else { limit };
        let bounds = Bounds {
            max_queued: limit(self.max_queued, usize::MAX),
            max_queued_total: limit(self.max_queued_total, MOST_QUEUED).min(MOST_QUEUED),
            max_running: limit(self.max_running, usize::MAX),
            tick: host.tick(),
            spares_wakes: host.has_threads() && host.tick() <= MOST_DEFERRED,
        };
        Ok(Shared::new(host, rate, bounds))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("starts", &self.starts)
            .field("window", &self.window)
            .field("smooth", &self.smooth)
            .field("max_queued", &self.max_queued)
            .field("max_queued_total", &self.max_queued_total)
            .field("max_running", &self.max_running)
            .finish_non_exhaustive()
    }
}
