//! Changes that are applied together.
//!
//! All keys and values are in one buffer, which the next batch reuses, so a row needs no allocation.
//! The batch knows the last row of each key. So a command sees the changes of earlier commands of the
//! same group commit, and a key that changed several times is written once.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use super::Table;

/// Changes that are applied together; see [`Store::commit`](super::Store::commit).
#[derive(Debug, Default)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    rows: Vec<Entry>,
    /// The last row whose key has this hash.
    latest: HashMap<u64, u32, BuildHasherDefault<Spread>>,
    removals: [usize; Table::ALL.len()],
    superseded: usize,
}

#[derive(Debug)]
struct Entry {
    table: Table,
    key: Range<usize>,
    value: Option<Range<usize>>,
    superseded: bool,
}

/// A row of a batch: a value for a key, or its removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The table.
    pub table: Table,
    /// The key.
    pub key: &'a [u8],
    /// The new value; `None` if the row is removed.
    pub value: Option<&'a [u8]>,
}

impl WriteBatch {
    /// Returns an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the value of a key.
    pub fn put(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.put_with(table, key, |bytes| bytes.extend_from_slice(value));
    }

    /// Sets the value of a key to what `write` appends to the buffer.
    pub(crate) fn put_with(&mut self, table: Table, key: &[u8], value: impl FnOnce(&mut Vec<u8>)) {
        let key = self.push_key(table, key);
        let start = self.bytes.len();
        value(&mut self.bytes);
        let value = Some(start..self.bytes.len());
        self.rows.push(Entry { table, key, value, superseded: false });
    }

    /// Removes a key.
    pub fn remove(&mut self, table: Table, key: &[u8]) {
        let key = self.push_key(table, key);
        self.removals[table as usize] += 1;
        self.rows.push(Entry { table, key, value: None, superseded: false });
    }

    fn push_key(&mut self, table: Table, key: &[u8]) -> Range<usize> {
        let last = self.latest.insert(hash(table, key), self.rows.len() as u32);
        if let Some(older) = last.and_then(|last| self.find_up_to(last, table, key)) {
            self.rows[older].superseded = true;
            self.superseded += 1;
            self.removals[table as usize] -= usize::from(self.rows[older].value.is_none());
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        start..self.bytes.len()
    }

    /// Returns the change of a key: `None` if there is none, `Some(None)` if the key is removed.
    pub fn get(&self, table: Table, key: &[u8]) -> Option<Option<&[u8]>> {
        let row = &self.rows[self.find(table, key)?];
        Some(row.value.clone().map(|value| &self.bytes[value]))
    }

    fn find(&self, table: Table, key: &[u8]) -> Option<usize> {
        self.find_up_to(*self.latest.get(&hash(table, key))?, table, key)
    }

    /// Returns the last row of a key.
    fn find_up_to(&self, last: u32, table: Table, key: &[u8]) -> Option<usize> {
        let is_it = |row: &Entry| row.table == table && self.bytes[row.key.clone()] == *key;
        let last = last as usize;
        if is_it(&self.rows[last]) {
            return Some(last);
        }
        // Another key has the same hash.
        self.rows[..last].iter().rposition(is_it)
    }

    /// Returns each changed key once, with its last change.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().filter(|row| !row.superseded).map(|row| Row {
            table: row.table,
            key: &self.bytes[row.key.clone()],
            value: row.value.clone().map(|value| &self.bytes[value]),
        })
    }

    /// Returns the number of keys that change.
    pub fn len(&self) -> usize {
        self.rows.len() - self.superseded
    }

    /// Returns `true` if no key changes.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the number of keys that are removed.
    pub fn removals(&self) -> usize {
        self.removals.iter().sum()
    }

    /// Returns the number of keys of a table that are removed.
    pub fn removals_from(&self, table: Table) -> usize {
        self.removals[table as usize]
    }

    /// Returns the bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all changes. The next batch reuses the memory.
    pub fn clear(&mut self) {
        /// The largest buffer that is kept for the next batch.
        const KEPT_BYTES: usize = 4 << 20;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.rows.clear();
        self.latest.clear();
        self.removals = [0; Table::ALL.len()];
        self.superseded = 0;
    }
}

/// Hashes a key. Keys are ids and counters, so folding their words together is enough.
fn hash(table: Table, key: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = key.len() as u64 + table as u64;
    let mut words = key.chunks_exact(8);
    for word in &mut words {
        let word = word.try_into().map_or(0, u64::from_le_bytes);
        hash = (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    }
    for &byte in words.remainder() {
        hash = (hash.rotate_left(9) ^ u64::from(byte)).wrapping_mul(FACTOR);
    }
    hash
}

/// The hasher of a map whose keys are hashes. Their high bits are the best mixed.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the keys of the map are numbers")
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_batch_is_a_map_of_the_last_changes(
            changes in prop::collection::vec(
                (any::<bool>(), prop::collection::vec(0_u8..3, 0..12), prop::option::of(0_u8..9)),
                0..80,
            ),
        ) {
            let mut batch = WriteBatch::new();
            let mut model = BTreeMap::new();
            for (jobs, key, value) in &changes {
                let table = if *jobs { Table::Jobs } else { Table::Index };
                match value {
                    Some(value) => batch.put(table, key, &[*value]),
                    None => batch.remove(table, key),
                }
                model.insert((table, key.clone()), *value);
            }
            let mut rows: Vec<_> = batch
                .rows()
                .map(|row| ((row.table, row.key.to_vec()), row.value.map(|value| value[0])))
                .collect();
            rows.sort();
            prop_assert_eq!(rows.len(), batch.len());
            prop_assert_eq!(batch.removals(), rows.iter().filter(|row| row.1.is_none()).count());
            let from_jobs = rows
                .iter()
                .filter(|((table, _), value)| *table == Table::Jobs && value.is_none());
            prop_assert_eq!(batch.removals_from(Table::Jobs), from_jobs.count());
            prop_assert_eq!(rows, model.clone().into_iter().collect::<Vec<_>>());
            for ((table, key), value) in model {
                let expected = value.map(|value| vec![value]);
                prop_assert_eq!(batch.get(table, &key), Some(expected.as_deref()));
            }
        }
    }
}
