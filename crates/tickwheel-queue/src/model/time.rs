//! Points in time. The rest of this crate reads the clock only through this file.
//!
//! The queue counts wall-clock milliseconds since 1970: a job must be due at the same time after a
//! restart, and no other clock survives one. The engine never reads the clock; the present is
//! passed to it as a [`Now`] with every group of commands.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tickwheel::ManualClock;

/// A point in time: milliseconds since 1970 began in UTC, up to the end of the year 9999.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tickwheel_queue::Time;
///
/// let time = Time::from_millis(1_500);
/// assert_eq!(SystemTime::from(time), SystemTime::UNIX_EPOCH + Duration::from_millis(1_500));
/// assert_eq!(Time::from(SystemTime::from(time)), time);
/// assert_eq!(Time::from_millis(u64::MAX), Time::MAX);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The last millisecond of the year 9999.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// Creates the time this many milliseconds after 1970 began, at most [`Time::MAX`].
    pub const fn from_millis(millis: u64) -> Self {
        if millis > Self::MAX.0 { Self::MAX } else { Self(millis) }
    }

    /// Returns the milliseconds since 1970 began.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the time this much later, at most [`Time::MAX`]. A fraction of a millisecond counts
    /// as a whole one, so that nothing becomes due early.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::Time;
    ///
    /// assert_eq!(Time::from_millis(5).after(Duration::from_micros(1)), Time::from_millis(6));
    /// assert_eq!(Time::from_millis(5).after(Duration::MAX), Time::MAX);
    /// ```
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(millis(delay)))
    }

    pub(crate) const fn after_a_millisecond(self) -> Self {
        Self::from_millis(self.0 + 1)
    }

    /// Returns the duration since an earlier time; zero if that is not earlier.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::Time;
    ///
    /// assert_eq!(Time::from_millis(9).since(Time::from_millis(4)), Duration::from_millis(5));
    /// assert_eq!(Time::from_millis(4).since(Time::from_millis(9)), Duration::ZERO);
    /// ```
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Returns the milliseconds of a duration, rounded up and saturating.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl From<SystemTime> for Time {
    /// Rounds up to a millisecond. Times before 1970 become 1970.
    fn from(time: SystemTime) -> Self {
        Self::from_millis(time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, millis))
    }
}

impl From<Time> for SystemTime {
    fn from(time: Time) -> Self {
        Self::UNIX_EPOCH + Duration::from_millis(time.0)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

/// The present, as the time since 1970 began.
///
/// A clock shows fractions of milliseconds. What is *due* is decided by the millisecond that has
/// begun; a *delay* counts from the next one. So nothing is early by a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now(pub(crate) Duration);

impl Now {
    /// Returns the millisecond that has begun.
    pub(crate) fn time(self) -> Time {
        Time::from_millis(u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns the first whole millisecond at which `delay` has passed; without a delay, the
    /// present one.
    pub(crate) fn after(self, delay: Duration) -> Time {
        if delay.is_zero() { self.time() } else { Time::from_millis(millis(self.0)).after(delay) }
    }

    /// Returns the duration since an earlier time.
    pub(crate) fn since(self, time: Time) -> Duration {
        self.0.saturating_sub(Duration::from_millis(time.as_millis()))
    }
}

/// A time that the present never falls short of. Clones share it.
///
/// The owner of a replicated store raises it to the time of the last record in the log, so that
/// time does not run backwards when ownership moves to a machine whose clock is behind.
///
/// ```
/// use tickwheel_queue::{Time, TimeFloor};
///
/// let floor = TimeFloor::default();
/// floor.raise(Time::from_millis(5_000));
/// // An older record does not lower it.
/// floor.raise(Time::from_millis(3_000));
/// assert_eq!(floor.time(), Time::from_millis(5_000));
/// ```
#[derive(Clone, Debug, Default)]
pub struct TimeFloor(Arc<AtomicU64>);

impl TimeFloor {
    /// Raises the floor to a time, unless it is higher already.
    pub fn raise(&self, time: Time) {
        self.0.fetch_max(time.as_millis(), Ordering::Relaxed);
    }

    /// Returns the floor.
    pub fn time(&self) -> Time {
        Time::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// The source of the present.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    /// The machine's clock is used if `None`.
    pub(crate) manual: Option<ManualClock>,
    pub(crate) floor: Option<TimeFloor>,
}

impl Clock {
    pub(crate) fn now(&self) -> Now {
        let wall = match &self.manual {
            None => SystemTime::now(),
            Some(clock) => clock.wall(),
        };
        let now = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let floor = self.floor.as_ref().map_or(0, |floor| floor.time().as_millis());
        Now(now.max(Duration::from_millis(floor)))
    }
}

/// Returns the monotonic time, for waits with a timeout.
pub(crate) fn instant_now() -> std::time::Instant {
    std::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_present_never_falls_short_of_the_floor() {
        let manual = ManualClock::new();
        let floor = TimeFloor::default();
        let clock = Clock { manual: Some(manual.clone()), floor: Some(floor.clone()) };
        let start = clock.now().time();
        floor.raise(start.after(Duration::from_millis(300)));
        floor.raise(start);
        assert_eq!(clock.now().time().since(start), Duration::from_millis(300));
        manual.advance(Duration::from_millis(301));
        assert_eq!(clock.now().time().since(start), Duration::from_millis(301));
    }

    #[test]
    fn nothing_is_due_a_fraction_early() {
        let now = Now(Duration::from_micros(1_200));
        assert_eq!(now.time(), Time::from_millis(1));
        assert_eq!(now.after(Duration::ZERO), Time::from_millis(1));
        assert_eq!(now.after(Duration::from_millis(5)), Time::from_millis(7));
        assert_eq!(now.after(Duration::from_nanos(1)), Time::from_millis(3));
        assert_eq!(now.after(Duration::MAX), Time::MAX);
        assert_eq!(now.since(Time::from_millis(1)), Duration::from_micros(200));
    }
}
