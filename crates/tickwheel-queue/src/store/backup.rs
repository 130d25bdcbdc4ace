//! Backups: a snapshot of all rows as a stream with checksums, and its restoration.
//!
//! A backup does not depend on the files of the storage engine. It begins with a line of text that
//! names the format; blocks follow:
//!
//! | bytes | content |
//! |---|---|
//! | 1 | the kind of the block: 1 is the head, 2 rows, 3 the end |
//! | 4 | the length of the contents |
//! | | the contents |
//! | 8 | a checksum (XXH3) of everything before it in the block |
//!
//! The head holds the size of the store on disk, an estimate of what follows. A row is the number of
//! its table, the lengths of key and value, the key and the value. The end holds the number of rows
//! and a checksum of all rows. Numbers are big-endian.
//!
//! Ground rules:
//! * A row that cannot be read ends the backup with an error. A backup never leaves a row out.
//! * A stream without its end is not a backup.

use std::fmt;
use std::io::{self, Read};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{Persist, Store, StoreError, Table, View, WriteBatch, rows};

/// The first bytes of a backup.
const MAGIC: &[u8] = b"tickwheel backup, format 1\n";
const HEAD: u8 = 1;
const ROWS: u8 = 2;
const END: u8 = 3;
/// The bytes of the kind and the length of a block.
const BLOCK_HEAD: usize = 5;
/// The size at which a block of rows is complete.
const BLOCK_BYTES: usize = 256 << 10;
/// The largest block. A block of rows exceeds its size by at most one row.
const MAX_BLOCK: usize = 1 << 30;
/// The size of one commit when a backup is restored.
const COMMIT_BYTES: usize = 4 << 20;
/// A key after all keys of a table.
const LAST_KEY: [u8; 64] = [u8::MAX; 64];

/// What a backup or a store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupSummary {
    /// The number of rows.
    pub rows: u64,
    /// The bytes of their keys and values.
    pub bytes: u64,
    /// A checksum of all rows.
    pub checksum: u64,
}

impl BackupSummary {
    /// Reads all rows of a store. Calls `progress` with the bytes read so far after each block.
    ///
    /// # Errors
    ///
    /// If a row cannot be read.
    pub fn of(store: &dyn Store, progress: &mut dyn FnMut(u64)) -> Result<Self, StoreError> {
        let mut rows = AllRows::new(store.view());
        while rows.next_block()?.is_some() {
            progress(rows.sum.bytes);
        }
        Ok(rows.sum.summary())
    }
}

/// The checksum of the rows so far.
#[derive(Default)]
struct Sum {
    rows: u64,
    bytes: u64,
    hash: Xxh3,
}

impl Sum {
    fn add(&mut self, encoded: &[u8], rows: u64) {
        self.rows += rows;
        self.bytes += encoded.len() as u64 - rows * ROW_HEAD as u64;
        self.hash.update(encoded);
    }

    fn summary(&self) -> BackupSummary {
        BackupSummary { rows: self.rows, bytes: self.bytes, checksum: self.hash.digest() }
    }
}

/// The bytes before the key of a row: the table and two lengths.
const ROW_HEAD: usize = 9;

/// All rows of a view, in blocks.
struct AllRows {
    view: Box<dyn View>,
    /// The table that is being read, and the key that the next block begins with.
    table: usize,
    from: Vec<u8>,
    sum: Sum,
}

impl AllRows {
    fn new(view: Box<dyn View>) -> Self {
        Self { view, table: 0, from: Vec::new(), sum: Sum::default() }
    }

    /// Returns the next rows, encoded; `None` after the last.
    fn next_block(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        let mut block = Vec::new();
        let mut count = 0;
        while let Some(&table) = Table::ALL.get(self.table) {
            for row in self.view.scan(table, &self.from, &LAST_KEY) {
                let (key, value) = row?;
                // A view may hold the row that is written only to be removed.
                if *key == *rows::NOTHING {
                    continue;
                }
                block.push(self.table as u8);
                block.extend_from_slice(&(key.len() as u32).to_be_bytes());
                block.extend_from_slice(&(value.len() as u32).to_be_bytes());
                block.extend_from_slice(&key);
                block.extend_from_slice(&value);
                count += 1;
                if block.len() >= BLOCK_BYTES {
                    self.from = [&key[..], &[0]].concat();
                    self.sum.add(&block, count);
                    return Ok(Some(block));
                }
            }
            self.table += 1;
            self.from.clear();
        }
        if block.is_empty() {
            return Ok(None);
        }
        self.sum.add(&block, count);
        Ok(Some(block))
    }
}

/// A backup in progress: a snapshot of all rows, which later commits do not change.
pub struct Backup {
    rows: AllRows,
    /// The size of the store on disk, until the head is made.
    head: Option<u64>,
    is_over: bool,
}

impl Backup {
    /// Takes a snapshot of a store and begins its backup.
    ///
    /// # Errors
    ///
    /// If the size of the store cannot be determined.
    pub fn of(store: &dyn Store) -> Result<Self, StoreError> {
        let size = store.disk_space()?;
        Ok(Self { rows: AllRows::new(store.view()), head: Some(size), is_over: false })
    }

    /// Returns the next piece of the stream, about 256 KiB; `None` after the last. Reads from disk.
    ///
    /// # Errors
    ///
    /// If a row cannot be read.
    pub fn next_piece(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        if let Some(size) = self.head.take() {
            let mut piece = MAGIC.to_vec();
            piece.extend(block(HEAD, &size.to_be_bytes()));
            return Ok(Some(piece));
        }
        if self.is_over {
            return Ok(None);
        }
        if let Some(rows) = self.rows.next_block()? {
            return Ok(Some(block(ROWS, &rows)));
        }
        self.is_over = true;
        let summary = self.rows.sum.summary();
        let end = [summary.rows.to_be_bytes(), summary.checksum.to_be_bytes()].concat();
        Ok(Some(block(END, &end)))
    }
}

impl fmt::Debug for Backup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backup").field("rows", &self.rows.sum.rows).finish_non_exhaustive()
    }
}

fn block(kind: u8, contents: &[u8]) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK_HEAD + contents.len() + 8);
    block.push(kind);
    block.extend_from_slice(&(contents.len() as u32).to_be_bytes());
    block.extend_from_slice(contents);
    let checksum = xxh3_64(&block);
    block.extend_from_slice(&checksum.to_be_bytes());
    block
}

/// Why a backup could not be restored.
#[derive(Debug)]
#[non_exhaustive]
pub enum RestoreError {
    /// The stream is not a backup, or has a newer format.
    NotABackup,
    /// The stream ends before the end of the backup.
    Incomplete,
    /// The part of the stream that begins at this byte does not match its checksum.
    Damaged(u64),
    /// The restored store differs from the backup.
    Differs,
    /// The stream could not be read.
    Read(io::Error),
    /// The store could not be written or read.
    Store(StoreError),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotABackup => f.write_str("this is not a backup of format 1"),
            Self::Incomplete => {
                f.write_str("the backup is incomplete, its end is missing: use another backup")
            }
            Self::Damaged(place) => write!(
                f,
                "the backup is damaged: the part at byte {place} does not match its checksum: use \
                 another backup"
            ),
            Self::Differs => {
                f.write_str("the restored store differs from the backup: the disk may be damaged")
            }
            Self::Read(error) => write!(f, "the backup cannot be read: {error}"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RestoreError {}

impl From<StoreError> for RestoreError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A stream that is being restored.
struct Source<'a> {
    input: &'a mut dyn Read,
    read: u64,
}

impl Source<'_> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RestoreError> {
        self.input.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => RestoreError::Incomplete,
            _ => RestoreError::Read(error),
        })?;
        self.read += bytes.len() as u64;
        Ok(())
    }

    /// Returns the kind and the contents of the next block, after checking its checksum.
    fn block(&mut self) -> Result<(u8, Vec<u8>), RestoreError> {
        let start = self.read;
        let mut block = vec![0; BLOCK_HEAD];
        self.fill(&mut block)?;
        let length = number(&block[1..]) as usize;
        if length > MAX_BLOCK {
            return Err(RestoreError::Damaged(start));
        }
        block.resize(BLOCK_HEAD + length, 0);
        self.fill(&mut block[BLOCK_HEAD..])?;
        let mut checksum = [0; 8];
        self.fill(&mut checksum)?;
        if xxh3_64(&block) != u64::from_be_bytes(checksum) {
            return Err(RestoreError::Damaged(start));
        }
        let kind = block[0];
        block.drain(..BLOCK_HEAD);
        Ok((kind, block))
    }
}

/// Reads a big-endian number.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Fills an empty store with the rows of a backup, syncs it, and returns what it should hold now.
/// `progress` is called with the bytes read so far and an estimate of all bytes.
/// [`BackupSummary::of`] must return the same after the store is opened again.
///
/// # Errors
///
/// If the stream is not a complete backup, or the store cannot be written. The store is then
/// incomplete: remove it.
pub fn restore(
    input: &mut dyn Read,
    store: &dyn Store,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<BackupSummary, RestoreError> {
    let mut source = Source { input, read: 0 };
    let mut magic = vec![0; MAGIC.len()];
    source.fill(&mut magic).map_err(|error| match error {
        RestoreError::Incomplete => RestoreError::NotABackup,
        other => other,
    })?;
    if magic != MAGIC {
        return Err(RestoreError::NotABackup);
    }
    let (mut sum, mut size) = (Sum::default(), 0);
    let mut batch = WriteBatch::new();
    loop {
        let start = source.read;
        let (kind, contents) = source.block()?;
        match kind {
            HEAD => size = number(&contents),
            ROWS => {
                let rows = add_rows(&contents, &mut batch).ok_or(RestoreError::Damaged(start))?;
                sum.add(&contents, rows);
                if batch.bytes() >= COMMIT_BYTES {
                    store.commit(&batch, Persist::Buffer)?;
                    batch.clear();
                }
                progress(source.read, size);
            }
            END => {
                let summary = sum.summary();
                let end = [summary.rows.to_be_bytes(), summary.checksum.to_be_bytes()].concat();
                if contents != end {
                    return Err(RestoreError::Damaged(start));
                }
                store.commit(&batch, Persist::Buffer)?;
                store.sync()?;
                return Ok(summary);
            }
            _ => return Err(RestoreError::Damaged(start)),
        }
    }
}

/// Adds the rows of a block to a batch, and returns their number; `None` if they are malformed.
fn add_rows(mut contents: &[u8], batch: &mut WriteBatch) -> Option<u64> {
    let mut rows = 0;
    while !contents.is_empty() {
        let (head, rest) = contents.split_at_checked(ROW_HEAD)?;
        let table = *Table::ALL.get(usize::from(head[0]))?;
        let (key, rest) = rest.split_at_checked(number(&head[1..5]) as usize)?;
        let (value, rest) = rest.split_at_checked(number(&head[5..]) as usize)?;
        batch.put(table, key, value);
        contents = rest;
        rows += 1;
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::super::{Disk, MemoryDisk, StoreOptions};
    use super::*;
    use std::sync::Arc;

    fn empty() -> Arc<dyn Store> {
        MemoryDisk::new().open(&StoreOptions::default()).unwrap()
    }

    /// Returns a store with rows of many sizes in all tables.
    fn filled() -> Arc<dyn Store> {
        let store = empty();
        for number in 0_u32..3_000 {
            let mut batch = WriteBatch::new();
            let table = Table::ALL[number as usize % 3];
            let value = vec![number as u8; (number as usize * 37) % 2_000];
            batch.put(table, &number.to_be_bytes(), &value);
            store.commit(&batch, Persist::Sync).unwrap();
        }
        store
    }

    fn bytes_of(mut backup: Backup) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(piece) = backup.next_piece().unwrap() {
            bytes.extend(piece);
        }
        bytes
    }

    fn summary(store: &Arc<dyn Store>) -> BackupSummary {
        BackupSummary::of(&**store, &mut |_| ()).unwrap()
    }

    fn restored(bytes: &[u8]) -> Result<(Arc<dyn Store>, BackupSummary), RestoreError> {
        let store = empty();
        let summary = restore(&mut &bytes[..], &*store, &mut |_, _| ())?;
        Ok((store, summary))
    }

    #[test]
    fn a_restored_store_has_the_rows_of_the_moment() {
        let store = filled();
        let before = summary(&store);
        let backup = Backup::of(&*store).unwrap();
        let mut batch = WriteBatch::new();
        batch.put(Table::Jobs, b"later", b"not in it");
        batch.remove(Table::Jobs, &0_u32.to_be_bytes());
        store.commit(&batch, Persist::Sync).unwrap();
        let bytes = bytes_of(backup);
        let (copy, told) = restored(&bytes).unwrap();
        assert_eq!((told, summary(&copy)), (before, before));
        assert_eq!(before.rows, 3_000);
        assert_ne!(summary(&store), before);
        // A backup of the copy has the same rows.
        let again = bytes_of(Backup::of(&*copy).unwrap());
        assert_eq!(restored(&again).unwrap().1, before);
    }

    #[test]
    fn a_backup_that_is_cut_off_or_changed_is_refused() {
        let bytes = bytes_of(Backup::of(&*filled()).unwrap());
        assert!(restored(&bytes).is_ok());
        let lengths = [MAGIC.len(), MAGIC.len() + 3, bytes.len() / 2, bytes.len() - 1];
        for length in lengths {
            let error = restored(&bytes[..length]).err().unwrap();
            assert!(matches!(error, RestoreError::Incomplete), "{length}: {error}");
        }
        assert!(matches!(restored(&bytes[..5]), Err(RestoreError::NotABackup)));
        let places = (0..bytes.len()).step_by(bytes.len() / 100);
        for place in places.chain(bytes.len() - 30..bytes.len()) {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert!(restored(&changed).is_err(), "byte {place}");
        }
    }
}
