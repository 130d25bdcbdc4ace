//! Reading jobs from a view of the store, on the caller's thread or a reader's, never on the
//! writer's. A long read proceeds in steps, all on the same view.

use std::sync::Arc;

use bytes::Bytes;

use crate::engine::{changed_priority, damaged, unreadable};
use crate::model::access::Access;
use crate::model::error::Error;
use crate::model::group::{GroupList, GroupPage};
use crate::model::id::JobId;
use crate::model::job::{ANSWER_BYTES, Job, JobRef, State};
use crate::model::list::{List, Page, PageToken};
use crate::model::time::Time;
use crate::runtime::core::Core;
use crate::runtime::due_reading::DueCounting;
use crate::runtime::error_reading::ErrorGrouping;
use crate::runtime::id_reading::IdSearch;
use crate::runtime::request::Response;
use crate::runtime::{group_reading, schedule_reading, target_reading};
use crate::store::history::decode_history;
use crate::store::records::{Counts, LeaseRow, Record, Status};
use crate::store::rows::{self, DueValue, Place};
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View};

#[derive(Debug)]
pub(crate) enum Read {
    Get(Vec<JobRef>),
    Ids(IdSearch),
    List(List),
    Groups(GroupList),
    Schedule(String),
    /// Schedules after this name, until their rows take this many bytes.
    Schedules(Option<String>, usize),
    NextTimes(String, usize),
    /// One push target, or all.
    Targets(Option<String>),
    CountDue(DueCounting),
    Errors(ErrorGrouping),
}

/// The parts of the index that a list scans.
const PARTS: [Part; 5] = [
    Part::Waiting,
    Part::Leased,
    Part::Finished(State::Dead),
    Part::Finished(State::Done),
    Part::Finished(State::Cancelled),
];
/// The number of the part that is scanned by key.
const BY_KEY: u8 = PARTS.len() as u8;
/// Rows that one page examines: a filter that matches little gives short pages.
const MAX_ROWS: usize = 50_000;
/// Bytes of jobs that one page reads.
const MAX_BYTES: usize = 256 << 20;

#[derive(Clone, Copy)]
enum Part {
    Waiting,
    Leased,
    Finished(State),
}

/// What one step examines: rows, and bytes of their jobs.
const STEP_ROWS: usize = 256;
const STEP_BYTES: usize = 1 << 20;

/// A read in progress: the request, and the results so far.
pub(crate) struct Reading {
    read: Read,
    access: Access,
    /// The view that all steps read, and when the first step was made.
    view: Option<(Box<dyn View>, Time)>,
    found: Vec<Result<Option<Job>, Error>>,
    page: Page,
    room: Room,
}

impl Reading {
    pub(crate) fn new(read: Read, access: Access) -> Self {
        let bytes = match &read {
            Read::List(list) => list.bytes.clamp(1, ANSWER_BYTES),
            _ => ANSWER_BYTES,
        };
        let room = Room { rows: MAX_ROWS, bytes, looked_at: MAX_BYTES };
        Self { read, access, view: None, found: Vec::new(), page: Page::default(), room }
    }

    /// Makes all steps. May wait for the disk.
    pub(crate) fn finish(mut self, core: &Core) -> Response {
        loop {
            if let Some(outcome) = self.step(core) {
                return outcome;
            }
        }
    }

    /// Makes a step. Returns the outcome if it was the last one. May wait for the disk.
    pub(crate) fn step(&mut self, core: &Core) -> Option<Response> {
        // A failed store is opened again only after its last view is dropped.
        let store = match self.access.check().and_then(|()| core.store()) {
            Ok(store) => store,
            Err(error) => return Some(Response::Refused(error)),
        };
        let (view, now) = match (self.view.take(), store) {
            (Some(begun), _) => begun,
            (None, Some(store)) => (store.view(), core.clock.now().time()),
            // The store is being opened again: make the step later. Meanwhile this thread can
            // finish reads that hold a view.
            (None, None) => return None,
        };
        let access = &self.access;
        let reader = Reader { core, access, view, now };
        let outcome = match &mut self.read {
            Read::Get(jobs) => {
                let is_last = reader.get_some(jobs, &mut self.found);
                is_last.then(|| Response::Jobs(std::mem::take(&mut self.found)))
            }
            Read::Ids(search) => search.step(core, &*reader.view, access).map(Response::Ids),
            Read::CountDue(counting) => {
                counting.step(core, &*reader.view, access).map(Response::DueCounts)
            }
            Read::Errors(grouping) => {
                grouping.step(core, &*reader.view, access).map(Response::Errors)
            }
            Read::List(list) => match reader.list(list, &mut self.page, &mut self.room) {
                Ok(false) => None,
                Ok(true) => Some(Response::Page(Ok(std::mem::take(&mut self.page)))),
                Err(error) => Some(Response::Page(Err(error))),
            },
            Read::Groups(list) => Some(Response::Groups(reader.groups(list))),
            Read::Schedule(name) => {
                Some(Response::Schedules(schedule_reading::one(&*reader.view, now, name, access)))
            }
            Read::Schedules(name, bytes) => Some(Response::Schedules(schedule_reading::after(
                &*reader.view,
                now,
                name.as_deref(),
                *bytes,
                access,
            ))),
            Read::Targets(name) => Some(Response::Targets(target_reading::targets(
                &*reader.view,
                name.as_deref(),
                access,
            ))),
            Read::NextTimes(name, times) => Some(Response::Upcoming(schedule_reading::next_times(
                &*reader.view,
                now,
                name,
                *times,
                access,
            ))),
        };
        self.view = Some((reader.view, now));
        outcome
    }
}

/// What a page may still hold and examine.
struct Room {
    /// Rows to examine.
    rows: usize,
    /// Bytes of the jobs in the answer; the job that exceeds them is the last.
    bytes: usize,
    /// Bytes of all examined jobs, including those that do not match.
    looked_at: usize,
}

/// What a step may still examine: rows, and bytes of their jobs.
struct Step {
    rows: usize,
    bytes: usize,
}

/// How far a step came in a part.
enum Walked {
    ToTheEnd,
    /// The step ends after this row.
    UpTo(Vec<u8>),
    /// The page is complete.
    Enough,
}

struct Reader<'a> {
    core: &'a Core,
    access: &'a Access,
    view: Box<dyn View>,
    now: Time,
}

impl Reader<'_> {
    fn number_of(&self, queue: &str) -> Option<u32> {
        self.core.number_of(queue)
    }

    /// Looks up some more of the jobs. Returns `true` if none is left.
    fn get_some(&self, jobs: &[JobRef], found: &mut Vec<Result<Option<Job>, Error>>) -> bool {
        let mut bytes = 0;
        for job in jobs.iter().skip(found.len()).take(STEP_ROWS) {
            let job = self.get(job);
            bytes += job.as_ref().ok().and_then(Option::as_ref).map_or(0, Job::bytes);
            found.push(job);
            if bytes >= STEP_BYTES {
                break;
            }
        }
        found.len() == jobs.len()
    }

    /// Returns a job, or `None` if there is none that the caller may see.
    fn get(&self, job: &JobRef) -> Result<Option<Job>, Error> {
        match job {
            JobRef::Id(id) => self.with_details(self.visible(*id)?),
            JobRef::Key { queue, key } => {
                self.access.check_queue(queue)?;
                let Some(number) = self.number_of(queue) else { return Ok(None) };
                let job = self.with_key(number, key)?.map_or(Ok(None), |id| self.job(id))?;
                self.with_details(job)
            }
        }
    }

    /// Adds the result and the history of a job, which lists omit.
    fn with_details(&self, job: Option<Job>) -> Result<Option<Job>, Error> {
        let Some(mut job) = job else { return Ok(None) };
        if job.state == State::Done {
            job.result = self.row(job.id, Table::Jobs, &rows::result(job.id), Ok)?;
        }
        // The history is informative only, so a job with an unreadable one is shown without it.
        let history = self.row(job.id, Table::Index, &rows::history(job.id), decode_history);
        job.history = match history {
            Err(Error::Damaged { .. }) => Vec::new(),
            history => history?.unwrap_or_default(),
        };
        Ok(Some(job))
    }

    /// Returns a job by its id, if the caller may see its queue. A caller with limited access does
    /// not see a job with an unreadable record, because it may belong to any queue.
    fn visible(&self, id: JobId) -> Result<Option<Job>, Error> {
        let found = match self.record(id) {
            Err(Error::Damaged { .. }) if self.access.is_limited() => None,
            found => found?.filter(|(_, queue)| self.access.allows(queue)),
        };
        found.map(|(record, queue)| self.complete(id, record, queue)).transpose()
    }

    fn with_key(&self, queue: u32, key: &str) -> Result<Option<JobId>, Error> {
        let row = self.view.get(Table::Index, &rows::key(queue, key)).map_err(unreadable)?;
        Ok(row.and_then(|row| Some(rows::read_key_value(&row)?.0)))
    }

    fn row<T>(
        &self,
        id: JobId,
        table: Table,
        key: &[u8],
        decode: fn(Bytes) -> Result<T, String>,
    ) -> Result<Option<T>, Error> {
        let row = self.view.get(table, key).map_err(|error| damaged(id, error))?;
        row.map(decode).transpose().map_err(|why| Error::Damaged { id, why })
    }

    /// Returns the record of a job and the name of its queue.
    fn record(&self, id: JobId) -> Result<Option<(Record, Arc<str>)>, Error> {
        let record = self.row(id, Table::Jobs, id.as_bytes(), Record::decode)?;
        let Some(record) = record else { return Ok(None) };
        let no_queue = || Error::Damaged { id, why: "its queue is not there".into() };
        let queue = self.core.name(record.queue).ok_or_else(no_queue)?;
        Ok(Some((record, queue)))
    }

    fn job(&self, id: JobId) -> Result<Option<Job>, Error> {
        let found = self.record(id)?;
        found.map(|(record, queue)| self.complete(id, record, queue)).transpose()
    }

    /// Builds a job from its record and its two rows in the index.
    fn complete(&self, id: JobId, record: Record, queue: Arc<str>) -> Result<Job, Error> {
        let status = self.row(id, Table::Index, &rows::status(id), Status::decode)?;
        let lease = rows::lease(record.queue, id);
        let lease = self.row(id, Table::Index, &lease, LeaseRow::decode)?;
        let finished = status.as_ref().and_then(|status| status.finished);
        let due = status.as_ref().map_or(record.due, |status| status.due);
        let state = match (finished, &lease) {
            (Some((state, _)), _) => state,
            (None, Some(_)) => State::Leased,
            (None, None) if due <= self.now => State::Ready,
            (None, None) => State::Scheduled,
        };
        let attempts = status.as_ref().map_or(0, |status| status.attempts);
        Ok(Job {
            id,
            queue,
            state,
            key: record.key,
            priority: changed_priority(status.as_ref()).unwrap_or(record.priority),
            due: lease.as_ref().map_or(due, |lease| lease.due),
            created: record.created,
            attempts: lease.as_ref().map_or(attempts, |lease| lease.attempts),
            max_attempts: record.max_attempts,
            retry: record.retry,
            group: record.group,
            leased_since: lease.as_ref().map(|lease| lease.since),
            leased_until: lease.as_ref().map(|lease| lease.until),
            worker: lease.and_then(|lease| lease.worker),
            finished: finished.map(|(_, time)| time),
            last_error: status.and_then(|status| status.last_error),
            headers: record.headers,
            payload: record.payload,
            on_success: record.on_success,
            on_death: record.on_death,
            result: None,
            history: Vec::new(),
        })
    }

    /// Returns a page of the groups of a queue.
    fn groups(&self, list: &GroupList) -> Result<GroupPage, Error> {
        list.check()?;
        self.access.check_queue(&list.queue)?;
        let Some(number) = self.number_of(&list.queue) else { return Ok(GroupPage::default()) };
        group_reading::page(&*self.view, number, self.now, list)
    }

    /// Adds some more jobs to a page. Returns `true` if the page is complete; otherwise the list
    /// continues where this step ended.
    fn list(&self, list: &mut List, page: &mut Page, room: &mut Room) -> Result<bool, Error> {
        list.check()?;
        self.access.check_queue(&list.queue)?;
        let Some(number) = self.number_of(&list.queue) else { return Ok(true) };
        let parts = parts_of(list);
        let first =
            list.after.as_ref().and_then(|token| parts.iter().position(|part| *part == token.part));
        let mut step = Step { rows: STEP_ROWS, bytes: STEP_BYTES };
        for &part in &parts[first.unwrap_or(0)..] {
            if PARTS.get(usize::from(part)).is_some_and(|part| !self.is_wanted(list, *part)) {
                continue;
            }
            match self.walk(list, number, part, page, room, &mut step)? {
                Walked::ToTheEnd => {}
                Walked::UpTo(key) => {
                    list.after = Some(PageToken { part, key });
                    return Ok(false);
                }
                Walked::Enough => return Ok(true),
            }
        }
        Ok(true)
    }

    fn is_wanted(&self, list: &List, part: Part) -> bool {
        match (part, list.state) {
            (Part::Leased | Part::Finished(_), _) if list.only_waiting => false,
            (_, None) => true,
            (Part::Waiting, Some(State::Scheduled)) => list.due_to > self.now,
            (Part::Waiting, Some(State::Ready)) => list.due_from <= self.now,
            (Part::Leased, Some(state)) => state == State::Leased,
            (Part::Finished(state), Some(wanted)) => state == wanted,
            (Part::Waiting, Some(_)) => false,
        }
    }

    /// Returns the counts of a queue, for their low-water marks. They are zero if they cannot be
    /// read.
    fn counts(&self, number: u32) -> Counts {
        let row = self.view.get(Table::Counters, &rows::of_queue(rows::COUNTS, number));
        row.ok().flatten().and_then(|row| Counts::decode(row).ok()).unwrap_or_default()
    }

    /// Returns the range of rows in a part that can match.
    fn range(&self, list: &List, number: u32, part: u8) -> (Vec<u8>, Vec<u8>) {
        let Some(part) = PARTS.get(usize::from(part)) else {
            if let Some(key) = &list.key {
                let row = rows::key(number, key);
                let end = [&row[..], &[0]].concat();
                return (row, end);
            }
            let prefix = list.key_prefix.as_deref().unwrap_or_default();
            return (rows::key(number, prefix), rows::after_key_prefix(number, prefix));
        };
        match part {
            Part::Waiting => {
                let (mut from, mut to) = (list.due_from, list.due_to);
                match list.state {
                    Some(State::Scheduled) => from = from.max(self.now.after_a_millisecond()),
                    Some(State::Ready) => to = to.min(self.now),
                    _ => {}
                }
                let first = Place::start_of(from).max(self.counts(number).low);
                let end = rows::due(number, Place::end_of(to));
                (rows::due(number, first).to_vec(), end.to_vec())
            }
            Part::Leased => (
                rows::of_queue(rows::LEASE, number).to_vec(),
                rows::after_queue(rows::LEASE, number),
            ),
            Part::Finished(state) => (
                rows::finished_from(number, *state, self.counts(number).finished_low(*state))
                    .to_vec(),
                rows::finished_end(number, *state),
            ),
        }
    }

    /// Returns `false` if a job is not wanted because of its last error, which is read without the
    /// job.
    fn may_want(&self, list: &List, part: u8, id: JobId, value: &[u8]) -> Result<bool, Error> {
        if !list.is_by_error() {
            return Ok(true);
        }
        let is_waiting = matches!(PARTS.get(usize::from(part)), Some(Part::Waiting));
        if is_waiting && DueValue::decode(value).is_some_and(|value| !value.has_status) {
            return Ok(false);
        }
        match self.row(id, Table::Index, &rows::status(id), Status::decode) {
            Ok(status) => {
                let error = status.and_then(|status| status.last_error);
                Ok(list.wants_error(error.as_deref()))
            }
            // The job is listed as damaged.
            Err(Error::Damaged { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Adds jobs of one part to the page.
    fn walk(
        &self,
        list: &List,
        number: u32,
        part: u8,
        page: &mut Page,
        room: &mut Room,
        step: &mut Step,
    ) -> Result<Walked, Error> {
        let (mut from, to) = self.range(list, number, part);
        if let Some(token) = list.after.as_ref().filter(|token| token.part == part) {
            // Continue after the last examined row.
            let mut after = token.key.clone();
            after.push(0);
            from = from.max(after);
        }
        let mut seen: Option<Bytes> = None;
        for row in Tolerant::new(&*self.view, Table::Index, &from, &to) {
            let (key, value) = match row {
                Ok(row) => row,
                Err(StoreError::Damaged(_)) => {
                    page.gaps += 1;
                    continue;
                }
                Err(error) => return Err(unreadable(error)),
            };
            let is_full = page.jobs.len() + page.damaged.len() == list.limit;
            if is_full || room.rows == 0 || room.bytes == 0 || room.looked_at == 0 {
                // Empty if the next page begins with the first row of this part.
                let before = list.after.as_ref().filter(|token| token.part == part);
                let before = before.map_or(Vec::new(), |token| token.key.clone());
                let key = seen.map_or(before, |seen| seen.to_vec());
                page.next = Some(PageToken { part, key });
                return Ok(Walked::Enough);
            }
            room.rows -= 1;
            step.rows -= 1;
            if let Some(id) = id_in(part, &key, &value)
                && self.may_want(list, part, id, &value)?
            {
                match self.job(id) {
                    Ok(Some(mut job)) => {
                        room.looked_at = room.looked_at.saturating_sub(job.bytes());
                        step.bytes = step.bytes.saturating_sub(job.bytes());
                        if list.wants(&job) {
                            if !list.payloads {
                                job.payload = Bytes::new();
                            }
                            room.bytes = room.bytes.saturating_sub((self.core.measure)(&job));
                            page.jobs.push(job);
                        }
                    }
                    // All rows are from the same snapshot: a row without a record is damage.
                    Ok(None) | Err(Error::Damaged { .. }) => page.damaged.push(id),
                    Err(error) => return Err(error),
                }
            }
            if step.rows == 0 || step.bytes == 0 {
                return Ok(Walked::UpTo(key.to_vec()));
            }
            seen = Some(key);
        }
        Ok(Walked::ToTheEnd)
    }
}

/// Returns the parts of the index that a list walks through, by their numbers. Keys of finished jobs
/// have no index: those jobs are found by walking through all of their state.
fn parts_of(list: &List) -> &'static [u8] {
    let is_finished = list.state.is_some_and(|state| !state.is_live());
    match (&list.key, &list.key_prefix) {
        (None, None) => &[0, 1, 2, 3, 4],
        _ if is_finished => &[2, 3, 4],
        (Some(_), _) if list.state.is_none() && !list.only_waiting => &[BY_KEY, 2, 3, 4],
        _ => &[BY_KEY],
    }
}

/// Returns the id of the job that a row of the index belongs to.
fn id_in(part: u8, key: &[u8], value: &[u8]) -> Option<JobId> {
    match PARTS.get(usize::from(part)) {
        Some(Part::Waiting) => DueValue::decode(value).map(|value| value.id),
        Some(Part::Leased) => rows::read_lease_key(key).map(|(_, id)| id),
        Some(Part::Finished(_)) => rows::read_finished(key).map(|(_, id)| id),
        None => Some(rows::read_key_value(value)?.0),
    }
}
