//! A replica as the owner: every change is appended to the log before it is committed locally.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tickwheel_queue::store::replication::{extend_leases, shared_key};
use tickwheel_queue::store::{StoreError, Table, WriteBatch};

use super::{Replica, ReplicaError};
use crate::log::{AppendError, AppendId, LogError, Position};
use crate::record::{Draft, Manifest, Tip, encode_rows};

impl Replica {
    /// Takes the partition over from an epoch: appends a takeover after the last record, and
    /// extends all leases by the time since that record.
    ///
    /// # Errors
    ///
    /// [`ReplicaError::Deposed`] if another node took over meanwhile; otherwise as
    /// [`ReplicaError`] says.
    pub fn take_over(&mut self, from_epoch: u64) -> Result<u64, ReplicaError> {
        self.step_down();
        self.catch_up()?;
        let node = self.options.node.clone();
        let end = self.end()?;
        let applied = self.local()?.applied.clone();
        if end.epoch != from_epoch && applied.taken_by != node {
            return Err(ReplicaError::Deposed(format!(
                "{} took over with epoch {}",
                applied.taken_by, end.epoch
            )));
        }
        if end.position == Position::START && !self.options.may_create {
            return Err(ReplicaError::NotCreated);
        }
        self.append_takeover(end.takeover(&node, self.environment.time()))?;
        let outage = self.local()?.applied.tip.time.since(end.time);
        if !outage.is_zero() && end.epoch > 0 {
            let store = Arc::clone(&self.local()?.store);
            let batch = extend_leases(&*store, outage)?;
            if !batch.is_empty() {
                self.commit(&batch)?;
            }
        }
        Ok(end.epoch + 1)
    }

    fn append_takeover(&mut self, draft: Draft) -> Result<(), ReplicaError> {
        let epoch = draft.tip.epoch;
        self.append(draft)?;
        let mut applied = self.local()?.applied.clone();
        applied.taken(&self.options.node);
        self.commit_locally(WriteBatch::new(), applied)?;
        self.owned = Some(epoch);
        self.counters.takeovers += 1;
        Ok(())
    }

    /// Appends a batch to the log and commits it locally. An empty batch proves ownership.
    ///
    /// # Errors
    ///
    /// If it may not be in the log, or was not committed locally. Ownership has ended then.
    pub fn commit(&mut self, batch: &WriteBatch) -> Result<(), ReplicaError> {
        self.check_owned()?;
        let (now, most) = (self.environment.time(), self.log.max_record_bytes());
        let draft = self.end()?.group(&encode_rows(batch), now, most);
        self.append(draft)?;
        let mut copy = WriteBatch::new();
        for row in batch.rows() {
            match row.value {
                Some(value) => copy.put(row.table, row.key, value),
                None => copy.remove(row.table, row.key),
            }
        }
        let applied = self.local()?.applied.clone();
        self.commit_locally(copy, applied)
    }

    /// Puts a row that all nodes can read with [`Replica::shared`], or removes it.
    ///
    /// # Errors
    ///
    /// As [`Replica::commit`].
    pub fn put_shared(&mut self, name: &str, value: Option<&[u8]>) -> Result<(), ReplicaError> {
        let (key, mut batch) = (shared_key(name), WriteBatch::new());
        match value {
            Some(value) => batch.put(Table::Index, &key, value),
            None => batch.remove(Table::Index, &key),
        }
        self.commit(&batch)
    }

    /// Appends the records of a draft, each of them until it is settled. If that fails, ownership
    /// ends, and the end of the log is read again.
    fn append(&mut self, draft: Draft) -> Result<(), ReplicaError> {
        let mut after = self.local()?.follower.end().position;
        for record in &draft.records {
            match self.settle(after, record) {
                Ok(position) => after = position,
                Err(error) => {
                    self.step_down();
                    return Err(error);
                }
            }
        }
        let local = self.local()?;
        local.follower = local.follower.at(draft.tip);
        Ok(())
    }

    /// Appends bytes after a position; repeats that while the outcome is unknown.
    fn settle(&mut self, after: Position, bytes: &Bytes) -> Result<Position, ReplicaError> {
        let started = self.environment.elapsed();
        let id = AppendId::of(bytes);
        loop {
            let error = match self.log.append(after, id, bytes) {
                Ok(position) => {
                    self.last_append = Some(started);
                    self.counters.appends += 1;
                    let took = self.environment.elapsed().saturating_sub(started);
                    self.counters.append_micros += took.as_micros() as u64;
                    return Ok(position);
                }
                Err(error) => error,
            };
            let waited = self.environment.elapsed().saturating_sub(started);
            match &error {
                AppendError::Conflict { .. } => {
                    return Err(ReplicaError::Deposed(error.to_string()));
                }
                error if error.is_worth_repeating() && waited < self.options.settle_timeout => {}
                AppendError::Unknown(_) | AppendError::PastEnd { .. } => {
                    return Err(ReplicaError::Unavailable(error.to_string()));
                }
                AppendError::Failed(cause) => return Err(self.log_error(cause.clone())),
                _ => return Err(ReplicaError::Local(StoreError::Io(error.to_string()))),
            }
            self.counters.repeated += 1;
            self.environment.pause(self.options.append_pause);
        }
    }

    /// Reads what follows the owner's last record. Nothing does while it is the owner.
    ///
    /// An owner without work would not notice otherwise that another node took over, or that the
    /// stream is gone. Any other error is no proof of anything.
    pub(crate) fn look_for_successor(&mut self) {
        let Ok(local) = self.local() else { return };
        let next = local.follower.next_position();
        let is_followed = self.log.read(next, 1).is_ok_and(|entries| !entries.is_empty());
        let is_gone =
            |error: &LogError| matches!(error, LogError::Recreated { .. } | LogError::Missing(_));
        if is_followed || self.log.state().is_err_and(|error| is_gone(&error)) {
            self.step_down();
        }
    }

    /// Proves that this replica was the owner less than `age` ago: appends an empty group if its
    /// last append is older.
    ///
    /// # Errors
    ///
    /// If that could not be proved.
    pub fn fence(&mut self, age: Duration) -> Result<(), ReplicaError> {
        if self.is_fresh(age) { Ok(()) } else { self.commit(&WriteBatch::new()) }
    }

    /// Returns `true` if this replica was the owner less than `age` ago.
    pub fn is_fresh(&self, age: Duration) -> bool {
        let now = self.environment.elapsed();
        self.owned.is_some() && self.last_append.is_some_and(|last| now.saturating_sub(last) < age)
    }

    /// Hands the partition to another node, or to any: nothing more is appended in this epoch.
    ///
    /// # Errors
    ///
    /// If the record may not be in the log. Ownership has ended in any case.
    pub fn hand_off(&mut self, to: Option<&str>) -> Result<(), ReplicaError> {
        self.check_owned()?;
        let (node, now) = (self.options.node.clone(), self.environment.time());
        let draft = self.end()?.hand_off(&node, to, now);
        self.append(draft)?;
        self.owned = None;
        let mut applied = self.local()?.applied.clone();
        applied.handed_off(to);
        self.commit_locally(WriteBatch::new(), applied)
    }

    /// Appends the decision that the log may be trimmed below a position, and trims it.
    ///
    /// `replicas` names the nodes that have everything below on stable storage; there must be two.
    ///
    /// # Errors
    ///
    /// If the decision may not be in the log, or if the log was not trimmed.
    pub fn trim(&mut self, below: Position, replicas: Vec<String>) -> Result<(), ReplicaError> {
        self.check_owned()?;
        debug_assert!(replicas.len() >= 2, "a trim below what {replicas:?} have");
        let now = self.environment.time();
        let manifest = Manifest { below, replicas, backup: None };
        let draft = self.end()?.manifest(manifest, now);
        self.append(draft)?;
        let applied = self.local()?.applied.clone();
        self.commit_locally(WriteBatch::new(), applied)?;
        self.trimmable = below;
        self.log.trim(below).map_err(|error| self.log_error(error))
    }

    fn check_owned(&self) -> Result<(), ReplicaError> {
        match self.owned {
            Some(_) => Ok(()),
            None => Err(ReplicaError::Deposed("it was not taken over".into())),
        }
    }

    /// Makes everything that was applied durable in the local store; returns up to where.
    ///
    /// # Errors
    ///
    /// If the local store failed.
    pub fn sync(&mut self) -> Result<Position, ReplicaError> {
        let local = self.local()?;
        match local.store.sync() {
            Ok(()) => {
                local.synced = local.applied.tip.position;
                Ok(local.synced)
            }
            Err(error) => {
                self.local = None;
                self.step_down();
                Err(error.into())
            }
        }
    }

    /// Replaces the stream of the log by an empty one, after it lost records. Everything that this
    /// replica has applied is durable in its local store before that.
    ///
    /// # Errors
    ///
    /// If the local store failed, or if there is no new stream.
    pub fn replace_log(&mut self) -> Result<(), ReplicaError> {
        let halted = self.halted.take();
        let durable = self.open_local().and_then(|()| self.sync().map(drop));
        self.halted = halted;
        durable?;
        // Not `log_error`: a failure here is no reason to halt for good.
        let replaced = self.log.replace();
        self.log = replaced.map_err(|error| ReplicaError::Unavailable(error.to_string()))?;
        Ok(())
    }

    /// Starts the next generation from this replica, after its log lost records.
    ///
    /// The log must be a new stream without records: see [`Replica::replace_log`]. All other
    /// replicas continue on it if they have applied as much as this one, and are seeded again if
    /// not.
    ///
    /// # Errors
    ///
    /// If the stream is not empty, the local store cannot be opened, or the takeover could not be
    /// appended.
    pub fn recover(&mut self) -> Result<u64, ReplicaError> {
        self.halted = None;
        self.open_local()?;
        let state = self.log.state().map_err(|error| self.log_error(error))?;
        if state.last != Position::START {
            return Err(ReplicaError::Deposed(format!(
                "the stream {} already contains records: recover on a new one",
                state.stream
            )));
        }
        let (node, now) = (self.options.node.clone(), self.environment.time());
        let version = self.write_version;
        let local = self.local()?;
        let draft = Tip { version, ..local.applied.tip.clone() }.new_generation(&node, now);
        let generation = draft.tip.generation;
        local.applied.stream = state.stream;
        local.follower = local.follower.at(Tip { position: Position::START, ..draft.tip.clone() });
        self.append_takeover(draft)?;
        self.is_verified = true;
        Ok(generation)
    }
}

/// Returns the position below which a log may be trimmed: what two replicas have made durable.
///
/// ```
/// use tickwheel_cluster::log::Position;
/// use tickwheel_cluster::trim_point;
///
/// assert_eq!(trim_point(&[Position(9), Position(4), Position(7)]), Some(Position(7)));
/// assert_eq!(trim_point(&[Position(9)]), None);
/// ```
pub fn trim_point(synced: &[Position]) -> Option<Position> {
    let mut synced = synced.to_vec();
    synced.sort_unstable();
    synced.iter().rev().nth(1).copied()
}
