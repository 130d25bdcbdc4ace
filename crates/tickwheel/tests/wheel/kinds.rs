//! Writes a test once and runs it on both wheels.
//!
//! A test is a function that is generic over [`Kind`]; [`on_both_wheels!`] makes a `#[test]` of it
//! for the hierarchical wheel and for hashed wheels with a tiny, a small and the usual ring.

use tickwheel::wheel::{HashedWheel, HierarchicalWheel, Wheel};

/// A kind of wheel that can hold any type.
pub(crate) trait Kind {
    type Wheel<T>: Wheel<T>;

    fn with_start<T>(now: u64) -> Self::Wheel<T>;

    fn new<T>() -> Self::Wheel<T> {
        Self::with_start(0)
    }
}

pub(crate) struct Hierarchical;

pub(crate) struct Hashed<const SLOTS: usize>;

impl Kind for Hierarchical {
    type Wheel<T> = HierarchicalWheel<T>;

    fn with_start<T>(now: u64) -> Self::Wheel<T> {
        HierarchicalWheel::with_start(now)
    }
}

impl<const SLOTS: usize> Kind for Hashed<SLOTS> {
    type Wheel<T> = HashedWheel<T>;

    fn with_start<T>(now: u64) -> Self::Wheel<T> {
        HashedWheel::with_start(SLOTS, now)
    }
}

/// Pops all timers that are due at `now`, and returns their deadlines and values in order.
pub(crate) fn pop_all<T>(wheel: &mut impl Wheel<T>, now: u64) -> Vec<(u64, T)> {
    std::iter::from_fn(|| wheel.pop_due(now)).map(|due| (due.deadline, due.value)).collect()
}

/// Makes a `#[test]` of each named function for each kind of wheel.
macro_rules! on_both_wheels {
    ($($test:ident),* $(,)?) => {
        mod hierarchical {
            $(#[test] fn $test() { super::$test::<crate::kinds::Hierarchical>(); })*
        }
        mod hashed_1 {
            $(#[test] fn $test() { super::$test::<crate::kinds::Hashed<1>>(); })*
        }
        mod hashed_8 {
            $(#[test] fn $test() { super::$test::<crate::kinds::Hashed<8>>(); })*
        }
        mod hashed_512 {
            $(#[test] fn $test() { super::$test::<crate::kinds::Hashed<512>>(); })*
        }
    };
}

pub(crate) use on_both_wheels;
