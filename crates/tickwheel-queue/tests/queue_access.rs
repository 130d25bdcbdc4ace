//! Limited access: queues and jobs that a handle may not touch do not exist for it, at any moment.

mod rig;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use tickwheel_queue::{
    Access, Error, EventsError, JobId, Lease, List, NewJob, NewSchedule, QueueSettings, Queues,
    Retry, State, Time,
};

use rig::{Rig, seconds};

const ZERO: Duration = Duration::ZERO;

/// Returns a handle that is limited to the queues `a-*`.
fn tenant(queues: &Queues) -> Queues {
    queues.limited_to(Access::to(["a-*"]))
}

/// Tries all operations on a job by its id or lease, single and in a batch. Returns the errors or
/// results.
fn attempts(queues: &Queues, lease: Lease) -> Vec<(&'static str, Result<String, Error>)> {
    fn told<T: std::fmt::Debug>(result: Result<T, Error>) -> Result<String, Error> {
        result.map(|value| format!("{value:?}"))
    }
    fn only<T>(results: Result<Vec<Result<T, Error>>, Error>) -> Result<T, Error> {
        results.unwrap().pop().unwrap()
    }
    let id = lease.id;
    let (no, again) = ("no", Retry::ByPolicy);
    vec![
        ("get", told(queues.get(id).wait())),
        ("get", told(only(queues.get_all([id]).wait()))),
        ("reschedule", told(queues.reschedule(id, ZERO).wait())),
        ("reschedule", told(only(queues.reschedule_all([(id, ZERO)]).wait()))),
        ("extend", told(queues.extend(lease, seconds(9)).wait())),
        ("extend", told(only(queues.extend_all([(lease, seconds(9))]).wait()))),
        ("kick", told(queues.kick(id).wait())),
        ("kick", told(only(queues.kick_all([id]).wait()))),
        ("release", told(queues.release(lease, ZERO).wait())),
        ("release", told(only(queues.release_all([(lease, ZERO)]).wait()))),
        ("fail", told(queues.fail(lease, no, again).wait())),
        ("fail", told(only(queues.fail_all([(lease, no, again)]).wait()))),
        ("ack", told(queues.ack(lease).wait())),
        ("ack", told(only(queues.ack_all([lease]).wait()))),
        ("cancel", told(queues.cancel(id).wait())),
        ("cancel", told(only(queues.cancel_all([id]).wait()))),
    ]
}

#[test]
fn a_job_of_another_queue_is_like_none_in_every_state() {
    let rig = Rig::new();
    let (queues, tenant) = (rig.queues(), tenant(rig.queues()));
    let keep = tickwheel_queue::Keep::FOREVER;
    let retention = tickwheel_queue::Retention { dead: keep, done: keep, cancelled: keep };
    queues.configure("b", QueueSettings { retention, ..QueueSettings::default() }).wait().unwrap();
    let put = || queues.put(NewJob::new("b", "secret").key("k")).wait().unwrap().id;
    let reserve = || queues.reserve("b", 1, None).wait().unwrap().pop().unwrap().lease;
    let states: [&dyn Fn() -> Lease; 5] = [
        &|| Lease { id: put(), token: 1 },
        &|| {
            put();
            reserve()
        },
        &|| {
            put();
            let lease = reserve();
            queues.ack(lease).wait().unwrap();
            lease
        },
        &|| {
            put();
            let lease = reserve();
            queues.fail(lease, "no", Retry::Never).wait().unwrap();
            lease
        },
        &|| {
            let id = put();
            queues.cancel(id).wait().unwrap();
            Lease { id, token: 1 }
        },
    ];
    for prepare in states {
        let theirs = prepare();
        let before = queues.get(theirs.id).wait().unwrap().unwrap();
        let unknown = Lease { id: JobId::new(Time::from_millis(1)), token: theirs.token };
        for ((what, found), (_, none)) in
            attempts(&tenant, theirs).into_iter().zip(attempts(&tenant, unknown))
        {
            let wanted = match none {
                Err(Error::NotFound(_)) => Err(Error::NotFound(theirs.id.into())),
                other => other,
            };
            assert_eq!(found, wanted, "{what} in state {}", before.state);
        }
        assert_eq!(queues.get(theirs.id).wait().unwrap().unwrap(), before);
        queues.drain("b").wait().unwrap();
    }
}

#[test]
fn a_handle_does_everything_with_its_own_queues() {
    let rig = Rig::new();
    let tenant = tenant(rig.queues());
    let take = || {
        tenant.put(NewJob::new("a-1", "")).wait().unwrap();
        tenant.reserve("a-1", 1, None).wait().unwrap().pop().unwrap().lease
    };
    let lease = take();
    tenant.extend(lease, seconds(5)).wait().unwrap();
    tenant.release(lease, ZERO).wait().unwrap();
    assert_eq!(tenant.ack(lease).wait(), Err(Error::StaleLease { id: lease.id }));
    tenant.reschedule(lease.id, seconds(1)).wait().unwrap();
    assert_eq!(tenant.cancel(lease.id).wait(), Ok(State::Scheduled));
    let lease = take();
    assert_eq!(tenant.fail(lease, "no", Retry::Never).wait(), Ok(State::Dead));
    tenant.kick(lease.id).wait().unwrap();
    assert_eq!(tenant.get(lease.id).wait().unwrap().unwrap().state, State::Ready);
}

#[test]
fn a_queue_that_is_named_and_not_included_is_refused() {
    let rig = Rig::new();
    let (queues, tenant) = (rig.queues(), tenant(rig.queues()));
    queues.put(NewJob::new("b", "").key("k")).wait().unwrap();
    let forbidden = |queue: &str| Error::Forbidden(queue.to_owned());
    // The answer is the same whether the queue exists or not.
    for queue in ["b", "nowhere"] {
        let no = forbidden(queue);
        assert_eq!(tenant.put(NewJob::new(queue, "")).wait(), Err(no.clone()));
        assert_eq!(tenant.get((queue, "k")).wait(), Err(no.clone()));
        assert_eq!(tenant.cancel((queue, "k")).wait(), Err(no.clone()));
        assert_eq!(tenant.reschedule((queue, "k"), ZERO).wait(), Err(no.clone()));
        assert_eq!(tenant.reserve(queue, 1, None).wait(), Err(no.clone()));
        assert_eq!(tenant.list(List::of(queue)).wait(), Err(no.clone()));
        assert_eq!(tenant.kick_some(queue, 1).wait(), Err(no.clone()));
        assert_eq!(tenant.purge(queue, State::Dead, Time::MAX).wait(), Err(no.clone()));
        assert_eq!(tenant.drain(queue).wait(), Err(no.clone()));
        assert_eq!(tenant.pause(queue).wait(), Err(no.clone()));
        assert_eq!(tenant.configure(queue, QueueSettings::default()).wait(), Err(no));
        assert_eq!(tenant.queue(queue).wait(), Ok(None));
    }
    tenant.put(NewJob::new("a-1", "")).wait().unwrap();
    let names: Vec<_> = tenant.queues().wait().unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["a-1"]);
    let results = tenant.put_all(["a-2", "b"].map(|queue| NewJob::new(queue, ""))).wait().unwrap();
    assert!(results[0].is_ok());
    assert_eq!(results[1], Err(forbidden("b")));
}

#[test]
fn an_id_that_another_queue_has_is_neither_taken_nor_told() {
    let rig = Rig::new();
    let (queues, tenant) = (rig.queues(), tenant(rig.queues()));
    let theirs = queues.put(NewJob::new("b", "")).wait().unwrap().id;
    let ours = tenant.put(NewJob::new("a-1", "")).wait().unwrap().id;
    let put = |id| tenant.put(NewJob::new("a-2", "").id(id)).wait();
    assert_eq!(put(ours), Err(Error::IdExists { id: ours }));
    // Not `IdExists`: that would tell the caller that its own put succeeded.
    assert_eq!(put(theirs), Err(Error::UnusableId { id: theirs }));
    assert_eq!(&*queues.get(theirs).wait().unwrap().unwrap().queue, "b");
}

#[test]
fn a_schedule_of_another_queue_is_like_none() {
    let rig = Rig::new();
    let (queues, tenant) = (rig.queues(), tenant(rig.queues()));
    let schedule = |queue: &str| NewSchedule::new("s", seconds(60), NewJob::new(queue, ""));
    queues.put_schedule(schedule("b")).wait().unwrap();
    let none = || Error::NoSuchSchedule("s".into());
    assert_eq!(tenant.schedule("s").wait(), Ok(None));
    assert_eq!(tenant.schedules().wait(), Ok(vec![]));
    assert_eq!(tenant.next_times("s", 1).wait(), Err(none()));
    assert_eq!(tenant.pause_schedule("s").wait(), Err(none()));
    assert_eq!(tenant.resume_schedule("s").wait(), Err(none()));
    assert_eq!(tenant.remove_schedule("s").wait(), Err(none()));
    assert_eq!(tenant.put_schedule(schedule("b")).wait(), Err(Error::Forbidden("b".into())));
    assert_eq!(tenant.put_schedule(schedule("a-1")).wait(), Err(Error::UnusableName("s".into())));
    assert_eq!(queues.schedule("s").wait().unwrap().unwrap().job.queue, "b");

    queues.remove_schedule("s").wait().unwrap();
    tenant.put_schedule(schedule("a-1")).wait().unwrap();
    tenant.pause_schedule("s").wait().unwrap();
    assert!(tenant.schedule("s").wait().unwrap().unwrap().paused);
    tenant.remove_schedule("s").wait().unwrap();
}

#[test]
fn what_is_damaged_is_told_only_to_those_who_may_see_it() {
    let mut rig = Rig::new();
    let put = |queue| rig.queues().put(NewJob::new(queue, "")).wait().unwrap().id;
    let (ours, theirs) = (put("a-1"), put("b"));
    rig.closed(|rig| {
        rig.disk.tamper(|rows| {
            for ((table, _), value) in rows.iter_mut() {
                if *table == tickwheel_queue::store::Table::Jobs {
                    *value = "nonsense".into();
                }
            }
        });
    });
    let (queues, tenant) = (rig.queues(), tenant(rig.queues()));
    for id in [ours, theirs] {
        assert!(matches!(queues.get(id).wait(), Err(Error::Damaged { .. })));
        assert_eq!(tenant.get(id).wait(), Ok(None));
        assert_eq!(tenant.cancel(id).wait(), Err(Error::NotFound(id.into())));
    }
    assert_eq!(tenant.list(List::of("a-1")).wait().unwrap().damaged, [ours]);
}

#[test]
fn events_of_other_queues_are_left_out() {
    let rig = Rig::new();
    let (queues, access) = (rig.queues(), Access::to(["a-*"]));
    let mut events = queues.limited_to(access.clone()).events(None);
    for queue in ["b", "a-1", "b"] {
        queues.put(NewJob::new(queue, "")).wait().unwrap();
    }
    assert_eq!(&*events.wait().unwrap().queue, "a-1");
    assert_eq!(events.try_next(), None);
    queues.put(NewJob::new("a-1", "")).wait().unwrap();
    access.revoke();
    assert_eq!(events.try_next(), Some(Err(EventsError::Revoked)));
}

#[test]
fn a_worker_whose_access_is_revoked_leaves_its_job_to_the_next() {
    let rig = Rig::new();
    let queues = rig.queues();
    let (first, second) = (Access::to(["q"]), Access::to(["q"]));
    let wait = |access: &Access| {
        queues.limited_to(access.clone()).reserve_within("q", 1, None, seconds(3_600))
    };
    let mut context = Context::from_waker(Waker::noop());
    let (mut one, mut two) = (pin!(wait(&first)), pin!(wait(&second)));
    assert!(one.as_mut().poll(&mut context).is_pending());
    assert!(two.as_mut().poll(&mut context).is_pending());
    // After this answer of the writer, both workers are waiting.
    queues.stats().wait().unwrap();
    first.revoke();
    queues.put(NewJob::new("q", "")).wait().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(one), Err(Error::Revoked));
    let delivery = runtime.block_on(two).unwrap().pop().unwrap();
    // The job was leased only once: not first to the revoked worker.
    assert_eq!(delivery.job.attempts, 1);
    assert_eq!(queues.stats().wait().unwrap().delivered, 1);
}

#[test]
fn a_revoked_access_is_refused_everywhere() {
    let rig = Rig::new();
    let access = Access::to(["*"]);
    let tenant = rig.queues().limited_to(access.clone());
    let id = tenant.put(NewJob::new("q", "")).wait().unwrap().id;
    access.revoke();
    assert_eq!(tenant.put(NewJob::new("q", "")).wait(), Err(Error::Revoked));
    assert_eq!(tenant.get(id).wait(), Err(Error::Revoked));
    assert_eq!(tenant.cancel(id).wait(), Err(Error::Revoked));
    assert_eq!(tenant.list(List::of("q")).wait(), Err(Error::Revoked));
    assert_eq!(tenant.queues().wait(), Err(Error::Revoked));
    assert_eq!(tenant.schedules().wait(), Err(Error::Revoked));
    assert_eq!(tenant.reserve("q", 1, None).wait(), Err(Error::Revoked));
    assert!(tenant.stats().wait().is_err());
    assert_eq!(rig.queues().queue("q").wait().unwrap().unwrap().ready, 1);
}

/// A tenant knows the ids that another tenant will use, and cancels, moves and reserves them at full
/// speed while they are created.
#[test]
fn knowing_an_id_in_advance_is_of_no_use() {
    const JOBS: u64 = 3_000;
    let queues = Queues::in_memory();
    let ids: Vec<JobId> = (0..JOBS).map(|number| JobId::new(Time::from_millis(number))).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for round in 0..2 {
            let (tenant, ids, is_over) = (tenant(&queues), &ids, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    for some in ids.chunks(500) {
                        let some = some.iter().copied();
                        let hit = if round == 0 {
                            tenant.cancel_all(some).wait().unwrap().iter().any(Result::is_ok)
                        } else {
                            let moved = some.map(|id| (id, seconds(9_999)));
                            tenant.reschedule_all(moved).wait().unwrap().iter().any(Result::is_ok)
                        };
                        assert!(!hit, "a job of another queue was touched");
                    }
                }
            });
        }
        for id in &ids {
            queues.put(NewJob::new("b-secret", "").id(*id)).wait().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let info = queues.queue("b-secret").wait().unwrap().unwrap();
    assert_eq!((info.ready, info.cancelled), (JOBS, 0));
}
