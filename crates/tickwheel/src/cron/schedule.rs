//! A schedule: a parsed cron expression and its time zone.
//!
//! Only [`Schedule::next`] reads the present time, from the timer's clock.

use core::fmt;
use core::ops::Range;
use core::str::FromStr;
use std::borrow::ToOwned;
use std::format;
use std::string::String;
use std::time::SystemTime;
use std::vec::Vec;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::error::CronError;
use super::field::{Field, Values};
use super::zone::{self, Zone};
use super::{explain, explain_chinese, times};

/// Recurring times by the calendar: a cron expression and a time zone.
///
/// The [module](super) describes expressions, and what happens when the clocks change.
///
/// ```
/// use tickwheel::cron::Schedule;
///
/// let schedule = Schedule::new("30 2 * * *", "Europe/Berlin")?;
/// let saturday: jiff::Zoned = "2026-03-28T12:00[Europe/Berlin]".parse()?;
/// let times: Vec<String> = schedule.after(saturday).take(2).map(|t| t.to_string()).collect();
/// assert_eq!(times, [
///     "2026-03-29T03:00:00+02:00[Europe/Berlin]", // that night has no 02:30
///     "2026-03-30T02:30:00+02:00[Europe/Berlin]",
/// ]);
/// # use tickwheel::cron::jiff;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Its text form is the expression, after the time zone unless that is UTC. Parsing the text gives
/// an equal schedule, if the zone has a name or is a fixed offset:
///
/// ```
/// use tickwheel::cron::Schedule;
///
/// let schedule: Schedule = "CRON_TZ=Asia/Tokyo 0 9 * * MON".parse()?;
/// assert_eq!(schedule, Schedule::new("0 9 * * MON", "Asia/Tokyo")?);
/// assert_eq!(schedule.to_string(), "CRON_TZ=Asia/Tokyo 0 9 * * MON");
/// assert_eq!("@daily".parse::<Schedule>()?, Schedule::new("@daily", "UTC")?);
/// # Ok::<(), tickwheel::cron::CronError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Schedule {
    expression: String,
    zone: TimeZone,
    pub(super) fields: Fields,
    /// The same fields, in the form that `croner` searches.
    pub(super) cron: Cron,
}

/// The parsed fields of an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fields {
    pub(super) second: Values,
    pub(super) minute: Values,
    pub(super) hour: Values,
    pub(super) day_of_month: Values,
    pub(super) month: Values,
    pub(super) day_of_week: Values,
}

impl Schedule {
    /// Parses an expression, for a time zone given by a name such as `Europe/Berlin` or as a
    /// [`TimeZone`].
    ///
    /// ```
    /// use tickwheel::cron::Schedule;
    ///
    /// Schedule::new("0 9 * * MON-FRI", "Europe/Berlin")?;
    /// Schedule::new("*/10 * * * * *", "UTC")?; // every ten seconds
    /// let error = Schedule::new("0 24 * * *", "UTC").unwrap_err();
    /// assert!(error.to_string().starts_with("the hour field cannot have \"24\""));
    /// # Ok::<(), tickwheel::cron::CronError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the expression is invalid, with a message that shows where; if it never matches; or if
    /// the time zone is unknown.
    #[allow(clippy::missing_panics_doc, reason = "croner accepts what was parsed here")]
    pub fn new(expression: &str, zone: impl Into<Zone>) -> Result<Self, CronError> {
        let (fields, days) = Fields::read(expression)?;
        let cron = CronParser::builder()
            .seconds(Seconds::Required)
            .year(Year::Disallowed)
            .build()
            .parse(&fields.to_croner())
            .expect("croner accepts fields that were parsed here");
        if times::next_civil(&cron, times::ANY_DAY, true).is_none() {
            return Err(CronError::NoSuchDate { expression: expression.to_owned(), span: days });
        }
        let expression = expression.trim().to_owned();
        Ok(Self { expression, zone: zone.into().find()?, fields, cron })
    }

    /// Returns the next `n` times after the present, by the wall clock.
    ///
    /// ```
    /// use tickwheel::cron::Schedule;
    ///
    /// let quarters = Schedule::new("*/15 * * * *", "UTC")?.next(2);
    /// assert_eq!(quarters[0].duration_until(&quarters[1]).as_mins(), 15);
    /// # Ok::<(), tickwheel::cron::CronError>(())
    /// ```
    pub fn next(&self, n: usize) -> Vec<Zoned> {
        self.after(crate::timer::clock::wall_now()).take(n).collect()
    }

    /// Returns the first time after `time`; `None` after the year 9999, where the calendar ends.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use tickwheel::cron::Schedule;
    ///
    /// let schedule = Schedule::new("0 0 29 2 *", "UTC")?;
    /// let leap_day = schedule.next_after(SystemTime::UNIX_EPOCH).unwrap();
    /// assert_eq!(leap_day.to_string(), "1972-02-29T00:00:00+00:00[UTC]");
    /// assert_eq!(schedule.next_after(&leap_day).unwrap().year(), 1976);
    /// # Ok::<(), tickwheel::cron::CronError>(())
    /// ```
    pub fn next_after(&self, time: impl Into<SystemTime>) -> Option<Zoned> {
        let next = self.next_timestamp(timestamp(time.into()))?;
        Some(next.to_zoned(self.zone.clone()))
    }

    /// Returns all times after `time`, in order.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use tickwheel::cron::Schedule;
    ///
    /// let fridays = Schedule::new("0 0 13 * +FRI", "UTC")?;
    /// let months: Vec<i8> =
    ///     fridays.after(SystemTime::UNIX_EPOCH).take(3).map(|day| day.month()).collect();
    /// assert_eq!(months, [2, 3, 11]); // of 1970
    /// # Ok::<(), tickwheel::cron::CronError>(())
    /// ```
    pub fn after(&self, time: impl Into<SystemTime>) -> Times<'_> {
        Times { schedule: self, last: timestamp(time.into()) }
    }

    pub(crate) fn next_timestamp(&self, after: Timestamp) -> Option<Timestamp> {
        times::next_after(self, after)
    }

    /// Describes the schedule in words.
    ///
    /// ```
    /// use tickwheel::cron::Schedule;
    ///
    /// let explain = |expression| Schedule::new(expression, "UTC").unwrap().explain();
    /// assert_eq!(explain("*/15 9-17 * * *"), "Every 15 minutes from 09:00 through 17:59, UTC");
    /// assert_eq!(explain("0 8 L * *"), "At 08:00 on the last day of the month, UTC");
    /// assert_eq!(explain("0 0 13 * FRI"), "At 00:00 on the 13th of the month or on Friday, UTC");
    /// ```
    pub fn explain(&self) -> String {
        format!("{}, {}", explain::explain(&self.fields), zone::name_of(&self.zone))
    }

    /// Describes the schedule in Chinese.
    ///
    /// ```
    /// use tickwheel::cron::Schedule;
    ///
    /// let workdays = Schedule::new("0 9 * * MON-FRI", "Asia/Shanghai")?;
    /// assert_eq!(workdays.explain_in_chinese(), "每周一至周五 09:00,Asia/Shanghai");
    /// # Ok::<(), tickwheel::cron::CronError>(())
    /// ```
    pub fn explain_in_chinese(&self) -> String {
        format!("{},{}", explain_chinese::explain(&self.fields), zone::name_of(&self.zone))
    }

    /// Returns the expression as given.
    ///
    /// ```
    /// use tickwheel::cron::Schedule;
    ///
    /// assert_eq!(Schedule::new("0 9 * * mon", "UTC")?.expression(), "0 9 * * mon");
    /// # Ok::<(), tickwheel::cron::CronError>(())
    /// ```
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// Returns the time zone.
    ///
    /// ```
    /// use tickwheel::cron::Schedule;
    ///
    /// let schedule = Schedule::new("@daily", "europe/berlin")?;
    /// assert_eq!(schedule.time_zone().iana_name(), Some("Europe/Berlin"));
    /// # Ok::<(), tickwheel::cron::CronError>(())
    /// ```
    pub fn time_zone(&self) -> &TimeZone {
        &self.zone
    }
}

/// An iterator over the times of a schedule: made by [`Schedule::after`].
///
/// ```
/// use std::time::SystemTime;
/// use tickwheel::cron::Schedule;
///
/// let schedule = Schedule::new("0 0 1 1 *", "UTC")?;
/// let mut new_years = schedule.after(SystemTime::UNIX_EPOCH);
/// assert_eq!(new_years.next().unwrap().year(), 1971);
/// assert_eq!(new_years.last().unwrap().year(), 9999);
/// # Ok::<(), tickwheel::cron::CronError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Times<'a> {
    schedule: &'a Schedule,
    last: Timestamp,
}

impl Iterator for Times<'_> {
    type Item = Zoned;

    fn next(&mut self) -> Option<Zoned> {
        self.last = self.schedule.next_timestamp(self.last)?;
        Some(self.last.to_zoned(self.schedule.zone.clone()))
    }
}

impl FromStr for Schedule {
    type Err = CronError;

    /// Parses an expression, optionally after `CRON_TZ=` or `TZ=` and a time zone. The zone defaults
    /// to UTC.
    fn from_str(text: &str) -> Result<Self, CronError> {
        let text = text.trim();
        let zoned = text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ="));
        match zoned {
            Some(rest) => {
                let (zone, expression) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                Self::new(expression, zone)
            }
            None => Self::new(text, TimeZone::UTC),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.zone != TimeZone::UTC {
            write!(f, "CRON_TZ={} ", zone::name_of(&self.zone))?;
        }
        f.write_str(&self.expression)
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schedule").field(&format!("{self}")).finish()
    }
}

/// Converts to a timestamp of `jiff`, clamped to the range of its calendar.
fn timestamp(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or_else(|_| {
        if time < SystemTime::UNIX_EPOCH { Timestamp::MIN } else { Timestamp::MAX }
    })
}

impl Fields {
    /// Parses an expression. Also returns the bytes that the day and month fields occupy.
    fn read(expression: &str) -> Result<(Self, Range<usize>), CronError> {
        let text = expression.trim();
        if text.starts_with('@') {
            let meant = nickname(text)
                .ok_or_else(|| CronError::Nickname { expression: expression.to_owned() })?;
            return Self::read(meant);
        }
        let words = words(expression);
        let (second, [minute, hour, day_of_month, month, day_of_week]) =
            match words.split_last_chunk() {
                Some(([], five)) => (None, five),
                Some(([second], five)) => (Some(second), five),
                _ => {
                    let found = words.len();
                    return Err(CronError::FieldCount { expression: expression.to_owned(), found });
                }
            };
        let read = |field, span: &Range<usize>| read_field(expression, field, span);
        let fields = Self {
            second: match second {
                Some(second) => read(Field::Second, second)?,
                None => Values::one(0),
            },
            minute: read(Field::Minute, minute)?,
            hour: read(Field::Hour, hour)?,
            day_of_month: read(Field::DayOfMonth, day_of_month)?,
            month: read(Field::Month, month)?,
            day_of_week: read(Field::DayOfWeek, day_of_week)?,
        };
        Ok((fields, day_of_month.start..day_of_week.end))
    }

    fn to_croner(&self) -> String {
        let Self { second, minute, hour, day_of_month, month, day_of_week } = self;
        [second, minute, hour, day_of_month, month, day_of_week].map(Values::to_croner).join(" ")
    }
}

fn read_field(expression: &str, field: Field, span: &Range<usize>) -> Result<Values, CronError> {
    Values::read(field, &expression[span.clone()]).map_err(|(at, problem)| {
        let value_span = span.start + at.start..span.start + at.end;
        CronError::Field {
            field,
            span: span.clone(),
            value: expression[value_span.clone()].to_owned(),
            value_span,
            problem,
            expression: expression.to_owned(),
        }
    })
}

/// Returns the bytes that each word of a text occupies.
fn words(text: &str) -> Vec<Range<usize>> {
    let start_of = |word: &str| word.as_ptr().addr() - text.as_ptr().addr();
    text.split_whitespace().map(|word| start_of(word)..start_of(word) + word.len()).collect()
}

fn nickname(text: &str) -> Option<&'static str> {
    let known = [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ];
    known.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|&(_, meant)| meant)
}
