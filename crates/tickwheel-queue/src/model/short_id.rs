//! Short forms of job ids, for people.
//!
//! An id begins with the time of its put, so the ids of one batch differ only in their last digits.
//! A prefix alone would have to be nearly the whole id. A short id therefore has both ends:
//! `01890a5dac96..9a8057` is the millisecond, by which the store finds the jobs, and six random
//! digits, which tell them apart.

use std::fmt;
use std::str::FromStr;

use crate::model::id::JobId;

/// Hexadecimal digits of an id.
const DIGITS: u32 = 32;
/// Digits of an id that are the time of its put.
const TIME_DIGITS: u32 = 12;
/// Digits that a short id shows after the dots.
const END_DIGITS: u32 = 6;

/// A short form of a job id: its first digits, and optionally its last ones after two dots.
///
/// It has at least [`MIN_DIGITS`](Self::MIN_DIGITS) digits. Dots are allowed after the first twelve
/// digits, which are the time: fewer could stand for too many jobs.
///
/// ```
/// use tickwheel_queue::{JobId, ShortId};
///
/// let id: JobId = "01890a5d-ac96-774b-bcce-b302099a8057".parse()?;
/// assert_eq!(ShortId::of(id).to_string(), "01890a5dac96..9a8057");
/// for text in ["01890a5d", "01890A5D-AC96-7", "01890a5dac96..57"] {
///     assert!(text.parse::<ShortId>()?.matches(id));
/// }
/// assert!("0189..57".parse::<ShortId>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortId {
    /// The digits before the dots, and how many there are.
    start: (u128, u32),
    /// The digits after the dots, and how many there are.
    end: (u128, u32),
}

impl ShortId {
    /// The least number of digits before the dots.
    pub const MIN_DIGITS: u32 = 4;

    /// Returns the usual short form of an id: the digits of its time, and its last six.
    pub fn of(id: JobId) -> Self {
        let bits = u128::from_be_bytes(*id.as_bytes());
        let start = bits >> (4 * (DIGITS - TIME_DIGITS));
        Self { start: (start, TIME_DIGITS), end: (bits & mask(END_DIGITS), END_DIGITS) }
    }

    /// Returns `true` if the id has these first and last digits.
    pub fn matches(self, id: JobId) -> bool {
        let bits = u128::from_be_bytes(*id.as_bytes());
        let ((start, start_digits), (end, end_digits)) = (self.start, self.end);
        bits.checked_shr(4 * (DIGITS - start_digits)) == Some(start)
            && bits & mask(end_digits) == end
    }

    /// Returns the least and the greatest id that can match.
    pub(crate) fn range(self) -> (JobId, JobId) {
        let (start, digits) = self.start;
        let free = DIGITS - digits;
        let least = start << (4 * free);
        let id = |bits: u128| JobId::from_bytes(bits.to_be_bytes());
        (id(least), id(least | mask(free)))
    }
}

/// Returns a number of `digits` hexadecimal digits, all of them `f`.
fn mask(digits: u32) -> u128 {
    u128::MAX.checked_shr(4 * (DIGITS - digits)).unwrap_or(0)
}

impl fmt::Display for ShortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |f: &mut fmt::Formatter<'_>, (value, digits): (u128, u32)| {
            write!(f, "{value:0width$x}", width = digits as usize)
        };
        write(f, self.start)?;
        if self.end.1 > 0 {
            f.write_str("..")?;
            write(f, self.end)?;
        }
        Ok(())
    }
}

impl FromStr for ShortId {
    type Err = ParseShortIdError;

    fn from_str(text: &str) -> Result<Self, ParseShortIdError> {
        let wrong = || ParseShortIdError(text.chars().take(64).collect());
        let (start, end) = text.split_once("..").unwrap_or((text, ""));
        let start = digits(start).ok_or_else(wrong)?;
        let end = digits(end).ok_or_else(wrong)?;
        let has_time = start.1 >= TIME_DIGITS;
        if start.1 < Self::MIN_DIGITS
            || start.1 + end.1 > DIGITS
            || (text.contains("..") && (end.1 == 0 || !has_time))
        {
            return Err(wrong());
        }
        Ok(Self { start, end })
    }
}

/// Parses hexadecimal digits, skipping hyphens between them. Returns their value and their number.
fn digits(text: &str) -> Option<(u128, u32)> {
    let mut value = (0, 0);
    for digit in text.chars().filter(|c| *c != '-') {
        if value.1 == DIGITS {
            return None;
        }
        value = (value.0 << 4 | u128::from(digit.to_digit(16)?), value.1 + 1);
    }
    Some(value)
}

/// The error for a text that is not a short id.
///
/// ```
/// use tickwheel_queue::ShortId;
/// let error = "01".parse::<ShortId>().unwrap_err();
/// assert!(error.to_string().contains("at least 4"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseShortIdError(String);

impl fmt::Display for ParseShortIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a job's id, whole or short: give at least {} of its first hexadecimal \
             digits, or its first {TIME_DIGITS}, two dots and its last ones",
            self.0,
            ShortId::MIN_DIGITS
        )
    }
}

impl std::error::Error for ParseShortIdError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Time;

    #[test]
    fn a_short_id_matches_its_id_and_lies_in_its_range() {
        for _ in 0..1_000 {
            let id = JobId::new(Time::from_millis(fastrand::u64(..) >> 16));
            let whole = id.to_string();
            for length in 4..=36 {
                let short: ShortId = whole[..length].parse().unwrap();
                let (least, greatest) = short.range();
                assert!(short.matches(id) && (least..=greatest).contains(&id), "{short} {id}");
            }
            let short = ShortId::of(id);
            assert_eq!(short.to_string().len(), 20);
            assert_eq!(short.to_string().parse(), Ok(short));
            assert!(short.matches(id));
        }
    }

    #[test]
    fn the_ids_of_a_batch_have_different_short_forms() {
        let time = Time::from_millis(1_700_000_000_000);
        let mut id = JobId::new(time);
        let mut forms = std::collections::HashSet::new();
        for _ in 0..100 {
            id = id.next(time, fastrand::u128(..));
            forms.insert(ShortId::of(id).to_string());
        }
        assert!(forms.len() >= 99, "{}", forms.len());
    }

    #[test]
    fn what_could_stand_for_too_many_jobs_is_refused() {
        for wrong in
            ["", "018", "order-42", "0189..57", "01890a5dac96..", "..57", "01890a5dac96..x"]
        {
            assert!(wrong.parse::<ShortId>().is_err(), "{wrong}");
        }
        let whole = "01890a5d-ac96-774b-bcce-b302099a8057";
        assert!(format!("{whole}0").parse::<ShortId>().is_err());
        assert!(format!("{whole}..7").parse::<ShortId>().is_err());
    }
}
