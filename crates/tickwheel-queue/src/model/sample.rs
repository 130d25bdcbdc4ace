//! A sample of what has happened and what is there, for histories and rates.

use std::sync::Arc;

use crate::model::activity::Lateness;
use crate::model::settings::Pacing;
use crate::model::stats::QueueCounters;
use crate::model::time::Time;

/// Counters at one moment, of all queues together and of those in which something happened lately.
/// Two samples give what happened between them.
///
/// ```
/// use tickwheel_queue::{NewJob, Queues};
///
/// let queues = Queues::in_memory();
/// let before = queues.sample(Default::default(), Vec::new()).wait()?;
/// queues.put(NewJob::new("mail", "hello")).wait()?;
/// let after = queues.sample(before.time, Vec::new()).wait()?;
/// assert_eq!(after.total.counters.put - before.total.counters.put, 1);
/// assert_eq!(&*after.queues[0].name, "mail");
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sample {
    /// When it was taken.
    pub time: Time,
    /// How often the store failed and was opened again.
    pub failures: u64,
    /// All queues together, with the counters since the queues were opened. A handle that is limited
    /// to some queues gets the number of their jobs, and no counters.
    pub total: QueueSample,
    /// The queues that were asked for, and those in which something happened.
    pub queues: Vec<QueueSample>,
}

/// What a [`Sample`] has of one queue.
///
/// ```
/// use tickwheel_queue::QueueSample;
/// assert_eq!(QueueSample::default().lateness.count(), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueSample {
    /// The queue; empty for all together.
    pub name: Arc<str>,
    /// Jobs whose time has not come, and ready ones that memory does not hold.
    pub scheduled: u64,
    /// Jobs in memory whose time has come.
    pub ready: u64,
    /// Jobs with a worker.
    pub leased: u64,
    /// Dead jobs.
    pub dead: u64,
    /// What has happened.
    pub counters: QueueCounters,
    /// How late jobs were delivered, since the queues were opened.
    pub lateness: Lateness,
    /// The limits of the queue.
    pub pacing: Pacing,
}
