//! Operations on schedules.
//!
//! Changes are commands like any other. Reads use a snapshot of the store, on the caller's thread
//! or on a reader's.

use crate::client::answer::Answer;
use crate::client::queues::Queues;
use crate::client::response;
use crate::engine::Command;
use crate::model::schedule::{NewSchedule, PutSchedule, Schedule};
use crate::model::time::Time;
use crate::runtime::reading::Read;

impl Queues {
    /// Puts a schedule, which replaces the one with the same name. With the same timing it
    /// continues where the old one was, so a program may put its schedules at each start. With
    /// another timing it begins now. A paused schedule stays paused.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, NewSchedule, Queues, Timing};
    ///
    /// let queues = Queues::in_memory();
    /// let mondays = Timing::cron("0 9 * * MON", "Europe/Berlin")?;
    /// let report = NewJob::new("reports", "weekly").key("weekly report");
    /// let put = queues.put_schedule(NewSchedule::new("weekly", mondays, report)).wait()?;
    /// assert!(put.next.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_schedule(&self, schedule: NewSchedule) -> Answer<PutSchedule> {
        self.send(Command::PutSchedule(Box::new(schedule)), response::put_schedule)
    }

    /// Removes a schedule. The jobs that it has put stay.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{Error, NewJob, NewSchedule, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let minute = Duration::from_secs(60);
    /// queues.put_schedule(NewSchedule::new("sweep", minute, NewJob::new("chores", ""))).wait()?;
    /// queues.remove_schedule("sweep").wait()?;
    /// let again = queues.remove_schedule("sweep").wait();
    /// assert_eq!(again, Err(Error::NoSuchSchedule("sweep".into())));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn remove_schedule(&self, name: impl Into<String>) -> Answer<()> {
        self.send(Command::RemoveSchedule(name.into()), response::unit)
    }

    /// Pauses a schedule: it puts no jobs until it is resumed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, NewSchedule, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let minute = Duration::from_secs(60);
    /// queues.put_schedule(NewSchedule::new("sweep", minute, NewJob::new("chores", ""))).wait()?;
    /// queues.pause_schedule("sweep").wait()?;
    /// assert_eq!(queues.schedule("sweep").wait()?.unwrap().next, None);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn pause_schedule(&self, name: impl Into<String>) -> Answer<()> {
        self.send(Command::PauseSchedule { name: name.into(), paused: true }, response::unit)
    }

    /// Resumes a paused schedule with the next occurrence from now. Occurrences that fell into the
    /// pause are skipped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, NewSchedule, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let minute = Duration::from_secs(60);
    /// queues.put_schedule(NewSchedule::new("sweep", minute, NewJob::new("chores", ""))).wait()?;
    /// queues.pause_schedule("sweep").wait()?;
    /// queues.resume_schedule("sweep").wait()?;
    /// assert!(queues.schedule("sweep").wait()?.unwrap().next.is_some());
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn resume_schedule(&self, name: impl Into<String>) -> Answer<()> {
        self.send(Command::PauseSchedule { name: name.into(), paused: false }, response::unit)
    }

    /// Returns a schedule and its progress, or `None` if it does not exist.
    pub fn schedule(&self, name: impl Into<String>) -> Answer<Option<Schedule>> {
        self.read(Read::Schedule(name.into()), response::schedule)
    }

    /// Returns all schedules by name. Unreadable ones are omitted: `schedule` returns why, and
    /// `stats` counts them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, NewSchedule, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let minute = Duration::from_secs(60);
    /// for name in ["sweep", "report"] {
    ///     let job = NewJob::new("chores", name);
    ///     queues.put_schedule(NewSchedule::new(name, minute, job)).wait()?;
    /// }
    /// let schedules = queues.schedules().wait()?;
    /// assert_eq!((schedules[0].name.as_str(), schedules.len()), ("report", 2));
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn schedules(&self) -> Answer<Vec<Schedule>> {
        self.read(Read::Schedules(None, usize::MAX), response::schedules)
    }

    /// Returns some of the schedules by name: those after `name`, or from the first one. The
    /// schedule with which they take `bytes` bytes on disk is the last. The answer is empty after
    /// the last schedule of all, so memory does not depend on how many there are.
    pub fn schedules_after(&self, name: Option<String>, bytes: usize) -> Answer<Vec<Schedule>> {
        self.read(Read::Schedules(name, bytes), response::schedules)
    }

    /// Returns the next occurrences of a schedule, up to a thousand, as if it were not paused.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{NewJob, NewSchedule, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let minute = Duration::from_secs(60);
    /// queues.put_schedule(NewSchedule::new("sweep", minute, NewJob::new("chores", ""))).wait()?;
    /// let times = queues.next_times("sweep", 3).wait()?;
    /// assert_eq!(times[2].since(times[0]), 2 * minute);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn next_times(&self, schedule: impl Into<String>, times: usize) -> Answer<Vec<Time>> {
        self.read(Read::NextTimes(schedule.into(), times), response::upcoming)
    }
}
