//! The hashed wheel: one ring, as in Netty and Dubbo.
//!
//! A timer waits in the slot `deadline % slots`, together with timers of other rounds. The classic
//! wheel visits every slot at every tick, and examines every far timer once per round. This one
//! avoids that in three ways:
//! * A slot knows its earliest deadline, and a tree of these minima knows the earliest of all. A
//!   slot is visited only when one of its timers is due. So empty ticks and empty slots cost nothing,
//!   and a jump over many ticks costs no more than the timers that are due.
//! * A slot has two lists: *near* for the next rounds, and *far* for the rest. A visit walks the
//!   near list. The far list is walked when its own earliest deadline comes, and timers that are
//!   near by then change lists. The number of rounds that count as near adapts to each slot, so that
//!   both walks cost about the same.
//! * A reference contains its round, so walking a list does not touch timers that are not due.
//!
//! Ground rules, on top of those of the module:
//! * Before `wake` nothing is due.
//! * `cursor` is the tick up to which slots were emptied. References in slots are for later ticks, and
//!   a timer that is inserted with a later deadline goes to a slot. All others are in `due` or
//!   overdue.
//! * The slot with the earliest deadline is walked next, chunk by chunk, and between two chunks the
//!   wheel can be used as usual. When the walk starts, `cursor` becomes that deadline. Timers that
//!   are due at it go to `due` and can be popped at once. Timers that are due at a later tick which
//!   has passed as well, after a jump of more than a round, become overdue.
//! * During a walk, the slot's minimum covers the timers that were inserted since the walk began. At
//!   its end, those that stayed in the slot are added. No sweep touches the list that is walked.
//! * A reference has 24 bits of its round, so a slot holds only timers less than 2²⁴ rounds away.
//!   The rest are in one list *beyond*, which is walked when its own earliest deadline comes.
//! * A minimum may be too small, because removing or resetting a timer does not change it. It is
//!   never too large.

mod slot;
mod walk;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use super::api::wheel_api;
use super::entries::{Drain, Entries, Iter, Meeting, Reset};
use super::invariants::Meetings;
use super::min_tree::MinTree;
use super::overdue::{Late, Overdue};
use super::references::{Lists, Reference};
use super::sweep::Sweep;
use super::{Advance, Due, Key, Wheel};
use slot::{Rounds, Slot, is_beyond};
use walk::Walk;

/// The maximum number of slots.
const MAX_SLOTS: usize = 1 << 24;

/// A timing wheel of one ring.
///
/// It has the same methods as [`HierarchicalWheel`](super::HierarchicalWheel) and can replace it. It
/// is about as fast if all deadlines fit into the ring, say less than 512 ticks in a ring of 512. The
/// farther the deadlines, the slower it is: a timer is examined again and again while its rounds
/// pass, and a backlog of more than a round costs O(log n) per timer.
///
/// Timers with equal deadlines come out in unspecified order.
///
/// ```
/// use tickwheel::wheel::HashedWheel;
///
/// let mut wheel = HashedWheel::new(512);
/// wheel.insert(20, "second");
/// wheel.insert(20 + 512, "one round later");
/// wheel.insert(10, "first");
///
/// let mut fired = Vec::new();
/// while let Some(due) = wheel.pop_due(511) {
///     fired.push(due.value);
/// }
/// assert_eq!(fired, ["first", "second"]);
/// assert_eq!(wheel.next_wake(), Some(532));
/// ```
pub struct HashedWheel<T> {
    entries: Entries<T>,
    /// The near lists of all slots, then the far lists of all slots, then the list beyond.
    lists: Lists,
    slots: Box<[Slot]>,
    /// The binary logarithm of the number of slots.
    round_shift: u32,
    /// The earliest deadline of each slot.
    earliest: MinTree,
    /// The earliest deadline in the list beyond.
    beyond_earliest: u64,
    /// The list that is being walked.
    walk: Option<Walk>,
    /// References for the tick `cursor`, taken out of their slot. Those before `next_due` were used.
    due: Vec<Reference>,
    next_due: usize,
    overdue: Overdue,
    /// References that are being moved from one list to another. Empty otherwise.
    moving: Vec<Reference>,
    sweep: Sweep,
    cursor: u64,
    now: u64,
    wake: u64,
}

impl<T> HashedWheel<T> {
    /// Creates an empty wheel whose time is 0. The number of slots is rounded up to a power of two.
    ///
    /// ```
    /// use tickwheel::wheel::HashedWheel;
    ///
    /// let wheel: HashedWheel<String> = HashedWheel::new(500);
    /// assert_eq!((wheel.slots(), wheel.now(), wheel.len()), (512, 0, 0));
    /// ```
    ///
    /// # Panics
    ///
    /// If `slots` is 0 or more than 2²⁴.
    #[track_caller]
    pub fn new(slots: usize) -> Self {
        Self::with_start(slots, 0)
    }

    /// Creates an empty wheel whose time is `now`.
    ///
    /// # Panics
    ///
    /// If `slots` is 0 or more than 2²⁴.
    #[track_caller]
    pub fn with_start(slots: usize, now: u64) -> Self {
        assert!(
            (1..=MAX_SLOTS).contains(&slots),
            "slots must be between 1 and {MAX_SLOTS}, got {slots}"
        );
        let slots = slots.next_power_of_two();
        Self {
            entries: Entries::new(),
            lists: Lists::new(2 * slots + 1),
            slots: vec![Slot::EMPTY; slots].into_boxed_slice(),
            round_shift: slots.trailing_zeros(),
            earliest: MinTree::new(slots),
            beyond_earliest: u64::MAX,
            walk: None,
            due: Vec::new(),
            next_due: 0,
            overdue: Overdue::new(),
            moving: Vec::new(),
            sweep: Sweep::NEW,
            cursor: now,
            now,
            wake: u64::MAX,
        }
    }

    /// Creates an empty wheel with memory for `capacity` timers.
    ///
    /// # Panics
    ///
    /// If `slots` is 0 or more than 2²⁴.
    #[track_caller]
    pub fn with_capacity(slots: usize, capacity: usize) -> Self {
        let mut wheel = Self::new(slots);
        wheel.reserve(capacity);
        wheel
    }

    /// Returns the number of slots, a power of two.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Adds a reference that the wheel reaches at the deadline of a live entry.
    #[inline(always)]
    fn place(&mut self, deadline: u64, index: u32, stamp: u8) {
        if deadline <= self.cursor || is_beyond(deadline, self.cursor, self.round_shift) {
            self.place_outside(deadline, index, stamp);
            return;
        }
        let ring = self.slots.len();
        let number = deadline as usize & (ring - 1);
        let slot = &mut self.slots[number];
        let mut list = number;
        if deadline >= slot.horizon && slot.horizon <= self.cursor {
            slot.set_horizon(self.cursor, ring);
        }
        // Few timers are the earliest so far, so a branch costs less than a write each time.
        if deadline >= slot.horizon {
            list += ring;
            if deadline < slot.far_earliest {
                slot.far_earliest = deadline;
                self.lower(number, deadline);
            }
        } else if deadline < self.earliest.get(number) {
            self.lower(number, deadline);
        }
        let reference = Reference::new(index, deadline >> self.round_shift, stamp);
        self.lists.append(list, reference);
    }

    /// Notes the deadline of a timer that may be the earliest of its slot.
    #[cold]
    fn lower(&mut self, number: usize, deadline: u64) {
        self.wake = self.wake.min(deadline);
        self.earliest.lower(number, deadline);
    }

    /// As [`place`](Self::place), for a deadline that has passed or is too far away for a slot.
    #[cold]
    fn place_outside(&mut self, deadline: u64, index: u32, stamp: u8) {
        self.wake = self.wake.min(deadline);
        if deadline <= self.cursor {
            self.overdue.push(deadline, index, stamp);
        } else {
            let reference = Reference::new(index, deadline >> self.round_shift, stamp);
            self.lists.append(2 * self.slots.len(), reference);
            self.beyond_earliest = self.beyond_earliest.min(deadline);
        }
    }

    #[inline]
    fn pop_next(&mut self) -> Option<Due<T>> {
        if !self.overdue.is_empty() {
            if let due @ Some(_) = self.pop_overdue() {
                return due;
            }
        } else if let Some(&reference) = self.due.get(self.next_due) {
            self.next_due += 1;
            let due = self.follow(reference.index, reference.stamp(), self.cursor);
            if due.is_some() {
                return due;
            }
        }
        self.search_next()
    }

    /// As [`pop_next`](Self::pop_next), if the next reference does not lead to a due timer.
    #[inline(never)]
    fn search_next(&mut self) -> Option<Due<T>> {
        if self.prepare(usize::MAX) != Advance::Due {
            return None;
        }
        if let due @ Some(_) = self.pop_overdue() {
            return due;
        }
        let reference = self.due[self.next_due];
        self.next_due += 1;
        self.follow(reference.index, reference.stamp(), self.cursor)
    }

    /// Takes out the first overdue timer, if it comes before all other timers. Returns `None` also if
    /// its reference is stale.
    #[inline(never)]
    fn pop_overdue(&mut self) -> Option<Due<T>> {
        let tick = self.first_tick();
        let Self { ref entries, ref mut overdue, .. } = *self;
        let late = overdue.pop_until(tick, |index| entries.prefetch(index))?;
        self.follow(late.index, late.stamp, late.deadline)
    }

    /// Does the work before the first due timer, until that is the first overdue timer or the first
    /// one of `due`. Stops after examining about `budget` references.
    fn prepare(&mut self, budget: usize) -> Advance {
        let mut left = budget.max(1);
        loop {
            let cost = if let Some(late) = self.first_overdue() {
                if self.entries.is_due(late.index, late.stamp, late.deadline) {
                    return Advance::Due;
                }
                self.overdue.pop_until(late.deadline, |_| ());
                self.follow(late.index, late.stamp, late.deadline);
                1
            } else if let Some(&reference) = self.due.get(self.next_due) {
                if self.entries.is_due(reference.index, reference.stamp(), self.cursor) {
                    return Advance::Due;
                }
                self.next_due += 1;
                self.follow(reference.index, reference.stamp(), self.cursor);
                1
            } else if let Some(walk) = self.walk.take() {
                self.walk_on(walk, left)
            } else if self.begin_walk() {
                1
            } else {
                self.cursor = self.now;
                if self.sweep.has_stale() {
                    self.tidy();
                }
                self.wake = self.waiting();
                return Advance::Idle;
            };
            left = left.saturating_sub(cost);
            if left == 0 {
                return Advance::Unfinished;
            }
        }
    }

    /// Returns the first overdue timer, if it comes before all other timers.
    fn first_overdue(&mut self) -> Option<Late> {
        if self.overdue.is_empty() {
            return None;
        }
        let tick = self.first_tick();
        self.overdue.first_until(tick)
    }

    /// Returns a tick before which only overdue timers are due.
    fn first_tick(&self) -> u64 {
        let at_cursor = self.walk.is_some() || self.next_due < self.due.len();
        if at_cursor { self.cursor } else { self.waiting() }
    }

    /// Returns a tick before which no timer in the slots or beyond is due.
    fn waiting(&self) -> u64 {
        self.earliest.min().min(self.beyond_earliest)
    }

    /// Sweeps stale references if there are too many.
    #[inline]
    fn tidy(&mut self) {
        let walked = self.walk.as_ref().map(|walk| walk.next.list);
        self.sweep.tidy(&self.entries, &mut self.lists, &mut self.overdue, walked);
    }
}

impl<T> Wheel<T> for HashedWheel<T> {
    fn next_wake(&self) -> Option<u64> {
        if self.entries.len() == 0 {
            return None;
        }
        let wheel = match self.first_tick() {
            tick if self.walk.is_none() && self.next_due == self.due.len() => tick.max(self.wake),
            tick => tick,
        };
        Some(self.overdue.earliest().map_or(wheel, |tick| tick.min(wheel)))
    }

    fn drain(&mut self) -> Drain<'_, T> {
        let ring = self.slots.len();
        self.lists.clear();
        self.earliest = MinTree::new(ring);
        for slot in &mut self.slots {
            slot.far_earliest = u64::MAX;
        }
        self.beyond_earliest = u64::MAX;
        self.walk = None;
        (self.due, self.next_due) = (Vec::new(), 0);
        self.overdue = Overdue::new();
        self.sweep = Sweep::NEW;
        (self.cursor, self.wake) = (self.now, u64::MAX);
        self.entries.drain()
    }

    fn shrink_to_fit(&mut self) {
        self.entries.shrink_to_fit();
        self.lists.shrink_to_fit();
        if let Some(walk) = &mut self.walk {
            // The chunks were replaced. References that were walked before are met again, and stay.
            walk.next = Lists::start(walk.next.list);
        }
        self.due.shrink_to_fit();
        self.moving.shrink_to_fit();
    }

    fn memory_usage(&self) -> usize {
        self.entries.memory_usage()
            + self.lists.memory_usage()
            + size_of_val(&*self.slots)
            + self.earliest.memory_usage()
            + self.due.capacity() * size_of::<Reference>()
            + self.overdue.memory_usage()
            + self.moving.capacity() * size_of::<Reference>()
    }

    fn check_invariants(&self) {
        assert!(self.cursor <= self.now, "the cursor is ahead of time");
        assert!(self.moving.is_empty(), "references between two lists");
        let ring = self.slots.len();
        let walked = self.walk.as_ref().map(|walk| walk.next.list);
        let walked_slot = walked.filter(|&list| list < 2 * ring).map(|list| list % ring);
        self.earliest.check_invariants(walked_slot.is_some());
        for (number, slot) in self.slots.iter().enumerate() {
            let known =
                walked_slot == Some(number) || self.earliest.get(number) <= slot.far_earliest;
            assert!(known, "slot {number} and its far list");
        }
        assert!(self.wake <= self.earliest.min(), "wakes after the earliest slot");
        let mut meetings = Meetings::default();
        self.lists.check_invariants(|list, reference| {
            let number = list % ring;
            let is_walked = list / ring < 2 && walked_slot == Some(number);
            let floor = self.cursor.saturating_add(u64::from(!is_walked));
            let tick = match list / ring {
                2 if walked == Some(list) => floor,
                2 => self.beyond_earliest,
                _ => Rounds::new(number, floor, ring).tick(reference),
            };
            if self.entries.stamps().has(reference.index, reference.stamp()) && !is_walked {
                let slot_earliest = self.earliest.get(number);
                assert!(list == 2 * ring || slot_earliest <= tick, "slot {number} comes too late");
                let far_earliest = self.slots[number].far_earliest;
                assert!(list / ring != 1 || far_earliest <= tick, "far list {number} too late");
            }
            meetings.add(reference.index, reference.stamp(), tick);
        });
        for reference in &self.due[self.next_due..] {
            meetings.add(reference.index, reference.stamp(), self.cursor);
        }
        self.overdue.check_invariants();
        for late in self.overdue.iter() {
            assert!(late.deadline <= self.now, "an overdue timer is not due");
            meetings.add(late.index, late.stamp, late.deadline);
        }
        assert!(self.wake <= self.entries.earliest().unwrap_or(u64::MAX), "wakes too late");
        self.sweep.check_invariants(meetings.count(), self.entries.len());
        meetings.check(&self.entries);
    }

    wheel_api!(trait);
}

wheel_api!(HashedWheel, "HashedWheel::new(512)");
