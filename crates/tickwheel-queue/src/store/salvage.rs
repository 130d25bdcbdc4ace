//! A new store out of what can be read of a damaged one.
//!
//! A block that does not match its checksum stays in its table for good: whoever merges that
//! table stumbles over it. So everything that is readable is copied into a new store, and the
//! damaged one is kept aside. The new store takes the other's place when it is complete: by the
//! two renames of [`swap`], and if a crash comes between them, [`finish`] does the second. A new
//! store beside a damaged one was never complete, and goes.

use std::fs;
use std::path::{Path, PathBuf};

use super::directory::{free_name, sync_directory};
use super::embedded::EmbeddedStore;
use super::inventory;
use super::tolerant::Tolerant;
use super::{Persist, Store, StoreError, StoreOptions, Table, View, WriteBatch, rows};

/// Bytes that are copied in one batch.
const STEP: usize = 4 << 20;
/// Behind every key.
const END: [u8; 33] = [u8::MAX; 33];

/// Reads all of a store. If something is damaged, or was left out of its journals, fills a new
/// store with the rest. Returns the store, and how many parts are left out in all.
pub(super) fn salvage(
    folder: &Path,
    store: EmbeddedStore,
    left_out: u64,
    options: &StoreOptions,
) -> Result<(EmbeddedStore, u64), StoreError> {
    let mut left_out = left_out;
    for table in [Table::Jobs, Table::Index] {
        for row in Tolerant::new(&store, table, &[], &END) {
            if let Err(error) = row {
                is_damage(Err(error.clone()))?;
                tracing::error!(?table, %error, "rows of a table cannot be read, and are left out");
                left_out += 1;
            }
        }
    }
    if left_out == 0 {
        return Ok((store, 0));
    }
    for table in inventory::damaged_tables(&folder.join("store"))? {
        tracing::error!(file = %table.display(), "a table does not match its checksum");
    }
    let path = folder.join("salvaged");
    EmbeddedStore::create(&path)?;
    let new = EmbeddedStore::open(&path, options)?;
    copy(&store, &new)?;
    new.sync()?;
    drop((store, new));
    let aside = swap(folder)?;
    tracing::error!(
        left_out,
        kept_at = %aside.display(),
        "the store was damaged: what can be read was copied into a new one"
    );
    Ok((EmbeddedStore::open(&folder.join("store"), options)?, left_out))
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
    let aside = free_name(&damaged, "store");
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
