//! What a replicated store needs to know of the layout.
//!
//! The crate `tickwheel-cluster` wraps a store: it appends each batch to a replicated log before it
//! commits it here. Beyond the traits of this folder it needs keys for rows of its own, one of which
//! is committed with each batch, and one change that no engine makes.

use std::time::Duration;

use super::records::LeaseRow;
use super::tolerant::Tolerant;
use super::{StoreError, Table, View, WriteBatch, rows};

/// The key of the row that says how far a replica has applied the log. It is in [`Table::Index`];
/// the engine neither reads nor writes it.
pub const POSITION_KEY: &[u8] = rows::LOG_POSITION;

/// Returns the key of a row that the nodes of a cluster share beside jobs. It is in
/// [`Table::Index`]; the engine neither reads nor writes it.
pub fn shared_key(name: &str) -> Vec<u8> {
    [&[rows::SHARED], name.as_bytes()].concat()
}

/// Returns the name of a row that nodes share, if the key is one of [`shared_key`].
pub fn shared_name(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.strip_prefix(&[rows::SHARED])?).ok()
}

/// Returns the changes that prolong every lease by this much.
///
/// A new owner applies them before it opens its engine: its workers could not extend their leases
/// while there was no owner, and would all lose their jobs at once. Rows that cannot be read are
/// left alone.
///
/// # Errors
///
/// If the leases cannot be read.
pub fn extend_leases(view: &dyn View, by: Duration) -> Result<WriteBatch, StoreError> {
    let mut batch = WriteBatch::new();
    for row in Tolerant::new(view, Table::Index, &[rows::LEASE], &[rows::LEASE + 1]) {
        let (key, value) = match row {
            Err(StoreError::Damaged(_)) => continue,
            row => row?,
        };
        if let Ok(mut lease) = LeaseRow::decode(value) {
            lease.until = lease.until.after(by);
            batch.put_with(Table::Index, &key, |bytes| lease.encode(bytes));
        }
    }
    Ok(batch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Disk, MemoryDisk, StoreOptions};
    use crate::{NewJob, Queues};

    #[test]
    fn a_lease_lasts_longer_by_the_outage() {
        let disk = MemoryDisk::new();
        let queues = Queues::builder().open_disk(disk.clone()).unwrap();
        let id = queues.put(NewJob::new("mail", "hello")).wait().unwrap().id;
        queues.reserve("mail", 1, Duration::from_secs(60)).wait().unwrap();
        let until = queues.get(id).wait().unwrap().unwrap().leased_until.unwrap();
        drop(queues);

        let store = disk.open(&StoreOptions::default()).unwrap();
        let batch = extend_leases(&*store, Duration::from_millis(1_234)).unwrap();
        assert_eq!(batch.len(), 1);
        store.commit(&batch, crate::store::Persist::Sync).unwrap();
        drop(store);

        let queues = Queues::builder().open_disk(disk).unwrap();
        let extended = queues.get(id).wait().unwrap().unwrap().leased_until.unwrap();
        assert_eq!(extended, until.after(Duration::from_millis(1_234)));
    }
}
