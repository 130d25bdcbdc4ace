//! The times of schedules: on real changes of the clock, at the edges of the calendar, and
//! against a plain model.

use std::time::{Duration, SystemTime};

use crate::calendar::{Expression, Item, expressions};
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, Zoned};
use proptest::prelude::*;
use proptest::sample::select;
use tickwheel::cron::{CronError, Schedule};

/// Returns the next times after a local time, as local times.
fn times(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::new(expression, zone).unwrap();
    let after: Zoned = format!("{after}[{zone}]").parse().unwrap();
    schedule.after(after).take(count).map(|time| written(&time)).collect()
}

/// Returns the local time and its offset from UTC.
fn written(time: &Zoned) -> String {
    time.strftime("%m-%d %H:%M %:z").to_string()
}

// Europe/Berlin, 2026-03-29: 02:00 becomes 03:00. 2026-10-25: 03:00 becomes 02:00.

#[test]
fn a_time_in_a_gap_is_due_once_when_the_gap_ends() {
    assert_eq!(
        times("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00", 3),
        ["03-28 02:30 +01:00", "03-29 03:00 +02:00", "03-30 02:30 +02:00"]
    );
    assert_eq!(
        times("0 2 * * *", "Europe/Berlin", "2026-03-28T12:00", 2),
        ["03-29 03:00 +02:00", "03-30 02:00 +02:00"]
    );
}

#[test]
fn a_time_that_is_shown_twice_is_due_the_first_time() {
    assert_eq!(
        times("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", 2),
        ["10-25 02:30 +02:00", "10-26 02:30 +01:00"]
    );
    // Asks for the time after a moment between the two, and after the first itself.
    for after in ["2026-10-25T02:30+02:00", "2026-10-25T02:45+02:00", "2026-10-25T02:10+01:00"] {
        let next = times("30 2 * * *", "Europe/Berlin", after, 1);
        assert_eq!(next, ["10-26 02:30 +01:00"], "after {after}");
    }
}

#[test]
fn all_that_falls_into_a_gap_is_one_run() {
    assert_eq!(
        times("*/15 2 * * *", "Europe/Berlin", "2026-03-29T00:00", 2),
        ["03-29 03:00 +02:00", "03-30 02:00 +02:00"]
    );
    // The moment after the gap is also a regular time of the schedule.
    assert_eq!(
        times("0,30 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00", 3),
        ["03-29 03:00 +02:00", "03-29 03:30 +02:00", "03-30 02:00 +02:00"]
    );
}

#[test]
fn several_hours_are_counted_each_once() {
    assert_eq!(
        times("0 */2 * * *", "Europe/Berlin", "2026-03-28T23:00", 3),
        ["03-29 00:00 +01:00", "03-29 03:00 +02:00", "03-29 04:00 +02:00"]
    );
    assert_eq!(
        times("0 */2 * * *", "Europe/Berlin", "2026-10-24T23:00", 3),
        ["10-25 00:00 +02:00", "10-25 02:00 +02:00", "10-25 04:00 +01:00"]
    );
    assert_eq!(
        times("*/30 2 * * *", "Europe/Berlin", "2026-10-25T00:00", 3),
        ["10-25 02:00 +02:00", "10-25 02:30 +02:00", "10-26 02:00 +01:00"]
    );
}

#[test]
fn each_real_quarter_of_an_hour_has_its_run() {
    for (after, zone) in [
        ("2026-03-28T22:00", "Europe/Berlin"),
        ("2026-10-24T22:00", "Europe/Berlin"),
        ("2026-03-07T22:00", "America/New_York"),
        ("2026-10-31T22:00", "America/New_York"),
        ("2026-04-04T22:00", "Australia/Lord_Howe"),
        ("2026-10-03T22:00", "Australia/Lord_Howe"),
    ] {
        let schedule = Schedule::new("*/15 * * * *", zone).unwrap();
        let after: Zoned = format!("{after}[{zone}]").parse().unwrap();
        let mut last = after.clone();
        for time in schedule.after(after).take(50) {
            assert_eq!(last.duration_until(&time), SignedDuration::from_mins(15), "at {time}");
            last = time;
        }
    }
}

#[test]
fn every_hour_goes_on_through_both_showings() {
    assert_eq!(
        times("0 * * * *", "Europe/Berlin", "2026-10-25T01:00", 4),
        ["10-25 02:00 +02:00", "10-25 02:00 +01:00", "10-25 03:00 +01:00", "10-25 04:00 +01:00"]
    );
    assert_eq!(
        times("30 0-23 * * *", "Europe/Berlin", "2026-03-29T00:30", 3),
        ["03-29 01:30 +01:00", "03-29 03:30 +02:00", "03-29 04:30 +02:00"]
    );
    assert_eq!(
        times("@hourly", "America/New_York", "2026-11-01T00:30", 3),
        ["11-01 01:00 -04:00", "11-01 01:00 -05:00", "11-01 02:00 -05:00"]
    );
}

#[test]
fn new_york_changes_its_clocks_by_the_same_rules() {
    assert_eq!(
        times("30 2 * * *", "America/New_York", "2026-03-07T12:00", 2),
        ["03-08 03:00 -04:00", "03-09 02:30 -04:00"]
    );
    assert_eq!(
        times("30 1 * * *", "America/New_York", "2026-10-31T12:00", 2),
        ["11-01 01:30 -04:00", "11-02 01:30 -05:00"]
    );
}

// Australia/Lord_Howe, 2026-10-04: 02:00 becomes 02:30. 2026-04-05: 02:00 becomes 01:30.

#[test]
fn a_change_of_half_an_hour_is_as_good_as_any() {
    assert_eq!(
        times("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", 2),
        ["10-04 02:30 +11:00", "10-05 02:15 +11:00"]
    );
    assert_eq!(
        times("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", 2),
        ["04-05 01:45 +11:00", "04-06 01:45 +10:30"]
    );
    assert_eq!(
        times("45 * * * *", "Australia/Lord_Howe", "2026-04-05T01:00+11:00", 3),
        ["04-05 01:45 +11:00", "04-05 01:45 +10:30", "04-05 02:45 +10:30"]
    );
}

#[test]
fn a_day_that_was_left_out_is_made_up_for_as_the_next_begins() {
    // Samoa went from the evening of 2011-12-29 to the morning of 2011-12-31.
    assert_eq!(
        times("0 9 * * *", "Pacific/Apia", "2011-12-29T00:00", 4),
        ["12-29 09:00 -10:00", "12-31 00:00 +14:00", "12-31 09:00 +14:00", "01-01 09:00 +14:00"]
    );
    // The 30th would have been a Friday.
    assert_eq!(
        times("0 9 * * FRI", "Pacific/Apia", "2011-12-29T00:00", 2),
        ["12-31 00:00 +14:00", "01-06 09:00 +14:00"]
    );
    assert_eq!(
        times("@hourly", "Pacific/Apia", "2011-12-29T22:00", 3),
        ["12-29 23:00 -10:00", "12-31 00:00 +14:00", "12-31 01:00 +14:00"]
    );
}

#[test]
fn midnight_may_be_missing() {
    // In Beirut the clocks go from 00:00 to 01:00.
    assert_eq!(
        times("@daily", "Asia/Beirut", "2026-03-28T12:00", 2),
        ["03-29 01:00 +03:00", "03-30 00:00 +03:00"]
    );
}

#[test]
fn seconds_are_counted_by_the_same_rules() {
    let schedule = Schedule::new("*/20 59 1 * * *", "Europe/Berlin").unwrap();
    let after: Zoned = "2026-03-29T01:59:10[Europe/Berlin]".parse().unwrap();
    let seconds: Vec<String> = schedule.after(&after).take(3).map(|t| t.to_string()).collect();
    assert_eq!(
        seconds,
        [
            "2026-03-29T01:59:20+01:00[Europe/Berlin]",
            "2026-03-29T01:59:40+01:00[Europe/Berlin]",
            "2026-03-30T01:59:00+02:00[Europe/Berlin]"
        ]
    );
    let schedule = Schedule::new("* * * * * *", "Europe/Berlin").unwrap();
    let before: Zoned = "2026-03-29T01:59:59.5[Europe/Berlin]".parse().unwrap();
    let next = schedule.next_after(before).unwrap();
    assert_eq!(next.to_string(), "2026-03-29T03:00:00+02:00[Europe/Berlin]");
}

#[test]
fn the_next_time_is_after_the_one_that_is_asked_for() {
    let schedule = Schedule::new("0 9 * * *", "UTC").unwrap();
    let nine = SystemTime::UNIX_EPOCH + Duration::from_secs(9 * 3600);
    let day = Duration::from_secs(86_400);
    let nano = Duration::from_nanos(1);
    let next = |time: SystemTime| SystemTime::from(schedule.next_after(time).unwrap());
    assert_eq!(next(nine - nano), nine);
    assert_eq!(next(nine), nine + day);
    assert_eq!(next(nine + nano), nine + day);
}

#[test]
fn days_that_a_month_lacks_are_left_out() {
    let days = |expression: &str, after: &str, count| -> Vec<String> {
        let schedule = Schedule::new(expression, "UTC").unwrap();
        let after: Zoned = format!("{after}T00:00[UTC]").parse().unwrap();
        schedule.after(after).take(count).map(|time| time.date().to_string()).collect()
    };
    assert_eq!(
        days("0 9 31 * *", "2026-01-01", 8),
        [
            "2026-01-31",
            "2026-03-31",
            "2026-05-31",
            "2026-07-31",
            "2026-08-31",
            "2026-10-31",
            "2026-12-31",
            "2027-01-31"
        ]
    );
    // 2100 is not a leap year.
    assert_eq!(days("0 0 29 2 *", "2095-01-01", 3), ["2096-02-29", "2104-02-29", "2108-02-29"]);
    assert_eq!(days("0 0 L 2 *", "2027-01-01", 2), ["2027-02-28", "2028-02-29"]);
    assert_eq!(days("0 0 * * MON#5", "2026-01-01", 2), ["2026-03-30", "2026-06-29"]);
    assert_eq!(days("0 0 29 2 +MON", "2026-01-01", 2), ["2044-02-29", "2072-02-29"]);
    assert_eq!(days("0 0 1W * *", "2026-08-01", 2), ["2026-08-03", "2026-09-01"]);
    assert_eq!(days("0 0 * * 7L", "2026-11-01", 1), ["2026-11-29"]);
}

#[test]
fn two_fields_for_days_take_either_and_with_a_plus_both() {
    let days = |expression: &str| {
        times(expression, "UTC", "2026-11-01T00:00", 4)
            .into_iter()
            .map(|time| time[..5].to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(days("0 12 13 * FRI"), ["11-06", "11-13", "11-20", "11-27"]);
    assert_eq!(days("0 12 14 * FRI"), ["11-06", "11-13", "11-14", "11-20"]);
    assert_eq!(days("0 12 13 * +FRI"), ["11-13", "08-13", "10-13", "04-13"]);
    // Only a plain star is no restriction.
    assert_eq!(days("0 12 */15 * FRI"), ["11-01", "11-06", "11-13", "11-16"]);
    assert_eq!(days("0 12 * * FRI"), ["11-06", "11-13", "11-20", "11-27"]);
    assert_eq!(days("0 12 ? * FRI"), ["11-06", "11-13", "11-20", "11-27"]);
}

#[test]
fn what_never_comes_is_refused_at_once() {
    for expression in [
        "0 0 30 2 *",
        "0 0 31 2,4,6,9,11 *",
        "0 0 30W 2 *",
        "0 0 1-6 * +MON#2",
        "0 0 LW * +SUN",
        "0 0 0 31 4 *",
    ] {
        let error = Schedule::new(expression, "UTC").unwrap_err();
        assert!(matches!(error, CronError::NoSuchDate { .. }), "{expression}: {error}");
    }
    // One day out of ten thousand is enough.
    Schedule::new("0 0 29 2 +SUN#5", "UTC").unwrap();
    Schedule::new("0 0 30 2 MON", "UTC").unwrap();
}

#[test]
fn the_calendar_ends_with_the_year_9999() {
    for (expression, zone) in
        [("0 12 * * *", "UTC"), ("0 * * * *", "UTC"), ("* * * * * *", "Europe/Berlin")]
    {
        let schedule = Schedule::new(expression, zone).unwrap();
        let almost: Timestamp = "9999-12-30T00:00:00Z".parse().unwrap();
        let rest = schedule.after(almost).inspect(|time| assert_eq!(time.year(), 9999)).count();
        assert!(rest > 0 && rest <= 86_400, "{expression}: {rest}");
        assert_eq!(schedule.next_after(Timestamp::MAX), None);
    }
    let new_year = Schedule::new("@yearly", "UTC").unwrap();
    let late: Timestamp = "9998-06-01T00:00:00Z".parse().unwrap();
    assert_eq!(new_year.after(late).count(), 1);
    // A leap day in each of the four centuries that croner itself does not reach.
    let leap_days = Schedule::new("0 0 29 2 *", "America/New_York").unwrap();
    let after: Timestamp = "9600-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(leap_days.after(after).count(), 97);
}

#[test]
fn time_zones_may_be_anything_that_jiff_has() {
    let after: Timestamp = "2026-03-28T12:00:00Z".parse().unwrap();
    for (zone, expected) in [
        (TimeZone::fixed(Offset::constant(5)), "2026-03-29T04:00:00Z"),
        (TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap(), "2026-03-29T07:00:00Z"),
        (TimeZone::UTC, "2026-03-29T09:00:00Z"),
    ] {
        let schedule = Schedule::new("0 9 * * *", &zone).unwrap();
        let next = schedule.next_after(after).unwrap();
        assert_eq!(next.timestamp().to_string(), expected, "{schedule}");
    }
    let offset = Schedule::new("0 9 * * *", "+05:30").unwrap();
    assert_eq!(offset.to_string(), "CRON_TZ=+05:30 0 9 * * *");
    assert_eq!(offset.to_string().parse::<Schedule>().unwrap(), offset);
}

#[test]
fn a_machine_without_time_zones_has_those_that_are_built_in() {
    let after: Timestamp = "2026-03-28T12:00:00Z".parse().unwrap();
    for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"] {
        let built_in = TimeZoneDatabase::bundled().get(zone).unwrap();
        let one = Schedule::new("30 2 * * *", built_in).unwrap();
        let other = Schedule::new("30 2 * * *", zone).unwrap();
        let moments = |schedule: &Schedule| -> Vec<_> {
            schedule.after(after).take(400).map(|time| time.timestamp()).collect()
        };
        assert_eq!(moments(&one), moments(&other), "{zone}");
    }
}

#[test]
fn next_begins_now() {
    let schedule = Schedule::new("* * * * * *", "Europe/Berlin").unwrap();
    let before = SystemTime::now();
    let next = schedule.next(3);
    let after = SystemTime::now();
    assert!(SystemTime::from(&next[0]) > before);
    assert!(SystemTime::from(&next[0]) <= after + Duration::from_secs(1));
    assert_eq!(next[1], schedule.next_after(&next[0]).unwrap());
    assert_eq!(next[2], schedule.next_after(&next[1]).unwrap());
    assert_eq!(schedule.next(0), []);
}

/// Generates moments shortly before clock changes, and other times.
const MOMENTS: [(&str, &str); 14] = [
    ("Europe/Berlin", "2026-03-28T20:00:00Z"),
    ("Europe/Berlin", "2026-10-24T20:00:00Z"),
    ("Europe/Berlin", "2026-07-01T00:00:00Z"),
    ("America/New_York", "2026-03-08T01:00:00Z"),
    ("America/New_York", "2026-11-01T00:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T10:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T10:00:00Z"),
    ("Pacific/Apia", "2011-12-30T05:00:00Z"),
    ("America/Sao_Paulo", "2018-11-03T20:00:00Z"),
    ("Asia/Beirut", "2026-03-28T15:00:00Z"),
    ("Africa/Casablanca", "2026-02-14T20:00:00Z"),
    ("Asia/Kathmandu", "2026-02-27T12:00:00Z"),
    ("Antarctica/Troll", "2026-03-28T20:00:00Z"),
    ("UTC", "2028-02-28T12:00:00Z"),
];

fn moments() -> impl Strategy<Value = (TimeZone, Timestamp)> {
    (select(MOMENTS.to_vec()), 0..48_i64 * 3600).prop_map(|((zone, time), seconds)| {
        let time: Timestamp = time.parse().unwrap();
        (TimeZone::get(zone).unwrap(), time - SignedDuration::from_secs(seconds / 4))
    })
}

fn assert_as_walked(expression: &Expression, zone: &TimeZone, start: Timestamp, hours: i64) {
    let end = start + SignedDuration::from_hours(hours);
    let Ok(schedule) = Schedule::new(&expression.text(), zone) else {
        // The schedule never matches, so the model must not find a time either.
        assert_eq!(expression.walk(zone, start, end), []);
        return;
    };
    let found: Vec<Zoned> =
        schedule.after(start).take_while(|time| time.timestamp() <= end).collect();
    assert_eq!(found, expression.walk(zone, start, end), "{schedule} after {start}");
    // Asking for one time after another gives the same times.
    let mut last = start;
    for time in found.iter().take(20) {
        assert!(time.timestamp() > last);
        assert_eq!(schedule.next_after(last).as_ref(), Some(time));
        last = time.timestamp();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_times_are_those_of_a_walk_by_minutes(
        expression in expressions(false),
        (zone, start) in moments(),
    ) {
        assert_as_walked(&expression, &zone, start, 60);
    }

    #[test]
    fn the_days_are_those_of_a_walk_by_days(
        mut expression in expressions(false),
        year in 1970..9900_i16,
        month in 1..=12_i8,
    ) {
        (expression.minute, expression.hour) = (vec![Item::One(0)], vec![Item::One(0)]);
        let first = jiff::civil::date(year, month, 1);
        let dates = first.series(jiff::Span::new().days(1)).take(9 * 366);
        let walked: Vec<_> = dates.filter(|&date| expression.matches_date(date)).take(400).collect();
        match Schedule::new(&expression.text(), "UTC") {
            Ok(schedule) => {
                let start = first.to_zoned(TimeZone::UTC).unwrap().timestamp();
                let times = schedule.after(start - SignedDuration::from_secs(1));
                let found: Vec<_> = times.take(walked.len()).map(|time| time.date()).collect();
                prop_assert_eq!(found, walked, "{}", schedule);
            }
            Err(error) => {
                let is_refused = matches!(error, CronError::NoSuchDate { .. });
                prop_assert!(is_refused && walked.is_empty(), "{}", error);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_times_are_those_of_a_walk_by_seconds(
        expression in expressions(true),
        (zone, start) in moments(),
    ) {
        assert_as_walked(&expression, &zone, start, 12);
    }
}
