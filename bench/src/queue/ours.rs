//! Tickwheel's own queue, in the process that uses it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tickwheel_queue::{Durability, Lease, NewJob, Queues, Time};

use super::contender::{Caller, Contender, LEASE, PATIENCE};
use super::job::Job;

const QUEUE: &str = "bench";
/// The interval between syncs: that of the strictest peer.
const INTERVAL: Duration = Duration::from_millis(50);
/// The cache for reads: the default of `Builder::cache`.
const CACHE: u64 = 32 << 20;

pub(crate) struct Ours(Queues);

impl Ours {
    /// Opens or creates the queue in a folder.
    pub(crate) fn open(folder: &Path, relaxed: bool) -> Result<Self> {
        let durability = if relaxed { Durability::Interval(INTERVAL) } else { Durability::Sync };
        let queues = Queues::builder().durability(durability).cache(CACHE).open(folder)?;
        Ok(Self(queues))
    }
}

impl Contender for Ours {
    type Caller = Self;

    fn caller(&self) -> Result<Self> {
        Ok(Self(self.0.clone()))
    }

    fn pending(&self) -> Result<u64> {
        Ok(self.0.stats().wait()?.pending)
    }
}

impl Caller for Ours {
    type Ticket = Lease;

    fn put(&mut self, mut jobs: Vec<Job>) -> Result<()> {
        if jobs.len() == 1 {
            let job = jobs.pop().context("there is one")?;
            self.0.put(new_job(job)).wait()?;
            return Ok(());
        }
        for put in self.0.put_all(jobs.into_iter().map(new_job)).wait()? {
            put?;
        }
        Ok(())
    }

    fn reserve(&mut self, most: usize) -> Result<Vec<(Lease, Vec<u8>)>> {
        let deliveries = self.0.reserve_within(QUEUE, most, Some(LEASE), PATIENCE).wait()?;
        let pair = |delivery: tickwheel_queue::Delivery| (delivery.lease, delivery.job.payload);
        Ok(deliveries.into_iter().map(pair).map(|(lease, bytes)| (lease, bytes.into())).collect())
    }

    fn ack(&mut self, leases: Vec<Lease>) -> Result<()> {
        for ack in self.0.ack_all(leases).wait()? {
            ack?;
        }
        Ok(())
    }

    fn cancel(&mut self, key: &str) -> Result<()> {
        self.0.cancel((QUEUE, key)).wait()?;
        Ok(())
    }
}

fn new_job(job: Job) -> NewJob {
    let new = NewJob::new(QUEUE, job.payload).at(Time::from_millis(job.due));
    match job.key {
        Some(key) => new.key(key),
        None => new,
    }
}
