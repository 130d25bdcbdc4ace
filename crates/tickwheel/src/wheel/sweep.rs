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
//! so.

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
    /// All references beyond one for each live timer.
    stale: usize,
    /// How many more operations may leave a reference behind before the next look.
    patience: usize,
}

impl Sweep {
    pub(super) const NEW: Self = Self { stale: 0, patience: AT_LEAST };

    /// Counts a reference that was left behind. Returns `true` if it is time to
    /// [`tidy`](Self::tidy).
    #[inline]
    pub(super) fn left_one(&mut self) -> bool {
        self.stale += 1;
        self.patience -= 1;
        self.patience == 0
    }

    #[inline]
    pub(super) fn has_stale(&self) -> bool {
        self.stale > 0
    }

    /// Counts stale references that were dropped.
    #[inline]
    pub(super) fn dropped(&mut self, count: usize) {
        self.stale -= count;
    }

    /// Sweeps a little if there are too many stale references. `walked` is a list that must stay
    /// as it is.
    #[inline(always)]
    pub(super) fn tidy<T>(
        &mut self,
        entries: &Entries<T>,
        lists: &mut Lists,
        overdue: &mut Overdue,
        walked: Option<usize>,
    ) {
        let allowed = MAX_STALE * entries.len() + SLACK;
        let sparse = lists.are_sparse();
        if self.stale > allowed || sparse {
            let enough = if sparse { usize::MAX } else { ENOUGH };
            self.stale -= sweep(entries, lists, overdue, walked, enough);
        }
        let left = if sparse { 0 } else { allowed.saturating_sub(self.stale) };
        self.patience = (left / (1 + MAX_STALE)).max(AT_LEAST);
    }

    /// Panics unless there are as many stale references as were counted.
    pub(super) fn check_invariants(&self, references: usize, timers: usize) {
        assert_eq!(references, timers + self.stale, "references");
        assert!(self.patience > 0, "it is past the time to look");
    }
}

/// Looks at a few chunks, each call at the next ones. Returns how many references it dropped.
#[inline(never)]
fn sweep<T>(
    entries: &Entries<T>,
    lists: &mut Lists,
    overdue: &mut Overdue,
    walked: Option<usize>,
    enough: usize,
) -> usize {
    let live = |index, stamp| entries.is_referenced(index, stamp);
    let mut dropped = 0;
    for _ in 0..MAX_CHUNKS {
        // After the last list come the overdue timers, then the first list again.
        let lists_step = if overdue.is_being_swept() {
            None
        } else {
            lists.sweep_step(walked, |reference| live(reference.index, reference.stamp()))
        };
        dropped +=
            lists_step.unwrap_or_else(|| overdue.sweep_step(|late| live(late.index, late.stamp)));
        if dropped >= enough {
            break;
        }
    }
    dropped
}
