//! Pacing: limits on the deliveries in any window and on concurrent deliveries, for a queue and its
//! groups.
//!
//! A pace keeps the times of its last deliveries, up to its limit for a window. While the oldest of
//! them is within the window, the pace is *blocked*. So no window of that length, wherever it
//! begins, has more deliveries than the limit. The times are committed with each group and survive
//! a restart.
//!
//! A blocked group offers no job, so jobs of other groups pass it ([`super::groups`]). A blocked
//! queue delivers nothing.
//!
//! Times are whole milliseconds. A delivery leaves the window once the clock has moved by more than
//! the window, so fractions of a millisecond cannot allow one delivery too many.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tickwheel::wheel::Key;

use super::{Engine, Timed};
use crate::model::settings::Pacing;
use crate::model::time::Time;
use crate::store::records;
use crate::store::rows;
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View};

/// The pace of a whole queue is stored under the empty group name, which no group has.
pub(super) const WHOLE_QUEUE: &str = "";

#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The times of the last deliveries, the oldest first.
    starts: VecDeque<Time>,
    /// The number of leased jobs of a group. A queue counts its own.
    pub(super) leased: u64,
    pub(super) timer: Option<Key>,
    is_dirty: bool,
}

impl Pace {
    /// Returns `true` if the pace can be forgotten.
    pub(super) fn is_needless(&self) -> bool {
        self.starts.is_empty() && self.leased == 0 && self.timer.is_none() && !self.is_dirty
    }

    /// Returns when the oldest delivery leaves the window.
    fn first_leaves(&self, pacing: Pacing) -> Option<Time> {
        let (_, window) = pacing.starts?;
        Some(self.starts.front()?.after(window).after_a_millisecond())
    }

    pub(super) fn may_start(&self, pacing: Pacing, leased: u64, now: Time) -> bool {
        let starts = self.starts.len();
        may_start(pacing, leased, (starts, |index| self.starts[index]), now)
    }
}

/// Returns `true` if one more job may be delivered, given the number of leased jobs, and the number
/// and the times of the last deliveries.
pub(crate) fn may_start(
    pacing: Pacing,
    leased: u64,
    (count, start): (usize, impl Fn(usize) -> Time),
    now: Time,
) -> bool {
    if pacing.concurrency.is_some_and(|limit| leased >= u64::from(limit)) {
        return false;
    }
    let Some((limit, window)) = pacing.starts else { return true };
    // If the limit was lowered, more starts are kept than it allows: only the last `limit` count.
    let oldest = count.checked_sub(limit as usize).map(start);
    oldest.is_none_or(|start| start.after(window) < now)
}

impl Engine {
    pub(super) fn pacing(&self, number: u32, group: &str) -> Pacing {
        let queue = &self.queues[number as usize];
        if group == WHOLE_QUEUE {
            return queue.settings.pacing;
        }
        let own = queue.groups.named(group).and_then(|group| group.settings.pacing);
        own.unwrap_or(queue.settings.group_pacing)
    }

    fn pace(&mut self, number: u32, group: &str) -> Option<&mut Pace> {
        let queue = &mut self.queues[number as usize];
        if group == WHOLE_QUEUE {
            return Some(&mut queue.pace);
        }
        queue.groups.named_mut(group).map(|group| &mut group.pace)
    }

    /// Returns `true` if the queue may deliver one more job. If not, it is woken when it may.
    pub(super) fn queue_may_start(&mut self, number: u32) -> bool {
        let queue = &self.queues[number as usize];
        let leased = queue.counts.leased;
        let may = queue.pace.may_start(queue.settings.pacing, leased, self.now.time());
        if !may {
            self.arm_pace(number, WHOLE_QUEUE);
        }
        may
    }

    /// Counts a delivery.
    pub(super) fn note_start(&mut self, number: u32, group: Option<&str>) {
        if self.pacing(number, WHOLE_QUEUE).starts.is_some() {
            self.count_start(number, WHOLE_QUEUE);
        }
        let Some(group) = group else { return };
        let queue = &mut self.queues[number as usize];
        let index = queue.groups.index_for(group);
        queue.groups[index].pace.leased += 1;
        self.touch_group(number, group);
        self.count_start(number, group);
        self.refresh_group(number, index);
    }

    /// Notes the time of a delivery, if the pace has a window.
    fn count_start(&mut self, number: u32, group: &str) {
        let (pacing, now) = (self.pacing(number, group), self.now.time());
        let Some((limit, _)) = pacing.starts else { return };
        let Some(pace) = self.pace(number, group) else { return };
        pace.starts.push_back(now);
        while pace.starts.len() > limit as usize {
            pace.starts.pop_front();
        }
        self.touch_pace(number, group);
        self.arm_pace(number, group);
    }

    /// Counts the end of a lease.
    pub(super) fn note_end(&mut self, number: u32, group: Option<&str>) {
        let queue = &mut self.queues[number as usize];
        if let Some(group) = group
            && let Some(index) = queue.groups.index_of(group)
        {
            let pace = &mut queue.groups[index].pace;
            pace.leased = pace.leased.saturating_sub(1);
            self.touch_group(number, group);
            self.refresh_group(number, index);
        }
        if self.pacing(number, WHOLE_QUEUE).concurrency.is_some() {
            self.wake(number);
        }
    }

    /// Applies changed settings of a queue: windows may end at another time, and groups may be
    /// blocked or unblocked.
    pub(super) fn pacing_changed(&mut self, number: u32) {
        self.rearm_pace(number, WHOLE_QUEUE);
        for index in self.queues[number as usize].groups.indices() {
            let name = Arc::clone(&self.queues[number as usize].groups[index].name);
            self.rearm_pace(number, &name);
            self.refresh_group(number, index);
        }
    }

    /// Sets the timer of a pace anew after its limits changed.
    pub(super) fn rearm_pace(&mut self, number: u32, group: &str) {
        let has_window = self.pacing(number, group).starts.is_some();
        // Without a window the timer stays, so that the recorded deliveries are forgotten.
        let timer = self.pace(number, group).and_then(|pace| pace.timer.take_if(|_| has_window));
        if let Some(timer) = timer {
            self.wheel.remove(timer);
        }
        self.arm_pace(number, group);
    }

    /// Schedules a check of the pace for when its oldest delivery leaves the window.
    fn arm_pace(&mut self, number: u32, group: &str) {
        let pacing = self.pacing(number, group);
        let Some(pace) = self.pace(number, group).filter(|pace| pace.timer.is_none()) else {
            return;
        };
        if let Some(at) = pace.first_leaves(pacing) {
            let event = Timed::Pace { queue: number, group: Arc::from(group) };
            let timer = self.wheel.insert(at.as_millis(), event);
            if let Some(pace) = self.pace(number, group) {
                pace.timer = Some(timer);
            }
        }
    }

    pub(super) fn pace_timer_fired(&mut self, number: u32, group: &str) {
        let (pacing, now) = (self.pacing(number, group), self.now.time());
        let Some(pace) = self.pace(number, group) else { return };
        pace.timer = None;
        while pace.first_leaves(pacing).is_some_and(|leaves| leaves <= now)
            || (pacing.starts.is_none() && !pace.starts.is_empty())
        {
            pace.starts.pop_front();
        }
        self.touch_pace(number, group);
        self.arm_pace(number, group);
        self.refresh_named(number, group);
        self.wake(number);
    }

    fn touch_pace(&mut self, number: u32, group: &str) {
        if let Some(pace) = self.pace(number, group).filter(|pace| !pace.is_dirty) {
            pace.is_dirty = true;
            self.dirty_paces.push((number, Arc::from(group)));
        }
    }

    /// Adds the paces that have changed to the batch.
    pub(super) fn write_paces(&mut self) {
        for (number, group) in std::mem::take(&mut self.dirty_paces) {
            let key = rows::of_group(rows::PACE, number, &group);
            let queue = &mut self.queues[number as usize];
            let pace = match &*group {
                WHOLE_QUEUE => Some(&mut queue.pace),
                group => queue.groups.named_mut(group).map(|group| &mut group.pace),
            };
            let Some(pace) = pace else { continue };
            pace.is_dirty = false;
            if pace.starts.is_empty() {
                self.batch.remove(Table::Index, &key);
                self.refresh_named(number, &group);
            } else {
                let starts = pace.starts.make_contiguous();
                self.batch.put_with(Table::Index, &key, |bytes| {
                    records::encode_starts(bytes, starts);
                });
            }
        }
    }

    /// A recorded delivery cannot be in the future: otherwise a clock that was set back would block
    /// the pace for long.
    pub(super) fn pull_starts_back(&mut self) {
        let now = self.now.time();
        for number in 0..self.queues.len() as u32 {
            let groups = &self.queues[number as usize].groups;
            let names = groups.indices().into_iter().map(|index| Arc::clone(&groups[index].name));
            let names: Vec<_> = names.chain([Arc::from(WHOLE_QUEUE)]).collect();
            for name in names {
                if let Some(pace) = self.pace(number, &name) {
                    pace.timer = None;
                    pace.starts.iter_mut().for_each(|start| *start = (*start).min(now));
                }
                self.arm_pace(number, &name);
            }
        }
    }

    /// Reads the paces, and counts the leased jobs of groups.
    pub(super) fn read_paces(&mut self, view: &dyn View) -> Result<(), StoreError> {
        for row in Tolerant::new(view, Table::Index, &[rows::PACE], &[rows::PACE + 1]) {
            let Some((key, value)) = self.pass_damage(row)? else { continue };
            if let Err(why) = self.read_pace(&key, value) {
                tracing::error!(?key, why, "a damaged pace");
                self.tally.damaged += 1;
            }
        }
        for leased in self.leases.values() {
            if let Some(group) = &leased.row.group {
                let groups = &mut self.queues[leased.queue as usize].groups;
                let index = groups.index_for(group);
                groups[index].pace.leased += 1;
            }
        }
        Ok(())
    }

    fn read_pace(&mut self, key: &[u8], value: Bytes) -> Result<(), String> {
        let starts = records::decode_starts(value)?;
        let (number, group) = rows::read_group_key(key).ok_or("a key that names no group")?;
        let now = self.now.time();
        let queue = self.queues.get_mut(number as usize).ok_or("a key that names no queue")?;
        let pace = if group == WHOLE_QUEUE {
            &mut queue.pace
        } else {
            let index = queue.groups.index_for(group);
            &mut queue.groups[index].pace
        };
        pace.starts = starts.into_iter().map(|start| start.min(now)).collect();
        self.arm_pace(number, group);
        Ok(())
    }
}
