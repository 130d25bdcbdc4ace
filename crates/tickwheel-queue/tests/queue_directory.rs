//! The directory on disk: locking, damage, and directories of older versions.

mod folder;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tickwheel_queue::cron::Misfire;
use tickwheel_queue::{
    Error, FollowUp, GroupList, GroupPatch, IdempotencyKey, JobId, Keep, Limit, Limits, List,
    NewJob, NewSchedule, OnConflict, OpenError, Order, Pacing, QueueSettings, Queues, Retention,
    Retry, RetryPolicy, SettingsPatch, State, Time, Timing,
};

use folder::{copy, cut_zeroes, find, journals};

fn put(queues: &Queues, count: usize) -> Vec<JobId> {
    (0..count)
        .map(|number| {
            let job = NewJob::new("q", format!("job {number} {}", "x".repeat(500)));
            queues.put(job.key(number.to_string())).wait().unwrap().id
        })
        .collect()
}

fn present(queues: &Queues, ids: &[JobId]) -> usize {
    ids.iter().filter(|&&id| queues.get(id).wait().unwrap().is_some()).count()
}

/// Returns the journal that is written to.
fn journal(folder: &Path) -> PathBuf {
    journals(folder).pop().unwrap()
}

#[test]
fn what_was_put_is_there_after_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let queues = Queues::open(folder.path()).unwrap();
    let ids = put(&queues, 100);
    queues.cancel(("q", "7")).wait().unwrap();
    drop(queues);
    let queues = Queues::open(folder.path()).unwrap();
    assert_eq!(present(&queues, &ids), 99);
    assert_eq!(queues.get(("q", "8")).wait().unwrap().unwrap().id, ids[8]);
    assert_eq!(queues.get(("q", "7")).wait().unwrap(), None);
}

#[test]
fn a_directory_is_opened_by_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let queues = Queues::open(folder.path()).unwrap();
    let error = Queues::open(folder.path()).unwrap_err();
    assert_eq!(error, OpenError::Locked { path: folder.path().into() });
    assert!(error.to_string().contains("open already"), "{error}");
    drop(queues);
    Queues::open(folder.path()).unwrap();
}

#[test]
fn a_foreign_or_newer_directory_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("letter.txt"), "dear").unwrap();
    let error = Queues::open(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::NotAQueue { .. }), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

    let folder = tempfile::tempdir().unwrap();
    drop(Queues::open(folder.path()).unwrap());
    fs::write(folder.path().join("FORMAT"), "tickwheel queue, format 3\n").unwrap();
    let error = Queues::open(folder.path()).unwrap_err();
    let path = folder.path().into();
    assert_eq!(error, OpenError::NewerVersion { path, found: 3, known: 2 });
    fs::write(folder.path().join("FORMAT"), "\0\0\0").unwrap();
    assert!(matches!(Queues::open(folder.path()), Err(OpenError::Damaged { .. })));
    fs::remove_dir_all(folder.path().join("store")).unwrap();
    assert!(matches!(Queues::open(folder.path()), Err(OpenError::NotAQueue { .. })));
}

#[test]
fn what_cannot_be_written_is_said() {
    // Not even root can write there.
    let path = Path::new("/sys/tickwheel-queue-test");
    let error = Queues::open(path).unwrap_err();
    assert!(matches!(&error, OpenError::Io { path: found, .. } if found == path), "{error}");
    // The path is that of a file.
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(matches!(Queues::open(file.path()), Err(OpenError::Io { .. })));
}

#[test]
fn a_torn_end_that_nobody_was_told_of_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let queues = Queues::open(folder.path()).unwrap();
    let ids = put(&queues, 20);
    drop(queues);
    // A crash in the middle of a write leaves the beginning of a batch at the end.
    let path = journal(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    let start = find(&bytes, "FJL\u{3}") + 4;
    let half: Vec<u8> = bytes[start..start + 40].to_vec();
    bytes[end..end + 40].copy_from_slice(&half);
    fs::write(&path, bytes).unwrap();
    let queues = Queues::open(folder.path()).unwrap();
    assert_eq!(present(&queues, &ids), 20);
    put(&queues, 1);
}

#[test]
fn the_draft_of_a_journal_does_not_stay() {
    let folder = tempfile::tempdir().unwrap();
    let queues = Queues::open(folder.path()).unwrap();
    let ids = put(&queues, 5);
    drop(queues);
    let draft = journal(folder.path()).with_extension("draft");
    fs::write(&draft, "the beginning of").unwrap();
    let queues = Queues::open(folder.path()).unwrap();
    assert_eq!(present(&queues, &ids), 5);
    assert!(!draft.exists());
}

#[test]
fn a_flipped_bit_is_found_before_anything_is_lost_and_the_rest_can_be_salvaged() {
    let folder = tempfile::tempdir().unwrap();
    let queues = Queues::open(folder.path()).unwrap();
    let ids = put(&queues, 20);
    drop(queues);
    let path = journal(folder.path());
    let whole = fs::read(&path).unwrap();
    let job = find(&whole, "job 10 ");
    // Flips a bit of the payload, which only a checksum detects, and one of the item's tag.
    for offset in [job + 3, job.saturating_sub(40)] {
        let mut bytes = whole.clone();
        bytes[offset] ^= 0x10;
        fs::write(&path, &bytes).unwrap();
        let error = Queues::open(folder.path()).unwrap_err();
        assert!(matches!(&error, OpenError::Damaged { .. }), "{error}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "nothing was changed");
    }
    let queues = Queues::builder().salvage(true).open(folder.path()).unwrap();
    assert_eq!(present(&queues, &ids), 19);
    assert_eq!(queues.get(ids[10]).wait().unwrap(), None);
    assert_eq!(queues.stats().wait().unwrap().damaged, 1);
    let kept = |name: &str| folder.path().join("damaged").join(name).exists();
    assert!(kept("1.jnl.0") && kept("store.0"));
    drop(queues);
    let queues = Queues::open(folder.path()).unwrap();
    assert_eq!(present(&queues, &ids), 19);
    assert_eq!(queues.stats().wait().unwrap().damaged, 0);
}

#[test]
fn a_journal_cut_short_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let queues = Queues::open(folder.path()).unwrap();
    let ids = put(&queues, 20);
    drop(queues);
    let path = journal(folder.path());
    let bytes = fs::read(&path).unwrap();
    let middle = find(&bytes, "job 10 ") + 100;
    fs::write(&path, &bytes[..middle]).unwrap();
    let error = Queues::open(folder.path()).unwrap_err();
    assert!(error.to_string().contains("acknowledged"), "{error}");
    let queues = Queues::builder().salvage(true).open(folder.path()).unwrap();
    assert_eq!(present(&queues, &ids), 10);
    // After a salvage, the end of the journal is recorded as acknowledged again.
    put(&queues, 1);
    drop(queues);
    Queues::open(folder.path()).unwrap();
}

/// The end of the journal was acknowledged, so a salvage must report every job of it that is lost.
#[test]
fn salvaging_keeps_counts_and_names_an_acknowledged_end() {
    let folder = tempfile::tempdir().unwrap();
    let queues = Queues::open(folder.path()).unwrap();
    let ids = put(&queues, 20);
    drop(queues);
    let path = journal(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    let last = find(&bytes, "job 19 ");
    bytes[last + 3] ^= 0x10;
    fs::write(&path, &bytes).unwrap();
    let error = Queues::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()) && error.contains("salvage"), "{error}");
    let queues = Queues::builder().salvage(true).open(folder.path()).unwrap();
    assert_eq!(present(&queues, &ids), 19);
    assert_eq!(queues.stats().wait().unwrap().damaged, 1);
    let kept = folder.path().join("damaged").join("1.jnl.0");
    assert_eq!(fs::read(kept).unwrap(), bytes, "the journal as it was");
    drop(queues);
    let queues = Queues::open(folder.path()).unwrap();
    assert_eq!(queues.stats().wait().unwrap().damaged, 0);
    assert_eq!(present(&queues, &ids), 19);
}

/// The states that a crash during a creation can leave.
#[test]
fn what_an_interrupted_creation_leaves_is_taken_for_new_or_completed() {
    let whole = tempfile::tempdir().unwrap();
    drop(Queues::open(whole.path()).unwrap());
    let check = |folder: &Path| {
        let queues = Queues::open(folder).unwrap_or_else(|error| panic!("{error}"));
        put(&queues, 1);
        drop(queues);
        let mut left: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.retain(|name| name != "reserve");
        left.sort();
        assert_eq!(left, ["FORMAT", "acknowledged", "store"]);
    };
    // Before `FORMAT` is written, any part of the new store may exist, in any length.
    let mut files = vec![PathBuf::new()];
    while let Some(file) = files.pop() {
        let path = whole.path().join("store").join(&file);
        if path.is_dir() {
            files.extend(path.read_dir().unwrap().map(|it| file.join(it.unwrap().file_name())));
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("new").join(&file);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        let bytes = fs::read(&path).unwrap();
        fs::write(&target, &bytes[..bytes.len().min(1_000) / 2]).unwrap();
        fs::write(folder.path().join("creating"), "").unwrap();
        fs::write(folder.path().join("FORMAT.draft"), "tickwh").unwrap();
        check(folder.path());
    }
    // After that, the new store is complete but still has its temporary name.
    let folder = tempfile::tempdir().unwrap();
    drop(Queues::open(folder.path()).unwrap());
    fs::rename(folder.path().join("store"), folder.path().join("new")).unwrap();
    fs::write(folder.path().join("creating"), "").unwrap();
    check(folder.path());
    // Earlier versions wrote `FORMAT` first, and created the store under its final name.
    for version in ["", "FJL", "FJL\u{3}"] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("FORMAT"), "tickwheel queue, format 1\n").unwrap();
        fs::create_dir_all(folder.path().join("store/keyspaces")).unwrap();
        fs::write(folder.path().join("store/lock"), "").unwrap();
        fs::write(folder.path().join("store/version"), version).unwrap();
        fs::write(folder.path().join("store/0.jnl"), [0; 100]).unwrap();
        check(folder.path());
    }
}

#[test]
fn a_store_that_is_missing_is_not_created_again() {
    let folder = tempfile::tempdir().unwrap();
    drop(Queues::open(folder.path()).unwrap());
    fs::remove_dir_all(folder.path().join("store")).unwrap();
    for salvages in [false, true] {
        let error = Queues::builder().salvage(salvages).open(folder.path()).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
        assert!(!folder.path().join("store").exists());
    }
}

#[test]
fn space_of_finished_jobs_comes_back() {
    use tickwheel_queue::store::{Directory, Disk, Persist, StoreOptions, Table, WriteBatch};
    let folder = tempfile::tempdir().unwrap();
    let store = Directory::new(folder.path()).open(&StoreOptions::default()).unwrap();
    let key = |number: u32| number.to_be_bytes();
    let mut batch = WriteBatch::new();
    for number in 0..40_000 {
        // These bytes do not compress.
        let value: Vec<u8> = (0..500_u32).map(|byte| ((byte * number) >> 3) as u8).collect();
        batch.put(Table::Jobs, &key(number), &value);
    }
    store.commit(&batch, Persist::Sync).unwrap();
    store.compact().unwrap();
    let full = tables(folder.path());
    assert!((0..40_000).all(|number| store.get(Table::Jobs, &key(number)).unwrap().is_some()));
    batch.clear();
    (0..40_000).for_each(|number| batch.remove(Table::Jobs, &key(number)));
    store.commit(&batch, Persist::Sync).unwrap();
    store.compact().unwrap();
    let empty = tables(folder.path());
    assert!(full > 15_000_000 && empty < full / 10, "{full} bytes before, {empty} after");
}

/// Few but large jobs: space is freed by size, not by the number of removed rows.
#[test]
fn a_disk_over_its_limit_has_room_again_when_jobs_are_worked_off() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let limits = Limits { disk: 160 << 20, ..Limits::default() };
        Queues::builder().limits(limits).open(folder.path()).unwrap()
    };
    // These bytes do not compress.
    let payload: Vec<u8> =
        (0..1_u32 << 20).map(|byte| (byte.wrapping_mul(byte) >> 7) as u8).collect();
    let put = |queues: &Queues| queues.put(NewJob::new("q", payload.clone())).wait();
    let fill_and_work_off = |queues: &Queues| {
        let error = std::iter::repeat_with(|| put(queues)).find_map(Result::err).unwrap();
        assert!(matches!(error, Error::OverLimit { limit: Limit::Disk, .. }), "{error}");
        loop {
            let jobs = queues.reserve("q", 100, None).wait().unwrap();
            if jobs.is_empty() {
                break;
            }
            queues.ack_all(jobs.iter().map(|job| job.lease)).wait().unwrap();
        }
    };
    let wait_for_room = |queues: &Queues| {
        let patience = Instant::now() + Duration::from_secs(60);
        while let Err(error) = put(queues) {
            assert!(Instant::now() < patience, "{error}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let queues = open();
    fill_and_work_off(&queues);
    wait_for_room(&queues);
    fill_and_work_off(&queues);
    drop(queues);
    // A new process, which does not know what was removed, frees the space as well.
    let queues = open();
    wait_for_room(&queues);
}

/// Returns the bytes of the tables, without the journals.
fn tables(folder: &Path) -> u64 {
    fn size(path: &Path) -> u64 {
        if path.is_dir() {
            fs::read_dir(path).unwrap().map(|entry| size(&entry.unwrap().path())).sum()
        } else {
            path.metadata().unwrap().len()
        }
    }
    size(&folder.join("store").join("keyspaces"))
}

/// A directory that version 0.1 wrote. It must stay readable for ever.
#[test]
fn the_directory_of_format_1_opens() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
    let folder = tempfile::tempdir().unwrap();
    copy(&fixture, folder.path());
    let queues = Queues::open(folder.path()).unwrap();
    check_fixture(&queues);
}

/// A directory of version 0.1 with schedules, which were added without a new format.
#[test]
fn the_directory_of_format_1_with_schedules_opens() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1-schedules");
    let folder = tempfile::tempdir().unwrap();
    copy(&fixture, folder.path());
    let queues = Queues::open(folder.path()).unwrap();
    check_schedules(&queues);
}

/// A directory that an early version of format 2 wrote. It must stay readable for ever.
#[test]
fn the_directory_of_format_2_opens() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-2");
    let folder = tempfile::tempdir().unwrap();
    copy(&fixture, folder.path());
    let queues = Queues::open(folder.path()).unwrap();
    check_format_2(&queues);
    check_fixture(&queues);
    drop(queues);
    check_format_2(&Queues::open(folder.path()).unwrap());
}

fn once() -> (IdempotencyKey, [NewJob; 1]) {
    let lifetime = Duration::from_secs(86_400 * 36_500);
    let job = NewJob::new("pushed", "once").group("g").at(Time::MAX);
    (IdempotencyKey::new("once").fingerprint("print").lifetime(lifetime), [job])
}

/// Adds data that format 1 could not hold.
fn add_format_2(queues: &Queues) {
    queues.put_target("partner", "definition").wait().unwrap();
    queues.put_target_state("partner", "state").wait().unwrap();
    let patch = SettingsPatch {
        target: Some(Some("partner".to_owned())),
        order: Some(Order::Priority),
        fair_groups: Some(true),
        ..SettingsPatch::default()
    };
    queues.patch_settings("pushed", patch).wait().unwrap();
    let (key, jobs) = once();
    queues.put_once(key, jobs).wait().unwrap();
    queues.patch_group("pushed", "g", GroupPatch::default().paused(true)).wait().unwrap();
    let retention = Retention { done: Keep::FOREVER, ..Retention::default() };
    let settings = QueueSettings { retention, ..QueueSettings::default() };
    queues.configure("results", settings).wait().unwrap();
    let job = NewJob::new("results", "x").key("r").on_success(FollowUp::to("next"));
    let id = queues.put(job).wait().unwrap().id;
    let worker = queues.as_worker("worker 1");
    let lease = worker.reserve("results", 1, None).wait().unwrap()[0].lease;
    queues.fail(lease, "not yet", Retry::After(Duration::ZERO)).wait().unwrap();
    let lease = worker.reserve("results", 1, None).wait().unwrap()[0].lease;
    assert_eq!(lease.id, id);
    queues.ack_with_result(lease, "42").wait().unwrap();
}

fn check_format_2(queues: &Queues) {
    let target = queues.target("partner").wait().unwrap().unwrap();
    assert_eq!((&target.definition[..], &target.state[..]), (&b"definition"[..], &b"state"[..]));
    let pushed = queues.queue("pushed").wait().unwrap().unwrap();
    assert_eq!((pushed.settings.order, pushed.settings.fair_groups), (Order::Priority, true));
    assert_eq!(pushed.settings.target.as_deref(), Some("partner"));
    let (key, jobs) = once();
    assert!(queues.put_once(key, jobs).wait().unwrap().is_replay);
    let groups = queues.groups(GroupList::of("pushed")).wait().unwrap().groups;
    assert_eq!((groups.len(), groups[0].waiting, groups[0].settings.paused), (1, 1, true));
    let done = &queues.list(List::of("results")).wait().unwrap().jobs[0];
    let done = queues.get(done.id).wait().unwrap().unwrap();
    assert_eq!((done.state, done.result.as_deref()), (State::Done, Some(&b"42"[..])));
    assert_eq!((done.history.len(), done.history[0].worker.as_deref()), (2, Some("worker 1")));
    let next = queues.list(List::of("next")).wait().unwrap().jobs;
    assert_eq!((next.len(), &next[0].payload[..]), (1, &b"42"[..]));
}

/// Writes the fixture again; see `tests/fixtures/README.md`.
#[test]
#[ignore = "writes the fixture of this version"]
fn write_the_fixture() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-2");
    fs::create_dir_all(&path).unwrap();
    let queues = Queues::builder().reserve(0).open(&path).unwrap();
    let retention =
        Retention { done: Keep::FOREVER, cancelled: Keep::FOREVER, ..Retention::default() };
    let settings = QueueSettings {
        lease: Duration::from_secs(86_400 * 36_500),
        max_attempts: 3,
        retention,
        pacing: Pacing::starts(100, Duration::from_secs(1)).concurrency(50),
        ..QueueSettings::default()
    };
    queues.configure("mail", settings).wait().unwrap();
    for name in ["done", "dead", "leased", "retried"] {
        let job = NewJob::new("mail", name).key(name).header("kind", name).priority(3);
        queues.put(job).wait().unwrap();
        let lease = queues.reserve("mail", 1, None).wait().unwrap()[0].lease;
        match name {
            "done" => queues.ack(lease).wait().unwrap(),
            "dead" => drop(queues.fail(lease, "no", Retry::Never).wait().unwrap()),
            "retried" => {
                let later = Retry::After(Duration::from_secs(86_400 * 36_500));
                queues.fail(lease, "busy", later).wait().unwrap();
            }
            _ => {}
        }
    }
    let retry = RetryPolicy::list([Duration::from_secs(1)]);
    let far = NewJob::new("mail", "far").key("far").group("g").retry(retry).at(Time::MAX);
    queues.put(far).wait().unwrap();
    queues.put(NewJob::new("mail", "gone").key("gone").at(Time::MAX)).wait().unwrap();
    queues.cancel(("mail", "gone")).wait().unwrap();
    queues.put(NewJob::new("paused", "ready")).wait().unwrap();
    queues.pause("paused").wait().unwrap();
    check_fixture(&queues);
    add_format_2(&queues);
    check_format_2(&queues);
    drop(queues);
    cut_zeroes(&journal(&path));
}

/// Writes the fixture with schedules again.
#[test]
#[ignore = "writes the fixture of this version"]
fn write_the_fixture_with_schedules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-2-schedules");
    fs::create_dir_all(&path).unwrap();
    let queues = Queues::open(&path).unwrap();
    for schedule in schedules() {
        queues.put_schedule(schedule).wait().unwrap();
    }
    queues.pause_schedule("yearly").wait().unwrap();
    check_schedules(&queues);
    drop(queues);
    cut_zeroes(&journal(&path));
}

/// Returns two schedules that are not due for a long time.
fn schedules() -> [NewSchedule; 2] {
    let job = NewJob::new("reports", "a report")
        .header("kind", "report")
        .key("report")
        .on_conflict(OnConflict::Keep)
        .group("g")
        .priority(-3)
        .max_attempts(7)
        .delay(Duration::from_secs(5));
    let yearly = Timing::cron("30 2 29 2 +SUN", "Europe/Berlin").unwrap();
    let period = Duration::from_secs(86_400 * 36_500);
    [
        NewSchedule::new("seldom", period, job.clone()).misfire(Misfire::All { limit: 9 }),
        NewSchedule::new("yearly", yearly, job).misfire(Misfire::Skip).grace(period),
    ]
}

fn check_schedules(queues: &Queues) {
    let found = queues.schedules().wait().unwrap();
    assert_eq!(found.len(), 2);
    for (found, schedule) in found.iter().zip(schedules()) {
        assert_eq!((&found.name, &found.timing), (&schedule.name, &schedule.timing));
        assert_eq!((&found.job, found.misfire), (&schedule.job, schedule.misfire));
        assert_eq!((found.grace, found.fired), (schedule.grace, 0));
        assert_eq!(found.paused, found.name == "yearly");
    }
    assert_eq!(queues.next_times("yearly", 2).wait().unwrap().len(), 2);
}

fn check_fixture(queues: &Queues) {
    let page = queues.list(List::of("mail")).wait().unwrap();
    let mut found: Vec<(String, State, u32)> = page
        .jobs
        .iter()
        .map(|job| (String::from_utf8_lossy(&job.payload).into(), job.state, job.attempts))
        .collect();
    found.sort();
    let expected = [
        ("dead", State::Dead, 1),
        ("done", State::Done, 1),
        ("far", State::Scheduled, 0),
        ("gone", State::Cancelled, 0),
        ("leased", State::Leased, 1),
        ("retried", State::Scheduled, 1),
    ];
    assert_eq!(found, expected.map(|(name, state, attempts)| (name.to_owned(), state, attempts)));
    let retried = queues.get(("mail", "retried")).wait().unwrap().unwrap();
    assert_eq!(retried.last_error.as_deref(), Some("busy"));
    assert_eq!(retried.headers, [("kind".to_owned(), "retried".to_owned())]);
    let info = queues.queue("mail").wait().unwrap().unwrap();
    assert_eq!((info.settings.max_attempts, info.leased, info.scheduled), (3, 1, 2));
    assert!(queues.queue("paused").wait().unwrap().unwrap().paused);
    assert!(queues.reserve("paused", 1, None).wait().unwrap().is_empty());
    queues.put(NewJob::new("paused", "another")).wait().unwrap();
}
