//! The forms of a pending task, and the handles that callers hold.
//!
//! * `job`: the wheel's value for a task, three words long.
//! * `record`: a task that is more than a closure to call once; `records`: those of a shard.
//! * `timeout`: the handle of a task.
//! * `when`: deadlines on either clock.
//! * `periodic`: tasks that run at a fixed rate or with a fixed delay.
//! * `recurrence`: tasks that run at wall-clock times which a rule computes.
//! * `unfired`: tasks that `stop` hands back.

pub(crate) mod job;
pub(crate) mod periodic;
pub(crate) mod record;
pub(crate) mod records;
pub(crate) mod recurrence;
pub(crate) mod timeout;
pub(crate) mod unfired;
pub(crate) mod when;
