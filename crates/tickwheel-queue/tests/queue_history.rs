//! The history of a job: its last attempts, their workers and their outcomes.

mod rig;

use rig::{Rig, millis, seconds};
use tickwheel_queue::store::Table;
use tickwheel_queue::{
    Attempt, AttemptOutcome, Error, Job, JobId, Keep, List, NewJob, QueueSettings, Queues,
    Retention, Retry, RetryPolicy, SettingsPatch, State, Time,
};

/// The first byte of the key of a history row.
const HISTORY: u8 = 14;

fn history_rows(rig: &mut Rig) -> usize {
    let is_history = |table: Table, key: &[u8]| table == Table::Index && key[0] == HISTORY;
    let mut rows = 0;
    rig.closed(|rig| {
        rows = rig.dump().iter().filter(|((table, key), _)| is_history(*table, key)).count();
    });
    rows
}

/// Returns a queue that retries at once and often, and keeps all finished jobs.
fn rig() -> Rig {
    let rig = Rig::new();
    let keep = Keep::FOREVER;
    let settings = QueueSettings {
        max_attempts: 100,
        retry: RetryPolicy::fixed(millis(0)),
        retention: Retention { done: keep, dead: keep, cancelled: keep },
        ..QueueSettings::default()
    };
    rig.queues().configure("q", settings).wait().expect("settings");
    rig
}

fn put(rig: &Rig, name: &str) -> JobId {
    rig.queues().put(NewJob::new("q", name.to_owned()).key(name)).wait().expect("a put").id
}

fn get(rig: &Rig, id: JobId) -> Job {
    rig.queues().get(id).wait().expect("it can be read").expect("it is there")
}

fn reserve(queues: &Queues) -> tickwheel_queue::Delivery {
    queues.reserve("q", 1, seconds(60)).wait().expect("a job").remove(0)
}

#[test]
fn each_attempt_has_its_times_its_worker_and_its_end() {
    let mut rig = rig();
    let id = put(&rig, "a");
    let start = get(&rig, id).created;
    let at = |second| start.after(seconds(second));

    let worker = rig.queues().as_worker("mail-7");
    let failed = reserve(&worker);
    assert_eq!(failed.job.worker.as_deref(), Some("mail-7"));
    rig.clock.advance(seconds(1));
    worker.fail_with_detail(failed.lease, "no route", "HTTP 502", Retry::ByPolicy).wait().unwrap();
    let released = reserve(rig.queues());
    rig.clock.advance(seconds(1));
    rig.queues().release(released.lease, seconds(0)).wait().unwrap();
    drop(reserve(&worker));
    rig.clock.advance(seconds(60));
    let done = reserve(&worker);
    let leased = get(&rig, id);
    assert_eq!((leased.leased_since, leased.worker.as_deref()), (Some(at(62)), Some("mail-7")));
    rig.crash();
    rig.clock.advance(seconds(1));
    rig.queues().ack(done.lease).wait().unwrap();
    rig.crash();

    let job = get(&rig, id);
    assert_eq!((job.state, job.worker, job.leased_since), (State::Done, None, None));
    let told = |attempt: &Attempt| {
        let Attempt { number, started, ended, outcome, .. } = *attempt;
        (number, started, ended, outcome, attempt.worker.as_deref() == Some("mail-7"))
    };
    assert_eq!(
        job.history.iter().map(told).collect::<Vec<_>>(),
        [
            (1, at(0), at(1), AttemptOutcome::Failed, true),
            (2, at(1), at(2), AttemptOutcome::Released, false),
            (2, at(2), at(62), AttemptOutcome::Expired, true),
            (3, at(62), at(63), AttemptOutcome::Done, true),
        ]
    );
    let texts = |attempt: &Attempt| (attempt.error.clone(), attempt.detail.clone());
    assert_eq!(texts(&job.history[0]), (Some("no route".into()), Some("HTTP 502".into())));
    assert_eq!(texts(&job.history[1]), (None, None));
    let by_key = rig.queues().get(("q", "a")).wait().unwrap();
    assert_eq!(by_key, None, "a finished job has no key");
    let listed = rig.queues().list(List::of("q")).wait().unwrap();
    assert_eq!(listed.jobs[0].history, [], "lists leave it out");
}

#[test]
fn a_job_that_is_cancelled_or_replaced_under_its_worker_says_so() {
    let rig = rig();
    for is_replaced in [false, true] {
        let id = put(&rig, "a");
        let lease = reserve(rig.queues()).lease;
        rig.queues().fail(lease, "no", Retry::ByPolicy).wait().unwrap();
        drop(reserve(rig.queues()));
        if is_replaced {
            let other = put(&rig, "a");
            rig.queues().cancel(other).wait().unwrap();
            assert_eq!(get(&rig, other).history, [], "it was never delivered");
        } else {
            rig.queues().cancel(("q", "a")).wait().unwrap();
        }
        let outcomes: Vec<_> = get(&rig, id).history.iter().map(|it| it.outcome).collect();
        assert_eq!(outcomes, [AttemptOutcome::Failed, AttemptOutcome::Cancelled]);
    }
}

#[test]
fn the_last_twenty_attempts_are_kept_and_a_kick_adds_to_them() {
    let rig = rig();
    let id = put(&rig, "a");
    let fail = |number: u32, retry| {
        let lease = reserve(rig.queues()).lease;
        let error = format!("{number} {}", "é".repeat(3_000));
        rig.queues().fail(lease, error, retry).wait().unwrap();
    };
    for number in 1..=25 {
        fail(number, if number < 25 { Retry::ByPolicy } else { Retry::Never });
    }
    let job = get(&rig, id);
    let numbers = |job: &Job| job.history.iter().map(|it| it.number).collect::<Vec<_>>();
    assert_eq!(numbers(&job), (6..=25).collect::<Vec<_>>());
    let error = job.history[0].error.as_ref().unwrap();
    assert!(error.starts_with("6 é") && (511..=512).contains(&error.len()), "{}", error.len());
    assert!(job.last_error.unwrap().len() > 4_000, "the last error is kept longer");
    rig.queues().kick(id).wait().unwrap();
    fail(1, Retry::Never);
    assert_eq!(numbers(&get(&rig, id)), (7..=25).chain([1]).collect::<Vec<_>>());
}

#[test]
fn a_job_that_is_dropped_takes_its_history_with_it() {
    let mut rig = rig();
    let fail = |rig: &Rig, retry| {
        let lease = reserve(rig.queues()).lease;
        rig.queues().fail(lease, "no", retry).wait().unwrap();
    };
    // Removes jobs by a purge, a drain, the retention, and an acknowledgement after a failure.
    put(&rig, "purged");
    fail(&rig, Retry::Never);
    rig.queues().purge("q", State::Dead, Time::MAX).wait().unwrap();
    put(&rig, "retained for a second");
    fail(&rig, Retry::Never);
    assert_eq!(history_rows(&mut rig), 1);
    let dead = Keep { age: seconds(1), count: u64::MAX };
    let patch = SettingsPatch {
        dead: Some(dead),
        done: Some(Keep::NOTHING),
        cancelled: Some(Keep::NOTHING),
        ..SettingsPatch::default()
    };
    rig.queues().patch_settings("q", patch).wait().unwrap();
    put(&rig, "drained");
    fail(&rig, Retry::ByPolicy);
    assert_eq!(rig.queues().drain("q").wait(), Ok(1));
    put(&rig, "acknowledged");
    fail(&rig, Retry::ByPolicy);
    rig.queues().ack(reserve(rig.queues()).lease).wait().unwrap();
    rig.clock.advance(seconds(2));
    rig.queues().stats().wait().unwrap();
    assert_eq!(history_rows(&mut rig), 0);
}

#[test]
fn salvaging_removes_a_history_that_belongs_to_no_job_or_cannot_be_decoded() {
    let mut rig = rig();
    let ids: Vec<JobId> = ["whole", "garbled", "lost"]
        .into_iter()
        .map(|name| {
            let id = put(&rig, name);
            let lease = reserve(rig.queues()).lease;
            rig.queues().fail(lease, name, Retry::Never).wait().unwrap();
            id
        })
        .collect();
    rig.salvaged(|rows| {
        let key = |kind: u8, id: JobId| [&[kind][..], id.as_bytes()].concat().into();
        rows.insert((Table::Index, key(HISTORY, ids[1])), b"\x07garbage"[..].into());
        rows.remove(&(Table::Jobs, ids[2].as_bytes().to_vec().into()));
    });
    assert_eq!(get(&rig, ids[0]).history[0].error.as_deref(), Some("whole"));
    let garbled = get(&rig, ids[1]);
    assert_eq!((garbled.history, garbled.last_error.as_deref()), (vec![], Some("garbled")));
    assert_eq!(history_rows(&mut rig), 1);
}

#[test]
fn a_history_that_cannot_be_decoded_is_begun_anew() {
    let mut rig = rig();
    let id = put(&rig, "a");
    let fail = |rig: &Rig| {
        let lease = reserve(rig.queues()).lease;
        rig.queues().fail(lease, "no", Retry::ByPolicy).wait().unwrap();
    };
    fail(&rig);
    rig.closed(|rig| {
        rig.disk.tamper(|rows| {
            let key = [&[HISTORY][..], id.as_bytes()].concat();
            rows.insert((Table::Index, key.into()), b"\x07garbage"[..].into());
        });
    });
    assert_eq!(get(&rig, id).history, []);
    fail(&rig);
    assert_eq!(get(&rig, id).history.len(), 1);
}

#[test]
fn a_worker_needs_a_name_of_bounded_length() {
    let rig = rig();
    put(&rig, "a");
    for name in [String::new(), "x".repeat(Attempt::MAX_WORKER_BYTES + 1), "a\nb".to_owned()] {
        let refused = rig.queues().as_worker(name).reserve("q", 1, None).wait();
        let is_named =
            |error: &Error| matches!(error, Error::Invalid { field, .. } if field == "worker");
        assert!(refused.as_ref().is_err_and(is_named), "{refused:?}");
    }
    let name = "é".repeat(Attempt::MAX_WORKER_BYTES / 2);
    assert_eq!(rig.queues().as_worker(name).reserve("q", 1, None).wait().unwrap().len(), 1);
}
