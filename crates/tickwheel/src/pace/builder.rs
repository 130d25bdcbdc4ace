//! The configuration of a pacer.

use core::fmt;
use core::time::Duration;

use super::engine::Engine;
use super::limit::Rate;
use super::{KeyedPacer, PaceKey, Pacer, RateError};
use crate::Timer;
use crate::timer::{Host, Nanos};

/// The default limit on queued tasks per key: enough for any burst that is meant, and an end to one
/// that is not.
const DEFAULT_MAX_QUEUED: usize = 1_000_000;

/// Task indices are `u32`; this caps all queues together.
const MAX_QUEUED_TOTAL: usize = (u32::MAX / 2) as usize;

/// The longest tick for which a ready task may wait to spare the timer a wake-up.
const MAX_DEFERRAL: Nanos = 1_000_000;

/// Configures a pacer: made by [`Pacer::builder`].
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
/// use tickwheel::pace::{KeyedPacer, Pacer};
///
/// let timer = Timer::new();
/// let pacer = Pacer::builder(&timer, 100, Duration::from_secs(1))
///     .smooth() // one every 10 ms
///     .max_queued(10_000)
///     .max_running(8)
///     .build()?;
/// let customers: KeyedPacer<u64> = Pacer::builder(&timer, 5, Duration::from_secs(1))
///     .max_queued_total(1_000_000)
///     .build_keyed()?;
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

/// The limits of a pacer, and what it knows of its timer; constant through its life.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) max_queued: usize,
    pub(super) max_queued_total: usize,
    pub(super) max_running: usize,
    /// Nanoseconds in a tick of the timer.
    pub(super) tick: Nanos,
    /// Whether a ready task may wait for the next tick where that spares the timer a wake-up: the
    /// timer has threads, which cost something to wake, and short ticks.
    pub(super) spares_wakes: bool,
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

    /// Spreads starts evenly: two starts are at least `window / starts` apart. By default starts
    /// come in bursts: as many at once as the window allows.
    ///
    /// A start waits for a tick of the timer, and the gap counts from when it really began. So
    /// short gaps need ticks that are much shorter.
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

    /// Limits how many tasks of one key may be queued. Defaults to 1,000,000; 0 means no limit.
    pub fn max_queued(mut self, limit: usize) -> Self {
        self.max_queued = limit;
        self
    }

    /// Limits how many tasks of all keys together may be queued. Defaults to 0: no limit.
    pub fn max_queued_total(mut self, limit: usize) -> Self {
        self.max_queued_total = limit;
        self
    }

    /// Limits how many tasks of one key may run at once. Defaults to 0: no limit. A task takes a
    /// place until it has ended, also by a panic; a permit until it is dropped.
    pub fn max_running(mut self, limit: usize) -> Self {
        self.max_running = limit;
        self
    }

    /// Builds a pacer.
    ///
    /// # Errors
    ///
    /// If the number of starts or the window is zero.
    pub fn build(self) -> Result<Pacer, RateError> {
        self.build_keyed().map(Pacer::of)
    }

    /// Builds a pacer that gives each key a rate of its own.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn build_keyed<K: PaceKey>(self) -> Result<KeyedPacer<K>, RateError> {
        let rate = Rate::new(self.starts, self.window, self.smooth)?;
        let host = Host::of(&self.timer);
        let limit = |limit: usize, none: usize| if limit == 0 { none } else { limit };
        let bounds = Bounds {
            max_queued: limit(self.max_queued, usize::MAX),
            max_queued_total: limit(self.max_queued_total, MAX_QUEUED_TOTAL).min(MAX_QUEUED_TOTAL),
            max_running: limit(self.max_running, usize::MAX),
            tick: host.tick(),
            spares_wakes: host.has_threads() && host.tick() <= MAX_DEFERRAL,
        };
        Ok(KeyedPacer::of(Engine::new(host, rate, bounds), self.timer, self.smooth))
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
