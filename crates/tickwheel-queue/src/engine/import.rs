//! Importing jobs from another store, with their attempts and states.

use super::{Engine, Put, PutKind};
use crate::model::access::Access;
use crate::model::error::Error;
use crate::model::event::EventKind;
use crate::model::id::JobId;
use crate::model::import::ImportedJob;
use crate::model::job::State;
use crate::model::time::Time;
use crate::store::records::{Record, Status};
use crate::store::rows::{self, Place};
use crate::store::{Table, View};

impl Engine {
    /// Adds a job of another store. Its id may be that of an occurrence, so that a schedule
    /// imported with it does not put the job again.
    pub(super) fn import(
        &mut self,
        view: &dyn View,
        imported: &ImportedJob,
        access: &Access,
    ) -> Result<Put, Error> {
        let job = &imported.job;
        access.check_queue(&job.queue)?;
        for follow_up in [&job.on_success, &job.on_death].into_iter().flatten() {
            access.check_queue(&follow_up.queue)?;
        }
        job.check(&self.options.limits)?;
        self.check_placement(job)?;
        let id = job.id.ok_or_else(|| invalid("id", "must be given"))?;
        if self.exists(view, id)? {
            let is_visible = self.is_visible(view, id, access)?;
            return Err(if is_visible { Error::IdExists { id } } else { Error::UnusableId { id } });
        }
        match imported.finished {
            Some((state, _)) if state.is_live() => {
                return Err(invalid("state", &format!("must be a finished one, got {state}")));
            }
            Some((state, _)) => self.check_kept(&job.queue, state)?,
            None => {
                let number = self.number_of(&job.queue);
                let holder = match (number, &job.key) {
                    (Some(number), Some(key)) => self.holder_of(view, number, key)?,
                    _ => None,
                };
                if let Some((holder, _)) = holder {
                    let (queue, key) = (job.queue.clone(), job.key.clone().unwrap_or_default());
                    return Err(Error::KeyExists { queue, key, id: holder.id });
                }
            }
        }
        self.check_room(job)?;
        let number = self.queues_for(job)?;
        let due = self.insert_imported(number, id, imported);
        Ok(Put { id, kind: PutKind::Created, due })
    }

    /// Refuses a finished job that the queue would remove at once.
    fn check_kept(&self, queue: &str, state: State) -> Result<(), Error> {
        let number = self.number_of(queue);
        let retention = number
            .map(|number| self.queues[number as usize].settings.retention)
            .unwrap_or_default();
        if retention.of(state).is_nothing() {
            let why = format!("is {state}, and queue {queue:?} keeps no such jobs: set it first");
            return Err(invalid("state", &why));
        }
        Ok(())
    }

    /// Adds the rows of an imported job, and returns when it is due.
    fn insert_imported(&mut self, number: u32, id: JobId, imported: &ImportedJob) -> Time {
        let job = &imported.job;
        let due = job.when.due(self.now);
        let seq = self.totals.seq;
        self.totals.seq += 1;
        self.batch.put_with(Table::Jobs, id.as_bytes(), |bytes| {
            Record::encode(bytes, (number, seq), (due, imported.created), job);
        });
        self.tally.put += 1;
        self.touch(number).counts.lifetime.put += 1;
        let status = Status {
            finished: imported.finished,
            due,
            attempts: imported.attempts,
            last_error: imported.last_error.clone(),
            priority: None,
        };
        if imported.finished.is_some() {
            // Meanwhile a live job may have taken the key.
            self.finish_job(number, id, None, false, &status, None);
            return due;
        }
        if let Some(key) = &job.key {
            self.batch.put(Table::Index, &rows::key(number, key), &rows::key_value(id, None));
        }
        let has_status = imported.attempts > 0 || imported.last_error.is_some();
        if has_status {
            let key = rows::status(id);
            self.batch.put_with(Table::Index, &key, |bytes| status.encode(bytes));
        }
        self.tell(number, id, job.key.as_deref(), EventKind::Put { due });
        let place = Place::new(due, job.priority, seq);
        self.wait_at(number, place, (id, has_status), job.group.as_deref());
        due
    }
}

fn invalid(field: &str, why: &str) -> Error {
    Error::Invalid { field: field.to_owned(), why: why.to_owned() }
}
