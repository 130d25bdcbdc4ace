//! The values that callers and the engine exchange: jobs, queues, schedules, events and errors.
//!
//! Nothing here starts a thread, takes a lock or touches the disk. Only `time` reads the clock, for
//! the runtime.

pub(crate) mod access;
pub(crate) mod activity;
pub(crate) mod admission;
pub(crate) mod error;
pub(crate) mod error_group;
pub(crate) mod event;
pub(crate) mod group;
pub(crate) mod history;
pub(crate) mod id;
pub(crate) mod idempotency;
pub(crate) mod import;
pub(crate) mod job;
pub(crate) mod list;
pub(crate) mod new_job;
pub(crate) mod occurrences;
pub(crate) mod placement;
pub(crate) mod retry;
pub(crate) mod sample;
pub(crate) mod schedule;
pub(crate) mod settings;
pub(crate) mod short_id;
pub(crate) mod stats;
pub(crate) mod target;
pub(crate) mod time;
pub(crate) mod upcoming;
pub(crate) mod validation;
pub(crate) mod wheel;
