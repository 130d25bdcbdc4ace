//! The bytes that may still be put before the disk is full.

use crate::model::error::{Error, Limit};

/// The bytes that may still be put, and what limits them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes on disk that puts may still take.
    left: u64,
    bound: Bound,
}

/// What limits the room.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// The configured limit: the allowed bytes, and the bytes in use or reserved.
    Limit { allowed: u64, taken: u64 },
    /// The file system: the free bytes, and the bytes that must stay free.
    Disk { free: u64, kept: u64 },
}

impl Room {
    /// Creates unlimited room.
    pub(crate) const ENDLESS: Self =
        Self { left: u64::MAX, bound: Bound::Disk { free: u64::MAX, kept: 0 } };

    /// Creates the room below a configured limit.
    pub(crate) fn below(allowed: u64, taken: u64) -> Self {
        Self { left: allowed.saturating_sub(taken), bound: Bound::Limit { allowed, taken } }
    }

    /// Creates the room on a disk on which some bytes must stay free.
    pub(crate) fn on_disk(free: u64, kept: u64) -> Self {
        Self { left: free.saturating_sub(kept), bound: Bound::Disk { free, kept } }
    }

    /// Returns the smaller one of two rooms.
    pub(crate) fn min(self, other: Self) -> Self {
        if other.left < self.left { other } else { self }
    }

    /// Reduces the room to at most this many bytes.
    pub(crate) fn at_most(self, left: u64) -> Self {
        Self { left: self.left.min(left), ..self }
    }

    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Refuses rows that do not fit.
    pub(super) fn check(&self, bytes: usize) -> Result<(), Error> {
        let cost = on_disk(bytes);
        if cost < self.left {
            return Ok(());
        }
        Err(match self.bound {
            Bound::Limit { allowed, taken } => {
                let found = taken.saturating_add(cost).max(allowed.saturating_add(1));
                Error::OverLimit { limit: Limit::Disk, allowed, found }
            }
            Bound::Disk { free, kept } => {
                let needed = kept.saturating_add(cost).max(free.saturating_add(1));
                Error::DiskFull { free, needed }
            }
        })
    }

    /// Subtracts committed rows.
    pub(super) fn take(&mut self, bytes: usize) {
        let cost = on_disk(bytes);
        self.left = self.left.saturating_sub(cost);
        match &mut self.bound {
            Bound::Limit { taken, .. } => *taken = taken.saturating_add(cost),
            Bound::Disk { free, .. } => *free = free.saturating_sub(cost),
        }
    }
}

/// Returns the bytes that rows take on disk: in the journal and later in a table, with overhead.
fn on_disk(bytes: usize) -> u64 {
    bytes as u64 * 5 / 2
}
