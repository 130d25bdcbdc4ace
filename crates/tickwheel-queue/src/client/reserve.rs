//! Reserving jobs: at once, with a wait, or within a budget of memory.

use std::sync::Arc;
use std::time::Duration;

use crate::client::answer::Answer;
use crate::client::queues::Queues;
use crate::client::response;
use crate::engine::{LeaseOf, Reserve, Source};
use crate::model::admission::{Admission, Offer};
use crate::model::id::JobId;
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
        let (source, worker) = (Source::Queue(queue), self.worker.clone());
        let reserve = Reserve { source, jobs, lease, lease_of: None, admission, worker };
        self.request(Request::Reserve(reserve, wait), response::deliveries)
    }

    /// Reserves one job from any of several queues, and waits up to this long for it. If several
    /// queues have ready jobs, the queue whose next job has the highest priority is served; of
    /// several such queues, the one whose next job was due first. Each queue keeps its own order.
    ///
    /// `lease_of` reads the length of the lease from the job's headers; `None` is the setting of its
    /// queue. `admit` is asked as in [`reserve_while`](Self::reserve_while). Queues that the handle
    /// has no access to are left out.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put(NewJob::new("mail", "hello")).wait()?;
    /// queues.put(NewJob::new("alarms", "fire").priority(9)).wait()?;
    /// let watched = ["mail".into(), "alarms".into()];
    /// let next = || queues.reserve_any(watched.clone(), Duration::ZERO, |_| None, |_| true);
    /// assert_eq!(&*next().wait()?.unwrap().job.queue, "alarms");
    /// assert_eq!(&*next().wait()?.unwrap().job.queue, "mail");
    /// assert!(next().wait()?.is_none());
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotAdmitted`](crate::Error::NotAdmitted) if a job is ready and is refused;
    /// [`Error::Forbidden`](crate::Error::Forbidden) if the handle has access to none of the queues.
    pub fn reserve_any(
        &self,
        queues: impl Into<Arc<[Arc<str>]>>,
        wait: Duration,
        lease_of: LeaseOf,
        admit: impl Fn(&Offer<'_>) -> bool + Send + Sync + 'static,
    ) -> Answer<Option<Delivery>> {
        let source = Source::AnyOf(queues.into());
        self.reserve_one(source, wait, lease_of, Admission::by(admit))
    }

    /// Reserves a job by its id: a ready one, a scheduled one before its time, or a dead one, which
    /// is brought back to life first. Neither a pause nor the pace of its queue holds it back.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let later = NewJob::new("mail", "hello").delay(Duration::from_secs(60));
    /// let id = queues.put(later).wait()?.id;
    /// let delivery = queues.reserve_job(id, |_| None, |_| true).wait()?.unwrap();
    /// assert_eq!(delivery.job.id, id);
    /// assert!(queues.reserve_job(id, |_| None, |_| true).wait().is_err());
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`](crate::Error::NotFound) if there is no such job, and
    /// [`Error::WrongState`](crate::Error::WrongState) if a worker has it or it is done or cancelled.
    pub fn reserve_job(
        &self,
        id: JobId,
        lease_of: LeaseOf,
        admit: impl Fn(&Offer<'_>) -> bool + Send + Sync + 'static,
    ) -> Answer<Option<Delivery>> {
        self.reserve_one(Source::Job(id), Duration::ZERO, lease_of, Admission::by(admit))
    }

    fn reserve_one(
        &self,
        source: Source,
        wait: Duration,
        lease_of: LeaseOf,
        admission: Admission,
    ) -> Answer<Option<Delivery>> {
        let (lease_of, worker) = (Some(lease_of), self.worker.clone());
        let reserve = Reserve { source, jobs: 1, lease: None, lease_of, admission, worker };
        self.request(Request::Reserve(reserve, wait), response::delivery)
    }
}
