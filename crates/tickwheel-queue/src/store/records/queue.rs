//! The rows of a queue: its name and settings, and the last deliveries of a pace.

use std::sync::Arc;

use bytes::Bytes;

use super::super::codec::{Decoder, Encode, Malformed};
use super::{EXTENDED, VERSION, decode_retry, encode_retry};
use crate::model::settings::{Keep, Order, Pacing, QueueSettings, Retention};
use crate::model::time::Time;

/// A queue's name and settings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueueRow {
    pub(crate) name: String,
    pub(crate) paused: bool,
    pub(crate) settings: QueueSettings,
    /// The holder of the restricted access that created the queue.
    pub(crate) creator: Option<Arc<str>>,
    /// Whether a job names this queue for a follow-up.
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

pub(in crate::store) fn encode_pacing(bytes: &mut Vec<u8>, pacing: Pacing) {
    bytes.option(pacing.starts, |bytes, (starts, window)| {
        bytes.number(u64::from(starts));
        bytes.duration(window);
    });
    bytes.option(pacing.concurrency, |bytes, jobs| bytes.number(u64::from(jobs)));
}

pub(in crate::store) fn decode_pacing(decoder: &mut Decoder) -> Result<Pacing, Malformed> {
    Ok(Pacing {
        starts: decoder.option(|decoder| Ok((decoder.number_as()?, decoder.duration()?)))?,
        concurrency: decoder.option(Decoder::number_as)?,
    })
}

/// Encodes the times of the last deliveries of a pace: the first time, then the differences.
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
