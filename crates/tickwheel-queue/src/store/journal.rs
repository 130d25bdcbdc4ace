//! A look at the embedded store's journals before it opens them.
//!
//! fjall reads a journal up to the first byte that makes no sense and cuts the file there. After a
//! crash that is right: the last batch is torn, and nobody was told that it is durable. After a
//! flipped bit it is not: whole batches behind it would go, silently. So the journals are read
//! here first, without changing them, and two things are refused: a whole batch behind something
//! unreadable, and a journal that ends before the last commit that is known to be durable.
//!
//! The layout is that of fjall 3.1, which `Cargo.toml` pins. A batch is a start (tag 1, number of
//! items, sequence number), items (tag 2, or 4 for a cleared keyspace), and an end (tag 3, the
//! checksum of the items, four fixed bytes). What follows the last batch is zeroes.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::directory::{sync_directory, write_whole};
use super::records::Totals;
use super::{StoreError, rows};

const START: usize = 1 + 4 + 8;
const ITEM: usize = 1 + 1 + 1 + 8 + 2 + 4 + 4;
const CLEAR: usize = 1 + 8;
const END: usize = 1 + 8 + 4;
const TRAILER: [u8; 4] = *b"FJL\x03";

/// Holds the store's lock, so that no other process writes meanwhile; `None` for a new store.
pub(super) fn lock(store: &Path) -> Result<Option<File>, StoreError> {
    let file = match OpenOptions::new().read(true).write(true).open(store.join("lock")) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Err(StoreError::Locked),
        Err(fs::TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Removes a store whose making was cut off: it has no version yet, and nothing in its journal.
/// fjall writes the version last, and does not take up what it finds without one.
pub(super) fn remove_unfinished(store: &Path) -> Result<(), StoreError> {
    let version = fs::metadata(store.join("version")).map_or(0, |file| file.len());
    if !store.exists() || version > 0 {
        return Ok(());
    }
    for path in journals(store)? {
        if !read(&fs::read(&path)?).batches.is_empty() {
            return Err(StoreError::Damaged(format!(
                "{} has a journal, but no file `version`",
                store.display()
            )));
        }
    }
    Ok(fs::remove_dir_all(store)?)
}

/// Refuses journals in which something acknowledged cannot be read.
pub(super) fn check(store: &Path, acknowledged: u64) -> Result<(), StoreError> {
    let mut last_commit = None;
    for path in journals(store)? {
        let found = read(&fs::read(&path)?);
        if let Some(hole) = found.hole {
            return Err(StoreError::Damaged(format!(
                "{} cannot be read from byte {} to {}, and goes on behind that",
                path.display(),
                hole.start,
                hole.end
            )));
        }
        last_commit = last_commit.max(found.last_commit);
    }
    match last_commit {
        Some(last) if last < acknowledged => Err(StoreError::Damaged(format!(
            "the journals end with commit {last}, and commit {acknowledged} was acknowledged"
        ))),
        _ => Ok(()),
    }
}

/// Takes unreadable parts out of the journals, and keeps the originals aside.
pub(super) fn salvage(store: &Path, aside: &Path) -> Result<(), StoreError> {
    for path in journals(store)? {
        let bytes = fs::read(&path)?;
        let found = read(&bytes);
        let Some(hole) = found.hole else { continue };
        fs::create_dir_all(aside)?;
        let name = path.file_name().unwrap_or_default();
        let mut number = 0;
        let copy = loop {
            let copy = aside.join(format!("{}.{number}", name.display()));
            if !copy.exists() {
                break copy;
            }
            number += 1;
        };
        fs::copy(&path, &copy)?;
        let whole: Vec<u8> =
            found.batches.iter().flat_map(|batch| &bytes[batch.clone()]).copied().collect();
        write_whole(&path, &whole)?;
        tracing::error!(
            journal = %path.display(),
            from = hole.start,
            kept_at = %copy.display(),
            "a damaged part of a journal was left out"
        );
    }
    Ok(())
}

/// Writes the journals anew. After a failed sync the operating system may hold pages for clean
/// that never reached the disk: what is read here has to be written again to be durable.
pub(super) fn rewrite(store: &Path) -> Result<(), StoreError> {
    for path in journals(store)? {
        write_whole(&path, &fs::read(&path)?)?;
    }
    if store.exists() { sync_directory(store) } else { Ok(()) }
}

/// Removes the drafts of journals whose writing was cut off.
pub(super) fn remove_drafts(store: &Path) -> Result<(), StoreError> {
    for path in numbered(store, "draft")? {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// The journals, the oldest first.
fn journals(store: &Path) -> Result<Vec<PathBuf>, StoreError> {
    numbered(store, "jnl")
}

/// The files that have a number for a name and this extension, in order.
fn numbered(store: &Path, extension: &str) -> Result<Vec<PathBuf>, StoreError> {
    let entries = match fs::read_dir(store) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let number = path.file_stem().and_then(|name| name.to_str()?.parse::<u64>().ok());
        let is_wanted = path.extension().is_some_and(|found| found == extension);
        if let Some(number) = number.filter(|_| is_wanted) {
            files.push((number, path));
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// What a journal holds.
#[derive(Debug, Default)]
struct Found {
    /// The whole batches.
    batches: Vec<Range<usize>>,
    /// What is unreadable although a whole batch comes behind it: the first such part.
    hole: Option<Range<usize>>,
    /// The number of the last commit.
    last_commit: Option<u64>,
}

fn read(bytes: &[u8]) -> Found {
    let mut found = Found::default();
    let mut position = 0;
    while let Some(start) = next_start(bytes, position) {
        // Without a hole so far, a batch is right behind the one before it.
        let Some((end, commit)) = batch(bytes, start) else {
            position = start + 1;
            continue;
        };
        let expected = found.batches.last().map_or(0, |batch| batch.end);
        if start > expected && found.hole.is_none() {
            found.hole = Some(expected..start);
        }
        found.batches.push(start..end);
        found.last_commit = found.last_commit.max(commit);
        position = end;
    }
    found
}

/// The next byte that may start a batch. Mostly this skips the zeroes at the end.
fn next_start(bytes: &[u8], from: usize) -> Option<usize> {
    bytes.get(from..)?.iter().position(|&byte| byte == 1).map(|offset| from + offset)
}

/// The end of the batch that starts here, and the commit that it carries, if it is whole.
fn batch(bytes: &[u8], start: usize) -> Option<(usize, Option<u64>)> {
    let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let items = number(start + 1)?;
    let mut position = start + START;
    let mut commit = None;
    for _ in 0..items {
        match bytes.get(position)? {
            2 => {
                let keys: [u8; 2] = bytes.get(position + 11..position + 13)?.try_into().ok()?;
                let key_start = position + ITEM;
                let key_end = key_start + usize::from(u16::from_le_bytes(keys));
                let value_end = key_end + number(position + 17)? as usize;
                let value = bytes.get(key_end..value_end)?;
                if &bytes[key_start..key_end] == rows::TOTALS {
                    let totals = Totals::decode(value.to_vec().into()).ok()?;
                    commit = Some(totals.commit);
                }
                position = value_end;
            }
            4 => position += CLEAR,
            _ => return None,
        }
    }
    let end = bytes.get(position..position + END)?;
    let mut checksum = Xxh3::new();
    checksum.update(bytes.get(start + START..position)?);
    let is_whole =
        end[0] == 3 && end[1..9] == checksum.digest().to_le_bytes() && end[9..] == TRAILER;
    is_whole.then_some((position + END, commit))
}
