//! What a pacer has done so far.

/// Counts of a pacer's life so far, for all keys together.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::pace::Pacer;
/// use tickwheel::{ManualClock, Timer};
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let pacer = Pacer::new(&timer, 2, Duration::from_secs(1));
/// for _ in 0..5 {
///     pacer.submit(|| {})?;
/// }
/// clock.advance(Duration::from_millis(1_500));
/// let stats = pacer.stats();
/// assert_eq!((stats.submitted, stats.started, stats.queued), (5, 4, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PacerStats {
    /// Tasks, and futures that had to wait for a permit, that were accepted into a queue.
    pub submitted: u64,
    /// Starts: of tasks, and permits that were given.
    pub started: u64,
    /// Tasks that were cancelled, and futures that were dropped, before their start.
    pub cancelled: u64,
    /// What was refused because a queue was full or the pacer stopped.
    pub rejected: u64,
    /// Tasks, and futures, that wait now.
    pub queued: usize,
    /// Tasks that were started and have not ended. Permits count while they are held if the pacer
    /// limits how many run, or if they had to be waited for.
    pub running: usize,
    /// Keys that cost memory now: those with tasks, with starts in the last window, or with
    /// settings of their own.
    pub keys: usize,
}
