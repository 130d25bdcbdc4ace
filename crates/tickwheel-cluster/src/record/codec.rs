//! The layout of a record; the table is in the folder's `mod.rs`.

use bytes::{Buf, Bytes};
use tickwheel_queue::Time;
use xxhash_rust::xxh3::xxh3_64;

use super::{Content, Manifest, Record, RecordError, RecordHash};
use crate::log::Position;

/// The version of records that this program writes, and the newest that it reads.
pub const VERSION: u8 = 1;

const DATA: u8 = 1;
const TAKEOVER: u8 = 2;
const HAND_OFF: u8 = 3;
const MANIFEST: u8 = 4;

const HEADER_BYTES: usize = 50;
const CHECKSUM_BYTES: usize = 8;
/// What a part of a group takes beside its bytes.
pub(super) const PART_OVERHEAD_BYTES: usize = HEADER_BYTES + 4 + 4 + CHECKSUM_BYTES;

impl Record {
    /// Returns the bytes of the record.
    pub fn encode(&self) -> Bytes {
        self.encode_as(VERSION)
    }

    /// Returns the bytes of the record, marked with a version. All versions have this layout.
    pub(super) fn encode_as(&self, version: u8) -> Bytes {
        let mut bytes = Vec::with_capacity(self.encoded_bytes());
        bytes.push(version);
        bytes.push(match self.content {
            Content::Data { .. } => DATA,
            Content::Takeover { .. } => TAKEOVER,
            Content::HandOff { .. } => HAND_OFF,
            Content::Manifest(_) => MANIFEST,
        });
        for number in [self.generation, self.epoch, self.commit, self.time.as_millis()] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.previous.0.to_le_bytes());
        match &self.content {
            Content::Data { part, parts, bytes: data } => {
                bytes.extend_from_slice(&part.to_le_bytes());
                bytes.extend_from_slice(&parts.to_le_bytes());
                bytes.extend_from_slice(data);
            }
            Content::Takeover { node } => put_text(&mut bytes, node),
            Content::HandOff { node, to } => {
                put_text(&mut bytes, node);
                put_option(&mut bytes, to.as_deref());
            }
            Content::Manifest(Manifest { below, replicas, backup }) => {
                bytes.extend_from_slice(&below.0.to_le_bytes());
                bytes.extend_from_slice(&(replicas.len() as u32).to_le_bytes());
                for replica in replicas {
                    put_text(&mut bytes, replica);
                }
                put_option(&mut bytes, backup.as_deref());
            }
        }
        let checksum = xxh3_64(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes.into()
    }

    fn encoded_bytes(&self) -> usize {
        match &self.content {
            Content::Data { bytes, .. } => PART_OVERHEAD_BYTES + bytes.len(),
            _ => 256,
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// If the record has a newer version, is malformed, or does not match its checksum.
    pub fn decode(record: &Bytes) -> Result<Self, RecordError> {
        Self::decode_up_to(VERSION, record)
    }

    /// Reads a record, unless its version is newer than `known`.
    pub(crate) fn decode_up_to(known: u8, record: &Bytes) -> Result<Self, RecordError> {
        let Some(&version) = record.first() else {
            return Err(malformed("it is empty"));
        };
        // The version comes first: a newer layout may have its checksum elsewhere.
        if version > known {
            return Err(RecordError::NewerVersion { found: version, known });
        }
        if version == 0 {
            return Err(malformed("version 0"));
        }
        if record.len() < HEADER_BYTES + CHECKSUM_BYTES {
            return Err(malformed(format!("{} bytes are too few", record.len())));
        }
        let mut rest = record.slice(..record.len() - CHECKSUM_BYTES);
        let checksum = record.slice(rest.len()..).get_u64_le();
        if xxh3_64(&rest) != checksum {
            return Err(malformed("it does not match its checksum"));
        }
        rest.advance(1);
        let kind = rest.get_u8();
        let [generation, epoch, commit, time] = [(); 4].map(|()| rest.get_u64_le());
        if time > Time::MAX.as_millis() {
            return Err(malformed("its time is after the year 9999"));
        }
        let time = Time::from_millis(time);
        let previous = RecordHash(rest.get_u128_le());
        let content = decode_content(kind, rest)?;
        Ok(Self { generation, epoch, commit, time, previous, content })
    }
}

fn decode_content(kind: u8, mut rest: Bytes) -> Result<Content, RecordError> {
    let content = match kind {
        DATA => {
            let (part, parts) = (take_u32(&mut rest)?, take_u32(&mut rest)?);
            if part >= parts {
                return Err(malformed(format!("part {part} of {parts}, counted from 0")));
            }
            return Ok(Content::Data { part, parts, bytes: rest });
        }
        TAKEOVER => Content::Takeover { node: take_text(&mut rest)? },
        HAND_OFF => Content::HandOff { node: take_text(&mut rest)?, to: take_option(&mut rest)? },
        MANIFEST => {
            let below = Position(rest.try_get_u64_le().map_err(|_| cut_short())?);
            let count = take_u32(&mut rest)?;
            // Collecting stops at the first error, so a false count allocates nothing.
            let replicas = (0..count).map(|_| take_text(&mut rest)).collect::<Result<_, _>>()?;
            Content::Manifest(Manifest { below, replicas, backup: take_option(&mut rest)? })
        }
        kind => return Err(malformed(format!("unknown kind {kind}"))),
    };
    if rest.is_empty() {
        Ok(content)
    } else {
        Err(malformed(format!("{} bytes follow its content", rest.len())))
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

fn put_option(bytes: &mut Vec<u8>, text: Option<&str>) {
    bytes.push(u8::from(text.is_some()));
    if let Some(text) = text {
        put_text(bytes, text);
    }
}

fn take_u32(rest: &mut Bytes) -> Result<u32, RecordError> {
    rest.try_get_u32_le().map_err(|_| cut_short())
}

fn take_text(rest: &mut Bytes) -> Result<String, RecordError> {
    let len = take_u32(rest)? as usize;
    if len > rest.len() {
        return Err(cut_short());
    }
    let text = rest.split_to(len);
    String::from_utf8(text.to_vec()).map_err(|_| malformed("a text is not UTF-8"))
}

fn take_option(rest: &mut Bytes) -> Result<Option<String>, RecordError> {
    match rest.try_get_u8() {
        Ok(0) => Ok(None),
        Ok(1) => take_text(rest).map(Some),
        Ok(other) => Err(malformed(format!("an option begins with {other}"))),
        Err(_) => Err(cut_short()),
    }
}

pub(super) fn malformed(what: impl Into<String>) -> RecordError {
    RecordError::Malformed(what.into())
}

pub(super) fn cut_short() -> RecordError {
    malformed("it ends too early")
}
