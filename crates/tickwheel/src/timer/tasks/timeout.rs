//! What a caller holds of a task.

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

/// A scheduled task: cancel it, reset it, ask about it.
///
/// Dropping a `Timeout` changes nothing: the task stays scheduled.
/// [`cancel_on_drop`](Self::cancel_on_drop) makes a guard of it for which that is different.
///
/// A task has one end, and its handle tells which for as long as the handle lives, also when the
/// timer is gone. Until then all three are `false`.
///
/// | what became of the task | |
/// |---|---|
/// | it has started; a series has ended by itself | [`is_expired`](Self::is_expired) |
/// | it was cancelled, replaced by the next task of its key, or dropped with its timer | [`is_cancelled`](Self::is_cancelled) |
/// | [`stop`](crate::timer::Timer::stop) has handed it back | [`is_unfired`](Self::is_unfired) |
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
    /// Nobody but this handle can cancel it, so this handle knows if that was done.
    Plain {
        wheel_key: wheel::Key,
        cancelled: AtomicBool,
    },
    /// It can be cancelled by its key as well: the timer knows of that for as long as this handle
    /// is there.
    Keyed {
        wheel_key: wheel::Key,
        cancelled: AtomicBool,
    },
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

    /// Cancels the task. `true` for exactly one caller, and then the task never starts (again, if
    /// it is a periodic one), and its closure has been dropped, unless it is running just now.
    /// `false` if it has started, was cancelled before, was handed back by
    /// [`stop`](crate::timer::Timer::stop), or its timer is gone.
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

    /// Sets the deadline to `delay` from now, earlier or later than it was. `false` if the task
    /// is not pending. A periodic task goes on from there; one with a wall-clock deadline has
    /// none any more.
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
                    // Asked last: a task that is cancelled meanwhile must not look expired.
                    Fate::Fired if cancelled.load(Ordering::Acquire) => Fate::Cancelled,
                    fate => fate,
                }
            }
            TaskOf::Record(record) => record.fate(),
        }
    }

    /// Whether the task has started, or is about to: its time has come, and it can no longer be
    /// cancelled. A periodic task is expired when its series has ended by itself. A task that an
    /// executor dropped instead of running it is expired too.
    ///
    /// A task that never ran because its timer is gone is not: it [was
    /// cancelled](Self::is_cancelled) with the timer, or [handed back](Self::is_unfired).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let timeout = timer.after(Duration::from_secs(5), || {})?;
    /// assert!(!timeout.is_expired());
    /// clock.advance(Duration::from_secs(5));
    /// assert!(timeout.is_expired());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_expired(&self) -> bool {
        self.fate() == Fate::Fired
    }

    /// Whether the task was cancelled, replaced by another with its key, or dropped with the last
    /// clone of its timer. So is a periodic task that was running when its timer was stopped.
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

    /// Whether the task was handed back as [`Unfired`](crate::timer::Unfired) when its timer was stopped.
    /// It is the caller's then, and whether the caller runs it makes no difference here.
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

    /// When the task is due, rounded up to a tick; `None` if it is not pending, or due never.
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

    /// How long it is until the task is due, zero if it is late; `None` if it is not pending. A
    /// task that is due never has [`Duration::MAX`] left.
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
///     assert!(guard.reset(Duration::from_secs(9))); // it is still a handle
/// }
/// assert_eq!(timer.stats().cancelled, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TimeoutGuard {
    /// There until the guard is gone.
    timeout: Option<Timeout>,
}

impl TimeoutGuard {
    /// Gives the handle back: the task stays scheduled.
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
