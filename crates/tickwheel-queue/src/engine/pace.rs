//! Pacing: how many deliveries in any window, and how many at once, for a queue and its groups.
//!
//! A pace keeps the times of its last deliveries, as many as its limit allows in a window. While
//! the oldest of them is within the window, it is *blocked*: no window of that length, wherever it
//! begins, can hold more. The times are kept on disk with each commit and survive a restart.
//!
//! A job whose group is blocked is *held*: taken out of the ready ones, so that those of other
//! groups pass. When its group may go on, the first of those held is *offered*: it can be taken
//! as if it were among the ready ones. The others stay where they are, so that a delivery costs
//! the same however many are held. A blocked queue simply gives out nothing.
//!
//! Times are whole milliseconds. Two deliveries are a window apart when the clock has moved by
//! more than the window, so that fractions cannot add up to one too many.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use tickwheel::wheel::Key;

use super::{Engine, Entry, Timed};
use crate::model::settings::Pacing;
use crate::model::time::Time;
use crate::store::records;
use crate::store::rows::{self, Place};
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View};

/// The pace of a whole queue is kept like that of a group without a name, which no group has.
pub(super) const WHOLE_QUEUE: &str = "";

#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When the last deliveries were, the oldest first.
    starts: VecDeque<Time>,
    /// Leased jobs of a group. A queue counts its own.
    leased: u64,
    /// Ready jobs that wait for the group.
    held: BTreeSet<Place>,
    /// The first of them, if the group may start it.
    offered: Option<Place>,
    pub(super) timer: Option<Key>,
    is_dirty: bool,
}

impl Pace {
    fn is_idle(&self) -> bool {
        self.starts.is_empty() && self.leased == 0 && self.held.is_empty()
    }

    /// Whether nothing would be lost without it.
    fn is_needless(&self) -> bool {
        self.is_idle() && self.timer.is_none() && !self.is_dirty
    }

    /// When the oldest delivery leaves the window.
    fn first_leaves(&self, pacing: Pacing) -> Option<Time> {
        let (_, window) = pacing.starts?;
        Some(self.starts.front()?.after(window).after_a_millisecond())
    }

    fn may_start(&self, pacing: Pacing, leased: u64, now: Time) -> bool {
        if pacing.concurrency.is_some_and(|limit| leased >= u64::from(limit)) {
            return false;
        }
        let Some((limit, window)) = pacing.starts else { return true };
        // The limit may have been lowered since: the last so many count.
        let oldest = self.starts.len().checked_sub(limit as usize).map(|index| self.starts[index]);
        oldest.is_none_or(|start| start.after(window) < now)
    }
}

impl Engine {
    fn pacing(&self, number: u32, group: &str) -> Pacing {
        let settings = &self.queues[number as usize].settings;
        if group == WHOLE_QUEUE { settings.pacing } else { settings.group_pacing }
    }

    /// Whether the queue as a whole may deliver one more job; if not, it is woken when it may.
    pub(super) fn queue_may_start(&mut self, number: u32) -> bool {
        let pacing = self.pacing(number, WHOLE_QUEUE);
        let (now, queue) = (self.now.time(), &self.queues[number as usize]);
        let leased = queue.counts.leased;
        let idle = Pace::default();
        let pace = queue.paces.get(WHOLE_QUEUE).unwrap_or(&idle);
        let may = pace.may_start(pacing, leased, now);
        if !may {
            self.arm_pace(number, WHOLE_QUEUE);
        }
        may
    }

    /// Whether a group may start one more job; if not, the job at this place is held.
    pub(super) fn group_may_start(&mut self, number: u32, group: &str, at: Place) -> bool {
        let pacing = self.pacing(number, group);
        let now = self.now.time();
        let queue = &mut self.queues[number as usize];
        let Some(pace) = queue.paces.get_mut(group) else { return true };
        if pace.may_start(pacing, pace.leased, now) {
            return true;
        }
        if let Some(entry) = queue.ready.remove(at) {
            pace.held.insert(at);
            queue.held.insert(at, (entry, Arc::from(group)));
        }
        self.arm_pace(number, group);
        self.offer_held(number, group);
        false
    }

    /// A job is delivered.
    pub(super) fn note_start(&mut self, number: u32, group: Option<&str>) {
        let now = self.now.time();
        for group in [Some(WHOLE_QUEUE), group].into_iter().flatten() {
            let pacing = self.pacing(number, group);
            let is_group = group != WHOLE_QUEUE;
            if pacing.starts.is_none() && !is_group {
                continue;
            }
            let queue = &mut self.queues[number as usize];
            let pace = queue.paces.entry(Arc::from(group)).or_default();
            pace.leased += u64::from(is_group);
            let Some((limit, _)) = pacing.starts else { continue };
            pace.starts.push_back(now);
            while pace.starts.len() > limit as usize {
                pace.starts.pop_front();
            }
            self.touch_pace(number, group);
            self.arm_pace(number, group);
        }
        if let Some(group) = group {
            self.offer_held(number, group);
        }
    }

    /// A leased job is not leased any more.
    pub(super) fn note_end(&mut self, number: u32, group: Option<&str>) {
        if let Some(group) = group
            && let Some(pace) = self.queues[number as usize].paces.get_mut(group)
        {
            pace.leased = pace.leased.saturating_sub(1);
            self.offer_held(number, group);
        }
        if self.pacing(number, WHOLE_QUEUE).concurrency.is_some() {
            self.wake(number);
        }
    }

    /// Offers the first held job of a group if the group may start one, and none if not. To be
    /// called after all that changes one of these.
    fn offer_held(&mut self, number: u32, group: &str) {
        let (pacing, now) = (self.pacing(number, group), self.now.time());
        let queue = &mut self.queues[number as usize];
        let Some(pace) = queue.paces.get_mut(group) else { return };
        let may = pace.may_start(pacing, pace.leased, now);
        let first = pace.held.first().copied().filter(|_| may);
        let last = std::mem::replace(&mut pace.offered, first);
        if pace.is_needless() {
            queue.paces.remove(group);
        }
        if first == last {
            return;
        }
        if let Some(place) = last {
            queue.offered.remove(&place);
        }
        if let Some(place) = first {
            queue.offered.insert(place);
            self.wake(number);
        }
    }

    /// The settings of a queue have changed: windows may end at another time, and what is held may
    /// go on.
    pub(super) fn pacing_changed(&mut self, number: u32) {
        let groups: Vec<_> = self.queues[number as usize].paces.keys().cloned().collect();
        for group in groups {
            let has_window = self.pacing(number, &group).starts.is_some();
            let pace = self.queues[number as usize].paces.get_mut(&group);
            // Without a window the timer stays, to forget what the last one has counted.
            if let Some(timer) = pace.and_then(|pace| pace.timer.take_if(|_| has_window)) {
                self.wheel.remove(timer);
            }
            self.arm_pace(number, &group);
        }
        self.let_all_go_on(number);
    }

    /// Puts all held jobs of a queue back: its settings or the clock were changed.
    pub(super) fn let_all_go_on(&mut self, number: u32) {
        let queue = &mut self.queues[number as usize];
        queue.offered.clear();
        for (place, (entry, group)) in std::mem::take(&mut queue.held) {
            queue.ready.insert(place, entry);
            if let Some(pace) = queue.paces.get_mut(&group) {
                pace.held.clear();
                pace.offered = None;
            }
        }
        queue.paces.retain(|_, pace| !pace.is_needless());
    }

    /// A held job does not wait any more, if it is one.
    pub(super) fn unhold(&mut self, number: u32, place: Place) -> Option<Entry> {
        let queue = &mut self.queues[number as usize];
        let (entry, group) = queue.held.remove(&place)?;
        if let Some(pace) = queue.paces.get_mut(&group) {
            pace.held.remove(&place);
        }
        self.offer_held(number, &group);
        Some(entry)
    }

    /// Sees to it that the pace is looked at when its oldest delivery leaves the window.
    fn arm_pace(&mut self, number: u32, group: &str) {
        let pacing = self.pacing(number, group);
        let queue = &mut self.queues[number as usize];
        let Some((name, _)) = queue.paces.get_key_value(group) else { return };
        let name = Arc::clone(name);
        let Some(pace) = queue.paces.get_mut(group) else { return };
        if pace.timer.is_none()
            && let Some(at) = pace.first_leaves(pacing)
        {
            let event = Timed::Pace { queue: number, group: name };
            pace.timer = Some(self.wheel.insert(at.as_millis(), event));
        }
    }

    pub(super) fn pace_timer_fired(&mut self, number: u32, group: &str) {
        let pacing = self.pacing(number, group);
        let now = self.now.time();
        if let Some(pace) = self.queues[number as usize].paces.get_mut(group) {
            pace.timer = None;
            while pace.first_leaves(pacing).is_some_and(|leaves| leaves <= now)
                || (pacing.starts.is_none() && !pace.starts.is_empty())
            {
                pace.starts.pop_front();
            }
            self.touch_pace(number, group);
            self.arm_pace(number, group);
            self.offer_held(number, group);
            self.wake(number);
        }
    }

    fn touch_pace(&mut self, number: u32, group: &str) {
        let queue = &mut self.queues[number as usize];
        let Some((name, _)) = queue.paces.get_key_value(group) else { return };
        let name = Arc::clone(name);
        if let Some(pace) = queue.paces.get_mut(group).filter(|pace| !pace.is_dirty) {
            pace.is_dirty = true;
            self.dirty_paces.push((number, name));
        }
    }

    /// Adds the paces that have changed to the batch.
    pub(super) fn write_paces(&mut self) {
        for (number, group) in std::mem::take(&mut self.dirty_paces) {
            let key = rows::pace(number, &group);
            let queue = &mut self.queues[number as usize];
            let Some(pace) = queue.paces.get_mut(&group) else { continue };
            pace.is_dirty = false;
            if pace.starts.is_empty() {
                self.batch.remove(Table::Index, &key);
                if pace.is_idle() {
                    queue.paces.remove(&group);
                }
            } else {
                let starts = pace.starts.make_contiguous();
                self.batch.put_with(Table::Index, &key, |bytes| {
                    records::encode_starts(bytes, starts);
                });
            }
        }
    }

    /// A delivery cannot lie in the future: a clock that was set back would block for long.
    pub(super) fn pull_starts_back(&mut self) {
        let now = self.now.time();
        for queue in &mut self.queues {
            for pace in queue.paces.values_mut() {
                pace.timer = None;
                pace.starts.iter_mut().for_each(|start| *start = (*start).min(now));
            }
        }
        for number in 0..self.queues.len() as u32 {
            let groups: Vec<_> = self.queues[number as usize].paces.keys().cloned().collect();
            for group in groups {
                self.arm_pace(number, &group);
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
                let queue = &mut self.queues[leased.queue as usize];
                queue.paces.entry(Arc::from(group.as_str())).or_default().leased += 1;
            }
        }
        Ok(())
    }

    fn read_pace(&mut self, key: &[u8], value: Bytes) -> Result<(), String> {
        let starts = records::decode_starts(value)?;
        let (number, group) = rows::read_pace_key(key).ok_or("a key that names no group")?;
        let now = self.now.time();
        let queue = self.queues.get_mut(number as usize).ok_or("a key that names no queue")?;
        let starts = starts.into_iter().map(|start| start.min(now)).collect();
        let pace = Pace { starts, ..Pace::default() };
        queue.paces.insert(Arc::from(group), pace);
        self.arm_pace(number, group);
        Ok(())
    }
}
