//! Backups of a stopped data directory, and restoring them.
//!
//! A running server sends the same stream over HTTP (`GET /v1/backup`). It holds jobs, queues,
//! settings, schedules and idempotency keys. Tokens, certificates and the configuration are
//! separate files and not part of it.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tickwheel_queue::store::{
    self, BackupSummary, Directory, Disk, RestoreError, Store, StoreError, StoreOptions,
};

use crate::tokens::make_private;

/// The folder of the store in a data directory.
const QUEUE: &str = "queue";
/// A file in a directory that is being restored, until it is complete.
const MARK: &str = "RESTORING";

/// Why a data directory could not be backed up or restored.
///
/// ```
/// use tickwheel_server::backup::{BackupError, DirectoryBackup};
///
/// let folder = tempfile::tempdir()?;
/// let error = DirectoryBackup::of(folder.path()).unwrap_err();
/// assert!(matches!(error, BackupError::NoData(_)));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BackupError {
    /// The directory has no data of a server.
    NoData(PathBuf),
    /// A server uses this directory.
    InUse(PathBuf),
    /// The directory to restore to exists and is not empty.
    NotEmpty(PathBuf),
    /// The store in this directory cannot be opened or read.
    Store(PathBuf, StoreError),
    /// The backup cannot be restored.
    Restore(RestoreError),
    /// A file or directory could not be created, renamed or removed.
    Io(PathBuf, io::Error),
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoData(path) => {
                write!(f, "{} is not the data directory of a server", path.display())
            }
            Self::InUse(path) => write!(
                f,
                "a server uses {}: stop it, or back it up while it runs, without --data",
                path.display()
            ),
            Self::NotEmpty(path) => write!(
                f,
                "{} is not empty: a backup is restored into a new directory",
                path.display()
            ),
            Self::Store(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Restore(error) => error.fmt(f),
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for BackupError {}

/// A backup of a data directory that no server uses.
///
/// ```
/// use tickwheel_server::backup::{DirectoryBackup, restore};
///
/// let folder = tempfile::tempdir()?;
/// # tickwheel_queue::Queues::open(folder.path().join("data/queue"))?;
/// let mut backup = DirectoryBackup::of(&folder.path().join("data"))?;
/// let mut bytes = Vec::new();
/// while let Some(piece) = backup.next_piece()? {
///     bytes.extend(piece);
/// }
/// drop(backup);
/// restore(&mut &bytes[..], &folder.path().join("copy"), &mut |_, _| ())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DirectoryBackup {
    backup: store::Backup,
    path: PathBuf,
    /// Dropped after the backup that reads it.
    _store: OpenStore,
}

struct OpenStore(#[allow(dead_code, reason = "it is closed when this is dropped")] Arc<dyn Store>);

impl fmt::Debug for OpenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenStore")
    }
}

fn open(queue: &Path) -> Result<Arc<dyn Store>, BackupError> {
    // The server that opens the directory next creates the reserve.
    let options = StoreOptions { reserve: 0, ..StoreOptions::default() };
    Directory::new(queue).open(&options).map_err(|error| match error {
        StoreError::Locked => BackupError::InUse(queue.to_owned()),
        error => BackupError::Store(queue.to_owned(), error),
    })
}

impl DirectoryBackup {
    /// Begins a backup. The directory is locked until the value is dropped.
    ///
    /// # Errors
    ///
    /// If the directory is not a data directory, is in use, or cannot be read.
    pub fn of(data: &Path) -> Result<Self, BackupError> {
        let path = data.join(QUEUE);
        if !path.join("FORMAT").exists() {
            return Err(BackupError::NoData(data.to_owned()));
        }
        let store = open(&path)?;
        let backup =
            store::Backup::of(&*store).map_err(|error| BackupError::Store(path.clone(), error))?;
        Ok(Self { backup, path, _store: OpenStore(store) })
    }

    /// Returns the next piece of the stream, or `None` after the last one.
    ///
    /// # Errors
    ///
    /// If a row cannot be read.
    pub fn next_piece(&mut self) -> Result<Option<Vec<u8>>, BackupError> {
        let piece = self.backup.next_piece();
        piece.map_err(|error| BackupError::Store(self.path.clone(), error))
    }
}

/// Creates a data directory from a backup, then reads all of it again and compares it with the
/// backup. `progress` is called with the bytes read so far and an estimate of the total.
///
/// The directory must not exist, or be empty. It appears once everything is written and checked;
/// until then the data is in a directory beside it with the suffix `.restoring`. The next restore
/// removes what an interrupted one left.
///
/// ```
/// use tickwheel_server::backup::{BackupError, restore};
///
/// let folder = tempfile::tempdir()?;
/// std::fs::write(folder.path().join("a file"), "")?;
/// let error = restore(&mut &b""[..], folder.path(), &mut |_, _| ()).unwrap_err();
/// assert!(matches!(error, BackupError::NotEmpty(_)));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// If the directory is not empty, the stream is not a whole backup, or the disk cannot be written.
pub fn restore(
    input: &mut dyn Read,
    data: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<BackupSummary, BackupError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| BackupError::Io(path, error)
    };
    check_empty(data)?;
    let mut name = data.file_name().unwrap_or_default().to_owned();
    name.push(".restoring");
    let draft = data.with_file_name(name);
    if draft.exists() {
        if !draft.join(MARK).exists() {
            return Err(BackupError::NotEmpty(draft));
        }
        fs::remove_dir_all(&draft).map_err(at(&draft))?;
    }
    make_private(&draft).map_err(at(&draft))?;
    fs::write(draft.join(MARK), "").map_err(at(&draft))?;
    let restored = fill(input, &draft.join(QUEUE), progress);
    if restored.is_err() {
        // The remains are useless, and the next restore would remove them as well.
        let _ = fs::remove_dir_all(&draft);
    }
    let summary = restored?;
    fs::remove_file(draft.join(MARK)).map_err(at(&draft))?;
    if data.exists() {
        fs::remove_dir(data).map_err(at(data))?;
    }
    fs::rename(&draft, data).map_err(at(data))?;
    let parent = data.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    fs::File::open(parent).and_then(|folder| folder.sync_all()).map_err(at(parent))?;
    Ok(summary)
}

fn check_empty(data: &Path) -> Result<(), BackupError> {
    match fs::read_dir(data) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(BackupError::NotEmpty(data.to_owned())),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(BackupError::Io(data.to_owned(), error)),
    }
}

/// Writes a store, and reads it again.
fn fill(
    input: &mut dyn Read,
    queue: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<BackupSummary, BackupError> {
    let store = open(queue)?;
    let wanted = store::restore(input, &*store, progress).map_err(BackupError::Restore)?;
    drop(store);
    let found = BackupSummary::of(&*open(queue)?, &mut |_| ())
        .map_err(|error| BackupError::Store(queue.to_owned(), error))?;
    if found != wanted {
        return Err(BackupError::Restore(RestoreError::Differs));
    }
    Ok(found)
}
