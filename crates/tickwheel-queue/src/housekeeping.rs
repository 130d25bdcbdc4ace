//! What is looked after beside the commands: how full the disk is, and space of removed rows.
//!
//! A log-structured store gives space back when it merges tables. Under load that happens by
//! itself; after a purge it may never. So when much was removed and the removing has all but
//! stopped, a thread of its own asks the store to compact. What is much is a matter of rows, which
//! scans crawl over, or of bytes, which are estimated by the share of removed rows. While the disk
//! is over its limit nothing can be put, so that merges by itself may never come: then anything
//! that was removed is worth it.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::store::Store;

/// How often the disk is looked at, and how often if it has a limit.
const LOOK: Duration = Duration::from_secs(2);
const LOOK_AT_LIMIT: Duration = Duration::from_millis(100);
/// Removed rows that are worth a compaction.
const ROWS: usize = 100_000;
/// Removed bytes that are, if they are also a good part of what is there.
const BYTES: u64 = 64 << 20;
const SHARE: u64 = 4;
/// Removing has all but stopped when the last look has seen less than one row in so many.
const SLOW: usize = 100;
/// Rows of a job, about.
const ROWS_OF_JOB: u64 = 3;

#[derive(Debug, Default)]
pub(crate) struct Housekeeping {
    limit: u64,
    disk: u64,
    next_look: Option<Instant>,
    /// Rows removed since the last compaction.
    removed: usize,
    /// The same at the last look.
    removed_before: usize,
    compaction: Option<JoinHandle<()>>,
}

impl Housekeeping {
    pub(crate) fn new(limit: u64) -> Self {
        // What was removed before the opening is not known. If the disk is over its limit, that
        // has to be found out.
        Self { limit, removed: usize::from(limit < u64::MAX), ..Self::default() }
    }

    /// Bytes on disk at the last look.
    pub(crate) fn disk(&self) -> u64 {
        self.disk
    }

    /// When to look again. Never, if nothing has changed since the last look.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    /// Rows were removed, or something else was written.
    pub(crate) fn note(&mut self, removed: usize) {
        self.removed += removed;
        let interval = if self.limit == u64::MAX { LOOK } else { LOOK_AT_LIMIT };
        self.next_look.get_or_insert_with(|| crate::time::instant_now() + interval);
    }

    /// Looks, if it is time.
    pub(crate) fn look(&mut self, store: &Arc<dyn Store>, engine: &mut Engine, now: Instant) {
        let is_first = self.disk == 0;
        if !is_first && self.next_look.is_none_or(|next| next > now) {
            return;
        }
        self.next_look = None;
        match store.disk_space() {
            Ok(disk) => {
                self.disk = disk;
                engine.set_disk_full((disk > self.limit).then_some(disk));
            }
            Err(error) => tracing::warn!(%error, "how full the disk is could not be found out"),
        }
        let is_worth_it = self.is_worth_it(engine.jobs());
        if is_worth_it {
            self.maybe_compact(store);
        }
        if is_worth_it || self.disk > self.limit {
            self.next_look = Some(now + LOOK);
        }
    }

    /// Whether a compaction would bring much, given how many jobs there are.
    fn is_worth_it(&self, jobs: u64) -> bool {
        let removed = self.removed as u64;
        let rows = (removed + ROWS_OF_JOB * jobs).max(1);
        let bytes = (u128::from(self.disk) * u128::from(removed) / u128::from(rows)) as u64;
        self.removed >= ROWS
            || (bytes >= BYTES && bytes >= self.disk / SHARE)
            || (self.removed > 0 && self.disk > self.limit)
    }

    fn maybe_compact(&mut self, store: &Arc<dyn Store>) {
        let has_slowed = (self.removed - self.removed_before) * SLOW <= self.removed;
        self.removed_before = self.removed;
        if self.is_compacting() || !has_slowed {
            return;
        }
        self.removed = 0;
        self.removed_before = 0;
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
