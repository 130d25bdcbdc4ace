//! The attempts of a job that have ended.

use std::fmt;

use crate::model::time::Time;

/// An attempt that has ended: one delivery of a job to a worker.
///
/// [`Queues::get`](crate::Queues::get) returns the last [`MAX_KEPT`](Self::MAX_KEPT) attempts of a
/// job; lists leave them out.
///
/// ```
/// use tickwheel_queue::{AttemptOutcome, NewJob, Queues, Retry};
///
/// let queues = Queues::in_memory();
/// let id = queues.put(NewJob::new("mail", "hello")).wait()?.id;
/// let worker = queues.as_worker("mail-7");
/// let lease = worker.reserve("mail", 1, None).wait()?[0].lease;
/// worker.fail(lease, "connection refused", Retry::ByPolicy).wait()?;
/// let job = queues.get(id).wait()?.unwrap();
/// let attempt = &job.history[0];
/// assert_eq!((attempt.number, attempt.outcome), (1, AttemptOutcome::Failed));
/// assert_eq!(attempt.worker.as_deref(), Some("mail-7"));
/// assert_eq!(attempt.error.as_deref(), Some("connection refused"));
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// The value of `attempts` during the attempt, from 1. A kick starts again at 1, and a released
    /// attempt shares its number with the next one.
    pub number: u32,
    /// When the job was delivered. For a lease that an older version stored without this time, it
    /// is the time at which the job was due.
    pub started: Time,
    /// When the attempt ended.
    pub ended: Time,
    /// The name of the worker, if it gave one.
    pub worker: Option<String>,
    /// How the attempt ended.
    pub outcome: AttemptOutcome,
    /// The error: its first [`MAX_TEXT_BYTES`](Self::MAX_TEXT_BYTES).
    pub error: Option<String>,
    /// Details beside the error, such as an excerpt of a response: the first
    /// [`MAX_TEXT_BYTES`](Self::MAX_TEXT_BYTES).
    pub detail: Option<String>,
}

impl Attempt {
    /// The number of attempts that are kept of a job; an older one is dropped.
    pub const MAX_KEPT: usize = 20;
    /// The longest name of a worker, in bytes.
    pub const MAX_WORKER_BYTES: usize = 128;
    /// The bytes that are kept of an error and of a detail.
    pub const MAX_TEXT_BYTES: usize = 512;

    /// Returns roughly how much memory it holds.
    pub(crate) fn bytes(&self) -> usize {
        let texts = [&self.worker, &self.error, &self.detail].into_iter().flatten();
        size_of::<Self>() + texts.map(String::len).sum::<usize>()
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptOutcome {
    /// The worker acknowledged the job.
    Done,
    /// The worker reported a failure.
    Failed,
    /// The lease expired.
    Expired,
    /// The worker released the job.
    Released,
    /// The job was cancelled or replaced while a worker had it.
    Cancelled,
}

impl AttemptOutcome {
    /// Every outcome, in the order of the numbers that stand for them on disk.
    pub const ALL: [Self; 5] =
        [Self::Done, Self::Failed, Self::Expired, Self::Released, Self::Cancelled];

    /// Returns the name, in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Released => "released",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for AttemptOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns the longest prefix of a text that has at most `max_bytes` bytes.
pub(crate) fn prefix(text: &str, max_bytes: usize) -> &str {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
