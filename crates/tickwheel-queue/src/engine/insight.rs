//! What operators see of the engine: counts, and what the timing wheel holds. Reads only.

use std::sync::Arc;

use tickwheel::wheel::HierarchicalWheel;

use super::{Engine, Queue, Timed};
use crate::model::access::Access;
use crate::model::sample::{QueueSample, Sample};
use crate::model::time::Time;
use crate::model::wheel::{WheelInfo, WheelLevel, WheelSlot};

/// Levels that are always shown: with ticks of a millisecond they span 50 days.
const SHOWN_LEVELS: usize = 4;
const SLOTS: usize = HierarchicalWheel::<Timed>::SLOTS;

impl Engine {
    /// Bytes that may still be put before the disk is full; `None` if there is no end.
    pub(crate) fn disk_room(&self) -> Option<u64> {
        Some(self.room.left()).filter(|room| *room < u64::MAX / 2)
    }

    /// Ready jobs in memory that may not be delivered now.
    pub(crate) fn held(&self, number: u32) -> u64 {
        let queue = &self.queues[number as usize];
        let (now, leased) = (self.now.time(), queue.counts.leased);
        if queue.is_paused(now) || !queue.pace.may_start(queue.settings.pacing, leased, now) {
            return queue.ready(now).0;
        }
        let may_start = |index: u32| self.group_may_start(number, index);
        let blocked = queue.groups.indices().into_iter().filter(|index| !may_start(*index));
        blocked.map(|index| queue.groups[index].ready.len() as u64).sum()
    }

    /// Counters of all queues together, of queues in which something happened since a time, and of
    /// the named ones.
    pub(crate) fn sample(
        &self,
        access: &Access,
        since: Time,
        names: &[Arc<str>],
        now: Time,
    ) -> Sample {
        let mut sample = Sample { time: now, ..Sample::default() };
        let seen = |queue: &&Queue| !queue.is_removed && access.allows(&queue.name);
        for queue in self.queues.iter().filter(seen) {
            let (scheduled, ready) = depth(queue);
            let total = &mut sample.total;
            total.scheduled += scheduled;
            total.ready += ready;
            total.leased += queue.counts.leased;
            total.dead += queue.counts.dead;
            if queue.used >= since || names.contains(&queue.name) {
                sample.queues.push(QueueSample {
                    name: Arc::clone(&queue.name),
                    scheduled,
                    ready,
                    leased: queue.counts.leased,
                    dead: queue.counts.dead,
                    counters: queue.counts.lifetime,
                    lateness: queue.lateness(),
                    pacing: queue.settings.pacing,
                });
            }
        }
        if !access.is_limited() {
            (sample.total.counters, sample.total.lateness) = self.tally.counters();
        }
        sample
    }

    /// What the wheel holds of the queues that the caller may see.
    pub(crate) fn wheel_info(&self, access: &Access) -> WheelInfo {
        let seen: Vec<bool> = self.queues.iter().map(|queue| access.allows(&queue.name)).collect();
        let is_seen = |queue: u32| seen[queue as usize];
        let now = self.wheel.now();
        let mut levels: Vec<_> = (0..SHOWN_LEVELS).map(|level| empty_level(level, now)).collect();
        for slot in self.wheel.slots() {
            let mut counts = WheelSlot { slot: slot.slot as u32, ..WheelSlot::default() };
            for timer in slot.timers() {
                match timer.value {
                    Timed::Due { queue, .. } => counts.jobs += u64::from(is_seen(*queue)),
                    Timed::Lease(id) => {
                        let lease = self.leases.get(id);
                        let is_seen = lease.is_some_and(|lease| is_seen(lease.queue));
                        counts.leases += u64::from(is_seen);
                    }
                    _ => {}
                }
            }
            if counts.jobs + counts.leases == 0 {
                continue;
            }
            while levels.len() <= slot.level {
                levels.push(empty_level(levels.len(), now));
            }
            let level = &mut levels[slot.level];
            let start = slot.first - slot.slot as u64 * level.slot_ms;
            level.start = Time::from_millis(start);
            level.slots.push(counts);
        }
        let mut info = WheelInfo { now: Time::from_millis(now), levels, ..WheelInfo::default() };
        for (queue, _) in self.queues.iter().zip(&seen).filter(|(_, is_seen)| **is_seen) {
            let ready = queue.ready.len() + queue.groups.ready;
            info.ready += ready as u64;
            info.beyond += queue.counts.waiting.saturating_sub((ready + queue.near.len()) as u64);
        }
        info
    }
}

/// The number of scheduled and ready jobs.
fn depth(queue: &Queue) -> (u64, u64) {
    let ready = (queue.ready.len() + queue.groups.ready) as u64;
    (queue.counts.waiting.saturating_sub(ready), ready)
}

fn empty_level(level: usize, now: u64) -> WheelLevel {
    let shift = SLOTS.ilog2() * level as u32;
    let position = now >> shift;
    WheelLevel {
        slot_count: SLOTS as u32,
        slot_ms: 1 << shift,
        position: (position % SLOTS as u64) as u32,
        start: Time::from_millis((position - position % SLOTS as u64) << shift),
        slots: Vec::new(),
    }
}
