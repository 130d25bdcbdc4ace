//! What requests and answers look like as JSON.
//!
//! Ground rules: types of requests refuse unknown fields; everything can be written and read, so
//! that a client in Rust can use the same types. Times in answers come twice, as RFC 3339 text and
//! in milliseconds. A field that has nothing to say is left out.

mod batch;
mod delay;
mod event;
mod job;
mod payload;
mod problem;
mod queue;
mod schedule;
mod stats;
mod time;
mod worker;

pub(crate) use batch::TOO_MANY_ITEMS;
pub use batch::{
    BatchCancel, BatchExtend, BatchFail, BatchKick, BatchLease, BatchPut, BatchRelease,
    BatchReschedule, CancelItem, ExtendItem, FailItem, LeaseItem, ReleaseItem, RescheduleItem,
    Results, Verdict,
};
pub use delay::{Delay, ParseDelayError};
pub use event::{Event, Reset};
pub use job::{
    Cancelled, Conflict, Job, JobId, JobPage, JobState, LeaseInfo, PutOutcome, PutRequest,
    PutResponse, RescheduleRequest, Rescheduled,
};
pub(crate) use payload::escaped;
pub use payload::{Content, JSON_TYPE, TEXT_TYPE, check_json, compact};
pub use problem::{Code, Problem};
pub use queue::{
    Count, Counts, Keep, KickRequest, Pacing, PurgeRequest, PurgeState, Queue, QueueList,
    QueueSettings, QueueSettingsPatch, Retention, RetentionPatch, Retry,
};
pub use schedule::{Misfire, NextRun, NextRuns, Schedule, ScheduleList, ScheduleRequest};
pub use stats::{Durability, Health, Percentiles, Stats};
pub use time::{ParseTimeError, Timestamp, rfc3339};
pub use worker::{
    AckRequest, Acked, Deliveries, Delivery, ExtendRequest, Extended, FailRequest, Failed, Kicked,
    LeaseToken, ReleaseRequest, Released, ReserveRequest,
};

/// The integer that a JSON number like `1e3` or `2.0` stands for; to the schema it is one.
fn whole(number: f64) -> Option<u64> {
    #[allow(clippy::cast_sign_loss, reason = "checked")]
    ((0.0..=9_007_199_254_740_992.0).contains(&number) && number.fract() == 0.0)
        .then_some(number as u64)
}
