//! The values of rows, as the engine sees them.
//!
//! - `job`: what was put, what has happened since, and the lease.
//! - `queue`: name, settings, and the last deliveries of a pace.
//! - `counters`: the totals of the store, and the counts of each queue.
//!
//! Each value begins with the version of its layout. A new layout gets a new number and its own arm
//! in `decode`, so that the values of older versions stay readable.

mod counters;
mod job;
mod queue;

pub(crate) use counters::{Counts, Totals};
pub(crate) use job::{LeaseRow, Record, Status};
pub(crate) use queue::{QueueRow, decode_starts, encode_starts};
pub(super) use queue::{decode_pacing, encode_pacing};

use super::codec::{Decoder, Encode, Malformed};
use crate::model::retry::RetryPolicy;

const VERSION: u8 = 1;
/// Records, queue rows, statuses and leases of version 2 have more fields. A record, status or queue
/// row that uses none of them is written as version 1.
const EXTENDED: u8 = 2;

fn encode_retry(bytes: &mut Vec<u8>, policy: &RetryPolicy) {
    match policy {
        RetryPolicy::Fixed(delay) => {
            bytes.byte(0);
            bytes.duration(*delay);
        }
        RetryPolicy::Exponential { first, max, jitter } => {
            bytes.byte(1);
            bytes.duration(*first);
            bytes.duration(*max);
            bytes.byte(*jitter);
        }
        RetryPolicy::List(delays) => {
            bytes.byte(2);
            bytes.number(delays.len() as u64);
            for delay in delays {
                bytes.duration(*delay);
            }
        }
    }
}

fn decode_retry(decoder: &mut Decoder) -> Result<RetryPolicy, Malformed> {
    Ok(match decoder.byte()? {
        0 => RetryPolicy::Fixed(decoder.duration()?),
        1 => RetryPolicy::Exponential {
            first: decoder.duration()?,
            max: decoder.duration()?,
            jitter: decoder.byte()?,
        },
        2 => RetryPolicy::List(decoder.list(Decoder::duration)?),
        other => return Err(format!("retry policy {other}")),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::super::rows::Place;
    use super::*;
    use crate::model::job::State;
    use crate::model::new_job::{FollowUp, NewJob};
    use crate::model::settings::{Order, Pacing, QueueSettings};
    use crate::model::stats::QueueCounters;
    use crate::model::time::Time;

    fn encoded(write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
        let mut bytes = Vec::new();
        write(&mut bytes);
        bytes.into()
    }

    #[test]
    fn records_come_back() {
        let seconds = Duration::from_secs;
        let policies = [
            RetryPolicy::fixed(seconds(1)),
            RetryPolicy::default(),
            RetryPolicy::list([seconds(1), Duration::MAX]),
        ];
        for policy in policies {
            let job = NewJob::new("q", "payload")
                .key("key")
                .group("group")
                .header("a", "b")
                .priority(-128)
                .max_attempts(7)
                .retry(policy.clone());
            let times = (Time::MAX, Time::from_millis(3));
            let bytes = encoded(|bytes| Record::encode(bytes, (9, u64::MAX), times, &job));
            let record = Record::decode(bytes).unwrap();
            assert_eq!((record.queue, record.seq, record.priority), (9, u64::MAX, -128));
            assert_eq!((record.due, record.created), times);
            assert_eq!((record.key, record.group), (job.key, job.group));
            assert_eq!((record.headers, record.payload), (job.headers, job.payload));
            assert_eq!((record.max_attempts, record.retry), (Some(7), Some(policy)));
        }
        let job = NewJob::new("q", "payload")
            .on_success(FollowUp::to("next").delay(seconds(5)).header("a", "b"))
            .on_death(FollowUp::to("dead"))
            .max_total_delay(seconds(60));
        let times = (Time::MAX, Time::from_millis(3));
        let record = Record::decode(encoded(|bytes| Record::encode(bytes, (9, 1), times, &job)));
        let record = record.unwrap();
        assert_eq!((record.on_success, record.on_death), (job.on_success, job.on_death));
        assert_eq!((record.max_total_delay, record.payload), (job.max_total_delay, job.payload));
    }

    #[test]
    fn the_other_rows_come_back() {
        for (finished, priority) in [
            (None, None),
            (Some(State::Dead), Some(i8::MIN)),
            (Some(State::Done), None),
            (Some(State::Cancelled), Some(7)),
        ] {
            let status = Status {
                finished: finished.map(|state| (state, Time::from_millis(5))),
                due: Time::MAX,
                attempts: 3,
                last_error: Some("no".into()),
                priority,
            };
            assert_eq!(Status::decode(encoded(|bytes| status.encode(bytes))), Ok(status));
        }
        let lease = LeaseRow {
            token: u64::MAX,
            until: Time::MAX,
            due: Time::from_millis(1),
            attempts: 2,
            has_status: true,
            has_follow_up: true,
            key: None,
            group: Some("g".into()),
            since: Time::from_millis(9),
            worker: Some("mail-7".into()),
        };
        let bytes = encoded(|bytes| lease.encode(bytes));
        // A lease of version 1 has neither of the last two fields.
        let mut older = bytes[..bytes.len() - 9].to_vec();
        older[0] = VERSION;
        let (since, worker) = (lease.due, None);
        let expected = LeaseRow { since, worker, ..lease.clone() };
        assert_eq!(LeaseRow::decode(older.into()), Ok(expected));
        assert_eq!(LeaseRow::decode(bytes), Ok(lease));
        let settings = QueueSettings {
            pacing: Pacing::starts(3, Duration::from_millis(7)).concurrency(2),
            ..QueueSettings::default()
        };
        for (order, fair_groups, has_follow_ups) in [
            (Order::DueTime, false, false),
            (Order::DueTime, true, false),
            (Order::DueTime, false, true),
            (Order::Priority, true, true),
        ] {
            for creator in [None, Some("token 7".into())] {
                let settings = QueueSettings { order, fair_groups, ..settings.clone() };
                let (name, paused) = ("mail".into(), true);
                let queue = QueueRow { name, paused, settings, creator, has_follow_ups };
                assert_eq!(QueueRow::decode(encoded(|bytes| queue.encode(bytes))), Ok(queue));
            }
        }
        let low = Place::new(Time::from_millis(4), 3, 2);
        let counts = Counts {
            waiting: 1,
            cancelled: 5,
            low,
            lifetime: QueueCounters { put: 7, kicked: u64::MAX, ..QueueCounters::default() },
            ..Counts::default()
        };
        assert_eq!(Counts::decode(encoded(|bytes| counts.encode(bytes))), Ok(counts));
        let starts = [1, 1, 5, 1_700_000_000_000].map(Time::from_millis);
        assert_eq!(
            decode_starts(encoded(|bytes| encode_starts(bytes, &starts))),
            Ok(starts.into())
        );
        let totals = Totals { commit: 300, seq: u64::MAX, idempotency_low: Time::MAX };
        assert_eq!(Totals::decode(encoded(|bytes| totals.encode(bytes))), Ok(totals));
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_reader_panic(mut bytes: Vec<u8>, versioned: bool) {
            if versioned && !bytes.is_empty() {
                bytes[0] = VERSION;
            }
            let bytes = Bytes::from(bytes);
            let _ = Record::decode(bytes.clone());
            let _ = Status::decode(bytes.clone());
            let _ = LeaseRow::decode(bytes.clone());
            let _ = QueueRow::decode(bytes.clone());
            let _ = Counts::decode(bytes.clone());
            let _ = decode_starts(bytes.clone());
            let _ = Totals::decode(bytes);
        }
    }
}
