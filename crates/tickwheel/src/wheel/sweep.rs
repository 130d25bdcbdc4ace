//! Stale references, and how they go.
//!
//! Removing a timer and moving its deadline earlier leave a reference behind that nobody needs.
//! Time would meet it and drop it, but until then it takes memory. So as soon as there are more
//! than [`MAX_STALE`] references too many for each live timer, every second operation that leaves
//! one behind looks at one chunk and drops the stale ones in it. An operation does no more than
//! that, so there are no pauses; and the processor has something to do while it waits for the
//! timer's cache line, which is why eight chunks at every eighth operation take longer.
//!
//! Whether there are too many is not asked each time: [`Patience`] counts down to when it could
//! be so.

use super::entries::Entries;
use super::overdue::Overdue;
use super::references::Lists;

/// How many stale references there may be to a live timer. Each takes memory as long as it stays;
/// the fewer may stay, the more live ones a sweep meets for each stale one.
const MAX_STALE: usize = 2;

/// The least [`Patience`]. Two removals take room for six references, and a sweep frees more than
/// that where two of three are stale: so it keeps up.
const AT_LEAST: usize = 2;

/// How many more operations may leave a reference behind before one has to look.
pub(super) struct Patience(usize);

impl Patience {
    pub(super) const NEW: Self = Self(AT_LEAST);

    /// Counts one reference that was left behind. Says whether it is time to look, which ends
    /// with [`renew`](Self::renew).
    #[inline]
    pub(super) fn ends(&mut self) -> bool {
        self.0 -= 1;
        self.0 == 0
    }

    /// Starts again, when there is room for so many more references.
    pub(super) fn renew(&mut self, spare: usize) {
        // What leaves one behind takes at most one reference more and one timer less.
        self.0 = (spare / (2 + MAX_STALE)).max(AT_LEAST);
    }
}

/// How many more references there may be with so many timers; `slack` is for those that do not
/// count.
#[inline]
pub(super) fn spare(references: usize, timers: usize, slack: usize) -> usize {
    ((1 + MAX_STALE) * timers + slack).saturating_sub(references)
}

/// Sweeps one chunk if there are too many stale references; says how many more there may be.
#[inline(always)]
pub(super) fn tidy<T>(entries: &Entries<T>, lists: &mut Lists, overdue: &mut Overdue) -> usize {
    let spare = spare(lists.room() + overdue.len(), entries.len(), lists.slack());
    if spare == 0 {
        sweep_step(entries, lists, overdue);
    }
    spare
}

#[inline(never)]
fn sweep_step<T>(entries: &Entries<T>, lists: &mut Lists, overdue: &mut Overdue) {
    let round =
        lists.sweep_step(|reference| entries.is_referenced(reference.index, reference.stamp()));
    if round {
        overdue.retain(|late| entries.is_referenced(late.index, late.stamp));
    }
}
