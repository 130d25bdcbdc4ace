//! The smallest of a fixed number of values, kept up to date.
//!
//! It is a tree in which each node holds the smallest value of its eight children, which fill one
//! cache line. Lowering a value stops at the first node that is already lower, which is nearly always
//! the first one.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

const FAN: usize = 8;

pub(super) struct MinTree {
    /// From the values to the root, which is a level with one node.
    levels: Vec<Box<[u64]>>,
}

impl MinTree {
    /// Creates a tree of `count` values, all `u64::MAX`.
    pub(super) fn new(count: usize) -> Self {
        let mut levels = vec![vec![u64::MAX; count].into_boxed_slice()];
        let mut len = count;
        while len > 1 {
            len = len.div_ceil(FAN);
            levels.push(vec![u64::MAX; len].into_boxed_slice());
        }
        Self { levels }
    }

    #[inline]
    pub(super) fn get(&self, place: usize) -> u64 {
        self.levels[0][place]
    }

    #[inline]
    pub(super) fn min(&self) -> u64 {
        self.levels[self.levels.len() - 1][0]
    }

    /// Returns a place that holds the smallest value.
    pub(super) fn place_of_min(&self) -> usize {
        let mut place = 0;
        for pair in self.levels.windows(2).rev() {
            let [below, above] = pair else { unreachable!("windows of two") };
            let children = &below[place * FAN..below.len().min((place + 1) * FAN)];
            let child = children.iter().position(|&value| value == above[place]);
            place = place * FAN + child.expect("a node holds the smallest of its children");
        }
        place
    }

    /// Lowers the value at `place` to `value`, unless it is already lower.
    #[inline]
    pub(super) fn lower(&mut self, mut place: usize, value: u64) {
        for level in &mut self.levels {
            if level[place] <= value {
                return;
            }
            level[place] = value;
            place /= FAN;
        }
    }

    /// Sets the value at `place` to `u64::MAX`, but leaves the nodes above it as they are. Until the
    /// next [`set`](Self::set) of this place, [`min`](Self::min) may be too small.
    #[inline]
    pub(super) fn clear(&mut self, place: usize) {
        self.levels[0][place] = u64::MAX;
    }

    pub(super) fn set(&mut self, mut place: usize, value: u64) {
        self.levels[0][place] = value;
        for above in 1..self.levels.len() {
            place /= FAN;
            let below = &self.levels[above - 1];
            let children = &below[place * FAN..below.len().min((place + 1) * FAN)];
            let min = children.iter().copied().min().unwrap_or(u64::MAX);
            if core::mem::replace(&mut self.levels[above][place], min) == min {
                return;
            }
        }
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.levels.iter().map(|level| size_of_val(&**level)).sum()
    }

    /// Panics if a node is not the smallest of its children. It may be smaller if a value was
    /// `cleared`.
    pub(super) fn check_invariants(&self, cleared: bool) {
        for pair in self.levels.windows(2) {
            for (node, children) in pair[1].iter().zip(pair[0].chunks(FAN)) {
                let min = children.iter().min().expect("a node has children");
                assert!(node == min || cleared && node < min, "a node of the tree of minima");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_a_plain_vector() {
        for count in [1, 2, 7, 8, 9, 64, 65, 512, 4096] {
            let mut tree = MinTree::new(count);
            let mut plain = vec![u64::MAX; count];
            let mut state = count as u64;
            for _ in 0..2_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (place, value) = ((state >> 33) as usize % count, state >> 17);
                if state >> 63 == 0 {
                    tree.lower(place, value);
                    plain[place] = plain[place].min(value);
                } else {
                    tree.set(place, value);
                    plain[place] = value;
                }
                assert_eq!(Some(&tree.min()), plain.iter().min());
                assert_eq!(plain[tree.place_of_min()], tree.min());
            }
            tree.check_invariants(false);
        }
    }
}
