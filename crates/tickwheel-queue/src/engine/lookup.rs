//! Looking up single rows: in the batch first, then in the store.

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

/// A job as it was put, and its status.
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
        self.record.place(self.due(), changed_priority(self.status.as_ref()))
    }

    /// The state in which it finished, and when.
    pub(super) fn finished(&self) -> Option<(State, Time)> {
        self.status.as_ref()?.finished
    }

    /// Returns its status, or that of a job without attempts.
    pub(super) fn status(&self) -> Status {
        self.status.clone().unwrap_or(Status {
            finished: None,
            due: self.record.due,
            attempts: 0,
            last_error: None,
            priority: None,
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

    /// Returns `true` if a job with this id exists, in any state.
    pub(super) fn exists(&self, view: &dyn View, id: JobId) -> Result<bool, Error> {
        let found = self.read(view, Table::Jobs, id.as_bytes());
        found.map(|row| row.is_some()).map_err(unreadable)
    }

    /// Returns `true` if a job with this id exists that the caller may touch.
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

    /// Returns the record of the job with this id.
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

    /// Returns the record of the job with this id, if the caller may touch it. A caller with
    /// limited access does not see an unreadable record, because it may belong to any queue.
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

    /// Returns the job with this id.
    pub(super) fn known(&self, view: &dyn View, id: JobId) -> Result<Option<Known>, Error> {
        self.known_with(view, id, true)
    }

    /// Returns the job with this id. `has_status` may say that it has no status row.
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

    /// Returns the job with this id, if the caller may touch it.
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

    /// Returns the live job with this key.
    pub(super) fn with_key(
        &self,
        view: &dyn View,
        queue: u32,
        key: &str,
    ) -> Result<Option<JobId>, Error> {
        Ok(self.key_row(view, queue, key)?.map(|(id, _)| id))
    }

    /// Returns the live job with this key, and when the first job of its series of replacements was
    /// put.
    pub(super) fn key_row(
        &self,
        view: &dyn View,
        queue: u32,
        key: &str,
    ) -> Result<Option<(JobId, Option<Time>)>, Error> {
        let row = self.read(view, Table::Index, &rows::key(queue, key)).map_err(unreadable)?;
        // A malformed row is ignored: the next put with this key rewrites it.
        Ok(row.and_then(|row| rows::read_key_value(&row)))
    }

    /// Returns the job that a caller refers to, if the caller may touch it. By id, that includes
    /// finished jobs.
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

    /// Returns the lease of a worker's token, if the worker may touch its queue. The lease knows
    /// its queue, so the job is read only if it is not leased.
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

    /// Returns a job as its worker gets it with this lease.
    pub(super) fn delivery(&self, known: Known, lease: &LeaseRow) -> Delivery {
        let Known { id, record, status } = known;
        Delivery {
            lease: Lease { id, token: lease.token },
            job: Job {
                id,
                queue: self.queues[record.queue as usize].name.clone(),
                state: State::Leased,
                key: record.key,
                priority: changed_priority(status.as_ref()).unwrap_or(record.priority),
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

/// The priority that a status sets in place of the one that the job was put with.
pub(crate) fn changed_priority(status: Option<&Status>) -> Option<i8> {
    status.and_then(|status| status.priority)
}

/// Converts a failure to read a job's rows into the caller's error.
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
