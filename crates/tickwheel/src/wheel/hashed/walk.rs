//! Walking the list of a slot: due timers are taken out, and far timers that are near now change
//! lists.
//!
//! A walk goes chunk by chunk, and between two chunks the wheel can be used as usual.

use alloc::vec::Vec;

use super::super::entries::Entries;
use super::super::overdue::Overdue;
use super::super::references::{CHUNK, Lists, Position, Reference};
use super::HashedWheel;
use super::slot::{Rounds, is_beyond};

/// The number of due timers that are collected ahead of their use, so that their entries are
/// prefetched.
const AHEAD: usize = 32;

/// A walk over a list that takes out due timers.
pub(super) struct Walk {
    pub(super) next: Position,
    /// The earliest deadline that stays in the slot's near list.
    near_earliest: u64,
    /// The number of timers that moved from the far list to the near one, and of those that stayed.
    came: usize,
    stayed: usize,
}

impl Walk {
    fn new(list: usize) -> Self {
        Self { next: Lists::start(list), near_earliest: u64::MAX, came: 0, stayed: 0 }
    }
}

impl<T> HashedWheel<T> {
    /// Begins to walk the list with the earliest deadline. Returns `false` if that has not come yet.
    pub(super) fn begin_walk(&mut self) -> bool {
        let beyond = 2 * self.slots.len();
        let earliest = self.earliest.min();
        if self.lists.is_empty(beyond) && self.beyond_earliest < u64::MAX {
            // All its timers were removed.
            self.beyond_earliest = u64::MAX;
            return true;
        }
        let list = if self.beyond_earliest <= earliest.min(self.now) && !self.lists.is_empty(beyond)
        {
            // Timers that are near now go to the slots, for ticks after the cursor.
            self.cursor = self.cursor.max(self.beyond_earliest - 1);
            self.beyond_earliest = u64::MAX;
            beyond
        } else if earliest <= self.now
            && let Some(slot) = self.first_slot(earliest)
        {
            self.cursor = earliest;
            if self.now - earliest >= self.slots.len() as u64 {
                self.overdue.expect_missed(earliest, self.now);
            }
            self.earliest.clear(slot);
            slot
        } else {
            return false;
        };
        self.walk = Some(Walk::new(list));
        true
    }

    /// Returns the slot with the earliest deadline.
    fn first_slot(&self, earliest: u64) -> Option<usize> {
        if earliest < u64::MAX {
            return Some(self.earliest.place_of_min());
        }
        // A slot with timers for the last tick of all has the same minimum as an empty one.
        let ring = self.slots.len();
        self.lists.first().filter(|&list| list < 2 * ring).map(|list| list % ring)
    }

    /// Continues until enough due timers are collected, the list ends, or `budget` references were
    /// examined. Returns about the number of examined references.
    pub(super) fn walk_on(&mut self, mut walk: Walk, budget: usize) -> usize {
        self.due.clear();
        self.next_due = 0;
        let ring = self.slots.len();
        let mut cost = 0;
        while cost < budget && self.due.len() < AHEAD {
            cost += CHUNK;
            let list = walk.next.list;
            let next = match list / ring {
                0 => self.walk_near(&mut walk),
                1 => self.walk_far(&mut walk),
                _ => self.walk_beyond(&walk),
            };
            if let Some(next) = next {
                walk.next = next;
            } else if list < ring && self.slots[list].far_earliest <= self.cursor {
                let slot = &mut self.slots[list];
                slot.set_horizon(self.now, ring);
                slot.far_earliest = u64::MAX;
                walk.next = Lists::start(list + ring);
            } else {
                self.end_walk(&walk);
                return cost;
            }
        }
        self.walk = Some(walk);
        cost
    }

    /// Takes the due timers out of a chunk of a near list.
    fn walk_near(&mut self, walk: &mut Walk) -> Option<Position> {
        let Self { now, cursor, ref mut due, ref mut overdue, ref entries, .. } = *self;
        let rounds = Rounds::new(walk.next.list, cursor, self.slots.len());
        let (next, _) = self.lists.compact(walk.next, |reference| {
            let tick = rounds.tick(reference);
            if tick > now {
                walk.near_earliest = walk.near_earliest.min(tick);
                return true;
            }
            take_due(reference, tick, cursor, due, overdue, entries);
            false
        });
        next
    }

    /// Takes the due timers out of a chunk of a far list, and moves those that are near now to the
    /// near list.
    fn walk_far(&mut self, walk: &mut Walk) -> Option<Position> {
        let number = walk.next.list - self.slots.len();
        let rounds = Rounds::new(number, self.cursor, self.slots.len());
        let Self { now, cursor, ref mut due, ref mut overdue, ref entries, .. } = *self;
        let (slot, moving) = (&mut self.slots[number], &mut self.moving);
        let (next, _) = self.lists.compact(walk.next, |reference| {
            let tick = rounds.tick(reference);
            if tick <= now {
                take_due(reference, tick, cursor, due, overdue, entries);
            } else if tick < slot.horizon {
                walk.near_earliest = walk.near_earliest.min(tick);
                walk.came += 1;
                moving.push(reference);
            } else {
                slot.far_earliest = slot.far_earliest.min(tick);
                walk.stayed += 1;
                return true;
            }
            false
        });
        for reference in self.moving.drain(..) {
            self.lists.append(number, reference);
        }
        next
    }

    /// Moves the timers of a chunk that are no longer beyond to their slots.
    fn walk_beyond(&mut self, walk: &Walk) -> Option<Position> {
        let Self { cursor, round_shift, ref entries, ref mut moving, .. } = *self;
        let mut stale = 0;
        let (next, _) = self.lists.compact(walk.next, |reference| {
            match entries.referenced(reference.index, reference.stamp()) {
                Some(deadline) if is_beyond(deadline, cursor, round_shift) => {
                    self.beyond_earliest = self.beyond_earliest.min(deadline);
                    return true;
                }
                Some(_) => moving.push(reference),
                None => stale += 1,
            }
            false
        });
        self.sweep.dropped(stale);
        while let Some(reference) = self.moving.pop() {
            let (index, stamp) = (reference.index, reference.stamp());
            if let Some(deadline) = self.entries.referenced(index, stamp) {
                self.place(deadline, index, stamp);
            }
        }
        next
    }

    fn end_walk(&mut self, walk: &Walk) {
        let ring = self.slots.len();
        let list = walk.next.list;
        if list == 2 * ring {
            return;
        }
        let number = list % ring;
        let slot = &mut self.slots[number];
        if list >= ring {
            slot.adapt(walk.came, walk.stayed);
        }
        // Timers that were inserted during the walk have lowered the slot's minimum.
        let earliest = self.earliest.get(number).min(walk.near_earliest).min(slot.far_earliest);
        self.earliest.set(number, earliest);
    }
}

/// Adds a reference that has left its slot to those of the cursor's tick, or to the overdue ones if
/// its round is a later one that has passed as well.
#[inline(always)]
fn take_due<T>(
    reference: Reference,
    tick: u64,
    cursor: u64,
    due: &mut Vec<Reference>,
    overdue: &mut Overdue,
    entries: &Entries<T>,
) {
    if tick == cursor {
        entries.prefetch(reference.index);
        due.push(reference);
    } else {
        overdue.push_missed(tick, reference.index, reference.stamp());
    }
}
