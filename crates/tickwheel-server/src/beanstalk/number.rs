//! Numbers of jobs, for clients that do not know UUIDs.
//!
//! The number is inside the id, so there is no table: it is the millisecond of a UUID of version 7
//! or 8, counted from 2024, and the 12 bits after its version.
//!
//! ```text
//! 018cc251-f400-7abc-…      2024-01-01 and 0xabc
//! ├── milliseconds ┘│└┴┴─ counter
//! number = (milliseconds - EPOCH_MS) << 12 | counter        below 2^53
//! ```
//!
//! The engine counts the ids of one millisecond in these 12 bits, so its numbers are unique. They
//! stay below 2^53 until 2093, which also clients with floating-point numbers read exactly. From a
//! number, the job is found by the first 64 bits of its id. Two jobs can share these only if a
//! schedule or a client made one of the ids, or if the clock was set back by more than a minute; then
//! the number finds neither.
//!
//! An id of another form has no number inside. It is shown as a hash with bit 62 set, by which only
//! the connection that was shown it finds the job again.

use std::hash::{DefaultHasher, Hash, Hasher};

use tickwheel_queue::{JobId, ShortId};

/// 2024-01-01 in Unix time.
const EPOCH_MS: u64 = 1_704_067_200_000;
const COUNTER_BITS: u32 = 12;
/// Numbers from here on are not inside an id.
const FIRST_HASH: u64 = 1 << 62;
/// Numbers inside an id are below this.
const END: u64 = 1 << 53;

/// The number of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Number(pub(super) u64);

impl Number {
    pub(super) fn of(id: JobId) -> Self {
        let bits = u128::from_be_bytes(*id.as_bytes());
        let (millis, version) = ((bits >> 80) as u64, (bits >> 76) as u8 & 0xf);
        let counter = (bits >> 64) as u64 & 0xfff;
        let inside = millis
            .checked_sub(EPOCH_MS)
            .map(|since| since << COUNTER_BITS | counter)
            .filter(|number| (1..END).contains(number) && matches!(version, 7 | 8));
        inside.map_or_else(|| Self::hash_of(id), Self)
    }

    fn hash_of(id: JobId) -> Self {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        Self(FIRST_HASH | hasher.finish() >> 2)
    }

    /// Returns `true` if the number leads to the id.
    pub(super) fn is_inside_id(self) -> bool {
        (1..END).contains(&self.0)
    }

    /// The beginnings that the id of the job can have: of version 7, else of version 8.
    pub(super) fn beginnings(self) -> Option<[ShortId; 2]> {
        if !self.is_inside_id() {
            return None;
        }
        let (millis, counter) = ((self.0 >> COUNTER_BITS) + EPOCH_MS, self.0 & 0xfff);
        let beginning = |version: u8| format!("{millis:012x}{version}{counter:03x}").parse().ok();
        Some([beginning(7)?, beginning(8)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwheel_queue::Time;

    #[test]
    fn a_number_leads_back_to_its_id() {
        for since in [0_u64, 1, 60_000, (1 << 41) - 1] {
            let id = JobId::new(Time::from_millis(EPOCH_MS + since));
            let number = Number::of(id);
            if number.is_inside_id() {
                assert!(number.0 < 1 << 53);
                assert!(number.beginnings().unwrap()[0].matches(id), "{id} {number:?}");
            } else {
                assert_eq!(since, 0, "{id}");
            }
        }
        let of_schedule: JobId = "018f3c1d-0000-8abc-8000-000000000000".parse().unwrap();
        assert!(Number::of(of_schedule).beginnings().unwrap()[1].matches(of_schedule));
    }

    #[test]
    fn other_ids_have_numbers_that_lead_nowhere() {
        let ids = [
            "0190163d-8694-439b-aea5-966c26f8ad91",
            "f190163d-8694-739b-aea5-966c26f8ad91",
            "00000000-0000-7000-8000-000000000000",
        ];
        for id in ids {
            let number = Number::of(id.parse().unwrap());
            assert!(number.0 >= FIRST_HASH && number.0 < 1 << 63, "{number:?}");
            assert!(number.beginnings().is_none());
        }
        assert!(Number(0).beginnings().is_none());
        assert!(Number(u64::MAX).beginnings().is_none());
    }
}
