//! What is looked after beside the commands: how full the disk is, and space of removed rows.
//!
//! **Room for puts.** What is put is written to the journal at once, to a table later, and again
//! when tables are merged. So a put is refused when what is on disk, what the journal still owes to
//! the tables, and what merging may take would be over the limit, or would not fit on the disk
//! together with the reserve. Everything else is taken: it is how a disk becomes empty again.
//!
//! **A full disk.** When the disk is full all the same, because something else filled it, the
//! store is opened again without the threads that write tables ("lean"). It then needs room for its
//! journal only, and has what the reserve has released. When that is used up as well, the store is
//! only read. Once there is room to write tables, or rows were removed so that less has to be
//! written, it is opened as usual; if that was too early, it is tried again later and later.
//!
//! **Space of removed rows.** A log-structured store gives space back when it merges tables. Under
//! load that happens by itself; after a purge it may never. So when much was removed and the
//! removing has all but stopped, a thread of its own asks the store to compact. What is much is a
//! matter of rows, which scans crawl over, or of bytes, which are estimated by the share of removed
//! rows. While there is no room for puts, anything that was removed is worth it.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::engine::{Engine, Room};
use crate::model::error::Error;
use crate::store::{Space, Store};

/// How often the disk is looked at, and how often if it has a limit.
const LOOK: Duration = Duration::from_secs(2);
const LOOK_AT_LIMIT: Duration = Duration::from_millis(250);
/// Removed rows that are worth a compaction.
const ROWS: usize = 100_000;
/// Removed bytes that are, if they are also a good part of what is there.
const BYTES: u64 = 64 << 20;
const SHARE: u64 = 4;
/// Removing has all but stopped when the last look has seen less than one row in so many.
const SLOW: usize = 100;
/// Rows of a job, about.
const ROWS_OF_JOB: u64 = 3;
/// Bytes that puts leave free, for everything that is not counted.
const MARGIN: u64 = 8 << 20;
/// With less room than this for puts, space of removed rows is worth a compaction.
const LITTLE: u64 = 4 << 20;
/// The most that merging takes at a time, about: some tables of 64 MiB.
const MAX_MERGE: u64 = 256 << 20;
/// Where the store begins a new journal, and how long that is from the beginning.
const JOURNAL: u64 = 60_000_000;
const NEW_JOURNAL: u64 = 64 << 20;
/// With less than this left a lean store is only read: a step of a purge takes up to 4 MiB.
const WRITABLE: u64 = 6 << 20;
/// Bytes that have to be freed for a lean store to be opened as usual at once.
const GAIN: u64 = 16 << 20;
/// How long a store stays lean after it ran out of space, at first and at most.
pub(crate) const LEAN: Duration = Duration::from_secs(10);
pub(crate) const MAX_LEAN: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(crate) struct Housekeeping {
    limit: u64,
    opened: Instant,
    /// What was found at the last look.
    space: Space,
    has_looked: bool,
    next_look: Option<Instant>,
    /// Whether there was no room for puts.
    is_full: bool,
    /// What a lean store had left at first.
    free_at_first: Option<u64>,
    /// When a lean store is opened as usual if rows were removed.
    lean_until: Instant,
    /// Rows removed since the last compaction.
    removed: usize,
    /// The same at the last look.
    removed_before: usize,
    /// Set if rows may have been removed that were not counted, so that a compaction may pay.
    may_have_removed: bool,
    compaction: Option<JoinHandle<()>>,
}

impl Housekeeping {
    /// Housekeeping for a store that was opened now and stays lean for this long, if it is.
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
            removed_before: 0,
            may_have_removed: true,
            compaction: None,
        }
    }

    /// Bytes on disk at the last look.
    pub(crate) fn disk(&self) -> u64 {
        self.space.used
    }

    /// When to look again. Never, if nothing has changed since the last look.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    /// Rows were removed, or something else was written.
    pub(crate) fn note(&mut self, removed: usize) {
        self.removed += removed;
        let interval = if self.limit == u64::MAX { LOOK } else { LOOK_AT_LIMIT };
        self.next_look.get_or_insert_with(|| crate::model::time::instant_now() + interval);
    }

    /// Looks, if it is time.
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
        if is_worth_it && self.fits(self.live(self.space.tables, jobs)) {
            self.maybe_compact(store);
        }
        if is_worth_it || self.is_full || !self.has_reserve(store) {
            self.next_look = Some(now + LOOK);
        }
    }

    /// What the store will write without being told to.
    fn coming(&self) -> u64 {
        self.space.unwritten + self.space.tables.min(MAX_MERGE)
    }

    /// What may be put until the next look.
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

    /// How long ago the store was opened.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.opened)
    }

    /// That the disk is full.
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

    /// Whether a lean store should be opened as usual.
    pub(crate) fn wants_opening(&self, engine: &Engine, now: Instant) -> bool {
        let space = &self.space;
        let owed = self.live(space.unwritten, engine.jobs());
        let is_freed = self.free_at_first.is_some_and(|first| space.free >= first + GAIN);
        let is_due = self.removed > 0 && now >= self.lean_until;
        space.is_lean && space.free >= owed + 2 * MARGIN && (is_freed || is_due)
    }

    /// Whether the reserve is there, or could be made just now.
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

    /// How much of some bytes belongs to jobs that are still there, given how many jobs there are.
    fn live(&self, bytes: u64, jobs: u64) -> u64 {
        let (removed, live) = (self.removed as u64, ROWS_OF_JOB * jobs);
        (u128::from(bytes) * u128::from(live) / u128::from((removed + live).max(1))) as u64
    }

    /// Returns `true` if merged tables of this size fit beside the tables that they replace.
    fn fits(&self, bytes: u64) -> bool {
        let coming = self.space.unwritten + bytes;
        self.space.free >= coming + MARGIN && self.space.used + coming <= self.limit
    }

    /// Whether a compaction would bring much, given how many jobs there are.
    fn is_worth_it(&self, jobs: u64) -> bool {
        let bytes = self.space.used - self.live(self.space.used, jobs);
        self.removed >= ROWS
            || (self.removed > 0 && bytes >= BYTES && bytes >= self.space.used / SHARE)
            || ((self.removed > 0 || self.may_have_removed) && self.is_full)
    }

    fn maybe_compact(&mut self, store: &Arc<dyn Store>) {
        let has_slowed = (self.removed - self.removed_before) * SLOW <= self.removed;
        self.removed_before = self.removed;
        if self.is_compacting() || !has_slowed {
            return;
        }
        self.removed = 0;
        self.removed_before = 0;
        self.may_have_removed = false;
        let store = Arc::clone(store);
        let thread = std::thread::Builder::new().name("tickwheel-compact".into());
        let started = thread.spawn(move || {
            if let Err(error) = store.compact() {
                tracing::error!(%error, "compaction failed");
            }
        });
        match started {
            Ok(thread) => self.compaction = Some(thread),
            Err(error) => tracing::warn!(%error, "no thread for a compaction"),
        }
    }

    pub(crate) fn is_compacting(&self) -> bool {
        self.compaction.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    #[cfg(test)]
    pub(crate) fn set_compaction(&mut self, thread: JoinHandle<()>) {
        self.compaction = Some(thread);
    }

    /// Waits for a compaction that is going on.
    pub(crate) fn finish(&mut self) {
        if let Some(thread) = self.compaction.take() {
            drop(thread.join());
        }
    }
}
