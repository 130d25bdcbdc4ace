//! One ring: the wheel of Netty and Dubbo, without their rounds to wait.
//!
//! A timer waits in the slot `deadline % slots`, together with all others of other rounds. What
//! the classic pays for that, visiting every slot at every tick and looking at every far timer
//! once a round, is avoided in three ways:
//! * A slot knows the earliest deadline in it, and a tree of these minima knows the earliest of
//!   all. A slot is visited only when one of its timers is due; empty ticks and empty slots cost
//!   nothing, and neither does a jump.
//! * A slot has two lists: *near* for the coming rounds, *far* for the rest. A visit walks the
//!   near list; the far list is walked when its own earliest deadline comes, and what has come
//!   near then changes lists. How many rounds count as near adapts to each slot, so that both
//!   walks cost about the same.
//! * A reference carries its round, so walking a list does not touch a timer that is not due.
//!
//! Ground rules, on top of those of the module:
//! * Before `wake` nothing is due.
//! * `cursor` is the tick up to which slots were emptied: references in slots are for later ticks,
//!   later deadlines than it wait in slots, and all else is in `due` or overdue.
//! * A reference has 24 bits of its round, so a slot holds only timers less than 2²⁴ rounds away.
//!   The rest are in one list *beyond*, which is walked when its own earliest deadline comes.
//! * The minima may be too small (what was removed or reset leaves them as they were), never too
//!   large.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use super::api::wheel_api;
use super::entries::{Drain, Entries, Iter, Meeting, Reset};
use super::invariants::Meetings;
use super::min_tree::MinTree;
use super::overdue::Overdue;
use super::references::{Lists, Reference};
use super::sweep::{self, Patience};
use super::{Due, Key, Wheel};

/// The largest ring.
const MAX_SLOTS: usize = 1 << 24;

/// A reference cannot tell rounds apart that are so far away.
const BEYOND: u64 = (1 << Reference::TICK_BITS) - 1;

/// The capacity that emptied buffers may keep.
const KEPT: usize = 1024;

/// How far ahead of its use a due timer's entry is fetched.
const PREFETCH: usize = 8;

/// A timing wheel of one ring.
///
/// It does what [`HierarchicalWheel`](super::HierarchicalWheel) does and can be put in its place.
/// It is the better one where nearly all deadlines are less than a round away (say 512 ticks in a
/// ring of 512) and the poorer one the farther they are: a timer is looked at again and again
/// while its rounds pass, and one big jump sorts all that became due in it at once.
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
    /// The near list of every slot, the far list of every slot, the list beyond.
    lists: Lists,
    slots: Box<[Slot]>,
    /// Binary logarithm of the number of slots.
    round_shift: u32,
    /// The earliest deadline of each slot.
    earliest: MinTree,
    /// The earliest deadline in the list beyond.
    beyond_earliest: u64,
    /// What was due when slots were emptied last, by deadline; from `next_due` on.
    due: Vec<Met>,
    next_due: usize,
    overdue: Overdue,
    /// References on their way from one list to another; empty otherwise.
    moving: Vec<Reference>,
    patience: Patience,
    cursor: u64,
    now: u64,
    wake: u64,
}

#[derive(Clone, Copy)]
struct Slot {
    /// The earliest deadline in the far list.
    far_earliest: u64,
    /// Deadlines before this go to the near list.
    horizon: u64,
    /// Binary logarithm of how many rounds the horizon is set ahead.
    reach: u32,
}

/// A reference whose tick has come.
#[derive(Clone, Copy)]
struct Met {
    tick: u64,
    index: u32,
    stamp: u8,
}

impl<T> HashedWheel<T> {
    /// An empty wheel with at least so many slots, whose time is 0. The number is rounded up to a
    /// power of two.
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

    /// An empty wheel with at least so many slots, whose time is `now`.
    ///
    /// ```
    /// use tickwheel::wheel::HashedWheel;
    ///
    /// let mut wheel = HashedWheel::with_start(512, 1 << 40);
    /// wheel.insert((1 << 40) + 1, "soon");
    /// assert!(wheel.pop_due(1 << 40).is_none());
    /// assert!(wheel.pop_due((1 << 40) + 1).is_some());
    /// ```
    ///
    /// # Panics
    ///
    /// If `slots` is 0 or more than 2²⁴.
    #[track_caller]
    pub fn with_start(slots: usize, now: u64) -> Self {
        assert!(
            (1..=MAX_SLOTS).contains(&slots),
            "a hashed wheel has from 1 to {MAX_SLOTS} slots, not {slots}"
        );
        let slots = slots.next_power_of_two();
        let slot = Slot { far_earliest: u64::MAX, horizon: 0, reach: 4 };
        Self {
            entries: Entries::new(),
            lists: Lists::new(2 * slots + 1),
            slots: vec![slot; slots].into_boxed_slice(),
            round_shift: slots.trailing_zeros(),
            earliest: MinTree::new(slots),
            beyond_earliest: u64::MAX,
            due: Vec::new(),
            next_due: 0,
            overdue: Overdue::new(),
            moving: Vec::new(),
            patience: Patience::NEW,
            cursor: now,
            now,
            wake: u64::MAX,
        }
    }

    /// An empty wheel with at least so many slots, and room for `capacity` timers.
    ///
    /// ```
    /// use tickwheel::wheel::HashedWheel;
    ///
    /// let wheel: HashedWheel<u64> = HashedWheel::with_capacity(512, 1_000);
    /// assert!(wheel.memory_usage() >= 1_000 * 8);
    /// ```
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

    /// How many slots the ring has: a power of two.
    ///
    /// ```
    /// use tickwheel::wheel::HashedWheel;
    ///
    /// assert_eq!(HashedWheel::<()>::new(1_000).slots(), 1_024);
    /// ```
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Gives a live entry a reference that will be met at its deadline.
    #[inline(always)]
    fn place(&mut self, deadline: u64, index: u32, stamp: u8) {
        if deadline <= self.cursor || (deadline - self.cursor) >> self.round_shift >= BEYOND {
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
        // Few are the earliest so far: a branch costs less than writing each time.
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

    /// Notes that a slot has a timer that may be the earliest so far.
    #[cold]
    fn lower(&mut self, number: usize, deadline: u64) {
        self.wake = self.wake.min(deadline);
        self.earliest.lower(number, deadline);
    }

    /// As [`place`](Self::place), for what no slot can hold: it is too late or too far.
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
        loop {
            if let Some(&met) = self.due.get(self.next_due) {
                if self.overdue.first().is_some_and(|deadline| deadline < met.tick) {
                    if let Some(due) = self.pop_overdue(met.tick) {
                        return Some(due);
                    }
                    continue;
                }
                if let Some(ahead) = self.due.get(self.next_due + PREFETCH) {
                    self.entries.prefetch(ahead.index);
                }
                self.next_due += 1;
                if let Some(due) = self.follow(met) {
                    return Some(due);
                }
            } else if !self.overdue.is_empty() {
                if let Some(due) = self.pop_overdue(u64::MAX) {
                    return Some(due);
                }
            } else {
                self.tidy();
                if !self.gather() {
                    return None;
                }
            }
        }
    }

    /// Takes out the timer that a reference is about whose tick has come, if it is due then; else
    /// places it anew.
    #[inline]
    fn follow(&mut self, met: Met) -> Option<Due<T>> {
        match self.entries.meet(met.index, met.stamp, met.tick) {
            Meeting::Due(due) => return Some(due),
            Meeting::Later(deadline) => self.place(deadline, met.index, met.stamp),
            Meeting::Stale => {}
        }
        None
    }

    /// Takes out the first overdue timer with a deadline before `tick` or equal to `u64::MAX`.
    #[cold]
    fn pop_overdue(&mut self, tick: u64) -> Option<Due<T>> {
        while self.overdue.first().is_some_and(|deadline| deadline < tick || tick == u64::MAX)
            && let Some(late) = self.overdue.pop()
        {
            let met = Met { tick: late.deadline, index: late.index, stamp: late.stamp };
            let due = self.follow(met);
            if due.is_some() {
                return due;
            }
        }
        None
    }

    /// Empties the slots up to now into `due`; `false` if nothing was there.
    fn gather(&mut self) -> bool {
        self.next_due = 0;
        self.due.clear();
        self.due.shrink_to(KEPT);
        let floor = self.cursor.saturating_add(1);
        while let Some(number) = self.slot_to_visit() {
            self.visit(number, floor);
        }
        self.cursor = self.now;
        if self.beyond_earliest <= self.now {
            self.visit_beyond();
        }
        self.due.sort_unstable_by_key(|met| met.tick);
        for met in self.due.iter().take(PREFETCH) {
            self.entries.prefetch(met.index);
        }
        if self.due.is_empty() {
            self.wake = self.earliest.min().min(self.beyond_earliest);
            return false;
        }
        true
    }

    /// A slot with something due.
    fn slot_to_visit(&self) -> Option<usize> {
        let ring = self.slots.len();
        if self.now < u64::MAX {
            return (self.earliest.min() <= self.now).then(|| self.earliest.place_of_min());
        }
        // At the end of time everything is due, and a minimum cannot be told from that of an
        // empty slot.
        self.lists.first().filter(|&list| list < 2 * ring).map(|list| list % ring)
    }

    /// Takes what is due out of a slot, whose references are for ticks from `floor` on.
    fn visit(&mut self, number: usize, floor: u64) {
        let Self { now, ref mut due, .. } = *self;
        let rounds = Rounds::new(number, floor, self.slots.len());
        let mut near_earliest = u64::MAX;
        self.lists.retain(number, |reference| {
            let tick = rounds.tick(reference);
            let keep = tick > now;
            if keep {
                near_earliest = near_earliest.min(tick);
            } else {
                due.push(Met { tick, index: reference.index, stamp: reference.stamp() });
            }
            keep
        });
        if self.slots[number].far_earliest <= now {
            near_earliest = near_earliest.min(self.visit_far(number, rounds));
        }
        self.earliest.set(number, near_earliest.min(self.slots[number].far_earliest));
    }

    /// Takes what is due out of the far list of a slot, and what has come near over to the near
    /// list. Gives the earliest of the latter.
    fn visit_far(&mut self, number: usize, rounds: Rounds) -> u64 {
        let ring = self.slots.len();
        let Self { now, ref mut due, ref mut moving, .. } = *self;
        let slot = &mut self.slots[number];
        slot.set_horizon(now, ring);
        let mut near_earliest = u64::MAX;
        let mut far_earliest = u64::MAX;
        let mut stayed = 0;
        self.lists.retain(number + ring, |reference| {
            let tick = rounds.tick(reference);
            if tick <= now {
                due.push(Met { tick, index: reference.index, stamp: reference.stamp() });
            } else if tick < slot.horizon {
                near_earliest = near_earliest.min(tick);
                moving.push(reference);
            } else {
                far_earliest = far_earliest.min(tick);
                stayed += 1;
                return true;
            }
            false
        });
        slot.far_earliest = far_earliest;
        slot.adapt(moving.len(), stayed);
        for reference in moving.drain(..) {
            self.lists.append(number, reference);
        }
        moving.shrink_to(KEPT);
        near_earliest
    }

    /// Sees to stale references.
    #[inline]
    fn tidy(&mut self) {
        let spare = sweep::tidy(&self.entries, &mut self.lists, &mut self.overdue);
        let spare_due = sweep::spare(self.due.len(), self.entries.len(), KEPT);
        if spare_due == 0 {
            self.tidy_due();
        }
        self.patience.renew(spare.min(spare_due));
    }

    /// Drops from `due` what was popped, or is stale.
    #[cold]
    fn tidy_due(&mut self) {
        self.due.drain(..self.next_due);
        self.next_due = 0;
        let entries = &self.entries;
        self.due.retain(|met| entries.is_referenced(met.index, met.stamp));
        self.due.shrink_to(KEPT);
    }

    /// Moves what is no longer beyond to its slot or, if it is due, to `due`. The cursor is at now.
    #[cold]
    fn visit_beyond(&mut self) {
        let beyond = 2 * self.slots.len();
        self.beyond_earliest = u64::MAX;
        while let Some(chunk) = self.lists.pop_chunk(beyond) {
            self.moving.extend_from_slice(chunk.references());
        }
        for reference in core::mem::take(&mut self.moving) {
            let (index, stamp) = (reference.index, reference.stamp());
            match self.entries.referenced(index, stamp) {
                Some(tick) if tick <= self.now => self.due.push(Met { tick, index, stamp }),
                Some(deadline) => self.place(deadline, index, stamp),
                None => {}
            }
        }
    }
}

impl Slot {
    fn set_horizon(&mut self, now: u64, ring: usize) {
        self.horizon = now.saturating_add((ring as u64) << self.reach);
    }

    /// Sets the reach so that about the square root of all far timers come near at once: then
    /// walking the near list at each round and the far list once in a while cost the same.
    fn adapt(&mut self, came: usize, stayed: usize) {
        const MAX_REACH: u32 = 32;
        let square = came.saturating_mul(came);
        if square < stayed / 4 {
            self.reach = (self.reach + 1).min(MAX_REACH);
        } else if square > stayed.saturating_mul(4) {
            self.reach = self.reach.saturating_sub(1);
        }
    }
}

/// Says which tick a reference of one slot is for.
#[derive(Clone, Copy)]
struct Rounds {
    slot: u64,
    /// The first round in which the slot's tick is not before the floor.
    first: u64,
    shift: u32,
}

impl Rounds {
    fn new(slot: usize, floor: u64, ring: usize) -> Self {
        let shift = ring.trailing_zeros();
        let slot = slot as u64;
        let passed = slot < floor & (ring as u64 - 1);
        Self { slot, first: (floor >> shift) + u64::from(passed), shift }
    }

    #[inline]
    fn tick(self, reference: Reference) -> u64 {
        const MASK: u64 = (1 << Reference::TICK_BITS) - 1;
        let ahead = reference.tick().wrapping_sub(self.first) & MASK;
        let round = self.first.saturating_add(ahead);
        // Only a stale reference can be for a round that does not exist.
        let exists = round <= u64::MAX >> self.shift;
        if exists { round << self.shift | self.slot } else { u64::MAX }
    }
}

impl<T> Wheel<T> for HashedWheel<T> {
    fn next_wake(&self) -> Option<u64> {
        if self.entries.len() == 0 {
            return None;
        }
        let due = self.due.get(self.next_due).map(|met| met.tick);
        let overdue = self.overdue.first();
        let waiting = self.earliest.min().min(self.beyond_earliest).max(self.wake);
        due.into_iter().chain(overdue).min().or(Some(waiting))
    }

    fn drain(&mut self) -> Drain<'_, T> {
        let ring = self.slots.len();
        self.lists.clear();
        self.earliest = MinTree::new(ring);
        for slot in &mut self.slots {
            slot.far_earliest = u64::MAX;
        }
        self.beyond_earliest = u64::MAX;
        (self.due, self.next_due) = (Vec::new(), 0);
        self.overdue = Overdue::new();
        self.patience = Patience::NEW;
        (self.cursor, self.wake) = (self.now, u64::MAX);
        self.entries.drain()
    }

    fn reserve(&mut self, additional: usize) {
        self.entries.reserve(additional);
        self.lists.reserve(additional);
    }

    fn shrink_to_fit(&mut self) {
        self.entries.shrink_to_fit();
        self.lists.shrink_to_fit();
        let entries = &self.entries;
        self.overdue.retain(|late| entries.is_referenced(late.index, late.stamp));
        self.due.drain(..self.next_due);
        self.next_due = 0;
        self.due.shrink_to_fit();
        self.moving.shrink_to_fit();
    }

    fn memory_usage(&self) -> usize {
        self.entries.memory_usage()
            + self.lists.memory_usage()
            + size_of_val(&*self.slots)
            + self.earliest.memory_usage()
            + self.due.capacity() * size_of::<Met>()
            + self.overdue.memory_usage()
            + self.moving.capacity() * size_of::<Reference>()
    }

    fn check_invariants(&self) {
        assert!(self.cursor <= self.now, "the cursor is ahead of time");
        assert!(self.moving.is_empty(), "references between two lists");
        self.earliest.check_invariants();
        for (number, slot) in self.slots.iter().enumerate() {
            assert!(
                self.earliest.get(number) <= slot.far_earliest,
                "slot {number} and its far list"
            );
        }
        assert!(self.wake <= self.earliest.min(), "wakes after the earliest slot");
        let mut meetings = Meetings::default();
        let ring = self.slots.len();
        self.lists.check_invariants(|list, reference| {
            let number = list % ring;
            let floor = self.cursor.saturating_add(1);
            let tick = match list / ring {
                2 => self.beyond_earliest,
                _ => Rounds::new(number, floor, ring).tick(reference),
            };
            if self.entries.is_referenced(reference.index, reference.stamp()) {
                let slot_earliest = self.earliest.get(number);
                assert!(list == 2 * ring || slot_earliest <= tick, "slot {number} comes too late");
                let far_earliest = self.slots[number].far_earliest;
                assert!(list / ring != 1 || far_earliest <= tick, "far list {number} too late");
            }
            meetings.add(reference.index, reference.stamp(), tick);
        });
        let rest = &self.due[self.next_due.min(self.due.len())..];
        assert!(rest.is_sorted_by_key(|met| met.tick), "due timers out of order");
        for due in rest {
            meetings.add(due.index, due.stamp, due.tick);
        }
        for late in self.overdue.iter() {
            assert!(late.deadline <= self.cursor, "an overdue timer has a slot");
            meetings.add(late.index, late.stamp, late.deadline);
        }
        assert!(self.wake <= self.entries.earliest().unwrap_or(u64::MAX), "wakes too late");
        meetings.check(&self.entries);
    }

    wheel_api!(trait);
}

wheel_api!(HashedWheel, "HashedWheel::new(512)");
