//! Calendar tasks on a manual clock: when they run, how they handle missed times, and how they end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::calendar::expressions;
use crate::rig::{Bomb, MS, Rig, S, counted, dropped};
use jiff::{Timestamp, Zoned};
use proptest::prelude::*;
use tickwheel::cron::{CronError, Misfire, Schedule};
use tickwheel::{ManualClock, ScheduleError, Timeout, Timer};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

fn wall(time: &str) -> SystemTime {
    time.parse::<Zoned>().unwrap().into()
}

/// A wall clock that a test reads and sets, with a timer on it and a log of runs.
struct Office {
    rig: Rig,
    runs: Arc<Mutex<Vec<SystemTime>>>,
}

impl Office {
    fn at(rig: &Rig, time: &str) -> Self {
        let rig = rig.again(|builder| builder);
        rig.clock.set_wall(wall(time));
        Self { rig, runs: Arc::default() }
    }

    fn clock(&self) -> &ManualClock {
        &self.rig.clock
    }

    fn timer(&self) -> &Timer {
        &self.rig.timer
    }

    /// Returns a task that logs the time on the clock.
    fn note(&self) -> impl FnMut() + Send + use<> {
        let (clock, runs) = (self.clock().clone(), self.runs.clone());
        move || runs.lock().unwrap().push(clock.wall())
    }

    fn start(&self, expression: &str, misfire: Misfire) -> Timeout {
        let schedule = Schedule::new(expression, "Europe/Berlin").unwrap();
        self.timer().calendar(schedule).misfire(misfire).start(self.note()).unwrap()
    }

    /// Returns the runs since the last call, in local time of Berlin.
    fn runs(&self) -> Vec<String> {
        let runs = std::mem::take(&mut *self.runs.lock().unwrap());
        let berlin = jiff::tz::TimeZone::get("Europe/Berlin").unwrap();
        let shown = |time| Timestamp::try_from(time).unwrap().to_zoned(berlin.clone());
        runs.into_iter().map(|time| shown(time).strftime("%d %H:%M:%S").to_string()).collect()
    }

    fn sleep(&self, time: Duration) {
        self.clock().set_wall(self.clock().wall() + time);
    }

    fn set_back(&self, time: Duration) {
        self.clock().set_wall(self.clock().wall() - time);
    }
}

on_both_wheels! {
    it_runs_whenever_the_clock_shows_a_time,
    it_runs_through_the_changes_of_the_clock,
    it_follows_a_clock_that_is_set_forward,
    it_follows_a_clock_that_is_set_back_far,
    it_follows_a_clock_that_is_set_back_far_while_it_runs,
    it_does_not_repeat_when_the_clock_is_set_back_a_little,
    it_begins_sooner_on_a_clock_that_was_wrong,
    missed_times_are_skipped,
    missed_times_within_the_grace_are_not_skipped,
    missed_times_are_made_up_for_once,
    missed_times_are_made_up_for_up_to_a_limit,
    times_missed_before_the_start_are_up_to_the_policy,
    what_is_to_begin_later_does_so_whatever_comes_before,
    a_run_that_takes_too_long_misses_what_comes,
    what_comes_during_a_run_is_skipped_however_short_it_is,
    it_never_runs_beside_itself,
    it_is_cancelled_from_outside,
    it_is_cancelled_by_itself,
    a_key_has_one_task,
    a_panic_does_not_end_it_unless_asked_to,
    stop_hands_it_back,
    drain_ends_it,
    a_reset_moves_one_run,
    what_the_timer_refuses_is_an_error,
    an_expression_that_is_wrong_schedules_nothing,
    a_time_beyond_the_clock_is_never,
}

fn it_runs_whenever_the_clock_shows_a_time(rig: &Rig) {
    let office = Office::at(rig, "2026-11-13T08:00[Europe/Berlin]"); // a Friday
    let report = office.timer().cron("0 9 * * MON-FRI", "Europe/Berlin", office.note()).unwrap();
    assert_eq!(report.remaining(), Some(HOUR));
    office.clock().advance(3_599_999 * MS);
    assert!(office.runs().is_empty());
    office.clock().advance(MS);
    assert_eq!(office.runs(), ["13 09:00:00"]);
    assert_eq!(report.remaining(), Some(3 * DAY));
    office.clock().advance(5 * DAY);
    assert_eq!(office.runs(), ["16 09:00:00", "17 09:00:00", "18 09:00:00"]);
    assert_eq!(office.timer().pending(), 1);
    assert!(!report.is_expired() && !report.is_cancelled());
}

fn it_runs_through_the_changes_of_the_clock(rig: &Rig) {
    let office = Office::at(rig, "2026-03-28T00:00[Europe/Berlin]");
    office.start("30 2 * * *", Misfire::Once);
    office.clock().advance(3 * DAY);
    assert_eq!(office.runs(), ["28 02:30:00", "29 03:00:00", "30 02:30:00"]);
    let office = Office::at(rig, "2026-10-25T01:30[Europe/Berlin]");
    office.start("0 * * * *", Misfire::Once);
    office.start("30 2 * * *", Misfire::Once);
    office.clock().advance(3 * HOUR);
    assert_eq!(office.runs(), ["25 02:00:00", "25 02:30:00", "25 02:00:00", "25 03:00:00"]);
}

fn it_follows_a_clock_that_is_set_forward(rig: &Rig) {
    let office = Office::at(rig, "2026-11-13T08:00[Europe/Berlin]");
    office.timer().cron("0 9 * * *", "Europe/Berlin", office.note()).unwrap();
    office.sleep(59 * MINUTE);
    assert!(office.runs().is_empty());
    office.clock().advance(MINUTE);
    assert_eq!(office.runs(), ["13 09:00:00"]);
    office.sleep(DAY);
    assert_eq!(office.runs(), ["14 09:00:00"]);
}

fn it_follows_a_clock_that_is_set_back_far(rig: &Rig) {
    let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
    office.timer().cron("0 * * * *", "Europe/Berlin", office.note()).unwrap();
    office.clock().advance(HOUR);
    assert_eq!(office.runs(), ["13 09:00:00"]);
    // The clock was a day ahead: now it is Thursday, and each hour has its run.
    office.set_back(DAY);
    office.clock().advance(2 * HOUR);
    assert_eq!(office.runs(), ["12 10:00:00", "12 11:00:00"]);
}

fn it_follows_a_clock_that_is_set_back_far_while_it_runs(rig: &Rig) {
    for misfire in [Misfire::Skip, Misfire::Once, Misfire::All { limit: 5 }] {
        let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
        let (clock, mut note, mut is_first) = (office.clock().clone(), office.note(), true);
        let schedule = Schedule::new("0 * * * *", "Europe/Berlin").unwrap();
        let task = office.timer().calendar(schedule).misfire(misfire).start(move || {
            note();
            if std::mem::take(&mut is_first) {
                clock.set_wall(clock.wall() - DAY);
            }
        });
        task.unwrap();
        office.clock().advance(2 * HOUR);
        assert_eq!(office.runs(), ["13 09:00:00", "12 10:00:00"], "{misfire:?}");
    }
}

fn it_does_not_repeat_when_the_clock_is_set_back_a_little(rig: &Rig) {
    for misfire in [Misfire::Skip, Misfire::Once, Misfire::All { limit: 5 }] {
        let office = Office::at(rig, "2026-11-13T08:59:59[Europe/Berlin]");
        let report = office.start("0 * * * *", misfire);
        office.clock().advance(2 * S);
        assert_eq!(office.runs(), ["13 09:00:00"]);
        office.set_back(2 * S);
        assert_eq!(report.remaining(), Some(HOUR + S));
        office.clock().advance(HOUR + S);
        assert_eq!(office.runs(), ["13 10:00:00"], "{misfire:?}");
        // The same while the task runs.
        let clock = office.clock().clone();
        let mut note = office.note();
        let slow = move || {
            note();
            clock.set_wall(clock.wall() - HOUR);
        };
        let schedule = Schedule::new("30 * * * *", "Europe/Berlin").unwrap();
        office.timer().calendar(schedule).misfire(misfire).start(slow).unwrap();
        report.cancel();
        office.clock().advance(2 * HOUR);
        assert_eq!(office.runs(), ["13 10:30:00"], "{misfire:?}");
    }
}

fn it_begins_sooner_on_a_clock_that_was_wrong(rig: &Rig) {
    let office = Office::at(rig, "2026-11-13T12:00[Europe/Berlin]");
    let report = office.timer().cron("0 9 * * *", "Europe/Berlin", office.note()).unwrap();
    assert_eq!(report.remaining(), Some(21 * HOUR));
    // Nothing has run yet, so there is nothing to repeat.
    office.set_back(4 * HOUR);
    assert_eq!(report.remaining(), Some(HOUR));
    office.clock().advance(HOUR);
    assert_eq!(office.runs(), ["13 09:00:00"]);
}

fn missed_times_are_skipped(rig: &Rig) {
    let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
    let hourly = office.start("0 * * * *", Misfire::Skip);
    office.sleep(3 * HOUR);
    assert!(office.runs().is_empty());
    assert_eq!(office.timer().stats().fired, 0);
    assert_eq!(hourly.remaining(), Some(HOUR / 2));
    office.clock().advance(HOUR);
    assert_eq!(office.runs(), ["13 12:00:00"]);
}

fn missed_times_within_the_grace_are_not_skipped(rig: &Rig) {
    for (slept, runs) in [(10 * S, 1), (11 * S, 0), (HOUR + 10 * S, 1), (HOUR + 11 * S, 0)] {
        let office = Office::at(rig, "2026-11-13T08:59:59.999[Europe/Berlin]");
        office.start("0 * * * *", Misfire::Skip);
        office.sleep(MS + slept);
        assert_eq!(office.runs().len(), runs, "{slept:?}");
        office.clock().advance(3_570 * S);
        assert!(office.runs().is_empty());
    }
}

fn missed_times_are_made_up_for_once(rig: &Rig) {
    let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
    office.start("0 * * * *", Misfire::Once);
    office.sleep(100 * HOUR);
    assert_eq!(office.runs(), ["17 12:30:00"]);
    office.clock().advance(HOUR);
    assert_eq!(office.runs(), ["17 13:00:00"]);
}

fn missed_times_are_made_up_for_up_to_a_limit(rig: &Rig) {
    for (slept, runs) in [(0, 0), (1, 1), (2, 2), (3, 3), (4, 3), (100, 3)] {
        let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
        let hourly = office.start("0 * * * *", Misfire::All { limit: 3 });
        office.sleep(slept * HOUR);
        assert_eq!(office.runs().len(), runs, "after {slept} hours");
        assert_eq!(hourly.remaining(), Some(HOUR / 2));
        // The limit applies to each gap separately.
        office.sleep(slept * HOUR);
        assert_eq!(office.runs().len(), runs, "after {slept} more hours");
    }
    let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
    office.start("0 * * * *", Misfire::All { limit: 0 });
    office.sleep(2 * HOUR);
    assert!(office.runs().is_empty(), "a limit of 0 skips");
}

fn times_missed_before_the_start_are_up_to_the_policy(rig: &Rig) {
    for (misfire, runs) in [(Misfire::Skip, 0), (Misfire::Once, 1), (Misfire::All { limit: 9 }, 5)]
    {
        let office = Office::at(rig, "2026-11-13T09:30[Europe/Berlin]");
        let schedule = Schedule::new("0 9 * * *", "Europe/Berlin").unwrap();
        let last = wall("2026-11-08T10:00[Europe/Berlin]");
        let report = office.timer().calendar(schedule).misfire(misfire).since(last);
        let report = report.start(office.note()).unwrap();
        office.clock().advance(MS);
        assert_eq!(office.runs().len(), runs, "{misfire:?}");
        assert_eq!(report.remaining(), Some(23 * HOUR + 1_799_999 * MS));
    }
    // A future start delays the first run until then.
    let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
    let schedule = Schedule::new("0 * * * *", "Europe/Berlin").unwrap();
    let later = wall("2026-11-13T10:00[Europe/Berlin]");
    office.timer().calendar(schedule).since(later).start(office.note()).unwrap();
    office.clock().advance(3 * HOUR);
    assert_eq!(office.runs(), ["13 11:00:00"]);
}

fn what_is_to_begin_later_does_so_whatever_comes_before(rig: &Rig) {
    let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
    let hourly = Schedule::new("0 * * * *", "Europe/Berlin").unwrap();
    let begin = wall("2026-11-15T10:30[Europe/Berlin]");
    let task = office.timer().calendar(hourly).since(begin).start(office.note()).unwrap();
    // A clock that is corrected by a second, and one that was wrong.
    office.set_back(S);
    office.clock().advance(3 * HOUR);
    office.set_back(5 * HOUR);
    office.clock().advance(3 * HOUR);
    assert!(office.runs().is_empty(), "it is not to begin yet");
    // An additional run does not bring the others forward.
    assert!(task.reset(MINUTE));
    office.clock().advance(HOUR);
    assert_eq!(office.runs(), ["13 09:30:59"]);
    office.clock().advance(2 * DAY);
    assert!(office.runs().is_empty());
    office.clock().advance(HOUR);
    assert_eq!(office.runs(), ["15 11:00:00"]);
}

fn a_run_that_takes_too_long_misses_what_comes(rig: &Rig) {
    for (misfire, runs) in [
        (Misfire::Skip, vec!["13 09:00:00", "13 12:00:00"]),
        (Misfire::Once, vec!["13 09:00:00", "13 11:30:00", "13 12:00:00"]),
        (
            Misfire::All { limit: 9 },
            vec!["13 09:00:00", "13 11:30:00", "13 11:30:00", "13 12:00:00"],
        ),
    ] {
        let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
        let (clock, mut note) = (office.clock().clone(), office.note());
        let mut is_first = true;
        let schedule = Schedule::new("0 * * * *", "Europe/Berlin").unwrap();
        let task = office.timer().calendar(schedule).misfire(misfire).start(move || {
            note();
            if std::mem::take(&mut is_first) {
                clock.advance(5 * HOUR / 2);
            }
        });
        task.unwrap();
        office.clock().advance(HOUR);
        office.clock().advance(HOUR / 2);
        assert_eq!(office.runs(), runs, "{misfire:?}");
    }
}

fn what_comes_during_a_run_is_skipped_however_short_it_is(rig: &Rig) {
    let office = Office::at(rig, "2026-11-13T08:59:59[Europe/Berlin]");
    let (clock, mut note) = (office.clock().clone(), office.note());
    let schedule = Schedule::new("*/2 * * * * *", "Europe/Berlin").unwrap();
    let task = office.timer().calendar(schedule).misfire(Misfire::Skip).start(move || {
        note();
        clock.advance(5 * S);
    });
    task.unwrap();
    office.clock().advance(13 * S);
    assert_eq!(office.runs(), ["13 09:00:00", "13 09:00:06", "13 09:00:12"]);
}

fn it_never_runs_beside_itself(rig: &Rig) {
    let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
    let (clock, running) = (office.clock().clone(), Arc::new(AtomicUsize::new(0)));
    let most = Arc::new(AtomicUsize::new(0));
    let highest = most.clone();
    let schedule = Schedule::new("*/5 * * * *", "Europe/Berlin").unwrap();
    let task = office.timer().calendar(schedule).misfire(Misfire::All { limit: 4 });
    task.start(move || {
        highest.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        clock.advance(7 * MINUTE);
        running.fetch_sub(1, Ordering::SeqCst);
    })
    .unwrap();
    office.clock().advance(DAY);
    assert_eq!(most.load(Ordering::SeqCst), 1);
    assert!(office.timer().stats().fired > 100);
}

fn it_is_cancelled_from_outside(rig: &Rig) {
    let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
    let (marker, drops) = counted();
    let mut note = office.note();
    let task = office.timer().cron("0 * * * *", "Europe/Berlin", move || {
        let _held = &marker;
        note();
    });
    let task = task.unwrap();
    office.clock().advance(HOUR);
    assert!(task.cancel() && !task.cancel());
    assert_eq!(dropped(&drops), 1);
    assert!(task.is_cancelled() && !task.is_expired());
    assert_eq!((task.deadline(), office.timer().pending()), (None, 0));
    office.clock().advance(DAY);
    assert_eq!(office.runs(), ["13 09:00:00"]);
}

fn it_is_cancelled_by_itself(rig: &Rig) {
    let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
    let own: Arc<Mutex<Option<Timeout>>> = Arc::default();
    let (handle, mut note, mut count) = (own.clone(), office.note(), 0);
    let task = office.timer().cron("0 * * * *", "Europe/Berlin", move || {
        note();
        count += 1;
        if count == 2 {
            assert!(handle.lock().unwrap().as_ref().unwrap().cancel());
        }
    });
    *own.lock().unwrap() = Some(task.unwrap());
    office.clock().advance(DAY);
    assert_eq!(office.runs(), ["13 09:00:00", "13 10:00:00"]);
    assert_eq!(office.timer().pending(), 0);
}

fn a_key_has_one_task(rig: &Rig) {
    let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
    let timer = office.timer();
    let first = timer.key("report").cron("0 * * * *", "UTC", || panic!("replaced")).unwrap();
    timer.key("report").cron("30 10 * * *", "Europe/Berlin", office.note()).unwrap();
    assert!(first.is_cancelled());
    office.clock().advance(2 * HOUR);
    assert_eq!(office.runs(), ["13 10:30:00"]);
    assert!(timer.cancel("report") && !timer.cancel("report"));
    let schedule = Schedule::new("@daily", "UTC").unwrap();
    timer.key(7).calendar(schedule).misfire(Misfire::Skip).start(|| {}).unwrap();
    assert_eq!((timer.pending(), timer.cancel(7), timer.pending()), (1, true, 0));
}

fn a_panic_does_not_end_it_unless_asked_to(rig: &Rig) {
    let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
    let mut note = office.note();
    let goes_on = office.timer().cron("0 * * * *", "Europe/Berlin", move || {
        note();
        panic!("one of these");
    });
    let goes_on = goes_on.unwrap();
    let schedule = Schedule::new("30 * * * *", "Europe/Berlin").unwrap();
    let bomb = Bomb;
    let ends = office.timer().calendar(schedule).end_on_panic().start(move || {
        let _dropped_with_it = &bomb;
        panic!("the last one");
    });
    let ends = ends.unwrap();
    office.clock().advance(3 * HOUR);
    assert_eq!(office.runs(), ["13 09:00:00", "13 10:00:00", "13 11:00:00"]);
    assert!(!goes_on.is_expired() && ends.is_expired());
    assert_eq!(office.timer().pending(), 1);
}

fn stop_hands_it_back(rig: &Rig) {
    let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
    office.timer().key("report").cron("0 9 * * *", "Europe/Berlin", office.note()).unwrap();
    let rest = office.timer().stop();
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].key().unwrap().to_string(), "report");
    assert_eq!(rest[0].deadline(), Some(office.clock().now() + HOUR / 2));
    for task in rest {
        assert!(task.run());
    }
    office.clock().advance(DAY);
    assert_eq!(office.runs(), ["13 08:30:00"]);
}

fn drain_ends_it(rig: &Rig) {
    let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
    let task = office.start("0 9 * * *", Misfire::Once);
    assert!(office.timer().drain(DAY).is_empty());
    assert!(task.is_cancelled());
}

fn a_reset_moves_one_run(rig: &Rig) {
    for misfire in [Misfire::Skip, Misfire::Once, Misfire::All { limit: 5 }] {
        let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
        let task = office.start("0 * * * *", misfire);
        assert!(task.reset(5 * MINUTE));
        office.clock().advance(2 * HOUR);
        assert_eq!(office.runs(), ["13 08:35:00", "13 09:00:00", "13 10:00:00"], "{misfire:?}");
        // Later than its next time: that one is the reset one.
        assert!(task.reset(45 * MINUTE));
        office.clock().advance(2 * HOUR);
        assert_eq!(office.runs(), ["13 11:15:00", "13 12:00:00"], "{misfire:?}");
    }
}

fn what_the_timer_refuses_is_an_error(rig: &Rig) {
    let full = rig.again(|builder| builder.max_pending(1));
    full.timer.cron("@daily", "UTC", || {}).unwrap();
    let error = full.timer.cron("@daily", "UTC", || {}).unwrap_err();
    let reason = ScheduleError::Full { limit: 1, pending: 1 };
    assert_eq!(error, CronError::Schedule(reason.clone()));
    assert_eq!(error.to_string(), reason.to_string());
    full.timer.stop();
    let error = full.timer.cron("@daily", "UTC", || {}).unwrap_err();
    assert_eq!(error, ScheduleError::Stopped.into());
}

fn an_expression_that_is_wrong_schedules_nothing(rig: &Rig) {
    let (marker, drops) = counted();
    let error = rig.timer.cron("0 25 * * *", "UTC", move || drop(marker.clone())).unwrap_err();
    assert!(matches!(error, CronError::Field { .. }));
    assert_eq!((dropped(&drops), rig.timer.pending()), (1, 0));
    let error = rig.timer.cron("@daily", "Nowhere", || {}).unwrap_err();
    assert!(matches!(error, CronError::Zone { .. }));
    rig.timer.key("report").after(HOUR, || {}).unwrap();
    rig.timer.key("report").cron("", "UTC", || {}).unwrap_err();
    assert_eq!(rig.timer.pending(), 1, "the pending task with that key stays");
}

fn a_time_beyond_the_clock_is_never(rig: &Rig) {
    // A clock of 64-bit nanoseconds ends in 2554, the calendar in 9999.
    let office = Office::at(rig, "2026-11-13T08:30[Europe/Berlin]");
    let schedule = Schedule::new("@yearly", "UTC").unwrap();
    let since = wall("2700-01-01T00:00[UTC]");
    let task = office.timer().calendar(schedule).since(since).start(office.note()).unwrap();
    assert_eq!((task.remaining(), task.deadline()), (Some(Duration::MAX), None));
    office.clock().advance(1000 * DAY);
    assert!(office.runs().is_empty());
    assert!(task.cancel());
}

/// Returns the number of runs that each policy must make for missed times, by plain counting.
fn owed(misfire: Misfire, missed: &[SystemTime], now: SystemTime, grace: Duration) -> usize {
    let Some(&last) = missed.last() else { return 0 };
    match misfire {
        Misfire::Skip => usize::from(now.duration_since(last).unwrap() <= grace),
        Misfire::Once => 1,
        Misfire::All { limit } => missed.len().min(limit),
    }
}

fn misfires() -> impl Strategy<Value = Misfire> {
    prop_oneof![
        Just(Misfire::Skip),
        Just(Misfire::Once),
        (1..6_usize).prop_map(|limit| Misfire::All { limit }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn runs_are_the_times_of_the_schedule(
        expression in expressions(false),
        steps in prop::collection::vec(1..200_000_u64, 1..12),
        misfire in misfires(),
    ) {
        let Ok(schedule) = Schedule::new(&expression.text(), "Europe/Berlin") else {
            return Ok(());
        };
        let office = Office::at(
            &Rig::new(tickwheel::WheelKind::Hierarchical),
            "2026-10-24T08:00[Europe/Berlin]",
        );
        let start = office.clock().wall();
        let task = office.timer().calendar(schedule.clone()).misfire(misfire);
        task.start(office.note()).unwrap();
        for step in steps {
            office.clock().advance(Duration::from_secs(step));
        }
        let now = office.clock().wall();
        let times = schedule.after(start).map(SystemTime::from).take_while(|&time| time <= now);
        let runs = office.runs.lock().unwrap();
        prop_assert_eq!(&*runs, &times.collect::<Vec<_>>());
    }

    #[test]
    fn missed_times_have_the_runs_that_the_policy_owes(
        expression in expressions(false),
        steps in prop::collection::vec((any::<bool>(), 1..20_000_u64), 1..20),
        misfire in misfires(),
        grace in 0..1_000_u64,
    ) {
        let Ok(schedule) = Schedule::new(&expression.text(), "Europe/Berlin") else {
            return Ok(());
        };
        let grace = Duration::from_secs(grace);
        let office = Office::at(
            &Rig::new(tickwheel::WheelKind::Hierarchical),
            "2026-10-24T20:00[Europe/Berlin]",
        );
        let task = office.timer().calendar(schedule.clone()).misfire(misfire).grace(grace);
        task.start(office.note()).unwrap();
        for (asleep, seconds) in steps {
            let (before, step) = (office.clock().wall(), Duration::from_secs(seconds));
            let times = schedule.after(before).map(SystemTime::from);
            let passed: Vec<_> = times.take_while(|&time| time <= before + step).collect();
            let expected = if asleep {
                office.sleep(step);
                vec![before + step; owed(misfire, &passed, before + step, grace)]
            } else {
                office.clock().advance(step);
                passed
            };
            let runs = std::mem::take(&mut *office.runs.lock().unwrap());
            prop_assert_eq!(runs, expected, "{:?} after {:?}", misfire, before);
        }
    }
}
