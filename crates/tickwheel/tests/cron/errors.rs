//! Errors in an expression or a time zone name the place, the value and what to write instead. No
//! input causes a panic.

use crate::calendar::expressions;
use proptest::prelude::*;
use tickwheel::cron::{CronError, Field, Problem, Schedule};

fn error(expression: &str) -> CronError {
    Schedule::new(expression, "Europe/Berlin").unwrap_err()
}

/// Returns the text of an error, with its lines as they are printed.
fn said(expression: &str) -> Vec<String> {
    error(expression).to_string().lines().map(str::to_owned).collect()
}

#[test]
fn the_field_is_shown_with_its_name_its_value_and_its_range() {
    assert_eq!(
        said("0 25 * * MON-FRI"),
        [
            "the hour field cannot have \"25\": the number is out of range; it takes 0 to 23",
            "  0 25 * * MON-FRI",
            "    ^^"
        ]
    );
    assert_eq!(
        said("0 9-17,25 * * *"),
        [
            "the hour field cannot have \"25\": the number is out of range; it takes 0 to 23",
            "  0 9-17,25 * * *",
            "    ~~~~~^^"
        ]
    );
    assert_eq!(
        said("*/15 60 9 * * *"),
        [
            "the minute field cannot have \"60\": the number is out of range; it takes 0 to 59",
            "  */15 60 9 * * *",
            "       ^^"
        ]
    );
    assert_eq!(
        said("0 9 * Jam *"),
        [
            "the month field cannot have \"Jam\": that is neither a number nor a name; \
             it takes 1 to 12 or JAN to DEC",
            "  0 9 * Jam *",
            "        ^^^"
        ]
    );
    assert_eq!(
        said("0 9 * * FRI-MON"),
        [
            "the day of week field cannot have \"FRI-MON\": the range ends before it starts: \
             write its two parts as a list; it takes 0 to 7 or SUN to SAT (0 and 7 are Sunday), \
             also as in FRI#2 or FRIL",
            "  0 9 * * FRI-MON",
            "          ^^^^^^^"
        ]
    );
}

#[test]
fn the_range_of_a_field_is_not_said_of_other_numbers() {
    assert_eq!(
        said("*/0 * * * *"),
        [
            "the minute field cannot have \"0\": the step must be a number from 1 to 60",
            "  */0 * * * *",
            "  ~~^"
        ]
    );
    assert_eq!(
        said("0 9 * * FRI#6"),
        [
            "the day of week field cannot have \"6\": # must be followed by a number from 1 to 5 or L",
            "  0 9 * * FRI#6",
            "          ~~~~^"
        ]
    );
}

#[test]
fn each_field_has_its_own_name_and_limits() {
    for (expression, expected, value) in [
        ("60 * * * * *", Field::Second, "60"),
        ("0 60 * * * *", Field::Minute, "60"),
        ("0 0 24 * * *", Field::Hour, "24"),
        ("0 0 0 0 * *", Field::DayOfMonth, "0"),
        ("0 0 0 32 * *", Field::DayOfMonth, "32"),
        ("0 0 0 * 13 *", Field::Month, "13"),
        ("0 0 0 * 0 *", Field::Month, "0"),
        ("0 0 0 * * 8", Field::DayOfWeek, "8"),
    ] {
        let CronError::Field { field, value: found, problem, span, value_span, .. } =
            error(expression)
        else {
            panic!("{expression} is wrong in another way");
        };
        assert_eq!((field, found.as_str(), problem), (expected, value, Problem::OutOfRange));
        assert_eq!(&expression[span], value);
        assert_eq!(&expression[value_span], value);
    }
}

#[test]
fn the_marks_stay_beneath_what_they_mark() {
    // Blanks of all kinds, letters of several bytes, and a mark where there is nothing.
    let lines = said("\t0  9,é\n* * *");
    assert_eq!(lines[1..], ["   0  9,é * * *", "      ~~^"].map(str::to_owned));
    let lines = said("0 9,, * * *");
    assert_eq!(lines[1..], ["  0 9,, * * *", "    ~~^"].map(str::to_owned));
    let lines = said("0 9, * * *");
    assert_eq!(lines[1..], ["  0 9, * * *", "    ~~^"].map(str::to_owned));
}

#[test]
fn the_number_of_fields_is_five_or_six() {
    for (expression, count) in
        [("", 0), (" \n ", 0), ("0", 1), ("0 9 * *", 4), ("* * * * * * *", 7)]
    {
        let error = error(expression);
        let expected = CronError::FieldCount { expression: expression.into(), found: count };
        assert_eq!(error, expected);
        assert!(error.to_string().contains("5 fields (minute, hour, day of month"), "{error}");
    }
    assert_eq!(said("0 9 * *")[1..], ["  0 9 * *", "         ^"].map(str::to_owned));
}

#[test]
fn nicknames_are_those_that_are_known() {
    for (nickname, meant) in [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        (" @Daily ", "0 0 * * *"),
    ] {
        let schedule = Schedule::new(nickname, "Europe/Berlin").unwrap();
        let meant = Schedule::new(meant, "Europe/Berlin").unwrap();
        assert_eq!(schedule.next(50), meant.next(50), "{nickname}");
        assert_eq!(schedule.explain(), meant.explain());
        assert_eq!(schedule.expression(), nickname.trim());
    }
    for unknown in ["@", "@reboot", "@every 5m", "@daily 9"] {
        let error = error(unknown);
        assert!(matches!(error, CronError::Nickname { .. }));
        assert!(error.to_string().contains("use @hourly, @daily"), "{error}");
    }
}

#[test]
fn a_date_that_never_comes_is_shown() {
    assert_eq!(
        said("0 0 30 2 *"),
        ["no date ever matches these days and months", "  0 0 30 2 *", "      ^^^^^^"]
    );
}

#[test]
fn a_time_zone_that_is_not_known_is_named_with_one_that_is() {
    let said = |zone: &str| Schedule::new("@daily", zone).unwrap_err().to_string();
    let looks = "names look like \"Europe/Berlin\" or \"UTC\", and fixed offsets like \"+02:00\"";
    assert_eq!(said("Mars/Olympus"), format!("there is no time zone \"Mars/Olympus\": {looks}"));
    for (zone, meant) in [
        ("Berlin", "Europe/Berlin"),
        ("Europe/Berlim", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("America/New York", "America/New_York"),
    ] {
        let expected =
            format!("there is no time zone {zone:?}: {looks}; did you mean \"{meant}\"?");
        assert_eq!(said(zone), expected);
    }
    for zone in ["", " ", "UTC+2", "+25:99", "../../etc/passwd", "Etc/Unknown", "\0", "é"] {
        assert!(said(zone).contains(looks), "{zone:?}");
    }
    assert!(said(&"x".repeat(100_000)).contains(looks));
}

#[test]
fn a_schedule_as_text_is_read_back() {
    for text in [
        "0 9 * * MON-FRI",
        "CRON_TZ=Europe/Berlin 0 9 * * MON-FRI",
        "CRON_TZ=-03:30 */10 * * * * *",
        "@daily",
    ] {
        let schedule: Schedule = text.parse().unwrap();
        assert_eq!(schedule.to_string(), text);
    }
    let short: Schedule = "  TZ=Asia/Tokyo   @daily ".parse().unwrap();
    assert_eq!(short.to_string(), "CRON_TZ=Asia/Tokyo @daily");
    let error = "CRON_TZ=Europe/Berlin".parse::<Schedule>().unwrap_err();
    assert!(matches!(error, CronError::FieldCount { found: 0, .. }));
    let error = "TZ=Nowhere @daily".parse::<Schedule>().unwrap_err();
    assert!(matches!(error, CronError::Zone { .. }));
}

/// Generates text that is nearly an expression.
fn nearly() -> impl Strategy<Value = String> {
    let letters = r"[0-9*/,#?LW+@a-zA-Z -]{0,40}";
    let word = prop_oneof![
        "[0-9]{1,3}",
        "[0-9]{1,2}-[0-9]{1,2}(/[0-9]{1,2})?",
        r"\*(/[0-9]{0,3})?",
        "(SUN|mon|TUE|JAN|dec|L|W|LW|15W|FRI#[0-9]|5L|\\?|\\+1|é|,)",
    ];
    let words = prop::collection::vec(prop::collection::vec(word, 1..3), 0..8).prop_map(|fields| {
        fields.into_iter().map(|items| items.join(",")).collect::<Vec<_>>().join(" ")
    });
    prop_oneof![letters, words, any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn nothing_that_is_written_can_do_harm(text in nearly()) {
        match Schedule::new(&text, "Europe/Berlin") {
            Ok(schedule) => {
                let next = schedule.next(3);
                prop_assert!(next.is_sorted_by(|one, other| one < other));
                prop_assert_eq!(next.len(), 3);
                prop_assert!(schedule.explain().ends_with(", Europe/Berlin"));
                prop_assert_eq!(schedule.to_string().parse::<Schedule>().unwrap(), schedule);
            }
            Err(error) => {
                let said = error.to_string();
                prop_assert!(!said.is_empty());
                if let CronError::Field { expression, span, value_span, value, .. } = error {
                    prop_assert_eq!(&expression, &text);
                    prop_assert_eq!(&text[value_span.clone()], value);
                    prop_assert!(span.start <= value_span.start && value_span.end <= span.end);
                    prop_assert_eq!(said.lines().count(), 3);
                }
            }
        }
        let _ = text.parse::<Schedule>();
        let _ = Schedule::new("@daily", text);
    }
}

proptest! {
    #[test]
    fn what_is_well_formed_is_taken(expression in expressions(true)) {
        match Schedule::new(&expression.text(), "UTC") {
            Ok(schedule) => prop_assert!(schedule.explain().ends_with(", UTC")),
            Err(error) => prop_assert!(matches!(error, CronError::NoSuchDate { .. }), "{error}"),
        }
    }
}
