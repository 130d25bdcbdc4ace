//! Limiting what a `reserve` leases by the caller's memory.
//!
//! The size of a job is known only when the engine has read it. So the engine asks before it leases
//! each job, and a refused job stays ready: no job is leased for which its caller has no room.

use std::fmt;
use std::sync::Arc;

use crate::model::job::Job;

/// A job that `reserve` is about to lease; see
/// [`Queues::reserve_while`](crate::Queues::reserve_while).
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{NewJob, Offer, Queues};
///
/// let queues = Queues::in_memory();
/// queues.put_all((0..5).map(|_| NewJob::new("mail", "hello"))).wait()?;
/// let admit = |offer: &Offer<'_>| offer.before == 0 || offer.job.payload.len() > 100;
/// let jobs = queues.reserve_while("mail", 5, None, Duration::ZERO, admit).wait()?;
/// assert_eq!(jobs.len(), 1);
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Offer<'a> {
    /// The job as it will be delivered.
    pub job: &'a Job,
    /// Its size in the answer, by [`Builder::measure`](crate::Builder::measure).
    pub bytes: usize,
    /// The number of jobs that the answer already has. 0 begins the answer, or begins it again
    /// after a commit was lost.
    pub before: usize,
}

/// The function that admits jobs to an answer. By default it admits all.
#[derive(Clone, Default)]
pub(crate) struct Admission(Option<Arc<Admit>>);

type Admit = dyn Fn(&Offer<'_>) -> bool + Send + Sync;

impl Admission {
    pub(crate) fn by(admit: impl Fn(&Offer<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(admit)))
    }

    pub(crate) fn admits(&self, offer: &Offer<'_>) -> bool {
        self.0.as_ref().is_none_or(|admit| admit(offer))
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Admission(by the caller)" } else { "Admission(all)" })
    }
}
