//! The promise of a wheel about memory: at most twice the memory that the pending timers need, plus
//! a fixed floor.
//!
//! The memory that timers need is that of a fresh wheel with as many timers. The churn tests reset
//! the same few timers repeatedly, which leaves stale references behind unless they are swept. The
//! other tests let a million timers end and measure the remaining memory.

use crate::kinds::{Kind, on_both_wheels, pop_all};
use crate::random::Random;
use tickwheel::wheel::{HashedWheel, Key, Wheel};

on_both_wheels! {
    random_resets_leave_no_memory_behind,
    pushing_later_leaves_no_memory_behind,
    cancel_and_insert_leave_no_memory_behind,
    one_timer_reset_to_and_fro_leaves_no_memory_behind,
    a_steady_stream_of_timers_leaves_no_memory_behind,
    slots_emptied_during_a_sweep_lose_no_timer,
    a_million_removed_timers_give_their_memory_back,
    a_million_fired_timers_give_their_memory_back,
    a_million_due_timers_give_their_memory_back_when_removed,
    a_million_due_timers_give_their_memory_back_when_cleared,
    a_cleared_wheel_sweeps_as_a_new_one_does,
    an_emptied_wheel_shrinks_to_its_floor,
}

/// A ring of a million slots has a floor of 64 bytes per slot. The memory that its timers used in
/// the slots is freed.
#[test]
fn churn_leaves_no_memory_in_the_slots_of_a_large_ring() {
    const SLOTS: usize = 1 << 20;
    let mut wheel = HashedWheel::new(SLOTS);
    let fresh = wheel.memory_usage();
    assert!(fresh <= 64 * SLOTS, "{fresh} bytes for no timers");
    let mut random = Random(23);
    let far = |random: &mut Random| 1 + random.below(100 * SLOTS as u64);

    let mut keys: Vec<_> = (0..1_000).map(|_| wheel.insert(far(&mut random), ())).collect();
    for _ in 0..2_000_000 {
        let place = random.below(1_000) as usize;
        wheel.remove(keys[place]);
        keys[place] = wheel.insert(far(&mut random), ());
    }
    let used = wheel.memory_usage() - fresh;
    assert!(used <= KEPT, "{used} bytes for 1,000 timers that are set again and again");

    keys.extend((0..1_000_000).map(|_| wheel.insert(far(&mut random), ())));
    let used = wheel.memory_usage() - fresh;
    assert!(used > 4 * KEPT, "{used} bytes for a million timers in as many slots");
    while !keys.is_empty() {
        let place = random.below(keys.len() as u64) as usize;
        assert!(wheel.remove(keys.swap_remove(place)).is_some());
    }
    let used = wheel.memory_usage() - fresh;
    assert!(used <= 2 * KEPT, "{used} bytes are kept of a million timers");
    wheel.check_invariants();
}

const MIB: usize = 1 << 20;

/// The bytes that an empty wheel may keep.
const FLOOR: usize = MIB;

/// The bytes that a wheel may keep of a million timers without being told to shrink.
const KEPT: usize = 16 * MIB;

const LIVE: u64 = 10_000;

const CHURN: u64 = 2_000_000;

/// Delays of up to an hour in milliseconds.
const SPAN: u64 = 3_600_000;

/// Returns a wheel with `count` timers, spread over the span.
fn filled<K: Kind>(count: u64, random: &mut Random) -> (K::Wheel<u64>, Vec<Key>) {
    let mut wheel = K::new();
    let keys = (0..count).map(|value| wheel.insert(random.below(SPAN), value)).collect();
    (wheel, keys)
}

/// Returns twice the memory of a fresh wheel with `count` timers, plus the floor.
fn bound<K: Kind>(count: u64) -> usize {
    let (wheel, _) = filled::<K>(count, &mut Random(42));
    2 * wheel.memory_usage() + FLOOR
}

/// Changes the wheel many times, and checks its memory after each change.
fn churn<K: Kind>(mut change: impl FnMut(&mut K::Wheel<u64>, &mut [Key], &mut Random)) {
    let mut random = Random(7);
    let (mut wheel, mut keys) = filled::<K>(LIVE, &mut random);
    let bound = bound::<K>(LIVE);
    for turn in 0..CHURN {
        change(&mut wheel, &mut keys, &mut random);
        if turn % 1024 == 0 {
            let used = wheel.memory_usage();
            assert!(used <= bound, "{used} bytes after {turn} changes, {bound} are allowed");
        }
    }
    assert_eq!(wheel.len(), keys.len());
    wheel.check_invariants();
}

fn random_resets_leave_no_memory_behind<K: Kind>() {
    churn::<K>(|wheel, keys, random| {
        let key = keys[random.below(LIVE) as usize];
        assert!(wheel.reset(key, random.below(SPAN)));
    });
}

/// Moves a deadline like a heartbeat does: by a little more than the time that has passed.
fn pushing_later_leaves_no_memory_behind<K: Kind>() {
    let mut beats = 0;
    churn::<K>(|wheel, keys, random| {
        let key = keys[random.below(LIVE) as usize];
        beats += 1;
        assert!(wheel.reset(key, SPAN + beats));
    });
}

fn cancel_and_insert_leave_no_memory_behind<K: Kind>() {
    churn::<K>(|wheel, keys, random| {
        let place = random.below(LIVE) as usize;
        let value = wheel.remove(keys[place]).expect("it is pending");
        keys[place] = wheel.insert(random.below(SPAN), value);
    });
}

fn one_timer_reset_to_and_fro_leaves_no_memory_behind<K: Kind>() {
    let mut wheel = K::new();
    let key = wheel.insert(0, ());
    let bound = bound::<K>(1);
    for turn in 0..500_000 {
        assert!(wheel.reset(key, [1 << 40, 500, 70_000, 5][turn % 4]));
        assert!(wheel.memory_usage() <= bound, "{} bytes", wheel.memory_usage());
    }
    wheel.check_invariants();
}

/// Time advances. Four timers are inserted at each tick, and half of them are cancelled.
fn a_steady_stream_of_timers_leaves_no_memory_behind<K: Kind>() {
    let mut random = Random(9);
    let mut wheel = K::new();
    let bound = bound::<K>(10_000);
    for now in 0..100_000 {
        for _ in 0..4 {
            let key = wheel.insert(now + 1 + random.below(4000), 0);
            if random.below(2) == 0 {
                wheel.remove(key);
            }
        }
        pop_all(&mut wheel, now);
        let used = wheel.memory_usage();
        assert!(used <= bound, "{used} bytes for {} timers at {now}", wheel.len());
    }
}

/// Many timers within a few ticks, with enough resets between two ticks that stale references are
/// swept while the slots that hold them are emptied.
fn slots_emptied_during_a_sweep_lose_no_timer<K: Kind>() {
    sweep_and_empty(K::new(), 3000, 80);
    sweep_and_empty(K::new(), 200, 2000);
}

fn sweep_and_empty(mut wheel: impl Wheel<usize>, count: usize, ticks: u64) {
    let mut random = Random(15);
    let mut deadlines = vec![0; count];
    let mut keys: Vec<_> = (0..count).map(|at| wheel.insert(0, at)).collect();
    for now in 0..ticks {
        while let Some(due) = wheel.pop_due(now) {
            assert_eq!((due.deadline, deadlines[due.value]), (now, now));
            deadlines[due.value] = now + 1 + random.below(20);
            keys[due.value] = wheel.insert(deadlines[due.value], due.value);
        }
        for _ in 0..count {
            let at = random.below(count as u64) as usize;
            deadlines[at] = now + 1 + random.below(20);
            assert!(wheel.reset(keys[at], now + 200) && wheel.reset(keys[at], deadlines[at]));
        }
        wheel.check_invariants();
    }
    assert_eq!(wheel.len(), count);
}

/// Cancels in random order, so that no part of the memory becomes free before nearly all of it is.
fn a_million_removed_timers_give_their_memory_back<K: Kind>() {
    let mut random = Random(11);
    let (mut wheel, mut keys) = filled::<K>(1_000_000, &mut random);
    assert!(wheel.memory_usage() > KEPT, "a million timers take more than the floor");
    while !keys.is_empty() {
        let place = random.below(keys.len() as u64) as usize;
        assert!(wheel.remove(keys.swap_remove(place)).is_some());
    }
    let used = wheel.memory_usage();
    assert!(used <= KEPT, "{used} bytes are kept");
    wheel.check_invariants();
}

fn a_million_fired_timers_give_their_memory_back<K: Kind>() {
    let (mut wheel, _) = filled::<K>(1_000_000, &mut Random(13));
    let mut fired = 0;
    for now in (0..=SPAN).step_by(60_000) {
        while wheel.pop_due(now).is_some() {
            fired += 1;
        }
    }
    assert_eq!(fired, 1_000_000);
    let used = wheel.memory_usage();
    assert!(used <= KEPT, "{used} bytes are kept");
    wheel.check_invariants();
}

/// A wheel that has begun to pop a million timers that are due at once.
fn half_emptied<K: Kind>() -> (K::Wheel<u64>, Vec<Key>) {
    let (mut wheel, keys) = filled::<K>(1_000_000, &mut Random(19));
    for _ in 0..1000 {
        assert!(wheel.pop_due(SPAN).is_some());
    }
    (wheel, keys)
}

fn a_million_due_timers_give_their_memory_back_when_removed<K: Kind>() {
    let (mut wheel, keys) = half_emptied::<K>();
    for key in keys {
        wheel.remove(key);
    }
    let used = wheel.memory_usage();
    assert!(used <= KEPT, "{used} bytes are kept");
    wheel.check_invariants();
}

fn a_million_due_timers_give_their_memory_back_when_cleared<K: Kind>() {
    let (mut wheel, _) = half_emptied::<K>();
    wheel.clear();
    let used = wheel.memory_usage();
    assert!(used <= FLOOR, "{used} bytes are kept");
    wheel.check_invariants();
}

fn an_emptied_wheel_shrinks_to_its_floor<K: Kind>() {
    let (mut wheel, _) = filled::<K>(100_000, &mut Random(17));
    let full = wheel.memory_usage();
    wheel.reserve(100_000);
    assert!(wheel.memory_usage() >= full, "reserving gives nothing back");
    wheel.clear();
    wheel.shrink_to_fit();
    let used = wheel.memory_usage();
    assert!(used <= FLOOR, "{used} bytes are kept");
    wheel.insert(5, 5);
    assert_eq!(pop_all(&mut wheel, 5), [(5, 5)]);
}

/// The limit of stale references of a large wheel no longer applies once it is empty.
fn a_cleared_wheel_sweeps_as_a_new_one_does<K: Kind>() {
    let bound = bound::<K>(1);
    let (mut wheel, keys) = filled::<K>(1_000_000, &mut Random(5));
    wheel.remove(keys[0]);
    wheel.clear();
    wheel.shrink_to_fit();
    for round in 0..200_000 {
        let key = wheel.insert(SPAN + round, round);
        assert!(wheel.remove(key).is_some());
    }
    assert!(wheel.memory_usage() <= bound, "{} bytes for nothing", wheel.memory_usage());
}
