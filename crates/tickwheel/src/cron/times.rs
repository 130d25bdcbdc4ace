//! Finds the next time of a schedule, also where clocks are put forward and back.
//!
//! `croner` searches civil times, in a calendar where every day has 24 hours. `jiff` converts a
//! civil time to a timestamp, if the time zone has that time at all. Two rules connect them; the
//! documentation of the module states them for users:
//! * A schedule of some hours counts **civil times**. Each has one timestamp, and a later civil time
//!   never has an earlier timestamp. So the answer is the first civil time whose timestamp is in
//!   the future.
//! * A schedule of every hour counts **timestamps**. Between two changes of the clock, civil time
//!   has a fixed offset, so each stretch between changes is searched separately.

use jiff::Timestamp;
use jiff::civil::{DateTime, date};
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::schedule::Schedule;
use croner::Cron;

/// The start of a search for any match at all.
pub(super) const ANY_DAY: DateTime = date(2000, 1, 1).at(0, 0, 0, 0);

/// The calendar repeats itself, weekdays included, after this many years.
const CYCLE: i16 = 400;

const ALL_HOURS: u64 = (1 << 24) - 1;

/// Returns the first time of a schedule after `after`.
pub(super) fn next_after(schedule: &Schedule, after: Timestamp) -> Option<Timestamp> {
    let (cron, zone) = (&schedule.cron, schedule.time_zone());
    if schedule.fields.hour.bits() == ALL_HOURS {
        next_shown(cron, zone, after)
    } else {
        next_counted(cron, zone, after)
    }
}

/// Returns the first timestamp of a matching civil time: for a civil time in a gap the end of the
/// gap, and for one that is repeated the first of the two.
fn next_counted(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let mut civil = zone.to_datetime(after);
    loop {
        civil = next_civil(cron, civil, false)?;
        let timestamp = timestamp_of(zone, civil)?;
        // The second showing of a repeated hour is skipped: its times were due in the first.
        if timestamp > after {
            return Some(timestamp);
        }
    }
}

/// Converts a civil time to its timestamp; `None` beyond the end of the calendar.
fn timestamp_of(zone: &TimeZone, civil: DateTime) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(civil).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(civil).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(civil).ok(),
        AmbiguousOffset::Gap { after, .. } => {
            // With the offset after the gap, a time in the gap converts to one before it.
            let before = after.to_timestamp(civil).ok()?;
            let mut changes = zone.following(before);
            changes.find(|change| change.offset() == after).map(|gap| gap.timestamp())
        }
    }
}

/// Returns the first timestamp at which the clock shows a matching civil time.
fn next_shown(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let (mut start, mut inclusive) = (after, false);
    loop {
        let offset = zone.to_offset(start);
        let change = zone.following(start).next().map(|change| change.timestamp());
        let civil = next_civil(cron, offset.to_datetime(start), inclusive);
        let found = civil.and_then(|civil| offset.to_timestamp(civil).ok());
        match change {
            Some(change) if found.is_none_or(|found| found >= change) => {
                (start, inclusive) = (change, true);
            }
            _ => return found,
        }
    }
}

/// Returns the first matching civil time after `from`, or at it if `inclusive`. `None` if there is
/// none up to the year 9999.
///
/// `croner` searches up to the year 5000. So the search is moved by whole cycles of the calendar
/// into the years from 2000 on, and its result is moved back.
pub(super) fn next_civil(cron: &Cron, from: DateTime, inclusive: bool) -> Option<DateTime> {
    let shift = (from.year() - ANY_DAY.year()).div_euclid(CYCLE) * CYCLE;
    let moved = in_year(from, from.year() - shift)?;
    let found = cron.find_next_occurrence(&moved, inclusive).ok()?;
    in_year(found, found.year() + shift)
}

fn in_year(time: DateTime, year: i16) -> Option<DateTime> {
    time.with().year(year).build().ok()
}
