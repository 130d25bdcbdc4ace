//! Releases the memory of collections that have become much smaller.

use core::hash::Hash;
use std::collections::HashMap;

/// Releases memory if a map has become much smaller than its capacity.
pub(crate) fn shrink<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if let Some(capacity) = smaller_capacity(map.len(), map.capacity()) {
        map.shrink_to(capacity);
    }
}

/// Returns the capacity to shrink to, if a collection uses less than an eighth of its capacity.
fn smaller_capacity(len: usize, capacity: usize) -> Option<usize> {
    /// Collections with a smaller capacity are not worth shrinking.
    const MIN_CAPACITY: usize = 1024;
    (capacity > MIN_CAPACITY && len < capacity / 8).then_some(2 * len)
}
