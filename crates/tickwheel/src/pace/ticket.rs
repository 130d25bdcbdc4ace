//! What a caller holds of a task.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Instant;

use super::shared::Desk;
use super::state::{Fate, TaskRef};

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
/// assert!(tickets[2].is_started() && !tickets[3].is_started());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Ticket {
    desk: Arc<dyn Desk>,
    task: TaskRef,
    /// Nobody but this handle can cancel the task, so this handle knows if that was done.
    cancelled: AtomicBool,
}

impl Ticket {
    pub(super) fn new(desk: Arc<dyn Desk>, task: TaskRef) -> Self {
        Self { desk, task, cancelled: AtomicBool::new(false) }
    }

    /// Cancels the task. `true` for exactly one caller, and then the task never starts, and its
    /// closure has been dropped. `false` if it has started, was cancelled before, or was handed
    /// back by [`stop`](super::Pacer::stop).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    /// use tickwheel::pace::Pacer;
    ///
    /// let timer = Timer::new();
    /// let pacer = Pacer::new(&timer, 100, Duration::from_secs(1));
    /// pacer.pause();
    /// let ticket = pacer.submit(|| unreachable!())?;
    /// assert!(ticket.cancel());
    /// assert!(!ticket.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) -> bool {
        Arc::clone(&self.desk).cancel(self.task, &self.cancelled)
    }

    /// Whether the task has started, or is about to.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = Pacer::new(&timer, 100, Duration::from_secs(1));
    /// let ticket = pacer.submit(|| {})?;
    /// assert!(!ticket.is_started());
    /// clock.advance(Duration::ZERO);
    /// assert!(ticket.is_started());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_started(&self) -> bool {
        // In this order: a task that is cancelled meanwhile must not look started.
        self.desk.fate(self.task) == Fate::Gone && !self.is_cancelled()
    }

    /// Whether the task was cancelled.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let pacer = Pacer::new(&timer, 1, Duration::from_secs(1));
    /// let ticket = pacer.submit(|| {})?;
    /// assert!(!ticket.is_cancelled());
    /// ticket.cancel();
    /// assert!(ticket.is_cancelled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Whether the task waits for its start.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = Pacer::new(&timer, 1, Duration::from_secs(1));
    /// let ticket = pacer.submit(|| {})?;
    /// assert!(ticket.is_queued());
    /// clock.advance(Duration::ZERO);
    /// assert!(!ticket.is_queued());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_queued(&self) -> bool {
        self.desk.fate(self.task) == Fate::Waits
    }

    /// How many tasks of the same key are to start before this one, as things stand: a task with a
    /// higher priority may still come. `None` if it does not wait.
    ///
    /// Where tasks ahead of it or behind it were cancelled this takes time in proportion to the
    /// number of those ahead or behind, whichever are fewer.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = Pacer::new(&timer, 1, Duration::from_secs(1));
    /// let report = pacer.submit(|| {})?;
    /// assert_eq!(report.position(), Some(0));
    /// pacer.submit_with(9, || println!("a payment"))?; // overtakes it
    /// assert_eq!(report.position(), Some(1));
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(report.position(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn position(&self) -> Option<usize> {
        self.desk.position(self.task)
    }

    /// When the task is expected to start, as things stand: if nobody overtakes it or is
    /// cancelled, and if a limit on how many run does not hold it up. `None` if it does not wait,
    /// if it is paused, or if it will never be its turn.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let pacer = Pacer::new(&timer, 1, Duration::from_secs(1));
    /// pacer.submit(|| println!("now"))?;
    /// let ticket = pacer.submit(|| println!("in a second"))?;
    /// assert_eq!(ticket.expected_start(), Some(clock.now() + Duration::from_secs(1)));
    /// pacer.pause();
    /// assert_eq!(ticket.expected_start(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn expected_start(&self) -> Option<Instant> {
        self.desk.expected_start(self.task)
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
