//! The threads that serve the handles in `client`.
//!
//! One writer thread owns the engine. It takes requests from the inbox, applies them, commits the
//! changes as one batch with one sync, and then answers the callers. A worker that finds no ready
//! job waits in `waiters`; the alarm wakes the writer when the next job is due. Reader threads
//! serve the reads of asynchronous callers from snapshots of the store. Committed events go to the
//! event log.

pub(crate) mod alarm;
pub(crate) mod core;
pub(crate) mod due_reading;
pub(crate) mod engine_reading;
pub(crate) mod error_reading;
pub(crate) mod event_log;
pub(crate) mod group_reading;
pub(crate) mod housekeeping;
pub(crate) mod id_reading;
pub(crate) mod inbox;
pub(crate) mod readers;
pub(crate) mod reading;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod schedule_reading;
pub(crate) mod store_failure;
pub(crate) mod target_reading;
pub(crate) mod waiters;
pub(crate) mod writer;
