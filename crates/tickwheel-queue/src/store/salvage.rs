//! A new store out of what can be read of a damaged one.
//!
//! A block that does not match its checksum stays in its table for good: whoever merges that
//! table stumbles over it. So everything that is readable is copied into a new store, and the
//! damaged one is kept aside. The new store takes the other's place when it is complete: by the
//! two renames of [`swap`], and if a crash comes between them, [`finish`] does the second. A new
//! store beside a damaged one was never complete, and goes.

use std::fs;
use std::path::{Path, PathBuf};

use super::directory::sync_directory;
use super::embedded::EmbeddedStore;
use super::tolerant::Tolerant;
use super::{Persist, Store, StoreError, StoreOptions, Table, View, WriteBatch, rows};

/// Bytes that are copied in one batch.
const STEP: usize = 4 << 20;
/// Behind every key.
const END: [u8; 33] = [u8::MAX; 33];

/// Reads all of a store; if something is damaged, gives a new one with the rest.
pub(super) fn salvage(
    folder: &Path,
    store: EmbeddedStore,
    options: &StoreOptions,
) -> Result<EmbeddedStore, StoreError> {
    let mut damaged = 0;
    for table in [Table::Jobs, Table::Index] {
        for row in Tolerant::new(&store, table, &[], &END) {
            damaged += u64::from(is_damage(row.map(drop))?);
        }
    }
    if damaged == 0 {
        return Ok(store);
    }
    let new = EmbeddedStore::open(&folder.join("salvaged"), &note(folder), options)?;
    copy(&store, &new)?;
    new.sync()?;
    drop((store, new));
    let aside = swap(folder)?;
    tracing::error!(
        damaged,
        kept_at = %aside.display(),
        "parts of the store could not be read, and were left out"
    );
    EmbeddedStore::open(&folder.join("store"), &note(folder), options)
}

fn note(folder: &Path) -> PathBuf {
    folder.join("acknowledged")
}

/// Whether this is damage; other errors are errors.
fn is_damage(row: Result<(), StoreError>) -> Result<bool, StoreError> {
    match row {
        Ok(()) => Ok(false),
        Err(StoreError::Damaged(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

fn copy(from: &EmbeddedStore, to: &EmbeddedStore) -> Result<(), StoreError> {
    let mut batch = WriteBatch::new();
    for table in [Table::Jobs, Table::Index] {
        for row in Tolerant::new(from, table, &[], &END) {
            let (key, value) = match row {
                Ok(row) => row,
                Err(StoreError::Damaged(_)) => continue,
                Err(error) => return Err(error),
            };
            batch.put(table, &key, &value);
            if batch.bytes() > STEP {
                to.commit(&batch, Persist::Buffer)?;
                batch.clear();
            }
        }
    }
    to.commit(&batch, Persist::Buffer)?;
    copy_singly(from, to)
}

/// Copies the jobs that a scan passes over together with a damaged block, although they are
/// elsewhere: the index knows their names.
fn copy_singly(from: &EmbeddedStore, to: &EmbeddedStore) -> Result<(), StoreError> {
    let mut batch = WriteBatch::new();
    for row in to.scan(Table::Index, &[], &END) {
        let (key, value) = row?;
        let Some(id) = rows::job_of(&key, &value) else { continue };
        if to.get(Table::Jobs, id.as_bytes())?.is_some() {
            continue;
        }
        match from.get(Table::Jobs, id.as_bytes()) {
            Ok(Some(record)) => batch.put(Table::Jobs, id.as_bytes(), &record),
            Ok(None) | Err(StoreError::Damaged(_)) => {}
            Err(error) => return Err(error),
        }
        if batch.bytes() > STEP {
            to.commit(&batch, Persist::Buffer)?;
            batch.clear();
        }
    }
    to.commit(&batch, Persist::Buffer)
}

/// Puts the new store in the place of the damaged one; says where that is now.
fn swap(folder: &Path) -> Result<PathBuf, StoreError> {
    let damaged = folder.join("damaged");
    fs::create_dir_all(&damaged)?;
    let aside = (0_u64..).map(|number| damaged.join(format!("store.{number}")));
    let aside = aside.into_iter().find(|path| !path.exists()).unwrap_or_default();
    fs::rename(folder.join("store"), &aside)?;
    fs::rename(folder.join("salvaged"), folder.join("store"))?;
    sync_directory(&damaged)?;
    sync_directory(folder)?;
    Ok(aside)
}

/// Puts a new store in its place that is complete, since the damaged one is gone already.
pub(super) fn finish(folder: &Path) -> Result<(), StoreError> {
    let (store, salvaged) = (folder.join("store"), folder.join("salvaged"));
    if salvaged.exists() && !store.exists() {
        fs::rename(salvaged, store)?;
        sync_directory(folder)?;
    }
    Ok(())
}

/// Removes a new store that was not completed. The caller holds the lock of the damaged one.
pub(super) fn discard_unfinished(folder: &Path) -> Result<(), StoreError> {
    let salvaged = folder.join("salvaged");
    if salvaged.exists() {
        fs::remove_dir_all(salvaged)?;
    }
    Ok(())
}
