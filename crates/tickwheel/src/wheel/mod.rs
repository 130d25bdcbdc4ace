//! Two timing wheels as plain data structures.
//!
//! A wheel holds values, each with a *deadline*: a tick, which is any `u64`. It knows no clock
//! and starts no thread. The caller passes the current tick to
//! [`pop_due`](HierarchicalWheel::pop_due) and gets the due timers in order of deadline. What a tick means (a millisecond, a microsecond,
//! a turn of a simulation) is up to the caller.
//!
//! ```
//! use tickwheel::wheel::HierarchicalWheel;
//!
//! let mut wheel = HierarchicalWheel::new();
//! let tea = wheel.insert(300, "tea");
//! wheel.insert(200, "toast");
//! wheel.reset(tea, 400);
//!
//! assert_eq!(wheel.pop_due(199).map(|due| due.value), None);
//! assert_eq!(wheel.pop_due(250).map(|due| due.value), Some("toast"));
//! assert_eq!(wheel.remove(tea), Some("tea"));
//! assert!(wheel.is_empty());
//! ```
//!
//! The idea is from G. Varghese and T. Lauck, *Hashed and Hierarchical Timing Wheels: Data
//! Structures for the Efficient Implementation of a Timer Facility* (SOSP 1987): time is a ring of
//! slots, a timer waits in the slot of its deadline, and a cursor goes round. Inserting and
//! cancelling take constant time, unlike in a heap.
//!
//! # The hierarchical wheel
//!
//! [`HierarchicalWheel`] is the one to use unless there is a reason not to. It has eight levels of
//! 256 slots, one level for each byte of a deadline. A timer waits at the level of the highest
//! byte in which its deadline differs from the wheel's time, in the slot of that byte's value:
//!
//! ```text
//!                       the wheel's time: 0x02_01_fe
//!
//! level 2  | 00 | 01 | 02 | 03 | ...                | ff |   65,536 ticks per slot
//!                      ^^     \_ 0x03_07_20 waits here, until time enters the slot
//! level 1  | 00 | 01 | 02 | 03 | ...                | ff |   256 ticks per slot
//!                 ^^     \_ 0x02_02_40
//! level 0  | 00 | 01 | ...                | fd | fe | ff |   1 tick per slot
//!                                                ^^     \_ 0x02_01_ff is due at the next tick
//! ```
//!
//! When time enters a slot of an outer level, its timers are *demoted* to inner levels. A timer is
//! demoted at most seven times, and one that is due within the current 256 ticks never.
//!
//! | level | a slot spans | the level spans | at 1 ms per tick |
//! |---|---|---|---|
//! | 0 | 1 tick | 2⁸ ticks | 256 ms |
//! | 1 | 2⁸ | 2¹⁶ | 66 s |
//! | 2 | 2¹⁶ | 2²⁴ | 4.7 hours |
//! | 3 | 2²⁴ | 2³² | 50 days |
//! | 4 | 2³² | 2⁴⁰ | 35 years |
//! | 5 | 2⁴⁰ | 2⁴⁸ | 8,900 years |
//! | 6 | 2⁴⁸ | 2⁵⁶ | 2.3 million years |
//! | 7 | 2⁵⁶ | 2⁶⁴ | 585 million years |
//!
//! # The hashed wheel
//!
//! [`HashedWheel`] is the classic of Netty and Dubbo: one ring. A timer waits in the slot
//! `deadline % slots`, together with the timers of other rounds.
//!
//! # How they are built
//!
//! Both stand on the same three parts:
//!
//! 1. **Entries** (`entries.rs`): one record per timer (value, deadline, generation) in an arena
//!    of segments. A [`Key`] is an index into it and a generation.
//! 2. **References** (`references.rs`): a slot of a wheel is a list of chunks of 8-byte
//!    references to entries.
//! 3. **Overdue timers** (`overdue.rs`): those whose tick has passed, in order of deadline. After a
//!    jump of the hashed wheel they are in `backlog.rs`.
//!
//! # Ground rules
//!
//! * **The entry is the truth; a reference is only a hint**: "examine entry *i* at tick *t*". A
//!   reference may be stale, so the entry is checked before a timer is fired, moved or dropped.
//! * **Every live entry has a reference that the wheel reaches at or before its deadline.** So no
//!   timer is late. A timer that is reached before its deadline is placed again. So none is early.
//! * Cancelling touches the entry alone, and so does moving a deadline later. Stale references
//!   are swept in small steps as soon as there are two of them for each live one (`sweep.rs`).
//! * **Work is done in steps**, each of which leaves the wheel consistent. `pop_due` takes as many
//!   steps as it needs, and [`advance`](HierarchicalWheel::advance) as many as its budget allows.

mod api;
pub(crate) mod arena;
mod backlog;
pub(crate) mod block;
mod entries;
#[cfg(feature = "std")]
pub(crate) mod hash_index;
mod hashed;
mod hierarchical;
mod invariants;
mod min_tree;
mod overdue;
#[cfg(feature = "std")]
pub(crate) mod pool;
mod references;
mod slots;
mod sweep;

#[cfg(feature = "std")]
pub(crate) use block::prefetch;
pub use entries::{Drain, Iter};
pub use hashed::HashedWheel;
pub use hierarchical::HierarchicalWheel;
pub use slots::{Slot, Slots};

/// The identity of one timer in one wheel. The wheel makes it, unlike `tickwheel::Key`, which the
/// caller of a `Timer` chooses.
///
/// A key stays valid through every [`reset`](HierarchicalWheel::reset) and becomes *stale* when its
/// timer is popped or removed. Every method returns `None` or `false` for a stale key, also when
/// the timer's memory has been reused. A wheel never returns the same key twice.
///
/// A key of another wheel is refused as well, because the generations of different wheels start far
/// apart. That holds until one of the two wheels has reused a single entry's memory about 2³² / *n*
/// times, where *n* is the number of wheels that the process has created. After that, the key may
/// match a timer of the wrong wheel, which is memory-safe.
///
/// ```
/// use tickwheel::wheel::{HierarchicalWheel, Key};
///
/// let mut wheel = HierarchicalWheel::new();
/// let stale: Key = wheel.insert(5, 'a');
/// wheel.remove(stale);
/// let fresh = wheel.insert(5, 'b');
/// assert_ne!(stale, fresh);
/// assert_eq!(wheel.remove(stale), None);
/// assert_eq!(wheel.get(fresh), Some(&'b'));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Key {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// A timer that left the wheel.
///
/// ```
/// use tickwheel::wheel::HierarchicalWheel;
///
/// let mut wheel = HierarchicalWheel::new();
/// wheel.insert(20, "tea");
/// let late = wheel.pop_due(25).map(|due| (due.value, 25 - due.deadline));
/// assert_eq!(late, Some(("tea", 5)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Due<T> {
    /// The key that the timer had. It is stale.
    pub key: Key,
    /// The deadline as it was last set, even if that was in the past.
    pub deadline: u64,
    /// The value.
    pub value: T,
}

/// A pending timer, returned by [`iter`](HierarchicalWheel::iter).
///
/// ```
/// use tickwheel::wheel::HierarchicalWheel;
///
/// let mut wheel = HierarchicalWheel::new();
/// wheel.insert(20, "tea");
/// wheel.insert(10, "toast");
/// let first = wheel.iter().min_by_key(|pending| pending.deadline);
/// assert_eq!(first.map(|pending| *pending.value), Some("toast"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pending<'a, T> {
    /// The timer's key.
    pub key: Key,
    /// Its deadline.
    pub deadline: u64,
    /// Its value.
    pub value: &'a T,
}

/// The result of [`advance`](HierarchicalWheel::advance).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub enum Advance {
    /// A timer is due, and `pop_due` takes it out in constant time.
    Due,
    /// No timer is due.
    Idle,
    /// The budget is spent. Whether a timer is due is not known yet: call `advance` again.
    Unfinished,
}

mod sealed {
    #[doc(hidden)]
    pub trait Sealed {}
}

/// The methods of both wheels, for code that is generic over them.
///
/// Each does what the method of the same name does on [`HierarchicalWheel`] and [`HashedWheel`],
/// which have them without this trait as well. The trait cannot be implemented outside this
/// crate, so that it can grow.
///
/// ```
/// use tickwheel::wheel::{HashedWheel, HierarchicalWheel, Wheel};
///
/// /// Pops everything that is due at `now` and returns how many timers that was.
/// fn turn<T>(wheel: &mut impl Wheel<T>, now: u64) -> usize {
///     std::iter::from_fn(|| wheel.pop_due(now)).count()
/// }
///
/// let mut hashed = HashedWheel::new(512);
/// let mut hierarchical = HierarchicalWheel::new();
/// hashed.insert(10, ());
/// hierarchical.insert(10, ());
/// assert_eq!(turn(&mut hashed, 10) + turn(&mut hierarchical, 10), 2);
/// ```
pub trait Wheel<T>: sealed::Sealed {
    /// See [`HierarchicalWheel::insert`].
    fn insert(&mut self, deadline: u64, value: T) -> Key;
    /// See [`HierarchicalWheel::remove`].
    fn remove(&mut self, key: Key) -> Option<T>;
    /// See [`HierarchicalWheel::reset`].
    fn reset(&mut self, key: Key, deadline: u64) -> bool;
    /// See [`HierarchicalWheel::deadline`].
    fn deadline(&self, key: Key) -> Option<u64>;
    /// See [`HierarchicalWheel::get`].
    fn get(&self, key: Key) -> Option<&T>;
    /// See [`HierarchicalWheel::get_mut`].
    fn get_mut(&mut self, key: Key) -> Option<&mut T>;
    /// See [`HierarchicalWheel::contains`].
    fn contains(&self, key: Key) -> bool;
    /// See [`HierarchicalWheel::len`].
    fn len(&self) -> usize;
    /// See [`HierarchicalWheel::is_empty`].
    fn is_empty(&self) -> bool;
    /// See [`HierarchicalWheel::now`].
    fn now(&self) -> u64;
    /// See [`HierarchicalWheel::next_wake`].
    fn next_wake(&self) -> Option<u64>;
    /// See [`HierarchicalWheel::pop_due`].
    fn pop_due(&mut self, now: u64) -> Option<Due<T>>;
    /// See [`HierarchicalWheel::advance`].
    fn advance(&mut self, now: u64, budget: usize) -> Advance;
    /// See [`HierarchicalWheel::clear`].
    fn clear(&mut self);
    /// See [`HierarchicalWheel::drain`].
    fn drain(&mut self) -> Drain<'_, T>;
    /// See [`HierarchicalWheel::iter`].
    fn iter(&self) -> Iter<'_, T>;
    /// See [`HierarchicalWheel::reserve`].
    #[track_caller]
    fn reserve(&mut self, additional: usize);
    /// See [`HierarchicalWheel::shrink_to_fit`].
    fn shrink_to_fit(&mut self);
    /// See [`HierarchicalWheel::memory_usage`].
    fn memory_usage(&self) -> usize;
    /// Examines the whole wheel, and panics if it is inconsistent. For tests.
    #[doc(hidden)]
    fn check_invariants(&self);
}
