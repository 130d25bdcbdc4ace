//! Operations on whole queues and on dead jobs.

use std::sync::Arc;
use std::time::Duration;

use crate::client::answer::Answer;
use crate::client::queues::Queues;
use crate::client::response;
use crate::engine::{Command, Put, Removal, Sweep};
use crate::model::activity::Activity;
use crate::model::error::Error;
use crate::model::error_group::{ErrorList, ErrorPage};
use crate::model::group::{GroupList, GroupPage, GroupPatch, GroupSettings};
use crate::model::id::JobId;
use crate::model::import::ImportedJob;
use crate::model::job::State;
use crate::model::sample::Sample;
use crate::model::settings::{QueueSettings, SettingsPatch};
use crate::model::short_id::ShortId;
use crate::model::stats::{QueueInfo, Stats};
use crate::model::time::Time;
use crate::model::upcoming::DueCount;
use crate::model::wheel::WheelInfo;
use crate::runtime::due_reading::DueCounting;
use crate::runtime::error_reading::ErrorGrouping;
use crate::runtime::id_reading::IdSearch;
use crate::runtime::reading::Read;
use crate::runtime::request::Ask;

impl Queues {
    /// Makes a dead job ready again, with all its attempts.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues, Retry};
    ///
    /// let queues = Queues::in_memory();
    /// let id = queues.put(NewJob::new("mail", "")).wait()?.id;
    /// let lease = queues.reserve("mail", 1, None).wait()?[0].lease;
    /// queues.fail(lease, "no", Retry::Never).wait()?;
    /// queues.kick(id).wait()?;
    /// assert_eq!(queues.reserve("mail", 1, None).wait()?.len(), 1);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn kick(&self, id: JobId) -> Answer<()> {
        self.send(Command::Kick(vec![id]), response::unit)
    }

    /// Makes many dead jobs ready again, in one commit.
    pub fn kick_all(&self, ids: impl IntoIterator<Item = JobId>) -> Answer<Vec<Result<(), Error>>> {
        self.send(Command::Kick(ids.into_iter().collect()), response::units)
    }

    /// Removes a job that waits or is dead, and returns the state that it was in: a scheduled or ready
    /// job is cancelled, a dead one is dropped.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues, Retry, State};
    ///
    /// let queues = Queues::in_memory();
    /// let id = queues.put(NewJob::new("mail", "")).wait()?.id;
    /// let lease = queues.reserve("mail", 1, None).wait()?[0].lease;
    /// assert!(queues.remove_job(id).wait().is_err()); // a worker has it
    /// queues.fail(lease, "no", Retry::Never).wait()?;
    /// assert_eq!(queues.remove_job(id).wait()?, State::Dead);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn remove_job(&self, id: JobId) -> Answer<State> {
        self.send(Command::Remove(vec![id]), response::state)
    }

    /// Adds jobs of another store with their ids, attempts and states, in one commit. A job whose
    /// id exists is refused with [`Error::IdExists`], so an import can be repeated. A finished job
    /// is refused if its queue would not keep it.
    pub fn import(
        &self,
        jobs: impl IntoIterator<Item = ImportedJob>,
    ) -> Answer<Vec<Result<Put, Error>>> {
        self.send(Command::Import(jobs.into_iter().collect()), response::puts)
    }

    /// Returns the ids of the jobs that a short id stands for, finished jobs included: one if it is
    /// unambiguous, and at most ten.
    pub fn find_ids(&self, short: ShortId) -> Answer<Vec<JobId>> {
        self.read(Read::Ids(IdSearch::new(short)), response::ids)
    }

    /// Makes dead jobs of a queue ready again, the oldest first and at most `at_most` of them, and
    /// returns their number. A job whose key another job has taken stays dead. Works in steps:
    /// after a crash, some of them may be left.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues, Retry};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put(NewJob::new("mail", "")).wait()?;
    /// let lease = queues.reserve("mail", 1, None).wait()?[0].lease;
    /// queues.fail(lease, "no", Retry::Never).wait()?;
    /// assert_eq!(queues.kick_some("mail", 100).wait()?, 1);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn kick_some(&self, queue: impl Into<String>, at_most: u64) -> Answer<u64> {
        let sweep = Sweep { at_most, ..Sweep::new(queue.into()) };
        self.send(Command::KickSome(sweep), response::count)
    }

    /// Removes the dead, done or cancelled jobs of a queue that finished before a time, and returns
    /// their number. Works in steps: after a crash, some of them may be left.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues, Retry, State, Time};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put(NewJob::new("mail", "")).wait()?;
    /// let lease = queues.reserve("mail", 1, None).wait()?[0].lease;
    /// queues.fail(lease, "no", Retry::Never).wait()?;
    /// assert_eq!(queues.remove_finished("mail", State::Dead, Time::MAX).wait()?, 1);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    #[doc(alias = "purge")]
    pub fn remove_finished(
        &self,
        queue: impl Into<String>,
        state: State,
        before: impl Into<Time>,
    ) -> Answer<u64> {
        let sweep = Sweep { state, before: before.into(), ..Sweep::new(queue.into()) };
        self.send(Command::Purge(sweep), response::count)
    }

    /// The earlier name of [`remove_finished`](Self::remove_finished). In other queues a purge
    /// removes the jobs that wait.
    pub fn purge(
        &self,
        queue: impl Into<String>,
        state: State,
        before: impl Into<Time>,
    ) -> Answer<u64> {
        self.remove_finished(queue, state, before)
    }

    /// Cancels the scheduled and ready jobs of a queue, and returns their number. Leased jobs stay,
    /// and so may jobs that are put meanwhile. Works in steps: after a crash, some of them may be
    /// left.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put_all((0..3).map(|_| NewJob::new("mail", ""))).wait()?;
    /// assert_eq!(queues.cancel_waiting("mail").wait()?, 3);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    #[doc(alias = "drain")]
    pub fn cancel_waiting(&self, queue: impl Into<String>) -> Answer<u64> {
        self.send(Command::Drain(Sweep::new(queue.into())), response::count)
    }

    /// The earlier name of [`cancel_waiting`](Self::cancel_waiting). To drain a timer is to let its
    /// tasks run.
    pub fn drain(&self, queue: impl Into<String>) -> Answer<u64> {
        self.cancel_waiting(queue)
    }

    /// Removes a queue with its settings, and returns the number of jobs that were removed with it.
    /// A queue with jobs, finished ones included, is removed only with `force`: its jobs are
    /// cancelled and removed in steps, and a crash may leave some. A later put to that name creates
    /// the queue again.
    ///
    /// Queues without jobs, without settings of their own and without a schedule are removed
    /// automatically after 24 hours without use.
    ///
    /// ```
    /// use tickwheel_queue::{Error, NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put(NewJob::new("mail", "")).wait()?;
    /// let refused = queues.remove_queue("mail", false).wait();
    /// assert_eq!(refused, Err(Error::QueueNotEmpty { queue: "mail".into(), jobs: 1 }));
    /// assert_eq!(queues.remove_queue("mail", true).wait()?, 1);
    /// assert_eq!(queues.queue("mail").wait()?, None);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn remove_queue(&self, queue: impl Into<String>, force: bool) -> Answer<u64> {
        let removal = Removal { force, jobs: 0, phase: 0, sweep: Sweep::new(queue.into()) };
        self.send(Command::RemoveQueue(removal), response::count)
    }

    /// Stops deliveries of a queue until it is resumed. Jobs can still be put.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.pause("mail").wait()?;
    /// queues.put(NewJob::new("mail", "")).wait()?;
    /// assert!(queues.reserve("mail", 1, None).wait()?.is_empty());
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn pause(&self, queue: impl Into<String>) -> Answer<()> {
        self.send(Command::Pause { queue: queue.into(), paused: true }, response::unit)
    }

    /// Holds deliveries of an existing queue back for a while. A shorter time, zero included, replaces
    /// a longer one. The pause is not stored: closing the queues ends it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put(NewJob::new("mail", "")).wait()?;
    /// queues.pause_for("mail", Duration::from_secs(60)).wait()?;
    /// assert!(queues.reserve("mail", 1, None).wait()?.is_empty());
    /// queues.pause_for("mail", Duration::ZERO).wait()?;
    /// assert_eq!(queues.reserve("mail", 1, None).wait()?.len(), 1);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchQueue`] if there is none.
    pub fn pause_for(&self, queue: impl Into<String>, length: Duration) -> Answer<()> {
        self.send(Command::PauseFor { queue: queue.into(), length }, response::unit)
    }

    /// Returns the id of the job that would be delivered next, whether the queue is paused or not;
    /// `None` if no ready job is in memory.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let id = queues.put(NewJob::new("mail", "")).wait()?.id;
    /// assert_eq!(queues.next_ready("mail").wait()?, Some(id));
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn next_ready(&self, queue: impl Into<String>) -> Answer<Option<JobId>> {
        self.ask(Ask::Next(queue.into()), response::next_id)
    }

    /// Resumes deliveries of a queue.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.pause("mail").wait()?;
    /// queues.put(NewJob::new("mail", "")).wait()?;
    /// queues.resume("mail").wait()?;
    /// assert_eq!(queues.reserve("mail", 1, None).wait()?.len(), 1);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn resume(&self, queue: impl Into<String>) -> Answer<()> {
        self.send(Command::Pause { queue: queue.into(), paused: false }, response::unit)
    }

    /// Replaces the settings of a queue, which is created if it does not exist.
    ///
    /// ```
    /// use tickwheel_queue::{QueueSettings, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let settings = QueueSettings { max_attempts: 3, ..QueueSettings::default() };
    /// queues.configure("mail", settings).wait()?;
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn configure(&self, queue: impl Into<String>, settings: QueueSettings) -> Answer<()> {
        let settings = Box::new(settings);
        self.send(Command::Configure { queue: queue.into(), settings }, response::unit)
    }

    /// Changes some settings of a queue, which is created if it does not exist, and returns all its
    /// settings. Concurrent changes of different fields do not undo each other.
    ///
    /// See [`SettingsPatch`] for an example.
    pub fn patch_settings(
        &self,
        queue: impl Into<String>,
        patch: SettingsPatch,
    ) -> Answer<QueueSettings> {
        let patch = Box::new(patch);
        self.send(Command::PatchSettings { queue: queue.into(), patch }, response::settings)
    }

    /// Changes the settings of one group of a queue, which is created if it does not exist, and
    /// returns all settings of the group. At most [`GroupSettings::MAX_GROUPS`] groups of a queue
    /// have settings.
    ///
    /// See [`GroupSettings`] for an example.
    pub fn patch_group(
        &self,
        queue: impl Into<String>,
        group: impl Into<String>,
        patch: GroupPatch,
    ) -> Answer<GroupSettings> {
        let (queue, group) = (queue.into(), group.into());
        self.send(Command::PatchGroup { queue, group, patch }, response::group)
    }

    /// Lists the groups of a queue that have live jobs or settings, by name.
    ///
    /// See [`GroupList`] for an example.
    pub fn groups(&self, list: GroupList) -> Answer<GroupPage> {
        self.read(Read::Groups(list), response::groups)
    }

    /// Returns a queue: its settings and its numbers of jobs.
    pub fn queue(&self, name: impl Into<String>) -> Answer<Option<QueueInfo>> {
        self.ask(Ask::Queues(Some(name.into())), response::queue)
    }

    /// Returns all queues.
    pub fn queues(&self) -> Answer<Vec<QueueInfo>> {
        self.ask(Ask::Queues(None), response::queues)
    }

    /// Returns counters since the queues were opened, and current numbers.
    pub fn stats(&self) -> Answer<Stats> {
        self.ask(Ask::Stats, response::stats)
    }

    /// Returns the counters of all queues together, and of each queue in which something happened at
    /// `since` or later or which is named. Takes less than [`queues`](Self::queues) does.
    ///
    /// See [`Sample`] for an example.
    pub fn sample(&self, since: Time, names: Vec<Arc<str>>) -> Answer<Sample> {
        self.ask(Ask::Sample(since, names), response::sample)
    }

    /// Returns the number of jobs in each slot of the timing wheel. Counting visits every job on the
    /// wheel, so it takes time in proportion to their number.
    ///
    /// See [`WheelInfo`] for an example.
    pub fn wheel(&self) -> Answer<WheelInfo> {
        self.ask(Ask::Wheel, response::wheel)
    }

    /// Groups the dead jobs, and the jobs that will be tried again, by the error of their last
    /// attempt. Looks at up to 500,000 jobs, in steps.
    ///
    /// See [`ErrorGroup`](crate::ErrorGroup) for an example.
    pub fn errors(&self, list: ErrorList) -> Answer<ErrorPage> {
        self.read(Read::Errors(ErrorGrouping::new(list)), response::errors)
    }

    /// Counts the waiting jobs of each queue by their due time: up to each of the given times, in
    /// ascending order, and later. Scans the rows of all waiting jobs, in steps.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put(NewJob::new("mail", "").delay(Duration::from_secs(30))).wait()?;
    /// queues.put(NewJob::new("mail", "").delay(Duration::from_secs(86_400))).wait()?;
    /// let hour = SystemTime::now() + Duration::from_secs(3_600);
    /// assert_eq!(queues.count_due([hour.into()]).wait()?[0].counts, [1, 1]);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn count_due(&self, times: impl IntoIterator<Item = Time>) -> Answer<Vec<DueCount>> {
        let counting = DueCounting::new(times.into_iter().collect());
        self.read(Read::CountDue(counting), response::due_counts)
    }

    /// Returns the activity of all queues in a window that ends now. The window is 10 seconds to an
    /// hour long, and its beginning is exact to 5 seconds.
    ///
    /// See [`Activity`] for an example.
    pub fn activity(&self, window: Duration) -> Answer<Activity> {
        self.ask(Ask::Activity(window), response::activity)
    }
}
