//! The occupied slots of a hierarchical wheel, for displays and diagnosis.
//!
//! Nothing is counted while the wheel works. The iterator walks the references of a slot and
//! leaves stale ones out.

use core::iter::FusedIterator;

use super::Pending;
use super::hierarchical::HierarchicalWheel;

/// An iterator over the slots of a [`HierarchicalWheel`] that hold timers, from the innermost level
/// outward and in order of time within a level. See [`slots`](HierarchicalWheel::slots).
///
/// ```
/// use tickwheel::wheel::HierarchicalWheel;
///
/// let wheel: HierarchicalWheel<char> = [(3, 'a'), (700, 'b'), (701, 'c')].into_iter().collect();
/// let slots: Vec<_> = wheel.slots().map(|slot| (slot.level, slot.slot, slot.count())).collect();
/// assert_eq!(slots, [(0, 3, 1), (1, 2, 2)]);
/// ```
pub struct Slots<'a, T> {
    pub(super) wheel: &'a HierarchicalWheel<T>,
    /// The list that is examined next.
    pub(super) next: usize,
}

impl<'a, T> Iterator for Slots<'a, T> {
    type Item = Slot<'a, T>;

    fn next(&mut self) -> Option<Slot<'a, T>> {
        loop {
            let list = self.wheel.next_occupied(self.next)?;
            self.next = list + 1;
            let slot = self.wheel.slot(list);
            if slot.timers().next().is_some() {
                return Some(slot);
            }
        }
    }
}

impl<T> FusedIterator for Slots<'_, T> {}

impl<T> Clone for Slots<'_, T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<T> core::fmt::Debug for Slots<'_, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

/// A slot of a [`HierarchicalWheel`] that holds timers.
///
/// ```
/// use tickwheel::wheel::HierarchicalWheel;
///
/// let mut wheel = HierarchicalWheel::new();
/// wheel.insert(70_000, "tea");
/// let slot = wheel.slots().next().unwrap();
/// assert_eq!((slot.level, slot.slot), (2, 1));
/// assert_eq!((slot.first, slot.last), (65_536, 131_071));
/// assert_eq!(slot.timers().next().map(|timer| *timer.value), Some("tea"));
/// ```
pub struct Slot<'a, T> {
    /// The level; 0 is the innermost, whose slots span one tick.
    pub level: usize,
    /// The number of the slot in its level.
    pub slot: usize,
    /// The first tick that the slot spans.
    pub first: u64,
    /// The last tick that the slot spans.
    pub last: u64,
    pub(super) wheel: &'a HierarchicalWheel<T>,
}

impl<'a, T> Slot<'a, T> {
    /// Iterates over the timers that wait in the slot, in no particular order.
    ///
    /// A timer whose deadline was moved later stays in its slot until time enters it, so its
    /// deadline may be after `last`.
    pub fn timers(&self) -> impl Iterator<Item = Pending<'a, T>> + use<'a, T> {
        self.wheel.timers_in(self.level, self.slot)
    }

    /// Returns the number of timers that wait in the slot, by walking all of them.
    pub fn count(&self) -> usize {
        self.timers().count()
    }
}

impl<T> Clone for Slot<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slot<'_, T> {}

impl<T> core::fmt::Debug for Slot<'_, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Slot")
            .field("level", &self.level)
            .field("slot", &self.slot)
            .field("first", &self.first)
            .field("last", &self.last)
            .field("count", &self.count())
            .finish()
    }
}
