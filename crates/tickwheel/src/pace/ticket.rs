//! What a caller holds of a task: its ticket, the verdict on an attempt, and the task itself when
//! `stop` hands it back.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use super::engine::AnyEngine;
use super::lanes::{TaskId, TaskStatus};
use crate::timer::{Host, Job};

/// A submitted task: cancel it, or ask how long it has to wait.
///
/// Dropping a `Ticket` changes nothing: the task keeps its place.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::pace::Pacer;
/// use tickwheel::{ManualClock, Timer};
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let pacer = Pacer::new(&timer, 2, Duration::from_secs(1));
/// let tickets: Vec<_> = (0..6).map(|_| pacer.submit(|| {}).unwrap()).collect();
///
/// assert_eq!(tickets[5].position(), Some(5));
/// assert_eq!(tickets[5].expected_start(), Some(clock.now() + Duration::from_secs(2)));
/// assert!(tickets[3].cancel());
/// assert_eq!(tickets[5].position(), Some(4));
///
/// clock.advance(Duration::from_secs(1));
/// assert!(tickets[2].is_started() && tickets[3].is_cancelled() && tickets[5].is_queued());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Ticket {
    engine: Arc<dyn AnyEngine>,
    task: TaskId,
    /// Only this handle can cancel the task, so it is the one that knows.
    cancelled: AtomicBool,
}

impl Ticket {
    pub(super) fn new(engine: Arc<dyn AnyEngine>, task: TaskId) -> Self {
        Self { engine, task, cancelled: AtomicBool::new(false) }
    }

    /// Cancels the task. Returns `true` to exactly one caller; then the task never starts, and its
    /// closure has been dropped. Returns `false` if it has started, was cancelled before, or was
    /// handed back by [`stop`](super::Pacer::stop).
    pub fn cancel(&self) -> bool {
        Arc::clone(&self.engine).cancel(self.task, &self.cancelled)
    }

    /// Returns `true` if the task has started, or is about to. It is queued again while it waits
    /// for [another attempt](Attempt::RetryAfter).
    pub fn is_started(&self) -> bool {
        // In this order: a task that is cancelled in between must not look started.
        self.engine.status(self.task) == TaskStatus::Gone && !self.is_cancelled()
    }

    /// Returns `true` if the task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Returns `true` if the task waits for its start.
    pub fn is_queued(&self) -> bool {
        self.engine.status(self.task) == TaskStatus::Queued
    }

    /// Returns how many tasks of the same key are ahead of this one; `None` if it is not queued.
    /// Tasks with a higher priority may still overtake it.
    ///
    /// Takes constant time unless tasks of the same priority were cancelled; then it takes time in
    /// proportion to the number of those ahead or those behind, whichever is smaller.
    pub fn position(&self) -> Option<usize> {
        self.engine.position(self.task)
    }

    /// Returns when the task is expected to start, if no task overtakes it or is cancelled and no
    /// limit on running tasks delays it. `None` if it is not queued, is paused, or can never start.
    pub fn expected_start(&self) -> Option<Instant> {
        self.engine.expected_start(self.task)
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("position", &self.position())
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

/// How an attempt of a task ended that
/// [`submit_attempts`](super::Pacer::submit_attempts) accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attempt {
    /// The task is done.
    Done,
    /// The partner refused the call, with a status 429 and a `Retry-After`. The task returns to
    /// its place in the queue, and nothing of its key starts until the delay has passed, as after
    /// [`retry_after`](super::Pacer::retry_after).
    RetryAfter(Duration),
}

/// A task that had not started when its pacer was stopped.
///
/// It belongs to the caller: [`run`](Self::run) it, without regard to any rate, or drop it.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
/// use tickwheel::pace::Pacer;
///
/// let timer = Timer::new();
/// let pacer = Pacer::new(&timer, 100, Duration::from_secs(1));
/// pacer.pause();
/// pacer.submit_with(0, || println!("a report"))?;
/// pacer.submit_with(9, || println!("a payment"))?;
/// for task in pacer.stop() {
///     if task.priority() > 0 {
///         task.run(); // now rather than never
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Unstarted<K = ()> {
    key: K,
    priority: i8,
    job: Job,
    host: Host,
}

impl<K> Unstarted<K> {
    pub(super) fn new(key: K, priority: i8, job: Job, host: Host) -> Self {
        Self { key, priority, job, host }
    }

    /// Returns the key that the task was submitted for.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Returns the priority that the task was submitted with.
    pub fn priority(&self) -> i8 {
        self.priority
    }

    /// Runs the task now, on this thread, once. A panic in it is caught and logged, as the timer
    /// would have done. Returns `true` if it ended without one.
    pub fn run(self) -> bool {
        let Self { job, host, .. } = self;
        !host.catch(|| job.call())
    }

    /// Drops the task. A panic in that is caught and logged.
    pub(super) fn discard(self) {
        let Self { key, job, host, .. } = self;
        host.catch(|| drop(job));
        host.catch(|| drop(key));
    }
}

impl<K: fmt::Debug> fmt::Debug for Unstarted<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unstarted")
            .field("key", &self.key)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}
