//! Upgrading a directory of format 1 in place.
//!
//! Format 1 has totals and counts in the index; format 2 has a table for them. All other rows stay
//! unchanged: a record has the version of its layout, and older versions stay readable.
//!
//! | step | what a crash after it leaves |
//! |---|---|
//! | check the directory | a directory of format 1 |
//! | write `FORMAT` with format 2 and the line `upgrade from 1` | an upgrade that the next opening continues; earlier versions refuse it |
//! | create the table of counters | the same |
//! | move totals and counts in one synced batch | the same; there is nothing left to move |
//! | write `FORMAT` without that line | a directory of format 2 |

use super::embedded::EmbeddedStore;
use super::records::Totals;
use super::{Persist, Store, StoreError, Table, View, WriteBatch, rows};

/// Moves the rows that format 2 has in another table. Does nothing the second time.
pub(super) fn move_counters(store: &EmbeddedStore) -> Result<(), StoreError> {
    let mut batch = WriteBatch::new();
    for row in store.scan(Table::Index, &[rows::COUNTS], &[rows::COUNTS + 1]) {
        let (key, counts) = row?;
        batch.put(Table::Counters, &key, &counts);
        batch.remove(Table::Index, &key);
    }
    if let Some(totals) = store.get(Table::Index, rows::TOTALS)? {
        let totals = Totals::decode(totals).map_err(StoreError::Damaged)?;
        let totals = Totals { commit: totals.commit + 1, ..totals };
        batch.put_with(Table::Counters, rows::TOTALS, |bytes| totals.encode(bytes));
        batch.remove(Table::Index, rows::TOTALS);
    }
    if batch.is_empty() { Ok(()) } else { store.commit(&batch, Persist::Sync) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::format::{self, Format, Known, StoreId};
    use super::super::{Directory, Disk, StoreOptions};
    use super::*;

    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let target = to.join(path.file_name().unwrap());
            if path.is_dir() { copy(&path, &target) } else { drop(std::fs::copy(&path, &target)) }
        }
    }

    /// Returns the rows of a store, except those that the upgrade moves.
    fn others(store: &dyn View) -> Vec<(bytes::Bytes, bytes::Bytes)> {
        let kept = |row: &(bytes::Bytes, bytes::Bytes)| ![0, rows::COUNTS].contains(&row.0[0]);
        let rows = store.scan(Table::Index, &[], &[u8::MAX]).map(Result::unwrap).filter(kept);
        rows.chain(store.scan(Table::Jobs, &[], &[u8::MAX]).map(Result::unwrap)).collect()
    }

    fn counters(store: &dyn View, table: Table) -> (Option<u64>, usize) {
        let totals = store.get(table, rows::TOTALS).unwrap();
        let counts = store.scan(table, &[rows::COUNTS], &[rows::COUNTS + 1]).count();
        (totals.map(|totals| Totals::decode(totals).unwrap().commit), counts)
    }

    #[test]
    fn an_upgrade_that_ends_after_any_step_is_continued() {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
        let options = StoreOptions::default();
        for steps in 0..=4 {
            let folder = tempfile::tempdir().unwrap();
            copy(&fixture, folder.path());
            let (id, path) = (StoreId::new(), folder.path().join("store"));
            if steps >= 1 {
                format::write_upgrading(folder.path(), id).unwrap();
            }
            if steps >= 2 {
                drop(EmbeddedStore::open_to_upgrade(&path, &options).unwrap());
            }
            if steps >= 3 {
                move_counters(&EmbeddedStore::open_to_upgrade(&path, &options).unwrap()).unwrap();
            }
            if steps >= 4 {
                format::write(folder.path(), id).unwrap();
            }
            let expected = {
                let copied = tempfile::tempdir().unwrap();
                copy(&fixture, copied.path());
                let path = copied.path().join("store");
                let store = EmbeddedStore::open_to_upgrade(&path, &options).unwrap();
                let (commit, queues) = counters(&store, Table::Index);
                (others(&store), (commit.map(|commit| commit + 1), queues))
            };
            let disk = Directory::new(folder.path());
            for _ in 0..2 {
                let store = disk.open(&options).unwrap();
                let found = (others(&*store), counters(&*store, Table::Counters));
                assert_eq!(found, expected, "after {steps} steps");
                assert_eq!(counters(&*store, Table::Index), (None, 0));
                let known = format::read(folder.path());
                let id = store.id();
                assert_eq!(known, Ok(Format::Known(Known { id: Some(id), upgrades: false })));
            }
        }
    }

    #[test]
    fn counters_that_are_missing_without_an_upgrade_are_damage() {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
        let folder = tempfile::tempdir().unwrap();
        copy(&fixture, folder.path());
        format::write(folder.path(), StoreId::new()).unwrap();
        let error = Directory::new(folder.path()).open(&StoreOptions::default()).err();
        assert!(matches!(error, Some(StoreError::Damaged(_))), "{error:?}");
    }
}
