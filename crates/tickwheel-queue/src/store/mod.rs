//! The store: three ordered tables of bytes, written in atomic batches.
//!
//! This folder alone knows what is on disk: the layout of keys (`rows`), the encoding of records
//! (`codec`, `records`), and the engines below. The rest of the crate sees the traits.
//!
//! Ground rules:
//! * A batch is applied as a whole or not at all, also if the machine crashes.
//! * `commit` with [`Persist::Sync`] returns when the batch is on stable storage. No reader sees any
//!   part of the batch before that.
//! * After a failed `commit` or `sync` the store refuses further writes. Opening it again shows what
//!   is on disk.
//! * One thread writes; any thread may read.

mod backup;
mod batch;
mod codec;
mod creation;
mod directory;
mod embedded;
mod format;
pub(crate) mod groups;
pub(crate) mod history;
mod home;
pub(crate) mod idempotency;
mod inspection;
mod memory;
pub(crate) mod records;
mod recovery;
pub mod replication;
pub(crate) mod rows;
pub(crate) mod schedules;
mod space;
pub(crate) mod tolerant;
mod upgrade;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

pub use backup::{Backup, BackupSummary, RestoreError, restore};
pub use batch::{Row, WriteBatch};
pub use directory::Directory;
pub use format::StoreId;
pub use inspection::Inspection;
pub use memory::MemoryDisk;
pub use space::Space;

/// One of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// One row per job: what was put, with its payload. Rows are read by key only.
    Jobs,
    /// Everything else, in small rows.
    Index,
    /// Totals and counts: few rows, of which nearly every commit rewrites some. The index would keep
    /// all their old values until its next merge, so they have a table of their own.
    Counters,
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 3] = [Self::Jobs, Self::Index, Self::Counters];
}

/// How durable a commit is when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persist {
    /// On stable storage: it survives a power failure.
    Sync,
    /// In the cache of the operating system: it survives a crash of the process.
    Buffer,
}

/// Read access to a store.
pub trait View: Send {
    /// Returns the value of a key.
    ///
    /// # Errors
    ///
    /// If the value cannot be read.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// Returns the rows with keys from `from` up to, but without, `to`, in order.
    fn scan<'a>(&'a self, table: Table, from: &[u8], to: &[u8]) -> Rows<'a>;
}

/// The rows of a scan.
pub type Rows<'a> = Box<dyn Iterator<Item = Result<(Bytes, Bytes), StoreError>> + 'a>;

/// An open store.
pub trait Store: View + Sync {
    /// Returns the id of the store, which never changes.
    fn id(&self) -> StoreId;

    /// Returns what was damaged and left out when the store was opened with `salvage`.
    fn left_out(&self) -> LeftOut {
        LeftOut::default()
    }

    /// Returns `true` if a salvage was interrupted before its index was repaired.
    fn needs_repair(&self) -> bool {
        false
    }

    /// Records that the index is repaired and durable.
    ///
    /// # Errors
    ///
    /// If the record cannot be written.
    fn repaired(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Checks that the store is still where it was opened. Commits check this themselves.
    ///
    /// # Errors
    ///
    /// If its directory was removed, renamed or unmounted.
    fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Adds the names of damaged files to an error of this store, if they can be found. May read the
    /// whole store.
    fn explain(&self, error: StoreError) -> StoreError {
        error
    }

    /// Returns a snapshot, which another thread can read.
    fn view(&self) -> Box<dyn View>;

    /// Applies a batch, as a whole or not at all.
    ///
    /// # Errors
    ///
    /// If the batch may not be durable. The store then refuses further writes.
    fn commit(&self, batch: &WriteBatch, persist: Persist) -> Result<(), StoreError>;

    /// Makes all commits durable.
    ///
    /// # Errors
    ///
    /// If a commit may not be durable. The store then refuses further writes.
    fn sync(&self) -> Result<(), StoreError>;

    /// Returns the bytes on disk.
    ///
    /// # Errors
    ///
    /// If the file system does not tell.
    fn disk_space(&self) -> Result<u64, StoreError>;

    /// Returns the bytes that the store uses, those that it is about to write, and those that are
    /// free.
    ///
    /// # Errors
    ///
    /// If the file system does not tell.
    fn space(&self) -> Result<Space, StoreError> {
        Ok(Space { used: self.disk_space()?, ..Space::default() })
    }

    /// Allocates the reserve again after it was released.
    ///
    /// # Errors
    ///
    /// If the disk has no room for the reserve.
    fn fill_reserve(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Gives space of removed rows back to the operating system. This may take minutes, so it has a
    /// thread of its own.
    ///
    /// # Errors
    ///
    /// If the tables cannot be merged.
    fn compact(&self) -> Result<(), StoreError>;
}

/// A place where a store can be opened, and opened again.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens the store, or creates a new one.
    ///
    /// # Errors
    ///
    /// If the store cannot be opened. The error says why and what to do.
    fn open(&self, options: &StoreOptions) -> Result<Arc<dyn Store>, StoreError>;
}

/// How to open a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// The size of the cache for blocks that were read from disk, in bytes.
    pub cache: u64,
    /// The number of table files that stay open.
    pub open_files: usize,
    /// Opens a damaged store with what can be read, instead of refusing it. The whole store is read,
    /// and damaged files are moved aside.
    pub salvage: bool,
    /// The last opening ended with a failed write or sync: what only the cache of the operating
    /// system may hold is not trusted.
    pub after_failure: bool,
    /// The store that was open before and failed. No other store is opened in its place, and none is
    /// created.
    pub reopens: Option<Opened>,
    /// The size of the reserve in bytes: blocks beside the store that are released when the disk is
    /// full.
    pub reserve: u64,
    /// The last opening ended because the disk was full: the reserve is released, and only the
    /// journal is written. Tables are neither written nor merged until the next opening.
    pub lean: bool,
    /// The number of stores that share the memory of this process. It determines how much memory a
    /// new store may use for rows that are not in tables yet; an existing store keeps its limit.
    pub stores: u32,
}

/// What a salvage has left out of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Parts that cannot be read.
    pub parts: u64,
    /// Jobs whose puts were in a part of a journal that cannot be read. Jobs of unreadable tables
    /// are not among them.
    pub jobs: u64,
}

/// The store that was open before a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its id.
    pub id: StoreId,
    /// The number of the last commit that is durable.
    pub commit: u64,
}

impl Default for StoreOptions {
    /// 32 MiB of cache and as much of reserve.
    fn default() -> Self {
        Self {
            cache: 32 << 20,
            open_files: 900,
            salvage: false,
            after_failure: false,
            reopens: None,
            reserve: 32 << 20,
            lean: false,
            stores: 1,
        }
    }
}

/// An error of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// The store is open in another process.
    Locked,
    /// A newer version of Tickwheel wrote the store.
    NewerVersion {
        /// Its format.
        found: u32,
        /// The newest known one.
        known: u32,
    },
    /// The directory is not a store; the text says what was found.
    NotAQueue(String),
    /// The disk is full: the message of the operating system.
    Full(String),
    /// The message of the operating system.
    Io(String),
    /// Something cannot be read: what, and where.
    Damaged(String),
    /// The store that was open is gone, or something else is in its place: what was expected, what
    /// was found, and what to do.
    Replaced(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked => {
                f.write_str("the store is open in another process: stop that process first")
            }
            Self::NewerVersion { found, known } => {
                write!(
                    f,
                    "the store has format {found}, and this version knows formats up to {known}: \
                     use a newer version of Tickwheel"
                )
            }
            Self::NotAQueue(why) => write!(f, "the directory is not the store of a queue: {why}"),
            Self::Full(why) | Self::Io(why) | Self::Replaced(why) => f.write_str(why),
            Self::Damaged(why) => write!(f, "damaged: {why}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full(error.to_string()),
            _ => Self::Io(error.to_string()),
        }
    }
}
