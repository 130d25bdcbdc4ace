//! Counters and percentiles.

use tickwheel::Histogram;
use tickwheel_queue as queue;

use super::{IntoWire, rfc3339};
use crate::api::{Activity, Delay, Durability, Percentiles, Stats};

impl IntoWire for queue::Durability {
    type Wire = Durability;

    fn into_wire(self) -> Durability {
        match self {
            Self::Sync => Durability::Sync,
            Self::Interval(_) => Durability::Interval,
            Self::None => Durability::None,
        }
    }
}

impl IntoWire for &Histogram {
    type Wire = Percentiles;

    fn into_wire(self) -> Percentiles {
        let micros =
            |share| self.quantile(share).map_or(0, |time| time.as_nanos().div_ceil(1_000) as u64);
        Percentiles {
            count: self.count(),
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            p999_us: micros(0.999),
            max_us: micros(1.0),
        }
    }
}

impl IntoWire for &queue::Lateness {
    type Wire = Percentiles;

    fn into_wire(self) -> Percentiles {
        let micros = |share| self.quantile(share).map_or(0, |time| time.as_micros() as u64);
        Percentiles {
            count: self.count(),
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            p999_us: micros(0.999),
            max_us: micros(1.0),
        }
    }
}

/// Returns the recent activity.
pub(crate) fn activity(recent: &queue::Activity, now: queue::Time) -> Activity {
    Activity {
        since: rfc3339(recent.since),
        since_ms: recent.since.as_millis(),
        window_ms: now.since(recent.since).as_millis() as u64,
        put: recent.put,
        delivered: recent.delivered,
        acked: recent.acked,
        failed: recent.failed,
        expired: recent.expired,
        released: recent.released,
        died: recent.died,
        cancelled: recent.cancelled,
        kicked: recent.kicked,
        lateness: recent.lateness.into_wire(),
    }
}

impl IntoWire for &queue::Stats {
    type Wire = Stats;

    fn into_wire(self) -> Stats {
        Stats {
            durability: self.durability.into_wire(),
            horizon: Delay(self.horizon),
            queues: self.queues,
            pending: self.pending,
            leased: self.leased,
            in_memory: Some(self.in_memory),
            disk_bytes: Some(self.disk),
            put: Some(self.put),
            delivered: Some(self.delivered),
            acked: Some(self.acked),
            failed: Some(self.failed),
            expired: Some(self.expired),
            released: Some(self.released),
            died: Some(self.died),
            cancelled: Some(self.cancelled),
            kicked: Some(self.kicked),
            damaged: Some(self.damaged),
            commits: Some(self.commits),
            failures: Some(self.failures),
            commit_time: Some(self.commit_time.into_wire()),
            lateness: Some(self.lateness.into_wire()),
            recent: None,
        }
    }
}
