//! Two timing wheels as plain data structures.
//!
//! A wheel holds values, each with a *deadline*: a tick, which is any `u64`. It knows no clock
//! and starts no thread: the caller says what tick it is ([`pop_due`](Wheel::pop_due)) and gets
//! back what is due, in order of deadline. What a tick means (a millisecond, a microsecond, a
//! turn of a simulation) is the caller's business.
//!
//! * [`HierarchicalWheel`]: rings above rings. The one to use unless there is a reason not to.
//! * [`HashedWheel`]: one ring, far timers wait their rounds. The classic of Netty and Dubbo.
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
//! # How they are built
//!
//! Both stand on the same three parts:
//!
//! 1. **Entries** (`entries.rs`): one record a timer (value, deadline, generation) in an arena of
//!    segments. A [`Key`] is an index into it and a generation.
//! 2. **References** (`references.rs`): a slot of a wheel is a list of chunks of 8-byte
//!    references, each naming an entry.
//! 3. **The overdue heap** (`overdue.rs`): timers that were already late when they were inserted.
//!
//! # Ground rules
//!
//! * **The entry is the truth; a reference is only a hint**: "look at entry *i* when tick *t*
//!   comes". A reference may be stale. Nothing is ever fired, moved or dropped because of what a
//!   reference says without asking the entry.
//! * **Every live entry has a reference that is met at or before its deadline.** So nothing is
//!   late. A timer that is met before its deadline is placed again. So nothing is early.
//! * Cancelling touches the entry alone, and so does moving a deadline later. Stale references
//!   are swept in small steps as soon as there are two of them to a live one.

mod api;
mod arena;
mod block;
mod entries;
mod hashed;
mod hierarchical;
mod invariants;
mod min_tree;
mod overdue;
mod references;
mod sweep;

pub use entries::{Drain, Iter};
pub use hashed::HashedWheel;
pub use hierarchical::HierarchicalWheel;

/// Names one timer of one wheel.
///
/// A key stays with its timer through every [`reset`](Wheel::reset), and is *stale* once the
/// timer was popped or removed: every method then answers `None` or `false`, also when the
/// timer's memory serves another timer by now. No key is ever given out twice by one wheel.
///
/// A key given to a wheel that did not make it is memory-safe and never corrupts that wheel. It
/// is refused too, because wheels start their generations far apart; that holds until one of the
/// two wheels has used a single entry's memory about 2³² / *n* times over, *n* being the number
/// of wheels the process has made.
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

/// A timer that left the wheel, with what it held.
///
/// ```
/// use tickwheel::wheel::{Due, HierarchicalWheel};
///
/// let mut wheel = HierarchicalWheel::new();
/// let key = wheel.insert(7, "seven");
/// let due = wheel.pop_due(10).unwrap();
/// assert_eq!(due, Due { key, deadline: 7, value: "seven" });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Due<T> {
    /// The key the timer had; stale from here on.
    pub key: Key,
    /// The deadline as it was last set, also where that lay in the past.
    pub deadline: u64,
    /// The value given to `insert`.
    pub value: T,
}

/// A timer that is still in the wheel, as [`iter`](Wheel::iter) shows it.
///
/// ```
/// use tickwheel::wheel::HierarchicalWheel;
///
/// let mut wheel = HierarchicalWheel::new();
/// let key = wheel.insert(7, "seven");
/// let pending = wheel.iter().next().unwrap();
/// assert_eq!((pending.key, pending.deadline, *pending.value), (key, 7, "seven"));
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

/// What both wheels can do, for code that is generic over them.
///
/// The methods are documented on the types, which have them without this trait as well:
/// [`HierarchicalWheel`], [`HashedWheel`].
///
/// ```
/// use tickwheel::wheel::{HashedWheel, HierarchicalWheel, Wheel};
///
/// /// Fires everything up to `now` and says how much that was.
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
pub trait Wheel<T> {
    /// Adds a timer; one whose deadline has passed is due at once.
    fn insert(&mut self, deadline: u64, value: T) -> Key;
    /// Takes a timer out before it is due.
    fn remove(&mut self, key: Key) -> Option<T>;
    /// Moves a timer's deadline, earlier or later.
    fn reset(&mut self, key: Key, deadline: u64) -> bool;
    /// The deadline of a pending timer.
    fn deadline(&self, key: Key) -> Option<u64>;
    /// The value of a pending timer.
    fn get(&self, key: Key) -> Option<&T>;
    /// The value of a pending timer, to change it in place.
    fn get_mut(&mut self, key: Key) -> Option<&mut T>;
    /// Whether the timer is pending.
    fn contains(&self, key: Key) -> bool;
    /// How many timers are pending.
    fn len(&self) -> usize;
    /// Whether none is.
    fn is_empty(&self) -> bool;
    /// The wheel's time: the largest tick it was told.
    fn now(&self) -> u64;
    /// A tick before which nothing is due; `None` if nothing is pending.
    fn next_wake(&self) -> Option<u64>;
    /// Moves time to `now` and takes out the pending timer with the smallest deadline, if that
    /// deadline has come.
    fn pop_due(&mut self, now: u64) -> Option<Due<T>>;
    /// Drops every pending timer.
    fn clear(&mut self);
    /// Takes out every pending timer, due or not, in no particular order.
    fn drain(&mut self) -> Drain<'_, T>;
    /// Looks at every pending timer, in no particular order.
    fn iter(&self) -> Iter<'_, T>;
    /// Makes room for `additional` more timers.
    fn reserve(&mut self, additional: usize);
    /// Gives back what memory it can without touching a pending timer.
    fn shrink_to_fit(&mut self);
    /// How many bytes the wheel has allocated.
    fn memory_usage(&self) -> usize;
    /// Walks the whole structure and panics where it contradicts itself. For tests.
    #[doc(hidden)]
    fn check_invariants(&self);
}
