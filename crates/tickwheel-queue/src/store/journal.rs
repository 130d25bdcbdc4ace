//! Reads the journals of the embedded store before fjall opens them.
//!
//! fjall reads a journal up to the first byte that makes no sense and cuts the file there. After a
//! crash that is right: the last batch is torn, and its callers were never answered. After a
//! flipped bit or a lost file it is not: acknowledged batches would vanish silently. So the
//! journals are read here first, without changing them. The check refuses:
//!
//! * a whole batch after something unreadable,
//! * a gap in the numbers of the commits, within a journal or between two of them,
//! * journals that end before the last commit that is known to be durable,
//! * a journal that is missing.
//!
//! The layout is that of fjall 3.1, which `Cargo.toml` pins. A batch is a start (tag 1, number of
//! items, sequence number), items (tag 2, or 4 for a cleared keyspace), and an end (tag 3, the
//! checksum of the items, four fixed bytes). Zeroes follow the last batch.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::acknowledged::Acknowledged;
use super::directory::{keep_copy, sync_directory, write_whole};
use super::records::Totals;
use super::{StoreError, rows, space};

const START: usize = 1 + 4 + 8;
const ITEM: usize = 1 + 1 + 1 + 8 + 2 + 4 + 4;
const CLEAR: usize = 1 + 8;
const END: usize = 1 + 8 + 4;
const TRAILER: [u8; 4] = *b"FJL\x03";

/// Locks the store, so that no other process writes meanwhile. fjall needs the file as well.
pub(super) fn lock(store: &Path) -> Result<File, StoreError> {
    let path = store.join("lock");
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(StoreError::Locked),
        Err(fs::TryLockError::Error(error)) => Err(error.into()),
    }
}

/// The journals of a store, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Journals(Vec<Journal>);

#[derive(Debug)]
struct Journal {
    path: PathBuf,
    number: u64,
    content: Content,
}

impl Journals {
    pub(super) fn read(store: &Path) -> Result<Self, StoreError> {
        let read = |(number, path): (u64, PathBuf)| {
            let content = Content::of(&fs::read(&path)?);
            Ok(Journal { path, number, content })
        };
        numbered(store, "jnl")?.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Whether there is no file at all, as in a store that was just created.
    pub(super) fn are_missing(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether no batch was ever written.
    pub(super) fn are_empty(&self) -> bool {
        self.0.iter().all(|journal| journal.content.batches.is_empty())
    }

    pub(super) fn last_commit(&self) -> Option<u64> {
        self.0.iter().filter_map(|journal| journal.content.last_commit()).max()
    }

    /// A journal such that a commit is in it or in a later one; `None` if it is in none.
    pub(super) fn bound_of(&self, commit: u64) -> Option<u64> {
        let is_there = self.last_commit().is_some_and(|last| commit <= last);
        self.0.first().filter(|_| is_there).map(|journal| journal.number)
    }

    /// Returns an error if something acknowledged is missing or cannot be read.
    pub(super) fn check(&self, acknowledged: &Acknowledged) -> Result<(), StoreError> {
        for journal in &self.0 {
            if let Some(hole) = journal.content.holes.first() {
                return damaged(
                    &journal.path,
                    &format!(
                        "cannot be read from byte {} to {}, and whole batches follow",
                        hole.start, hole.end
                    ),
                );
            }
        }
        self.check_order(acknowledged)?;
        self.check_end(acknowledged)
    }

    /// No journal is missing, and none but the last ends early.
    fn check_order(&self, acknowledged: &Acknowledged) -> Result<(), StoreError> {
        let Some(first) = self.0.first() else { return Ok(()) };
        if let Some((oldest, newest)) = acknowledged.closed_with {
            let mut numbers = oldest..=newest;
            let is_there = |number| self.0.iter().any(|journal| journal.number == number);
            if let Some(missing) = numbers.find(|number| !is_there(*number)) {
                return damaged(&numbered_journal(&first.path, missing), "is missing");
            }
        }
        let mut last_commit = None;
        for (place, journal) in self.0.iter().enumerate() {
            let expected = first.number + place as u64;
            if journal.number != expected {
                return damaged(&numbered_journal(&first.path, expected), "is missing");
            }
            let next = journal.content.first_commit();
            if let Some((last, next)) =
                last_commit.zip(next).filter(|(last, next)| *next > last + 1)
            {
                let before = &self.0[place.saturating_sub(1)].path;
                return damaged(
                    before,
                    &format!(
                        "ends with commit {last}, and the next journal begins with commit {next}"
                    ),
                );
            }
            if let Some((last, next)) = journal.content.gap {
                return damaged(&journal.path, &format!("has commit {next} after commit {last}"));
            }
            let is_last = place + 1 == self.0.len();
            if !is_last && journal.content.batches.is_empty() {
                return damaged(&journal.path, "is empty, and a newer journal follows");
            }
            last_commit = journal.content.last_commit().or(last_commit);
        }
        Ok(())
    }

    /// The last acknowledged commit is there, or may be in tables already.
    fn check_end(&self, acknowledged: &Acknowledged) -> Result<(), StoreError> {
        let Some(newest) = self.0.last() else { return Ok(()) };
        // fjall removes the oldest journals once their rows are in tables. While the journal is
        // there that was in use before the commit, the commit is in it or in a later one.
        let must_be_there = acknowledged.journal.is_some_and(|journal| self.0[0].number <= journal);
        let expected = acknowledged.commit;
        match self.last_commit() {
            Some(last) if last < expected => damaged(
                &newest.path,
                &format!("ends with commit {last}, and commit {expected} was acknowledged"),
            ),
            None if must_be_there && expected > 0 => damaged(
                &newest.path,
                &format!("holds no commit, and commit {expected} was acknowledged"),
            ),
            _ => Ok(()),
        }
    }

    /// Takes unreadable parts out of the journals and keeps a copy of each file that this changes
    /// in the folder `aside`. Returns the number of parts that were left out, where anything
    /// acknowledged is missing.
    pub(super) fn salvage(
        &self,
        aside: &Path,
        acknowledged: &Acknowledged,
    ) -> Result<u64, StoreError> {
        let mut left_out = 0;
        let last = self.last_commit().unwrap_or(0);
        let is_end_missing = last < acknowledged.commit;
        let has_holes = self.0.iter().any(|journal| !journal.content.holes.is_empty());
        // A hole explains a gap in the numbers of the commits.
        if let Some(error) = self.check_order(acknowledged).err().filter(|_| !has_holes) {
            tracing::error!(%error, "commits are missing, and are left out");
            left_out += 1;
        }
        if is_end_missing {
            tracing::error!(
                from = last + 1,
                to = acknowledged.commit,
                "acknowledged commits are missing at the end of the journals, and are left out"
            );
            left_out += 1;
        }
        for Journal { path, content, .. } in &self.0 {
            let tail = Some(&content.tail).filter(|tail| !tail.is_empty());
            if content.holes.is_empty() && tail.is_none() {
                continue;
            }
            let copy = keep_copy(path, aside)?;
            for part in content.holes.iter().chain(tail) {
                tracing::error!(
                    journal = %path.display(),
                    from = part.start,
                    to = part.end,
                    kept_at = %copy.display(),
                    "an unreadable part of a journal is left out"
                );
            }
            left_out += content.holes.len() as u64;
            let bytes = fs::read(path)?;
            let whole: Vec<&[u8]> =
                content.batches.iter().map(|batch| &bytes[batch.clone()]).collect();
            write_whole(path, &whole.concat())?;
        }
        Ok(left_out)
    }
}

fn damaged<T>(path: &Path, what: &str) -> Result<T, StoreError> {
    Err(StoreError::Damaged(format!("the journal {} {what}", path.display())))
}

/// The path of the journal with this number, next to another.
fn numbered_journal(sibling: &Path, number: u64) -> PathBuf {
    sibling.with_file_name(format!("{number}.jnl"))
}

/// Copies the journals to new files. After a failed sync the operating system may take pages for
/// clean that never reached the disk: what is read here has to be written again to be durable.
///
/// A full disk has no room for a copy: the journal is overwritten in place with the bytes that it
/// has. A crash meanwhile does no harm, since each byte is written as it was.
pub(super) fn rewrite(store: &Path) -> Result<(), StoreError> {
    for (_, path) in numbered(store, "jnl")? {
        let mut bytes = fs::read(&path)?;
        // A new journal is 64 MiB long, and mostly zeroes.
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(end);
        match write_whole(&path, &bytes) {
            Err(StoreError::Full(_)) => {
                remove_drafts(store)?;
                overwrite(&path, &bytes)?;
            }
            written => written?,
        }
    }
    sync_directory(store)
}

/// Writes the bytes that a file has once more.
fn overwrite(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(bytes)?;
    Ok(file.sync_all()?)
}

/// Bytes in the newest journal, without the zeroes that a new one ends with.
pub(super) fn newest(store: &Path) -> Result<u64, StoreError> {
    let Some((_, path)) = numbered(store, "jnl")?.pop() else { return Ok(0) };
    match fs::metadata(path) {
        Ok(file) => Ok(file.len().min(space::allocated(&file))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Removes the drafts of journals whose writing was interrupted.
pub(super) fn remove_drafts(store: &Path) -> Result<(), StoreError> {
    for (_, path) in numbered(store, "draft")? {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// The numbers of the oldest and the newest journal.
pub(super) fn range(store: &Path) -> Result<Option<(u64, u64)>, StoreError> {
    let numbers = numbered(store, "jnl")?;
    Ok(numbers.first().zip(numbers.last()).map(|(first, last)| (first.0, last.0)))
}

/// The files that have a number for a name and this extension, in order.
fn numbered(store: &Path, extension: &str) -> Result<Vec<(u64, PathBuf)>, StoreError> {
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
    Ok(files)
}

/// What a journal holds.
#[derive(Debug, Default)]
struct Content {
    /// The whole batches.
    batches: Vec<Range<usize>>,
    /// Unreadable parts that are followed by a whole batch.
    holes: Vec<Range<usize>>,
    /// What follows the last whole batch, without the zeroes at the end.
    tail: Range<usize>,
    /// The numbers of the first and the last commit.
    commits: Option<(u64, u64)>,
    /// Two commits that follow each other although others belong between them.
    gap: Option<(u64, u64)>,
}

impl Content {
    fn of(bytes: &[u8]) -> Self {
        let mut content = Self::default();
        let mut position = 0;
        let mut end = 0;
        while let Some(start) = next_start(bytes, position) {
            let Some((batch_end, commit)) = batch(bytes, start) else {
                position = start + 1;
                continue;
            };
            // Whole batches follow each other without a space.
            if start > end {
                content.holes.push(end..start);
            }
            content.batches.push(start..batch_end);
            if let Some(commit) = commit {
                content.add_commit(commit);
            }
            (position, end) = (batch_end, batch_end);
        }
        let used = bytes[end..].iter().rposition(|&byte| byte != 0).map_or(0, |place| place + 1);
        content.tail = end..end + used;
        content
    }

    fn add_commit(&mut self, commit: u64) {
        let (first, last) = self.commits.unwrap_or((commit, commit));
        if commit > last + 1 {
            self.gap.get_or_insert((last, commit));
        }
        self.commits = Some((first, last.max(commit)));
    }

    fn first_commit(&self) -> Option<u64> {
        self.commits.map(|(first, _)| first)
    }

    fn last_commit(&self) -> Option<u64> {
        self.commits.map(|(_, last)| last)
    }
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
