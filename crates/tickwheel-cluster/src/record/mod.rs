//! The records of a log: what the owner of a partition appends and its standbys read.
//!
//! All numbers are little-endian:
//!
//! ```text
//! offset  bytes  field
//!      0      1  version of this layout, 1
//!      1      1  kind: 1 data, 2 takeover, 3 hand-off, 4 snapshot manifest
//!      2      8  generation, which `tickwheel cluster recover` increments
//!     10      8  epoch, which every takeover increments
//!     18      8  commit number, which every group of rows increments
//!     26      8  time of the owner, in milliseconds since 1970
//!     34     16  hash of the previous record; 0 for the first
//!     50      n  content
//!   50+n      8  checksum of everything before it
//! ```
//!
//! A group of rows that is larger than the log's records is split into parts. It takes effect when
//! its last part has been appended, and never does if a takeover comes first.
//!
//! Ground rules:
//! * Decoding never panics, whatever the bytes are.
//! * A record of a newer version is refused. A node that cannot read a partition's log does not
//!   take that partition over.
//! * The chain of hashes ties each record to all records before it. A replica whose last record was
//!   replaced in the log notices that with the next record.
//!
//! | file | what it holds |
//! |---|---|
//! | `codec` | the layout above |
//! | `rows` | the rows of a batch as bytes |
//! | `tip` | [`Tip`], the end of a log as a node knows it, and the records that may follow it |
//! | `follower` | [`Follower`], which checks records in order and puts groups together |

mod codec;
mod follower;
mod rows;
mod tip;

use std::error::Error;
use std::fmt;

use bytes::Bytes;
use tickwheel_queue::Time;
use xxhash_rust::xxh3::xxh3_128;

pub use codec::VERSION;
pub use follower::{Follower, Group, Step};
pub use rows::{decode_rows, encode_rows};
pub use tip::{Draft, Tip};

use crate::log::Position;

/// A record of a log.
///
/// Nodes do not build records by hand: [`Tip`] creates them and [`Follower`] reads them.
///
/// ```
/// use tickwheel_cluster::record::{Content, Record, Tip};
/// use tickwheel_queue::Time;
///
/// let draft = Tip::START.takeover("node-a", Time::from_millis(1_000));
/// let record = Record::decode(&draft.records[0])?;
/// assert_eq!(record.epoch, 1);
/// assert_eq!(record.content, Content::Takeover { node: "node-a".into() });
/// # Ok::<(), tickwheel_cluster::record::RecordError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Counts how often the log was started anew from a replica.
    pub generation: u64,
    /// Counts the takeovers of the partition.
    pub epoch: u64,
    /// The number of the commit that the record belongs to; for other kinds than data, that of the
    /// last commit.
    pub commit: u64,
    /// The owner's time, which never decreases from record to record.
    pub time: Time,
    /// The hash of the record before this one.
    pub previous: RecordHash,
    /// What the record says.
    pub content: Content,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// A part of a group of rows that are committed together.
    Data {
        /// The number of the part, from 0.
        part: u32,
        /// How many parts the group has, at least 1.
        parts: u32,
        /// The bytes of the part. All parts joined are the rows; see [`decode_rows`].
        bytes: Bytes,
    },
    /// The node owns the partition from this record on.
    Takeover {
        /// The name of the node.
        node: String,
    },
    /// The owner has committed its last group and gives the partition up.
    HandOff {
        /// The name of the owner.
        node: String,
        /// The node that shall take over; `None` if any may.
        to: Option<String>,
    },
    /// Everything below a position is kept elsewhere, so the log may be trimmed there.
    Manifest(Manifest),
}

/// A snapshot manifest: who keeps what is below a position, so that the log may be trimmed there.
///
/// ```
/// use tickwheel_cluster::log::Position;
/// use tickwheel_cluster::record::{Manifest, Tip};
/// use tickwheel_queue::Time;
///
/// // Two replicas have synced everything before record 500 to their disks.
/// let manifest = Manifest {
///     below: Position(500),
///     replicas: vec!["node-a".into(), "node-b".into()],
///     backup: None,
/// };
/// let draft = Tip::START.takeover("node-a", Time::from_millis(1));
/// let draft = draft.tip.manifest(manifest, Time::from_millis(2));
/// assert_eq!(draft.records.len(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Records below this position may be trimmed.
    pub below: Position,
    /// The replicas that have the records' rows on stable storage.
    pub replicas: Vec<String>,
    /// Where a backup with the records' rows is.
    pub backup: Option<String>,
}

/// The hash of a record, by which the next record names it.
///
/// ```
/// use tickwheel_cluster::record::RecordHash;
///
/// assert_ne!(RecordHash::of(b"one record"), RecordHash::of(b"another"));
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RecordHash(pub u128);

impl RecordHash {
    /// What the first record of a log names as its predecessor.
    pub const NONE: Self = Self(0);

    /// Returns the hash of an encoded record.
    pub fn of(record: &[u8]) -> Self {
        Self(xxh3_128(record))
    }
}

impl fmt::Debug for RecordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordHash({:032x})", self.0)
    }
}

/// Why a record cannot be read or may not be where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// A newer version of Tickwheel wrote the record.
    NewerVersion {
        /// The record's version.
        found: u8,
        /// The newest version that this program reads.
        known: u8,
    },
    /// The bytes are not a record; what is wrong with them.
    Malformed(String),
    /// The record does not follow the one before it; what was expected and what was found.
    OutOfOrder(String),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewerVersion { found, known } => write!(
                f,
                "a record of version {found}: this program reads versions up to {known}; upgrade \
                 this node"
            ),
            Self::Malformed(what) => write!(f, "malformed record: {what}"),
            Self::OutOfOrder(what) => write!(f, "record out of order: {what}"),
        }
    }
}

impl Error for RecordError {}
