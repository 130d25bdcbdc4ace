//! The two wheels of this project, through the trait that both implement.

use tickwheel::wheel::{HashedWheel, HierarchicalWheel, Key, Wheel};

use super::contender::Contender;

/// Slots of the hashed wheel: Netty's default.
const SLOTS: usize = 512;

/// One of our wheels as a contender.
pub(super) struct Ours<W>(W);

pub(super) type Hierarchical = Ours<HierarchicalWheel<u64>>;
pub(super) type Hashed = Ours<HashedWheel<u64>>;

/// Constructs a wheel; only this differs between the two.
pub(super) trait Make {
    fn make() -> Self;
}

impl Make for HierarchicalWheel<u64> {
    fn make() -> Self {
        Self::new()
    }
}

impl Make for HashedWheel<u64> {
    fn make() -> Self {
        Self::new(SLOTS)
    }
}

impl<W: Wheel<u64> + Make> Contender for Ours<W> {
    type Key = Key;
    const KEEPS_KEYS: bool = true;

    fn new() -> Self {
        Self(W::make())
    }

    fn insert(&mut self, deadline: u64, value: u64) -> Key {
        self.0.insert(deadline, value)
    }

    fn remove(&mut self, key: Key) -> u64 {
        self.0.remove(key).expect("the timer is pending")
    }

    fn reset(&mut self, key: &mut Key, deadline: u64) {
        assert!(self.0.reset(*key, deadline), "the timer is pending");
    }

    fn pop_due(&mut self, now: u64, mut due: impl FnMut(u64)) {
        while let Some(popped) = self.0.pop_due(now) {
            due(popped.value);
        }
    }
}
