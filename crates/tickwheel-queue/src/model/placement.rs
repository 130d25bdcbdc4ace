//! Which queues a store of several has, for clusters.

use crate::model::error::Error;
use crate::model::id::JobId;
use crate::model::new_job::NewJob;

/// The buckets of queues that belong to one store of several.
///
/// A generated id contains the bucket of its queue, so that the store of a job is found by its id.
/// Queues of other buckets are refused: a queue lives in one store.
///
/// ```
/// use tickwheel_queue::{NewJob, Placement, Queues};
///
/// // Short names belong to the first bucket, long ones to the second, which another store has.
/// let bucket_of = |queue: &str| u16::from(queue.len() > 4);
/// let placement = Placement { bucket_of, first: 0, end: 1 };
/// let queues = Queues::builder().placement(placement).in_memory()?;
/// let put = queues.put(NewJob::new("mail", "hello")).wait()?;
/// assert_eq!(put.id.bucket(), 0);
/// assert!(queues.put(NewJob::new("orders", "hello")).wait().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// Returns the bucket of a queue, which is less than 4,096.
    pub bucket_of: fn(&str) -> u16,
    /// The first bucket of the store.
    pub first: u16,
    /// The bucket after the last one of the store.
    pub end: u16,
}

impl Placement {
    /// Returns the id with the bucket of a queue.
    pub(crate) fn place(&self, id: JobId, queue: &str) -> JobId {
        id.in_bucket((self.bucket_of)(queue))
    }

    /// Refuses a queue that belongs to another store.
    pub(crate) fn check(&self, field: &str, queue: &str) -> Result<(), Error> {
        if (self.first..self.end).contains(&(self.bucket_of)(queue)) {
            return Ok(());
        }
        let why = format!(
            "is {queue:?}, which belongs to another partition of the cluster: take a queue of the \
             same partition"
        );
        Err(Error::Invalid { field: field.to_owned(), why })
    }

    /// Refuses a job if its queue or the queue of a follow-up belongs to another store.
    pub(crate) fn check_job(&self, job: &NewJob) -> Result<(), Error> {
        self.check("queue", &job.queue)?;
        let follow_ups = [("on_success.queue", &job.on_success), ("on_death.queue", &job.on_death)];
        for (field, follow_up) in follow_ups {
            if let Some(follow_up) = follow_up {
                self.check(field, &follow_up.queue)?;
            }
        }
        Ok(())
    }
}
