//! Reserving jobs: at once, with a wait, or within a budget of memory.

use std::time::Duration;

use crate::client::answer::Answer;
use crate::client::queues::Queues;
use crate::client::response;
use crate::engine::Reserve;
use crate::model::admission::{Admission, Offer};
use crate::model::job::Delivery;
use crate::runtime::request::Request;

impl Queues {
    /// Leases ready jobs of a queue to the caller, at most `jobs` of them, in order of due time,
    /// priority and insertion. The length of the lease defaults to the queue's setting and cannot
    /// be zero.
    ///
    /// The list is empty if no job is ready, and ends early once its jobs have 16 MiB (see
    /// [`Builder::measure`](crate::Builder::measure)).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put_all((0..3).map(|_| NewJob::new("mail", ""))).wait()?;
    /// assert_eq!(queues.reserve("mail", 2, Duration::from_secs(5)).wait()?.len(), 2);
    /// assert_eq!(queues.reserve("mail", 2, None).wait()?.len(), 1);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn reserve(
        &self,
        queue: impl Into<String>,
        jobs: usize,
        lease: impl Into<Option<Duration>>,
    ) -> Answer<Vec<Delivery>> {
        self.reserve_within(queue, jobs, lease, Duration::ZERO)
    }

    /// Reserves like [`reserve`](Self::reserve), and waits up to `wait` for the first job if none
    /// is ready.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let millis = Duration::from_millis;
    /// queues.put(NewJob::new("mail", "").delay(millis(5))).wait()?;
    /// assert_eq!(queues.reserve_within("mail", 1, None, millis(10_000)).wait()?.len(), 1);
    /// assert_eq!(queues.reserve_within("mail", 1, None, millis(1)).wait()?.len(), 0);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn reserve_within(
        &self,
        queue: impl Into<String>,
        jobs: usize,
        lease: impl Into<Option<Duration>>,
        wait: Duration,
    ) -> Answer<Vec<Delivery>> {
        self.reserve_by(queue.into(), jobs, lease.into(), wait, Admission::default())
    }

    /// Reserves like [`reserve_within`](Self::reserve_within), and asks `admit` before each job is
    /// leased. The answer ends at the first job that is refused, which stays ready.
    ///
    /// This bounds the memory of many answers together: `admit` charges each job to a budget that
    /// all callers share. It runs on the writer's thread, so it must be fast, must not panic, and
    /// must not call the queue.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tickwheel_queue::{Error, NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put_all((0..5).map(|_| NewJob::new("mail", "10 bytes !"))).wait()?;
    /// let budget = Arc::new(AtomicUsize::new(25));
    /// let reserve = || {
    ///     let budget = Arc::clone(&budget);
    ///     queues.reserve_while("mail", 5, None, Duration::ZERO, move |offer| {
    ///         let relaxed = Ordering::Relaxed;
    ///         budget.fetch_update(relaxed, relaxed, |left| left.checked_sub(offer.bytes)).is_ok()
    ///     })
    /// };
    /// assert_eq!(reserve().wait()?.len(), 2);
    /// assert_eq!(reserve().wait(), Err(Error::NotAdmitted));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotAdmitted`](crate::Error::NotAdmitted) if jobs are ready and the first of them is
    /// refused.
    pub fn reserve_while(
        &self,
        queue: impl Into<String>,
        jobs: usize,
        lease: impl Into<Option<Duration>>,
        wait: Duration,
        admit: impl Fn(&Offer<'_>) -> bool + Send + Sync + 'static,
    ) -> Answer<Vec<Delivery>> {
        self.reserve_by(queue.into(), jobs, lease.into(), wait, Admission::by(admit))
    }

    fn reserve_by(
        &self,
        queue: String,
        jobs: usize,
        lease: Option<Duration>,
        wait: Duration,
        admission: Admission,
    ) -> Answer<Vec<Delivery>> {
        let worker = self.worker.clone();
        let request = Request::Reserve(Reserve { queue, jobs, lease, admission, worker }, wait);
        self.request(request, response::deliveries)
    }
}
