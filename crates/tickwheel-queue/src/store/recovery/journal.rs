//! Reads the journals of the embedded store before fjall opens them.
//!
//! fjall reads a journal up to the first unreadable byte and truncates the file there. After a crash
//! that is right: the last batch is torn, and its callers were never answered. After a flipped bit or
//! a lost file it is wrong: acknowledged batches would disappear silently. So this check reads the
//! journals first, without changing them. It refuses:
//!
//! * a whole batch after something unreadable,
//! * a gap in the numbers of the commits, within a journal or between two of them,
//! * journals that end before the last acknowledged commit,
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
use super::inventory;
use super::loss::Loss;
use crate::store::directory::{keep_copy, sync_directory, write_whole};
use crate::store::embedded::JOBS;
use crate::store::records::Totals;
use crate::store::{StoreError, rows, space};

const START: usize = 1 + 4 + 8;
const ITEM: usize = 1 + 1 + 1 + 8 + 2 + 4 + 4;
const CLEAR: usize = 1 + 8;
const END: usize = 1 + 8 + 4;
const TRAILER: [u8; 4] = *b"FJL\x03";

/// Locks the store, so that no other process writes to it. fjall needs the file as well.
pub(in crate::store) fn lock(store: &Path) -> Result<File, StoreError> {
    let path = store.join("lock");
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(StoreError::Locked),
        Err(fs::TryLockError::Error(error)) => Err(error.into()),
    }
}

/// The journals of a store, the oldest first.
#[derive(Debug)]
pub(in crate::store) struct Journals(Vec<Journal>);

#[derive(Debug)]
struct Journal {
    path: PathBuf,
    number: u64,
    content: Content,
}

impl Journals {
    pub(in crate::store) fn read(store: &Path) -> Result<Self, StoreError> {
        // Without the names puts cannot be counted. The caller decides whether that matters.
        let jobs = inventory::keyspace_id(store, JOBS).ok().flatten();
        let read = |(number, path): (u64, PathBuf)| {
            let content = Content::of(&fs::read(&path)?, jobs);
            Ok(Journal { path, number, content })
        };
        numbered(store, "jnl")?.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Returns `true` if there is no file at all, as in a store that was just created.
    pub(in crate::store) fn are_missing(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if no batch was ever written.
    pub(in crate::store) fn are_empty(&self) -> bool {
        self.0.iter().all(|journal| journal.content.batches.is_empty())
    }

    pub(in crate::store) fn last_commit(&self) -> Option<u64> {
        self.0.iter().filter_map(|journal| journal.content.last_commit()).max()
    }

    /// Returns a journal such that a commit is in it or in a later one; `None` if no journal has it.
    pub(in crate::store) fn bound_of(&self, commit: u64) -> Option<u64> {
        let is_there = self.last_commit().is_some_and(|last| commit <= last);
        self.0.first().filter(|_| is_there).map(|journal| journal.number)
    }

    /// Returns the oldest journal that the file `acknowledged` names, if it is missing.
    pub(in crate::store) fn missing_oldest(&self, acknowledged: &Acknowledged) -> Option<u64> {
        let first = self.0.first()?;
        acknowledged.oldest.filter(|oldest| *oldest < first.number)
    }

    /// Compares the oldest journals with the tables, which must have every commit before the journals.
    /// Returns the commits and the puts that are in neither.
    pub(in crate::store) fn missing_before(
        &self,
        in_tables: Totals,
    ) -> Option<(Range<u64>, Range<u64>)> {
        let ends = self.0.iter().find_map(|journal| journal.content.ends.as_ref())?;
        let commits = in_tables.commit + 1..ends.first.commit;
        (!commits.is_empty()).then_some((commits, in_tables.seq..ends.first_seq))
    }

    /// Returns an error if something acknowledged is missing or cannot be read.
    pub(in crate::store) fn check(&self, acknowledged: &Acknowledged) -> Result<(), StoreError> {
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

    /// Checks that no journal is missing, and that only the last one ends early.
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

    /// Checks that a journal has the last acknowledged commit, unless it may be in tables already.
    fn check_end(&self, acknowledged: &Acknowledged) -> Result<(), StoreError> {
        let Some(newest) = self.0.last() else { return Ok(()) };
        // fjall removes the oldest journals once their rows are in tables. As long as the journal
        // that was in use before the commit exists, the commit is in it or in a later one.
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

    /// Removes unreadable parts from the journals, and keeps a copy of each changed file in the folder
    /// `aside`. Returns what is missing between the first and the last readable commit. What is
    /// missing at the end is known once the store is open.
    pub(in crate::store) fn salvage(
        &self,
        aside: &Path,
        acknowledged: &Acknowledged,
    ) -> Result<Loss, StoreError> {
        let mut loss = self.missing_puts();
        let last = self.last_commit().unwrap_or(0);
        let is_end_missing = last < acknowledged.commit;
        let has_holes = self.0.iter().any(|journal| !journal.content.holes.is_empty());
        // An unreadable part explains a gap in the numbers of the commits.
        if let Some(error) = self.check_order(acknowledged).err().filter(|_| !has_holes) {
            tracing::error!(%error, "commits are missing and are left out");
            loss.parts += 1;
        }
        if is_end_missing {
            tracing::error!(
                from = last + 1,
                to = acknowledged.commit,
                "acknowledged commits are missing at the end of the journals, and are left out"
            );
            loss.parts += 1;
            loss.puts_in_tail = self.0.last().map_or(0, |journal| journal.content.puts_in_tail);
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
            loss.parts += content.holes.len() as u64;
            let bytes = fs::read(path)?;
            let whole: Vec<&[u8]> =
                content.batches.iter().map(|batch| &bytes[batch.clone()]).collect();
            write_whole(path, &whole.concat())?;
        }
        Ok(loss)
    }

    /// Returns the puts of commits that are missing between two readable commits.
    fn missing_puts(&self) -> Loss {
        let mut loss = Loss::default();
        let mut last: Option<Totals> = None;
        for Journal { content, .. } in &self.0 {
            let Some(ends) = &content.ends else { continue };
            match last {
                Some(last) if ends.first.commit > last.commit + 1 => {
                    loss.puts.push(last.seq..ends.first_seq);
                }
                None => loss.puts_before = content.puts_before,
                Some(_) => {}
            }
            loss.puts.extend(content.missing.iter().cloned());
            last = Some(ends.last);
        }
        loss
    }
}

fn damaged<T>(path: &Path, what: &str) -> Result<T, StoreError> {
    Err(StoreError::Damaged(format!("the journal {} {what}", path.display())))
}

/// Returns the path of the journal with this number, beside another one.
fn numbered_journal(sibling: &Path, number: u64) -> PathBuf {
    sibling.with_file_name(format!("{number}.jnl"))
}

/// Copies the journals to new files. After a failed sync the operating system may treat pages as clean
/// that never reached the disk, so what is read has to be written again to be durable.
///
/// A full disk has no room for a copy, so the journal is overwritten in place with its own bytes. A
/// crash in between is harmless: no byte changes.
pub(in crate::store) fn rewrite(store: &Path) -> Result<(), StoreError> {
    for (_, path) in numbered(store, "jnl")? {
        let mut bytes = fs::read(&path)?;
        // A new journal has 64 MiB, mostly zeroes.
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

/// Writes the bytes of a file again.
fn overwrite(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(bytes)?;
    Ok(file.sync_all()?)
}

/// Returns the bytes of the newest journal, without the zeroes at its end.
pub(in crate::store) fn newest(store: &Path) -> Result<u64, StoreError> {
    let Some((_, path)) = numbered(store, "jnl")?.pop() else { return Ok(0) };
    match fs::metadata(path) {
        Ok(file) => Ok(file.len().min(space::allocated(&file))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Removes the drafts of journals whose writing was interrupted.
pub(in crate::store) fn remove_drafts(store: &Path) -> Result<(), StoreError> {
    for (_, path) in numbered(store, "draft")? {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Returns the numbers of the oldest and the newest journal.
pub(in crate::store) fn range(store: &Path) -> Result<Option<(u64, u64)>, StoreError> {
    let numbers = numbered(store, "jnl")?;
    Ok(numbers.first().zip(numbers.last()).map(|(first, last)| (first.0, last.0)))
}

/// Returns the files whose name is a number with this extension, in order.
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

/// The content of a journal.
#[derive(Debug, Default)]
struct Content {
    /// The whole batches.
    batches: Vec<Range<usize>>,
    /// Unreadable parts that are followed by a whole batch.
    holes: Vec<Range<usize>>,
    /// What follows the last whole batch, without the zeroes at the end.
    tail: Range<usize>,
    /// The counters of the first and the last commit.
    ends: Option<Ends>,
    /// Two consecutive commits between which others are missing.
    gap: Option<(u64, u64)>,
    /// The sequence numbers of puts that are missing in such gaps.
    missing: Vec<Range<u64>>,
    /// Puts that are recognisable in an unreadable part before the first commit.
    puts_before: u64,
    /// Puts that are recognisable in the tail.
    puts_in_tail: u64,
}

/// The counters of the first and the last commit of a journal.
#[derive(Debug)]
struct Ends {
    first: Totals,
    /// The sequence number of the first put of the first commit.
    first_seq: u64,
    last: Totals,
}

impl Content {
    /// Reads a journal. `jobs` is the keyspace with the jobs, whose rows are counted as puts.
    fn of(bytes: &[u8], jobs: Option<u64>) -> Self {
        let mut content = Self::default();
        let mut position = 0;
        let mut end = 0;
        while let Some(start) = next_start(bytes, position) {
            let Some(batch) = Batch::whole(bytes, start, jobs) else {
                position = start + 1;
                continue;
            };
            // Batches follow each other without a gap.
            if start > end {
                content.holes.push(end..start);
                if content.ends.is_none() {
                    content.puts_before += recognisable_puts(&bytes[end..start], jobs);
                }
            }
            content.batches.push(start..batch.end);
            content.add_commit(&batch);
            (position, end) = (batch.end, batch.end);
        }
        let used = bytes[end..].iter().rposition(|&byte| byte != 0).map_or(0, |place| place + 1);
        content.tail = end..end + used;
        content.puts_in_tail = recognisable_puts(&bytes[content.tail.clone()], jobs);
        content
    }

    fn add_commit(&mut self, batch: &Batch) {
        let Some(totals) = batch.totals else { return };
        let first_seq = totals.seq.saturating_sub(batch.puts);
        let ends = self.ends.get_or_insert(Ends { first: totals, first_seq, last: totals });
        let last = ends.last;
        if totals.commit > last.commit + 1 {
            self.gap.get_or_insert((last.commit, totals.commit));
            self.missing.push(last.seq..first_seq);
        }
        if totals.commit > last.commit {
            ends.last = totals;
        }
    }

    fn first_commit(&self) -> Option<u64> {
        self.ends.as_ref().map(|ends| ends.first.commit)
    }

    fn last_commit(&self) -> Option<u64> {
        self.ends.as_ref().map(|ends| ends.last.commit)
    }
}

/// Returns the next byte that may start a batch. Mostly this skips the zeroes at the end.
fn next_start(bytes: &[u8], from: usize) -> Option<usize> {
    bytes.get(from..)?.iter().position(|&byte| byte == 1).map(|offset| from + offset)
}

/// Counts the puts in bytes that do not match their checksum, as far as their structure can be read.
fn recognisable_puts(bytes: &[u8], jobs: Option<u64>) -> u64 {
    let (mut puts, mut position) = (0, 0);
    while bytes.get(position) == Some(&1) {
        let Some(batch) = Batch::follow(bytes, position, jobs, &mut puts) else { break };
        position = batch.end;
    }
    puts
}

/// A batch of a journal.
struct Batch {
    /// Where it ends.
    end: usize,
    /// The counters that it carries, if it is a commit.
    totals: Option<Totals>,
    /// Jobs that it puts.
    puts: u64,
}

impl Batch {
    /// Reads the batch that starts here, if it is whole and matches its checksum.
    fn whole(bytes: &[u8], start: usize, jobs: Option<u64>) -> Option<Self> {
        let batch = Self::follow(bytes, start, jobs, &mut 0)?;
        let (items, end) =
            bytes[start + START..batch.end].split_at_checked(batch.end - start - START - END)?;
        let mut checksum = Xxh3::new();
        checksum.update(items);
        let is_whole =
            end[0] == 3 && end[1..9] == checksum.digest().to_le_bytes() && end[9..] == TRAILER;
        is_whole.then_some(batch)
    }

    /// Reads the structure of the batch that starts here, and counts its puts.
    fn follow(bytes: &[u8], start: usize, jobs: Option<u64>, puts: &mut u64) -> Option<Self> {
        let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let items = number(start + 1)?;
        let mut position = start + START;
        let (before, mut totals) = (*puts, None);
        for _ in 0..items {
            match bytes.get(position)? {
                2 => {
                    let header = bytes.get(position..position + ITEM)?;
                    let keyspace = u64::from_le_bytes(header[3..11].try_into().ok()?);
                    let keys = u16::from_le_bytes(header[11..13].try_into().ok()?);
                    let key_start = position + ITEM;
                    let key_end = key_start + usize::from(keys);
                    let value_end = key_end + number(position + 17)? as usize;
                    let value = bytes.get(key_end..value_end)?;
                    // The removal of a row has an empty value.
                    let is_value = header[1] == 0;
                    if is_value && &bytes[key_start..key_end] == rows::TOTALS {
                        totals = Some(Totals::decode(value.to_vec().into()).ok()?);
                    }
                    *puts += u64::from(is_value && Some(keyspace) == jobs);
                    position = value_end;
                }
                4 => position += CLEAR,
                _ => return None,
            }
        }
        let end = position + END;
        bytes.get(position..end)?;
        Some(Self { end, totals, puts: *puts - before })
    }
}
