//! The encoding of values: numbers in groups of seven bits, texts with their length.
//!
//! Every record begins with the version of its layout, one byte. A reader refuses versions that it
//! does not know. No input makes a reader panic.

use std::time::Duration;

use bytes::{Buf, Bytes};

use crate::model::time::Time;

/// Appends values to a buffer.
pub(super) trait Encode {
    fn byte(&mut self, byte: u8);
    fn slice(&mut self, slice: &[u8]);

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.slice(text.as_bytes());
    }

    fn time(&mut self, time: Time) {
        self.number(time.as_millis());
    }

    fn duration(&mut self, duration: Duration) {
        self.number(duration.as_secs());
        self.number(u64::from(duration.subsec_nanos()));
    }

    /// Appends an optional value.
    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }
}

impl Encode for Vec<u8> {
    fn byte(&mut self, byte: u8) {
        self.push(byte);
    }

    fn slice(&mut self, slice: &[u8]) {
        self.extend_from_slice(slice);
    }
}

/// A description of what was found instead of a record.
pub(super) type Malformed = String;

/// Takes values from the front of a buffer.
pub(super) struct Decoder {
    bytes: Bytes,
}

impl Decoder {
    /// Takes the version of a record that has only one.
    pub(super) fn new(bytes: Bytes, only: u8) -> Result<Self, Malformed> {
        match Self::up_to(bytes, only)? {
            (decoder, version) if version == only => Ok(decoder),
            (_, version) => Err(format!("a record of version {version}, where {only} is known")),
        }
    }

    /// Takes the version of a record, which is at most `newest`, and returns it.
    pub(super) fn up_to(mut bytes: Bytes, newest: u8) -> Result<(Self, u8), Malformed> {
        match bytes.try_get_u8() {
            Err(_) => Err("an empty record".into()),
            Ok(version) if (1..=newest).contains(&version) => Ok((Self { bytes }, version)),
            Ok(version) => Err(format!("a record of version {version}, where {newest} is known")),
        }
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        self.bytes.try_get_u8().map_err(|_| "a record cut short".into())
    }

    /// Takes an optional field that older versions do not have.
    pub(super) fn extension<T>(
        &mut self,
        is_there: bool,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        if is_there { self.option(read) } else { Ok(None) }
    }

    pub(super) fn slice(&mut self, length: usize) -> Result<Bytes, Malformed> {
        if length > self.bytes.len() {
            return Err(format!("a record cut short: {length} bytes of {}", self.bytes.len()));
        }
        Ok(self.bytes.split_to(length))
    }

    pub(super) fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number too large".into())
    }

    pub(super) fn number_as<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        let number = self.number()?;
        T::try_from(number).map_err(|_| format!("a number too large: {number}"))
    }

    pub(super) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("{other} where 0 or 1 was expected")),
        }
    }

    pub(super) fn text(&mut self) -> Result<String, Malformed> {
        let length = self.number_as()?;
        let bytes = self.slice(length)?;
        String::from_utf8(bytes.into()).map_err(|_| "a text that is not UTF-8".into())
    }

    pub(super) fn time(&mut self) -> Result<Time, Malformed> {
        self.number().map(Time::from_millis)
    }

    pub(super) fn duration(&mut self) -> Result<Duration, Malformed> {
        let seconds = self.number()?;
        let nanos = self.number_as::<u32>()?;
        if nanos >= 1_000_000_000 {
            return Err(format!("{nanos} nanoseconds in a second"));
        }
        Ok(Duration::new(seconds, nanos))
    }

    pub(super) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }

    /// Takes a list of values, each of which has at least one byte.
    pub(super) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let length = self.number_as::<usize>()?;
        if length > self.bytes.len() {
            return Err(format!("a list of {length} in {} bytes", self.bytes.len()));
        }
        (0..length).map(|_| read(self)).collect()
    }

    /// Takes the remaining bytes.
    pub(super) fn rest(self) -> Bytes {
        self.bytes
    }

    /// Refuses remaining bytes.
    pub(super) fn end(self) -> Result<(), Malformed> {
        if self.bytes.is_empty() {
            Ok(())
        } else {
            Err(format!("{} bytes after the end of a record", self.bytes.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_come_back(number: u64, text: String, millis: u64, seconds: u64, nanos in 0..1_000_000_000_u32) {
            let (time, duration) = (Time::from_millis(millis), Duration::new(seconds, nanos));
            let mut bytes = vec![1];
            bytes.number(number);
            bytes.text(&text);
            bytes.time(time);
            bytes.duration(duration);
            bytes.option(Some(number), Encode::number);
            bytes.option(None, Encode::number);
            let mut decoder = Decoder::new(bytes.into(), 1).unwrap();
            prop_assert_eq!(decoder.number(), Ok(number));
            prop_assert_eq!(decoder.text(), Ok(text));
            prop_assert_eq!(decoder.time(), Ok(time));
            prop_assert_eq!(decoder.duration(), Ok(duration));
            prop_assert_eq!(decoder.option(Decoder::number), Ok(Some(number)));
            prop_assert_eq!(decoder.option(Decoder::number), Ok(None));
            prop_assert_eq!(decoder.end(), Ok(()));
        }
    }

    #[test]
    fn what_is_unknown_or_too_long_is_refused() {
        assert!(Decoder::new(Bytes::new(), 1).is_err());
        assert!(Decoder::new(Bytes::from_static(&[2]), 1).is_err());
        let decode = |bytes: &'static [u8]| Decoder::new(Bytes::from_static(bytes), 1).unwrap();
        assert!(decode(&[1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2]).number().is_err());
        assert!(decode(&[1, 5, b'a']).text().is_err());
        assert!(decode(&[1, 1, 0xff]).text().is_err());
        assert!(decode(&[1, 7]).flag().is_err());
        assert!(decode(&[1, 200, 1]).list(Decoder::byte).is_err());
        assert!(decode(&[1, 0]).end().is_err());
    }
}
