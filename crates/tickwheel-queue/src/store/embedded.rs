//! The embedded store: fjall, a log-structured merge tree with a journal.
//!
//! The tables are keyspaces of one database. A batch is one entry of the journal with a
//! checksum, so a crash leaves all of it or nothing. fjall writes the entry, syncs the journal and
//! then makes the batch visible; this module waits for that.
//!
//! A store is created by [`EmbeddedStore::create`] alone. [`EmbeddedStore::open`] refuses a
//! database without its keyspaces instead of creating them.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fjall::config::{BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{
    AbstractTree, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot,
};

use super::format::StoreId;
use super::home::Home;
use super::records::Totals;
use super::recovery::acknowledged::Acknowledged;
use super::recovery::{inventory, journal};
use super::space::{self, Reserve, SCARCE, Space};
use super::{
    LeftOut, Persist, Rows, Store, StoreError, StoreOptions, Table, View, WriteBatch, rows,
};

/// The memtable size of each table. Up to two memtables, one filling and one being flushed, are in
/// memory.
const MEMTABLE: u64 = 16 << 20;
/// The memtable size of the counters, which have few rows with many old values.
const COUNTERS_MEMTABLE: u64 = 4 << 20;
/// The memtable size of a store that is one of very many.
const MIN_MEMTABLE: u64 = 1 << 20;
/// The size of the journal that is replayed when the store is opened.
const JOURNALS: u64 = 128 << 20;
/// The names of the keyspaces.
pub(super) const JOBS: &str = "jobs";
pub(super) const INDEX: &str = "index";
pub(super) const COUNTERS: &str = "counters";

/// fjall delays writes while a keyspace has this many unmerged tables or unflushed memtables.
const STALLING_TABLES: usize = 30;
const STALLING_MEMTABLES: usize = 4;

pub(super) struct EmbeddedStore {
    keyspaces: Keyspaces,
    database: Database,
    /// The path of the store.
    path: PathBuf,
    reserve: Reserve,
    /// Whether no thread writes or merges tables.
    is_lean: bool,
    /// The totals of the last commit, synced or not.
    last: Mutex<Totals>,
    /// The directory around the store; `None` for a store that is being filled. It is the last
    /// field, because it records the journals once the database is closed.
    home: Option<Home>,
}

impl EmbeddedStore {
    /// Creates an empty store in a folder that does not exist, and closes it.
    pub(super) fn create(path: &Path, stores: u32) -> Result<(), StoreError> {
        let database = builder(path, &StoreOptions::default()).open()?;
        let share = |bytes: u64| (bytes / u64::from(stores.max(1))).max(MIN_MEMTABLE);
        let rows = || keyspace().max_memtable_size(share(MEMTABLE));
        database.keyspace(JOBS, || rows().expect_point_read_hits(true))?;
        database.keyspace(INDEX, rows)?;
        database.keyspace(COUNTERS, || keyspace().max_memtable_size(share(COUNTERS_MEMTABLE)))?;
        drop(database);
        // Its empty journal is removed. The next opening creates another one with preallocated
        // space, which a reopened journal does not have.
        Ok(std::fs::remove_file(path.join("0.jnl"))?)
    }

    /// Opens a store whose files have been checked.
    pub(super) fn open(path: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        Self::open_database(path, options, false)
    }

    /// Opens a store of format 1, or one with an interrupted upgrade. Its table of counters is
    /// created if it is missing.
    pub(super) fn open_to_upgrade(path: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        Self::open_database(path, options, true)
    }

    fn open_database(
        path: &Path,
        options: &StoreOptions,
        upgrades: bool,
    ) -> Result<Self, StoreError> {
        let database = builder(path, options).open()?;
        let open = |name: &str| {
            if !database.keyspace_exists(name) {
                let path = path.join("keyspaces");
                let why = format!("the keyspace `{name}` is missing in {}", path.display());
                return Err(StoreError::Damaged(why));
            }
            Ok(database.keyspace(name, keyspace)?)
        };
        let (jobs, index) = (open(JOBS)?, open(INDEX)?);
        let counters =
            if upgrades { database.keyspace(COUNTERS, counters)? } else { open(COUNTERS)? };
        let reserve = Reserve::new(path.parent().unwrap_or(path), options.reserve);
        let store = Self {
            keyspaces: Keyspaces { jobs, index, counters },
            database,
            path: path.to_owned(),
            reserve,
            is_lean: options.lean,
            last: Mutex::default(),
            home: None,
        };
        let totals = match store.totals() {
            // Set after everything was read.
            Err(StoreError::Damaged(_)) if options.salvage => Totals::default(),
            totals => totals?,
        };
        store.note_last(totals);
        Ok(store)
    }

    /// Attaches the store to its directory, where it acknowledges commits from now on.
    pub(super) fn settle(
        self,
        folder: &Path,
        id: StoreId,
        left_out: LeftOut,
        acknowledged: Acknowledged,
    ) -> Result<Self, StoreError> {
        let home = Home::new(folder, id, left_out, acknowledged)?;
        Ok(Self { home: Some(home), ..self })
    }

    /// Returns the totals of the last commit, synced or not.
    pub(super) fn last(&self) -> Totals {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_last(&self, totals: Totals) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = totals;
    }

    /// Returns the counters of the whole store; zero for a new one.
    fn totals(&self) -> Result<Totals, StoreError> {
        for table in PLACES_OF_TOTALS {
            if let Some(bytes) = self.get(table, rows::TOTALS)? {
                return Totals::decode(bytes).map_err(StoreError::Damaged);
            }
        }
        Ok(Totals::default())
    }

    /// Returns the totals of the last commit in a table file; zero if there is none.
    pub(super) fn totals_in_tables(&self) -> Result<Totals, StoreError> {
        for table in PLACES_OF_TOTALS {
            let tree = &self.keyspaces.of(table).tree;
            let Some(persisted) = tree.get_highest_persisted_seqno() else { continue };
            let found = tree.get(rows::TOTALS, persisted + 1).map_err(fjall::Error::from)?;
            if let Some(bytes) = found {
                return Totals::decode(Bytes::from_owner(bytes)).map_err(StoreError::Damaged);
            }
        }
        Ok(Totals::default())
    }

    fn write(&self, batch: &WriteBatch, persist: Persist) -> Result<(), StoreError> {
        let mode = match persist {
            Persist::Sync => PersistMode::SyncData,
            Persist::Buffer => PersistMode::Buffer,
        };
        let mut write = fjall::OwnedWriteBatch::with_capacity(self.database.clone(), batch.len())
            .durability(Some(mode));
        for row in batch.rows() {
            let keyspace = self.keyspaces.of(row.table);
            match row.value {
                Some(value) => write.insert(keyspace, row.key, value),
                None => write.remove(keyspace, row.key),
            }
        }
        write.commit().map_err(|error| self.write_error(error))?;
        let totals = batch.get(Table::Counters, rows::TOTALS).flatten();
        if let Some(totals) = totals.and_then(|bytes| Totals::decode(bytes.to_vec().into()).ok()) {
            self.note_last(totals);
        }
        match (&self.home, persist) {
            (Some(home), Persist::Sync) => home.acknowledge(self.last()),
            (Some(home), Persist::Buffer) => home.check_now_and_then(),
            (None, _) => Ok(()),
        }
    }

    /// Returns `true` if a commit would wait for a merge, which no thread does in a lean store.
    fn would_stall(&self) -> bool {
        let stalls = |table: &Keyspace| {
            table.l0_table_count() >= STALLING_TABLES
                || table.sealed_memtable_count() >= STALLING_MEMTABLES
        };
        self.is_lean && self.keyspaces.all().into_iter().any(stalls)
    }

    fn tables(&self) -> u64 {
        self.keyspaces.all().into_iter().map(Keyspace::disk_space).sum()
    }

    /// Returns why a commit or sync failed. After one of its threads could not write a table, fjall
    /// refuses everything without a reason. Mostly the disk is full.
    fn write_error(&self, error: fjall::Error) -> StoreError {
        if matches!(error, fjall::Error::Poisoned) {
            let free = space::free(&self.path);
            if free < self.database.write_buffer_size() + self.tables() + SCARCE {
                let why = format!("no table could be written: {free} bytes are free");
                return StoreError::Full(why);
            }
        }
        error.into()
    }

    /// Flushes the memtable of a keyspace, and waits for that.
    fn write_out(&self, keyspace: &Keyspace) -> Result<(), StoreError> {
        const STEP: Duration = Duration::from_millis(10);
        const STEPS: u32 = 6_000;
        keyspace.rotate_memtable()?;
        for _ in 0..STEPS {
            if keyspace.sealed_memtable_count() == 0 {
                return Ok(());
            }
            if self.home.as_ref().is_some_and(Home::has_failed) {
                // The thread that should flush may have died, and the store can be opened again
                // only after this returns.
                return Err(StoreError::Io("the store failed meanwhile".into()));
            }
            std::thread::sleep(STEP);
        }
        // The thread that should flush has died of an error.
        Err(StoreError::Io(format!("nothing was written out in {:?}", STEP * STEPS)))
    }

    fn mark_failed(&self) {
        if let Some(home) = &self.home {
            home.mark_failed();
        }
    }
}

/// The table of the totals: the index in a store of format 1.
const PLACES_OF_TOTALS: [Table; 2] = [Table::Counters, Table::Index];

/// The keyspaces of the tables.
#[derive(Clone)]
struct Keyspaces {
    jobs: Keyspace,
    index: Keyspace,
    counters: Keyspace,
}

impl Keyspaces {
    fn of(&self, table: Table) -> &Keyspace {
        match table {
            Table::Jobs => &self.jobs,
            Table::Index => &self.index,
            Table::Counters => &self.counters,
        }
    }

    fn all(&self) -> [&Keyspace; 3] {
        Table::ALL.map(|table| self.of(table))
    }
}

fn builder(path: &Path, options: &StoreOptions) -> fjall::DatabaseBuilder<Database> {
    let builder = Database::builder(path)
        .cache_size(options.cache)
        .max_cached_files(Some(options.open_files.max(10)))
        .max_journaling_size(JOURNALS)
        .manual_journal_persist(true);
    // fjall gives up when one of its threads cannot write a table. Without these threads it needs
    // room for its journal only, and keeps the rest in memory.
    if options.lean { builder.worker_threads_unchecked(0) } else { builder }
}

fn keyspace() -> KeyspaceCreateOptions {
    let bits = |bits| FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(bits));
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE)
        .manual_journal_persist(true)
        .filter_policy(FilterPolicy::all(bits(10.0)))
}

fn counters() -> KeyspaceCreateOptions {
    keyspace().max_memtable_size(COUNTERS_MEMTABLE)
}

impl View for EmbeddedStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let keyspace = self.keyspaces.of(table);
        match keyspace.get(key).map_err(StoreError::from) {
            Err(StoreError::Damaged(_)) => only(keyspace.range(key..=key)),
            found => Ok(found?.map(Bytes::from_owner)),
        }
    }

    fn scan<'a>(&'a self, table: Table, from: &[u8], to: &[u8]) -> Rows<'a> {
        if from >= to {
            return Box::new(std::iter::empty());
        }
        Box::new(self.keyspaces.of(table).range(from..to).map(row))
    }
}

/// Returns the value of a key by a scan, which does not use the filters. So a row is found even if
/// only a filter is damaged.
fn only(mut rows: impl Iterator<Item = fjall::Guard>) -> Result<Option<Bytes>, StoreError> {
    Ok(rows.next().map(row).transpose()?.map(|(_, value)| value))
}

fn row(guard: fjall::Guard) -> Result<(Bytes, Bytes), StoreError> {
    let (key, value) = guard.into_inner()?;
    Ok((Bytes::from_owner(key), Bytes::from_owner(value)))
}

impl Store for EmbeddedStore {
    fn id(&self) -> StoreId {
        self.home.as_ref().map_or_else(StoreId::new, Home::id)
    }

    fn left_out(&self) -> LeftOut {
        self.home.as_ref().map_or_else(LeftOut::default, Home::left_out)
    }

    fn needs_repair(&self) -> bool {
        self.home.as_ref().is_some_and(Home::needs_repair)
    }

    fn repaired(&self) -> Result<(), StoreError> {
        self.home.as_ref().map_or(Ok(()), Home::repaired)
    }

    fn check(&self) -> Result<(), StoreError> {
        self.home.as_ref().map_or(Ok(()), Home::check_now_and_then)
    }

    fn explain(&self, error: StoreError) -> StoreError {
        match &self.home {
            Some(home) => inventory::name_tables(home.store(), error),
            None => error,
        }
    }

    fn view(&self) -> Box<dyn View> {
        Box::new(EmbeddedView {
            snapshot: self.database.snapshot(),
            keyspaces: self.keyspaces.clone(),
        })
    }

    fn commit(&self, batch: &WriteBatch, persist: Persist) -> Result<(), StoreError> {
        if self.would_stall() {
            return Err(StoreError::Full("no room to merge the tables".into()));
        }
        self.write(batch, persist).inspect_err(|_| self.mark_failed())
    }

    fn sync(&self) -> Result<(), StoreError> {
        let synced = self.database.persist(PersistMode::SyncData);
        let synced = synced.map_err(|error| self.write_error(error));
        let acknowledge = || match &self.home {
            Some(home) => home.acknowledge(self.last()),
            None => Ok(()),
        };
        synced.and_then(|()| acknowledge()).inspect_err(|_| self.mark_failed())
    }

    fn disk_space(&self) -> Result<u64, StoreError> {
        Ok(space::used(&self.path)? + self.reserve.len())
    }

    fn space(&self) -> Result<Space, StoreError> {
        Ok(Space {
            used: self.disk_space()?,
            tables: self.tables(),
            journal: journal::newest(&self.path)?,
            unwritten: self.database.write_buffer_size(),
            free: if self.would_stall() { 0 } else { space::free(&self.path) },
            reserve: self.reserve.len(),
            wanted_reserve: self.reserve.wanted(),
            is_lean: self.is_lean,
        })
    }

    fn fill_reserve(&self) -> Result<(), StoreError> {
        self.reserve.fill()
    }

    fn compact(&self) -> Result<(), StoreError> {
        for keyspace in self.keyspaces.all() {
            self.write_out(keyspace)?;
            keyspace.major_compact()?;
        }
        // fjall deletes replaced tables when it next flushes a memtable, and it does not flush an
        // empty one.
        let index = &self.keyspaces.index;
        index.insert(rows::NOTHING, [])?;
        index.remove(rows::NOTHING)?;
        self.write_out(index)
    }
}

struct EmbeddedView {
    snapshot: Snapshot,
    keyspaces: Keyspaces,
}

impl View for EmbeddedView {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let keyspace = self.keyspaces.of(table);
        match self.snapshot.get(keyspace, key).map_err(StoreError::from) {
            Err(StoreError::Damaged(_)) => only(self.snapshot.range(keyspace, key..=key)),
            found => Ok(found?.map(Bytes::from_owner)),
        }
    }

    fn scan<'a>(&'a self, table: Table, from: &[u8], to: &[u8]) -> Rows<'a> {
        if from >= to {
            return Box::new(std::iter::empty());
        }
        Box::new(self.snapshot.range(self.keyspaces.of(table), from..to).map(row))
    }
}

impl From<fjall::Error> for StoreError {
    fn from(error: fjall::Error) -> Self {
        use fjall::{Error, LsmError};
        match error {
            Error::Locked => Self::Locked,
            Error::Io(error) | Error::Storage(LsmError::Io(error)) => error.into(),
            Error::Poisoned => Self::Io(
                "an earlier write or sync failed, or tables could not be merged: if this repeats \
                 itself, one may be damaged, and opening with `salvage` helps"
                    .into(),
            ),
            Error::Storage(LsmError::ChecksumMismatch { .. }) => {
                Self::Damaged("a block does not match its checksum".into())
            }
            Error::InvalidVersion(Some(version)) => {
                Self::Damaged(format!("the database has version {version}, which is not 3"))
            }
            Error::InvalidVersion(None) => {
                Self::Damaged("the file `version` of the database is not readable".into())
            }
            other => Self::Damaged(other.to_string()),
        }
    }
}
