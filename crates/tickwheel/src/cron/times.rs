//! The times of a schedule, where clocks are put forward and back.
//!
//! `croner` walks the calendar as it is written, where every day has 24 hours, and `jiff` says
//! when such a civil time is, if at all. The two rules that lie between them are those of the
//! module's documentation:
//! * A schedule that leaves hours out counts **civil times**: each has one moment, and later ones
//!   never have earlier moments, so the first civil time whose moment lies ahead is the answer.
//! * One that has all hours counts **moments**: between two changes of the clock civil time is
//!   that of a fixed offset, so each such stretch is walked by itself.

use jiff::Timestamp;
use jiff::civil::{DateTime, date};
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::schedule::Schedule;
use croner::Cron;

/// A day to search from for anything that ever matches.
pub(super) const ANY_DAY: DateTime = date(2000, 1, 1).at(0, 0, 0, 0);

/// The calendar repeats itself, weekdays included, after this many years.
const CYCLE: i16 = 400;

const ALL_HOURS: u64 = (1 << 24) - 1;

/// The first time of a schedule after another one.
pub(super) fn next_after(schedule: &Schedule, after: Timestamp) -> Option<Timestamp> {
    let (cron, zone) = (&schedule.cron, schedule.time_zone());
    if schedule.fields.hour.bits() == ALL_HOURS {
        next_shown(cron, zone, after)
    } else {
        next_counted(cron, zone, after)
    }
}

/// The first moment of a civil time that matches: of those in a gap, the end of the gap, and of
/// those that are shown twice, the first showing.
fn next_counted(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let mut civil = zone.to_datetime(after);
    loop {
        civil = next_civil(cron, civil, false)?;
        let moment = moment_of(zone, civil)?;
        // Those that are shown again had their moment in the first showing.
        if moment > after {
            return Some(moment);
        }
    }
}

/// When a civil time is; `None` beyond the end of the calendar.
fn moment_of(zone: &TimeZone, civil: DateTime) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(civil).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(civil).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(civil).ok(),
        AmbiguousOffset::Gap { after, .. } => {
            // By the new offset this moment is before the gap.
            let before = after.to_timestamp(civil).ok()?;
            let mut changes = zone.following(before);
            changes.find(|change| change.offset() == after).map(|gap| gap.timestamp())
        }
    }
}

/// The first moment at which the clock shows a civil time that matches.
fn next_shown(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let (mut start, mut inclusive) = (after, false);
    loop {
        let offset = zone.to_offset(start);
        let change = zone.following(start).next().map(|change| change.timestamp());
        let civil = next_civil(cron, offset.to_datetime(start), inclusive);
        let moment = civil.and_then(|civil| offset.to_timestamp(civil).ok());
        match change {
            Some(change) if moment.is_none_or(|moment| moment >= change) => {
                (start, inclusive) = (change, true);
            }
            _ => return moment,
        }
    }
}

/// The first civil time that matches, after another one or also at it. `None` beyond the year
/// 9999, and if there is none at all.
///
/// `croner` knows the years to 5000; by whole cycles of the calendar every year is moved to where
/// it searches, and what it finds is moved back.
pub(super) fn next_civil(cron: &Cron, from: DateTime, inclusive: bool) -> Option<DateTime> {
    let shift = (from.year() - ANY_DAY.year()).div_euclid(CYCLE) * CYCLE;
    let moved = in_year(from, from.year() - shift)?;
    let found = cron.find_next_occurrence(&moved, inclusive).ok()?;
    in_year(found, found.year() + shift)
}

fn in_year(time: DateTime, year: i16) -> Option<DateTime> {
    time.with().year(year).build().ok()
}
