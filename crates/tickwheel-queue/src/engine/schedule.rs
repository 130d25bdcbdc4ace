//! Schedules: putting a job at each of their occurrences.
//!
//! A schedule has one entry on the wheel, at its next occurrence. Putting an occurrence's job and
//! advancing the schedule is one commit. The id of the job is derived from the schedule's name, the
//! occurrence and a secret of the store. So callers cannot put a job with that id, and a schedule
//! that is removed and put again cannot have two live jobs for one occurrence.
//!
//! Memory holds only what is needed to find the next occurrence. The template of the job is read
//! when the job is put, so a thousand schedules with large payloads cost no memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tickwheel::cron::Misfire;
use tickwheel::wheel::Key;

use super::{Engine, PutKind, STEP_BYTES, Timed, unreadable};
use crate::model::access::Access;
use crate::model::error::{Error, Limit};
use crate::model::id::JobId;
use crate::model::occurrences::{Due, Occurrences};
use crate::model::schedule::{NewSchedule, PutSchedule, Timing};
use crate::model::time::Time;
use crate::store::rows;
use crate::store::schedules::{Progress, ScheduleRow, is_occurrence};
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View};

/// How long to wait before an occurrence whose job was refused is tried again.
const TRY_AGAIN: u64 = 1_000;

/// A schedule in memory.
#[derive(Debug)]
pub(super) struct Course {
    /// The queue of its jobs, which decides who may touch the schedule.
    queue: Box<str>,
    timing: Timing,
    misfire: Misfire,
    grace: Duration,
    created: Time,
    progress: Progress,
    timer: Option<Key>,
    /// Whether its job was refused and is to be tried again.
    is_stuck: bool,
}

impl Course {
    fn new(row: ScheduleRow, progress: Progress) -> Self {
        let ScheduleRow { timing, misfire, grace, created, job } = row;
        let queue = job.queue.into();
        Self { queue, timing, misfire, grace, created, progress, timer: None, is_stuck: false }
    }

    fn occurrences(&self) -> Occurrences<'_> {
        Occurrences { timing: &self.timing, created: self.created }
    }

    /// Returns the first occurrence that has not been handled.
    fn next(&self) -> Option<Time> {
        if self.progress.paused {
            return None;
        }
        self.occurrences().next_after(self.progress.handled)
    }

    fn due(&self, now: Time) -> Option<Due> {
        self.occurrences().due(self.progress.handled, now, self.misfire, self.grace)
    }
}

impl Engine {
    pub(super) fn put_schedule(
        &mut self,
        view: &dyn View,
        schedule: &NewSchedule,
        access: &Access,
    ) -> Result<PutSchedule, Error> {
        access.check_queue(&schedule.job.queue)?;
        self.check_schedule(schedule)?;
        self.check_placement(&schedule.job)?;
        let name: Arc<str> = schedule.name.as_str().into();
        let replaced = self.schedules.contains_key(&name) || self.has_schedule(view, &name)?;
        if replaced && !self.may_touch_schedule(&name, access) {
            return Err(Error::UnusableName(schedule.name.clone()));
        }
        let (allowed, found) =
            (self.options.limits.schedules, self.schedules.len() as u64 + u64::from(!replaced));
        if found > allowed {
            return Err(Error::OverLimit { limit: Limit::Schedules, allowed, found });
        }
        self.check_disk(&schedule.job)?;
        let now = self.now.time();
        let mut row = ScheduleRow::new(schedule, now);
        let mut progress = Progress { handled: now, ..Progress::default() };
        if let Some(old) = self.schedules.remove(&name) {
            old.timer.map(|timer| self.wheel.remove(timer));
            progress.paused = old.progress.paused;
            // A program that declares its schedules at each start continues them.
            if old.timing.to_string() == row.timing.to_string() {
                row.created = old.created;
                progress = Progress { problem: None, ..old.progress };
            }
        }
        let key = rows::schedule(&name);
        self.batch.put_with(Table::Index, &key, |bytes| row.encode(bytes));
        let course = Course::new(row, progress);
        let next = course.next();
        self.schedules.insert(Arc::clone(&name), course);
        self.write_progress(&name);
        self.arm_schedule(&name);
        Ok(PutSchedule { replaced, next })
    }

    fn check_schedule(&self, schedule: &NewSchedule) -> Result<(), Error> {
        schedule.check(&self.options.limits)?;
        let row = ScheduleRow::new(schedule, Time::MAX);
        row.job_of(&schedule.name, Time::MAX).check(&self.options.limits)
    }

    /// Returns `true` if the caller may touch this schedule. An unreadable one may belong to any
    /// queue.
    fn may_touch_schedule(&self, name: &str, access: &Access) -> bool {
        match self.schedules.get(name) {
            Some(course) => access.allows(&course.queue),
            None => !access.is_limited(),
        }
    }

    /// Returns `true` if this schedule has a row, readable or not.
    fn has_schedule(&self, view: &dyn View, name: &str) -> Result<bool, Error> {
        match self.read(view, Table::Index, &rows::schedule(name)) {
            Ok(row) => Ok(row.is_some()),
            Err(StoreError::Damaged(_)) => Ok(true),
            Err(error) => Err(unreadable(error)),
        }
    }

    /// Returns `true` if a schedule puts jobs into a queue.
    pub(super) fn has_schedule_for(&self, queue: &str) -> bool {
        self.schedules.values().any(|course| *course.queue == *queue)
    }

    pub(super) fn remove_schedule(
        &mut self,
        view: &dyn View,
        name: &str,
        access: &Access,
    ) -> Result<(), Error> {
        if !self.may_touch_schedule(name, access) {
            return Err(Error::NoSuchSchedule(name.to_owned()));
        }
        match self.schedules.remove(name) {
            Some(course) => drop(course.timer.map(|timer| self.wheel.remove(timer))),
            None if self.has_schedule(view, name)? => {}
            None => return Err(Error::NoSuchSchedule(name.to_owned())),
        }
        self.batch.remove(Table::Index, &rows::schedule(name));
        self.batch.remove(Table::Index, &rows::progress(name));
        Ok(())
    }

    pub(super) fn pause_schedule(
        &mut self,
        name: &str,
        paused: bool,
        access: &Access,
    ) -> Result<(), Error> {
        let now = self.now.time();
        let course = self.schedules.get_mut(name);
        let course = course.filter(|course| access.allows(&course.queue));
        let course = course.ok_or_else(|| Error::NoSuchSchedule(name.to_owned()))?;
        if course.progress.paused == paused {
            return Ok(());
        }
        course.progress.paused = paused;
        // Occurrences that fall into a pause are skipped.
        course.progress.handled = course.progress.handled.max(now);
        self.write_progress(name);
        self.arm_schedule(name);
        Ok(())
    }

    /// Handles the schedules whose occurrences are due.
    pub(super) fn schedules_are_due(&mut self, view: &dyn View, mut names: Vec<Arc<str>>) {
        names.sort_unstable();
        let most = self.batch.bytes() + STEP_BYTES;
        for name in names {
            if self.batch.bytes() > most {
                // The others are handled in the next group, which follows at once.
                self.arm_schedule_at(&name, self.now.time().as_millis());
            } else {
                self.schedule_is_due(view, &name, most);
            }
        }
    }

    fn schedule_is_due(&mut self, view: &dyn View, name: &str, most: usize) {
        let now = self.now.time();
        let Some(course) = self.schedules.get_mut(name) else { return };
        course.timer = None;
        let Some(due) = course.due(now).filter(|_| !course.progress.paused) else {
            self.arm_schedule(name);
            return;
        };
        let mut progress = course.progress.clone();
        progress.handled = due.left_out.max(progress.handled);
        let outcome = self.put_occurrences(view, name, &due.put, &mut progress, most);
        let Some(course) = self.schedules.get_mut(name) else { return };
        // Logged and written once, however often it is tried.
        if let Err(error) = &outcome
            && !course.is_stuck
        {
            tracing::warn!(schedule = name, %error, "a schedule cannot put its job");
            progress.problem = Some(error.to_string());
        }
        course.is_stuck = outcome.is_err();
        if course.progress != progress {
            course.progress = progress;
            self.write_progress(name);
        }
        match outcome {
            Ok(()) => self.arm_schedule(name),
            Err(_) => self.arm_schedule_at(name, now.as_millis() + TRY_AGAIN),
        }
    }

    /// Puts the jobs of some occurrences until the batch has `max_bytes`. Returns `Err` if it must
    /// be tried again.
    fn put_occurrences(
        &mut self,
        view: &dyn View,
        name: &str,
        occurrences: &[Time],
        progress: &mut Progress,
        max_bytes: usize,
    ) -> Result<(), Error> {
        if occurrences.is_empty() {
            return Ok(());
        }
        let row = self.read(view, Table::Index, &rows::schedule(name)).map_err(unreadable)?;
        let row = row.ok_or_else(|| Error::NoSuchSchedule(name.to_owned()))?;
        let row = ScheduleRow::decode(row)
            .map_err(|why| Error::DamagedSchedule { name: name.to_owned(), why })?;
        for &occurrence in occurrences {
            let mut job = row.job_of(name, occurrence);
            job.id = self.id_of_occurrence(view, name, occurrence, &job.queue)?;
            let put = match job.id {
                Some(_) => {
                    let checked = job.check(&self.options.limits);
                    checked.and_then(|()| self.put_checked(view, &job)).map(Some)
                }
                None => Ok(None),
            };
            match put {
                // The job was put before the schedule was removed and put again.
                Ok(None) => progress.problem = None,
                Ok(Some(put)) if put.kind == PutKind::Kept => progress.problem = None,
                Ok(Some(_)) => {
                    progress.problem = None;
                    progress.fired += 1;
                    progress.last = Some(occurrence);
                    self.tally.fired += 1;
                }
                Err(error @ Error::KeyExists { .. }) => {
                    progress.problem = Some(error.to_string());
                }
                Err(error) => return Err(error),
            }
            progress.handled = occurrence;
            if self.batch.bytes() > max_bytes {
                break;
            }
        }
        Ok(())
    }

    /// Returns an id for the job of an occurrence, or `None` if the occurrence has its job. If
    /// another job has the id, the occurrence gets the next one.
    fn id_of_occurrence(
        &mut self,
        view: &dyn View,
        name: &str,
        occurrence: Time,
        queue: &str,
    ) -> Result<Option<JobId>, Error> {
        if !self.secret_is_stored {
            self.batch.put(Table::Index, rows::SECRET, &self.secret.encode());
            self.secret_is_stored = true;
        }
        let mut attempt = 0;
        loop {
            let id = JobId::of_occurrence(self.secret, name, occurrence, attempt);
            let id = self.placed(id, queue);
            match self.record(view, id) {
                Ok(None) => return Ok(Some(id)),
                Ok(Some(record))
                    if is_occurrence(&record, name, occurrence)
                        && self.number_of(queue) == Some(record.queue) =>
                {
                    return Ok(None);
                }
                Ok(Some(_)) => {
                    tracing::warn!(schedule = name, %id, "another job has the id of an occurrence");
                }
                // Callers cannot put a job with this id, so it is the occurrence's job.
                Err(Error::Damaged { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
            attempt += 1;
        }
    }

    fn write_progress(&mut self, name: &str) {
        let Some(course) = self.schedules.get(name) else { return };
        let key = rows::progress(name);
        self.batch.put_with(Table::Index, &key, |bytes| course.progress.encode(bytes));
    }

    /// Schedules the next occurrence on the wheel.
    fn arm_schedule(&mut self, name: &str) {
        let next = self.schedules.get(name).and_then(Course::next);
        match next {
            Some(next) => self.arm_schedule_at(name, next.as_millis()),
            None => self.disarm_schedule(name),
        }
    }

    fn disarm_schedule(&mut self, name: &str) {
        let timer = self.schedules.get_mut(name).and_then(|course| course.timer.take());
        timer.map(|timer| self.wheel.remove(timer));
    }

    fn arm_schedule_at(&mut self, name: &str, at: u64) {
        self.disarm_schedule(name);
        let Some((name, _)) = self.schedules.get_key_value(name) else { return };
        let name = Arc::clone(name);
        let timer = self.wheel.insert(at, Timed::Schedule(Arc::clone(&name)));
        if let Some(course) = self.schedules.get_mut(&name) {
            course.timer = Some(timer);
        }
    }

    /// Adds every schedule to a new wheel.
    pub(super) fn arm_all_schedules(&mut self) {
        let names: Vec<Arc<str>> = self.schedules.keys().cloned().collect();
        for name in names {
            if let Some(course) = self.schedules.get_mut(&name) {
                course.timer = None;
            }
            self.arm_schedule(&name);
        }
    }

    pub(super) fn read_schedules(&mut self, view: &dyn View) -> Result<(), StoreError> {
        for row in Tolerant::new(view, Table::Index, &[rows::SCHEDULE], &[rows::SCHEDULE + 1]) {
            let Some((key, value)) = self.pass_damage(row)? else { continue };
            if let Err(why) = self.read_schedule(view, &key, value) {
                tracing::error!(?key, why, "a schedule cannot be read, and puts nothing");
                self.tally.damaged += 1;
            }
        }
        self.arm_all_schedules();
        Ok(())
    }

    fn read_schedule(&mut self, view: &dyn View, key: &[u8], value: Bytes) -> Result<(), String> {
        let name = rows::read_name(key).ok_or("a key that is no name")?;
        let row = ScheduleRow::decode(value)?;
        let progress = view.get(Table::Index, &rows::progress(name));
        let progress = progress.map_err(|error| error.to_string())?;
        let progress = progress.ok_or("how far it has come is not there")?;
        let course = Course::new(row, Progress::decode(progress)?);
        self.schedules.insert(name.into(), course);
        Ok(())
    }
}
