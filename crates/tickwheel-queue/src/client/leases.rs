//! The operations of a worker on its leased jobs: acknowledge, fail, extend and release.
//!
//! Each needs the lease of the delivery. A worker whose lease has expired gets an error, and the job
//! is unchanged.

use std::time::Duration;

use bytes::Bytes;

use crate::client::answer::Answer;
use crate::client::queues::Queues;
use crate::client::response;
use crate::engine::{Command, FailedAttempt, ReleasedJob};
use crate::model::error::Error;
use crate::model::job::{Lease, State};
use crate::model::new_job::When;
use crate::model::retry::Retry;
use crate::model::time::Time;

impl Queues {
    /// Acknowledges a job, which is removed or kept as the queue's retention says.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let id = queues.put(NewJob::new("mail", "")).wait()?.id;
    /// let delivery = &queues.reserve("mail", 1, None).wait()?[0];
    /// queues.ack(delivery.lease).wait()?;
    /// assert_eq!(queues.get(id).wait()?, None);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn ack(&self, lease: Lease) -> Answer<()> {
        self.send(Command::Ack(vec![(lease, None)]), response::unit)
    }

    /// Acknowledges many jobs, in one commit.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put_all((0..3).map(|_| NewJob::new("mail", ""))).wait()?;
    /// let jobs = queues.reserve("mail", 3, None).wait()?;
    /// let results = queues.ack_all(jobs.iter().map(|job| job.lease)).wait()?;
    /// assert!(results.iter().all(Result::is_ok));
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn ack_all(
        &self,
        leases: impl IntoIterator<Item = Lease>,
    ) -> Answer<Vec<Result<(), Error>>> {
        self.ack_all_with_results(leases.into_iter().map(|lease| (lease, None)))
    }

    /// Acknowledges a job with a result of at most
    /// [`Job::MAX_RESULT_BYTES`](crate::Job::MAX_RESULT_BYTES). The result is kept with the job, as
    /// long as the queue's retention keeps done jobs, and is the payload of the job's
    /// [follow-up](crate::NewJob::on_success).
    ///
    /// ```
    /// use tickwheel_queue::{Keep, NewJob, Queues, SettingsPatch};
    ///
    /// let queues = Queues::in_memory();
    /// let id = queues.put(NewJob::new("sums", "2 + 3")).wait()?.id;
    /// let patch = SettingsPatch { done: Some(Keep::FOREVER), ..SettingsPatch::default() };
    /// queues.patch_settings("sums", patch).wait()?;
    /// let lease = queues.reserve("sums", 1, None).wait()?[0].lease;
    /// queues.ack_with_result(lease, "5").wait()?;
    /// assert_eq!(queues.get(id).wait()?.unwrap().result.as_deref(), Some(&b"5"[..]));
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn ack_with_result(&self, lease: Lease, result: impl Into<Bytes>) -> Answer<()> {
        self.send(Command::Ack(vec![(lease, Some(result.into()))]), response::unit)
    }

    /// Acknowledges many jobs, some of them with a result, in one commit.
    pub fn ack_all_with_results(
        &self,
        jobs: impl IntoIterator<Item = (Lease, Option<Bytes>)>,
    ) -> Answer<Vec<Result<(), Error>>> {
        self.send(Command::Ack(jobs.into_iter().collect()), response::units)
    }

    /// Reports a failed attempt, and returns the job's new state: scheduled or ready if it is tried
    /// again, otherwise dead.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues, Retry, State};
    ///
    /// let queues = Queues::in_memory();
    /// let id = queues.put(NewJob::new("mail", "").max_attempts(1)).wait()?.id;
    /// let delivery = &queues.reserve("mail", 1, None).wait()?[0];
    /// let state = queues.fail(delivery.lease, "connection refused", Retry::ByPolicy).wait()?;
    /// assert_eq!(state, State::Dead);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn fail(&self, lease: Lease, error: impl Into<String>, retry: Retry) -> Answer<State> {
        self.fail_as(lease, error.into(), None, retry, None)
    }

    /// Reports a failed attempt that is not retried: the job is dead. After a kick it has the given
    /// priority.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let id = queues.put(NewJob::new("mail", "")).wait()?.id;
    /// let lease = queues.reserve("mail", 1, None).wait()?[0].lease;
    /// queues.bury(lease, "wrong address", 5).wait()?;
    /// queues.kick(id).wait()?;
    /// assert_eq!(queues.get(id).wait()?.unwrap().priority, 5);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn bury(&self, lease: Lease, error: impl Into<String>, priority: i8) -> Answer<State> {
        self.fail_as(lease, error.into(), None, Retry::Never, Some(priority))
    }

    fn fail_as(
        &self,
        lease: Lease,
        error: String,
        detail: Option<String>,
        retry: Retry,
        priority: Option<i8>,
    ) -> Answer<State> {
        let failure = FailedAttempt { lease, error, detail, retry, priority };
        self.send(Command::Fail(vec![failure]), response::state)
    }

    /// Reports a failed attempt with a detail beside the error, for example an excerpt of a
    /// response. The [history](crate::Job::history) keeps its first 512 bytes.
    pub fn fail_with_detail(
        &self,
        lease: Lease,
        error: impl Into<String>,
        detail: impl Into<String>,
        retry: Retry,
    ) -> Answer<State> {
        self.fail_as(lease, error.into(), Some(detail.into()), retry, None)
    }

    /// Reports many failed attempts, in one commit.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues, Retry};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put(NewJob::new("mail", "")).wait()?;
    /// let jobs = queues.reserve("mail", 1, None).wait()?;
    /// let failures = jobs.iter().map(|job| (job.lease, "no", Retry::ByPolicy));
    /// assert!(queues.fail_all(failures).wait()?[0].is_ok());
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn fail_all<E: Into<String>>(
        &self,
        failures: impl IntoIterator<Item = (Lease, E, Retry)>,
    ) -> Answer<Vec<Result<State, Error>>> {
        let failures = failures
            .into_iter()
            .map(|(lease, error, retry)| {
                let error = error.into();
                FailedAttempt { lease, error, detail: None, retry, priority: None }
            })
            .collect();
        self.send(Command::Fail(failures), response::states)
    }

    /// Extends a lease so that it ends `length` from now, and returns its new end. The length must
    /// be greater than zero.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put(NewJob::new("mail", "")).wait()?;
    /// let delivery = &queues.reserve("mail", 1, None).wait()?[0];
    /// let until = queues.extend(delivery.lease, Duration::from_secs(600)).wait()?;
    /// assert!(Some(until) > delivery.job.leased_until);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn extend(&self, lease: Lease, length: Duration) -> Answer<Time> {
        self.send(Command::Extend(vec![(lease, length)]), response::time)
    }

    /// Extends many leases, in one commit.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put(NewJob::new("mail", "")).wait()?;
    /// let jobs = queues.reserve("mail", 1, None).wait()?;
    /// let leases = jobs.iter().map(|job| (job.lease, Duration::from_secs(600)));
    /// assert!(queues.extend_all(leases).wait()?[0].is_ok());
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn extend_all(
        &self,
        leases: impl IntoIterator<Item = (Lease, Duration)>,
    ) -> Answer<Vec<Result<Time, Error>>> {
        self.send(Command::Extend(leases.into_iter().collect()), response::times)
    }

    /// Releases a job without counting the delivery as an attempt. With `Duration::ZERO` the job
    /// returns to its old place in the queue.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put(NewJob::new("mail", "")).wait()?;
    /// let lease = queues.reserve("mail", 1, None).wait()?[0].lease;
    /// queues.release(lease, Duration::ZERO).wait()?;
    /// assert_eq!(queues.reserve("mail", 1, None).wait()?[0].job.attempts, 1);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn release(&self, lease: Lease, when: impl Into<When>) -> Answer<()> {
        self.release_as(lease, when.into(), None, None)
    }

    fn release_as(
        &self,
        lease: Lease,
        when: When,
        error: Option<String>,
        priority: Option<i8>,
    ) -> Answer<()> {
        let released = ReleasedJob { lease, when, error, priority };
        self.send(Command::Release(vec![released]), response::unit)
    }

    /// Releases a job, and says why. The [history](crate::Job::history) keeps the first 512 bytes
    /// of the error. The job has not failed, so [`Job::last_error`](crate::Job::last_error) stays
    /// as it is.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let id = queues.put(NewJob::new("mail", "")).wait()?.id;
    /// let lease = queues.reserve("mail", 1, None).wait()?[0].lease;
    /// queues.release_with_error(lease, Duration::ZERO, "the mail server is busy").wait()?;
    /// let job = queues.get(id).wait()?.unwrap();
    /// assert_eq!(job.history[0].error.as_deref(), Some("the mail server is busy"));
    /// assert_eq!((job.attempts, job.last_error), (0, None));
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn release_with_error(
        &self,
        lease: Lease,
        when: impl Into<When>,
        error: impl Into<String>,
    ) -> Answer<()> {
        self.release_as(lease, when.into(), Some(error.into()), None)
    }

    /// Releases a job with another priority.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put(NewJob::new("mail", "")).wait()?;
    /// let lease = queues.reserve("mail", 1, None).wait()?[0].lease;
    /// queues.release_with_priority(lease, Duration::ZERO, -7).wait()?;
    /// assert_eq!(queues.reserve("mail", 1, None).wait()?[0].job.priority, -7);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn release_with_priority(
        &self,
        lease: Lease,
        when: impl Into<When>,
        priority: i8,
    ) -> Answer<()> {
        self.release_as(lease, when.into(), None, Some(priority))
    }

    /// Releases many jobs, in one commit.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put(NewJob::new("mail", "")).wait()?;
    /// let jobs = queues.reserve("mail", 1, None).wait()?;
    /// let leases = jobs.iter().map(|job| (job.lease, Duration::ZERO));
    /// assert!(queues.release_all(leases).wait()?[0].is_ok());
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn release_all<W: Into<When>>(
        &self,
        leases: impl IntoIterator<Item = (Lease, W)>,
    ) -> Answer<Vec<Result<(), Error>>> {
        let released = leases.into_iter().map(|(lease, when)| {
            let when = when.into();
            ReleasedJob { lease, when, error: None, priority: None }
        });
        self.send(Command::Release(released.collect()), response::units)
    }
}
