//! What can go wrong with a log, and what a caller may conclude from it.

use std::error::Error;
use std::fmt;

use super::{Position, StreamId};

/// Why a log cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogError {
    /// The record was trimmed, or the stream was emptied.
    Trimmed {
        /// The position of the first record that is left, or of the next one.
        first: Position,
    },
    /// A trim would remove the last record.
    TrimPastEnd {
        /// The position of the last record.
        last: Position,
    },
    /// The log ends before a record that a replica has applied.
    Lost {
        /// What the replica has applied.
        applied: Position,
        /// Where the log ends.
        last: Position,
    },
    /// The stream was deleted and created again.
    Recreated {
        /// The stream that was opened.
        expected: StreamId,
        /// The stream that is there now.
        found: StreamId,
    },
    /// The stream to be created exists already; which one.
    Exists(String),
    /// The stream does not exist.
    Missing(String),
    /// The log's servers are set up in a way that can lose acknowledged records; what to change.
    Unsafe(String),
    /// The log contains something that no writer of a log has appended.
    Damaged(String),
    /// No server answered, or the servers have no leader. Trying again may help.
    Unavailable(String),
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trimmed { first } => {
                write!(f, "the record was trimmed: the log starts at position {first}")
            }
            Self::TrimPastEnd { last } => {
                write!(f, "the last record always stays: trim below a position of at most {last}")
            }
            Self::Lost { applied, last } => write!(
                f,
                "the log ends at position {last}, but position {applied} was applied already: the \
                 log has lost records"
            ),
            Self::Recreated { expected, found } => write!(
                f,
                "the stream was deleted and created again: expected {expected}, found {found}"
            ),
            Self::Exists(what) => write!(f, "{what} exists already"),
            Self::Missing(what) => write!(f, "the stream does not exist: {what}"),
            Self::Unsafe(what) => write!(f, "the log can lose acknowledged records: {what}"),
            Self::Damaged(what) => write!(f, "the log is damaged: {what}"),
            Self::Unavailable(why) => write!(f, "the log is unavailable: {why}"),
        }
    }
}

impl Error for LogError {}

/// Why an append did not return a position.
///
/// After `Conflict`, `TooLarge` and `Failed` the record is not in the log and never will be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AppendError {
    /// Another record follows `after`. The caller does not own the end of the log any more.
    Conflict {
        /// The position of the last record, as far as the answering server knows.
        last: Position,
    },
    /// The log ends before `after`: it has lost records, or the answering server is out of date.
    /// Repeating the append tells which; one answer proves no loss.
    PastEnd {
        /// Where the log ends, as far as the answering server knows.
        last: Position,
    },
    /// The answer was lost, so the record may be in the log, or may appear there later.
    ///
    /// Repeating the append settles it if the cause is [`LogError::Unavailable`]. With any other
    /// cause the log cannot tell any more, and the caller must give up what it owns.
    Unknown(LogError),
    /// The record is larger than [`Log::max_record_bytes`](super::Log::max_record_bytes).
    TooLarge {
        /// The size of the largest record that is accepted, in bytes.
        max: usize,
    },
    /// The append was not sent, or was refused.
    Failed(LogError),
}

impl AppendError {
    /// Returns `true` if repeating the same append may settle whether the record is in the log.
    pub fn is_worth_repeating(&self) -> bool {
        match self {
            Self::PastEnd { .. } => true,
            Self::Unknown(cause) | Self::Failed(cause) => {
                matches!(cause, LogError::Unavailable(_))
            }
            Self::Conflict { .. } | Self::TooLarge { .. } => false,
        }
    }
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { last } => write!(
                f,
                "another writer has appended to the log, which ends at position {last} now"
            ),
            Self::PastEnd { last } => {
                write!(f, "the log ends at position {last}, before the record to follow")
            }
            Self::Unknown(cause) => write!(f, "the record may or may not be in the log: {cause}"),
            Self::TooLarge { max } => write!(f, "the record is larger than {max} bytes"),
            Self::Failed(cause) => cause.fmt(f),
        }
    }
}

impl Error for AppendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unknown(cause) | Self::Failed(cause) => Some(cause),
            _ => None,
        }
    }
}
