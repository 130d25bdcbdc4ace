//! What is looked after beside the commands: how full the disk is, and space of removed rows.
//!
//! A log-structured store gives space back when it merges tables. Under load that happens by
//! itself; after a purge it may never. So when much was removed and the removing has stopped, a
//! thread of its own asks the store to compact.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::store::Store;

/// How often the disk is looked at, and how often if it has a limit.
const LOOK: Duration = Duration::from_secs(2);
const LOOK_AT_LIMIT: Duration = Duration::from_millis(100);
/// Removed rows that are worth a compaction.
const WORTH_IT: usize = 100_000;

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
        Self { limit, ..Self::default() }
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
        self.maybe_compact(store);
        let is_over = self.disk > self.limit;
        if is_over || self.removed >= WORTH_IT {
            self.next_look = Some(now + LOOK);
        }
    }

    fn maybe_compact(&mut self, store: &Arc<dyn Store>) {
        let is_running = self.compaction.as_ref().is_some_and(|thread| !thread.is_finished());
        let has_stopped = self.removed == self.removed_before;
        self.removed_before = self.removed;
        if is_running || self.removed < WORTH_IT || !has_stopped {
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

    /// Waits for a compaction that is going on.
    pub(crate) fn finish(&mut self) {
        if let Some(thread) = self.compaction.take() {
            drop(thread.join());
        }
    }
}
