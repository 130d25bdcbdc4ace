//! Queues, their settings, and retry policies.

use std::time::Duration;

use tickwheel_queue as queue;

use super::{IntoQueue, IntoWire, missing, rfc3339};
use crate::api::{
    Counts, Delay, Exponential, FinishedState, Keep, Order, Pacing, Queue, QueueCounters,
    QueueSettings, QueueSettingsPatch, Retention, Retry,
};
use crate::problem::Failure;

impl IntoWire for queue::RetryPolicy {
    type Wire = Retry;

    fn into_wire(self) -> Retry {
        match self {
            Self::Fixed(delay) => Retry::Fixed(Delay(delay)),
            Self::Exponential { first, max, jitter } => {
                Retry::Exponential(Exponential { first: Delay(first), max: Delay(max), jitter })
            }
            Self::List(delays) => Retry::List(delays.into_iter().map(Delay).collect()),
        }
    }
}

impl IntoQueue for Retry {
    type Queue = queue::RetryPolicy;

    fn into_queue(self) -> queue::RetryPolicy {
        match self {
            Self::Fixed(delay) => queue::RetryPolicy::Fixed(delay.0),
            Self::Exponential(Exponential { first, max, jitter }) => {
                queue::RetryPolicy::Exponential { first: first.0, max: max.0, jitter }
            }
            Self::List(delays) => queue::RetryPolicy::list(delays.into_iter().map(|it| it.0)),
        }
    }
}

impl IntoWire for queue::Pacing {
    type Wire = Pacing;

    fn into_wire(self) -> Pacing {
        Pacing {
            starts: self.starts.map(|(starts, _)| starts),
            window: self.starts.map(|(_, window)| Delay(window)),
            concurrency: self.concurrency,
        }
    }
}

/// Returns the pacing that a request sets. The queue checks its values.
pub(crate) fn pacing_of(pacing: &Pacing, field: &str) -> Result<queue::Pacing, Failure> {
    let starts = match (pacing.starts, pacing.window) {
        (None, None) => None,
        (Some(starts), Some(window)) => Some((starts, window.0)),
        (Some(_), None) => {
            return Err(missing(&format!("{field}/window"), "`starts` requires a `window`"));
        }
        (None, Some(_)) => {
            return Err(missing(&format!("{field}/starts"), "`window` requires `starts`"));
        }
    };
    Ok(queue::Pacing { starts, concurrency: pacing.concurrency })
}

impl IntoWire for queue::Keep {
    type Wire = Keep;

    fn into_wire(self) -> Keep {
        if self.age.is_zero() || self.count == 0 {
            return Keep { age: None, count: Some(0) };
        }
        Keep {
            age: (self.age != Duration::MAX).then_some(Delay(self.age)),
            count: (self.count != u64::MAX).then_some(self.count),
        }
    }
}

impl IntoQueue for Keep {
    type Queue = queue::Keep;

    fn into_queue(self) -> queue::Keep {
        queue::Keep {
            age: self.age.map_or(Duration::MAX, |age| age.0),
            count: self.count.unwrap_or(u64::MAX),
        }
    }
}

impl IntoWire for queue::Retention {
    type Wire = Retention;

    fn into_wire(self) -> Retention {
        Retention {
            done: self.done.into_wire(),
            dead: self.dead.into_wire(),
            cancelled: self.cancelled.into_wire(),
        }
    }
}

impl IntoWire for queue::QueueSettings {
    type Wire = QueueSettings;

    fn into_wire(self) -> QueueSettings {
        QueueSettings {
            lease: Delay(self.lease),
            max_attempts: self.max_attempts,
            retry: self.retry.into_wire(),
            pacing: self.pacing.into_wire(),
            group_pacing: self.group_pacing.into_wire(),
            retention: self.retention.into_wire(),
            order: match self.order {
                queue::Order::DueTime => Order::Due,
                queue::Order::Priority => Order::Priority,
            },
            target: self.target,
            fair_groups: self.fair_groups,
        }
    }
}

impl IntoQueue for Order {
    type Queue = queue::Order;

    fn into_queue(self) -> queue::Order {
        match self {
            Self::Due => queue::Order::DueTime,
            Self::Priority => queue::Order::Priority,
        }
    }
}

/// Returns the settings that a request asks for. The queue checks their values.
pub(crate) fn settings_of(settings: QueueSettings) -> Result<queue::QueueSettings, Failure> {
    let Retention { done, dead, cancelled } = settings.retention;
    Ok(queue::QueueSettings {
        lease: settings.lease.0,
        max_attempts: settings.max_attempts,
        retry: settings.retry.into_queue(),
        retention: queue::Retention {
            done: done.into_queue(),
            dead: dead.into_queue(),
            cancelled: cancelled.into_queue(),
        },
        pacing: pacing_of(&settings.pacing, "/pacing")?,
        group_pacing: pacing_of(&settings.group_pacing, "/group_pacing")?,
        order: settings.order.into_queue(),
        target: settings.target.filter(|target| !target.is_empty()),
        fair_groups: settings.fair_groups,
    })
}

/// Returns the change of settings that a request asks for.
pub(crate) fn patch_of(patch: QueueSettingsPatch) -> Result<queue::SettingsPatch, Failure> {
    let pacing =
        |pacing: Option<Pacing>, field| pacing.map(|pacing| pacing_of(&pacing, field)).transpose();
    let retention = patch.retention.unwrap_or_default();
    Ok(queue::SettingsPatch {
        lease: patch.lease.map(|lease| lease.0),
        max_attempts: patch.max_attempts,
        retry: patch.retry.map(IntoQueue::into_queue),
        done: retention.done.map(IntoQueue::into_queue),
        dead: retention.dead.map(IntoQueue::into_queue),
        cancelled: retention.cancelled.map(IntoQueue::into_queue),
        pacing: pacing(patch.pacing, "/pacing")?,
        group_pacing: pacing(patch.group_pacing, "/group_pacing")?,
        order: patch.order.map(IntoQueue::into_queue),
        target: patch.target.map(|target| Some(target).filter(|target| !target.is_empty())),
        fair_groups: patch.fair_groups,
    })
}

impl IntoWire for queue::QueueCounters {
    type Wire = QueueCounters;

    fn into_wire(self) -> QueueCounters {
        QueueCounters {
            put: self.put,
            delivered: self.delivered,
            acked: self.acked,
            failed: self.failed,
            expired: self.expired,
            released: self.released,
            died: self.died,
            cancelled: self.cancelled,
            kicked: self.kicked,
        }
    }
}

impl IntoWire for queue::QueueInfo {
    type Wire = Queue;

    fn into_wire(self) -> Queue {
        Queue {
            name: self.name,
            paused: self.paused,
            jobs: Counts {
                scheduled: self.scheduled,
                ready: self.ready,
                leased: self.leased,
                dead: self.dead,
                done: self.done,
                cancelled: self.cancelled,
            },
            more_ready: self.more_ready,
            settings: self.settings.into_wire(),
            oldest_ready: self.oldest_ready.map(rfc3339),
            oldest_ready_ms: self.oldest_ready.map(queue::Time::as_millis),
            counters: self.counters.into_wire(),
            lateness: self.lateness.into_wire(),
        }
    }
}

impl IntoQueue for FinishedState {
    type Queue = queue::State;

    fn into_queue(self) -> queue::State {
        match self {
            Self::Dead => queue::State::Dead,
            Self::Done => queue::State::Done,
            Self::Cancelled => queue::State::Cancelled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_the_wire_are_those_of_the_queue() {
        assert_eq!(QueueSettings::default(), queue::QueueSettings::default().into_wire());
    }

    #[test]
    fn settings_are_read_back_as_they_were_shown() {
        let settings = queue::QueueSettings {
            lease: Duration::from_secs(90),
            max_attempts: 3,
            retry: queue::RetryPolicy::list([Duration::from_secs(1)]),
            retention: queue::Retention {
                done: queue::Keep { age: Duration::from_secs(60), count: 7 },
                dead: queue::Keep::NOTHING,
                cancelled: queue::Keep::FOREVER,
            },
            pacing: queue::Pacing::starts(3, Duration::from_secs(1)).concurrency(2),
            group_pacing: queue::Pacing::default(),
            order: queue::Order::Priority,
            target: Some("partner".into()),
            fair_groups: true,
        };
        let shown = settings.clone().into_wire();
        let text = serde_json::to_string(&shown).unwrap();
        let read = serde_json::from_str::<QueueSettings>(&text).unwrap();
        assert_eq!(read, shown);
        assert_eq!(settings_of(read).unwrap().retention.done, settings.retention.done);
    }
}
