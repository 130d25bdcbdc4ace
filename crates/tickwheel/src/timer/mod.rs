//! Timers that run by themselves: threads, clock, handles, keys and periodic tasks.
//!
//! [`Timer`] is the front door. Behind it:
//! * `core`: the shards, each with a lock, wheels and counters, and the driver, which knows when the
//!   next thread wakes up;
//! * `tasks`: what a pending task is, and the handles that callers hold;
//! * `keys`: keys, and the table that finds the task of a key;
//! * `execution`: the threads that wait for deadlines and run tasks;
//! * `clock`: the only place that asks the operating system for the time.
//!
//! Ground rules:
//! * No user code is called or dropped while a lock is held.
//! * A task has one fate: it leaves the wheel once, under its shard's lock, and the thread that took
//!   it out runs it, drops it or hands it back.
//! * Deadlines are rounded up to ticks and the present is rounded down, so nothing starts early.

mod builder;
mod clock;
mod core;
mod error;
mod execution;
mod global;
mod keys;
mod stats;
mod sync;
pub(crate) mod tasks;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::vec::Vec;

pub use builder::{Builder, ThreadBody, WheelKind};
pub use clock::{ManualClock, Steps};
pub use error::{BuildError, ScheduleError};
pub use execution::executor::Task;
pub use global::{after, at, cancel, default_timer, every, key};
pub use keys::{Key, Keyed};
pub use stats::{Histogram, Stats};
pub use tasks::periodic::{MissedTicks, Periodic};
pub use tasks::timeout::{Timeout, TimeoutGuard};
pub use tasks::unfired::{StillRunning, Unfired};
pub use tasks::when::When;

#[cfg(any(feature = "async", feature = "pace"))]
pub(crate) use self::core::Nudge;
#[cfg(feature = "async")]
pub(crate) use self::core::shrink::shrink;
#[cfg(feature = "async")]
pub(crate) use self::core::sleepers::{Moved, Progress};
#[cfg(feature = "pace")]
pub(crate) use self::core::tenants::{Host, JobKey, Tenant};
#[cfg(any(feature = "async", feature = "pace"))]
pub(crate) use clock::Nanos;
pub(crate) use clock::nanos;
#[cfg(feature = "cron")]
pub(crate) use clock::wall_now;
#[cfg(feature = "async")]
pub(crate) use sync::{Mutex, MutexGuard};
pub(crate) use tasks::job::Job;

#[cfg(feature = "async")]
use self::core::driver::Driver;
use self::core::{Core, Phase};
use execution::panics;
use tasks::record::Fate;

/// Runs tasks at their time: after a delay, at an instant, every so often, by key.
///
/// A `Timer` is cheap to clone and meant to be shared; clones are the same timer. Its thread
/// starts with the first task, sleeps until the next deadline, and ends when nothing has been
/// pending for a while. Dropping the last clone stops the timer and drops what is pending, whose
/// handles then say that it was cancelled; it does not wait for tasks that are running.
/// [`stop`](Self::stop) waits, and hands back what is pending.
///
/// A child process that was made with `fork` has the memory of its parent's timers but not their
/// threads, and perhaps a lock that was held at that moment. It must not use them, not even to
/// cancel or drop: make new timers in the child, or `exec` at once, as
/// [`Command`](std::process::Command) does. The same goes for the process-wide timer.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tickwheel::Timer;
///
/// let timer = Timer::new();
/// let (sender, receiver) = mpsc::channel();
/// timer.after(Duration::from_millis(5), move || sender.send("hello").unwrap())?;
/// assert_eq!(receiver.recv()?, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Timer {
    owner: Arc<Owner>,
}

/// What all clones of a timer hold, and its threads and handles do not: so it knows when the
/// last clone is gone.
struct Owner {
    core: Arc<Core>,
}

/// Whether a timer runs.
///
/// ```
/// use tickwheel::{Timer, TimerState};
///
/// let timer = Timer::new();
/// assert_eq!(timer.state(), TimerState::NotStarted);
/// timer.start()?;
/// assert_eq!(timer.state(), TimerState::Running);
/// timer.stop();
/// assert_eq!(timer.state(), TimerState::Stopped);
/// # Ok::<(), tickwheel::ScheduleError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TimerState {
    /// Neither was a task scheduled yet, nor `start` called.
    NotStarted,
    /// Tasks are taken and run.
    Running,
    /// No more tasks are taken; those that are pending still run.
    Draining,
    /// Nothing runs any more.
    Stopped,
}

impl Timer {
    /// A timer with a tick of 1 ms and a hierarchical wheel: nothing to tune.
    ///
    /// ```
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// assert_eq!(timer.pending(), 0);
    /// ```
    #[allow(clippy::missing_panics_doc, reason = "the defaults are possible")]
    pub fn new() -> Self {
        Self::builder().build().expect("the defaults are possible")
    }

    /// Sets up a timer that differs from the defaults.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::builder().tick(Duration::from_micros(100)).inline().build()?;
    /// # Ok::<(), tickwheel::BuildError>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::new()
    }

    fn of(core: Arc<Core>) -> Self {
        builder::count_live();
        Self { owner: Arc::new(Owner { core }) }
    }

    /// A timer for the futures of one that was stopped.
    #[cfg(feature = "async")]
    fn successor_of(driver: &Driver) -> Self {
        Self::of(Core::new(driver.config.for_successor(&driver.clock), driver.clock.clone()))
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.owner.core
    }

    /// Runs a task once, after a delay. [`Duration::MAX`] is never.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// let timeout = timer.after(Duration::from_secs(3), || println!("hello"))?;
    /// # timeout.cancel();
    /// # Ok::<(), tickwheel::ScheduleError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the timer is stopped, full, or could not start its thread.
    #[inline]
    pub fn after(
        &self,
        delay: Duration,
        task: impl FnOnce() + Send + 'static,
    ) -> Result<Timeout, ScheduleError> {
        let core = self.core();
        let at = core.clock().after(nanos(delay));
        core.schedule(at, Job::new(task))
    }

    /// Runs a task once, at an [`Instant`] or a
    /// [`SystemTime`](std::time::SystemTime). The latter follows the wall clock: if that is set,
    /// the task starts accordingly sooner or later, within a second. What lies in the past is due
    /// at once.
    ///
    /// ```
    /// use std::time::{Duration, Instant, SystemTime};
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// timer.at(Instant::now() + Duration::from_secs(60), || println!("a minute later"))?;
    /// timer.at(SystemTime::now() + Duration::from_secs(60), || println!("by the clock"))?;
    /// # Ok::<(), tickwheel::ScheduleError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`after`](Self::after).
    pub fn at(
        &self,
        when: impl Into<When>,
        task: impl FnOnce() + Send + 'static,
    ) -> Result<Timeout, ScheduleError> {
        tasks::when::at(self.core(), None, when.into(), task)
    }

    /// Runs a task again and again, at a fixed rate: the first time after one period. It does not
    /// drift, and it never runs beside itself; runs that it could not start in time are left out
    /// ([`periodic`](Self::periodic) has the other choices). A panic does not end it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// let beat = timer.every(Duration::from_secs(5), || println!("still here"))?;
    /// # beat.cancel();
    /// # Ok::<(), tickwheel::ScheduleError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`after`](Self::after), and for a period of zero.
    pub fn every(
        &self,
        period: Duration,
        task: impl FnMut() + Send + 'static,
    ) -> Result<Timeout, ScheduleError> {
        self.periodic(period).start(task)
    }

    /// Runs a task again and again, with a fixed delay between the end of one run and the start
    /// of the next.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// let poll = timer.every_after(Duration::from_secs(5), || println!("ask again"))?;
    /// # poll.cancel();
    /// # Ok::<(), tickwheel::ScheduleError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`every`](Self::every).
    pub fn every_after(
        &self,
        delay: Duration,
        task: impl FnMut() + Send + 'static,
    ) -> Result<Timeout, ScheduleError> {
        self.periodic(delay).fixed_delay().start(task)
    }

    /// Sets up a periodic task with all its choices.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, MissedTicks, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer
    ///     .periodic(Duration::from_secs(10))
    ///     .first_after(Duration::from_secs(1))
    ///     .missed(MissedTicks::Burst)
    ///     .start(|| {})?;
    /// clock.advance(Duration::from_secs(25));
    /// assert_eq!(timer.stats().fired, 3); // at 1 s, 11 s and 21 s
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn periodic(&self, period: Duration) -> Periodic<'_> {
        Periodic::new(self, period)
    }

    /// Schedules by key: a pending task with the same key is replaced, so of all that were
    /// scheduled with a key the last one fires, once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// timer.key("order-42").after(Duration::from_secs(1800), || println!("close order 42"))?;
    /// assert!(timer.cancel("order-42")); // paid
    /// # Ok::<(), tickwheel::ScheduleError>(())
    /// ```
    pub fn key(&self, key: impl Into<Key>) -> Keyed<'_> {
        Keyed::new(self, key.into())
    }

    /// Cancels the pending task with this key; `false` if there is none.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// timer.key("order-42").after(Duration::from_secs(1800), || println!("close order 42"))?;
    /// assert!(timer.cancel("order-42"));
    /// assert!(!timer.cancel("order-42"));
    /// # Ok::<(), tickwheel::ScheduleError>(())
    /// ```
    pub fn cancel(&self, key: impl Into<Key>) -> bool {
        self.core().cancel_key(&key.into())
    }

    /// How many tasks have neither run nor been cancelled, and how many futures wait for their
    /// time. Exact, at the moment of asking.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer.after(Duration::from_secs(1), || {})?;
    /// timer.after(Duration::from_secs(9), || {})?;
    /// timer.every(Duration::from_secs(1), || {})?;
    /// assert_eq!(timer.pending(), 3);
    /// clock.advance(Duration::from_secs(5));
    /// assert_eq!(timer.pending(), 2); // a series is pending until it ends
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pending(&self) -> usize {
        self.core().pending()
    }

    /// What the timer has done so far.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer.every(Duration::from_secs(1), || {})?;
    /// clock.advance(Duration::from_secs(10));
    /// let stats = timer.stats();
    /// assert_eq!((stats.scheduled, stats.fired, stats.pending), (1, 10, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.core().stats()
    }

    /// How many bytes are allocated for what is pending, without what tasks and long keys have on the
    /// heap.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// for _ in 0..100_000 {
    ///     timer.after(Duration::from_secs(3_600), || {})?;
    /// }
    /// assert!(timer.memory_usage() < 100_000 * 100); // bytes
    /// # Ok::<(), tickwheel::ScheduleError>(())
    /// ```
    pub fn memory_usage(&self) -> usize {
        self.core().memory_usage()
    }

    /// Whether the timer runs.
    ///
    /// ```
    /// use tickwheel::{Timer, TimerState};
    ///
    /// let timer = Timer::new();
    /// assert_eq!(timer.state(), TimerState::NotStarted);
    /// timer.stop();
    /// assert_eq!(timer.state(), TimerState::Stopped);
    /// ```
    pub fn state(&self) -> TimerState {
        match self.core().driver.roster().phase {
            Phase::NotStarted => TimerState::NotStarted,
            Phase::Running => TimerState::Running,
            Phase::Draining => TimerState::Draining,
            Phase::Stopped => TimerState::Stopped,
        }
    }

    /// Starts the timer's thread now instead of with the first task.
    ///
    /// ```
    /// use tickwheel::{ScheduleError, Timer, TimerState};
    ///
    /// let timer = Timer::new();
    /// timer.start()?;
    /// assert_eq!(timer.state(), TimerState::Running);
    /// timer.stop();
    /// assert_eq!(timer.start(), Err(ScheduleError::Stopped));
    /// # Ok::<(), ScheduleError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the timer was stopped, or the thread could not be started.
    pub fn start(&self) -> Result<(), ScheduleError> {
        self.core().driver.start()
    }

    /// Stops the timer and gives back every task that has not started, by deadline (those of the
    /// same tick in any order). Waits for tasks that are running, unless it is called from one. A
    /// periodic task that is running ends with that run and is not given back. A second call gives
    /// nothing. Futures are not tasks: those that wait get ready at their time all the same.
    ///
    /// # Deadlocks
    ///
    /// A task may stop its own timer, but two timers must not be stopped by each other's tasks: if a
    /// task of timer A calls `b.stop()` while a task of timer B calls `a.stop()`, each waits for the
    /// other to end. Use [`stop_timeout`](Self::stop_timeout) there, or stop both from a thread that
    /// belongs to neither.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// timer.after(Duration::from_secs(60), || println!("a minute later"))?;
    /// for task in timer.stop() {
    ///     task.run(); // now rather than never
    /// }
    /// # Ok::<(), tickwheel::ScheduleError>(())
    /// ```
    pub fn stop(&self) -> Vec<Unfired> {
        let unfired = self.core().end(Fate::Unfired);
        self.core().wait_ended(Duration::MAX);
        unfired
    }

    /// As [`stop`](Self::stop), but waits only so long for tasks that are running.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// let (started, has_started) = mpsc::channel();
    /// let (release, released) = mpsc::channel::<()>();
    /// timer.after(Duration::ZERO, move || {
    ///     started.send(()).unwrap();
    ///     let _ = released.recv(); // hangs
    /// })?;
    /// has_started.recv()?;
    /// let error = timer.stop_timeout(Duration::from_millis(1)).unwrap_err();
    /// assert_eq!((error.running, error.unfired.len()), (1, 0));
    /// # drop(release);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If tasks are still running then. The error has the tasks that never started; the timer is
    /// stopped all the same.
    pub fn stop_timeout(&self, limit: Duration) -> Result<Vec<Unfired>, StillRunning> {
        let unfired = self.core().end(Fate::Unfired);
        if self.core().wait_ended(limit) {
            return Ok(unfired);
        }
        match self.core().running() {
            // Only threads that had nothing to do have not ended yet.
            0 => Ok(unfired),
            running => Err(StillRunning { unfired, running }),
        }
    }

    /// Takes no more tasks, lets the pending ones run at their time for up to `limit`, those that a
    /// custom executor has queued included, then stops and gives back what is left. Periodic tasks
    /// end at once. Tasks that are running then are waited for, as [`stop`](Self::stop) does. From
    /// inside a task it does not wait, and neither
    /// does it where no thread would run anything: on a manual clock, or caller-driven.
    ///
    /// Pacers on the timer take no more tasks either, and start what they have queued at their
    /// rate. A pacer that still has tasks at the end is one entry of the answer, which does nothing
    /// when it is run; `Pacer::stop` hands the tasks back.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// timer.after(Duration::from_millis(5), || println!("soon enough"))?;
    /// timer.after(Duration::from_secs(3_600), || println!("too late"))?;
    /// let left = timer.drain(Duration::from_millis(100));
    /// assert_eq!(left.len(), 1);
    /// # Ok::<(), tickwheel::ScheduleError>(())
    /// ```
    pub fn drain(&self, limit: Duration) -> Vec<Unfired> {
        self.core().drain(limit);
        self.stop()
    }

    /// When something may be due next: for how long an event loop may sleep. It may be early,
    /// never late; `None` if nothing is pending.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// assert_eq!(timer.next_deadline(), None);
    /// timer.after(Duration::from_secs(5), || {})?;
    /// assert!(timer.next_deadline() <= Some(clock.now() + Duration::from_secs(5)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_deadline(&self) -> Option<Instant> {
        let core = self.core();
        core.clock().instant(core.sleep_until_next()?)
    }

    /// Runs what is due, on this thread, and says how many tasks that were: for timers that were
    /// built [`caller_driven`](Builder::caller_driven) or with a manual clock. On another timer,
    /// or from inside a task, it does nothing.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::builder().caller_driven().build()?;
    /// timer.after(Duration::from_millis(2), || println!("tick"))?;
    /// while let Some(deadline) = timer.next_deadline() {
    ///     // An event loop would wait for events up to then.
    ///     std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
    ///     timer.turn();
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn turn(&self) -> usize {
        if self.core().driver.has_threads() { 0 } else { self.core().turn().unwrap_or(0) }
    }
}

impl Default for Timer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer")
            .field("state", &self.state())
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        for unfired in self.core.end(Fate::Cancelled) {
            panics::catch(&self.core.driver.config, || drop(unfired));
        }
        builder::uncount_live();
    }
}
