//! Gives back the memory of collections that were much larger once.

use core::hash::Hash;
use std::collections::{HashMap, HashSet};

/// Gives back the memory of a map that was much larger once.
pub(crate) fn shrink<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if let Some(capacity) = enough(map.len(), map.capacity()) {
        map.shrink_to(capacity);
    }
}

/// As [`shrink`], for a set.
pub(crate) fn shrink_set<K: Eq + Hash>(set: &mut HashSet<K>) {
    if let Some(capacity) = enough(set.len(), set.capacity()) {
        set.shrink_to(capacity);
    }
}

/// Which capacity is enough, if there is much more.
pub(crate) fn enough(len: usize, capacity: usize) -> Option<usize> {
    const KEPT: usize = 1024;
    (capacity > KEPT && len < capacity / 8).then_some(2 * len)
}
