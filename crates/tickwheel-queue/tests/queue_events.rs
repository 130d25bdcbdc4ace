//! Events: every listener gets every committed change, in order, and nothing else.

mod rig;

use std::collections::HashMap;

use rig::{Rig, millis, seconds};
use tickwheel_queue::{
    Error, Event, EventKind, Events, EventsError, JobId, NewJob, NewSchedule, OnConflict, Queues,
    Retry, Time,
};

/// Returns the events so far.
fn told(events: &mut Events) -> Vec<Event> {
    std::iter::from_fn(|| events.try_next()).map(|event| event.expect("nothing is lost")).collect()
}

fn kinds(events: &mut Events) -> Vec<&'static str> {
    told(events).iter().map(|event| event.kind.as_str()).collect()
}

#[test]
fn every_change_is_told_with_what_one_has_to_know() {
    let rig = Rig::new();
    let queues = rig.queues();
    let now = Time::from(rig.clock.wall());
    let mut events = queues.events(None);
    let job = |payload: &'static str| NewJob::new("q", payload).key("k").max_attempts(2);
    let first = queues.put(job("first")).wait().unwrap().id;
    queues.put(job("kept").on_conflict(OnConflict::Keep)).wait().unwrap();
    queues.put(job("refused").on_conflict(OnConflict::Reject)).wait().unwrap_err();
    let second = queues.put(job("second")).wait().unwrap().id;
    let due = queues.reschedule(second, seconds(1)).wait().unwrap();
    rig.clock.advance(seconds(1));
    let lease = queues.reserve("q", 1, seconds(10)).wait().unwrap()[0].lease;
    let until = queues.extend(lease, seconds(20)).wait().unwrap();
    queues.release(lease, millis(0)).wait().unwrap();
    let happened: Vec<_> = told(&mut events).iter().map(|it| (it.job, it.kind)).collect();
    let lease_end = due.after(seconds(10));
    assert_eq!(
        happened,
        [
            (first, EventKind::Put { due: now }),
            (first, EventKind::Replaced { by: second }),
            (second, EventKind::Put { due: now }),
            (second, EventKind::Rescheduled { due }),
            (second, EventKind::Leased { attempts: 1, until: lease_end }),
            (second, EventKind::Extended { until }),
            (second, EventKind::Released { due }),
        ]
    );
    let lease = queues.reserve("q", 1, seconds(10)).wait().unwrap()[0].lease;
    queues.fail(lease, "no", Retry::After(seconds(1))).wait().unwrap();
    rig.clock.advance(seconds(1));
    queues.reserve("q", 1, seconds(10)).wait().unwrap();
    rig.clock.advance(seconds(10));
    queues.kick(second).wait().unwrap();
    let lease = queues.reserve("q", 1, seconds(10)).wait().unwrap()[0].lease;
    rig.clock.advance(seconds(10));
    queues.ack(lease).wait().unwrap_err();
    let lease = queues.reserve("q", 1, seconds(10)).wait().unwrap()[0].lease;
    queues.ack(lease).wait().unwrap();
    assert_eq!(
        kinds(&mut events),
        ["leased", "failed", "leased", "dead", "kicked", "leased", "expired", "leased", "acked"]
    );
    queues.put(job("third")).wait().unwrap();
    queues.cancel(("q", "k")).wait().unwrap();
    queues.put(job("fourth")).wait().unwrap();
    queues.drain("q").wait().unwrap();
    assert_eq!(kinds(&mut events), ["put", "cancelled", "put", "cancelled"]);
    queues.put_schedule(NewSchedule::new("s", seconds(1), job("fifth"))).wait().unwrap();
    rig.clock.advance(seconds(1));
    queues.stats().wait().unwrap();
    let put = told(&mut events).pop().expect("a put");
    assert_eq!(put.job, rig::occurrence_id("s", put.time));
}

#[test]
fn a_listener_of_one_queue_hears_nothing_of_others_and_can_still_come_back() {
    let rig = Rig::with(Queues::builder().events(4));
    let queues = rig.queues();
    let mut quiet = queues.events(None).of_queue("quiet");
    for _ in 0..4 {
        queues.put(NewJob::new("busy", "")).wait().unwrap();
        assert_eq!(told(&mut quiet), []);
    }
    queues.put(NewJob::new("busy", "")).wait().unwrap();
    let mut back = queues.events(quiet.position()).of_queue("quiet");
    queues.put(NewJob::new("quiet", "")).wait().unwrap();
    assert_eq!(told(&mut back).len(), 1);
    assert_eq!(told(&mut quiet).len(), 1);
}

#[test]
fn after_a_restart_or_a_failure_a_listener_is_told_that_it_lost_something() {
    let mut rig = Rig::new();
    let mut events = rig.queues().events(None);
    rig.put("one", seconds(0));
    let first = told(&mut events)[0].id;
    rig.restart();
    assert_eq!(events.wait(), Err(EventsError::Closed));
    let mut events = rig.queues().events(first);
    assert_eq!(events.wait(), Err(EventsError::Lost));
    rig.put("two", seconds(0));
    let second = told(&mut events)[0].id;
    assert!(first < second);

    // A failed commit may be durable, so listeners cannot be told what happened.
    rig.disk.fail_commits_after(Some(0));
    let failed = rig.queues().put(NewJob::new("q", "three")).wait();
    assert!(matches!(failed, Err(Error::Failed(_))));
    rig.disk.fail_commits_after(None);
    while rig.queues().stats().wait().is_err() {
        rig.clock.advance(seconds(1));
    }
    assert_eq!(events.wait(), Err(EventsError::Lost));
    assert_eq!(rig.queues().events(second).wait(), Err(EventsError::Lost));
    rig.put("four", seconds(0));
    assert_eq!(kinds(&mut events), ["put"]);
}

#[test]
fn listeners_of_all_kinds_hear_everything_once_and_in_order() {
    const PRODUCERS: usize = 4;
    const JOBS: usize = 500;
    const ALL: usize = PRODUCERS * JOBS * 3;
    fn check(events: &[Event]) {
        assert!(events.is_sorted_by(|one, two| one.id < two.id));
        let mut lives: HashMap<JobId, Vec<&str>> = HashMap::new();
        for event in events {
            lives.entry(event.job).or_default().push(event.kind.as_str());
        }
        assert_eq!(lives.len(), PRODUCERS * JOBS);
        assert!(lives.values().all(|life| *life == ["put", "leased", "acked"]));
    }
    let queues = Queues::builder().events(ALL).in_memory().unwrap();
    let mut blocking = queues.events(None);
    let mut tasks = queues.events(None);
    let mut restless = queues.events(None);
    std::thread::scope(|scope| {
        scope.spawn(move || check(&(0..ALL).map(|_| blocking.wait().unwrap()).collect::<Vec<_>>()));
        scope.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut heard = Vec::new();
            runtime.block_on(async {
                while heard.len() < ALL {
                    heard.push(tasks.next().await.unwrap());
                }
            });
            check(&heard);
        });
        // This listener disconnects and resumes after every few events.
        scope.spawn(|| {
            let mut heard = Vec::new();
            while heard.len() < ALL {
                heard.push(restless.wait().unwrap());
                if heard.len() % 7 == 0 {
                    restless = queues.events(restless.position());
                }
            }
            check(&heard);
        });
        for _ in 0..PRODUCERS {
            let queues = &queues;
            scope.spawn(move || {
                for _ in 0..JOBS {
                    queues.put(NewJob::new("q", "")).wait().unwrap();
                    let jobs = queues.reserve_within("q", 1, None, seconds(60)).wait().unwrap();
                    queues.ack(jobs[0].lease).wait().unwrap();
                }
            });
        }
    });
}

#[test]
fn a_listener_that_never_reads_holds_nobody_up() {
    let queues = Queues::builder().events(10).in_memory().unwrap();
    let mut asleep = queues.events(None);
    for _ in 0..1_000 {
        queues.put(NewJob::new("q", "")).wait().unwrap();
    }
    assert_eq!(asleep.wait(), Err(EventsError::Lost));
    assert_eq!(asleep.try_next(), None);
    assert!(Queues::builder().events(0).in_memory().is_err());
}
