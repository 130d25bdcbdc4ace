//! Removal of queues, by a command or because they are unused.

use std::time::{Duration, SystemTime};

use tickwheel::ManualClock;
use tickwheel_queue::store::MemoryDisk;
use tickwheel_queue::{
    Access, Error, FollowUp, Keep, Limit, Limits, List, NewJob, NewSchedule, QueueSettings, Queues,
    Retention, Retry, State, Timing,
};

const DAY: Duration = Duration::from_secs(86_400);

fn names(queues: &Queues) -> Vec<String> {
    queues.queues().wait().unwrap().into_iter().map(|queue| queue.name).collect()
}

fn put(queues: &Queues, queue: &str) -> Result<(), Error> {
    queues.put(NewJob::new(queue, "")).wait().map(drop)
}

fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.set_wall(SystemTime::UNIX_EPOCH + 20_000 * DAY);
    clock
}

/// Creates a queue with jobs in every state, and of each state more than one step of the removal
/// handles.
fn fill(queues: &Queues) -> u64 {
    const EACH: usize = 1_100;
    let keep = Keep::FOREVER;
    let retention = Retention { done: keep, dead: keep, cancelled: keep };
    let settings = QueueSettings { retention, ..QueueSettings::default() };
    queues.configure("q", settings).wait().unwrap();
    let some = || (0..EACH).map(|_| NewJob::new("q", ""));
    let take = || {
        queues.put_all(some()).wait().unwrap();
        queues.reserve("q", EACH, DAY).wait().unwrap()
    };
    queues.ack_all(take().iter().map(|job| job.lease)).wait().unwrap();
    let dead = take();
    queues.fail_all(dead.iter().map(|job| (job.lease, "no", Retry::Never))).wait().unwrap();
    queues.cancel_all(take().iter().map(|job| job.job.id)).wait().unwrap();
    take();
    let keyed = some().enumerate().map(|(number, job)| job.key(number.to_string()).delay(DAY));
    queues.put_all(keyed).wait().unwrap();
    5 * EACH as u64
}

#[test]
fn an_empty_queue_is_removed_and_one_with_jobs_by_force_only() {
    let disk = MemoryDisk::new();
    let queues = Queues::builder().open_disk(disk.clone()).unwrap();
    put(&queues, "other").unwrap();
    let jobs = fill(&queues);
    let refused = queues.remove_queue("q", false).wait();
    assert_eq!(refused, Err(Error::QueueNotEmpty { queue: "q".into(), jobs }));
    assert_eq!(queues.remove_queue("q", true).wait(), Ok(jobs));
    assert_eq!(names(&queues), ["other"]);
    assert_eq!(queues.stats().wait().unwrap().pending, 1);
    assert_eq!(
        queues.remove_queue("q", true).wait(),
        Err(Error::NoSuchQueue("q".into())),
        "it is gone"
    );
    // A queue with the same name is new: it has no settings, jobs or keys.
    queues.put(NewJob::new("q", "new").key("1")).wait().unwrap();
    drop(queues);
    let queues = Queues::builder().open_disk(disk).unwrap();
    let mut found = names(&queues);
    found.sort_unstable();
    assert_eq!(found, ["other", "q"]);
    let info = queues.queue("q").wait().unwrap().unwrap();
    assert_eq!((info.ready, info.settings), (1, QueueSettings::default()));
    let page = queues.list(List::of("q")).wait().unwrap();
    assert_eq!(page.jobs.len(), 1);
    assert_eq!((&*page.jobs[0].queue, page.jobs[0].state), ("q", State::Ready));
    assert!(queues.get(("q", "2")).wait().unwrap().is_none());
}

#[test]
fn a_worker_that_waits_gets_the_job_of_a_queue_that_was_removed_meanwhile() {
    let queues = Queues::in_memory();
    queues.pause("q").wait().unwrap();
    queues.resume("q").wait().unwrap();
    let waits = queues.reserve_within("q", 1, None, DAY);
    let worker = std::thread::spawn(move || waits.wait());
    assert_eq!(queues.remove_queue("q", false).wait(), Ok(0));
    put(&queues, "q").unwrap();
    assert_eq!(worker.join().unwrap().unwrap().len(), 1);
}

#[test]
fn queues_that_are_empty_and_not_used_are_removed_after_a_day() {
    let clock = clock();
    let queues = Queues::builder().clock(clock.clone()).in_memory().unwrap();
    put(&queues, "has-a-job").unwrap();
    queues.put(NewJob::new("is-scheduled", "").delay(9 * DAY)).wait().unwrap();
    for queue in ["paused", "set", "planned", "unused", "used"] {
        put(&queues, queue).unwrap();
        queues.drain(queue).wait().unwrap();
    }
    queues.pause("paused").wait().unwrap();
    let settings = QueueSettings { max_attempts: 3, ..QueueSettings::default() };
    queues.configure("set", settings).wait().unwrap();
    let schedule = NewSchedule::new("plan", Timing::Every(30 * DAY), NewJob::new("planned", ""));
    queues.put_schedule(schedule).wait().unwrap();
    clock.advance(DAY / 2);
    put(&queues, "used").unwrap();
    queues.drain("used").wait().unwrap();
    assert_eq!(names(&queues).len(), 7);
    clock.advance(DAY / 2 + Duration::from_secs(1));
    let kept = ["has-a-job", "is-scheduled", "paused", "set", "planned", "used"];
    while names(&queues).len() > kept.len() {
        std::thread::yield_now();
    }
    assert_eq!(names(&queues), kept);
    put(&queues, "unused").unwrap();
    assert_eq!(names(&queues).len(), 7);
}

/// A follow-up is never refused. If its queue were removed as unused, the queue would no longer
/// count for its creator, and the follow-up would create it again beyond the limit.
#[test]
fn the_queue_of_a_follow_up_is_not_removed_as_unused() {
    let (clock, disk) = (clock(), MemoryDisk::new());
    let limits = Limits { queues: 20, ..Limits::default() };
    let open = || {
        let builder = Queues::builder().clock(clock.clone()).limits(limits);
        builder.open_disk(disk.clone()).unwrap()
    };
    let queues = open();
    let tenant = |queues: &Queues| queues.limited_to(Access::to(["a-*"]).held_by("token 7"));
    put(&queues, "a-unused").unwrap();
    queues.drain("a-unused").wait().unwrap();
    let job = NewJob::new("a-1", "").delay(9 * DAY).on_death(FollowUp::to("a-2"));
    tenant(&queues).put(job).wait().unwrap();
    drop(queues);
    let queues = open();
    clock.advance(2 * DAY);
    while names(&queues).len() > 2 {
        std::thread::yield_now();
    }
    assert_eq!(names(&queues), ["a-1", "a-2"]);
    let over = Error::OverLimit { limit: Limit::Queues, allowed: 2, found: 3 };
    assert_eq!(put(&tenant(&queues), "a-3"), Err(over));
    clock.advance(8 * DAY);
    let jobs = queues.reserve("a-1", 1, None).wait().unwrap();
    queues.fail(jobs[0].lease, "no", Retry::Never).wait().unwrap();
    assert_eq!(names(&queues), ["a-1", "a-2"]);
    assert_eq!(queues.reserve("a-2", 1, None).wait().unwrap().len(), 1);
}

#[test]
fn a_follow_up_creates_its_queue_again_if_that_was_removed_by_a_command() {
    let queues = Queues::in_memory();
    queues.put(NewJob::new("q", "x").on_death(FollowUp::to("dead"))).wait().unwrap();
    queues.remove_queue("dead", false).wait().unwrap();
    let jobs = queues.reserve("q", 1, None).wait().unwrap();
    queues.fail(jobs[0].lease, "no", Retry::Never).wait().unwrap();
    assert_eq!(queues.reserve("dead", 1, None).wait().unwrap().len(), 1);
}

#[test]
fn an_access_to_some_queues_leaves_room_for_others() {
    let limits = Limits { queues: 100, ..Limits::default() };
    let queues = Queues::builder().limits(limits).in_memory().unwrap();
    let over = |allowed, found| Err(Error::OverLimit { limit: Limit::Queues, allowed, found });
    // Each tenant may use a tenth of the queues; nine tenants use nine tenths.
    for tenant in 0..9 {
        let handle = queues.limited_to(Access::to([format!("t{tenant}-*")]));
        for number in 0..10 {
            put(&handle, &format!("t{tenant}-{number}")).unwrap();
        }
        assert_eq!(put(&handle, &format!("t{tenant}-x")), over(10, 11));
        put(&handle, &format!("t{tenant}-1")).unwrap();
    }
    let tenant = queues.limited_to(Access::to(["late-*"]));
    assert_eq!(put(&tenant, "late-1"), over(90, 91));
    for number in 0..10 {
        put(&queues, &format!("admin-{number}")).unwrap();
    }
    assert_eq!(put(&queues, "admin-x"), over(100, 101));
    // A removed queue no longer counts for its creator.
    for number in 0..11 {
        let name = if number < 10 { format!("admin-{number}") } else { "t0-0".into() };
        queues.remove_queue(name, true).wait().unwrap();
    }
    put(&tenant, "late-1").unwrap();
}

#[test]
fn created_queues_count_for_their_holder_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { queues: 50, ..Limits::default() };
    let open = || Queues::builder().limits(limits).open(folder.path()).unwrap();
    let over = |found| Err(Error::OverLimit { limit: Limit::Queues, allowed: 5, found });
    let tenant = |queues: &Queues| queues.limited_to(Access::to(["a-*"]).held_by("token 7"));
    let queues = open();
    for number in 0..5 {
        put(&tenant(&queues), &format!("a-{number}")).unwrap();
    }
    drop(queues);

    let queues = open();
    assert_eq!(put(&tenant(&queues), "a-5"), over(6));
    // A new access of the same holder shares its limit; another holder has a limit of its own.
    let changed = Access::to(["a-*", "b-*"]).held_by("token 7");
    assert_eq!(put(&queues.limited_to(changed), "b-0"), over(6));
    put(&queues.limited_to(Access::to(["a-*"]).held_by("token 8")), "a-other").unwrap();
    // The creator is kept when the queue is configured, and forgotten when it is removed.
    queues.pause("a-0").wait().unwrap();
    queues.remove_queue("a-1", true).wait().unwrap();
    drop(queues);

    let queues = open();
    put(&tenant(&queues), "a-5").unwrap();
    assert_eq!(put(&tenant(&queues), "a-6"), over(6));
}

#[test]
fn the_queue_of_a_follow_up_counts_before_it_is_needed() {
    let limits = Limits { queues: 30, ..Limits::default() };
    let queues = Queues::builder().limits(limits).in_memory().unwrap();
    let tenant = queues.limited_to(Access::to(["a-*"]));
    let chain = |first: &str, done: &str, dead: &str| {
        let job = NewJob::new(first, "").on_success(FollowUp::to(done));
        tenant.put(job.on_death(FollowUp::to(dead))).wait().map(drop)
    };
    let over = Err(Error::OverLimit { limit: Limit::Queues, allowed: 3, found: 4 });
    assert_eq!(chain("a-1", "a-2", "a-3").and_then(|()| chain("a-1", "a-2", "a-4")), over);
    assert_eq!(names(&queues), ["a-1", "a-2", "a-3"]);
    // A queue that occurs twice is created once.
    queues.remove_queue("a-3", true).wait().unwrap();
    chain("a-5", "a-5", "a-5").unwrap();
    assert_eq!(chain("a-6", "a-1", "a-1"), over);
    assert_eq!(names(&queues), ["a-1", "a-2", "a-5"]);
}
