//! The public methods that both wheels have in common, with their documentation, and the part of
//! [`Wheel`](super::Wheel) that is the same for both. A wheel has the fields `entries`, `lists`,
//! `overdue`, `sweep`, `now` and `wake`, and these methods: `place` adds a reference to an entry,
//! `pop_next` takes out the first timer up to `now`, `prepare` does the work before that in steps, and
//! `tidy` sweeps stale references.

/// `wheel_api!(trait)` writes the methods of the trait that are the same for both wheels;
/// `wheel_api!(Type, "constructor")` writes all methods of the trait as inherent ones.
macro_rules! wheel_api {
    (trait) => {
        #[inline]
        fn insert(&mut self, deadline: u64, value: T) -> Key {
            let (key, stamp) = self.entries.insert(deadline, value);
            self.place(deadline, key.index, stamp);
            key
        }

        #[inline]
        fn remove(&mut self, key: Key) -> Option<T> {
            let value = self.entries.remove(key)?;
            if self.sweep.left_one() {
                self.tidy();
            }
            Some(value)
        }

        #[inline]
        fn reset(&mut self, key: Key, deadline: u64) -> bool {
            match self.entries.reset(key, deadline) {
                Reset::Stale => return false,
                Reset::Later => {}
                Reset::Earlier { stamp } => {
                    self.place(deadline, key.index, stamp);
                    if self.sweep.left_one() {
                        self.tidy();
                    }
                }
            }
            true
        }

        #[inline]
        fn pop_due(&mut self, now: u64) -> Option<Due<T>> {
            self.now = self.now.max(now);
            if self.now < self.wake { None } else { self.pop_next() }
        }

        #[inline]
        fn advance(&mut self, now: u64, budget: usize) -> Advance {
            self.now = self.now.max(now);
            if self.now < self.wake { Advance::Idle } else { self.prepare(budget) }
        }

        #[inline]
        fn deadline(&self, key: Key) -> Option<u64> {
            self.entries.deadline(key)
        }

        #[inline]
        fn get(&self, key: Key) -> Option<&T> {
            self.entries.get(key)
        }

        #[inline]
        fn get_mut(&mut self, key: Key) -> Option<&mut T> {
            self.entries.get_mut(key)
        }

        #[inline]
        fn contains(&self, key: Key) -> bool {
            self.entries.get(key).is_some()
        }

        #[inline]
        fn len(&self) -> usize {
            self.entries.len()
        }

        #[inline]
        fn is_empty(&self) -> bool {
            self.entries.len() == 0
        }

        #[inline]
        fn now(&self) -> u64 {
            self.now
        }

        fn clear(&mut self) {
            drop(Wheel::drain(self));
        }

        #[track_caller]
        fn reserve(&mut self, additional: usize) {
            self.entries.reserve(additional);
            self.lists.reserve(additional);
        }

        fn iter(&self) -> Iter<'_, T> {
            self.entries.iter()
        }
    };

    ($Wheel:ident, $new:literal) => {
        impl<T> super::sealed::Sealed for $Wheel<T> {}

        impl<T> $Wheel<T> {
            /// Takes out the timer that a reference points to, if it is due at `tick`. Otherwise
            /// places it again.
            #[inline]
            fn follow(&mut self, index: u32, stamp: u8, tick: u64) -> Option<Due<T>> {
                match self.entries.meet(index, stamp, tick) {
                    Meeting::Due(due) => return Some(due),
                    Meeting::Later(deadline) => self.place(deadline, index, stamp),
                    Meeting::Stale => self.sweep.dropped(1),
                }
                None
            }

            /// Inserts a timer and returns its key. A timer whose deadline has passed is due at
            /// once.
            ///
            /// # Panics
            ///
            /// Panics if the wheel would hold 2³² timers, or memory runs out.
            #[inline]
            pub fn insert(&mut self, deadline: u64, value: T) -> Key {
                Wheel::insert(self, deadline, value)
            }

            /// Removes a timer before it is due, and returns its value. Returns `None` for a stale
            /// key.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// let key = wheel.insert(1_000, "a");
            /// assert_eq!(wheel.remove(key), Some("a"));
            /// assert_eq!(wheel.remove(key), None);
            /// ```
            #[inline]
            pub fn remove(&mut self, key: Key) -> Option<T> {
                Wheel::remove(self, key)
            }

            /// Moves a timer's deadline, earlier or later. Returns `false` for a stale key. Moving
            /// it later, as a heartbeat does, costs one write.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// let key = wheel.insert(1_000, "a");
            /// assert!(wheel.reset(key, 2_000));
            /// assert!(wheel.pop_due(1_999).is_none());
            /// assert!(wheel.pop_due(2_000).is_some());
            /// assert!(!wheel.reset(key, 3_000));
            /// ```
            #[inline]
            pub fn reset(&mut self, key: Key, deadline: u64) -> bool {
                Wheel::reset(self, key, deadline)
            }

            /// Returns the deadline of a pending timer, as it was last set.
            #[inline]
            pub fn deadline(&self, key: Key) -> Option<u64> {
                Wheel::deadline(self, key)
            }

            /// Returns the value of a pending timer.
            #[inline]
            pub fn get(&self, key: Key) -> Option<&T> {
                Wheel::get(self, key)
            }

            /// Returns the value of a pending timer, to change it in place.
            #[inline]
            pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
                Wheel::get_mut(self, key)
            }

            /// Returns `true` if the timer is pending: neither popped nor removed.
            #[inline]
            pub fn contains(&self, key: Key) -> bool {
                Wheel::contains(self, key)
            }

            /// Returns the number of pending timers, including due ones that were not popped yet.
            #[inline]
            pub fn len(&self) -> usize {
                Wheel::len(self)
            }

            /// Returns `true` if no timer is pending.
            #[inline]
            pub fn is_empty(&self) -> bool {
                Wheel::is_empty(self)
            }

            /// Returns the wheel's time: its first tick, or the largest one that
            /// [`pop_due`](Self::pop_due) or [`advance`](Self::advance) was given since.
            #[inline]
            pub fn now(&self) -> u64 {
                Wheel::now(self)
            }

            /// Returns the tick at which to call [`pop_due`](Self::pop_due) next, or `None` if no
            /// timer is pending. Nothing is due before that tick. It may be too early, because timers
            /// were removed or reset, or because the wheel demotes timers then. It is never too late.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// assert_eq!(wheel.next_wake(), None);
            /// wheel.insert(1_000, "a");
            /// assert!(wheel.next_wake().unwrap() <= 1_000);
            /// ```
            #[inline]
            pub fn next_wake(&self) -> Option<u64> {
                Wheel::next_wake(self)
            }

            /// Moves time to `now` (never back) and takes out the pending timer with the smallest
            /// deadline, if that deadline has come. Call it until it returns `None`.
            ///
            /// Timers may be inserted, removed and reset between two calls. A jump over any number
            /// of ticks costs no more than the timers that are due. A single call may have to
            /// examine many timers before it finds the due one; [`advance`](Self::advance) bounds
            /// that.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// wheel.insert(1, "tick");
            /// let mut heard = Vec::new();
            /// while let Some(due) = wheel.pop_due(1_000_000) {
            ///     heard.push((due.deadline, due.value));
            ///     if due.deadline < 3 {
            ///         wheel.insert(due.deadline + 1, "tock");
            ///     }
            /// }
            /// assert_eq!(heard, [(1, "tick"), (2, "tock"), (3, "tock")]);
            /// ```
            #[inline]
            pub fn pop_due(&mut self, now: u64) -> Option<Due<T>> {
                Wheel::pop_due(self, now)
            }

            /// Moves time to `now` and does the work that [`pop_due`](Self::pop_due) would have to
            /// do before it finds a due timer, up to `budget`. Pops nothing.
            ///
            /// The unit of `budget` is one examined timer, 10 to 50 ns. Every call makes some
            /// progress, even with a budget of 0. Between two calls the wheel can be used as usual.
            /// A caller that holds a lock calls this first, and releases the lock for a moment as
            /// long as the result is [`Advance::Unfinished`]:
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::{Advance, ", stringify!($Wheel), "};\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// wheel.extend((0..100_000).map(|timer| (1_000_000, timer)));
            ///
            /// while wheel.advance(1_000_000, 1_000) == Advance::Unfinished {
            ///     // Unlock, let others in, lock.
            /// }
            /// assert!(wheel.pop_due(1_000_000).is_some());
            /// ```
            #[inline]
            pub fn advance(&mut self, now: u64, budget: usize) -> Advance {
                Wheel::advance(self, now, budget)
            }

            /// Drops all pending timers. The wheel keeps its time, and all keys become stale.
            pub fn clear(&mut self) {
                Wheel::clear(self);
            }

            /// Takes out all pending timers, due or not, in no particular order.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// wheel.insert(1_000, "a");
            /// let rest: Vec<_> = wheel.drain().map(|due| (due.deadline, due.value)).collect();
            /// assert_eq!(rest, [(1_000, "a")]);
            /// assert!(wheel.is_empty());
            /// ```
            pub fn drain(&mut self) -> Drain<'_, T> {
                Wheel::drain(self)
            }

            /// Iterates over all pending timers, in no particular order.
            pub fn iter(&self) -> Iter<'_, T> {
                Wheel::iter(self)
            }

            /// Allocates memory for `additional` more timers. Inserting them then allocates little.
            ///
            /// # Panics
            ///
            /// Panics if the wheel would hold 2³² timers, or memory runs out.
            #[track_caller]
            pub fn reserve(&mut self, additional: usize) {
                Wheel::reserve(self, additional);
            }

            /// Frees unused memory. Timers do not move, because a key contains the address of its
            /// timer. So a block of memory stays as long as one timer in it is pending.
            pub fn shrink_to_fit(&mut self) {
                Wheel::shrink_to_fit(self);
            }

            /// Returns the number of bytes that the wheel has allocated.
            pub fn memory_usage(&self) -> usize {
                Wheel::memory_usage(self)
            }

            /// Prefetches a timer's entry.
            #[cfg(feature = "std")]
            #[inline]
            pub(crate) fn prefetch(&self, key: Key) {
                self.entries.prefetch(key.index);
            }

            #[doc(hidden)]
            pub fn check_invariants(&self) {
                Wheel::check_invariants(self);
            }
        }

        impl<T: fmt::Debug> fmt::Debug for $Wheel<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($Wheel))
                    .field("now", &self.now)
                    .field("len", &self.entries.len())
                    .field("next_wake", &Wheel::next_wake(self))
                    .finish_non_exhaustive()
            }
        }

        impl<T> Extend<(u64, T)> for $Wheel<T> {
            /// Inserts a timer for each `(deadline, value)`.
            fn extend<I: IntoIterator<Item = (u64, T)>>(&mut self, timers: I) {
                for (deadline, value) in timers {
                    Wheel::insert(self, deadline, value);
                }
            }
        }

        impl<'a, T> IntoIterator for &'a $Wheel<T> {
            type Item = super::Pending<'a, T>;
            type IntoIter = Iter<'a, T>;

            fn into_iter(self) -> Iter<'a, T> {
                self.entries.iter()
            }
        }
    };
}

pub(super) use wheel_api;
