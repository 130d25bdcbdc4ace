//! What both wheels have in common on the outside: the inherent methods with their
//! documentation, and those parts of [`Wheel`](super::Wheel) that do not depend on where timers
//! wait. A wheel has the fields `entries`, `lists`, `overdue`, `patience`, `now` and `wake`, a
//! method `place` that gives an entry a reference, `pop_next` that takes out the first timer up to
//! `now`, and `tidy` that sees to stale references.

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
            if self.patience.ends() {
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
                    if self.patience.ends() {
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

        fn iter(&self) -> Iter<'_, T> {
            self.entries.iter()
        }
    };

    ($Wheel:ident, $new:literal) => {
        impl<T> $Wheel<T> {
            /// Adds a timer and gives its key. A deadline that has passed is due at once.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// wheel.insert(1_000, "in a thousand ticks");
            /// wheel.insert(u64::MAX, "never, or nearly so");
            /// assert_eq!(wheel.len(), 2);
            /// ```
            ///
            /// # Panics
            ///
            /// If the wheel held 2³² timers, or memory runs out.
            #[inline]
            pub fn insert(&mut self, deadline: u64, value: T) -> Key {
                Wheel::insert(self, deadline, value)
            }

            /// Takes a timer out before it is due, and gives its value; `None` for a stale key.
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

            /// Moves a timer's deadline, earlier or later; `false` for a stale key. Moving it
            /// later, as a heartbeat does, costs one write.
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

            /// The deadline of a pending timer, as it was last set.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// let key = wheel.insert(1_000, "a");
            /// assert_eq!(wheel.deadline(key), Some(1_000));
            /// ```
            #[inline]
            pub fn deadline(&self, key: Key) -> Option<u64> {
                Wheel::deadline(self, key)
            }

            /// The value of a pending timer.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// let key = wheel.insert(1_000, "a");
            /// assert_eq!(wheel.get(key), Some(&"a"));
            /// ```
            #[inline]
            pub fn get(&self, key: Key) -> Option<&T> {
                Wheel::get(self, key)
            }

            /// The value of a pending timer, to change it in place.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// let key = wheel.insert(1_000, 1);
            /// *wheel.get_mut(key).unwrap() += 1;
            /// assert_eq!(wheel.remove(key), Some(2));
            /// ```
            #[inline]
            pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
                Wheel::get_mut(self, key)
            }

            /// Whether the timer is pending: neither popped nor removed.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// let key = wheel.insert(1_000, "a");
            /// assert!(wheel.contains(key));
            /// wheel.pop_due(1_000);
            /// assert!(!wheel.contains(key));
            /// ```
            #[inline]
            pub fn contains(&self, key: Key) -> bool {
                Wheel::contains(self, key)
            }

            /// How many timers are pending, due ones that were not popped yet included.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// wheel.insert(1_000, "a");
            /// assert_eq!(wheel.len(), 1);
            /// ```
            #[inline]
            pub fn len(&self) -> usize {
                Wheel::len(self)
            }

            /// Whether no timer is pending.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// assert!(wheel.is_empty());
            /// wheel.insert(1_000, "a");
            /// assert!(!wheel.is_empty());
            /// ```
            #[inline]
            pub fn is_empty(&self) -> bool {
                Wheel::is_empty(self)
            }

            /// The wheel's time: where it started, or the largest tick that
            /// [`pop_due`](Self::pop_due) was told since.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// # wheel.insert(u64::MAX, ());
            /// wheel.pop_due(1_000);
            /// wheel.pop_due(5); // time does not go back
            /// assert_eq!(wheel.now(), 1_000);
            /// ```
            #[inline]
            pub fn now(&self) -> u64 {
                Wheel::now(self)
            }

            /// When to call [`pop_due`](Self::pop_due) next: nothing is due before the tick that
            /// this gives. It may be early, because timers were removed or reset or because the
            /// wheel has some sorting to do then; it is never late. `None` if nothing is pending.
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
            /// deadline, if that deadline has come. Call it until it gives `None`.
            ///
            /// Between two calls timers may be inserted, removed and reset at will: each call
            /// looks at what is pending then. A jump over any number of ticks costs no more than
            /// what is due.
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

            /// Drops every pending timer. The wheel keeps its time; all keys are stale.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// let key = wheel.insert(1_000, "a");
            /// wheel.clear();
            /// assert_eq!((wheel.len(), wheel.get(key)), (0, None));
            /// ```
            pub fn clear(&mut self) {
                Wheel::clear(self);
            }

            /// Takes out every pending timer, due or not, in no particular order.
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

            /// Looks at every pending timer, in no particular order.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// wheel.insert(1_000, "a");
            /// wheel.insert(2_000, "b");
            /// assert_eq!(wheel.iter().filter(|pending| pending.deadline > 1_500).count(), 1);
            /// ```
            pub fn iter(&self) -> Iter<'_, T> {
                Wheel::iter(self)
            }

            /// Makes room for `additional` more timers, so that inserting them hardly allocates.
            ///
            /// # Panics
            ///
            /// If the wheel would hold 2³² timers, or memory runs out.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// wheel.reserve(1_000);
            /// # wheel.insert(0, 0u64);
            /// assert!(wheel.memory_usage() >= 1_000 * 8);
            /// ```
            pub fn reserve(&mut self, additional: usize) {
                Wheel::reserve(self, additional);
            }

            /// Gives back what memory it can without touching a pending timer. A timer stays
            /// where it is, because its key says where that is; so the memory around a lone one
            /// stays too.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// let keys: Vec<_> = (0..10_000).map(|tick| wheel.insert(tick, tick)).collect();
            /// for key in keys {
            ///     wheel.remove(key);
            /// }
            /// let before = wheel.memory_usage();
            /// wheel.shrink_to_fit();
            /// assert!(wheel.memory_usage() < before);
            /// ```
            pub fn shrink_to_fit(&mut self) {
                Wheel::shrink_to_fit(self);
            }

            /// How many bytes the wheel has allocated.
            ///
            /// ```
            #[doc = concat!("use tickwheel::wheel::", stringify!($Wheel), ";\n")]
            #[doc = concat!("let mut wheel = ", $new, ";")]
            /// let empty = wheel.memory_usage();
            /// wheel.extend((0..1_000).map(|tick| (tick, ())));
            /// assert!(wheel.memory_usage() > empty);
            /// ```
            pub fn memory_usage(&self) -> usize {
                Wheel::memory_usage(self)
            }

            /// Tells the processor that this timer will be needed soon.
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
            /// Inserts every `(deadline, value)`.
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
