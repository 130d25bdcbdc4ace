//! Reserving from several queues and by id, changed priorities, and pauses of limited length.

mod rig;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rig::{Rig, seconds};
use tickwheel_queue::{
    Access, Answer, Delivery, Error, Limit, Limits, NewJob, Order, Pacing, QueueSettings, Queues,
    Retry, SettingsPatch, State,
};

fn watched(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn any(queues: &Queues, names: &[&str], wait: Duration) -> Answer<Option<Delivery>> {
    queues.reserve_any(watched(names), wait, |_| None, |_| true)
}

/// Returns the payload of the next job of some queues.
fn next(queues: &Queues, names: &[&str]) -> Option<String> {
    let delivery = any(queues, names, Duration::ZERO).wait().unwrap()?;
    Some(String::from_utf8(delivery.job.payload.to_vec()).unwrap())
}

fn put(queues: &Queues, queue: &str, name: &str, priority: i8) {
    let job = NewJob::new(queue, name.to_owned()).priority(priority).queue_order(Order::Priority);
    queues.put(job).wait().unwrap();
}

#[test]
fn the_most_urgent_job_of_all_queues_goes_first_and_each_queue_keeps_its_order() {
    let rig = Rig::new();
    let queues = rig.queues();
    queues.put(NewJob::new("by time", "t1").priority(-5)).wait().unwrap();
    rig.clock.advance(seconds(1));
    queues.put(NewJob::new("by time", "t2").priority(9)).wait().unwrap();
    put(queues, "a", "a0", 0);
    put(queues, "b", "b7", 7);
    put(queues, "a", "a7", 7);
    put(queues, "c", "c9", 9);
    let names = ["by time", "a", "b", "nowhere"];
    let order: Vec<_> = std::iter::from_fn(|| next(queues, &names)).collect();
    // The queue in order of due time delivers its urgent job only after the one that was due before
    // it.
    assert_eq!(order, ["b7", "a7", "a0", "t1", "t2"]);
}

#[test]
fn a_queue_that_gives_nothing_does_not_hold_the_others_back() {
    let rig = Rig::new();
    let queues = rig.queues();
    for (queue, priority) in [("paused", 9), ("held", 8), ("paced", 7), ("open", 0)] {
        put(queues, queue, queue, priority);
        put(queues, queue, queue, priority);
    }
    queues.pause("paused").wait().unwrap();
    queues.pause_for("held", seconds(10)).wait().unwrap();
    let patch = SettingsPatch {
        pacing: Some(Pacing::default().concurrency(1)),
        ..SettingsPatch::default()
    };
    queues.patch_settings("paced", patch).wait().unwrap();
    let names = ["paused", "held", "paced", "open"];
    let order: Vec<_> = std::iter::from_fn(|| next(queues, &names)).collect();
    assert_eq!(order, ["paced", "open", "open"]);
    rig.clock.advance(seconds(10));
    assert_eq!(next(queues, &names).as_deref(), Some("held"));
}

#[test]
fn a_worker_waits_for_several_queues_and_is_served_once() {
    let rig = Rig::new();
    let queues = rig.queues();
    let mut context = Context::from_waker(Waker::noop());
    for round in 0..3 {
        let mut waits = std::pin::pin!(any(queues, &["a", "b", "c"], seconds(60)));
        assert!(waits.as_mut().poll(&mut context).is_pending());
        put(queues, ["a", "b", "c"][round], "x", 0);
        let served = loop {
            if let Poll::Ready(served) = waits.as_mut().poll(&mut context) {
                break served.unwrap();
            }
            std::thread::yield_now();
        };
        queues.ack(served.unwrap().lease).wait().unwrap();
        // Once served, the worker no longer waits at the other queues.
        for queue in ["a", "b", "c"] {
            put(queues, queue, "y", 0);
            let next = any(queues, &[queue], Duration::ZERO).wait().unwrap().unwrap();
            queues.ack(next.lease).wait().unwrap();
        }
    }
}

#[test]
fn a_wait_for_several_queues_ends_with_its_time() {
    let rig = Rig::new();
    let queues = rig.queues();
    let mut context = Context::from_waker(Waker::noop());
    let mut waits = std::pin::pin!(any(queues, &["a", "b"], seconds(5)));
    assert!(waits.as_mut().poll(&mut context).is_pending());
    // Each answer takes a turn of the writer, which then sets its alarm for the waiting worker.
    (0..4).for_each(|_| drop(queues.stats().wait()));
    rig.clock.advance(seconds(5));
    let ended = loop {
        if let Poll::Ready(ended) = waits.as_mut().poll(&mut context) {
            break ended;
        }
        std::thread::yield_now();
    };
    assert_eq!(ended, Ok(None));
}

#[test]
fn queues_that_a_caller_may_not_touch_are_left_out() {
    let rig = Rig::new();
    let queues = rig.queues();
    put(queues, "secret", "s", 9);
    put(queues, "mine", "m", 0);
    let tenant = queues.limited_to(Access::to(["mine"]));
    assert_eq!(next(&tenant, &["secret", "mine"]).as_deref(), Some("m"));
    assert_eq!(next(&tenant, &["secret", "mine"]), None);
    let refused = any(&tenant, &["secret"], Duration::ZERO).wait();
    assert_eq!(refused, Err(Error::Forbidden("secret".into())));
    let id = queues.next_ready("secret").wait().unwrap().unwrap();
    assert_eq!(tenant.next_ready("secret").wait(), Ok(None));
    let refused = tenant.reserve_job(id, |_| None, |_| true).wait();
    assert_eq!(refused, Err(Error::NotFound(id.into())));
    assert_eq!(tenant.remove_job(id).wait(), Err(Error::NotFound(id.into())));
    let refused = tenant.pause_for("secret", seconds(1)).wait();
    assert_eq!(refused, Err(Error::Forbidden("secret".into())));
}

#[test]
fn a_job_says_how_long_its_lease_is() {
    let rig = Rig::new();
    let queues = rig.queues();
    let lease_of = |headers: &[(String, String)]| {
        let (_, value) = headers.iter().find(|(name, _)| name == "lease")?;
        value.parse().ok().map(Duration::from_secs)
    };
    queues.put(NewJob::new("q", "").header("lease", "7")).wait().unwrap();
    queues.put(NewJob::new("q", "")).wait().unwrap();
    let lengths = [(); 2].map(|()| {
        let reserved = queues.reserve_any(watched(&["q"]), Duration::ZERO, lease_of, |_| true);
        let job = reserved.wait().unwrap().unwrap().job;
        job.leased_until.unwrap().since(job.leased_since.unwrap())
    });
    assert_eq!(lengths, [seconds(7), seconds(30)]);
}

#[test]
fn a_job_is_reserved_by_its_id_unless_a_worker_has_it_or_it_is_done() {
    let mut rig = Rig::with(Queues::builder().limits(Limits { leased: 2, ..Limits::default() }));
    let queues = rig.queues();
    let one = |id| queues.reserve_job(id, |_| None, |_| true).wait();
    let later = queues.put(NewJob::new("q", "later").delay(seconds(60)).group("g")).wait();
    let later = later.unwrap().id;
    let dead = queues.put(NewJob::new("q", "dead").key("k")).wait().unwrap().id;
    let lease = one(dead).unwrap().unwrap().lease;
    let refused = one(dead).unwrap_err();
    assert!(matches!(refused, Error::WrongState { state: State::Leased, .. }), "{refused}");
    queues.fail(lease, "no", Retry::Never).wait().unwrap();

    let delivery = one(dead).unwrap().unwrap();
    assert_eq!((delivery.job.attempts, delivery.job.state), (1, State::Leased));
    let refused = queues.reserve_job(later, |_| None, |_| false).wait();
    assert_eq!(refused, Err(Error::NotAdmitted));
    let early = one(later).unwrap().unwrap();
    let over = Error::OverLimit { limit: Limit::Leased, allowed: 2, found: 3 };
    let third = queues.put(NewJob::new("q", "")).wait().unwrap().id;
    assert_eq!(one(third), Err(over));
    // A job that is released without delay is ready, even before its due time.
    queues.release(early.lease, Duration::ZERO).wait().unwrap();
    assert_eq!(queues.get(later).wait().unwrap().unwrap().state, State::Ready);
    queues.ack(delivery.lease).wait().unwrap();
    assert_eq!(one(dead), Err(Error::NotFound(dead.into())));
    rig.restart();
    let taken: Vec<_> = rig.take(9).into_iter().map(|delivery| delivery.job.id).collect();
    assert_eq!(taken, [later, third]);
}

#[test]
fn a_changed_priority_stays_with_the_job() {
    let mut rig = Rig::new();
    let settings = QueueSettings { order: Order::Priority, ..QueueSettings::default() };
    rig.queues().configure("q", settings).wait().unwrap();
    let urgent = NewJob::new("q", "changed").priority(9);
    let id = rig.queues().put(urgent).wait().unwrap().id;
    let lease = rig.queues().reserve("q", 1, None).wait().unwrap()[0].lease;
    rig.queues().release_with_priority(lease, seconds(5), -3).wait().unwrap();
    rig.put("plain", Duration::ZERO);
    let priority = |rig: &Rig| rig.queues().get(id).wait().unwrap().unwrap().priority;
    assert_eq!(priority(&rig), -3);
    rig.queues().reschedule(id, Duration::ZERO).wait().unwrap();
    rig.crash();
    assert_eq!(priority(&rig), -3);
    // An expired lease and a release without a priority leave the priority unchanged.
    let taken = rig.queues().reserve("q", 2, seconds(1)).wait().unwrap();
    let names = taken.iter().map(|delivery| &delivery.job.payload[..]).collect::<Vec<_>>();
    assert_eq!(names, [&b"plain"[..], b"changed"]);
    assert_eq!(taken[1].job.priority, -3);
    rig.clock.advance(seconds(1));
    let again = rig.take(1);
    assert_eq!((again.len(), again[1].job.priority), (2, -3));
    rig.queues().release(again[1].lease, Duration::ZERO).wait().unwrap();
    assert_eq!(priority(&rig), -3);
    let lease = rig.take(1)[0].lease;
    rig.queues().bury(lease, "no", 5).wait().unwrap();
    rig.queues().kick(id).wait().unwrap();
    rig.salvaged(|_| {});
    assert_eq!(priority(&rig), 5);
    assert_eq!(rig.queues().cancel(id).wait(), Ok(State::Ready));
    assert!(rig.names().is_empty());
}

#[test]
fn a_job_that_no_worker_has_is_removed() {
    let rig = Rig::new();
    let queues = rig.queues();
    let patch =
        SettingsPatch { done: Some(tickwheel_queue::Keep::FOREVER), ..SettingsPatch::default() };
    queues.patch_settings("q", patch).wait().unwrap();
    let put = |delay| queues.put(NewJob::new("q", "").delay(delay)).wait().unwrap().id;
    let (ready, scheduled) = (put(Duration::ZERO), put(seconds(60)));
    assert_eq!(queues.remove_job(ready).wait(), Ok(State::Ready));
    assert_eq!(queues.remove_job(scheduled).wait(), Ok(State::Scheduled));
    let id = put(Duration::ZERO);
    let lease = rig.take(1)[0].lease;
    let refused = |state| Err(Error::WrongState { id, state, action: "removed" });
    assert_eq!(queues.remove_job(id).wait(), refused(State::Leased));
    queues.ack(lease).wait().unwrap();
    assert_eq!(queues.remove_job(id).wait(), refused(State::Done));
    let dead = put(Duration::ZERO);
    queues.fail(rig.take(1)[0].lease, "no", Retry::Never).wait().unwrap();
    assert_eq!(queues.remove_job(dead).wait(), Ok(State::Dead));
    assert_eq!(queues.remove_job(dead).wait(), Err(Error::NotFound(dead.into())));
    let queue = queues.queue("q").wait().unwrap().unwrap();
    assert_eq!((queue.dead, queue.done, queue.ready, queue.scheduled), (0, 1, 0, 0));
}

#[test]
fn a_pause_of_limited_length_ends_by_itself_and_with_a_restart() {
    let mut rig = Rig::new();
    let refused = rig.queues().pause_for("q", seconds(1)).wait();
    assert_eq!(refused, Err(Error::NoSuchQueue("q".into())));
    rig.put("x", Duration::ZERO);
    rig.queues().pause_for("q", seconds(60)).wait().unwrap();
    rig.queues().pause_for("q", seconds(5)).wait().unwrap();
    let until = |rig: &Rig| rig.queues().queue("q").wait().unwrap().unwrap().paused_until;
    assert!(until(&rig).is_some() && rig.take(1).is_empty());
    let mut context = Context::from_waker(Waker::noop());
    {
        let mut waits = std::pin::pin!(rig.queues().reserve_within("q", 1, None, seconds(60)));
        assert!(waits.as_mut().poll(&mut context).is_pending());
        (0..4).for_each(|_| drop(rig.queues().stats().wait()));
        rig.clock.advance(seconds(5));
        let jobs = loop {
            if let Poll::Ready(jobs) = waits.as_mut().poll(&mut context) {
                break jobs.unwrap();
            }
            std::thread::yield_now();
        };
        rig.queues().release(jobs[0].lease, Duration::ZERO).wait().unwrap();
    }
    assert_eq!(until(&rig), None);
    rig.queues().pause_for("q", seconds(60)).wait().unwrap();
    rig.restart();
    assert_eq!(rig.names(), ["x"]);
}

#[test]
fn a_put_chooses_the_order_of_a_queue_that_it_creates_only() {
    let rig = Rig::new();
    let queues = rig.queues();
    queues.put(NewJob::new("old", "")).wait().unwrap();
    for queue in ["old", "new"] {
        put(queues, queue, "", 0);
    }
    let order = |name: &str| queues.queue(name).wait().unwrap().unwrap().settings.order;
    assert_eq!((order("old"), order("new")), (Order::DueTime, Order::Priority));
    // An empty queue with the default order is removed like one without settings, unless another
    // setting was changed.
    put(queues, "set", "", 0);
    let patch = SettingsPatch { max_attempts: Some(3), ..SettingsPatch::default() };
    queues.patch_settings("set", patch).wait().unwrap();
    for name in ["new", "set"] {
        let id = queues.next_ready(name).wait().unwrap().unwrap();
        queues.remove_job(id).wait().unwrap();
    }
    for _ in 0..3 {
        rig.clock.advance(seconds(86_400));
        (0..4).for_each(|_| drop(queues.stats().wait()));
    }
    assert_eq!(queues.queue("new").wait(), Ok(None));
    assert!(queues.queue("set").wait().unwrap().is_some());
}
