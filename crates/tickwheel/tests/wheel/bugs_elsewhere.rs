//! Bugs that other timing wheels shipped with: one test for each, run on both wheels.
//!
//! A test's comment describes the original bug. None of the tests is about a race, because a wheel
//! has one caller. Where the original bug was a race (a count that drifts, a bucket whose lock is
//! held), the test makes the same calls in the same order from one caller, between two pops.

use crate::kinds::{Kind, on_both_wheels, pop_all};
use tickwheel::wheel::Wheel;

on_both_wheels! {
    far_deadlines_do_not_hide_near_ones,
    far_deadlines_do_not_hide_near_ones_in_a_wheel_grown_old,
    far_deadlines_do_not_come_back_as_near_ones,
    whole_turns_of_a_ring_are_not_one_turn_late,
    the_last_tick_is_a_deadline_like_any_other,
    the_last_tick_comes_when_time_ends,
    never_does_not_overflow_into_now,
    nothing_fires_one_tick_early,
    deadlines_are_not_rounded_to_a_coarser_grain,
    no_age_makes_it_panic,
    a_long_life_makes_no_difference,
    pending_does_not_drift_when_cancel_meets_expiry,
    pending_does_not_drift_when_a_due_timer_is_cancelled_twice,
    timers_inserted_into_the_slot_being_emptied_fire,
    timers_reset_into_the_slot_being_emptied_fire,
    timers_reset_out_of_the_slot_being_emptied_do_not_fire,
    replacing_a_timer_into_its_own_slot_terminates,
}

/// The exponents that the tests use: those at which a level, a ring or a counter may end.
fn exponents() -> impl Iterator<Item = u32> {
    1..64
}

/// Elsewhere, a deadline beyond the outermost level was folded into its last slot; once the wheel
/// was old enough that near deadlines wrapped to slots after it, they waited for the folded one.
fn far_deadlines_do_not_hide_near_ones<K: Kind>() {
    for exponent in exponents() {
        for before in 0..3 {
            let now = (1 << exponent) - before;
            let mut wheel = K::with_start(now);
            for far in exponents() {
                wheel.insert(now.saturating_add(1 << far), "far");
            }
            wheel.insert(u64::MAX, "never");
            wheel.insert(now + 1, "near");
            wheel.check_invariants();
            assert!(wheel.next_wake() <= Some(now + 1), "started at {now}");
            assert_eq!(pop_all(&mut wheel, now), [], "started at {now}");
            assert_eq!(pop_all(&mut wheel, now + 1), [(now + 1, "near")], "started at {now}");
        }
    }
}

/// The same in a wheel that reached that age by itself, in leaps, with the far timers pending all
/// the time.
fn far_deadlines_do_not_hide_near_ones_in_a_wheel_grown_old<K: Kind>() {
    let mut wheel = K::new();
    for never in 0..40 {
        wheel.insert(u64::MAX - never, "far");
    }
    for exponent in exponents().skip(3) {
        for now in (1 << exponent) - 3..(1 << exponent) + 3 {
            assert_eq!(pop_all(&mut wheel, now), []);
            wheel.insert(now + 1, "near");
            assert_eq!(pop_all(&mut wheel, now), [], "at {now}");
            assert_eq!(pop_all(&mut wheel, now + 1), [(now + 1, "near")], "at {now}");
        }
        wheel.check_invariants();
    }
    assert_eq!(wheel.len(), 40);
}

/// Elsewhere, a deadline more than the wheel's span away was taken modulo the span.
fn far_deadlines_do_not_come_back_as_near_ones<K: Kind>() {
    for exponent in exponents() {
        let mut wheel = K::with_start(3);
        let deadline = 3 + (1 << exponent);
        wheel.insert(deadline, ());
        for now in [4, 3 + 64, 3 + 256, 3 + 512, 3 + 4096, deadline - 1] {
            let due = wheel.pop_due(now.min(deadline - 1));
            assert_eq!(due, None, "{deadline} fired at {now}");
        }
        assert_eq!(pop_all(&mut wheel, deadline), [(deadline, ())]);
    }
}

/// Elsewhere, a delay of exactly one turn landed in the slot that had just been emptied and was
/// counted as having a whole round left.
fn whole_turns_of_a_ring_are_not_one_turn_late<K: Kind>() {
    for exponent in 0..32 {
        for turns in 1..5 {
            for start in [0, 1, (1 << exponent) - 1, 1 << exponent] {
                let deadline = start + (turns << exponent);
                let mut wheel = K::with_start(start);
                wheel.insert(deadline, ());
                assert_eq!(pop_all(&mut wheel, deadline - 1), [], "{deadline} from {start}");
                let popped = pop_all(&mut wheel, deadline);
                assert_eq!(popped, [(deadline, ())], "{deadline} from {start}");
            }
        }
    }
}

/// Elsewhere, the largest number stood for "no deadline" or "empty slot".
fn the_last_tick_is_a_deadline_like_any_other<K: Kind>() {
    let mut wheel = K::new();
    let last = wheel.insert(u64::MAX, "last");
    let eve = wheel.insert(u64::MAX - 1, "eve");
    assert_eq!(wheel.len(), 2);
    assert_eq!(wheel.deadline(last), Some(u64::MAX));
    assert!(wheel.next_wake().is_some());
    assert_eq!(wheel.remove(eve), Some("eve"));
    assert!(wheel.next_wake().is_some(), "{:?}", wheel.deadline(last));
    assert!(wheel.reset(last, 5));
    assert!(wheel.reset(last, u64::MAX));
    wheel.check_invariants();
    assert_eq!(pop_all(&mut wheel, u64::MAX - 1), []);
    assert_eq!(pop_all(&mut wheel, u64::MAX), [(u64::MAX, "last")]);
    assert_eq!(wheel.next_wake(), None);
}

/// The wheel works at the last tick: a timer that is inserted then is due or overdue.
fn the_last_tick_comes_when_time_ends<K: Kind>() {
    let mut wheel = K::with_start(u64::MAX);
    for _ in 0..3 {
        wheel.insert(u64::MAX, "now");
        wheel.insert(0, "past");
        wheel.check_invariants();
        assert_eq!(pop_all(&mut wheel, u64::MAX), [(0, "past"), (u64::MAX, "now")]);
        assert_eq!(wheel.next_wake(), None);
    }
}

/// Elsewhere, adding to the largest delay overflowed, and what should never fire fired at once.
fn never_does_not_overflow_into_now<K: Kind>() {
    for exponent in exponents() {
        for start in [0, (1 << exponent) - 1, 1 << exponent, u64::MAX - (1 << exponent)] {
            let mut wheel = K::with_start(start);
            let never = wheel.insert(u64::MAX, ());
            let late = wheel.insert(1, ());
            assert!(wheel.reset(late, u64::MAX));
            assert_eq!(wheel.pop_due(start), None, "started at {start}");
            assert_eq!(wheel.pop_due(u64::MAX - 1), None, "started at {start}");
            assert!(wheel.contains(never) && wheel.contains(late));
            wheel.check_invariants();
        }
    }
}

/// Elsewhere, the last step of a demotion rounded down and fired a tick too soon.
fn nothing_fires_one_tick_early<K: Kind>() {
    for exponent in exponents() {
        for deadline in (1_u64 << exponent).saturating_sub(3)..=(1 << exponent) + 3 {
            let mut wheel = K::new();
            wheel.insert(deadline, ());
            if let Some(before) = deadline.checked_sub(1) {
                assert_eq!(pop_all(&mut wheel, before / 2), []);
                assert_eq!(pop_all(&mut wheel, before), []);
            }
            assert_eq!(pop_all(&mut wheel, deadline), [(deadline, ())]);
        }
    }
}

/// Elsewhere, deadlines were truncated to whole milliseconds. Here the granularity would be that of
/// a level: adjacent far timers must each keep their own tick.
fn deadlines_are_not_rounded_to_a_coarser_grain<K: Kind>() {
    for exponent in exponents() {
        let first = 1_u64 << exponent;
        let mut wheel = K::new();
        for few in (0..20).rev() {
            wheel.insert(first + few, few);
        }
        for few in 0..20 {
            let now = first + few;
            assert_eq!(pop_all(&mut wheel, now), [(now, few)], "2^{exponent} + {few}");
        }
    }
}

/// Elsewhere, a shift by the full width of a number panicked in a wheel of 2.2 years.
fn no_age_makes_it_panic<K: Kind>() {
    for exponent in exponents() {
        for start in (1_u64 << exponent).saturating_sub(2)..(1 << exponent) + 2 {
            let mut wheel = K::with_start(start);
            let keys = [0, start, start + 1, !start, u64::MAX].map(|tick| wheel.insert(tick, ()));
            wheel.check_invariants();
            assert_eq!(pop_all(&mut wheel, start + 1).last(), Some(&(start + 1, ())));
            wheel.reset(keys[4], start + 3);
            assert_eq!(pop_all(&mut wheel, start + 3).last(), Some(&(start + 3, ())));
            wheel.check_invariants();
        }
    }
}

/// Timers at regular distances over the whole range: each must fire on its tick.
fn a_long_life_makes_no_difference<K: Kind>() {
    let mut wheel = K::new();
    let mut now = 0_u64;
    let mut delay = 1;
    while let Some(deadline) = now.checked_add(delay) {
        wheel.insert(deadline, delay);
        assert_eq!(pop_all(&mut wheel, deadline - 1), []);
        assert_eq!(pop_all(&mut wheel, deadline), [(deadline, delay)]);
        now = deadline;
        delay += delay / 7 + 1;
    }
    wheel.check_invariants();
}

/// Elsewhere, a timer that was cancelled while its slot was being emptied was counted twice.
fn pending_does_not_drift_when_cancel_meets_expiry<K: Kind>() {
    let mut wheel = K::new();
    for round in 0..50 {
        let deadline = round * 100 + 77;
        let keys: Vec<_> = (0..20).map(|value| wheel.insert(deadline, value)).collect();
        let mut left = 20;
        while let Some(due) = wheel.pop_due(deadline) {
            left -= 1;
            assert_eq!(wheel.len(), left);
            assert_eq!(wheel.remove(due.key), None, "it has fired");
            let victim = keys[(due.value + 7) % 20];
            left -= usize::from(wheel.remove(victim).is_some());
            assert_eq!(wheel.len(), left);
            wheel.check_invariants();
        }
        assert_eq!((left, wheel.len()), (0, 0));
    }
}

/// The same with one key: of several ways to end a timer only the first may count.
fn pending_does_not_drift_when_a_due_timer_is_cancelled_twice<K: Kind>() {
    let mut wheel = K::new();
    let key = wheel.insert(10, "due");
    let other = wheel.insert(10, "due as well");
    let first = wheel.pop_due(10).expect("two are due");
    let rest = if first.key == key { other } else { key };
    assert!(wheel.remove(first.key).is_none() && !wheel.reset(first.key, 99));
    assert!(wheel.remove(rest).is_some() && wheel.remove(rest).is_none());
    assert_eq!(wheel.len(), 0);
    assert_eq!(wheel.pop_due(u64::MAX), None);
    assert_eq!(wheel.len(), 0);
}

/// Elsewhere, a task that scheduled another one for the same tick put it into the bucket that was
/// being processed: a deadlock there, or the new one waited a whole turn.
fn timers_inserted_into_the_slot_being_emptied_fire<K: Kind>() {
    for start in [0, 255, 256, 511, 512, 4095, (1 << 32) - 1] {
        let mut wheel = K::with_start(start);
        let tick = start + 1;
        wheel.insert(tick, 0);
        wheel.insert(tick, 0);
        let mut fired = 0;
        while let Some(due) = wheel.pop_due(tick) {
            fired += 1;
            if due.value < 5 {
                wheel.insert(tick, due.value + 1);
                wheel.insert(tick + 512, 100);
                wheel.check_invariants();
            }
        }
        assert_eq!(fired, 2 * 6, "started at {start}");
        assert_eq!(pop_all(&mut wheel, tick + 511), []);
        assert_eq!(pop_all(&mut wheel, tick + 512).len(), 2 * 5);
    }
}

/// The same by `reset`, from a later tick and from an earlier one.
fn timers_reset_into_the_slot_being_emptied_fire<K: Kind>() {
    let mut wheel = K::new();
    let later: Vec<_> = (0..10).map(|n| wheel.insert(1000 + n * 512, "later")).collect();
    wheel.insert(1000, "trigger");
    let mut fired = 0;
    for key in later {
        assert!(wheel.pop_due(1000).is_some());
        fired += 1;
        let moved = wheel.reset(key, 1000);
        assert!(moved || fired <= 2, "only the one at 1000 may have fired by itself");
        wheel.check_invariants();
    }
    fired += pop_all(&mut wheel, 1000).len();
    assert_eq!((fired, wheel.len()), (11, 0));
}

/// The opposite: a timer that is moved away between two pops of its own tick must not fire in it.
fn timers_reset_out_of_the_slot_being_emptied_do_not_fire<K: Kind>() {
    for later in [2, 8, 64, 256, 512, 1024, 1 << 20, 1 << 40] {
        let mut wheel = K::with_start(99);
        let keys: Vec<_> = (0..6).map(|value| wheel.insert(100, value)).collect();
        let first = wheel.pop_due(100).expect("six are due");
        for key in keys.into_iter().filter(|&key| key != first.key) {
            assert!(wheel.reset(key, 100 + later));
        }
        wheel.check_invariants();
        assert_eq!(pop_all(&mut wheel, 100 + later - 1), []);
        assert_eq!(pop_all(&mut wheel, 100 + later).len(), 5);
    }
}

/// Elsewhere, a task that was put back into the current bucket was found again, for ever.
fn replacing_a_timer_into_its_own_slot_terminates<K: Kind>() {
    let mut wheel = K::new();
    let keys: Vec<_> = (0..40).map(|value| wheel.insert(512, value)).collect();
    assert_eq!(wheel.pop_due(511), None);
    for turn in 1..5 {
        for &key in &keys {
            assert!(wheel.reset(key, 512 * turn) && wheel.reset(key, 512 * (turn + 1)));
        }
        assert_eq!(wheel.pop_due(512 * turn), None);
        wheel.check_invariants();
    }
    assert_eq!(pop_all(&mut wheel, 512 * 5).len(), 40);
}
