//! What a caller holds of a task.

use core::fmt;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use super::clock::{Nanos, nanos};
use super::record::{Fate, Record};
use super::shared::Shared;
use crate::wheel;

/// A scheduled task: cancel it, reset it, ask about it.
///
/// Dropping a `Timeout` changes nothing: the task stays scheduled.
/// [`cancel_on_drop`](Self::cancel_on_drop) makes a guard of it for which that is different.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
///
/// let timer = Timer::new();
/// let timeout = timer.after(Duration::from_secs(60), || println!("no answer"))?;
/// assert!(timeout.reset(Duration::from_secs(90))); // a sign of life
/// assert!(timeout.cancel()); // the answer
/// assert!(timeout.is_cancelled() && !timeout.is_expired());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Timeout {
    shared: Arc<Shared>,
    task: TaskOf,
}

enum TaskOf {
    /// Nobody but this handle can cancel it, so this handle knows if that was done.
    Plain {
        place: wheel::Key,
        cancelled: AtomicBool,
    },
    Record(Arc<Record>),
}

impl Timeout {
    #[inline]
    pub(super) fn plain(shared: Arc<Shared>, place: wheel::Key) -> Self {
        Self { shared, task: TaskOf::Plain { place, cancelled: AtomicBool::new(false) } }
    }

    pub(super) fn record(shared: Arc<Shared>, record: Arc<Record>) -> Self {
        Self { shared, task: TaskOf::Record(record) }
    }

    /// Cancels the task. `true` for exactly one caller, and then the task never starts (again, if
    /// it is a periodic one), and its closure has been dropped, unless it is running just now.
    /// `false` if it has started, was cancelled before, or was handed back by
    /// [`stop`](super::Timer::stop).
    pub fn cancel(&self) -> bool {
        match &self.task {
            TaskOf::Plain { place, cancelled } => self.shared.cancel(*place, cancelled),
            TaskOf::Record(record) => self.shared.cancel_record(record),
        }
    }

    /// Sets the deadline to `delay` from now, earlier or later than it was. `false` if the task
    /// is not pending. A periodic task goes on from there; one with a wall-clock deadline has
    /// none any more.
    pub fn reset(&self, delay: Duration) -> bool {
        let at = self.shared.clock.now().saturating_add(nanos(delay));
        match &self.task {
            TaskOf::Plain { place, .. } => self.shared.reset(*place, at),
            TaskOf::Record(record) => self.shared.reset_record(record, at),
        }
    }

    fn fate(&self) -> Fate {
        match &self.task {
            TaskOf::Plain { place, cancelled } => match self.shared.fate(*place) {
                // Asked last: a task that is cancelled meanwhile must not look expired.
                Fate::Fired if cancelled.load(Ordering::Acquire) => Fate::Cancelled,
                fate => fate,
            },
            TaskOf::Record(record) => record.fate(),
        }
    }

    /// Whether the task has started, or is about to. A periodic task is expired when its series
    /// has ended by itself.
    pub fn is_expired(&self) -> bool {
        self.fate() == Fate::Fired
    }

    /// Whether the task was cancelled, replaced by another with its key, or dropped with the last
    /// clone of its timer. So is a periodic task that was running when its timer was stopped.
    pub fn is_cancelled(&self) -> bool {
        self.fate() == Fate::Cancelled
    }

    /// Whether the task was handed back as [`Unfired`](super::Unfired) when its timer was stopped.
    /// What the caller then does with it makes no difference here.
    pub fn is_unfired(&self) -> bool {
        self.fate() == Fate::Unfired
    }

    fn due_at(&self) -> Option<Nanos> {
        match &self.task {
            TaskOf::Plain { place, .. } => self.shared.due_at(*place),
            TaskOf::Record(record) => {
                (record.fate() == Fate::Pending).then(|| self.shared.due_at(record.place()))?
            }
        }
    }

    /// When the task is due, rounded up to a tick; `None` if it is not pending, or due never.
    pub fn deadline(&self) -> Option<Instant> {
        self.shared.clock.instant(self.due_at()?)
    }

    /// How long it is until the task is due, zero if it is late; `None` if it is not pending. A
    /// task that is due never has [`Duration::MAX`] left.
    pub fn remaining(&self) -> Option<Duration> {
        let at = self.due_at()?;
        if at == Nanos::MAX {
            return Some(Duration::MAX);
        }
        Some(Duration::from_nanos(at.saturating_sub(self.shared.clock.now())))
    }

    /// Makes a guard of the handle: dropping it cancels the task.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// let guard = timer.after(Duration::from_secs(5), || println!("too slow"))?.cancel_on_drop();
    /// // ... do the work that must be quick ...
    /// drop(guard);
    /// assert_eq!(timer.pending(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "the guard cancels the task when it is dropped, which is at once here"]
    pub fn cancel_on_drop(self) -> TimeoutGuard {
        TimeoutGuard { timeout: Some(self) }
    }
}

impl fmt::Debug for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout")
            .field("remaining", &self.remaining())
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

/// A [`Timeout`] that cancels its task when it is dropped.
#[derive(Debug)]
pub struct TimeoutGuard {
    /// There until the guard is gone.
    timeout: Option<Timeout>,
}

impl TimeoutGuard {
    /// Gives the handle back: the task stays scheduled.
    #[allow(clippy::missing_panics_doc, reason = "only dropping the guard empties it")]
    pub fn disarm(mut self) -> Timeout {
        self.timeout.take().expect("a guard holds its handle until it is gone")
    }
}

impl Deref for TimeoutGuard {
    type Target = Timeout;

    fn deref(&self) -> &Timeout {
        self.timeout.as_ref().expect("a guard holds its handle until it is gone")
    }
}

impl Drop for TimeoutGuard {
    fn drop(&mut self) {
        if let Some(timeout) = &self.timeout {
            timeout.cancel();
        }
    }
}
