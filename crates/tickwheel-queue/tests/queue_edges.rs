//! Edge cases of the horizon, memory, clock, leases and limits.

mod rig;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use rig::{Rig, millis, seconds};
use tickwheel_queue::store::Table;
use tickwheel_queue::{
    Error, JobId, Keep, Limit, Limits, List, NewJob, Pacing, QueueSettings, Queues, Retention,
    Retry, RetryPolicy, State, Time,
};

/// Returns a builder with a horizon of a second and room for very few jobs in memory.
fn narrow() -> tickwheel_queue::Builder {
    Queues::builder().horizon(seconds(1)).near(0)
}

#[test]
fn jobs_around_the_horizon_come_exactly_at_their_time() {
    let rig = Rig::with(narrow());
    // One job for every millisecond around the horizon and around the end of a read, which is half
    // a horizon later.
    let delays: Vec<u64> = (990..1_010).chain(1_490..1_510).chain([0, 1, 5_000]).collect();
    for &delay in delays.iter().rev() {
        rig.put(&delay.to_string(), millis(delay));
    }
    let mut sorted = delays;
    sorted.sort_unstable();
    let mut now = 0;
    for delay in sorted {
        if delay > now {
            rig.clock.advance(millis(delay - now - 1));
            assert_eq!(rig.names(), [""; 0], "just before {delay}");
            rig.clock.advance(millis(1));
        }
        assert_eq!(rig.names(), [delay.to_string()]);
        now = delay;
    }
}

#[test]
fn what_is_written_with_each_job_or_delivery_is_bounded() {
    let rig = Rig::new();
    let delays = |count: u64| RetryPolicy::list((0..count).map(seconds));
    let put = |count| rig.queues().put(NewJob::new("q", "").retry(delays(count))).wait();
    put(1_000).unwrap();
    let error = put(1_001).unwrap_err().to_string();
    assert!(error.contains("retry.list") && error.contains("got 1001"), "{error}");
    let set = |settings| rig.queues().configure("q", settings).wait();
    let mut settings = QueueSettings { retry: delays(1_001), ..QueueSettings::default() };
    assert!(matches!(set(settings.clone()), Err(Error::Invalid { .. })));
    settings.retry = delays(1_000);
    for (starts, is_possible) in [(100_000, true), (100_001, false)] {
        settings.pacing = Pacing::starts(starts, seconds(60));
        assert_eq!(set(settings.clone()).is_ok(), is_possible, "{starts} starts");
    }
}

#[test]
fn a_job_put_behind_the_edge_and_cancelled_there_never_comes() {
    let rig = Rig::with(narrow());
    rig.put("far", seconds(10));
    let job = NewJob::new("q", "gone").delay(seconds(20)).key("gone");
    rig.queues().put(job).wait().unwrap();
    rig.queues().cancel(("q", "gone")).wait().unwrap();
    rig.put("near", millis(10));
    rig.clock.advance(seconds(60));
    assert_eq!(rig.names(), ["near", "far"]);
}

#[test]
fn a_far_job_is_not_in_memory_and_a_near_one_is() {
    let rig = Rig::with(narrow());
    for number in 0..100 {
        rig.put(&number.to_string(), seconds(3_600 + number));
    }
    assert_eq!(rig.queues().stats().wait().unwrap().in_memory, 0);
    // A job is read when it comes within the horizon, together with the jobs of the next half
    // horizon.
    rig.clock.advance(seconds(3_599));
    assert_eq!(rig.queues().stats().wait().unwrap().in_memory, 1);
}

#[test]
fn a_queue_that_nobody_reads_stays_on_disk() {
    let mut rig = Rig::with(narrow());
    let jobs = (0..5_000).map(|number| NewJob::new("q", number.to_string()));
    rig.queues().put_all(jobs).wait().unwrap();
    assert!(rig.queues().stats().wait().unwrap().in_memory <= 64);
    rig.restart();
    assert!(rig.queues().stats().wait().unwrap().in_memory <= 64);
    // All jobs are delivered in order once a worker reserves.
    let names = rig.names();
    assert!(names.iter().map(|name| name.parse::<usize>().unwrap()).eq(0..5_000));
}

#[test]
fn a_hundred_thousand_jobs_in_one_millisecond_come_once_each_in_order() {
    const JOBS: usize = 100_000;
    let rig = Rig::new();
    let due = Time::from(rig.clock.wall()).after(seconds(5));
    for start in (0..JOBS).step_by(10_000) {
        let job = |number: usize| NewJob::new("q", number.to_string()).at(due);
        rig.queues().put_all((start..start + 10_000).map(job)).wait().unwrap();
    }
    rig.clock.advance(millis(4_999));
    assert_eq!(rig.names(), [""; 0]);
    rig.clock.advance(millis(1));
    let names = rig.names();
    assert!(names.iter().map(|name| name.parse::<usize>().unwrap()).eq(0..JOBS));
}

#[test]
fn a_clock_set_forward_makes_jobs_due_and_one_set_back_holds_them() {
    let rig = Rig::with(narrow());
    let start = rig.clock.wall();
    rig.put("in a minute", seconds(60));
    rig.put("in an hour", seconds(3_600));
    rig.clock.set_wall(start + seconds(61));
    // The job was due, but is no longer due once the clock is set back.
    rig.queues().stats().wait().unwrap();
    rig.clock.set_wall(start);
    assert_eq!(rig.names(), [""; 0]);
    rig.clock.set_wall(start + seconds(59));
    assert_eq!(rig.names(), [""; 0]);
    rig.clock.set_wall(start + seconds(60));
    assert_eq!(rig.names(), ["in a minute"]);
    rig.clock.set_wall(start + seconds(7_200));
    assert_eq!(rig.names(), ["in an hour"]);
}

#[test]
fn a_worker_may_wait_for_ever() {
    let rig = Rig::new();
    for queues in [rig.queues(), &Queues::in_memory()] {
        for wait in
            [Duration::MAX, Duration::from_secs(u64::MAX >> 1), Duration::from_secs(1 << 40)]
        {
            let mut worker = std::pin::pin!(queues.reserve_within("q", 1, None, wait));
            let mut context = Context::from_waker(Waker::noop());
            assert!(worker.as_mut().poll(&mut context).is_pending());
            // After this answer, the worker is waiting: the writer handles requests in order.
            queues.stats().wait().unwrap();
            queues.put(NewJob::new("q", "job")).wait().unwrap();
            queues.stats().wait().unwrap();
            let Poll::Ready(jobs) = worker.as_mut().poll(&mut context) else {
                panic!("the job was put, and the worker did not get it");
            };
            queues.ack(jobs.unwrap()[0].lease).wait().unwrap();
        }
    }
}

#[test]
fn a_waiting_worker_follows_the_clock_that_is_set() {
    let rig = Rig::new();
    rig.put("job", seconds(3_600));
    std::thread::scope(|scope| {
        let queues = rig.queues();
        let worker = scope.spawn(|| queues.reserve_within("q", 1, None, seconds(999)).wait());
        // The worker must get the job whether it waits already or not.
        rig.clock.set_wall(rig.clock.wall() + seconds(3_600));
        assert_eq!(worker.join().unwrap().unwrap().len(), 1);
    });
}

#[test]
fn order_is_by_due_time_then_priority_then_insertion() {
    let rig = Rig::new();
    let due = Time::from(rig.clock.wall()).after(seconds(1));
    for (name, priority, late) in
        [("c", 0, 0), ("d", 0, 0), ("e", -1, 0), ("b", 1, 0), ("a", 127, 0), ("f", 127, 1)]
    {
        let job = NewJob::new("q", name).priority(priority).at(due.after(millis(late)));
        rig.queues().put(job).wait().unwrap();
    }
    rig.clock.advance(seconds(2));
    assert_eq!(rig.names(), ["a", "b", "c", "d", "e", "f"]);
}

#[test]
fn a_job_that_always_fails_dies_after_its_last_attempt() {
    let rig = Rig::new();
    let delays = [millis(100), millis(500)];
    let job = NewJob::new("q", "bad").max_attempts(4).retry(RetryPolicy::list(delays));
    let id = rig.queues().put(job).wait().unwrap().id;
    for (attempt, delay) in [(1, 100), (2, 500), (3, 500)] {
        let delivery = rig.take(1).remove(0);
        assert_eq!(delivery.job.attempts, attempt);
        let state = rig.queues().fail(delivery.lease, format!("error {attempt}"), Retry::ByPolicy);
        assert_eq!(state.wait(), Ok(State::Scheduled));
        rig.clock.advance(millis(delay - 1));
        assert!(rig.take(1).is_empty());
        rig.clock.advance(millis(1));
    }
    let delivery = rig.take(1).remove(0);
    assert_eq!(delivery.job.last_error.as_deref(), Some("error 3"));
    let fate = rig.queues().fail(delivery.lease, "the end", Retry::After(millis(1))).wait();
    assert_eq!(fate, Ok(State::Dead));
    let job = rig.queues().get(id).wait().unwrap().unwrap();
    assert_eq!((job.state, job.attempts), (State::Dead, 4));
    assert_eq!(job.last_error.as_deref(), Some("the end"));
    rig.queues().kick(id).wait().unwrap();
    assert_eq!(rig.take(1)[0].job.attempts, 1);
}

#[test]
fn leases_that_run_out_during_a_restart_are_delivered_again() {
    let mut rig = Rig::new();
    rig.put("job", Duration::ZERO);
    let old = rig.queues().reserve("q", 1, seconds(10)).wait().unwrap().remove(0);
    rig.crash();
    // The lease survives the restart,
    assert!(rig.take(1).is_empty());
    rig.clock.advance(seconds(11));
    rig.restart();
    // and expires while the queue is closed.
    let new = rig.take(1).remove(0);
    assert_eq!((new.job.id, new.job.attempts), (old.job.id, 2));
    assert_eq!(new.job.last_error.as_deref(), Some("the lease ran out"));
    // The late worker gets an error, and the job is unchanged.
    let id = old.job.id;
    assert_eq!(rig.queues().ack(old.lease).wait(), Err(Error::StaleLease { id }));
    assert_eq!(rig.queues().extend(old.lease, seconds(1)).wait(), Err(Error::StaleLease { id }));
    let failed = rig.queues().fail(old.lease, "late", Retry::Never).wait();
    assert_eq!(failed, Err(Error::StaleLease { id }));
    rig.queues().ack(new.lease).wait().unwrap();
    assert_eq!(rig.queues().ack(new.lease).wait(), Err(Error::NotFound(id.into())));
}

#[test]
fn a_lease_that_runs_out_on_the_last_attempt_is_the_end() {
    let rig = Rig::new();
    let id = rig.queues().put(NewJob::new("q", "").max_attempts(1)).wait().unwrap().id;
    rig.queues().reserve("q", 1, seconds(1)).wait().unwrap();
    rig.clock.advance(seconds(1));
    rig.queues().stats().wait().unwrap();
    assert_eq!(rig.queues().get(id).wait().unwrap().unwrap().state, State::Dead);
}

#[test]
fn every_limit_is_named() {
    let limits = Limits {
        payload: 10,
        headers: 5,
        key: 3,
        queue_name: 4,
        batch: 2,
        queues: 2,
        pending: 3,
        leased: 1,
        ..Limits::default()
    };
    let rig = Rig::with(Queues::builder().limits(limits));
    let job = || NewJob::new("q", "");
    let refused = |job: NewJob| match rig.queues().put(job).wait() {
        Err(Error::OverLimit { limit, allowed, found }) => (limit, allowed, found),
        other => panic!("not refused: {other:?}"),
    };
    assert_eq!(refused(NewJob::new("q", "12345678901")), (Limit::Payload, 10, 11));
    assert_eq!(refused(job().header("abc", "def")), (Limit::Headers, 5, 6));
    assert_eq!(refused(job().key("four")), (Limit::Key, 3, 4));
    assert_eq!(refused(job().group("four")), (Limit::Group, 3, 4));
    assert_eq!(refused(NewJob::new("queue", "")), (Limit::QueueName, 4, 5));
    for queue in ["q", "r", "q"] {
        rig.queues().put(NewJob::new(queue, "")).wait().unwrap();
    }
    assert_eq!(refused(job()), (Limit::Pending, 3, 4));
    rig.queues()
        .cancel_all(rig.queues().list(List::of("r")).wait().unwrap().jobs.iter().map(|job| job.id))
        .wait()
        .unwrap();
    assert_eq!(refused(NewJob::new("s", "")), (Limit::Queues, 2, 3));
    let many = rig.queues().put_all([job(), job(), job()]).wait();
    let batch = Error::OverLimit { limit: Limit::Batch, allowed: 2, found: 3 };
    assert_eq!(many.unwrap_err(), batch);
    assert_eq!(rig.queues().reserve("q", 2, None).wait().unwrap().len(), 1);
    let leased = Error::OverLimit { limit: Limit::Leased, allowed: 1, found: 2 };
    assert_eq!(rig.queues().reserve("q", 1, None).wait().unwrap_err(), leased);
}

#[test]
fn senseless_values_are_refused() {
    let rig = Rig::new();
    let queues = rig.queues();
    let wrong = |answer: Result<(), Error>| assert!(matches!(answer, Err(Error::Invalid { .. })));
    wrong(queues.put(NewJob::new("", "")).wait().map(drop));
    wrong(queues.put(NewJob::new("a\n", "")).wait().map(drop));
    wrong(queues.put(NewJob::new("q", "").key("")).wait().map(drop));
    wrong(queues.put(NewJob::new("q", "").max_attempts(0)).wait().map(drop));
    let settings = QueueSettings { lease: Duration::ZERO, ..QueueSettings::default() };
    wrong(queues.configure("q", settings).wait());
    wrong(queues.list(List::of("q").limit(0)).wait().map(drop));
    wrong(queues.purge("q", State::Ready, Time::MAX).wait().map(drop));
    assert_eq!(queues.drain("none").wait(), Err(Error::NoSuchQueue("none".into())));
    assert_eq!(queues.queues().wait().unwrap(), []);
}

#[test]
fn a_lease_of_no_time_is_refused() {
    let rig = Rig::new();
    let refused = |answer: Result<(), Error>| {
        let error = answer.unwrap_err();
        assert!(matches!(&error, Error::Invalid { field, .. } if field == "lease"), "{error}");
    };
    let reserve = |lease| rig.queues().reserve_within("q", 1, lease, seconds(999)).wait();
    // The lease is refused whether or not a job is ready.
    refused(reserve(Some(Duration::ZERO)).map(drop));
    rig.put("job", Duration::ZERO);
    refused(reserve(Some(Duration::ZERO)).map(drop));
    let lease = reserve(Some(Duration::from_nanos(1))).unwrap()[0].lease;
    refused(rig.queues().extend(lease, Duration::ZERO).wait().map(drop));
    rig.queues().ack(lease).wait().unwrap();
}

#[test]
fn only_dead_jobs_are_kicked_and_only_if_no_other_has_their_key() {
    let mut rig = Rig::new();
    let put = |rig: &Rig, delay| {
        let job = NewJob::new("q", "").key("k").max_attempts(1).delay(delay);
        rig.queues().put(job).wait().unwrap().id
    };
    let id = put(&rig, seconds(5));
    let kick = |rig: &Rig| rig.queues().kick(id).wait();
    let wrong = |state| Err(Error::WrongState { id, state, action: "kicked" });
    assert_eq!(kick(&rig), wrong(State::Scheduled));
    rig.clock.advance(seconds(5));
    assert_eq!(kick(&rig), wrong(State::Ready));
    let lease = rig.take(1)[0].lease;
    assert_eq!(kick(&rig), wrong(State::Leased));
    rig.queues().fail(lease, "", Retry::Never).wait().unwrap();
    let other = put(&rig, Duration::ZERO);
    let taken = Error::KeyExists { queue: "q".into(), key: "k".into(), id: other };
    assert_eq!(kick(&rig), Err(taken));
    // A key whose job was lost to damage is free for a kick, as it is for a put.
    rig.closed(|rig| {
        let key = (Table::Jobs, other.as_bytes().to_vec().into());
        rig.disk.tamper(|rows| assert!(rows.remove(&key).is_some()));
    });
    assert_eq!(kick(&rig), Ok(()));
    let found = rig.queues().get(("q", "k")).wait().unwrap().map(|job| job.id);
    assert_eq!(found, Some(id));
}

#[test]
fn finished_jobs_are_kept_by_age_and_number() {
    let mut rig = Rig::new();
    let done = Keep { age: seconds(60), count: 3 };
    let cancelled = Keep { age: seconds(10), count: 100 };
    let retention = Retention { done, cancelled, ..Retention::default() };
    let settings = QueueSettings { retention, ..QueueSettings::default() };
    rig.queues().configure("q", settings).wait().unwrap();
    let mut ids = Vec::new();
    for number in 0..5 {
        rig.put(&number.to_string(), Duration::ZERO);
        let delivery = rig.take(1).remove(0);
        rig.queues().ack(delivery.lease).wait().unwrap();
        ids.push(delivery.job.id);
        rig.clock.advance(seconds(1));
    }
    let listed = |rig: &Rig, state| -> Vec<JobId> {
        rig.queues().stats().wait().unwrap();
        let page = rig.queues().list(List::of("q").state(state)).wait().unwrap();
        page.jobs.iter().map(|job| job.id).collect()
    };
    assert_eq!(listed(&rig, State::Done), ids[2..]);
    rig.restart();
    rig.put("cancelled", seconds(1));
    let id = rig.queues().list(List::of("q").state(State::Scheduled)).wait().unwrap().jobs[0].id;
    rig.queues().cancel(id).wait().unwrap();
    assert_eq!(listed(&rig, State::Cancelled), [id]);
    rig.clock.advance(seconds(10));
    assert_eq!(listed(&rig, State::Cancelled), []);
    assert_eq!(listed(&rig, State::Done), ids[2..]);
    rig.clock.advance(seconds(60));
    assert_eq!(listed(&rig, State::Done), []);
    assert_eq!(rig.queues().get(ids[4]).wait().unwrap(), None);
}

#[test]
fn large_sweeps_go_in_steps_and_let_others_in() {
    let rig = Rig::new();
    for _ in 0..3 {
        let jobs = (0..5_000).map(|_| NewJob::new("q", "").delay(seconds(3_600)));
        rig.queues().put_all(jobs).wait().unwrap();
    }
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(rig.queues().drain("q").wait(), Ok(15_000));
            done.fetch_add(1, Ordering::Relaxed);
        });
        rig.queues().put(NewJob::new("other", "")).wait().unwrap();
    });
    assert_eq!(rig.queues().queue("q").wait().unwrap().unwrap().scheduled, 0);
    assert_eq!(rig.queues().stats().wait().unwrap().pending, 1);
}

#[test]
fn a_reserve_that_is_dropped_gives_its_jobs_back() {
    let rig = Rig::new();
    let waiting = rig.queues().reserve_within("q", 1, None, seconds(60));
    let mut waiting = Box::pin(waiting);
    let mut context = Context::from_waker(Waker::noop());
    assert!(Future::poll(waiting.as_mut(), &mut context).is_pending());
    rig.put("job", Duration::ZERO);
    drop(waiting);
    // The job is available to the next worker, whether it was given to the dropped one or not.
    let mut names = rig.names();
    while names.is_empty() {
        std::thread::yield_now();
        names = rig.names();
    }
    assert_eq!(names, ["job"]);
}

#[test]
fn waiting_ends_when_its_time_is_over() {
    let rig = Rig::new();
    std::thread::scope(|scope| {
        let queues = rig.queues();
        let worker = scope.spawn(|| queues.reserve_within("q", 1, None, seconds(5)).wait());
        while !worker.is_finished() {
            rig.clock.advance(seconds(1));
            std::thread::yield_now();
        }
        assert_eq!(worker.join().unwrap(), Ok(vec![]));
    });
}

#[test]
fn a_handle_that_is_closed_refuses() {
    let queues = Queues::in_memory();
    let put = queues.put(NewJob::new("q", ""));
    let waiting = {
        let queues = queues.clone();
        std::thread::spawn(move || queues.reserve_within("q", 1, None, seconds(999)).wait())
    };
    // The clone in the thread keeps the queues open; a pending answer does not.
    drop(queues);
    assert!(put.wait().is_ok());
    assert_eq!(waiting.join().unwrap().unwrap().len(), 1);
}

#[test]
fn times_up_to_the_year_9999_come_back() {
    let mut rig = Rig::new();
    for when in [Time::MAX, Time::from_millis(0)] {
        rig.queues().put(NewJob::new("q", "").at(when)).wait().unwrap();
    }
    rig.queues().put(NewJob::new("q", "").delay(Duration::MAX)).wait().unwrap();
    rig.restart();
    let dues: Vec<Time> =
        rig.queues().list(List::of("q")).wait().unwrap().jobs.iter().map(|job| job.due).collect();
    assert_eq!(dues, [Time::from_millis(0), Time::MAX, Time::MAX]);
    assert_eq!(rig.take(9).len(), 1);
}

#[test]
fn a_waker_may_drop_the_last_handle() {
    struct Dropper(Mutex<Option<Queues>>, mpsc::Sender<()>);
    impl Wake for Dropper {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
            self.1.send(()).unwrap();
        }
    }
    for puts in [1, 2] {
        let queues = Queues::in_memory();
        let (sender, dropped) = mpsc::channel();
        let mut answers: Vec<_> = (0..puts).map(|_| queues.put(NewJob::new("q", ""))).collect();
        let waker = Waker::from(Arc::new(Dropper(Mutex::new(Some(queues)), sender)));
        let mut context = Context::from_waker(&waker);
        let polls = answers.iter_mut().map(|answer| Pin::new(answer).poll(&mut context));
        // An answer that came before the poll wakes no waker.
        if polls.filter(Poll::is_pending).count() > 0 {
            dropped.recv_timeout(Duration::from_secs(30)).expect("nobody waits for ever");
        }
    }
}

#[test]
fn large_payloads_are_given_out_a_few_at_a_time() {
    const MIB: usize = 1 << 20;
    let rig = Rig::new();
    for number in 0..40 {
        rig.queues().put(NewJob::new("q", vec![number; MIB])).wait().unwrap();
    }
    let mut list = List::of("q").limit(1_000);
    let mut listed = Vec::new();
    loop {
        let page = rig.queues().list(list.clone()).wait().unwrap();
        assert!(page.jobs.len() <= 16, "{} MiB in a page", page.jobs.len());
        listed.extend(page.jobs.iter().map(|job| job.payload[0]));
        list.after = page.next;
        if list.after.is_none() {
            break;
        }
    }
    assert_eq!(listed, (0..40).collect::<Vec<u8>>());
    let reserve = || rig.queues().reserve("q", 1_000, None).wait().unwrap().len();
    assert_eq!([reserve(), reserve(), reserve(), reserve()], [16, 16, 8, 0]);
}

#[test]
fn a_lookup_does_not_wait_for_lists_that_find_nothing() {
    const LISTS: usize = 8;
    let queues = Queues::in_memory();
    let keyed = |number: u64| NewJob::new("q", "").key(number.to_string()).delay(seconds(3_600));
    for batch in 0..2 {
        let numbers = (0..10_000).map(|number| batch * 10_000 + number);
        queues.put_all(numbers.map(keyed)).wait().unwrap();
    }
    let wanted = queues.put(NewJob::new("q", "wanted")).wait().unwrap().id;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        // Each list examines all 20,000 jobs.
        let nothing = List::of("q").key_prefix("").state(State::Leased);
        let lists: Vec<_> =
            (0..LISTS).map(|_| tokio::spawn(queues.list(nothing.clone()))).collect();
        tokio::task::yield_now().await;
        assert!(queues.get(wanted).await.unwrap().is_some());
        assert_eq!(lists.iter().filter(|list| list.is_finished()).count(), 0);
        for list in lists {
            let page = list.await.unwrap().unwrap();
            assert_eq!((page.jobs.len(), page.next), (0, None));
        }
    });
}

#[test]
fn a_job_that_dies_while_opening_is_listed_before_one_that_died_by_a_later_clock() {
    let mut rig = Rig::new();
    let dead = Keep { age: seconds(86_400), count: 100 };
    let retention = Retention { dead, ..Retention::default() };
    let settings = QueueSettings { max_attempts: 1, retention, ..QueueSettings::default() };
    rig.queues().configure("q", settings).wait().unwrap();
    let start = rig.clock.wall();
    rig.put("later", Duration::ZERO);
    rig.clock.set_wall(start + seconds(3_600));
    let later = rig.take(1).remove(0);
    rig.queues().fail(later.lease, "", Retry::Never).wait().unwrap();
    rig.clock.set_wall(start);
    rig.put("earlier", Duration::ZERO);
    let earlier = rig.queues().reserve("q", 1, seconds(1)).wait().unwrap().remove(0);
    // Opening handles the expired lease and the retention of dead jobs in one group.
    rig.closed(|rig| rig.clock.set_wall(start + seconds(2)));
    rig.queues().stats().wait().unwrap();
    let page = rig.queues().list(List::of("q").state(State::Dead)).wait().unwrap();
    let listed: Vec<JobId> = page.jobs.iter().map(|job| job.id).collect();
    assert_eq!(listed, [earlier.job.id, later.job.id]);
    assert_eq!(rig.queues().purge("q", State::Dead, Time::MAX).wait(), Ok(2));
}

#[test]
fn a_queue_counts_what_happened_in_it_across_restarts() {
    let mut rig = Rig::new();
    for name in ["done", "failed", "released", "expires", "dies"] {
        rig.put(name, seconds(0));
    }
    rig.queues().put(NewJob::new("other", "x").key("k")).wait().unwrap();
    rig.queues().put(NewJob::new("other", "y").key("k")).wait().unwrap();
    let due = rig.queues().queue("q").wait().unwrap().unwrap().oldest_ready.unwrap();
    rig.clock.advance(seconds(7));
    rig.closed(|_| {});
    assert_eq!(rig.queues().queue("q").wait().unwrap().unwrap().oldest_ready, Some(due));
    let jobs = rig.queues().reserve("q", 9, seconds(5)).wait().unwrap();
    assert_eq!(rig.queues().queue("q").wait().unwrap().unwrap().oldest_ready, None);
    rig.queues().ack(jobs[0].lease).wait().unwrap();
    rig.queues().fail(jobs[1].lease, "no", Retry::After(seconds(900))).wait().unwrap();
    rig.queues().release(jobs[2].lease, seconds(900)).wait().unwrap();
    let dead = jobs[4].job.id;
    rig.queues().fail(jobs[4].lease, "no", Retry::Never).wait().unwrap();
    rig.clock.advance(seconds(6));
    rig.closed(|_| {});
    rig.queues().kick(dead).wait().unwrap();
    let counters = |queue: &str| {
        let it = rig.queues().queue(queue).wait().unwrap().unwrap().counters;
        [it.put, it.delivered, it.acked, it.failed, it.expired, it.released, it.died, it.cancelled]
            .into_iter()
            .chain([it.kicked])
            .collect::<Vec<_>>()
    };
    assert_eq!(counters("q"), [5, 5, 1, 2, 1, 1, 1, 0, 1]);
    assert_eq!(counters("other"), [2, 0, 0, 0, 0, 0, 0, 1, 0]);
}
