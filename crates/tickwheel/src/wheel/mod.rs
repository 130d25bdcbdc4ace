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
pub(crate) mod arena;
pub(crate) mod block;
mod entries;
#[cfg(feature = "std")]
pub(crate) mod hash_index;
mod hashed;
mod hierarchical;
mod invariants;
mod min_tree;
mod overdue;
#[cfg(feature = "pace")]
pub(crate) mod pool;
mod references;
mod sweep;

#[cfg(feature = "std")]
pub(crate) use block::prefetch;
pub use entries::{Drain, Iter};
pub use hashed::HashedWheel;
pub use hierarchical::HierarchicalWheel;

/// Names one timer of one wheel: where the wheel keeps it. The wheel makes it, unlike
/// `tickwheel::Key`, which is a name that the caller of a `Timer` gives to a task.
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
    ///
    /// ```
    /// use tickwheel::wheel::{HashedWheel, HierarchicalWheel, Key, Wheel};
    ///
    /// fn in_ten_ticks<T>(wheel: &mut impl Wheel<T>, value: T) -> Key {
    ///     wheel.insert(wheel.now() + 10, value)
    /// }
    ///
    /// in_ten_ticks(&mut HierarchicalWheel::new(), "a");
    /// in_ten_ticks(&mut HashedWheel::new(512), "b");
    /// ```
    fn insert(&mut self, deadline: u64, value: T) -> Key;

    /// Takes a timer out before it is due.
    ///
    /// ```
    /// use tickwheel::wheel::{HierarchicalWheel, Key, Wheel};
    ///
    /// /// Cancels, and says how many ticks before the deadline that was.
    /// fn cancel<T>(wheel: &mut impl Wheel<T>, key: Key) -> Option<u64> {
    ///     let left = wheel.deadline(key)?.saturating_sub(wheel.now());
    ///     wheel.remove(key).map(|_| left)
    /// }
    ///
    /// let mut wheel = HierarchicalWheel::new();
    /// let key = wheel.insert(10, "a");
    /// assert_eq!(cancel(&mut wheel, key), Some(10));
    /// assert_eq!(cancel(&mut wheel, key), None);
    /// ```
    fn remove(&mut self, key: Key) -> Option<T>;

    /// Moves a timer's deadline, earlier or later.
    ///
    /// ```
    /// use tickwheel::wheel::{HierarchicalWheel, Key, Wheel};
    ///
    /// /// A sign of life: a hundred ticks more.
    /// fn beat<T>(wheel: &mut impl Wheel<T>, key: Key) -> bool {
    ///     wheel.reset(key, wheel.now() + 100)
    /// }
    ///
    /// let mut wheel = HierarchicalWheel::with_start(50);
    /// let key = wheel.insert(60, "a");
    /// assert!(beat(&mut wheel, key));
    /// assert_eq!(wheel.deadline(key), Some(150));
    /// ```
    fn reset(&mut self, key: Key, deadline: u64) -> bool;

    /// The deadline of a pending timer.
    ///
    /// ```
    /// use tickwheel::wheel::{HierarchicalWheel, Key, Wheel};
    ///
    /// fn is_late<T>(wheel: &impl Wheel<T>, key: Key) -> bool {
    ///     wheel.deadline(key).is_some_and(|deadline| deadline < wheel.now())
    /// }
    ///
    /// let mut wheel = HierarchicalWheel::with_start(50);
    /// let late = wheel.insert(40, "a");
    /// let early = wheel.insert(60, "b");
    /// assert!(is_late(&wheel, late) && !is_late(&wheel, early));
    /// ```
    fn deadline(&self, key: Key) -> Option<u64>;

    /// The value of a pending timer.
    ///
    /// ```
    /// use tickwheel::wheel::{HierarchicalWheel, Key, Wheel};
    ///
    /// fn name(wheel: &impl Wheel<&'static str>, key: Key) -> &'static str {
    ///     wheel.get(key).copied().unwrap_or("gone")
    /// }
    ///
    /// let mut wheel = HierarchicalWheel::new();
    /// let key = wheel.insert(10, "a");
    /// assert_eq!(name(&wheel, key), "a");
    /// wheel.remove(key);
    /// assert_eq!(name(&wheel, key), "gone");
    /// ```
    fn get(&self, key: Key) -> Option<&T>;

    /// The value of a pending timer, to change it in place.
    ///
    /// ```
    /// use tickwheel::wheel::{HierarchicalWheel, Key, Wheel};
    ///
    /// /// Counts an attempt in place.
    /// fn attempt(wheel: &mut impl Wheel<u32>, key: Key) {
    ///     if let Some(attempts) = wheel.get_mut(key) {
    ///         *attempts += 1;
    ///     }
    /// }
    ///
    /// let mut wheel = HierarchicalWheel::new();
    /// let key = wheel.insert(10, 0);
    /// attempt(&mut wheel, key);
    /// assert_eq!(wheel.get(key), Some(&1));
    /// ```
    fn get_mut(&mut self, key: Key) -> Option<&mut T>;

    /// Whether the timer is pending.
    ///
    /// ```
    /// use tickwheel::wheel::{HierarchicalWheel, Key, Wheel};
    ///
    /// fn pending<T>(wheel: &impl Wheel<T>, keys: &[Key]) -> usize {
    ///     keys.iter().filter(|&&key| wheel.contains(key)).count()
    /// }
    ///
    /// let mut wheel = HierarchicalWheel::new();
    /// let keys = [wheel.insert(10, "a"), wheel.insert(20, "b")];
    /// wheel.pop_due(10);
    /// assert_eq!(pending(&wheel, &keys), 1);
    /// ```
    fn contains(&self, key: Key) -> bool;

    /// How many timers are pending.
    ///
    /// ```
    /// use tickwheel::wheel::{HierarchicalWheel, Wheel};
    ///
    /// fn is_full<T>(wheel: &impl Wheel<T>, limit: usize) -> bool {
    ///     wheel.len() >= limit
    /// }
    ///
    /// let mut wheel = HierarchicalWheel::new();
    /// assert!(!is_full(&wheel, 1));
    /// wheel.insert(10, "a");
    /// assert!(is_full(&wheel, 1));
    /// ```
    fn len(&self) -> usize;

    /// Whether none is.
    ///
    /// ```
    /// use tickwheel::wheel::{HierarchicalWheel, Wheel};
    ///
    /// /// Fires everything, and says at what tick there was nothing left.
    /// fn run_dry<T>(wheel: &mut impl Wheel<T>) -> u64 {
    ///     while !wheel.is_empty() {
    ///         wheel.pop_due(wheel.now() + 1);
    ///     }
    ///     wheel.now()
    /// }
    ///
    /// let mut wheel = HierarchicalWheel::new();
    /// wheel.insert(10, "a");
    /// assert_eq!(run_dry(&mut wheel), 10);
    /// ```
    fn is_empty(&self) -> bool;

    /// The wheel's time: the largest tick it was told.
    ///
    /// ```
    /// use tickwheel::wheel::{HierarchicalWheel, Wheel};
    ///
    /// /// One tick on.
    /// fn tick<T>(wheel: &mut impl Wheel<T>) -> u64 {
    ///     wheel.pop_due(wheel.now() + 1);
    ///     wheel.now()
    /// }
    ///
    /// let mut wheel: HierarchicalWheel<()> = HierarchicalWheel::with_start(50);
    /// assert_eq!(tick(&mut wheel), 51);
    /// ```
    fn now(&self) -> u64;

    /// A tick before which nothing is due; `None` if nothing is pending.
    ///
    /// ```
    /// use tickwheel::wheel::{HierarchicalWheel, Wheel};
    ///
    /// /// How many ticks one may sleep.
    /// fn idle<T>(wheel: &impl Wheel<T>) -> u64 {
    ///     wheel.next_wake().unwrap_or(u64::MAX).saturating_sub(wheel.now())
    /// }
    ///
    /// let mut wheel = HierarchicalWheel::new();
    /// assert_eq!(idle(&wheel), u64::MAX);
    /// wheel.insert(10, "a");
    /// assert!(idle(&wheel) <= 10);
    /// ```
    fn next_wake(&self) -> Option<u64>;

    /// Moves time to `now` and takes out the pending timer with the smallest deadline, if that
    /// deadline has come.
    ///
    /// ```
    /// use tickwheel::wheel::{HierarchicalWheel, Wheel};
    ///
    /// fn fire<T>(wheel: &mut impl Wheel<T>, now: u64) -> Vec<T> {
    ///     std::iter::from_fn(|| wheel.pop_due(now)).map(|due| due.value).collect()
    /// }
    ///
    /// let mut wheel = HierarchicalWheel::new();
    /// wheel.insert(20, "b");
    /// wheel.insert(10, "a");
    /// wheel.insert(30, "c");
    /// assert_eq!(fire(&mut wheel, 20), ["a", "b"]);
    /// ```
    fn pop_due(&mut self, now: u64) -> Option<Due<T>>;

    /// Drops every pending timer.
    ///
    /// ```
    /// use tickwheel::wheel::{HierarchicalWheel, Wheel};
    ///
    /// fn start_over<T>(wheel: &mut impl Wheel<T>, first: T) {
    ///     wheel.clear();
    ///     wheel.insert(wheel.now(), first);
    /// }
    ///
    /// let mut wheel = HierarchicalWheel::new();
    /// wheel.insert(10, "a");
    /// start_over(&mut wheel, "b");
    /// assert_eq!(wheel.len(), 1);
    /// ```
    fn clear(&mut self);

    /// Takes out every pending timer, due or not, in no particular order.
    ///
    /// ```
    /// use tickwheel::wheel::{HashedWheel, HierarchicalWheel, Wheel};
    ///
    /// /// From one wheel into another. The keys are new.
    /// fn move_all<T>(from: &mut impl Wheel<T>, to: &mut impl Wheel<T>) {
    ///     for timer in from.drain() {
    ///         to.insert(timer.deadline, timer.value);
    ///     }
    /// }
    ///
    /// let mut old = HashedWheel::new(16);
    /// old.insert(1_000_000, "far");
    /// let mut new = HierarchicalWheel::new();
    /// move_all(&mut old, &mut new);
    /// assert_eq!((old.len(), new.len()), (0, 1));
    /// ```
    fn drain(&mut self) -> Drain<'_, T>;

    /// Looks at every pending timer, in no particular order.
    ///
    /// ```
    /// use tickwheel::wheel::{HierarchicalWheel, Wheel};
    ///
    /// /// How many are due within so many ticks.
    /// fn near<T>(wheel: &impl Wheel<T>, ticks: u64) -> usize {
    ///     wheel.iter().filter(|timer| timer.deadline <= wheel.now() + ticks).count()
    /// }
    ///
    /// let mut wheel = HierarchicalWheel::new();
    /// wheel.insert(10, "a");
    /// wheel.insert(1_000, "b");
    /// assert_eq!(near(&wheel, 100), 1);
    /// ```
    fn iter(&self) -> Iter<'_, T>;

    /// Makes room for `additional` more timers.
    ///
    /// ```
    /// use tickwheel::wheel::{HierarchicalWheel, Wheel};
    ///
    /// fn fill(wheel: &mut impl Wheel<u64>, deadlines: &[u64]) {
    ///     wheel.reserve(deadlines.len());
    ///     for &deadline in deadlines {
    ///         wheel.insert(deadline, deadline);
    ///     }
    /// }
    ///
    /// let mut wheel = HierarchicalWheel::new();
    /// fill(&mut wheel, &[10, 20, 30]);
    /// assert_eq!(wheel.len(), 3);
    /// ```
    fn reserve(&mut self, additional: usize);

    /// Gives back what memory it can without touching a pending timer.
    ///
    /// ```
    /// use tickwheel::wheel::{HierarchicalWheel, Wheel};
    ///
    /// /// Forgets all, memory included.
    /// fn let_go<T>(wheel: &mut impl Wheel<T>) {
    ///     wheel.clear();
    ///     wheel.shrink_to_fit();
    /// }
    ///
    /// let mut wheel = HierarchicalWheel::new();
    /// wheel.extend((0..10_000).map(|tick| (tick, tick)));
    /// let full = wheel.memory_usage();
    /// let_go(&mut wheel);
    /// assert!(wheel.memory_usage() < full);
    /// ```
    fn shrink_to_fit(&mut self);

    /// How many bytes the wheel has allocated.
    ///
    /// ```
    /// use tickwheel::wheel::{HierarchicalWheel, Wheel};
    ///
    /// fn bytes_a_timer<T>(wheel: &impl Wheel<T>) -> usize {
    ///     wheel.memory_usage() / wheel.len().max(1)
    /// }
    ///
    /// let mut wheel = HierarchicalWheel::new();
    /// wheel.extend((0..100_000).map(|tick| (tick, tick)));
    /// assert!(bytes_a_timer(&wheel) < 100);
    /// ```
    fn memory_usage(&self) -> usize;

    /// Walks the whole structure and panics where it contradicts itself. For tests.
    #[doc(hidden)]
    fn check_invariants(&self);
}
