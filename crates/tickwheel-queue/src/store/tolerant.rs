//! Scans that skip unreadable blocks.
//!
//! A store keeps rows in blocks with checksums. A scan that meets a damaged block ends with an
//! error and does not tell where the next readable block begins. So the next readable key is
//! searched for, first in growing steps and then by bisection; everything in between counts as
//! damage. Intact blocks between two damaged ones that are close together may be skipped too. A
//! search takes a few hundred reads, and only where a block is damaged.

use bytes::Bytes;

use super::{Rows, StoreError, Table, View};

/// Bytes of a key that are searched: the longest of the rows with fixed keys, and then some.
const WIDTH: usize = 32;

/// The rows from one key up to but excluding another, in order. A damaged range yields one error,
/// and then the rows after it.
pub(crate) struct Tolerant<'a> {
    view: &'a dyn View,
    table: Table,
    from: Vec<u8>,
    to: Vec<u8>,
    rows: Option<Rows<'a>>,
    /// Rows before a damaged block that a scan into the block does not return.
    spared: std::vec::IntoIter<(Bytes, Bytes)>,
    /// The error to return after those rows.
    damage: Option<StoreError>,
}

impl<'a> Tolerant<'a> {
    pub(crate) fn new(view: &'a dyn View, table: Table, from: &[u8], to: &[u8]) -> Self {
        Self {
            view,
            table,
            from: from.to_vec(),
            to: to.to_vec(),
            rows: None,
            spared: Vec::new().into_iter(),
            damage: None,
        }
    }

    /// Returns the rows from here up to a key, if all of them can be read.
    fn whole(&self, to: &[u8]) -> Option<Vec<(Bytes, Bytes)>> {
        self.view.scan(self.table, &self.from, to).collect::<Result<_, _>>().ok()
    }

    /// Returns the last row before a damaged block. A scan up to it excludes it, and a scan beyond
    /// it needs the block; a lookup finds it.
    fn last_before(&self, unreadable: &[u8]) -> Option<(Bytes, Bytes)> {
        let least = unreadable.iter().rposition(|&byte| byte != 0).map_or(0, |place| place + 1);
        (least..=unreadable.len()).find_map(|length| {
            let key = unreadable.get(..length).filter(|key| **key >= *self.from)?;
            let value = self.view.get(self.table, key).ok()??;
            Some((Bytes::copy_from_slice(key), value))
        })
    }

    fn can_begin(&self, from: &[u8]) -> bool {
        let first = self.view.scan(self.table, from, &self.to).next();
        !matches!(first, Some(Err(StoreError::Damaged(_))))
    }

    /// Moves past the damage that begins here.
    fn pass_over(&mut self) {
        let unreadable = boundary(&self.from, &self.to, |to| self.whole(to).is_none());
        let mut spared = self.whole(&just_before(&unreadable)).unwrap_or_default();
        spared.extend(self.last_before(&unreadable));
        if let Some((last, _)) = spared.last() {
            self.from = behind(last);
        }
        self.from = boundary(&self.from, &self.to, |from| self.can_begin(from));
        self.spared = spared.into_iter();
    }
}

impl Iterator for Tolerant<'_> {
    type Item = Result<(Bytes, Bytes), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(row) = self.spared.next() {
            return Some(Ok(row));
        }
        if let Some(damage) = self.damage.take() {
            return Some(Err(damage));
        }
        let (view, table) = (self.view, self.table);
        let rows = self.rows.get_or_insert_with(|| view.scan(table, &self.from, &self.to));
        match rows.next()? {
            Ok((key, value)) => {
                self.from = behind(&key);
                Some(Ok((key, value)))
            }
            Err(StoreError::Damaged(why)) => {
                self.rows = None;
                self.damage = Some(StoreError::Damaged(why));
                self.pass_over();
                self.next()
            }
            Err(error) => {
                // This is not damage but a disk that does not answer, so continuing makes no sense.
                self.from.clone_from(&self.to);
                self.rows = None;
                Some(Err(error))
            }
        }
    }
}

/// Returns the first key after this one.
fn behind(key: &[u8]) -> Vec<u8> {
    let mut behind = key.to_vec();
    behind.push(0);
    behind
}

/// Returns approximately the first key after `from` for which a condition holds; it is assumed to
/// hold for `to`. Growing steps find the nearest such range.
fn boundary(from: &[u8], to: &[u8], holds: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let (mut low, mut high) = (wide(from), wide(to));
    let steps = (0..WIDTH).rev().flat_map(|place| (0..8).map(move |bit| (place, 1 << bit)));
    for further in steps.filter_map(|(place, by)| step(&wide(from), place, by)) {
        if further >= high {
            break;
        }
        if holds(&further) {
            high = further;
            break;
        }
        low = further;
    }
    loop {
        let middle = middle(&low, &high);
        if middle == low {
            return if high == wide(to) { to.to_vec() } else { high.to_vec() };
        }
        if holds(&middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
}

type Wide = [u8; WIDTH];

fn wide(key: &[u8]) -> Wide {
    let mut wide = [0; WIDTH];
    let length = key.len().min(WIDTH);
    wide[..length].copy_from_slice(&key[..length]);
    wide
}

/// Returns the key with this much added to the byte at this index, and without the bytes after it.
fn step(key: &Wide, place: usize, by: u8) -> Option<Wide> {
    let mut further = *key;
    further[place] = key[place].checked_add(by)?;
    further[place + 1..].fill(0);
    Some(further)
}

/// Returns the greatest key before this one, to the searched precision.
fn just_before(key: &[u8]) -> Wide {
    let mut before = wide(key);
    for byte in before.iter_mut().rev() {
        *byte = byte.wrapping_sub(1);
        if *byte != u8::MAX {
            break;
        }
    }
    before
}

/// Returns the key half way between two keys.
fn middle(low: &Wide, high: &Wide) -> Wide {
    let mut sum = [0_u16; WIDTH];
    let mut carry = 0;
    for place in (0..WIDTH).rev() {
        let both = u16::from(low[place]) + u16::from(high[place]) + carry;
        sum[place] = both & 0xff;
        carry = both >> 8;
    }
    let mut middle = [0; WIDTH];
    for place in 0..WIDTH {
        let number = carry << 8 | sum[place];
        middle[place] = (number / 2) as u8;
        carry = number % 2;
    }
    middle
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Rows in blocks, some of them damaged, read as a log-structured merge tree reads them: only
    /// the last key of each block is known without reading it, and the next block is read before
    /// the last row of this one is returned.
    struct Blocks {
        blocks: Vec<Vec<Bytes>>,
        damaged: BTreeSet<usize>,
    }

    impl View for Blocks {
        fn get(&self, _: Table, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
            let in_block = |(number, block): (usize, &Vec<Bytes>)| {
                !self.damaged.contains(&number) && block.iter().any(|other| other == key)
            };
            Ok(self.blocks.iter().enumerate().any(in_block).then(Bytes::new))
        }

        fn scan<'a>(&'a self, _: Table, from: &[u8], to: &[u8]) -> Rows<'a> {
            let mut found = Vec::new();
            for (number, block) in self.blocks.iter().enumerate() {
                let ends_before = |block: &Vec<Bytes>, key: &[u8]| {
                    block.last().is_none_or(|last| last[..] < *key)
                };
                if ends_before(block, from) {
                    continue;
                }
                if number > 0 && !ends_before(&self.blocks[number - 1], to) {
                    break;
                }
                if self.damaged.contains(&number) {
                    found.pop();
                    found.push(Err(StoreError::Damaged("a block".into())));
                    break;
                }
                let inside = block.iter().filter(|key| key[..] >= *from && key[..] < *to);
                found.extend(inside.map(|key| Ok((key.clone(), Bytes::new()))));
            }
            Box::new(found.into_iter())
        }
    }

    proptest! {
        #[test]
        fn all_but_the_damaged_blocks_are_given(
            keys in prop::collection::btree_set(prop::collection::vec(1..255_u8, 1..22), 1..200),
            size in 1..9_usize,
            first in 0..60_usize,
            count in 0..3_usize,
        ) {
            let damaged: BTreeSet<usize> = (first..first + count).collect();
            let keys: Vec<Bytes> = keys.into_iter().map(Bytes::from).collect();
            let blocks: Vec<Vec<Bytes>> = keys.chunks(size).map(<[Bytes]>::to_vec).collect();
            let view = Blocks { blocks, damaged };
            let found: Vec<_> =
                Tolerant::new(&view, Table::Index, &[0], &[255; 23]).collect();
            let errors = found.iter().filter(|row| row.is_err()).count();
            let given: Vec<Bytes> = found.into_iter().flatten().map(|(key, _)| key).collect();
            let whole = |(number, _): &(usize, &Vec<Bytes>)| !view.damaged.contains(number);
            let expected: Vec<Bytes> = view
                .blocks
                .iter()
                .enumerate()
                .filter(whole)
                .flat_map(|(_, block)| block.clone())
                .collect();
            prop_assert_eq!(given, expected);
            prop_assert_eq!(errors > 0, view.damaged.iter().any(|it| *it < view.blocks.len()));
        }

        #[test]
        fn the_middle_lies_between(one: Wide, other: Wide) {
            let (low, high) = if one < other { (one, other) } else { (other, one) };
            let middle = middle(&low, &high);
            prop_assert!(low <= middle && middle <= high);
            prop_assert!(middle < high || low == high);
        }
    }
}
