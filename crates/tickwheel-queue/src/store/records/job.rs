//! The rows of a job: what was put, what has happened since, and its lease.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::codec::{Decoder, Encode, Malformed};
use super::super::rows::Place;
use super::{EXTENDED, VERSION, decode_retry, encode_retry};
use crate::model::job::State;
use crate::model::new_job::{FollowUp, NewJob};
use crate::model::retry::RetryPolicy;
use crate::model::time::Time;

/// What was put. It is written once and never changed.
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

    /// Returns the sequence number of an encoded record; `None` if it cannot be read.
    pub(in crate::store) fn seq_of(bytes: &Bytes) -> Option<u64> {
        let mut decoder = Decoder::up_to(bytes.clone(), EXTENDED).ok()?.0;
        decoder.number().ok()?;
        decoder.number().ok()
    }

    /// Returns the place of a job that waits. A status may change the priority that the job was put with.
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

/// What has happened to a job since it was put. A job that was neither delivered nor moved has no
/// status.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Status {
    /// The final state and its time; `None` while the job is live.
    pub(crate) finished: Option<(State, Time)>,
    pub(crate) due: Time,
    pub(crate) attempts: u32,
    pub(crate) last_error: Option<String>,
    /// The priority that replaces the one of the put.
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

/// A lease, with the fields of the job that an acknowledgement needs: it does not read the job.
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
    /// When the lease began. A lease of version 1 has the due time of the job here.
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
