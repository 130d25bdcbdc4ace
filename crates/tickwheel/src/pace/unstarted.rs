//! What `stop` hands back.

use core::fmt;

use crate::timer::{Host, Job};

/// A task that had not started when its pacer was stopped.
///
/// It belongs to the caller now: [`run`](Self::run) it, without regard to any rate, or drop it.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
/// use tickwheel::pace::Pacer;
///
/// let timer = Timer::new();
/// let pacer = Pacer::new(&timer, 100, Duration::from_secs(1));
/// pacer.pause();
/// pacer.submit(|| println!("never mind the rate"))?;
/// for task in pacer.stop() {
///     assert_eq!(task.priority(), 0);
///     task.run();
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

    /// The key that the task was submitted for.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    /// use tickwheel::pace::KeyedPacer;
    ///
    /// let timer = Timer::new();
    /// let pacer: KeyedPacer<&str> = KeyedPacer::new(&timer, 100, Duration::from_secs(1));
    /// pacer.pause();
    /// pacer.key("acme").submit(|| {})?;
    /// assert_eq!(*pacer.stop()[0].key(), "acme");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The priority that the task was submitted with.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let pacer = Pacer::new(&timer, 1, Duration::from_secs(1));
    /// pacer.submit_with(0, || println!("a report"))?;
    /// pacer.submit_with(9, || println!("a payment"))?;
    /// let priorities: Vec<i8> = pacer.stop().iter().map(|task| task.priority()).collect();
    /// assert_eq!(priorities, [9, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn priority(&self) -> i8 {
        self.priority
    }

    /// Runs the task now, on this thread. A panic in it is caught and logged, as the timer would
    /// have done. Says whether it ended without one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::pace::Pacer;
    /// use tickwheel::{ManualClock, Timer};
    ///
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let pacer = Pacer::new(&timer, 1, Duration::from_secs(1));
    /// pacer.submit(|| println!("late, but done"))?;
    /// pacer.submit(|| panic!("a bug"))?;
    /// let ended: Vec<bool> = pacer.stop().into_iter().map(|task| task.run()).collect();
    /// assert_eq!(ended, [true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run(self) -> bool {
        let Self { job, host, .. } = self;
        !host.catch(|| job.call())
    }

    /// Drops the task; a panic in that is caught and logged.
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
