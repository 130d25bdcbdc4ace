//! Keys as linearizable registers: the value of a key is the live job that has it.
//!
//! Operations of one key are linearizable if some order of them explains every answer, and keeps
//! each operation between its request and its answer. The search is that of Wing and Gong, with a
//! cache of visited states.

use std::collections::{BTreeMap, HashSet};

/// How old the answer of a read may be: an owner proves its ownership once a second.
const READ_AGE_MS: u64 = 1_000;
/// The number of states after which the search gives up. Only many operations without an answer
/// need more.
const MAX_STATES: usize = 200_000;

/// An operation on one key, in milliseconds of the test's clock.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) sent: u64,
    /// When the answer arrived. Without one, the operation may take effect at any later time, or
    /// never.
    pub(crate) answered: Option<u64>,
    pub(crate) action: Action,
}

/// The effect of an operation, as its client knows it. Values are the ids of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A put that replaces the job with the key.
    Write(u128),
    /// A put that is refused if a job has the key.
    Create(u128),
    /// A successful cancellation of the job with the key.
    Clear,
    /// A read, or a cancellation that found no job.
    Read(Option<u128>),
    /// A put that was refused because a job has the key.
    FindTaken,
}

impl Action {
    /// Returns the value after the operation, or `None` if its answer contradicts the value before.
    #[allow(clippy::option_option, reason = "a key without a job is a value as well")]
    fn apply(self, value: Option<u128>, is_answered: bool) -> Option<Option<u128>> {
        match self {
            Self::Write(id) => Some(Some(id)),
            Self::Create(id) if value.is_none() => Some(Some(id)),
            Self::Clear if value.is_some() => Some(None),
            // A put without an answer may have been refused.
            Self::Create(_) | Self::Clear => (!is_answered).then_some(value),
            Self::Read(found) => (found == value).then_some(value),
            Self::FindTaken => value.is_some().then_some(value),
        }
    }

    fn reads_only(self) -> bool {
        matches!(self, Self::Read(_) | Self::FindTaken)
    }
}

/// The result of the search for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Linearizable,
    Violated,
    Undecided,
}

/// Checks the operations of each key. Returns the findings and the number of undecided keys.
pub(crate) fn check(keys: &BTreeMap<String, Vec<Operation>>) -> (Vec<String>, usize) {
    let (mut wrong, mut undecided) = (Vec::new(), 0);
    for (key, operations) in keys {
        match verdict(operations) {
            Verdict::Linearizable => {}
            Verdict::Undecided => undecided += 1,
            Verdict::Violated => {
                let mut shown = operations.clone();
                shown.sort_by_key(|it| it.sent);
                wrong.push(format!("no order of its operations explains key {key}: {shown:#?}"));
            }
        }
    }
    (wrong, undecided)
}

fn verdict(operations: &[Operation]) -> Verdict {
    let mut operations = operations.to_vec();
    for operation in operations.iter_mut().filter(|it| it.action.reads_only()) {
        operation.sent = operation.sent.saturating_sub(READ_AGE_MS);
    }
    operations.sort_by_key(|it| it.sent);
    let words = operations.len().div_ceil(64);
    let mut seen = HashSet::new();
    let mut open = vec![(vec![0_u64; words], None)];
    while let Some((done, value)) = open.pop() {
        let is_done = |index: usize| done[index / 64] >> (index % 64) & 1 == 1;
        let left = || operations.iter().enumerate().filter(|(index, _)| !is_done(*index));
        // An answered operation must come before every operation that was sent after its answer.
        let Some(limit) = left().filter_map(|(_, it)| it.answered).min() else {
            return Verdict::Linearizable;
        };
        for (index, operation) in left().take_while(|(_, it)| it.sent <= limit) {
            let Some(next) = operation.action.apply(value, operation.answered.is_some()) else {
                continue;
            };
            let mut done = done.clone();
            done[index / 64] |= 1 << (index % 64);
            if seen.len() > MAX_STATES {
                return Verdict::Undecided;
            }
            if seen.insert((done.clone(), next)) {
                open.push((done, next));
            }
        }
    }
    Verdict::Violated
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(sent: u64, answered: u64, action: Action) -> Operation {
        Operation { sent, answered: Some(answered), action }
    }

    fn lost(sent: u64, action: Action) -> Operation {
        Operation { sent, answered: None, action }
    }

    fn of(operations: &[Operation]) -> Verdict {
        verdict(operations)
    }

    #[test]
    fn a_correct_history_passes() {
        let history = [
            operation(0, 10, Action::Write(1)),
            operation(20, 30, Action::Read(Some(1))),
            operation(40, 50, Action::Clear),
            operation(60, 70, Action::Create(2)),
            operation(5_000, 5_010, Action::FindTaken),
        ];
        assert_eq!(of(&history), Verdict::Linearizable);
    }

    #[test]
    fn concurrent_writes_may_have_any_order() {
        let history = |last| {
            [
                operation(0, 100, Action::Write(1)),
                operation(0, 100, Action::Write(2)),
                operation(5_000, 5_010, Action::Read(Some(last))),
            ]
        };
        assert_eq!(of(&history(1)), Verdict::Linearizable);
        assert_eq!(of(&history(2)), Verdict::Linearizable);
        assert_eq!(of(&history(3)), Verdict::Violated);
    }

    #[test]
    fn a_lost_write_is_detected() {
        let history = [
            operation(0, 10, Action::Write(1)),
            operation(20, 30, Action::Write(2)),
            operation(5_000, 5_010, Action::Read(Some(1))),
        ];
        assert_eq!(of(&history), Verdict::Violated);
        let keys = [("k".to_owned(), history.to_vec())].into();
        assert_eq!(check(&keys).0.len(), 1);
    }

    #[test]
    fn a_read_may_be_a_second_old_and_no_older() {
        let history = |read_at| {
            [
                operation(0, 10, Action::Write(1)),
                operation(20, 30, Action::Write(2)),
                operation(read_at, read_at + 5, Action::Read(Some(1))),
            ]
        };
        assert_eq!(of(&history(900)), Verdict::Linearizable);
        assert_eq!(of(&history(1_100)), Verdict::Violated);
    }

    #[test]
    fn two_jobs_that_were_both_created_are_detected() {
        let history = [operation(0, 10, Action::Create(1)), operation(20, 30, Action::Create(2))];
        assert_eq!(of(&history), Verdict::Violated);
    }

    #[test]
    fn a_cleared_key_that_still_has_a_job_is_detected() {
        let history = [
            operation(0, 10, Action::Write(1)),
            operation(20, 30, Action::Clear),
            operation(5_000, 5_010, Action::Read(Some(1))),
        ];
        assert_eq!(of(&history), Verdict::Violated);
    }

    #[test]
    fn a_write_without_an_answer_takes_effect_late_or_never() {
        let history = |found| {
            [
                lost(0, Action::Write(1)),
                operation(20, 30, Action::Write(2)),
                operation(5_000, 5_010, Action::Read(Some(found))),
            ]
        };
        assert_eq!(of(&history(1)), Verdict::Linearizable);
        assert_eq!(of(&history(2)), Verdict::Linearizable);
        let twice = [
            lost(0, Action::Write(1)),
            operation(20, 30, Action::Write(2)),
            operation(5_000, 5_010, Action::Read(Some(1))),
            operation(9_000, 9_010, Action::Read(Some(2))),
        ];
        assert_eq!(of(&twice), Verdict::Violated);
    }
}
