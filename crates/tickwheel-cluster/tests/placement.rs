//! A queue of one of several partitions: ids hold the bucket, and queues of others are refused.

use std::time::Duration;

use tickwheel::ManualClock;
use tickwheel_cluster::{Bucket, Layout};
use tickwheel_queue::{
    Error, FollowUp, List, NewJob, NewSchedule, QueueSettings, Queues, Retention, Timing,
};

const PARTITIONS: u32 = 4;
const OWN: u32 = 2;

fn layout() -> Layout {
    Layout::even(PARTITIONS).unwrap()
}

/// Names of queues that belong to the partition, or that do not.
fn names(is_own: bool) -> impl Iterator<Item = String> {
    let is_wanted =
        move |name: &String| (layout().partition_of(Bucket::of_queue(name)) == OWN) == is_own;
    (0..).map(|number| format!("queue-{number}")).filter(is_wanted)
}

fn open(clock: &ManualClock) -> Queues {
    let builder = Queues::builder().placement(layout().placement(OWN)).clock(clock.clone());
    builder.in_memory().unwrap()
}

/// The field that a request was refused for.
fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Invalid { field, why }) => {
            assert!(why.contains("another partition"), "{why}");
            field
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn all_generated_ids_hold_the_bucket_of_their_queue() {
    let clock = ManualClock::new();
    let queues = open(&clock);
    let [first, second]: [String; 2] = names(true).take(2).collect::<Vec<_>>().try_into().unwrap();
    for name in [&first, &second] {
        let put = queues.put(NewJob::new(name, "x")).wait().unwrap();
        assert_eq!(Bucket::of_job(put.id), Bucket::of_queue(name));
    }
    // The job that follows another has the bucket of its own queue.
    let follow_up = NewJob::new(&first, "x").on_success(FollowUp::to(&second));
    queues.put(follow_up).wait().unwrap();
    for delivery in queues.reserve(&first, 9, None).wait().unwrap() {
        queues.ack(delivery.lease).wait().unwrap();
    }
    // So has the job of a schedule's occurrence.
    let every = Timing::Every(Duration::from_secs(60));
    let schedule = NewSchedule::new("s", every, NewJob::new(&second, "x"));
    queues.put_schedule(schedule).wait().unwrap();
    clock.advance(Duration::from_secs(61));
    let jobs = loop {
        let jobs = queues.list(List::of(&second)).wait().unwrap().jobs;
        if jobs.len() == 3 {
            break jobs;
        }
        std::thread::yield_now();
    };
    for job in jobs {
        assert_eq!(Bucket::of_job(job.id), Bucket::of_queue(&second), "{job:?}");
    }
}

#[test]
fn queues_of_other_partitions_are_refused() {
    let queues = open(&ManualClock::new());
    let own = names(true).next().unwrap();
    let other = names(false).next().unwrap();
    assert_eq!(refused(queues.put(NewJob::new(&other, "x")).wait()), "queue");
    let settings = QueueSettings { retention: Retention::default(), ..QueueSettings::default() };
    assert_eq!(refused(queues.configure(&other, settings).wait()), "queue");
    let follow_up = || FollowUp::to(&other);
    let success = NewJob::new(&own, "x").on_success(follow_up());
    assert_eq!(refused(queues.put(success).wait()), "on_success.queue");
    let death = NewJob::new(&own, "x").on_death(follow_up());
    assert_eq!(refused(queues.put(death).wait()), "on_death.queue");
    let every = Timing::Every(Duration::from_secs(60));
    let schedule = NewSchedule::new("s", every, NewJob::new(&other, "x"));
    assert_eq!(refused(queues.put_schedule(schedule).wait()), "queue");
    assert!(queues.queues().wait().unwrap().is_empty());
    // An id that the caller has chosen is kept as it is.
    let id = "0190163d-8694-739b-8000-966c26f8ad91".parse().unwrap();
    let mut chosen = NewJob::new(&own, "x");
    chosen.id = Some(id);
    assert_eq!(queues.put(chosen).wait().unwrap().id, id);
}
