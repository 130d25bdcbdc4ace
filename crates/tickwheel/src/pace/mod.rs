//! Pacing: tasks that start no more often than somebody allows.
//!
//! A partner's API takes 100 calls a second, and a burst of 250 is to be made: none dropped, none
//! too soon. A [`Pacer`] queues tasks and starts them in order, each as early as the rate allows:
//!
//! ```
//! use std::time::Duration;
//! use tickwheel::pace::Pacer;
//! use tickwheel::{ManualClock, Timer};
//!
//! let clock = ManualClock::new(); // for a real one leave it out: `Timer::new()`
//! let timer = Timer::builder().clock(clock.clone()).build()?;
//! let pacer = Pacer::new(&timer, 100, Duration::from_secs(1));
//! for number in 0..250 {
//!     pacer.submit(move || println!("call {number}"))?;
//! }
//! clock.advance(Duration::ZERO);
//! assert_eq!(pacer.stats().started, 100);
//! clock.advance(Duration::from_secs(1));
//! assert_eq!(pacer.stats().started, 200);
//! clock.advance(Duration::from_secs(1));
//! assert_eq!(pacer.stats().started, 250);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a pacer promises
//!
//! * **Never more than N starts in any window**: any stretch of time of that length, wherever it
//!   begins. A start counts at the moment at which the task is really called, not at that for which
//!   it was planned: one that is late makes the next ones wait. Two starts exactly one window apart
//!   are not in the same window.
//! * **Each as early as that allows**, up to a tick of the timer; or [smooth](Builder::smooth),
//!   with even gaps.
//! * **In order**: a higher priority first, and first come, first served among equals.
//! * **Exactly one fate.** A task that `submit` accepted is started once, or cancelled by its
//!   [`Ticket`] or by dropping the last clone of the pacer, or handed back by
//!   [`stop`](Pacer::stop).
//! * **Idle keys cost nothing.** A [`KeyedPacer`] has a rate for each key. It forgets a key when
//!   its window has passed, and gives the memory back. Until then each start in the window takes 8
//!   to 16 bytes: a rate of a million a day is some 10 MB for each key that uses it up.
//!
//! # Where tasks run
//!
//! On the timer: its threads, its executor, or the thread that moves its clock. A task that blocks
//! delays nobody else, as far as the timer has threads; a panic is caught, counted and logged by
//! the timer, and frees the task's place. While a pacer has something to do, it has one task of its
//! own pending in the timer, which [`max_pending`](crate::Builder::max_pending) does not keep out.
//!
//! The pacer keeps its timer running: it holds a clone of it. When the timer is stopped nothing
//! starts any more, and `submit` gives an error. What was queued stays in the pacer, for
//! [`stop`](Pacer::stop) to hand back, and what the timer hands back includes the pacer's own task,
//! which then does nothing. So stop the pacer, then the timer.
//!
//! [`Timer::drain`] lets its pacers start what they have queued. [`Pacer::drain`] does so for one
//! pacer: at the end of `main`, say, where dropping the pacer would drop its tasks.
//!
//! # How it is built
//!
//! A *lane* (`lane.rs`) is what is known of a key: a queue (`queue.rs`) and a log of the latest
//! starts, by which the window rule decides (`limit.rs`, with the proof). `state.rs` has all lanes
//! and a timing wheel of those that wait for a time; `shared.rs` the operations; and `turn.rs`
//! starts tasks. What lies between letting a task go and its real start is in `start.rs`.

#[cfg(feature = "async")]
mod acquire;
mod builder;
mod error;
mod index;
mod keyed;
mod lane;
mod limit;
mod now;
mod permit;
mod pool;
mod queue;
mod shared;
mod start;
mod state;
mod stats;
mod ticket;
mod turn;
mod unstarted;

use core::fmt;
use core::time::Duration;
use std::sync::Arc;
use std::vec::Vec;

#[cfg(feature = "async")]
pub use acquire::Acquire;
pub use builder::Builder;
pub use error::{PaceError, RateError};
pub use keyed::{KeyPacer, KeyedPacer, PaceKey};
pub use permit::Permit;
pub use stats::PacerStats;
pub use ticket::Ticket;
pub use unstarted::Unstarted;

use crate::Timer;
use shared::Shared;

/// Starts tasks at a limited rate: never more than N in any window of time.
///
/// It is cheap to clone and meant to be shared; clones are the same pacer. Dropping the last one
/// stops it and drops what has not started; [`stop`](Self::stop) hands that back instead. See the
/// [module](self) for what it promises.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tickwheel::Timer;
/// use tickwheel::pace::Pacer;
///
/// let timer = Timer::new();
/// let pacer = Pacer::new(&timer, 100, Duration::from_secs(1));
/// let (sender, receiver) = mpsc::channel();
/// pacer.submit(move || sender.send("called").unwrap())?;
/// assert_eq!(receiver.recv()?, "called");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Pacer {
    /// A pacer with one key.
    only: KeyedPacer<()>,
}

/// What all clones of a pacer hold, and its handles and its task in the timer do not: so it knows
/// when the last clone is gone.
struct Owner<K: PaceKey> {
    shared: Arc<Shared<K>>,
    smooth: bool,
    /// Keeps the timer running.
    _timer: Timer,
}

impl<K: PaceKey> Drop for Owner<K> {
    fn drop(&mut self) {
        for unstarted in self.shared.stop() {
            unstarted.discard();
        }
    }
}

impl Pacer {
    /// At most so many starts in any window of that length.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    /// use tickwheel::pace::Pacer;
    ///
    /// let timer = Timer::new();
    /// let pacer = Pacer::new(&timer, 100, Duration::from_secs(1));
    /// assert_eq!(pacer.queued(), 0);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are to be no starts, or the window has no length. [`builder`](Self::builder) says
    /// so with an error.
    pub fn new(timer: &Timer, starts: usize, window: Duration) -> Self {
        match Self::builder(timer, starts, window).build() {
            Ok(pacer) => pacer,
            Err(error) => panic!("{error}"),
        }
    }

    /// Sets up a pacer that differs from the defaults.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    /// use tickwheel::pace::Pacer;
    ///
    /// let timer = Timer::new();
    /// let pacer = Pacer::builder(&timer, 100, Duration::from_secs(1)).max_running(8).build()?;
    /// # Ok::<(), tickwheel::pace::RateError>(())
    /// ```
    pub fn builder(timer: &Timer, starts: usize, window: Duration) -> Builder {
        Builder::new(timer, starts, window)
    }

    fn of(shared: Arc<Shared<()>>, timer: Timer, smooth: bool) -> Self {
        Self { only: KeyedPacer::of(shared, timer, smooth) }
    }

    /// Puts a task in line, with priority 0. It starts when all before it have, and the rate
    /// allows; at once, if it does now.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    /// use tickwheel::pace::Pacer;
    ///
    /// let timer = Timer::new();
    /// let pacer = Pacer::new(&timer, 100, Duration::from_secs(1));
    /// let ticket = pacer.submit(|| println!("call"))?;
    /// # Ok::<(), tickwheel::pace::PaceError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the queue is full, or the pacer or its timer stopped. The task is dropped.
    pub fn submit(&self, task: impl FnOnce() + Send + 'static) -> Result<Ticket, PaceError> {
        self.only.key(()).submit(task)
    }

    /// Puts a task in line before those of a lower priority.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = Pacer::new(&timer, 1, Duration::from_secs(1));
    /// let order = Arc::new(Mutex::new(Vec::new()));
    /// for (priority, name) in [(0, "report"), (0, "mail"), (9, "payment"), (-1, "statistics")] {
    ///     let order = order.clone();
    ///     pacer.submit_with(priority, move || order.lock().unwrap().push(name))?;
    /// }
    /// clock.advance(Duration::from_secs(3));
    /// assert_eq!(*order.lock().unwrap(), ["payment", "report", "mail", "statistics"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
    pub fn submit_with(
        &self,
        priority: i8,
        task: impl FnOnce() + Send + 'static,
    ) -> Result<Ticket, PaceError> {
        self.only.key(()).submit_with(priority, task)
    }

    /// Gives a permit if a start is allowed now and nothing waits for one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::{PaceError, Pacer};
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = Pacer::new(&timer, 1, Duration::from_secs(1));
    /// assert!(pacer.try_acquire().is_ok());
    /// let until = Some(clock.now() + Duration::from_secs(1));
    /// assert_eq!(pacer.try_acquire().unwrap_err(), PaceError::NotYet { until });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If not, and then says when to try again, if that is known; or if the pacer or its timer is
    /// stopped.
    pub fn try_acquire(&self) -> Result<Permit, PaceError> {
        self.only.key(()).try_acquire()
    }

    /// Waits in line for a permit, with priority 0; for code that does its work itself.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    /// use tickwheel::pace::{PaceError, Pacer};
    ///
    /// async fn call(pacer: &Pacer) -> Result<(), PaceError> {
    ///     let _permit = pacer.acquire().await?;
    ///     // ... ask the partner; the permit takes a place until here
    ///     Ok(())
    /// }
    /// ```
    #[cfg(feature = "async")]
    pub fn acquire(&self) -> Acquire {
        self.only.key(()).acquire()
    }

    /// Waits in line for a permit, before those of a lower priority.
    ///
    /// ```
    /// use futures::FutureExt;
    /// use futures::executor::block_on;
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = Pacer::new(&timer, 1, Duration::from_secs(1));
    /// let permit = block_on(pacer.acquire_with(9))?; // at once: the first of this window
    /// let (mut report, mut payment) = (pacer.acquire_with(0), pacer.acquire_with(9));
    /// assert!((&mut report).now_or_never().is_none());
    /// assert!((&mut payment).now_or_never().is_none());
    /// clock.advance(Duration::from_secs(1));
    /// assert!(payment.now_or_never().is_some());
    /// assert!(report.now_or_never().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "async")]
    pub fn acquire_with(&self, priority: i8) -> Acquire {
        self.only.key(()).acquire_with(priority)
    }

    /// Lets nothing start until [`resume`](Self::resume). Tasks can be submitted, and what runs
    /// goes on.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = Pacer::new(&timer, 100, Duration::from_secs(1));
    /// pacer.pause();
    /// let ticket = pacer.submit(|| {})?;
    /// clock.advance(Duration::from_secs(60));
    /// assert!(ticket.is_queued());
    /// pacer.resume();
    /// clock.advance(Duration::ZERO);
    /// assert!(ticket.is_started());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pause(&self) {
        self.only.pause();
    }

    /// Lets tasks start again after [`pause`](Self::pause).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let pacer = Pacer::new(&timer, 1, Duration::from_secs(1));
    /// pacer.pause();
    /// assert!(pacer.try_acquire().is_err());
    /// pacer.resume();
    /// assert!(pacer.try_acquire().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resume(&self) {
        self.only.resume();
    }

    /// Lets nothing start for so long: the partner has said so, with a status 429 and a
    /// `Retry-After`. Of several calls the one counts that ends last, and
    /// [`resume`](Self::resume) does not end it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = Pacer::new(&timer, 100, Duration::from_secs(1));
    /// pacer.retry_after(Duration::from_secs(30));
    /// let ticket = pacer.submit(|| {})?;
    /// assert_eq!(ticket.expected_start(), Some(clock.now() + Duration::from_secs(30)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retry_after(&self, delay: Duration) {
        self.only.key(()).retry_after(delay);
    }

    /// Changes the rate. It applies at once, also to what waits: from here on no start is made if
    /// there would be more than `starts` in the `window` that ends with it. Starts under the old
    /// rate count for that; except for those that have left the old window by now, which are
    /// forgotten.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = Pacer::new(&timer, 1, Duration::from_secs(1));
    /// for _ in 0..10 {
    ///     pacer.submit(|| {})?;
    /// }
    /// clock.advance(Duration::ZERO);
    /// assert_eq!(pacer.stats().started, 1);
    /// pacer.set_rate(5, Duration::from_secs(1))?;
    /// clock.advance(Duration::ZERO);
    /// assert_eq!(pacer.stats().started, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the rate is not possible; it stays as it was.
    pub fn set_rate(&self, starts: usize, window: Duration) -> Result<(), RateError> {
        self.only.set_rate(starts, window)
    }

    /// How many tasks wait, futures included. Exact, at the moment of asking.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = Pacer::new(&timer, 1, Duration::from_secs(1));
    /// for _ in 0..3 {
    ///     pacer.submit(|| {})?;
    /// }
    /// assert_eq!(pacer.queued(), 3);
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(pacer.queued(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn queued(&self) -> usize {
        self.only.stats().queued
    }

    /// What the pacer has done so far.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = Pacer::new(&timer, 1, Duration::from_secs(1));
    /// pacer.submit(|| {})?;
    /// pacer.submit(|| {})?.cancel();
    /// clock.advance(Duration::ZERO);
    /// let stats = pacer.stats();
    /// assert_eq!((stats.submitted, stats.started, stats.cancelled), (2, 1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> PacerStats {
        self.only.stats()
    }

    /// How many bytes the pacer has allocated.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let pacer = Pacer::new(&timer, 1, Duration::from_secs(1));
    /// let empty = pacer.memory_usage();
    /// for _ in 0..1_000 {
    ///     pacer.submit(|| {})?;
    /// }
    /// assert!(pacer.memory_usage() > empty);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory_usage(&self) -> usize {
        self.only.memory_usage()
    }

    /// Stops the pacer and gives back every task that has not started, in the order in which they
    /// would have. What runs goes on; those who wait for a permit get an error. A second call
    /// gives nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = Pacer::new(&timer, 100, Duration::from_secs(1));
    /// for _ in 0..250 {
    ///     pacer.submit(|| {})?;
    /// }
    /// clock.advance(Duration::ZERO);
    /// assert_eq!(pacer.stop().len(), 150);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(&self) -> Vec<Unstarted> {
        self.only.stop()
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
    /// use tickwheel::pace::Pacer;
    ///
    /// let timer = Timer::new();
    /// let pacer = Pacer::new(&timer, 10, Duration::from_millis(20));
    /// for number in 0..30 {
    ///     pacer.submit(move || println!("call {number}"))?;
    /// }
    /// let left = pacer.drain(Duration::from_secs(60));
    /// assert!(left.is_empty());
    /// # Ok::<(), tickwheel::pace::PaceError>(())
    /// ```
    pub fn drain(&self, limit: Duration) -> Vec<Unstarted> {
        self.only.drain(limit)
    }
}

impl fmt::Debug for Pacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pacer").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
