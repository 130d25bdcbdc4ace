//! Inspection of a directory: it finds damage, and changes no file.

mod folder;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use folder::{copy, files, find, journals};
use tickwheel_queue::store::{Directory, StoreError};
use tickwheel_queue::{NewJob, Queues};

const JOBS: u64 = 200;

/// Returns a directory as a killed process leaves it: a copy taken while the queue is open.
fn directory() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let queues = Queues::builder().reserve(16 << 20).open(folder.path().join("open")).unwrap();
    for number in 0..JOBS {
        let job = NewJob::new("q", format!("payload {number:03}"));
        queues.put(job.delay(Duration::from_secs(600))).wait().unwrap();
    }
    copy(&folder.path().join("open"), &folder.path().join("killed"));
    assert_eq!(Directory::new(folder.path().join("open")).inspect(), Err(StoreError::Locked));
    drop(queues);
    folder
}

/// Returns all files, without the preallocated zeroes at the end of journals.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let read = |path: PathBuf| {
        let mut bytes = fs::read(&path).unwrap();
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |place| place + 1);
        bytes.truncate(end);
        (path, bytes)
    };
    files(folder).into_iter().map(read).collect()
}

#[track_caller]
fn assert_same(before: &BTreeMap<PathBuf, Vec<u8>>, folder: &Path) {
    let after = contents(folder);
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(before), names(&after));
    for (path, bytes) in before {
        assert!(after[path] == *bytes, "{} has changed", path.display());
    }
}

#[test]
fn a_whole_directory_is_read_and_stays_as_it_is() {
    let folder = directory();
    for name in ["open", "killed"] {
        let path = folder.path().join(name);
        let before = contents(&path);
        let found = Directory::new(&path).inspect().unwrap();
        assert_eq!((found.jobs, found.is_complete, &found.damage[..]), (JOBS, true, &[][..]));
        assert!(found.rows > found.jobs && found.id.is_some() && !found.needs_upgrade);
        assert_eq!(found.reserve, 16 << 20);
        assert_same(&before, &path);
    }
}

#[test]
fn a_flipped_byte_is_found_and_left_alone() {
    let folder = directory();
    let path = folder.path().join("killed");
    let journal = journals(&path).pop().unwrap();
    let mut bytes = fs::read(&journal).unwrap();
    let place = find(&bytes, "payload 100");
    bytes[place] ^= 1;
    fs::write(&journal, bytes).unwrap();
    let before = contents(&path);
    let found = Directory::new(&path).inspect().unwrap();
    assert!(!found.damage.is_empty() && !found.is_complete);
    assert!(found.damage[0].contains(journal.to_str().unwrap()), "{:?}", found.damage);
    assert_same(&before, &path);
}

#[test]
fn a_directory_of_the_first_format_is_not_upgraded() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
    copy(&fixture, folder.path());
    let before = contents(folder.path());
    let found = Directory::new(folder.path()).inspect().unwrap();
    assert!(found.needs_upgrade && found.damage.is_empty() && !found.is_complete, "{found:?}");
    assert_same(&before, folder.path());
}

#[test]
fn something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let inspect = || Directory::new(folder.path()).inspect();
    assert!(matches!(inspect(), Err(StoreError::NotAQueue(_))));
    fs::write(folder.path().join("FORMAT"), "tickwheel queue, format 9\n").unwrap();
    assert_eq!(inspect(), Err(StoreError::NewerVersion { found: 9, known: 2 }));
}
