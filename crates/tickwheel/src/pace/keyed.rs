//! A pacer with a rate for each key.

use core::fmt;
use core::hash::Hash;
use core::time::Duration;
use std::sync::Arc;
use std::vec::Vec;

#[cfg(feature = "async")]
use super::Acquire;
use super::limit::Rate;
use super::queue::Work;
use super::shared::{Desk, Shared};
use super::{Builder, Owner, PaceError, PacerStats, Permit, RateError, Ticket, Unstarted};
use crate::Timer;
use crate::timer::{Job, nanos};

/// What a [`KeyedPacer`] takes for a key: anything that a hash map does, and that can be cloned
/// and sent between threads.
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

/// Starts tasks at a limited rate for each key: one limit a customer, a partner, a host.
///
/// Every key has a queue and a window of its own, and is as if it had a [`Pacer`](super::Pacer) of
/// its own. A key costs memory from its first task until its window has passed without another;
/// how many keys there are makes no difference to what one costs. Keys that have tasks to start are
/// served in turns.
///
/// It is cheap to clone; clones are the same pacer. Dropping the last one stops it and drops what
/// has not started.
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
/// pacer.key("acme").retry_after(Duration::from_secs(60)); // said their server
/// clock.advance(Duration::from_secs(2));
/// assert_eq!(pacer.key("acme").queued(), 5);
/// assert_eq!(pacer.key("umbrella").queued(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyedPacer<K: PaceKey> {
    owner: Arc<Owner<K>>,
}

impl<K: PaceKey> KeyedPacer<K> {
    /// At most so many starts for a key in any window of that length. To set it up differently, begin
    /// with [`Pacer::builder`](super::Pacer::builder) and end with
    /// [`build_keyed`](Builder::build_keyed).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// assert!(pacer.key("acme").try_acquire().is_ok());
    /// assert!(pacer.key("acme").try_acquire().is_err());
    /// assert!(pacer.key("umbrella").try_acquire().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If there are to be no starts, or the window has no length.
    /// [`Pacer::builder`](super::Pacer::builder) says so with an error.
    pub fn new(timer: &Timer, starts: usize, window: Duration) -> Self {
        match Builder::new(timer, starts, window).build_keyed() {
            Ok(pacer) => pacer,
            Err(error) => panic!("{error}"),
        }
    }

    pub(super) fn of(shared: Arc<Shared<K>>, timer: Timer, smooth: bool) -> Self {
        Self { owner: Arc::new(Owner { shared, smooth, _timer: timer }) }
    }

    fn shared(&self) -> &Arc<Shared<K>> {
        &self.owner.shared
    }

    /// The pacer of one key.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// let acme = pacer.key("acme").submit(|| {})?;
    /// let umbrella = pacer.key("umbrella").submit(|| {})?;
    /// // each is first in its own line
    /// assert_eq!((acme.position(), umbrella.position()), (Some(0), Some(0)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn key(&self, key: K) -> KeyPacer<'_, K> {
        KeyPacer { shared: self.shared(), key, smooth: self.owner.smooth }
    }

    /// Lets nothing start until [`resume`](Self::resume), for no key. Tasks can be submitted, and
    /// what runs goes on.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// pacer.pause();
    /// let ticket = pacer.key("acme").submit(|| {})?;
    /// clock.advance(Duration::from_secs(60));
    /// assert!(ticket.is_queued());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pause(&self) {
        self.shared().set_paused(true);
    }

    /// Lets tasks start again after [`pause`](Self::pause); except for keys that were paused by
    /// themselves.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// pacer.pause();
    /// pacer.key("acme").pause();
    /// pacer.resume();
    /// assert!(pacer.key("acme").try_acquire().is_err()); // paused by itself
    /// assert!(pacer.key("umbrella").try_acquire().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resume(&self) {
        self.shared().set_paused(false);
    }

    /// Changes the rate of all keys, except for those that were given their own. See
    /// [`Pacer::set_rate`](super::Pacer::set_rate) for what counts. It looks at every key that is
    /// in use.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// pacer.key("acme").set_rate(1, Duration::from_secs(1))?;
    /// pacer.set_rate(2, Duration::from_secs(1))?;
    /// for key in ["acme", "acme", "umbrella", "umbrella"] {
    ///     pacer.key(key).submit(|| {})?;
    /// }
    /// clock.advance(Duration::ZERO);
    /// assert_eq!((pacer.key("acme").queued(), pacer.key("umbrella").queued()), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the rate is not possible; it stays as it was.
    pub fn set_rate(&self, starts: usize, window: Duration) -> Result<(), RateError> {
        self.shared().set_rate(Rate::new(starts, window, self.owner.smooth)?);
        Ok(())
    }

    /// What the pacer has done so far, and how many keys cost memory now.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// pacer.key("acme").submit(|| {})?;
    /// pacer.key("umbrella").submit(|| {})?;
    /// clock.advance(Duration::ZERO);
    /// assert_eq!((pacer.stats().started, pacer.stats().keys), (2, 2));
    /// clock.advance(Duration::from_secs(2));
    /// assert_eq!((pacer.stats().started, pacer.stats().keys), (2, 0)); // idle keys are forgotten
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> PacerStats {
        self.shared().stats()
    }

    /// How many bytes the pacer has allocated. It looks at every key that is in use.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// let empty = pacer.memory_usage();
    /// for customer in 0..1_000 {
    ///     pacer.key(customer).submit(|| {})?;
    /// }
    /// assert!(pacer.memory_usage() > empty);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory_usage(&self) -> usize {
        self.shared().memory_usage()
    }

    /// Stops the pacer and gives back every task that has not started: by key, and for each in the
    /// order in which they would have started. What runs goes on; those who wait for a permit get
    /// an error. A second call gives nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// for number in [1, 2, 1] {
    ///     pacer.key(number).submit(|| {})?;
    /// }
    /// let mut keys: Vec<i32> = pacer.stop().iter().map(|task| *task.key()).collect();
    /// keys.sort();
    /// assert_eq!(keys, [1, 1, 2]);
    /// assert!(pacer.stop().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(&self) -> Vec<Unstarted<K>> {
        self.shared().stop()
    }

    /// Takes no more tasks, and waits for up to `limit` until the queued ones have started, at
    /// their rate, and ended. Then stops, and gives back what has not started, as
    /// [`stop`](Self::stop) does.
    ///
    /// Permits count: those that are waited for are given, and those that are held are waited for.
    /// A paused pacer stays paused. From inside a task of its timer `drain` does not wait, and
    /// neither does it where no thread would start anything: on a manual clock, or caller-driven.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    /// use tickwheel::pace::KeyedPacer;
    ///
    /// let timer = Timer::new();
    /// let pacer = KeyedPacer::new(&timer, 10, Duration::from_millis(20));
    /// for number in 0..30 {
    ///     pacer.key(number % 3).submit(move || println!("call {number}"))?;
    /// }
    /// let left = pacer.drain(Duration::from_secs(60));
    /// assert!(left.is_empty());
    /// # Ok::<(), tickwheel::pace::PaceError>(())
    /// ```
    pub fn drain(&self, limit: Duration) -> Vec<Unstarted<K>> {
        self.shared().drain(limit)
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
/// pacer.key("acme").set_rate(5, Duration::from_secs(1))?; // they have a slow server
/// let ticket = pacer.key("acme").submit(|| println!("tell acme"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a key alone does nothing"]
pub struct KeyPacer<'a, K: PaceKey> {
    shared: &'a Arc<Shared<K>>,
    key: K,
    smooth: bool,
}

impl<K: PaceKey> KeyPacer<'_, K> {
    /// Puts a task in line, with priority 0.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// let first = pacer.key("acme").submit(|| println!("now"))?;
    /// let second = pacer.key("acme").submit(|| println!("in a second"))?;
    /// clock.advance(Duration::ZERO);
    /// assert!(first.is_started() && second.is_queued());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the queue is full, or the pacer or its timer stopped. The task is dropped.
    pub fn submit(self, task: impl FnOnce() + Send + 'static) -> Result<Ticket, PaceError> {
        self.submit_with(0, task)
    }

    /// Puts a task in line before those of a lower priority.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// let report = pacer.key("acme").submit_with(0, || {})?;
    /// let payment = pacer.key("acme").submit_with(9, || {})?;
    /// clock.advance(Duration::ZERO);
    /// assert!(payment.is_started() && report.is_queued());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
        let task = self.shared.submit(self.key, priority, Work::Call(Job::new(task)))?;
        Ok(Ticket::new(Arc::clone(self.shared) as Arc<dyn Desk>, task))
    }

    /// Gives a permit if a start is allowed now and nothing waits for one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::{KeyedPacer, PaceError};
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// assert!(pacer.key("acme").try_acquire().is_ok());
    /// let until = Some(clock.now() + Duration::from_secs(1));
    /// assert_eq!(pacer.key("acme").try_acquire().unwrap_err(), PaceError::NotYet { until });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If not, and then says when to try again, if that is known; or if the pacer or its timer is
    /// stopped.
    #[inline]
    pub fn try_acquire(self) -> Result<Permit, PaceError> {
        self.shared.try_acquire(self.key)
    }

    /// Waits in line for a permit, with priority 0.
    ///
    /// ```
    /// use futures::executor::block_on;
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// let permit = block_on(pacer.key("acme").acquire())?; // at once: the first of this window
    /// assert_eq!(pacer.stats().started, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "async")]
    pub fn acquire(self) -> Acquire<K> {
        self.acquire_with(0)
    }

    /// Waits in line for a permit, before those of a lower priority.
    ///
    /// ```
    /// use futures::FutureExt;
    /// use futures::executor::block_on;
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// let permit = block_on(pacer.key("acme").acquire_with(9))?;
    /// let report = pacer.key("acme").submit(|| {})?;
    /// let mut payment = pacer.key("acme").acquire_with(9);
    /// assert!((&mut payment).now_or_never().is_none()); // in line now, before the report
    /// assert_eq!(report.position(), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "async")]
    pub fn acquire_with(self, priority: i8) -> Acquire<K> {
        Acquire::new(Arc::clone(self.shared), self.key, priority)
    }

    /// Lets nothing start for this key until [`resume`](Self::resume). It costs memory until then.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// pacer.key("acme").pause();
    /// assert!(pacer.key("acme").try_acquire().is_err());
    /// assert!(pacer.key("umbrella").try_acquire().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pause(self) {
        self.shared.with_lane(self.key, |state, lane, now| {
            state.change(lane, now, |lane| lane.set_paused(true));
        });
    }

    /// Lets tasks of this key start again after [`pause`](Self::pause).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// pacer.key("acme").pause();
    /// let ticket = pacer.key("acme").submit(|| {})?;
    /// pacer.key("acme").resume();
    /// clock.advance(Duration::ZERO);
    /// assert!(ticket.is_started());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resume(self) {
        self.shared.with_lane(self.key, |state, lane, now| {
            state.change(lane, now, |lane| lane.set_paused(false));
        });
    }

    /// Lets nothing start for this key for so long: the partner has said so. Of several calls the
    /// one counts that ends last.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// pacer.key("acme").retry_after(Duration::from_secs(30));
    /// let ticket = pacer.key("acme").submit(|| {})?;
    /// assert_eq!(ticket.expected_start(), Some(clock.now() + Duration::from_secs(30)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retry_after(self, delay: Duration) {
        self.shared.with_lane(self.key, |state, lane, now| {
            let until = now.get().saturating_add(nanos(delay));
            state.change(lane, now, |lane| lane.hold_until(until));
        });
    }

    /// Gives this key a rate of its own. It costs memory until that is taken back by
    /// [`reset_rate`](Self::reset_rate).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// pacer.key("acme").set_rate(2, Duration::from_secs(1))?; // they have paid for more
    /// assert!(pacer.key("acme").try_acquire().is_ok());
    /// assert!(pacer.key("acme").try_acquire().is_ok());
    /// assert!(pacer.key("acme").try_acquire().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the rate is not possible; it stays as it was.
    pub fn set_rate(self, starts: usize, window: Duration) -> Result<(), RateError> {
        let rate = Rate::new(starts, window, self.smooth)?;
        self.shared
            .with_lane(self.key, |state, lane, now| state.set_rate_of(lane, Some(rate), now));
        Ok(())
    }

    /// Gives this key the rate that all have.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 2, Duration::from_secs(1));
    /// pacer.key("acme").set_rate(1, Duration::from_secs(1))?;
    /// assert!(pacer.key("acme").try_acquire().is_ok());
    /// assert!(pacer.key("acme").try_acquire().is_err());
    /// pacer.key("acme").reset_rate();
    /// assert!(pacer.key("acme").try_acquire().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset_rate(self) {
        self.shared.with_lane(self.key, |state, lane, now| state.set_rate_of(lane, None, now));
    }

    /// How many tasks of this key wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::KeyedPacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = KeyedPacer::new(&timer, 1, Duration::from_secs(1));
    /// pacer.key("acme").submit(|| {})?;
    /// pacer.key("acme").submit(|| {})?;
    /// assert_eq!((pacer.key("acme").queued(), pacer.key("umbrella").queued()), (2, 0));
    /// clock.advance(Duration::ZERO);
    /// assert_eq!(pacer.key("acme").queued(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn queued(&self) -> usize {
        self.shared.queued(&self.key)
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
