//! The store that an owner's queue runs on: commits go through the replica, reads to its disk.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use bytes::Bytes;
use tickwheel_queue::store::{
    Disk, LeftOut, Persist, Rows, Space, Store, StoreError, StoreId, StoreOptions, Table, View,
    WriteBatch,
};

use crate::replica::{Replica, ReplicaError};

/// A replica that a partition and its queue share.
///
/// ```
/// # use std::sync::Arc;
/// # use tickwheel_cluster::{log::SimulatedLog, Machine, Partition, Replica, ReplicaOptions};
/// # use tickwheel_queue::{Queues, store::MemoryDisk};
/// # let (disk, machine) = (Box::new(MemoryDisk::new()), Arc::new(Machine::new()));
/// # let log = Arc::new(SimulatedLog::new(1));
/// # let replica = Replica::new(disk, log, machine, ReplicaOptions::new("a"));
/// # let opener = Box::new(|disk, _| Queues::builder().open_disk(disk));
/// let partition = Partition::new(0, replica, opener);
/// let shared = partition.replica().clone();
/// assert_eq!(shared.lock().owned(), None);
/// ```
#[derive(Clone, Debug)]
pub struct SharedReplica(Arc<Mutex<Replica>>);

impl SharedReplica {
    /// Shares a replica.
    pub fn new(replica: Replica) -> Self {
        Self(Arc::new(Mutex::new(replica)))
    }

    /// Locks the replica. An append that is under way is waited for.
    pub fn lock(&self) -> MutexGuard<'_, Replica> {
        // Poisoning is ignored: a replica that panicked has lost ownership or halts at the log.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the replica, unless it is in use.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Replica>> {
        match self.0.try_lock() {
            Ok(replica) => Some(replica),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The disk of an owner's queue. It can be opened once. A queue that gives its store up, and opens
/// it again, ends ownership by that, and the partition decides what follows.
///
/// ```
/// use tickwheel_cluster::Opener;
/// use tickwheel_queue::Queues;
///
/// let opener: Opener<Queues> = Box::new(|disk, floor| {
///     // Waiting for more callers pays: an append costs milliseconds.
///     let patience = std::time::Duration::from_millis(1);
///     Queues::builder().patience(patience).time_floor(floor).open_disk(disk)
/// });
/// ```
#[derive(Debug)]
pub struct ReplicatedDisk {
    replica: SharedReplica,
    epoch: u64,
    is_opened: AtomicBool,
}

impl ReplicatedDisk {
    /// Returns the disk of the epoch in which the replica is the owner.
    pub(crate) fn new(replica: SharedReplica, epoch: u64) -> Self {
        Self { replica, epoch, is_opened: AtomicBool::new(false) }
    }
}

impl Disk for ReplicatedDisk {
    fn open(&self, _: &StoreOptions) -> Result<Arc<dyn Store>, StoreError> {
        let ended = || StoreError::Io(format!("ownership in epoch {} has ended", self.epoch));
        if self.is_opened.swap(true, Ordering::Relaxed) {
            // A queue also opens its store again when a full disk has room again.
            let mut replica = self.replica.lock();
            if replica.owned() == Some(self.epoch) {
                replica.close_local();
            }
            return Err(ended());
        }
        let replica = self.replica.lock();
        let local = replica.store().filter(|_| replica.owned() == Some(self.epoch));
        let local = local.ok_or_else(ended)?;
        let shared = self.replica.clone();
        Ok(Arc::new(ReplicatedStore { replica: shared, local, epoch: self.epoch }))
    }
}

/// A store whose commits are in the log before they are on the disk.
struct ReplicatedStore {
    replica: SharedReplica,
    local: Arc<dyn Store>,
    epoch: u64,
}

impl ReplicatedStore {
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Replica) -> Result<T, ReplicaError>,
    ) -> Result<T, StoreError> {
        let mut replica = self.replica.lock();
        if replica.owned() != Some(self.epoch) {
            return Err(StoreError::Io(format!("ownership in epoch {} has ended", self.epoch)));
        }
        change(&mut replica).map_err(|error| match error {
            ReplicaError::Local(error) => error,
            error => StoreError::Io(error.to_string()),
        })
    }
}

impl fmt::Debug for ReplicatedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicatedStore").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl View for ReplicatedStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.local.get(table, key)
    }

    fn scan<'a>(&'a self, table: Table, from: &[u8], to: &[u8]) -> Rows<'a> {
        self.local.scan(table, from, to)
    }
}

impl Store for ReplicatedStore {
    fn id(&self) -> StoreId {
        self.local.id()
    }

    fn left_out(&self) -> LeftOut {
        self.local.left_out()
    }

    fn needs_repair(&self) -> bool {
        self.local.needs_repair()
    }

    fn repaired(&self) -> Result<(), StoreError> {
        self.local.repaired()
    }

    fn check(&self) -> Result<(), StoreError> {
        self.local.check()
    }

    fn explain(&self, error: StoreError) -> StoreError {
        self.local.explain(error)
    }

    fn view(&self) -> Box<dyn View> {
        self.local.view()
    }

    fn commit(&self, batch: &WriteBatch, _: Persist) -> Result<(), StoreError> {
        self.change(|replica| replica.commit(batch))
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.change(|replica| replica.sync().map(drop))
    }

    fn disk_space(&self) -> Result<u64, StoreError> {
        self.local.disk_space()
    }

    fn space(&self) -> Result<Space, StoreError> {
        self.local.space()
    }

    fn fill_reserve(&self) -> Result<(), StoreError> {
        self.local.fill_reserve()
    }

    fn compact(&self) -> Result<(), StoreError> {
        self.local.compact()
    }
}
