//! Seeding: a replica that is too far behind gets all rows from another replica.
//!
//! The source is a view of the other replica's store, so its owner keeps working. Rows come in
//! chunks. The target first replaces its position by a mark, so that a seeding that does not end is
//! noticed, and stores the source's position last. From there it reads the log; the first record
//! that it reads names the hash of the position's record, so a seed of another log is refused.

use tickwheel_queue::store::replication::POSITION_KEY;
use tickwheel_queue::store::{Persist, Store, StoreError, Table, View, WriteBatch};

use crate::position::Applied;
use crate::record::{decode_rows, encode_rows};
use crate::replica::{Replica, ReplicaError};

/// Bytes of rows in a chunk, about.
const CHUNK_BYTES: usize = 1 << 20;
/// After all keys of a table.
const LAST_KEY: [u8; 64] = [u8::MAX; 64];

/// The rows of a store in chunks, for [`Replica::seed`].
///
/// ```
/// use tickwheel_cluster::SeedChunks;
/// use tickwheel_queue::store::{Disk, MemoryDisk, StoreOptions};
///
/// let store = MemoryDisk::new().open(&StoreOptions::default())?;
/// assert_eq!(SeedChunks::new(store.view()).count(), 0);
/// # Ok::<(), tickwheel_queue::store::StoreError>(())
/// ```
pub struct SeedChunks {
    view: Box<dyn View>,
    table: usize,
    from: Vec<u8>,
}

impl std::fmt::Debug for SeedChunks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SeedChunks").field("table", &self.table).finish_non_exhaustive()
    }
}

impl SeedChunks {
    /// Returns all rows of a view in chunks of about 1 MiB.
    pub fn new(view: Box<dyn View>) -> Self {
        Self { view, table: 0, from: Vec::new() }
    }
}

impl Iterator for SeedChunks {
    type Item = Result<Vec<u8>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batch = WriteBatch::new();
        while let Some(&table) = Table::ALL.get(self.table) {
            for row in self.view.scan(table, &self.from, &LAST_KEY) {
                let (key, value) = match row {
                    Ok(row) => row,
                    Err(error) => return Some(Err(error)),
                };
                batch.put(table, &key, &value);
                if batch.bytes() >= CHUNK_BYTES {
                    self.from = key.to_vec();
                    self.from.push(0);
                    return Some(Ok(encode_rows(&batch)));
                }
            }
            self.table += 1;
            self.from.clear();
        }
        (!batch.is_empty()).then(|| Ok(encode_rows(&batch)))
    }
}

impl Replica {
    /// Replaces everything in the local store by the rows of another replica.
    ///
    /// # Errors
    ///
    /// If a chunk could not be fetched or the local store failed. The replica then has to be seeded
    /// again.
    pub fn seed<E: std::fmt::Display>(
        &mut self,
        chunks: impl IntoIterator<Item = Result<Vec<u8>, E>>,
    ) -> Result<(), ReplicaError> {
        let store = self.store_to_seed()?;
        mark(&*store)?;
        wipe(&*store)?;
        let mut position = None;
        for chunk in chunks {
            let broken = |why: String| ReplicaError::NeedsSeed(why);
            let chunk = chunk.map_err(|error| broken(error.to_string()))?;
            let rows = decode_rows(&chunk).map_err(|error| broken(error.to_string()))?;
            let mut batch = WriteBatch::new();
            for row in rows.rows() {
                let value = row.value.unwrap_or_default();
                if (row.table, row.key) == (Table::Index, POSITION_KEY) {
                    position = Some(value.to_vec());
                } else {
                    batch.put(row.table, row.key, value);
                }
            }
            store.commit(&batch, Persist::Buffer)?;
        }
        let position = position
            .ok_or_else(|| ReplicaError::NeedsSeed("the seed ended without a position".into()))?;
        store.sync()?;
        let mut batch = WriteBatch::new();
        batch.put(Table::Index, POSITION_KEY, &position);
        store.commit(&batch, Persist::Sync)?;
        drop(store);
        self.seeded()
    }
}

fn mark(store: &dyn Store) -> Result<(), StoreError> {
    let mut batch = WriteBatch::new();
    batch.put(Table::Index, POSITION_KEY, Applied::seeding());
    store.commit(&batch, Persist::Sync)
}

/// Removes all rows but the position.
fn wipe(store: &dyn Store) -> Result<(), StoreError> {
    let view = store.view();
    let mut batch = WriteBatch::new();
    for table in Table::ALL {
        for row in view.scan(table, &[], &LAST_KEY) {
            let (key, _) = row?;
            if (table, &key[..]) != (Table::Index, POSITION_KEY) {
                batch.remove(table, &key);
            }
            if batch.bytes() >= CHUNK_BYTES {
                store.commit(&batch, Persist::Buffer)?;
                batch.clear();
            }
        }
    }
    store.commit(&batch, Persist::Buffer)
}
