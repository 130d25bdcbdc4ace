//! A small file system that tests fill.
//!
//! The test runs in a mount namespace of its own, so that nothing stays mounted, even after a
//! failure.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tickwheel_queue::{Error, JobId, Limit, Limits, List, NewJob, Queues, State, Time};

use crate::unix::allocated;

/// The limit after which a test fails instead of hanging.
const HANG: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;

struct Volume {
    folder: tempfile::TempDir,
}

impl Volume {
    fn new(mebibytes: u64) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let size = format!("size={mebibytes}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "none"]).arg(folder.path());
        let status = mount.status().expect("mount");
        assert!(status.success(), "no tmpfs could be mounted");
        Self { folder }
    }

    fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("queue")
    }

    /// Fills the file system with another file, except for `but` bytes.
    fn fill(&self, but: u64) {
        let path = self.folder.path().join("filler");
        let file = File::options().append(true).create(true).open(path).expect("a file");
        let found = rustix::fs::statvfs(self.folder.path()).expect("statvfs");
        let free = found.f_bavail * found.f_frsize;
        let length = file.metadata().expect("a file").len();
        let more = free.saturating_sub(but);
        if more > 0 {
            let flags = rustix::fs::FallocateFlags::empty();
            rustix::fs::fallocate(&file, flags, length, more).expect("room for the filler");
        }
    }

    fn empty(&self) {
        std::fs::remove_file(self.folder.path().join("filler")).expect("the filler");
    }

    fn has_reserve(&self) -> bool {
        self.data().join("reserve").exists()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(self.folder.path()).status());
    }
}

/// Returns a payload that cannot be compressed.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let step = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..bytes).map(step).collect()
}

fn put(queues: &Queues, bytes: usize) -> Result<JobId, Error> {
    queues.put(NewJob::new("q", noise(bytes))).wait().map(|put| put.id)
}

/// Repeats an operation until it succeeds.
fn until_ok<T>(mut attempt: impl FnMut() -> Result<T, Error>) -> T {
    let end = Instant::now() + HANG;
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) => assert!(Instant::now() < end, "still refused: {error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn assert_readable(queues: &Queues, kept: &[JobId]) {
    for id in kept {
        let job = queues.get(*id).wait().expect("a read on a full disk");
        assert!(job.is_some(), "{id} is lost");
    }
    assert!(!queues.list(List::of("q")).wait().expect("a list").jobs.is_empty());
    let stats = queues.stats().wait().expect("stats");
    assert!(stats.pending as usize >= kept.len());
    assert_eq!(queues.queues().wait().expect("queues").len(), 1);
}

fn assert_full<T: std::fmt::Debug>(answer: &Result<T, Error>) {
    assert!(matches!(answer, Err(Error::DiskFull { .. })), "{answer:?} on a full disk");
}

/// Another file fills the disk to the last byte while jobs are put.
pub(crate) fn filled_by_others() {
    let volume = Volume::new(160);
    let queues = Queues::open(volume.data()).expect("it opens");
    assert!(volume.has_reserve());
    let mut kept: Vec<JobId> = (0..60).map(|_| put(&queues, 100_000).expect("room")).collect();
    volume.fill(0);
    // The first puts may still fit into the last block of the journal.
    let refused = (0..9).find_map(|_| match put(&queues, 100_000) {
        Ok(id) => {
            kept.push(id);
            None
        }
        Err(error) => Some(error),
    });
    assert_full::<()>(&Err(refused.expect("no room")));
    assert!(!volume.has_reserve(), "the reserve is released");
    assert_readable(&queues, &kept);
    assert_full(&put(&queues, 10));

    // All operations except puts work.
    let jobs = queues.reserve("q", 10, None).wait().expect("a reserve");
    assert_eq!(jobs.len(), 10);
    let acks = queues.ack_all(jobs.iter().map(|job| job.lease)).wait().expect("acks");
    assert!(acks.iter().all(Result::is_ok));
    kept.retain(|id| jobs.iter().all(|job| job.job.id != *id));
    queues.cancel(kept.remove(0)).wait().expect("a cancel");
    queues.purge("q", State::Dead, Time::MAX).wait().expect("a purge");
    assert_readable(&queues, &kept);

    // A process that starts on the full disk can read as well.
    drop(queues);
    volume.fill(0);
    let queues = Queues::open(volume.data()).expect("it opens on a full disk");
    assert_readable(&queues, &kept);
    assert_full(&queues.cancel(kept[0]).wait());
    assert_full(&queues.reserve("q", 1, None).wait());
    assert_full(&put(&queues, 10));

    // Once there is room again, everything works.
    volume.empty();
    queues.cancel(until_ok(|| queues.get(kept[0]).wait()).expect("a job").id).wait().ok();
    kept.push(until_ok(|| put(&queues, 100_000)));
    until_ok(|| volume.has_reserve().then_some(()).ok_or(Error::Closed));
    kept.remove(0);
    assert_readable(&queues, &kept);
    drop(queues);
    let queues = Queues::open(volume.data()).expect("it opens");
    assert_readable(&queues, &kept);
}

/// A process that starts on a full disk with its reserve intact can acknowledge jobs.
pub(crate) fn started_full() {
    let volume = Volume::new(120);
    let queues = Queues::open(volume.data()).expect("it opens");
    let kept: Vec<JobId> = (0..9).map(|_| put(&queues, 1_000).expect("room")).collect();
    drop(queues);
    volume.fill(0);
    let queues = Queues::open(volume.data()).expect("it opens on a full disk");
    assert!(!volume.has_reserve());
    assert_readable(&queues, &kept);
    assert_full(&put(&queues, 10));
    assert_eq!(queues.drain("q").wait().expect("a drain"), 9);
}

/// Reads keep working after a workload has used up the reserve.
pub(crate) fn reserve_used_up() {
    let volume = Volume::new(120);
    let queues = Queues::builder().reserve(16 << 20).open(volume.data()).expect("it opens");
    let jobs = (0..5_000).map(|_| NewJob::new("q", "").delay(HANG));
    let puts = queues.put_all(jobs).wait().expect("a batch");
    let kept: Vec<JobId> = puts.into_iter().map(|put| put.expect("room").id).collect();
    volume.fill(0);
    assert_full(&until_err(|| put(&queues, 100_000)));
    let error = until_err(|| {
        let later = kept.iter().map(|id| (*id, 10 * HANG));
        queues.reschedule_all(later).wait().map(drop)
    });
    assert_full(&error);
    assert_readable(&queues, &kept);
    let failures = queues.stats().wait().expect("stats").failures;
    for _ in 0..20 {
        assert_full(&queues.cancel(kept[0]).wait());
    }
    assert_readable(&queues, &kept);
    assert_eq!(queues.stats().wait().expect("stats").failures, failures, "nothing is tried");
    volume.empty();
    until_ok(|| queues.cancel(kept[0]).wait());
    until_ok(|| put(&queues, 100_000));
}

fn until_err<T>(mut attempt: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    std::iter::repeat_with(&mut attempt).find(Result::is_err).expect("endless")
}

/// Puts alone never fill a disk: they are refused while there is still room to process the existing
/// jobs.
pub(crate) fn filled_by_puts() {
    let volume = Volume::new(200);
    let queues = Queues::open(volume.data()).expect("it opens");
    let mut kept = Vec::new();
    let error = loop {
        match put(&queues, 1_000_000) {
            Ok(id) => kept.push(id),
            Err(error) => break error,
        }
    };
    assert_full::<()>(&Err(error));
    assert!(kept.len() > 30, "{} jobs on 200 MiB", kept.len());
    assert!(volume.has_reserve());
    assert_eq!(queues.stats().wait().expect("stats").failures, 0);
    assert_readable(&queues, &kept);
    assert_eq!(queues.drain("q").wait().expect("a drain"), kept.len() as u64);
    until_ok(|| put(&queues, 1_000_000));
}

/// The space of removed jobs is freed even if they are few among many small ones, or if an earlier
/// process removed them.
pub(crate) fn few_large_jobs() {
    let volume = Volume::new(200);
    let queues = Queues::open(volume.data()).expect("it opens");
    let small = (0..5_000).map(|_| NewJob::new("q", "").delay(HANG));
    queues.put_all(small).wait().expect("a batch");
    for round in 0..2 {
        let mut large = Vec::new();
        let error = loop {
            match put(&queues, 1_000_000) {
                Ok(id) => large.push(id),
                Err(error) => break error,
            }
        };
        assert_full::<()>(&Err(error));
        assert!(large.len() > 20, "{} jobs in round {round}", large.len());
        queues.cancel_all(large).wait().expect("cancels");
        until_ok(|| put(&queues, 1_000_000).and_then(|id| queues.cancel(id).wait()));
    }
    let mut large = Vec::new();
    while let Ok(id) = put(&queues, 1_000_000) {
        large.push(id);
    }
    queues.cancel_all(large).wait().expect("cancels");
    drop(queues);
    let queues = Queues::open(volume.data()).expect("it opens");
    until_ok(|| put(&queues, 1_000_000));
    assert_eq!(queues.stats().wait().expect("stats").failures, 0);
}

/// The data on disk stays below the limit, however much is put.
pub(crate) fn limited() {
    const LIMIT: u64 = 256 * MIB;
    let folder = tempfile::tempdir().expect("a folder");
    let limits = Limits { disk: LIMIT, ..Limits::default() };
    let queues = Queues::builder().limits(limits).open(folder.path()).expect("it opens");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let most = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                most = most.max(size(folder.path())).max(allocated(folder.path()));
                std::thread::sleep(Duration::from_millis(5));
            }
            most
        });
        for round in 0..3 {
            let payload = if round == 1 { 2_000 } else { 900_000 };
            let batch = || (0..20).map(|_| NewJob::new("q", noise(payload)));
            let error = loop {
                let puts = queues.put_all(batch()).wait().expect("a batch");
                if let Some(error) = puts.into_iter().find_map(Result::err) {
                    break error;
                }
            };
            assert!(matches!(error, Error::OverLimit { limit: Limit::Disk, .. }), "{error}");
            queues.drain("q").wait().expect("a drain");
            until_ok(|| put(&queues, 900_000));
        }
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        watch.join().expect("a watch")
    });
    assert!(most < LIMIT + 4 * MIB, "{} MiB on disk", most / MIB);
    println!("limit of {} MiB: {} MiB at most", LIMIT / MIB, most / MIB);
}

/// Returns the bytes of all files, including holes.
fn size(folder: &Path) -> u64 {
    let Ok(entries) = folder.read_dir() else { return 0 };
    let sizes = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let file = entry.metadata().ok()?;
        Some(if file.is_dir() { size(&entry.path()) } else { file.len() })
    });
    sizes.sum()
}
