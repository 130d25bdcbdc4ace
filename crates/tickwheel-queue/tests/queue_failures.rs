//! Failing disks: only durable operations are acknowledged, and nothing durable is lost.

mod rig;

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rig::faulty::FaultyDisk;
use rig::{Rig, millis, seconds};
use tickwheel_queue::store::{MemoryDisk, Table};
use tickwheel_queue::{
    Durability, Error, JobId, Keep, Lease, Limit, Limits, List, NewJob, QueueSettings, Queues,
    Retention, Retry, State, Time,
};

fn put(queues: &Queues, name: &str) -> Result<JobId, Error> {
    queues.put(NewJob::new("q", name.to_owned())).wait().map(|put| put.id)
}

#[test]
fn after_a_failed_write_nothing_is_acknowledged_until_the_store_is_open_again() {
    let rig = Rig::new();
    put(rig.queues(), "before").unwrap();
    rig.disk.fail_commits_after(Some(0));
    rig.disk.fail_opening(true);
    assert!(matches!(put(rig.queues(), "lost"), Err(Error::Failed(_))));
    for _ in 0..3 {
        assert!(matches!(put(rig.queues(), "refused"), Err(Error::Unavailable(_))));
        assert!(matches!(rig.queues().stats().wait(), Err(Error::Unavailable(_))));
        let page = rig.queues().list(List::of("q")).wait();
        assert!(matches!(page, Err(Error::Unavailable(_))));
        rig.clock.advance(seconds(1));
    }
    rig.disk.fail_commits_after(None);
    rig.disk.fail_opening(false);
    rig.clock.advance(seconds(2));
    while matches!(put(rig.queues(), "after"), Err(Error::Unavailable(_))) {
        rig.clock.advance(seconds(1));
    }
    assert_eq!(rig.names(), ["before", "after"]);
    assert_eq!(rig.queues().stats().wait().unwrap().failures, 1);
}

#[test]
fn a_failed_sync_fails_everybody_in_the_group_and_waiting_workers_are_told() {
    let rig = Rig::new();
    put(rig.queues(), "before").unwrap();
    rig.names();
    rig.disk.fail_syncs(true);
    rig.disk.fail_opening(true);
    std::thread::scope(|scope| {
        let queues = rig.queues();
        let worker = scope.spawn(|| queues.reserve_within("none", 1, None, seconds(999)).wait());
        let putters: Vec<_> = (0..8).map(|_| scope.spawn(|| put(queues, "x"))).collect();
        for putter in putters {
            let error = putter.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::Failed(_) | Error::Unavailable(_)), "{error}");
        }
        assert!(matches!(worker.join().unwrap(), Err(Error::Unavailable(_))));
    });
}

#[test]
fn a_sweep_whose_step_fails_does_not_go_on_behind_what_was_lost() {
    const JOBS: u64 = 2_000;
    let disk = FaultyDisk::default();
    let queues = Queues::builder().open_disk(disk.clone()).unwrap();
    let retention = Retention { cancelled: Keep::FOREVER, ..Retention::default() };
    let settings = QueueSettings { retention, ..QueueSettings::default() };
    queues.configure("q", settings).wait().unwrap();
    let job = |number: u64| NewJob::new("q", number.to_string()).delay(seconds(3_600));
    queues.put_all((0..JOBS).map(job)).wait().unwrap();
    let count = |state: State| {
        let info = queues.queue("q").wait().unwrap().unwrap();
        if state == State::Scheduled { info.scheduled } else { info.cancelled }
    };

    disk.fail_commits(1);
    let drained = queues.drain("q").wait();
    assert!(matches!(drained, Err(Error::Failed(_))), "{drained:?}");
    assert_eq!(count(State::Scheduled), JOBS);
    assert_eq!(queues.drain("q").wait(), Ok(JOBS));

    disk.fail_commits(1);
    let purge = || queues.purge("q", State::Cancelled, Time::MAX).wait();
    assert!(matches!(purge(), Err(Error::Failed(_))));
    assert_eq!(count(State::Cancelled), JOBS);
    assert_eq!(purge(), Ok(JOBS));
    assert_eq!((count(State::Scheduled), count(State::Cancelled)), (0, 0));
}

/// The reserve is for all commands except puts: the first such command that finds the disk full
/// succeeds.
#[test]
fn what_finds_the_disk_full_first_is_done_with_the_reserve() {
    /// Runs `act` on queues with two ready jobs, a leased one and a dead one.
    fn on_a_full_disk(act: impl FnOnce(&Queues, &[JobId], Lease)) {
        let disk = FaultyDisk::default();
        let queues = Queues::builder().open_disk(disk.clone()).unwrap();
        let ids: Vec<_> = (0..4).map(|_| put(&queues, "job").unwrap()).collect();
        let leases = queues.reserve("q", 2, None).wait().unwrap();
        queues.fail(leases[1].lease, "no", Retry::Never).wait().unwrap();
        disk.fill_for(1);
        act(&queues, &ids, leases[0].lease);
        assert!(disk.openings().pop().unwrap().lean, "it found the disk full");
    }
    on_a_full_disk(|queues, _, _| {
        assert!(matches!(put(queues, "no room"), Err(Error::DiskFull { .. })));
    });
    on_a_full_disk(|queues, ids, _| {
        queues.cancel(ids[3]).wait().unwrap();
        assert_eq!(queues.get(ids[3]).wait(), Ok(None));
    });
    on_a_full_disk(|queues, ids, _| {
        let jobs = queues.reserve("q", 9, None).wait().unwrap();
        assert_eq!(jobs.iter().map(|job| job.job.id).collect::<Vec<_>>(), ids[2..]);
    });
    on_a_full_disk(|queues, _, lease| queues.ack(lease).wait().unwrap());
    on_a_full_disk(|queues, _, lease| {
        assert_eq!(queues.fail(lease, "no", Retry::Never).wait(), Ok(State::Dead));
    });
    on_a_full_disk(|queues, _, _| {
        assert_eq!(queues.purge("q", State::Dead, Time::MAX).wait(), Ok(1));
    });
    on_a_full_disk(|queues, _, _| assert_eq!(queues.drain("q").wait(), Ok(2)));
}

/// Once the reserve is used up, commands are refused instead of being retried for ever.
#[test]
fn what_finds_the_reserve_used_up_is_refused() {
    let disk = FaultyDisk::default();
    let queues = Queues::builder().open_disk(disk.clone()).unwrap();
    let id = put(&queues, "job").unwrap();
    disk.fill_for(2);
    let cancelled = queues.cancel(id).wait();
    assert!(matches!(cancelled, Err(Error::DiskFull { .. })), "{cancelled:?}");
    queues.cancel(id).wait().unwrap();
}

#[test]
fn a_worker_keeps_waiting_while_the_disk_is_full() {
    let disk = FaultyDisk::default();
    let queues = Queues::builder().open_disk(disk.clone()).unwrap();
    let id = queues.put(NewJob::new("q", "later").delay(seconds(3_600))).wait().unwrap().id;
    let mut waits = queues.reserve_within("q", 1, None, seconds(3_600));
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut waits).poll(&mut context).is_pending());
    disk.fill_for(1);
    queues.reschedule(id, Duration::ZERO).wait().unwrap();
    assert_eq!(waits.wait().unwrap().len(), 1);
}

#[test]
fn salvaging_is_for_the_one_opening_that_was_asked_for() {
    let disk = FaultyDisk::default();
    let queues = Queues::builder().salvage(true).open_disk(disk.clone()).unwrap();
    disk.fail_commits(1);
    assert!(matches!(put(&queues, "lost"), Err(Error::Failed(_))));
    put(&queues, "after").unwrap();
    let openings: Vec<_> =
        disk.openings().iter().map(|opening| (opening.salvage, opening.after_failure)).collect();
    assert_eq!(openings, [(true, false), (false, true)]);
}

#[test]
fn rows_that_could_not_be_read_once_are_read_again() {
    let clock = tickwheel::ManualClock::new();
    clock.set_wall(std::time::SystemTime::UNIX_EPOCH + seconds(1_700_000_000));
    let disk = FaultyDisk::default();
    let builder = Queues::builder().horizon(seconds(1)).clock(clock.clone());
    let queues = builder.open_disk(disk.clone()).unwrap();
    let put = |name: &'static str| {
        queues.put(NewJob::new("q", name).delay(seconds(10))).wait().unwrap();
    };
    let reserve = || queues.reserve("q", 1, None).wait();
    put("for one who asks");
    disk.fail_scans(true);
    clock.advance(seconds(10));
    let error = reserve().unwrap_err();
    assert!(matches!(error, Error::Unreadable(_)), "{error}");
    disk.fail_scans(false);
    clock.advance(seconds(1));
    assert_eq!(reserve().unwrap()[0].job.payload, "for one who asks");

    // A waiting worker does not notice the failed scan.
    put("for one who waits");
    let mut worker = std::pin::pin!(queues.reserve_within("q", 1, None, seconds(999)));
    let mut poll = || {
        let polled = worker.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        // After this answer, the writer has handled all that the poll started.
        queues.stats().wait().unwrap();
        polled
    };
    assert!(poll().is_pending());
    disk.fail_scans(true);
    clock.advance(seconds(10));
    assert!(poll().is_pending());
    disk.fail_scans(false);
    let jobs = loop {
        if let Poll::Ready(jobs) = poll() {
            break jobs.unwrap();
        }
        clock.advance(seconds(1));
    };
    assert_eq!(jobs[0].job.payload, "for one who waits");

    // The failed scan is also repeated after the clock is set back.
    put("for later");
    disk.fail_scans(true);
    clock.advance(seconds(10));
    assert!(reserve().is_err());
    disk.fail_scans(false);
    clock.set_wall(clock.wall() - seconds(3_600));
    assert_eq!(reserve(), Ok(Vec::new()));
    clock.advance(seconds(3_600));
    assert_eq!(reserve().unwrap()[0].job.payload, "for later");
}

/// Backpressure: the inbox never holds more than its limit, however long the disk is slow.
#[test]
fn what_waits_for_a_slow_disk_is_bounded() {
    const MIB: usize = 1 << 20;
    // The MiB that may wait, and those of one group commit.
    const WAITING: usize = 64;
    const GROUP: usize = 17;
    let disk = FaultyDisk::default();
    let queues = Queues::builder().open_disk(disk.clone()).unwrap();
    disk.close_gate();
    let payload = bytes::Bytes::from(vec![0; MIB - 1_000]);
    let mut puts: Vec<_> =
        (0..200).map(|_| Box::pin(queues.put(NewJob::new("q", payload.clone())))).collect();
    let mut context = Context::from_waker(Waker::noop());
    let mut poll_all = || {
        puts.retain_mut(|put| put.as_mut().poll(&mut context).is_pending());
        let is_sent = |put: &&Pin<Box<_>>| format!("{put:?}").contains("\"sent\"");
        (puts.iter().filter(is_sent).count(), puts.len())
    };
    poll_all();
    let mut unanswered = Vec::new();
    loop {
        disk.await_commit();
        let (sent, left) = poll_all();
        if sent == left {
            break;
        }
        unanswered.push(sent);
        disk.let_one_pass();
    }
    disk.open_gate();
    let bounds = WAITING - 2..=WAITING + GROUP;
    assert!(unanswered.len() > 5, "{unanswered:?}");
    assert!(unanswered.iter().all(|sent| bounds.contains(sent)), "{unanswered:?}");
    while poll_all().1 > 0 {
        std::thread::yield_now();
    }
    assert_eq!(queues.stats().wait().unwrap().pending, 200);
}

#[test]
fn what_was_acknowledged_survives_any_number_of_failures() {
    let rig = Rig::new();
    let mut kept = Vec::new();
    for round in 0..50_u64 {
        rig.disk.fail_commits_after(Some(round % 7));
        for number in 0..10 {
            if let Ok(id) = put(rig.queues(), &format!("{round}-{number}")) {
                kept.push(id);
            }
        }
        rig.disk.fail_commits_after(None);
        rig.clock.advance(seconds(2));
        while rig.queues().stats().wait().is_err() {
            rig.clock.advance(seconds(1));
        }
    }
    assert!(kept.len() > 100);
    for id in &kept {
        assert!(rig.queues().get(*id).wait().unwrap().is_some());
    }
    // No other job exists: a failed group commit leaves no trace on this disk.
    assert_eq!(rig.queues().stats().wait().unwrap().pending, kept.len() as u64);
}

#[test]
fn durability_decides_what_a_power_failure_takes() {
    let put_and_crash = |durability| {
        let mut rig = Rig::with(Queues::builder().durability(durability));
        let id = put(rig.queues(), "job").unwrap();
        rig.crash();
        rig.queues().get(id).wait().unwrap().is_some()
    };
    assert!(put_and_crash(Durability::Sync));
    assert!(!put_and_crash(Durability::None));
    assert!(!put_and_crash(Durability::Interval(seconds(60))));
}

#[test]
fn an_interval_syncs_in_the_end() {
    let disk = MemoryDisk::new();
    let builder = Queues::builder().durability(Durability::Interval(millis(5)));
    let queues = builder.open_disk(disk.clone()).unwrap();
    for number in 0..50 {
        put(&queues, &number.to_string()).unwrap();
    }
    while disk.syncs() == 0 {
        std::thread::sleep(millis(1));
    }
    assert!(disk.syncs() < 50);
}

#[test]
fn callers_share_syncs() {
    const CALLERS: u64 = 16;
    const PUTS: u64 = 200;
    let disk = MemoryDisk::new();
    let queues = Queues::builder().open_disk(disk.clone()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| assert!((0..PUTS).all(|_| put(&queues, "").is_ok())));
        }
    });
    assert_eq!(queues.stats().wait().unwrap().pending, CALLERS * PUTS);
    assert!(disk.syncs() < CALLERS * PUTS / 2, "{} syncs", disk.syncs());
}

#[test]
fn a_damaged_job_is_reported_and_the_rest_is_served() {
    let mut rig = Rig::new();
    let ids: Vec<JobId> =
        (0..5).map(|number| put(rig.queues(), &number.to_string()).unwrap()).collect();
    let key = |id: JobId| (Table::Jobs, id.as_bytes().to_vec().into());
    rig.disk.tamper(|rows| {
        rows.insert(key(ids[1]), b"garbage"[..].into());
        rows.remove(&key(ids[3]));
    });
    rig.restart();
    let found = rig.queues().get(ids[1]).wait();
    assert!(matches!(found, Err(Error::Damaged { id, .. }) if id == ids[1]));
    let damaged = rig.queues().list(List::of("q")).wait().unwrap().damaged;
    assert_eq!(damaged, [ids[1], ids[3]]);
    assert_eq!(rig.names(), ["0", "2", "4"]);
    assert_eq!(rig.queues().stats().wait().unwrap().damaged, 2);
    let info = rig.queues().queue("q").wait().unwrap().unwrap();
    assert_eq!((info.ready, info.dead), (0, 2));
    assert_eq!(rig.queues().purge("q", State::Dead, Time::MAX).wait(), Ok(2));
}

#[test]
fn damage_of_everything_is_not_taken_for_that_of_each_job() {
    for is_missing in [false, true] {
        let mut rig = Rig::new();
        let jobs = (0..1_500).map(|number: u32| NewJob::new("q", number.to_string()));
        rig.queues().put_all(jobs).wait().unwrap();
        rig.closed(|rig| {
            rig.disk.tamper(|rows| {
                if is_missing {
                    rows.retain(|(table, _), _| *table != Table::Jobs);
                }
                let records = rows.iter_mut().filter(|((table, _), _)| *table == Table::Jobs);
                records.for_each(|(_, record)| *record = b"garbage"[..].into());
            });
        });
        let error = rig.queues().reserve("q", 10, None).wait().unwrap_err();
        assert!(error.to_string().contains("salvage"), "{error}");
        let info = rig.queues().queue("q").wait().unwrap().unwrap();
        assert_eq!((info.dead, info.ready), (1_000, 500));
        assert_eq!(rig.queues().stats().wait().unwrap().damaged, 1_000);
        // Salvaging counts every job that is lost.
        rig.salvaged(|_| {});
        let damaged = rig.queues().stats().wait().unwrap().damaged;
        assert_eq!(damaged, if is_missing { 1_500 } else { 0 });
    }
}

#[test]
fn an_async_caller_is_answered_on_any_runtime() {
    let queues = Queues::in_memory();
    let work = async || -> Result<(), Error> {
        let id = queues.put(NewJob::new("q", "hello").delay(millis(5))).await?.id;
        assert_eq!(queues.get(id).await?.unwrap().id, id);
        assert_eq!(queues.list(List::of("q")).await?.jobs.len(), 1);
        let jobs = queues.reserve_within("q", 5, None, seconds(30)).await?;
        assert_eq!(jobs.len(), 1);
        queues.ack(jobs[0].lease).await
    };
    let single = tokio::runtime::Builder::new_current_thread().build().unwrap();
    single.block_on(work()).unwrap();
    let many = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    many.block_on(work()).unwrap();
}

#[test]
fn many_threads_put_reserve_and_ack_with_exact_accounts() {
    const PRODUCERS: usize = 4;
    const WORKERS: usize = 4;
    const JOBS: usize = 1_000;
    let queues = Queues::in_memory();
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let queues = &queues;
            scope.spawn(move || {
                for number in 0..JOBS {
                    let name = (producer * JOBS + number).to_string();
                    let delay = Duration::from_millis(number as u64 % 3);
                    queues.put(NewJob::new("q", name).delay(delay)).wait().unwrap();
                }
            });
        }
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while done.lock().unwrap().len() < PRODUCERS * JOBS {
                    let jobs = queues.reserve_within("q", 7, None, millis(20)).wait().unwrap();
                    let acks = queues.ack_all(jobs.iter().map(|job| job.lease)).wait().unwrap();
                    assert!(acks.iter().all(Result::is_ok));
                    let mut done = done.lock().unwrap();
                    done.extend(jobs.iter().map(|job| job.job.payload.clone()));
                }
            });
        }
    });
    let done = done.into_inner().unwrap();
    let mut done: Vec<usize> =
        done.iter().map(|name| String::from_utf8_lossy(name).parse().unwrap()).collect();
    done.sort_unstable();
    assert!(done.into_iter().eq(0..PRODUCERS * JOBS));
    assert_eq!(queues.stats().wait().unwrap().pending, 0);
}

#[test]
fn a_full_disk_refuses_puts_and_lets_work_go_on() {
    let limits = Limits { disk: 100_000, ..Limits::default() };
    let queues = Queues::builder().limits(limits).in_memory().unwrap();
    let put = || queues.put(NewJob::new("q", vec![0; 1_000])).wait();
    let again = || queues.put(NewJob::new("q", vec![0; 1_000]).key("first")).wait();
    again().unwrap();
    let error = std::iter::repeat_with(put).find_map(Result::err).unwrap();
    assert!(matches!(error, Error::OverLimit { limit: Limit::Disk, .. }), "{error}");
    // A put that would replace a job is refused as well.
    let error = again().unwrap_err();
    assert!(matches!(error, Error::OverLimit { limit: Limit::Disk, .. }), "{error}");
    loop {
        let jobs = queues.reserve("q", 1_000, None).wait().unwrap();
        if jobs.is_empty() {
            break;
        }
        queues.ack_all(jobs.iter().map(|job| job.lease)).wait().unwrap();
    }
    // The next check of the disk notices the free space.
    while put().is_err() {
        std::thread::sleep(millis(10));
    }
}
