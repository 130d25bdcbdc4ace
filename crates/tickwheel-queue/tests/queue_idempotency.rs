//! Puts with an idempotency key: repeated, raced, across failures, and until they expire.

mod rig;

use std::time::Duration;

use rig::faulty::FaultyDisk;
use rig::{Rig, seconds};
use tickwheel_queue::store::{MemoryDisk, Table};
use tickwheel_queue::{Error, IdempotencyKey, NewJob, OnConflict, PutKind, PutOnce, Queues};

const DAY: u64 = 24 * 3_600;

fn key(name: &str) -> IdempotencyKey {
    IdempotencyKey::new(name).fingerprint(*b"request")
}

fn put(queues: &Queues, name: &str) -> Result<PutOnce, Error> {
    queues.put_once(key(name), [NewJob::new("q", name.to_owned())]).wait()
}

fn pending(queues: &Queues) -> u64 {
    queues.stats().wait().unwrap().pending
}

/// Returns the numbers of rows for keys and for their expiries.
fn rows(disk: &MemoryDisk) -> (usize, usize) {
    let mut counts = (0, 0);
    disk.tamper(|rows| {
        let of =
            |kind| rows.keys().filter(|(it, key)| *it == Table::Index && key[0] == kind).count();
        counts = (of(12), of(13));
    });
    counts
}

#[test]
fn a_replay_has_the_first_answer_in_every_case() {
    let mut rig = Rig::new();
    let held =
        rig.queues().put(NewJob::new("q", "held").key("a").delay(seconds(9))).wait().unwrap();
    let other = rig.queues().put(NewJob::new("q", "other").delay(seconds(9))).wait().unwrap().id;
    let jobs = || {
        vec![
            NewJob::new("q", "new").delay(seconds(5)),
            NewJob::new("q", "kept").key("a").on_conflict(OnConflict::Keep),
            NewJob::new("q", "rejected").key("a").on_conflict(OnConflict::Reject),
            NewJob::new("q", "replaces").key("a"),
            NewJob::new("q", "taken").id(other),
            NewJob::new("q", "x").max_attempts(0),
        ]
    };
    let first = rig.queues().put_once(key("k"), jobs()).wait().unwrap();
    assert!(!first.is_replay);
    assert_eq!(first.puts[1].as_ref().unwrap().due, held.due, "that of the job that is kept");
    assert_eq!(first.puts[3].as_ref().unwrap().kind, PutKind::Replaced(held.id));
    assert_eq!(first.puts.iter().filter(|put| put.is_err()).count(), 3);
    let count = pending(rig.queues());
    for _ in 0..2 {
        let again = rig.queues().put_once(key("k"), jobs()).wait().unwrap();
        assert_eq!((again.is_replay, &again.puts), (true, &first.puts));
        assert_eq!(pending(rig.queues()), count);
        rig.closed(|_| {});
        rig.clock.advance(seconds(60));
    }
    let drained = rig.queues().drain("q").wait().unwrap();
    assert_eq!(drained, count);
    let again = rig.queues().put_once(key("k"), jobs()).wait().unwrap();
    assert_eq!((again.is_replay, again.puts), (true, first.puts));
}

#[test]
fn another_request_with_the_same_key_is_refused() {
    let queues = Queues::in_memory();
    put(&queues, "k").unwrap();
    let conflict = Err(Error::IdempotencyConflict { key: "k".into() });
    let other = key("k").fingerprint(*b"other");
    assert_eq!(queues.put_once(other.clone(), [NewJob::new("q", "x")]).wait(), conflict);
    assert_eq!(queues.put_once(other, []).wait(), conflict);
    assert_eq!(pending(&queues), 1);
    for (bad, field) in [
        (IdempotencyKey::new(""), "idempotency_key"),
        (IdempotencyKey::new("x".repeat(256)), "idempotency_key"),
        (IdempotencyKey::new("k").fingerprint([0; 65]), "idempotency_key.fingerprint"),
    ] {
        let error = queues.put_once(bad, [NewJob::new("q", "x")]).wait().unwrap_err();
        assert!(matches!(&error, Error::Invalid { field: found, .. } if found == field), "{error}");
    }
}

#[test]
fn a_put_without_any_job_leaves_no_key() {
    let rig = Rig::new();
    rig.queues().put(NewJob::new("q", "held").key("a").delay(seconds(9))).wait().unwrap();
    let reject = || NewJob::new("q", "x").key("a").on_conflict(OnConflict::Reject);
    let refused = rig.queues().put_once(key("k"), [reject()]).wait().unwrap();
    assert!(matches!(refused.puts[..], [Err(Error::KeyExists { .. })]));
    assert_eq!(rows(&rig.disk), (0, 0));
    rig.queues().cancel(("q", "a")).wait().unwrap();
    let put = rig.queues().put_once(key("k"), [reject()]).wait().unwrap();
    assert!(put.puts[0].is_ok() && !put.is_replay);
}

#[test]
fn a_key_is_forgotten_when_it_expires() {
    let mut rig = Rig::new();
    for number in 0..2_500 {
        put(rig.queues(), &format!("key {number}")).unwrap();
    }
    let late = put(rig.queues(), "late").unwrap();
    assert_eq!(rows(&rig.disk), (2_501, 2_501));
    rig.clock.advance(seconds(DAY - 1));
    assert!(put(rig.queues(), "late").unwrap().is_replay);
    rig.closed(|_| {});
    rig.clock.advance(seconds(2));
    let again = put(rig.queues(), "late").unwrap();
    assert!(!again.is_replay && again.puts != late.puts);
    // Keys expire in steps; each answer follows a commit.
    while rows(&rig.disk) != (1, 1) {
        rig.queues().stats().wait().unwrap();
    }
    rig.closed(|_| {});
    assert!(put(rig.queues(), "late").unwrap().is_replay);
    rig.clock.advance(seconds(2 * DAY));
    while rows(&rig.disk) != (0, 0) {
        rig.queues().stats().wait().unwrap();
    }
}

#[test]
fn a_key_may_live_for_another_time() {
    let rig = Rig::new();
    let put = |key: IdempotencyKey| rig.queues().put_once(key, [NewJob::new("q", "x")]).wait();
    put(key("long").lifetime(Duration::MAX)).unwrap();
    put(key("short").lifetime(seconds(1))).unwrap();
    rig.clock.advance(seconds(5));
    assert!(!put(key("short")).unwrap().is_replay);
    rig.clock.advance(seconds(1_000 * DAY));
    assert!(put(key("long")).unwrap().is_replay);
}

#[test]
fn a_hundred_tasks_with_one_key_put_one_job() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    let queues = Queues::in_memory();
    let answers = runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..100 {
            let queues = queues.clone();
            tasks.spawn(async move {
                queues.put_once(key("k"), [NewJob::new("q", "x")]).await.unwrap()
            });
        }
        tasks.join_all().await
    });
    assert_eq!(answers.iter().filter(|answer| !answer.is_replay).count(), 1);
    assert!(answers.iter().all(|answer| answer.puts == answers[0].puts));
    assert_eq!(pending(&queues), 1);
}

/// After a failed commit it is unknown whether the put happened; repeating it is safe.
#[test]
fn a_put_whose_commit_failed_can_be_repeated() {
    let disk = FaultyDisk::default();
    let queues = Queues::builder().open_disk(disk.clone()).unwrap();
    for round in 0..50_u64 {
        let name = format!("key {round}");
        disk.fail_commits(1);
        assert!(matches!(put(&queues, &name), Err(Error::Failed(_))));
        let put_again = loop {
            match put(&queues, &name) {
                Err(Error::Unavailable(_) | Error::Failed(_)) => {}
                answer => break answer.unwrap(),
            }
        };
        assert_eq!(put(&queues, &name).unwrap().puts, put_again.puts);
        assert_eq!(pending(&queues), round + 1);
    }
}

#[test]
fn a_crash_keeps_the_key_with_its_jobs_or_neither() {
    let disk = MemoryDisk::new();
    let mut answers = Vec::new();
    for round in 0..20 {
        let queues = Queues::builder().open_disk(disk.clone()).unwrap();
        for (earlier, answer) in answers.iter().enumerate() {
            let again = put(&queues, &format!("key {earlier}")).unwrap();
            assert_eq!((again.is_replay, &again.puts), (true, answer));
        }
        assert_eq!(pending(&queues), answers.len() as u64);
        answers.push(put(&queues, &format!("key {round}")).unwrap().puts);
        disk.crash();
    }
}

#[test]
fn salvaging_keeps_keys_and_drops_halves_of_them() {
    let mut rig = Rig::new();
    let first = put(rig.queues(), "whole").unwrap();
    put(rig.queues(), "without expiry").unwrap();
    put(rig.queues(), "without results").unwrap();
    rig.salvaged(|rows| {
        rows.retain(|(table, row), _| {
            let ends_with = |text: &[u8]| *table == Table::Index && row.ends_with(text);
            !(ends_with(b"without expiry") && row[0] == 13
                || ends_with(b"without results") && row[0] == 12)
        });
    });
    assert_eq!(rows(&rig.disk), (2, 2));
    assert_eq!(put(rig.queues(), "whole").unwrap().puts, first.puts);
    assert!(put(rig.queues(), "without expiry").unwrap().is_replay);
    assert!(!put(rig.queues(), "without results").unwrap().is_replay);
}
