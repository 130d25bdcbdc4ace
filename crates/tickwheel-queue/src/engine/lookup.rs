//! Reading single rows: the batch first, the store after it.

use bytes::Bytes;

use super::{Engine, Leased};
use crate::model::access::Access;
use crate::model::error::Error;
use crate::model::id::JobId;
use crate::model::job::{Delivery, Job, JobRef, Lease, State};
use crate::model::time::Time;
use crate::store::records::{LeaseRow, Record, Status};
use crate::store::rows::{self, Place};
use crate::store::{StoreError, Table, View};

/// A job as it was put, and what has happened to it since.
pub(super) struct Known {
    pub(super) id: JobId,
    pub(super) record: Record,
    pub(super) status: Option<Status>,
}

impl Known {
    pub(super) fn due(&self) -> Time {
        self.status.as_ref().map_or(self.record.due, |status| status.due)
    }

    pub(super) fn place(&self) -> Place {
        self.record.place(self.due())
    }

    /// The state that it ended in, and when.
    pub(super) fn finished(&self) -> Option<(State, Time)> {
        self.status.as_ref()?.finished
    }

    /// Its status, or that of a job to which nothing has happened.
    pub(super) fn status(&self) -> Status {
        self.status.clone().unwrap_or(Status {
            finished: None,
            due: self.record.due,
            attempts: 0,
            last_error: None,
        })
    }
}

impl Engine {
    pub(super) fn read(
        &self,
        view: &dyn View,
        table: Table,
        key: &[u8],
    ) -> Result<Option<Bytes>, StoreError> {
        match self.batch.get(table, key) {
            Some(value) => Ok(value.map(Bytes::copy_from_slice)),
            None => view.get(table, key),
        }
    }

    /// Returns `true` if the caller may touch the queue.
    fn may_touch(&self, queue: u32, access: &Access) -> bool {
        access.allows(&self.queues[queue as usize].name)
    }

    /// Whether there is a job with this id, in whatever state.
    pub(super) fn exists(&self, view: &dyn View, id: JobId) -> Result<bool, Error> {
        let found = self.read(view, Table::Jobs, id.as_bytes());
        found.map(|row| row.is_some()).map_err(unreadable)
    }

    /// Whether there is a job with this id that the caller may touch.
    pub(super) fn is_visible(
        &self,
        view: &dyn View,
        id: JobId,
        access: &Access,
    ) -> Result<bool, Error> {
        if access.is_limited() {
            self.visible_record(view, id, access).map(|record| record.is_some())
        } else {
            self.exists(view, id)
        }
    }

    /// The record of the job with this id; `None` if there is none.
    pub(super) fn record(&self, view: &dyn View, id: JobId) -> Result<Option<Record>, Error> {
        let malformed = |why| Error::Damaged { id, why };
        let row = self.read(view, Table::Jobs, id.as_bytes());
        let Some(row) = row.map_err(|error| damaged(id, error))? else { return Ok(None) };
        let record = Record::decode(row).map_err(malformed)?;
        if record.queue as usize >= self.queues.len() {
            return Err(malformed(format!("its queue has number {}", record.queue)));
        }
        Ok(Some(record))
    }

    /// The record of the job with this id, if the caller may touch it. Where access is limited, a
    /// record that cannot be read is not there: it may be of any queue.
    fn visible_record(
        &self,
        view: &dyn View,
        id: JobId,
        access: &Access,
    ) -> Result<Option<Record>, Error> {
        match self.record(view, id) {
            Err(Error::Damaged { .. }) if access.is_limited() => Ok(None),
            found => Ok(found?.filter(|record| self.may_touch(record.queue, access))),
        }
    }

    fn status(&self, view: &dyn View, id: JobId) -> Result<Option<Status>, Error> {
        let row = self.read(view, Table::Index, &rows::status(id));
        let row = row.map_err(|error| damaged(id, error))?;
        row.map(Status::decode).transpose().map_err(|why| Error::Damaged { id, why })
    }

    /// The job with this id; `None` if there is none.
    pub(super) fn known(&self, view: &dyn View, id: JobId) -> Result<Option<Known>, Error> {
        self.known_with(view, id, true)
    }

    /// The same where the caller may know that there is no status.
    pub(super) fn known_with(
        &self,
        view: &dyn View,
        id: JobId,
        has_status: bool,
    ) -> Result<Option<Known>, Error> {
        let Some(record) = self.record(view, id)? else { return Ok(None) };
        let status = if has_status { self.status(view, id)? } else { None };
        Ok(Some(Known { id, record, status }))
    }

    /// The job with this id that the caller may touch; `None` if there is none.
    pub(super) fn visible(
        &self,
        view: &dyn View,
        id: JobId,
        access: &Access,
    ) -> Result<Option<Known>, Error> {
        let Some(record) = self.visible_record(view, id, access)? else { return Ok(None) };
        let status = self.status(view, id)?;
        Ok(Some(Known { id, record, status }))
    }

    /// The live job with this key.
    pub(super) fn with_key(
        &self,
        view: &dyn View,
        queue: u32,
        key: &str,
    ) -> Result<Option<JobId>, Error> {
        Ok(self.key_row(view, queue, key)?.map(|(id, _)| id))
    }

    /// The live job with this key, and when the first of the jobs was put that it replaced.
    pub(super) fn key_row(
        &self,
        view: &dyn View,
        queue: u32,
        key: &str,
    ) -> Result<Option<(JobId, Option<Time>)>, Error> {
        let row = self.read(view, Table::Index, &rows::key(queue, key)).map_err(unreadable)?;
        // A malformed row is as good as none: the next put with this key writes it anew.
        Ok(row.and_then(|row| rows::read_key_value(&row)))
    }

    /// The job that a caller means and may touch, finished ones included when named by id.
    pub(super) fn find(
        &self,
        view: &dyn View,
        job: &JobRef,
        access: &Access,
    ) -> Result<Known, Error> {
        let id = match job {
            JobRef::Id(id) => Some(*id),
            JobRef::Key { queue, key } => {
                access.check_queue(queue)?;
                match self.number_of(queue) {
                    Some(number) => self.with_key(view, number, key)?,
                    None => None,
                }
            }
        };
        let known = id.map(|id| self.visible(view, id, access)).transpose()?.flatten();
        known.ok_or_else(|| Error::NotFound(job.clone()))
    }

    /// The lease that a worker's token stands for, if the worker may touch its queue. The lease
    /// knows its queue, so the job itself is read only if it is not leased.
    pub(super) fn leased(
        &self,
        view: &dyn View,
        lease: Lease,
        access: &Access,
    ) -> Result<&Leased, Error> {
        let id = lease.id;
        match self.leases.get(&id) {
            Some(leased) if !self.may_touch(leased.queue, access) => {
                Err(Error::NotFound(id.into()))
            }
            Some(leased) if leased.row.token == lease.token => Ok(leased),
            Some(_) => Err(Error::StaleLease { id }),
            None if self.is_visible(view, id, access)? => Err(Error::StaleLease { id }),
            None => Err(Error::NotFound(id.into())),
        }
    }

    /// The job as its worker gets it with this lease.
    pub(super) fn delivery(&self, known: Known, lease: &LeaseRow) -> Delivery {
        let Known { id, record, status } = known;
        Delivery {
            lease: Lease { id, token: lease.token },
            job: Job {
                id,
                queue: self.queues[record.queue as usize].name.clone(),
                state: State::Leased,
                key: record.key,
                priority: record.priority,
                due: lease.due,
                created: record.created,
                attempts: lease.attempts,
                max_attempts: record.max_attempts,
                retry: record.retry,
                group: record.group,
                leased_since: Some(lease.since),
                leased_until: Some(lease.until),
                worker: lease.worker.clone(),
                finished: None,
                last_error: status.and_then(|status| status.last_error),
                headers: record.headers,
                payload: record.payload,
                on_success: record.on_success,
                on_death: record.on_death,
                result: None,
                history: Vec::new(),
            },
        }
    }
}

/// What a failure to read one job's rows is to its caller.
pub(crate) fn damaged(id: JobId, error: StoreError) -> Error {
    match error {
        StoreError::Damaged(why) => Error::Damaged { id, why },
        other => unreadable(other),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(crate) fn unreadable(error: StoreError) -> Error {
    Error::Unreadable(error.to_string())
}
