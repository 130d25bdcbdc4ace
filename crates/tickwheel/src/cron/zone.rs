//! Time zones, given by name or as a value; and the lookup of names.

use std::borrow::ToOwned;
use std::string::{String, ToString};
use std::vec::Vec;

use jiff::fmt::temporal::{DateTimeParser, DateTimePrinter};
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::error::CronError;

/// A time zone: a name or a [`TimeZone`]. Strings and time zones convert into it.
///
/// A name is a case-insensitive name of the IANA database, or a fixed offset such as `+02:00`. It is
/// looked up in the database of the operating system first, then in the one that is built in.
///
/// ```
/// use jiff::tz::TimeZone;
/// use tickwheel::cron::{Schedule, Zone};
/// # use tickwheel::cron::jiff;
///
/// let by_name = Schedule::new("@daily", "Europe/Berlin")?;
/// let by_value = Schedule::new("@daily", TimeZone::get("Europe/Berlin")?)?;
/// assert_eq!(by_name, by_value);
///
/// let error = Schedule::new("@daily", Zone::from("Europa/Berlin")).unwrap_err();
/// assert!(error.to_string().ends_with(r#"did you mean "Europe/Berlin"?"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Zone(Given);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Given {
    Name(String),
    Value(TimeZone),
}

impl Zone {
    pub(super) fn find(self) -> Result<TimeZone, CronError> {
        match self.0 {
            Given::Value(zone) => Ok(zone),
            Given::Name(name) => named(&name).ok_or_else(|| {
                let similar = similar(&name);
                CronError::Zone { name, similar }
            }),
        }
    }
}

fn named(name: &str) -> Option<TimeZone> {
    if name.starts_with(['+', '-']) {
        return DateTimeParser::new().parse_time_zone(name).ok();
    }
    let zone = TimeZone::get(name).or_else(|_| TimeZoneDatabase::bundled().get(name)).ok();
    zone.filter(|zone| !zone.is_unknown())
}

/// Returns the name of a zone, which [`named`] accepts unless the zone has none.
pub(super) fn name_of(zone: &TimeZone) -> String {
    let named = DateTimePrinter::new().time_zone_to_string(zone);
    named.unwrap_or_else(|_| "local time".to_owned())
}

/// Returns the name of a zone that is likely meant by a misspelt one.
fn similar(name: &str) -> Option<String> {
    let wanted: Vec<char> = normal(name);
    let known: Vec<String> =
        TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect();
    let city = known.iter().find(|known| {
        known.rsplit('/').next().is_some_and(|city| known.contains('/') && normal(city) == wanted)
    });
    // Two wrong letters are a typo in a long name, and another name in a short one.
    let max_typos = (wanted.len() / 4).min(2);
    let near = || {
        let distances = known.iter().map(|known| (distance(&wanted, &normal(known)), known));
        distances.min().filter(|&(distance, _)| distance <= max_typos).map(|(_, known)| known)
    };
    city.or_else(near).cloned()
}

/// Returns the name in lower case, with `_` for a space.
fn normal(name: &str) -> Vec<char> {
    name.trim()
        .chars()
        .take(64)
        .map(|c| if c == ' ' { '_' } else { c.to_ascii_lowercase() })
        .collect()
}

/// Returns the Levenshtein distance of two words.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

impl From<&str> for Zone {
    fn from(name: &str) -> Self {
        Self(Given::Name(name.to_owned()))
    }
}

impl From<String> for Zone {
    fn from(name: String) -> Self {
        Self(Given::Name(name))
    }
}

impl From<&String> for Zone {
    fn from(name: &String) -> Self {
        Self(Given::Name(name.clone()))
    }
}

impl From<TimeZone> for Zone {
    fn from(zone: TimeZone) -> Self {
        Self(Given::Value(zone))
    }
}

impl From<&TimeZone> for Zone {
    fn from(zone: &TimeZone) -> Self {
        Self(Given::Value(zone.clone()))
    }
}
