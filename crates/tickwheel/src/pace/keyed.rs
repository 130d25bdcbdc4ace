//! A pacer with a rate for each key.

use core::fmt;
use core::hash::Hash;
use core::time::Duration;
use std::boxed::Box;
use std::sync::Arc;
use std::vec::Vec;

use super::engine::{AnyEngine, Engine};
use super::limit::Rate;
use super::queue::Stage;
use super::{
    Acquire, Attempt, Builder, PaceError, PacerStats, Permit, RateError, Ticket, Unstarted,
};
use crate::Timer;
use crate::timer::{Job, nanos};

/// What a [`KeyedPacer`] accepts as a key: any type that a hash map accepts, and that can be cloned
/// and sent to another thread.
///
/// ```
/// use std::sync::Arc;
/// use tickwheel::pace::PaceKey;
///
/// fn is_key<K: PaceKey>() {}
/// is_key::<u64>();
/// is_key::<Arc<str>>();
/// is_key::<(u32, String)>();
/// ```
pub trait PaceKey: Eq + Hash + Clone + Send + 'static {}

impl<K: Eq + Hash + Clone + Send + 'static> PaceKey for K {}

/// Starts tasks at a limited rate for each key: one limit per customer, partner or host.
///
/// Every key has its own queue and its own window, as if it had a [`Pacer`](super::Pacer) of its
/// own. A key uses memory from its first task until its window has passed without another. The
/// number of keys does not change the cost of one. Keys that have tasks to start are served in
/// turn.
///
/// It is cheap to clone; clones are the same pacer. Dropping the last clone stops it and drops the
/// tasks that have not started.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::pace::KeyedPacer;
/// use tickwheel::{ManualClock, Timer};
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let pacer: KeyedPacer<&str> = KeyedPacer::new(&timer, 2, Duration::from_secs(1));
/// for _ in 0..5 {
///     pacer.key("acme").submit(|| {})?;
///     pacer.key("umbrella").submit(|| {})?;
/// }
/// pacer.key("acme").retry_after(Duration::from_secs(60)); // as their server demands
/// clock.advance(Duration::from_secs(2));
/// assert_eq!(pacer.key("acme").queued(), 5);
/// assert_eq!(pacer.key("umbrella").queued(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyedPacer<K: PaceKey> {
    owner: Arc<Owner<K>>,
}

/// Held by all clones of a pacer, and not by its tickets or its alarm: dropped with the last clone.
struct Owner<K: PaceKey> {
    engine: Arc<Engine<K>>,
    smooth: bool,
    /// Keeps the timer running.
    _timer: Timer,
}

impl<K: PaceKey> Drop for Owner<K> {
    fn drop(&mut self) {
        for unstarted in self.engine.stop() {
            unstarted.discard();
        }
    }
}

impl<K: PaceKey> KeyedPacer<K> {
    /// Makes a pacer with at most `starts` starts for each key in any window of length `window`.
    /// [`Pacer::builder`](super::Pacer::builder) and [`build_keyed`](Builder::build_keyed)
    /// configure one that differs from the defaults.
    ///
    /// # Panics
    ///
    /// If `starts` or `window` is zero. The builder returns an error instead.
    #[track_caller]
    pub fn new(timer: &Timer, starts: usize, window: Duration) -> Self {
        match Builder::new(timer, starts, window).build_keyed() {
            Ok(pacer) => pacer,
            Err(error) => panic!("{error}"),
        }
    }

    pub(super) fn of(engine: Arc<Engine<K>>, timer: Timer, smooth: bool) -> Self {
        Self { owner: Arc::new(Owner { engine, smooth, _timer: timer }) }
    }

    fn engine(&self) -> &Arc<Engine<K>> {
        &self.owner.engine
    }

    /// Returns the pacer of one key.
    pub fn key(&self, key: K) -> KeyPacer<'_, K> {
        KeyPacer { engine: self.engine(), key, smooth: self.owner.smooth }
    }

    /// Lets nothing start for any key until [`resume`](Self::resume). Tasks can be submitted, and
    /// running tasks continue.
    pub fn pause(&self) {
        self.engine().set_paused(true);
    }

    /// Lets tasks start again after [`pause`](Self::pause), except for keys that are
    /// [paused themselves](KeyPacer::pause).
    pub fn resume(&self) {
        self.engine().set_paused(false);
    }

    /// Changes the rate of all keys that have none of their own, as
    /// [`Pacer::set_rate`](super::Pacer::set_rate) does. Takes time in proportion to the number of
    /// keys in use.
    ///
    /// # Errors
    ///
    /// If `starts` or `window` is zero. The rate stays as it was.
    pub fn set_rate(&self, starts: usize, window: Duration) -> Result<(), RateError> {
        self.engine().set_rate(Rate::new(starts, window, self.owner.smooth)?);
        Ok(())
    }

    /// Returns what the pacer has done so far, and how many keys use memory now.
    pub fn stats(&self) -> PacerStats {
        self.engine().stats()
    }

    /// Returns how many bytes the pacer has allocated. Takes time in proportion to the number of
    /// keys in use.
    pub fn memory_usage(&self) -> usize {
        self.engine().memory_usage()
    }

    /// Stops the pacer, and returns every task that has not started: key by key, and for each key
    /// in the order in which they would have started. Running tasks continue; waiting futures get
    /// an error. A second call returns nothing.
    pub fn stop(&self) -> Vec<Unstarted<K>> {
        self.engine().stop()
    }

    /// Accepts no more tasks, waits up to `limit` until the queued ones have started and ended,
    /// then stops, as [`Pacer::drain`](super::Pacer::drain) does.
    pub fn drain(&self, limit: Duration) -> Vec<Unstarted<K>> {
        self.engine().drain(limit)
    }
}

impl<K: PaceKey> Clone for KeyedPacer<K> {
    fn clone(&self) -> Self {
        Self { owner: Arc::clone(&self.owner) }
    }
}

impl<K: PaceKey> fmt::Debug for KeyedPacer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedPacer").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// The pacer of one key: made by [`KeyedPacer::key`].
///
/// Its methods do what those of [`Pacer`](super::Pacer) do, for this key alone.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
/// use tickwheel::pace::KeyedPacer;
///
/// let timer = Timer::new();
/// let pacer: KeyedPacer<&str> = KeyedPacer::new(&timer, 100, Duration::from_secs(1));
/// pacer.key("acme").set_rate(5, Duration::from_secs(1))?; // their server is slow
/// let ticket = pacer.key("acme").submit(|| println!("tell acme"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a key alone does nothing"]
pub struct KeyPacer<'a, K: PaceKey> {
    engine: &'a Arc<Engine<K>>,
    key: K,
    smooth: bool,
}

impl<K: PaceKey> KeyPacer<'_, K> {
    /// Queues a task with priority 0.
    ///
    /// # Errors
    ///
    /// If the queue is full, or the pacer or its timer is draining or stopped. The task is dropped.
    pub fn submit(self, task: impl FnOnce() + Send + 'static) -> Result<Ticket, PaceError> {
        self.submit_with(0, task)
    }

    /// Queues a task ahead of all tasks of this key with a lower priority.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
    #[inline]
    pub fn submit_with(
        self,
        priority: i8,
        task: impl FnOnce() + Send + 'static,
    ) -> Result<Ticket, PaceError> {
        self.enqueue(priority, Stage::Call(Job::new(task)))
    }

    /// Queues a task that may ask for another attempt, as
    /// [`Pacer::submit_attempts`](super::Pacer::submit_attempts) does. A refused call delays this
    /// key only.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
    pub fn submit_attempts(
        self,
        task: impl FnMut() -> Attempt + Send + 'static,
    ) -> Result<Ticket, PaceError> {
        self.submit_attempts_with(0, task)
    }

    /// As [`submit_attempts`](Self::submit_attempts), ahead of all tasks of this key with a lower
    /// priority.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
    pub fn submit_attempts_with(
        self,
        priority: i8,
        task: impl FnMut() -> Attempt + Send + 'static,
    ) -> Result<Ticket, PaceError> {
        self.enqueue(priority, Stage::Attempts(Box::new(task)))
    }

    #[inline]
    fn enqueue(self, priority: i8, task: Stage) -> Result<Ticket, PaceError> {
        let task = self.engine.submit(self.key, priority, task)?;
        Ok(Ticket::new(Arc::clone(self.engine) as Arc<dyn AnyEngine>, task))
    }

    /// Returns a permit if a start is allowed now and nothing waits for one.
    ///
    /// # Errors
    ///
    /// As [`Pacer::try_acquire`](super::Pacer::try_acquire).
    #[inline]
    pub fn try_acquire(self) -> Result<Permit, PaceError> {
        self.engine.try_acquire(self.key)
    }

    /// Waits in the queue for a permit, with priority 0.
    pub fn acquire(self) -> Acquire<K> {
        self.acquire_with(0)
    }

    /// Waits in the queue for a permit, ahead of all tasks of this key with a lower priority.
    pub fn acquire_with(self, priority: i8) -> Acquire<K> {
        Acquire::new(Arc::clone(self.engine), self.key, priority)
    }

    /// Lets nothing start for this key until [`resume`](Self::resume). The key uses memory until
    /// then.
    pub fn pause(self) {
        self.engine.change(self.key, |lanes, lane, now| {
            lanes.change(lane, now, |lane| lane.set_paused(true));
        });
    }

    /// Lets tasks of this key start again after [`pause`](Self::pause).
    pub fn resume(self) {
        self.engine.change(self.key, |lanes, lane, now| {
            lanes.change(lane, now, |lane| lane.set_paused(false));
        });
    }

    /// Lets nothing start for this key until `delay` has passed. Of several calls the one that
    /// ends last counts.
    pub fn retry_after(self, delay: Duration) {
        self.engine.change(self.key, |lanes, lane, now| {
            let until = now.get().saturating_add(nanos(delay));
            lanes.change(lane, now, |lane| lane.hold_until(until));
        });
    }

    /// Gives this key a rate of its own. The key uses memory until
    /// [`reset_rate`](Self::reset_rate).
    ///
    /// # Errors
    ///
    /// If `starts` or `window` is zero. The rate stays as it was.
    pub fn set_rate(self, starts: usize, window: Duration) -> Result<(), RateError> {
        let rate = Rate::new(starts, window, self.smooth)?;
        self.engine.change(self.key, |lanes, lane, now| lanes.set_rate_of(lane, Some(rate), now));
        Ok(())
    }

    /// Gives this key the common rate again.
    pub fn reset_rate(self) {
        self.engine.change(self.key, |lanes, lane, now| lanes.set_rate_of(lane, None, now));
    }

    /// Returns the exact number of queued tasks of this key, waiting futures included.
    pub fn queued(&self) -> usize {
        self.engine.queued(&self.key)
    }
}

impl<K: PaceKey + fmt::Debug> fmt::Debug for KeyPacer<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPacer")
            .field("key", &self.key)
            .field("queued", &self.queued())
            .finish_non_exhaustive()
    }
}
