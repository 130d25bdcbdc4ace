//! The clocks of a timer. Only this module asks the operating system for the time.
//!
//! A timer counts nanoseconds from the creation of its clock. It reads two clocks:
//! * The **monotonic clock** ([`Instant`]) decides about tasks that are scheduled with a delay or for
//!   an `Instant`. It never goes back and is never set. On Linux it is `CLOCK_MONOTONIC`, which stands
//!   still while the machine is suspended: a delay of ten minutes is ten minutes of running time.
//! * The **wall clock** ([`SystemTime`]) decides about tasks that are scheduled for a `SystemTime`. It
//!   can be set, and it advances during a suspend. The timer reads it when such a task is due and,
//!   while one is pending, once a second. So a change is followed within a second.

mod counter;

use std::fmt;
use std::panic::RefUnwindSafe;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant, SystemTime};
use std::vec::Vec;

use crate::timer::core::Core;

/// Nanoseconds since a timer's clock was created.
pub(crate) type Nanos = u64;

/// Converts a duration to nanoseconds. A duration that does not fit becomes `u64::MAX`, which means
/// never.
#[inline]
pub(crate) fn nanos(duration: Duration) -> Nanos {
    let seconds = duration.as_secs();
    if seconds < u64::MAX / 1_000_000_000 {
        seconds * 1_000_000_000 + u64::from(duration.subsec_nanos())
    } else {
        Nanos::MAX
    }
}

/// The clock of one timer.
#[derive(Clone)]
pub(crate) enum Clock {
    /// The system's monotonic clock. `base_time` is the instant `base` on the time scale of the
    /// [counter].
    System {
        base: Instant,
        base_time: Nanos,
    },
    Manual(ManualClock),
}

impl Clock {
    pub(crate) fn system() -> Self {
        let (base, base_time) = counter::begin();
        Self::System { base, base_time }
    }

    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        match self {
            // Time stands still in a loom model, so that all its runs are alike.
            Self::System { .. } if cfg!(tickwheel_loom) => 0,
            Self::System { base, .. } => nanos(base.elapsed()),
            Self::Manual(clock) => clock.inner.elapsed.load(Ordering::Acquire),
        }
    }

    /// Returns the end of a delay that starts now. Cheaper than [`now`](Self::now), and late by some
    /// microseconds.
    #[inline]
    pub(crate) fn after(&self, delay: Nanos) -> Nanos {
        let now = match self {
            Self::System { .. } if cfg!(tickwheel_loom) => 0,
            Self::System { base_time, .. } => counter::now_or_later().saturating_sub(*base_time),
            Self::Manual(_) => self.now(),
        };
        now.saturating_add(delay)
    }

    /// Returns the wall-clock time in nanoseconds since 1970, or 0 if it is before 1970.
    pub(crate) fn wall(&self) -> Nanos {
        match self {
            Self::System { .. } => unix_nanos(wall_now()),
            Self::Manual(clock) => unix_nanos(clock.wall()),
        }
    }

    fn base(&self) -> Instant {
        match self {
            Self::System { base, .. } => *base,
            Self::Manual(clock) => clock.inner.base,
        }
    }

    /// Converts an instant to a time of this clock: 0 if it is before the clock's creation.
    pub(crate) fn at(&self, instant: Instant) -> Nanos {
        nanos(instant.saturating_duration_since(self.base()))
    }

    /// Converts a time of this clock to an instant. Returns `None` if the time means never.
    pub(crate) fn instant(&self, at: Nanos) -> Option<Instant> {
        if at == Nanos::MAX {
            return None;
        }
        self.base().checked_add(Duration::from_nanos(at))
    }

    /// Returns the time until `at`: zero if it has passed, `Duration::MAX` if it means never.
    pub(crate) fn remaining(&self, at: Nanos) -> Duration {
        if at == Nanos::MAX {
            return Duration::MAX;
        }
        Duration::from_nanos(at.saturating_sub(self.now()))
    }
}

/// Returns the monotonic time, for waits with a limit.
pub(crate) fn instant_now() -> Instant {
    Instant::now()
}

/// Returns the wall-clock time.
pub(crate) fn wall_now() -> SystemTime {
    SystemTime::now()
}

/// Converts a wall-clock time to nanoseconds since 1970. Times before 1970 become 0.
pub(crate) fn unix_nanos(time: SystemTime) -> Nanos {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, nanos)
}

/// A clock that is advanced by hand, for tests.
///
/// Timers built with it start no threads: [`advance`](Self::advance) runs the tasks that become due
/// on the calling thread, in order of deadline, each at exactly its deadline. A test of a half-hour
/// timeout takes a microsecond and cannot be flaky.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use std::time::Duration;
/// use tickwheel::{ManualClock, Timer};
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
///
/// let closed = Arc::new(AtomicBool::new(false));
/// let flag = closed.clone();
/// timer.after(Duration::from_secs(30 * 60), move || flag.store(true, Ordering::Relaxed))?;
///
/// clock.advance(Duration::from_secs(30 * 60 - 1));
/// assert!(!closed.load(Ordering::Relaxed));
/// clock.advance(Duration::from_secs(1));
/// assert!(closed.load(Ordering::Relaxed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ManualClock {
    inner: Arc<Manual>,
}

/// No panic leaves a clock half changed: no user code runs under its locks.
impl RefUnwindSafe for Manual {}

struct Manual {
    base: Instant,
    wall_base: SystemTime,
    elapsed: AtomicU64,
    /// The nanoseconds by which the wall clock was set forward or back.
    wall_shift: AtomicI64,
    timers: Mutex<Vec<Weak<Core>>>,
    /// The thread that is advancing the clock and running due tasks.
    mover: Mutex<Option<ThreadId>>,
    /// Other threads wait here for their turn to advance the clock.
    turn: Condvar,
}

/// The exclusive right of a thread to advance a clock.
struct Turn<'a> {
    clock: &'a Manual,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.clock.mover.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.clock.turn.notify_one();
    }
}

impl ManualClock {
    /// Creates a clock that shows the current time and stands still.
    pub fn new() -> Self {
        Self {
            inner: Arc::new(Manual {
                base: Instant::now(),
                wall_base: SystemTime::now(),
                elapsed: AtomicU64::new(0),
                wall_shift: AtomicI64::new(0),
                timers: Mutex::new(Vec::new()),
                mover: Mutex::new(None),
                turn: Condvar::new(),
            }),
        }
    }

    /// Returns the clock's monotonic time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::ManualClock;
    ///
    /// let clock = ManualClock::new();
    /// let start = clock.now();
    /// clock.advance(Duration::from_secs(5));
    /// assert_eq!(clock.now() - start, Duration::from_secs(5));
    /// ```
    pub fn now(&self) -> Instant {
        self.inner.base + Duration::from_nanos(self.inner.elapsed.load(Ordering::Acquire))
    }

    /// Returns the clock's wall-clock time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::ManualClock;
    ///
    /// let clock = ManualClock::new();
    /// let noon = clock.wall() + Duration::from_secs(3_600);
    /// clock.set_wall(noon);
    /// assert_eq!(clock.wall(), noon);
    /// ```
    pub fn wall(&self) -> SystemTime {
        let plain = self.inner.wall_base + (self.now() - self.inner.base);
        let shift = self.inner.wall_shift.load(Ordering::Acquire);
        let distance = Duration::from_nanos(shift.unsigned_abs());
        if shift < 0 { plain - distance } else { plain + distance }
    }

    /// Advances the clock by a duration and runs the tasks that become due.
    ///
    /// The tasks run on the calling thread, in order of deadline, each at its own deadline. Tasks that
    /// they schedule run too if they become due within the duration.
    ///
    /// Called from a task, it only advances the clock; the outer call then runs the tasks that became
    /// due. Calls from several threads take turns, so a task must not wait for another thread that
    /// advances the clock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer.every(Duration::from_secs(1), || {})?;
    /// clock.advance(Duration::from_secs(10));
    /// assert_eq!(timer.stats().fired, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn advance(&self, by: Duration) {
        let _turn = self.take_turn();
        let target = self.later(by);
        // Timers that are already running tasks: in an outer call on this thread, or in `Timer::turn`.
        let mut busy: Vec<Arc<Core>> = Vec::new();
        loop {
            let is_busy = |timer: &Arc<Core>| busy.iter().any(|other| Arc::ptr_eq(other, timer));
            let timers: Vec<_> = self.timers().into_iter().filter(|t| !is_busy(t)).collect();
            let next = timers.iter().filter_map(|timer| timer.next_deadline()).min();
            let Some(next) = next.filter(|&next| next <= target) else { break };
            self.inner.elapsed.fetch_max(next, Ordering::AcqRel);
            busy.extend(timers.into_iter().filter(|timer| timer.turn().is_none()));
        }
        self.inner.elapsed.fetch_max(target, Ordering::AcqRel);
        for timer in self.timers() {
            timer.turn();
        }
    }

    /// Advances the clock by a duration, from one deadline to the next.
    ///
    /// Each step of the iterator advances the clock to the next deadline of any timer, runs the due
    /// tasks, and returns the new time. The last step reaches the end of the duration. A deadline that
    /// is far away may take extra steps.
    ///
    /// Use this for futures. [`advance`](Self::advance) wakes them, but their executor polls them only
    /// after it has returned, when the clock is already at the end. Between two steps they can be
    /// polled, and the deadlines of new futures are reached too.
    ///
    #[cfg_attr(feature = "async", doc = "```")]
    #[cfg_attr(not(feature = "async"), doc = "```ignore")]
    /// use std::time::Duration;
    /// use futures::executor::LocalPool;
    /// use futures::task::LocalSpawnExt;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let mut pool = LocalPool::new();
    /// let end = clock.now() + Duration::from_secs(10);
    /// let task = pool.spawner().spawn_local_with_handle({
    ///     let clock = clock.clone();
    ///     async move {
    ///         for _ in 0..10 {
    ///             timer.sleep(Duration::from_secs(1)).await; // starts when the last one ended
    ///         }
    ///         assert_eq!(clock.now(), end);
    ///     }
    /// })?;
    /// pool.run_until_stalled();
    /// for _ in clock.steps(Duration::from_secs(60)) {
    ///     pool.run_until_stalled();
    /// }
    /// pool.run_until(task);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn steps(&self, by: Duration) -> Steps {
        let target = self.later(by);
        Steps { clock: self.clone(), target: Some(target) }
    }

    /// Sets the wall clock, as an administrator would. The monotonic time does not change.
    ///
    /// Tasks that are scheduled for a `SystemTime` run at once if they are due by the new time. Calls
    /// take turns with [`advance`](Self::advance).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let noon = clock.wall() + Duration::from_secs(3_600);
    /// timer.at(noon, || {})?;
    /// clock.set_wall(noon);
    /// assert_eq!(timer.stats().fired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_wall(&self, time: SystemTime) {
        let _turn = self.take_turn();
        let plain = self.inner.wall_base + (self.now() - self.inner.base);
        let shift = match time.duration_since(plain) {
            Ok(ahead) => i64::try_from(nanos(ahead)).unwrap_or(i64::MAX),
            Err(behind) => i64::try_from(nanos(behind.duration())).map_or(i64::MIN, |n| -n),
        };
        self.inner.wall_shift.store(shift, Ordering::Release);
        for timer in self.timers() {
            timer.turn();
        }
    }

    /// Returns the time after `by`, capped below `Nanos::MAX`, which means never.
    fn later(&self, by: Duration) -> Nanos {
        let now = self.inner.elapsed.load(Ordering::Acquire);
        now.saturating_add(nanos(by)).min(Nanos::MAX - 1)
    }

    /// Waits until no other thread advances the clock. Returns `None` if the calling thread is already
    /// doing so.
    fn take_turn(&self) -> Option<Turn<'_>> {
        let this = thread::current().id();
        let mut mover = self.inner.mover.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *mover {
                None => break,
                Some(other) if other == this => return None,
                Some(_) => {
                    let woken = self.inner.turn.wait(mover);
                    mover = woken.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        *mover = Some(this);
        Some(Turn { clock: &self.inner })
    }

    pub(crate) fn attach(&self, timer: &Arc<Core>) {
        let mut timers = self.inner.timers.lock().unwrap_or_else(PoisonError::into_inner);
        timers.retain(|timer| timer.strong_count() > 0);
        timers.push(Arc::downgrade(timer));
    }

    fn timers(&self) -> Vec<Arc<Core>> {
        let timers = self.inner.timers.lock().unwrap_or_else(PoisonError::into_inner);
        timers.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock")
            .field("elapsed", &Duration::from_nanos(self.inner.elapsed.load(Ordering::Acquire)))
            .finish_non_exhaustive()
    }
}

/// An iterator that advances a clock from deadline to deadline, returned by [`ManualClock::steps`].
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{ManualClock, Timer};
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let second = Duration::from_secs(1);
/// timer.after(3 * second, || {})?;
/// timer.after(5 * second, || {})?;
/// let start = clock.now();
/// let times: Vec<_> = clock.steps(9 * second).map(|now| now - start).collect();
/// assert_eq!(times, [3 * second, 5 * second, 9 * second]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the clock advances only when the iterator is used"]
pub struct Steps {
    clock: ManualClock,
    /// The time at which the iterator ends; `None` afterwards.
    target: Option<Nanos>,
}

impl Iterator for Steps {
    type Item = Instant;

    fn next(&mut self) -> Option<Instant> {
        let target = self.target?;
        let now = self.clock.inner.elapsed.load(Ordering::Acquire);
        let deadlines = self.clock.timers().into_iter().filter_map(|timer| timer.next_deadline());
        let next = deadlines.filter(|&at| at > now).min().unwrap_or(target);
        if next >= target {
            self.target = None;
        }
        self.clock.advance(Duration::from_nanos(next.min(target).saturating_sub(now)));
        Some(self.clock.now())
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;

    /// Otherwise deadlines would be early by the difference, from the first clock of a process on:
    /// only a process that runs no other test shows that.
    #[test]
    fn a_clock_and_the_counter_begin_at_the_same_instant() {
        let Clock::System { base, base_time } = Clock::system() else { unreachable!() };
        let (now, time) = counter::begin();
        assert_eq!(u128::from(time - base_time), (now - base).as_nanos());
    }
}
