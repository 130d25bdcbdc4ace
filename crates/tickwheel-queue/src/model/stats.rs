//! What a queue has done so far, and how late it was.

use std::time::Duration;

use tickwheel::Histogram;

use crate::model::activity::{Activity, Lateness, Samples};
use crate::model::settings::QueueSettings;
use crate::model::time::{Now, Time};

/// How durable an answer is.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{Durability, Queues};
///
/// let queues = Queues::builder()
///     .durability(Durability::Interval(Duration::from_millis(100)))
///     .in_memory()?;
/// let stats = queues.stats().wait()?;
/// assert_eq!(stats.durability, Durability::Interval(Duration::from_millis(100)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// What is answered is on stable storage, and survives a power failure.
    #[default]
    Sync,
    /// What is answered survives the end of the process; a power failure may take what was
    /// answered within this time.
    Interval(Duration),
    /// What is answered survives the end of the process; when it reaches the disk is up to the
    /// operating system.
    None,
}

/// What happened since the queue was opened, and what is there now.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{NewJob, Queues};
///
/// let queues = Queues::in_memory();
/// queues.put(NewJob::new("mail", "hello")).wait()?;
/// queues.put(NewJob::new("mail", "later").delay(Duration::from_secs(60))).wait()?;
/// let stats = queues.stats().wait()?;
/// assert_eq!((stats.put, stats.pending, stats.queues), (2, 2, 1));
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// How durable an answer is.
    pub durability: Durability,
    /// How far ahead jobs are kept in memory.
    pub horizon: Duration,
    /// Queues.
    pub queues: u64,
    /// Schedules, those that cannot be read left out.
    pub schedules: u64,
    /// Jobs that are scheduled, ready or leased.
    pub pending: u64,
    /// Jobs that are leased.
    pub leased: u64,
    /// Jobs and leases that are in memory.
    pub in_memory: u64,
    /// Bytes on disk, as of a few seconds ago.
    pub disk: u64,
    /// Jobs put, those of schedules included.
    pub put: u64,
    /// Jobs put by schedules.
    pub fired: u64,
    /// Deliveries to workers.
    pub delivered: u64,
    /// Jobs acknowledged.
    pub acked: u64,
    /// Attempts that workers reported as failed.
    pub failed: u64,
    /// Leases that ran out.
    pub expired: u64,
    /// Jobs given back by workers.
    pub released: u64,
    /// Jobs that died.
    pub died: u64,
    /// Jobs cancelled or replaced.
    pub cancelled: u64,
    /// Dead jobs brought back.
    pub kicked: u64,
    /// Rows and jobs that could not be read since the opening, and what `salvage` left out.
    pub damaged: u64,
    /// Groups of commands that were committed.
    pub commits: u64,
    /// How often the store failed and was opened again.
    pub failures: u64,
    /// How long commits took, the sync included.
    pub commit_time: Histogram,
    /// By how much jobs were delivered after they were due. A job that waits for a worker counts
    /// as late.
    pub lateness: Histogram,
}

/// Counts of the engine.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) put: u64,
    pub(crate) fired: u64,
    pub(crate) delivered: u64,
    pub(crate) acked: u64,
    pub(crate) failed: u64,
    pub(crate) expired: u64,
    pub(crate) released: u64,
    pub(crate) died: u64,
    pub(crate) cancelled: u64,
    pub(crate) kicked: u64,
    pub(crate) damaged: u64,
    lateness: Histogram,
    /// The same in few buckets, of which samples are taken.
    coarse_lateness: Lateness,
    samples: Samples,
}

impl Tally {
    pub(crate) fn delivered(&mut self, now: Now, due: Time) {
        self.delivered += 1;
        let lateness = now.since(due);
        self.lateness.record(lateness);
        self.coarse_lateness.record(lateness);
    }

    /// Takes a sample of the counts from time to time. Called at the beginning of each group.
    pub(crate) fn sample(&mut self, now: Time) {
        let mut samples = std::mem::take(&mut self.samples);
        samples.take(now, || self.totals());
        self.samples = samples;
    }

    /// Returns what happened in a window that ends now.
    pub(crate) fn window(&self, now: Time, window: Duration) -> Activity {
        self.samples.window(now, window, &self.totals())
    }

    fn totals(&self) -> Activity {
        Activity {
            since: Time::default(),
            put: self.put,
            fired: self.fired,
            delivered: self.delivered,
            acked: self.acked,
            failed: self.failed,
            expired: self.expired,
            released: self.released,
            died: self.died,
            cancelled: self.cancelled,
            kicked: self.kicked,
            lateness: self.coarse_lateness.clone(),
        }
    }

    pub(crate) fn add_to(&self, stats: &mut Stats) {
        stats.put = self.put;
        stats.fired = self.fired;
        stats.delivered = self.delivered;
        stats.acked = self.acked;
        stats.failed = self.failed;
        stats.expired = self.expired;
        stats.released = self.released;
        stats.died = self.died;
        stats.cancelled = self.cancelled;
        stats.kicked = self.kicked;
        stats.damaged = self.damaged;
        stats.lateness = self.lateness.clone();
    }
}

/// A queue: its settings, and how many jobs it has.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{NewJob, Queues};
///
/// let queues = Queues::in_memory();
/// queues.put(NewJob::new("mail", "hello")).wait()?;
/// queues.put(NewJob::new("mail", "later").delay(Duration::from_secs(60))).wait()?;
/// queues.pause("mail").wait()?;
/// let mail = queues.queue("mail").wait()?.unwrap();
/// assert_eq!((mail.scheduled, mail.ready, mail.paused), (1, 1, true));
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueInfo {
    /// Its name.
    pub name: String,
    /// What is set for it.
    pub settings: QueueSettings,
    /// Whether deliveries are held back.
    pub paused: bool,
    /// Jobs whose time has not come, or that are ready and not counted in `ready`.
    pub scheduled: u64,
    /// Jobs whose time has come. Exact unless `more_ready`.
    pub ready: u64,
    /// More jobs are ready than memory holds: they are counted in `scheduled`.
    pub more_ready: bool,
    /// Jobs with a worker.
    pub leased: u64,
    /// Dead jobs.
    pub dead: u64,
    /// Acknowledged jobs that are kept.
    pub done: u64,
    /// Cancelled jobs that are kept.
    pub cancelled: u64,
    /// When the job was due that is ready for the longest time; `None` if no job is ready.
    pub oldest_ready: Option<Time>,
    /// What has happened in the queue since it was created.
    pub counters: QueueCounters,
    /// By how much its jobs were delivered after they were due, since the queues were opened. A job
    /// that waits for a worker counts as late.
    pub lateness: Lateness,
}

/// What has happened in a queue since it was created. A restart does not reset these numbers.
///
/// ```
/// use tickwheel_queue::{NewJob, Queues};
///
/// let queues = Queues::in_memory();
/// queues.put(NewJob::new("mail", "hello")).wait()?;
/// let jobs = queues.reserve("mail", 1, None).wait()?;
/// queues.ack(jobs[0].lease).wait()?;
/// let counters = queues.queue("mail").wait()?.unwrap().counters;
/// assert_eq!((counters.put, counters.delivered, counters.acked), (1, 1, 1));
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueCounters {
    /// Jobs put, those of schedules included.
    pub put: u64,
    /// Deliveries to workers.
    pub delivered: u64,
    /// Jobs acknowledged.
    pub acked: u64,
    /// Attempts that workers reported as failed.
    pub failed: u64,
    /// Leases that expired.
    pub expired: u64,
    /// Jobs given back by workers.
    pub released: u64,
    /// Jobs that died.
    pub died: u64,
    /// Jobs cancelled or replaced.
    pub cancelled: u64,
    /// Dead jobs brought back.
    pub kicked: u64,
}
