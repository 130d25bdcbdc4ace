//! The history of a job: a row with its last attempts.
//!
//! Ground rules:
//! * The row is written when an attempt ends and the job is kept. A job that is removed by its
//!   first acknowledgement never has one.
//! * A job with a history has a status, so a job without a status has no history to read or remove.
//! * The history is informative only. No decision depends on it, and an unreadable one is started
//!   anew.

use super::{Engine, Leased, damaged};
use crate::model::error::Error;
use crate::model::history::{Attempt, AttemptOutcome, prefix};
use crate::model::id::JobId;
use crate::model::job::State;
use crate::store::history::{decode_history, encode_history};
use crate::store::{StoreError, Table, View, rows};

/// How an attempt ended.
pub(super) struct End<'a> {
    pub(super) outcome: AttemptOutcome,
    /// The state of the job now.
    pub(super) state: State,
    pub(super) error: Option<&'a str>,
    pub(super) detail: Option<&'a str>,
}

impl End<'_> {
    /// Creates an ending without further details.
    pub(super) fn of(outcome: AttemptOutcome, state: State) -> Self {
        Self { outcome, state, error: None, detail: None }
    }
}

impl Engine {
    /// Returns the attempts of a job so far.
    pub(super) fn history(
        &self,
        view: &dyn View,
        id: JobId,
        has_status: bool,
    ) -> Result<Vec<Attempt>, Error> {
        if !has_status {
            return Ok(Vec::new());
        }
        match self.read(view, Table::Index, &rows::history(id)) {
            Ok(row) => Ok(row.and_then(|row| decode_history(row).ok()).unwrap_or_default()),
            Err(StoreError::Damaged(_)) => Ok(Vec::new()),
            Err(error) => Err(damaged(id, error)),
        }
    }

    /// Adds the attempt of an ended lease, unless the job is removed.
    pub(super) fn add_attempt(
        &mut self,
        mut history: Vec<Attempt>,
        id: JobId,
        leased: &Leased,
        end: &End<'_>,
    ) {
        if !self.keeps(leased.queue, end.state) {
            return;
        }
        let kept = |text: &str| prefix(text, Attempt::MAX_TEXT_BYTES).to_owned();
        history.push(Attempt {
            number: leased.row.attempts,
            started: leased.row.since,
            ended: self.now.time(),
            worker: leased.row.worker.as_deref().map(str::to_owned),
            outcome: end.outcome,
            error: end.error.filter(|error| !error.is_empty()).map(kept),
            detail: end.detail.map(kept),
        });
        let first = history.len().saturating_sub(Attempt::MAX_KEPT);
        let key = rows::history(id);
        self.batch.put_with(Table::Index, &key, |bytes| encode_history(bytes, &history[first..]));
    }
}
