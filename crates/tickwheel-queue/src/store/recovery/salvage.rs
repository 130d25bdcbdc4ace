//! Salvage: building a new store from the readable part of a damaged one.
//!
//! A damaged block stays in its table for ever and stops every merge of that table. So all readable
//! rows are copied into a new store, and the damaged one is kept. The complete new store takes its
//! place by the two renames of [`swap`]; after a crash between them, [`finish`] makes the second
//! one. A new store beside a damaged one is incomplete, and is removed.
//!
//! The engine must then repair the index of the new store. The file `repair` records this and what
//! was omitted, so that the next opening continues after a crash.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::acknowledged::Acknowledged;
use super::inventory;
use super::loss::Loss;
use crate::store::directory::{free_name, sync_directory, write_whole};
use crate::store::embedded::EmbeddedStore;
use crate::store::tolerant::Tolerant;
use crate::store::{
    LeftOut, Persist, Store, StoreError, StoreOptions, Table, View, WriteBatch, rows,
};

/// Bytes that are copied in one batch.
const STEP: usize = 4 << 20;
/// The file that requests a repair of the index.
const REPAIR: &str = "repair";
/// A key greater than all others.
const END: [u8; 33] = [u8::MAX; 33];

/// Reads a whole store. If a part is damaged or was omitted from the journals, fills a new store
/// with the rest. Returns the store, and everything that was omitted.
pub(in crate::store) fn salvage(
    folder: &Path,
    store: EmbeddedStore,
    loss: Loss,
    acknowledged: &Acknowledged,
    options: &StoreOptions,
) -> Result<(EmbeddedStore, LeftOut), StoreError> {
    let mut loss = loss;
    loss.add_end(store.last(), acknowledged);
    for table in Table::ALL {
        for row in Tolerant::new(&store, table, &[], &END) {
            match row {
                Ok((_, record)) if table == Table::Jobs => loss.note_readable(&record),
                Ok(_) => {}
                Err(StoreError::Damaged(why)) => {
                    tracing::error!(?table, why, "rows of a table cannot be read: left out");
                    loss.parts += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
    let left_out = loss.left_out();
    if left_out == LeftOut::default() {
        return Ok((store, left_out));
    }
    for table in inventory::damaged_tables(&folder.join("store"))? {
        tracing::error!(file = %table.display(), "a table does not match its checksum");
    }
    let path = folder.join("salvaged");
    EmbeddedStore::create(&path, options.stores)?;
    let new = EmbeddedStore::open(&path, options)?;
    copy(&store, &new)?;
    new.sync()?;
    drop((store, new));
    let (LeftOut { parts, jobs }, mark) = (left_out, folder.join(REPAIR));
    write_whole(&mark, format!("parts {parts}\njobs {jobs}\n").as_bytes())?;
    let aside = swap(folder)?;
    tracing::error!(
        parts = left_out.parts,
        jobs = left_out.jobs,
        is_lower_bound = loss.is_lower_bound(),
        kept_at = %aside.display(),
        "the store was damaged: what can be read was copied into a new one"
    );
    Ok((EmbeddedStore::open(&folder.join("store"), options)?, left_out))
}

fn copy(from: &EmbeddedStore, to: &EmbeddedStore) -> Result<(), StoreError> {
    let mut batch = WriteBatch::new();
    for table in Table::ALL {
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

/// Copies jobs that a scan skips together with a damaged block although they are stored elsewhere:
/// the index knows their ids.
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

/// Returns what was omitted from a store whose index must still be repaired, or `None` if it is
/// repaired. An unreadable mark also requests a repair.
pub(in crate::store) fn unrepaired(folder: &Path) -> Option<LeftOut> {
    let text = match fs::read(folder.join(REPAIR)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        text => String::from_utf8_lossy(&text.unwrap_or_default()).into_owned(),
    };
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    Some(LeftOut { parts: number("parts"), jobs: number("jobs") })
}

/// Records that the index is repaired.
pub(in crate::store) fn repaired(folder: &Path) -> Result<(), StoreError> {
    match fs::remove_file(folder.join(REPAIR)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => sync_directory(folder),
    }
}

/// Replaces the damaged store by the new one. Returns the new path of the damaged one.
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

/// Moves a complete new store into place after the damaged one was moved away.
pub(in crate::store) fn finish(folder: &Path) -> Result<(), StoreError> {
    let (store, salvaged) = (folder.join("store"), folder.join("salvaged"));
    if salvaged.exists() && !store.exists() {
        fs::rename(salvaged, store)?;
        sync_directory(folder)?;
    }
    Ok(())
}

/// Removes an incomplete new store. The caller holds the lock of the damaged one.
pub(in crate::store) fn discard_unfinished(folder: &Path) -> Result<(), StoreError> {
    let salvaged = folder.join("salvaged");
    if salvaged.exists() {
        fs::remove_dir_all(salvaged)?;
    }
    Ok(())
}
