//! The layout of the keys of the index and the counters.
//!
//! The first byte is the kind of the row. Numbers are big-endian, so that rows sort by them.
//!
//! | row | key | value |
//! |---|---|---|
//! | totals | 0 | counters of the whole store |
//! | queue | 1, queue | name and settings |
//! | counts | 2, queue | the number of jobs in each state, and low-water marks |
//! | due | 3, queue, due, priority, sequence | id, group, and whether the job has a status |
//! | status | 4, id | what has happened to a job since it was put |
//! | lease | 5, queue, id | token, start and end of a lease, and its worker |
//! | key | 6, queue, key | id of the live job with that key; the time of the first put if it replaced another |
//! | finished | 7, queue, state, time, id | nothing, or 1 if the job has a result |
//! | pace | 8, queue, group | the times of the last deliveries; without a group those of the whole queue |
//! | schedule | 9, name | its definition |
//! | progress | 10, name | the last occurrence of the schedule that was handled |
//! | secret | 11 | the secret from which the ids of occurrences are derived |
//! | idempotency | 12, key | the results of a put, and when they expire |
//! | idempotency expiry | 13, time, key | nothing |
//! | history | 14, id | the last attempts of a job |
//! | target | 19, name | its definition, as the caller of the queue encodes it |
//! | target state | 20, name | the state of its deliveries, likewise |
//! | group settings | 15, queue, group | the settings of a group |
//! | group counts | 16, queue, group | the number of waiting and running jobs of a group |
//! | grouped | 17, queue, group, 255, priority, due, sequence | as the due row of the same job |
//! | log position | 21 | the last entry of its log that a replica has applied, as `tickwheel-cluster` encodes it |
//! | shared | 22, name | what the nodes of a cluster share beside jobs, as `tickwheel-cluster` encodes it |
//! | nothing | 255 | nothing; the row is removed at once |
//!
//! Totals and counts are in the table of counters, the other rows in the index. In the table of jobs
//! the key is the id; the key of a job's result is the id and a 1.
//!
//! A waiting job with a group has a due row and a grouped row, so that the jobs of one group can be
//! read without those of other groups. UTF-8 has no byte 255, so the rows of two groups never mix. A
//! due row of format 1 does not name its group and has no grouped row.

use crate::model::id::JobId;
use crate::model::job::State;
use crate::model::time::Time;

pub(crate) const TOTALS: &[u8] = &[0];
/// The key of a row that is written and removed at once, to make the store write its journal.
pub(crate) const NOTHING: &[u8] = &[u8::MAX];
pub(crate) const QUEUE: u8 = 1;
pub(crate) const COUNTS: u8 = 2;
pub(crate) const DUE: u8 = 3;
pub(crate) const STATUS: u8 = 4;
pub(crate) const LEASE: u8 = 5;
pub(crate) const KEY: u8 = 6;
pub(crate) const FINISHED: u8 = 7;
pub(crate) const PACE: u8 = 8;
pub(crate) const SCHEDULE: u8 = 9;
const PROGRESS: u8 = 10;
pub(crate) const SECRET: &[u8] = &[11];
pub(crate) const IDEMPOTENCY: u8 = 12;
pub(crate) const IDEMPOTENCY_EXPIRY: u8 = 13;
pub(crate) const HISTORY: u8 = 14;
pub(crate) const TARGET: u8 = 19;
const TARGET_STATE: u8 = 20;
pub(super) const LOG_POSITION: &[u8] = &[21];
pub(super) const SHARED: u8 = 22;
pub(crate) const GROUP_SETTINGS: u8 = 15;
pub(crate) const GROUP_COUNTS: u8 = 16;
pub(crate) const GROUPED: u8 = 17;

/// A place in the order of delivery: by due time, then priority, then order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) due: Time,
    /// 0 for the highest priority.
    pub(crate) rank: u8,
    /// Grows with every put.
    pub(crate) seq: u64,
}

impl Place {
    pub(crate) const FIRST: Self = Self { due: Time::from_millis(0), rank: 0, seq: 0 };

    pub(crate) const MAX: Self = Self { due: Time::MAX, rank: u8::MAX, seq: u64::MAX };

    pub(crate) fn new(due: Time, priority: i8, seq: u64) -> Self {
        Self { due, rank: i8::MAX.abs_diff(priority), seq }
    }

    /// Returns the first place of a millisecond.
    pub(crate) fn start_of(due: Time) -> Self {
        Self { due, rank: 0, seq: 0 }
    }

    /// Returns the last place of a millisecond.
    pub(crate) fn end_of(due: Time) -> Self {
        Self { due, rank: u8::MAX, seq: u64::MAX }
    }

    /// Returns the next place.
    pub(crate) fn next(self) -> Self {
        Self { seq: self.seq.saturating_add(1), ..self }
    }
}

/// Returns the key at which the rows of one kind and one queue begin.
pub(crate) fn of_queue(kind: u8, queue: u32) -> [u8; 5] {
    let mut key = [kind; 5];
    key[1..].copy_from_slice(&queue.to_be_bytes());
    key
}

/// Returns the key at which the rows of one kind and one queue end.
pub(crate) fn after_queue(kind: u8, queue: u32) -> Vec<u8> {
    match queue.checked_add(1) {
        Some(next) => of_queue(kind, next).to_vec(),
        None => vec![kind + 1],
    }
}

pub(crate) const DUE_LENGTH: usize = 22;

pub(crate) fn due(queue: u32, place: Place) -> [u8; DUE_LENGTH] {
    let mut key = [DUE; DUE_LENGTH];
    key[1..5].copy_from_slice(&queue.to_be_bytes());
    key[5..13].copy_from_slice(&place.due.as_millis().to_be_bytes());
    key[13] = place.rank;
    key[14..].copy_from_slice(&place.seq.to_be_bytes());
    key
}

pub(crate) fn due_end(queue: u32) -> Vec<u8> {
    after_queue(DUE, queue)
}

/// Reads the place in the key of a due row.
pub(crate) fn place_of(key: &[u8]) -> Option<Place> {
    if key.len() != DUE_LENGTH {
        return None;
    }
    let due = u64::from_be_bytes(key[5..13].try_into().ok()?);
    let seq = u64::from_be_bytes(key[14..].try_into().ok()?);
    Some(Place { due: Time::from_millis(due), rank: key[13], seq })
}

/// The value of a due row or a grouped row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DueValue<'a> {
    pub(crate) id: JobId,
    pub(crate) has_status: bool,
    /// The group of the job; `None` also in rows of format 1.
    pub(crate) group: Option<&'a str>,
}

impl<'a> DueValue<'a> {
    pub(crate) fn encode(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.id.as_bytes());
        bytes.push(u8::from(self.has_status));
        bytes.extend_from_slice(self.group.unwrap_or_default().as_bytes());
    }

    pub(crate) fn decode(value: &'a [u8]) -> Option<Self> {
        let (id, rest) = value.split_at_checked(16)?;
        let (flag, group) = rest.split_first()?;
        let group = Some(std::str::from_utf8(group).ok()?).filter(|group| !group.is_empty());
        Some(Self { id: JobId::from_bytes(id.try_into().ok()?), has_status: *flag != 0, group })
    }
}

/// Returns the key at which the grouped rows of a group with this rank, due at this time or later,
/// begin.
pub(crate) fn grouped_from(queue: u32, group: &str, rank: u8, due: Time) -> Vec<u8> {
    grouped(queue, group, Place { due, rank, seq: 0 })
}

/// Returns the key at which the grouped rows of a group end.
pub(crate) fn grouped_end(queue: u32, group: &str) -> Vec<u8> {
    let mut key = of_group(GROUPED, queue, group);
    key.extend_from_slice(&[u8::MAX; 19]);
    key
}

/// Returns the key at which the grouped rows of a group with this rank end.
pub(crate) fn grouped_rank_end(queue: u32, group: &str, rank: u8) -> Vec<u8> {
    match rank.checked_add(1) {
        Some(next) => grouped_from(queue, group, next, Time::default()),
        None => grouped_end(queue, group),
    }
}

pub(crate) fn grouped(queue: u32, group: &str, place: Place) -> Vec<u8> {
    let mut key = Vec::with_capacity(5 + group.len() + GROUPED_TAIL);
    key.extend_from_slice(&of_queue(GROUPED, queue));
    key.extend_from_slice(group.as_bytes());
    key.extend_from_slice(&[u8::MAX, place.rank]);
    key.extend_from_slice(&place.due.as_millis().to_be_bytes());
    key.extend_from_slice(&place.seq.to_be_bytes());
    key
}

/// Bytes after the group in the key of a grouped row.
const GROUPED_TAIL: usize = 18;

/// Reads the queue, the group and the place in the key of a grouped row.
pub(crate) fn read_grouped_key(key: &[u8]) -> Option<(u32, &str, Place)> {
    let (head, tail) = key.split_at_checked(key.len().checked_sub(GROUPED_TAIL)?)?;
    let (queue, group) = read_group_key(head)?;
    let number = |bytes: &[u8]| Some(u64::from_be_bytes(bytes.try_into().ok()?));
    let (due, seq) = (number(&tail[2..10])?, number(&tail[10..])?);
    let place = Place { due: Time::from_millis(due), rank: tail[1], seq };
    (tail[0] == u8::MAX).then_some((queue, group, place))
}

pub(crate) fn status(id: JobId) -> [u8; 17] {
    let mut key = [STATUS; 17];
    key[1..].copy_from_slice(id.as_bytes());
    key
}

pub(crate) fn history(id: JobId) -> [u8; 17] {
    let mut key = status(id);
    key[0] = HISTORY;
    key
}

pub(crate) fn lease(queue: u32, id: JobId) -> [u8; 21] {
    let mut key = [LEASE; 21];
    key[1..5].copy_from_slice(&queue.to_be_bytes());
    key[5..].copy_from_slice(id.as_bytes());
    key
}

pub(crate) fn key(queue: u32, key: &str) -> Vec<u8> {
    let mut row = Vec::with_capacity(5 + key.len());
    row.extend_from_slice(&of_queue(KEY, queue));
    row.extend_from_slice(key.as_bytes());
    row
}

/// Returns the key of a pace, or of the settings or the counts of a group.
pub(crate) fn of_group(kind: u8, queue: u32, group: &str) -> Vec<u8> {
    let mut row = Vec::with_capacity(5 + group.len());
    row.extend_from_slice(&of_queue(kind, queue));
    row.extend_from_slice(group.as_bytes());
    row
}

/// Reads the queue and the group in the key of a pace, or of the settings or the counts of a group.
pub(crate) fn read_group_key(key: &[u8]) -> Option<(u32, &str)> {
    let queue = u32::from_be_bytes(key.get(1..5)?.try_into().ok()?);
    Some((queue, std::str::from_utf8(key.get(5..)?).ok()?))
}

fn named(kind: u8, name: &str) -> Vec<u8> {
    let mut row = Vec::with_capacity(1 + name.len());
    row.push(kind);
    row.extend_from_slice(name.as_bytes());
    row
}

pub(crate) fn schedule(name: &str) -> Vec<u8> {
    named(SCHEDULE, name)
}

pub(crate) fn progress(name: &str) -> Vec<u8> {
    named(PROGRESS, name)
}

pub(crate) fn target(name: &str) -> Vec<u8> {
    named(TARGET, name)
}

pub(crate) fn target_state(name: &str) -> Vec<u8> {
    named(TARGET_STATE, name)
}

pub(crate) fn idempotency(key: &str) -> Vec<u8> {
    named(IDEMPOTENCY, key)
}

pub(crate) fn idempotency_expiry(expires: Time, key: &str) -> Vec<u8> {
    let mut row = Vec::with_capacity(9 + key.len());
    row.push(IDEMPOTENCY_EXPIRY);
    row.extend_from_slice(&expires.as_millis().to_be_bytes());
    row.extend_from_slice(key.as_bytes());
    row
}

/// Reads the time and the key in the key of an expiry row.
pub(crate) fn read_idempotency_expiry(row: &[u8]) -> Option<(Time, &str)> {
    let expires = u64::from_be_bytes(row.get(1..9)?.try_into().ok()?);
    Some((Time::from_millis(expires), std::str::from_utf8(&row[9..]).ok()?))
}

/// Reads the name in the key of a schedule's or a target's row.
pub(crate) fn read_name(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(1..)?).ok()
}

/// Encodes the value of a key row: the job that has the key, and the time at which the
/// series of jobs that replaced each other under this key began: its first put, or a kick. A job
/// that replaced no other and was not kicked has no such time.
pub(crate) fn key_value(id: JobId, first_put: Option<Time>) -> Vec<u8> {
    let mut value = id.as_bytes().to_vec();
    if let Some(time) = first_put {
        value.extend_from_slice(&time.as_millis().to_be_bytes());
    }
    value
}

/// Reads the value of a key row.
pub(crate) fn read_key_value(value: &[u8]) -> Option<(JobId, Option<Time>)> {
    let (id, time) = value.split_at_checked(16)?;
    let time = match time {
        [] => None,
        time => Some(Time::from_millis(u64::from_be_bytes(time.try_into().ok()?))),
    };
    Some((JobId::from_bytes(id.try_into().ok()?), time))
}

/// Returns the key of a job's result in the table of jobs.
pub(crate) fn result(id: JobId) -> [u8; 17] {
    let mut key = [1; 17];
    key[..16].copy_from_slice(id.as_bytes());
    key
}

/// Returns the first key after all keys with a prefix.
pub(crate) fn after_key_prefix(queue: u32, prefix: &str) -> Vec<u8> {
    let mut end = key(queue, prefix);
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![KEY + 1]
}

const FINISHED_LENGTH: usize = 30;

fn finished_code(state: State) -> u8 {
    match state {
        State::Dead => 0,
        State::Done => 1,
        State::Cancelled => 2,
        State::Scheduled | State::Ready | State::Leased => {
            unreachable!("a live job has no finished row")
        }
    }
}

pub(crate) fn finished(queue: u32, state: State, time: Time, id: JobId) -> [u8; FINISHED_LENGTH] {
    let mut key = [FINISHED; FINISHED_LENGTH];
    key[1..5].copy_from_slice(&queue.to_be_bytes());
    key[5] = finished_code(state);
    key[6..14].copy_from_slice(&time.as_millis().to_be_bytes());
    key[14..].copy_from_slice(id.as_bytes());
    key
}

/// Returns the key of the first row of a finished state at or after a time.
pub(crate) fn finished_from(queue: u32, state: State, time: Time) -> [u8; FINISHED_LENGTH] {
    finished(queue, state, time, JobId::from_bytes([0; 16]))
}

pub(crate) fn finished_end(queue: u32, state: State) -> Vec<u8> {
    let mut end = of_queue(FINISHED, queue).to_vec();
    end.push(finished_code(state) + 1);
    end
}

/// Reads the state in the key of a finished row.
pub(crate) fn finished_state(key: &[u8]) -> Option<State> {
    [State::Dead, State::Done, State::Cancelled].get(usize::from(*key.get(5)?)).copied()
}

/// Reads the id in the key of a status or a history row.
pub(crate) fn read_status_key(key: &[u8]) -> Option<JobId> {
    Some(JobId::from_bytes(key.get(1..)?.try_into().ok()?))
}

/// Reads the time and the id in the key of a finished row.
pub(crate) fn read_finished(key: &[u8]) -> Option<(Time, JobId)> {
    if key.len() != FINISHED_LENGTH {
        return None;
    }
    let time = u64::from_be_bytes(key[6..14].try_into().ok()?);
    Some((Time::from_millis(time), JobId::from_bytes(key[14..].try_into().ok()?)))
}

/// Reads the job of a due, lease or finished row.
pub(crate) fn job_of(key: &[u8], value: &[u8]) -> Option<JobId> {
    match *key.first()? {
        DUE => DueValue::decode(value).map(|value| value.id),
        LEASE => read_lease_key(key).map(|(_, id)| id),
        FINISHED => read_finished(key).map(|(_, id)| id),
        _ => None,
    }
}

/// Reads the queue in the key of a row that belongs to a queue.
pub(crate) fn queue_of(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(key.get(1..5)?.try_into().ok()?))
}

/// Reads the id in the key of a lease row.
pub(crate) fn read_lease_key(key: &[u8]) -> Option<(u32, JobId)> {
    let queue = u32::from_be_bytes(key.get(1..5)?.try_into().ok()?);
    Some((queue, JobId::from_bytes(key.get(5..)?.try_into().ok()?)))
}

/// Reads the queue in the key of a queue or counts row.
pub(crate) fn read_queue_key(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(key.get(1..)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn due_rows_sort_as_places_do(
            one: (u64, i8, u64), two: (u64, i8, u64), queue: u32,
        ) {
            let place = |(due, priority, seq)| Place::new(Time::from_millis(due), priority, seq);
            let (one, two) = (place(one), place(two));
            prop_assert_eq!(one.cmp(&two), due(queue, one).cmp(&due(queue, two)));
            prop_assert_eq!(place_of(&due(queue, one)), Some(one));
            prop_assert!(due(queue, one).as_slice() < due_end(queue).as_slice());
        }

        #[test]
        fn grouped_rows_sort_by_rank_and_never_mix(
            one: (u64, i8, u64), two: (u64, i8, u64), group: String, other: String,
        ) {
            let place = |(due, priority, seq)| Place::new(Time::from_millis(due), priority, seq);
            let (one, two) = (place(one), place(two));
            let by_rank = |place: Place| (place.rank, place);
            let key = grouped(7, &group, one);
            prop_assert_eq!(by_rank(one).cmp(&by_rank(two)), key.cmp(&grouped(7, &group, two)));
            prop_assert_eq!(read_grouped_key(&key), Some((7, &*group, one)));
            prop_assert!(key >= grouped_from(7, &group, one.rank, one.due));
            prop_assert!(key < grouped_rank_end(7, &group, one.rank));
            if group != other {
                let range = grouped_from(7, &other, 0, Time::default())..grouped_end(7, &other);
                prop_assert!(!range.contains(&key));
            }
        }

        #[test]
        fn a_prefix_ends_after_its_keys(prefix in "[a-c\u{7f}\u{10ffff}]{0,3}", rest: String) {
            let row = key(7, &format!("{prefix}{rest}"));
            prop_assert!(row >= key(7, &prefix) && row < after_key_prefix(7, &prefix));
        }
    }

    #[test]
    fn the_last_queue_has_an_end() {
        assert!(
            due(u32::MAX, Place::start_of(Time::MAX)).as_slice() < due_end(u32::MAX).as_slice()
        );
        assert!(key(u32::MAX, "\u{10ffff}") < after_key_prefix(u32::MAX, "\u{10ffff}"));
    }

    #[test]
    fn a_higher_priority_comes_first() {
        let place = |priority| Place::new(Time::MAX, priority, 5);
        assert!(place(127) < place(1) && place(1) < place(0) && place(0) < place(-128));
    }
}
