//! Creating the store of a new directory. After a crash at any moment, the next opening finds a new
//! directory or a complete store.
//!
//! | step | what a crash after it leaves |
//! |---|---|
//! | lock the file `creating` | a new directory |
//! | fill the folder `new` with an empty store, and sync it | a new directory: `new` is removed |
//! | write `FORMAT` with the id | a complete store: `new` only has to be renamed |
//! | rename `new` to `store` | a complete store |
//! | remove `creating` | a complete store |

use std::fs::{self, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

use super::StoreError;
use super::directory::sync_directory;
use super::embedded::EmbeddedStore;
use super::format::{self, Format, Known, StoreId};

/// The lock of a process that creates a store. A crash may leave it.
const LOCK: &str = "creating";
/// The folder in which the new store is built.
const DRAFT: &str = "new";
/// What an interrupted creation may leave in a directory without `FORMAT`.
const LEFTOVERS: [&str; 3] = [LOCK, DRAFT, "FORMAT.draft"];

/// Returns `true` if a directory without `FORMAT` may come from an interrupted creation.
pub(super) fn is_leftover(name: &str) -> bool {
    LEFTOVERS.contains(&name)
}

/// Creates an empty store, unless another process did so in the meantime.
pub(super) fn create(folder: &Path, stores: u32) -> Result<(), StoreError> {
    if !folder.exists() {
        fs::create_dir_all(folder)?;
        sync_directory(
            folder.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(".".as_ref()),
        )?;
    }
    let path = folder.join(LOCK);
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(StoreError::Locked),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    let (draft, store) = (folder.join(DRAFT), folder.join("store"));
    if !store.exists() {
        if !matches!(format::read(folder)?, Format::Known(Known { id: Some(_), .. })) {
            if draft.exists() {
                fs::remove_dir_all(&draft)?;
            }
            EmbeddedStore::create(&draft, stores)?;
            sync_tree(&draft)?;
            sync_directory(folder)?;
            format::write(folder, StoreId::new())?;
        }
        finish(folder)?;
    }
    remove_lock(folder)
}

/// Completes a creation that was interrupted after `FORMAT` was written.
pub(super) fn finish(folder: &Path) -> Result<(), StoreError> {
    let (draft, store) = (folder.join(DRAFT), folder.join("store"));
    if draft.exists() && !store.exists() {
        fs::rename(draft, store)?;
        sync_directory(folder)?;
    }
    Ok(())
}

/// Removes the lock of a creation that was interrupted at its end.
pub(super) fn remove_lock(folder: &Path) -> Result<(), StoreError> {
    match fs::remove_file(folder.join(LOCK)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Makes the files of a folder durable, and their names.
fn sync_tree(folder: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sync_tree(&path)?;
        } else {
            fs::File::open(&path)?.sync_all()?;
        }
    }
    sync_directory(folder)
}
