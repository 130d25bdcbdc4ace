//! What a queue has to offer to take part.

use std::time::Duration;

use anyhow::Result;

use super::job::Job;

/// How long a worker waits for jobs before it looks whether all are done.
pub(crate) const PATIENCE: Duration = Duration::from_millis(200);
/// How long a lease holds: longer than any run.
pub(crate) const LEASE: Duration = Duration::from_mins(10);
/// How often a worker looks for jobs where the queue cannot tell.
pub(crate) const POLL: Duration = Duration::from_millis(1);

/// A queue that is ready for callers.
pub(crate) trait Contender: Sync {
    type Caller: Caller + Send;

    /// One more caller, with its own connection.
    fn caller(&self) -> Result<Self::Caller>;

    /// How many jobs wait, by the queue's own count.
    fn pending(&self) -> Result<u64>;
}

/// Somebody who uses the queue, one thing at a time.
pub(crate) trait Caller {
    /// What a reserved job is acknowledged with.
    type Ticket;

    /// Puts jobs together. They are as durable as the system promises when this returns.
    fn put(&mut self, jobs: Vec<Job>) -> Result<()>;

    /// Up to so many jobs whose time has come, with their payloads. Waits a little for the first.
    fn reserve(&mut self, most: usize) -> Result<Vec<(Self::Ticket, Vec<u8>)>>;

    /// These are done, and gone for good when this returns.
    fn ack(&mut self, tickets: Vec<Self::Ticket>) -> Result<()>;

    /// Cancels the job with this key; an error if there is none.
    fn cancel(&mut self, key: &str) -> Result<()>;
}

/// Somebody whose client can send commands before the answers of those before have come.
pub(crate) trait Pipelined: Caller {
    /// Puts jobs by a command each, sent together. As durable as after `put` when this returns.
    fn put_each(&mut self, jobs: Vec<Job>) -> Result<()>;
}
