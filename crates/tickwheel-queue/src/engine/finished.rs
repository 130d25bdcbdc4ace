//! Dead, done and cancelled jobs: keeping, reviving and removing them.
//!
//! A finished job that is kept has a row in the index of finished jobs, ordered by queue, state and
//! time. Each state has a low-water mark before which there are no rows. Scans start there, so they
//! skip the tombstones at the head of the key space.

use bytes::Bytes;

use super::command::Cursor;
use super::{Engine, Outcome, STEP_BYTES, Sweep, Timed, unreadable};
use crate::model::access::{Access, EVERYTHING};
use crate::model::error::Error;
use crate::model::event::EventKind;
use crate::model::id::JobId;
use crate::model::job::State;
use crate::model::time::Time;
use crate::model::validation::check_purged;
use crate::store::records::Status;
use crate::store::rows::{self, DueValue};
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View};

/// Jobs in one step of a bulk command: a few milliseconds of work.
const STEP: usize = 1_000;

/// The finished states, in the order of their low-water marks.
const FINISHED: [State; 3] = [State::Dead, State::Done, State::Cancelled];

/// A row of the index of finished jobs.
#[derive(Clone, Copy)]
struct Finished {
    time: Time,
    id: JobId,
    has_result: bool,
}

fn index_of(state: State) -> usize {
    FINISHED.iter().position(|&other| other == state).unwrap_or_default()
}

impl Engine {
    /// Keeps or removes a job that no longer waits and is not leased. Its status says how it
    /// finished.
    pub(super) fn finish_job(
        &mut self,
        number: u32,
        id: JobId,
        key: Option<&str>,
        has_status: bool,
        status: &Status,
        result: Option<&Bytes>,
    ) {
        let Some((state, time)) = status.finished else {
            unreachable!("only a finished job is finished");
        };
        if let Some(key) = key {
            self.batch.remove(Table::Index, &rows::key(number, key));
        }
        if !self.keeps(number, state) {
            self.remove_job(id, has_status);
            return;
        }
        self.batch.put_with(Table::Index, &rows::status(id), |bytes| status.encode(bytes));
        let has_result: &[u8] = if result.is_some() { &[1] } else { &[] };
        self.batch.put(Table::Index, &rows::finished(number, state, time, id), has_result);
        if let Some(result) = result {
            self.batch.put(Table::Jobs, &rows::result(id), result);
        }
        let counts = &mut self.touch(number).counts;
        *counts.of(state) += 1;
        let low = &mut counts.finished_low[index_of(state)];
        *low = (*low).min(time);
        self.look_at_retention(number, state, time);
    }

    /// Returns `true` if the queue's retention keeps jobs in this state.
    pub(super) fn keeps(&self, number: u32, state: State) -> bool {
        let retention = &self.queues[number as usize].settings.retention;
        state.is_live() || !retention.of(state).is_nothing()
    }

    /// Removes the record of a job, and its status and history.
    fn remove_job(&mut self, id: JobId, has_status: bool) {
        self.batch.remove(Table::Jobs, id.as_bytes());
        if has_status {
            self.batch.remove(Table::Index, &rows::status(id));
            self.batch.remove(Table::Index, &rows::history(id));
        }
    }

    /// Removes a finished job that was kept.
    fn drop_finished(&mut self, number: u32, state: State, found: Finished) {
        let Finished { time, id, has_result } = found;
        self.remove_job(id, true);
        if has_result {
            self.batch.remove(Table::Jobs, &rows::result(id));
        }
        self.unlist(number, state, time, id);
    }

    fn unlist(&mut self, number: u32, state: State, time: Time, id: JobId) {
        self.batch.remove(Table::Index, &rows::finished(number, state, time, id));
        self.count_down(number, state);
    }

    /// Returns one step of finished jobs in a state, from a time and id on. Rows that this group
    /// has removed are omitted.
    fn some_finished(
        &self,
        view: &dyn View,
        number: u32,
        state: State,
        from: Option<Cursor>,
    ) -> Result<Vec<Finished>, Error> {
        let from = if let Some(Cursor::Finished(time, id)) = from {
            rows::finished(number, state, time, id)
        } else {
            let low = self.queues[number as usize].counts.finished_low(state);
            rows::finished_from(number, state, low)
        };
        let mut found = Vec::new();
        for row in Tolerant::new(view, Table::Index, &from, &rows::finished_end(number, state)) {
            let (key, value) = match row {
                Ok(row) => row,
                Err(StoreError::Damaged(_)) => continue,
                Err(error) => return Err(unreadable(error)),
            };
            if self.batch.get(Table::Index, &key) == Some(None) {
                continue;
            }
            let has_result = !value.is_empty();
            let named = rows::read_finished(&key);
            found.extend(named.map(|(time, id)| Finished { time, id, has_result }));
            if found.len() == STEP {
                break;
            }
        }
        Ok(found)
    }

    /// Schedules a retention check for when a job that has just finished is old enough, or at once
    /// if there are too many finished jobs.
    fn look_at_retention(&mut self, number: u32, state: State, time: Time) {
        let queue = &mut self.queues[number as usize];
        let keep = queue.settings.retention.of(state);
        let is_over = *queue.counts.of(state) > keep.count;
        let at = if is_over { self.now.time() } else { time.after(keep.age) };
        if at == Time::MAX {
            return;
        }
        self.arm_retention(number, at);
    }

    fn arm_retention(&mut self, number: u32, at: Time) {
        let at = at.as_millis();
        let queue = &mut self.queues[number as usize];
        let armed = queue.retention_timer.and_then(|key| Some((key, self.wheel.deadline(key)?)));
        match armed {
            Some((_, earlier)) if earlier <= at => {}
            Some((key, _)) => drop(self.wheel.reset(key, at)),
            None => {
                queue.retention_timer = Some(self.wheel.insert(at, Timed::Retention(number)));
            }
        }
    }

    /// Schedules a retention check after the settings of a queue changed, or after it was opened.
    pub(super) fn retention_changed(&mut self, number: u32) {
        self.arm_retention(number, self.now.time());
    }

    /// Applies retention to some queues.
    pub(super) fn retentions_are_due(&mut self, view: &dyn View, queues: Vec<u32>) {
        let most = self.batch.bytes() + STEP_BYTES;
        for number in queues {
            self.queue(number).retention_timer = None;
            if self.batch.bytes() > most {
                self.arm_retention(number, self.now.time());
                continue;
            }
            for state in FINISHED {
                if let Err(error) = self.enforce_retention(view, number, state) {
                    tracing::error!(queue = %self.queue(number).name, %error, "retention");
                }
            }
        }
    }

    /// Removes one step of jobs that are too old or too many. Returns when to check again.
    fn enforce_retention(
        &mut self,
        view: &dyn View,
        number: u32,
        state: State,
    ) -> Result<(), Error> {
        let keep = self.queue(number).settings.retention.of(state);
        let count = *self.queue(number).counts.of(state);
        if count == 0 || (keep.age == std::time::Duration::MAX && count <= keep.count) {
            return Ok(());
        }
        let mut over = count.saturating_sub(keep.count);
        let now = self.now.time();
        let found = self.some_finished(view, number, state, None)?;
        let is_step = found.len() == STEP;
        for found in found {
            let time = found.time;
            self.queue(number).counts.finished_low[index_of(state)] = time;
            if over == 0 && time.after(keep.age) > now {
                if time.after(keep.age) < Time::MAX {
                    self.arm_retention(number, time.after(keep.age));
                }
                return Ok(());
            }
            over = over.saturating_sub(1);
            self.drop_finished(number, state, found);
        }
        if is_step {
            self.arm_retention(number, now);
        }
        Ok(())
    }

    /// Makes a dead job ready, with all its attempts.
    pub(super) fn kick(
        &mut self,
        view: &dyn View,
        id: JobId,
        access: &Access,
    ) -> Result<(), Error> {
        let known = self.visible(view, id, access)?.ok_or(Error::NotFound(id.into()))?;
        let number = known.record.queue;
        let time = match known.finished() {
            Some((State::Dead, time)) => time,
            Some((state, _)) => {
                return Err(Error::WrongState { id, state, action: "kicked" });
            }
            None => {
                let state = match known.due() <= self.now.time() {
                    _ if self.leases.contains_key(&id) => State::Leased,
                    true => State::Ready,
                    false => State::Scheduled,
                };
                return Err(Error::WrongState { id, state, action: "kicked" });
            }
        };
        if let Some(key) = &known.record.key {
            if let Some((holder, _)) = self.holder_of(view, number, key)? {
                let queue = self.queue(number).name.to_string();
                return Err(Error::KeyExists { queue, key: key.clone(), id: holder.id });
            }
            // The series of replacements ended when the job died. The kick starts a new one.
            let value = rows::key_value(id, Some(self.now.time()));
            self.batch.put(Table::Index, &rows::key(number, key), &value);
        }
        self.unlist(number, State::Dead, time, id);
        let due = self.now.time();
        let status = Status { finished: None, due, attempts: 0, ..known.status() };
        self.tally.kicked += 1;
        self.touch(known.record.queue).counts.lifetime.kicked += 1;
        self.wait_again(&known, &status);
        self.tell(number, id, known.record.key.as_deref(), EventKind::Kicked { due });
        Ok(())
    }

    /// Removes a job that waits or is dead; returns the state that it was in. One that waits is
    /// cancelled, a dead one is dropped.
    pub(super) fn remove_one(
        &mut self,
        view: &dyn View,
        id: JobId,
        access: &Access,
    ) -> Result<State, Error> {
        let known = self.visible(view, id, access)?.ok_or(Error::NotFound(id.into()))?;
        let number = known.record.queue;
        if self.leases.contains_key(&id) {
            return Err(Error::WrongState { id, state: State::Leased, action: "removed" });
        }
        let Some((state, time)) = known.finished() else {
            let state = self.cancel_known(view, &known)?;
            self.tell(number, id, known.record.key.as_deref(), EventKind::Cancelled);
            return Ok(state);
        };
        if state != State::Dead {
            return Err(Error::WrongState { id, state, action: "removed" });
        }
        self.drop_finished(number, state, Finished { time, id, has_result: false });
        Ok(state)
    }

    /// Makes one step of kicking the dead jobs of a queue, the oldest first. Damaged jobs, and jobs
    /// whose key another job has taken, stay dead.
    pub(super) fn kick_some(&mut self, view: &dyn View, sweep: &mut Sweep) -> Outcome {
        let step = self.sweep_finished(view, sweep, State::Dead, |engine, _, found| {
            match engine.kick(view, found.id, &EVERYTHING) {
                Ok(()) => Ok(true),
                Err(Error::Unreadable(why)) => Err(Error::Unreadable(why)),
                Err(_) => Ok(false),
            }
        });
        step.unwrap_or_else(|error| Outcome::Count(Err(error)))
    }

    /// Makes one step of removing the finished jobs of a queue.
    pub(super) fn purge(&mut self, view: &dyn View, sweep: &mut Sweep) -> Outcome {
        let state = sweep.state;
        if let Err(error) = check_purged(state) {
            return Outcome::Count(Err(error));
        }
        let step = self.sweep_finished(view, sweep, state, |engine, number, found| {
            engine.drop_finished(number, state, found);
            Ok(true)
        });
        step.unwrap_or_else(|error| Outcome::Count(Err(error)))
    }

    fn sweep_finished(
        &mut self,
        view: &dyn View,
        sweep: &mut Sweep,
        state: State,
        mut treat: impl FnMut(&mut Self, u32, Finished) -> Result<bool, Error>,
    ) -> Result<Outcome, Error> {
        let number = self.existing(&sweep.queue)?;
        let found = self.some_finished(view, number, state, sweep.from)?;
        let is_step = found.len() == STEP;
        for found in found {
            let (time, id) = (found.time, found.id);
            if sweep.done >= sweep.at_most || time >= sweep.before {
                return Ok(Outcome::Count(Ok(sweep.done)));
            }
            sweep.from = Some(Cursor::Finished(time, id));
            sweep.done += u64::from(treat(self, number, found)?);
        }
        Ok(if is_step { Outcome::More } else { Outcome::Count(Ok(sweep.done)) })
    }

    /// Makes one step of cancelling the waiting jobs of a queue. Jobs put meanwhile may stay.
    pub(super) fn drain(&mut self, view: &dyn View, sweep: &mut Sweep) -> Outcome {
        self.drain_step(view, sweep).unwrap_or_else(|error| Outcome::Count(Err(error)))
    }

    fn drain_step(&mut self, view: &dyn View, sweep: &mut Sweep) -> Result<Outcome, Error> {
        let number = self.existing(&sweep.queue)?;
        let from = match sweep.from {
            Some(Cursor::Due(place)) => place,
            _ => self.queue(number).counts.low,
        };
        let mut steps = 0;
        let (from, to) = (rows::due(number, from), rows::due_end(number));
        for row in Tolerant::new(view, Table::Index, &from, &to) {
            let (key, value) = match row {
                Ok(row) => row,
                Err(StoreError::Damaged(_)) => continue,
                Err(error) => return Err(unreadable(error)),
            };
            let parsed = rows::place_of(&key).zip(DueValue::decode(&value));
            let Some((place, DueValue { id, has_status, group })) = parsed else { continue };
            if steps == STEP {
                return Ok(Outcome::More);
            }
            steps += 1;
            sweep.from = Some(Cursor::Due(place.next()));
            let has_status = match self.batch.get(Table::Index, &key) {
                Some(None) => continue,
                // This group has put the job here again, with a status.
                Some(Some(_)) => true,
                None => has_status,
            };
            let key = match self.known_with(view, id, has_status) {
                Ok(Some(known)) => {
                    self.cancel_known(view, &known)?;
                    known.record.key
                }
                Ok(None) | Err(Error::Damaged { .. }) => {
                    self.stop_waiting(number, place, group, false);
                    self.remove_job(id, has_status);
                    None
                }
                Err(error) => return Err(error),
            };
            self.tell(number, id, key.as_deref(), EventKind::Cancelled);
            sweep.done += 1;
        }
        Ok(Outcome::Count(Ok(sweep.done)))
    }

    pub(super) fn existing(&self, name: &str) -> Result<u32, Error> {
        self.number_of(name).ok_or_else(|| Error::NoSuchQueue(name.to_owned()))
    }
}
