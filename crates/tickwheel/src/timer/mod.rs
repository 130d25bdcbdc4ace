//! Timers that run by themselves: threads, clock, handles, keys and periodic tasks.
//!
//! [`Timer`] is the public entry point. The parts of its implementation:
//! * `core`: the shards, each with a lock, wheels and counters, and the driver, which holds the
//!   leader's wake-up time;
//! * `tasks`: the forms of a pending task, and the handles that callers hold;
//! * `keys`: keys, and the table that finds the task of a key;
//! * `execution`: the threads that wait for deadlines and run tasks;
//! * `clock`: the only place that asks the operating system for the time.
//!
//! Ground rules:
//! * No user code is called or dropped under a lock.
//! * A task leaves its wheel once, under its shard's lock. The thread that removed it runs it, drops
//!   it or hands it back. So every task has exactly one fate.
//! * Deadlines are rounded up to ticks and the current time is rounded down, so no task starts early.

mod builder;
pub(crate) mod clock;
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
pub(crate) use self::core::sleepers::{Moved, Progress};
#[cfg(feature = "pace")]
pub(crate) use self::core::tenants::{Host, JobKey, Tenant};
#[cfg(any(feature = "async", feature = "pace"))]
pub(crate) use clock::Nanos;
pub(crate) use clock::nanos;
#[cfg(feature = "async")]
pub(crate) use keys::table::KeyTable;
#[cfg(feature = "async")]
pub(crate) use sync::{Mutex, MutexGuard};
pub(crate) use tasks::job::Job;

#[cfg(feature = "async")]
use self::core::driver::Driver;
use self::core::{Core, Phase};
use execution::panics;
use tasks::record::Fate;

/// A timer: runs tasks after a delay, at a point in time, or periodically, optionally with a key.
///
/// A `Timer` is cheap to clone and meant to be shared; clones are the same timer. Its first thread
/// starts with the first task, sleeps until the next deadline, and ends after a while without
/// pending tasks.
///
/// Dropping the last clone stops the timer and drops its pending tasks, whose handles then report
/// that they are cancelled. It does not wait for running tasks. [`stop`](Self::stop) does, and hands
/// the pending tasks back.
///
/// A child process created with `fork` inherits the memory of its parent's timers, but not their
/// threads, and possibly a locked lock. The child must not use these timers, the process-wide one
/// included; it must not even cancel or drop them. Create new timers in the child, or call `exec` at
/// once, as [`Command`](std::process::Command) does.
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

/// Shared by all clones of a timer, but not by its threads and handles. Dropped with the last clone,
/// it stops the timer.
struct Owner {
    core: Arc<Core>,
}

/// The phase in the life of a timer.
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
    /// No task was scheduled and `start` was not called.
    NotStarted,
    /// The timer accepts and runs tasks.
    Running,
    /// The timer runs its pending tasks and accepts no new ones.
    Draining,
    /// The timer runs no tasks.
    Stopped,
}

impl Timer {
    /// Creates a timer with the default settings: a tick of 1 ms, a hierarchical wheel, and no limit
    /// on pending tasks.
    #[allow(clippy::missing_panics_doc, reason = "the default settings are valid")]
    pub fn new() -> Self {
        Self::builder().build().expect("the default settings are valid")
    }

    /// Returns a builder, for a timer with other settings.
    pub fn builder() -> Builder {
        Builder::new()
    }

    fn of(core: Arc<Core>) -> Self {
        builder::count_live();
        Self { owner: Arc::new(Owner { core }) }
    }

    /// Creates the timer that serves the futures of a stopped one.
    #[cfg(feature = "async")]
    fn successor_of(driver: &Driver) -> Self {
        Self::of(Core::new(driver.config.for_successor(&driver.clock), driver.clock.clone()))
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.owner.core
    }

    /// Runs a task once, after a delay. A delay of [`Duration::MAX`] means never.
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
    /// Returns an error if the timer is stopped or full, or cannot start a thread.
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

    /// Runs a task once, at an [`Instant`] or a [`SystemTime`](std::time::SystemTime).
    ///
    /// A `SystemTime` follows the wall clock: when that clock is set, the task's start moves within a
    /// second. A time in the past is due at once.
    ///
    /// ```
    /// use std::time::{Duration, Instant, SystemTime};
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// timer.at(Instant::now() + Duration::from_secs(60), || println!("monotonic clock"))?;
    /// timer.at(SystemTime::now() + Duration::from_secs(60), || println!("wall clock"))?;
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

    /// Runs a task periodically at a fixed rate, the first time after one period.
    ///
    /// The rate does not drift. Runs of the task never overlap. Runs that could not start in time are
    /// skipped; [`periodic`](Self::periodic) offers other policies. A panic does not end the series.
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
    /// As [`after`](Self::after), and if the period is zero.
    pub fn every(
        &self,
        period: Duration,
        task: impl FnMut() + Send + 'static,
    ) -> Result<Timeout, ScheduleError> {
        self.periodic(period).start(task)
    }

    /// Runs a task periodically, with a fixed delay between the end of one run and the start of the
    /// next. The first run is due after one delay.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// let poll = timer.every_after(Duration::from_secs(5), || println!("poll"))?;
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

    /// Returns a builder of a periodic task: first run, fixed rate or delay, missed ticks.
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

    /// Selects a key, to schedule a task with it or to access the pending one.
    ///
    /// Scheduling a key again replaces its pending task, so only the last task scheduled with a key
    /// fires.
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

    /// Cancels the pending task with this key. Returns `false` if there is none.
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

    /// Returns the number of pending tasks plus sleeping futures. A periodic task is pending until its
    /// series ends. The number is exact at one moment during the call.
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
    /// assert_eq!(timer.pending(), 2); // a series stays pending until it ends
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pending(&self) -> usize {
        self.core().pending()
    }

    /// Returns the timer's counters and its lateness histogram.
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

    /// Returns the bytes allocated for pending tasks and futures. Memory that closures and long keys
    /// allocate themselves is not included.
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

    /// Returns the timer's phase.
    pub fn state(&self) -> TimerState {
        match self.core().driver.roster().phase {
            Phase::NotStarted => TimerState::NotStarted,
            Phase::Running => TimerState::Running,
            Phase::Draining => TimerState::Draining,
            Phase::Stopped => TimerState::Stopped,
        }
    }

    /// Starts the timer's first thread now instead of with the first task.
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
    /// Returns an error if the timer is stopped or cannot start a thread.
    pub fn start(&self) -> Result<(), ScheduleError> {
        self.core().driver.start()
    }

    /// Stops the timer and returns every task that has not started, in order of deadline.
    ///
    /// Waits for running tasks, except when called from a task of this timer. A periodic task that is
    /// running ends with that run and is not returned. Tasks due in the same tick are in no particular
    /// order. A second call returns an empty list. Sleeping futures are not tasks: they still complete
    /// at their deadlines.
    ///
    /// # Deadlocks
    ///
    /// A task may stop its own timer, but tasks of two timers must not stop each other's timer: if a
    /// task of timer A calls `b.stop()` while a task of timer B calls `a.stop()`, each waits for the
    /// other to end. Use [`stop_timeout`](Self::stop_timeout) instead, or stop both timers from a
    /// thread that belongs to neither.
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

    /// Stops the timer like [`stop`](Self::stop), but waits for running tasks at most for `limit`.
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
    /// Returns [`StillRunning`] if tasks are still running after `limit`. The error holds the tasks
    /// that have not started. The timer is stopped in either case.
    pub fn stop_timeout(&self, limit: Duration) -> Result<Vec<Unfired>, StillRunning> {
        let unfired = self.core().end(Fate::Unfired);
        if self.core().wait_ended(limit) {
            return Ok(unfired);
        }
        match self.core().running() {
            // Only idle threads have not ended yet.
            0 => Ok(unfired),
            running => Err(StillRunning { unfired, running }),
        }
    }

    /// Refuses new tasks, runs the pending ones at their deadlines for up to `limit`, then stops and
    /// returns the remaining tasks.
    ///
    /// Periodic tasks are cancelled at once. Tasks queued in a custom executor count as pending. At
    /// the end it waits for running tasks like [`stop`](Self::stop). It does not wait for pending
    /// tasks when called from a task of this timer, or on a timer without threads (manual clock or
    /// caller-driven).
    ///
    /// Pacers on the timer refuse new tasks too, and start their queued ones at their rate. A pacer
    /// that still has queued tasks at the end is one entry of the returned list. Running that entry
    /// does nothing; `Pacer::stop` hands the tasks back.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// timer.after(Duration::from_millis(5), || println!("soon enough"))?;
    /// timer.after(Duration::from_secs(3_600), || println!("too late"))?;
    /// let unfired = timer.drain(Duration::from_millis(100));
    /// assert_eq!(unfired.len(), 1);
    /// # Ok::<(), tickwheel::ScheduleError>(())
    /// ```
    pub fn drain(&self, limit: Duration) -> Vec<Unfired> {
        self.core().drain(limit);
        self.stop()
    }

    /// Returns the time until which an event loop may sleep. Nothing is due before it: the time may
    /// be early, never late. Returns `None` if nothing is pending.
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

    /// Runs all due tasks on the calling thread and returns their number. For timers that are
    /// [`caller_driven`](Builder::caller_driven) or have a manual clock. On other timers, and when
    /// called from a task, it does nothing and returns 0.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::builder().caller_driven().build()?;
    /// timer.after(Duration::from_millis(2), || println!("tick"))?;
    /// while let Some(deadline) = timer.next_deadline() {
    ///     // An event loop would wait for events until then.
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
