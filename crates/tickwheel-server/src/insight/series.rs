//! The history of one queue, or of all: points at a fixed distance, in two rings.
//!
//! **Memory.** A point has 52 bytes. The ring of seconds has 900 points and that of minutes 1,440,
//! so a series takes at most 119 KiB. There is one for all queues together, and one for each of the
//! [`MAX_TRACKED`](super::sampler::MAX_TRACKED) queues in which most happens.

use std::collections::VecDeque;

use tickwheel_queue::{Lateness, QueueCounters, QueueSample};

use crate::api::{History, HistoryWindow};

/// What a number has that is not known.
const UNKNOWN: u32 = u32::MAX;

/// What happened in the time of one point, and what was there at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    put: u32,
    delivered: u32,
    acked: u32,
    failed: u32,
    died: u32,
    p50_ms: u32,
    p99_ms: u32,
    max_ms: u32,
    scheduled: u32,
    ready: u32,
    leased: u32,
    dead: u32,
    /// In thousandths.
    pacing: u32,
}

impl Point {
    /// A point without data.
    pub(super) const MISSING: Self = Self {
        put: UNKNOWN,
        delivered: UNKNOWN,
        acked: UNKNOWN,
        failed: UNKNOWN,
        died: UNKNOWN,
        p50_ms: UNKNOWN,
        p99_ms: UNKNOWN,
        max_ms: UNKNOWN,
        scheduled: UNKNOWN,
        ready: UNKNOWN,
        leased: UNKNOWN,
        dead: UNKNOWN,
        pacing: UNKNOWN,
    };

    fn is_missing(&self) -> bool {
        self.put == UNKNOWN
    }

    /// Adds the point of another queue at the same time. How late all deliveries together were does
    /// not follow from the percentiles of each, except for the longest.
    pub(super) fn add(&mut self, other: &Self) {
        if self.is_missing() {
            *self = *other;
        } else if !other.is_missing() {
            let sum = |a: u32, b: u32| a.saturating_add(b).min(UNKNOWN - 1);
            self.put = sum(self.put, other.put);
            self.delivered = sum(self.delivered, other.delivered);
            self.acked = sum(self.acked, other.acked);
            self.failed = sum(self.failed, other.failed);
            self.died = sum(self.died, other.died);
            self.scheduled = sum(self.scheduled, other.scheduled);
            self.ready = sum(self.ready, other.ready);
            self.leased = sum(self.leased, other.leased);
            self.dead = sum(self.dead, other.dead);
            self.max_ms = match (self.max_ms, other.max_ms) {
                (UNKNOWN, max) | (max, UNKNOWN) => max,
                (one, two) => one.max(two),
            };
        }
        (self.p50_ms, self.p99_ms, self.pacing) = (UNKNOWN, UNKNOWN, UNKNOWN);
    }
}

fn known(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(UNKNOWN).min(UNKNOWN - 1)
}

/// What has happened up to a moment.
#[derive(Clone, Debug, Default)]
struct Mark {
    counters: QueueCounters,
    lateness: Lateness,
}

impl Mark {
    fn of(sample: &QueueSample) -> Self {
        Self { counters: sample.counters, lateness: sample.lateness.clone() }
    }

    /// Returns what happened from this moment until a sample was taken. Counters that went back are
    /// those of a new queue with the old name, or of a store that was opened again.
    fn until(&self, sample: &QueueSample, pacing: Option<f64>) -> Point {
        let is_same = sample.counters.put >= self.counters.put
            && sample.counters.acked >= self.counters.acked;
        let zero = Self::default();
        let from = if is_same { self } else { &zero };
        let (now, before) = (&sample.counters, &from.counters);
        let grown = |now: u64, before: u64| known(now.saturating_sub(before));
        let lateness = sample.lateness.since(&from.lateness);
        let late =
            |share| lateness.quantile(share).map_or(UNKNOWN, |late| known(late.as_millis() as u64));
        Point {
            put: grown(now.put, before.put),
            delivered: grown(now.delivered, before.delivered),
            acked: grown(now.acked, before.acked),
            failed: grown(now.failed + now.expired, before.failed + before.expired),
            died: grown(now.died, before.died),
            p50_ms: late(0.5),
            p99_ms: late(0.99),
            max_ms: late(1.0),
            scheduled: known(sample.scheduled),
            ready: known(sample.ready),
            leased: known(sample.leased),
            dead: known(sample.dead),
            #[allow(clippy::cast_sign_loss, reason = "a share is not negative")]
            pacing: pacing.map_or(UNKNOWN, |share| (share.min(1_000.0) * 1_000.0) as u32),
        }
    }
}

/// Points at a fixed distance. Index *n* ends at *n* steps after 1970.
#[derive(Debug)]
struct Ring {
    window: HistoryWindow,
    points: VecDeque<Point>,
    /// The index of the last point.
    last: u64,
    /// What had happened before the last point began.
    mark: Mark,
}

impl Ring {
    fn new(window: HistoryWindow) -> Self {
        Self { window, points: VecDeque::new(), last: 0, mark: Mark::default() }
    }

    /// Takes a sample into its point. `before` is what had happened at the sample before.
    fn take(&mut self, at_ms: u64, before: &Mark, sample: &QueueSample, pacing: Option<f64>) {
        let index = at_ms.div_ceil(self.window.step_ms());
        if index != self.last {
            self.advance(index);
            self.mark = before.clone();
        }
        let point = self.mark.until(sample, pacing);
        if let Some(last) = self.points.back_mut() {
            *last = point;
        }
    }

    /// Adds a point, and points without data for the time that was missed. A clock that was set
    /// back, or far ahead, makes the ring begin anew.
    fn advance(&mut self, index: u64) {
        let max = self.window.max_points();
        let missed = index.checked_sub(self.last + 1).filter(|missed| *missed < max as u64);
        match missed {
            Some(missed) if !self.points.is_empty() => {
                let missed = std::iter::repeat_n(Point::MISSING, missed as usize);
                self.points.extend(missed);
            }
            _ => self.points.clear(),
        }
        self.points.push_back(Point::MISSING);
        while self.points.len() > max {
            self.points.pop_front();
        }
        self.last = index;
    }
}

/// The history of one queue, or of all.
#[derive(Debug)]
pub(super) struct Series {
    seconds: Ring,
    minutes: Ring,
    /// What had happened at the last sample; `None` before the first.
    mark: Option<Mark>,
    /// How much happened lately. Halves in about five minutes.
    pub(super) score: f64,
}

/// What remains of a score after a second.
const DECAY: f64 = 0.9977;

impl Default for Series {
    fn default() -> Self {
        let (seconds, minutes) = (HistoryWindow::Minutes15, HistoryWindow::Hours24);
        Self { seconds: Ring::new(seconds), minutes: Ring::new(minutes), mark: None, score: 0.0 }
    }
}

impl Series {
    /// A series of a queue that did not exist before: what its first sample counts has happened
    /// just now.
    pub(super) fn of_new_queue() -> Self {
        Self { mark: Some(Mark::default()), ..Self::default() }
    }

    /// Takes a sample. The first one of a queue that existed before only says where its counters
    /// begin.
    pub(super) fn take(&mut self, at_ms: u64, sample: &QueueSample, pacing: Option<f64>) {
        let Some(before) = self.mark.replace(Mark::of(sample)) else { return };
        let point = before.until(sample, None);
        self.score = self.score * DECAY + f64::from(point.put) + f64::from(point.delivered);
        self.seconds.take(at_ms, &before, sample, pacing);
        self.minutes.take(at_ms, &before, sample, pacing);
    }

    /// Returns the points of a window, each with the end of its time.
    pub(super) fn points(
        &self,
        window: HistoryWindow,
    ) -> impl DoubleEndedIterator<Item = (u64, Point)> {
        let ring = match window {
            HistoryWindow::Minutes15 => &self.seconds,
            HistoryWindow::Hours24 => &self.minutes,
        };
        let first = (ring.last + 1).saturating_sub(ring.points.len() as u64);
        let end = move |index: usize| (first + index as u64) * window.step_ms();
        (0..ring.points.len()).map(move |index| (end(index), ring.points[index]))
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        (self.seconds.points.len() + self.minutes.points.len()) * size_of::<Point>()
    }
}

/// Writes points as columns.
pub(super) fn columns(
    window: HistoryWindow,
    queue: Option<String>,
    tracked: bool,
    points: impl IntoIterator<Item = (u64, Point)>,
) -> History {
    let step_ms = window.step_ms();
    let mut history = History { window, step_ms, queue, tracked, ..History::default() };
    let number = |number: u32| (number != UNKNOWN).then_some(u64::from(number));
    for (at_ms, point) in points {
        history.at_ms.push(at_ms);
        history.put.push(number(point.put));
        history.delivered.push(number(point.delivered));
        history.acked.push(number(point.acked));
        history.failed.push(number(point.failed));
        history.died.push(number(point.died));
        history.lateness_p50_ms.push(number(point.p50_ms));
        history.lateness_p99_ms.push(number(point.p99_ms));
        history.lateness_max_ms.push(number(point.max_ms));
        history.scheduled.push(number(point.scheduled));
        history.ready.push(number(point.ready));
        history.leased.push(number(point.leased));
        history.dead.push(number(point.dead));
        let pacing = number(point.pacing).map(|thousandths| thousandths as f64 / 1_000.0);
        history.pacing_utilisation.push(pacing);
    }
    history
}
