//! Events.

use tickwheel_queue::{self as queue, EventKind, Time};

use super::{IntoWire, rfc3339};
use crate::api::{Event, JobState};

impl IntoWire for &queue::Event {
    type Wire = Event;

    fn into_wire(self) -> Event {
        let waits =
            |due: Time| if due <= self.time { JobState::Ready } else { JobState::Scheduled };
        let (mut due, mut until, mut attempts, mut by) = (None, None, None, None);
        let state = match self.kind {
            EventKind::Put { due: time }
            | EventKind::Rescheduled { due: time }
            | EventKind::Failed { due: time }
            | EventKind::Expired { due: time }
            | EventKind::Released { due: time }
            | EventKind::Kicked { due: time } => {
                due = Some(time);
                waits(time)
            }
            EventKind::Replaced { by: other } => {
                by = Some(other.into_wire());
                JobState::Cancelled
            }
            EventKind::Leased { attempts: count, until: time } => {
                (attempts, until) = (Some(count), Some(time));
                JobState::Leased
            }
            EventKind::Extended { until: time } => {
                until = Some(time);
                JobState::Leased
            }
            EventKind::Dead { attempts: count } => {
                attempts = Some(count);
                JobState::Dead
            }
            EventKind::Acked => JobState::Done,
            // `cancelled`, and kinds that a newer queue may add.
            _ => JobState::Cancelled,
        };
        Event {
            event: self.kind.as_str().to_owned(),
            queue: self.queue.as_ref().to_owned(),
            job: self.job.into_wire(),
            key: self.key.as_deref().map(str::to_owned),
            error: self.error.as_deref().map(str::to_owned),
            state,
            at: rfc3339(self.time),
            at_ms: self.time.as_millis(),
            due: due.map(rfc3339),
            due_ms: due.map(Time::as_millis),
            until: until.map(rfc3339),
            until_ms: until.map(Time::as_millis),
            attempts,
            by,
        }
    }
}
