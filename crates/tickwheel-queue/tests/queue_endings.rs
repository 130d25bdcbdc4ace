//! The end of jobs: results and follow-ups; and the order in which jobs are delivered.

mod rig;

use rig::{Rig, seconds};
use tickwheel_queue::store::Table;
use tickwheel_queue::{
    Access, Error, FollowUp, Job, Keep, Limit, NewJob, Order, Queues, Retry, SettingsPatch,
};

fn patch(rig: &Rig, patch: SettingsPatch) {
    rig.queues().pause("q").wait().unwrap();
    rig.queues().resume("q").wait().unwrap();
    rig.queues().patch_settings("q", patch).wait().unwrap();
}

/// Returns the number of rows in the table of jobs: one for each job and one for each result.
fn job_rows(rig: &Rig) -> usize {
    rig.dump().iter().filter(|((table, _), _)| *table == Table::Jobs).count()
}

#[test]
fn a_result_is_kept_and_dropped_with_its_job() {
    let mut rig = Rig::new();
    let done = Some(Keep { age: seconds(60), count: 10 });
    patch(&rig, SettingsPatch { done, ..SettingsPatch::default() });
    rig.put("one", seconds(0));
    rig.put("two", seconds(0));
    let jobs = rig.take(2);
    rig.queues().ack_with_result(jobs[0].lease, "found").wait().unwrap();
    rig.queues().ack(jobs[1].lease).wait().unwrap();
    rig.restart();
    let result = |rig: &Rig, job: &Job| rig.queues().get(job.id).wait().unwrap().unwrap().result;
    assert_eq!(result(&rig, &jobs[0].job).as_deref(), Some(&b"found"[..]));
    assert_eq!(result(&rig, &jobs[1].job), None);
    assert_eq!(job_rows(&rig), 3);
    rig.clock.advance(seconds(61));
    rig.queues().stats().wait().unwrap();
    assert_eq!(rig.queues().get(jobs[0].job.id).wait().unwrap(), None);
    assert_eq!(job_rows(&rig), 0);
}

#[test]
fn a_result_that_is_too_large_changes_nothing() {
    let rig = Rig::new();
    rig.put("job", seconds(0));
    let lease = rig.take(1)[0].lease;
    let refused = rig.queues().ack_with_result(lease, vec![0; Job::MAX_RESULT_BYTES + 1]).wait();
    assert!(matches!(refused, Err(Error::OverLimit { limit: Limit::Result, .. })), "{refused:?}");
    rig.queues().ack_with_result(lease, vec![0; Job::MAX_RESULT_BYTES]).wait().unwrap();
}

#[test]
fn follow_ups_survive_a_restart_between_reserve_and_end() {
    let mut rig = Rig::new();
    let follow_up = |queue| FollowUp::to(queue).delay(seconds(5)).header("a", "b");
    for name in ["succeeds", "dies"] {
        let job = NewJob::new("q", name).on_success(follow_up("next")).on_death(follow_up("dead"));
        rig.queues().put(job).wait().unwrap();
    }
    let jobs = rig.take(2);
    rig.restart();
    rig.queues().ack_with_result(jobs[0].lease, "result").wait().unwrap();
    rig.queues().fail(jobs[1].lease, "no", Retry::Never).wait().unwrap();
    rig.restart();
    for (queue, payload, parent) in [("next", "result", &jobs[0]), ("dead", "dies", &jobs[1])] {
        assert!(rig.queues().reserve(queue, 9, None).wait().unwrap().is_empty());
        rig.clock.advance(seconds(5));
        let found = rig.queues().reserve(queue, 9, None).wait().unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(&found[0].job.payload[..], payload.as_bytes());
        let parent = (FollowUp::PARENT_HEADER.to_owned(), parent.job.id.to_string());
        assert_eq!(found[0].job.headers[..2], [parent, ("a".to_owned(), "b".to_owned())]);
        rig.clock.set_wall(rig.clock.wall() - seconds(5));
    }
}

#[test]
fn a_kick_starts_a_new_series_of_replacements() {
    let mut rig = Rig::new();
    let put = |rig: &Rig| {
        let job = NewJob::new("q", "index").key("doc").delay(seconds(10));
        let job = job.max_attempts(1).max_total_delay(seconds(25));
        rig.queues().put(job).wait().unwrap()
    };
    put(&rig);
    rig.clock.advance(seconds(5));
    put(&rig);
    rig.clock.advance(seconds(10));
    let died = rig.take(1).remove(0);
    rig.clock.advance(seconds(61));
    rig.queues().kick(died.lease.id).wait().unwrap();
    let kicked = rig.queues().get(died.lease.id).wait().unwrap().unwrap().due;
    rig.restart();
    // By its put, and by the first put of the key, the total delay is long over.
    let mut due = kicked;
    for total in [10, 18, 25] {
        due = put(&rig).due;
        assert_eq!(due, kicked.after(seconds(total)));
        rig.clock.advance(seconds(8));
    }
    rig.clock.advance(seconds(1));
    assert_eq!(rig.take(1)[0].job.due, due);
}

#[test]
fn a_follow_up_goes_only_where_its_caller_may_put() {
    let queues = Queues::in_memory();
    let tenant = queues.limited_to(Access::to(["ours-*"]));
    let put = |queue: &str| {
        tenant.put(NewJob::new("ours-a", "").on_death(FollowUp::to(queue))).wait().map(drop)
    };
    assert_eq!(put("ours-b"), Ok(()));
    assert_eq!(put("theirs"), Err(Error::Forbidden("theirs".into())));
}

#[test]
fn the_highest_priority_comes_first_however_many_are_ready() {
    let rig = Rig::with(Queues::builder().near(50));
    patch(&rig, SettingsPatch { order: Some(Order::Priority), ..SettingsPatch::default() });
    let put = |priority: i8, count: usize| {
        let jobs = (0..count).map(|_| NewJob::new("q", "").priority(priority));
        assert!(rig.queues().put_all(jobs).wait().unwrap().iter().all(Result::is_ok));
        rig.clock.advance(seconds(1));
    };
    put(0, 3_000);
    put(-1, 500);
    put(7, 200);
    put(0, 1_000);
    put(9, 1);
    let mut taken = Vec::new();
    loop {
        let jobs = rig.queues().reserve("q", 64, None).wait().unwrap();
        if jobs.is_empty() {
            break;
        }
        // Jobs that are put meanwhile are delivered in order as well.
        if taken.len() < 300 && taken.len() + jobs.len() >= 300 {
            put(3, 10);
        }
        taken.extend(jobs.into_iter().map(|delivery| delivery.job));
    }
    assert_eq!(taken.len(), 4_711);
    assert_eq!(taken[0].priority, 9);
    assert!(taken[1..201].iter().all(|job| job.priority == 7));
    let late: Vec<_> = taken.iter().map(|job| (-job.priority, job.due)).collect();
    let arrived = late.iter().position(|(priority, _)| *priority == -3).unwrap();
    assert!((300..400).contains(&arrived), "they came at {arrived}");
    assert!(late[..arrived].is_sorted() && late[arrived..].is_sorted());
}
