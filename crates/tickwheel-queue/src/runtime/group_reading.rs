//! Reading groups: their settings and their numbers of jobs.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::engine::{may_start, unreadable};
use crate::model::error::Error;
use crate::model::group::{GroupInfo, GroupList, GroupPage, GroupSettings};
use crate::model::settings::Pacing;
use crate::model::time::Time;
use crate::store::groups::{GroupCounts, ranks};
use crate::store::records::{QueueRow, decode_starts};
use crate::store::rows;
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View};

/// Rows that a page counts one by one before it ends early.
const MAX_COUNTED: u64 = 50_000;

/// Returns a page of the groups of a queue.
pub(crate) fn page(
    view: &dyn View,
    number: u32,
    now: Time,
    list: &GroupList,
) -> Result<GroupPage, Error> {
    let reader = Reader { view, number, now, counted: 0.into() };
    reader.page(list).map_err(unreadable)
}

struct Reader<'a> {
    view: &'a dyn View,
    number: u32,
    now: Time,
    /// Rows counted one by one so far.
    counted: std::cell::Cell<u64>,
}

impl Reader<'_> {
    fn page(&self, list: &GroupList) -> Result<GroupPage, StoreError> {
        let group_pacing = self.group_pacing()?;
        // One more than the page holds shows whether there is another page.
        let mut names = self.names(Table::Counters, rows::GROUP_COUNTS, list)?;
        names.extend(self.names(Table::Index, rows::GROUP_SETTINGS, list)?);
        let mut page = GroupPage::default();
        let mut names = names.into_iter().peekable();
        while let Some(name) = names.next() {
            page.groups.push(self.group(&name, group_pacing)?);
            let is_full = page.groups.len() == list.limit || self.counted.get() > MAX_COUNTED;
            if is_full {
                page.next = names.peek().map(|_| name);
                break;
            }
        }
        Ok(page)
    }

    /// Returns the group names in the first rows of a kind, as many as the page may need.
    fn names(
        &self,
        table: Table,
        kind: u8,
        list: &GroupList,
    ) -> Result<BTreeSet<String>, StoreError> {
        let mut from = rows::of_group(kind, self.number, &list.prefix);
        if let Some(after) = &list.after {
            let mut after = rows::of_group(kind, self.number, after);
            after.push(0);
            from = from.max(after);
        }
        let mut names = BTreeSet::new();
        for row in Tolerant::new(self.view, table, &from, &rows::after_queue(kind, self.number)) {
            let key = match row {
                Ok((key, _)) => key,
                Err(StoreError::Damaged(_)) => continue,
                Err(error) => return Err(error),
            };
            let name = rows::read_group_key(&key).map(|(_, name)| name).unwrap_or_default();
            if !name.starts_with(&list.prefix) || names.len() > list.limit {
                break;
            }
            names.insert(name.to_owned());
        }
        Ok(names)
    }

    /// Returns a row if it can be read.
    fn row<T>(
        &self,
        table: Table,
        key: &[u8],
        decode: fn(Bytes) -> Result<T, String>,
    ) -> Result<Option<T>, StoreError> {
        match self.view.get(table, key) {
            Ok(row) => Ok(row.and_then(|row| decode(row).ok())),
            Err(StoreError::Damaged(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn group_pacing(&self) -> Result<Pacing, StoreError> {
        let key = rows::of_queue(rows::QUEUE, self.number);
        let queue = self.row(Table::Index, &key, QueueRow::decode)?;
        Ok(queue.map(|queue| queue.settings.group_pacing).unwrap_or_default())
    }

    fn group(&self, name: &str, group_pacing: Pacing) -> Result<GroupInfo, StoreError> {
        let key = |kind| rows::of_group(kind, self.number, name);
        let counts = self.row(Table::Counters, &key(rows::GROUP_COUNTS), GroupCounts::decode)?;
        let GroupCounts { waiting, running } = counts.unwrap_or_default();
        let settings = self.row(Table::Index, &key(rows::GROUP_SETTINGS), GroupSettings::decode)?;
        let settings = settings.unwrap_or_default();
        let pacing = settings.pacing.unwrap_or(group_pacing);
        let starts = match pacing.starts {
            Some(_) => self.row(Table::Index, &key(rows::PACE), decode_starts)?,
            None => None,
        };
        let starts = starts.unwrap_or_default();
        let starts = (starts.len(), |index: usize| starts[index]);
        let is_blocked = settings.paused || !may_start(pacing, running, starts, self.now);
        let held = if is_blocked && waiting > 0 { self.due(name, waiting)? } else { 0 };
        Ok(GroupInfo { name: name.to_owned(), settings, waiting, running, held })
    }

    /// Counts the due jobs among the waiting jobs of a group. It counts due and future jobs in turn
    /// until one kind is exhausted, because mostly there are few of one kind.
    fn due(&self, name: &str, waiting: u64) -> Result<u64, StoreError> {
        let ranks = ranks(self.view, self.number, name)?;
        let later = self.now.after_a_millisecond();
        let scan = |from: Vec<u8>, to: Vec<u8>| self.view.scan(Table::Index, &from, &to);
        let from = |rank, due| rows::grouped_from(self.number, name, rank, due);
        let end = |rank| rows::grouped_rank_end(self.number, name, rank);
        let mut due =
            ranks.iter().flat_map(|&rank| scan(from(rank, Time::default()), from(rank, later)));
        let mut not_due = ranks.iter().flat_map(|&rank| scan(from(rank, later), end(rank)));
        let mut count = 0;
        loop {
            if due.next().is_none() {
                break;
            }
            if not_due.next().is_none() {
                self.counted.set(self.counted.get() + count);
                return Ok(waiting.saturating_sub(count));
            }
            count += 1;
        }
        self.counted.set(self.counted.get() + count);
        Ok(count)
    }
}
