//! The tasks that `stop` hands back.

use core::fmt;
use std::time::Instant;
use std::vec::Vec;

use crate::timer::Key;
use crate::timer::execution::panics::{PanicHook, catch_with};
use crate::timer::tasks::job::Job;
use crate::timer::tasks::record::Work;

/// A task that had not started when its timer was stopped.
///
/// It now belongs to the caller: [`run`](Self::run) it, save its key and deadline for the next start
/// of the program, or drop it.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
///
/// let timer = Timer::new();
/// timer.key("order-42").after(Duration::from_secs(1800), || println!("close order 42"))?;
/// let unfired = timer.stop();
/// assert_eq!(unfired[0].key().unwrap().to_string(), "order-42");
/// for task in unfired {
///     task.run();
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Unfired {
    /// `None` after `run`.
    job: Option<Job>,
    /// The key of a plain task. A record holds its key itself.
    key: Option<Key>,
    deadline: Option<Instant>,
    panic_hook: Option<PanicHook>,
}

impl Unfired {
    pub(crate) fn new(
        job: Job,
        key: Option<Key>,
        deadline: Option<Instant>,
        panic_hook: Option<PanicHook>,
    ) -> Self {
        Self { job: Some(job), key, deadline, panic_hook }
    }

    /// Returns the key that the task was scheduled with, if any.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// timer.key("order-42").after(Duration::from_secs(1800), || {})?;
    /// timer.after(Duration::from_secs(3600), || {})?;
    /// let unfired = timer.stop();
    /// assert_eq!(unfired[0].key(), Some(&"order-42".into()));
    /// assert_eq!(unfired[1].key(), None);
    /// # Ok::<(), tickwheel::ScheduleError>(())
    /// ```
    pub fn key(&self) -> Option<&Key> {
        self.key.as_ref().or_else(|| self.job.as_ref()?.record()?.key.as_ref())
    }

    /// Returns the task's deadline, rounded up to a tick of its timer. Returns `None` if the task was
    /// never due.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer.after(Duration::from_secs(1800), || {})?;
    /// timer.after(Duration::MAX, || {})?;
    /// let unfired = timer.stop();
    /// assert_eq!(unfired[0].deadline(), Some(clock.now() + Duration::from_secs(1800)));
    /// assert_eq!(unfired[1].deadline(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Runs the task now, on the calling thread; a periodic task runs once. A panic is caught and
    /// logged, as the timer would do. Returns `false` if the task panicked.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// timer.after(Duration::from_secs(1800), || println!("now rather than never"))?;
    /// timer.after(Duration::from_secs(3600), || panic!("caught"))?;
    /// let ended_well: Vec<bool> = timer.stop().into_iter().map(|task| task.run()).collect();
    /// assert_eq!(ended_well, [true, false]);
    /// # Ok::<(), tickwheel::ScheduleError>(())
    /// ```
    pub fn run(mut self) -> bool {
        let Some(job) = self.job.take() else { return true };
        let hook = self.panic_hook.as_ref();
        let Some(record) = job.record() else {
            return !catch_with(hook, || job.call());
        };
        let work = record.take_work();
        !catch_with(hook, || match work {
            Some(Work::Once(job)) => job.call(),
            Some(Work::Repeat(mut call)) => call(),
            None => {}
        })
    }
}

impl Drop for Unfired {
    fn drop(&mut self) {
        // Drops the closure now, even if a handle still holds the record.
        if let Some(record) = self.job.as_ref().and_then(Job::record) {
            drop(record.take_work());
        }
    }
}

/// The error of [`Timer::stop_timeout`](crate::timer::Timer::stop_timeout): tasks were still running
/// when the limit passed. The timer is stopped in any case.
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
/// timer.after(Duration::from_secs(60), || {})?;
/// has_started.recv()?;
/// let error = timer.stop_timeout(Duration::from_millis(1)).unwrap_err();
/// assert_eq!(error.to_string(), "1 task was still running when the timer was stopped");
/// assert_eq!(error.unfired.len(), 1);
/// # drop(release);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct StillRunning {
    /// The tasks that had not started.
    pub unfired: Vec<Unfired>,
    /// The number of tasks that were still running.
    pub running: usize,
}

impl fmt::Display for StillRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.running {
            1 => f.write_str("1 task was still running when the timer was stopped"),
            n => write!(f, "{n} tasks were still running when the timer was stopped"),
        }
    }
}

impl core::error::Error for StillRunning {}

impl fmt::Debug for Unfired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfired")
            .field("key", &self.key())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
