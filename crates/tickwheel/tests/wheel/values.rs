//! The promises of a wheel about its values, whatever their type.
//!
//! Each value is dropped exactly once, and at once when its timer ends: the wheel keeps nothing of
//! a cancelled timer. That holds for values of size zero, of a large size and of a strict
//! alignment, and when a value's own `drop` panics.

use crate::kinds::{Kind, on_both_wheels, pop_all};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use tickwheel::wheel::Wheel;

on_both_wheels! {
    a_removed_value_is_out_of_the_wheel_at_once,
    every_end_of_a_timer_drops_its_value_once,
    values_that_own_memory_survive_growth,
    values_of_no_size_are_counted,
    large_values_are_kept_whole,
    aligned_values_are_aligned,
    closures_can_be_values,
    a_panic_in_clear_leaves_the_wheel_usable,
    a_panic_in_a_dropped_drain_leaves_the_wheel_usable,
    a_panic_while_the_wheel_is_dropped_drops_the_rest_once,
    a_forgotten_drain_leaves_the_wheel_usable,
}

fn a_removed_value_is_out_of_the_wheel_at_once<K: Kind>() {
    let mut wheel = K::new();
    let value = Rc::new(());
    for deadline in [0, 1, 100, 1 << 40, u64::MAX] {
        let key = wheel.insert(deadline, Rc::clone(&value));
        assert_eq!(Rc::strong_count(&value), 2);
        assert!(wheel.reset(key, deadline / 2));
        drop(wheel.remove(key));
        assert_eq!(Rc::strong_count(&value), 1, "removed, so nobody holds it");
    }
}

fn every_end_of_a_timer_drops_its_value_once<K: Kind>() {
    let value = Rc::new(());
    let fill = |wheel: &mut K::Wheel<_>| -> Vec<_> {
        let deadlines = (0..100).map(|n| wheel.now() + n * 31);
        let deadlines: Vec<_> = deadlines.collect();
        deadlines.into_iter().map(|deadline| wheel.insert(deadline, Rc::clone(&value))).collect()
    };
    let held = || Rc::strong_count(&value) - 1;
    let mut wheel = K::new();
    let keys = fill(&mut wheel);
    assert_eq!(held(), 100);
    keys.iter().take(40).for_each(|&key| drop(wheel.remove(key)));
    assert_eq!(held(), 60, "removed");
    drop(wheel.pop_due(1 << 20));
    assert_eq!(held(), 59, "popped");
    wheel.clear();
    assert_eq!(held(), 0, "cleared");
    fill(&mut wheel);
    let drained: Vec<_> = wheel.drain().take(30).collect();
    assert_eq!(held(), 30, "a drain drops what it did not hand out");
    drop(drained);
    assert_eq!(held(), 0);
    fill(&mut wheel);
    wheel.shrink_to_fit();
    assert_eq!(held(), 100);
    drop(wheel);
    assert_eq!(held(), 0, "dropped with the wheel");
}

fn values_that_own_memory_survive_growth<K: Kind>() {
    let mut wheel = K::new();
    let keys: Vec<_> = (0..20_000).map(|n: u64| wheel.insert(n * 3, n.to_string())).collect();
    for (n, &key) in keys.iter().enumerate() {
        assert_eq!(wheel.get(key), Some(&n.to_string()));
    }
    for (n, &key) in keys.iter().enumerate().step_by(2) {
        assert_eq!(wheel.remove(key), Some(n.to_string()));
    }
    for (deadline, value) in pop_all(&mut wheel, u64::MAX) {
        assert_eq!((deadline / 3).to_string(), value);
    }
}

fn values_of_no_size_are_counted<K: Kind>() {
    let mut wheel = K::new();
    let keys: Vec<_> = (0..1000).map(|n| wheel.insert(n, ())).collect();
    assert_eq!(wheel.remove(keys[10]), Some(()));
    assert_eq!(wheel.remove(keys[10]), None);
    assert_eq!(wheel.get(keys[11]), Some(&()));
    assert_eq!(pop_all(&mut wheel, 499).len(), 499);
    assert_eq!(wheel.drain().count(), 500);
    wheel.check_invariants();
}

fn large_values_are_kept_whole<K: Kind>() {
    let whole = |n: u64| -> [u64; 25] { std::array::from_fn(|at| n * 1000 + at as u64) };
    let mut wheel = K::new();
    let keys: Vec<_> = (0..3000).map(|n| wheel.insert(n * 17, whole(n))).collect();
    assert_eq!(wheel.get(keys[77]), Some(&whole(77)));
    assert_eq!(wheel.remove(keys[2999]), Some(whole(2999)));
    let expected: Vec<_> = (0..2999).map(|n| (n * 17, whole(n))).collect();
    assert_eq!(pop_all(&mut wheel, u64::MAX), expected);
}

fn aligned_values_are_aligned<K: Kind>() {
    #[derive(Debug, PartialEq)]
    #[repr(align(128))]
    struct Aligned(u8);

    let mut wheel = K::new();
    let keys: Vec<_> = (0..2000).map(|n| wheel.insert(n, Aligned(n as u8))).collect();
    for (n, &key) in keys.iter().enumerate() {
        let value = wheel.get(key).expect("it is pending");
        assert_eq!(std::ptr::from_ref(value).addr() % 128, 0);
        assert_eq!(value.0, n as u8);
    }
    assert_eq!(wheel.iter().count(), 2000);
    for (deadline, value) in pop_all(&mut wheel, 2000) {
        assert_eq!(value, Aligned(deadline as u8));
    }
}

fn closures_can_be_values<K: Kind>() {
    let said = RefCell::new(Vec::new());
    let mut wheel: K::Wheel<Box<dyn FnOnce() + '_>> = K::new();
    wheel.insert(20, Box::new(|| said.borrow_mut().push("world")));
    wheel.insert(10, Box::new(|| said.borrow_mut().push("hello")));
    for (_, say) in pop_all(&mut wheel, 20) {
        say();
    }
    assert_eq!(*said.borrow(), ["hello", "world"]);
}

/// A value that counts its drops, and panics on a drop if it is armed.
struct Grenade<'a> {
    drops: &'a Cell<u32>,
    armed: bool,
}

impl Drop for Grenade<'_> {
    fn drop(&mut self) {
        self.drops.set(self.drops.get() + 1);
        assert!(!self.armed, "this value's drop panics on purpose");
    }
}

const COUNT: usize = 200;

/// Returns a counter for each value.
fn counters() -> Vec<Cell<u32>> {
    vec![Cell::new(0); COUNT]
}

/// Inserts a value for each counter; the one at `armed` panics when it is dropped.
fn load<'a>(wheel: &mut impl Wheel<Grenade<'a>>, counters: &'a [Cell<u32>], armed: usize) {
    for (at, drops) in counters.iter().enumerate() {
        wheel.insert(at as u64 * 9, Grenade { drops, armed: at == armed });
    }
}

fn assert_each_dropped_once(counters: &[Cell<u32>]) {
    let drops: Vec<_> = counters.iter().map(Cell::get).collect();
    assert_eq!(drops, [1; COUNT]);
}

fn a_panic_in_clear_leaves_the_wheel_usable<K: Kind>() {
    for armed in [0, 1, 100, COUNT - 1] {
        let (first, second) = (counters(), counters());
        let mut wheel = K::new();
        load(&mut wheel, &first, armed);
        let cleared = catch_unwind(AssertUnwindSafe(|| wheel.clear()));
        assert!(cleared.is_err(), "the panic reaches the caller");
        wheel.clear();
        assert_each_dropped_once(&first);
        assert_usable::<K>(wheel, &second);
    }
}

fn a_panic_in_a_dropped_drain_leaves_the_wheel_usable<K: Kind>() {
    for (taken, armed) in [(0, 0), (1, COUNT - 1), (50, 100), (50, 0)] {
        let (first, second) = (counters(), counters());
        let mut wheel = K::new();
        load(&mut wheel, &first, armed);
        let drained = catch_unwind(AssertUnwindSafe(|| {
            wheel.drain().take(taken).for_each(drop);
        }));
        assert!(drained.is_err(), "the panic reaches the caller");
        wheel.clear();
        assert_each_dropped_once(&first);
        assert_usable::<K>(wheel, &second);
    }
}

fn a_panic_while_the_wheel_is_dropped_drops_the_rest_once<K: Kind>() {
    for armed in [0, 1, 100, COUNT - 1] {
        let drops = counters();
        let mut wheel = K::new();
        load(&mut wheel, &drops, armed);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(wheel))).is_err());
        assert_each_dropped_once(&drops);
    }
}

/// `mem::forget` may leak values; it must not break the wheel or drop a value twice.
fn a_forgotten_drain_leaves_the_wheel_usable<K: Kind>() {
    for taken in [0, 1, 100, COUNT] {
        let (first, second) = (counters(), counters());
        let mut wheel = K::new();
        load(&mut wheel, &first, COUNT);
        let mut drain = wheel.drain();
        drain.by_ref().take(taken).for_each(drop);
        std::mem::forget(drain);
        wheel.clear();
        assert!(first.iter().all(|drops| drops.get() <= 1));
        assert_usable::<K>(wheel, &second);
    }
}

/// Checks that the wheel is empty, accepts and fires new timers, and drops each value once.
fn assert_usable<'a, K: Kind>(mut wheel: K::Wheel<Grenade<'a>>, counters: &'a [Cell<u32>]) {
    wheel.check_invariants();
    assert_eq!((wheel.len(), wheel.next_wake()), (0, None));
    load(&mut wheel, counters, COUNT);
    assert_eq!(pop_all(&mut wheel, 500).len(), 56);
    wheel.check_invariants();
    drop(wheel);
    assert_each_dropped_once(counters);
}
