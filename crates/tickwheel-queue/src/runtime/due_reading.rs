//! Counting the waiting jobs by their due time, in a view of the store.
//!
//! A count walks the due index from its beginning to the last time that was asked for. What is due
//! later is not walked: the queue knows how many jobs wait in all.

use std::sync::Arc;

use crate::engine::unreadable;
use crate::model::access::Access;
use crate::model::error::Error;
use crate::model::time::Time;
use crate::model::upcoming::DueCount;
use crate::runtime::core::Core;
use crate::store::records::Counts;
use crate::store::rows::{self, Place};
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View};

/// Rows that one step looks at.
const STEP_ROWS: usize = 1_024;

/// A count in progress.
#[derive(Debug)]
pub(crate) struct DueCounting {
    /// In ascending order.
    times: Vec<Time>,
    /// The queues that are not finished, the next one last; `None` before the first step.
    queues: Option<Vec<(Arc<str>, u32)>>,
    /// Where the next step begins in the next queue, if not at its beginning.
    from: Option<Vec<u8>>,
    /// The counts of the next queue so far.
    counts: Vec<u64>,
    found: Vec<DueCount>,
}

impl DueCounting {
    pub(crate) fn new(mut times: Vec<Time>) -> Self {
        times.sort_unstable();
        Self { times, queues: None, from: None, counts: Vec::new(), found: Vec::new() }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.times.len() * size_of::<Time>()
    }

    /// Looks at some more rows; the result if these were the last.
    pub(crate) fn step(
        &mut self,
        core: &Core,
        view: &dyn View,
        access: &Access,
    ) -> Option<Result<Vec<DueCount>, Error>> {
        let queues = self.queues.get_or_insert_with(|| {
            let numbered = core.names().into_iter().zip(0..);
            numbered
                .filter(|(name, number)| {
                    access.allows(name) && core.number_of(name) == Some(*number)
                })
                .collect()
        });
        let mut rows_left = STEP_ROWS;
        while let Some((name, number)) = queues.pop() {
            let counts = std::mem::take(&mut self.counts);
            let from = self.from.take();
            let mut walk = Walk { times: &self.times, counts, rows_left };
            match walk.queue(view, number, from) {
                Ok(None) => {
                    self.found.push(DueCount { queue: name, counts: walk.counts });
                    rows_left = walk.rows_left.saturating_sub(1);
                }
                Ok(from @ Some(_)) => {
                    self.from = from;
                    self.counts = walk.counts;
                    queues.push((name, number));
                    return None;
                }
                Err(error) => return Some(Err(unreadable(error))),
            }
            if rows_left == 0 {
                return None;
            }
        }
        Some(Ok(std::mem::take(&mut self.found)))
    }
}

/// One step in one queue.
struct Walk<'a> {
    times: &'a [Time],
    counts: Vec<u64>,
    rows_left: usize,
}

impl Walk<'_> {
    /// Counts until the queue or the step is at its end; in the latter case returns where the next
    /// step begins.
    fn queue(
        &mut self,
        view: &dyn View,
        number: u32,
        from: Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let row = match view.get(Table::Counters, &rows::of_queue(rows::COUNTS, number)) {
            Err(StoreError::Damaged(_)) => None,
            row => row?,
        };
        let queue = row.and_then(|row| Counts::decode(row).ok()).unwrap_or_default();
        if self.counts.is_empty() {
            self.counts = vec![0; self.times.len() + 1];
        }
        let last = self.times.last().copied().unwrap_or_default();
        let from = from.unwrap_or_else(|| rows::due(number, queue.low).to_vec());
        let to = rows::due(number, Place::end_of(last));
        if queue.waiting > 0 {
            for row in Tolerant::new(view, Table::Index, &from, &to) {
                let key = match row {
                    Ok((key, _)) => key,
                    Err(StoreError::Damaged(_)) => continue,
                    Err(error) => return Err(error),
                };
                if let Some(place) = rows::place_of(&key) {
                    let range = self.times.partition_point(|time| *time < place.due);
                    self.counts[range] += 1;
                }
                self.rows_left -= 1;
                if self.rows_left == 0 {
                    return Ok(Some([&key[..], &[0]].concat()));
                }
            }
        }
        let counted: u64 = self.counts.iter().sum();
        if let Some(later) = self.counts.last_mut() {
            *later += queue.waiting.saturating_sub(counted);
        }
        Ok(None)
    }
}
