//! The rows of groups: reading evicted ones, and counting waiting jobs.
//!
//! Rows of a group are ordered by priority and then by due time. In priority order they are read as
//! stored; in order of due time, the rows of the priorities in use are merged.
//!
//! The rows of a group are counted at the end of a commit group: each changed row is compared with
//! the store. So a count cannot drift from its rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::ready::Turn;
use super::{Engine, Entry};
use crate::model::id::JobId;
use crate::model::time::Time;
use crate::store::groups::{GroupCounts, ranks};
use crate::store::rows::{self, DueValue, Place};
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View};

/// Rows of one group that are read at once.
const SLICE: usize = 1_024;

/// The grouped rows and groups that a commit group has changed.
#[derive(Default)]
pub(super) struct TouchedGroups {
    /// The rows by queue and group, each with whether the store has it, if that is known.
    groups: BTreeMap<(u32, Arc<str>), BTreeMap<Place, Option<bool>>>,
}

impl TouchedGroups {
    pub(super) fn forget_queue(&mut self, number: u32) {
        self.groups.retain(|(queue, _), _| *queue != number);
    }
}

impl Engine {
    /// Marks the counts of a group as changed.
    pub(super) fn touch_group(&mut self, number: u32, name: &str) {
        self.touched_group(number, name);
    }

    fn touched_group(&mut self, number: u32, name: &str) -> &mut BTreeMap<Place, Option<bool>> {
        let groups = &self.queues[number as usize].groups;
        let name = groups.named(name).map_or_else(|| name.into(), |group| Arc::clone(&group.name));
        self.touched_groups.groups.entry((number, name)).or_default()
    }

    /// Adds the row of a waiting job to its group. `is_new` says that the job did not wait there
    /// before.
    pub(super) fn add_grouped(
        &mut self,
        number: u32,
        name: &str,
        place: Place,
        (id, has_status): (JobId, bool),
        is_new: bool,
    ) {
        let key = rows::grouped(number, name, place);
        let value = DueValue { id, has_status, group: None };
        self.batch.put_with(Table::Index, &key, |bytes| value.encode(bytes));
        let was_there = if is_new { Some(false) } else { None };
        self.touched_group(number, name).entry(place).or_insert(was_there);
    }

    /// Removes the row of a waiting job from its group. `is_there` says that the row is known to
    /// exist: jobs that format 1 wrote have none.
    pub(super) fn remove_grouped(&mut self, number: u32, name: &str, place: Place, is_there: bool) {
        self.batch.remove(Table::Index, &rows::grouped(number, name, place));
        let was_there = if is_there { Some(true) } else { None };
        self.touched_group(number, name).entry(place).or_insert(was_there);
    }

    /// Adds the counts of the changed groups to the batch.
    pub(super) fn write_group_counts(&mut self, view: &dyn View) {
        for ((number, name), touched) in std::mem::take(&mut self.touched_groups.groups) {
            let key = rows::of_group(rows::GROUP_COUNTS, number, &name);
            let known = self.queues[number as usize].groups.named(&name);
            let (mut waiting, running) =
                known.map_or((None, 0), |group| (group.waiting, group.pace.leased));
            if waiting.is_none() {
                waiting = match view.get(Table::Counters, &key) {
                    Ok(row) => row.and_then(|row| GroupCounts::decode(row).ok()),
                    Err(error) => {
                        tracing::error!(group = &*name, %error, "unreadable counts of a group");
                        self.tally.damaged += 1;
                        None
                    }
                }
                .map(|counts| counts.waiting);
            }
            let mut waiting = waiting.unwrap_or_default();
            for (place, was_there) in touched {
                let row = rows::grouped(number, &name, place);
                let was_there = was_there
                    .unwrap_or_else(|| view.get(Table::Index, &row).is_ok_and(|row| row.is_some()));
                let is_there = matches!(self.batch.get(Table::Index, &row), Some(Some(_)));
                waiting = (waiting + u64::from(is_there)).saturating_sub(u64::from(was_there));
            }
            let counts = GroupCounts { waiting, running };
            if counts == GroupCounts::default() {
                self.batch.remove(Table::Counters, &key);
            } else {
                self.batch.put_with(Table::Counters, &key, |bytes| counts.encode(bytes));
            }
            if let Some(group) = self.queues[number as usize].groups.named_mut(&name) {
                group.waiting = Some(waiting);
            }
        }
    }

    /// Reads some rows of each group that needs them.
    pub(super) fn load_groups(&mut self, view: &dyn View) {
        for (number, index) in std::mem::take(&mut self.groups_to_load) {
            self.queue(number).groups[index].is_loading = false;
            if let Err(error) = self.load_group(view, number, index) {
                self.rows_are_unreadable(number, &error);
            }
        }
    }

    fn load_group(&mut self, view: &dyn View, number: u32, index: u32) -> Result<(), StoreError> {
        let now = self.now.time();
        let room = self.share(number, index);
        let queue = self.queue(number);
        let by_priority = queue.ready.is_by_priority();
        let end = queue.edge.unwrap_or(Place::MAX);
        let group = &queue.groups[index];
        let Some(edge) = group.edge else {
            self.refresh_group(number, index);
            return Ok(());
        };
        let name = Arc::clone(&group.name);
        let wanted = room.saturating_sub(group.in_memory(by_priority)).clamp(1, SLICE);
        let mut found = Vec::new();
        let mut next = None;
        let mut rows = GroupRows::new(view, (number, &name), edge, by_priority)?;
        while let Some(row) = rows.next(now) {
            let Some((key, value)) = self.pass_damage(row)? else { continue };
            let parsed = rows::read_grouped_key(&key).zip(DueValue::decode(&value));
            let Some(((_, _, place), value)) = parsed else {
                tracing::error!(queue = %self.queue(number).name, ?key, "a malformed row of a group");
                self.tally.damaged += 1;
                continue;
            };
            let turn = self.queue(number).ready.turn(place);
            if turn < edge || (by_priority && place >= end) {
                continue;
            }
            if place >= end {
                break;
            }
            if found.len() == wanted {
                next = Some(turn);
                break;
            }
            let entry = Entry { id: value.id, has_status: value.has_status, group: index };
            found.push((place, entry));
        }
        self.queue(number).groups[index].edge = next;
        for (place, entry) in found {
            let queue = self.queue(number);
            queue.furthest = queue.furthest.max(place);
            if !queue.ready.contains(place) && !queue.near.contains_key(&place.seq) {
                self.place_in_group(number, index, place, entry);
            }
        }
        // The last job of the group may have been evicted, and the group with it.
        self.refresh_named(number, &name);
        Ok(())
    }

    /// Moves a ready job into its group. Format 1 wrote its row without the group.
    pub(super) fn join_group(&mut self, number: u32, place: Place, entry: Entry, name: &str) {
        let Entry { id, has_status, .. } = entry;
        let queue = self.queue(number);
        queue.ready.remove(place);
        let value = DueValue { id, has_status, group: Some(name) };
        let key = rows::due(number, place);
        self.batch.put_with(Table::Index, &key, |bytes| value.encode(bytes));
        self.add_grouped(number, name, place, (id, has_status), false);
        let index = self.queue(number).groups.index_for(name);
        self.place_in_group(number, index, place, Entry { group: index, ..entry });
    }
}

/// The rows of a group from a turn on, in order of delivery.
struct GroupRows<'a> {
    /// The rows of each priority in use, the highest first.
    ranks: Vec<std::iter::Peekable<Tolerant<'a>>>,
    by_priority: bool,
}

impl<'a> GroupRows<'a> {
    fn new(
        view: &'a dyn View,
        (number, name): (u32, &str),
        from: Turn,
        by_priority: bool,
    ) -> Result<Self, StoreError> {
        let in_use = ranks(view, number, name)?;
        let ranks = in_use.into_iter().filter(|rank| !by_priority || *rank >= from.place.rank);
        let ranks = ranks.map(|rank| {
            let is_whole = by_priority && rank != from.place.rank;
            let due = if is_whole { Time::default() } else { from.place.due };
            let start = rows::grouped_from(number, name, rank, due);
            let end = rows::grouped_rank_end(number, name, rank);
            Tolerant::new(view, Table::Index, &start, &end).peekable()
        });
        let ranks = ranks.collect();
        Ok(Self { ranks, by_priority })
    }

    /// Returns the next row; in priority order the next one that is due.
    fn next(&mut self, now: Time) -> Option<Result<(Bytes, Bytes), StoreError>> {
        let place = |row: &Result<(Bytes, Bytes), StoreError>| {
            let (key, _) = row.as_ref().ok()?;
            rows::read_grouped_key(key).map(|(_, _, place)| place)
        };
        if self.by_priority {
            return self.ranks.iter_mut().find_map(|rows| {
                rows.next_if(|row| place(row).is_none_or(|place| place.due <= now))
            });
        }
        // `None` sorts first: an unreadable row is returned at once.
        let first = |rows: &mut std::iter::Peekable<Tolerant<'a>>| rows.peek().map(place);
        let ranks = self.ranks.iter_mut();
        let with_places = ranks.filter_map(|rows| first(rows).map(|place| (place, rows)));
        with_places.min_by_key(|(place, _)| *place)?.1.next()
    }
}
