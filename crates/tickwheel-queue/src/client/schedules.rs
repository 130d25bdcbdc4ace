//! What is done to schedules, and what is asked about them.
//!
//! Changes are commands like any other. Questions are answered from the rows on disk, on the
//! caller's thread or on a reader's.

use crate::client::answer::Answer;
use crate::client::queues::Queues;
use crate::client::response;
use crate::engine::Command;
use crate::model::schedule::{NewSchedule, PutSchedule, Schedule};
use crate::model::time::Time;
use crate::runtime::reading::Read;

impl Queues {
    /// Puts a schedule, which replaces the one of the same name. With the same timing as before
    /// it goes on where that was, so a program may put its schedules at each start; with another
    /// timing it begins now. A paused one stays paused.
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

    /// Lets a schedule put nothing until it is resumed.
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

    /// Lets a paused schedule go on with the next occurrence from now. Those that came while it
    /// was paused are left out.
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

    /// A schedule, and how far it has come; `None` if there is none of this name.
    pub fn schedule(&self, name: impl Into<String>) -> Answer<Option<Schedule>> {
        self.read(Read::Schedule(name.into()), response::schedule)
    }

    /// All schedules, by name. Those that cannot be read are left out here; asked for by name they
    /// say why, and `stats` counts them.
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
        self.read(Read::Schedules, response::schedules)
    }

    /// The next occurrences of a schedule, up to a thousand: those that it will have, or would
    /// have if it were not paused.
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
