//! `advance`: a large slot is handled in bounded steps, and the wheel is consistent after each.

use crate::kinds::{Hierarchical, Kind, on_both_wheels, pop_all};
use crate::random::Random;
use tickwheel::wheel::{Advance, Wheel};

on_both_wheels! {
    a_crowded_slot_is_emptied_in_steps,
    cancelled_timers_are_passed_in_steps,
    postponed_timers_are_moved_in_steps,
    a_long_jump_is_made_in_steps,
    overdue_timers_come_before_a_slot_that_is_being_emptied,
    changes_between_steps_are_seen,
    shrinking_between_steps_loses_nothing,
    clearing_between_steps_leaves_nothing,
    advance_pops_nothing_and_tells_what_pop_due_finds,
}

const CROWD: u64 = 50_000;
const BUDGET: usize = 500;

/// A deadline that is far enough to be demoted twice, or to be many rounds away.
const FAR: u64 = 300_000;

/// Advances until the work is finished; returns the number of steps before the last.
fn steps<T>(wheel: &mut impl Wheel<T>, now: u64) -> (usize, Advance) {
    let mut unfinished = 0;
    loop {
        match wheel.advance(now, BUDGET) {
            Advance::Unfinished => unfinished += 1,
            end => return (unfinished, end),
        }
    }
}

fn crowd<K: Kind>() -> K::Wheel<u64> {
    let mut wheel = K::new();
    for value in 0..CROWD {
        wheel.insert(FAR + value % 7, value);
    }
    wheel
}

fn a_crowded_slot_is_emptied_in_steps<K: Kind>() {
    let mut wheel = crowd::<K>();
    let (mut popped, mut last) = (0, 0);
    while steps(&mut wheel, FAR + 7).1 == Advance::Due {
        let due = wheel.pop_due(FAR + 7).expect("advance says that a timer is due");
        assert!(due.deadline >= last, "{} after {last}", due.deadline);
        last = due.deadline;
        popped += 1;
    }
    assert_eq!(popped, CROWD);
}

/// Fails if one call demotes the whole slot.
#[test]
fn a_demotion_takes_many_steps() {
    let (unfinished, end) = steps(&mut crowd::<Hierarchical>(), FAR);
    assert_eq!(end, Advance::Due);
    assert!(unfinished >= CROWD as usize / BUDGET / 2, "only {unfinished} steps");
}

fn cancelled_timers_are_passed_in_steps<K: Kind>() {
    let mut wheel = K::new();
    // Inserts as many live timers elsewhere, so that the stale references are not swept first.
    for value in 0..CROWD {
        wheel.insert(2 * FAR, value);
    }
    let keys: Vec<_> = (0..CROWD).map(|value| wheel.insert(FAR, value)).collect();
    for &key in &keys[1..] {
        wheel.remove(key);
    }
    let (_, end) = steps(&mut wheel, FAR);
    assert_eq!(end, Advance::Due);
    assert_eq!(pop_all(&mut wheel, FAR), [(FAR, 0)]);
    wheel.check_invariants();
}

fn postponed_timers_are_moved_in_steps<K: Kind>() {
    let mut wheel = K::new();
    for value in 0..CROWD {
        let key = wheel.insert(FAR, value);
        wheel.reset(key, FAR + 1 + value % 3);
    }
    let (unfinished, end) = steps(&mut wheel, FAR);
    assert_eq!(end, Advance::Idle);
    assert!(unfinished >= CROWD as usize / BUDGET / 2, "only {unfinished} steps");
    wheel.check_invariants();
    assert_eq!(pop_all(&mut wheel, FAR + 3).len() as u64, CROWD);
}

fn a_long_jump_is_made_in_steps<K: Kind>() {
    let mut random = Random(3);
    let mut wheel = K::new();
    let mut deadlines: Vec<u64> = (0..CROWD).map(|_| random.below(1 << 22)).collect();
    for &deadline in &deadlines {
        wheel.insert(deadline, ());
    }
    deadlines.sort_unstable();
    for expected in deadlines {
        let (_, end) = steps(&mut wheel, 1 << 22);
        assert_eq!(end, Advance::Due);
        assert_eq!(wheel.pop_due(1 << 22).map(|due| due.deadline), Some(expected));
    }
    assert!(wheel.is_empty());
}

fn overdue_timers_come_before_a_slot_that_is_being_emptied<K: Kind>() {
    let mut wheel = crowd::<K>();
    let _ = wheel.advance(FAR, BUDGET);
    wheel.insert(FAR - 1, CROWD);
    wheel.insert(5, CROWD + 1);
    wheel.check_invariants();
    assert_eq!(wheel.next_wake(), Some(5));
    assert_eq!(wheel.pop_due(FAR).map(|due| due.deadline), Some(5));
    assert_eq!(wheel.pop_due(FAR).map(|due| due.deadline), Some(FAR - 1));
    assert_eq!(wheel.pop_due(FAR).map(|due| due.deadline), Some(FAR));
}

fn changes_between_steps_are_seen<K: Kind>() {
    let mut random = Random(21);
    let mut wheel = K::new();
    let mut keys: Vec<_> = (0..CROWD)
        .map(|value| {
            let deadline = FAR + random.below(400);
            (wheel.insert(deadline, value), deadline)
        })
        .collect();
    for now in (FAR..FAR + 1_000).step_by(50) {
        while wheel.advance(now, 200) == Advance::Unfinished {
            for _ in 0..20 {
                let at = random.below(keys.len() as u64) as usize;
                let deadline = FAR - 10 + random.below(1_000);
                if random.below(2) == 0 {
                    wheel.remove(keys[at].0);
                    keys[at] = (wheel.insert(deadline, at as u64), deadline);
                } else if wheel.reset(keys[at].0, deadline) {
                    keys[at].1 = deadline;
                }
            }
        }
        wheel.check_invariants();
        let pending = |keys: &[(_, u64)]| keys.iter().filter(|key| key.1 <= now).count();
        let expected = pending(&keys);
        let popped = pop_all(&mut wheel, now);
        assert_eq!(popped.len(), expected, "at {now}");
        assert!(popped.is_sorted_by_key(|&(deadline, _)| deadline), "at {now}");
        keys.retain(|key| key.1 > now);
        if keys.is_empty() {
            break;
        }
    }
    assert_eq!(wheel.len(), keys.len());
}

fn shrinking_between_steps_loses_nothing<K: Kind>() {
    let mut wheel = crowd::<K>();
    for _ in 0..CROWD / 1_000 {
        let _ = wheel.advance(FAR + 3, BUDGET);
        wheel.shrink_to_fit();
        wheel.check_invariants();
        wheel.pop_due(FAR + 3).expect("a timer is due");
    }
    assert_eq!(pop_all(&mut wheel, FAR + 7).len() as u64, CROWD - CROWD / 1_000);
}

fn clearing_between_steps_leaves_nothing<K: Kind>() {
    let mut wheel = crowd::<K>();
    let _ = wheel.advance(FAR, BUDGET);
    wheel.clear();
    wheel.check_invariants();
    assert_eq!((wheel.next_wake(), wheel.advance(FAR, BUDGET)), (None, Advance::Idle));
    wheel.insert(FAR + 1, 1);
    assert_eq!(pop_all(&mut wheel, FAR + 1), [(FAR + 1, 1)]);
}

fn advance_pops_nothing_and_tells_what_pop_due_finds<K: Kind>() {
    let mut wheel = K::new();
    assert_eq!(wheel.advance(5, 0), Advance::Idle);
    wheel.insert(10, "a");
    assert_eq!(steps(&mut wheel, 9).1, Advance::Idle);
    assert_eq!(wheel.now(), 9);
    assert_eq!(steps(&mut wheel, 10).1, Advance::Due);
    assert_eq!(steps(&mut wheel, 10).1, Advance::Due);
    assert_eq!((wheel.len(), wheel.next_wake()), (1, Some(10)));
    assert_eq!(pop_all(&mut wheel, 10), [(10, "a")]);
    assert_eq!(steps(&mut wheel, 10).1, Advance::Idle);
}

/// The order of insertion holds across the steps of a demotion.
#[test]
fn a_timer_inserted_during_a_demotion_comes_after_those_before_it() {
    let mut wheel = Hierarchical::new();
    for value in 0..CROWD {
        wheel.insert(FAR, value);
    }
    let mut inserted = CROWD;
    while wheel.advance(FAR, BUDGET) == Advance::Unfinished {
        wheel.insert(FAR, inserted);
        inserted += 1;
    }
    assert!(inserted > CROWD, "the demotion takes more than one step");
    let values: Vec<u64> = pop_all(&mut wheel, FAR).into_iter().map(|(_, value)| value).collect();
    assert_eq!(values.len() as u64, inserted);
    assert!(values.is_sorted(), "the order of insertion");
}
