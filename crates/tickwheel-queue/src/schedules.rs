//! What is done to schedules, and what is asked about them.
//!
//! Changes are commands like any other. Questions are answered from the rows on disk, on the
//! caller's thread or on a reader's.

use bytes::Bytes;

use crate::access::Access;
use crate::answer::Answer;
use crate::convert;
use crate::engine::{Command, unreadable};
use crate::error::Error;
use crate::hub::{Hub, Outcome};
use crate::occurrences::{MOST, Occurrences};
use crate::queues::Queues;
use crate::read::Read;
use crate::schedule::{NewSchedule, PutSchedule, Schedule};
use crate::store::schedules::{Progress, ScheduleRow};
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View, rows};
use crate::time::Time;

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
        self.send(Command::PutSchedule(Box::new(schedule)), convert::put_schedule)
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
        self.send(Command::RemoveSchedule(name.into()), convert::unit)
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
        self.send(Command::PauseSchedule { name: name.into(), paused: true }, convert::unit)
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
        self.send(Command::PauseSchedule { name: name.into(), paused: false }, convert::unit)
    }

    /// A schedule, and how far it has come; `None` if there is none of this name.
    ///
    /// ```
    /// use tickwheel_queue::Queues;
    /// assert_eq!(Queues::in_memory().schedule("sweep").wait()?, None);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn schedule(&self, name: impl Into<String>) -> Answer<Option<Schedule>> {
        self.read(Read::Schedule(name.into()), convert::schedule)
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
        self.read(Read::Schedules, convert::schedules)
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
        self.read(Read::NextTimes(schedule.into(), times), convert::upcoming)
    }
}

/// A schedule as it is on disk.
struct Stored {
    name: String,
    row: ScheduleRow,
    progress: Progress,
}

impl Stored {
    fn read(view: &dyn View, name: &str, row: Bytes) -> Result<Self, Error> {
        let damaged = |why| Error::DamagedSchedule { name: name.to_owned(), why };
        let row = ScheduleRow::decode(row).map_err(damaged)?;
        let progress = view.get(Table::Index, &rows::progress(name)).map_err(unreadable)?;
        let progress =
            progress.ok_or_else(|| damaged("how far it has come is not there".into()))?;
        let progress = Progress::decode(progress).map_err(damaged)?;
        Ok(Self { name: name.to_owned(), row, progress })
    }

    /// The occurrences to come.
    fn upcoming(&self, now: Time) -> impl Iterator<Item = Time> {
        let occurrences = Occurrences { timing: &self.row.timing, created: self.row.created };
        let next = move |time: &Time| occurrences.next_after(*time);
        std::iter::successors(next(&self.progress.handled.max(now)), next)
    }

    fn into_schedule(self, now: Time) -> Schedule {
        let next = if self.progress.paused { None } else { self.upcoming(now).next() };
        let Self { name, row, progress } = self;
        let ScheduleRow { timing, misfire, grace, created, job } = row;
        let Progress { handled: _, paused, fired, last, problem } = progress;
        Schedule { name, timing, job, misfire, grace, created, paused, next, last, fired, problem }
    }
}

impl Hub {
    /// One schedule, in a list that is empty if there is none.
    pub(crate) fn read_schedule(&self, view: &dyn View, name: &str, access: &Access) -> Outcome {
        let now = self.clock.now().time();
        let stored = stored(view, name, access);
        let schedules = stored.map(|stored| stored.map(|it| it.into_schedule(now)));
        Outcome::Schedules(schedules.map(|schedule| schedule.into_iter().collect()))
    }

    pub(crate) fn read_schedules(&self, view: &dyn View, access: &Access) -> Outcome {
        let now = self.clock.now().time();
        let mut schedules = Vec::new();
        for row in Tolerant::new(view, Table::Index, &[rows::SCHEDULE], &[rows::SCHEDULE + 1]) {
            let (key, value) = match row {
                Ok(row) => row,
                Err(StoreError::Damaged(_)) => continue,
                Err(error) => return Outcome::Schedules(Err(unreadable(error))),
            };
            let Some(name) = rows::read_schedule_key(&key) else { continue };
            match Stored::read(view, name, value) {
                Ok(stored) if access.allows(&stored.row.job.queue) => {
                    schedules.push(stored.into_schedule(now));
                }
                Ok(_) | Err(Error::DamagedSchedule { .. }) => {}
                Err(error) => return Outcome::Schedules(Err(error)),
            }
        }
        Outcome::Schedules(Ok(schedules))
    }

    pub(crate) fn read_next_times(
        &self,
        view: &dyn View,
        name: &str,
        times: usize,
        access: &Access,
    ) -> Outcome {
        if times > MOST {
            return Outcome::Upcoming(Err(Error::Invalid(format!(
                "{times} times of a schedule are not possible: take at most {MOST}"
            ))));
        }
        let now = self.clock.now().time();
        let stored = stored(view, name, access).and_then(|stored| {
            let stored = stored.ok_or_else(|| Error::NoSuchSchedule(name.to_owned()))?;
            Ok(stored.upcoming(now).take(times).collect())
        });
        Outcome::Upcoming(stored)
    }
}

/// A schedule; `None` if there is none that the caller may see. Where access is limited, one that
/// cannot be read is not there: it may be of any queue.
fn stored(view: &dyn View, name: &str, access: &Access) -> Result<Option<Stored>, Error> {
    let row = view.get(Table::Index, &rows::schedule(name)).map_err(|error| match error {
        StoreError::Damaged(why) => Error::DamagedSchedule { name: name.to_owned(), why },
        other => unreadable(other),
    });
    let stored = row.and_then(|row| row.map(|row| Stored::read(view, name, row)).transpose());
    match stored {
        Err(Error::DamagedSchedule { .. }) if access.is_limited() => Ok(None),
        stored => Ok(stored?.filter(|stored| access.allows(&stored.row.job.queue))),
    }
}
