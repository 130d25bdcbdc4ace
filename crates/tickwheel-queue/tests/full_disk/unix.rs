//! The test itself.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tickwheel_queue::store::{Directory, Disk, Persist, StoreOptions, Table, WriteBatch};
use tickwheel_queue::{Error, JobId, NewJob, OpenError, Queues};

use crate::volume;

pub(crate) fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("child") {
        let only = std::env::args().nth(2);
        for (name, test) in TESTS {
            if only.as_ref().is_none_or(|only| name.contains(&**only)) {
                test();
                println!("{name}: ok");
            }
        }
        return ExitCode::SUCCESS;
    }
    let this = std::env::current_exe().expect("this program");
    // A program that a shell executes inherits ignored signals. A user other than root becomes root
    // in a user namespace.
    let shell = r#"trap "" XFSZ
        if [ "$(id -u)" = 0 ]; then exec unshare --mount "$@"; fi
        exec unshare --map-root-user --mount "$@""#;
    let mut child = Command::new("sh");
    child.arg("-c").arg(shell).arg("sh").arg(this).arg("child").args(std::env::args().skip(1));
    let status = child.status().expect("a shell");
    if status.success() {
        println!("full disk: nothing was lost");
        ExitCode::SUCCESS
    } else {
        eprintln!("error: the test of a full disk failed: {status}");
        ExitCode::FAILURE
    }
}

const TESTS: [(&str, fn()); 9] = [
    ("filled_by_others", volume::filled_by_others),
    ("started_full", volume::started_full),
    ("reserve_used_up", volume::reserve_used_up),
    ("filled_by_puts", volume::filled_by_puts),
    ("few_large_jobs", volume::few_large_jobs),
    ("limited", volume::limited),
    ("a_full_disk", a_full_disk),
    ("a_disk_too_small_to_begin_with", a_disk_too_small_to_begin_with),
    ("a_process_that_ends_after_a_failure", a_process_that_ends_after_a_failure),
];

/// Returns the bytes of the allocated blocks of all files.
pub(crate) fn allocated(folder: &Path) -> u64 {
    let Ok(entries) = folder.read_dir() else { return 0 };
    let sizes = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let file = entry.metadata().ok()?;
        Some(if file.is_dir() { allocated(&entry.path()) } else { file.blocks() * 512 })
    });
    sizes.sum()
}

/// Limits the size of files that this process writes.
fn limit(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).expect("a limit");
}

/// Puts jobs until a put fails.
fn put_until_refused(queues: &Queues, kept: &mut BTreeSet<JobId>) -> Error {
    loop {
        match queues.put(NewJob::new("q", vec![7; 100_000])).wait() {
            Ok(put) => drop(kept.insert(put.id)),
            Err(error) => return error,
        }
    }
}

fn a_full_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let queues = Queues::open(folder.path()).expect("it opens");
    let mut kept = BTreeSet::new();
    // The number of puts whose outcome is unknown.
    let mut unknown = 0;
    for size in [2_500_000, 9_900_000, 30_000_000] {
        limit(Some(size));
        let error = put_until_refused(&queues, &mut kept);
        assert!(matches!(error, Error::Failed(_)), "{error}");
        assert!(error.to_string().contains("File too large"), "{error}");
        unknown += 1;
        // While the disk is full, no put is acknowledged, and each error states the cause.
        let until = Instant::now() + Duration::from_millis(1_500);
        while Instant::now() < until {
            match queues.put(NewJob::new("q", vec![7; 100_000])).wait() {
                Err(Error::Unavailable(why)) => assert!(why.contains("File too large"), "{why}"),
                // The store was opened again, and the disk is still full.
                Err(Error::Failed(_)) => unknown += 1,
                other => panic!("{other:?} on a full disk"),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        limit(None);
        let back = loop {
            match queues.put(NewJob::new("q", "there is room again")).wait() {
                Err(Error::Unavailable(_)) => std::thread::sleep(Duration::from_millis(50)),
                answer => break answer.expect("it goes on"),
            }
        };
        kept.insert(back.id);
        assert_eq!(queues.stats().wait().expect("stats").failures, unknown);
        for id in &kept {
            assert!(queues.get(*id).wait().expect("readable").is_some(), "{id} is lost");
        }
    }
    drop(queues);
    let queues = Queues::open(folder.path()).expect("it opens again");
    let mut delivered = BTreeSet::new();
    loop {
        let jobs = queues.reserve("q", 100, None).wait().expect("jobs");
        if jobs.is_empty() {
            break;
        }
        delivered.extend(jobs.iter().map(|job| job.job.id));
        let acks = queues.ack_all(jobs.iter().map(|job| job.lease)).wait().expect("acks");
        assert!(acks.iter().all(Result::is_ok));
    }
    assert!(kept.is_subset(&delivered), "all that was acknowledged");
    assert!(delivered.len() as u64 <= kept.len() as u64 + unknown, "and nothing else");
}

fn a_disk_too_small_to_begin_with() {
    let folder = tempfile::tempdir().expect("a folder");
    limit(Some(1_000_000));
    let error = Queues::open(folder.path().join("q")).expect_err("there is no room");
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
    assert!(error.to_string().contains("File too large"), "{error}");
    limit(None);
    let queues = Queues::open(folder.path().join("q")).expect("it opens");
    queues.put(NewJob::new("q", "")).wait().expect("a put");
}

/// The next process does not trust data that may be only in the page cache: it writes the journals
/// into new files, once.
fn a_process_that_ends_after_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Directory::new(folder.path());
    let open = || disk.open(&StoreOptions::default()).expect("it opens");
    let journals = || {
        let entries = folder.path().join("store").read_dir().expect("a folder");
        let entries = entries.map(|entry| entry.expect("an entry"));
        let journals = entries.filter(|it| it.path().extension().is_some_and(|ext| ext == "jnl"));
        let numbers = journals.map(|journal| journal.metadata().expect("a file").ino());
        numbers.collect::<BTreeSet<u64>>()
    };
    let store = open();
    let mut batch = WriteBatch::new();
    batch.put(Table::Jobs, b"key", &vec![7; 100_000]);
    limit(Some(2_500_000));
    while store.commit(&batch, Persist::Sync).is_ok() {}
    limit(None);
    drop(store);
    let before = journals();
    drop(open());
    let after = journals();
    assert!(!after.is_empty() && before.is_disjoint(&after), "{before:?} and {after:?}");
    drop(open());
    assert_eq!(journals(), after, "it is done once");
}
