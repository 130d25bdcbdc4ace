//! A disk in memory, which can lose what was not synced and fail on demand.
//!
//! For tests it replaces the machine's disk: after [`MemoryDisk::crash`], only synced rows are
//! left. [`Queues::in_memory`](crate::Queues::in_memory) uses it, too.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::{
    Disk, Persist, Rows, Store, StoreError, StoreId, StoreOptions, Table, View, WriteBatch,
};

type Content = BTreeMap<(Table, Bytes), Bytes>;

/// A disk in memory. Clones are the same disk.
#[derive(Clone)]
pub struct MemoryDisk {
    id: StoreId,
    inner: Arc<Mutex<Inner>>,
}

impl Default for MemoryDisk {
    fn default() -> Self {
        Self { id: StoreId::new(), inner: Arc::default() }
    }
}

#[derive(Default)]
struct Inner {
    live: Arc<Content>,
    /// The rows that survive a crash: `live` without unsynced changes.
    synced: Content,
    unsynced: Vec<((Table, Bytes), Option<Bytes>)>,
    /// Grows with each opening and each crash, which cut off older stores.
    generation: u64,
    opened: bool,
    commits_until_failure: Option<u64>,
    fail_syncs: bool,
    fail_opening: bool,
    commits: u64,
    syncs: u64,
}

impl Inner {
    fn sync(&mut self) {
        for (key, value) in self.unsynced.drain(..) {
            change(&mut self.synced, key, value);
        }
    }

    fn forget_unsynced(&mut self) {
        if !self.unsynced.is_empty() {
            self.unsynced.clear();
            self.live = Arc::new(self.synced.clone());
        }
    }
}

fn change(content: &mut Content, key: (Table, Bytes), value: Option<Bytes>) {
    match value {
        Some(value) => drop(content.insert(key, value)),
        None => drop(content.remove(&key)),
    }
}

impl MemoryDisk {
    /// Creates an empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Simulates a power failure: unsynced rows are lost, and open stores fail from now on.
    pub fn crash(&self) {
        let mut inner = self.lock();
        inner.forget_unsynced();
        inner.generation += 1;
        inner.opened = false;
    }

    /// Makes commits fail after this many more, as on a full disk. With `None` they succeed again.
    pub fn fail_commits_after(&self, commits: Option<u64>) {
        self.lock().commits_until_failure = commits;
    }

    /// Sets whether syncs fail. Rows of a failed sync are lost in a crash.
    pub fn fail_syncs(&self, fail: bool) {
        self.lock().fail_syncs = fail;
    }

    /// Sets whether opening fails.
    pub fn fail_opening(&self, fail: bool) {
        self.lock().fail_opening = fail;
    }

    /// Returns the number of syncs, which group commit keeps far below the number of commands.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// Returns the number of commits.
    pub fn commits(&self) -> u64 {
        self.lock().commits
    }

    /// Changes or removes stored rows without the knowledge of open stores, for tests of damage.
    pub fn tamper(&self, change: impl FnOnce(&mut BTreeMap<(Table, Bytes), Bytes>)) {
        let mut inner = self.lock();
        let mut content = Content::clone(&inner.live);
        change(&mut content);
        inner.synced.clone_from(&content);
        inner.unsynced.clear();
        inner.live = Arc::new(content);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryDisk").field("rows", &self.lock().live.len()).finish_non_exhaustive()
    }
}

impl Disk for MemoryDisk {
    fn open(&self, _: &StoreOptions) -> Result<Arc<dyn Store>, StoreError> {
        let mut inner = self.lock();
        if inner.fail_opening {
            return Err(StoreError::Io("the disk does not answer".into()));
        }
        if inner.opened {
            return Err(StoreError::Locked);
        }
        inner.opened = true;
        inner.generation += 1;
        Ok(Arc::new(MemoryStore { disk: self.clone(), generation: inner.generation }))
    }
}

struct MemoryStore {
    disk: MemoryDisk,
    generation: u64,
}

impl MemoryStore {
    fn lock(&self) -> Result<MutexGuard<'_, Inner>, StoreError> {
        let inner = self.disk.lock();
        if inner.generation == self.generation {
            Ok(inner)
        } else {
            Err(StoreError::Io("the power failed".into()))
        }
    }

    fn fail(&self, inner: &mut Inner, why: &str) -> StoreError {
        // As with a real disk's cache, unsynced rows are lost.
        inner.forget_unsynced();
        inner.generation += 1;
        inner.opened = false;
        debug_assert_ne!(inner.generation, self.generation);
        StoreError::Io(why.into())
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        let mut inner = self.disk.lock();
        if inner.generation == self.generation {
            inner.opened = false;
            // An orderly end leaves nothing in buffers.
            inner.sync();
        }
    }
}

impl View for MemoryStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.lock()?.live.get(&(table, Bytes::copy_from_slice(key))).cloned())
    }

    fn scan<'a>(&'a self, table: Table, from: &[u8], to: &[u8]) -> Rows<'a> {
        match self.lock() {
            Ok(inner) => scan(Arc::clone(&inner.live), table, from, to),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }
}

impl Store for MemoryStore {
    fn id(&self) -> StoreId {
        self.disk.id
    }

    fn view(&self) -> Box<dyn View> {
        Box::new(MemoryView(self.lock().map(|inner| Arc::clone(&inner.live))))
    }

    fn commit(&self, batch: &WriteBatch, persist: Persist) -> Result<(), StoreError> {
        let mut inner = self.lock()?;
        match &mut inner.commits_until_failure {
            Some(0) => return Err(self.fail(&mut inner, "no space left on the disk")),
            Some(left) => *left -= 1,
            None => {}
        }
        for row in batch.rows() {
            let key = (row.table, Bytes::copy_from_slice(row.key));
            let value = row.value.map(Bytes::copy_from_slice);
            change(Arc::make_mut(&mut inner.live), key.clone(), value.clone());
            inner.unsynced.push((key, value));
        }
        inner.commits += 1;
        drop(inner);
        if persist == Persist::Sync { self.sync() } else { Ok(()) }
    }

    fn sync(&self) -> Result<(), StoreError> {
        let mut inner = self.lock()?;
        if inner.fail_syncs {
            return Err(self.fail(&mut inner, "the disk failed to sync"));
        }
        inner.syncs += 1;
        inner.sync();
        Ok(())
    }

    fn disk_space(&self) -> Result<u64, StoreError> {
        let inner = self.lock()?;
        Ok(inner.live.iter().map(|((_, key), value)| (key.len() + value.len()) as u64).sum())
    }

    fn compact(&self) -> Result<(), StoreError> {
        self.lock().map(drop)
    }
}

struct MemoryView(Result<Arc<Content>, StoreError>);

impl View for MemoryView {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let content = self.0.as_ref().map_err(StoreError::clone)?;
        Ok(content.get(&(table, Bytes::copy_from_slice(key))).cloned())
    }

    fn scan<'a>(&'a self, table: Table, from: &[u8], to: &[u8]) -> Rows<'a> {
        match &self.0 {
            Ok(content) => scan(Arc::clone(content), table, from, to),
            Err(error) => Box::new(std::iter::once(Err(error.clone()))),
        }
    }
}

/// Seeks again for each row, so that the iterator can own its data.
fn scan<'a>(content: Arc<Content>, table: Table, from: &[u8], to: &[u8]) -> Rows<'a> {
    let mut next = Bound::Included((table, Bytes::copy_from_slice(from)));
    let end = Bound::Excluded((table, Bytes::copy_from_slice(to)));
    if from >= to {
        return Box::new(std::iter::empty());
    }
    Box::new(std::iter::from_fn(move || {
        let (key, value) = content.range((next.clone(), end.clone())).next()?;
        next = Bound::Excluded(key.clone());
        Some(Ok((key.1.clone(), value.clone())))
    }))
}
