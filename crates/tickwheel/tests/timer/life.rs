//! The end of a timer, its counts, and panics, on a manual clock. Each test runs on both wheels.

use std::panic::panic_any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::rig::*;
use tickwheel::{Key, ScheduleError, Timeout, Timer, TimerState};

on_both_wheels! {
    stop_hands_back_what_is_pending_in_order,
    stop_hands_back_closures_that_still_belong_to_somebody,
    nothing_is_taken_after_a_stop,
    stop_works_from_inside_a_task,
    handles_tell_that_a_task_was_handed_back,
    dropping_the_timer_drops_the_tasks,
    handles_tell_that_a_task_went_with_its_timer,
    a_series_that_runs_at_the_end_is_cancelled,
    a_timer_may_be_dropped_inside_its_own_task,
    counts_add_up,
    no_panic_gets_out_and_payloads_are_forgotten,
    a_panicking_hook_is_survived,
}

fn stop_hands_back_what_is_pending_in_order(rig: &Rig) {
    let timer = &rig.timer;
    timer.after(3 * S, rig.note(3)).unwrap();
    timer.key("two").after(2 * S, rig.note(2)).unwrap();
    timer.every(S, rig.note(1)).unwrap();
    timer.key(5).at(rig.clock.wall() + 5 * S, rig.note(5)).unwrap();
    timer.after(Duration::MAX, rig.note(6)).unwrap();
    timer.at(rig.start + 4 * S, rig.note(4)).unwrap();
    timer.after(2 * S, || panic!("cancelled")).unwrap().cancel();
    let unfired = timer.stop();
    assert_eq!((timer.pending(), timer.state()), (0, TimerState::Stopped));
    let keys: Vec<_> = unfired.iter().map(|task| task.key().map(Key::to_string)).collect();
    let expected = [None, Some("two".into()), None, None, Some("5".into()), None];
    assert_eq!(keys, expected);
    let deadlines: Vec<_> = unfired.iter().map(tickwheel::Unfired::deadline).collect();
    let within_a_tick = |deadline: Option<Instant>, after: Duration| {
        let deadline = deadline.unwrap();
        deadline >= rig.start + after && deadline < rig.start + after + 2 * MS
    };
    for (n, &deadline) in (1..=5).zip(&deadlines) {
        assert!(within_a_tick(deadline, n * S), "{deadlines:?}");
    }
    assert_eq!(deadlines[5], None, "never");
    for task in unfired {
        assert!(task.run());
    }
    assert_eq!(rig.numbers(), [1, 2, 3, 4, 5, 6]);
    assert!(timer.stop().is_empty(), "nothing is handed back twice");
    rig.clock.advance(100 * S);
    assert_eq!(rig.noted(), [], "nothing runs after a stop");
}

fn stop_hands_back_closures_that_still_belong_to_somebody(rig: &Rig) {
    let (counted, count) = counted();
    let mut handles = Vec::new();
    for n in 0..3_u32 {
        let held = counted.clone();
        handles.push(rig.timer.key(n).after(n * S, move || drop(held)).unwrap());
        let held = counted.clone();
        handles.push(rig.timer.after(n * S, move || drop(held)).unwrap());
    }
    let mut unfired = rig.timer.stop();
    assert_eq!((unfired.len(), dropped(&count)), (6, 0));
    for handle in &handles {
        assert!(!handle.cancel() && !handle.reset(S), "it is not the timer's any more");
        assert!(!handle.is_cancelled() && !handle.is_expired());
    }
    drop(handles);
    drop(unfired.pop());
    assert_eq!(dropped(&count), 1);
    unfired.pop().unwrap().run();
    assert_eq!(dropped(&count), 2);
    drop(unfired);
    assert_eq!(dropped(&count), 6);
}

fn nothing_is_taken_after_a_stop(rig: &Rig) {
    assert!(rig.timer.stop().is_empty(), "also before the first task");
    let timer = &rig.timer;
    let (counted, count) = counted();
    let errors = [
        timer.after(S, move || drop(counted)).unwrap_err(),
        timer.at(rig.start, || {}).unwrap_err(),
        timer.at(rig.clock.wall(), || {}).unwrap_err(),
        timer.every(S, || {}).unwrap_err(),
        timer.key("k").after(S, || {}).unwrap_err(),
        timer.start().unwrap_err(),
    ];
    assert!(errors.iter().all(|error| *error == ScheduleError::Stopped));
    assert_eq!(dropped(&count), 1);
    assert!(!timer.cancel("k"));
    assert_eq!((timer.turn(), timer.next_deadline(), timer.pending()), (0, None, 0));
}

fn stop_works_from_inside_a_task(rig: &Rig) {
    let left = Arc::new(Mutex::new(Vec::new()));
    let (timer, list) = (rig.timer.clone(), left.clone());
    rig.timer.after(2 * S, rig.note(2)).unwrap();
    rig.timer
        .after(S, move || {
            *list.lock().unwrap() = timer.stop();
            assert!(timer.stop().is_empty());
            assert_eq!(timer.after(S, || {}).unwrap_err(), ScheduleError::Stopped);
        })
        .unwrap();
    rig.clock.advance(10 * S);
    assert_eq!(rig.noted(), []);
    let left = std::mem::take(&mut *left.lock().unwrap());
    assert_eq!(left.len(), 1);
    assert!(left.into_iter().all(tickwheel::Unfired::run));
    assert_eq!((rig.numbers(), rig.timer.stats().panicked), (vec![2], 0));

    let rig = rig.again(|builder| builder);
    let (timer, note) = (rig.timer.clone(), rig.note(3));
    let stops_itself = move || {
        note();
        assert!(timer.stop().is_empty(), "a series that runs is not handed back");
    };
    rig.timer.every(S, stops_itself).unwrap();
    rig.clock.advance(10 * S);
    assert_eq!((rig.numbers(), rig.timer.stats().panicked), (vec![3], 0));
}

/// Returns the fate of a task: expired, cancelled, unfired.
fn fate(timeout: &Timeout) -> [bool; 3] {
    [timeout.is_expired(), timeout.is_cancelled(), timeout.is_unfired()]
}

const NONE_YET: [bool; 3] = [false; 3];
const EXPIRED: [bool; 3] = [true, false, false];
const CANCELLED: [bool; 3] = [false, true, false];
const UNFIRED: [bool; 3] = [false, false, true];

/// Schedules a task of each kind, due in a second.
fn one_of_each(rig: &Rig) -> [Timeout; 4] {
    [
        rig.timer.after(S, || {}).unwrap(),
        rig.timer.key("k").after(S, || {}).unwrap(),
        rig.timer.at(rig.clock.wall() + S, || {}).unwrap(),
        rig.timer.every(S, || {}).unwrap(),
    ]
}

fn handles_tell_that_a_task_was_handed_back(rig: &Rig) {
    let [ran, _, _, series] = one_of_each(rig);
    rig.clock.advance(S);
    let cancelled = rig.timer.after(S, || {}).unwrap();
    cancelled.cancel();
    let left = one_of_each(rig);
    assert!(left.iter().chain([&series]).all(|timeout| fate(timeout) == NONE_YET));
    let unfired = rig.timer.stop();
    let check = || {
        assert!(left.iter().chain([&series]).all(|timeout| fate(timeout) == UNFIRED));
        assert!(left.iter().all(|timeout| timeout.remaining().is_none() && !timeout.cancel()));
        assert_eq!((fate(&ran), fate(&cancelled)), (EXPIRED, CANCELLED));
    };
    check();
    // The tasks stay unfired, whatever the caller does with them.
    for (n, task) in unfired.into_iter().enumerate() {
        if n % 2 == 0 {
            task.run();
        }
    }
    check();
}

fn handles_tell_that_a_task_went_with_its_timer(rig: &Rig) {
    let mut rig = rig.again(|builder| builder);
    let [ran, ..] = one_of_each(&rig);
    rig.clock.advance(S);
    let left = one_of_each(&rig);
    rig.timer = Timer::new();
    assert!(left.iter().all(|timeout| fate(timeout) == CANCELLED));
    assert!(left.iter().all(|timeout| timeout.remaining().is_none() && !timeout.cancel()));
    assert_eq!(fate(&ran), EXPIRED);

    let mut rig = rig.again(|builder| builder);
    let left = one_of_each(&rig);
    drop(rig.timer.stop());
    rig.timer = Timer::new();
    assert!(left.iter().all(|timeout| fate(timeout) == UNFIRED), "it was stopped before");
}

fn a_series_that_runs_at_the_end_is_cancelled(rig: &Rig) {
    let rig = rig.again(|builder| builder);
    let timer = rig.timer.clone();
    let series = rig.timer.every(S, move || drop(timer.stop())).unwrap();
    rig.clock.advance(S);
    assert_eq!(fate(&series), CANCELLED, "it is not handed back, and does not run again");
}

fn dropping_the_timer_drops_the_tasks(rig: &Rig) {
    let Rig { timer, clock, .. } = rig.again(|builder| builder);
    let (counted, count) = counted();
    let mut handles = Vec::new();
    for n in 0..4_u32 {
        let held = counted.clone();
        handles.push(timer.after(n * S, move || drop(held)).unwrap());
        let held = counted.clone();
        handles.push(timer.key(n).every(S, move || drop(held.clone())).unwrap());
    }
    let bomb = Bomb;
    timer.after(S, move || drop(bomb)).unwrap();
    let other = timer.clone();
    drop(timer);
    assert_eq!(dropped(&count), 0, "a clone is left");
    drop(other);
    assert!(handles.iter().all(|handle| !handle.cancel() && !handle.reset(S)));
    drop(handles);
    assert_eq!(dropped(&count), 8);
    clock.advance(10 * S);
}

fn a_timer_may_be_dropped_inside_its_own_task(rig: &Rig) {
    let Rig { timer, clock, log, .. } = rig.again(|builder| builder);
    let (counted, count) = counted();
    timer.after(2 * S, move || drop(counted)).unwrap();
    let slot = Arc::new(Mutex::new(None));
    let inside = slot.clone();
    timer.after(S, move || drop(inside.lock().unwrap().take())).unwrap();
    *slot.lock().unwrap() = Some(timer);
    clock.advance(10 * S);
    assert_eq!(dropped(&count), 1);
    assert!(slot.lock().unwrap().is_none() && log.lock().unwrap().is_empty());
}

fn counts_add_up(rig: &Rig) {
    let rig = rig.again(|builder| builder.max_pending(10));
    let timer = &rig.timer;
    assert_eq!(timer.state(), TimerState::NotStarted);
    timer.every(10 * S, || {}).unwrap();
    assert_eq!(timer.state(), TimerState::Running);
    for n in 1..=6_u32 {
        timer.after(n * S, || {}).unwrap();
    }
    timer.after(S, || {}).unwrap().cancel();
    timer.after(S, || panic!("counted")).unwrap();
    timer.key("k").after(60 * S, || {}).unwrap();
    timer.key("k").after(70 * S, || {}).unwrap();
    timer.after(80 * S, || {}).unwrap();
    timer.after(S, || {}).unwrap_err();
    rig.clock.advance(30 * S);
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.fired, stats.cancelled), (12, 10, 2));
    assert_eq!((stats.rejected, stats.panicked, stats.pending), (1, 1, 3));
    assert_eq!((stats.lateness.count(), stats.lateness.max()), (10, Duration::ZERO));
    timer.stop();
    assert_eq!(timer.stats().pending, 0);
}

fn no_panic_gets_out_and_payloads_are_forgotten(rig: &Rig) {
    struct Payload;
    impl Drop for Payload {
        fn drop(&mut self) {
            panic!("a payload that panics");
        }
    }
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    let rig = rig.again(|builder| {
        builder.panic_hook(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        })
    });
    let timer = &rig.timer;
    timer.after(S, || panic!("a task")).unwrap();
    timer.key("k").after(S, || panic!("a task {}", "by key")).unwrap();
    timer.after(S, || panic_any(7)).unwrap();
    timer.after(S, || panic_any(Payload)).unwrap();
    let bomb = Bomb;
    timer.after(S, move || drop(bomb)).unwrap();
    let bomb = Bomb;
    timer.key("bomb").after(S, move || drop(bomb)).unwrap();
    let words = [7_u64; 32];
    let bomb = Bomb;
    timer.after(S, move || drop((words, bomb))).unwrap();
    timer.after(S, rig.note(1)).unwrap();
    rig.clock.advance(S);
    assert_eq!(rig.numbers(), [1]);
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.panicked, stats.pending), (8, 7, 0));
    assert_eq!(told.load(Ordering::SeqCst), 7);

    let bomb = Bomb;
    let ends = move || {
        let _held = &bomb;
        panic!("with a bomb to drop");
    };
    timer.periodic(S).end_on_panic().start(ends).unwrap();
    timer.after(2 * S, rig.note(2)).unwrap();
    rig.clock.advance(2 * S);
    assert_eq!((rig.numbers(), timer.pending()), (vec![2], 0));

    timer.after(S, || panic!("handed back")).unwrap();
    assert!(!timer.stop().pop().unwrap().run(), "says that it panicked");
}

fn a_panicking_hook_is_survived(rig: &Rig) {
    let rig = rig.again(|builder| builder.panic_hook(|_| panic!("the hook too")));
    rig.timer.every(S, || panic!("a task")).unwrap();
    rig.timer.after(S, || panic!("a task")).unwrap();
    rig.timer.after(3 * S, rig.note(1)).unwrap();
    rig.clock.advance(3 * S);
    assert_eq!((rig.numbers(), rig.timer.stats().panicked), (vec![1], 4));
    rig.timer.after(S, || panic!("handed back")).unwrap();
    rig.timer.stop().into_iter().for_each(|task| assert!(!task.run()));
}
