//! Finding the jobs that a short id stands for, in a view of the store.

use crate::engine::unreadable;
use crate::model::access::Access;
use crate::model::error::Error;
use crate::model::id::JobId;
use crate::model::short_id::ShortId;
use crate::runtime::core::Core;
use crate::store::records::Record;
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View};

/// The number of ids in an answer: enough to show that a short id is ambiguous.
const MAX_IDS: usize = 10;
/// What a search examines in total and in one step: rows, and bytes of their jobs.
const MAX_ROWS: usize = 50_000;
const MAX_BYTES: usize = 256 << 20;
const STEP_ROWS: usize = 256;
const STEP_BYTES: usize = 1 << 20;

/// A search in progress.
#[derive(Debug)]
pub(crate) struct IdSearch {
    short: ShortId,
    /// The key at which the next step begins.
    from: Vec<u8>,
    rows: usize,
    bytes: usize,
    found: Vec<JobId>,
}

impl IdSearch {
    pub(crate) fn new(short: ShortId) -> Self {
        let from = short.range().0.as_bytes().to_vec();
        Self { short, from, rows: 0, bytes: 0, found: Vec::new() }
    }

    /// Examines some more rows. Returns the result if these were the last.
    pub(crate) fn step(
        &mut self,
        core: &Core,
        view: &dyn View,
        access: &Access,
    ) -> Option<Result<Vec<JobId>, Error>> {
        let last = self.short.range().1;
        let to = [last.as_bytes(), &[0][..]].concat();
        let (mut rows, mut bytes) = (0, 0);
        let from = std::mem::take(&mut self.from);
        for row in Tolerant::new(view, Table::Jobs, &from, &to) {
            let (key, value) = match row {
                Ok(row) => row,
                Err(StoreError::Damaged(_)) => continue,
                Err(error) => return Some(Err(unreadable(error))),
            };
            (rows, bytes) = (rows + 1, bytes + value.len());
            // A longer key belongs to a job's result.
            let id = <[u8; 16]>::try_from(&key[..]).ok().map(JobId::from_bytes);
            let is_visible = || {
                let queue = |record: Record| core.name(record.queue);
                let name = || Record::decode(value.clone()).ok().and_then(queue);
                !access.is_limited() || name().is_some_and(|name| access.allows(&name))
            };
            if let Some(id) = id.filter(|id| self.short.matches(*id) && is_visible()) {
                self.found.push(id);
                if self.found.len() == MAX_IDS {
                    return Some(Ok(std::mem::take(&mut self.found)));
                }
            }
            if rows == STEP_ROWS || bytes >= STEP_BYTES {
                self.from = [&key[..], &[0]].concat();
                return self.pause(rows, bytes).err().map(Err);
            }
        }
        Some(Ok(std::mem::take(&mut self.found)))
    }

    /// Adds a step to what the search has examined. Returns an error if that is too much.
    fn pause(&mut self, rows: usize, bytes: usize) -> Result<(), Error> {
        (self.rows, self.bytes) = (self.rows + rows, self.bytes + bytes);
        if self.rows < MAX_ROWS && self.bytes < MAX_BYTES {
            return Ok(());
        }
        let why = format!("{} stands for too many jobs: give more digits", self.short);
        Err(Error::Invalid { field: "id".to_owned(), why })
    }
}
