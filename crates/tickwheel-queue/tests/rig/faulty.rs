//! A disk in memory whose commits and scans a test can fail or delay.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use bytes::Bytes;
use tickwheel_queue::store::{
    Disk, MemoryDisk, Persist, Rows, Store, StoreError, StoreId, StoreOptions, Table, View,
    WriteBatch,
};

/// A disk with faults. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultyDisk {
    disk: MemoryDisk,
    faults: Arc<Faults>,
}

#[derive(Debug, Default)]
struct Faults {
    openings: Mutex<Vec<StoreOptions>>,
    failing_commits: AtomicUsize,
    commits_find_it_full: AtomicUsize,
    scans_fail: AtomicBool,
    gate: Mutex<Gate>,
    gate_changed: Condvar,
}

/// A gate that every commit must pass.
#[derive(Debug, Default)]
struct Gate {
    is_closed: bool,
    /// The number of commits that may pass while the gate is closed.
    permits: usize,
    /// The number of commits that wait at the gate.
    waiting: usize,
}

impl FaultyDisk {
    /// Lets the next `commits` commits fail; later ones succeed.
    pub(crate) fn fail_commits(&self, commits: usize) {
        self.faults.failing_commits.store(commits, Ordering::SeqCst);
    }

    /// Lets the next `commits` commits find the disk full.
    pub(crate) fn fill_for(&self, commits: usize) {
        self.faults.commits_find_it_full.store(commits, Ordering::SeqCst);
    }

    /// Sets whether scans by the writer fail.
    pub(crate) fn fail_scans(&self, fail: bool) {
        self.faults.scans_fail.store(fail, Ordering::SeqCst);
    }

    /// Returns the options of each opening.
    pub(crate) fn openings(&self) -> Vec<StoreOptions> {
        self.faults.openings.lock().unwrap().clone()
    }

    /// Closes the gate: commits wait from now on.
    pub(crate) fn close_gate(&self) {
        self.faults.gate.lock().unwrap().is_closed = true;
    }

    pub(crate) fn open_gate(&self) {
        self.faults.gate.lock().unwrap().is_closed = false;
        self.faults.gate_changed.notify_all();
    }

    /// Lets one commit pass.
    pub(crate) fn let_one_pass(&self) {
        self.faults.gate.lock().unwrap().permits += 1;
        self.faults.gate_changed.notify_all();
    }

    /// Waits until a commit waits at the gate.
    pub(crate) fn await_commit(&self) {
        let gate = self.faults.gate.lock().unwrap();
        let stands = |gate: &mut Gate| gate.waiting == 0 || gate.permits > 0;
        drop(self.faults.gate_changed.wait_while(gate, stands).unwrap());
    }
}

impl Faults {
    fn pass(&self) {
        let mut gate = self.gate.lock().unwrap();
        gate.waiting += 1;
        self.gate_changed.notify_all();
        let shut = |gate: &mut Gate| gate.is_closed && gate.permits == 0;
        let mut gate = self.gate_changed.wait_while(gate, shut).unwrap();
        gate.waiting -= 1;
        gate.permits = gate.permits.saturating_sub(1);
    }
}

impl Disk for FaultyDisk {
    fn open(&self, options: &StoreOptions) -> Result<Arc<dyn Store>, StoreError> {
        self.faults.openings.lock().unwrap().push(*options);
        let store = self.disk.open(options)?;
        Ok(Arc::new(FaultyStore { store, faults: Arc::clone(&self.faults) }))
    }
}

struct FaultyStore {
    store: Arc<dyn Store>,
    faults: Arc<Faults>,
}

impl View for FaultyStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.store.get(table, key)
    }

    fn scan<'a>(&'a self, table: Table, from: &[u8], to: &[u8]) -> Rows<'a> {
        if self.faults.scans_fail.load(Ordering::SeqCst) {
            return Box::new(std::iter::once(Err(StoreError::Io("a read failed".into()))));
        }
        self.store.scan(table, from, to)
    }
}

impl Store for FaultyStore {
    fn id(&self) -> StoreId {
        self.store.id()
    }

    fn view(&self) -> Box<dyn View> {
        self.store.view()
    }

    fn commit(&self, batch: &WriteBatch, persist: Persist) -> Result<(), StoreError> {
        self.faults.pass();
        let one_less = |left: usize| left.checked_sub(1);
        let is_one = |commits: &AtomicUsize| {
            commits.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
        };
        if is_one(&self.faults.failing_commits) {
            return Err(StoreError::Io("a write failed".into()));
        }
        if is_one(&self.faults.commits_find_it_full) {
            return Err(StoreError::Full("no space left".into()));
        }
        self.store.commit(batch, persist)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.store.sync()
    }

    fn disk_space(&self) -> Result<u64, StoreError> {
        self.store.disk_space()
    }

    fn compact(&self) -> Result<(), StoreError> {
        self.store.compact()
    }
}
