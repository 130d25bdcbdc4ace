//! The promises of the queue, checked against the logs of the load's threads.
//!
//! An operation that was begun and not answered may have happened or not. After the crash, the
//! contents of the queue decide it, and from then on the outcome is a known fact.

use std::collections::{HashMap, HashSet};

use tickwheel_queue::{Job, JobId, List, NewJob, Queues, State, Time};

use crate::load::{PERIOD, QUEUE, SCHEDULE, occurrence, once_key};
use crate::log::{Entry, Event};

/// Returns the occurrence encoded in an id; `None` if no schedule put the job.
fn occurrence_of(id: &JobId) -> Option<Time> {
    let bytes = id.as_bytes();
    let mut millis = [0; 8];
    millis[2..].copy_from_slice(&bytes[..6]);
    (bytes[6] >> 4 == 8).then(|| Time::from_millis(u64::from_be_bytes(millis)))
}

/// The position of an event in the order of all events: round and sequence number.
type Stamp = (u64, u64);

#[derive(Debug, Default)]
struct Facts {
    /// When the put of the job was answered.
    put: Option<Stamp>,
    /// When the end of the job was answered.
    gone: Option<Stamp>,
    /// The number of unanswered operations that may end the job.
    ending: u32,
    /// The number of unanswered operations that may change its due time.
    moving: u32,
    /// The due time, and when it became known.
    due: Option<(u64, Stamp)>,
    /// The due time that an unanswered move would set.
    new_due: u64,
    /// The end of its last lease.
    until: u64,
    /// The due time of its put, if that had an idempotency key.
    once: Option<u64>,
    /// Whether the put was answered.
    is_answered: bool,
}

#[derive(Default)]
pub(crate) struct Account {
    jobs: HashMap<JobId, Facts>,
    errors: Vec<String>,
    last: Stamp,
    puts: u64,
    deliveries: u64,
    acks: u64,
    unknown: u64,
    /// The number of occurrences of the schedule that have their job.
    occurrences: u64,
    /// Puts with an idempotency key that were repeated after a crash.
    repeated: u64,
}

impl Account {
    pub(crate) fn add(&mut self, mut entries: Vec<Entry>) {
        entries.sort_by_key(|(round, seq, _)| (*round, *seq));
        for (round, seq, event) in entries {
            self.last = (round, seq);
            self.note((round, seq), &event);
        }
    }

    fn note(&mut self, stamp: Stamp, event: &Event) {
        match *event {
            Event::Once { id, due } => self.job(id).once = Some(due),
            Event::Put { id, due } => {
                let facts = self.jobs.entry(id).or_default();
                facts.due = Some((due, stamp));
            }
            Event::PutDone { id, replaced } => {
                self.puts += 1;
                let facts = self.job(id);
                facts.put = Some(stamp);
                facts.is_answered = true;
                if let Some(old) = replaced {
                    self.ended(old, true, stamp);
                }
            }
            Event::Fired { id } => {
                self.job(id).put.get_or_insert(stamp);
            }
            Event::MayReplace { id } | Event::Cancel { id } | Event::Ack { id } => {
                self.job(id).ending += 1;
            }
            Event::ReplaceOver { id } => self.job(id).ending -= 1,
            Event::CancelDone { id, done } => self.ended(id, done, stamp),
            Event::AckDone { id, done } => {
                self.acks += u64::from(done);
                self.ended(id, done, stamp);
            }
            Event::Move { id, due } => {
                let facts = self.job(id);
                facts.moving += 1;
                facts.new_due = due;
            }
            Event::MoveDone { id, done } => {
                let facts = self.job(id);
                facts.moving -= 1;
                if done {
                    facts.due = Some((facts.new_due, stamp));
                }
            }
            Event::Fail { id } => {
                let facts = self.job(id);
                facts.moving += 1;
                // From now on the job may be delivered again, at a time that only the queue knows.
                facts.until = 0;
                facts.due = None;
            }
            Event::FailDone { id, .. } => {
                let facts = self.job(id);
                facts.moving -= 1;
                facts.due = None;
            }
            Event::Delivered { id, begun, due, until, now } => {
                self.deliveries += 1;
                self.delivered(id, (stamp.0, begun), (due, until, now));
            }
        }
    }

    fn job(&mut self, id: JobId) -> &mut Facts {
        self.jobs.entry(id).or_default()
    }

    fn gone(&mut self, id: JobId, stamp: Stamp) {
        let facts = self.job(id);
        facts.gone.get_or_insert(stamp);
    }

    fn ended(&mut self, id: JobId, done: bool, stamp: Stamp) {
        self.job(id).ending -= 1;
        if done {
            self.gone(id, stamp);
        }
    }

    fn delivered(&mut self, id: JobId, begun: Stamp, (due, until, now): (u64, u64, u64)) {
        let mut errors = Vec::new();
        match self.jobs.get_mut(&id) {
            None => errors.push(format!("{id} was delivered, and nobody put it")),
            Some(facts) => {
                if now < due {
                    errors.push(format!("{id} was delivered at {now}, due at {due}"));
                }
                if facts.gone.is_some_and(|gone| gone < begun) {
                    errors.push(format!("{id} was delivered after it was done or cancelled"));
                }
                let known = facts.due.filter(|(_, since)| *since < begun && facts.moving == 0);
                if let Some((known, _)) = known.filter(|(known, _)| *known != due) {
                    errors.push(format!("{id} was delivered as due at {due}, but was {known}"));
                }
                if now < facts.until {
                    errors.push(format!("{id} was delivered at {now}, leased to {}", facts.until));
                }
                facts.until = until;
            }
        }
        self.errors.extend(errors);
    }

    /// Compares the facts with the contents of the queue, directly after a crash.
    pub(crate) fn check(&mut self, queues: &Queues) -> Result<(), String> {
        // Lets the queue first handle what was due when it was opened.
        queues.stats().wait().map_err(|error| error.to_string())?;
        let found = everything(queues)?;
        self.check_keys(&found);
        self.check_counts(queues, &found)?;
        let found: HashMap<JobId, Job> = found.into_iter().map(|job| (job.id, job)).collect();
        let last = (self.last.0, u64::MAX);
        for (id, job) in &found {
            if self.jobs.contains_key(id) {
                continue;
            }
            if occurrence(job).is_some() {
                self.jobs.insert(*id, Facts { put: Some(last), ..Facts::default() });
            } else {
                self.errors.push(format!("{id} is in the queue, but was never put"));
            }
        }
        self.check_schedule(queues, &found)?;
        for (id, facts) in &mut self.jobs {
            let is_unknown = facts.ending > 0 || (facts.put.is_none() && facts.gone.is_none());
            self.unknown += u64::from(is_unknown);
            match (found.get(id), facts.gone) {
                (Some(_), Some(_)) => {
                    self.errors.push(format!("{id} is there, but was done or cancelled"));
                }
                (None, None) if !is_unknown => {
                    self.errors.push(format!("{id} was put and is lost"));
                }
                // The crash decided an operation that was not answered: the job is gone.
                (None, None) => facts.gone = Some(last),
                (None, Some(_)) => {}
                (Some(job), None) => {
                    let due = job.due.as_millis();
                    let known = facts.due.filter(|_| facts.moving == 0);
                    if let Some((known, _)) = known.filter(|(known, _)| *known != due) {
                        self.errors.push(format!("{id} is due at {due}, but was {known}"));
                    }
                    facts.put.get_or_insert(last);
                    facts.due = Some((due, last));
                }
            }
            facts.ending = 0;
            facts.moving = 0;
        }
        self.repeat_puts(queues)?;
        if self.errors.is_empty() { Ok(()) } else { Err(self.errors.join("\n")) }
    }

    /// Repeats the puts of the last round that had an idempotency key, as their callers would. A put
    /// that has happened is not done again, whatever became of its job.
    fn repeat_puts(&mut self, queues: &Queues) -> Result<(), String> {
        let last = (self.last.0, u64::MAX);
        let is_new = |stamp: Option<Stamp>| stamp.is_none_or(|(round, _)| round == last.0);
        let mut answers = Vec::new();
        for (id, facts) in &self.jobs {
            if let Some(due) = facts.once.filter(|_| is_new(facts.put) && is_new(facts.gone)) {
                let job = NewJob::new(QUEUE, "").id(*id).at(Time::from_millis(due));
                answers.push((*id, due, queues.put_once(once_key(*id), [job])));
            }
        }
        for (id, due, answer) in answers {
            let put = answer.wait().map_err(|error| error.to_string())?;
            self.repeated += 1;
            let first = put.puts.first().and_then(|put| put.as_ref().ok());
            if first.is_none_or(|put| put.id != id) {
                self.errors.push(format!("the repeated put of {id} was answered {:?}", put.puts));
            }
            let facts = self.job(id);
            // The crash prevented the put if the job is gone for no other reason.
            let is_prevented = !facts.is_answered && facts.gone == Some(last);
            match (put.is_replay, is_prevented) {
                (false, true) => {
                    facts.gone = None;
                    facts.put = Some(last);
                    facts.due = Some((due, last));
                }
                (false, false) => self.errors.push(format!("{id} was put twice")),
                (true, _) => {}
            }
        }
        Ok(())
    }

    /// Checks that every occurrence up to the last handled one has or had its job, and that no
    /// later occurrence has one.
    fn check_schedule(
        &mut self,
        queues: &Queues,
        found: &HashMap<JobId, Job>,
    ) -> Result<(), String> {
        let schedule = queues.schedule(SCHEDULE).wait().map_err(|error| error.to_string())?;
        let Some(schedule) = schedule else { return Ok(()) };
        let last = schedule.last.unwrap_or_default();
        let times = std::iter::successors(Some(schedule.created.after(PERIOD)), |time| {
            Some(time.after(PERIOD))
        });
        let ended = |job: &Facts| job.gone.is_some() || job.ending > 0;
        let ended = self.jobs.iter().filter(|(_, job)| ended(job)).map(|(id, _)| id);
        let there: HashSet<_> = ended.chain(found.keys()).filter_map(occurrence_of).collect();
        self.occurrences = 0;
        for time in times.take_while(|time| *time <= last) {
            self.occurrences += 1;
            if !there.contains(&time) {
                self.errors.push(format!("the job of the schedule for {time:?} is lost"));
            }
        }
        if schedule.fired != self.occurrences {
            let (fired, occurrences) = (schedule.fired, self.occurrences);
            self.errors.push(format!("{fired} jobs were put for {occurrences} occurrences"));
        }
        for job in found.values().filter(|job| occurrence(job) > Some(last)) {
            self.errors.push(format!("{} is there before its occurrence was dealt with", job.id));
        }
        Ok(())
    }

    fn check_keys(&mut self, found: &[Job]) {
        let mut keys = HashSet::new();
        for job in found.iter().filter(|job| job.state.is_live()) {
            if let Some(key) = job.key.as_ref().filter(|key| !keys.insert((*key).clone())) {
                self.errors.push(format!("the key {key:?} is there twice"));
            }
        }
    }

    fn check_counts(&mut self, queues: &Queues, found: &[Job]) -> Result<(), String> {
        let info = queues.queue(QUEUE).wait().map_err(|error| error.to_string())?;
        let Some(info) = info else { return Ok(()) };
        let live = found.iter().filter(|job| job.state.is_live()).count() as u64;
        let dead = found.iter().filter(|job| job.state == State::Dead).count() as u64;
        let counted = info.scheduled + info.ready + info.leased;
        if (counted, info.dead) != (live, dead) {
            self.errors.push(format!(
                "{live} live and {dead} dead jobs are counted as {counted} and {}",
                info.dead
            ));
        }
        Ok(())
    }

    /// Prints the totals, and fails if the load did nothing.
    pub(crate) fn report(&self, how: &str, rounds: u64) -> Result<(), String> {
        println!(
            "{how} {rounds} times: {} puts, {} deliveries and {} acks were acknowledged, {} \
             operations were cut off, {} occurrences of a schedule had one job each, {} puts were \
             repeated with their idempotency key",
            self.puts, self.deliveries, self.acks, self.unknown, self.occurrences, self.repeated
        );
        if rounds >= 5
            && [self.puts, self.acks, self.unknown, self.occurrences, self.repeated].contains(&0)
        {
            return Err("the load did next to nothing: this test proves nothing".to_owned());
        }
        Ok(())
    }
}

/// Returns all jobs of the queue.
fn everything(queues: &Queues) -> Result<Vec<Job>, String> {
    let mut jobs = Vec::new();
    let mut list = List::of(QUEUE).limit(10_000);
    loop {
        let page = queues.list(list.clone()).wait().map_err(|error| error.to_string())?;
        if let Some(id) = page.damaged.first() {
            return Err(format!("{id} is damaged"));
        }
        jobs.extend(page.jobs);
        list.after = page.next;
        if list.after.is_none() {
            return Ok(jobs);
        }
    }
}
