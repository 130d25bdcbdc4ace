//! Delivering jobs to workers, and ending their leases.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::groups::Next;
use super::history::End;
use super::lookup::{Known, changed_priority};
use super::{
    Engine, Entry, FailedAttempt, Leased, NO_GROUP, ReleasedJob, Reserve, Reserved, STEP_BYTES,
    Source, Timed,
};
use crate::model::access::Access;
use crate::model::admission::Offer;
use crate::model::error::{Error, Limit};
use crate::model::event::EventKind;
use crate::model::history::{AttemptOutcome, prefix};
use crate::model::id::JobId;
use crate::model::job::{ANSWER_BYTES, Delivery, Lease, State};
use crate::model::new_job::{FollowUp, When};
use crate::model::retry::Retry;
use crate::model::time::Time;
use crate::model::validation::{check_lease, check_result, check_worker};
use crate::store::records::{LeaseRow, Status};
use crate::store::rows::{self, Place};
use crate::store::{Table, View};

/// The number of unreadable or missing jobs that are moved to the dead jobs. If there are more, the
/// whole store is damaged, and its rows are left as they are: a backup may restore the jobs.
const MOST_DAMAGED: u64 = 1_000;
/// Jobs of format 1 that join their group in one step.
const MAX_JOINED: usize = 1_000;
/// The error of a job that has only its due row left.
const RECORD_MISSING: &str = "its record is missing";
/// Bytes of an error text that are kept.
const ERROR_TEXT: usize = 4 << 10;

/// The source of lease tokens: a counter hashed with a random key that differs with each opening.
/// One token reveals nothing about the next.
#[derive(Default)]
pub(super) struct Tokens {
    key: RandomState,
    made: u64,
}

impl Tokens {
    /// Returns a token that no delivery has had, before or after a crash.
    fn next(&mut self) -> u64 {
        self.made += 1;
        self.key.hash_one(self.made)
    }
}

impl Engine {
    /// Leases jobs to a worker.
    pub(crate) fn reserve(
        &mut self,
        view: &dyn View,
        reserve: &Reserve,
        access: &Access,
    ) -> Result<Reserved, Error> {
        access.check()?;
        self.check_batch(reserve.jobs)?;
        reserve.lease.map_or(Ok(()), check_lease)?;
        reserve.worker.as_deref().map_or(Ok(()), check_worker)?;
        match &reserve.source {
            Source::Queue(name) => {
                access.check_queue(name)?;
                let Some(number) = self.number_of(name) else { return Ok(Reserved::NoneReady) };
                if !self.may_deliver(number)? || reserve.jobs == 0 {
                    return Ok(Reserved::NoneReady);
                }
                if self.must_load(number) {
                    return Ok(Reserved::NeedsRows);
                }
                self.take_ready(view, number, reserve)
            }
            Source::AnyOf(names) => self.reserve_any(view, names, reserve, access),
            Source::Job(id) => self.reserve_job(view, *id, reserve, access),
        }
    }

    /// Returns `true` if deliveries of the queue are not held back.
    fn may_deliver(&mut self, number: u32) -> Result<bool, Error> {
        let now = self.now.time();
        let queue = self.queue(number);
        if let Some(why) = &queue.unreadable {
            return Err(Error::Unreadable(why.clone()));
        }
        Ok(!queue.is_paused(now))
    }

    /// Leases jobs of the queue whose next job has the highest priority; of several such queues,
    /// the one whose next job was due first. Queues that the caller may not touch are left out.
    fn reserve_any(
        &mut self,
        view: &dyn View,
        names: &[Arc<str>],
        reserve: &Reserve,
        access: &Access,
    ) -> Result<Reserved, Error> {
        if let Some(first) = names.first()
            && !names.iter().any(|name| access.allows(name))
        {
            return Err(Error::Forbidden(first.to_string()));
        }
        let (mut queues, mut needs_rows) = (Vec::new(), false);
        for name in names.iter().filter(|name| access.allows(name)) {
            let Some(number) = self.number_of(name) else { continue };
            if !self.may_deliver(number)? {
                continue;
            }
            needs_rows |= self.must_load(number);
            let queue = self.queue(number);
            queues.extend(queue.next_place().map(|place| (place.rank, place, number)));
        }
        // What has to be read may be more urgent than what is in memory.
        if needs_rows {
            return Ok(Reserved::NeedsRows);
        }
        queues.sort_unstable();
        for (.., number) in queues {
            match self.take_ready(view, number, reserve)? {
                // It is paced.
                Reserved::NoneReady => {}
                reserved => return Ok(reserved),
            }
        }
        Ok(Reserved::NoneReady)
    }

    /// Leases one job that no worker has: a ready, scheduled or dead one.
    fn reserve_job(
        &mut self,
        view: &dyn View,
        id: JobId,
        reserve: &Reserve,
        access: &Access,
    ) -> Result<Reserved, Error> {
        let not_found = || Error::NotFound(id.into());
        let known = self.visible(view, id, access)?.ok_or_else(not_found)?;
        let (allowed, found) = (self.options.limits.leased, self.leases.len() as u64 + 1);
        if found > allowed {
            return Err(Error::OverLimit { limit: Limit::Leased, allowed, found });
        }
        let state = match known.finished() {
            Some((state, _)) => Some(state),
            None => self.leases.contains_key(&id).then_some(State::Leased),
        };
        if let Some(state) = state.filter(|state| *state != State::Dead) {
            return Err(Error::WrongState { id, state, action: "reserved" });
        }
        let (mut place, mut entry, mut row, mut delivery) = self.delivery_of(known, reserve);
        let bytes = (self.options.measure)(&delivery.job);
        if !reserve.admission.admits(&Offer { job: &delivery.job, bytes, before: 0 }) {
            return Err(Error::NotAdmitted);
        }
        if state == Some(State::Dead) {
            self.kick(view, id, access)?;
            let known = self.known(view, id)?.ok_or_else(not_found)?;
            (place, entry, row, delivery) = self.delivery_of(known, reserve);
        }
        // Given back at once it is ready, also if its time has not come.
        row.due = row.due.min(self.now.time());
        self.lease(place.0, place.1, entry, row);
        Ok(Reserved::Jobs(vec![delivery]))
    }

    /// What leasing a waiting job gives, and where the job waits.
    fn delivery_of(
        &mut self,
        known: Known,
        reserve: &Reserve,
    ) -> ((u32, Place), Entry, LeaseRow, Delivery) {
        let (number, place) = (known.record.queue, known.place());
        let entry = Entry { id: known.id, has_status: known.status.is_some(), group: NO_GROUP };
        let row = self.lease_row(number, place, entry, &known, reserve);
        let delivery = self.delivery(known, &row);
        ((number, place), entry, row, delivery)
    }

    fn take_ready(
        &mut self,
        view: &dyn View,
        number: u32,
        reserve: &Reserve,
    ) -> Result<Reserved, Error> {
        let now = self.now.time();
        let mut deliveries = Vec::new();
        let (mut bytes, mut joined) = (0, 0);
        while deliveries.len() < reserve.jobs && bytes < ANSWER_BYTES {
            let Some(next) = self.queue(number).next_job() else { break };
            let (allowed, found) = (self.options.limits.leased, self.leases.len() as u64 + 1);
            if found > allowed {
                if deliveries.is_empty() {
                    return Err(Error::OverLimit { limit: Limit::Leased, allowed, found });
                }
                break;
            }
            if !self.queue_may_start(number) {
                break;
            }
            if !deliveries.is_empty() && self.queue(number).has_better_rows(now) {
                break;
            }
            let (place, entry) = match next {
                Next::Job(place, entry) if joined < MAX_JOINED => (place, entry),
                Next::Job(..) => {
                    // The other jobs join in the next commit group, which must follow at once.
                    self.load_soon(number);
                    if deliveries.is_empty() {
                        return Ok(Reserved::NeedsRows);
                    }
                    break;
                }
                Next::RowsOf(group) => {
                    self.want_group_rows(number, group);
                    if deliveries.is_empty() {
                        return Ok(Reserved::NeedsRows);
                    }
                    break;
                }
            };
            let found = self.known_with(view, entry.id, entry.has_status);
            let is_missing = || Error::Damaged { id: entry.id, why: RECORD_MISSING.to_owned() };
            match found.and_then(|known| known.ok_or_else(is_missing)) {
                Ok(known) => {
                    if let Some(group) = &known.record.group
                        && entry.group().is_none()
                        && self.queue(number).sorts_groups()
                    {
                        self.join_group(number, place, entry, group);
                        joined += 1;
                        continue;
                    }
                    let row = self.lease_row(number, place, entry, &known, reserve);
                    let delivery = self.delivery(known, &row);
                    let size = (self.options.measure)(&delivery.job);
                    let before = deliveries.len();
                    let offer = Offer { job: &delivery.job, bytes: size, before };
                    if !reserve.admission.admits(&offer) {
                        if before == 0 {
                            return Err(Error::NotAdmitted);
                        }
                        break;
                    }
                    self.lease(number, place, entry, row);
                    bytes += size;
                    deliveries.push(delivery);
                }
                Err(Error::Damaged { why, .. }) if self.tally.damaged < MOST_DAMAGED => {
                    self.quarantine(number, place, entry, &why);
                }
                // The jobs taken so far are in the batch and must be delivered.
                Err(_) if !deliveries.is_empty() => break,
                Err(Error::Damaged { why, .. }) => {
                    return Err(Error::Unreadable(format!(
                        "{why}, and so it was for {MOST_DAMAGED} others: this is more than a few \
                         damaged jobs. Restore the store from a copy, or open it with `salvage`"
                    )));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(if deliveries.is_empty() { Reserved::NoneReady } else { Reserved::Jobs(deliveries) })
    }

    /// Returns the row of a lease that begins now. Its length defaults to the queue's setting.
    fn lease_row(
        &mut self,
        number: u32,
        place: Place,
        entry: Entry,
        known: &Known,
        reserve: &Reserve,
    ) -> LeaseRow {
        let of_job = reserve.lease_of.and_then(|lease_of| lease_of(&known.record.headers));
        let length = of_job.or(reserve.lease).unwrap_or(self.queue(number).settings.lease);
        LeaseRow {
            token: self.tokens.next(),
            until: self.now.after(length),
            due: place.due,
            attempts: known.status.as_ref().map_or(0, |status| status.attempts) + 1,
            has_status: entry.has_status,
            has_follow_up: known.record.on_success.is_some(),
            key: known.record.key.clone(),
            group: known.record.group.clone(),
            since: self.now.time(),
            worker: reserve.worker.clone(),
        }
    }

    fn lease(&mut self, number: u32, place: Place, entry: Entry, row: LeaseRow) {
        self.note_served(number, entry.group());
        self.stop_waiting(number, place, row.group.as_deref(), entry.group().is_some());
        let counts = &mut self.touch(number).counts;
        counts.leased += 1;
        counts.lifetime.delivered += 1;
        self.pending += 1;
        self.tally.delivered(self.now, place.due);
        let lateness = self.now.since(place.due);
        self.queue(number).lateness.get_or_insert_default().record(lateness);
        self.note_start(number, row.group.as_deref());
        self.write_lease(number, entry.id, &row);
        let (attempts, until) = (row.attempts, row.until);
        self.tell(number, entry.id, row.key.as_deref(), EventKind::Leased { attempts, until });
        let timer = self.wheel.insert(row.until.as_millis(), Timed::Lease(entry.id));
        self.leases.insert(entry.id, Leased { queue: number, timer, row });
    }

    fn write_lease(&mut self, number: u32, id: JobId, row: &LeaseRow) {
        let key = rows::lease(number, id);
        self.batch.put_with(Table::Index, &key, |bytes| row.encode(bytes));
    }

    /// Ends a lease and returns it, or `None` if the job is not leased.
    pub(super) fn end_lease(&mut self, id: JobId) -> Option<Leased> {
        let leased = self.leases.remove(&id)?;
        self.wheel.remove(leased.timer);
        self.batch.remove(Table::Index, &rows::lease(leased.queue, id));
        self.count_down(leased.queue, State::Leased);
        self.note_end(leased.queue, leased.row.group.as_deref());
        Some(leased)
    }

    pub(super) fn ack(
        &mut self,
        view: &dyn View,
        lease: Lease,
        result: Option<&Bytes>,
        access: &Access,
    ) -> Result<(), Error> {
        check_result(result)?;
        let leased = self.leased(view, lease, access)?;
        let has_history = leased.row.has_status && self.keeps(leased.queue, State::Done);
        let has_follow_up = leased.row.has_follow_up;
        let history = self.history(view, lease.id, has_history)?;
        let follow_up =
            if has_follow_up { self.live(view, lease.id)?.record.on_success } else { None };
        let Some(leased) = self.end_lease(lease.id) else {
            unreachable!("the lease was there");
        };
        let (queue, row) = (leased.queue, &leased.row);
        self.tally.acked += 1;
        self.touch(queue).counts.lifetime.acked += 1;
        let status = Status {
            finished: Some((State::Done, self.now.time())),
            due: row.due,
            attempts: row.attempts,
            last_error: None,
            priority: None,
        };
        self.finish_job(queue, lease.id, row.key.as_deref(), row.has_status, &status, result);
        let end = End::of(AttemptOutcome::Done, State::Done);
        self.add_attempt(history, lease.id, &leased, &end);
        self.tell(queue, lease.id, row.key.as_deref(), EventKind::Acked);
        if let Some(follow_up) = follow_up {
            let payload = result.cloned().unwrap_or_default();
            self.put_follow_up(lease.id, &follow_up, payload, Vec::new());
        }
        Ok(())
    }

    pub(super) fn fail(
        &mut self,
        view: &dyn View,
        failure: &FailedAttempt,
        access: &Access,
    ) -> Result<State, Error> {
        self.leased(view, failure.lease, access)?;
        let known = self.live(view, failure.lease.id)?;
        let history = self.history(view, known.id, known.status.is_some())?;
        let Some(leased) = self.end_lease(known.id) else {
            unreachable!("the lease was there");
        };
        self.tally.failed += 1;
        self.touch(leased.queue).counts.lifetime.failed += 1;
        let error = prefix(&failure.error, ERROR_TEXT).to_owned();
        let priority = failure.priority.or(changed_priority(known.status.as_ref()));
        let state = self.attempt_failed(&known, &leased, error, failure.retry, priority);
        let end = End {
            error: Some(&failure.error),
            detail: failure.detail.as_deref(),
            ..End::of(AttemptOutcome::Failed, state)
        };
        self.add_attempt(history, known.id, &leased, &end);
        Ok(state)
    }

    /// Returns a leased job. It always exists unless the store is damaged.
    fn live(&self, view: &dyn View, id: JobId) -> Result<Known, Error> {
        let why = "it is leased, and there is nothing else of it".to_owned();
        self.known(view, id)?.ok_or(Error::Damaged { id, why })
    }

    /// Retries a job whose lease has ended, or lets it die.
    fn attempt_failed(
        &mut self,
        known: &Known,
        leased: &Leased,
        error: String,
        retry: Retry,
        priority: Option<i8>,
    ) -> State {
        let settings = &self.queues[leased.queue as usize].settings;
        let attempts = leased.row.attempts;
        let max_attempts = known.record.max_attempts.unwrap_or(settings.max_attempts);
        let delay = match retry {
            _ if attempts >= max_attempts => None,
            Retry::Never => None,
            Retry::After(delay) => Some(delay),
            Retry::ByPolicy => {
                let policy = known.record.retry.as_ref().unwrap_or(&settings.retry);
                Some(policy.delay(known.id, attempts))
            }
        };
        let last_error = Some(error);
        if let Some(delay) = delay {
            let due = self.now.after(delay);
            let status = Status { finished: None, due, attempts, last_error, priority };
            self.wait_again(known, &status);
            let (key, error) = (known.record.key.as_deref(), status.last_error.as_deref());
            self.tell_failure(leased.queue, known.id, key, error, EventKind::Failed { due });
            return if delay.is_zero() { State::Ready } else { State::Scheduled };
        }
        self.tally.died += 1;
        self.touch(leased.queue).counts.lifetime.died += 1;
        let finished = Some((State::Dead, self.now.time()));
        let status = Status { finished, due: leased.row.due, attempts, last_error, priority };
        let key = known.record.key.as_deref();
        self.finish_job(leased.queue, known.id, key, leased.row.has_status, &status, None);
        let (error, kind) = (status.last_error.as_deref(), EventKind::Dead { attempts });
        self.tell_failure(leased.queue, known.id, key, error, kind);
        if let Some(follow_up) = &known.record.on_death {
            let error = status.last_error.unwrap_or_default();
            let mut headers = known.record.headers.clone();
            headers.push((FollowUp::ERROR_HEADER.to_owned(), error));
            self.put_follow_up(known.id, follow_up, known.record.payload.clone(), headers);
        }
        State::Dead
    }

    /// Makes a job whose lease has ended wait again.
    pub(super) fn wait_again(&mut self, known: &Known, status: &Status) {
        let key = rows::status(known.id);
        self.batch.put_with(Table::Index, &key, |bytes| status.encode(bytes));
        let place = known.record.place(status.due, status.priority);
        let group = known.record.group.as_deref();
        self.wait_at(known.record.queue, place, (known.id, true), group);
    }

    pub(super) fn extend(
        &mut self,
        view: &dyn View,
        lease: Lease,
        length: Duration,
        access: &Access,
    ) -> Result<Time, Error> {
        check_lease(length)?;
        let number = self.leased(view, lease, access)?.queue;
        let until = self.now.after(length);
        let Some(leased) = self.leases.get_mut(&lease.id) else {
            unreachable!("the lease was there");
        };
        leased.row.until = until;
        let row = leased.row.clone();
        self.wheel.reset(leased.timer, until.as_millis());
        self.write_lease(number, lease.id, &row);
        self.tell(number, lease.id, row.key.as_deref(), EventKind::Extended { until });
        Ok(until)
    }

    pub(super) fn release(
        &mut self,
        view: &dyn View,
        released: &ReleasedJob,
        access: &Access,
    ) -> Result<(), Error> {
        let ReleasedJob { lease, when, priority, .. } = *released;
        self.leased(view, lease, access)?;
        let known = self.live(view, lease.id)?;
        let history = self.history(view, known.id, known.status.is_some())?;
        let Some(leased) = self.end_lease(lease.id) else {
            unreachable!("the lease was there");
        };
        self.tally.released += 1;
        self.touch(leased.queue).counts.lifetime.released += 1;
        // A job that is released at once returns to its old place, not to the end.
        let due = match when {
            When::After(delay) if delay.is_zero() => leased.row.due,
            later => later.due(self.now),
        };
        // A released delivery does not count as an attempt.
        let attempts = leased.row.attempts - 1;
        let status = known.status();
        let priority = priority.or(status.priority);
        self.wait_again(&known, &Status { due, attempts, priority, ..status });
        let error = released.error.as_deref();
        let end = End { error, ..End::of(AttemptOutcome::Released, State::Scheduled) };
        self.add_attempt(history, known.id, &leased, &end);
        let key = known.record.key.as_deref();
        self.tell(leased.queue, lease.id, key, EventKind::Released { due });
        Ok(())
    }

    pub(super) fn leases_ran_out(&mut self, view: &dyn View, ids: Vec<JobId>) {
        let most = self.batch.bytes() + STEP_BYTES;
        for id in ids {
            if self.batch.bytes() > most {
                self.look_at_lease(id, self.now.time().as_millis());
            } else {
                self.lease_ran_out(view, id);
            }
        }
    }

    /// Schedules another check of an expired lease.
    fn look_at_lease(&mut self, id: JobId, at: u64) {
        if let Some(leased) = self.leases.get_mut(&id) {
            leased.timer = self.wheel.insert(at, Timed::Lease(id));
        }
    }

    fn lease_ran_out(&mut self, view: &dyn View, id: JobId) {
        let found = self.live(view, id).and_then(|known| {
            let history = self.history(view, id, known.status.is_some())?;
            Ok((known, history))
        });
        let (known, history) = match found {
            Ok(found) => found,
            Err(Error::Damaged { why, .. }) => {
                if let Some(leased) = self.end_lease(id) {
                    let place = Place::start_of(leased.row.due);
                    self.bury_damaged(leased.queue, place.due, leased.row.attempts, id, &why);
                }
                return;
            }
            Err(error) => {
                // The job cannot be read now: its lease stays and is checked again later.
                tracing::warn!(%id, %error, "a lease ran out, and its job cannot be read");
                self.look_at_lease(id, self.now.time().as_millis() + 1_000);
                return;
            }
        };
        let Some(leased) = self.end_lease(id) else { return };
        self.tally.expired += 1;
        self.touch(leased.queue).counts.lifetime.expired += 1;
        let max_attempts = known.record.max_attempts;
        let settings = &self.queues[leased.queue as usize].settings;
        let error = "the lease ran out".to_owned();
        let priority = changed_priority(known.status.as_ref());
        let state = if leased.row.attempts >= max_attempts.unwrap_or(settings.max_attempts) {
            self.attempt_failed(&known, &leased, error, Retry::Never, priority)
        } else {
            let (due, attempts) = (leased.row.due, leased.row.attempts);
            let last_error = Some(error);
            let status = Status { finished: None, due, attempts, last_error, priority };
            self.wait_again(&known, &status);
            let (key, error) = (known.record.key.as_deref(), status.last_error.as_deref());
            self.tell_failure(leased.queue, id, key, error, EventKind::Expired { due });
            State::Ready
        };
        let end = End::of(AttemptOutcome::Expired, state);
        self.add_attempt(history, id, &leased, &end);
    }

    /// Moves a waiting job that cannot be read to the dead jobs, so that the others are delivered.
    fn quarantine(&mut self, number: u32, place: Place, entry: Entry, why: &str) {
        let group = entry.group().map(|group| Arc::clone(&self.queue(number).groups[group].name));
        self.stop_waiting(number, place, group.as_deref(), group.is_some());
        self.bury_damaged(number, place.due, 0, entry.id, why);
    }

    fn bury_damaged(&mut self, number: u32, due: Time, attempts: u32, id: JobId, why: &str) {
        tracing::error!(%id, why, "a damaged job");
        self.tally.damaged += 1;
        let status = Status {
            finished: Some((State::Dead, self.now.time())),
            due,
            attempts,
            last_error: Some(
                prefix(&format!("damaged in the store: {why}"), ERROR_TEXT).to_owned(),
            ),
            priority: None,
        };
        self.finish_job(number, id, None, true, &status, None);
        let error = status.last_error.as_deref();
        self.tell_failure(number, id, None, error, EventKind::Dead { attempts });
    }
}
