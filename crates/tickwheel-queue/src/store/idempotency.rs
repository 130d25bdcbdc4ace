//! The stored results of a put with an idempotency key, for replays.

use bytes::Bytes;

use super::codec::{Decoder, Encode, Malformed};
use crate::engine::{Put, PutKind};
use crate::model::error::{Error, Limit};
use crate::model::id::JobId;
use crate::model::time::Time;

const VERSION: u8 = 1;

/// The value of an idempotency row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRow {
    pub(crate) expires: Time,
    pub(crate) fingerprint: Vec<u8>,
    pub(crate) puts: Vec<Result<Put, Error>>,
}

impl KeyRow {
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.byte(VERSION);
        bytes.time(self.expires);
        bytes.number(self.fingerprint.len() as u64);
        bytes.slice(&self.fingerprint);
        bytes.number(self.puts.len() as u64);
        for put in &self.puts {
            match put {
                Ok(put) => encode_put(bytes, put),
                Err(error) => encode_error(bytes, error),
            }
        }
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes, VERSION)?;
        let expires = decoder.time()?;
        let length = decoder.number_as()?;
        let fingerprint = decoder.slice(length)?.to_vec();
        let puts = decoder.list(decode_result)?;
        decoder.end()?;
        Ok(Self { expires, fingerprint, puts })
    }
}

fn encode_put(bytes: &mut Vec<u8>, put: &Put) {
    match put.kind {
        PutKind::Created => bytes.byte(0),
        PutKind::Replaced(old) => {
            bytes.byte(1);
            bytes.slice(old.as_bytes());
        }
        PutKind::Kept => bytes.byte(2),
    }
    bytes.slice(put.id.as_bytes());
    bytes.time(put.due);
}

/// The limits, by their number on disk.
const LIMITS: [Limit; 12] = [
    Limit::Payload,
    Limit::Headers,
    Limit::Key,
    Limit::Group,
    Limit::QueueName,
    Limit::Batch,
    Limit::Queues,
    Limit::Pending,
    Limit::Leased,
    Limit::Disk,
    Limit::Schedules,
    Limit::ScheduleName,
];

/// Writes an error of a put. Of unexpected ones, the text is kept.
fn encode_error(bytes: &mut Vec<u8>, error: &Error) {
    match error {
        Error::KeyExists { queue, key, id } => {
            bytes.byte(16);
            bytes.text(queue);
            bytes.text(key);
            bytes.slice(id.as_bytes());
        }
        Error::IdExists { id } => {
            bytes.byte(17);
            bytes.slice(id.as_bytes());
        }
        Error::UnusableId { id } => {
            bytes.byte(18);
            bytes.slice(id.as_bytes());
        }
        Error::OverLimit { limit, allowed, found } => {
            bytes.byte(19);
            bytes.byte(LIMITS.iter().position(|it| it == limit).unwrap_or(0) as u8);
            bytes.number(*allowed);
            bytes.number(*found);
        }
        Error::DiskFull { free, needed } => {
            bytes.byte(20);
            bytes.number(*free);
            bytes.number(*needed);
        }
        Error::Forbidden(queue) => {
            bytes.byte(21);
            bytes.text(queue);
        }
        Error::Invalid { field, why } => {
            bytes.byte(22);
            bytes.text(field);
            bytes.text(why);
        }
        Error::Unreadable(why) => {
            bytes.byte(23);
            bytes.text(why);
        }
        Error::Damaged { id, why } => {
            bytes.byte(24);
            bytes.slice(id.as_bytes());
            bytes.text(why);
        }
        other => {
            bytes.byte(23);
            bytes.text(&other.to_string());
        }
    }
}

fn decode_result(decoder: &mut Decoder) -> Result<Result<Put, Error>, Malformed> {
    let kind = match decoder.byte()? {
        0 => PutKind::Created,
        1 => PutKind::Replaced(id(decoder)?),
        2 => PutKind::Kept,
        tag => return decode_error(decoder, tag).map(Err),
    };
    Ok(Ok(Put { id: id(decoder)?, kind, due: decoder.time()? }))
}

fn decode_error(decoder: &mut Decoder, tag: u8) -> Result<Error, Malformed> {
    Ok(match tag {
        16 => Error::KeyExists { queue: decoder.text()?, key: decoder.text()?, id: id(decoder)? },
        17 => Error::IdExists { id: id(decoder)? },
        18 => Error::UnusableId { id: id(decoder)? },
        19 => {
            let number = decoder.byte()?;
            let limit = LIMITS.get(usize::from(number)).copied();
            let limit = limit.ok_or_else(|| format!("limit {number}"))?;
            Error::OverLimit { limit, allowed: decoder.number()?, found: decoder.number()? }
        }
        20 => Error::DiskFull { free: decoder.number()?, needed: decoder.number()? },
        21 => Error::Forbidden(decoder.text()?),
        22 => Error::Invalid { field: decoder.text()?, why: decoder.text()? },
        23 => Error::Unreadable(decoder.text()?),
        24 => Error::Damaged { id: id(decoder)?, why: decoder.text()? },
        other => return Err(format!("result {other} of a put")),
    })
}

fn id(decoder: &mut Decoder) -> Result<JobId, Malformed> {
    let bytes: [u8; 16] = decoder.slice(16)?[..].try_into().expect("sixteen bytes were taken");
    Ok(JobId::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_of_a_put_comes_back() {
        let (id, due) = (JobId::from_bytes([7; 16]), Time::from_millis(9));
        let kinds =
            [PutKind::Created, PutKind::Replaced(JobId::from_bytes([8; 16])), PutKind::Kept];
        let errors = [
            Error::KeyExists { queue: "q".into(), key: "k".into(), id },
            Error::IdExists { id },
            Error::UnusableId { id },
            Error::DiskFull { free: 1, needed: u64::MAX },
            Error::Forbidden("q".into()),
            Error::Invalid { field: "lease".into(), why: "no".into() },
            Error::Unreadable("no".into()),
            Error::Damaged { id, why: "no".into() },
        ];
        let limits = LIMITS.map(|limit| Error::OverLimit { limit, allowed: 1, found: u64::MAX });
        let puts = kinds.into_iter().map(|kind| Ok(Put { id, kind, due }));
        let puts = puts.chain(errors.into_iter().chain(limits).map(Err)).collect();
        let row = KeyRow { expires: Time::MAX, fingerprint: vec![1, 2], puts };
        let mut bytes = Vec::new();
        row.encode(&mut bytes);
        assert_eq!(KeyRow::decode(bytes.clone().into()), Ok(row));
        for length in 0..bytes.len() {
            assert!(KeyRow::decode(bytes[..length].to_vec().into()).is_err(), "{length} bytes");
        }
    }
}
