//! The types of Tickwheel's HTTP API, as JSON.
//!
//! Server, command line and clients share them. This crate performs no I/O and knows neither HTTP
//! nor the queue: what a value means there is the server's business.
//!
//! | module | what it describes |
//! |---|---|
//! | `put` | the requests that put jobs |
//! | `job`, `id` | jobs and their ids, and the requests that change them |
//! | `history` | the attempts of a job |
//! | `worker` | deliveries, and the requests of workers |
//! | `batch` | several items in one request |
//! | `bulk` | errors by group, and changes to all jobs that match a filter |
//! | `queue` | queues and their settings |
//! | `schedule` | jobs that are put by a calendar or a period |
//! | `target` | HTTP endpoints that get the jobs of a queue |
//! | `event` | what a stream of events tells |
//! | `stats` | counters and health |
//! | `insight` | what a dashboard shows: overview, history, timing wheel |
//! | `clock` | the clock of the server |
//! | `cluster` | the nodes of a cluster, and what they do with partitions |
//! | `problem` | problem documents of RFC 9457 |
//! | `payload` | JSON, text and bytes that a job carries |
//! | `delay`, `time` | durations and points in time, as text or milliseconds |
//!
//! Ground rules:
//! * Requests refuse unknown fields, so that a misspelt `dealy` is an error and not a job that is
//!   due at once.
//! * Every type can be written and read.
//! * A time in an answer comes twice: as RFC 3339 text, and in milliseconds since 1970.
//! * An absent value is left out of an answer, except where a field is documented as `null`.
#![forbid(unsafe_code)]

mod batch;
mod bulk;
mod cause;
mod clock;
mod cluster;
mod delay;
mod event;
mod group;
mod history;
mod id;
mod insight;
mod job;
mod payload;
mod problem;
mod put;
mod queue;
mod schedule;
mod stats;
mod target;
mod time;
mod worker;

pub use batch::{
    Batch, ExtendItem, FailItem, JobItem, LeaseItem, MAX_BATCH_ITEMS, ReleaseItem, RescheduleItem,
    Results, Verdict,
};
pub use bulk::{BulkAction, BulkRequest, BulkResponse, ErrorGroup, ErrorGroups, JobFilter};
pub use cause::{TargetCause, TargetCauseCode};
pub use clock::{AdvanceRequest, Clock};
pub use cluster::{
    Cluster, ClusterNode, ClusterPartition, ClusterReplica, DrainRequest, MoveRequest,
    RecoverRequest, ReplicaState,
};
pub use delay::{Delay, ParseDelayError};
pub use event::{Event, Reset};
pub use group::{Group, GroupPage, GroupPatch};
pub use history::{Attempt, AttemptOutcome};
pub use id::{JobId, JobIds, ParseJobIdError};
pub use insight::{
    History, HistoryWindow, Live, Overview, OverviewTotals, QueueOverview, Rates, Trouble,
    TroubleCode, Upcoming, Wheel, WheelLevel,
};
pub use job::{Cancelled, Job, JobPage, JobState, LeaseInfo, RescheduleRequest, Rescheduled};
pub use payload::{Content, JSON_TYPE, TEXT_TYPE, check_json, compact, escaped_len};
pub use problem::{Code, Problem};
pub use put::{
    Conflict, FinishedAt, FollowUp, ImportRequest, Imported, PutOutcome, PutRequest, PutResponse,
};
pub use queue::{
    Count, Counts, Exponential, FinishedState, Keep, KickRequest, Order, Pacing, Queue,
    QueueCounters, QueueList, QueueSettings, QueueSettingsPatch, RemoveFinishedRequest, Retention,
    RetentionPatch, Retry,
};
pub use schedule::{Misfire, NextRun, NextRuns, Schedule, ScheduleList, ScheduleRequest};
pub use stats::{Activity, Durability, Health, Percentiles, Stats};
pub use target::{
    HeaderLine, RotateRequest, SecretInfo, Target, TargetCounts, TargetEvent, TargetList,
    TargetMethod, TargetPatch, TargetResponse, TargetSettings, TargetState, TargetTest,
};
pub use time::{ParseTimeError, Timestamp, rfc3339};
pub use worker::{
    AckRequest, Acked, Deliveries, Delivery, ExtendRequest, Extended, FailRequest, Failed, Kicked,
    LeaseToken, ReleaseRequest, Released, ReserveRequest,
};

/// Returns the integer that a JSON number like `1e3` or `2.0` stands for: JSON schemas count it as
/// one.
fn whole(number: f64) -> Option<u64> {
    #[allow(clippy::cast_sign_loss, reason = "checked")]
    ((0.0..=9_007_199_254_740_992.0).contains(&number) && number.fract() == 0.0)
        .then_some(number as u64)
}

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
