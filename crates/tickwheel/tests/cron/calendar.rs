//! A plain model of the calendar: it advances in small steps of real time, reads the local time
//! after each step, and compares it with every field. It shares no code with the library, and uses
//! the time zone only to convert an instant to local time.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::HashSet;
use std::fmt::Write;

use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use proptest::prelude::*;
use proptest::sample::select;

/// One item of a field, with its text.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    One(i8),
    Range(i8, i8),
    Steps(i8, i8, i8),
    StarSteps(i8),
    Last,
    LastWorkday,
    Workday(i8),
    Nth(i8, i8),
    LastOf(i8),
}

/// A field: `*` if it has no items.
pub(crate) type Field = Vec<Item>;

#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub(crate) second: Option<Field>,
    pub(crate) minute: Field,
    pub(crate) hour: Field,
    pub(crate) day: Field,
    pub(crate) month: Field,
    pub(crate) weekday: Field,
    /// Whether a day must match both day fields.
    pub(crate) both: bool,
}

impl Expression {
    pub(crate) fn text(&self) -> String {
        let mut text = self.second.iter().map(|field| field_text(field) + " ").collect::<String>();
        for field in [&self.minute, &self.hour, &self.day, &self.month] {
            text += &(field_text(field) + " ");
        }
        if self.both && !self.weekday.is_empty() {
            text.push('+');
        }
        text + &field_text(&self.weekday)
    }

    pub(crate) fn matches(&self, time: DateTime) -> bool {
        let second = self.second.clone().unwrap_or_else(|| vec![Item::One(0)]);
        has(&second, time.second(), 0)
            && has(&self.minute, time.minute(), 0)
            && has(&self.hour, time.hour(), 0)
            && self.matches_date(time.date())
    }

    pub(crate) fn matches_date(&self, date: Date) -> bool {
        if !has(&self.month, date.month(), 1) {
            return false;
        }
        let day = self.day.iter().any(|item| is_day_of_month(item, date));
        let weekday = self.weekday.iter().any(|item| is_weekday(item, date));
        match (self.day.is_empty(), self.weekday.is_empty()) {
            (true, true) => true,
            (true, false) => weekday,
            (false, true) => day,
            (false, false) if self.both => day && weekday,
            (false, false) => day || weekday,
        }
    }

    fn has_all_hours(&self) -> bool {
        (0..24).all(|hour| has(&self.hour, hour, 0))
    }

    /// Returns the times after `start`, up to and including `end`, in a time zone.
    pub(crate) fn walk(&self, zone: &TimeZone, start: Timestamp, end: Timestamp) -> Vec<Zoned> {
        let step = SignedDuration::from_secs(if self.second.is_some() { 1 } else { 60 });
        let seconds = step.as_secs();
        let shown = |time: Timestamp| zone.to_datetime(time);
        // Starts well before `start`, so that the local times before it are known.
        let first = start.as_second().div_euclid(seconds) * seconds - 26 * 3600;
        let mut time = Timestamp::from_second(first).unwrap();
        let mut seen: HashSet<DateTime> = HashSet::new();
        let mut last = shown(time) - step;
        let mut times = Vec::new();
        while time <= end {
            let clock = shown(time);
            let due = if self.has_all_hours() {
                self.matches(clock)
            } else {
                let mut skipped = last + step;
                let mut any_skipped = false;
                while skipped < clock {
                    any_skipped |= self.matches(skipped);
                    skipped += step;
                }
                any_skipped || (self.matches(clock) && !seen.contains(&clock))
            };
            if due && time > start {
                times.push(time.to_zoned(zone.clone()));
            }
            seen.insert(clock);
            last = clock;
            time += step;
        }
        times
    }
}

fn field_text(field: &Field) -> String {
    let items: Vec<String> = field.iter().map(item_text).collect();
    if items.is_empty() { "*".into() } else { items.join(",") }
}

fn item_text(item: &Item) -> String {
    let mut text = String::new();
    match item {
        Item::One(number) => write!(text, "{number}"),
        Item::Range(from, to) => write!(text, "{from}-{to}"),
        Item::Steps(from, to, step) => write!(text, "{from}-{to}/{step}"),
        Item::StarSteps(step) => write!(text, "*/{step}"),
        Item::Last => write!(text, "L"),
        Item::LastWorkday => write!(text, "LW"),
        Item::Workday(day) => write!(text, "{day}W"),
        Item::Nth(weekday, nth) => write!(text, "{weekday}#{nth}"),
        Item::LastOf(weekday) => write!(text, "{weekday}L"),
    }
    .unwrap();
    text
}

/// Returns `true` if the plain items of a field that begins at `first` contain a number.
fn has(field: &Field, number: i8, first: i8) -> bool {
    field.is_empty() || field.iter().any(|item| is_number(item, number, first))
}

fn is_number(item: &Item, number: i8, first: i8) -> bool {
    match *item {
        Item::One(one) => one == number,
        Item::Range(from, to) => (from..=to).contains(&number),
        Item::Steps(from, to, step) => (from..=to).contains(&number) && (number - from) % step == 0,
        Item::StarSteps(step) => (number - first) % step == 0,
        _ => false,
    }
}

fn is_day_of_month(item: &Item, date: Date) -> bool {
    let length = date.days_in_month();
    match *item {
        Item::Last => date.day() == length,
        Item::LastWorkday => nearest_workday(date, length) == date.day(),
        Item::Workday(day) => day <= length && nearest_workday(date, day) == date.day(),
        ref plain => is_number(plain, date.day(), 1),
    }
}

/// Returns the weekday nearest to a day, in the month of a date.
fn nearest_workday(date: Date, day: i8) -> i8 {
    let is_workday = |day: i8| {
        let weekday = date.with().day(day).build().map(Date::weekday);
        !matches!(weekday, Err(_) | Ok(Weekday::Saturday | Weekday::Sunday))
    };
    // The Friday before a Saturday is nearer than the Monday after it, and so on.
    [0, -1, 1, -2, 2].into_iter().map(|away| day + away).find(|&day| is_workday(day)).unwrap()
}

fn is_weekday(item: &Item, date: Date) -> bool {
    let is = |weekday: i8| date.weekday().to_sunday_zero_offset() == weekday % 7;
    match *item {
        Item::Nth(weekday, nth) => is(weekday) && (date.day() - 1) / 7 + 1 == nth,
        Item::LastOf(weekday) => is(weekday) && date.day() + 7 > date.days_in_month(),
        Item::One(weekday) => is(weekday),
        // Ranges contain numbers, and Sunday has two numbers.
        Item::StarSteps(_) => is_number(item, date.weekday().to_sunday_zero_offset(), 0),
        ref plain => {
            let number = date.weekday().to_sunday_zero_offset();
            is_number(plain, number, 0) || (number == 0 && is_number(plain, 7, 0))
        }
    }
}

/// Plain items of a field with numbers from `first` to `last`, and `count` of them.
fn plain(first: i8, last: i8, count: i8) -> impl Strategy<Value = Item> {
    let pair = (first..=last, first..=last).prop_map(|(a, b)| (a.min(b), a.max(b)));
    prop_oneof![
        4 => (first..=last).prop_map(Item::One),
        2 => pair.clone().prop_map(|(from, to)| Item::Range(from, to)),
        1 => (pair, 1..=count).prop_map(|((from, to), step)| Item::Steps(from, to, step)),
        2 => (1..=count).prop_map(Item::StarSteps),
    ]
}

/// `*` in `stars` of ten cases, or a list.
fn field(stars: u32, item: impl Strategy<Value = Item> + 'static) -> impl Strategy<Value = Field> {
    prop_oneof![
        stars => Just(Vec::new()),
        10 - stars => prop::collection::vec(item, 1..4),
    ]
}

/// Expressions of all kinds; with a field for seconds if asked for.
pub(crate) fn expressions(with_seconds: bool) -> impl Strategy<Value = Expression> {
    let day = prop_oneof![
        6 => plain(1, 31, 31),
        1 => select(vec![Item::Last, Item::LastWorkday]),
        1 => (1..=31_i8).prop_map(Item::Workday),
    ];
    let weekday = prop_oneof![
        6 => plain(0, 7, 7),
        1 => (0..=7_i8, 1..=5_i8).prop_map(|(weekday, nth)| Item::Nth(weekday, nth)),
        1 => (0..=7_i8).prop_map(Item::LastOf),
    ];
    let days = field(5, day).prop_filter("L and LW do not go together", |days| {
        !(days.iter().any(|item| matches!(item, Item::Last))
            && days.iter().any(|item| matches!(item, Item::LastWorkday)))
    });
    let second = field(3, plain(0, 59, 60));
    (
        second,
        field(3, plain(0, 59, 60)),
        field(4, plain(0, 23, 24)),
        days,
        field(7, plain(1, 12, 12)),
        field(6, weekday),
        any::<bool>(),
    )
        .prop_map(move |(second, minute, hour, day, month, weekday, both)| Expression {
            second: with_seconds.then_some(second),
            minute,
            hour,
            day,
            month,
            weekday,
            both,
        })
}
