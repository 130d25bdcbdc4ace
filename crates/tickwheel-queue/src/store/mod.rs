//! Where everything is kept: three ordered tables of bytes, written in atomic batches.
//!
//! This folder alone knows what is on disk: the layout of keys (`rows`), the encoding of records
//! (`codec`, `records`), and the engines below. The rest of the crate sees the traits.
//!
//! Ground rules:
//! * A batch is applied whole or not at all, also by a crash.
//! * `commit` with [`Persist::Sync`] returns when the batch is on stable storage. Before that no
//!   reader sees any of it.
//! * After a `commit` or `sync` that failed the store takes nothing more. It has to be opened
//!   again, which gives what is really there.
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
    /// What callers handed in: one row a job, with its payload. Read by its key only.
    Jobs,
    /// Everything else, in small rows.
    Index,
    /// Totals and counts: few rows, of which nearly every commit rewrites some. They are kept apart
    /// from the index, which would hold all their old values until its next merge.
    Counters,
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 3] = [Self::Jobs, Self::Index, Self::Counters];
}

/// How durable a commit shall be when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persist {
    /// On stable storage: it survives a power failure.
    Sync,
    /// With the operating system: it survives the end of the process.
    Buffer,
}

/// What a store can be asked for.
pub trait View: Send {
    /// The value of a key.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// The rows from one key on, in order, up to but without another.
    fn scan<'a>(&'a self, table: Table, from: &[u8], to: &[u8]) -> Rows<'a>;
}

/// The rows of a scan.
pub type Rows<'a> = Box<dyn Iterator<Item = Result<(Bytes, Bytes), StoreError>> + 'a>;

/// A store that is open.
pub trait Store: View + Sync {
    /// Returns the id of the store, which it keeps for life.
    fn id(&self) -> StoreId;

    /// Returns what was damaged and left out when the store was opened with `salvage`.
    fn left_out(&self) -> LeftOut {
        LeftOut::default()
    }

    /// Whether a salvage was interrupted before its index was repaired.
    fn needs_repair(&self) -> bool {
        false
    }

    /// Notes that the index is repaired, and durable.
    ///
    /// # Errors
    ///
    /// If that cannot be noted.
    fn repaired(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns an error if the store is not found any more where it was opened. Commits check that
    /// themselves.
    ///
    /// # Errors
    ///
    /// If its directory was removed, renamed or unmounted.
    fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Adds to an error of this store which files are damaged, where that can be found out. May
    /// read the whole store.
    fn explain(&self, error: StoreError) -> StoreError {
        error
    }

    /// What is there now, for reading at leisure on another thread.
    fn view(&self) -> Box<dyn View>;

    /// Applies a batch, whole or not at all.
    ///
    /// # Errors
    ///
    /// If it may not be durable. The store takes nothing more after that.
    fn commit(&self, batch: &WriteBatch, persist: Persist) -> Result<(), StoreError>;

    /// Makes all that was committed durable.
    ///
    /// # Errors
    ///
    /// If it may not be durable. The store takes nothing more after that.
    fn sync(&self) -> Result<(), StoreError>;

    /// Bytes on disk.
    ///
    /// # Errors
    ///
    /// If that cannot be found out.
    fn disk_space(&self) -> Result<u64, StoreError>;

    /// What it takes on the disk, what it is about to write, and what is left.
    ///
    /// # Errors
    ///
    /// If that cannot be found out.
    fn space(&self) -> Result<Space, StoreError> {
        Ok(Space { used: self.disk_space()?, ..Space::default() })
    }

    /// Makes the reserve again after it was released.
    ///
    /// # Errors
    ///
    /// If there is no room for it.
    fn fill_reserve(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Gives space of removed rows back to the operating system. May take long; called on a
    /// thread that has nothing else to do.
    ///
    /// # Errors
    ///
    /// If it failed.
    fn compact(&self) -> Result<(), StoreError>;
}

/// Where a store can be opened, and opened again.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens the store, or makes a new one.
    ///
    /// # Errors
    ///
    /// If it cannot be opened; the error says why and what to do.
    fn open(&self, options: &StoreOptions) -> Result<Arc<dyn Store>, StoreError>;
}

/// How to open a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// Bytes of cache for blocks read from disk.
    pub cache: u64,
    /// Files of tables that are kept open.
    pub open_files: usize,
    /// Continue with what can be read if something is damaged, instead of refusing to open. The
    /// whole store is read, and damaged files are kept aside.
    pub salvage: bool,
    /// The last opening ended with a failed write or sync: trust nothing that only the operating
    /// system's cache may hold.
    pub after_failure: bool,
    /// The store that was open before and failed. Nothing else is opened in its place, and nothing
    /// is created.
    pub reopens: Option<Opened>,
    /// Bytes of the reserve: blocks beside the store that are released when the disk is full.
    pub reserve: u64,
    /// The last opening ended because the disk was full: release the reserve, and write nothing but
    /// the journal. Tables are neither written nor merged until the next opening.
    pub lean: bool,
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
        }
    }
}

/// What went wrong in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// It is open elsewhere.
    Locked,
    /// A newer version wrote it.
    NewerVersion {
        /// Its format.
        found: u32,
        /// The newest known one.
        known: u32,
    },
    /// It is something else; what was found.
    NotAQueue(String),
    /// The disk is full: what the operating system said.
    Full(String),
    /// What the operating system said.
    Io(String),
    /// Something cannot be read; what, and where.
    Damaged(String),
    /// The store that was open is not there any more, or something else is in its place; what was
    /// expected, what was found, and what to do.
    Replaced(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked => f.write_str("the store is open elsewhere"),
            Self::NewerVersion { found, known } => {
                write!(f, "format {found} is newer than {known}, the newest known one")
            }
            Self::NotAQueue(why) => write!(f, "not a queue's store: {why}"),
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
