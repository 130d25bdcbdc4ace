//! Points in time, as JSON writes them: RFC 3339 text in UTC with milliseconds, or a number of
//! milliseconds since 1970.
//!
//! The calendar is the proleptic Gregorian one, from 1970 to the end of 9999, as in the queue.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const DAY_MILLIS: u64 = 86_400_000;

/// A point in time: RFC 3339 text, or milliseconds since 1970.
///
/// ```
/// use tickwheel_api::Timestamp;
///
/// let text: Timestamp = serde_json::from_str(r#""2026-01-02T03:04:05.678+01:00""#)?;
/// let number: Timestamp = serde_json::from_str("1767319445678")?;
/// assert_eq!(text, number);
/// assert_eq!(text.to_string(), "2026-01-02T02:04:05.678Z");
/// assert!("tomorrow".parse::<Timestamp>().is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The last millisecond of the year 9999.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// Returns the time that many milliseconds after 1970 began, at most [`Timestamp::MAX`].
    pub const fn from_millis(millis: u64) -> Self {
        if millis > Self::MAX.0 { Self::MAX } else { Self(millis) }
    }

    /// Returns the milliseconds since 1970 began.
    pub const fn as_millis(self) -> u64 {
        self.0
    }
}

impl From<SystemTime> for Timestamp {
    /// Rounds up to a millisecond. A time before 1970 becomes the beginning of 1970.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self::from_millis(u64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

/// Returns the text that answers use for a time in milliseconds since 1970.
///
/// ```
/// use tickwheel_api::rfc3339;
/// assert_eq!(rfc3339(1_767_319_445_678), "2026-01-02T02:04:05.678Z");
/// ```
pub fn rfc3339(millis: u64) -> String {
    Timestamp::from_millis(millis).to_string()
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.text()).map_err(|_| fmt::Error)?)
    }
}

impl Timestamp {
    /// Writes digit by digit: every answer contains times, and `format!` takes many times as long.
    fn text(self) -> [u8; 24] {
        let millis = self.0;
        let (year, month, day) = date_of(millis / DAY_MILLIS);
        let of_day = millis % DAY_MILLIS;
        let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
        let (second, milli) = (of_day / 1_000 % 60, of_day % 1_000);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let parts = [
            (year, 0..4),
            (month, 5..7),
            (day, 8..10),
            (hour, 11..13),
            (minute, 14..16),
            (second, 17..19),
            (milli, 20..23),
        ];
        for (mut value, places) in parts {
            for place in places.rev() {
                text[place] = b'0' + (value % 10) as u8;
                value /= 10;
            }
        }
        text
    }
}

/// Returns year, month and day of a day since 1970. Counts in eras of 400 years, which all have the
/// same number of days, with years that begin in March, so that a leap day ends its year.
fn date_of(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + later, month, day)
}

/// Returns the day of a date since 1970; negative before it.
fn day_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The error for text that is not a point in time.
///
/// ```
/// use tickwheel_api::Timestamp;
/// let error = "2026-13-01T00:00:00Z".parse::<Timestamp>().unwrap_err();
/// assert!(error.to_string().contains("2026-13-01T00:00:00Z"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseTimeError(String);

impl fmt::Display for ParseTimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a time: write RFC 3339 like \"2026-01-02T03:04:05.678Z\", or milliseconds \
             since 1970, up to the end of 9999",
            self.0
        )
    }
}

impl std::error::Error for ParseTimeError {}

impl FromStr for Timestamp {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, ParseTimeError> {
        let wrong = || ParseTimeError(text.chars().take(64).collect());
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let millis = text.parse().map_err(|_| wrong())?;
            return in_range(millis).ok_or_else(wrong);
        }
        parse(text.as_bytes()).and_then(in_range).ok_or_else(wrong)
    }
}

fn in_range(millis: u64) -> Option<Timestamp> {
    (millis <= Timestamp::MAX.0).then_some(Timestamp(millis))
}

/// Reads RFC 3339 strictly. Fractions of a millisecond are rounded up, so that nothing is early.
fn parse(text: &[u8]) -> Option<u64> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits.iter().all(u8::is_ascii_digit).then_some(())?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    };
    let is = |place: usize, allowed: &[u8]| text.get(place).is_some_and(|it| allowed.contains(it));
    if !(is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":")) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return None;
    }
    // A leap second counts as the second that follows it, as in POSIX time.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut place = 19;
    let mut millis = 0;
    if is(place, b".") {
        let digits = text[place + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let fraction = &text[place + 1..place + 1 + digits];
        if digits == 0 {
            return None;
        }
        for index in 0..3 {
            millis = millis * 10 + fraction.get(index).map_or(0, |digit| i64::from(digit - b'0'));
        }
        millis += i64::from(fraction.iter().skip(3).any(|&digit| digit != b'0'));
        place += 1 + digits;
    }
    let offset = if is(place, b"Zz") && text.len() == place + 1 {
        0
    } else if is(place, b"+-") && is(place + 3, b":") && text.len() == place + 6 {
        let (hours, minutes) = (number(place + 1, place + 3)?, number(place + 4, place + 6)?);
        if hours > 23 || minutes > 59 {
            return None;
        }
        let minutes = hours * 60 + minutes;
        if text[place] == b'-' { -minutes } else { minutes }
    } else {
        return None;
    };
    let minutes = day_of(year, month, day) * 1_440 + hour * 60 + minute - offset;
    u64::try_from((minutes * 60 + second) * 1_000 + millis).ok()
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = Timestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a time: RFC 3339 text or milliseconds since 1970, up to the end of 9999",
                )
            }

            fn visit_u64<E: serde::de::Error>(self, millis: u64) -> Result<Timestamp, E> {
                in_range(millis)
                    .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(millis), &self))
            }

            fn visit_i64<E: serde::de::Error>(self, millis: i64) -> Result<Timestamp, E> {
                match u64::try_from(millis) {
                    Ok(whole) => self.visit_u64(whole),
                    Err(_) => Err(E::invalid_value(Unexpected::Signed(millis), &self)),
                }
            }

            fn visit_f64<E: serde::de::Error>(self, millis: f64) -> Result<Timestamp, E> {
                match super::whole(millis) {
                    Some(whole) => self.visit_u64(whole),
                    None => Err(E::invalid_value(Unexpected::Float(millis), &self)),
                }
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Timestamp, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Timestamp {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::schema::{KnownFormat, SchemaFormat};
        use utoipa::openapi::{ObjectBuilder, OneOfBuilder, Type};
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
        let number = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0))
            .maximum(Some(Self::MAX.0 as f64));
        OneOfBuilder::new()
            .item(text)
            .item(number)
            .description(Some("RFC 3339 text, or milliseconds since 1970"))
            .examples(["2026-01-02T03:04:05.678Z".into(), serde_json::json!(1_767_323_045_678_u64)])
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Timestamp {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_has_its_date_and_back() {
        let mut before = (1969_u64, 12_u64, 31_u64);
        for day in 0..=Timestamp::MAX.0 / DAY_MILLIS {
            let (year, month, date) = date_of(day);
            let signed = [year, month, date, day].map(u64::cast_signed);
            assert_eq!(day_of(signed[0], signed[1], signed[2]), signed[3]);
            let follows = match before {
                (y, 12, 31) => (y + 1, 1, 1),
                (y, m, d) if d.cast_signed() == days_in(y.cast_signed(), m.cast_signed()) => {
                    (y, m + 1, 1)
                }
                (y, m, d) => (y, m, d + 1),
            };
            assert_eq!((year, month, date), follows);
            before = follows;
        }
        assert_eq!(before, (9999, 12, 31));
    }

    #[test]
    fn times_are_read_with_offset_and_fraction() {
        let millis = |text: &str| text.parse::<Timestamp>().map(Timestamp::as_millis).ok();
        assert_eq!(millis("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(millis("2000-02-29t12:00:00.5z"), Some(951_825_600_500));
        assert_eq!(millis("2026-01-02 03:04:05.0000001Z"), Some(1_767_323_045_001));
        assert_eq!(millis("2026-01-01T00:00:00+24:00"), None);
        assert_eq!(millis("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(millis("1969-12-31T23:00:00-01:00"), Some(0));
        assert_eq!(millis("1234"), Some(1_234));
    }

    #[test]
    fn malformed_text_is_refused() {
        for wrong in [
            "",
            "-1",
            "now",
            "2026-01-02",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04Z",
            "2026-02-30T00:00:00Z",
            "2026-01-02T24:00:00Z",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05Zx",
            "2026-01-02T03:04:05+0100",
            "1969-12-31T23:59:59Z",
            "99999999999999999999",
            "2026-0é-02T03:04:05Z",
        ] {
            assert!(wrong.parse::<Timestamp>().is_err(), "{wrong}");
        }
    }
}
