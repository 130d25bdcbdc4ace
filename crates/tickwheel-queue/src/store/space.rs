//! Disk space: what the store takes, what the file system has left, and the reserve.
//!
//! The reserve is a file of allocated blocks beside the store. When the disk is full it is removed,
//! and its space goes to the journal: jobs can still be acknowledged, cancelled and removed. It is
//! created again when there is room.

use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::StoreError;
use super::directory::sync_directory;

/// With less than this left, only the journal is written.
pub(super) const SCARCE: u64 = 16 << 20;

/// The space that a store takes, and the space that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Space {
    /// Bytes of all files, the reserve included.
    pub used: u64,
    /// Bytes of the tables among them.
    pub tables: u64,
    /// Bytes in the newest journal.
    pub journal: u64,
    /// Bytes that are durable in a journal and still have to be written to a table.
    pub unwritten: u64,
    /// Bytes that the file system has left.
    pub free: u64,
    /// Bytes of the reserve; 0 if it was released.
    pub reserve: u64,
    /// Bytes that the reserve should have.
    pub wanted_reserve: u64,
    /// Whether the store was opened with too little room to write tables: see
    /// [`StoreOptions::lean`](super::StoreOptions::lean).
    pub is_lean: bool,
}

impl Default for Space {
    /// Returns the space of an empty store on an unlimited disk.
    fn default() -> Self {
        Self {
            used: 0,
            tables: 0,
            journal: 0,
            unwritten: 0,
            free: u64::MAX,
            reserve: 0,
            wanted_reserve: 0,
            is_lean: false,
        }
    }
}

/// A file that reserves space for when the disk is full.
#[derive(Clone, Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
}

impl Reserve {
    pub(super) fn new(directory: &Path, bytes: u64) -> Self {
        Self { path: directory.join("reserve"), bytes }
    }

    pub(super) fn wanted(&self) -> u64 {
        self.bytes
    }

    /// Returns its current size.
    pub(super) fn len(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Releases its blocks. Returns `true` if it had any.
    pub(super) fn release(&self) -> bool {
        match fs::remove_file(&self.path) {
            Ok(()) => true,
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    tracing::error!(%error, "the reserve could not be released");
                }
                false
            }
        }
    }

    /// Allocates it, unless it has the right size.
    pub(super) fn fill(&self) -> Result<(), StoreError> {
        if self.len() == self.bytes {
            return Ok(());
        }
        if self.bytes == 0 {
            self.release();
            return Ok(());
        }
        let draft = self.path.with_extension("draft");
        let filled = File::create(&draft).and_then(|file| {
            allocate(&file, self.bytes)?;
            file.sync_all()
        });
        if let Err(error) = filled.and_then(|()| fs::rename(&draft, &self.path)) {
            drop(fs::remove_file(&draft));
            return Err(error.into());
        }
        sync_directory(self.path.parent().unwrap_or(Path::new(".")))
    }
}

/// Fills a new file with this many bytes that really take space.
fn allocate(file: &File, bytes: u64) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP) => {}
        allocated => return Ok(allocated?),
    }
    // Zeroes would not do: a file system may not store them.
    std::io::copy(&mut std::io::Read::take(std::io::repeat(0x5a), bytes), &mut &*file)?;
    Ok(())
}

/// Returns the bytes that the file system of a path has left; `u64::MAX` if that is unknown.
pub(super) fn free(path: &Path) -> u64 {
    #[cfg(unix)]
    match rustix::fs::statvfs(path) {
        Ok(found) => return found.f_bavail.saturating_mul(found.f_frsize),
        Err(error) => tracing::warn!(%error, "how full the disk is could not be found out"),
    }
    #[cfg(not(unix))]
    let _ = path;
    u64::MAX
}

/// Returns the bytes of all files below a folder. Files that disappear meanwhile count nothing.
pub(super) fn used(folder: &Path) -> Result<u64, StoreError> {
    let mut sum = 0;
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        match entry.metadata() {
            Ok(file) if file.is_dir() => sum += used(&entry.path())?,
            Ok(file) => sum += file.len().max(allocated(&file)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(sum)
}

/// Returns the bytes of the blocks of a file, without its holes.
pub(super) fn allocated(file: &Metadata) -> u64 {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::blocks(file) * 512;
    #[cfg(not(unix))]
    file.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_takes_real_blocks_until_it_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let reserve = Reserve::new(folder.path(), 3 << 20);
        assert!(!reserve.release());
        reserve.fill().unwrap();
        let file = fs::metadata(folder.path().join("reserve")).unwrap();
        assert_eq!(file.len(), 3 << 20);
        assert!(allocated(&file) >= 3 << 20, "{} bytes in blocks", allocated(&file));
        assert!(used(folder.path()).unwrap() >= 3 << 20);
        assert!(reserve.release());
        assert_eq!((reserve.len(), used(folder.path()).unwrap()), (0, 0));
    }

    #[test]
    fn a_reserve_takes_a_new_size() {
        let folder = tempfile::tempdir().unwrap();
        Reserve::new(folder.path(), 1 << 20).fill().unwrap();
        let larger = Reserve::new(folder.path(), 2 << 20);
        larger.fill().unwrap();
        assert_eq!(larger.len(), 2 << 20);
        let none = Reserve::new(folder.path(), 0);
        none.fill().unwrap();
        assert_eq!((none.len(), none.release()), (0, false));
    }
}
