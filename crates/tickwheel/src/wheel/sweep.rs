//! Stale references, and how they are dropped.
//!
//! Removing a timer and moving its deadline earlier leave a reference behind that nobody needs.
//! Time drops it when its tick comes, but until then it takes memory. So as soon as there are more
//! than [`MAX_STALE`] stale references for each live timer, every second operation that leaves
//! one behind also sweeps a little: it looks at chunks until it has dropped [`ENOUGH`] references,
//! and at [`MAX_CHUNKS`] at most. An operation does no more than that, so there are no pauses. One
//! chunk is mostly enough, and the processor sweeps it while it waits for the timer's cache line.
//!
//! When most of the memory for chunks is unused, as it is after most timers of a large wheel were
//! removed, a sweep also moves chunks into fewer segments. It then looks at as many as it may.
//!
//! Whether there are too many is not asked each time: `patience` counts down to when it could be
//! so. What a removal does each time is no more than that.

use super::entries::Entries;
use super::overdue::Overdue;
use super::references::Lists;

/// How many stale references there may be for each live timer. Each takes memory as long as it
/// stays; the fewer may stay, the more live ones a sweep meets for each stale one.
const MAX_STALE: usize = 2;

/// How many more stale references there may be: while there are so few, sweeping does not pay.
const SLACK: usize = 30 << 10;

/// How many operations may leave a reference behind from one look to the next, at least.
const AT_LEAST: usize = 2;

/// How many references a sweep drops. [`AT_LEAST`] removals leave as many stale references and
/// lower the number that is allowed by [`MAX_STALE`] times as much: so the sweep keeps up.
const ENOUGH: usize = AT_LEAST * (1 + MAX_STALE);

/// How many chunks one sweep looks at, at most. Chunks of a wheel with many more slots than timers
/// hold one reference each.
const MAX_CHUNKS: usize = 32;

/// The number of stale references of a wheel, and when to look at it again.
pub(super) struct Sweep {
    /// How many more operations may leave a reference behind before the next look.
    patience: usize,
    /// How many stale references there are once `patience` is used up. References are stale if
    /// they are more than one for each live timer.
    stale_then: usize,
}

impl Sweep {
    pub(super) const NEW: Self = Self { patience: AT_LEAST, stale_then: AT_LEAST };

    /// Counts a reference that was left behind. Returns `true` if it is time to
    /// [`tidy`](Self::tidy).
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

    /// Sweeps a little if there are too many stale references. `walked` is a list that must stay
    /// as it is.
    ///
    /// Neither this nor the sweep is inlined, so that no caller saves registers that only the next
    /// part needs.
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

    /// Waits with the next look while `left` more stale references are allowed.
    #[inline]
    fn be_patient(&mut self, left: usize) {
        let stale = self.stale();
        self.patience = (left / (1 + MAX_STALE)).max(AT_LEAST);
        self.stale_then = stale + self.patience;
    }

    /// Looks at a few chunks, each call at the next ones, and drops their stale references.
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

    /// Panics unless there are as many stale references as were counted.
    pub(super) fn check_invariants(&self, references: usize, timers: usize) {
        assert_eq!(references, timers + self.stale(), "references");
        assert!(self.patience > 0, "it is past the time to look");
    }
}

/// How many stale references there may be.
#[inline]
fn allowed<T>(entries: &Entries<T>) -> usize {
    MAX_STALE * entries.len() + SLACK
}
