//! Jobs imported from another store.

use crate::model::job::State;
use crate::model::new_job::NewJob;
use crate::model::time::Time;

/// A job of another store, with its attempts and state.
///
/// ```
/// use tickwheel_queue::{ImportedJob, JobId, NewJob, Queues, State, Time};
///
/// let now = Time::from_millis(1_700_000_000_000);
/// let id = JobId::new(now);
/// let mut job = ImportedJob::new(NewJob::new("mail", "hello").id(id), now);
/// job.attempts = 3;
/// job.finished = Some((State::Dead, now));
/// job.last_error = Some("no such address".into());
/// let queues = Queues::in_memory();
/// assert_eq!(queues.import([job]).wait()?[0].as_ref().map(|put| put.id), Ok(id));
/// assert_eq!(queues.get(id).wait()?.unwrap().attempts, 3);
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ImportedJob {
    /// The job as it would be put, with its id.
    pub job: NewJob,
    /// When it was put.
    pub created: Time,
    /// The number of deliveries.
    pub attempts: u32,
    /// The error of the last failed attempt.
    pub last_error: Option<String>,
    /// How and when it finished; `None` if it waits.
    pub finished: Option<(State, Time)>,
}

impl ImportedJob {
    /// Creates a job that was put at a time and has not been delivered.
    pub fn new(job: NewJob, created: Time) -> Self {
        Self { job, created, attempts: 0, last_error: None, finished: None }
    }

    /// Returns roughly how much memory it holds.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.job.bytes() + self.last_error.as_ref().map_or(0, String::len)
    }
}
