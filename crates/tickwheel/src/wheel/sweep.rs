//! Stale references, and how they go.
//!
//! Removing a timer and moving its deadline earlier leave a reference behind that nobody needs.
//! Time would meet it and drop it, but until then it takes memory. So as soon as there are more
//! than [`MAX_STALE`] references too many for each live timer, every operation that leaves one
//! behind looks at one chunk and drops the stale ones in it. An operation does no more than that,
//! so there are no pauses; a timer with many stale references around it pays as much as any other.

use super::entries::Entries;
use super::overdue::Overdue;
use super::references::Lists;

/// How many stale references there may be to a live timer. Each takes memory as long as it stays;
/// the fewer may stay, the more live ones a sweep meets for each stale one.
const MAX_STALE: usize = 2;

/// Sweeps one chunk if there are too many stale references.
#[inline]
pub(super) fn tidy<T>(entries: &Entries<T>, lists: &mut Lists, overdue: &mut Overdue) {
    if is_worth_it(lists.room() + overdue.len(), entries.len(), lists.slack()) {
        sweep_step(entries, lists, overdue);
    }
}

/// Whether there are so many references that a sweep is worth it, with so many timers; a few more,
/// `slack`, do not count.
#[inline]
pub(super) fn is_worth_it(references: usize, timers: usize, slack: usize) -> bool {
    references > (1 + MAX_STALE) * timers + slack
}

fn sweep_step<T>(entries: &Entries<T>, lists: &mut Lists, overdue: &mut Overdue) {
    let round =
        lists.sweep_step(|reference| entries.is_referenced(reference.index, reference.stamp()));
    if round {
        overdue.retain(|late| entries.is_referenced(late.index, late.stamp));
    }
}
