//! The operations that a queue needs.

use std::time::Duration;

use anyhow::Result;

use super::job::Job;

/// How long a worker waits for jobs before it checks whether all are done.
pub(crate) const PATIENCE: Duration = Duration::from_millis(200);
/// The duration of a lease: longer than any run.
pub(crate) const LEASE: Duration = Duration::from_mins(10);
/// How often a worker polls a queue that cannot notify it.
pub(crate) const POLL: Duration = Duration::from_millis(1);

/// A queue that callers can use.
pub(crate) trait Contender: Sync {
    type Caller: Caller + Send;

    /// Returns a new caller, with its own connection.
    fn caller(&self) -> Result<Self::Caller>;

    /// Returns the number of jobs, by the queue's own count.
    fn pending(&self) -> Result<u64>;
}

/// A client that sends one request at a time.
pub(crate) trait Caller {
    /// Identifies a reserved job in an acknowledgement.
    type Ticket;

    /// Puts jobs in one request. When this returns, they are as durable as the system promises.
    fn put(&mut self, jobs: Vec<Job>) -> Result<()>;

    /// Reserves up to `most` due jobs, with their payloads. Waits up to [`PATIENCE`] for the first.
    fn reserve(&mut self, most: usize) -> Result<Vec<(Self::Ticket, Vec<u8>)>>;

    /// Acknowledges jobs, which are then deleted.
    fn ack(&mut self, tickets: Vec<Self::Ticket>) -> Result<()>;

    /// Cancels the job with this key; an error if there is none.
    fn cancel(&mut self, key: &str) -> Result<()>;
}

/// A client that can send commands before earlier ones are answered.
pub(crate) trait Pipelined: Caller {
    /// Puts each job with a command of its own, and sends the commands together. When this returns,
    /// they are as durable as after `put`.
    fn put_each(&mut self, jobs: Vec<Job>) -> Result<()>;
}
