//! The directory around an open store: it records durable commits and notices that the directory
//! has disappeared.
//!
//! Open files stay readable and writable after their directory was removed, renamed or unmounted.
//! So each durable commit checks that the store can be found by its path: what the next process
//! would not find must not be acknowledged.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::directory::{ACKNOWLEDGED, FAILED, mark};
use super::format::StoreId;
use super::records::Totals;
use super::recovery::acknowledged::{Acknowledged, AcknowledgedFile};
use super::recovery::{journal, salvage};
use super::{LeftOut, StoreError};
use crate::model::time::instant_now;

/// How often the path is checked without a durable commit.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Home {
    id: StoreId,
    left_out: LeftOut,
    store: PathBuf,
    /// Identifies the file `store/lock`.
    lock: FileIdentity,
    /// The mark that a write or sync failed.
    failed_mark: PathBuf,
    has_failed: AtomicBool,
    note: Mutex<Note>,
}

struct Note {
    file: AcknowledgedFile,
    /// The contents of the file `acknowledged`.
    written: Acknowledged,
    /// The newest journal known. The commit that is written next goes to it or to a later one.
    newest: u64,
    /// The oldest journal known.
    oldest: u64,
    next_check: Instant,
}

impl Home {
    /// Creates the home of an open store whose last commit is durable.
    pub(super) fn new(
        folder: &Path,
        id: StoreId,
        left_out: LeftOut,
        acknowledged: Acknowledged,
    ) -> Result<Self, StoreError> {
        let store = folder.join("store");
        let (oldest, newest) = journal::range(&store)?.unwrap_or_default();
        let mut file = AcknowledgedFile::open(&folder.join(ACKNOWLEDGED))?;
        let written = Acknowledged { oldest: Some(oldest), closed_with: None, ..acknowledged };
        file.write(written)?;
        // Journals may be removed from now on, so the record of the last close is no longer valid.
        file.sync()?;
        Ok(Self {
            id,
            left_out,
            lock: FileIdentity::of(&store.join("lock"))?,
            store,
            failed_mark: folder.join(FAILED),
            has_failed: false.into(),
            note: Note { file, written, newest, oldest, next_check: instant_now() }.into(),
        })
    }

    pub(super) fn id(&self) -> StoreId {
        self.id
    }

    pub(super) fn store(&self) -> &Path {
        &self.store
    }

    pub(super) fn left_out(&self) -> LeftOut {
        self.left_out
    }

    pub(super) fn needs_repair(&self) -> bool {
        salvage::unrepaired(self.folder()).is_some()
    }

    pub(super) fn repaired(&self) -> Result<(), StoreError> {
        salvage::repaired(self.folder())
    }

    fn folder(&self) -> &Path {
        self.store.parent().unwrap_or(&self.store)
    }

    /// Records that everything up to a commit is durable.
    pub(super) fn acknowledge(&self, last: Totals) -> Result<(), StoreError> {
        self.check()?;
        let mut note = self.note();
        note.written = Acknowledged {
            commit: last.commit,
            seq: Some(last.seq),
            journal: Some(note.newest),
            oldest: Some(note.oldest),
            closed_with: None,
        };
        let written = note.written;
        note.file.write(written)?;
        while self.has_journal(note.newest + 1) {
            note.newest += 1;
        }
        while note.oldest < note.newest && !self.has_journal(note.oldest) {
            note.oldest += 1;
        }
        Ok(())
    }

    fn has_journal(&self, number: u64) -> bool {
        self.store.join(format!("{number}.jnl")).exists()
    }

    /// Checks that the directory exists, if that was not checked lately.
    pub(super) fn check_now_and_then(&self) -> Result<(), StoreError> {
        let now = instant_now();
        let mut note = self.note();
        if note.next_check > now {
            return Ok(());
        }
        note.next_check = now + CHECK_INTERVAL;
        drop(note);
        self.check()
    }

    /// Checks that the store is found by its path.
    fn check(&self) -> Result<(), StoreError> {
        if FileIdentity::of(&self.store.join("lock")).is_ok_and(|found| found == self.lock) {
            return Ok(());
        }
        Err(StoreError::Io(format!(
            "{} is not there any more: it was removed, renamed or unmounted. Mount or restore it: \
             it is opened again by itself",
            self.store.display()
        )))
    }

    /// Leaves a mark for the next process that opens the store, if the directory exists.
    pub(super) fn mark_failed(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
        if self.check().is_err() {
            return;
        }
        if let Err(error) = mark(&self.failed_mark) {
            tracing::warn!(%error, "the failure of the store could not be marked");
        }
    }

    /// Returns `true` if a write or sync has failed since the store was opened.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    fn note(&self) -> MutexGuard<'_, Note> {
        self.note.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Home {
    /// Records the journals after the database was closed, when none is removed any more.
    fn drop(&mut self) {
        if self.has_failed() || self.check().is_err() {
            return;
        }
        let Ok(closed_with) = journal::range(&self.store) else { return };
        let mut note = self.note();
        let written = Acknowledged { closed_with, ..note.written };
        // Without this record the next opening only knows less.
        drop(note.file.write(written));
    }
}

/// Distinguishes a file from another one with the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    number: u64,
}

impl FileIdentity {
    fn of(path: &Path) -> std::io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        #[cfg(unix)]
        let (device, number) = {
            use std::os::unix::fs::MetadataExt;
            (metadata.dev(), metadata.ino())
        };
        // On other systems a directory with open files is neither renamed nor removed.
        #[cfg(not(unix))]
        let (device, number) = (0, u64::from(metadata.is_file()));
        Ok(Self { device, number })
    }
}
