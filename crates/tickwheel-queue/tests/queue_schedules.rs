//! Schedules: exactly one job for each occurrence, across restarts, failures and clock changes.

mod rig;
mod schedule_model;

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use proptest::prelude::*;
use rig::{Rig, millis, seconds};
use schedule_model::{Run, step};
use tickwheel::ManualClock;
use tickwheel_queue::cron::Misfire;
use tickwheel_queue::store::{MemoryDisk, Table};
use tickwheel_queue::{
    Error, Job, JobId, Limit, Limits, List, NewJob, NewSchedule, OnConflict, Queues, State, Time,
    Timing,
};

/// When the rig's clock starts: a Tuesday, 22:13:20 UTC.
const START: u64 = 1_700_000_000_000;

fn at(millis: u64) -> Time {
    Time::from_millis(START + millis)
}

fn every(name: &str, period: Duration) -> NewSchedule {
    NewSchedule::new(name, period, NewJob::new("q", name.to_owned()))
}

fn put(rig: &Rig, schedule: NewSchedule) {
    rig.queues().put_schedule(schedule).wait().expect("a schedule");
}

/// Returns all jobs of the queue.
fn jobs(rig: &Rig) -> Vec<Job> {
    // After this answer, the writer has handled what is due.
    rig.queues().stats().wait().expect("stats");
    let mut jobs = Vec::new();
    let mut list = List::of("q").limit(10_000);
    loop {
        let page = rig.queues().list(list.clone()).wait().expect("a page");
        jobs.extend(page.jobs);
        list.after = page.next;
        if list.after.is_none() {
            return jobs;
        }
    }
}

/// Returns the due times of all jobs of the queue, in milliseconds since the start.
fn dues(rig: &Rig) -> Vec<u64> {
    jobs(rig).iter().map(|job| job.due.as_millis() - START).collect()
}

fn set_clock(rig: &Rig, millis: u64) {
    rig.clock.set_wall(SystemTime::UNIX_EPOCH + Duration::from_millis(START + millis));
}

#[test]
fn a_period_puts_a_job_each_time() {
    let rig = Rig::new();
    put(&rig, every("s", seconds(10)));
    for second in 0..35 {
        set_clock(&rig, second * 1_000);
        assert_eq!(jobs(&rig).len() as u64, second / 10);
    }
    assert_eq!(dues(&rig), [10_000, 20_000, 30_000]);
    let schedule = rig.queues().schedule("s").wait().unwrap().unwrap();
    assert_eq!((schedule.fired, schedule.last), (3, Some(at(30_000))));
    assert_eq!((schedule.next, schedule.created), (Some(at(40_000)), at(0)));
    let stats = rig.queues().stats().wait().unwrap();
    assert_eq!((stats.schedules, stats.fired, stats.put), (1, 3, 3));
}

#[test]
fn the_calendar_of_a_time_zone_puts_a_job_where_clocks_change() {
    let rig = Rig::new();
    let daily = Timing::cron("30 2 * * *", "Europe/Berlin").unwrap();
    let all = Misfire::All { limit: 1_000 };
    // From noon on the day before summer time began in 2024.
    let noon = 1_711_191_600_000_u64 + 7 * 86_400_000;
    set_clock(&rig, noon - START);
    put(&rig, NewSchedule::new("s", daily, NewJob::new("q", "")).misfire(all));
    set_clock(&rig, noon + 3 * 86_400_000 - START);
    let times: Vec<u64> = jobs(&rig).iter().map(|job| job.due.as_millis()).collect();
    // That night had no 02:30: it was due at 03:00 summer time, then at 02:30 each day.
    assert_eq!(times, [1_711_846_800_000, 1_711_931_400_000, 1_712_017_800_000]);
}

#[test]
fn nobody_can_put_a_job_with_the_id_of_an_occurrence() {
    let rig = Rig::new();
    put(
        &rig,
        NewSchedule::new("s", seconds(10), NewJob::new("q", ""))
            .misfire(Misfire::All { limit: 10 }),
    );
    for number in 1..=3 {
        let id = rig::occurrence_id("s", at(number * 10_000));
        let refused = rig.queues().put(NewJob::new("other", "").id(id)).wait();
        assert_eq!(refused, Err(Error::UnusableId { id }));
    }
    set_clock(&rig, 30_000);
    assert_eq!(dues(&rig), [10_000, 20_000, 30_000]);
}

#[test]
fn another_job_with_the_id_of_an_occurrence_does_not_take_its_place() {
    let mut rig = Rig::new();
    put(
        &rig,
        NewSchedule::new("s", seconds(10), NewJob::new("q", ""))
            .misfire(Misfire::All { limit: 10 }),
    );
    let other = rig.queues().put(NewJob::new("other", "")).wait().unwrap().id;
    let taken = rig::occurrence_id("s", at(10_000));
    rig.closed(|rig| {
        rig.disk.tamper(|rows| {
            let row = |id: JobId| (Table::Jobs, Bytes::copy_from_slice(id.as_bytes()));
            let record = rows[&row(other)].clone();
            rows.insert(row(taken), record);
        });
    });
    set_clock(&rig, 20_000);
    assert_eq!(dues(&rig), [10_000, 20_000]);
    assert!(jobs(&rig).iter().all(|job| job.id != taken));
    assert_eq!(rig.queues().schedule("s").wait().unwrap().unwrap().fired, 2);
}

#[test]
fn the_job_of_a_schedule_of_the_same_name_in_another_queue_takes_no_place() {
    let rig = Rig::new();
    put(&rig, NewSchedule::new("s", seconds(10), NewJob::new("other", "")));
    set_clock(&rig, 10_000);
    rig.queues().remove_schedule("s").wait().unwrap();
    set_clock(&rig, 0);
    put(&rig, NewSchedule::new("s", seconds(10), NewJob::new("q", "")));
    set_clock(&rig, 10_000);
    assert_eq!(dues(&rig), [10_000]);
}

#[test]
fn the_secret_of_a_store_is_its_own_and_stays() {
    let secret_of = |disk: &MemoryDisk| {
        let clock = ManualClock::new();
        let queues = Queues::builder().clock(clock.clone()).open_disk(disk.clone()).unwrap();
        let schedule = NewSchedule::new("s", seconds(1), NewJob::new("q", ""));
        queues.put_schedule(schedule).wait().unwrap();
        clock.advance(seconds(5));
        queues.stats().wait().unwrap();
        drop(queues);
        let mut secret = None;
        disk.tamper(|rows| secret = rows.get(&(Table::Index, Bytes::from_static(&[11]))).cloned());
        secret.expect("a secret")
    };
    let (one, other) = (MemoryDisk::new(), MemoryDisk::new());
    let secret = secret_of(&one);
    assert_eq!(secret_of(&one), secret);
    assert_ne!(secret_of(&other), secret);
}

#[test]
fn a_job_is_what_its_template_says() {
    let rig = Rig::new();
    let job = NewJob::new("q", "payload")
        .header("a", "b")
        .priority(7)
        .max_attempts(3)
        .group("g")
        .key("k")
        .delay(seconds(5));
    put(&rig, NewSchedule::new("s", seconds(60), job.clone()));
    set_clock(&rig, 60_000);
    let found = jobs(&rig).pop().expect("a job");
    assert_eq!(found.id, rig::occurrence_id("s", at(60_000)));
    assert_eq!((found.due, found.state), (at(65_000), State::Scheduled));
    assert_eq!(
        (found.payload, found.priority, found.max_attempts),
        (job.payload.clone(), 7, Some(3))
    );
    assert_eq!((found.group.as_deref(), found.key.as_deref()), (Some("g"), Some("k")));
    let occurrence = at(60_000).as_millis().to_string();
    let headers = [("tickwheel-schedule", "s"), ("tickwheel-occurrence", &occurrence), ("a", "b")];
    assert_eq!(found.headers, headers.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(rig.queues().schedule("s").wait().unwrap().unwrap().job, job);
}

#[test]
fn what_was_missed_goes_by_the_policy() {
    // The schedule with a period of 10 s is handled 35.5 s late, or exactly at its fourth
    // occurrence.
    let cases = [
        (Misfire::Skip, 35_500, vec![]),
        (Misfire::Skip, 40_000, vec![40_000]),
        (Misfire::Once, 35_500, vec![30_000]),
        (Misfire::Once, 40_000, vec![40_000]),
        (Misfire::All { limit: 2 }, 35_500, vec![20_000, 30_000]),
        (Misfire::All { limit: 0 }, 35_500, vec![]),
        (Misfire::All { limit: 1_000 }, 35_500, vec![10_000, 20_000, 30_000]),
    ];
    for (misfire, now, expected) in cases {
        for is_closed in [false, true] {
            let mut rig = Rig::new();
            put(&rig, every("s", seconds(10)).misfire(misfire));
            if is_closed {
                rig.closed(|rig| set_clock(rig, now));
            } else {
                set_clock(&rig, now);
            }
            assert_eq!(dues(&rig), expected, "{misfire:?} at {now}, closed: {is_closed}");
            set_clock(&rig, 50_000);
            assert_eq!(dues(&rig).last(), Some(&50_000));
        }
    }
}

#[test]
fn what_is_late_within_the_grace_is_not_missed() {
    let rig = Rig::new();
    put(&rig, every("s", seconds(1)).misfire(Misfire::Skip).grace(seconds(3)));
    set_clock(&rig, 3_900);
    assert_eq!(dues(&rig), [1_000, 2_000, 3_000]);
    set_clock(&rig, 9_900);
    assert_eq!(dues(&rig), [1_000, 2_000, 3_000, 9_000]);
}

#[test]
fn a_clock_that_is_set_back_brings_no_occurrence_again() {
    let mut rig = Rig::new();
    let clock = |rig: &Rig, millis: u64| {
        set_clock(rig, millis);
        rig.names().len()
    };
    put(&rig, every("s", seconds(10)));
    assert_eq!(clock(&rig, 10_000), 1);
    assert_eq!(clock(&rig, 20_000), 1);
    for now in [0, 5_000, 10_000, 19_000, 20_000, 29_999] {
        assert_eq!(clock(&rig, now), 0);
        rig.restart();
    }
    assert_eq!(clock(&rig, 30_000), 1);
}

#[test]
fn declared_again_it_goes_on_where_it_was_and_with_another_timing_it_begins() {
    let mut rig = Rig::new();
    put(&rig, every("s", seconds(10)));
    for second in [6, 12, 18, 24] {
        rig.restart();
        set_clock(&rig, second * 1_000);
        let put = rig.queues().put_schedule(every("s", seconds(10))).wait().unwrap();
        assert!(put.replaced);
        assert_eq!(put.next, Some(at((second / 10 + 1) * 10_000)));
    }
    assert_eq!(rig.queues().schedule("s").wait().unwrap().unwrap().fired, 2);
    let put = rig.queues().put_schedule(every("s", seconds(9))).wait().unwrap();
    assert_eq!(put.next, Some(at(33_000)));
    assert_eq!(rig.queues().schedule("s").wait().unwrap().unwrap().fired, 0);
}

#[test]
fn a_paused_schedule_puts_nothing_and_makes_up_for_nothing() {
    let mut rig = Rig::new();
    put(&rig, every("s", seconds(10)).misfire(Misfire::All { limit: 100 }));
    rig.queues().pause_schedule("s").wait().unwrap();
    set_clock(&rig, 25_000);
    assert_eq!(dues(&rig), []);
    let times = rig.queues().next_times("s", 2).wait().unwrap();
    assert_eq!(times, [at(30_000), at(40_000)]);
    put(&rig, every("s", seconds(10)));
    rig.restart();
    assert!(rig.queues().schedule("s").wait().unwrap().unwrap().paused);
    rig.queues().resume_schedule("s").wait().unwrap();
    set_clock(&rig, 30_000);
    assert_eq!(dues(&rig), [30_000]);
    for name in ["t", ""] {
        let missing = Err(Error::NoSuchSchedule(name.to_owned()));
        assert_eq!(rig.queues().pause_schedule(name).wait(), missing);
        assert_eq!(rig.queues().resume_schedule(name).wait(), missing);
        assert_eq!(rig.queues().remove_schedule(name).wait(), missing);
        assert_eq!(rig.queues().next_times(name, 1).wait().map(drop), missing);
        assert_eq!(rig.queues().schedule(name).wait(), Ok(None));
    }
}

#[test]
fn a_removed_schedule_is_gone_and_its_jobs_stay() {
    let mut rig = Rig::new();
    put(&rig, every("s", seconds(10)));
    set_clock(&rig, 10_000);
    assert_eq!(dues(&rig), [10_000]);
    rig.queues().remove_schedule("s").wait().unwrap();
    rig.crash();
    set_clock(&rig, 90_000);
    assert_eq!(dues(&rig), [10_000]);
    assert_eq!(rig.queues().schedules().wait().unwrap(), []);
    // An occurrence that already has its job gets no second one after the schedule is put again
    // with the clock set back.
    set_clock(&rig, 0);
    put(&rig, every("s", seconds(10)));
    set_clock(&rig, 10_000);
    assert_eq!(dues(&rig), [10_000]);
    assert_eq!(rig.queues().schedule("s").wait().unwrap().unwrap().problem, None);
}

#[test]
fn schedules_are_read_in_steps() {
    let queues = Queues::in_memory();
    for name in ["a", "b", "b1", "c"] {
        let job = NewJob::new("chores", vec![0; 1_000]);
        let schedule = NewSchedule::new(name, Duration::from_secs(60), job);
        queues.put_schedule(schedule).wait().unwrap();
    }
    let after = |name: Option<&str>, bytes| {
        let some = queues.schedules_after(name.map(str::to_owned), bytes).wait().unwrap();
        some.into_iter().map(|schedule| schedule.name).collect::<Vec<_>>()
    };
    assert_eq!(after(None, 1), ["a"]);
    assert_eq!(after(Some("a"), 1_500), ["b", "b1"]);
    assert_eq!(after(Some("b"), usize::MAX), ["b1", "c"]);
    assert_eq!(after(Some("aa"), 1), ["b"]);
    assert_eq!(after(Some("c"), usize::MAX), [""; 0]);
}

#[test]
fn with_a_key_occurrences_do_not_pile_up() {
    for (on_conflict, expected, has_problem) in [
        (OnConflict::Keep, vec![10_000], false),
        (OnConflict::Reject, vec![10_000], true),
        (OnConflict::Replace, vec![30_000], false),
    ] {
        let rig = Rig::new();
        let job = NewJob::new("q", "").key("k").on_conflict(on_conflict);
        put(&rig, NewSchedule::new("s", seconds(10), job));
        for now in [10_000, 20_000, 30_000] {
            set_clock(&rig, now);
            rig.queues().stats().wait().unwrap();
        }
        assert_eq!(dues(&rig), expected, "{on_conflict:?}");
        let schedule = rig.queues().schedule("s").wait().unwrap().unwrap();
        assert_eq!(schedule.problem.is_some(), has_problem);
        assert_eq!(schedule.next, Some(at(40_000)));
    }
}

#[test]
fn a_refused_job_is_put_when_there_is_room() {
    let limits = Limits { pending: 1, ..Limits::default() };
    let mut rig = Rig::with(Queues::builder().limits(limits));
    rig.put("in the way", seconds(0));
    put(&rig, every("s", seconds(10)).misfire(Misfire::All { limit: 10 }));
    set_clock(&rig, 20_000);
    assert_eq!(jobs(&rig).len(), 1);
    let problem = rig.queues().schedule("s").wait().unwrap().unwrap().problem;
    assert!(problem.is_some_and(|problem| problem.contains("pending jobs")));
    rig.restart();
    assert_eq!(rig.names(), ["in the way"]);
    for now in [21_000, 22_000] {
        set_clock(&rig, now);
        assert_eq!(rig.names(), ["s"]);
    }
    set_clock(&rig, 23_000);
    assert_eq!(rig.names(), [""; 0]);
    assert_eq!(rig.queues().schedule("s").wait().unwrap().unwrap().problem, None);
}

#[test]
fn large_jobs_of_many_occurrences_are_put_in_steps() {
    let rig = Rig::new();
    let job = NewJob::new("q", vec![7; 1 << 20]);
    let all = Misfire::All { limit: 30 };
    put(&rig, NewSchedule::new("s", seconds(1), job).misfire(all));
    set_clock(&rig, 60_000);
    let commits = rig.disk.commits();
    while rig.queues().stats().wait().unwrap().fired < 30 {}
    assert_eq!(dues(&rig), (31..=60).map(|second| second * 1_000).collect::<Vec<_>>());
    assert!(rig.disk.commits() > commits + 4);
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let limits = Limits { schedules: 2, queue_name: 8, key: 4, ..Limits::default() };
    let rig = Rig::with(Queues::builder().limits(limits));
    let local = tickwheel::cron::jiff::tz::TimeZone::posix("XXX-3:21:00").unwrap();
    let nameless = tickwheel::cron::Schedule::new("@daily", local).unwrap();
    let job = || NewJob::new("q", "");
    let wrong = [
        (every("s", Duration::ZERO), "whole milliseconds"),
        (every("s", Duration::from_micros(1_500)), "1.5ms"),
        (every("s", seconds(1)).misfire(Misfire::All { limit: 1_001 }), "at most 1000"),
        (every("", seconds(1)), "name must have at least one character"),
        (every("a\nb", seconds(1)), "no control characters"),
        (every("far too long", seconds(1)), "bytes of a schedule's name"),
        (
            NewSchedule::new("s", seconds(1), NewJob::new("", "")),
            "queue must have at least one character",
        ),
        (NewSchedule::new("s", seconds(1), job().id(JobId::new(at(0)))), "id must be left out"),
        (NewSchedule::new("s", seconds(1), job().at(at(0))), "must be left out"),
        (NewSchedule::new("s", seconds(1), job().key("01234")), "bytes of a key"),
        (NewSchedule::new("s", seconds(1), job().max_attempts(0)), "max_attempts"),
        (NewSchedule::new("s", nameless, job()), "a time zone with a name"),
    ];
    for (schedule, expected) in wrong {
        let error = rig.queues().put_schedule(schedule).wait().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    put(&rig, every("a", seconds(1)));
    put(&rig, every("b", seconds(1)));
    put(&rig, every("b", seconds(2)));
    let error = rig.queues().put_schedule(every("c", seconds(1))).wait().unwrap_err();
    assert_eq!(error, Error::OverLimit { limit: Limit::Schedules, allowed: 2, found: 3 });
    assert!(rig.queues().next_times("a", 1_001).wait().is_err());
    assert_eq!(rig.queues().next_times("a", 1_000).wait().unwrap().len(), 1_000);
}

#[test]
fn a_damaged_schedule_is_reported_and_the_rest_goes_on() {
    use tickwheel_queue::store::Table;
    for kind in [9_u8, 10] {
        let mut rig = Rig::new();
        for name in ["a", "b"] {
            put(&rig, every(name, seconds(10)));
        }
        let key = (Table::Index, vec![kind, b'a'].into());
        rig.closed(|rig| rig.disk.tamper(|rows| drop(rows.insert(key, b"\xffgarbage"[..].into()))));
        assert_eq!(rig.queues().stats().wait().unwrap().damaged, 1);
        let error = rig.queues().schedule("a").wait().unwrap_err();
        assert!(matches!(error, Error::DamagedSchedule { .. }), "{error}");
        assert_eq!(rig.queues().schedules().wait().unwrap().len(), 1);
        set_clock(&rig, 10_000);
        assert_eq!(rig.names(), ["b"]);
        assert!(rig.queues().put_schedule(every("a", seconds(10))).wait().unwrap().replaced);
        set_clock(&rig, 20_000);
        assert_eq!(rig.names(), ["a", "b"]);
        rig.queues().remove_schedule("a").wait().unwrap();
    }
}

#[test]
fn a_worker_that_waits_is_woken_by_a_schedule() {
    let queues = Queues::in_memory();
    queues
        .put_schedule(every("s", millis(20)).misfire(Misfire::All { limit: 100 }))
        .wait()
        .unwrap();
    let mut last = None;
    for _ in 0..5 {
        let jobs = queues.reserve_within("q", 1, None, seconds(30)).wait().unwrap();
        let now = Time::from(SystemTime::now());
        assert!(jobs[0].job.due <= now, "not early");
        if let Some(last) = last.replace(jobs[0].job.due) {
            assert_eq!(jobs[0].job.due.since(last), millis(20));
        }
        queues.ack(jobs[0].lease).wait().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn schedules_do_what_the_model_does(steps in prop::collection::vec(step(), 1..60)) {
        let mut run = Run::default();
        for step in &steps {
            run.take(step);
            run.compare();
        }
    }
}

#[test]
fn the_last_occurrence_waits_for_room_though_earlier_ones_are_skipped() {
    let limits = Limits { pending: 1, ..Limits::default() };
    let mut rig = Rig::with(Queues::builder().limits(limits));
    rig.put("in the way", Duration::ZERO);
    put(&rig, every("s", seconds(10)).misfire(Misfire::Skip).grace(seconds(5)));
    set_clock(&rig, 40_000);
    let problem = |rig: &Rig| {
        rig.queues().stats().wait().unwrap();
        rig.queues().schedule("s").wait().unwrap().unwrap().problem
    };
    assert!(problem(&rig).is_some());
    // The occurrence survives retries and a restart.
    set_clock(&rig, 42_000);
    rig.restart();
    assert_eq!(rig.names(), ["in the way"]);
    set_clock(&rig, 44_000);
    assert_eq!(dues(&rig), [40_000]);
    assert_eq!(problem(&rig), None);
    // An occurrence that could not be put within the grace period counts as missed.
    set_clock(&rig, 50_000);
    assert!(problem(&rig).is_some());
    set_clock(&rig, 56_000);
    assert_eq!(rig.names(), ["s"]);
    set_clock(&rig, 59_000);
    assert_eq!(dues(&rig), [0; 0]);
    set_clock(&rig, 60_000);
    assert_eq!(dues(&rig), [60_000]);
}
