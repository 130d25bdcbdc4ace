//! Tickwheel on several machines: partitions of the queue on a replicated log.
//!
//! A partition has one *owner*, which runs the engine of `tickwheel-queue` unchanged. The owner
//! appends every batch of rows to a replicated log before it commits the batch locally and answers
//! its callers. *Standbys* read the log and commit the same rows without an engine. To take over,
//! a node appends a takeover record, reads the log to its end and opens the engine.
//!
//! The log decides who owns a partition, whatever clocks and leases say: each append names the
//! position that it follows, so each position has exactly one writer and a stale owner's next
//! append fails.
//!
//! | module | what it holds |
//! |---|---|
//! | [`log`] | the trait [`Log`](log::Log), what each operation guarantees, and its implementations |
//! | [`record`] | what the log carries: data, takeovers, hand-offs and snapshot manifests |
#![forbid(unsafe_code)]

pub mod log;
pub mod record;
