//! A plain queue: a list of jobs that every operation searches from end to end.

use std::collections::HashMap;

use tickwheel_queue::{Attempt, AttemptOutcome, Job, JobId, OnConflict, Retry, State, Time};

use super::rig::nth_occurrence_id;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelJob {
    pub(crate) id: JobId,
    pub(crate) queue: usize,
    pub(crate) key: Option<String>,
    pub(crate) group: Option<u8>,
    pub(crate) priority: i8,
    pub(crate) seq: u64,
    pub(crate) due: u64,
    pub(crate) attempts: u32,
    pub(crate) max_attempts: u32,
    /// Waiting jobs are `Scheduled` here; the time decides whether they are ready.
    pub(crate) state: State,
    pub(crate) lease: Option<(u64, u64)>,
    pub(crate) last_error: Option<String>,
    /// When the lease began.
    pub(crate) since: u64,
    /// The attempts that have ended.
    pub(crate) history: Vec<ModelAttempt>,
    /// When the first of the jobs that this one replaced was put.
    pub(crate) first_put: u64,
    pub(crate) payload: String,
    /// Whether it has a follow-up, which is put when it is acknowledged or dies.
    pub(crate) has_follow_up: bool,
}

/// An attempt that has ended: its number, when it began, and how and why it ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelAttempt {
    pub(crate) number: u32,
    pub(crate) started: u64,
    pub(crate) outcome: AttemptOutcome,
    pub(crate) error: Option<String>,
}

impl ModelJob {
    /// Ends the lease and records the attempt.
    fn end(&mut self, outcome: AttemptOutcome, error: Option<&str>) {
        self.lease = None;
        let (number, started) = (self.attempts, self.since);
        let error = error.map(str::to_owned);
        self.history.push(ModelAttempt { number, started, outcome, error });
        if self.history.len() > Attempt::MAX_KEPT {
            self.history.remove(0);
        }
    }
}

/// A follow-up that must appear in the other queue.
#[derive(Debug, PartialEq)]
pub(crate) struct ExpectedJob {
    pub(crate) parent: JobId,
    pub(crate) queue: usize,
    pub(crate) payload: String,
    /// The job is due between this time and now, because the queue may notice an expired lease
    /// while the clock is still being advanced.
    pub(crate) earliest_due: u64,
}

/// The delay between attempts, for every job of the test.
pub(crate) const RETRY: u64 = 700;
/// The most deliveries of a follow-up, which its queue sets.
pub(crate) const FOLLOW_UP_ATTEMPTS: u32 = 3;
/// The most deliveries of the job of a schedule.
pub(crate) const SCHEDULE_ATTEMPTS: u32 = 2;

/// A schedule that catches up on all missed occurrences.
#[derive(Clone, Debug)]
pub(crate) struct ModelSchedule {
    pub(crate) name: String,
    pub(crate) queue: usize,
    pub(crate) priority: i8,
    pub(crate) period: u64,
    pub(crate) created: u64,
    pub(crate) handled: u64,
}

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) jobs: Vec<ModelJob>,
    pub(crate) now: u64,
    pub(crate) paused: HashMap<usize, bool>,
    pub(crate) next_seq: u64,
    pub(crate) schedules: Vec<ModelSchedule>,
    /// Jobs that schedules have put.
    pub(crate) fired: Vec<JobId>,
    /// Whether each queue is in priority order.
    pub(crate) by_priority: HashMap<usize, bool>,
    /// Whether each queue serves its groups in turn.
    pub(crate) is_fair: HashMap<usize, bool>,
    /// The most jobs of each group of a queue that may be leased at once.
    pub(crate) concurrency: HashMap<usize, Option<u32>>,
    /// The settings of a group: whether it is paused, and its own limit.
    pub(crate) groups: HashMap<(usize, u8), (bool, Option<u32>)>,
    /// Follow-ups whose ids are not known yet.
    pub(crate) expected: Vec<ExpectedJob>,
}

pub(crate) struct NewModelJob {
    pub(crate) id: JobId,
    pub(crate) queue: usize,
    pub(crate) key: Option<String>,
    pub(crate) group: Option<u8>,
    pub(crate) priority: i8,
    pub(crate) delay: u64,
    pub(crate) max_attempts: u32,
    pub(crate) max_total_delay: Option<u64>,
    pub(crate) has_follow_up: bool,
}

impl Model {
    /// Handles expired leases and due schedules.
    pub(crate) fn catch_up(&mut self) {
        let now = self.now;
        let mut died = Vec::new();
        for job in &mut self.jobs {
            if let Some((_, until)) = job.lease
                && until <= now
            {
                job.end(AttemptOutcome::Expired, None);
                job.last_error = Some("the lease ran out".into());
                job.state = State::Scheduled;
                if job.attempts >= job.max_attempts {
                    job.state = State::Dead;
                    died.push((job.id, until));
                }
            }
        }
        for (id, until) in died {
            self.expect_follow_up(id, None, until);
        }
        let mut schedules = std::mem::take(&mut self.schedules);
        for schedule in &mut schedules {
            self.fire(schedule);
        }
        self.schedules = schedules;
    }

    fn fire(&mut self, schedule: &mut ModelSchedule) {
        let (now, created, period) = (self.now, schedule.created, schedule.period);
        let times = (1..).map(|number| created + number * period);
        for due in times.take_while(|time| *time <= now) {
            if due <= schedule.handled {
                continue;
            }
            schedule.handled = due;
            // After the schedule was removed and put again with the clock set back, the occurrence
            // may already have its job. A job of another queue with that id is not that job.
            let time = Time::from_millis(due);
            let mut ids = (0..).map(|number| nth_occurrence_id(&schedule.name, time, number));
            let is_free = |id: &JobId| self.get(*id).is_none_or(|job| job.queue == schedule.queue);
            let Some(id) = ids.find(is_free) else { unreachable!("there is always another id") };
            if self.get(id).is_some() {
                continue;
            }
            self.fired.push(id);
            self.jobs.push(ModelJob {
                id,
                queue: schedule.queue,
                key: None,
                group: None,
                priority: schedule.priority,
                seq: self.next_seq,
                due,
                attempts: 0,
                max_attempts: SCHEDULE_ATTEMPTS,
                state: State::Scheduled,
                lease: None,
                last_error: None,
                since: 0,
                history: Vec::new(),
                first_put: self.now,
                payload: "by a schedule".into(),
                has_follow_up: false,
            });
            self.next_seq += 1;
        }
    }

    /// Expects the follow-up of a job that was acknowledged with a result or died.
    fn expect_follow_up(&mut self, parent: JobId, result: Option<String>, earliest_due: u64) {
        let job = self.get(parent).expect("it ended just now");
        if job.has_follow_up {
            let (queue, payload) = (1 - job.queue, result.unwrap_or(job.payload.clone()));
            self.expected.push(ExpectedJob { parent, queue, payload, earliest_due });
        }
    }

    /// Adds a follow-up that was found in the queue.
    pub(crate) fn add_follow_up(&mut self, found: &Job, queue: usize, parent: JobId) {
        let is_it = |expected: &ExpectedJob| {
            (expected.parent, expected.queue) == (parent, queue)
                && found.payload == expected.payload.as_bytes()
        };
        let place = self.expected.iter().position(is_it).expect("a follow-up that is expected");
        let expected = self.expected.remove(place);
        let due = found.due.as_millis();
        assert!((expected.earliest_due..=self.now).contains(&due), "due at {due}: {expected:?}");
        self.jobs.push(ModelJob {
            id: found.id,
            queue,
            key: None,
            group: None,
            priority: 0,
            seq: self.next_seq,
            due,
            attempts: 0,
            max_attempts: FOLLOW_UP_ATTEMPTS,
            state: State::Scheduled,
            lease: None,
            last_error: None,
            since: 0,
            history: Vec::new(),
            first_put: self.now,
            payload: expected.payload,
            has_follow_up: false,
        });
        self.next_seq += 1;
    }

    pub(crate) fn put_schedule(&mut self, mut schedule: ModelSchedule) {
        if let Some(old) = self.schedules.iter().find(|old| old.name == schedule.name)
            && old.period == schedule.period
        {
            schedule.created = old.created;
            schedule.handled = old.handled;
        }
        self.remove_schedule(&schedule.name.clone());
        self.schedules.push(schedule);
    }

    /// Returns `true` if there was one.
    pub(crate) fn remove_schedule(&mut self, name: &str) -> bool {
        let before = self.schedules.len();
        self.schedules.retain(|schedule| schedule.name != name);
        self.schedules.len() < before
    }

    pub(crate) fn holder(&self, queue: usize, key: &str) -> Option<JobId> {
        let is_it = |job: &&ModelJob| {
            job.queue == queue && job.key.as_deref() == Some(key) && job.state.is_live()
        };
        self.jobs.iter().find(is_it).map(|job| job.id)
    }

    pub(crate) fn get(&mut self, id: JobId) -> Option<&mut ModelJob> {
        self.jobs.iter_mut().find(|job| job.id == id)
    }

    /// Returns the job that has the key afterwards; `Err` if the put was rejected.
    pub(crate) fn put(&mut self, job: NewModelJob, on_conflict: OnConflict) -> Result<JobId, ()> {
        let mut first_put = self.now;
        if let Some(holder) = job.key.as_ref().and_then(|key| self.holder(job.queue, key)) {
            match on_conflict {
                OnConflict::Keep => return Ok(holder),
                OnConflict::Reject => return Err(()),
                OnConflict::Replace => {
                    let old = self.get(holder).expect("it has the key");
                    if old.state != State::Leased {
                        first_put = old.first_put;
                    }
                    self.jobs.retain(|job| job.id != holder);
                }
            }
        }
        let latest = job.max_total_delay.map_or(u64::MAX, |delay| first_put + delay);
        let seq = self.next_seq;
        self.next_seq += 1;
        self.jobs.push(ModelJob {
            id: job.id,
            queue: job.queue,
            key: job.key,
            group: job.group,
            priority: job.priority,
            seq,
            due: (self.now + job.delay).min(latest),
            attempts: 0,
            max_attempts: job.max_attempts,
            state: State::Scheduled,
            lease: None,
            last_error: None,
            since: 0,
            history: Vec::new(),
            first_put,
            payload: format!("payload of {}", job.id),
            has_follow_up: job.has_follow_up,
        });
        Ok(job.id)
    }

    /// Returns `true` if there was such a live job.
    pub(crate) fn cancel(&mut self, id: JobId) -> bool {
        let is_live = self.get(id).is_some_and(|job| job.state.is_live());
        if is_live {
            self.jobs.retain(|job| job.id != id);
        }
        is_live
    }

    pub(crate) fn reschedule(&mut self, id: JobId, delay: u64) -> bool {
        let now = self.now;
        match self.get(id) {
            Some(job) if job.state == State::Scheduled => {
                job.due = now + delay;
                true
            }
            _ => false,
        }
    }

    /// Returns the waiting jobs of a queue, in order of due time.
    pub(crate) fn waiting(&self, queue: usize) -> Vec<&ModelJob> {
        let mut waiting: Vec<_> = self
            .jobs
            .iter()
            .filter(|job| job.queue == queue && job.state == State::Scheduled)
            .collect();
        waiting.sort_by_key(|job| (job.due, -i16::from(job.priority), job.seq));
        waiting
    }

    /// Returns the live jobs of a group that are leased.
    pub(crate) fn running(&self, queue: usize, group: u8) -> u32 {
        let is_it = |job: &&ModelJob| {
            (job.queue, job.group, job.state) == (queue, Some(group), State::Leased)
        };
        self.jobs.iter().filter(is_it).count() as u32
    }

    /// Returns how many more jobs of a group may be delivered.
    pub(crate) fn room_of(&self, queue: usize, group: u8) -> u32 {
        let (paused, own) = self.groups.get(&(queue, group)).copied().unwrap_or_default();
        if paused {
            return 0;
        }
        let limit = own.or(self.concurrency.get(&queue).copied().flatten());
        limit.map_or(u32::MAX, |limit| limit.saturating_sub(self.running(queue, group)))
    }

    /// Returns the jobs that the next reserve must deliver. If groups are served in turn, it may
    /// deliver them in another order, and other jobs of the same groups.
    pub(crate) fn next_ready(&self, queue: usize, jobs: usize) -> Vec<JobId> {
        if self.paused.get(&queue) == Some(&true) {
            return Vec::new();
        }
        let mut ready = self.waiting(queue);
        ready.retain(|job| job.due <= self.now);
        if self.by_priority.get(&queue) == Some(&true) {
            ready.sort_by_key(|job| -i16::from(job.priority));
        }
        let mut rooms: HashMap<u8, u32> = HashMap::new();
        ready.retain(|job| {
            let Some(group) = job.group else { return true };
            let room = rooms.entry(group).or_insert_with(|| self.room_of(queue, group));
            let has_room = *room > 0;
            *room = room.saturating_sub(1);
            has_room
        });
        ready.into_iter().take(jobs).map(|job| job.id).collect()
    }

    pub(crate) fn lease(&mut self, id: JobId, token: u64, length: u64) {
        let (now, until) = (self.now, self.now + length);
        let job = self.get(id).expect("a reserved job is in the model");
        job.state = State::Leased;
        job.attempts += 1;
        job.since = now;
        job.lease = Some((token, until));
    }

    /// Returns the leased job, if the token is right.
    fn leased(&mut self, id: JobId, token: u64) -> Option<&mut ModelJob> {
        self.get(id).filter(|job| job.lease.is_some_and(|(its, _)| its == token))
    }

    pub(crate) fn ack(&mut self, id: JobId, token: u64, result: String) -> bool {
        let is_leased = self.leased(id, token).is_some();
        if is_leased {
            self.expect_follow_up(id, Some(result), self.now);
            self.jobs.retain(|job| job.id != id);
        }
        is_leased
    }

    pub(crate) fn fail(&mut self, id: JobId, token: u64, error: &str, retry: Retry) -> bool {
        let now = self.now;
        let Some(job) = self.leased(id, token) else { return false };
        job.end(AttemptOutcome::Failed, Some(error));
        job.last_error = Some(error.into());
        let delay = match retry {
            _ if job.attempts >= job.max_attempts => None,
            Retry::ByPolicy => Some(RETRY),
            Retry::After(delay) => Some(delay.as_millis() as u64),
            Retry::Never => None,
        };
        if let Some(delay) = delay {
            job.state = State::Scheduled;
            job.due = now + delay;
        } else {
            job.state = State::Dead;
            self.expect_follow_up(id, None, now);
        }
        true
    }

    pub(crate) fn extend(&mut self, id: JobId, token: u64, length: u64) -> bool {
        let until = self.now + length;
        let Some(job) = self.leased(id, token) else { return false };
        job.lease = Some((token, until));
        true
    }

    pub(crate) fn release(&mut self, id: JobId, token: u64, delay: u64) -> bool {
        let now = self.now;
        let Some(job) = self.leased(id, token) else { return false };
        job.end(AttemptOutcome::Released, None);
        job.state = State::Scheduled;
        job.attempts -= 1;
        if delay > 0 {
            job.due = now + delay;
        }
        true
    }

    pub(crate) fn kick(&mut self, id: JobId) -> bool {
        let now = self.now;
        let Some(job) = self.get(id).filter(|job| job.state == State::Dead) else { return false };
        let (queue, key) = (job.queue, job.key.clone());
        if key.is_some_and(|key| self.holder(queue, &key).is_some()) {
            return false;
        }
        let job = self.get(id).expect("it was there");
        job.state = State::Scheduled;
        job.due = now;
        job.attempts = 0;
        job.first_put = now;
        true
    }

    pub(crate) fn drop_all(&mut self, queue: usize, state: State) -> u64 {
        let before = self.jobs.len();
        self.jobs.retain(|job| job.queue != queue || job.state != state);
        (before - self.jobs.len()) as u64
    }
}
