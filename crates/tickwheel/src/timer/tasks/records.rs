//! The records of a shard that have not ended, and the index that finds one by its key.
//!
//! Memory is added in segments and the index grows in steps, so no call takes long with millions of
//! records.
//!
//! Ground rule: a record with a key is in the index exactly while it is in the pool.

use std::sync::Arc;

use crate::timer::Key;
use crate::timer::tasks::record::Record;
use crate::wheel::hash_index::HashIndex;
use crate::wheel::pool::Pool;

/// An empty list with no more memory than this keeps it.
const KEPT_BYTES: usize = 16 << 10;

pub(crate) struct Records {
    pool: Pool<Arc<Record>>,
    by_key: HashIndex,
}

impl Records {
    pub(crate) fn new() -> Self {
        Self { pool: Pool::new(), by_key: HashIndex::new() }
    }

    /// Adds a record. No other record may have its key.
    pub(crate) fn insert(&mut self, record: &Arc<Record>) {
        let number = self.pool.insert(Arc::clone(record));
        record.set_number(number);
        if record.key.is_some() {
            self.by_key.insert(record.hash, number);
        }
    }

    /// Removes a record. Does nothing if it was removed before, or if `stop` has taken all records.
    pub(crate) fn remove(&mut self, record: &Arc<Record>) {
        let number = record.number();
        if !self.pool.get(number).is_some_and(|other| Arc::ptr_eq(other, record)) {
            return;
        }
        // The caller's reference keeps the closure alive: it must not be dropped under the lock.
        self.pool.remove(number);
        if record.key.is_some() {
            self.by_key.remove(record.hash, number);
        }
        if self.pool.len() == 0 && self.memory_usage() > KEPT_BYTES {
            *self = Self::new();
        }
    }

    /// Finds the record with a key. `hash` is the key's hash.
    #[inline]
    pub(crate) fn find(&self, key: &Key, hash: u32) -> Option<&Arc<Record>> {
        if self.pool.len() == 0 {
            return None;
        }
        let has_key = |number| self.pool[number].key.as_ref() == Some(key);
        self.by_key.find(hash, has_key).map(|number| &self.pool[number])
    }

    /// Returns the last place before `number` in which a record may be. With this, all records can be
    /// visited in steps, from the last to the first, while others are added and removed.
    pub(crate) fn place_before(&self, number: u32) -> Option<u32> {
        self.pool.place_before(number)
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Arc<Record>> {
        self.pool.get(number)
    }

    /// Returns the bytes allocated for the records and the index.
    pub(crate) fn memory_usage(&self) -> usize {
        // An `Arc` has two reference counts beside its value.
        let record = size_of::<Record>() + 2 * size_of::<usize>();
        self.pool.memory_usage() + self.by_key.memory_usage() + self.pool.len() * record
    }
}
