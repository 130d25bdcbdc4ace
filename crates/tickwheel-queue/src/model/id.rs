//! The ids of jobs: UUIDs of version 7, which sort by the time at which they were made. The ids of
//! jobs that schedules put are of version 8, made of their occurrence and a secret.
//!
//! Sorting by time matters here: new jobs land at the end of the table, where a log-structured
//! store writes them once and moves on.

use std::fmt;
use std::hash::Hasher;
use std::str::FromStr;

use uuid::{Builder, Uuid};

use crate::model::time::Time;

/// Random bits after the variant.
const LOW_BITS: u32 = 62;

/// The name of a job: a UUID of version 7.
///
/// ```
/// use tickwheel_queue::JobId;
///
/// let id: JobId = "0190163d-8694-739b-aea5-966c26f8ad91".parse()?;
/// assert_eq!(id.to_string(), "0190163d-8694-739b-aea5-966c26f8ad91");
/// assert!("0190163d".parse::<JobId>().is_err());
/// # Ok::<(), tickwheel_queue::ParseIdError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(Uuid);

impl JobId {
    /// Creates an id for a job that is put at the given time.
    pub fn new(time: Time) -> Self {
        Self::from_parts(time, fastrand::u128(..))
    }

    /// Creates an id with the low 80 bits of `random`, except for version and variant.
    fn from_parts(time: Time, random: u128) -> Self {
        let mut bits = [0; 10];
        bits.copy_from_slice(&random.to_be_bytes()[6..]);
        Self(Builder::from_unix_timestamp_millis(time.as_millis(), &bits).into_uuid())
    }

    /// Returns the next id after this one: greater than it within the same millisecond, otherwise a
    /// new one of the given time.
    ///
    /// Ids in order become adjacent rows: new rows go where the last ones are cached, and tables
    /// written one after the other do not overlap.
    pub(crate) fn next(self, time: Time, random: u128) -> Self {
        let fresh = Self::from_parts(time, random);
        if fresh.as_bytes()[..6] != self.as_bytes()[..6] {
            return fresh;
        }
        // The step has a random length, so that no id predicts the next one.
        let step = u128::from(random as u32) + 1;
        let bits = self.random_bits() + step;
        // The version lies between the first 12 bits and the variant with the rest.
        let low = bits & ((1 << LOW_BITS) - 1);
        Self::from_parts(time, (bits >> LOW_BITS) << 64 | low)
    }

    /// Returns all bits except time, version and variant.
    fn random_bits(self) -> u128 {
        let bits = self.0.as_u128();
        let low = bits & ((1 << LOW_BITS) - 1);
        let high = (bits >> 64) & 0x0fff;
        high << LOW_BITS | low
    }

    /// Returns the id of the job of a schedule's occurrence: a UUID of version 8, which cannot be
    /// predicted without the store's secret. An occurrence has several, in case another job has the
    /// first.
    pub(crate) fn of_occurrence(secret: Secret, schedule: &str, time: Time, attempt: u32) -> Self {
        let bits = |half: u8| {
            let fixed = (time.as_millis().to_be_bytes(), attempt.to_be_bytes());
            secret.hash(&[&fixed.0, &fixed.1, &[half], schedule.as_bytes()])
        };
        let random = u128::from(bits(0) >> 48) << 64 | u128::from(bits(1));
        Self(Builder::from_custom_bytes(*Self::from_parts(time, random).as_bytes()).into_uuid())
    }

    /// Returns `true` if the id has the form of those that schedules make.
    pub(crate) fn is_of_occurrence(self) -> bool {
        self.0.get_version_num() == 8 && self.0.get_variant() == uuid::Variant::RFC4122
    }

    /// Creates the id with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Returns its bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

/// The secret of a store, which makes the ids of occurrences unpredictable.
#[derive(Clone, Copy)]
pub(crate) struct Secret([u64; 2]);

impl Secret {
    /// Creates a secret from random numbers of the operating system.
    pub(crate) fn random() -> Self {
        let part = || getrandom::u64().expect("the operating system has random numbers");
        Self([part(), part()])
    }

    pub(crate) fn encode(self) -> [u8; 16] {
        let [first, second] = self.0;
        (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
    }

    /// Decodes a stored secret; `None` if the bytes are malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let number = u128::from_be_bytes(bytes.try_into().ok()?);
        Some(Self([(number >> 64) as u64, number as u64]))
    }

    /// Returns the `SipHash` 2-4 of some bytes, which makes forgeries infeasible. The standard
    /// library has it under a deprecated name: its successor takes no key.
    #[allow(deprecated, reason = "the successor takes no key")]
    fn hash(self, parts: &[&[u8]]) -> u64 {
        let mut hasher = std::hash::SipHasher::new_with_keys(self.0[0], self.0[1]);
        for part in parts {
            hasher.write(part);
        }
        hasher.finish()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for a text that is not a job id.
///
/// ```
/// use tickwheel_queue::JobId;
/// let error = "order-42".parse::<JobId>().unwrap_err();
/// assert!(error.to_string().contains("order-42"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseIdError(String);

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a job's id: take 32 hexadecimal digits in groups of 8-4-4-4-12",
            self.0
        )
    }
}

impl std::error::Error for ParseIdError {}

impl FromStr for JobId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        // The parser accepts other forms of UUIDs. Ids have one form, with 36 characters.
        let id = (text.len() == 36).then(|| Uuid::try_parse(text).ok()).flatten();
        id.map(Self).ok_or_else(|| ParseIdError(text.chars().take(64).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_one_maker_are_in_order_and_uuids_of_version_7() {
        let mut last = JobId::from_bytes([0; 16]);
        for millis in [77, 78, 5_000] {
            for _ in 0..10_000 {
                let next = last.next(Time::from_millis(millis), fastrand::u128(..));
                assert!(next > last, "{last} and then {next}");
                assert_eq!(next.0.get_version_num(), 7);
                assert_eq!(next.as_bytes()[..6], millis.to_be_bytes()[2..]);
                last = next;
            }
        }
    }

    #[test]
    fn a_maker_follows_a_clock_that_is_set_back() {
        let last = JobId::new(Time::from_millis(78));
        assert!(last.next(Time::from_millis(77), 1) < last);
    }

    #[test]
    fn a_step_carries_over_version_and_variant() {
        let id = |high, low| JobId::from_parts(Time::from_millis(7), high << 64 | low);
        let low = u128::from(u64::MAX);
        let next = id(5, low).next(Time::from_millis(7), 0);
        assert_eq!(next, id(6, 0));
        // After the greatest one, the ids start again.
        assert_eq!(id(low, low).next(Time::from_millis(7), 0), id(0, 0));
    }

    #[test]
    fn new_ids_are_uuids_of_version_7_and_differ() {
        let mut ids: Vec<_> = (0..10_000).map(|_| JobId::new(Time::from_millis(77))).collect();
        for id in &ids {
            assert_eq!(id.0.get_version_num(), 7);
            assert_eq!(id.to_string().parse(), Ok(*id));
        }
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 10_000);
    }

    #[test]
    fn ids_of_occurrences_depend_on_everything_and_sort_by_time() {
        let (secret, time) = (Secret([1, 2]), Time::from_millis(1_700_000_000_000));
        let id = JobId::of_occurrence(secret, "daily", time, 0);
        assert!(id.is_of_occurrence() && !JobId::new(time).is_of_occurrence());
        assert_eq!(id.as_bytes()[..6], time.as_millis().to_be_bytes()[2..]);
        let decoded = Secret::decode(&secret.encode()).unwrap();
        assert_eq!(JobId::of_occurrence(decoded, "daily", time, 0), id);
        for other in [
            JobId::of_occurrence(Secret([1, 3]), "daily", time, 0),
            JobId::of_occurrence(secret, "weekly", time, 0),
            JobId::of_occurrence(secret, "daily", Time::from_millis(1_700_000_000_001), 0),
            JobId::of_occurrence(secret, "daily", time, 1),
        ] {
            assert_ne!(other, id);
        }
    }

    #[test]
    fn odd_texts_are_refused() {
        let id = JobId::new(Time::from_millis(1)).to_string();
        assert!(id.to_uppercase().parse::<JobId>().is_ok());
        for wrong in ["", &id[1..], &id.replace('-', ""), &id.replacen('-', "0", 1)] {
            assert!(wrong.parse::<JobId>().is_err(), "{wrong}");
        }
        assert!("0190163d-8694-739b-aea5-966c26f8adxx".parse::<JobId>().is_err());
    }
}
