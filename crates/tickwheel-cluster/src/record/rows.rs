//! The rows of a batch as bytes: for each row its table, its key, and its value or its removal.
//!
//! Lengths are written in groups of seven bits. A value's length is written plus one, so that 0
//! stands for a removal.

use tickwheel_queue::store::{Table, WriteBatch};

use super::RecordError;
use super::codec::{cut_short, malformed};

const JOBS: u8 = 1;
const INDEX: u8 = 2;
const COUNTERS: u8 = 3;

/// Returns the rows of a batch as bytes.
///
/// ```
/// use tickwheel_cluster::record::{decode_rows, encode_rows};
/// use tickwheel_queue::store::{Table, WriteBatch};
///
/// let mut batch = WriteBatch::new();
/// batch.put(Table::Index, b"key", b"value");
/// batch.remove(Table::Jobs, b"job 7");
/// let copy = decode_rows(&encode_rows(&batch))?;
/// assert_eq!(copy.get(Table::Index, b"key"), Some(Some(&b"value"[..])));
/// assert_eq!(copy.get(Table::Jobs, b"job 7"), Some(None));
/// # Ok::<(), tickwheel_cluster::record::RecordError>(())
/// ```
pub fn encode_rows(batch: &WriteBatch) -> Vec<u8> {
    // Table, key length and value length take five bytes or fewer for most rows.
    let mut bytes = Vec::with_capacity(batch.bytes() + batch.len() * 5);
    for row in batch.rows() {
        bytes.push(match row.table {
            Table::Jobs => JOBS,
            Table::Index => INDEX,
            Table::Counters => COUNTERS,
        });
        put_number(&mut bytes, row.key.len());
        bytes.extend_from_slice(row.key);
        put_number(&mut bytes, row.value.map_or(0, |value| value.len() + 1));
        bytes.extend_from_slice(row.value.unwrap_or_default());
    }
    bytes
}

/// Reads the rows of a group into a batch; [`encode_rows`] has an example.
///
/// ```
/// # use tickwheel_cluster::record::decode_rows;
/// // Whatever the bytes are, decoding them returns.
/// assert!(decode_rows(b"something else").is_err());
/// ```
///
/// # Errors
///
/// If the bytes are not rows.
pub fn decode_rows(mut bytes: &[u8]) -> Result<WriteBatch, RecordError> {
    let mut batch = WriteBatch::new();
    while let Some((&table, rest)) = bytes.split_first() {
        bytes = rest;
        let table = match table {
            JOBS => Table::Jobs,
            INDEX => Table::Index,
            COUNTERS => Table::Counters,
            other => return Err(malformed(format!("a row of the unknown table {other}"))),
        };
        let len = take_number(&mut bytes)?;
        let key = take(&mut bytes, len)?;
        match take_number(&mut bytes)?.checked_sub(1) {
            None => batch.remove(table, key),
            Some(len) => batch.put(table, key, take(&mut bytes, len)?),
        }
    }
    Ok(batch)
}

fn put_number(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Result<usize, RecordError> {
    let mut number = 0_u64;
    for shift in (0..).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or_else(cut_short)?;
        *bytes = rest;
        // No length has more than 35 bits.
        if shift > 28 {
            return Err(malformed("a length is too large"));
        }
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    usize::try_from(number).map_err(|_| malformed("a length is too large"))
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], RecordError> {
    let (taken, rest) = bytes.split_at_checked(len).ok_or_else(cut_short)?;
    *bytes = rest;
    Ok(taken)
}
