//! Reading a log in order: checks each record against the one before, and puts groups together.

use tickwheel_queue::Time;

use super::{Content, Manifest, Record, RecordError, RecordHash, Tip, VERSION};
use crate::log::{Entry, Position};

/// Checks the records of a log in order and puts groups of rows together.
///
/// Each record must name the hash of the record before it. A takeover must begin the next epoch;
/// all other records must belong to the current one, and groups must be numbered without a gap. The
/// parts of a group that a takeover interrupts are dropped. [`Tip`] has an example.
///
/// ```
/// use tickwheel_cluster::log::{AppendId, Entry, Position};
/// use tickwheel_cluster::record::{Follower, RecordError, Tip};
/// use tickwheel_queue::Time;
///
/// let record = Tip::START.takeover("node-a", Time::from_millis(1)).records.remove(0);
/// let entry = Entry { position: Position(1), id: AppendId::of(&record), record };
/// let mut follower = Follower::new(Tip::START);
/// follower.push(&entry)?;
/// // The same record does not follow itself.
/// let again = Entry { position: Position(2), ..entry };
/// assert!(matches!(follower.push(&again), Err(RecordError::OutOfOrder(_))));
/// # Ok::<(), RecordError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Follower {
    /// After the last record that took effect.
    tip: Tip,
    /// After the last record that was read.
    read: Tip,
    /// The parts of a group whose last part has not been read.
    partial: Option<Partial>,
    /// The newest version of records that it reads.
    known_version: u8,
}

#[derive(Clone, Debug)]
struct Partial {
    next: u32,
    parts: u32,
    time: Time,
    rows: Vec<u8>,
}

/// What a record did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// It was a part of a group, of which more parts follow. Nothing took effect.
    Part,
    /// It completed a group of rows, which are to be committed together with the new tip.
    Group(Group),
    /// A node took the partition over.
    Takeover {
        /// The name of the node.
        node: String,
    },
    /// The owner gave the partition up.
    HandOff {
        /// The name of the owner.
        node: String,
        /// The node that shall take over; `None` if any may.
        to: Option<String>,
    },
    /// The log may be trimmed.
    Manifest(Manifest),
}

/// A group of rows, complete.
///
/// ```
/// use tickwheel_cluster::record::{Group, decode_rows, encode_rows};
/// use tickwheel_queue::Time;
/// use tickwheel_queue::store::{Table, WriteBatch};
///
/// let mut batch = WriteBatch::new();
/// batch.put(Table::Counters, b"puts", b"12");
/// let group = Group { commit: 3, time: Time::from_millis(9), rows: encode_rows(&batch) };
/// // A standby commits these rows to its own store.
/// assert_eq!(decode_rows(&group.rows)?.len(), 1);
/// # Ok::<(), tickwheel_cluster::record::RecordError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The number of the commit.
    pub commit: u64,
    /// The owner's time.
    pub time: Time,
    /// The rows; see [`decode_rows`](super::decode_rows).
    pub rows: Vec<u8>,
}

impl Follower {
    /// Continues after a tip.
    pub fn new(tip: Tip) -> Self {
        Self { read: tip.clone(), tip, partial: None, known_version: VERSION }
    }

    /// Sets the newest version of records that it reads. Tests of upgrades set a newer one than
    /// this program's.
    #[must_use]
    pub(crate) fn knowing(self, known_version: u8) -> Self {
        Self { known_version, ..self }
    }

    /// Returns a follower that continues after another tip.
    #[must_use]
    pub(crate) fn at(&self, tip: Tip) -> Self {
        Self::new(tip).knowing(self.known_version)
    }

    /// Returns the end of what took effect. It does not move for the first parts of a group.
    pub fn tip(&self) -> &Tip {
        &self.tip
    }

    /// Returns the tip after the last record that was pushed, which a takeover has to follow.
    pub fn end(&self) -> &Tip {
        &self.read
    }

    /// Returns the position of the record to push next.
    pub fn next_position(&self) -> Position {
        self.read.position.next()
    }

    /// Checks the next record and says what it did.
    ///
    /// # Errors
    ///
    /// If the record cannot be read, or does not follow the last one. The follower stays where it
    /// is then.
    pub fn push(&mut self, entry: &Entry) -> Result<Step, RecordError> {
        let expected = self.next_position();
        if entry.position != expected {
            return Err(out_of_order(format!(
                "expected position {expected}, found {}",
                entry.position
            )));
        }
        let record = Record::decode_up_to(self.known_version, &entry.record)
            .map_err(|error| at_position(error, entry.position))?;
        self.check(&record).map_err(|what| out_of_order(format!("at {expected}: {what}")))?;
        let commit = match record.content {
            Content::Data { .. } => self.read.commit,
            _ => record.commit,
        };
        self.read = Tip {
            position: entry.position,
            hash: RecordHash::of(&entry.record),
            generation: record.generation,
            epoch: record.epoch,
            commit,
            time: record.time,
            version: entry.record[0],
        };
        let step = self.take(record);
        if step != Step::Part {
            self.tip = self.read.clone();
        }
        Ok(step)
    }

    /// Says what is wrong with a record in this place.
    fn check(&self, record: &Record) -> Result<(), String> {
        let last = &self.read;
        if record.previous != last.hash {
            return Err("it follows another record than the one before it".into());
        }
        if record.time < last.time {
            return Err("its time is before that of the last record".into());
        }
        let (mut generation, mut epoch, mut commit) =
            (Some(last.generation), Some(last.epoch), Some(last.commit));
        match &record.content {
            Content::Takeover { .. } => {
                epoch = last.epoch.checked_add(1);
                // A replica that has applied groups reads an empty log's first record: that log
                // continues from a replica in the same state, in a new generation.
                if last.position == Position::START && last.epoch > 0 {
                    generation = last.generation.checked_add(1);
                }
            }
            Content::Data { part, parts, .. } => {
                self.check_part(record, *part, *parts)?;
                commit = last.commit.checked_add(1);
            }
            _ if self.partial.is_some() => return Err("it interrupts a group".into()),
            _ => {}
        }
        for (name, expected, found) in [
            ("generation", generation, record.generation),
            ("epoch", epoch, record.epoch),
            ("commit", commit, record.commit),
        ] {
            if expected != Some(found) {
                let expected = expected.unwrap_or(u64::MAX);
                return Err(format!("expected {name} {expected}, found {found}"));
            }
        }
        Ok(())
    }

    fn check_part(&self, record: &Record, part: u32, parts: u32) -> Result<(), String> {
        let (next, same_group) = match &self.partial {
            None => (0, true),
            Some(it) => (it.next, it.parts == parts && it.time == record.time),
        };
        if part == next && same_group {
            Ok(())
        } else {
            Err(format!("expected part {next} of a group, found part {part} of {parts}"))
        }
    }

    /// Lets a record take effect that was checked.
    fn take(&mut self, record: Record) -> Step {
        match record.content {
            Content::Takeover { node } => {
                self.partial = None;
                Step::Takeover { node }
            }
            Content::HandOff { node, to } => Step::HandOff { node, to },
            Content::Manifest(manifest) => Step::Manifest(manifest),
            Content::Data { part, parts, bytes } => {
                let mut rows = self.partial.take().map_or_else(Vec::new, |it| it.rows);
                rows.extend_from_slice(&bytes);
                if part + 1 < parts {
                    let time = record.time;
                    self.partial = Some(Partial { next: part + 1, parts, time, rows });
                    return Step::Part;
                }
                self.read.commit = record.commit;
                Step::Group(Group { commit: record.commit, time: record.time, rows })
            }
        }
    }
}

fn at_position(error: RecordError, position: Position) -> RecordError {
    match error {
        RecordError::Malformed(what) => {
            RecordError::Malformed(format!("at position {position}: {what}"))
        }
        error => error,
    }
}

fn out_of_order(what: String) -> RecordError {
    RecordError::OutOfOrder(what)
}
