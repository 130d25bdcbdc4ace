//! Names of jobs: UUIDs of version 7, which sort by the time at which they were made. Those of
//! jobs that schedules put are of version 8, made of their occurrence and a secret.
//!
//! The layout is that of RFC 9562: 48 bits of milliseconds, then random ones around the six that
//! say version and variant. Sorting by time matters here: new jobs land at the end of the table,
//! where a log-structured store writes them once and moves on.

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::str::FromStr;

use crate::model::time::Time;

/// Random bits behind the variant.
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
pub struct JobId([u8; 16]);

impl JobId {
    /// A new name for a job that is made at the given time.
    ///
    /// ```
    /// use tickwheel_queue::{JobId, Time};
    ///
    /// let earlier = JobId::new(Time::from_millis(1_000));
    /// let later = JobId::new(Time::from_millis(1_001));
    /// assert!(earlier < later);
    /// ```
    pub fn new(time: Time) -> Self {
        Self::from_parts(time, random(), random())
    }

    fn from_parts(time: Time, high: u64, low: u64) -> Self {
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&time.as_millis().to_be_bytes()[2..]);
        bytes[6..8].copy_from_slice(&high.to_be_bytes()[..2]);
        bytes[8..].copy_from_slice(&low.to_be_bytes());
        bytes[6] = 0x70 | (bytes[6] & 0x0f);
        bytes[8] = 0x80 | (bytes[8] & 0x3f);
        Self(bytes)
    }

    /// The next name that one maker gives: behind the last one if that is of the same millisecond,
    /// and like any other of its time if not.
    ///
    /// Names in order land one behind the other in the store. Their rows are put where the last
    /// ones are still at hand, and tables that were written one after the other do not overlap.
    pub(crate) fn next(self, time: Time, (high, low): (u64, u64)) -> Self {
        let fresh = Self::from_parts(time, high, low);
        if fresh.0[..6] != self.0[..6] {
            return fresh;
        }
        // A step of random length, so that no name tells the next one.
        let step = u128::from(low as u32) + 1;
        let bits = self.random_bits() + step;
        Self::from_parts(time, ((bits >> LOW_BITS) as u64) << 48, bits as u64)
    }

    /// All but the time, the version and the variant.
    fn random_bits(self) -> u128 {
        let bits = u128::from_be_bytes(self.0);
        let low = bits & ((1 << LOW_BITS) - 1);
        let high = (bits >> 64) & 0x0fff;
        high << LOW_BITS | low
    }

    /// The id of the job that a schedule puts for one of its occurrences: a UUID of version 8,
    /// which cannot be predicted without the store's secret. There are several for an occurrence,
    /// in case that another job has the first.
    pub(crate) fn of_occurrence(secret: Secret, schedule: &str, time: Time, attempt: u32) -> Self {
        let bits = |half: u8| {
            let fixed = (time.as_millis().to_be_bytes(), attempt.to_be_bytes());
            secret.hash(&[&fixed.0, &fixed.1, &[half], schedule.as_bytes()])
        };
        let mut id = Self::from_parts(time, bits(0), bits(1));
        id.0[6] = 0x80 | (id.0[6] & 0x0f);
        id
    }

    /// Returns `true` if the id has the form of those that schedules make.
    pub(crate) fn is_of_occurrence(self) -> bool {
        self.0[6] >> 4 == 8 && self.0[8] >> 6 == 2
    }

    /// The name with these bytes.
    ///
    /// ```
    /// use tickwheel_queue::JobId;
    /// let id = JobId::from_bytes([7; 16]);
    /// assert_eq!(id.as_bytes(), &[7; 16]);
    /// ```
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    ///
    /// ```
    /// use tickwheel_queue::JobId;
    /// assert_eq!(JobId::from_bytes([1; 16]).as_bytes()[0], 1);
    /// ```
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// The secret of a store, which makes the ids of occurrences unpredictable.
#[derive(Clone, Copy)]
pub(crate) struct Secret([u64; 2]);

impl Secret {
    /// A new secret, from the random numbers of the operating system.
    pub(crate) fn random() -> Self {
        let state = RandomState::new();
        Self([state.hash_one(0), state.hash_one(1)])
    }

    pub(crate) fn encode(self) -> [u8; 16] {
        let [first, second] = self.0;
        (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
    }

    /// The secret that was stored; `None` if the bytes are not one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let number = u128::from_be_bytes(bytes.try_into().ok()?);
        Some(Self([(number >> 64) as u64, number as u64]))
    }

    /// `SipHash` 2-4 of some bytes, which makes forgeries infeasible. The standard library has it
    /// under a deprecated name: its successor takes no key.
    #[allow(deprecated, reason = "the successor takes no key")]
    fn hash(self, parts: &[&[u8]]) -> u64 {
        let mut hasher = std::hash::SipHasher::new_with_keys(self.0[0], self.0[1]);
        for part in parts {
            hasher.write(part);
        }
        hasher.finish()
    }
}

/// Random bits that differ between processes and threads; not a secret.
pub(crate) fn random() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().build_hasher().finish());
    }
    // SplitMix64: a counter, scrambled.
    STATE.with(|state| {
        let next = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.set(next);
        scramble(next)
    })
}

/// Spreads a number over all 64 bits, the same way each time.
pub(crate) fn scramble(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not the name of a job.
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
        let wrong = || ParseIdError(text.chars().take(64).collect());
        let bytes = text.as_bytes();
        let is_hyphen = |place| matches!(place, 8 | 13 | 18 | 23);
        if bytes.len() != 36 || (0..36).any(|place| is_hyphen(place) != (bytes[place] == b'-')) {
            return Err(wrong());
        }
        let mut digits = bytes.iter().filter(|&&byte| byte != b'-');
        let mut digit = || {
            let byte = *digits.next().ok_or_else(wrong)?;
            char::from(byte).to_digit(16).map(|digit| digit as u8).ok_or_else(wrong)
        };
        let mut id = [0; 16];
        for byte in &mut id {
            *byte = digit()? << 4 | digit()?;
        }
        Ok(Self(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_maker_are_in_order_and_uuids_of_version_7() {
        let mut last = JobId::from_bytes([0; 16]);
        for millis in [77, 78, 5_000] {
            for _ in 0..10_000 {
                let next = last.next(Time::from_millis(millis), (random(), random()));
                assert!(next > last, "{last} and then {next}");
                assert_eq!((next.0[6] >> 4, next.0[8] >> 6), (7, 2));
                assert_eq!(next.0[..6], millis.to_be_bytes()[2..]);
                last = next;
            }
        }
    }

    #[test]
    fn a_maker_follows_a_clock_that_is_set_back() {
        let last = JobId::new(Time::from_millis(78));
        assert!(last.next(Time::from_millis(77), (1, 1)) < last);
    }

    #[test]
    fn a_step_carries_over_version_and_variant() {
        let id = |high, low| JobId::from_parts(Time::from_millis(7), high, low);
        let next = id(5 << 48, u64::MAX).next(Time::from_millis(7), (0, 0));
        assert_eq!(next, id(6 << 48, 0));
        // Behind the very last one it begins anew.
        let last = id(u64::MAX, u64::MAX);
        assert_eq!(last.next(Time::from_millis(7), (0, 0)), id(0, 0));
    }

    #[test]
    fn new_ids_are_uuids_of_version_7_and_differ() {
        let mut ids: Vec<_> = (0..10_000).map(|_| JobId::new(Time::from_millis(77))).collect();
        for id in &ids {
            assert_eq!((id.0[6] >> 4, id.0[8] >> 6), (7, 2));
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
        assert_eq!(id.0[..6], time.as_millis().to_be_bytes()[2..]);
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
