//! What `stop` hands back.

use core::fmt;
use std::time::Instant;
use std::vec::Vec;

use super::Key;
use super::job::Job;
use super::panics::{PanicHook, catch_with};
use super::record::Work;

/// A task that had not started when its timer was stopped.
///
/// It belongs to the caller now: [`run`](Self::run) it, note its key and deadline down for the
/// next start, or drop it.
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
    /// There until it was run.
    job: Option<Job>,
    deadline: Option<Instant>,
    panic_hook: Option<PanicHook>,
}

impl Unfired {
    pub(super) fn new(job: Job, deadline: Option<Instant>, panic_hook: Option<PanicHook>) -> Self {
        Self { job: Some(job), deadline, panic_hook }
    }

    /// The key that the task was scheduled with, if it was.
    pub fn key(&self) -> Option<&Key> {
        self.job.as_ref()?.record()?.key.as_ref()
    }

    /// When it would have been due, rounded up to a tick of its timer; `None` if never.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Runs the task now, on this thread; a periodic one once. A panic in it is caught and
    /// logged, as the timer would have done. Says whether it ended without one.
    pub fn run(mut self) -> bool {
        let Some(job) = self.job.take() else { return true };
        let hook = self.panic_hook.as_ref();
        let Some(record) = job.record() else {
            return !catch_with(hook, || job.call());
        };
        let work = record.take_work();
        !catch_with(hook, || match work {
            Some(Work::Once(job)) => job.call(),
            Some(Work::Again(mut call)) => call(),
            None => {}
        })
    }
}

impl Drop for Unfired {
    fn drop(&mut self) {
        // The closure goes now, whoever else still holds the record.
        if let Some(record) = self.job.as_ref().and_then(Job::record) {
            drop(record.take_work());
        }
    }
}

/// Tasks were still running when [`Timer::stop_timeout`](super::Timer::stop_timeout) gave up
/// waiting for them. The timer is stopped all the same.
#[derive(Debug)]
#[non_exhaustive]
pub struct StillRunning {
    /// The tasks that had not started.
    pub unfired: Vec<Unfired>,
    /// How many were running.
    pub running: usize,
}

impl fmt::Display for StillRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tasks were still running when the timer was stopped", self.running)
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
