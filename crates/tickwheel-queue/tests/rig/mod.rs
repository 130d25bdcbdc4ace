//! Helpers that the tests of the queue share.

#![allow(dead_code, reason = "no test needs all of it")]

pub(crate) mod faulty;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tickwheel::ManualClock;
use tickwheel_queue::store::{Disk, MemoryDisk, Persist, StoreOptions, Table, WriteBatch};
use tickwheel_queue::{Builder, Delivery, JobId, NewJob, Queues, Time};

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The secret of every rig, from which a test can compute the ids of occurrences.
const SECRET: [u8; 16] = [7; 16];

/// Stores the secret on a new disk.
pub(crate) fn plant_secret(disk: &dyn Disk) {
    let store = disk.open(&StoreOptions::default()).expect("it opens");
    let mut batch = WriteBatch::new();
    batch.put(Table::Index, &[11], &SECRET);
    store.commit(&batch, Persist::Sync).expect("a commit");
}

/// Returns the id of the job that a schedule puts for an occurrence, on a disk with the secret.
pub(crate) fn occurrence_id(schedule: &str, time: Time) -> JobId {
    nth_occurrence_id(schedule, time, 0)
}

/// Returns the id that is used if the first `attempt` ids belong to other jobs.
#[allow(deprecated, reason = "the only SipHash with a key in the standard library")]
pub(crate) fn nth_occurrence_id(schedule: &str, time: Time, attempt: u32) -> JobId {
    use std::hash::{Hasher, SipHasher};
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&time.as_millis().to_be_bytes()[2..]);
    for (half, place) in [(0, 6..8), (1, 8..16)] {
        let key = u64::from_be_bytes([7; 8]);
        let mut hasher = SipHasher::new_with_keys(key, key);
        hasher.write(&time.as_millis().to_be_bytes());
        hasher.write(&attempt.to_be_bytes());
        hasher.write(&[half]);
        hasher.write(schedule.as_bytes());
        let length = place.len();
        bytes[place].copy_from_slice(&hasher.finish().to_be_bytes()[..length]);
    }
    bytes[6] = 0x80 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    JobId::from_bytes(bytes)
}

/// Queues on a disk in memory, with a clock that the test moves.
pub(crate) struct Rig {
    pub(crate) clock: ManualClock,
    pub(crate) disk: MemoryDisk,
    builder: Builder,
    queues: Option<Queues>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(Queues::builder())
    }

    pub(crate) fn with(builder: Builder) -> Self {
        let clock = ManualClock::new();
        clock.set_wall(SystemTime::UNIX_EPOCH + seconds(1_700_000_000));
        let builder = builder.clock(clock.clone());
        let disk = MemoryDisk::new();
        plant_secret(&disk);
        let mut rig = Self { clock, disk, builder, queues: None };
        rig.open();
        rig
    }

    fn open(&mut self) {
        let queues = self.builder.clone().open_disk(self.disk.clone());
        self.queues = Some(queues.expect("it opens"));
    }

    pub(crate) fn queues(&self) -> &Queues {
        self.queues.as_ref().expect("it is open")
    }

    pub(crate) fn restart(&mut self) {
        self.queues = None;
        self.open();
    }

    /// Calls `act` while the queues are closed.
    pub(crate) fn closed(&mut self, act: impl FnOnce(&Self)) {
        self.queues = None;
        act(self);
        self.open();
    }

    /// Changes the stored rows and opens the queues with salvage.
    pub(crate) fn salvaged(&mut self, tamper: impl FnOnce(&mut BTreeMap<(Table, Bytes), Bytes>)) {
        self.queues = None;
        self.disk.tamper(tamper);
        let queues = self.builder.clone().salvage(true).open_disk(self.disk.clone());
        self.queues = Some(queues.expect("it opens"));
    }

    /// Returns all stored rows.
    pub(crate) fn dump(&self) -> Vec<((Table, Bytes), Bytes)> {
        let mut dump = Vec::new();
        self.disk.tamper(|rows| dump.extend(rows.clone()));
        dump
    }

    pub(crate) fn crash(&mut self) {
        self.disk.crash();
        self.restart();
    }

    /// Puts a job; its payload is its name.
    pub(crate) fn put(&self, name: &str, delay: Duration) {
        self.queues().put(NewJob::new("q", name.to_owned()).delay(delay)).wait().expect("a put");
    }

    /// Reserves all ready jobs, at most `at_a_time` at once.
    pub(crate) fn take(&self, at_a_time: usize) -> Vec<Delivery> {
        let mut all = Vec::new();
        loop {
            let some = self.queues().reserve("q", at_a_time, seconds(60)).wait().expect("jobs");
            if some.is_empty() {
                return all;
            }
            all.extend(some);
        }
    }

    /// Reserves and acknowledges all ready jobs, and returns their payloads.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            let jobs = self.queues().reserve("q", 1_000, seconds(60)).wait().expect("jobs");
            if jobs.is_empty() {
                return names;
            }
            let acks = self.queues().ack_all(jobs.iter().map(|job| job.lease)).wait();
            assert!(acks.expect("acks").iter().all(Result::is_ok));
            let name = |job: &Delivery| String::from_utf8_lossy(&job.job.payload).into_owned();
            names.extend(jobs.iter().map(name));
        }
    }
}
