//! Periodic tasks, the wall clock, stopping, panics, and random operations against a model, on a
//! clock that is moved by hand. Each test runs on both wheels.

mod random;
#[macro_use]
mod rig;

use std::collections::HashMap;
use std::panic::panic_any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use random::Random;
use rig::*;
use tickwheel::{Key, MissedTicks, ScheduleError, Timeout, Timer, TimerState};

on_both_wheels! {
    fixed_rate_does_not_drift,
    a_period_between_ticks_does_not_drift,
    fixed_delay_counts_from_the_end,
    burst_runs_all_that_was_missed,
    delay_goes_on_from_the_late_run,
    skip_goes_on_with_the_schedule,
    a_series_can_be_cancelled_from_inside,
    a_series_can_be_replaced_from_inside,
    a_series_survives_a_panic_unless_told_otherwise,
    a_reset_series_goes_on_from_there,
    a_zero_period_is_refused,
    a_wall_clock_set_forward_runs_what_is_due,
    a_wall_clock_set_back_waits_longer,
    only_wall_clock_tasks_follow_the_wall_clock,
    wall_clock_tasks_can_be_cancelled_reset_and_replaced,
    stop_hands_back_what_is_pending_in_order,
    stop_hands_back_closures_that_still_belong_to_somebody,
    nothing_is_taken_after_a_stop,
    stop_works_from_inside_a_task,
    dropping_the_timer_drops_the_tasks,
    a_timer_may_be_dropped_inside_its_own_task,
    counts_add_up,
    no_panic_gets_out_and_payloads_are_forgotten,
    a_panicking_hook_is_survived,
    tasks_schedule_tasks,
    tasks_cancel_and_reset_other_tasks,
    two_timers_share_a_clock,
    next_deadline_is_never_late,
    random_operations_agree_with_a_model,
    captured_values_of_every_size_survive,
}

fn fixed_rate_does_not_drift(rig: &Rig) {
    rig.timer.every(7 * MS, rig.note(0)).unwrap();
    rig.clock.advance(70 * S);
    let times = rig.times();
    assert_eq!(times.len(), 10_000);
    assert!((1..).zip(&times).all(|(n, &time)| time == n * 7 * MS));
    assert_eq!(rig.timer.pending(), 1);
}

fn a_period_between_ticks_does_not_drift(rig: &Rig) {
    let period = 2_345_678 * Duration::from_nanos(1);
    rig.timer.every(period, rig.note(0)).unwrap();
    rig.clock.advance(10_000 * period + MS);
    let times = rig.times();
    assert_eq!(times.len(), 10_000);
    for (n, &time) in (1..).zip(&times) {
        assert!(time >= n * period && time < n * period + MS, "run {n} at {time:?}");
    }
}

/// A task that notes its number and takes `long` on its first run and no time later.
fn slow_at_first(rig: &Rig, long: Duration) -> impl FnMut() + Send + use<> {
    let (clock, note) = (rig.clock.clone(), rig.note(0));
    let mut first = true;
    move || {
        note();
        if std::mem::take(&mut first) {
            clock.advance(long);
        }
    }
}

fn fixed_delay_counts_from_the_end(rig: &Rig) {
    let (clock, note) = (rig.clock.clone(), rig.note(0));
    rig.timer
        .every_after(2 * S, move || {
            note();
            clock.advance(S / 2);
        })
        .unwrap();
    rig.clock.advance(10 * S);
    assert_eq!(rig.times(), [2 * S, 4_500 * MS, 7 * S, 9_500 * MS]);
}

fn burst_runs_all_that_was_missed(rig: &Rig) {
    let task = slow_at_first(rig, 3_500 * MS);
    rig.timer.periodic(S).missed(MissedTicks::Burst).start(task).unwrap();
    rig.clock.advance(S);
    rig.clock.advance(2 * S);
    let expected = [S, 4_500 * MS, 4_500 * MS, 4_500 * MS, 5 * S, 6 * S];
    assert_eq!(rig.times(), expected);
}

fn delay_goes_on_from_the_late_run(rig: &Rig) {
    let task = slow_at_first(rig, 3_500 * MS);
    rig.timer.periodic(S).missed(MissedTicks::Delay).start(task).unwrap();
    rig.clock.advance(S);
    rig.clock.advance(3 * S);
    let times = rig.times();
    assert_eq!(times[0], S);
    assert!(times[1] >= 4_500 * MS, "never beside itself");
    assert!(times.windows(2).skip(1).all(|pair| pair[1] == pair[0] + S), "{times:?}");
    assert!(times[1..].iter().all(|time| time.subsec_millis() == 500), "a new schedule: {times:?}");
}

fn skip_goes_on_with_the_schedule(rig: &Rig) {
    for explicit in [false, true] {
        let rig = rig.again(|builder| builder);
        let task = slow_at_first(&rig, 3_500 * MS);
        let periodic = rig.timer.periodic(S);
        let periodic = if explicit { periodic.missed(MissedTicks::Skip) } else { periodic };
        periodic.start(task).unwrap();
        rig.clock.advance(S);
        rig.clock.advance(2_500 * MS);
        assert_eq!(rig.times(), [S, 5 * S, 6 * S, 7 * S]);
    }
}

fn a_series_can_be_cancelled_from_inside(rig: &Rig) {
    let (counted, count) = counted();
    let handle = Arc::new(OnceLock::<Timeout>::new());
    let (inside, note) = (handle.clone(), rig.note(1));
    let mut runs = 0;
    let series = rig.timer.every(S, move || {
        let _held = &counted;
        note();
        runs += 1;
        if runs == 3 {
            let timeout = inside.get().unwrap();
            assert!(timeout.cancel() && !timeout.cancel());
            assert!(timeout.is_cancelled());
        }
    });
    handle.set(series.unwrap()).unwrap();
    rig.clock.advance(10 * S);
    assert_eq!(rig.times(), [S, 2 * S, 3 * S]);
    assert_eq!((rig.timer.pending(), dropped(&count)), (0, 1));

    let (timer, note) = (rig.timer.clone(), rig.note(2));
    let by_key = move || {
        note();
        assert!(timer.cancel("self"));
        assert!(!timer.cancel("self"));
    };
    rig.timer.key("self").every_after(S, by_key).unwrap();
    rig.clock.advance(10 * S);
    assert_eq!(rig.numbers(), [2]);
    assert_eq!((rig.timer.pending(), rig.timer.stats().panicked), (0, 0));
}

fn a_series_can_be_replaced_from_inside(rig: &Rig) {
    let (timer, note, then) = (rig.timer.clone(), rig.note(1), rig.note(2));
    let task = move || {
        note();
        timer.key("k").after(5 * S, then.clone()).unwrap();
    };
    let series = rig.timer.key("k").every(S, task).unwrap();
    rig.clock.advance(20 * S);
    assert_eq!(rig.noted(), [(1, S), (2, 6 * S)]);
    assert!(series.is_cancelled());
    assert_eq!(rig.timer.pending(), 0);
}

fn a_series_survives_a_panic_unless_told_otherwise(rig: &Rig) {
    let note = rig.note(1);
    let lives = rig.timer.every(S, move || {
        note();
        panic!("every time");
    });
    let (counted, count) = counted();
    let note = rig.note(2);
    let ends = rig.timer.periodic(S).end_on_panic().key("ends").start(move || {
        let _held = &counted;
        note();
        panic!("once");
    });
    rig.clock.advance(4 * S);
    let mut numbers = rig.numbers();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 1, 1, 1, 2]);
    assert_eq!(dropped(&count), 1);
    let (lives, ends) = (lives.unwrap(), ends.unwrap());
    assert!(!lives.is_expired() && ends.is_expired() && !ends.is_cancelled());
    assert!(lives.cancel() && !ends.cancel() && !rig.timer.cancel("ends"));
    assert_eq!((rig.timer.stats().panicked, rig.timer.pending()), (5, 0));
}

fn a_reset_series_goes_on_from_there(rig: &Rig) {
    let series = rig.timer.every(10 * S, rig.note(0)).unwrap();
    rig.clock.advance(4 * S);
    assert!(series.reset(S));
    rig.clock.advance(16 * S);
    assert!(series.reset(20 * S));
    rig.clock.advance(30 * S);
    assert_eq!(rig.times(), [5 * S, 15 * S, 40 * S, 50 * S]);
}

fn a_zero_period_is_refused(rig: &Rig) {
    assert_eq!(rig.timer.every(Duration::ZERO, || {}).unwrap_err(), ScheduleError::ZeroPeriod);
    let error = rig.timer.key("k").every_after(Duration::ZERO, || {}).unwrap_err();
    assert_eq!(error, ScheduleError::ZeroPeriod);
    assert_eq!(rig.timer.pending(), 0);
}

fn a_wall_clock_set_forward_runs_what_is_due(rig: &Rig) {
    let noon = rig.clock.wall() + 3_600 * S;
    rig.timer.at(noon, rig.note(1)).unwrap();
    rig.timer.at(noon + 60 * S, rig.note(2)).unwrap();
    rig.clock.advance(10 * S);
    rig.clock.set_wall(noon - MS);
    assert_eq!(rig.noted(), []);
    rig.clock.set_wall(noon + 30 * S);
    assert_eq!(rig.noted(), [(1, 10 * S)], "at once");
    rig.clock.advance(30 * S);
    assert_eq!(rig.noted(), [(2, 40 * S)]);
}

fn a_wall_clock_set_back_waits_longer(rig: &Rig) {
    let start = rig.clock.wall();
    let timeout = rig.timer.at(start + 60 * S, rig.note(1)).unwrap();
    rig.clock.advance(59 * S);
    rig.clock.set_wall(start);
    rig.clock.advance(59 * S + 999 * MS);
    assert_eq!(rig.noted(), [], "not by the clock on the wall");
    assert!(!timeout.is_expired());
    rig.clock.advance(2 * MS);
    let ran = rig.times()[0];
    assert!(ran >= 119 * S && ran <= 119 * S + MS, "{ran:?}");
}

fn only_wall_clock_tasks_follow_the_wall_clock(rig: &Rig) {
    rig.timer.after(60 * S, rig.note(1)).unwrap();
    rig.timer.at(rig.start + 60 * S, rig.note(2)).unwrap();
    rig.timer.every(60 * S, rig.note(3)).unwrap();
    rig.timer.at(rig.clock.wall() + 60 * S, rig.note(4)).unwrap();
    rig.clock.set_wall(rig.clock.wall() + 3_600 * S);
    assert_eq!(rig.numbers(), [4]);
    rig.clock.set_wall(rig.clock.wall() - 7_200 * S);
    rig.clock.advance(60 * S);
    let mut noted = rig.noted();
    noted.sort_unstable();
    assert_eq!(noted, [(1, 60 * S), (2, 60 * S), (3, 60 * S)]);
}

fn wall_clock_tasks_can_be_cancelled_reset_and_replaced(rig: &Rig) {
    let wall = rig.clock.wall();
    let cancelled = rig.timer.at(wall + 60 * S, rig.note(1)).unwrap();
    assert!(cancelled.cancel() && cancelled.is_cancelled());
    let reset = rig.timer.at(wall + 60 * S, rig.note(2)).unwrap();
    assert!(reset.reset(90 * S), "by the monotonic clock from here");
    rig.timer.key("k").at(wall + 60 * S, rig.note(3)).unwrap();
    rig.timer.key("k").at(wall + 70 * S, rig.note(4)).unwrap();
    assert_eq!(rig.timer.pending(), 2);
    rig.clock.set_wall(wall + 65 * S);
    assert_eq!(rig.noted(), []);
    rig.clock.set_wall(wall + 80 * S);
    assert_eq!(rig.noted(), [(4, Duration::ZERO)]);
    rig.clock.advance(100 * S);
    assert_eq!(rig.noted(), [(2, 90 * S)]);
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

fn tasks_schedule_tasks(rig: &Rig) {
    fn chain(timer: &Timer, note: impl Fn() + Send + Clone + 'static, left: u32) {
        note();
        if left > 0 {
            let next = timer.clone();
            timer.after(3 * MS, move || chain(&next, note, left - 1)).unwrap();
        }
    }
    let (timer, note) = (rig.timer.clone(), rig.note(1));
    rig.timer.after(3 * MS, move || chain(&timer, note, 999)).unwrap();
    rig.clock.advance(10 * S);
    let ran_at = rig.times();
    assert_eq!(ran_at.len(), 1_000);
    assert!((1..).zip(&ran_at).all(|(n, &time)| time == n * 3 * MS), "one jump, each at its time");

    let (timer, now) = (rig.timer.clone(), rig.note(2));
    rig.timer.after(S, move || drop(timer.after(Duration::ZERO, now))).unwrap();
    rig.clock.advance(S);
    assert_eq!(rig.numbers(), [2], "what is due at once runs in the same turn");
}

fn tasks_cancel_and_reset_other_tasks(rig: &Rig) {
    let victim = rig.timer.after(5 * S, rig.note(1)).unwrap();
    let moved = rig.timer.after(100 * S, rig.note(2)).unwrap();
    let (timer, note) = (rig.timer.clone(), rig.note(3));
    rig.timer.key("same").after(S, || panic!("replaced by a task")).unwrap();
    rig.timer
        .after(999 * MS, move || {
            assert!(victim.cancel() && moved.reset(S));
            timer.key("same").after(4 * S, note).unwrap();
        })
        .unwrap();
    rig.clock.advance(200 * S);
    assert_eq!(rig.noted(), [(2, 1_999 * MS), (3, 4_999 * MS)]);
    assert_eq!(rig.timer.stats().panicked, 0);
}

fn two_timers_share_a_clock(rig: &Rig) {
    let coarse = Timer::builder().tick(S).wheel(rig.kind).clock(rig.clock.clone()).build().unwrap();
    for n in 1..=5_u32 {
        rig.timer.after(n * 2 * S, rig.note(n * 2)).unwrap();
        coarse.after((n * 2_000 - 1_001) * MS, rig.note(n * 2 - 1)).unwrap();
    }
    rig.clock.advance(60 * S);
    let expected: Vec<_> = (1..=10).map(|n| (n, n * S)).collect();
    assert_eq!(rig.noted(), expected);
    drop(coarse);
    rig.timer.after(S, rig.note(11)).unwrap();
    rig.clock.advance(S);
    assert_eq!(rig.numbers(), [11]);
}

fn next_deadline_is_never_late(rig: &Rig) {
    assert_eq!(rig.timer.next_deadline(), None);
    let mut random = Random(3);
    for _ in 0..300 {
        let bits = 20 + random.below(16);
        let delay = Duration::from_nanos(random.below(1 << bits));
        rig.timer.after(delay, rig.note(0)).unwrap();
    }
    while let Some(next) = rig.timer.next_deadline() {
        let before = rig.clock.now();
        if let Some(gap) = next.checked_duration_since(before + Duration::from_nanos(1)) {
            rig.clock.advance(gap);
            assert_eq!(rig.noted(), [], "nothing is due before");
        }
        rig.clock.advance(Duration::from_nanos(1));
        rig.noted();
    }
    assert_eq!((rig.timer.pending(), rig.timer.stats().fired), (0, 300));
}

/// What the model knows of a pending task.
struct Expected {
    deadline: u64,
    key: Option<u64>,
}

fn random_operations_agree_with_a_model(rig: &Rig) {
    const LIMIT: usize = 40;
    for seed in 0..20 {
        let rig = rig.again(|builder| builder.max_pending(LIMIT));
        let mut random = Random(seed);
        let mut pending: HashMap<u32, Expected> = HashMap::new();
        let mut handles: Vec<(u32, Timeout)> = Vec::new();
        let (mut now, mut next) = (0_u64, 0_u32);
        let rounded_up = |at: u64| at.next_multiple_of(1_000_000);
        for _ in 0..600 {
            let bits = 16 + random.below(20);
            let delay = random.below(1 << bits);
            let by = Duration::from_nanos(delay);
            match random.below(10) {
                0..=3 => {
                    let result = rig.timer.after(by, rig.note(next));
                    assert_eq!(result.is_ok(), pending.len() < LIMIT);
                    if let Ok(timeout) = result {
                        pending.insert(next, Expected { deadline: now + delay, key: None });
                        handles.push((next, timeout));
                    }
                    next += 1;
                }
                4 | 5 => {
                    let key = random.below(12);
                    let old = pending.iter().find(|(_, task)| task.key == Some(key));
                    let old = old.map(|(&number, _)| number);
                    let result = rig.timer.key(key).after(by, rig.note(next));
                    assert_eq!(result.is_ok(), old.is_some() || pending.len() < LIMIT);
                    if let Ok(timeout) = result {
                        old.map(|number| pending.remove(&number));
                        let task = Expected { deadline: now + delay, key: Some(key) };
                        pending.insert(next, task);
                        handles.push((next, timeout));
                    }
                    next += 1;
                }
                6 if !handles.is_empty() => {
                    let (number, timeout) = &handles[random.below(handles.len() as u64) as usize];
                    assert_eq!(timeout.cancel(), pending.remove(number).is_some());
                }
                7 if !handles.is_empty() => {
                    let (number, timeout) = &handles[random.below(handles.len() as u64) as usize];
                    let task = pending.get_mut(number);
                    assert_eq!(timeout.reset(by), task.is_some());
                    if let Some(task) = task {
                        task.deadline = now + delay;
                    }
                }
                8 => {
                    let key = random.below(12);
                    let before = pending.len();
                    pending.retain(|_, task| task.key != Some(key));
                    assert_eq!(rig.timer.cancel(key), pending.len() < before);
                }
                _ => {
                    rig.clock.advance(by);
                    now += delay;
                    let mut due: Vec<_> = pending
                        .iter()
                        .filter(|(_, task)| rounded_up(task.deadline) <= now)
                        .map(|(&number, _)| number)
                        .collect();
                    let mut ran = rig.noted();
                    assert!(ran.is_sorted_by_key(|&(_, time)| time), "in order of deadline");
                    for (number, time) in &ran {
                        let expected = rounded_up(pending[number].deadline);
                        assert!(time.as_nanos() as u64 >= expected, "{number} is early");
                    }
                    ran.sort_unstable();
                    due.sort_unstable();
                    assert_eq!(ran.iter().map(|&(number, _)| number).collect::<Vec<_>>(), due);
                    pending.retain(|number, _| due.binary_search(number).is_err());
                }
            }
            assert_eq!(rig.timer.pending(), pending.len());
            if let Some((number, timeout)) = handles.last() {
                assert_eq!(timeout.remaining().is_some(), pending.contains_key(number));
            }
        }
        let unfired = rig.timer.stop();
        assert_eq!(unfired.len(), pending.len());
        assert!(unfired.is_sorted_by_key(tickwheel::Unfired::deadline));
        for task in unfired {
            assert!(task.run());
        }
        let mut left = rig.numbers();
        left.sort_unstable();
        let mut expected: Vec<_> = pending.into_keys().collect();
        expected.sort_unstable();
        assert_eq!(left, expected);
    }
}

fn captured_values_of_every_size_survive(rig: &Rig) {
    #[repr(align(64))]
    struct Aligned(u64);
    let sum = Arc::new(AtomicUsize::new(0));
    let add = |amount: usize| {
        let sum = sum.clone();
        move || {
            sum.fetch_add(amount, Ordering::SeqCst);
        }
    };
    rig.timer.after(S, || {}).unwrap();
    rig.timer.after(S, add(1)).unwrap();
    let (task, text) = (add(10), String::from("ten"));
    rig.timer.after(S, move || (text.len() == 3).then(task).unwrap()).unwrap();
    let (task, words) = (add(100), [3_u64; 40]);
    rig.timer.after(S, move || (words == [3; 40]).then(task).unwrap()).unwrap();
    let (task, aligned) = (add(1_000), Aligned(9));
    let check = move || {
        let aligned = &aligned;
        assert_eq!(std::ptr::from_ref(aligned).addr() % 64, 0);
        (aligned.0 == 9).then_some(()).unwrap();
        task();
    };
    rig.timer.after(S, check).unwrap();
    rig.clock.advance(S);
    assert_eq!((sum.load(Ordering::SeqCst), rig.timer.stats().panicked), (1_111, 0));
}
