//! The number of jobs that a salvage leaves out.
//!
//! Each commit has the sequence number of the next put. So the sequence numbers of puts are known if
//! their commits are missing between two readable ones, or before the last acknowledged one. Jobs
//! among them that are in a table are not lost. Where no such number is known, the puts that can be
//! recognised in the unreadable bytes are a lower bound.

use std::ops::Range;

use bytes::Bytes;

use super::acknowledged::Acknowledged;
use crate::store::LeftOut;
use crate::store::records::{Record, Totals};

/// What was left out of the journals.
#[derive(Debug, Default)]
pub(in crate::store) struct Loss {
    /// Parts of the store that cannot be read, or are missing.
    pub(in crate::store) parts: u64,
    /// The sequence numbers of missing puts.
    pub(in crate::store) puts: Vec<Range<u64>>,
    /// Recognisable puts of an unreadable part before the first commit, which has no number to
    /// start from.
    pub(in crate::store) puts_before: u64,
    /// Recognisable puts of an unreadable part after the last commit.
    pub(in crate::store) puts_in_tail: u64,
    /// The number of missing puts that are in a table.
    pub(in crate::store) found: u64,
}

impl Loss {
    /// Adds the puts that are missing at the end, given the last commit that the store has.
    pub(in crate::store) fn add_end(&mut self, last: Totals, acknowledged: &Acknowledged) {
        if last.commit >= acknowledged.commit {
            self.puts_in_tail = 0;
            return;
        }
        if let Some(seq) = acknowledged.seq.filter(|seq| last.commit > 0 && *seq >= last.seq) {
            self.puts.push(last.seq..seq);
            self.puts_in_tail = 0;
        }
    }

    /// Notes a job that can be read.
    pub(in crate::store) fn note_readable(&mut self, record: &Bytes) {
        if self.puts.is_empty() {
            return;
        }
        if let Some(seq) = Record::seq_of(record) {
            self.found += u64::from(self.puts.iter().any(|puts| puts.contains(&seq)));
        }
    }

    /// Returns what is lost, once all readable jobs are noted.
    pub(in crate::store) fn left_out(&self) -> LeftOut {
        let missing: u64 = self.puts.iter().map(|puts| puts.end.saturating_sub(puts.start)).sum();
        let jobs = missing.saturating_sub(self.found) + self.puts_before + self.puts_in_tail;
        LeftOut { parts: self.parts, jobs }
    }

    /// Returns `true` if more jobs may be lost than are counted.
    pub(in crate::store) fn is_lower_bound(&self) -> bool {
        self.puts_before + self.puts_in_tail > 0
    }
}
