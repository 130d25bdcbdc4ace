//! The memory of jobs on their way to a target, which is part of that of all requests.
//!
//! Each job has a share of its own, from before it is leased until its outcome is reported to the
//! queue: a slow request holds the memory of its own job only. A job for which there is no room stays
//! in its queue.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tickwheel_queue::{Answer, Delivery, Error, Job, Offer, Queues};

use super::deliverer::Source;
use crate::http::memory::{Memory, Share};

/// A job that was reserved for a request.
pub(super) struct Reserved {
    pub(super) delivery: Delivery,
    pub(super) share: Option<Share>,
}

/// A reservation of jobs that are charged while they are leased.
pub(super) struct Reservation {
    pub(super) answer: Answer<Vec<Delivery>>,
    pub(super) lease: Duration,
    charges: Arc<Charges>,
}

impl Reservation {
    pub(super) fn new(
        queues: &Queues,
        memory: &Memory,
        source: &Source,
        jobs: usize,
        wait: Duration,
    ) -> Self {
        let charges = Arc::<Charges>::default();
        let (held, memory) = (Arc::clone(&charges), memory.clone());
        let admit = move |offer: &Offer<'_>| held.admits(&memory, offer);
        let answer = queues.reserve_while(&source.queue, jobs, source.lease, wait, admit);
        Self { answer, lease: source.lease, charges }
    }

    /// Gives each job of the answer its share.
    pub(super) fn settle(
        &self,
        jobs: Result<Vec<Delivery>, Error>,
    ) -> Result<Vec<Reserved>, Error> {
        let mut shares = self.charges.take().into_iter();
        let jobs = jobs?.into_iter();
        Ok(jobs.map(|delivery| Reserved { delivery, share: shares.next() }).collect())
    }
}

/// The shares of the jobs of one reservation, in their order.
#[derive(Default)]
struct Charges(Mutex<Vec<Share>>);

impl Charges {
    /// Charges a job that is about to be leased; `false` if there is no room for it.
    fn admits(&self, memory: &Memory, offer: &Offer<'_>) -> bool {
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An answer begins, or begins again after its commit was lost.
        shares.truncate(offer.before);
        let mut share = memory.share();
        let is_admitted = share.grow(footprint(offer.job)).is_ok();
        if is_admitted {
            shares.push(share);
        }
        is_admitted
    }

    fn take(&self) -> Vec<Share> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The memory of a job on its way: the payload, which its request shares with it, and the headers,
/// which the request copies. Connections and their buffers have a limit of their own.
fn footprint(job: &Job) -> usize {
    let headers = job.headers.iter().map(|(name, value)| name.len() + value.len());
    job.payload.len() + 2 * headers.sum::<usize>()
}
