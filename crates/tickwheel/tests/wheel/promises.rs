//! The promises of a wheel about time, order, wakes and keys: one test for each.
//!
//! The promises about values are in `values.rs`, those about memory in `memory.rs`; `handlers.rs`
//! tests handlers that use the wheel while it is being emptied.

use crate::kinds::{Hierarchical, Kind, on_both_wheels, pop_all};
use crate::random::Random;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tickwheel::wheel::{Drain, Due, HashedWheel, HierarchicalWheel, Iter, Key, Pending, Wheel};

on_both_wheels! {
    timers_are_popped_in_order_of_deadline,
    past_deadlines_are_due_at_once_and_first,
    past_deadlines_are_popped_in_order_between_pops,
    a_timer_reset_into_the_past_is_popped_first,
    due_tells_the_deadline_as_last_set,
    now_is_the_largest_tick_told,
    a_tick_that_goes_backwards_is_ignored,
    a_jump_over_all_of_time_returns_at_once,
    jumps_do_not_walk_over_ticks,
    ticks_do_not_walk_over_far_timers,
    next_wake_is_none_when_nothing_is_pending,
    next_wake_is_never_late,
    next_wake_is_not_ahead_of_an_overdue_timer,
    a_driver_that_follows_next_wake_fires_each_timer_on_its_tick,
    a_driver_is_not_woken_for_each_turn,
    stale_keys_are_refused_for_ever,
    no_key_is_given_out_twice,
    foreign_keys_are_refused,
    reset_answers_whether_the_timer_was_pending,
    get_mut_changes_the_value_in_place,
    iter_shows_each_pending_timer_once,
    drain_gives_back_every_timer,
    a_drain_dropped_half_way_leaves_the_wheel_empty,
    clear_keeps_the_time_and_the_keys_stale,
    reserve_and_shrink_change_no_timer,
}

/// Calls `f`, and panics if that takes so long that it must have visited every tick.
fn at_once(f: impl FnOnce() + Send + 'static) {
    let (done, waiting) = mpsc::channel();
    let thread = thread::spawn(move || {
        f();
        done.send(()).ok();
    });
    let answer = waiting.recv_timeout(Duration::from_secs(20));
    assert_ne!(answer, Err(mpsc::RecvTimeoutError::Timeout), "it takes too long");
    thread.join().expect("it panicked");
}

/// Returns a deadline that is as likely near as far.
fn scattered(random: &mut Random) -> u64 {
    let exponent = random.below(64);
    random.next() >> exponent
}

fn timers_are_popped_in_order_of_deadline<K: Kind>() {
    let mut random = Random(1);
    let mut wheel = K::new();
    let mut deadlines: Vec<_> = (0..2000).map(|_| scattered(&mut random)).collect();
    for &deadline in &deadlines {
        wheel.insert(deadline, deadline);
    }
    deadlines.sort_unstable();
    let middle = deadlines[1000];
    let mut popped = pop_all(&mut wheel, middle);
    assert!(popped.len() > 1000 && wheel.len() < 1000);
    popped.extend(pop_all(&mut wheel, u64::MAX));
    let expected: Vec<_> = deadlines.iter().map(|&deadline| (deadline, deadline)).collect();
    assert_eq!(popped, expected);
}

fn past_deadlines_are_due_at_once_and_first<K: Kind>() {
    let mut wheel = K::with_start(1000);
    wheel.insert(1000, "now");
    wheel.insert(999, "just past");
    wheel.insert(0, "long past");
    wheel.insert(1001, "ahead");
    let expected = [(0, "long past"), (999, "just past"), (1000, "now")];
    assert_eq!(pop_all(&mut wheel, 0), expected);
    assert_eq!(pop_all(&mut wheel, 1001), [(1001, "ahead")]);
}

fn past_deadlines_are_popped_in_order_between_pops<K: Kind>() {
    let mut wheel = K::new();
    for deadline in [10, 20, 30, 40] {
        wheel.insert(deadline, "regular");
    }
    assert_eq!(wheel.pop_due(100).map(|due| due.deadline), Some(10));
    wheel.insert(25, "between");
    wheel.insert(5, "before");
    wheel.insert(100, "last");
    wheel.insert(35, "between");
    let order: Vec<_> =
        pop_all(&mut wheel, 100).into_iter().map(|(deadline, _)| deadline).collect();
    assert_eq!(order, [5, 20, 25, 30, 35, 40, 100]);
}

fn a_timer_reset_into_the_past_is_popped_first<K: Kind>() {
    let mut wheel = K::with_start(100);
    let far = wheel.insert(1 << 40, "far");
    wheel.insert(100, "now");
    let past = wheel.insert(50, "past");
    assert!(wheel.reset(far, 60));
    assert!(wheel.reset(past, 70));
    assert_eq!(pop_all(&mut wheel, 100), [(60, "far"), (70, "past"), (100, "now")]);
}

fn due_tells_the_deadline_as_last_set<K: Kind>() {
    let mut wheel = K::with_start(500);
    let key = wheel.insert(900, "timer");
    for deadline in [2, 1 << 50, 700, 600, 3] {
        assert!(wheel.reset(key, deadline));
        assert_eq!(wheel.deadline(key), Some(deadline));
    }
    assert_eq!(wheel.pop_due(800), Some(Due { key, deadline: 3, value: "timer" }));
    assert_eq!(wheel.deadline(key), None);
}

fn now_is_the_largest_tick_told<K: Kind>() {
    let mut wheel: K::Wheel<()> = K::with_start(7);
    assert_eq!(wheel.now(), 7);
    for (told, now) in [(3, 7), (8, 8), (1 << 33, 1 << 33), (9, 1 << 33), (u64::MAX, u64::MAX)] {
        wheel.pop_due(told);
        assert_eq!(wheel.now(), now);
    }
    assert_eq!(K::new::<()>().now(), 0);
}

fn a_tick_that_goes_backwards_is_ignored<K: Kind>() {
    let mut wheel = K::new();
    wheel.insert(50, "first");
    wheel.insert(60, "second");
    assert!(wheel.pop_due(100).is_some());
    assert_eq!(pop_all(&mut wheel, 10), [(60, "second")], "what was due stays due");
    wheel.insert(80, "third");
    assert_eq!(pop_all(&mut wheel, 0), [(80, "third")], "and time stays where it was");
    assert_eq!(wheel.now(), 100);
}

fn a_jump_over_all_of_time_returns_at_once<K: Kind>() {
    at_once(|| {
        let mut wheel = K::new();
        for deadline in [u64::MAX, 1 << 40, 3] {
            wheel.insert(deadline, ());
        }
        assert_eq!(pop_all(&mut wheel, u64::MAX), [(3, ()), (1 << 40, ()), (u64::MAX, ())]);
    });
}

fn jumps_do_not_walk_over_ticks<K: Kind>() {
    at_once(|| {
        let mut wheel = K::new();
        wheel.insert(u64::MAX, ());
        for jump in 1..10_000 {
            assert_eq!(wheel.pop_due(jump << 48), None);
            wheel.insert((jump << 48) + 12_345, ());
            assert_eq!(pop_all(&mut wheel, (jump << 48) + 20_000).len(), 1);
        }
    });
}

fn ticks_do_not_walk_over_far_timers<K: Kind>() {
    at_once(|| {
        let mut wheel = K::new();
        for far in 0..100_000 {
            wheel.insert((1 << 40) + far, ());
        }
        for now in 0..100_000 {
            assert_eq!(wheel.pop_due(now), None);
        }
    });
}

fn next_wake_is_none_when_nothing_is_pending<K: Kind>() {
    let mut wheel = K::with_start(5);
    assert_eq!(wheel.next_wake(), None);
    let key = wheel.insert(u64::MAX, ());
    assert!(wheel.next_wake().is_some());
    wheel.remove(key);
    assert_eq!(wheel.next_wake(), None);
    wheel.insert(0, ());
    assert!(wheel.next_wake().is_some());
    wheel.pop_due(5);
    assert_eq!(wheel.next_wake(), None);
}

fn next_wake_is_never_late<K: Kind>() {
    for exponent in 0..63 {
        let now = 1 << exponent;
        let mut wheel = K::with_start(now - 1);
        let mut nearest = u64::MAX;
        wheel.insert(u64::MAX, ());
        for delay in (0..63).rev().map(|exponent| 1 << exponent) {
            nearest = nearest.min(now + delay);
            let key = wheel.insert(now + delay, ());
            assert!(wheel.next_wake() <= Some(nearest), "at {now}, {delay} ahead");
            wheel.insert(now + delay + 1, ());
            wheel.remove(key);
            nearest += 1;
            assert!(wheel.next_wake() <= Some(nearest), "at {now}, {delay} ahead");
        }
    }
}

fn next_wake_is_not_ahead_of_an_overdue_timer<K: Kind>() {
    let mut wheel = K::new();
    wheel.insert(10, ());
    wheel.insert(20, ());
    wheel.pop_due(100);
    assert!(wheel.next_wake() <= Some(100), "one is still due");
    wheel.pop_due(100);
    let key = wheel.insert(1 << 30, ());
    wheel.insert(99, ());
    assert!(wheel.next_wake() <= Some(100), "one was inserted late");
    wheel.pop_due(100);
    wheel.reset(key, 1);
    assert!(wheel.next_wake() <= Some(100), "one was reset into the past");
}

/// Drives the wheel by `next_wake` alone until it is empty; every timer must fire on its tick.
/// Returns the number of spurious wakes.
fn drive<W: Wheel<u64>>(wheel: &mut W, most: usize) -> usize {
    let mut early = 0;
    while let Some(wake) = wheel.next_wake() {
        let now = wake.max(wheel.now());
        let fired = pop_all(wheel, now);
        for (deadline, value) in &fired {
            assert_eq!((deadline, value), (&now, &now), "fired late");
        }
        if fired.is_empty() {
            early += 1;
            assert!(early <= most, "{early} wakes for nothing, the last at {now}");
            assert!(wheel.next_wake() > Some(wake), "no progress at {wake}");
        }
    }
    early
}

fn a_driver_that_follows_next_wake_fires_each_timer_on_its_tick<K: Kind>() {
    for start in [0, 255, (1 << 24) - 1, (1 << 33) + 5, u64::MAX - 5000] {
        let mut random = Random(start);
        let mut wheel = K::with_start(start);
        let mut keys = Vec::new();
        for _ in 0..300 {
            let deadline = start.saturating_add(scattered(&mut random));
            keys.push(wheel.insert(deadline, deadline));
        }
        for key in keys.into_iter().step_by(3) {
            let deadline = start.saturating_add(scattered(&mut random));
            assert!(wheel.reset(key, deadline));
            *wheel.get_mut(key).expect("it is pending") = deadline;
        }
        drive(&mut wheel, 400 * 16);
        assert!(wheel.is_empty());
    }
}

/// A timer that is days away must not wake the driver once per turn of a ring.
fn a_driver_is_not_woken_for_each_turn<K: Kind>() {
    for exponent in 0..64 {
        let mut wheel = K::new();
        let deadline = (1 << exponent) + 77;
        wheel.insert(deadline, deadline);
        drive(&mut wheel, 16);
        assert_eq!(wheel.now(), deadline);
    }
}

fn stale_keys_are_refused_for_ever<K: Kind>() {
    let mut wheel = K::new();
    let mut stale = Vec::new();
    for round in 0..300 {
        let key = wheel.insert(round, round);
        if round % 2 == 0 {
            assert_eq!(wheel.remove(key), Some(round));
        } else {
            assert_eq!(pop_all(&mut wheel, round), [(round, round)]);
        }
        stale.push(key);
        let fresh = wheel.insert(1 << 40, round);
        for &key in &stale {
            assert!(!wheel.contains(key) && !wheel.reset(key, 1));
            assert_eq!((wheel.get(key), wheel.deadline(key)), (None, None));
            assert_eq!((wheel.remove(key), wheel.get_mut(key)), (None, None));
        }
        assert_eq!(wheel.deadline(fresh), Some(1 << 40));
        assert_eq!(wheel.remove(fresh), Some(round));
        stale.push(fresh);
    }
    wheel.check_invariants();
}

fn no_key_is_given_out_twice<K: Kind>() {
    let mut random = Random(3);
    let mut wheel = K::new();
    let mut given = HashSet::new();
    let mut live = Vec::new();
    for now in 0..20_000 {
        let key = wheel.insert(now + random.below(500), ());
        assert!(given.insert(key), "{key:?} was given out before");
        live.push(key);
        if random.below(2) == 0 {
            let place = random.below(live.len() as u64) as usize;
            wheel.remove(live.swap_remove(place));
        }
        if random.below(4) == 0 {
            pop_all(&mut wheel, now);
        }
        if random.below(2000) == 0 {
            wheel.clear();
            wheel.shrink_to_fit();
        }
    }
}

fn foreign_keys_are_refused<K: Kind>() {
    let mut wheels: Vec<K::Wheel<u64>> = (0..50).map(|_| K::new()).collect();
    let keys: Vec<Vec<Key>> = wheels
        .iter_mut()
        .map(|wheel| (0..20).map(|value| wheel.insert(value + 5, value)).collect())
        .collect();
    for (at, wheel) in wheels.iter_mut().enumerate() {
        let foreign = keys.iter().enumerate().filter(|&(from, _)| from != at);
        for &key in foreign.flat_map(|(_, keys)| keys) {
            assert!(!wheel.contains(key) && !wheel.reset(key, 1));
            assert_eq!((wheel.get(key), wheel.deadline(key)), (None, None));
            assert_eq!((wheel.remove(key), wheel.get_mut(key)), (None, None));
        }
        wheel.check_invariants();
        let expected: Vec<_> = (0..20).map(|value| (value + 5, value)).collect();
        assert_eq!(pop_all(wheel, 100), expected);
    }
}

fn reset_answers_whether_the_timer_was_pending<K: Kind>() {
    let mut wheel = K::new();
    let key = wheel.insert(10, ());
    assert!(wheel.reset(key, 20), "later");
    assert!(wheel.reset(key, 15), "earlier");
    assert!(wheel.reset(key, 15), "to the same");
    assert_eq!(pop_all(&mut wheel, 14), []);
    assert_eq!(pop_all(&mut wheel, 15), [(15, ())]);
    assert!(!wheel.reset(key, 30), "after it fired");
    assert!(wheel.is_empty());
}

fn get_mut_changes_the_value_in_place<K: Kind>() {
    let mut wheel = K::new();
    let key = wheel.insert(10, String::from("a"));
    wheel.get_mut(key).expect("it is pending").push('b');
    assert_eq!(wheel.get(key).map(String::as_str), Some("ab"));
    assert_eq!(pop_all(&mut wheel, 10), [(10, String::from("ab"))]);
}

fn iter_shows_each_pending_timer_once<K: Kind>() {
    let mut wheel = K::new();
    let keys: Vec<_> = (0..1000).map(|value| wheel.insert(value * 99, value)).collect();
    for &key in keys.iter().step_by(3) {
        wheel.remove(key);
    }
    pop_all(&mut wheel, 9900);
    let seen: Vec<Pending<u64>> = wheel.iter().collect();
    let distinct: HashSet<_> = seen.iter().map(|pending| pending.key).collect();
    assert_eq!((seen.len(), distinct.len()), (wheel.len(), wheel.len()));
    for pending in seen {
        assert_eq!(wheel.get(pending.key), Some(pending.value));
        assert_eq!(pending.deadline, pending.value * 99);
    }
}

fn drain_gives_back_every_timer<K: Kind>() {
    let mut wheel = K::with_start(100);
    let deadlines = [0, 99, 100, 101, 5000, 1 << 40, u64::MAX];
    let keys = deadlines.map(|deadline| wheel.insert(deadline, deadline));
    let mut drained: Vec<_> = wheel.drain().collect();
    drained.sort_by_key(|due| due.deadline);
    let expected: Vec<_> = (0..7)
        .map(|at| Due { key: keys[at], deadline: deadlines[at], value: deadlines[at] })
        .collect();
    assert_eq!(drained, expected);
    assert!(wheel.is_empty() && keys.iter().all(|&key| !wheel.contains(key)));
    assert_eq!((wheel.now(), wheel.next_wake()), (100, None));
    wheel.insert(200, 200);
    assert_eq!(pop_all(&mut wheel, u64::MAX), [(200, 200)]);
    assert_eq!(wheel.drain().count(), 0);
}

fn a_drain_dropped_half_way_leaves_the_wheel_empty<K: Kind>() {
    let mut wheel = K::new();
    for taken in 0..10 {
        let keys: Vec<_> = (0..10).map(|value| wheel.insert(value * 1000, value)).collect();
        assert_eq!(wheel.drain().take(taken).count(), taken);
        assert!(wheel.is_empty() && keys.iter().all(|&key| !wheel.contains(key)));
        assert_eq!(wheel.next_wake(), None);
        wheel.check_invariants();
    }
    wheel.insert(5, 5);
    assert_eq!(pop_all(&mut wheel, u64::MAX), [(5, 5)]);
}

fn clear_keeps_the_time_and_the_keys_stale<K: Kind>() {
    let mut wheel = K::new();
    let keys: Vec<_> = (0..100).map(|value| wheel.insert(value * 50, value)).collect();
    pop_all(&mut wheel, 777);
    wheel.clear();
    wheel.check_invariants();
    assert_eq!((wheel.len(), wheel.now(), wheel.next_wake()), (0, 777, None));
    for value in 0..100 {
        wheel.insert(2000, value);
    }
    assert!(keys.iter().all(|&key| wheel.remove(key).is_none() && !wheel.reset(key, 1)));
    assert_eq!(pop_all(&mut wheel, 1999), []);
    assert_eq!(pop_all(&mut wheel, 2000).len(), 100);
}

fn reserve_and_shrink_change_no_timer<K: Kind>() {
    let mut wheel = K::new();
    let keys: Vec<_> = (0..5000).map(|value| wheel.insert(value * 7, value)).collect();
    for key in keys.iter().skip(100).step_by(2) {
        wheel.remove(*key);
    }
    wheel.reserve(100_000);
    wheel.check_invariants();
    wheel.shrink_to_fit();
    wheel.check_invariants();
    let expected = (0..5000).filter(|&value| value < 100 || value % 2 == 1);
    let expected: Vec<_> = expected.map(|value| (value * 7, value)).collect();
    assert_eq!(pop_all(&mut wheel, u64::MAX), expected);
    wheel.shrink_to_fit();
    wheel.check_invariants();
}

#[test]
fn wheels_made_with_capacity_are_empty() {
    starts_empty(HierarchicalWheel::with_capacity(1000));
    starts_empty(HashedWheel::with_capacity(512, 1000));
}

fn starts_empty(mut wheel: impl Wheel<u64>) {
    wheel.check_invariants();
    assert_eq!((wheel.len(), wheel.now(), wheel.next_wake()), (0, 0, None));
    let expected: Vec<_> = (0..2000).map(|value| (value, value)).collect();
    for &(deadline, value) in &expected {
        wheel.insert(deadline, value);
    }
    assert_eq!(pop_all(&mut wheel, 5000), expected);
}

/// Timers for the same tick, inserted at ever shorter distances, so that they begin in every level.
#[test]
fn the_hierarchical_wheel_keeps_the_order_of_insertion() {
    for exponent in 0..63 {
        let tick = (1 << exponent) + (1 << (exponent / 2));
        let mut wheel = Hierarchical::new();
        let mut inserted = 0;
        let mut now = 0;
        while now < tick {
            for _ in 0..20 {
                wheel.insert(tick, inserted);
                inserted += 1;
            }
            now += (tick - now).div_ceil(2);
            assert_eq!(wheel.pop_due(now.min(tick - 1)), None);
        }
        let mut popped = 0;
        while popped < inserted {
            let due = wheel.pop_due(tick).map(|due| due.value);
            assert_eq!(due, Some(popped), "at 2^{exponent}");
            if popped % 10 == 0 {
                wheel.insert(tick, inserted);
                inserted += 1;
            }
            popped += 1;
        }
    }
}

#[test]
fn wheels_go_to_other_threads_with_their_values() {
    fn send<T: Send>() {}
    fn sync<T: Sync>() {}
    fn key<T: Copy + Ord + Hash + Send + Sync + 'static>() {}
    send::<HierarchicalWheel<String>>();
    sync::<HierarchicalWheel<String>>();
    send::<HashedWheel<String>>();
    sync::<HashedWheel<String>>();
    send::<HierarchicalWheel<std::cell::Cell<u8>>>();
    send::<HashedWheel<std::cell::Cell<u8>>>();
    sync::<HierarchicalWheel<std::sync::Arc<u8>>>();
    sync::<Iter<'static, String>>();
    send::<Iter<'static, String>>();
    send::<Drain<'static, String>>();
    key::<Key>();
}
