//! The times at which tasks run, and the effects of handles and keys, on a manual clock and so
//! without sleeps. Each test runs on both wheels.

use std::sync::Arc;
use std::time::Duration;

use crate::random::Random;
use crate::rig::*;
use tickwheel::{Key, ManualClock, ScheduleError, Timeout, Timer};

on_both_wheels! {
    tasks_run_in_order_of_deadline_each_at_its_time,
    never_early_and_less_than_a_tick_late,
    microsecond_ticks_are_kept,
    deadlines_hold_when_the_clock_stands_between_ticks,
    an_instant_is_a_deadline_to_the_tick,
    the_longest_delay_is_never,
    what_is_due_never_has_the_longest_time_left,
    zero_delay_and_the_past_are_due_at_once,
    a_jump_runs_everything_once,
    cancel_is_true_once_and_drops_the_closure,
    a_fired_task_cannot_be_cancelled_or_reset,
    reset_moves_a_deadline_both_ways,
    handles_tell_what_became_of_a_task,
    a_guard_cancels_and_a_handle_does_not,
    a_key_is_replaced_and_fires_once,
    a_replaced_closure_is_dropped_at_once,
    a_key_is_free_after_each_fate,
    the_old_handle_of_a_key_has_no_power_over_the_new_task,
    a_keyed_series_is_replaced_and_cancelled,
    the_handle_of_a_key_knows_what_others_did,
    a_key_goes_from_a_task_to_a_series_and_back,
    nothing_of_a_key_is_left,
    keys_of_all_kinds_are_apart,
    the_limit_is_exact,
    a_replaced_key_makes_room_for_itself,
}

fn tasks_run_in_order_of_deadline_each_at_its_time(rig: &Rig) {
    let mut random = Random(1);
    let mut delays: Vec<u32> = (1..=500).map(|n| n * 37).collect();
    for i in (1..delays.len()).rev() {
        delays.swap(i, random.below(i as u64 + 1) as usize);
    }
    for &delay in &delays {
        rig.timer.after(delay * MS, rig.note(delay)).unwrap();
    }
    rig.clock.advance(20 * S);
    delays.sort_unstable();
    let expected: Vec<_> = delays.iter().map(|&delay| (delay, delay * MS)).collect();
    assert_eq!(rig.noted(), expected);
}

fn never_early_and_less_than_a_tick_late(rig: &Rig) {
    for tenths in 1..=39 {
        let rig = rig.again(|builder| builder.tick(MS));
        let delay = tenths * MS / 10;
        rig.timer.after(delay, rig.note(0)).unwrap();
        rig.clock.advance(delay.checked_sub(Duration::from_nanos(1)).unwrap());
        assert_eq!(rig.noted(), [], "{delay:?} is not over");
        rig.clock.advance(10 * MS);
        let late = rig.times()[0].saturating_sub(delay);
        assert!(late < MS, "{delay:?}: {late:?} late");
    }
}

fn microsecond_ticks_are_kept(rig: &Rig) {
    let rig = rig.again(|builder| builder.tick(US));
    for nanos in [1, 500, 999, 1_000, 1_001, 1_999, 2_000, 999_999_999] {
        let delay = Duration::from_nanos(nanos);
        let before = rig.clock.now() - rig.start;
        rig.timer.after(delay, rig.note(0)).unwrap();
        rig.clock.advance(delay + US);
        let ran = rig.times()[0];
        assert!(ran >= before + delay, "{delay:?} is early");
        assert!(ran < before + delay + US, "{delay:?} is late");
    }
}

fn deadlines_hold_when_the_clock_stands_between_ticks(rig: &Rig) {
    let mut random = Random(2);
    for _ in 0..500 {
        rig.clock.advance(Duration::from_nanos(random.below(3_000_000)));
        let now = rig.clock.now() - rig.start;
        let delay = Duration::from_nanos(random.below(5_000_000));
        rig.timer.after(delay, rig.note(0)).unwrap();
        rig.clock.advance(7 * MS);
        let ran = rig.times()[0];
        assert!(ran >= now + delay && ran < now + delay + MS, "{delay:?} from {now:?}: {ran:?}");
    }
}

fn an_instant_is_a_deadline_to_the_tick(rig: &Rig) {
    let deadline = rig.clock.now() + 1_500 * US;
    let timeout = rig.timer.at(deadline, rig.note(1)).unwrap();
    assert_eq!(timeout.deadline(), Some(rig.start + 2 * MS));
    rig.clock.advance(1_999 * US);
    assert_eq!(rig.noted(), []);
    rig.clock.advance(US);
    assert_eq!(rig.noted(), [(1, 2 * MS)]);
}

fn the_longest_delay_is_never(rig: &Rig) {
    let timer = &rig.timer;
    let far = Duration::from_secs(u64::MAX / 1_000_000_000 + 1);
    timer.after(Duration::MAX, rig.note(1)).unwrap();
    timer.after(far, rig.note(2)).unwrap();
    timer.after(Duration::from_nanos(u64::MAX), rig.note(3)).unwrap();
    timer.every(Duration::MAX, rig.note(4)).unwrap();
    timer.every_after(far, rig.note(5)).unwrap();
    timer.key("never").after(Duration::MAX, rig.note(6)).unwrap();
    assert!(timer.after(S, rig.note(7)).unwrap().reset(Duration::MAX));
    assert!(timer.every(S, rig.note(8)).unwrap().reset(Duration::MAX));
    if let Some(instant) = rig.start.checked_add(Duration::from_secs(1 << 40)) {
        timer.at(instant, rig.note(9)).unwrap();
        timer.key("far").at(instant, rig.note(9)).unwrap();
    }
    if let Some(time) = rig.clock.wall().checked_add(Duration::from_secs(1 << 40)) {
        timer.at(time, rig.note(10)).unwrap().cancel();
    }
    let pending = timer.pending();
    for _ in 0..10 {
        rig.clock.advance(Duration::from_secs(1 << 32));
    }
    rig.clock.advance(Duration::MAX);
    assert_eq!(rig.noted(), []);
    assert_eq!(timer.pending(), pending);
    assert_eq!(timer.next_deadline(), None, "nothing is due ever");
    assert_eq!(timer.stop().iter().filter(|task| task.deadline().is_some()).count(), 0);
}

fn what_is_due_never_has_the_longest_time_left(rig: &Rig) {
    let never = rig.timer.after(Duration::MAX, || {}).unwrap();
    assert_eq!((never.deadline(), never.remaining()), (None, Some(Duration::MAX)));
    assert!(!never.is_expired() && !never.is_cancelled());
    assert!(never.reset(S), "never can become soon");
    assert_eq!(never.remaining(), Some(S));
    rig.clock.advance(S);
    assert!(never.is_expired());
}

fn zero_delay_and_the_past_are_due_at_once(rig: &Rig) {
    rig.clock.advance(10 * S);
    rig.timer.after(Duration::ZERO, rig.note(1)).unwrap();
    rig.timer.at(rig.start, rig.note(2)).unwrap();
    rig.timer.at(rig.clock.wall() - 5 * S, rig.note(3)).unwrap();
    assert_eq!(rig.noted(), [], "nothing runs on the thread that schedules");
    rig.clock.advance(Duration::ZERO);
    let mut noted = rig.noted();
    noted.sort_unstable();
    assert_eq!(noted, [(1, 10 * S), (2, 10 * S), (3, 10 * S)]);
}

fn a_jump_runs_everything_once(rig: &Rig) {
    for n in 0..1_000_u32 {
        rig.timer.after(n * n * 7 * MS, rig.note(n)).unwrap();
    }
    rig.clock.advance(Duration::from_secs(24 * 365 * 3_600));
    assert_eq!(rig.numbers(), (0..1_000).collect::<Vec<_>>());
    assert_eq!(rig.timer.pending(), 0);
}

fn cancel_is_true_once_and_drops_the_closure(rig: &Rig) {
    type Schedule = fn(&Timer, Box<dyn FnMut() + Send>) -> Timeout;
    let timer = &rig.timer;
    let ways: [Schedule; 5] = [
        |timer, task| timer.after(S, task).unwrap(),
        |timer, task| timer.key(1).after(S, task).unwrap(),
        |timer, task| timer.every(S, task).unwrap(),
        |timer, task| timer.key(1).every_after(S, task).unwrap(),
        |timer, task| {
            let time = std::time::SystemTime::now() + S;
            timer.at(time, task).unwrap()
        },
    ];
    for schedule in ways {
        let (counted, count) = counted();
        let timeout = schedule(
            timer,
            Box::new(move || {
                let _held = &counted;
                panic!("was cancelled");
            }),
        );
        assert_eq!((timer.pending(), dropped(&count)), (1, 0));
        assert!(timeout.cancel());
        assert_eq!((timer.pending(), dropped(&count)), (0, 1), "freed when cancel returns");
        assert!(!timeout.cancel(), "only once");
        assert!(!timeout.reset(S), "and not to be revived");
    }
    rig.clock.advance(10 * S);
    assert_eq!(timer.stats().fired, 0);
}

fn a_fired_task_cannot_be_cancelled_or_reset(rig: &Rig) {
    let plain = rig.timer.after(S, rig.note(1)).unwrap();
    let keyed = rig.timer.key("k").after(S, rig.note(2)).unwrap();
    rig.clock.advance(S);
    for timeout in [plain, keyed] {
        assert!(!timeout.cancel() && !timeout.reset(S));
        assert!(timeout.is_expired() && !timeout.is_cancelled());
    }
    assert!(!rig.timer.cancel("k"));
    rig.clock.advance(10 * S);
    assert_eq!(rig.noted().len(), 2);
}

fn reset_moves_a_deadline_both_ways(rig: &Rig) {
    for keyed in [false, true] {
        let rig = rig.again(|builder| builder);
        let schedule = |number| {
            let task = rig.note(number);
            if keyed {
                rig.timer.key(number).after(10 * S, task)
            } else {
                rig.timer.after(10 * S, task)
            }
        };
        let (earlier, later, twice, now) = (
            schedule(1).unwrap(),
            schedule(2).unwrap(),
            schedule(3).unwrap(),
            schedule(4).unwrap(),
        );
        assert!(earlier.reset(3 * S));
        assert!(later.reset(60 * S));
        assert!(twice.reset(90 * S) && twice.reset(5 * S));
        rig.clock.advance(2 * S);
        assert!(now.reset(Duration::ZERO));
        assert_eq!(rig.timer.pending(), 4);
        rig.clock.advance(100 * S);
        assert_eq!(rig.noted(), [(4, 2 * S), (1, 3 * S), (3, 5 * S), (2, 60 * S)]);
    }
}

fn handles_tell_what_became_of_a_task(rig: &Rig) {
    let plain = rig.timer.after(3 * S, || {}).unwrap();
    let keyed = rig.timer.key("k").after(3 * S, || {}).unwrap();
    for timeout in [&plain, &keyed] {
        assert_eq!(timeout.deadline(), Some(rig.start + 3 * S));
        assert_eq!(timeout.remaining(), Some(3 * S));
        assert!(!timeout.is_expired() && !timeout.is_cancelled());
    }
    rig.clock.advance(S);
    for timeout in [&plain, &keyed] {
        assert_eq!(timeout.remaining(), Some(2 * S));
        assert!(timeout.reset(4 * S));
        assert_eq!(timeout.deadline(), Some(rig.start + 5 * S));
    }
    rig.clock.advance(4 * S);
    for timeout in [&plain, &keyed] {
        assert_eq!((timeout.deadline(), timeout.remaining()), (None, None));
        assert!(timeout.is_expired() && !timeout.is_cancelled());
    }
    let plain = rig.timer.after(3 * S, || {}).unwrap();
    let keyed = rig.timer.key("k").after(3 * S, || {}).unwrap();
    for timeout in [&plain, &keyed] {
        timeout.cancel();
        assert_eq!((timeout.deadline(), timeout.remaining()), (None, None));
        assert!(!timeout.is_expired() && timeout.is_cancelled());
    }
}

fn a_guard_cancels_and_a_handle_does_not(rig: &Rig) {
    let (counted, count) = counted();
    let guard = rig.timer.after(S, move || drop(counted)).unwrap().cancel_on_drop();
    assert!(guard.reset(2 * S), "a guard is still a handle");
    drop(guard);
    assert_eq!((rig.timer.pending(), dropped(&count)), (0, 1));

    let series = rig.timer.every(S, rig.note(1)).unwrap().cancel_on_drop();
    rig.clock.advance(3 * S);
    drop(series);
    drop(rig.timer.after(S, rig.note(2)).unwrap());
    drop(rig.timer.key("k").after(S, rig.note(3)).unwrap());
    drop(rig.timer.after(Duration::ZERO, rig.note(4)).unwrap());
    rig.clock.advance(3 * S);
    let mut numbers = rig.numbers();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 1, 1, 2, 3, 4]);

    let late = rig.timer.after(S, rig.note(5)).unwrap().cancel_on_drop();
    rig.clock.advance(S);
    drop(late);
    assert_eq!(rig.numbers(), [5]);
    assert_eq!(rig.timer.stats().cancelled, 2, "what has run cannot be cancelled");
}

fn a_key_is_replaced_and_fires_once(rig: &Rig) {
    let first = rig.timer.key("order").after(S, rig.note(1)).unwrap();
    let second = rig.timer.key("order").after(5 * S, rig.note(2)).unwrap();
    assert!(first.is_cancelled() && !first.is_expired() && !first.cancel());
    assert_eq!(rig.timer.pending(), 1);
    let third = rig.timer.key(String::from("order")).after(2 * S, rig.note(3)).unwrap();
    assert!(second.is_cancelled());
    rig.clock.advance(10 * S);
    assert_eq!(rig.noted(), [(3, 2 * S)]);
    assert!(third.is_expired());
}

fn a_replaced_closure_is_dropped_at_once(rig: &Rig) {
    let (counted, count) = counted();
    let held = counted.clone();
    rig.timer.key(7).after(S, move || drop(held)).unwrap();
    let held = counted.clone();
    rig.timer.key(7).every(S, move || drop(held.clone())).unwrap();
    assert_eq!(dropped(&count), 1);
    rig.timer.key(7).at(rig.clock.wall() + S, move || drop(counted)).unwrap();
    assert_eq!(dropped(&count), 2);
    assert!(rig.timer.cancel(7));
    assert_eq!(dropped(&count), 3);
}

fn a_key_is_free_after_each_fate(rig: &Rig) {
    let timer = &rig.timer;
    for round in 0..3 {
        let fired = timer.key("k").after(S, rig.note(round)).unwrap();
        rig.clock.advance(S);
        assert!(fired.is_expired() && !timer.cancel("k"));
        assert_eq!((rig.numbers(), timer.pending()), (vec![round], 0));

        timer.key("k").after(S, || panic!("cancelled by key")).unwrap();
        assert!(timer.cancel("k") && !timer.cancel("k"));
        let by_handle = timer.key("k").after(S, || panic!("cancelled by handle")).unwrap();
        assert!(by_handle.cancel() && !timer.cancel("k"));
        assert_eq!(timer.pending(), 0);

        timer.key("k").after(S, || panic!("replaced")).unwrap();
        timer.key("k").after(S, rig.note(10 + round)).unwrap();
        assert_eq!(timer.pending(), 1);
        assert!(timer.key("k").cancel());
        assert_eq!(timer.pending(), 0);
    }
    assert_eq!(timer.stats().panicked, 0);
}

fn the_old_handle_of_a_key_has_no_power_over_the_new_task(rig: &Rig) {
    let old = rig.timer.key("k").after(S, rig.note(1)).unwrap();
    rig.timer.key("k").after(S, rig.note(2)).unwrap();
    assert!(!old.cancel() && !old.reset(Duration::MAX));
    drop(old.cancel_on_drop());
    rig.clock.advance(S);
    assert_eq!(rig.numbers(), [2]);

    let fired = rig.timer.key("k").after(S, rig.note(3)).unwrap();
    rig.clock.advance(S);
    rig.timer.key("k").after(S, rig.note(4)).unwrap();
    assert!(!fired.cancel(), "the key has a task, but not that one");
    rig.clock.advance(S);
    assert_eq!(rig.numbers(), [3, 4]);
}

fn a_keyed_series_is_replaced_and_cancelled(rig: &Rig) {
    let first = rig.timer.key("beat").every(S, rig.note(1)).unwrap();
    rig.clock.advance(2 * S);
    let second = rig.timer.key("beat").every_after(3 * S, rig.note(2)).unwrap();
    assert!(first.is_cancelled() && !first.cancel());
    rig.clock.advance(6 * S);
    rig.timer.key("beat").after(S, rig.note(3)).unwrap();
    assert!(second.is_cancelled());
    rig.clock.advance(10 * S);
    let expected = [(1, S), (1, 2 * S), (2, 5 * S), (2, 8 * S), (3, 9 * S)];
    assert_eq!(rig.noted(), expected);

    rig.timer.periodic(S).key("beat").first_after(Duration::ZERO).start(rig.note(4)).unwrap();
    rig.clock.advance(S);
    assert!(rig.timer.cancel("beat") && !rig.timer.cancel("beat"));
    rig.clock.advance(10 * S);
    assert_eq!(rig.times(), [18 * S, 19 * S]);
    assert_eq!(rig.timer.pending(), 0);
}

fn the_handle_of_a_key_knows_what_others_did(rig: &Rig) {
    let timer = &rig.timer;
    let replaced = timer.key("k").after(S, || panic!("replaced")).unwrap();
    let cancelled = timer.key("k").after(S, || panic!("cancelled")).unwrap();
    assert!(timer.cancel("k"));
    // Other tasks reuse their entries in the wheel.
    let kept = timer.key("k").after(S, rig.note(1)).unwrap();
    drop(timer.key("l").after(S, rig.note(2)).unwrap());
    for gone in [&replaced, &cancelled] {
        assert!(gone.is_cancelled() && !gone.is_expired() && !gone.cancel() && !gone.reset(S));
        assert_eq!(gone.deadline(), None);
    }
    rig.clock.advance(S);
    assert!(kept.is_expired() && !kept.is_cancelled());
    assert_eq!(rig.noted(), [(1, S), (2, S)]);
    let unfired = timer.key("k").after(S, || {}).unwrap();
    let rest = timer.stop();
    assert_eq!(rest[0].key(), Some(&"k".into()));
    assert!(unfired.is_unfired() && replaced.is_cancelled() && kept.is_expired());
}

fn a_key_goes_from_a_task_to_a_series_and_back(rig: &Rig) {
    let timer = &rig.timer;
    let task = timer.key(1).after(S, || panic!("replaced by the series")).unwrap();
    let series = timer.key(1).every(S, rig.note(1)).unwrap();
    assert!(task.is_cancelled());
    rig.clock.advance(S);
    let task = timer.key(1).after(S, rig.note(2)).unwrap();
    assert!(series.is_cancelled());
    let wall = timer.key(1).at(rig.clock.wall() + S, rig.note(3)).unwrap();
    assert!(task.is_cancelled());
    let task = timer.key(1).at(rig.clock.now() + S, rig.note(4)).unwrap();
    assert!(wall.is_cancelled());
    assert_eq!(timer.pending(), 1);
    rig.clock.advance(2 * S);
    assert!(task.is_expired());
    assert_eq!(rig.noted(), [(1, S), (4, 2 * S)]);
}

fn nothing_of_a_key_is_left(rig: &Rig) {
    let key: Arc<str> = "a key that is too long to be kept in place".into();
    let timer = &rig.timer;
    let schedule = || timer.key(key.clone()).after(S, || {}).unwrap();
    drop(schedule());
    assert_eq!(Arc::strong_count(&key), 2);
    rig.clock.advance(S); // it fires
    assert_eq!(Arc::strong_count(&key), 1);
    assert!(schedule().cancel());
    assert_eq!(Arc::strong_count(&key), 1);
    let replaced = schedule();
    let last = schedule();
    assert_eq!(Arc::strong_count(&key), 2);
    assert!(timer.cancel(&*key));
    assert_eq!(Arc::strong_count(&key), 1);
    assert!(replaced.is_cancelled() && last.is_cancelled());
    let _handle = schedule();
    drop(timer.stop());
    assert_eq!(Arc::strong_count(&key), 1);
}

fn keys_of_all_kinds_are_apart(rig: &Rig) {
    let keys =
        [Key::from(1), Key::from("1"), Key::from(-1_i64), Key::from(u64::MAX), Key::from("")];
    for (number, key) in (0..).zip(&keys) {
        rig.timer.key(key).after(S, rig.note(number)).unwrap();
    }
    assert_eq!(rig.timer.pending(), keys.len());
    assert!(rig.timer.cancel("1"));
    rig.clock.advance(S);
    let mut numbers = rig.numbers();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 2, 3, 4]);
}

fn the_limit_is_exact(rig: &Rig) {
    let rig = rig.again(|builder| builder.max_pending(3));
    let timer = &rig.timer;
    let full = ScheduleError::Full { limit: 3, pending: 3 };
    let one = timer.after(S, || {}).unwrap();
    timer.key("k").after(2 * S, || {}).unwrap();
    let series = timer.every(10 * S, || {}).unwrap();
    let (counted, count) = counted();
    assert_eq!(timer.after(S, move || drop(counted)).unwrap_err(), full);
    assert_eq!(dropped(&count), 1, "a refused closure is not kept");
    assert_eq!(timer.key("other").after(S, || {}).unwrap_err(), full);
    assert_eq!(timer.at(rig.clock.wall(), || {}).unwrap_err(), full);
    assert_eq!(timer.every(S, || {}).unwrap_err(), full);
    let message = full.to_string();
    assert!(message.contains("limit: 3") && message.contains("pending: 3"), "{message}");

    assert!(one.cancel());
    timer.after(S, || {}).unwrap();
    assert_eq!(timer.after(S, || {}).unwrap_err(), full);
    rig.clock.advance(2 * S);
    assert_eq!(timer.pending(), 1, "what has run makes room");
    timer.after(S, || {}).unwrap();
    timer.after(S, || {}).unwrap();
    assert_eq!(timer.after(S, || {}).unwrap_err(), full);
    assert!(series.cancel());
    timer.after(S, || {}).unwrap();
    assert_eq!(timer.stats().rejected, 6);
    assert!(!timer.cancel("other"), "a refused key is not known");
}

fn a_replaced_key_makes_room_for_itself(rig: &Rig) {
    let rig = rig.again(|builder| builder.max_pending(2));
    rig.timer.after(S, || {}).unwrap();
    for round in 0..5 {
        rig.timer.key("k").after(S, rig.note(round)).unwrap();
        assert_eq!(rig.timer.pending(), 2);
    }
    assert_eq!(rig.timer.stats().rejected, 0);
    rig.clock.advance(S);
    assert_eq!(rig.numbers(), [4]);
}

/// A key answers for every kind of task that can have one.
#[test]
fn a_key_resets_and_tells_about_its_task() {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).build().unwrap();
    let second = Duration::from_secs(1);
    timer.key("plain").after(second, || {}).unwrap();
    timer.key("wall").at(clock.wall() + second, || {}).unwrap();
    timer.key("series").every(second, || {}).unwrap();
    timer.key("never").after(Duration::MAX, || {}).unwrap();
    for key in ["plain", "wall", "series"] {
        assert_eq!(timer.key(key).remaining(), Some(second), "{key}");
        assert!(timer.key(key).reset(5 * second), "{key}");
        assert_eq!(timer.key(key).remaining(), Some(5 * second), "{key}");
    }
    assert_eq!(timer.key("never").remaining(), Some(Duration::MAX));
    clock.advance(4 * second);
    assert_eq!(timer.stats().fired, 0, "reset to later");
    assert!(timer.key("never").reset(second), "reset to earlier");
    clock.advance(second);
    assert_eq!(timer.stats().fired, 4);
    for key in ["plain", "wall", "never"] {
        let keyed = timer.key(key);
        assert!(!keyed.is_pending() && !keyed.reset(second) && keyed.remaining().is_none());
    }
    assert!(timer.key("series").is_pending(), "a series goes on");
    timer.stop();
    assert!(!timer.key("series").is_pending() && !timer.key("series").reset(second));
}
