//! Descriptions of schedules in words: in English here, in Chinese in `explain_chinese`.
//!
//! A description has three phrases: the time of day, the days, and the months. Each follows the
//! expression as written, so `MON-FRI` is a range of days and not a list of five.

use std::borrow::ToOwned;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use super::field::{Item, Values};
use super::schedule::Fields;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Up to this many times of day are listed; more are described.
const LISTED_TIMES: usize = 6;
/// Up to this many stretches of hours are written as ranges of time; more as single hours.
pub(super) const LISTED_STRETCHES: usize = 3;

pub(super) fn explain(fields: &Fields) -> String {
    let (time, all_days) = match listed_times(fields) {
        Some(times) => (format!("at {}", list(times, "and")), Some("every day")),
        None => (time_of_day(fields), None),
    };
    let phrases: Vec<String> = [time].into_iter().chain(dates(fields, all_days)).collect();
    capitalised(&phrases.join(" "))
}

/// Returns the times of day, if there are few and each of their fields is a plain list.
pub(super) fn listed_times(fields: &Fields) -> Option<Vec<String>> {
    let [hours, minutes, seconds] = [&fields.hour, &fields.minute, &fields.second].map(|values| {
        let single = |item: &Item| matches!(item, Item::Span { from, to, .. } if from == to);
        let numbers = numbers(values);
        (numbers.len() == 1 || values.items.iter().all(single)).then_some(numbers)
    });
    let (hours, minutes, seconds) = (hours?, minutes?, seconds?);
    if hours.len() * minutes.len() * seconds.len() > LISTED_TIMES {
        return None;
    }
    let mut times = Vec::new();
    for &hour in &hours {
        for &minute in &minutes {
            let clock = clock(hour, minute);
            times.extend(seconds.iter().map(|second| match seconds.as_slice() {
                [0] => clock.clone(),
                _ => format!("{clock}:{second:02}"),
            }));
        }
    }
    Some(times)
}

fn time_of_day(fields: &Fields) -> String {
    let seconds = numbers(&fields.second);
    if seconds == [0] {
        return minutes_and_hours(fields);
    }
    let every_minute = Repeat::of(&fields.minute, 60).is_some_and(Repeat::is_each);
    match Repeat::of(&fields.second, 60) {
        Some(repeat) if every_minute => {
            let hours = stretches(&fields.hour).map(|hours| format!(" {hours}"));
            format!("{}{}", repeat.words("second"), hours.unwrap_or_default())
        }
        Some(repeat) => format!("{}, {}", repeat.words("second"), minutes_and_hours(fields)),
        None => format!("{}, {}", at_numbers("second", &seconds), minutes_and_hours(fields)),
    }
}

fn minutes_and_hours(fields: &Fields) -> String {
    if let Some(times) = listed_times(&Fields { second: Values::one(0), ..fields.clone() }) {
        return format!("at {}", list(times, "and"));
    }
    let minutes = numbers(&fields.minute);
    let hours = Repeat::of(&fields.hour, 24);
    match (minutes.as_slice(), hours) {
        ([0], Some(repeat)) if repeat.is_whole => repeat.words("hour"),
        (&[minute], Some(repeat)) if repeat.is_each() => {
            format!("{} of every hour", at_numbers("minute", &[minute]))
        }
        (&[minute], Some(repeat)) => format!(
            "{} from {} through {}",
            repeat.period("hour"),
            clock(repeat.from, minute),
            clock(repeat.to, minute)
        ),
        _ => {
            let words = match Repeat::of(&fields.minute, 60) {
                Some(repeat) => repeat.words("minute"),
                None => at_numbers("minute", &minutes),
            };
            let every = Repeat::of(&fields.minute, 60).is_some_and(|repeat| repeat.is_whole);
            match stretches(&fields.hour) {
                Some(hours) => format!("{words} {hours}"),
                None if every => words,
                None => format!("{words} of every hour"),
            }
        }
    }
}

/// Numbers at a constant distance.
#[derive(Clone, Copy)]
pub(super) struct Repeat {
    pub(super) from: u8,
    /// The last number.
    pub(super) to: u8,
    pub(super) step: u8,
    /// Whether the distance also holds from the last number to the first of the next round.
    pub(super) is_whole: bool,
}

impl Repeat {
    /// Returns the repetition of a field, if the field is one range with at least two numbers. A
    /// round of the field has the numbers from 0 to `count - 1`.
    pub(super) fn of(values: &Values, count: u8) -> Option<Self> {
        let &[Item::Span { from, to, step }] = values.items.as_slice() else { return None };
        let last = to - (to - from) % step;
        let is_whole = from == 0 && to == count - 1 && count.is_multiple_of(step);
        (last > from).then_some(Self { from, to: last, step, is_whole })
    }

    /// Returns `true` if it has every number of the field.
    pub(super) fn is_each(self) -> bool {
        self.is_whole && self.step == 1
    }

    fn period(self, unit: &str) -> String {
        match self.step {
            1 => format!("every {unit}"),
            step => format!("every {step} {unit}s"),
        }
    }

    fn words(self, unit: &str) -> String {
        let period = self.period(unit);
        if self.is_whole {
            return period;
        }
        format!("{period} from {unit} {} through {}", self.from, self.to)
    }
}

/// Describes the hours; `None` for all hours.
fn stretches(hours: &Values) -> Option<String> {
    if let Some(repeat) = Repeat::of(hours, 24) {
        let stretch = stretch(repeat.from, repeat.to);
        return match repeat.step {
            _ if repeat.is_each() => None,
            1 => Some(stretch),
            step if repeat.is_whole => Some(format!("in every {} hour", ordinal(step))),
            step => Some(format!("in every {} hour {stretch}", ordinal(step))),
        };
    }
    let numbers = numbers(hours);
    let runs: Vec<&[u8]> = numbers.chunk_by(|one, next| one + 1 == *next).collect();
    if runs.len() > LISTED_STRETCHES {
        let hours = numbers.iter().map(ToString::to_string).collect();
        return Some(format!("in the hours {}", list(hours, "and")));
    }
    let runs = runs.iter().map(|run| stretch(run[0], run[run.len() - 1])).collect();
    Some(list(runs, "and"))
}

fn stretch(from: u8, to: u8) -> String {
    format!("from {} through {}", clock(from, 0), clock(to, 59))
}

/// Describes the days and months; `all_days` describes all days.
fn dates(fields: &Fields, all_days: Option<&str>) -> Vec<String> {
    let (month_days, weekdays) = (&fields.day_of_month, &fields.day_of_week);
    let months = (!fields.month.star).then(|| list(items(&fields.month, months), "and"));
    let of =
        |months: &str| format!("on {} of {months}", list(items(month_days, days_of_month), "and"));
    let days = match (month_days.star, weekdays.star) {
        (true, true) => all_days.map(ToOwned::to_owned),
        (false, true) => return Vec::from([of(months.as_deref().unwrap_or("the month"))]),
        (true, false) => Some(format!("on {}", on_weekdays(weekdays, "and"))),
        (false, false) if weekdays.and => {
            Some(format!("{} if it is {}", of("the month"), on_weekdays(weekdays, "or")))
        }
        (false, false) => {
            Some(format!("{} or on {}", of("the month"), on_weekdays(weekdays, "and")))
        }
    };
    days.into_iter().chain(months.map(|months| format!("in {months}"))).collect()
}

fn on_weekdays(weekdays: &Values, word: &str) -> String {
    let days = list(items(weekdays, days_of_week), word);
    let counted = |item: &Item| matches!(item, Item::Nth { .. } | Item::LastOf { .. });
    if weekdays.items.iter().any(counted) { format!("{days} of the month") } else { days }
}

/// Describes the items of a day or month field; `span` describes a range.
fn items(values: &Values, span: impl Fn(u8, u8, u8) -> Vec<String>) -> Vec<String> {
    let one = |text: String| Vec::from([text]);
    let words = values.items.iter().flat_map(|item| match *item {
        Item::Span { from, to, step } => span(from, to, step),
        Item::Last => one("the last day".to_owned()),
        Item::LastWorkday => one("the last workday (Monday to Friday)".to_owned()),
        Item::Workday(day) => {
            one(format!("the workday (Monday to Friday) nearest to the {}", ordinal(day)))
        }
        Item::Nth { weekday, nth } => {
            let nths = ["first", "second", "third", "fourth", "fifth"];
            one(format!("the {} {}", nths[usize::from(nth) - 1], weekday_name(weekday)))
        }
        Item::LastOf { weekday } => one(format!("the last {}", weekday_name(weekday))),
    });
    words.collect()
}

fn days_of_month(from: u8, to: u8, step: u8) -> Vec<String> {
    let day = |day| format!("the {}", ordinal(day));
    Vec::from([match (from, to, step) {
        _ if from == to => day(from),
        (_, _, 1) => format!("{} through {}", day(from), day(to)),
        (1, 31, _) => format!("every {} day", ordinal(step)),
        _ => format!("every {} day from {} through {}", ordinal(step), day(from), day(to)),
    }])
}

fn days_of_week(from: u8, to: u8, step: u8) -> Vec<String> {
    names(from, to, step, weekday_name)
}

fn months(from: u8, to: u8, step: u8) -> Vec<String> {
    names(from, to, step, |month| MONTHS[usize::from(month) - 1])
}

/// Returns the names of numbers, or of a range the names of its ends.
fn names(from: u8, to: u8, step: u8, name: impl Fn(u8) -> &'static str) -> Vec<String> {
    if step == 1 && from < to {
        return Vec::from([format!("{} through {}", name(from), name(to))]);
    }
    (from..=to).step_by(usize::from(step)).map(|number| name(number).to_owned()).collect()
}

fn weekday_name(weekday: u8) -> &'static str {
    WEEKDAYS[usize::from(weekday) % 7]
}

/// Returns the numbers of a field, in order.
pub(super) fn numbers(values: &Values) -> Vec<u8> {
    let bits = values.bits();
    (0..64).filter(|number| bits >> number & 1 == 1).collect()
}

fn at_numbers(unit: &str, numbers: &[u8]) -> String {
    let plural = if numbers.len() == 1 { "" } else { "s" };
    let numbers = numbers.iter().map(ToString::to_string).collect();
    format!("at {unit}{plural} {}", list(numbers, "and"))
}

pub(super) fn clock(hour: u8, minute: u8) -> String {
    format!("{hour:02}:{minute:02}")
}

fn ordinal(number: u8) -> String {
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// `a`, `a and b`, `a, b and c`.
fn list(mut words: Vec<String>, word: &str) -> String {
    match words.pop() {
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} {word} {last}", words.join(", ")),
        None => String::new(),
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
