//! Repairing the index after damage. The index can be rebuilt from the jobs, except for what
//! happened to them since they were put.
//!
//! The repair runs once on a store that is opened with `salvage`, before the engine reads it. It
//! removes rows without a job, restores the rows of jobs that have none, and counts everything
//! again. It keeps only counts in memory: each row is checked by looking up its job.
//!
//! Ground rules:
//! * A job with a readable record is never removed. In doubt it waits again: delivering it once
//!   more is better than never.
//! * The next run can continue after any step, so a crash does no harm.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;

use super::changed_priority;
use crate::model::group::GroupSettings;
use crate::model::id::JobId;
use crate::model::job::State;
use crate::model::settings::{Keep, QueueSettings, Retention};
use crate::model::time::Time;
use crate::store::groups::GroupCounts;
use crate::store::history::decode_history;
use crate::store::idempotency::KeyRow;
use crate::store::records::{Counts, LeaseRow, QueueRow, Record, Status, Totals};
use crate::store::rows::{self, DueValue, Place};
use crate::store::tolerant::Tolerant;
use crate::store::{Persist, Store, StoreError, Table, WriteBatch};

/// Bytes of changes that are committed together.
const STEP: usize = 1 << 20;
/// A record that names a queue with a higher number is damaged.
const MOST_QUEUES: u32 = 1 << 20;
/// The error of a job that has lost its status.
const LOST: &str = "what had happened to it was damaged in the store";
const FINISHED: [State; 3] = [State::Dead, State::Done, State::Cancelled];

/// Lost jobs whose ids are logged one by one.
const MAX_LOGGED: u64 = 1_000;

/// Repairs the index. Returns the number of lost jobs: rows name them, but their records are
/// missing or unreadable.
pub(crate) fn repair(store: &dyn Store) -> Result<u64, StoreError> {
    let mut repair = Repair { store, batch: WriteBatch::new(), changes: 0, lost: 0 };
    repair.statuses()?;
    repair.leases()?;
    repair.finished()?;
    repair.waiting()?;
    repair.histories()?;
    repair.grouped()?;
    repair.keys()?;
    repair.idempotency_keys()?;
    let (last_seq, queues) = repair.jobs()?;
    let changes = repair.changes;
    repair.queues(queues)?;
    repair.count(queues)?;
    repair.count_groups()?;
    repair.totals(last_seq)?;
    repair.commit()?;
    store.sync()?;
    if changes > 0 {
        tracing::error!(changes, lost = repair.lost, "the index was damaged, and was repaired");
    }
    Ok(repair.lost)
}

struct Repair<'a> {
    store: &'a dyn Store,
    batch: WriteBatch,
    changes: u64,
    lost: u64,
}

/// What the rows of a job tell.
struct Found {
    record: Record,
    status: Option<Status>,
    lease: Option<LeaseRow>,
}

impl Found {
    fn finished(&self) -> Option<(State, Time)> {
        self.status.as_ref()?.finished
    }

    fn is_waiting(&self) -> bool {
        self.finished().is_none() && self.lease.is_none()
    }

    fn place(&self) -> Place {
        let due = self.status.as_ref().map_or(self.record.due, |status| status.due);
        self.record.place(due, changed_priority(self.status.as_ref()))
    }
}

impl<'a> Repair<'a> {
    /// Returns the readable rows of one kind, of one queue or of all.
    fn rows(&self, kind: u8) -> impl Iterator<Item = Result<(Bytes, Bytes), StoreError>> + use<'a> {
        readable(self.store, Table::Index, &[kind], &[kind + 1])
    }

    fn put(&mut self, key: &[u8], value: impl FnOnce(&mut Vec<u8>)) -> Result<(), StoreError> {
        self.batch.put_with(Table::Index, key, value);
        self.changed()
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.batch.remove(Table::Index, key);
        self.changed()
    }

    /// Removes a row whose job has no readable record.
    fn remove_lost(&mut self, key: &[u8], id: JobId) -> Result<(), StoreError> {
        self.lost += 1;
        if self.lost <= MAX_LOGGED {
            tracing::error!(%id, "a job is lost: its record is missing or unreadable");
        }
        self.remove(key)
    }

    fn changed(&mut self) -> Result<(), StoreError> {
        self.changes += 1;
        if self.batch.bytes() > STEP { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        if !self.batch.is_empty() {
            self.store.commit(&self.batch, Persist::Buffer)?;
            self.batch.clear();
        }
        Ok(())
    }

    fn index_row<T>(
        &self,
        key: &[u8],
        decode: fn(Bytes) -> Result<T, String>,
    ) -> Result<Option<T>, StoreError> {
        self.row(Table::Index, key, decode)
    }

    /// Returns a row if it can be read.
    fn row<T>(
        &self,
        table: Table,
        key: &[u8],
        decode: fn(Bytes) -> Result<T, String>,
    ) -> Result<Option<T>, StoreError> {
        match self.store.get(table, key) {
            Ok(row) => Ok(row.and_then(|row| decode(row).ok())),
            Err(StoreError::Damaged(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns a job and its status, or `None` if its record is missing or unreadable.
    fn find(&self, id: JobId) -> Result<Option<Found>, StoreError> {
        let record = match self.store.get(Table::Jobs, id.as_bytes()) {
            Ok(row) => row.and_then(|row| Record::decode(row).ok()),
            Err(StoreError::Damaged(_)) => None,
            Err(error) => return Err(error),
        };
        let Some(record) = record.filter(|record| record.queue < MOST_QUEUES) else {
            return Ok(None);
        };
        let status = self.index_row(&rows::status(id), Status::decode)?;
        let lease = self.index_row(&rows::lease(record.queue, id), LeaseRow::decode)?;
        Ok(Some(Found { record, status, lease }))
    }

    /// Removes statuses without a job, and unreadable ones.
    fn statuses(&mut self) -> Result<(), StoreError> {
        for row in self.rows(rows::STATUS) {
            let (key, value) = row?;
            let is_orphan = match rows::read_status_key(&key) {
                Some(id) => self.is_missing(id)?,
                None => true,
            };
            if is_orphan || Status::decode(value).is_err() {
                self.remove(&key)?;
            }
        }
        self.commit()
    }

    /// Removes histories without a job or status, and unreadable ones.
    fn histories(&mut self) -> Result<(), StoreError> {
        for row in self.rows(rows::HISTORY) {
            let (key, value) = row?;
            let is_orphan = match rows::read_status_key(&key) {
                Some(id) => self.index_row(&rows::status(id), Status::decode)?.is_none(),
                None => true,
            };
            if is_orphan || decode_history(value).is_err() {
                self.remove(&key)?;
            }
        }
        self.commit()
    }

    /// Removes leases without a job, and unreadable ones, whose jobs wait again.
    fn leases(&mut self) -> Result<(), StoreError> {
        for row in self.rows(rows::LEASE) {
            let (key, value) = row?;
            let Some((_, id)) = rows::read_lease_key(&key) else {
                self.remove(&key)?;
                continue;
            };
            match self.find(id)? {
                None => self.remove_lost(&key, id)?,
                Some(job) if job.finished().is_some() => self.remove(&key)?,
                Some(_) if LeaseRow::decode(value).is_err() => self.remove(&key)?,
                Some(_) => {}
            }
        }
        self.commit()
    }

    /// Removes due rows of jobs that do not exist or do not wait at that place.
    fn waiting(&mut self) -> Result<(), StoreError> {
        for row in self.rows(rows::DUE) {
            let (key, value) = row?;
            let named = rows::place_of(&key).zip(DueValue::decode(&value));
            let Some((place, DueValue { id, has_status, .. })) = named else {
                self.remove(&key)?;
                continue;
            };
            let Some(job) = self.find(id)? else {
                // The row of an unreadable job stays, so that the job is reported when it is due.
                if self.is_missing(id)? {
                    self.remove_lost(&key, id)?;
                }
                continue;
            };
            let is_its =
                job.record.place(place.due, changed_priority(job.status.as_ref())) == place;
            if is_its && has_status && job.status.is_none() && job.lease.is_none() {
                let last_error = Some(LOST.to_owned());
                let due = place.due;
                let status =
                    Status { finished: None, due, attempts: 0, last_error, priority: None };
                self.put(&rows::status(id), |bytes| status.encode(bytes))?;
            } else if !job.is_waiting() || job.place() != place {
                self.remove(&key)?;
            }
        }
        self.commit()
    }

    /// Removes grouped rows of jobs that do not wait at that place or in that group, and unreadable
    /// settings of groups.
    fn grouped(&mut self) -> Result<(), StoreError> {
        for row in self.rows(rows::GROUPED) {
            let (key, value) = row?;
            let id = DueValue::decode(&value).map(|value| value.id);
            let job = id.map(|id| self.find(id)).transpose()?.flatten();
            let holds = job.is_some_and(|job| {
                let group = job.record.group.as_deref();
                let its = group.map(|group| rows::grouped(job.record.queue, group, job.place()));
                job.is_waiting() && its.as_deref() == Some(&key[..])
            });
            if !holds {
                self.remove(&key)?;
            }
        }
        for row in self.rows(rows::GROUP_SETTINGS) {
            let (key, value) = row?;
            if rows::read_group_key(&key).is_none() || GroupSettings::decode(value).is_err() {
                self.remove(&key)?;
            }
        }
        self.commit()
    }

    fn is_missing(&self, id: JobId) -> Result<bool, StoreError> {
        match self.store.get(Table::Jobs, id.as_bytes()) {
            Ok(row) => Ok(row.is_none()),
            Err(StoreError::Damaged(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes rows of finished jobs that do not exist or are not finished. If only the row says
    /// that a job is finished, the row is believed.
    fn finished(&mut self) -> Result<(), StoreError> {
        for row in self.rows(rows::FINISHED) {
            let (key, _) = row?;
            let named = rows::read_finished(&key).zip(rows::finished_state(&key));
            let Some(((time, id), state)) = named.filter(|_| rows::queue_of(&key).is_some()) else {
                self.remove(&key)?;
                continue;
            };
            let status = self.index_row(&rows::status(id), Status::decode)?;
            let finished = Some((state, time));
            if self.is_missing(id)? {
                self.remove_lost(&key, id)?;
            } else if status.as_ref().is_some_and(|it| it.finished != finished) {
                self.remove(&key)?;
            } else if status.is_none() {
                let last_error = Some(LOST.to_owned());
                let status =
                    Status { finished, due: time, attempts: 0, last_error, priority: None };
                self.put(&rows::status(id), |bytes| status.encode(bytes))?;
            }
        }
        self.commit()
    }

    /// Removes keys of jobs that are not live or do not have the key.
    fn keys(&mut self) -> Result<(), StoreError> {
        for row in self.rows(rows::KEY) {
            let (key, value) = row?;
            let id = rows::read_key_value(&value).map(|(id, _)| id);
            let job = id.map(|id| self.find(id)).transpose()?.flatten();
            let holds = job.is_some_and(|job| {
                let its = job.record.key.as_deref().map(|its| rows::key(job.record.queue, its));
                job.finished().is_none() && its.as_deref() == Some(&key[..])
            });
            if !holds {
                self.remove(&key)?;
            }
        }
        self.commit()
    }

    /// Makes sure that each idempotency key has both its rows, or neither.
    fn idempotency_keys(&mut self) -> Result<(), StoreError> {
        for row in self.rows(rows::IDEMPOTENCY) {
            let (key, value) = row?;
            match (KeyRow::decode(value), std::str::from_utf8(&key[1..])) {
                (Ok(row), Ok(name)) => {
                    self.put(&rows::idempotency_expiry(row.expires, name), |_| {})?;
                }
                _ => self.remove(&key)?,
            }
        }
        self.commit()?;
        for row in self.rows(rows::IDEMPOTENCY_EXPIRY) {
            let (key, _) = row?;
            let found = match rows::read_idempotency_expiry(&key) {
                Some((expires, name)) => self
                    .index_row(&rows::idempotency(name), KeyRow::decode)?
                    .is_some_and(|row| row.expires == expires),
                None => false,
            };
            if !found {
                self.remove(&key)?;
            }
        }
        self.commit()
    }

    /// Restores the rows of every job. Returns the last sequence number and the number of queues.
    fn jobs(&mut self) -> Result<(u64, u32), StoreError> {
        let (mut last_seq, mut queues) = (0, 0);
        let (first, last) = ([0; 16], [u8::MAX; 17]);
        for row in readable(self.store, Table::Jobs, &first, &last) {
            let (key, _) = row?;
            let Some(id) = key[..].try_into().ok().map(JobId::from_bytes) else { continue };
            let Some(job) = self.find(id)? else { continue };
            last_seq = last_seq.max(job.record.seq);
            queues = queues.max(job.record.queue + 1);
            self.give_rows(id, &job)?;
        }
        for row in self.rows(rows::QUEUE) {
            let number = rows::read_queue_key(&row?.0).filter(|number| *number < MOST_QUEUES);
            queues = queues.max(number.map_or(0, |number| number + 1));
        }
        self.commit()?;
        Ok((last_seq, queues))
    }

    fn give_rows(&mut self, id: JobId, job: &Found) -> Result<(), StoreError> {
        let queue = job.record.queue;
        let is_there = |key: &[u8]| match self.store.get(Table::Index, key) {
            Ok(row) => Ok(row.is_some()),
            Err(StoreError::Damaged(_)) => Ok(false),
            Err(error) => Err(error),
        };
        if let Some((state, time)) = job.finished() {
            let key = rows::finished(queue, state, time, id);
            return if is_there(&key)? { Ok(()) } else { self.put(&key, |_| {}) };
        }
        let group = job.record.group.as_deref();
        let due = rows::due(queue, job.place());
        let value = DueValue { id, has_status: job.status.is_some(), group };
        let has_value = self.index_row(&due, |row| {
            let value = DueValue::decode(&row).ok_or("a malformed due row")?;
            Ok(value.group.map(str::to_owned))
        })?;
        let must_wait = job.is_waiting() && has_value.is_none_or(|its| its.as_deref() != group);
        let grouped = group.map(|group| rows::grouped(queue, group, job.place()));
        let must_be_grouped = match &grouped {
            Some(key) => job.is_waiting() && !is_there(key)?,
            None => false,
        };
        let key = job.record.key.as_deref().map(|key| rows::key(queue, key));
        let must_have_key = match &key {
            Some(key) => !is_there(key)?,
            None => false,
        };
        if must_wait {
            self.put(&due, |bytes| value.encode(bytes))?;
        }
        if let Some(key) = grouped.filter(|_| must_be_grouped) {
            self.put(&key, |bytes| DueValue { group: None, ..value }.encode(bytes))?;
        }
        if let Some(key) = key.filter(|_| must_have_key) {
            self.put(&key, |bytes| bytes.extend_from_slice(id.as_bytes()))?;
        }
        Ok(())
    }

    /// Gives queues with unreadable names new ones, and pauses them until an operator resumes them.
    fn queues(&mut self, queues: u32) -> Result<(), StoreError> {
        let mut names = HashSet::new();
        let mut nameless = Vec::new();
        for number in 0..queues {
            let key = rows::of_queue(rows::QUEUE, number);
            match self.index_row(&key, QueueRow::decode)? {
                Some(row) => drop(names.insert(row.name)),
                None => nameless.push((number, key)),
            }
        }
        for (number, key) in nameless {
            let mut name = format!("damaged-{number}");
            while !names.insert(name.clone()) {
                name.push('+');
            }
            tracing::error!(name, "the name and the settings of a queue are lost; it is paused");
            // Their finished jobs are kept, because the retention is unknown.
            let keep = Keep::FOREVER;
            let retention = Retention { done: keep, dead: keep, cancelled: keep };
            let settings = QueueSettings { retention, ..QueueSettings::default() };
            let row =
                QueueRow { name, paused: true, settings, creator: None, has_follow_ups: false };
            self.put(&key, |bytes| row.encode(bytes))?;
        }
        self.commit()
    }

    /// Counts the jobs of each queue again.
    fn count(&mut self, queues: u32) -> Result<(), StoreError> {
        let mut all: BTreeMap<u32, Counts> = (0..queues).map(|it| (it, new_counts())).collect();
        for row in self.rows(rows::DUE) {
            let (key, _) = row?;
            let counts = rows::queue_of(&key).and_then(|queue| all.get_mut(&queue));
            if let Some((counts, place)) = counts.zip(rows::place_of(&key)) {
                counts.waiting += 1;
                counts.low = counts.low.min(place);
            }
        }
        for row in self.rows(rows::LEASE) {
            let (key, _) = row?;
            if let Some(counts) = rows::queue_of(&key).and_then(|queue| all.get_mut(&queue)) {
                counts.leased += 1;
            }
        }
        for (&queue, counts) in &mut all {
            for (place, state) in FINISHED.into_iter().enumerate() {
                let from = rows::finished_from(queue, state, Time::default());
                let to = rows::finished_end(queue, state);
                for row in readable(self.store, Table::Index, &from, &to) {
                    let (key, _) = row?;
                    let Some((time, _)) = rows::read_finished(&key) else { continue };
                    *counts.of(state) += 1;
                    counts.finished_low[place] = counts.finished_low[place].min(time);
                }
            }
        }
        for (queue, counts) in all {
            let key = rows::of_queue(rows::COUNTS, queue);
            let known = self.row(Table::Counters, &key, Counts::decode)?;
            let lifetime = known.map(|known| known.lifetime).unwrap_or_default();
            let counts = Counts { lifetime, ..counts };
            self.batch.put_with(Table::Counters, &key, |bytes| counts.encode(bytes));
            self.changed()?;
        }
        Ok(())
    }

    /// Counts the jobs of each group again.
    fn count_groups(&mut self) -> Result<(), StoreError> {
        let (from, to) = ([rows::GROUP_COUNTS], [rows::GROUP_COUNTS + 1]);
        for row in readable(self.store, Table::Counters, &from, &to) {
            self.batch.remove(Table::Counters, &row?.0);
            self.changed()?;
        }
        // Leases are in memory anyway. The waiting jobs of a group are adjacent rows.
        let mut running: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        for row in self.rows(rows::LEASE) {
            let (key, value) = row?;
            let group = LeaseRow::decode(value).ok().and_then(|lease| lease.group);
            if let Some((queue, group)) = rows::queue_of(&key).zip(group) {
                let key = rows::of_group(rows::GROUP_COUNTS, queue, &group);
                *running.entry(key).or_default() += 1;
            }
        }
        let mut last: Option<(Vec<u8>, u64)> = None;
        for row in self.rows(rows::GROUPED) {
            let (key, _) = row?;
            let Some((queue, group, _)) = rows::read_grouped_key(&key) else { continue };
            let key = rows::of_group(rows::GROUP_COUNTS, queue, group);
            match &mut last {
                Some((group, waiting)) if *group == key => *waiting += 1,
                _ => {
                    let done = last.replace((key, 1));
                    self.write_group_counts(done, &mut running)?;
                }
            }
        }
        self.write_group_counts(last, &mut running)?;
        for (key, running) in std::mem::take(&mut running) {
            self.write_group_counts(Some((key.clone(), 0)), &mut [(key, running)].into())?;
        }
        self.commit()
    }

    /// Writes the counts of a group, which is given with the number of its waiting jobs.
    fn write_group_counts(
        &mut self,
        group: Option<(Vec<u8>, u64)>,
        running: &mut BTreeMap<Vec<u8>, u64>,
    ) -> Result<(), StoreError> {
        let Some((key, waiting)) = group else { return Ok(()) };
        let counts = GroupCounts { waiting, running: running.remove(&key).unwrap_or_default() };
        self.batch.put_with(Table::Counters, &key, |bytes| counts.encode(bytes));
        self.changed()
    }

    /// Restores the totals: sequence numbers are never used twice, and commits continue to count.
    fn totals(&mut self, last_seq: u64) -> Result<(), StoreError> {
        let totals = self.row(Table::Counters, rows::TOTALS, Totals::decode)?.unwrap_or_default();
        let seq = totals.seq.max(last_seq + 1);
        let totals = Totals { commit: totals.commit + 1, seq, ..Totals::default() };
        self.batch.put_with(Table::Counters, rows::TOTALS, |bytes| totals.encode(bytes));
        self.changed()
    }
}

fn new_counts() -> Counts {
    Counts { low: Place::MAX, finished_low: [Time::MAX; 3], ..Counts::default() }
}

/// Returns the readable rows.
fn readable<'a>(
    store: &'a dyn Store,
    table: Table,
    from: &[u8],
    to: &[u8],
) -> impl Iterator<Item = Result<(Bytes, Bytes), StoreError>> + use<'a> {
    let is_damage = |row: &Result<_, StoreError>| matches!(row, Err(StoreError::Damaged(_)));
    Tolerant::new(store, table, from, to).filter(move |row| !is_damage(row))
}
