//! `hierarchical_hash_wheel_timer`: its cancellable four-level wheel, without its threads.
//!
//! A timer is an `Rc` that a hash map owns by id; the slots hold weak references. So a removal
//! takes the `Rc` out of the map, and its memory is freed when the wheel reaches the slot. The
//! value is used as the id, which saves a field. The wheel has no reset, so a reset is a removal
//! and an insertion. The wheel must be called for each tick except those that its `can_skip` allows
//! to skip.

use std::rc::Rc;
use std::time::Duration;

use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::{
    CancellableTimerEntry, QuadWheelWithOverflow,
};

use crate::wheel::contender::Contender;

#[derive(Debug)]
struct Timer {
    value: u64,
}

impl CancellableTimerEntry for Timer {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.value
    }
}

pub(in crate::wheel) struct HashWheelTimer {
    wheel: QuadWheelWithOverflow<Timer>,
    now: u64,
}

impl HashWheelTimer {
    /// Skips as many of the next `ticks` as the wheel allows, and returns their number.
    fn skip(&mut self, ticks: u64) -> u64 {
        let ticks = match self.wheel.can_skip() {
            Skip::Empty => ticks,
            Skip::Millis(most) => ticks.min(u64::from(most)),
            Skip::None => 0,
        };
        self.wheel.skip(ticks as u32);
        ticks
    }
}

impl Contender for HashWheelTimer {
    type Key = u64;
    const KEEPS_KEYS: bool = true;

    fn new() -> Self {
        Self { wheel: QuadWheelWithOverflow::new(), now: 0 }
    }

    fn insert(&mut self, deadline: u64, value: u64) -> u64 {
        let delay = Duration::from_millis(deadline - self.now);
        let accepted = self.wheel.insert_ref_with_delay(Rc::new(Timer { value }), delay);
        assert!(accepted.is_ok(), "the deadline is later than the current tick");
        value
    }

    fn remove(&mut self, key: u64) -> u64 {
        assert!(self.wheel.cancel(&key).is_ok(), "the timer is pending");
        key
    }

    fn reset(&mut self, key: &mut u64, deadline: u64) {
        let value = self.remove(*key);
        self.insert(deadline, value);
    }

    fn pop_due(&mut self, now: u64, mut due: impl FnMut(u64)) {
        while self.now < now {
            // The last tick is never skipped, so a step of one tick does not call `can_skip`.
            if self.now + 1 < now {
                self.now += self.skip(now - self.now - 1);
            }
            self.now += 1;
            for timer in self.wheel.tick() {
                due(timer.value);
            }
        }
    }
}
