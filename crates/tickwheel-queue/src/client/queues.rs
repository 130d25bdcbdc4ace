//! The front door: one handle for all operations on queues.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::client::answer::Answer;
use crate::client::builder::Builder;
use crate::client::events::Events;
use crate::client::response;
use crate::engine::{Command, Put};
use crate::model::access::Access;
use crate::model::error::{Error, OpenError};
use crate::model::event::EventId;
use crate::model::idempotency::{IdempotencyKey, PutOnce};
use crate::model::job::{Job, JobRef, State};
use crate::model::list::{List, Page};
use crate::model::new_job::{NewJob, When};
use crate::model::time::Time;
use crate::runtime::core::Core;
use crate::runtime::reading::Read;
use crate::runtime::request::{Ask, Request, Response};

/// Durable queues of delayed jobs.
///
/// Clones are handles to the same queues. Dropping the last one finishes all requests that were
/// sent and closes the store.
///
/// Every operation returns an [`Answer`]: `.await` it in a task, or `.wait()` for it on a thread.
/// Its result is durable by then.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{NewJob, Queues};
///
/// let folder = tempfile::tempdir()?;
/// let queues = Queues::open(folder.path())?;
/// queues.put(NewJob::new("orders", "close order 42").key("order-42")).wait()?;
///
/// for delivery in queues.reserve("orders", 10, Duration::from_secs(30)).wait()? {
///     assert_eq!(&delivery.job.payload[..], b"close order 42");
///     queues.ack(delivery.lease).wait()?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Queues {
    handle: Arc<Handle>,
    access: Access,
    pub(super) worker: Option<Arc<str>>,
}

struct Handle {
    core: Arc<Core>,
    writer: Option<JoinHandle<()>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.core.inbox.close();
        self.core.readers.stop();
        // A waker may drop the last handle on the very thread that would be joined.
        if let Some(writer) = self.writer.take().filter(|_| !self.core.owns_thread())
            && writer.join().is_err()
        {
            tracing::error!("the writer panicked");
        }
    }
}

impl Queues {
    pub(crate) fn new(core: Arc<Core>, writer: Option<JoinHandle<()>>) -> Self {
        let handle = Handle { core, writer };
        Self { handle: Arc::new(handle), access: Access::default(), worker: None }
    }

    /// Opens the queues in a directory, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// If the directory cannot be opened; the error says why and what to do.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::builder().open(path)
    }

    /// Opens queues in memory, which are gone when they are closed.
    ///
    /// # Panics
    ///
    /// If the operating system refuses a thread.
    pub fn in_memory() -> Self {
        Self::builder().in_memory().expect("the default settings make sense")
    }

    /// Returns a builder, for settings of your own.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns a handle to the same queues with this access, in place of this handle's own.
    ///
    /// For that handle, the jobs and schedules of other queues do not exist: their ids are not
    /// found, and lists and events omit them. An operation that names another queue returns
    /// [`Error::Forbidden`]. Once the access is revoked, every operation returns
    /// [`Error::Revoked`], including a waiting `reserve`, whose jobs go to the next worker.
    ///
    /// ```
    /// use tickwheel_queue::{Access, Error, NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let tenant = queues.limited_to(Access::to(["orders-*"]));
    /// assert!(tenant.put(NewJob::new("orders-eu", "")).wait().is_ok());
    /// let refused = tenant.put(NewJob::new("payroll", "")).wait();
    /// assert_eq!(refused, Err(Error::Forbidden("payroll".into())));
    /// ```
    #[must_use]
    pub fn limited_to(&self, access: Access) -> Self {
        Self { access, ..self.clone() }
    }

    /// Returns a handle to the same queues that gives the name of a worker with each `reserve`: 1
    /// to 128 bytes without control characters. The name is shown with the jobs that the worker
    /// has, and in their [history](crate::Job::history).
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let id = queues.put(NewJob::new("mail", "hello")).wait()?.id;
    /// queues.as_worker("mail-7").reserve("mail", 1, None).wait()?;
    /// assert_eq!(queues.get(id).wait()?.unwrap().worker.as_deref(), Some("mail-7"));
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    #[must_use]
    pub fn as_worker(&self, name: impl Into<Arc<str>>) -> Self {
        Self { worker: Some(name.into()), ..self.clone() }
    }

    pub(crate) fn send<T>(
        &self,
        command: Command,
        convert: fn(Response) -> Result<T, Error>,
    ) -> Answer<T> {
        self.request(Request::Command(command), convert)
    }

    /// Puts a job.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let put = queues.put(NewJob::new("mail", "hello").delay(Duration::from_secs(5))).wait()?;
    /// assert!(queues.get(put.id).wait()?.is_some());
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn put(&self, job: NewJob) -> Answer<Put> {
        self.send(Command::Put(vec![job]), response::put)
    }

    /// Puts many jobs in one commit: after a crash, all accepted jobs are there or none.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let jobs = (0..100).map(|number| NewJob::new("mail", number.to_string()));
    /// let puts = queues.put_all(jobs).wait()?;
    /// assert!(puts.iter().all(Result::is_ok));
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn put_all(
        &self,
        jobs: impl IntoIterator<Item = NewJob>,
    ) -> Answer<Vec<Result<Put, Error>>> {
        self.send(Command::Put(jobs.into_iter().collect()), response::puts)
    }

    /// Puts jobs in one commit, so that repeating the call with the same key puts nothing and
    /// returns the first answer again, also after a crash and when the jobs are long done.
    ///
    /// If no job was accepted, the key is not used, and the call can be repeated.
    ///
    /// ```
    /// use tickwheel_queue::{IdempotencyKey, NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let put = || queues.put_once(IdempotencyKey::new("order-42"), [NewJob::new("mail", "hi")]);
    /// assert!(!put().wait()?.is_replay);
    /// assert!(put().wait()?.is_replay);
    /// assert_eq!(queues.stats().wait()?.pending, 1);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::IdempotencyConflict`] if the key was used with another fingerprint.
    pub fn put_once(
        &self,
        key: IdempotencyKey,
        jobs: impl IntoIterator<Item = NewJob>,
    ) -> Answer<PutOnce> {
        let command = Command::PutOnce(Box::new(key), jobs.into_iter().collect());
        self.send(command, response::put_once)
    }

    /// Cancels a live job by id or key, and returns its previous state. A worker that has the job
    /// finds out when it acknowledges or extends.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, Queues, State};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put(NewJob::new("orders", "").key("order-42").delay(Duration::from_secs(9))).wait()?;
    /// assert_eq!(queues.cancel(("orders", "order-42")).wait()?, State::Scheduled);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn cancel(&self, job: impl Into<JobRef>) -> Answer<State> {
        self.send(Command::Cancel(vec![job.into()]), response::state)
    }

    /// Cancels many jobs in one commit.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let id = queues.put(NewJob::new("mail", "")).wait()?.id;
    /// let results = queues.cancel_all([id, id]).wait()?;
    /// assert!(results[0].is_ok() && results[1].is_err());
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn cancel_all<J: Into<JobRef>>(
        &self,
        jobs: impl IntoIterator<Item = J>,
    ) -> Answer<Vec<Result<State, Error>>> {
        self.send(Command::Cancel(jobs.into_iter().map(Into::into).collect()), response::states)
    }

    /// Moves the due time of a waiting job, and returns the new due time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let id = queues.put(NewJob::new("mail", "")).wait()?.id;
    /// let due = queues.reschedule(id, Duration::from_secs(60)).wait()?;
    /// assert_eq!(queues.get(id).wait()?.unwrap().due, due);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn reschedule(&self, job: impl Into<JobRef>, when: impl Into<When>) -> Answer<Time> {
        self.send(Command::Reschedule(vec![(job.into(), when.into())]), response::time)
    }

    /// Moves the due times of many waiting jobs, in one commit.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let id = queues.put(NewJob::new("mail", "")).wait()?.id;
    /// let times = queues.reschedule_all([(id, Duration::from_secs(60))]).wait()?;
    /// assert!(times[0].is_ok());
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn reschedule_all<J: Into<JobRef>, W: Into<When>>(
        &self,
        jobs: impl IntoIterator<Item = (J, W)>,
    ) -> Answer<Vec<Result<Time, Error>>> {
        let jobs = jobs.into_iter().map(|(job, when)| (job.into(), when.into())).collect();
        self.send(Command::Reschedule(jobs), response::times)
    }

    /// Returns a job by id or key, or `None` if there is none. By key, only live jobs are found.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put(NewJob::new("mail", "hello").key("first")).wait()?;
    /// let job = queues.get(("mail", "first")).wait()?.unwrap();
    /// assert_eq!(&job.payload[..], b"hello");
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn get(&self, job: impl Into<JobRef>) -> Answer<Option<Job>> {
        self.read(Read::Get(vec![job.into()]), response::job)
    }

    /// Returns many jobs, all from one snapshot.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let id = queues.put(NewJob::new("mail", "hello")).wait()?.id;
    /// let jobs = queues.get_all([id]).wait()?;
    /// assert!(matches!(&jobs[0], Ok(Some(job)) if job.id == id));
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn get_all<J: Into<JobRef>>(
        &self,
        jobs: impl IntoIterator<Item = J>,
    ) -> Answer<Vec<Result<Option<Job>, Error>>> {
        self.read(Read::Get(jobs.into_iter().map(Into::into).collect()), response::jobs)
    }

    /// Returns a page of the jobs of a queue.
    ///
    /// ```
    /// use tickwheel_queue::{List, NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put(NewJob::new("mail", "hello")).wait()?;
    /// assert_eq!(queues.list(List::of("mail")).wait()?.jobs.len(), 1);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn list(&self, list: List) -> Answer<Page> {
        self.read(Read::List(list), response::page)
    }

    /// Returns a stream of the events of jobs, from now on or after an event. An event is sent
    /// after its commit and before its caller is answered. A listener that starts during a commit
    /// may first be told that events were lost; a `list` after that is complete.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let mut events = queues.events(None);
    /// queues.put(NewJob::new("mail", "")).wait()?;
    /// let lease = queues.reserve("mail", 1, None).wait()?[0].lease;
    /// queues.ack(lease).wait()?;
    /// let kinds: Vec<_> = (0..3).map(|_| events.wait().unwrap().kind.as_str()).collect();
    /// assert_eq!(kinds, ["put", "leased", "acked"]);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn events(&self, after: impl Into<Option<EventId>>) -> Events {
        Events::new(&self.handle.core.events, after.into(), self.access.clone())
    }

    pub(crate) fn request<T>(
        &self,
        request: Request,
        convert: fn(Response) -> Result<T, Error>,
    ) -> Answer<T> {
        Answer::new(&self.handle.core, request, &self.access, convert)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.handle.core
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    pub(crate) fn ask<T>(&self, ask: Ask, convert: fn(Response) -> Result<T, Error>) -> Answer<T> {
        self.request(Request::Ask(ask), convert)
    }

    pub(crate) fn read<T>(
        &self,
        read: Read,
        convert: fn(Response) -> Result<T, Error>,
    ) -> Answer<T> {
        self.request(Request::Read(read), convert)
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queues").field("names", &self.handle.core.names()).finish_non_exhaustive()
    }
}
