//! The handle of a scheduled task.

use core::fmt;
use core::ops::Deref;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use crate::timer::clock::{Nanos, nanos};
use crate::timer::core::shard::Shard;
use crate::timer::sync::AtomicBool;
use crate::timer::tasks::record::{Fate, Record};
use crate::wheel;

/// A handle to a scheduled task: cancels it, moves its deadline, tells its state.
///
/// Dropping a `Timeout` does not cancel the task. [`cancel_on_drop`](Self::cancel_on_drop) turns the
/// handle into a guard that does.
///
/// A task has exactly one fate. Its handle reports the fate as long as the handle lives, even after
/// the timer is gone. While the task is pending, all three methods return `false`.
///
/// | fate of the task | reported by |
/// |---|---|
/// | it started; a periodic task ended by itself | [`is_expired`](Self::is_expired) |
/// | it was cancelled, replaced by the next task with its key, or dropped with its timer | [`is_cancelled`](Self::is_cancelled) |
/// | [`stop`](crate::timer::Timer::stop) handed it back | [`is_unfired`](Self::is_unfired) |
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
    shard: Arc<Shard>,
    task: TaskOf,
}

enum TaskOf {
    /// A task without a key. Only its handle can cancel it, so the handle records that.
    Plain { wheel_key: wheel::Key, cancelled: AtomicBool },
    /// A task with a key, which can also be cancelled by the key. The key table records that as long
    /// as this handle lives.
    Keyed { wheel_key: wheel::Key, cancelled: AtomicBool },
    /// A periodic task, or one with a wall-clock deadline.
    Record(Arc<Record>),
}

impl Timeout {
    #[inline]
    pub(crate) fn plain(shard: Arc<Shard>, wheel_key: wheel::Key) -> Self {
        Self { shard, task: TaskOf::Plain { wheel_key, cancelled: AtomicBool::new(false) } }
    }

    #[inline]
    pub(crate) fn keyed(shard: Arc<Shard>, wheel_key: wheel::Key) -> Self {
        Self { shard, task: TaskOf::Keyed { wheel_key, cancelled: AtomicBool::new(false) } }
    }

    pub(crate) fn record(shard: Arc<Shard>, record: Arc<Record>) -> Self {
        Self { shard, task: TaskOf::Record(record) }
    }

    /// Cancels the task. Returns `true` for exactly one caller.
    ///
    /// After `true` the task never starts, or never starts again if it is periodic, and its closure
    /// has been dropped unless it is running at this moment. Returns `false` if the task has started,
    /// was cancelled before, or was handed back by [`stop`](crate::timer::Timer::stop), or if its
    /// timer is gone.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let timeout = timer.after(Duration::from_secs(5), || println!("no answer"))?;
    /// assert!(timeout.cancel());
    /// assert!(!timeout.cancel());
    /// clock.advance(Duration::from_secs(10));
    /// assert_eq!(timer.stats().fired, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) -> bool {
        match &self.task {
            TaskOf::Plain { wheel_key, cancelled } | TaskOf::Keyed { wheel_key, cancelled } => {
                self.shard.cancel(*wheel_key, cancelled)
            }
            TaskOf::Record(record) => self.shard.cancel_record(record),
        }
    }

    /// Sets the deadline to `delay` from now, whether that is earlier or later than before. Returns
    /// `false` if the task is not pending.
    ///
    /// A periodic task continues from the new deadline. A task with a wall-clock deadline follows the
    /// monotonic clock from now on.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let timeout = timer.after(Duration::from_secs(5), || println!("no sign of life"))?;
    /// clock.advance(Duration::from_secs(4));
    /// assert!(timeout.reset(Duration::from_secs(5)));
    /// clock.advance(Duration::from_secs(4));
    /// assert_eq!(timer.pending(), 1);
    /// clock.advance(Duration::from_secs(1));
    /// assert!(!timeout.reset(Duration::from_secs(5))); // too late: it has run
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset(&self, delay: Duration) -> bool {
        match &self.task {
            TaskOf::Plain { wheel_key, .. } | TaskOf::Keyed { wheel_key, .. } => {
                self.shard.reset(*wheel_key, nanos(delay))
            }
            TaskOf::Record(record) => self.shard.reset_record(record, nanos(delay)),
        }
    }

    fn fate(&self) -> Fate {
        match &self.task {
            TaskOf::Plain { wheel_key, cancelled } | TaskOf::Keyed { wheel_key, cancelled } => {
                match self.shard.fate(*wheel_key) {
                    // Read last: a task that is cancelled meanwhile must not appear expired.
                    Fate::Fired if cancelled.load(Ordering::Acquire) => Fate::Cancelled,
                    fate => fate,
                }
            }
            TaskOf::Record(record) => record.fate(),
        }
    }

    /// Returns `true` if the task has started or is about to start, so that it can no longer be
    /// cancelled. A periodic task expires when its series ends by itself. A task that an executor
    /// dropped without running it has expired too.
    ///
    /// A task that never ran because its timer is gone has not expired: it was
    /// [cancelled](Self::is_cancelled) with the timer, or [handed back](Self::is_unfired).
    ///
    pub fn is_expired(&self) -> bool {
        self.fate() == Fate::Fired
    }

    /// Returns `true` if the task was cancelled, replaced by another task with its key, or dropped
    /// with the last clone of its timer. A periodic task that was running when its timer was stopped
    /// counts as cancelled.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// let first = timer.key("order-42").after(Duration::from_secs(5), || {})?;
    /// let second = timer.key("order-42").after(Duration::from_secs(9), || {})?;
    /// assert!(first.is_cancelled()); // replaced
    /// drop(timer);
    /// assert!(second.is_cancelled()); // dropped with the timer
    /// # Ok::<(), tickwheel::ScheduleError>(())
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.fate() == Fate::Cancelled
    }

    /// Returns `true` if the task was handed back as [`Unfired`](crate::timer::Unfired) when its timer
    /// was stopped. Whether the caller then runs it makes no difference.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// let timeout = timer.after(Duration::from_secs(5), || {})?;
    /// let unfired = timer.stop();
    /// assert_eq!(unfired.len(), 1);
    /// assert!(timeout.is_unfired() && !timeout.is_expired() && !timeout.is_cancelled());
    /// # Ok::<(), tickwheel::ScheduleError>(())
    /// ```
    pub fn is_unfired(&self) -> bool {
        self.fate() == Fate::Unfired
    }

    fn due_at(&self) -> Option<Nanos> {
        match &self.task {
            TaskOf::Plain { wheel_key, .. } | TaskOf::Keyed { wheel_key, .. } => {
                self.shard.due_at(*wheel_key)
            }
            TaskOf::Record(record) => {
                (record.fate() == Fate::Pending).then(|| self.shard.due_at(record.wheel_key()))?
            }
        }
    }

    /// Returns the task's deadline, rounded up to a tick. Returns `None` if the task is not pending or
    /// is never due.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let timeout = timer.after(Duration::from_secs(5), || {})?;
    /// assert_eq!(timeout.deadline(), Some(clock.now() + Duration::from_secs(5)));
    /// timeout.cancel();
    /// assert_eq!(timeout.deadline(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        self.shard.driver.clock.instant(self.due_at()?)
    }

    /// Returns the time until the task is due: zero if it is late, and [`Duration::MAX`] if it is
    /// never due. Returns `None` if the task is not pending.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let timeout = timer.after(Duration::from_secs(5), || {})?;
    /// clock.advance(Duration::from_secs(2));
    /// assert_eq!(timeout.remaining(), Some(Duration::from_secs(3)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remaining(&self) -> Option<Duration> {
        Some(self.shard.driver.clock.remaining(self.due_at()?))
    }

    /// Turns the handle into a guard that cancels the task when it is dropped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// let timer = Timer::new();
    /// let guard = timer.after(Duration::from_secs(5), || println!("too slow"))?.cancel_on_drop();
    /// // ... work that must finish within 5 seconds ...
    /// drop(guard);
    /// assert_eq!(timer.pending(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "dropping the guard cancels the task"]
    pub fn cancel_on_drop(self) -> TimeoutGuard {
        TimeoutGuard { timeout: Some(self) }
    }
}

impl Drop for Timeout {
    #[inline]
    fn drop(&mut self) {
        if let TaskOf::Keyed { wheel_key, .. } = &self.task {
            self.shard.unwatch(*wheel_key);
        }
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
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{ManualClock, Timer};
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// {
///     let guard = timer.after(Duration::from_secs(5), || println!("too slow"))?.cancel_on_drop();
///     assert!(guard.reset(Duration::from_secs(9))); // a guard is still a handle
/// }
/// assert_eq!(timer.stats().cancelled, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TimeoutGuard {
    /// `None` only after `disarm`.
    timeout: Option<Timeout>,
}

impl TimeoutGuard {
    /// Turns the guard back into a plain handle. The task stays scheduled.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let guard = timer.after(Duration::from_secs(5), || {})?.cancel_on_drop();
    /// drop(guard.disarm());
    /// clock.advance(Duration::from_secs(5));
    /// assert_eq!(timer.stats().fired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[allow(clippy::missing_panics_doc, reason = "only this method takes the handle")]
    pub fn disarm(mut self) -> Timeout {
        self.timeout.take().expect("only `disarm` takes the handle")
    }
}

impl Deref for TimeoutGuard {
    type Target = Timeout;

    fn deref(&self) -> &Timeout {
        self.timeout.as_ref().expect("only `disarm` takes the handle")
    }
}

impl Drop for TimeoutGuard {
    fn drop(&mut self) {
        if let Some(timeout) = &self.timeout {
            timeout.cancel();
        }
    }
}
