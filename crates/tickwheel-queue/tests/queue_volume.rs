//! The directory of an open queue disappears, and another one takes its place. The queue opens only
//! its own store again, and creates nothing.

#![cfg(unix)]

mod folder;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tickwheel_queue::{Durability, Error, JobId, NewJob, Queues};

use folder::copy;

/// The limit after which a test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);

struct Volume {
    _folder: tempfile::TempDir,
    data: PathBuf,
    aside: PathBuf,
}

impl Volume {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (data, aside) = (folder.path().join("data"), folder.path().join("aside"));
        Self { _folder: folder, data, aside }
    }

    fn unmount(&self) {
        fs::rename(&self.data, &self.aside).unwrap();
    }

    fn mount(&self) {
        fs::rename(&self.aside, &self.data).unwrap();
    }
}

fn put(queues: &Queues) -> Result<JobId, Error> {
    queues.put(NewJob::new("q", "payload")).wait().map(|put| put.id)
}

/// Puts jobs until a put is refused with an error that contains this text.
fn await_refusal(queues: &Queues, reason: &str) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        match put(queues) {
            Err(Error::Unavailable(why)) if why.contains(reason) => return why,
            Err(Error::Unavailable(_) | Error::Failed(_)) => {}
            other => panic!("{other:?} instead of {reason:?}"),
        }
        assert!(Instant::now() < until, "no refusal with {reason:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn await_recovery(queues: &Queues) -> JobId {
    let until = Instant::now() + PATIENCE;
    loop {
        match put(queues) {
            Ok(id) => return id,
            Err(Error::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
        assert!(Instant::now() < until, "it does not recover");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn only_the_store_that_was_open_is_opened_again() {
    let volume = Volume::new();
    let queues = Queues::open(&volume.data).unwrap();
    let mut ids = vec![put(&queues).unwrap()];
    drop(queues);
    let copies = tempfile::tempdir().unwrap();
    copy(&volume.data, &copies.path().join("older"));
    drop(Queues::open(copies.path().join("other")).unwrap());
    let id = fs::read_to_string(volume.data.join("FORMAT")).unwrap();
    let id = id.lines().last().unwrap().strip_prefix("id ").unwrap().to_owned();

    let queues = Queues::open(&volume.data).unwrap();
    ids.extend((0..10).map(|_| put(&queues).unwrap()));
    let commits = 11;
    volume.unmount();
    let why = await_refusal(&queues, "found no directory");
    for part in [volume.data.to_str().unwrap(), &id, &format!("commit {commits}"), "Mount"] {
        assert!(why.contains(part), "{part:?} is not in {why:?}");
    }
    assert!(!volume.data.exists(), "nothing was created");

    fs::create_dir(&volume.data).unwrap();
    await_refusal(&queues, "found an empty directory");
    assert_eq!(fs::read_dir(&volume.data).unwrap().count(), 0, "nothing was created");
    fs::remove_dir(&volume.data).unwrap();

    copy(&copies.path().join("other"), &volume.data);
    await_refusal(&queues, "found another store");
    fs::remove_dir_all(&volume.data).unwrap();

    copy(&copies.path().join("older"), &volume.data);
    await_refusal(&queues, "an older copy of it, which ends with commit 1");
    fs::remove_dir_all(&volume.data).unwrap();

    volume.mount();
    ids.push(await_recovery(&queues));
    for id in &ids {
        assert!(queues.get(*id).wait().unwrap().is_some(), "{id} is lost");
    }
    drop(queues);
    let queues = Queues::open(&volume.data).unwrap();
    assert!(ids.iter().all(|id| queues.get(*id).wait().unwrap().is_some()));
}

#[test]
fn a_directory_that_is_gone_is_noticed_without_a_durable_commit() {
    let volume = Volume::new();
    let builder = Queues::builder().durability(Durability::None);
    let queues = builder.open(&volume.data).unwrap();
    let id = put(&queues).unwrap();
    volume.unmount();
    let until = Instant::now() + PATIENCE;
    while queues.stats().wait().is_ok() {
        assert!(Instant::now() < until, "it is not noticed");
        std::thread::sleep(Duration::from_millis(20));
    }
    volume.mount();
    await_recovery(&queues);
    assert!(queues.get(id).wait().unwrap().is_some());
}

#[test]
fn a_directory_of_an_earlier_version_is_given_an_id_once() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
    let folder = tempfile::tempdir().unwrap();
    copy(&fixture, folder.path());
    let format = || fs::read_to_string(folder.path().join("FORMAT")).unwrap();
    assert_eq!(format(), "tickwheel queue, format 1\n");
    drop(Queues::open(folder.path()).unwrap());
    let with_id = format();
    assert_eq!(with_id.lines().count(), 2, "{with_id}");
    drop(Queues::open(folder.path()).unwrap());
    assert_eq!(format(), with_id);
}
