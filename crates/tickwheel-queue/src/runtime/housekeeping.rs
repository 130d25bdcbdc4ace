//! Disk space: when puts must be refused, and when to compact.
//!
//! **Room for puts.** A put is written to the journal at once, to a table later, and again when
//! tables are merged. It is refused if the bytes on disk, the bytes that the journal still owes to
//! the tables, and the space for a merge would exceed the limit, or would not fit on the disk
//! together with the reserve. Other changes are accepted, because they free space.
//!
//! **A full disk.** If another program fills the disk, the store is opened again without the
//! threads that write tables: it is *lean*. A lean store needs room for its journal only, and gets
//! the released reserve. When that is used up as well, the store is read-only. It is opened as
//! usual once there is room for tables, or once rows were removed and less has to be written. If
//! that was too early, the next attempt waits longer.
//!
//! **Space of removed rows.** A log-structured store frees the space of removed rows when it merges
//! tables. Under load that happens by itself, but after a bulk removal it may never happen. So once
//! many rows were removed and the removing has almost stopped, a thread asks the store to compact.
//! "Many" is counted in rows, which slow down scans, and in bytes, estimated by the share of
//! removed jobs. While there is no room for puts, any removed row justifies a compaction.
//!
//! The merged tables are written before the old ones are deleted, so a compaction only starts if
//! they fit on the disk. The estimate is wrong if few large jobs were removed among many small
//! ones, or if an earlier process removed them. So while there is no room for puts and the estimate
//! does not fit, a thread reads all rows and counts their bytes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::engine::{Engine, Room};
use crate::model::error::Error;
use crate::store::{Space, Store, StoreError, Table, WriteBatch};

/// How often the disk is checked, without and with a limit.
const LOOK: Duration = Duration::from_secs(2);
const LOOK_AT_LIMIT: Duration = Duration::from_millis(250);
/// Removed rows that justify a compaction.
const ROWS: usize = 100_000;
/// Removed bytes that justify one if they are also a large part of the store.
const BYTES: u64 = 64 << 20;
const SHARE: u64 = 4;
/// Removing has almost stopped when less than one row in this many was removed since the last
/// check.
const SLOW: usize = 100;
/// Bytes that puts leave free for everything that is not counted.
const MARGIN: u64 = 8 << 20;
/// With less room than this for puts, any removed row justifies a compaction.
const LITTLE: u64 = 4 << 20;
/// The approximate space of a merge: some tables of 64 MiB.
const MAX_MERGE: u64 = 256 << 20;
/// The length at which the store begins a new journal, and the initial length of a journal.
const JOURNAL: u64 = 60_000_000;
const NEW_JOURNAL: u64 = 64 << 20;
/// With less than this left, a lean store is read-only: a step of a bulk removal takes up to 4 MiB.
const WRITABLE: u64 = 6 << 20;
/// Freed bytes after which a lean store is opened as usual at once.
const GAIN: u64 = 16 << 20;
/// After every key: the longest run of 255 in a key is the 16 bytes of an id.
const END: [u8; 17] = [u8::MAX; 17];
/// How long a store stays lean after it ran out of space: at first, and at most.
pub(crate) const LEAN: Duration = Duration::from_secs(10);
pub(crate) const MAX_LEAN: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(crate) struct Housekeeping {
    limit: u64,
    opened: Instant,
    /// The space at the last check.
    space: Space,
    has_looked: bool,
    next_look: Option<Instant>,
    /// Whether there was no room for puts at the last check.
    is_full: bool,
    /// The free space of a lean store when it was opened.
    free_at_first: Option<u64>,
    /// When a lean store is opened as usual if rows were removed.
    lean_until: Instant,
    /// Rows removed since the last compaction.
    removed: usize,
    /// Jobs removed since the last compaction.
    removed_jobs: u64,
    /// The value of `removed` at the last check.
    removed_before: usize,
    /// Whether uncounted rows may have been removed, so that a compaction may pay.
    may_have_removed: bool,
    measurement: Option<Measurement>,
    /// The thread that compacts or measures.
    thread: Option<JoinHandle<()>>,
}

/// A count of the bytes that the tables would have after a compaction.
#[derive(Debug)]
struct Measurement {
    /// Rows that were removed before it began. The bytes are known for as long as no more are.
    removed: usize,
    count: Arc<Count>,
}

#[derive(Debug, Default)]
struct Count {
    bytes: OnceLock<u64>,
    is_stopped: AtomicBool,
}

impl Count {
    /// Reads all rows; returns `None` if it was stopped.
    fn of(&self, store: &dyn Store) -> Result<Option<u64>, StoreError> {
        let mut sum = 0;
        for table in Table::ALL {
            for row in store.scan(table, &[], &END) {
                if self.is_stopped.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                let (key, value) = row?;
                sum += (key.len() + value.len()) as u64;
            }
        }
        Ok(Some(sum))
    }
}

impl Housekeeping {
    /// Creates the housekeeping of a store that was just opened. If it is lean, it stays so for
    /// `lean`.
    pub(crate) fn new(limit: u64, now: Instant, lean: Duration) -> Self {
        Self {
            limit,
            opened: now,
            space: Space::default(),
            has_looked: false,
            next_look: None,
            is_full: false,
            free_at_first: None,
            lean_until: now + lean,
            removed: 0,
            removed_jobs: 0,
            removed_before: 0,
            may_have_removed: true,
            measurement: None,
            thread: None,
        }
    }

    /// Returns the bytes on disk at the last check.
    pub(crate) fn disk(&self) -> u64 {
        self.space.used
    }

    /// Bytes that the file system had left at the last look; `None` if there is no end.
    pub(crate) fn free(&self) -> Option<u64> {
        Some(self.space.free).filter(|free| *free < u64::MAX)
    }

    /// Returns when the next check is due, or `None` if nothing has changed since the last one.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    /// Notes that a batch is written.
    pub(crate) fn note(&mut self, batch: &WriteBatch) {
        self.removed += batch.removals();
        self.removed_jobs += batch.removals_from(Table::Jobs) as u64;
        let interval = if self.limit == u64::MAX { LOOK } else { LOOK_AT_LIMIT };
        self.next_look.get_or_insert_with(|| crate::model::time::instant_now() + interval);
    }

    /// Checks the disk if a check is due.
    pub(crate) fn look(&mut self, store: &Arc<dyn Store>, engine: &mut Engine, now: Instant) {
        if self.has_looked && self.next_look.is_none_or(|next| next > now) {
            return;
        }
        self.has_looked = true;
        self.next_look = None;
        match store.space() {
            Ok(space) => self.space = space,
            Err(error) => tracing::warn!(%error, "how full the disk is could not be found out"),
        }
        let room = self.room();
        self.is_full = room.left() < LITTLE.min(self.limit / 16);
        engine.set_room(room);
        if self.space.is_lean {
            self.free_at_first.get_or_insert(self.space.free);
            self.next_look = Some(now + LOOK);
            return;
        }
        let jobs = engine.jobs();
        let is_worth_it = self.is_worth_it(jobs);
        if is_worth_it {
            self.maybe_compact(store, jobs);
        }
        if is_worth_it || self.is_full || !self.has_reserve(store) {
            self.next_look = Some(now + LOOK);
        }
    }

    /// Returns the bytes that the store will still write for what it has accepted.
    fn coming(&self) -> u64 {
        self.space.unwritten + self.space.tables.min(MAX_MERGE)
    }

    /// Returns the bytes that may be put until the next check.
    fn room(&self) -> Room {
        let space = &self.space;
        let missing = space.wanted_reserve.saturating_sub(space.reserve);
        let by_disk = Room::on_disk(space.free, self.coming() + missing + MARGIN);
        if space.is_lean {
            return by_disk.at_most(0);
        }
        if self.limit == u64::MAX {
            return by_disk;
        }
        let taken = space.used + missing + self.coming();
        let before_new_journal =
            Room::below(self.limit, taken).at_most(JOURNAL.saturating_sub(space.journal));
        let with_new_journal = Room::below(self.limit, taken + NEW_JOURNAL);
        if with_new_journal.left() > before_new_journal.left() {
            with_new_journal.min(by_disk)
        } else {
            before_new_journal.min(by_disk)
        }
    }

    /// Returns how long ago the store was opened.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.opened)
    }

    /// Returns the error for a full disk.
    pub(crate) fn full(&self) -> Error {
        let free = self.space.free;
        Error::DiskFull { free, needed: (self.coming() + MARGIN).max(free.saturating_add(1)) }
    }

    /// Refuses every change to a lean store that has no room left for its journal.
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        let free = self.space.free;
        if self.space.is_lean && free < WRITABLE {
            return Err(Error::DiskFull { free, needed: WRITABLE });
        }
        Ok(())
    }

    /// Returns `true` if a lean store should be opened as usual.
    pub(crate) fn wants_opening(&self, engine: &Engine, now: Instant) -> bool {
        let space = &self.space;
        let owed = self.live(space.unwritten, engine.jobs());
        let is_freed = self.free_at_first.is_some_and(|first| space.free >= first + GAIN);
        let is_due = self.removed > 0 && now >= self.lean_until;
        space.is_lean && space.free >= owed + 2 * MARGIN && (is_freed || is_due)
    }

    /// Returns `true` if the reserve exists or could be created just now.
    fn has_reserve(&self, store: &Arc<dyn Store>) -> bool {
        let space = &self.space;
        if space.reserve >= space.wanted_reserve {
            return true;
        }
        if space.free < space.wanted_reserve + space.unwritten + 2 * MARGIN {
            return false;
        }
        match store.fill_reserve() {
            Ok(()) => tracing::info!(bytes = space.wanted_reserve, "the reserve is there again"),
            Err(error) => tracing::warn!(%error, "the reserve could not be made again"),
        }
        false
    }

    /// Estimates the part of `bytes` that belongs to live jobs, given the number of jobs. Nearly all
    /// bytes are in the records of jobs.
    fn live(&self, bytes: u64, jobs: u64) -> u64 {
        (u128::from(bytes) * u128::from(jobs) / u128::from((self.removed_jobs + jobs).max(1)))
            as u64
    }

    /// The bytes that were counted, if no row was removed since.
    fn measured(&self) -> Option<u64> {
        let measurement = self.measurement.as_ref().filter(|it| it.removed == self.removed)?;
        measurement.count.bytes.get().copied()
    }

    /// Returns `true` if merged tables of this size fit beside the tables that they replace.
    fn fits(&self, bytes: u64) -> bool {
        let coming = self.space.unwritten + bytes;
        self.space.free >= coming + MARGIN && self.space.used + coming <= self.limit
    }

    /// Returns `true` if a compaction would free enough, given the number of jobs.
    fn is_worth_it(&self, jobs: u64) -> bool {
        let bytes = self.space.used - self.live(self.space.used, jobs);
        self.removed >= ROWS
            || (self.removed > 0 && bytes >= BYTES && bytes >= self.space.used / SHARE)
            || ((self.removed > 0 || self.may_have_removed) && self.is_full)
    }

    fn maybe_compact(&mut self, store: &Arc<dyn Store>, jobs: u64) {
        let has_slowed = (self.removed - self.removed_before) * SLOW <= self.removed;
        self.removed_before = self.removed;
        if self.is_compacting() || !has_slowed {
            return;
        }
        let (measured, estimate) = (self.measured(), self.live(self.space.tables, jobs));
        if self.fits(measured.map_or(estimate, |measured| measured.min(estimate))) {
            self.compact(store);
        } else if self.is_full && measured.is_none() {
            self.measure(store);
        }
    }

    fn compact(&mut self, store: &Arc<dyn Store>) {
        self.removed = 0;
        self.removed_jobs = 0;
        self.removed_before = 0;
        self.may_have_removed = false;
        self.measurement = None;
        let store = Arc::clone(store);
        self.start("tickwheel-compact", move || {
            if let Err(error) = store.compact() {
                tracing::error!(%error, "compaction failed");
            }
        });
    }

    /// Counts the bytes of all rows. The next look compacts if they fit.
    fn measure(&mut self, store: &Arc<dyn Store>) {
        let count = Arc::<Count>::default();
        self.measurement = Some(Measurement { removed: self.removed, count: Arc::clone(&count) });
        let store = Arc::clone(store);
        self.start("tickwheel-measure", move || match count.of(&*store) {
            Ok(Some(bytes)) => {
                tracing::info!(bytes, "the rows in the tables were counted, as the disk is full");
                let _ = count.bytes.set(bytes);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::error!(%error, "the rows could not be counted");
                // What cannot be read cannot be merged.
                let _ = count.bytes.set(u64::MAX);
            }
        });
    }

    fn start(&mut self, name: &str, work: impl FnOnce() + Send + 'static) {
        match std::thread::Builder::new().name(name.into()).spawn(work) {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => tracing::warn!(%error, name, "a thread could not be started"),
        }
    }

    /// Returns `true` while a thread holds the store.
    pub(crate) fn is_compacting(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends a measurement early: the store failed or is being closed.
    pub(crate) fn stop_measuring(&self) {
        if let Some(measurement) = &self.measurement {
            measurement.count.is_stopped.store(true, Ordering::Relaxed);
        }
    }

    #[cfg(test)]
    pub(crate) fn set_compaction(&mut self, thread: JoinHandle<()>) {
        self.thread = Some(thread);
    }

    /// Waits for a running compaction.
    pub(crate) fn finish(&mut self) {
        self.stop_measuring();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
