//! A pacer with one rate for all its tasks.

use core::fmt;
use core::time::Duration;
use std::vec::Vec;

use super::{
    Acquire, Attempt, Builder, KeyedPacer, PaceError, Permit, RateError, Ticket, Unstarted,
};
use crate::Timer;

/// Starts tasks at a limited rate: never more than N in any window of time.
///
/// A `Pacer` is cheap to clone and meant to be shared; clones are the same pacer. Dropping the last
/// clone stops it and drops the tasks that have not started; [`stop`](Self::stop) hands them back
/// instead, and [`drain`](Self::drain) lets them start first. The [module](super) describes what a
/// pacer promises.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
/// use tickwheel::pace::Pacer;
///
/// let timer = Timer::new();
/// let pacer = Pacer::new(&timer, 100, Duration::from_secs(1));
/// for number in 0..30 {
///     pacer.submit(move || println!("call {number}"))?;
/// }
/// let left = pacer.drain(Duration::from_secs(60)); // waits until all have run
/// assert!(left.is_empty());
/// # Ok::<(), tickwheel::pace::PaceError>(())
/// ```
#[derive(Clone)]
pub struct Pacer {
    /// A pacer with one key.
    only: KeyedPacer<()>,
}

impl Pacer {
    /// Makes a pacer with at most `starts` starts in any window of length `window`.
    ///
    /// # Panics
    ///
    /// If `starts` or `window` is zero. [`builder`](Self::builder) returns an error instead.
    #[track_caller]
    pub fn new(timer: &Timer, starts: usize, window: Duration) -> Self {
        match Self::builder(timer, starts, window).build() {
            Ok(pacer) => pacer,
            Err(error) => panic!("{error}"),
        }
    }

    /// Configures a pacer that differs from the defaults.
    pub fn builder(timer: &Timer, starts: usize, window: Duration) -> Builder {
        Builder::new(timer, starts, window)
    }

    pub(super) fn of(only: KeyedPacer<()>) -> Self {
        Self { only }
    }

    /// Queues a task with priority 0. It starts when all tasks ahead of it have started and the
    /// rate allows, which may be at once.
    ///
    /// # Errors
    ///
    /// If the queue is full, or the pacer or its timer is draining or stopped. The task is dropped.
    pub fn submit(&self, task: impl FnOnce() + Send + 'static) -> Result<Ticket, PaceError> {
        self.only.key(()).submit(task)
    }

    /// Queues a task ahead of all tasks with a lower priority.
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

    /// Queues a task that may ask for another attempt: a call that the partner may answer with a
    /// status 429.
    ///
    /// The task returns [`Attempt::Done`], or [`Attempt::RetryAfter`] to be called again. Then it
    /// keeps its place, ahead of all tasks that were submitted after it, and its ticket stays
    /// valid. Each attempt counts as a start. A panic ends the task, and after
    /// [`stop`](Self::stop) there is no further attempt.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::{Attempt, Pacer};
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = Pacer::new(&timer, 100, Duration::from_secs(1));
    /// let mut answers = [429, 200].into_iter(); // what the partner answers
    /// let call = pacer.submit_attempts(move || match answers.next() {
    ///     Some(429) => Attempt::RetryAfter(Duration::from_secs(30)),
    ///     _ => Attempt::Done,
    /// })?;
    /// let next = pacer.submit(|| println!("another call"))?;
    ///
    /// clock.advance(Duration::ZERO);
    /// assert_eq!((call.position(), next.position()), (Some(0), Some(1)));
    /// clock.advance(Duration::from_secs(30));
    /// assert!(call.is_started() && next.is_started());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
    pub fn submit_attempts(
        &self,
        task: impl FnMut() -> Attempt + Send + 'static,
    ) -> Result<Ticket, PaceError> {
        self.only.key(()).submit_attempts(task)
    }

    /// As [`submit_attempts`](Self::submit_attempts), ahead of all tasks with a lower priority.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
    pub fn submit_attempts_with(
        &self,
        priority: i8,
        task: impl FnMut() -> Attempt + Send + 'static,
    ) -> Result<Ticket, PaceError> {
        self.only.key(()).submit_attempts_with(priority, task)
    }

    /// Returns a permit if a start is allowed now and nothing waits for one.
    ///
    /// # Errors
    ///
    /// [`PaceError::NotYet`] if no start is allowed, with the time to try again if time decides
    /// that; [`PaceError::Stopped`] if the pacer or its timer is draining or stopped.
    pub fn try_acquire(&self) -> Result<Permit, PaceError> {
        self.only.key(()).try_acquire()
    }

    /// Waits in the queue for a permit, with priority 0: for code that does its work itself.
    pub fn acquire(&self) -> Acquire {
        self.only.key(()).acquire()
    }

    /// Waits in the queue for a permit, ahead of all tasks with a lower priority.
    pub fn acquire_with(&self, priority: i8) -> Acquire {
        self.only.key(()).acquire_with(priority)
    }

    /// Lets nothing start until [`resume`](Self::resume). Tasks can be submitted, and running
    /// tasks continue.
    pub fn pause(&self) {
        self.only.pause();
    }

    /// Lets tasks start again after [`pause`](Self::pause).
    pub fn resume(&self) {
        self.only.resume();
    }

    /// Lets nothing start until `delay` has passed, as a partner demands with a status 429 and a
    /// `Retry-After`. Of several calls the one that ends last counts, and
    /// [`resume`](Self::resume) does not end it. [`submit_attempts`](Self::submit_attempts) also
    /// repeats the call.
    pub fn retry_after(&self, delay: Duration) {
        self.only.key(()).retry_after(delay);
    }

    /// Changes the rate, at once, also for queued tasks. From now on no start is made that would be
    /// one more than `starts` in the `window` that ends with it. Starts under the old rate count,
    /// except for those that have left the old window by now.
    ///
    /// # Errors
    ///
    /// If `starts` or `window` is zero. The rate stays as it was.
    pub fn set_rate(&self, starts: usize, window: Duration) -> Result<(), RateError> {
        self.only.set_rate(starts, window)
    }

    /// Returns the exact number of queued tasks, waiting futures included.
    pub fn queued(&self) -> usize {
        self.only.stats().queued
    }

    /// Returns what the pacer has done so far.
    pub fn stats(&self) -> PacerStats {
        self.only.stats()
    }

    /// Returns how many bytes the pacer has allocated.
    pub fn memory_usage(&self) -> usize {
        self.only.memory_usage()
    }

    /// Stops the pacer, and returns every task that has not started, in the order in which they
    /// would have started. Running tasks continue; waiting futures get an error. A second call
    /// returns nothing.
    pub fn stop(&self) -> Vec<Unstarted> {
        self.only.stop()
    }

    /// Accepts no more tasks, waits up to `limit` until the queued ones have started, at their
    /// rate, and ended; then stops, and returns what has not started, as [`stop`](Self::stop) does.
    ///
    /// Permits count as tasks: `drain` waits until waiting futures have theirs, and until held
    /// ones are dropped. A paused pacer stays paused. `drain` does not wait when it is called from
    /// inside a task of the timer, nor where no thread would start anything: on a manual clock, or
    /// with a caller-driven timer.
    pub fn drain(&self, limit: Duration) -> Vec<Unstarted> {
        self.only.drain(limit)
    }
}

impl fmt::Debug for Pacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pacer").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// Counts of a pacer's life so far, for all keys together.
///
/// `submitted` + `retried` equals `started` + `cancelled` + `queued` + the tasks that were handed
/// back.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::pace::Pacer;
/// use tickwheel::{ManualClock, Timer};
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let pacer = Pacer::new(&timer, 2, Duration::from_secs(1));
/// let permit = pacer.try_acquire()?;
/// for _ in 0..5 {
///     pacer.submit(|| {})?;
/// }
/// clock.advance(Duration::from_millis(1_500));
/// let stats = pacer.stats();
/// assert_eq!((stats.submitted, stats.started, stats.queued), (6, 4, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PacerStats {
    /// Accepted tasks, and permits: those given at once, and futures that were queued.
    pub submitted: u64,
    /// Starts: of tasks, each attempt included, and permits that were given.
    pub started: u64,
    /// Tasks that were cancelled, and futures that were dropped, before their start.
    pub cancelled: u64,
    /// Tasks and permits refused because a queue was full or the pacer was stopped. A refusal of
    /// `try_acquire` that says when to try again does not count.
    pub rejected: u64,
    /// Attempts after which a task was queued again.
    pub retried: u64,
    /// Tasks and futures that wait now.
    pub queued: usize,
    /// Tasks that have started and not ended. A held permit counts if the pacer limits how many
    /// run, or if it was waited for.
    pub running: usize,
    /// Keys that use memory now: those with tasks, with starts in the last window, or with settings
    /// of their own.
    pub keys: usize,
}
