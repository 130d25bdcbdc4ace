//! How much may still be put before the disk is full.

use crate::model::error::{Error, Limit};

/// Bytes that may still be put, and why no more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes on disk that puts may still take.
    left: u64,
    bound: Bound,
}

/// What ends the room.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// The limit: bytes that are allowed, and that are taken or promised.
    Limit { allowed: u64, taken: u64 },
    /// The file system: bytes that are free, and that have to stay free.
    Disk { free: u64, kept: u64 },
}

impl Room {
    /// A disk without end.
    pub(crate) const ENDLESS: Self =
        Self { left: u64::MAX, bound: Bound::Disk { free: u64::MAX, kept: 0 } };

    /// What is left below a limit.
    pub(crate) fn below(allowed: u64, taken: u64) -> Self {
        Self { left: allowed.saturating_sub(taken), bound: Bound::Limit { allowed, taken } }
    }

    /// What is left on a disk of which some has to stay free.
    pub(crate) fn on_disk(free: u64, kept: u64) -> Self {
        Self { left: free.saturating_sub(kept), bound: Bound::Disk { free, kept } }
    }

    /// The smaller of two.
    pub(crate) fn min(self, other: Self) -> Self {
        if other.left < self.left { other } else { self }
    }

    /// With at most this much left.
    pub(crate) fn at_most(self, left: u64) -> Self {
        Self { left: self.left.min(left), ..self }
    }

    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Refuses rows for which there is no room.
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

    /// These rows are committed.
    pub(super) fn take(&mut self, bytes: usize) {
        let cost = on_disk(bytes);
        self.left = self.left.saturating_sub(cost);
        match &mut self.bound {
            Bound::Limit { taken, .. } => *taken = taken.saturating_add(cost),
            Bound::Disk { free, .. } => *free = free.saturating_sub(cost),
        }
    }
}

/// What rows take on disk: first in the journal, then in a table as well, with what goes with them.
fn on_disk(bytes: usize) -> u64 {
    bytes as u64 * 5 / 2
}
