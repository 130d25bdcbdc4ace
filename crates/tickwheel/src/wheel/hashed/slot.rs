//! A slot of the ring: the horizon of its near list, and the meaning of a reference's round.

use super::super::references::Reference;

/// The number of rounds from which on a reference cannot tell rounds apart.
const BEYOND: u64 = (1 << Reference::TICK_BITS) - 1;

#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// The earliest deadline in the far list.
    pub(super) far_earliest: u64,
    /// Deadlines before this go to the near list.
    pub(super) horizon: u64,
    /// The binary logarithm of the number of rounds by which the horizon is ahead.
    reach: u32,
}

impl Slot {
    pub(super) const EMPTY: Self = Self { far_earliest: u64::MAX, horizon: 0, reach: 4 };

    pub(super) fn set_horizon(&mut self, now: u64, ring: usize) {
        self.horizon = now.saturating_add((ring as u64) << self.reach);
    }

    /// Sets the reach so that about the square root of all far timers become near at once. Walking
    /// the near list in each round then costs as much as walking the far list now and then.
    pub(super) fn adapt(&mut self, came: usize, stayed: usize) {
        const MAX_REACH: u32 = 32;
        let square = came.saturating_mul(came);
        if square < stayed / 4 {
            self.reach = (self.reach + 1).min(MAX_REACH);
        } else if square > stayed.saturating_mul(4) {
            self.reach = self.reach.saturating_sub(1);
        }
    }
}

/// Returns `true` if a deadline is too many rounds after the cursor for a reference.
#[inline(always)]
pub(super) fn is_beyond(deadline: u64, cursor: u64, round_shift: u32) -> bool {
    deadline > cursor && (deadline - cursor) >> round_shift >= BEYOND
}

/// Computes the ticks of a slot's references.
#[derive(Clone, Copy)]
pub(super) struct Rounds {
    slot: u64,
    /// The first round in which the slot's tick is not before the floor.
    first: u64,
    shift: u32,
}

impl Rounds {
    pub(super) fn new(slot: usize, floor: u64, ring: usize) -> Self {
        let shift = ring.trailing_zeros();
        let slot = slot as u64;
        let passed = slot < floor & (ring as u64 - 1);
        Self { slot, first: (floor >> shift) + u64::from(passed), shift }
    }

    #[inline]
    pub(super) fn tick(self, reference: Reference) -> u64 {
        const MASK: u64 = (1 << Reference::TICK_BITS) - 1;
        let ahead = reference.tick().wrapping_sub(self.first) & MASK;
        let round = self.first.saturating_add(ahead);
        // Only a stale reference can have a round that does not exist.
        let exists = round <= u64::MAX >> self.shift;
        if exists { round << self.shift | self.slot } else { u64::MAX }
    }
}
