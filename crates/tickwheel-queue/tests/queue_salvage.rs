//! The number of jobs that a salvage counts as lost when parts of the journals are unreadable.

mod folder;

use std::fs;
use std::path::Path;
use std::time::Duration;

use tickwheel_queue::store::{Directory, Disk, StoreOptions};
use tickwheel_queue::{JobId, NewJob, OpenError, Queues};

use folder::{find, journals};

/// The number of jobs in one commit.
const BATCH: usize = 7;

/// Puts batches of jobs; the payload of a job names its batch.
fn put(queues: &Queues, batches: std::ops::Range<usize>) -> Vec<JobId> {
    let mut ids = Vec::new();
    for batch in batches {
        let payload = |job| format!("batch {batch} job {job} {}", "x".repeat(300));
        let jobs = (0..BATCH).map(|job| NewJob::new("q", payload(job)));
        let jobs = jobs.map(|job| job.delay(Duration::from_secs(900)));
        ids.extend(queues.put_all(jobs).wait().unwrap().into_iter().map(|put| put.unwrap().id));
    }
    ids
}

/// Flips a bit of the first journal that contains a text, this many bytes after its start.
fn flip(folder: &Path, text: &str, offset: isize) {
    let path = journals(folder).pop().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let place = find(&bytes, text).checked_add_signed(offset).unwrap();
    bytes[place] ^= 0x10;
    fs::write(&path, bytes).unwrap();
}

/// Salvages, and returns how many of the jobs remain and how many are counted as damaged.
fn salvage(folder: &Path, ids: &[JobId]) -> (usize, u64) {
    let error = Queues::open(folder).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    let queues = Queues::builder().salvage(true).open(folder).unwrap();
    let present = ids.iter().filter(|&&id| queues.get(id).wait().unwrap().is_some()).count();
    (present, queues.stats().wait().unwrap().damaged)
}

fn filled(batches: usize) -> (tempfile::TempDir, Vec<JobId>) {
    let folder = tempfile::tempdir().unwrap();
    let ids = put(&Queues::open(folder.path()).unwrap(), 0..batches);
    (folder, ids)
}

#[test]
fn jobs_of_an_unreadable_part_in_the_middle_are_counted() {
    let (folder, ids) = filled(5);
    flip(folder.path(), "batch 2 job 3", 30);
    assert_eq!(salvage(folder.path(), &ids), (4 * BATCH, BATCH as u64));
}

/// The first byte of an item is its type. If it is damaged, the rest of the batch cannot be parsed.
#[test]
fn jobs_are_counted_where_the_structure_of_a_batch_is_lost() {
    for batch in [2, 4] {
        let (folder, ids) = filled(5);
        for offset in 30..90 {
            flip(folder.path(), &format!("batch {batch} job 1"), -offset);
        }
        assert_eq!(salvage(folder.path(), &ids), (4 * BATCH, BATCH as u64), "batch {batch}");
    }
}

#[test]
fn jobs_of_an_acknowledged_end_are_counted() {
    let (folder, ids) = filled(5);
    flip(folder.path(), "batch 4 job 3", 30);
    assert_eq!(salvage(folder.path(), &ids), (4 * BATCH, BATCH as u64));
}

#[test]
fn jobs_of_several_parts_are_counted() {
    let (folder, ids) = filled(9);
    for batch in [1, 4, 5, 8] {
        flip(folder.path(), &format!("batch {batch} job 3"), 30);
    }
    assert_eq!(salvage(folder.path(), &ids), (5 * BATCH, 4 * BATCH as u64));
}

/// The file with the end of the last commit was written by an earlier version.
#[test]
fn jobs_of_the_end_are_counted_without_the_number_of_the_last_put() {
    let (folder, ids) = filled(5);
    let note = folder.path().join("acknowledged");
    let bytes = fs::read(&note).unwrap();
    fs::write(&note, &bytes[..16]).unwrap();
    flip(folder.path(), "batch 4 job 3", 30);
    assert_eq!(salvage(folder.path(), &ids), (4 * BATCH, BATCH as u64));
}

#[test]
fn jobs_that_are_in_a_table_already_are_not_lost() {
    let (folder, mut ids) = filled(5);
    // Writes the rows to tables; they also stay in the journal.
    Directory::new(folder.path()).open(&StoreOptions::default()).unwrap().compact().unwrap();
    ids.extend(put(&Queues::open(folder.path()).unwrap(), 5..8));
    flip(folder.path(), "batch 2 job 3", 30);
    flip(folder.path(), "batch 6 job 3", 30);
    assert_eq!(salvage(folder.path(), &ids), (7 * BATCH, BATCH as u64));
}

#[test]
fn the_jobs_of_all_journals_are_counted() {
    let (folder, mut ids) = filled(5);
    Directory::new(folder.path()).open(&StoreOptions::default()).unwrap().compact().unwrap();
    ids.extend(put(&Queues::open(folder.path()).unwrap(), 5..8));
    for path in journals(folder.path()) {
        fs::remove_file(path).unwrap();
    }
    assert_eq!(salvage(folder.path(), &ids), (5 * BATCH, 3 * BATCH as u64));
}
