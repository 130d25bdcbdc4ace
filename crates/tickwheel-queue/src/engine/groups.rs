//! Groups: the jobs of one customer, tenant or partner, paced and served independently of other
//! groups.
//!
//! A queue *sorts* its groups if it paces them, serves them in turn, or has settings for one of
//! them. Its ready jobs then wait in their groups, and each group that may start a job *offers* its
//! first one. A group that is paused or at a limit offers none: its jobs are *held*.
//!
//! Held jobs must not fill the memory. So a group keeps only its first jobs in memory and has an
//! *edge* of its own, before the edge of its queue ([`super::window`]). Jobs at or after the edge
//! are on disk only, and are read from the rows of that group alone. So jobs of other groups are
//! found without scanning a million held jobs repeatedly, and nothing is written when a group is
//! blocked or resumes.
//!
//! Ground rules:
//! * A waiting job of a group is in memory if and only if it lies before the edge of its queue and
//!   before the edge of its group. In priority order, the edge of a group is a turn instead of a
//!   place, and applies to ready jobs only.
//! * Rows of groups are read at the start of a commit group, before its first change.
//! * Entries in memory refer to their group by index. A group keeps its index while entries refer
//!   to it.
//! * [`Engine::refresh_group`] is called after each change that may affect a group's offer.

use std::collections::{BTreeMap, BTreeSet, HashMap, hash_map};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use super::pace::Pace;
use super::ready::Turn;
use super::{Engine, Entry, Timed};
use crate::model::error::{Error, Limit};
use crate::model::group::{GroupPatch, GroupSettings};
use crate::model::validation::check_group;
use crate::store::rows::{self, Place};
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View};

/// The number of jobs that a group keeps in memory after an eviction.
const MAX_SHARE: usize = 1_024;

pub(super) struct Group {
    pub(super) name: Arc<str>,
    pub(super) pace: Pace,
    pub(super) settings: GroupSettings,
    /// Ready jobs in memory.
    pub(super) ready: BTreeMap<Turn, Entry>,
    /// The places of jobs on the wheel.
    pub(super) near: BTreeSet<Place>,
    /// No job with this turn or a later one is in memory. `None` if all jobs are.
    pub(super) edge: Option<Turn>,
    /// Its entry among the offers of the queue.
    offer: Option<GroupOffer>,
    /// No ready job of the group lies before this place.
    front: Option<Place>,
    /// When groups are served in turn, the group with the lowest tag is next.
    tag: u64,
    /// Whether rows are read at the start of the next commit group.
    pub(super) is_loading: bool,
    /// The number of its grouped rows, if it was read.
    pub(super) waiting: Option<u64>,
}

/// The next job of a group that may start one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GroupOffer {
    /// 0 unless groups are served in turn.
    tag: u64,
    turn: Turn,
    group: u32,
}

/// What a worker gets next.
pub(super) enum Next {
    Job(Place, Entry),
    /// A job of this group, which must be read first.
    RowsOf(u32),
}

impl Group {
    fn new(name: Arc<str>) -> Self {
        Self {
            name,
            pace: Pace::default(),
            settings: GroupSettings::default(),
            ready: BTreeMap::new(),
            near: BTreeSet::new(),
            edge: None,
            offer: None,
            front: None,
            tag: 0,
            is_loading: false,
            waiting: None,
        }
    }

    fn is_needless(&self) -> bool {
        self.ready.is_empty()
            && self.near.is_empty()
            && self.edge.is_none()
            && !self.is_loading
            && self.settings == GroupSettings::default()
            && self.pace.is_needless()
    }

    /// Returns the first place of a ready job in memory.
    fn earliest(&self, by_priority: bool) -> Option<Place> {
        if by_priority {
            // Few priorities are in use, and finding the first job of each is cheap.
            let mut earliest = None;
            let mut from = Turn::FIRST;
            while let Some((turn, _)) = self.ready.range(from..).next() {
                earliest = [earliest, Some(turn.place)].into_iter().flatten().min();
                let Some(next) = turn.next_rank() else { break };
                from = next;
            }
            earliest
        } else {
            self.ready.first_key_value().map(|(turn, _)| turn.place)
        }
    }
}

/// The groups of a queue that are in memory.
#[derive(Default)]
pub(super) struct Groups {
    indices: HashMap<Arc<str>, u32>,
    /// `None` at free indices.
    slots: Vec<Option<Box<Group>>>,
    free: Vec<u32>,
    offers: BTreeSet<GroupOffer>,
    fronts: BTreeSet<(Place, u32)>,
    /// The number of ready jobs in memory, of all groups.
    pub(super) ready: usize,
    /// Groups with settings.
    pub(super) with_settings: u64,
    /// The tag of the group that was served last.
    served: u64,
    /// The tag of the jobs without a group.
    plain_tag: u64,
}

impl Index<u32> for Groups {
    type Output = Group;

    fn index(&self, index: u32) -> &Group {
        self.slots[index as usize].as_ref().expect("a group stays while its index is used")
    }
}

impl IndexMut<u32> for Groups {
    fn index_mut(&mut self, index: u32) -> &mut Group {
        self.slots[index as usize].as_mut().expect("a group stays while its index is used")
    }
}

impl Groups {
    pub(super) fn len(&self) -> usize {
        self.indices.len()
    }

    pub(super) fn index_of(&self, name: &str) -> Option<u32> {
        self.indices.get(name).copied()
    }

    /// Returns the index of a group, which is added if it is missing.
    pub(super) fn index_for(&mut self, name: &str) -> u32 {
        if let Some(index) = self.index_of(name) {
            return index;
        }
        let name: Arc<str> = Arc::from(name);
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[index as usize] = Some(Box::new(Group::new(Arc::clone(&name))));
        self.indices.insert(name, index);
        index
    }

    pub(super) fn named(&self, name: &str) -> Option<&Group> {
        self.index_of(name).map(|index| &self[index])
    }

    pub(super) fn named_mut(&mut self, name: &str) -> Option<&mut Group> {
        self.index_of(name).map(|index| &mut self[index])
    }

    pub(super) fn indices(&self) -> Vec<u32> {
        self.indices.values().copied().collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.slots.iter().flatten().map(|group| &**group)
    }

    /// Returns the first place of a ready job of any group, in memory or not.
    pub(super) fn earliest(&self) -> Option<Place> {
        self.fronts.first().map(|(place, _)| *place)
    }

    fn remove(&mut self, index: u32) {
        if let Some(group) = self.slots[index as usize].take() {
            self.indices.remove(&group.name);
            self.free.push(index);
        }
    }

    /// Adds a ready job to a group.
    fn insert_ready(&mut self, index: u32, turn: Turn, entry: Entry) {
        let is_new = self[index].ready.insert(turn, entry).is_none();
        self.ready += usize::from(is_new);
    }

    /// Gives jobs without a group a turn, like those of a group, when some become ready.
    pub(super) fn plain_became_ready(&mut self) {
        self.plain_tag = self.plain_tag.max(self.served + 1);
    }
}

impl super::Queue {
    /// Returns `true` if ready jobs wait in their groups.
    pub(super) fn sorts_groups(&self) -> bool {
        self.settings.fair_groups
            || self.settings.group_pacing != crate::model::settings::Pacing::default()
            || self.groups.with_settings > 0
    }

    /// Returns the next job to deliver, if the paces allow one.
    pub(super) fn next_job(&self) -> Option<Next> {
        let plain = self.ready.first();
        let Some(&offer) = self.groups.offers.first() else {
            return plain.map(|(place, entry)| Next::Job(place, entry));
        };
        let plain = plain.filter(|(place, _)| {
            let tag = if self.settings.fair_groups { self.groups.plain_tag } else { 0 };
            (tag, self.ready.turn(*place)) < (offer.tag, offer.turn)
        });
        if let Some((place, entry)) = plain {
            return Some(Next::Job(place, entry));
        }
        let first = self.groups[offer.group].ready.first_key_value();
        Some(match first.filter(|(turn, _)| **turn == offer.turn) {
            Some((turn, entry)) => Next::Job(turn.place, *entry),
            None => Next::RowsOf(offer.group),
        })
    }
}

impl Engine {
    /// Returns how many jobs a group may keep in memory.
    pub(super) fn share(&self, number: u32, index: u32) -> usize {
        if !self.group_may_start(number, index) {
            return 1;
        }
        let groups = self.queues[number as usize].groups.len().max(1);
        (self.room() / 4 / groups).clamp(1, MAX_SHARE)
    }

    pub(super) fn group_may_start(&self, number: u32, index: u32) -> bool {
        let queue = &self.queues[number as usize];
        let group = &queue.groups[index];
        let pacing = group.settings.pacing.unwrap_or(queue.settings.group_pacing);
        !group.settings.paused && group.pace.may_start(pacing, group.pace.leased, self.now.time())
    }

    /// Returns the group that a job waits in. A queue that does not sort its groups knows only
    /// groups with evicted jobs.
    pub(super) fn group_of(&mut self, number: u32, name: Option<&str>) -> Option<u32> {
        let queue = &mut self.queues[number as usize];
        let name = name?;
        if queue.sorts_groups() {
            return Some(queue.groups.index_for(name));
        }
        let index = queue.groups.index_of(name)?;
        queue.groups[index].edge.is_some().then_some(index)
    }

    /// Adds a waiting job of a group at a place before the edge of its queue.
    pub(super) fn place_in_group(&mut self, number: u32, index: u32, place: Place, entry: Entry) {
        let is_due = place.due <= self.now.time();
        let queue = &mut self.queues[number as usize];
        let (turn, by_priority) = (queue.ready.turn(place), queue.ready.is_by_priority());
        let group = &mut queue.groups[index];
        let is_beyond = group.edge.is_some_and(|edge| turn >= edge) && (is_due || !by_priority);
        if is_due && by_priority {
            queue.groups.lower_front(index, place);
        }
        if is_beyond {
            return;
        }
        if is_due {
            queue.groups.insert_ready(index, turn, entry);
        } else if let hash_map::Entry::Vacant(vacant) = queue.near.entry(place.seq) {
            let event = Timed::Due { queue: number, place, entry };
            vacant.insert(self.wheel.insert(place.due.as_millis(), event));
            queue.groups[index].near.insert(place);
        }
        let share = self.share(number, index);
        if self.queues[number as usize].groups[index].in_memory(by_priority) > 2 * share {
            self.cut_group(number, index, share);
        }
        self.refresh_group(number, index);
    }

    /// Removes a waiting job of a group that is not on the wheel.
    pub(super) fn take_from_group(&mut self, number: u32, index: u32, place: Place) {
        let queue = &mut self.queues[number as usize];
        let turn = queue.ready.turn(place);
        queue.groups.ready -= usize::from(queue.groups[index].ready.remove(&turn).is_some());
    }

    /// Evicts the last jobs of a group, so that `remain` stay in memory.
    fn cut_group(&mut self, number: u32, index: u32, remain: usize) {
        let queue = &mut self.queues[number as usize];
        let by_priority = queue.ready.is_by_priority();
        let group = &mut queue.groups[index];
        let on_wheel = group.near.iter().filter(|_| !by_priority).map(|place| Turn::by_due(*place));
        let edge = group.ready.keys().copied().chain(on_wheel).nth(remain);
        if let Some(edge) = edge {
            group.edge = Some(group.edge.map_or(edge, |old| old.min(edge)));
            self.cut_group_at(number, index, edge);
        }
    }

    /// Evicts the jobs of a group with this turn or a later one.
    fn cut_group_at(&mut self, number: u32, index: u32, edge: Turn) {
        let queue = &mut self.queues[number as usize];
        let by_priority = queue.ready.is_by_priority();
        let group = &mut queue.groups[index];
        let gone = group.ready.split_off(&edge).len();
        let near = if by_priority { BTreeSet::new() } else { group.near.split_off(&edge.place) };
        queue.groups.ready -= gone;
        for place in near {
            if let Some(key) = queue.near.remove(&place.seq) {
                self.wheel.remove(key);
            }
        }
    }

    /// Makes groups that exceed their share evict jobs.
    pub(super) fn trim_groups(&mut self, number: u32) {
        let by_priority = self.queues[number as usize].ready.is_by_priority();
        for index in self.queues[number as usize].groups.indices() {
            let share = self.share(number, index);
            if self.queues[number as usize].groups[index].in_memory(by_priority) > share {
                self.cut_group(number, index, share);
                self.refresh_group(number, index);
            }
        }
    }

    /// Evicts the ready jobs of all groups at or after this place, to which the edge of the queue
    /// was moved. The caller evicts those on the wheel.
    pub(super) fn cut_groups(&mut self, number: u32, edge: Place) {
        let by_priority = self.queues[number as usize].ready.is_by_priority();
        for index in self.queues[number as usize].groups.indices() {
            let queue = &mut self.queues[number as usize];
            let group = &mut queue.groups[index];
            let before = group.ready.len();
            group.ready.retain(|turn, _| turn.place < edge);
            let gone = before - group.ready.len();
            drop(group.near.split_off(&edge));
            // No evicted job lies before the edge of the queue any more.
            let passed = if by_priority { group.front } else { group.edge.map(|edge| edge.place) };
            group.edge = group.edge.filter(|_| passed.is_some_and(|passed| passed < edge));
            queue.groups.ready -= gone;
            self.refresh_group(number, index);
        }
    }

    /// Evicts all jobs of groups, to read them again after the clock was set back. In priority
    /// order all jobs of the queue are read again instead, because the rows of a group do not tell
    /// which of them are no longer ready.
    pub(super) fn forget_groups(&mut self, number: u32) {
        for index in self.queues[number as usize].groups.indices() {
            let queue = &mut self.queues[number as usize];
            let group = &mut queue.groups[index];
            if group.ready.is_empty() && group.near.is_empty() && group.edge.is_none() {
                continue;
            }
            for place in std::mem::take(&mut group.near) {
                if let Some(key) = queue.near.remove(&place.seq) {
                    self.wheel.remove(key);
                }
            }
            let group = &mut queue.groups[index];
            let gone = std::mem::take(&mut group.ready).len();
            group.edge = Some(Turn::FIRST);
            queue.groups.ready -= gone;
            self.refresh_group(number, index);
        }
    }

    pub(super) fn refresh_named(&mut self, number: u32, name: &str) {
        if let Some(index) = self.queues[number as usize].groups.index_of(name) {
            self.refresh_group(number, index);
        }
    }

    /// Updates what a group offers and its first ready place. Requests its rows if few are in
    /// memory, and forgets the group if nothing about it must be known.
    pub(super) fn refresh_group(&mut self, number: u32, index: u32) {
        let (may_start, share) = (self.group_may_start(number, index), self.share(number, index));
        let now = self.now.time();
        let queue = &mut self.queues[number as usize];
        let (by_priority, is_fair) = (queue.ready.is_by_priority(), queue.settings.fair_groups);
        let groups = &mut queue.groups;
        let served = groups.served;
        let group = groups.slots[index as usize].as_mut().expect("it is refreshed");
        if group.is_needless() {
            let (offer, front) = (group.offer, group.front);
            offer.map(|offer| groups.offers.remove(&offer));
            front.map(|front| groups.fronts.remove(&(front, index)));
            groups.remove(index);
            return;
        }
        let first = group.ready.keys().next().copied();
        // In order of due time, the jobs in memory come before the edge.
        let is_hungry = by_priority || (first.is_none() && group.near.is_empty());
        let edge = group.edge.filter(|edge| is_hungry && edge.place.due <= now);
        let best = [first, edge].into_iter().flatten().min().filter(|_| may_start);
        if best.is_some() && group.offer.is_none() {
            group.tag = group.tag.max(served + 1);
        }
        let tag = if is_fair { group.tag } else { 0 };
        let offer = best.map(|turn| GroupOffer { tag, turn, group: index });
        let mut front = group.earliest(by_priority);
        if let Some(edge) = group.edge {
            let skipped = if by_priority { group.front } else { Some(edge.place) };
            front = [front, skipped].into_iter().flatten().min();
        }
        let (old_offer, old_front) = (group.offer, group.front);
        (group.offer, group.front) = (offer, front);
        let wants_rows = group.edge.is_some()
            && may_start
            && !group.is_loading
            && group.in_memory(by_priority) <= share / 2;
        group.is_loading |= wants_rows;
        if old_front != front {
            old_front.map(|front| groups.fronts.remove(&(front, index)));
            front.map(|front| groups.fronts.insert((front, index)));
        }
        if old_offer != offer {
            old_offer.map(|offer| groups.offers.remove(&offer));
            offer.map(|offer| groups.offers.insert(offer));
        }
        if wants_rows {
            self.groups_to_load.push((number, index));
        }
        if old_offer != offer && offer.is_some() {
            self.wake(number);
        }
    }

    /// Requests rows of a group for the start of the next commit group.
    pub(super) fn want_group_rows(&mut self, number: u32, index: u32) {
        let group = &mut self.queues[number as usize].groups[index];
        if !group.is_loading {
            group.is_loading = true;
            self.groups_to_load.push((number, index));
        }
    }

    /// Moves the group of a delivered job, or the jobs without a group, to the end of the turn.
    pub(super) fn note_served(&mut self, number: u32, index: Option<u32>) {
        let groups = &mut self.queues[number as usize].groups;
        let tag = match index {
            Some(index) => groups[index].tag,
            None => groups.plain_tag,
        };
        groups.served = groups.served.max(tag);
        match index {
            Some(index) => groups[index].tag = tag + 1,
            None => groups.plain_tag = tag + 1,
        }
    }

    /// Changes the settings of a group, which is created if it does not exist. Returns all its
    /// settings.
    pub(super) fn patch_group(
        &mut self,
        queue: &str,
        name: &str,
        patch: GroupPatch,
    ) -> Result<GroupSettings, Error> {
        let number = self.number_of(queue);
        let groups = number.map(|number| &self.queues[number as usize].groups);
        let current = groups.and_then(|groups| groups.named(name)).map(|group| group.settings);
        let old = current.unwrap_or_default();
        let settings = patch.apply(old);
        check_group(name, settings, &self.options.limits)?;
        let none = GroupSettings::default();
        let found = groups.map_or(0, |groups| groups.with_settings) + 1;
        if old == none && settings != none && found > GroupSettings::MAX_GROUPS {
            let (limit, allowed) = (Limit::GroupSettings, GroupSettings::MAX_GROUPS);
            return Err(Error::OverLimit { limit, allowed, found });
        }
        let number = self.queue_for(queue)?;
        if settings != old {
            self.set_group(number, name, settings);
        }
        Ok(settings)
    }

    fn set_group(&mut self, number: u32, name: &str, settings: GroupSettings) {
        let key = rows::of_group(rows::GROUP_SETTINGS, number, name);
        if settings == GroupSettings::default() {
            self.batch.remove(Table::Index, &key);
        } else {
            self.batch.put_with(Table::Index, &key, |bytes| settings.encode(bytes));
        }
        let sorted = self.queues[number as usize].sorts_groups();
        let groups = &mut self.queues[number as usize].groups;
        let index = groups.index_for(name);
        groups.give_settings(index, settings);
        self.rearm_pace(number, name);
        self.refresh_group(number, index);
        self.sorting_changed(number, sorted);
        self.touch(number);
        self.wake(number);
    }

    /// Reads the jobs of a queue again once it sorts its groups: entries in memory do not know
    /// their groups.
    pub(super) fn sorting_changed(&mut self, number: u32, sorted: bool) {
        let now = self.now.time();
        let queue = &self.queues[number as usize];
        if !sorted && queue.sorts_groups() && queue.in_memory() > 0 {
            let low = queue.low(now);
            self.pull_edge(number, low);
        }
    }

    /// Reads the settings of groups.
    pub(super) fn read_group_settings(&mut self, view: &dyn View) -> Result<(), StoreError> {
        let (from, to) = ([rows::GROUP_SETTINGS], [rows::GROUP_SETTINGS + 1]);
        for row in Tolerant::new(view, Table::Index, &from, &to) {
            let Some((key, value)) = self.pass_damage(row)? else { continue };
            let settings = GroupSettings::decode(value);
            let found = rows::read_group_key(&key).and_then(|(number, name)| {
                Some((self.queues.get_mut(number as usize)?, name, settings.ok()?))
            });
            if let Some((queue, name, settings)) = found {
                let index = queue.groups.index_for(name);
                queue.groups.give_settings(index, settings);
            } else {
                tracing::error!(?key, "damaged settings of a group");
                self.tally.damaged += 1;
            }
        }
        Ok(())
    }
}

impl Groups {
    /// Notes that a ready job of a group lies at this place, in memory or not.
    fn lower_front(&mut self, index: u32, place: Place) {
        let front = self[index].front;
        if front.is_none_or(|front| place < front) {
            front.map(|front| self.fronts.remove(&(front, index)));
            self.fronts.insert((place, index));
            self[index].front = Some(place);
        }
    }

    fn give_settings(&mut self, index: u32, settings: GroupSettings) {
        let none = GroupSettings::default();
        let old = std::mem::replace(&mut self[index].settings, settings);
        self.with_settings -= u64::from(old != none);
        self.with_settings += u64::from(settings != none);
    }
}

impl Group {
    /// Returns the number of jobs that count towards its share.
    pub(super) fn in_memory(&self, by_priority: bool) -> usize {
        self.ready.len() + if by_priority { 0 } else { self.near.len() }
    }
}
