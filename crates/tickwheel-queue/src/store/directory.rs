//! A queue's directory, and what is checked before it is opened.
//!
//! | in the directory | what it is |
//! |---|---|
//! | `FORMAT` | one line: the format of the whole directory |
//! | `store/` | the embedded store |
//! | `acknowledged` | the number of the last commit that is known to be durable |
//! | `failed` | an empty file: a write or sync failed, and the journals are not written anew yet |
//! | `damaged/` | what salvaging changed or left behind |
//! | `salvaged/` | a new store, while it is being filled from a damaged one |

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::embedded::{EmbeddedStore, read_note};
use super::journal;
use super::salvage;
use super::{Disk, Store, StoreError, StoreOptions};

/// The format that this version writes, and the newest that it reads.
pub(super) const FORMAT: u32 = 1;
pub(super) const FAILED: &str = "failed";
const FORMAT_TEXT: &str = "tickwheel queue, format ";

/// A directory with the embedded store in it.
///
/// ```
/// use tickwheel_queue::store::{Directory, Disk, StoreError, StoreOptions};
///
/// let folder = tempfile::tempdir()?;
/// std::fs::write(folder.path().join("FORMAT"), "tickwheel queue, format 99\n")?;
/// let error = Directory::new(folder.path()).open(&StoreOptions::default()).err();
/// assert_eq!(error, Some(StoreError::NewerVersion { found: 99, known: 1 }));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// The directory at a path; made when it is opened.
    ///
    /// ```
    /// use tickwheel_queue::store::Directory;
    /// assert_eq!(Directory::new("queue").path(), std::path::Path::new("queue"));
    /// ```
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    ///
    /// ```
    /// use tickwheel_queue::store::Directory;
    /// assert!(Directory::new("queue").path().is_relative());
    /// ```
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes sure that the directory is one of ours, or makes it so.
    fn claim(&self) -> Result<(), StoreError> {
        fs::create_dir_all(&self.path)?;
        let format = self.path.join("FORMAT");
        match fs::read(&format) {
            Ok(bytes) => check_format(&bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                for entry in fs::read_dir(&self.path)? {
                    let name = entry?.file_name();
                    // The draft of an opening that was killed.
                    if name != "FORMAT.draft" {
                        let why = format!("it has no file `FORMAT`, but {}", name.display());
                        return Err(StoreError::NotAQueue(why));
                    }
                }
                write_whole(&format, format!("{FORMAT_TEXT}{FORMAT}\n").as_bytes())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn acknowledged(&self) -> Result<u64, StoreError> {
        match fs::read(self.path.join("acknowledged")) {
            // A crash of the machine may leave it empty or torn. It then says nothing.
            Ok(bytes) => Ok(read_note(&bytes).unwrap_or(0)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

/// What cannot be opened at all cannot be copied either.
fn beyond_salvage(error: StoreError) -> StoreError {
    match error {
        StoreError::Damaged(why) => StoreError::Damaged(format!(
            "{why}, in what says where the rows are, and without that nothing can be salvaged"
        )),
        other => other,
    }
}

fn check_format(bytes: &[u8]) -> Result<(), StoreError> {
    let text = String::from_utf8_lossy(bytes);
    let number = text.trim_end().strip_prefix(FORMAT_TEXT).and_then(|text| text.parse().ok());
    match number {
        Some(found) if found > FORMAT => Err(StoreError::NewerVersion { found, known: FORMAT }),
        Some(_) => Ok(()),
        None => {
            let start: String = text.chars().take(40).collect();
            Err(StoreError::NotAQueue(format!("its file `FORMAT` says {start:?}")))
        }
    }
}

/// Writes a file that is either not there or whole.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let draft = path.with_extension("draft");
    let mut file = fs::File::create(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    sync_directory(path.parent().unwrap_or(Path::new(".")))
}

/// Makes an empty file, unsynced: it is for a process that finds the same cache of the operating
/// system. After the end of the power there is only what reached the disk.
pub(super) fn mark(path: &Path) -> Result<(), StoreError> {
    fs::File::create(path)?;
    Ok(())
}

pub(super) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    // Where directories cannot be opened, as on Windows, renaming is durable without this.
    if cfg!(unix) {
        fs::File::open(path)?.sync_all()?;
    }
    Ok(())
}

impl Disk for Directory {
    fn open(&self, options: &StoreOptions) -> Result<Arc<dyn Store>, StoreError> {
        self.claim()?;
        let store = self.path.join("store");
        salvage::finish(&self.path)?;
        let lock = journal::lock(&store)?;
        salvage::discard_unfinished(&self.path)?;
        journal::remove_unfinished(&store)?;
        journal::remove_drafts(&store)?;
        let acknowledged = self.acknowledged()?;
        let failed = self.path.join(FAILED);
        if options.after_failure || failed.exists() {
            // Should this be cut off, the next opening begins with it again.
            mark(&failed)?;
            journal::rewrite(&store)?;
            fs::remove_file(&failed)?;
        }
        if let Err(damage) = journal::check(&store, acknowledged) {
            if !options.salvage {
                return Err(damage);
            }
            journal::salvage(&store, &self.path.join("damaged"))?;
        }
        drop(lock);
        let opened = EmbeddedStore::open(&store, &self.path.join("acknowledged"), options);
        if options.salvage {
            let opened = opened.map_err(beyond_salvage)?;
            return Ok(Arc::new(salvage::salvage(&self.path, opened, options)?));
        }
        let opened = opened?;
        let found = opened.totals()?.commit;
        if found < acknowledged {
            return Err(StoreError::Damaged(format!(
                "commit {acknowledged} was acknowledged, and {found} is the last that is there"
            )));
        }
        Ok(Arc::new(opened))
    }
}
