//! The replicated log of a partition: the trait and its implementations.
//!
//! A log is a sequence of records at consecutive positions, of which the first is 1. Records are
//! appended at the end, never changed, and removed from the front only by [`Log::trim`].
//!
//! Ground rules, on which the safety of the cluster rests:
//! * **An append is conditional.** It takes effect only if the log ends at the position that the
//!   caller names. So each position is decided once, and has one writer.
//! * **An append that returned `Ok` is durable** on a quorum of the log's servers.
//! * **An append is idempotent.** Repeating it with the same position and id gives the same answer,
//!   also when other records follow it. A lost answer is settled by repeating the append, or by a
//!   later append of the same writer, never by a read: the request may still be under way.
//! * **Reads may be stale.** [`Log::state`] and [`Log::read`] may be answered by a server that does
//!   not know yet that it was replaced. They never return a record that a later read contradicts,
//!   but the log may have grown. Only a successful append proves where the log ends.
//! * **A handle belongs to one stream.** If the stream is deleted and created again, operations of
//!   older handles fail with [`LogError::Recreated`], whatever the new stream contains.
//!
//! | file | what it holds |
//! |---|---|
//! | `error` | [`LogError`] and [`AppendError`] |
//! | `nats` | [`Nats`] and [`NatsLog`]: streams of NATS `JetStream` |
//! | `postgres` | [`Postgres`] and [`PostgresLog`]: tables of a `PostgreSQL` database |
//! | `simulated` | [`SimulatedLog`]: a log in memory, with faults that a seed decides |

mod blocking;
mod error;
mod nats;
mod postgres;
mod simulated;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_128;

pub use error::{AppendError, LogError};
pub use nats::{Nats, NatsLog, NatsOptions};
pub use postgres::{Postgres, PostgresLog, PostgresOptions};
pub use simulated::{Faults, SimulatedLog};

/// The replicated log of a partition.
///
/// All operations block. The module's documentation lists the rules that every implementation
/// keeps; one suite of tests checks all implementations.
///
/// ```
/// use bytes::Bytes;
/// use tickwheel_cluster::log::{AppendError, AppendId, Log, Position, SimulatedLog};
///
/// fn append(log: &dyn Log, after: Position, text: &'static str) -> Result<Position, AppendError> {
///     let record = Bytes::from_static(text.as_bytes());
///     log.append(after, AppendId::of(&record), &record)
/// }
///
/// let log = SimulatedLog::new(1);
/// let first = append(&log, Position::START, "node a owns the log")?;
/// // Another node has not seen that record, so its append is refused.
/// let late = append(&log, Position::START, "node b owns the log");
/// assert_eq!(late, Err(AppendError::Conflict { last: first }));
/// // Repeating an append whose answer was lost does not append again.
/// assert_eq!(append(&log, Position::START, "node a owns the log")?, first);
/// # Ok::<(), AppendError>(())
/// ```
pub trait Log: Send + Sync + fmt::Debug {
    /// Returns the identity of the stream, its first position and its last position.
    ///
    /// The answer may be stale: the log may have grown or may have been trimmed since.
    ///
    /// # Errors
    ///
    /// If no server answers, or if the stream is gone or was created again.
    fn state(&self) -> Result<LogState, LogError>;

    /// Appends a record if `after` is the position of the last record, and returns its position,
    /// which is `after + 1`.
    ///
    /// The record is durable on a quorum when this returns `Ok`. If the record at `after + 1` was
    /// appended with the same id, the answer is `Ok` too, however long the log is by now.
    ///
    /// # Errors
    ///
    /// [`AppendError`] says for each failure whether the record may be in the log.
    fn append(
        &self,
        after: Position,
        id: AppendId,
        record: &Bytes,
    ) -> Result<Position, AppendError>;

    /// Returns the records from a position on, in order and without a gap, up to about `max_bytes`
    /// bytes of records.
    ///
    /// Returns at least one record if the answering server has the one at `from`, even if that is
    /// larger than `max_bytes`. Returns an empty list if it has no such record yet.
    ///
    /// # Errors
    ///
    /// [`LogError::Trimmed`] if the record at `from` was trimmed; otherwise as [`Log::state`].
    fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Entry>, LogError>;

    /// Blocks until a record at or after `from` may exist, or until `timeout` has passed.
    ///
    /// May return early; the caller reads to find out.
    ///
    /// # Errors
    ///
    /// As [`Log::state`].
    fn wait(&self, from: Position, timeout: Duration) -> Result<(), LogError>;

    /// Removes all records below a position. Removing them again does nothing.
    ///
    /// Trimming is not conditional: a stale owner can trim. So the caller first appends the
    /// decision as a record, and trims what a record of the log allows.
    ///
    /// # Errors
    ///
    /// [`LogError::TrimPastEnd`] if `below` is greater than the last position: the last record
    /// always stays. Otherwise as [`Log::state`].
    fn trim(&self, below: Position) -> Result<(), LogError>;

    /// Returns the size of the largest record that [`Log::append`] accepts, in bytes.
    fn max_record_bytes(&self) -> usize;

    /// Opens the stream that has the name of this log now. It may be another one than this handle's.
    ///
    /// # Errors
    ///
    /// [`LogError::Missing`] if there is none; otherwise as [`Log::state`].
    fn reopen(&self) -> Result<Arc<dyn Log>, LogError>;

    /// Deletes the stream that has the name of this log, with all its records, and opens an empty
    /// one in its place. All handles on the old stream fail from then on.
    ///
    /// # Errors
    ///
    /// As [`Log::state`]. The old stream may be deleted then; calling this again is safe.
    fn replace(&self) -> Result<Arc<dyn Log>, LogError>;
}

/// The position of a record in a log. The first record has position 1.
///
/// ```
/// use tickwheel_cluster::log::Position;
///
/// assert_eq!(Position::START.next(), Position(1));
/// assert_eq!(Position(7).next().to_string(), "8");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position(pub u64);

impl Position {
    /// Before the first record: the end of an empty log.
    pub const START: Self = Self(0);

    /// Returns the position after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of an append, by which a repeated append is recognised.
///
/// Two appends at one position must have different ids unless one repeats the other. The hash of
/// the record serves if records of different nodes differ, as those of [`record`](crate::record)
/// do: a takeover names its node.
///
/// ```
/// use tickwheel_cluster::log::AppendId;
///
/// let id = AppendId::of(b"the record");
/// assert_eq!(id, AppendId::of(b"the record"));
/// assert_eq!(AppendId::parse(&id.to_string()), Some(id));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppendId(pub u128);

impl AppendId {
    /// Returns the id of a record: a hash of its bytes.
    pub fn of(record: &[u8]) -> Self {
        Self(xxh3_128(record))
    }

    /// Returns the id that was written as 32 hexadecimal digits, or `None` for other text.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 32 || !text.bytes().all(is_digit) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for AppendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for AppendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AppendId({self})")
    }
}

/// A record at its position.
///
/// ```
/// use bytes::Bytes;
/// use tickwheel_cluster::log::{AppendId, Log, Position, SimulatedLog};
///
/// let log = SimulatedLog::new(1);
/// let record = Bytes::from("a record");
/// log.append(Position::START, AppendId::of(&record), &record)?;
/// for entry in log.read(Position(1), 1 << 20)? {
///     println!("{}: {} bytes", entry.position, entry.record.len());
///     assert_eq!(entry.id, AppendId::of(&entry.record));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where the record is.
    pub position: Position,
    /// The id that it was appended with.
    pub id: AppendId,
    /// The record.
    pub record: Bytes,
}

/// The extent of a log, and which stream it is.
///
/// A replica stores the identity beside its applied position and checks both before it trusts a
/// log:
///
/// ```
/// use tickwheel_cluster::log::{LogError, LogState, Position, StreamId};
///
/// let stream = StreamId::new("created at noon");
/// let state = LogState { stream: stream.clone(), first: Position(4), last: Position(9) };
/// assert_eq!(state.check(&stream, Position(7)), Ok(()));
/// // The records 3 and earlier are gone: a replica at 2 needs a snapshot.
/// let behind = state.check(&stream, Position(2));
/// assert_eq!(behind, Err(LogError::Trimmed { first: Position(4) }));
/// // The replica has applied record 12, which the log does not contain.
/// let beyond = state.check(&stream, Position(12));
/// assert_eq!(beyond, Err(LogError::Lost { applied: Position(12), last: Position(9) }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogState {
    /// The identity of the stream.
    pub stream: StreamId,
    /// The position of the first record that was not trimmed; `last + 1` if there is none.
    pub first: Position,
    /// The position of the last record; [`Position::START`] if there was never one.
    pub last: Position,
}

impl LogState {
    /// Checks that a replica of the given stream can continue after its applied position.
    ///
    /// # Errors
    ///
    /// * [`LogError::Recreated`] if this is another stream.
    /// * [`LogError::Lost`] if the log ends before the applied position. The state may be stale, so
    ///   one such answer proves no loss: check again for longer than a deposed server can answer.
    /// * [`LogError::Trimmed`] if the next record is gone, also when all records were removed.
    pub fn check(&self, stream: &StreamId, applied: Position) -> Result<(), LogError> {
        if *stream != self.stream {
            let (expected, found) = (stream.clone(), self.stream.clone());
            return Err(LogError::Recreated { expected, found });
        }
        if applied > self.last {
            return Err(LogError::Lost { applied, last: self.last });
        }
        if applied.next() < self.first {
            return Err(LogError::Trimmed { first: self.first });
        }
        Ok(())
    }
}

/// The identity of a stream, which a deleted and newly created stream does not share.
///
/// ```
/// use tickwheel_cluster::log::StreamId;
///
/// assert_ne!(StreamId::new("orders, created at 9:00"), StreamId::new("orders, created at 9:05"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(String);

impl StreamId {
    /// Wraps the text by which an implementation identifies a stream.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
