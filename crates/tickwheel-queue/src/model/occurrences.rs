//! The occurrences of a schedule, and which of the due ones get a job.
//!
//! Nothing here reads the clock or changes anything. The past is one time: every occurrence up to
//! it was handled. No occurrence before it comes again, whichever way the clock is set.

use std::time::{Duration, SystemTime};

use tickwheel::cron::Misfire;

use crate::model::schedule::Timing;
use crate::model::time::{Time, millis};

/// Occurrences that are handled at a time, and the largest limit of [`Misfire::All`].
pub(crate) const MAX_OCCURRENCES: usize = 1_000;

/// The occurrences of a timing that began at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occurrences<'a> {
    pub(crate) timing: &'a Timing,
    pub(crate) created: Time,
}

/// How to handle the occurrences that are due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// The occurrences that get a job, in order.
    pub(crate) put: Vec<Time>,
    /// Every occurrence up to here is skipped.
    pub(crate) left_out: Time,
}

impl Occurrences<'_> {
    /// Returns the first occurrence after a time; `None` if there is none up to the year 9999.
    pub(crate) fn next_after(self, time: Time) -> Option<Time> {
        match self.timing {
            Timing::Cron(schedule) => {
                let next = schedule.next_after(SystemTime::from(time.max(self.created)))?;
                Some(Time::from(SystemTime::from(next)))
            }
            Timing::Every(period) => {
                let (period, passed) = (millis(*period), time.since(self.created));
                let periods = millis(passed) / period + 1;
                let next = self.created.as_millis().checked_add(periods.checked_mul(period)?)?;
                (next < Time::MAX.as_millis()).then_some(Time::from_millis(next))
            }
        }
    }

    /// Returns the last occurrence after a time and up to another.
    fn latest(self, after: Time, to: Time) -> Option<Time> {
        let next = |time| self.next_after(time).filter(|next| *next <= to);
        // Search from the end backwards in growing strides, until an occurrence lies ahead.
        let mut stride = Duration::from_secs(1);
        let mut found = loop {
            let from = Time::from_millis(to.as_millis().saturating_sub(millis(stride))).max(after);
            match next(from) {
                Some(found) => break found,
                None if from == after => return None,
                None => stride = stride.saturating_mul(2),
            }
        };
        // From `nothing` on there is no other.
        let mut nothing = to;
        while found < nothing {
            let middle = found.after(nothing.since(found) / 2).min(nothing);
            let middle = if middle == nothing { found } else { middle };
            match next(middle) {
                Some(later) => found = later,
                None => nothing = middle,
            }
        }
        Some(found)
    }

    /// Returns the first `at_most` occurrences after a time and up to another.
    fn first(self, after: Time, to: Time, at_most: usize) -> Vec<Time> {
        let next = |time: &Time| self.next_after(*time).filter(|next| *next <= to);
        std::iter::successors(next(&after), next).take(at_most).collect()
    }

    /// Returns the last `at_most` occurrences after a time and up to another.
    fn last(self, after: Time, to: Time, at_most: usize) -> Vec<Time> {
        let before = |time: &Time| {
            let to = just_before(*time);
            (to > after).then(|| self.latest(after, to)).flatten()
        };
        let mut last: Vec<Time> =
            std::iter::successors(self.latest(after, to), before).take(at_most).collect();
        last.reverse();
        last
    }

    /// Returns how to handle the due occurrences after `handled`, or `None` if none is due.
    pub(crate) fn due(
        self,
        handled: Time,
        now: Time,
        misfire: Misfire,
        grace: Duration,
    ) -> Option<Due> {
        let first = self.next_after(handled).filter(|first| *first <= now)?;
        if now.since(first) <= grace {
            return Some(Due { put: self.first(handled, now, MAX_OCCURRENCES), left_out: handled });
        }
        let limit = match misfire {
            Misfire::Skip | Misfire::All { limit: 0 } => {
                let latest = self.latest(handled, now)?;
                if now.since(latest) > grace {
                    return Some(Due { put: Vec::new(), left_out: latest });
                }
                // The latest one is handled only when it has its job.
                return Some(Due { put: vec![latest], left_out: just_before(latest) });
            }
            Misfire::Once => 1,
            Misfire::All { limit } => limit.min(MAX_OCCURRENCES),
        };
        let mut put = self.first(handled, now, limit + 1);
        if put.len() > limit {
            put = self.last(handled, now, limit);
        }
        Some(Due { put, left_out: handled })
    }
}

fn just_before(time: Time) -> Time {
    Time::from_millis(time.as_millis().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: u64 = 1_700_000_000_000;

    fn timing() -> impl Strategy<Value = Timing> {
        let cron = |expression, zone| Timing::cron(expression, zone).expect("it makes sense");
        prop_oneof![
            (1..200_000_u64).prop_map(|millis| Timing::Every(Duration::from_millis(millis))),
            Just(cron("*/7 * * * * *", "UTC")),
            Just(cron("* 3-5 * * * *", "UTC")),
            Just(cron("*/5 2 * * *", "Europe/Berlin")),
            Just(cron("0 * * * *", "America/New_York")),
        ]
    }

    proptest! {
        #[test]
        fn the_last_ones_are_the_end_of_all(
            timing in timing(), age in 0..100_000_u64, span in 0..2_000_000_u64, limit in 1..20_usize,
        ) {
            let created = Time::from_millis(START - age);
            let occurrences = Occurrences { timing: &timing, created };
            let (after, to) = (Time::from_millis(START), Time::from_millis(START + span));
            let all = occurrences.first(after, to, usize::MAX);
            prop_assert!(all.is_sorted() && all.iter().all(|time| *time > after && *time <= to));
            prop_assert_eq!(occurrences.latest(after, to), all.last().copied());
            let last = &all[all.len().saturating_sub(limit)..];
            prop_assert_eq!(occurrences.last(after, to, limit), last);
        }
    }

    #[test]
    fn a_period_ends_with_the_calendar() {
        for (period, created) in [
            (Duration::from_millis(1), Time::MAX),
            (Duration::MAX, Time::from_millis(0)),
            (Duration::from_millis(u64::MAX), Time::from_millis(5)),
        ] {
            let timing = Timing::Every(period);
            let occurrences = Occurrences { timing: &timing, created };
            assert_eq!(occurrences.next_after(created), None);
            assert_eq!(occurrences.latest(created, Time::MAX), None);
        }
        let timing = Timing::cron("@yearly", "UTC").unwrap();
        let occurrences = Occurrences { timing: &timing, created: Time::from_millis(0) };
        assert_eq!(occurrences.next_after(Time::MAX), None);
    }

    #[test]
    fn years_of_seconds_are_passed_over_quickly() {
        let timing = Timing::cron("* * * * * *", "Europe/Berlin").unwrap();
        let created = Time::from_millis(START);
        let now = created.after(Duration::from_secs(20 * 366 * 86_400));
        let occurrences = Occurrences { timing: &timing, created };
        let due = |misfire| occurrences.due(created, now, misfire, Duration::ZERO).unwrap();
        assert_eq!(due(Misfire::Once).put, [now]);
        let all = due(Misfire::All { limit: 10 }).put;
        assert_eq!((all.len(), all[0]), (10, Time::from_millis(now.as_millis() - 9_000)));
        assert_eq!(due(Misfire::Skip), Due { put: vec![now], left_out: just_before(now) });
    }
}
