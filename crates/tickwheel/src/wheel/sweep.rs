//! Stale references, and how they are dropped.
//!
//! Removing a timer, or moving its deadline earlier, makes its reference stale. The wheel drops the
//! reference when it reaches the reference's tick, but until then it takes memory. So as soon as
//! there are more than [`MAX_STALE`] stale references for each live timer, every second operation
//! that makes one stale also sweeps: it examines chunks until it has dropped [`ENOUGH`] references,
//! but at most [`MAX_CHUNKS`]. So there are no pauses. One chunk is mostly enough, and the processor
//! sweeps it while it waits for the cache line of the timer.
//!
//! When most of the memory for chunks is unused, as after most timers of a large wheel were removed,
//! a sweep also moves chunks to fewer segments. It then always examines [`MAX_CHUNKS`].
//!
//! An operation does not check each time whether there are too many: `patience` counts the
//! operations until there can be.

use super::entries::Entries;
use super::overdue::Overdue;
use super::references::Lists;

/// The number of stale references that are allowed for each live timer. A larger number takes more
/// memory. With a smaller one, a sweep finds more live references for each stale one.
const MAX_STALE: usize = 2;

/// The number of stale references that are allowed in addition: so few are not worth sweeping.
const SLACK: usize = 30 << 10;

/// The minimum number of operations that make a reference stale, from one check to the next.
const AT_LEAST: usize = 2;

/// The number of references after which a sweep stops. [`AT_LEAST`] removals make as many references
/// stale, and lower the allowed number by [`MAX_STALE`] times as much. So sweeps keep up with them.
const ENOUGH: usize = AT_LEAST * (1 + MAX_STALE);

/// The maximum number of chunks that one sweep examines. It matters in a wheel with many more slots
/// than timers, whose chunks hold one reference each.
const MAX_CHUNKS: usize = 32;

/// The number of stale references of a wheel, and the time of the next check.
pub(super) struct Sweep {
    /// The number of operations that may make a reference stale before the next check.
    patience: usize,
    /// The number of stale references when `patience` is used up: that of all references minus that
    /// of live timers.
    stale_then: usize,
}

impl Sweep {
    pub(super) const NEW: Self = Self { patience: AT_LEAST, stale_then: AT_LEAST };

    /// Counts a reference that became stale. Returns `true` if [`tidy`](Self::tidy) must be called.
    #[inline]
    pub(super) fn left_one(&mut self) -> bool {
        self.patience -= 1;
        self.patience == 0
    }

    #[inline]
    fn stale(&self) -> usize {
        self.stale_then - self.patience
    }

    #[inline]
    pub(super) fn has_stale(&self) -> bool {
        self.stale() > 0
    }

    /// Counts stale references that were dropped.
    #[inline]
    pub(super) fn dropped(&mut self, count: usize) {
        self.stale_then -= count;
    }

    /// Sweeps if there are too many stale references. The list `walked` is not changed.
    ///
    /// Neither this nor the sweep is inlined. Otherwise every caller would save registers that only
    /// a sweep needs.
    #[inline(never)]
    pub(super) fn tidy<T>(
        &mut self,
        entries: &Entries<T>,
        lists: &mut Lists,
        overdue: &mut Overdue,
        walked: Option<usize>,
    ) {
        let left = allowed(entries).saturating_sub(self.stale());
        if left == 0 || lists.are_sparse() {
            self.sweep(entries, lists, overdue, walked);
        } else {
            self.be_patient(left);
        }
    }

    /// Sets the next check for a time when `left` more references can have become stale.
    #[inline]
    fn be_patient(&mut self, left: usize) {
        let stale = self.stale();
        self.patience = (left / (1 + MAX_STALE)).max(AT_LEAST);
        self.stale_then = stale + self.patience;
    }

    /// Drops the stale references of a few chunks. Each call continues where the last one stopped.
    #[inline(never)]
    fn sweep<T>(
        &mut self,
        entries: &Entries<T>,
        lists: &mut Lists,
        overdue: &mut Overdue,
        walked: Option<usize>,
    ) {
        let sparse = lists.are_sparse();
        let enough = if sparse { usize::MAX } else { ENOUGH };
        let stamps = entries.stamps();
        let mut dropped = 0;
        for _ in 0..MAX_CHUNKS {
            // After the last list come the overdue timers, then the first list again.
            let lists_step = if overdue.is_being_swept() {
                None
            } else {
                lists.sweep_step(walked, |reference| stamps.has(reference.index, reference.stamp()))
            };
            dropped += lists_step
                .unwrap_or_else(|| overdue.sweep_step(|late| stamps.has(late.index, late.stamp)));
            if dropped >= enough {
                break;
            }
        }
        self.dropped(dropped);
        let left = if sparse { 0 } else { allowed(entries).saturating_sub(self.stale()) };
        self.be_patient(left);
    }

    /// Panics if the number of stale references differs from the counted one.
    pub(super) fn check_invariants(&self, references: usize, timers: usize) {
        assert_eq!(references, timers + self.stale(), "references");
        assert!(self.patience > 0, "a check is overdue");
    }
}

/// Returns the number of stale references that are allowed.
#[inline]
fn allowed<T>(entries: &Entries<T>) -> usize {
    MAX_STALE * entries.len() + SLACK
}
