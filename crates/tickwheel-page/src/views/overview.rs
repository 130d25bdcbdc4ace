//! The overview and the wheel.

use askama::Template;
use tickwheel_api::{Cluster, Overview, ReplicaState, Upcoming, Wheel};

use super::render;
use crate::Frame;
use crate::texts::Texts;

/// Slots that the table of the wheel lists.
const MAX_LISTED_SLOTS: usize = 1_000;

/// Everything at one glance.
///
/// ```
/// # let overview: tickwheel_api::Overview = serde_json::from_str(
/// #   r#"{"at": "1970-01-01T00:00:01.000Z", "at_ms": 1000, "summary": "all on time",
/// #       "health": [], "queues": [], "queues_left_out": 0,
/// #       "totals": {"queues": 0, "paused_queues": 0, "held": 0, "rates": null,
/// #       "jobs": {"scheduled": 0, "ready": 0, "leased": 0, "dead": 0, "done": 0, "cancelled": 0},
/// #       "lateness_p50_ms": null, "lateness_p99_ms": null, "workers": null, "upcoming": null,
/// #       "disk_bytes": null, "disk_free_bytes": null}}"#)?;
/// use tickwheel_page::{Frame, OverviewView};
/// let html = OverviewView::new(&Frame::at("/", 1_000), &overview).html();
/// assert!(html.contains("All on time") && html.contains("no data"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Template)]
#[template(path = "overview.html")]
pub struct OverviewView<'a> {
    f: &'a Frame,
    t: &'static Texts,
    overview: &'a Overview,
    cluster: Option<&'a Cluster>,
}

/// A bar of the chart of jobs by due time.
struct Bar {
    key: &'static str,
    name: &'static str,
    count: u64,
    max: u64,
}

impl<'a> OverviewView<'a> {
    /// Returns the page.
    pub fn new(frame: &'a Frame, overview: &'a Overview) -> Self {
        Self { f: frame, t: frame.language.texts(), overview, cluster: None }
    }

    /// Adds the cluster that the server is a node of.
    #[must_use]
    pub fn cluster(self, cluster: Option<&'a Cluster>) -> Self {
        Self { cluster, ..self }
    }

    /// Returns how many partitions a node owns.
    fn owned(&self, node: &str) -> u64 {
        let partitions = self.cluster.iter().flat_map(|cluster| &cluster.partitions);
        partitions.filter(|it| it.owner.as_deref() == Some(node)).count() as u64
    }

    fn bars(&self, upcoming: &Upcoming) -> [Bar; 6] {
        let max = upcoming.waiting().max(1);
        let bar = |key, name, count| Bar { key, name, count, max };
        [
            bar("ready", self.t.due_ready, upcoming.ready),
            bar("minute", self.t.due_minute, upcoming.minute),
            bar("hour", self.t.due_hour, upcoming.hour),
            bar("day", self.t.due_day, upcoming.day),
            bar("month", self.t.due_month, upcoming.month),
            bar("later", self.t.due_later, upcoming.later),
        ]
    }

    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        render(self)
    }
}

/// The timing wheel, as a drawing and as tables.
///
/// ```
/// # let wheel: tickwheel_api::Wheel = serde_json::from_str(
/// #   r#"{"at_ms": 1000, "horizon_ms": 300000, "ready": 2, "beyond": 5, "levels": [{"level": 1,
/// #       "slots": 256, "slot_ms": 256, "position": 3, "start_ms": 0, "occupied": [9],
/// #       "jobs": [5], "leases": [0]}]}"#)?;
/// use tickwheel_page::{Frame, WheelView};
/// let html = WheelView::new(&Frame::at("/wheel", 1_000), &wheel).html();
/// assert!(html.contains("due_from=2304&amp;due_to=2559"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Template)]
#[template(path = "wheel.html")]
pub struct WheelView<'a> {
    f: &'a Frame,
    t: &'static Texts,
    wheel: &'a Wheel,
    on_wheel: u64,
    levels: Vec<LevelRow>,
    slots: Vec<SlotRow>,
    slots_left_out: usize,
}

#[derive(Debug)]
struct LevelRow {
    level: u32,
    slots: u32,
    slot_ms: u64,
    ring_ms: u64,
    occupied: usize,
    jobs: u64,
    leases: u64,
}

#[derive(Debug)]
struct SlotRow {
    level: u32,
    slot: u32,
    first_ms: u64,
    last_ms: u64,
    jobs: u64,
    leases: u64,
}

impl<'a> WheelView<'a> {
    /// Returns the page.
    pub fn new(frame: &'a Frame, wheel: &'a Wheel) -> Self {
        let levels: Vec<_> = wheel
            .levels
            .iter()
            .map(|level| LevelRow {
                level: level.level,
                slots: level.slots,
                slot_ms: level.slot_ms,
                ring_ms: level.slot_ms.saturating_mul(level.slots.into()),
                occupied: level.occupied.len(),
                jobs: level.jobs.iter().sum(),
                leases: level.leases.iter().sum(),
            })
            .collect();
        let mut slots: Vec<_> = wheel
            .levels
            .iter()
            .flat_map(|level| {
                let columns = level.occupied.iter().zip(&level.jobs).zip(&level.leases);
                columns.map(|((&slot, &jobs), &leases)| {
                    let (first_ms, last_ms) = level.span_of(slot);
                    SlotRow { level: level.level, slot, first_ms, last_ms, jobs, leases }
                })
            })
            .collect();
        slots.sort_by_key(|slot| slot.first_ms);
        let slots_left_out = slots.len().saturating_sub(MAX_LISTED_SLOTS);
        slots.truncate(MAX_LISTED_SLOTS);
        let on_wheel = levels.iter().map(|level| level.jobs).sum();
        let t = frame.language.texts();
        Self { f: frame, t, wheel, on_wheel, levels, slots, slots_left_out }
    }

    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        render(self)
    }
}
