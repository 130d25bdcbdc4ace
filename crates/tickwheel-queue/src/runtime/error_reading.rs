//! Grouping jobs by the error of their last attempt, in a view of the store.
//!
//! Dead jobs come first, then leased and waiting ones that failed before. Only the small rows with
//! the errors are read, not the jobs.

use std::collections::HashMap;
use std::sync::Arc;

use crate::engine::unreadable;
use crate::model::access::Access;
use crate::model::error::Error;
use crate::model::error_group::{ErrorGroup, ErrorList, ErrorPage};
use crate::model::id::JobId;
use crate::model::job::State;
use crate::model::time::Time;
use crate::runtime::core::Core;
use crate::store::history::decode_history;
use crate::store::records::{Counts, LeaseRow, Status};
use crate::store::rows::{self, DueValue};
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View};

/// Rows that are looked at in all, and in one step.
const MAX_ROWS: usize = 500_000;
const STEP_ROWS: usize = 512;
/// Different errors that are kept apart. Jobs with further ones are only counted.
const MAX_GROUPS: usize = 2_000;

/// The parts of the index that are walked, for each queue.
#[derive(Clone, Copy, Debug)]
enum Part {
    Dead,
    Leased,
    Waiting,
}

/// A grouping in progress.
#[derive(Debug)]
pub(crate) struct ErrorGrouping {
    list: ErrorList,
    /// The parts that are left, the next one last; `None` before the first step.
    parts: Option<Vec<(Arc<str>, u32, Part)>>,
    /// Where the next step begins in the next part, if not at its beginning.
    from: Option<Vec<u8>>,
    rows: usize,
    groups: HashMap<String, ErrorGroup>,
    others: u64,
}

impl ErrorGrouping {
    pub(crate) fn new(list: ErrorList) -> Self {
        let groups = HashMap::new();
        Self { list, parts: None, from: None, rows: 0, groups, others: 0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.list.queue.as_ref().map_or(0, String::len)
    }

    fn parts_of(&self, core: &Core, access: &Access) -> Result<Vec<(Arc<str>, u32, Part)>, Error> {
        if let Some(queue) = &self.list.queue {
            access.check_queue(queue)?;
        }
        let wanted = |name: &str| self.list.queue.as_deref().is_none_or(|queue| queue == name);
        let queues: Vec<(Arc<str>, u32)> = core
            .names()
            .into_iter()
            .zip(0..)
            .filter(|(name, number)| {
                wanted(name) && access.allows(name) && core.number_of(name) == Some(*number)
            })
            .collect();
        let parts = [Part::Waiting, Part::Leased, Part::Dead].into_iter();
        let parts = parts.flat_map(|part| {
            queues.iter().map(move |(name, number)| (Arc::clone(name), *number, part))
        });
        Ok(parts.collect())
    }

    /// Looks at some more rows; the result if these were the last.
    pub(crate) fn step(
        &mut self,
        core: &Core,
        view: &dyn View,
        access: &Access,
    ) -> Option<Result<ErrorPage, Error>> {
        let mut parts = match self.parts.take() {
            Some(parts) => parts,
            None => match self.parts_of(core, access) {
                Ok(parts) => parts,
                Err(error) => return Some(Err(error)),
            },
        };
        let mut left = STEP_ROWS;
        while let Some((name, number, part)) = parts.pop() {
            if self.rows >= MAX_ROWS {
                return Some(Ok(self.page(false)));
            }
            match self.walk(view, &name, number, part, &mut left) {
                Ok(None) => left = left.saturating_sub(1),
                Ok(from @ Some(_)) => {
                    self.from = from;
                    parts.push((name, number, part));
                    left = 0;
                }
                Err(error) => return Some(Err(unreadable(error))),
            }
            if left == 0 {
                self.parts = Some(parts);
                return None;
            }
        }
        Some(Ok(self.page(true)))
    }

    /// Looks at rows of a part; returns where the next step begins if it does not reach the end.
    fn walk(
        &mut self,
        view: &dyn View,
        name: &Arc<str>,
        number: u32,
        part: Part,
        left: &mut usize,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let (first, to) = range(view, number, part);
        let from = self.from.take().unwrap_or(first);
        for row in Tolerant::new(view, Table::Index, &from, &to) {
            let (key, value) = match row {
                Ok(row) => row,
                Err(StoreError::Damaged(_)) => continue,
                Err(error) => return Err(error),
            };
            let failed = match part {
                Part::Dead => rows::read_finished(&key).map(|(time, id)| (id, Some(time))),
                Part::Leased => {
                    let has_status = LeaseRow::decode(value).is_ok_and(|lease| lease.has_status);
                    let id = rows::read_lease_key(&key).map(|(_, id)| (id, None));
                    id.filter(|_| has_status)
                }
                Part::Waiting => DueValue::decode(&value)
                    .filter(|waiting| waiting.has_status)
                    .map(|waiting| (waiting.id, None)),
            };
            if let Some((id, died)) = failed {
                self.add(view, name, id, died)?;
            }
            self.rows += 1;
            *left -= 1;
            if *left == 0 {
                return Ok(Some([&key[..], &[0]].concat()));
            }
        }
        Ok(None)
    }

    fn add(
        &mut self,
        view: &dyn View,
        queue: &Arc<str>,
        id: JobId,
        died: Option<Time>,
    ) -> Result<(), StoreError> {
        let status = match view.get(Table::Index, &rows::status(id)) {
            Err(StoreError::Damaged(_)) => None,
            row => row?.and_then(|row| Status::decode(row).ok()),
        };
        let Some(error) = status.and_then(|status| status.last_error) else { return Ok(()) };
        let text = ErrorGroup::text_of(&error);
        if self.groups.len() >= MAX_GROUPS && !self.groups.contains_key(&text) {
            self.others += 1;
            return Ok(());
        }
        let failed = match died {
            Some(died) => Some(died),
            None => last_end(view, id)?,
        };
        let group = self.groups.entry(text).or_insert_with_key(|text| ErrorGroup {
            text: text.clone(),
            count: 0,
            dead: 0,
            newest: None,
            oldest: None,
            example: id,
            queue: Arc::clone(queue),
            example_error: error,
        });
        group.count += 1;
        group.dead += u64::from(died.is_some());
        group.newest = group.newest.max(failed);
        group.oldest = [group.oldest, failed].into_iter().flatten().min();
        Ok(())
    }

    fn page(&mut self, is_complete: bool) -> ErrorPage {
        let mut groups: Vec<_> = std::mem::take(&mut self.groups).into_values().collect();
        groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.text.cmp(&b.text)));
        let left_out = groups.split_off(self.list.limit.min(groups.len()));
        let others = self.others + left_out.iter().map(|group| group.count).sum::<u64>();
        ErrorPage { groups, others, is_complete }
    }
}

/// The rows of a part.
fn range(view: &dyn View, number: u32, part: Part) -> (Vec<u8>, Vec<u8>) {
    let counts = view.get(Table::Counters, &rows::of_queue(rows::COUNTS, number)).ok().flatten();
    let counts = counts.and_then(|row| Counts::decode(row).ok()).unwrap_or_default();
    match part {
        Part::Dead => (
            rows::finished_from(number, State::Dead, counts.finished_low(State::Dead)).to_vec(),
            rows::finished_end(number, State::Dead),
        ),
        Part::Leased => {
            (rows::of_queue(rows::LEASE, number).to_vec(), rows::after_queue(rows::LEASE, number))
        }
        Part::Waiting => (rows::due(number, counts.low).to_vec(), rows::due_end(number)),
    }
}

/// When the last attempt of a job ended.
fn last_end(view: &dyn View, id: JobId) -> Result<Option<Time>, StoreError> {
    let history = match view.get(Table::Index, &rows::history(id)) {
        Err(StoreError::Damaged(_)) => None,
        row => row?.and_then(|row| decode_history(row).ok()),
    };
    Ok(history.and_then(|attempts| attempts.last().map(|attempt| attempt.ended)))
}
