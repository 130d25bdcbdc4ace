//! Which waiting jobs are in memory: the front of each queue's due index.
//!
//! Every row of a queue before its *edge* is in memory, and no other: on the wheel while it is in
//! the future, in the ordered set of ready jobs once it is due. A group may keep only its first
//! rows in memory ([`super::groups`]). The edge moves outward when rows are read, as they come
//! within the horizon and there is room. It moves inward when too many jobs are in memory, or when
//! a job is put far ahead. So memory is bounded by time and by number: a queue with ten million
//! jobs next week holds none, and a queue with ten million ready jobs and no worker holds a few
//! thousand.
//!
//! There are no races: rows are read at the start of a group, before its first change, by the only
//! thread that changes them. A put or a cancel compares its place with the edge.

use std::time::Duration;

use tickwheel::wheel::HierarchicalWheel;

use super::{Engine, Entry, NO_GROUP, Timed};
use crate::model::time::{Time, millis};
use crate::store::rows::{self, DueValue, Place};
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View};

/// Rows read at once: about a millisecond of work.
const SLICE: usize = 1_024;
/// How long to wait before rows that could not be read are tried again.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// A queue may always hold this many jobs in memory.
const LEAST_ROOM: usize = 16;
/// A queue in priority order may always hold this many ready jobs in memory, or as many as all
/// queues together if that is less.
const LEAST_READY: usize = 1_024;

impl Engine {
    /// Returns how many jobs a queue may hold in memory before some are evicted.
    pub(super) fn room(&self) -> usize {
        (self.options.near / self.queues.len().max(1)).max(LEAST_ROOM)
    }

    /// Returns how many ready jobs a queue in priority order keeps when it skips the worst.
    fn ready_room(&self) -> usize {
        self.room().max(self.options.near.min(LEAST_READY))
    }

    fn horizon(&self) -> Time {
        Time::from_millis(self.now.time().as_millis().saturating_add(millis(self.options.horizon)))
    }

    /// Returns up to where rows are read. It is beyond the horizon, so that a steady stream of jobs
    /// is read in large pieces.
    fn reading_limit(&self) -> Time {
        let ahead = self.options.horizon + self.options.horizon / 2;
        Time::from_millis(self.now.time().as_millis().saturating_add(millis(ahead)))
    }

    /// Adds a waiting job at this place.
    pub(super) fn place(&mut self, number: u32, place: Place, value: DueValue<'_>) {
        // Most puts end here, before anything is computed.
        if self.queues[number as usize].edge.is_some_and(|edge| place >= edge) {
            return;
        }
        let (limit, room) = (self.reading_limit(), self.room());
        if place.due > limit {
            self.pull_edge(number, place);
            return;
        }
        let group = self.group_of(number, value.group);
        let DueValue { id, has_status, .. } = value;
        let entry = Entry { id, has_status, group: group.unwrap_or(NO_GROUP) };
        if let Some(group) = group {
            self.place_in_group(number, group, place, entry);
        } else if place.due <= self.now.time() {
            self.make_ready(number, place, entry);
        } else {
            let event = Timed::Due { queue: number, place, entry };
            let key = self.wheel.insert(place.due.as_millis(), event);
            self.queues[number as usize].near.insert(place.seq, key);
        }
        self.make_room(number, place, room);
    }

    /// Adds a ready job without a group.
    fn make_ready(&mut self, number: u32, place: Place, entry: Entry) {
        let queue = &mut self.queues[number as usize];
        if queue.ready.is_empty() {
            queue.groups.plain_became_ready();
        }
        queue.ready.insert(place, entry);
        self.wake(number);
    }

    /// Evicts some jobs if the one just added makes too many.
    fn make_room(&mut self, number: u32, placed: Place, room: usize) {
        let remain = self.ready_room();
        let queue = &mut self.queues[number as usize];
        queue.furthest = queue.furthest.max(placed);
        if queue.ready.is_by_priority() && queue.ready.len() > 2 * remain {
            queue.ready.skip_worst(remain);
        }
        if queue.crowd() > 2 * room {
            self.trim_groups(number);
        }
        if self.queues[number as usize].crowd() > 2 * room {
            self.evict_last(number, room);
        }
    }

    /// Removes the waiting job at this place.
    pub(super) fn unplace(&mut self, number: u32, place: Place, group: Option<&str>) {
        let queue = &mut self.queues[number as usize];
        let group = group.and_then(|name| queue.groups.index_of(name));
        if let Some(key) = queue.near.remove(&place.seq) {
            self.wheel.remove(key);
            group.map(|group| queue.groups[group].near.remove(&place));
        } else if queue.ready.remove(place).is_none()
            && let Some(group) = group
        {
            self.take_from_group(number, group, place);
        }
        if let Some(group) = group {
            self.refresh_group(number, group);
        }
        self.want_rows(number);
    }

    pub(super) fn became_due(&mut self, number: u32, place: Place, entry: Entry) {
        let queue = &mut self.queues[number as usize];
        queue.near.remove(&place.seq);
        if let Some(group) = entry.group() {
            queue.groups[group].near.remove(&place);
            self.place_in_group(number, group, place, entry);
        } else {
            self.make_ready(number, place, entry);
        }
    }

    /// Evicts the jobs from this place on. The edge never moves outward here: rows between the old
    /// edge and the new one would be neither in memory nor read later.
    pub(super) fn pull_edge(&mut self, number: u32, to: Place) {
        let queue = &mut self.queues[number as usize];
        let edge = queue.edge.map_or(to, |edge| edge.min(to));
        queue.edge = Some(edge);
        // Mostly no job in memory is that far ahead.
        if queue.furthest < edge {
            self.want_rows(number);
            return;
        }
        queue.furthest = edge;
        queue.ready.cut(edge);
        self.cut_groups(number, edge);
        let queue = &mut self.queues[number as usize];
        let wheel = &mut self.wheel;
        queue.near.retain(|_, &mut key| {
            let place = wheel.get(key).map(|event| match event {
                Timed::Due { place, .. } => *place,
                _ => unreachable!("the near jobs of a queue are due events"),
            });
            let stays = place.is_some_and(|place| place < edge);
            if !stays {
                wheel.remove(key);
            }
            stays
        });
        self.want_rows(number);
    }

    /// Evicts the last jobs, so that `remain` stay in memory.
    fn evict_last(&mut self, number: u32, remain: usize) {
        let queue = &self.queues[number as usize];
        let on_wheel = queue.near.values().filter_map(|&key| match self.wheel.get(key) {
            Some(Timed::Due { place, .. }) => Some(*place),
            _ => None,
        });
        let mut places: Vec<Place> = if queue.ready.is_by_priority() {
            on_wheel.collect()
        } else {
            let grouped = queue.groups.iter().flat_map(|group| group.ready.keys());
            let grouped = grouped.map(|turn| turn.place);
            queue.ready.places().chain(grouped).chain(on_wheel).collect()
        };
        let (_, &mut edge, _) = places.select_nth_unstable(remain);
        self.pull_edge(number, edge);
    }

    /// Schedules the reading of the queue's rows, now or when they come within the horizon.
    pub(super) fn want_rows(&mut self, number: u32) {
        let (now, horizon, room) = (self.now.time(), self.horizon(), self.room());
        let queue = &self.queues[number as usize];
        // Groups that may not start a job must not keep out the rows of others.
        if queue.edge.is_some()
            && queue.crowd() > room / 2
            && queue.groups.ready > room / 4 + queue.groups.len()
        {
            self.trim_groups(number);
        }
        let ready_room = self.ready_room();
        let queue = &mut self.queues[number as usize];
        let Some(edge) = queue.edge else { return };
        // In priority order, ready rows are read when a worker asks for jobs.
        let is_late =
            queue.ready.is_by_priority() && edge.due <= now && queue.ready.len() >= ready_room;
        if queue.marks.loading || queue.crowd() > room / 2 || is_late {
            return;
        }
        if edge.due <= horizon {
            self.load_soon(number);
            return;
        }
        let at = edge.due.as_millis() - millis(self.options.horizon);
        self.set_load_timer(number, Time::from_millis(at));
    }

    fn set_load_timer(&mut self, number: u32, at: Time) {
        let (queue, at) = (&mut self.queues[number as usize], at.as_millis());
        match queue.load_timer {
            Some(key) if self.wheel.reset(key, at) => {}
            _ => queue.load_timer = Some(self.wheel.insert(at, Timed::Load(number))),
        }
    }

    pub(super) fn load_timer_fired(&mut self, number: u32) {
        let queue = self.queue(number);
        queue.load_timer = None;
        queue.unreadable = None;
        for group in queue.groups.indices() {
            self.refresh_group(number, group);
        }
        self.want_rows(number);
    }

    /// Reads some rows of each queue that needs them.
    pub(super) fn load_what_is_near(&mut self, view: &dyn View) {
        for number in std::mem::take(&mut self.to_load) {
            self.queue(number).marks.loading = false;
            self.load(view, number);
        }
    }

    /// Reads some rows after the edge, or skipped ones.
    fn load(&mut self, view: &dyn View, number: u32) {
        self.queue(number).unreadable = None;
        if let Some(from) = self.queue(number).ready.rereading {
            self.reread(view, number, from);
            return;
        }
        let Some(edge) = self.queue(number).edge else { return };
        let (now, limit, room) = (self.now.time(), self.reading_limit(), self.room());
        let mut rows_read = 0;
        let to = rows::due_end(number);
        let reached = self.read_rows(view, number, edge, &to, |engine, place, value| {
            let queue = engine.queue(number);
            let has_room =
                queue.crowd() < room || (queue.ready.is_by_priority() && place.due <= now);
            if rows_read == SLICE || !has_room || place.due > limit {
                return false;
            }
            rows_read += 1;
            // The edge moves along, so that `place` finds the job before it.
            queue.edge = Some(place.next());
            engine.place(number, place, value);
            true
        });
        if let Ok(reached) = reached {
            self.queue(number).edge = reached;
            self.want_rows(number);
        }
    }

    /// Reads some of the skipped ready rows.
    fn reread(&mut self, view: &dyn View, number: u32, from: Place) {
        let (now, room) = (Place::end_of(self.now.time()), self.room());
        let end = self.queue(number).edge.map_or(now, |edge| edge.min(now));
        let mut rows_read = 0;
        let to = rows::due(number, end);
        let reached = self.read_rows(view, number, from, &to, |engine, place, value| {
            if rows_read == SLICE {
                return false;
            }
            rows_read += 1;
            let queue = engine.queue(number);
            queue.ready.rereading = Some(place.next());
            let DueValue { id, has_status, .. } = value;
            if let Some(group) = engine.group_of(number, value.group) {
                engine.place_in_group(number, group, place, Entry { id, has_status, group });
            } else {
                engine.make_ready(number, place, Entry { id, has_status, group: NO_GROUP });
                engine.make_room(number, place, room);
            }
            true
        });
        if let Ok(reached) = reached {
            self.queue(number).ready.rereading = reached;
        }
    }

    /// Passes rows of the due index on until one is refused, which is returned. After an error, the
    /// rows are read again later.
    fn read_rows(
        &mut self,
        view: &dyn View,
        number: u32,
        from: Place,
        to: &[u8],
        mut take: impl FnMut(&mut Self, Place, DueValue<'_>) -> bool,
    ) -> Result<Option<Place>, ()> {
        for row in Tolerant::new(view, Table::Index, &rows::due(number, from), to) {
            let (key, value) = match row {
                Ok(row) => row,
                Err(StoreError::Damaged(why)) => {
                    tracing::error!(queue = %self.queue(number).name, why, "some jobs are skipped");
                    self.tally.damaged += 1;
                    continue;
                }
                Err(error) => {
                    self.rows_are_unreadable(number, &error);
                    return Err(());
                }
            };
            let parsed = rows::place_of(&key).zip(DueValue::decode(&value));
            let Some((place, value)) = parsed else {
                tracing::error!(queue = %self.queue(number).name, ?key, "a malformed due row");
                self.tally.damaged += 1;
                continue;
            };
            if !take(self, place, value) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Schedules another attempt to read rows of a queue.
    pub(super) fn rows_are_unreadable(&mut self, number: u32, error: &StoreError) {
        tracing::error!(queue = %self.queue(number).name, %error, "unreadable rows");
        self.queue(number).unreadable = Some(error.to_string());
        self.set_load_timer(number, self.now.time().after(READ_AGAIN));
    }

    /// Returns `true` if ready rows of the queue must be read before a worker can be served.
    pub(super) fn must_load(&mut self, number: u32) -> bool {
        let (now, room) = (self.now.time(), self.room());
        let queue = &mut self.queues[number as usize];
        let must = if queue.ready.is_by_priority() {
            queue.has_better_rows(now)
        } else {
            queue.next_job().is_none()
                && queue.crowd() < room
                && queue.edge.is_some_and(|edge| edge.due <= now)
        };
        // Rows after the edge come first: they decide which rows are skipped.
        let has_read_all = queue.edge.is_none_or(|edge| edge.due > now);
        if must && has_read_all && queue.ready.rereading.is_none() {
            queue.ready.rereading = queue.ready.forget_skipped();
        }
        if must {
            self.load_soon(number);
        }
        must
    }

    /// Requests rows of the queue for the start of the next commit group, which follows at once.
    pub(super) fn load_soon(&mut self, number: u32) {
        let queue = &mut self.queues[number as usize];
        if !queue.marks.loading {
            queue.marks.loading = true;
            self.to_load.push(number);
        }
    }

    /// Fills a new wheel with the jobs in memory, because the time of a wheel cannot go back.
    pub(super) fn clock_was_set_back(&mut self) {
        let now = self.now.time().as_millis();
        for number in 0..self.queues.len() as u32 {
            if !self.queues[number as usize].ready.is_by_priority() {
                self.forget_groups(number);
            } else if self.queues[number as usize].groups.earliest().is_some() {
                let low = self.queues[number as usize].low(self.now.time());
                self.pull_edge(number, low);
            }
        }
        let mut old = std::mem::replace(&mut self.wheel, HierarchicalWheel::with_start(now));
        let events: Vec<_> = old.drain().map(|due| (due.deadline, due.value)).collect();
        for queue in &mut self.queues {
            queue.near.clear();
            queue.load_timer = None;
            queue.retention_timer = None;
            // Rows that could not be read are needed later, or are tried again below.
            queue.unreadable = None;
        }
        for (deadline, event) in events {
            let (target, key) = match event {
                Timed::Due { queue, place, .. } => {
                    let key = self.wheel.insert(deadline, event);
                    self.queues[queue as usize].near.insert(place.seq, key);
                    continue;
                }
                Timed::Lease(id) => {
                    if let Some(lease) = self.leases.get_mut(&id) {
                        lease.timer = self.wheel.insert(deadline, Timed::Lease(id));
                    }
                    continue;
                }
                Timed::Load(queue) => (queue, self.wheel.insert(deadline, Timed::Load(queue))),
                // Set again below.
                Timed::Pace { .. } | Timed::Schedule(_) => continue,
                Timed::Resume(queue) => {
                    let key = self.wheel.insert(deadline, event);
                    self.queues[queue as usize].resume_timer = Some(key);
                    continue;
                }
                Timed::Idempotency => {
                    self.idempotency_timer = Some(self.wheel.insert(deadline, event));
                    continue;
                }
                Timed::Retention(queue) => {
                    let key = self.wheel.insert(deadline, Timed::Retention(queue));
                    self.queues[queue as usize].retention_timer = Some(key);
                    continue;
                }
            };
            self.queues[target as usize].load_timer = Some(key);
        }
        self.pull_starts_back();
        self.arm_all_schedules();
        for number in 0..self.queues.len() as u32 {
            for group in self.queues[number as usize].groups.indices() {
                self.refresh_group(number, group);
            }
            let queue = &mut self.queues[number as usize];
            if let Some(place) = queue.ready.forget_skipped() {
                self.pull_edge(number, place);
            }
            let last = Place::end_of(self.now.time());
            let early = self.queues[number as usize].ready.take_after(last);
            for (place, entry) in early {
                let event = Timed::Due { queue: number, place, entry };
                let key = self.wheel.insert(place.due.as_millis(), event);
                self.queues[number as usize].near.insert(place.seq, key);
            }
            self.want_rows(number);
        }
    }
}
