//! The values of rows, as the engine sees them.
//!
//! Each opens with the version of its layout. A new layout gets a new number and its own arm in
//! `decode`; what an older version wrote stays readable.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::codec::{Decoder, Encode, Malformed};
use super::rows::Place;
use crate::model::job::{FollowUp, NewJob, State};
use crate::model::retry::RetryPolicy;
use crate::model::settings::{Keep, Order, Pacing, QueueSettings, Retention};
use crate::model::stats::QueueCounters;
use crate::model::time::Time;

const VERSION: u8 = 1;
/// Records, queue rows, statuses and leases of version 2 have more fields. A record, status or queue
/// row that uses none of them is written as version 1.
const EXTENDED: u8 = 2;

/// What was put: written once, and never changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) queue: u32,
    pub(crate) seq: u64,
    pub(crate) due: Time,
    pub(crate) created: Time,
    pub(crate) priority: i8,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) key: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) on_success: Option<Box<FollowUp>>,
    pub(crate) on_death: Option<Box<FollowUp>>,
    pub(crate) max_total_delay: Option<Duration>,
    pub(crate) payload: Bytes,
}

impl Record {
    pub(crate) fn encode(
        bytes: &mut Vec<u8>,
        (queue, seq): (u32, u64),
        (due, created): (Time, Time),
        job: &NewJob,
    ) {
        let is_extended =
            job.on_success.is_some() || job.on_death.is_some() || job.max_total_delay.is_some();
        bytes.byte(if is_extended { EXTENDED } else { VERSION });
        bytes.number(u64::from(queue));
        bytes.number(seq);
        bytes.time(due);
        bytes.time(created);
        bytes.byte(job.priority.cast_unsigned());
        bytes.option(job.max_attempts, |bytes, attempts| bytes.number(u64::from(attempts)));
        bytes.option(job.retry.as_ref(), encode_retry);
        bytes.option(job.key.as_deref(), Encode::text);
        bytes.option(job.group.as_deref(), Encode::text);
        encode_headers(bytes, &job.headers);
        if is_extended {
            bytes.option(job.on_success.as_deref(), encode_follow_up);
            bytes.option(job.on_death.as_deref(), encode_follow_up);
            bytes.option(job.max_total_delay, Encode::duration);
        }
        bytes.slice(&job.payload);
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let (mut decoder, version) = Decoder::up_to(bytes, EXTENDED)?;
        let is_extended = version == EXTENDED;
        Ok(Self {
            queue: decoder.number_as()?,
            seq: decoder.number()?,
            due: decoder.time()?,
            created: decoder.time()?,
            priority: decoder.byte()?.cast_signed(),
            max_attempts: decoder.option(Decoder::number_as)?,
            retry: decoder.option(decode_retry)?,
            key: decoder.option(Decoder::text)?,
            group: decoder.option(Decoder::text)?,
            headers: decode_headers(&mut decoder)?,
            on_success: decoder.extension(is_extended, decode_follow_up)?.map(Box::new),
            on_death: decoder.extension(is_extended, decode_follow_up)?.map(Box::new),
            max_total_delay: decoder.extension(is_extended, Decoder::duration)?,
            payload: decoder.rest(),
        })
    }

    /// The sequence number of a record; `None` if it cannot be read.
    pub(super) fn seq_of(bytes: &Bytes) -> Option<u64> {
        let mut decoder = Decoder::up_to(bytes.clone(), EXTENDED).ok()?.0;
        decoder.number().ok()?;
        decoder.number().ok()
    }

    /// The place of a job that waits. A status may change the priority that the job was put with.
    pub(crate) fn place(&self, due: Time, priority: Option<i8>) -> Place {
        Place::new(due, priority.unwrap_or(self.priority), self.seq)
    }
}

fn encode_headers(bytes: &mut Vec<u8>, headers: &[(String, String)]) {
    bytes.number(headers.len() as u64);
    for (name, value) in headers {
        bytes.text(name);
        bytes.text(value);
    }
}

fn decode_headers(decoder: &mut Decoder) -> Result<Vec<(String, String)>, Malformed> {
    decoder.list(|decoder| Ok((decoder.text()?, decoder.text()?)))
}

fn encode_follow_up(bytes: &mut Vec<u8>, follow_up: &FollowUp) {
    bytes.text(&follow_up.queue);
    bytes.duration(follow_up.delay);
    encode_headers(bytes, &follow_up.headers);
}

fn decode_follow_up(decoder: &mut Decoder) -> Result<FollowUp, Malformed> {
    let mut follow_up = FollowUp::to(decoder.text()?);
    follow_up.delay = decoder.duration()?;
    follow_up.headers = decode_headers(decoder)?;
    Ok(follow_up)
}

pub(super) fn encode_pacing(bytes: &mut Vec<u8>, pacing: Pacing) {
    bytes.option(pacing.starts, |bytes, (starts, window)| {
        bytes.number(u64::from(starts));
        bytes.duration(window);
    });
    bytes.option(pacing.concurrency, |bytes, jobs| bytes.number(u64::from(jobs)));
}

pub(super) fn decode_pacing(decoder: &mut Decoder) -> Result<Pacing, Malformed> {
    Ok(Pacing {
        starts: decoder.option(|decoder| Ok((decoder.number_as()?, decoder.duration()?)))?,
        concurrency: decoder.option(Decoder::number_as)?,
    })
}

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

/// What has happened to a job since it was put. A job that was never delivered nor moved has
/// none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Status {
    /// `None` while it is live.
    pub(crate) finished: Option<(State, Time)>,
    pub(crate) due: Time,
    pub(crate) attempts: u32,
    pub(crate) last_error: Option<String>,
    /// In place of the priority that the job was put with.
    pub(crate) priority: Option<i8>,
}

impl Status {
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.byte(if self.priority.is_some() { EXTENDED } else { VERSION });
        bytes.option(self.finished, |bytes, (state, time)| {
            bytes.byte(match state {
                State::Dead => 0,
                State::Done => 1,
                State::Cancelled => 2,
                State::Scheduled | State::Ready | State::Leased => {
                    unreachable!("a live job is not finished")
                }
            });
            bytes.time(time);
        });
        bytes.time(self.due);
        bytes.number(u64::from(self.attempts));
        bytes.option(self.last_error.as_deref(), Encode::text);
        if let Some(priority) = self.priority {
            bytes.byte(priority.cast_unsigned());
        }
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let (mut decoder, version) = Decoder::up_to(bytes, EXTENDED)?;
        let status = Self {
            finished: decoder.option(|decoder| {
                let state = match decoder.byte()? {
                    0 => State::Dead,
                    1 => State::Done,
                    2 => State::Cancelled,
                    other => return Err(format!("finished state {other}")),
                };
                Ok((state, decoder.time()?))
            })?,
            due: decoder.time()?,
            attempts: decoder.number_as()?,
            last_error: decoder.option(Decoder::text)?,
            priority: match version {
                EXTENDED => Some(decoder.byte()?.cast_signed()),
                _ => None,
            },
        };
        decoder.end()?;
        Ok(status)
    }
}

/// A lease, with what an ack has to know of the job so that it need not read it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeaseRow {
    pub(crate) token: u64,
    pub(crate) until: Time,
    pub(crate) due: Time,
    pub(crate) attempts: u32,
    pub(crate) has_status: bool,
    /// Whether the job's record names a job to put when this one succeeds.
    pub(crate) has_follow_up: bool,
    pub(crate) key: Option<String>,
    pub(crate) group: Option<String>,
    /// When the lease was taken; when the job was due, for a lease of version 1.
    pub(crate) since: Time,
    /// The name of the worker, if it gave one.
    pub(crate) worker: Option<Arc<str>>,
}

impl LeaseRow {
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.byte(EXTENDED);
        bytes.slice(&self.token.to_be_bytes());
        bytes.time(self.until);
        bytes.time(self.due);
        bytes.number(u64::from(self.attempts));
        bytes.byte(u8::from(self.has_status) | u8::from(self.has_follow_up) << 1);
        bytes.option(self.key.as_deref(), Encode::text);
        bytes.option(self.group.as_deref(), Encode::text);
        bytes.time(self.since);
        bytes.option(self.worker.as_deref(), Encode::text);
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let (mut decoder, version) = Decoder::up_to(bytes, EXTENDED)?;
        let is_extended = version == EXTENDED;
        let token: [u8; 8] = decoder.slice(8)?[..].try_into().expect("eight bytes were taken");
        let (until, due) = (decoder.time()?, decoder.time()?);
        let attempts = decoder.number_as()?;
        let flags = decoder.byte()?;
        if flags > 3 {
            return Err(format!("flags {flags} of a lease"));
        }
        let lease = Self {
            token: u64::from_be_bytes(token),
            until,
            due,
            attempts,
            has_status: flags & 1 != 0,
            has_follow_up: flags & 2 != 0,
            key: decoder.option(Decoder::text)?,
            group: decoder.option(Decoder::text)?,
            since: if is_extended { decoder.time()? } else { due },
            worker: decoder.extension(is_extended, Decoder::text)?.map(Arc::from),
        };
        decoder.end()?;
        Ok(lease)
    }
}

/// A queue's name and settings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueueRow {
    pub(crate) name: String,
    pub(crate) paused: bool,
    pub(crate) settings: QueueSettings,
    /// The holder of the limited access that created it.
    pub(crate) creator: Option<Arc<str>>,
    /// Whether a job has named it as the queue of a follow-up.
    pub(crate) has_follow_ups: bool,
}

/// Bits of the last byte of a queue's row.
const FAIR_GROUPS: u8 = 1;
const FOLLOW_UPS: u8 = 2;

impl QueueRow {
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        let settings = &self.settings;
        let is_extended = settings.order != Order::default()
            || self.creator.is_some()
            || settings.target.is_some()
            || settings.fair_groups
            || self.has_follow_ups;
        bytes.byte(if is_extended { EXTENDED } else { VERSION });
        bytes.text(&self.name);
        bytes.byte(u8::from(self.paused));
        bytes.duration(settings.lease);
        bytes.number(u64::from(settings.max_attempts));
        encode_retry(bytes, &settings.retry);
        let Retention { done, dead, cancelled } = settings.retention;
        for keep in [done, dead, cancelled] {
            bytes.duration(keep.age);
            bytes.number(keep.count);
        }
        for pacing in [settings.pacing, settings.group_pacing] {
            encode_pacing(bytes, pacing);
        }
        if is_extended {
            bytes.option(self.creator.as_deref(), Encode::text);
            bytes.byte(match settings.order {
                Order::DueTime => 0,
                Order::Priority => 1,
            });
            bytes.option(settings.target.as_deref(), Encode::text);
            let fair_groups = if settings.fair_groups { FAIR_GROUPS } else { 0 };
            bytes.byte(fair_groups | if self.has_follow_ups { FOLLOW_UPS } else { 0 });
        }
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let (mut decoder, version) = Decoder::up_to(bytes, EXTENDED)?;
        let is_extended = version == EXTENDED;
        let keep = |decoder: &mut Decoder| {
            Ok::<_, Malformed>(Keep { age: decoder.duration()?, count: decoder.number()? })
        };
        let mut row = Self {
            name: decoder.text()?,
            paused: decoder.flag()?,
            settings: QueueSettings {
                lease: decoder.duration()?,
                max_attempts: decoder.number_as()?,
                retry: decode_retry(&mut decoder)?,
                retention: Retention {
                    done: keep(&mut decoder)?,
                    dead: keep(&mut decoder)?,
                    cancelled: keep(&mut decoder)?,
                },
                pacing: decode_pacing(&mut decoder)?,
                group_pacing: decode_pacing(&mut decoder)?,
                order: Order::default(),
                target: None,
                fair_groups: false,
            },
            creator: None,
            has_follow_ups: false,
        };
        if is_extended {
            row.creator = decoder.option(Decoder::text)?.map(Arc::from);
            row.settings.order = match decoder.byte()? {
                0 => Order::DueTime,
                1 => Order::Priority,
                other => return Err(format!("order {other}")),
            };
            row.settings.target = decoder.option(Decoder::text)?;
            let flags = decoder.byte()?;
            if flags & !(FAIR_GROUPS | FOLLOW_UPS) != 0 {
                return Err(format!("flags {flags} of a queue"));
            }
            row.settings.fair_groups = flags & FAIR_GROUPS != 0;
            row.has_follow_ups = flags & FOLLOW_UPS != 0;
        }
        decoder.end()?;
        Ok(row)
    }
}

/// How many jobs of a queue are in which state, and before which rows there is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) waiting: u64,
    pub(crate) leased: u64,
    pub(crate) dead: u64,
    pub(crate) done: u64,
    pub(crate) cancelled: u64,
    /// No due row lies before this place.
    pub(crate) low: Place,
    /// No finished row lies before these times: dead, done, cancelled.
    pub(crate) finished_low: [Time; 3],
    /// What has happened since the queue was created.
    pub(crate) lifetime: QueueCounters,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            waiting: 0,
            leased: 0,
            dead: 0,
            done: 0,
            cancelled: 0,
            low: Place::FIRST,
            finished_low: [Time::default(); 3],
            lifetime: QueueCounters::default(),
        }
    }
}

impl Counts {
    const VERSION: u8 = 2;

    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.byte(Self::VERSION);
        for count in [self.waiting, self.leased, self.dead, self.done, self.cancelled] {
            bytes.number(count);
        }
        bytes.time(self.low.due);
        bytes.byte(self.low.rank);
        bytes.number(self.low.seq);
        for time in self.finished_low {
            bytes.time(time);
        }
        let QueueCounters {
            put,
            delivered,
            acked,
            failed,
            expired,
            released,
            died,
            cancelled,
            kicked,
        } = self.lifetime;
        for count in [put, delivered, acked, failed, expired, released, died, cancelled, kicked] {
            bytes.number(count);
        }
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let (mut decoder, version) = Decoder::up_to(bytes, Self::VERSION)?;
        let mut counts = Self {
            waiting: decoder.number()?,
            leased: decoder.number()?,
            dead: decoder.number()?,
            done: decoder.number()?,
            cancelled: decoder.number()?,
            low: Place { due: decoder.time()?, rank: decoder.byte()?, seq: decoder.number()? },
            finished_low: [decoder.time()?, decoder.time()?, decoder.time()?],
            lifetime: QueueCounters::default(),
        };
        if version > 1 {
            counts.lifetime = QueueCounters {
                put: decoder.number()?,
                delivered: decoder.number()?,
                acked: decoder.number()?,
                failed: decoder.number()?,
                expired: decoder.number()?,
                released: decoder.number()?,
                died: decoder.number()?,
                cancelled: decoder.number()?,
                kicked: decoder.number()?,
            };
        }
        decoder.end()?;
        Ok(counts)
    }

    /// Before which time there is no row of this finished state.
    pub(crate) fn finished_low(&self, state: State) -> Time {
        match state {
            State::Done => self.finished_low[1],
            State::Cancelled => self.finished_low[2],
            _ => self.finished_low[0],
        }
    }

    pub(crate) fn of(&mut self, state: State) -> &mut u64 {
        match state {
            State::Scheduled | State::Ready => &mut self.waiting,
            State::Leased => &mut self.leased,
            State::Dead => &mut self.dead,
            State::Done => &mut self.done,
            State::Cancelled => &mut self.cancelled,
        }
    }
}

/// When the last deliveries of a pace were: the first, and the differences.
pub(crate) fn encode_starts(bytes: &mut Vec<u8>, starts: &[Time]) {
    bytes.byte(VERSION);
    bytes.number(starts.len() as u64);
    let mut last = 0;
    for start in starts {
        bytes.number(start.as_millis().saturating_sub(last));
        last = start.as_millis();
    }
}

pub(crate) fn decode_starts(bytes: Bytes) -> Result<Vec<Time>, Malformed> {
    let mut decoder = Decoder::new(bytes, VERSION)?;
    let mut last = 0_u64;
    let starts = decoder.list(|decoder| {
        last = last.saturating_add(decoder.number()?);
        Ok(Time::from_millis(last))
    })?;
    decoder.end()?;
    Ok(starts)
}

/// Counters of the whole store, written with every commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Grows with every commit.
    pub(crate) commit: u64,
    /// The sequence number of the next put.
    pub(crate) seq: u64,
    /// No idempotency key expires before this time.
    pub(crate) idempotency_low: Time,
}

impl Totals {
    const VERSION: u8 = 2;

    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.byte(Self::VERSION);
        bytes.number(self.commit);
        bytes.number(self.seq);
        bytes.time(self.idempotency_low);
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let (mut decoder, version) = Decoder::up_to(bytes, Self::VERSION)?;
        let totals = Self {
            commit: decoder.number()?,
            seq: decoder.number()?,
            idempotency_low: if version > 1 { decoder.time()? } else { Time::default() },
        };
        decoder.end()?;
        Ok(totals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
