//! The history of a wheel as data, to be played on a wheel and on a plain model at once.
//!
//! A [`Case`] is a kind of wheel, its first tick, and a list of operations. Deadlines and jumps are
//! relative to the wheel's time ([`When`]), and timers are named by their position among the
//! pending ones ([`Pick`]). So every list of [`Op`]s is valid, and a failing list stays valid when
//! operations are removed from it.
//!
//! * `plain.rs` is the model: a `BTreeMap`, too simple to be wrong.
//! * `pair.rs` plays each op on both and compares everything that is observable.
//!
//! The property tests and the fuzz target both include this file; the latter derives a case from
//! bytes, so no field here has a limited range: every number is valid.

mod pair;
mod plain;

use pair::Pair;
use plain::Plain;
use tickwheel::wheel::{HashedWheel, HierarchicalWheel, Wheel};

/// Which wheel a case is played on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub(crate) enum Shape {
    Hierarchical,
    /// A ring with this number of slots, not necessarily a power of two.
    Hashed(u16),
}

/// A tick, relative to the wheel's time. A tick before the first or after the last one is clamped.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub(crate) enum When {
    /// This number of ticks from now; in the past if negative.
    Near(i8),
    /// 2^exponent ticks from now, give or take a few.
    Power(u8, i8),
    /// 2^exponent ticks ago.
    Ago(u8),
    /// This number of whole turns of a ring of 2^exponent slots from now.
    Turns(u8, u8),
    /// The first multiple of 2^exponent after now, give or take a few.
    Boundary(u8, i8),
    /// The deadline of a pending timer, give or take a few; now if there is none.
    Like(Pick, i8),
    /// This absolute tick.
    At(u64),
    /// This number of ticks before the last tick.
    End(u8),
}

/// The timer of an op.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub(crate) enum Pick {
    /// The one that is due first.
    First,
    /// One of the pending timers, by a number modulo their count, in order of deadline.
    Any(u16),
    /// A stale key, by a number modulo their count, the latest first.
    Stale(u16),
    /// A key of another wheel of the same kind.
    Foreign(u8),
}

/// One operation on a wheel.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub(crate) enum Op {
    Insert(When),
    /// Inserts this number of timers, from a deadline on, with a distance in ticks.
    InsertMany(u8, When, u16),
    Remove(Pick),
    /// Removes every n-th pending timer.
    RemoveEvery(u8),
    Reset(Pick, When),
    /// Resets every n-th pending timer, from a deadline on, with a distance in ticks.
    ResetEvery(u8, When, u16),
    /// Writes a new value through `get_mut`.
    Change(Pick),
    /// Pops one timer.
    Pop(When),
    /// Pops until nothing is due.
    PopAll(When),
    /// Advances once with this budget.
    Advance(When, u8),
    /// Pops one timer as a driver with a lock does: advances with this budget until that is finished,
    /// then pops.
    PopInSteps(When, u8),
    /// Acts as a driver: advances to the tick of `next_wake` and pops until nothing is due.
    Wake,
    Clear,
    /// Drains, and drops the `Drain` after this number of timers.
    Drain(u8),
    Shrink,
    Reserve(u16),
}

/// A wheel, its first tick, and the operations on it.
#[derive(Clone, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub(crate) struct Case {
    pub(crate) shape: Shape,
    /// The first tick, relative to tick 0.
    pub(crate) start: When,
    pub(crate) ops: Vec<Op>,
}

impl When {
    /// Returns the absolute tick.
    fn tick(self, plain: &Plain) -> u64 {
        let now = i128::from(plain.now());
        let power = |exponent: u8| 1_i128 << (exponent % 64);
        let tick = match self {
            When::Near(few) => now + i128::from(few),
            When::Power(exponent, few) => now + power(exponent) + i128::from(few),
            When::Ago(exponent) => now - power(exponent),
            When::Turns(exponent, turns) => now + power(exponent) * i128::from(turns),
            When::Boundary(exponent, few) => {
                let slots = power(exponent);
                (now / slots + 1) * slots + i128::from(few)
            }
            When::Like(pick, few) => {
                let deadline = plain.pick(pick).and_then(|key| plain.deadline(key));
                deadline.map_or(now, i128::from) + i128::from(few)
            }
            When::At(tick) => i128::from(tick),
            When::End(before) => i128::from(u64::MAX - u64::from(before)),
        };
        u64::try_from(tick.max(0)).unwrap_or(u64::MAX)
    }
}

impl Case {
    /// Plays the case on its wheel; panics where the wheel and the model differ.
    pub(crate) fn run(&self) {
        let start = self.start.tick(&Plain::new(0));
        match self.shape {
            Shape::Hierarchical => {
                play(|| HierarchicalWheel::with_start(start), start, &self.ops, true);
            }
            Shape::Hashed(slots) => {
                let slots = usize::from(slots.clamp(1, 4096));
                play(|| HashedWheel::with_start(slots, start), start, &self.ops, false);
            }
        }
    }
}

/// Plays `ops` on a wheel that `make` creates. `fifo` is `true` if the wheel promises the order of
/// insertion among equal deadlines.
fn play<W: Wheel<u64>>(make: impl Fn() -> W, start: u64, ops: &[Op], fifo: bool) {
    let mut other = make();
    let foreign = (0..8).map(|few| other.insert(start.saturating_add(few), few)).collect();
    let mut pair = Pair::new(make(), Plain::new(start), foreign, fifo);
    for op in ops {
        pair.step(*op);
    }
    pair.finish();
}
