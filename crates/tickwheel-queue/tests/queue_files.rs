//! Deletes and truncates every file of a data directory in turn. Each time, either opening fails
//! with the name of the file and a remedy, or all jobs are there. No job is lost silently.

mod folder;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tickwheel_queue::store::{Directory, Disk, StoreOptions};
use tickwheel_queue::{JobId, NewJob, OpenError, Queues, Time};

use folder::{copy, cut_zeroes, files, journals};

fn put(queues: &Queues, jobs: usize) -> BTreeSet<JobId> {
    let job = |number| NewJob::new("q", format!("{number}")).at(Time::from_millis(number as u64));
    let puts = queues.put_all((0..jobs).map(job)).wait().unwrap();
    puts.into_iter().map(|put| put.unwrap().id).collect()
}

/// Returns a directory with all jobs in the journal.
fn with_a_journal(folder: &Path) -> BTreeSet<JobId> {
    let queues = Queues::open(folder).unwrap();
    (0..5).flat_map(|_| put(&queues, 20)).collect()
}

/// Returns a directory with some jobs in tables and some in the journal.
fn with_tables(folder: &Path) -> BTreeSet<JobId> {
    let mut ids = with_a_journal(folder);
    Directory::new(folder).open(&StoreOptions::default()).unwrap().compact().unwrap();
    let queues = Queues::open(folder).unwrap();
    ids.extend(put(&queues, 20));
    ids
}

/// Returns a directory with all jobs in tables, whose last commits changed only the index.
fn with_tables_alone(folder: &Path) -> BTreeSet<JobId> {
    let ids = with_a_journal(folder);
    Directory::new(folder).open(&StoreOptions::default()).unwrap().compact().unwrap();
    ids
}

/// Returns a directory with three journals; only the jobs of one are in tables.
fn with_journals(folder: &Path) -> BTreeSet<JobId> {
    let queues = Queues::open(folder).unwrap();
    let payload = vec![7; 1 << 20];
    let mut ids = BTreeSet::new();
    while journals(folder).len() < 2 {
        let job = NewJob::new("q", payload.clone()).at(Time::from_millis(1));
        ids.insert(queues.put(job).wait().unwrap().id);
    }
    ids.extend(put(&queues, 20));
    ids
}

/// Cuts off zeroes of journals and the reserve, which would only take time to copy.
fn shorten(folder: &Path) {
    fs::write(folder.join("reserve"), [0; 1_000]).unwrap();
    for path in journals(folder) {
        cut_zeroes(&path);
    }
}

/// Returns all delivered jobs, and the number of parts that were reported as damaged.
fn delivered(queues: &Queues) -> (BTreeSet<JobId>, u64) {
    let mut all = BTreeSet::new();
    loop {
        let jobs = queues.reserve("q", 500, Duration::from_secs(900)).wait().unwrap();
        if jobs.is_empty() {
            return (all, queues.stats().wait().unwrap().damaged);
        }
        all.extend(jobs.iter().map(|job| job.job.id));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Delete,
    Empty,
    Halve,
}

fn change(path: &Path, change: Change) {
    let bytes = fs::read(path).unwrap();
    match change {
        Change::Delete => fs::remove_file(path).unwrap(),
        Change::Empty => fs::write(path, b"").unwrap(),
        Change::Halve => fs::write(path, &bytes[..bytes.len() / 2]).unwrap(),
    }
}

/// Changes each file in turn. Returns the changes that were refused.
fn check_every_file(make: fn(&Path) -> BTreeSet<JobId>) -> Vec<(String, Change)> {
    let original = tempfile::tempdir().unwrap();
    let ids = make(original.path());
    shorten(original.path());
    check_files(&original, &ids, files(original.path()))
}

fn check_files(
    original: &tempfile::TempDir,
    ids: &BTreeSet<JobId>,
    files: Vec<PathBuf>,
) -> Vec<(String, Change)> {
    let mut refused = Vec::new();
    for file in files {
        let file = file.strip_prefix(original.path()).unwrap();
        for how in [Change::Delete, Change::Empty, Change::Halve] {
            let folder = tempfile::tempdir().unwrap();
            copy(original.path(), folder.path());
            change(&folder.path().join(file), how);
            let what = format!("{} {how:?}", file.display());
            if !check(folder.path(), file, ids, &what) {
                refused.push((file.display().to_string(), how));
                // The refusal changed nothing: with the file restored, all jobs are there.
                fs::copy(original.path().join(file), folder.path().join(file)).unwrap();
                let queues =
                    Queues::open(folder.path()).unwrap_or_else(|why| panic!("{what}: {why}"));
                assert_eq!(delivered(&queues), (ids.clone(), 0), "{what}");
                // Salvaging reports what it leaves out.
                drop(queues);
                fs::remove_dir_all(folder.path()).unwrap();
                copy(original.path(), folder.path());
                change(&folder.path().join(file), how);
                check_salvage(folder.path(), file, ids, &what);
            }
        }
    }
    refused
}

/// Opens a directory twice. Returns `false` if it was refused.
fn check(folder: &Path, file: &Path, ids: &BTreeSet<JobId>, what: &str) -> bool {
    match Queues::open(folder) {
        Ok(queues) => {
            assert_eq!(delivered(&queues), (ids.clone(), 0), "{what}");
            true
        }
        Err(error) => {
            assert!(matches!(error, OpenError::Damaged { .. }), "{what}: {error}");
            let text = error.to_string();
            let name = file.file_name().unwrap().to_string_lossy();
            let is_named =
                text.contains(&*name) || name.ends_with(".jnl") && text.contains("*.jnl");
            assert!(is_named, "{what}: {text}");
            assert!(text.contains("salvage") && text.contains("copy"), "{what}: {text}");
            assert_eq!(Queues::open(folder).err(), Some(error), "{what}: refused once only");
            false
        }
    }
}

fn check_salvage(folder: &Path, file: &Path, ids: &BTreeSet<JobId>, what: &str) {
    match Queues::builder().salvage(true).open(folder) {
        Ok(queues) => {
            for queue in queues.queues().wait().unwrap() {
                queues.resume(queue.name).wait().unwrap();
            }
            let (found, damaged) = delivered(&queues);
            assert!(found.is_subset(ids), "{what}");
            assert!(found == *ids || damaged > 0, "{what}: {} of {}", found.len(), ids.len());
            drop(queues);
            Queues::open(folder).unwrap_or_else(|why| panic!("{what}: {why}"));
        }
        Err(error) => {
            let (text, name) = (error.to_string(), file.file_name().unwrap().to_string_lossy());
            assert!(text.contains("nothing can be salvaged"), "{what}: {text}");
            assert!(text.contains(&*name), "{what}: {text}");
        }
    }
}

#[test]
fn no_file_of_a_store_with_a_journal_is_missed_in_silence() {
    let refused = check_every_file(with_a_journal);
    for name in ["FORMAT", "store/1.jnl", "store/version", "store/keyspaces/1/current"] {
        for how in [Change::Delete, Change::Empty, Change::Halve] {
            assert!(refused.contains(&(name.to_owned(), how)), "{name} {how:?}: {refused:?}");
        }
    }
}

#[test]
fn no_file_of_a_store_with_tables_is_missed_in_silence() {
    check_every_file(with_tables);
}

#[test]
fn no_file_of_a_store_with_tables_alone_is_missed_in_silence() {
    check_every_file(with_tables_alone);
}

#[test]
fn no_journal_of_several_is_missed_in_silence() {
    let original = tempfile::tempdir().unwrap();
    let ids = with_journals(original.path());
    shorten(original.path());
    // The tests above cover the other files.
    let refused = check_files(&original, &ids, journals(original.path()));
    for name in ["store/1.jnl", "store/2.jnl"] {
        assert!(refused.contains(&(name.to_owned(), Change::Delete)), "{name}: {refused:?}");
    }
}

/// Removes the list of journals, which is written when a store is closed, from `acknowledged`.
fn forget_the_close(folder: &Path) {
    let path = folder.join("acknowledged");
    let mut bytes = fs::read(&path).unwrap();
    bytes[24..40].fill(u8::MAX);
    let checksum = xxhash_rust::xxh3::xxh3_64(&bytes[..56]);
    bytes[56..].copy_from_slice(&checksum.to_be_bytes());
    fs::write(path, bytes).unwrap();
}

/// A store that was not closed properly has no list of its journals.
#[test]
fn the_oldest_of_several_journals_is_missed_after_a_crash() {
    let crashed = tempfile::tempdir().unwrap();
    let ids = with_journals(crashed.path());
    shorten(crashed.path());
    forget_the_close(crashed.path());
    let salvaged = tempfile::tempdir().unwrap();
    copy(crashed.path(), salvaged.path());

    let oldest = journals(crashed.path()).remove(0);
    let bytes = fs::read(&oldest).unwrap();
    fs::remove_file(&oldest).unwrap();
    let error = Queues::open(crashed.path()).unwrap_err().to_string();
    assert!(error.contains(oldest.to_str().unwrap()) && error.contains("salvage"), "{error}");
    fs::write(&oldest, bytes).unwrap();
    assert_eq!(delivered(&Queues::open(crashed.path()).unwrap()), (ids.clone(), 0));

    fs::remove_file(journals(salvaged.path()).remove(0)).unwrap();
    let queues = Queues::builder().salvage(true).open(salvaged.path()).unwrap();
    let is_there = |id: &&JobId| queues.get(**id).wait().unwrap().is_some();
    let lost = ids.len() - ids.iter().filter(is_there).count();
    assert_eq!(queues.stats().wait().unwrap().damaged, lost.max(1) as u64);
}
