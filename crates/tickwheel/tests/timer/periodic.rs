//! Periodic tasks and the wall clock, on a manual clock. Each test runs on both wheels.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::rig::*;
use tickwheel::{MissedTicks, ScheduleError, Timeout};

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

/// Returns a task that logs its number; its first run takes `long`, later ones no time.
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
