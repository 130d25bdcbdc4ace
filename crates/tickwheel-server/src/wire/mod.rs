//! Between the wire and the queue: types of the API become types of the queue, and back.
//!
//! [`IntoQueue`] and [`IntoWire`] are conversions that cannot fail. A request that can be wrong has
//! a function of its own, which names the field at fault.
//!
//! | file | what it converts |
//! |---|---|
//! | `job` | puts, jobs, deliveries |
//! | `payload` | payloads and headers |
//! | `queue` | queues, settings, retry policies |
//! | `schedule` | schedules |
//! | `event` | events |
//! | `stats` | counters and percentiles |

mod event;
mod group;
mod job;
mod payload;
mod queue;
mod schedule;
mod stats;

use tickwheel_queue::Time;

use crate::api::{Code, Delay, JobId, JobState, Timestamp};
use crate::problem::Failure;

pub(crate) use group::group_patch_of;
pub(crate) use job::{encoded_len, imported_job, new_job, result_of, when_of};
pub(crate) use queue::{pacing_of, patch_of, settings_of};
pub(crate) use schedule::{new_schedule, schedule_encoded_len};
pub(crate) use stats::activity;

/// A value of the API that the queue has a type for.
pub(crate) trait IntoQueue {
    type Queue;
    fn into_queue(self) -> Self::Queue;
}

/// A value of the queue that the API has a type for.
pub(crate) trait IntoWire {
    type Wire;
    fn into_wire(self) -> Self::Wire;
}

impl IntoQueue for JobId {
    type Queue = tickwheel_queue::JobId;

    fn into_queue(self) -> Self::Queue {
        tickwheel_queue::JobId::from_bytes(*self.as_bytes())
    }
}

impl IntoWire for tickwheel_queue::JobId {
    type Wire = JobId;

    fn into_wire(self) -> JobId {
        JobId::from_bytes(*self.as_bytes())
    }
}

impl IntoQueue for Timestamp {
    type Queue = Time;

    fn into_queue(self) -> Time {
        Time::from_millis(self.as_millis())
    }
}

impl IntoWire for tickwheel_queue::State {
    type Wire = JobState;

    fn into_wire(self) -> JobState {
        match self {
            Self::Scheduled => JobState::Scheduled,
            Self::Ready => JobState::Ready,
            Self::Leased => JobState::Leased,
            Self::Dead => JobState::Dead,
            Self::Done => JobState::Done,
            Self::Cancelled => JobState::Cancelled,
        }
    }
}

impl IntoQueue for JobState {
    type Queue = tickwheel_queue::State;

    fn into_queue(self) -> Self::Queue {
        use tickwheel_queue::State;
        match self {
            Self::Scheduled => State::Scheduled,
            Self::Ready => State::Ready,
            Self::Leased => State::Leased,
            Self::Dead => State::Dead,
            Self::Done => State::Done,
            Self::Cancelled => State::Cancelled,
        }
    }
}

/// Returns the text of a time, as answers have it.
pub(crate) fn rfc3339(time: Time) -> String {
    crate::api::rfc3339(time.as_millis())
}

fn invalid(field: &str, why: impl Into<String>) -> Failure {
    Failure::field(Code::InvalidField, field, why)
}

fn missing(field: &str, why: impl Into<String>) -> Failure {
    Failure::field(Code::MissingField, field, why)
}

/// Returns a delay, unless it is none.
fn not_zero(delay: std::time::Duration) -> Option<Delay> {
    (!delay.is_zero()).then_some(Delay(delay))
}
