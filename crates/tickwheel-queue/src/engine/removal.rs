//! Removing queues: by a command, or because they have been empty and unused for long.
//!
//! A removed queue leaves only an empty name under its number. The number is never used again, so a
//! row left by damage, or an older view, cannot be attributed to another queue.

use std::sync::Arc;
use std::time::Duration;

use super::command::{Outcome, Removal};
use super::{Engine, Sweep};
use crate::model::access::EVERYTHING;
use crate::model::error::Error;
use crate::model::job::{JobRef, State};
use crate::model::settings::QueueSettings;
use crate::model::time::Time;
use crate::store::records::QueueRow;
use crate::store::rows;
use crate::store::{Table, View};

/// How long an empty, unused queue is kept.
const UNUSED: Duration = Duration::from_secs(86_400);
/// Queues that are removed in one group.
const STEP: usize = 1_000;
/// Leased jobs that are cancelled in one step.
const LEASES: usize = 1_000;

impl Engine {
    /// Makes one step of removing a queue. Returns the number of its jobs once it is gone.
    pub(super) fn remove(&mut self, view: &dyn View, removal: &mut Removal) -> Outcome {
        self.remove_step(view, removal).unwrap_or_else(|error| Outcome::Count(Err(error)))
    }

    fn remove_step(&mut self, view: &dyn View, removal: &mut Removal) -> Result<Outcome, Error> {
        let number = self.existing(&removal.sweep.queue)?;
        let jobs = self.queue(number).jobs();
        if jobs == 0 {
            self.remove_queue(view, number)?;
            return Ok(Outcome::Count(Ok(removal.jobs)));
        }
        let not_empty = || Error::QueueNotEmpty { queue: removal.sweep.queue.clone(), jobs };
        if !removal.force {
            return Err(not_empty());
        }
        removal.jobs = removal.jobs.max(jobs);
        let step = match removal.phase {
            0 => self.drain(view, &mut removal.sweep),
            1 => self.cancel_leased(view, number)?,
            2..=4 => {
                removal.sweep.state =
                    [State::Dead, State::Done, State::Cancelled][removal.phase - 2];
                self.purge(view, &mut removal.sweep)
            }
            // Jobs were put meanwhile.
            _ => return Err(not_empty()),
        };
        match step {
            Outcome::More => Ok(Outcome::More),
            Outcome::Count(Err(error)) => Err(error),
            _ => {
                // The next phase scans the store, so it must follow the commit of this one.
                removal.phase += 1;
                removal.sweep = Sweep::new(std::mem::take(&mut removal.sweep.queue));
                Ok(Outcome::More)
            }
        }
    }

    fn cancel_leased(&mut self, view: &dyn View, number: u32) -> Result<Outcome, Error> {
        let leased = self.leases.iter().filter(|(_, leased)| leased.queue == number);
        let ids: Vec<_> = leased.map(|(id, _)| *id).take(LEASES).collect();
        for id in &ids {
            match self.cancel(view, &JobRef::Id(*id), &EVERYTHING) {
                Ok(_) | Err(Error::NotFound(_) | Error::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(if ids.len() == LEASES { Outcome::More } else { Outcome::Count(Ok(0)) })
    }

    /// Removes an empty queue.
    fn remove_queue(&mut self, view: &dyn View, number: u32) -> Result<(), Error> {
        let kinds = [
            (Table::Index, rows::PACE),
            (Table::Index, rows::GROUP_SETTINGS),
            (Table::Counters, rows::GROUP_COUNTS),
        ];
        for (table, kind) in kinds {
            let (from, to) = (rows::of_queue(kind, number), rows::after_queue(kind, number));
            for row in view.scan(table, &from, &to) {
                let (key, _) = row.map_err(super::unreadable)?;
                self.batch.remove(table, &key);
            }
        }
        let queue = &mut self.queues[number as usize];
        let timers =
            [queue.load_timer.take(), queue.retention_timer.take(), queue.resume_timer.take()];
        let groups = std::mem::take(&mut queue.groups);
        let paces = groups.iter().map(|group| group.pace.timer).chain([queue.pace.timer.take()]);
        for timer in timers.into_iter().chain(paces).flatten() {
            self.wheel.remove(timer);
        }
        queue.is_removed = true;
        let creator = queue.creator.take();
        let name = Arc::clone(&queue.name);
        if let Some(creator) = creator {
            self.creators.forget(&creator);
        }
        self.names.remove(&name);
        self.removed.push((name, number));
        self.last_put = u32::MAX;
        for list in [&mut self.dirty, &mut self.woken, &mut self.to_load] {
            list.retain(|other| *other != number);
        }
        self.dirty_paces.retain(|(other, _)| *other != number);
        self.groups_to_load.retain(|(other, _)| *other != number);
        self.touched_groups.forget_queue(number);
        let settings = QueueSettings::default();
        let nothing = QueueRow {
            name: String::new(),
            paused: false,
            settings,
            creator: None,
            has_follow_ups: false,
        };
        let key = rows::of_queue(rows::QUEUE, number);
        self.batch.put_with(Table::Index, &key, |bytes| nothing.encode(bytes));
        self.batch.remove(Table::Counters, &rows::of_queue(rows::COUNTS, number));
        Ok(())
    }

    /// Removes queues that are empty, have no settings of their own, belong to no schedule and were
    /// not used for a day. A queue that jobs have named for follow-ups stays: a follow-up is never
    /// refused, so it would create the queue again, also beyond the limit of its creator.
    pub(super) fn remove_unused(&mut self, view: &dyn View) {
        let now = self.now.time();
        if self.unused_at.is_none_or(|at| at > now) {
            return;
        }
        let mut unused = Vec::new();
        let mut next: Option<Time> = None;
        for (number, queue) in self.queues.iter().enumerate() {
            let is_plain = !queue.is_removed
                && queue.jobs() == 0
                && !queue.paused
                && !queue.has_follow_ups
                && queue.groups.with_settings == 0
                && queue.has_no_settings();
            if !is_plain || self.has_schedule_for(&queue.name) {
                continue;
            }
            let at = queue.used.after(UNUSED);
            if at <= now && unused.len() < STEP {
                unused.push(number as u32);
            } else {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        self.unused_at = next;
        for number in unused {
            let name = Arc::clone(&self.queues[number as usize].name);
            match self.remove_queue(view, number) {
                Ok(()) => tracing::info!(queue = &*name, "an unused queue was removed"),
                Err(error) => tracing::warn!(queue = &*name, %error, "a queue was not removed"),
            }
        }
    }

    /// Schedules a check whether the queue is unused.
    pub(super) fn expect_unused(&mut self) {
        if self.unused_at.is_none() {
            self.unused_at = Some(self.now.time().after(UNUSED));
        }
    }

    /// Returns the queues that were removed since the last call, with their numbers.
    pub(crate) fn take_removed(&mut self) -> Vec<(Arc<str>, u32)> {
        std::mem::take(&mut self.removed)
    }
}
