//! Putting, cancelling and rescheduling jobs.

use bytes::Bytes;

use super::history::End;
use super::lookup::Known;
use super::{Engine, Put, PutKind};
use crate::model::access::Access;
use crate::model::error::{Error, Limit};
use crate::model::event::EventKind;
use crate::model::history::AttemptOutcome;
use crate::model::id::JobId;
use crate::model::job::{JobRef, State};
use crate::model::new_job::{FollowUp, NewJob, OnConflict, When};
use crate::model::time::Time;
use crate::store::records::{Record, Status};
use crate::store::rows::{self, DueValue, Place};
use crate::store::{Table, View};

impl Engine {
    pub(super) fn put(
        &mut self,
        view: &dyn View,
        job: &NewJob,
        access: &Access,
    ) -> Result<Put, Error> {
        access.check_queue(&job.queue)?;
        for follow_up in [&job.on_success, &job.on_death].into_iter().flatten() {
            access.check_queue(&follow_up.queue)?;
        }
        job.check(&self.options.limits)?;
        self.check_placement(job)?;
        // Only an id chosen by the caller can exist. Looking up a generated id would cost a read
        // for each put.
        if let Some(id) = job.id {
            self.check_id(view, id, access)?;
        }
        self.put_checked(view, job)
    }

    /// Refuses a caller's id that is reserved for schedules or belongs to a job. Only a caller that
    /// may touch that job learns that it exists: the answer means that its own put has succeeded
    /// before.
    fn check_id(&self, view: &dyn View, id: JobId, access: &Access) -> Result<(), Error> {
        if id.is_of_occurrence() {
            return Err(Error::UnusableId { id });
        }
        if !self.exists(view, id)? {
            return Ok(());
        }
        if self.is_visible(view, id, access)? {
            return Err(Error::IdExists { id });
        }
        Err(Error::UnusableId { id })
    }

    /// Puts a valid job whose id is new.
    pub(super) fn put_checked(&mut self, view: &dyn View, job: &NewJob) -> Result<Put, Error> {
        let number = self.number_for_put(&job.queue);
        let holder = match (number, &job.key) {
            (Some(number), Some(key)) => self.holder_of(view, number, key)?,
            _ => None,
        };
        match (&holder, job.on_conflict) {
            (Some((holder, _)), OnConflict::Keep) => {
                return Ok(Put { id: holder.id, kind: PutKind::Kept, due: holder.due() });
            }
            (Some((holder, _)), OnConflict::Reject) => {
                return Err(Error::KeyExists {
                    queue: job.queue.clone(),
                    key: job.key.clone().unwrap_or_default(),
                    id: holder.id,
                });
            }
            (Some(_), OnConflict::Replace) => self.check_disk(job)?,
            (None, _) => self.check_room(job)?,
        }
        let number = match number {
            Some(number) if job.on_success.is_none() && job.on_death.is_none() => number,
            _ => self.queues_for(job)?,
        };
        let id = job.id.unwrap_or_else(|| self.new_id(&job.queue));
        let (kind, first_put) = match holder {
            Some((holder, first_put)) => {
                // A leased job cannot be postponed any more: the new job starts a series of its
                // own.
                let first_put = match self.cancel_known(view, &holder)? {
                    State::Leased => None,
                    _ => Some(first_put),
                };
                let kind = EventKind::Replaced { by: id };
                self.tell(number, holder.id, holder.record.key.as_deref(), kind);
                (PutKind::Replaced(holder.id), first_put)
            }
            None => (PutKind::Created, None),
        };
        let due = self.insert(number, id, job, first_put);
        Ok(Put { id, kind, due })
    }

    /// Returns the number of a queue, if it exists. Consecutive puts mostly name the same queue,
    /// and comparing names is cheaper than a lookup.
    fn number_for_put(&mut self, name: &str) -> Option<u32> {
        let last = self.last_put;
        if self
            .queues
            .get(last as usize)
            .is_some_and(|queue| *queue.name == *name && !queue.is_removed)
        {
            return Some(last);
        }
        let number = self.number_of(name)?;
        self.last_put = number;
        Some(number)
    }

    /// Returns the live job with this key, and when its series of replacements began: when the first
    /// job of the series was put, or when the job was kicked. An unreadable job does not keep its key.
    pub(super) fn holder_of(
        &self,
        view: &dyn View,
        queue: u32,
        key: &str,
    ) -> Result<Option<(Known, Time)>, Error> {
        let Some((id, first_put)) = self.key_row(view, queue, key)? else { return Ok(None) };
        match self.known(view, id) {
            Ok(known) => {
                let live = known.filter(|known| known.finished().is_none());
                Ok(live.map(|known| {
                    let first_put = first_put.unwrap_or(known.record.created);
                    (known, first_put)
                }))
            }
            Err(Error::Damaged { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn check_room(&self, job: &NewJob) -> Result<(), Error> {
        let limits = &self.options.limits;
        if self.pending >= limits.pending {
            let (allowed, found) = (limits.pending, self.pending + 1);
            return Err(Error::OverLimit { limit: Limit::Pending, allowed, found });
        }
        self.check_disk(job)
    }

    /// Refuses a job if the disk has no room for it and for the batch of this group.
    pub(super) fn check_disk(&self, job: &NewJob) -> Result<(), Error> {
        self.room.check(self.batch.bytes() + job.bytes())
    }

    /// Adds the rows of a new job, and returns when it is due. `first_put` is when the first job of
    /// its series of replacements was put.
    fn insert(&mut self, number: u32, id: JobId, job: &NewJob, first_put: Option<Time>) -> Time {
        let now = self.now.time();
        let mut due = job.when.due(self.now);
        if let Some(delay) = job.max_total_delay {
            due = due.min(first_put.unwrap_or(now).after(delay));
        }
        let seq = self.totals.seq;
        self.totals.seq += 1;
        self.batch.put_with(Table::Jobs, id.as_bytes(), |bytes| {
            Record::encode(bytes, (number, seq), (due, now), job);
        });
        if let Some(key) = &job.key {
            let value = rows::key_value(id, first_put);
            self.batch.put(Table::Index, &rows::key(number, key), &value);
        }
        self.tally.put += 1;
        self.touch(number).counts.lifetime.put += 1;
        self.tell(number, id, job.key.as_deref(), EventKind::Put { due });
        let place = Place::new(due, job.priority, seq);
        self.wait_at(number, place, (id, false), job.group.as_deref());
        due
    }

    /// Puts the follow-up of a job that has ended. The follow-up takes the place of that job, so it
    /// is never refused: neither a limit nor a full disk may lose it.
    pub(super) fn put_follow_up(
        &mut self,
        parent: JobId,
        follow_up: &FollowUp,
        payload: Bytes,
        more_headers: Vec<(String, String)>,
    ) {
        let number = match self.number_of(&follow_up.queue) {
            Some(number) => number,
            None => self.create_queue(&follow_up.queue),
        };
        let mut job = NewJob::new(follow_up.queue.clone(), payload).delay(follow_up.delay);
        job.headers = vec![(FollowUp::PARENT_HEADER.to_owned(), parent.to_string())];
        job.headers.extend(follow_up.headers.iter().cloned().chain(more_headers));
        let id = self.new_id(&follow_up.queue);
        self.insert(number, id, &job, None);
    }

    /// Adds a live job at a place.
    pub(super) fn wait_at(
        &mut self,
        number: u32,
        place: Place,
        (id, has_status): (JobId, bool),
        group: Option<&str>,
    ) {
        let value = DueValue { id, has_status, group };
        self.batch.put_with(Table::Index, &rows::due(number, place), |bytes| value.encode(bytes));
        if let Some(group) = group {
            self.add_grouped(number, group, place, (id, has_status), true);
        }
        self.touch(number).counts.waiting += 1;
        self.pending += 1;
        self.place(number, place, value);
    }

    /// Removes a live job from its place. `is_grouped` says that it is known to have a row in its
    /// group.
    pub(super) fn stop_waiting(
        &mut self,
        number: u32,
        place: Place,
        group: Option<&str>,
        is_grouped: bool,
    ) {
        self.batch.remove(Table::Index, &rows::due(number, place));
        if let Some(group) = group {
            self.remove_grouped(number, group, place, is_grouped);
        }
        self.count_down(number, State::Ready);
        self.unplace(number, place, group);
    }

    pub(super) fn cancel(
        &mut self,
        view: &dyn View,
        job: &JobRef,
        access: &Access,
    ) -> Result<State, Error> {
        let known = self.find(view, job, access)?;
        if let Some((state, _)) = known.finished() {
            let id = known.id;
            return Err(Error::WrongState { id, state, action: "cancelled" });
        }
        let state = self.cancel_known(view, &known)?;
        let key = known.record.key.as_deref();
        self.tell(known.record.queue, known.id, key, EventKind::Cancelled);
        Ok(state)
    }

    /// Cancels a live job. Returns its previous state.
    pub(super) fn cancel_known(&mut self, view: &dyn View, known: &Known) -> Result<State, Error> {
        let queue = known.record.queue;
        let is_leased = self.leases.contains_key(&known.id);
        let has_history = is_leased && known.status.is_some();
        let history = self.history(view, known.id, has_history)?;
        let (state, mut status) = if let Some(leased) = self.end_lease(known.id) {
            let end = End::of(AttemptOutcome::Cancelled, State::Cancelled);
            self.add_attempt(history, known.id, &leased, &end);
            let status = Status { attempts: leased.row.attempts, ..known.status() };
            (State::Leased, status)
        } else {
            self.stop_waiting(queue, known.place(), known.record.group.as_deref(), false);
            let is_ready = known.due() <= self.now.time();
            (if is_ready { State::Ready } else { State::Scheduled }, known.status())
        };
        self.tally.cancelled += 1;
        self.touch(queue).counts.lifetime.cancelled += 1;
        status.finished = Some((State::Cancelled, self.now.time()));
        let has_status = known.status.is_some();
        let key = known.record.key.as_deref();
        self.finish_job(queue, known.id, key, has_status, &status, None);
        Ok(state)
    }

    pub(super) fn reschedule(
        &mut self,
        view: &dyn View,
        job: &JobRef,
        when: When,
        access: &Access,
    ) -> Result<Time, Error> {
        let known = self.find(view, job, access)?;
        let state = match known.finished() {
            Some((state, _)) => Some(state),
            None => self.leases.contains_key(&known.id).then_some(State::Leased),
        };
        if let Some(state) = state {
            return Err(Error::WrongState { id: known.id, state, action: "rescheduled" });
        }
        let due = when.due(self.now);
        let status = Status { due, ..known.status() };
        let key = rows::status(known.id);
        self.batch.put_with(Table::Index, &key, |bytes| status.encode(bytes));
        let (queue, group) = (known.record.queue, known.record.group.as_deref());
        self.stop_waiting(queue, known.place(), group, false);
        self.wait_at(queue, known.record.place(due, status.priority), (known.id, true), group);
        let key = known.record.key.as_deref();
        self.tell(known.record.queue, known.id, key, EventKind::Rescheduled { due });
        Ok(due)
    }
}
