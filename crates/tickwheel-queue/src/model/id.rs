//! The ids of jobs: UUIDs of version 7, which sort by the time at which they were made. The ids of
//! jobs that schedules put are of version 8, made of their occurrence and a secret.
//!
//! Sorting by time matters here: new jobs land at the end of the table, where a log-structured
//! store writes them once and moves on.
//!
//! The 12 bits after the version count the ids of one millisecond, as RFC 9562 allows. Time and
//! counter together fit into 53 bits and name one job of this store. The beanstalkd protocol, which
//! knows jobs by number, uses them; the other 62 bits are random and cannot be guessed. In a cluster,
//! the first 12 of the 62 bits are the bucket of the job's queue.

use std::fmt;
use std::hash::Hasher;
use std::str::FromStr;

use uuid::{Builder, Uuid};

use crate::model::time::Time;

/// Ids of one millisecond; the next one takes the next millisecond.
const COUNTER_END: u16 = 1 << 12;
/// The bits after a bucket.
const BITS_AFTER_BUCKET: u32 = 50;
/// The bits of a bucket.
const BUCKET_MASK: u128 = 0xfff;
/// How far ids may be ahead of the clock, in milliseconds. A clock that was set back by more is
/// followed.
const MAX_LEAD_MS: u64 = 60_000;

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

    /// Returns the id to make after this one, which is greater. Only if the clock was set back by
    /// more than a minute it is an id of the given time, and less.
    ///
    /// Ids in order land one after the other in the store. Their rows are put where the last ones
    /// are still cached, and tables that were written one after the other do not overlap.
    pub(crate) fn next(self, time: Time, random: u128) -> Self {
        let (last, now) = (self.millis(), time.as_millis());
        if now > last || last - now > MAX_LEAD_MS {
            return Self::counted(now, 0, random);
        }
        match self.counter() + 1 {
            COUNTER_END => Self::counted(last + 1, 0, random),
            counter => Self::counted(last, counter, random),
        }
    }

    fn counted(millis: u64, counter: u16, random: u128) -> Self {
        let low = random & u128::from(u64::MAX);
        Self::from_parts(Time::from_millis(millis), u128::from(counter) << 64 | low)
    }

    fn millis(self) -> u64 {
        (self.0.as_u128() >> 80) as u64
    }

    fn counter(self) -> u16 {
        (self.0.as_u128() >> 64) as u16 % COUNTER_END
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

    /// Returns the id with a bucket in place of 12 random bits.
    pub(crate) fn in_bucket(self, bucket: u16) -> Self {
        let others = self.0.as_u128() & !(BUCKET_MASK << BITS_AFTER_BUCKET);
        let bucket = (u128::from(bucket) & BUCKET_MASK) << BITS_AFTER_BUCKET;
        Self(Uuid::from_u128(others | bucket))
    }

    /// Returns the bucket of a job whose id a node of a cluster has generated. Other ids have any.
    #[doc(hidden)]
    pub fn bucket(&self) -> u16 {
        (self.0.as_u128() >> BITS_AFTER_BUCKET & BUCKET_MASK) as u16
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
            "{:?} is not the id of a job: write 32 hexadecimal digits in groups of 8-4-4-4-12",
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
        for millis in [77, 5_000, 70_000] {
            for count in 0..10_000 {
                let next = last.next(Time::from_millis(millis), fastrand::u128(..));
                assert!(next > last, "{last} and then {next}");
                assert_eq!(next.0.get_version_num(), 7);
                assert_eq!(next.millis(), millis + count / 4_096);
                assert_eq!(u64::from(next.counter()), count % 4_096);
                last = next;
            }
        }
    }

    #[test]
    fn a_maker_follows_a_clock_that_is_set_back_by_more_than_a_minute() {
        let last = JobId::new(Time::from_millis(90_000));
        let next = last.next(Time::from_millis(30_000), 1);
        assert!(next > last && next.millis() <= 90_001, "{last} and then {next}");
        assert_eq!(last.next(Time::from_millis(29_999), 1).millis(), 29_999);
    }

    #[test]
    fn a_bucket_leaves_the_other_bits_alone() {
        let id = JobId::new(Time::from_millis(77)).next(Time::from_millis(77), fastrand::u128(..));
        for bucket in [0, 1, 2_730, 4_095] {
            let placed = id.in_bucket(bucket);
            assert_eq!(placed.bucket(), bucket);
            assert_eq!((placed.millis(), placed.counter()), (id.millis(), id.counter()));
            assert_eq!(placed.0.get_version_num(), 7);
            assert_eq!(placed.0.get_variant(), uuid::Variant::RFC4122);
            assert_eq!(placed.in_bucket(id.bucket()), id);
        }
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
