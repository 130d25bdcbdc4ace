//! What a pending task is, and the handles that callers hold.
//!
//! * `job`: what the wheel holds for each task, in three words.
//! * `record`: a task that is more than a closure to call once.
//! * `timeout`: the handle of a task.
//! * `when`: deadlines by either clock.
//! * `periodic`: tasks that run at a fixed rate or with a fixed delay.
//! * `calendar`: tasks that run by a calendar.
//! * `unfired`: what `stop` hands back.

#[cfg(feature = "cron")]
pub(crate) mod calendar;
pub(crate) mod job;
pub(crate) mod periodic;
pub(crate) mod record;
pub(crate) mod timeout;
pub(crate) mod unfired;
pub(crate) mod when;
