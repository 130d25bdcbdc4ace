//! A replica as a standby: it reads the log and commits the same rows as the owner.

use std::sync::Arc;

use tickwheel_queue::store::replication::POSITION_KEY;
use tickwheel_queue::store::{Persist, Store, Table, WriteBatch};

use super::{Replica, ReplicaError};
use crate::log::{Entry, LogError, Position, StreamId};
use crate::position::Applied;
use crate::record::{Record, RecordError, RecordHash, Step, Tip, decode_rows};

/// Bytes that one read of the log asks for.
const READ_BYTES: usize = 4 << 20;

impl Replica {
    /// Reads the log to its end, as far as the answering server knows it, and applies it.
    ///
    /// Returns `true` if nothing was left to read.
    ///
    /// # Errors
    ///
    /// As [`ReplicaError`] says. After [`ReplicaError::Halted`] every further call fails.
    pub fn catch_up(&mut self) -> Result<bool, ReplicaError> {
        self.open_local()?;
        if self.owned.is_some() {
            return Ok(true);
        }
        self.check_log()?;
        self.verify_end()?;
        loop {
            let from = self.local()?.follower.next_position();
            let entries = self.log.read(from, READ_BYTES).map_err(|error| self.log_error(error))?;
            if entries.is_empty() {
                return Ok(true);
            }
            for entry in entries {
                self.apply(&entry)?;
            }
        }
    }

    /// Compares the extent of the log with what was applied.
    fn check_log(&mut self) -> Result<(), ReplicaError> {
        let state = self.log.state().map_err(|error| self.log_error(error))?;
        let local = self.local()?;
        if local.applied.stream.as_str().is_empty() {
            local.applied.stream = state.stream.clone();
        }
        let stream = local.applied.stream.clone();
        let position = local.follower.end().position;
        match state.check(&stream, position) {
            Ok(()) => {
                self.lost_since = None;
                Ok(())
            }
            Err(error @ LogError::Recreated { .. }) => self.adopt(state.stream, error),
            Err(error) => Err(self.log_error(error)),
        }
    }

    /// Continues on another stream if that begins with the next generation of this partition.
    ///
    /// Such a stream starts from a replica that has applied as many groups as this one, or else
    /// this replica has to be seeded. Any other stream is refused.
    fn adopt(&mut self, stream: StreamId, error: LogError) -> Result<(), ReplicaError> {
        let entries = match self.log.read(Position::START.next(), 1) {
            Ok(entries) => entries,
            Err(LogError::Trimmed { .. }) => {
                return Err(ReplicaError::NeedsSeed(error.to_string()));
            }
            Err(error) => return Err(self.log_error(error)),
        };
        let Some(entry) = entries.first() else { return Err(self.log_error(error)) };
        let first = match Record::decode_up_to(self.options.known_version, &entry.record) {
            Ok(first) => first,
            Err(error @ RecordError::NewerVersion { .. }) => {
                return Err(ReplicaError::Newer(error.to_string()));
            }
            Err(error) => return Err(self.halt(error.to_string())),
        };
        let local = self.local()?;
        let tip = local.applied.tip.clone();
        if first.generation <= tip.generation {
            return Err(self.log_error(error));
        }
        if first.generation > tip.generation + 1 || first.commit != tip.commit {
            return Err(ReplicaError::NeedsSeed(format!(
                "generation {} starts from commit {}, this replica has applied commit {} of \
                 generation {}",
                first.generation, first.commit, tip.commit, tip.generation
            )));
        }
        local.applied.stream = stream;
        let start = Tip { position: Position::START, hash: RecordHash::NONE, ..tip };
        local.follower = local.follower.at(start);
        self.is_verified = true;
        Ok(())
    }

    /// Ends a halt if an operator has started a new generation of the partition on another stream.
    /// Returns `true` if it did: [`Replica::catch_up`] continues there, or asks for a seed.
    ///
    /// # Errors
    ///
    /// If the log cannot be read, or is damaged.
    pub fn find_new_generation(&mut self) -> Result<bool, LogError> {
        let Some(local) = &self.local else { return Ok(false) };
        let known = &local.applied;
        let log = self.log.reopen()?;
        let state = log.state()?;
        if state.stream == known.stream {
            return Ok(false);
        }
        let entries = log.read(state.first, 1)?;
        let Some(entry) = entries.first() else { return Ok(false) };
        let first = Record::decode(&entry.record);
        let first = first.map_err(|error| LogError::Damaged(error.to_string()))?;
        if first.generation <= known.tip.generation {
            return Ok(false);
        }
        self.log = log;
        (self.halted, self.lost_since) = (None, None);
        self.step_down();
        Ok(true)
    }

    /// Checks once that the record at the end of this replica is the one that it applied.
    fn verify_end(&mut self) -> Result<(), ReplicaError> {
        let Tip { position, hash, .. } = *self.local()?.follower.end();
        if self.is_verified || position == Position::START {
            return Ok(());
        }
        match self.log.read(position, 1) {
            Ok(entries) => {
                let Some(entry) = entries.first() else {
                    return Err(ReplicaError::Unavailable("the last record was not found".into()));
                };
                let known = self.options.known_version;
                // A newer version of this program has run on this disk.
                if let Err(error @ RecordError::NewerVersion { .. }) =
                    Record::decode_up_to(known, &entry.record)
                {
                    return Err(ReplicaError::Newer(error.to_string()));
                }
                if RecordHash::of(&entry.record) != hash {
                    return Err(self.halt(format!(
                        "the log contains another record at position {position} than the one that \
                         was applied"
                    )));
                }
            }
            // The next record carries its hash.
            Err(LogError::Trimmed { .. }) => {}
            Err(error) => return Err(self.log_error(error)),
        }
        self.is_verified = true;
        Ok(())
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), ReplicaError> {
        let pushed = self.local()?.follower.push(entry);
        let step = match pushed {
            Ok(step) => step,
            Err(error @ RecordError::NewerVersion { .. }) => {
                return Err(ReplicaError::Newer(error.to_string()));
            }
            Err(error) => return Err(self.halt(error.to_string())),
        };
        let mut applied = self.local()?.applied.clone();
        let mut batch = WriteBatch::new();
        match step {
            Step::Part => return Ok(()),
            Step::Group(group) => {
                batch = decode_rows(&group.rows).map_err(|error| self.halt(error.to_string()))?;
                self.counters.applied += 1;
            }
            Step::Takeover { node } => applied.taken(&node),
            Step::HandOff { to, .. } => applied.handed_off(to.as_deref()),
            Step::Manifest(manifest) => self.trimmable = manifest.below,
        }
        self.commit_locally(batch, applied)
    }

    /// Commits rows that are in the log, together with the position.
    pub(super) fn commit_locally(
        &mut self,
        mut batch: WriteBatch,
        mut applied: Applied,
    ) -> Result<(), ReplicaError> {
        let local = self.local()?;
        applied.tip.clone_from(local.follower.tip());
        batch.put(Table::Index, POSITION_KEY, &applied.encode());
        if let Err(error) = local.store.commit(&batch, Persist::Buffer) {
            self.local = None;
            self.step_down();
            return Err(error.into());
        }
        local.applied = applied;
        let time = local.applied.tip.time;
        self.floor.raise(time);
        Ok(())
    }

    /// Returns the open store, for [`seed`](crate::seed) to fill; ownership has to be given up
    /// before.
    pub(crate) fn store_to_seed(&mut self) -> Result<Arc<dyn Store>, ReplicaError> {
        match self.open_local() {
            Ok(()) | Err(ReplicaError::NeedsSeed(_)) => {}
            Err(error) => return Err(error),
        }
        self.step_down();
        Ok(Arc::clone(&self.local()?.store))
    }

    /// Reads the position again after the store was seeded.
    pub(crate) fn seeded(&mut self) -> Result<(), ReplicaError> {
        let local = self.local()?;
        let row = local.store.get(Table::Index, POSITION_KEY)?;
        let decoded = row.map(Applied::decode).transpose();
        let Ok(Some(Some(applied))) = decoded else {
            return Err(ReplicaError::NeedsSeed("the seed has no position".into()));
        };
        local.follower = local.follower.at(applied.tip.clone());
        local.applied = applied;
        local.is_seeded = true;
        let time = local.applied.tip.time;
        self.floor.raise(time);
        self.is_verified = false;
        self.sync().map(drop)
    }
}
