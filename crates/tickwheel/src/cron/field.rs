//! One field of an expression: its values and its parser.
//!
//! `croner` decides when a schedule is due. This parser reads the same text first, for two things
//! that `croner` does not do: exact errors, and the items as written, which
//! [`explain`](super::Schedule::explain) needs. It is a little stricter than `croner`: every
//! expression that it accepts has the same meaning there.

use core::fmt::{self, Write};
use core::ops::{Range, RangeInclusive};
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::error::Problem;

/// A field of a cron expression.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Field {
    /// From 0 to 59: the first of six fields. In an expression of five fields it is 0.
    Second,
    /// From 0 to 59.
    Minute,
    /// From 0 to 23.
    Hour,
    /// From 1 to 31; `L` is the last day, `LW` the last workday (Monday to Friday), and `15W` the
    /// workday nearest to the 15th in the same month.
    DayOfMonth,
    /// From 1 to 12, or `JAN` to `DEC`.
    Month,
    /// From 0 to 7, or `SUN` to `SAT`; both 0 and 7 are Sunday. `FRI#2` is the second Friday of
    /// the month, and `FRI#L` or `FRIL` the last one.
    DayOfWeek,
}

impl Field {
    /// Returns the numbers that the field accepts.
    ///
    /// ```
    /// use tickwheel::cron::Field;
    ///
    /// assert_eq!(Field::DayOfWeek.range(), 0..=7); // both 0 and 7 are Sunday
    /// ```
    pub fn range(self) -> RangeInclusive<u8> {
        match self {
            Self::Second | Self::Minute => 0..=59,
            Self::Hour => 0..=23,
            Self::DayOfMonth => 1..=31,
            Self::Month => 1..=12,
            Self::DayOfWeek => 0..=7,
        }
    }

    /// Returns the numbers that `*` stands for, with Sunday once.
    fn all(self) -> RangeInclusive<u8> {
        if self == Self::DayOfWeek { 0..=6 } else { self.range() }
    }

    /// Returns the names of the numbers, beginning with the first.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Month => &MONTHS,
            Self::DayOfWeek => &WEEKDAYS,
            _ => &[],
        }
    }

    fn number_of(self, name: &str) -> Option<u8> {
        let position = self.names().iter().position(|known| known.eq_ignore_ascii_case(name))?;
        Some(*self.range().start() + position as u8)
    }

    /// Describes what the field accepts, for an error.
    pub(super) fn takes(self) -> &'static str {
        match self {
            Self::Second | Self::Minute => "0 to 59",
            Self::Hour => "0 to 23",
            Self::DayOfMonth => "1 to 31, L, LW, or a day and W as in 15W",
            Self::Month => "1 to 12 or JAN to DEC",
            Self::DayOfWeek => {
                "0 to 7 or SUN to SAT (0 and 7 are Sunday), also as in FRI#2 or FRIL"
            }
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day of month",
            Self::Month => "month",
            Self::DayOfWeek => "day of week",
        })
    }
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// One item of a field's list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Item {
    /// A range, perhaps in steps; or a single number, with both ends equal.
    Span { from: u8, to: u8, step: u8 },
    /// The last day of the month.
    Last,
    /// The last workday (Monday to Friday) of the month.
    LastWorkday,
    /// The workday nearest to this day of the month.
    Workday(u8),
    /// The nth occurrence of a weekday in the month.
    Nth { weekday: u8, nth: u8 },
    /// The last occurrence of a weekday in the month.
    LastOf { weekday: u8 },
}

/// The parsed values of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Values {
    pub(super) items: Vec<Item>,
    /// Whether the field is `*` or `?`, and so unrestricted.
    pub(super) star: bool,
    /// Whether it starts with `+`: a day must match both day fields.
    pub(super) and: bool,
}

/// The bytes of a field that are wrong, and why.
pub(super) type Wrong = (Range<usize>, Problem);

impl Values {
    pub(super) fn all(field: Field) -> Self {
        let (from, to) = field.all().into_inner();
        Self { items: vec![Item::Span { from, to, step: 1 }], star: true, and: false }
    }

    /// Returns the values of a field with a single number.
    pub(super) fn one(number: u8) -> Self {
        let item = Item::Span { from: number, to: number, step: 1 };
        Self { items: vec![item], star: false, and: false }
    }

    pub(super) fn read(field: Field, text: &str) -> Result<Self, Wrong> {
        let days = matches!(field, Field::DayOfMonth | Field::DayOfWeek);
        if text == "*" || (text == "?" && days) {
            return Ok(Self::all(field));
        }
        let and = field == Field::DayOfWeek && text.starts_with('+');
        let mut items = Vec::new();
        let mut start = usize::from(and);
        for part in text[start..].split(',') {
            let end = start + part.len();
            let item = read_item(field, part)
                .map_err(|(at, problem)| (start + at.start..start + at.end, problem))?;
            items.push(item);
            start = end + 1;
        }
        if items.contains(&Item::Last) && items.contains(&Item::LastWorkday) {
            return Err((0..text.len(), Problem::LastTwice));
        }
        Ok(Self { items, star: false, and })
    }

    /// Returns the numbers as bits. Items that depend on the month have no bit.
    pub(super) fn bits(&self) -> u64 {
        let mut bits = 0;
        for item in &self.items {
            if let Item::Span { from, to, step } = *item {
                (from..=to).step_by(usize::from(step)).for_each(|number| bits |= 1 << number);
            }
        }
        bits
    }

    /// Writes the field for `croner`: with numbers instead of names, and with Sunday as 0 where
    /// `croner` does not accept 7.
    pub(super) fn to_croner(&self) -> String {
        if self.star {
            return String::from("*");
        }
        let mut text = String::from(if self.and { "+" } else { "" });
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            let written = match *item {
                Item::Span { from, to, step: 1 } if from == to => write!(text, "{from}"),
                Item::Span { from, to, step } => write!(text, "{from}-{to}/{step}"),
                Item::Last => write!(text, "L"),
                Item::LastWorkday => write!(text, "LW"),
                Item::Workday(day) => write!(text, "{day}W"),
                Item::Nth { weekday, nth } => write!(text, "{}#{nth}", weekday % 7),
                Item::LastOf { weekday } => write!(text, "{}#L", weekday % 7),
            };
            written.expect("writing to a string does not fail");
        }
        text
    }
}

fn read_item(field: Field, part: &str) -> Result<Item, Wrong> {
    let whole = 0..part.len();
    if part.is_empty() {
        return Err((whole, Problem::Empty));
    }
    if let Some(slash) = part.find('/') {
        return read_steps(field, part, slash);
    }
    match field {
        _ if part == "*" => Err((whole, Problem::Star)),
        Field::DayOfMonth => read_day_of_month(part),
        Field::DayOfWeek => read_day_of_week(part),
        _ => read_span(field, part),
    }
}

/// Parses a range or `*` with a step.
fn read_steps(field: Field, part: &str, slash: usize) -> Result<Item, Wrong> {
    let (base, step) = (&part[..slash], &part[slash + 1..]);
    let (from, to) = match base {
        "*" => field.all().into_inner(),
        "" => return Err((0..part.len(), Problem::StepOfNothing)),
        _ => match read_span(field, base)? {
            Item::Span { from, to, .. } if base.contains('-') => (from, to),
            _ => return Err((0..part.len(), Problem::StepOfOne)),
        },
    };
    let at = slash + 1..part.len();
    // A larger step would mislead: `*/90` cannot mean every 90 minutes.
    let largest = field.all().count() as u8;
    match digits(step) {
        Some(step) if (1..=u32::from(largest)).contains(&step) => {
            Ok(Item::Span { from, to, step: step as u8 })
        }
        _ if step.is_empty() => Err((0..part.len(), Problem::Step { largest })),
        _ => Err((at, Problem::Step { largest })),
    }
}

fn read_day_of_month(part: &str) -> Result<Item, Wrong> {
    let field = Field::DayOfMonth;
    if part.eq_ignore_ascii_case("L") {
        return Ok(Item::Last);
    }
    if part.eq_ignore_ascii_case("LW") {
        return Ok(Item::LastWorkday);
    }
    match part.strip_suffix(['W', 'w']) {
        Some(day) => Ok(Item::Workday(read_number(field, day, 0)?)),
        None => read_span(field, part),
    }
}

fn read_day_of_week(part: &str) -> Result<Item, Wrong> {
    let field = Field::DayOfWeek;
    if let Some((weekday, nth)) = part.split_once('#') {
        let at = weekday.len() + 1..part.len();
        let weekday = read_number(field, weekday, 0)?;
        return match digits(nth) {
            Some(nth @ 1..=5) => Ok(Item::Nth { weekday, nth: nth as u8 }),
            None if nth.eq_ignore_ascii_case("L") => Ok(Item::LastOf { weekday }),
            _ if nth.is_empty() => Err((0..part.len(), Problem::Nth)),
            _ => Err((at, Problem::Nth)),
        };
    }
    match part.strip_suffix(['L', 'l']) {
        Some("") => Err((0..part.len(), Problem::LastOfNothing)),
        Some(weekday) => Ok(Item::LastOf { weekday: read_number(field, weekday, 0)? }),
        None => read_span(field, part),
    }
}

/// Parses a number or a range.
fn read_span(field: Field, text: &str) -> Result<Item, Wrong> {
    let Some((from, to)) = text.split_once('-') else {
        let number = read_number(field, text, 0)?;
        return Ok(Item::Span { from: number, to: number, step: 1 });
    };
    if from.is_empty() || to.is_empty() {
        return Err((0..text.len(), Problem::OpenRange));
    }
    let first = read_number(field, from, 0)?;
    let mut last = read_number(field, to, from.len() + 1)?;
    if field == Field::DayOfWeek && last == 0 && first > 0 {
        // A week may end on Sunday.
        last = 7;
    }
    if first > last {
        return Err((0..text.len(), Problem::Backwards));
    }
    Ok(Item::Span { from: first, to: last, step: 1 })
}

/// Parses a number or a name that begins at byte `start` of its item.
fn read_number(field: Field, text: &str, start: usize) -> Result<u8, Wrong> {
    let at = start..start + text.len();
    match digits(text) {
        Some(number) => u8::try_from(number)
            .ok()
            .filter(|number| field.range().contains(number))
            .ok_or((at, Problem::OutOfRange)),
        None => field.number_of(text).ok_or((at, Problem::NotAValue)),
    }
}

/// Parses decimal digits and nothing else. A number that is too large becomes `u32::MAX`.
fn digits(text: &str) -> Option<u32> {
    let all_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| text.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn croner(field: Field, text: &str) -> String {
        Values::read(field, text).unwrap().to_croner()
    }

    #[test]
    fn what_was_read_is_handed_on_in_numbers() {
        assert_eq!(croner(Field::Minute, "*"), "*");
        assert_eq!(croner(Field::Minute, "*/15"), "0-59/15");
        assert_eq!(croner(Field::Minute, "007,10-20/5"), "7,10-20/5");
        assert_eq!(croner(Field::Month, "jan,Mar-DEC"), "1,3-12/1");
        assert_eq!(croner(Field::DayOfMonth, "?"), "*");
        assert_eq!(croner(Field::DayOfMonth, "l,15w"), "L,15W");
        assert_eq!(croner(Field::DayOfWeek, "FRI-SUN"), "5-7/1");
        assert_eq!(croner(Field::DayOfWeek, "*/2"), "0-6/2");
        assert_eq!(croner(Field::DayOfWeek, "+SUN#1,7L,fri#l"), "+0#1,0#L,5#L");
    }

    #[test]
    fn a_week_ends_on_sunday_and_begins_with_it() {
        assert_eq!(Values::read(Field::DayOfWeek, "SAT-SUN").unwrap().bits(), 0b1100_0000);
        assert_eq!(Values::read(Field::DayOfWeek, "SUN-MON").unwrap().bits(), 0b11);
        assert_eq!(Values::read(Field::DayOfWeek, "0-0").unwrap().bits(), 1);
    }

    #[test]
    fn what_is_wrong_is_found_where_it_is() {
        let wrong = |field, text| Values::read(field, text).unwrap_err();
        assert_eq!(wrong(Field::Hour, "9,25"), (2..4, Problem::OutOfRange));
        assert_eq!(wrong(Field::Hour, "9-24/2"), (2..4, Problem::OutOfRange));
        assert_eq!(wrong(Field::Hour, "17-9"), (0..4, Problem::Backwards));
        assert_eq!(wrong(Field::Hour, "9-"), (0..2, Problem::OpenRange));
        assert_eq!(wrong(Field::Hour, "1-2-3"), (2..5, Problem::NotAValue));
        assert_eq!(wrong(Field::Hour, "9,,10"), (2..2, Problem::Empty));
        assert_eq!(wrong(Field::Hour, "9,*"), (2..3, Problem::Star));
        assert_eq!(wrong(Field::Hour, "?"), (0..1, Problem::NotAValue));
        assert_eq!(wrong(Field::Hour, "*/0"), (2..3, Problem::Step { largest: 24 }));
        assert_eq!(wrong(Field::Hour, "*/25"), (2..4, Problem::Step { largest: 24 }));
        assert_eq!(wrong(Field::Hour, "*/"), (0..2, Problem::Step { largest: 24 }));
        assert_eq!(wrong(Field::Hour, "/5"), (0..2, Problem::StepOfNothing));
        assert_eq!(wrong(Field::Hour, "0/5"), (0..3, Problem::StepOfOne));
        assert_eq!(wrong(Field::Hour, "MON"), (0..3, Problem::NotAValue));
        assert_eq!(wrong(Field::Hour, "+9"), (0..2, Problem::NotAValue));
        assert_eq!(wrong(Field::Hour, "99999999999999"), (0..14, Problem::OutOfRange));
        assert_eq!(wrong(Field::DayOfMonth, "L,LW"), (0..4, Problem::LastTwice));
        assert_eq!(wrong(Field::DayOfMonth, "32W"), (0..2, Problem::OutOfRange));
        assert_eq!(wrong(Field::DayOfWeek, "L"), (0..1, Problem::LastOfNothing));
        assert_eq!(wrong(Field::DayOfWeek, "+1,FRI#6"), (7..8, Problem::Nth));
        assert_eq!(wrong(Field::DayOfWeek, "MONDAY"), (0..6, Problem::NotAValue));
        assert_eq!(wrong(Field::DayOfWeek, "FRI-MON"), (0..7, Problem::Backwards));
    }
}
