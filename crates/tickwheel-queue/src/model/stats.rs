//! Counters and lateness of queues.

use std::time::Duration;

use tickwheel::Histogram;

use crate::model::activity::{Activity, Lateness, Samples};
use crate::model::settings::QueueSettings;
use crate::model::time::{Now, Time};

/// How durable a change is when it is answered.
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
    /// On stable storage: it survives a power failure.
    #[default]
    Sync,
    /// It survives the end of the process. A power failure may lose what was answered within this
    /// interval.
    Interval(Duration),
    /// It survives the end of the process. The operating system decides when it is written to disk.
    None,
}

/// Counters since the queues were opened, and current numbers.
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
    /// How durable a change is when it is answered.
    pub durability: Durability,
    /// How far ahead jobs are kept in memory.
    pub horizon: Duration,
    /// Queues.
    pub queues: u64,
    /// Schedules, without unreadable ones.
    pub schedules: u64,
    /// Jobs that are scheduled, ready or leased.
    pub pending: u64,
    /// Jobs that are leased.
    pub leased: u64,
    /// Jobs and leases that are in memory.
    pub in_memory: u64,
    /// Bytes on disk, as of a few seconds ago.
    pub disk: u64,
    /// Bytes that the file system has left, as of a few seconds ago; `None` in memory.
    pub disk_free: Option<u64>,
    /// About how many bytes may still be put before the disk, or its share of it, is full; `None` in
    /// memory.
    pub disk_room: Option<u64>,
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
    /// Leases that expired.
    pub expired: u64,
    /// Jobs released by workers.
    pub released: u64,
    /// Jobs that died.
    pub died: u64,
    /// Jobs cancelled or replaced.
    pub cancelled: u64,
    /// Dead jobs made ready again.
    pub kicked: u64,
    /// Rows and jobs that could not be read since the opening, and what `salvage` omitted.
    pub damaged: u64,
    /// Group commits.
    pub commits: u64,
    /// Failures after which the store was opened again.
    pub failures: u64,
    /// The duration of commits, including the sync.
    pub commit_time: Histogram,
    /// How long after their due time jobs were delivered. Time without a free worker counts as
    /// late.
    pub lateness: Histogram,
}

/// The counters of the engine.
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
    /// The lateness in few buckets, of which samples are taken.
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

    /// Takes a sample of the counters now and then. Called at the start of each group.
    pub(crate) fn sample(&mut self, now: Time) {
        let mut samples = std::mem::take(&mut self.samples);
        samples.take(now, || self.totals());
        self.samples = samples;
    }

    /// Returns the activity in a window that ends now.
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

    /// Returns the counts, and how late deliveries were, since the opening.
    pub(crate) fn counters(&self) -> (QueueCounters, Lateness) {
        let counters = QueueCounters {
            put: self.put,
            delivered: self.delivered,
            acked: self.acked,
            failed: self.failed,
            expired: self.expired,
            released: self.released,
            died: self.died,
            cancelled: self.cancelled,
            kicked: self.kicked,
        };
        (counters, self.coarse_lateness.clone())
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

/// A queue: its settings and its numbers of jobs.
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
    /// The name.
    pub name: String,
    /// The settings.
    pub settings: QueueSettings,
    /// Whether deliveries are paused.
    pub paused: bool,
    /// When a [pause of limited length](crate::Queues::pause_for) ends.
    pub paused_until: Option<Time>,
    /// Jobs that are not due yet, or that are ready and not counted in `ready`.
    pub scheduled: u64,
    /// Ready jobs. Exact unless `more_ready`.
    pub ready: u64,
    /// Whether more jobs are ready than memory holds. Those are counted in `scheduled`.
    pub more_ready: bool,
    /// Ready jobs in memory that are not delivered because the queue or their group is paused or at
    /// one of its limits.
    pub held: u64,
    /// Leased jobs.
    pub leased: u64,
    /// Dead jobs.
    pub dead: u64,
    /// Acknowledged jobs that are kept.
    pub done: u64,
    /// Cancelled jobs that are kept.
    pub cancelled: u64,
    /// The due time of the job that has been ready longest; `None` if no job is ready.
    pub oldest_ready: Option<Time>,
    /// Counters since the queue was created.
    pub counters: QueueCounters,
    /// How long after their due time its jobs were delivered, since the queues were opened. Time
    /// without a free worker counts as late.
    pub lateness: Lateness,
}

/// The counters of a queue since it was created. They survive a restart.
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
    /// Jobs released by workers.
    pub released: u64,
    /// Jobs that died.
    pub died: u64,
    /// Jobs cancelled or replaced.
    pub cancelled: u64,
    /// Dead jobs made ready again.
    pub kicked: u64,
}
