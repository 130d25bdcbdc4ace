//! A queue in memory: its settings, its counts, and the front of its due index.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tickwheel::wheel::Key;

use super::groups::{Groups, Next};
use super::pace::Pace;
use super::ready::ReadyJobs;
use super::{Engine, Timed};
use crate::model::activity::Lateness;
use crate::model::error::{Error, Limit};
use crate::model::id::JobId;
use crate::model::new_job::NewJob;
use crate::model::settings::{Order, QueueSettings, SettingsPatch};
use crate::model::time::Time;
use crate::model::validation::check_name;
use crate::store::Table;
use crate::store::records::{Counts, QueueRow};
use crate::store::rows::{self, Place};

/// The share, one in this number, of the queue limit that is kept for callers with access to all
/// queues. A limited access may create the same share.
const HEADROOM: u64 = 10;

pub(crate) struct Queue {
    pub(crate) name: Arc<str>,
    pub(crate) settings: QueueSettings,
    pub(crate) paused: bool,
    /// When a pause of limited length ends. It is not stored.
    pub(crate) paused_until: Option<Time>,
    pub(super) resume_timer: Option<Key>,
    pub(super) counts: Counts,
    /// The lateness of its deliveries; `None` before the first one.
    pub(super) lateness: Option<Box<Lateness>>,
    /// Ready jobs in order of delivery.
    pub(super) ready: ReadyJobs,
    /// The groups about which something must be known.
    pub(super) groups: Groups,
    /// The pace of the whole queue.
    pub(super) pace: Pace,
    /// Jobs on the wheel, by sequence number.
    pub(super) near: HashMap<u64, Key>,
    /// Every row before this place is in `ready` or `near`, or in a group or beyond the group's
    /// edge. `None` if that holds for all rows.
    pub(super) edge: Option<Place>,
    /// No job in memory lies after this place.
    pub(super) furthest: Place,
    pub(super) load_timer: Option<Key>,
    pub(super) retention_timer: Option<Key>,
    pub(super) marks: Marks,
    /// Why rows of the due index cannot be read.
    pub(super) unreadable: Option<String>,
    /// Whether the queue was removed. Its number is never used again, because a view may still hold
    /// its jobs.
    pub(crate) is_removed: bool,
    /// When its counts changed last, or when the store was opened.
    pub(super) used: Time,
    /// The holder of the limited access that created it.
    pub(super) creator: Option<Arc<str>>,
    /// Whether a job has named it as the queue of a follow-up.
    pub(super) has_follow_ups: bool,
    /// The order that the put chose which created it. Not stored: after a restart it is a setting
    /// like any other.
    put_order: Option<Order>,
}

/// How many queues exist that each holder of a limited access created.
#[derive(Default)]
pub(super) struct Creators(HashMap<Arc<str>, u64>);

impl Creators {
    fn queues_of(&self, holder: &str) -> u64 {
        self.0.get(holder).copied().unwrap_or(0)
    }

    /// Counts a queue for this holder.
    pub(super) fn count(&mut self, holder: &Arc<str>) {
        *self.0.entry(Arc::clone(holder)).or_default() += 1;
    }

    /// Stops counting a queue for this holder.
    pub(super) fn forget(&mut self, holder: &str) {
        if let Some(queues) = self.0.get_mut(holder) {
            *queues -= 1;
            if *queues == 0 {
                self.0.remove(holder);
            }
        }
    }
}

/// The lists of the engine on which the queue is.
#[derive(Default)]
pub(super) struct Marks {
    pub(super) loading: bool,
    pub(super) dirty: bool,
    pub(super) woken: bool,
}

impl Queue {
    pub(super) fn new(row: QueueRow, counts: Counts) -> Self {
        // Rows on disk are read when they come within the horizon.
        let edge = (counts.waiting > 0).then_some(counts.low);
        Self {
            name: row.name.into(),
            ready: ReadyJobs::new(row.settings.order),
            settings: row.settings,
            paused: row.paused,
            paused_until: None,
            resume_timer: None,
            counts,
            lateness: None,
            groups: Groups::default(),
            pace: Pace::default(),
            near: HashMap::new(),
            edge,
            furthest: Place::FIRST,
            load_timer: None,
            retention_timer: None,
            marks: Marks::default(),
            unreadable: None,
            is_removed: false,
            used: Time::default(),
            creator: row.creator,
            has_follow_ups: row.has_follow_ups,
            put_order: None,
        }
    }

    /// Returns the number of jobs, finished ones included.
    pub(crate) fn jobs(&self) -> u64 {
        let counts = &self.counts;
        counts.waiting + counts.leased + counts.dead + counts.done + counts.cancelled
    }

    pub(crate) fn in_memory(&self) -> usize {
        self.ready.len() + self.groups.ready + self.near.len()
    }

    pub(crate) fn lateness(&self) -> Lateness {
        self.lateness.as_deref().cloned().unwrap_or_default()
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the number of ready jobs in memory, and whether more may be on disk.
    pub(crate) fn ready(&self, now: Time) -> (u64, bool) {
        let more = self.edge.is_some_and(|edge| edge.due <= now)
            || self.ready.skipped.is_some()
            || self.groups.iter().any(|group| group.edge.is_some_and(|edge| edge.place.due <= now));
        ((self.ready.len() + self.groups.ready) as u64, more)
    }

    /// Returns the due time of the job that has been ready longest.
    pub(crate) fn oldest_ready(&self, now: Time) -> Option<Time> {
        let ready = self.ready.earliest().map(|place| place.due);
        let groups = self.groups.earliest().map(|place| place.due);
        let edge = self.edge.map(|edge| edge.due);
        [ready, groups, edge].into_iter().flatten().min().filter(|due| *due <= now)
    }

    /// Returns `true` if rows on disk may hold a ready job that precedes the next one in memory.
    pub(super) fn has_better_rows(&self, now: Time) -> bool {
        self.ready.is_by_priority()
            && (self.edge.is_some_and(|edge| edge.due <= now)
                || self.ready.rereading.is_some()
                || self.ready.must_reread())
    }

    /// Returns `true` if nothing was set for it, beside the order that a put chose.
    pub(super) fn has_no_settings(&self) -> bool {
        let order = self.put_order.unwrap_or_default();
        self.settings == QueueSettings { order, ..QueueSettings::default() }
            || self.settings == QueueSettings::default()
    }

    /// Returns `true` if deliveries are held back, for good or for a while.
    pub(super) fn is_paused(&self, now: Time) -> bool {
        self.paused || self.paused_until.is_some_and(|until| until > now)
    }

    /// The place of the next job in order of delivery.
    pub(super) fn next_place(&self) -> Option<Place> {
        match self.next_job()? {
            Next::Job(place, _) => Some(place),
            Next::RowsOf(index) => self.groups[index].edge.map(|edge| edge.place),
        }
    }

    /// The id of the next job in order of delivery, if it is in memory.
    pub(crate) fn next_id(&self) -> Option<JobId> {
        match self.next_job()? {
            Next::Job(_, entry) => Some(entry.id),
            Next::RowsOf(_) => None,
        }
    }

    /// Returns the number of jobs that count towards the queue's share of the memory. One job of
    /// each group does not count, and in priority order ready jobs do not.
    pub(super) fn crowd(&self) -> usize {
        if self.ready.is_by_priority() {
            self.near.len()
        } else {
            self.in_memory().saturating_sub(self.groups.len())
        }
    }

    /// Returns the counts with an up-to-date low-water mark: a due row belongs to a ready job, to a
    /// job on the wheel and so in the future, or lies after the edge.
    pub(super) fn counts_to_write(&mut self, now: Time) -> Counts {
        self.marks.dirty = false;
        self.counts.low = self.low(now);
        self.counts
    }

    /// Returns a place before which there is no due row.
    pub(super) fn low(&self, now: Time) -> Place {
        let first = [self.ready.earliest(), self.groups.earliest()].into_iter().flatten().min();
        let low = first.unwrap_or(Place::start_of(now)).min(self.edge.unwrap_or(Place::MAX));
        low.min(Place::start_of(now))
    }

    fn row(&self) -> QueueRow {
        QueueRow {
            name: self.name.to_string(),
            paused: self.paused,
            settings: self.settings.clone(),
            creator: self.creator.clone(),
            has_follow_ups: self.has_follow_ups,
        }
    }
}

impl Engine {
    pub(super) fn new_queue(&mut self, name: &str) -> Result<u32, Error> {
        check_name("queue", name, Limit::QueueName, &self.options.limits)?;
        if let Some(placement) = self.options.placement {
            placement.check("queue", name)?;
        }
        self.check_queues(1)?;
        Ok(self.create_queue(name))
    }

    /// Returns the number of a job's queue. If this queue or the queues of the job's follow-ups do
    /// not exist, all of them are created, or none. A follow-up is never refused, so its queue
    /// counts from now on.
    pub(super) fn queues_for(&mut self, job: &NewJob) -> Result<u32, Error> {
        let follow_ups = [&job.on_success, &job.on_death].into_iter().flatten();
        let mut missing = vec![&job.queue];
        missing.extend(follow_ups.map(|follow_up| &follow_up.queue));
        missing.retain(|name| self.number_of(name).is_none());
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            check_name("queue", &job.queue, Limit::QueueName, &self.options.limits)?;
            self.check_queues(missing.len() as u64)?;
        }
        for name in missing {
            let number = self.create_queue(name);
            if let Some(order) = job.queue_order.filter(|_| *name == job.queue) {
                let settings = QueueSettings { order, ..QueueSettings::default() };
                self.queue(number).put_order = Some(order);
                self.set_settings(number, settings);
            }
        }
        for follow_up in [&job.on_success, &job.on_death].into_iter().flatten() {
            let number = self.queue_for(&follow_up.queue)?;
            if !std::mem::replace(&mut self.queue(number).has_follow_ups, true) {
                self.write_queue(number);
            }
        }
        self.queue_for(&job.queue)
    }

    /// Creates a queue, also beyond the limit.
    pub(super) fn create_queue(&mut self, name: &str) -> u32 {
        let number = self.queues.len() as u32;
        let creator = self.caller.limited_holder().cloned();
        let settings = QueueSettings::default();
        let row = QueueRow {
            name: name.to_owned(),
            paused: false,
            settings,
            creator,
            has_follow_ups: false,
        };
        let queue = Queue::new(row, Counts::default());
        if let Some(creator) = &queue.creator {
            self.creators.count(creator);
        }
        self.names.insert(Arc::clone(&queue.name), number);
        self.queues.push(queue);
        self.write_queue(number);
        number
    }

    /// Refuses new queues over the limit. The holder of a limited access may create a tenth of the
    /// limit; the last tenth is kept for callers with access to all queues.
    fn check_queues(&self, new: u64) -> Result<(), Error> {
        let over = |allowed, found| Error::OverLimit { limit: Limit::Queues, allowed, found };
        let (found, most) = (self.names.len() as u64 + new, self.options.limits.queues);
        if found > most {
            return Err(over(most, found));
        }
        let Some(holder) = self.caller.limited_holder() else { return Ok(()) };
        let (own, shared) = ((most / HEADROOM).max(1), most - most / HEADROOM);
        let created = self.creators.queues_of(holder) + new;
        if created > own {
            return Err(over(own, created));
        }
        if found > shared { Err(over(shared, found)) } else { Ok(()) }
    }

    fn write_queue(&mut self, number: u32) {
        let row = self.queues[number as usize].row();
        let key = rows::of_queue(rows::QUEUE, number);
        self.batch.put_with(Table::Index, &key, |bytes| row.encode(bytes));
        self.touch(number);
    }

    pub(super) fn set_paused(&mut self, name: &str, paused: bool) -> Result<(), Error> {
        let number = self.queue_for(name)?;
        if self.queue(number).paused != paused {
            self.queue(number).paused = paused;
            self.write_queue(number);
            self.wake(number);
        }
        Ok(())
    }

    /// Holds the deliveries of an existing queue back for a while.
    pub(super) fn pause_for(&mut self, name: &str, length: Duration) -> Result<(), Error> {
        let number = self.existing(name)?;
        let until = self.now.after(length);
        self.queue(number).paused_until = Some(until);
        if let Some(timer) = self.queue(number).resume_timer.take() {
            self.wheel.remove(timer);
        }
        let timer = self.wheel.insert(until.as_millis(), Timed::Resume(number));
        self.queue(number).resume_timer = Some(timer);
        Ok(())
    }

    pub(super) fn configure(&mut self, name: &str, settings: &QueueSettings) -> Result<(), Error> {
        settings.check()?;
        self.check_target_of(name, settings.target.as_deref())?;
        let number = self.queue_for(name)?;
        self.set_settings(number, settings.clone());
        Ok(())
    }

    /// Changes some settings of a queue, which is created if it does not exist. Returns all its
    /// settings.
    pub(super) fn patch_settings(
        &mut self,
        name: &str,
        patch: &SettingsPatch,
    ) -> Result<QueueSettings, Error> {
        let current = self.number_of(name).map(|number| self.queue(number).settings.clone());
        let settings = patch.apply(&current.unwrap_or_default());
        settings.check()?;
        self.check_target_of(name, settings.target.as_deref())?;
        let number = self.queue_for(name)?;
        self.set_settings(number, settings.clone());
        Ok(settings)
    }

    fn set_settings(&mut self, number: u32, settings: QueueSettings) {
        let now = self.now.time();
        let queue = self.queue(number);
        let sorted = queue.sorts_groups();
        let has_groups = queue.ready.is_by_priority() != (settings.order == Order::Priority)
            && queue.groups.earliest().is_some();
        let low = has_groups.then(|| queue.low(now));
        queue.settings = settings;
        let reread = queue.ready.set_order(queue.settings.order);
        if let Some(from) = low.or(reread) {
            self.pull_edge(number, from);
        }
        self.sorting_changed(number, sorted);
        self.write_queue(number);
        self.retention_changed(number);
        self.pacing_changed(number);
        self.wake(number);
    }

    /// Notes that a job of the queue may have become ready.
    pub(super) fn wake(&mut self, number: u32) {
        let queue = &mut self.queues[number as usize];
        if !queue.marks.woken {
            queue.marks.woken = true;
            self.woken.push(number);
        }
    }
}
