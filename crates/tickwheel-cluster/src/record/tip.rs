//! The end of a log as a node knows it, and the records that may follow it.

use bytes::{Buf, Bytes};
use tickwheel_queue::Time;

use super::codec::{PART_OVERHEAD_BYTES, VERSION};
use super::{Content, Manifest, Record, RecordError, RecordHash};
use crate::log::Position;

/// The version of a stored tip.
const STORED_VERSION: u8 = 1;
const STORED_BYTES: usize = 1 + 8 + 16 + 4 * 8;

/// The end of a log as a node knows it.
///
/// A replica stores its tip in the same batch as the rows that it applies. An owner appends the
/// records that [`Tip::group`] and the other methods draft, and continues with the draft's tip.
///
/// ```
/// use tickwheel_cluster::log::{AppendId, Log, SimulatedLog};
/// use tickwheel_cluster::record::{Follower, Step, Tip};
/// use tickwheel_queue::Time;
///
/// let log = SimulatedLog::new(1);
/// let append = |after: &Tip, records: &[bytes::Bytes]| {
///     let mut position = after.position;
///     for record in records {
///         position = log.append(position, AppendId::of(record), record)?;
///     }
///     Ok::<_, tickwheel_cluster::log::AppendError>(())
/// };
///
/// // A node takes over, then commits a group of rows, in parts of at most 100 bytes.
/// let taken = Tip::START.takeover("node-a", Time::from_millis(1));
/// append(&Tip::START, &taken.records)?;
/// let draft = taken.tip.group(&[7; 120], Time::from_millis(2), 100);
/// append(&taken.tip, &draft.records)?;
///
/// // A standby reads the same.
/// let mut follower = Follower::new(Tip::START);
/// for entry in log.read(follower.next_position(), 1 << 20)? {
///     if let Step::Group(group) = follower.push(&entry)? {
///         assert_eq!(group.rows, vec![7; 120]);
///     }
/// }
/// assert_eq!(*follower.tip(), draft.tip);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tip {
    /// The position of the last record.
    pub position: Position,
    /// The hash of the last record.
    pub hash: RecordHash,
    /// The generation of the last record.
    pub generation: u64,
    /// The epoch of the last record.
    pub epoch: u64,
    /// The number of the last group of rows.
    pub commit: u64,
    /// The time of the last record.
    pub time: Time,
    /// The version of the last record, and of those that are drafted after it. It is not stored.
    pub version: u8,
}

/// Records to be appended in order, the first of them after the tip that drafted them.
///
/// ```
/// use tickwheel_cluster::record::Tip;
/// use tickwheel_queue::Time;
///
/// let draft = Tip::START.takeover("node-a", Time::from_millis(5));
/// assert_eq!(draft.records.len(), 1);
/// assert_eq!(draft.tip.epoch, 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The encoded records.
    pub records: Vec<Bytes>,
    /// The end of the log once all of them are appended.
    pub tip: Tip,
}

impl Default for Tip {
    fn default() -> Self {
        Self::START
    }
}

impl Tip {
    /// The end of an empty log.
    pub const START: Self = Self {
        position: Position::START,
        hash: RecordHash::NONE,
        generation: 0,
        epoch: 0,
        commit: 0,
        time: Time::from_millis(0),
        version: VERSION,
    };

    /// Drafts a takeover of the partition by a node. It begins the next epoch.
    pub fn takeover(&self, node: &str, now: Time) -> Draft {
        let epoch = self.epoch.saturating_add(1);
        self.draft(Self { epoch, ..self.at(now) }, Content::Takeover { node: node.to_owned() })
    }

    /// Drafts the takeover with which a new log begins that continues from this tip's replica. It
    /// begins the next generation, in a log that is empty.
    pub fn new_generation(&self, node: &str, now: Time) -> Draft {
        let content = Content::Takeover { node: node.to_owned() };
        let (generation, epoch) = (self.generation.saturating_add(1), self.epoch.saturating_add(1));
        let (position, hash) = (Position::START, RecordHash::NONE);
        let start = Self { position, hash, ..self.clone() };
        start.draft(Self { generation, epoch, ..start.at(now) }, content)
    }

    /// Drafts the hand-off of the partition by its owner, to a node or to any.
    pub fn hand_off(&self, node: &str, to: Option<&str>, now: Time) -> Draft {
        let content = Content::HandOff { node: node.to_owned(), to: to.map(str::to_owned) };
        self.draft(self.at(now), content)
    }

    /// Drafts a snapshot manifest.
    pub fn manifest(&self, manifest: Manifest, now: Time) -> Draft {
        self.draft(self.at(now), Content::Manifest(manifest))
    }

    /// Drafts a group of rows, as one record or as several of at most `max_record_bytes` bytes.
    ///
    /// Records have at least 67 bytes, however small the maximum is.
    pub fn group(&self, rows: &[u8], now: Time, max_record_bytes: usize) -> Draft {
        let max_part = max_record_bytes.saturating_sub(PART_OVERHEAD_BYTES).max(1);
        let parts = rows.len().div_ceil(max_part).max(1) as u32;
        let mut tip = Self { commit: self.commit.saturating_add(1), ..self.at(now) };
        let mut records = Vec::with_capacity(parts as usize);
        for part in 0..parts {
            let start = part as usize * max_part;
            let end = rows.len().min(start + max_part);
            let bytes = Bytes::copy_from_slice(&rows[start..end]);
            records.push(tip.extend(Content::Data { part, parts, bytes }));
        }
        Draft { records, tip }
    }

    /// This tip at a later time. Time never decreases in a log, whatever the node's clock says.
    fn at(&self, now: Time) -> Self {
        Self { time: now.max(self.time), ..self.clone() }
    }

    fn draft(&self, mut tip: Self, content: Content) -> Draft {
        debug_assert_eq!((tip.position, tip.hash), (self.position, self.hash));
        let records = vec![tip.extend(content)];
        Draft { records, tip }
    }

    /// Moves the tip onto a new record, and returns that.
    fn extend(&mut self, content: Content) -> Bytes {
        let record = Record {
            generation: self.generation,
            epoch: self.epoch,
            commit: self.commit,
            time: self.time,
            previous: self.hash,
            content,
        };
        let record = record.encode_as(self.version);
        self.position = self.position.next();
        self.hash = RecordHash::of(&record);
        record
    }

    /// Returns the tip as bytes, for the store of a replica.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(STORED_BYTES);
        bytes.push(STORED_VERSION);
        bytes.extend_from_slice(&self.position.0.to_le_bytes());
        bytes.extend_from_slice(&self.hash.0.to_le_bytes());
        for number in [self.generation, self.epoch, self.commit, self.time.as_millis()] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Reads a tip that [`Tip::to_bytes`] wrote.
    ///
    /// # Errors
    ///
    /// If a newer version wrote it, or if the bytes are something else.
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self, RecordError> {
        match bytes.first() {
            Some(&found) if found > STORED_VERSION => {
                return Err(RecordError::NewerVersion { found, known: STORED_VERSION });
            }
            Some(&STORED_VERSION) if bytes.len() == STORED_BYTES => bytes.advance(1),
            _ => return Err(RecordError::Malformed("not a stored tip".into())),
        }
        let position = Position(bytes.get_u64_le());
        let hash = RecordHash(bytes.get_u128_le());
        let [generation, epoch, commit, time] = [(); 4].map(|()| bytes.get_u64_le());
        let time = Time::from_millis(time);
        Ok(Self { position, hash, generation, epoch, commit, time, version: VERSION })
    }
}
