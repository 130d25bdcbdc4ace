//! The hierarchical wheel, for every mix of near and far deadlines.
//!
//! It has eight levels of 256 slots, one level for each byte of a deadline. A timer waits at the level
//! of the highest byte in which its deadline differs from the wheel's time, in the slot of that
//! byte's value. So level 0 holds the ticks of the current block of 256, level 1 the next blocks of
//! 256 ticks, and so on. Together the levels cover all 64 bits of a deadline. When time enters a slot
//! of an outer level, its timers are *demoted* to inner levels.
//!
//! Ground rules, on top of those of the module:
//! * `now` is the time that the caller has set, and `cursor` the tick up to which the wheel has
//!   followed it: `cursor <= now`. Nothing is due before `wake`, so the cursor does not move until
//!   then.
//! * At level 0 the occupied slots are at or after the cursor's; at outer levels they are after
//!   it. So the first occupied list of all is always the next that the cursor reaches, and finding
//!   it takes two instructions on a bitmap.
//! * `batch` holds references for the tick `cursor`, already taken out of their list.
//! * A slot is demoted chunk by chunk, and between two chunks the wheel can be used as usual.
//!   Meanwhile `demoting` is the slot's list and `floor` its first tick; otherwise `floor` is
//!   `cursor`. No other inner list was occupied when the demotion began, so inner lists only hold
//!   what was demoted from this slot, and nothing is popped from them before it is empty.
//! * During a demotion `cursor` stays at `floor - 1`, the last tick before the slot. So a timer
//!   inserted for this slot joins the end of its list, after those that were inserted before it;
//!   and timers with equal deadlines keep their order.
//! * Deadlines before `floor` are overdue.

use core::fmt;

use super::api::wheel_api;
use super::entries::{Drain, Entries, Iter, Meeting, Reset};
use super::invariants::Meetings;
use super::overdue::{Late, Overdue};
use super::references::{CHUNK, Chunk, Lists, Reference};
use super::slots::{Slot, Slots};
use super::sweep::Sweep;
use super::{Advance, Due, Key, Pending, Wheel};

/// The number of bits of a deadline that one level uses.
const LEVEL_BITS: u32 = 8;
const SLOTS: usize = 1 << LEVEL_BITS;
const LEVELS: usize = (u64::BITS / LEVEL_BITS) as usize;

/// Up to this level, the slot and the tick in the reference give the whole deadline.
const EXACT_LEVELS: usize = (Reference::TICK_BITS / LEVEL_BITS) as usize;

/// A timing wheel of eight levels: O(1) for every operation, any `u64` deadline, nothing to tune.
///
/// Deadlines are ticks. The wheel's time starts at 0, or at the time passed to
/// [`with_start`](HierarchicalWheel::with_start), and moves with
/// [`pop_due`](HierarchicalWheel::pop_due).
///
/// Timers with equal deadlines come out in the order in which they were inserted, unless one with
/// that deadline was reset or removed; then their order is unspecified.
///
/// ```
/// use tickwheel::wheel::HierarchicalWheel;
///
/// let mut wheel = HierarchicalWheel::new();
/// wheel.insert(20, "second");
/// wheel.insert(u64::MAX, "never, or nearly so");
/// wheel.insert(10, "first");
///
/// let mut fired = Vec::new();
/// while let Some(due) = wheel.pop_due(1_000) {
///     fired.push(due.value);
/// }
/// assert_eq!(fired, ["first", "second"]);
/// assert_eq!(wheel.len(), 1);
/// ```
pub struct HierarchicalWheel<T> {
    entries: Entries<T>,
    lists: Lists,
    overdue: Overdue,
    batch: Batch,
    sweep: Sweep,
    /// The list of an outer level that is being demoted.
    demoting: Option<usize>,
    cursor: u64,
    floor: u64,
    now: u64,
    wake: u64,
}

/// The references to follow next, all for one tick.
struct Batch {
    chunk: Chunk,
    next: usize,
}

impl Batch {
    const EMPTY: Self = Self { chunk: Chunk::EMPTY, next: 0 };

    #[inline]
    fn first(&self) -> Option<Reference> {
        self.chunk.references().get(self.next).copied()
    }

    #[inline]
    fn pop(&mut self) -> Option<Reference> {
        let reference = self.first()?;
        self.next += 1;
        Some(reference)
    }

    fn rest(&self) -> &[Reference] {
        &self.chunk.references()[self.next..]
    }
}

impl<T> HierarchicalWheel<T> {
    /// Creates an empty wheel whose time is 0.
    pub fn new() -> Self {
        Self::with_start(0)
    }

    /// Creates an empty wheel whose time is `now`.
    ///
    /// ```
    /// use tickwheel::wheel::HierarchicalWheel;
    ///
    /// let mut wheel = HierarchicalWheel::with_start(1 << 40);
    /// wheel.insert((1 << 40) + 1, "soon");
    /// assert!(wheel.pop_due(1 << 40).is_none());
    /// assert!(wheel.pop_due((1 << 40) + 1).is_some());
    /// ```
    pub fn with_start(now: u64) -> Self {
        Self {
            entries: Entries::new(),
            lists: Lists::new(LEVELS * SLOTS),
            overdue: Overdue::new(),
            batch: Batch::EMPTY,
            sweep: Sweep::NEW,
            demoting: None,
            cursor: now,
            floor: now,
            now,
            wake: u64::MAX,
        }
    }

    /// Creates an empty wheel with memory for `capacity` timers.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut wheel = Self::new();
        wheel.reserve(capacity);
        wheel
    }

    /// The number of levels.
    pub const LEVELS: usize = LEVELS;

    /// The number of slots of each level. A slot of level *n* spans 256ⁿ ticks.
    pub const SLOTS: usize = SLOTS;

    /// Iterates over the slots that hold timers, from the innermost level outward. For displays:
    /// counting walks the timers, and the wheel keeps nothing for it.
    ///
    /// Timers that are [overdue](Self::overdue) are in no slot.
    ///
    /// ```
    /// use tickwheel::wheel::HierarchicalWheel;
    ///
    /// let mut wheel = HierarchicalWheel::new();
    /// wheel.insert(200, "near");
    /// wheel.insert(1_000, "far");
    /// wheel.insert(1_001, "far");
    /// let slots: Vec<_> = wheel.slots().map(|slot| (slot.first, slot.last, slot.count())).collect();
    /// assert_eq!(slots, [(200, 200, 1), (768, 1_023, 2)]);
    /// ```
    pub fn slots(&self) -> Slots<'_, T> {
        Slots { wheel: self, next: 0 }
    }

    /// Returns the number of timers that are in no slot because their tick has passed. They are
    /// popped next. Walks all of them.
    pub fn overdue(&self) -> usize {
        let live = |late: &Late| self.entries.referenced(late.index, late.stamp).is_some();
        self.overdue.iter().filter(live).count()
    }

    /// Returns the first list at or after `list` that may hold timers.
    pub(super) fn next_occupied(&self, list: usize) -> Option<usize> {
        let next = self.lists.next_occupied(list);
        // The references of the batch were taken out of this list.
        let batch = (self.cursor % SLOTS as u64) as usize;
        if self.batch.first().is_some() && list <= batch {
            return Some(next.map_or(batch, |next| next.min(batch)));
        }
        next
    }

    /// Describes the slot of a list.
    pub(super) fn slot(&self, list: usize) -> Slot<'_, T> {
        let (level, slot) = (list / SLOTS, list % SLOTS);
        let first = slot_start(level, slot, self.floor);
        let span = 1 << (LEVEL_BITS * level as u32);
        Slot { level, slot, first, last: first | (span - 1), wheel: self }
    }

    /// Iterates over the timers of a slot.
    pub(super) fn timers_in(
        &self,
        level: usize,
        slot: usize,
    ) -> impl Iterator<Item = Pending<'_, T>> + use<'_, T> {
        let is_batch = level == 0 && slot as u64 == self.cursor % SLOTS as u64;
        let batch = if is_batch { self.batch.rest() } else { &[] };
        let listed = self.lists.iter(level * SLOTS + slot);
        let references = batch.iter().copied().chain(listed);
        references.filter_map(|it| self.entries.pending(it.index, it.stamp()))
    }

    /// Adds a reference that the wheel reaches at the deadline of a live entry.
    #[inline(always)]
    fn place(&mut self, deadline: u64, index: u32, stamp: u8) {
        if deadline < self.wake {
            self.wake_at(deadline);
        }
        if deadline < self.floor {
            self.overdue.push(deadline, index, stamp);
        } else {
            let list = list_of(deadline, self.cursor);
            self.lists.append_and_note(list, Reference::new(index, deadline, stamp));
        }
    }

    /// A function of its own, because few timers are the earliest so far.
    #[cold]
    fn wake_at(&mut self, deadline: u64) {
        self.wake = deadline;
    }

    #[inline]
    fn pop_next(&mut self) -> Option<Due<T>> {
        if self.overdue.is_empty()
            && let Some(reference) = self.batch.pop()
            && let due @ Some(_) = self.follow(reference.index, reference.stamp(), self.cursor)
        {
            return due;
        }
        self.search_next()
    }

    /// As [`pop_next`](Self::pop_next), if the next reference does not lead to a due timer.
    fn search_next(&mut self) -> Option<Due<T>> {
        let mut unbounded = usize::MAX;
        loop {
            if !self.overdue.is_empty()
                && let due @ Some(_) = self.pop_overdue()
            {
                return due;
            }
            while let Some(reference) = self.batch.pop() {
                let due = self.follow(reference.index, reference.stamp(), self.cursor);
                if due.is_some() {
                    return due;
                }
            }
            if self.refill(&mut unbounded) == Advance::Idle {
                return None;
            }
        }
    }

    #[cold]
    fn pop_overdue(&mut self) -> Option<Due<T>> {
        while let Some(late) = self.overdue.pop_until(u64::MAX, |_| ()) {
            let due = self.follow(late.index, late.stamp, late.deadline);
            if due.is_some() {
                return due;
            }
        }
        None
    }

    /// Does the work before the first due timer, until that is the first overdue timer or the first
    /// of the batch. Stops after examining about `budget` references.
    #[inline(never)]
    fn prepare(&mut self, budget: usize) -> Advance {
        let mut left = budget.max(1);
        while left > 0 {
            if let Some(late) = self.overdue.first_until(u64::MAX) {
                if self.entries.is_due(late.index, late.stamp, late.deadline) {
                    return Advance::Due;
                }
                self.overdue.pop_until(u64::MAX, |_| ());
                self.follow(late.index, late.stamp, late.deadline);
                left -= 1;
            } else if let Some(reference) = self.batch.first() {
                if self.entries.is_due(reference.index, reference.stamp(), self.cursor) {
                    return Advance::Due;
                }
                self.batch.pop();
                self.follow(reference.index, reference.stamp(), self.cursor);
                left -= 1;
            } else if self.refill(&mut left) == Advance::Idle {
                return Advance::Idle;
            }
        }
        Advance::Unfinished
    }

    /// Moves the cursor to the next occupied tick and takes a batch from its list. Returns
    /// [`Advance::Idle`], with the cursor at `now`, if no tick up to now is occupied.
    #[inline(always)]
    fn refill(&mut self, left: &mut usize) -> Advance {
        loop {
            if let Some(list) = self.demoting {
                self.demote(list, left);
                if self.demoting.is_some() {
                    return Advance::Unfinished;
                }
            }
            let Some(list) = self.lists.first() else { break };
            let (level, slot) = (list / SLOTS, list % SLOTS);
            let start = slot_start(level, slot, self.cursor);
            if start > self.now {
                break;
            }
            self.floor = start;
            if level == 0 {
                self.cursor = start;
                self.lists.pop_chunk_into(list, &mut self.batch.chunk);
                self.batch.next = 0;
                self.prefetch_batch();
                return Advance::Due;
            }
            // The slot is after the cursor's, so it is not the first one of its level.
            self.cursor = start - 1;
            self.demoting = Some(list);
        }
        (self.cursor, self.floor) = (self.now, self.now);
        if self.sweep.has_stale() {
            self.tidy();
        }
        if !self.skip_stale(left) {
            return Advance::Unfinished;
        }
        self.wake = self.next_list().unwrap_or(u64::MAX);
        Advance::Idle
    }

    /// Drops the next references while they are stale, so that they cause no wake-up. Returns `false`
    /// if the budget ran out.
    #[inline(always)]
    fn skip_stale(&mut self, budget: &mut usize) -> bool {
        while let Some(list) = self.lists.first() {
            let stamps = self.entries.stamps();
            let live = |r: &Reference| stamps.has(r.index, r.stamp());
            let references = self.lists.to_pop(list);
            if references.iter().any(live) {
                break;
            }
            if *budget == 0 {
                return false;
            }
            *budget = budget.saturating_sub(CHUNK);
            self.sweep.dropped(references.len());
            self.lists.pop_chunk(list);
        }
        true
    }

    /// Returns a tick before which the wheel reaches no reference, or `None` if there is none.
    fn next_list(&self) -> Option<u64> {
        let list = self.lists.first()?;
        let (level, slot) = (list / SLOTS, list % SLOTS);
        let start = slot_start(level, slot, self.cursor);
        if level == 0 || level > EXACT_LEVELS {
            return Some(start);
        }
        let rest = (1 << (LEVEL_BITS * level as u32)) - 1;
        Some(start | self.lists.min_tick(list)? & rest)
    }

    /// Prefetches the entries of the batch after this one.
    #[inline]
    fn prefetch_batch(&self) {
        if let Some(list) = self.lists.first() {
            for reference in self.lists.to_pop(list) {
                self.entries.prefetch(reference.index);
            }
        }
    }

    /// Sweeps stale references if there are too many.
    #[inline]
    fn tidy(&mut self) {
        self.sweep.tidy(&self.entries, &mut self.lists, &mut self.overdue, None);
    }

    /// Moves the timers of the slot that time has entered to inner levels, chunk by chunk, until the
    /// slot is empty or the budget is used up.
    fn demote(&mut self, list: usize, left: &mut usize) {
        while *left > 0 {
            let Some(chunk) = self.lists.pop_chunk(list) else {
                self.demoting = None;
                self.cursor = self.floor;
                return;
            };
            self.demote_chunk(list / SLOTS, &chunk);
            *left = left.saturating_sub(CHUNK);
        }
    }

    fn demote_chunk(&mut self, level: usize, chunk: &Chunk) {
        let stamps = self.entries.stamps();
        let mut stale = 0;
        if level == 1 {
            for &reference in chunk.references() {
                if stamps.has(reference.index, reference.stamp()) {
                    self.lists.append(reference.tick() as usize % SLOTS, reference);
                } else {
                    stale += 1;
                }
            }
        } else if level <= EXACT_LEVELS {
            // The slot starts where all lower bits are zero.
            let rest = (1 << (LEVEL_BITS * level as u32)) - 1;
            for &reference in chunk.references() {
                if stamps.has(reference.index, reference.stamp()) {
                    self.lists.append_and_note(list_of(reference.tick() & rest, 0), reference);
                } else {
                    stale += 1;
                }
            }
        } else {
            let cursor = core::mem::replace(&mut self.cursor, self.floor);
            for &reference in chunk.references() {
                let (index, stamp) = (reference.index, reference.stamp());
                match self.entries.referenced(index, stamp) {
                    Some(deadline) => self.place(deadline, index, stamp),
                    None => stale += 1,
                }
            }
            self.cursor = cursor;
        }
        self.sweep.dropped(stale);
    }
}

/// Returns the list for `deadline` while the time is `cursor`, which is not after it.
#[inline]
fn list_of(deadline: u64, cursor: u64) -> usize {
    // The position of the highest bit that differs. Its lower three bits are the position in a byte.
    let bit = (deadline ^ cursor | 1).leading_zeros() ^ (u64::BITS - 1);
    let shift = bit & !(LEVEL_BITS - 1);
    let slot = deadline >> shift & (SLOTS as u64 - 1);
    shift as usize * (SLOTS / LEVEL_BITS as usize) + slot as usize
}

/// Returns the first tick of a slot, which is not before the cursor's.
#[inline]
fn slot_start(level: usize, slot: usize, cursor: u64) -> u64 {
    let shift = LEVEL_BITS * level as u32;
    (cursor >> shift & !(SLOTS as u64 - 1) | slot as u64) << shift
}

impl<T> Wheel<T> for HierarchicalWheel<T> {
    fn next_wake(&self) -> Option<u64> {
        if self.entries.len() == 0 {
            return None;
        }
        if !self.overdue.is_empty() {
            return self.overdue.earliest();
        }
        if self.batch.first().is_some() {
            return Some(self.cursor);
        }
        let next = if self.demoting.is_some() { Some(self.floor) } else { self.next_list() };
        Some(next.unwrap_or(0).max(self.wake))
    }

    fn drain(&mut self) -> Drain<'_, T> {
        self.lists.clear();
        self.overdue = Overdue::new();
        self.batch = Batch::EMPTY;
        self.sweep = Sweep::NEW;
        self.demoting = None;
        (self.cursor, self.floor, self.wake) = (self.now, self.now, u64::MAX);
        self.entries.drain()
    }

    fn shrink_to_fit(&mut self) {
        self.entries.shrink_to_fit();
        self.lists.shrink_to_fit();
    }

    fn memory_usage(&self) -> usize {
        self.entries.memory_usage() + self.lists.memory_usage() + self.overdue.memory_usage()
    }

    fn check_invariants(&self) {
        assert!(self.floor <= self.now, "the cursor is ahead of time");
        let step = u64::from(self.demoting.is_some());
        assert_eq!(self.cursor + step, self.floor, "the cursor and the floor");
        assert!(self.demoting.is_none() || self.batch.first().is_none(), "a batch too early");
        let mut meetings = Meetings::default();
        self.lists.check_invariants(|list, reference| {
            let (level, slot) = (list / SLOTS, list % SLOTS);
            let start = slot_start(level, slot, self.floor);
            let entered = level == 0 || self.demoting == Some(list);
            assert!(
                start > self.floor || entered && start == self.floor,
                "slot {slot} of level {level} has passed"
            );
            let rest = (1 << (LEVEL_BITS * level.min(EXACT_LEVELS) as u32)) - 1;
            let tick = if level <= EXACT_LEVELS { start | reference.tick() & rest } else { start };
            if level > 0 {
                assert!(self.lists.min_tick(list) <= Some(reference.tick()), "smallest tick");
            }
            meetings.add(reference.index, reference.stamp(), tick);
        });
        for reference in self.batch.rest() {
            meetings.add(reference.index, reference.stamp(), self.cursor);
        }
        for late in self.overdue.iter() {
            assert!(late.deadline < self.floor, "an overdue timer has a slot");
            meetings.add(late.index, late.stamp, late.deadline);
        }
        assert!(self.wake <= self.entries.earliest().unwrap_or(u64::MAX), "wakes too late");
        self.sweep.check_invariants(meetings.count(), self.entries.len());
        meetings.check(&self.entries);
    }

    wheel_api!(trait);
}

wheel_api!(HierarchicalWheel, "HierarchicalWheel::new()");

impl<T> Default for HierarchicalWheel<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> FromIterator<(u64, T)> for HierarchicalWheel<T> {
    fn from_iter<I: IntoIterator<Item = (u64, T)>>(timers: I) -> Self {
        let mut wheel = Self::new();
        wheel.extend(timers);
        wheel
    }
}
