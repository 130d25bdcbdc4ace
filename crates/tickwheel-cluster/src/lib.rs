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
//! | `layout` | buckets of queues, and the ranges of buckets that belong to partitions |
//! | `replica` | one node's copy of a partition, as a standby and as the owner |
//! | `store` | the store that an owner's queue runs on |
//! | `seed` | how a replica that is too far behind gets its rows from another |
//! | `peers` | heartbeats: who is alive, how far they are, and their clocks |
//! | `node` | the threads of a node, and its messages to others |
//! | `partition` | what a node does with a partition: follow, take over, own, hand off, halt |
#![forbid(unsafe_code)]

mod environment;
mod layout;
pub mod log;
mod node;
mod partition;
mod peers;
mod position;
pub mod record;
mod replica;
mod seed;
mod store;

pub use environment::{Environment, Machine};
pub use layout::{BUCKETS, Bucket, DEFAULT_PARTITIONS, Layout, LayoutError, MAX_PARTITIONS};
pub use node::{
    LocalNetwork, Message, NatsTransport, Node, Owner, PartitionStatus, PostgresTransport,
    Transport,
};
pub use partition::{MAX_READ_AGE, Opener, Partition, State};
pub use peers::{
    Condition, HEARTBEAT_INTERVAL, Heartbeat, MAX_CLOCK_SKEW, MAX_SILENCE, Peers, ReplicaBeat,
};
pub use position::Applied;
pub use replica::{Counters, Replica, ReplicaError, ReplicaOptions, trim_point};
pub use seed::SeedChunks;
pub use store::{ReplicatedDisk, SharedReplica};
