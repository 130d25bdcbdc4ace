//! Parsers of command line values.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use tickwheel_api::{
    Conflict, Delay, Exponential, FinishedState, JobId, JobState, Keep, Misfire, Order, Retry,
    TargetMethod, Timestamp,
};

/// Returns a parser for one of these names, which are those of the API.
fn named<T>(names: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names)
        .try_map(|name| serde_json::from_value::<T>(Value::String(name)))
}

pub(crate) fn conflict() -> impl TypedValueParser<Value = Conflict> {
    named(&["replace", "keep", "reject"])
}

pub(crate) fn order() -> impl TypedValueParser<Value = Order> {
    named(&["due", "priority"])
}

/// A rate as a number of calls and the length of the window: `100/1s`.
pub(crate) fn rate(text: &str) -> Result<(u32, Delay), String> {
    let wrong = || format!("{text:?} is not a rate: write it like 100/1s");
    let (starts, window) = text.split_once('/').ok_or_else(wrong)?;
    let starts = starts.trim().parse().ok().filter(|starts| *starts > 0).ok_or_else(wrong)?;
    // `100/s` means a hundred in one second.
    let window = window.trim();
    let window = match window.as_bytes().first() {
        Some(byte) if byte.is_ascii_alphabetic() => delay(&format!("1{window}"))?,
        _ => delay(window)?,
    };
    Ok((starts, window))
}

/// A method of HTTP, in any case.
pub(crate) fn method(text: &str) -> Result<TargetMethod, String> {
    let found = TargetMethod::ALL.into_iter().find(|it| it.as_str().eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("{text:?} is not one of post, put, patch, delete and get"))
}

/// A JSON value.
pub(crate) fn json(text: &str) -> Result<Box<RawValue>, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
}

pub(crate) fn state() -> impl TypedValueParser<Value = JobState> {
    named(&["scheduled", "ready", "leased", "dead", "done", "cancelled"])
}

pub(crate) fn finished_state() -> impl TypedValueParser<Value = FinishedState> {
    named(&["dead", "done", "cancelled"])
}

pub(crate) fn misfire() -> impl TypedValueParser<Value = Misfire> {
    named(&["skip", "once", "all"])
}

/// Parses a duration. A bare number is refused: the API counts milliseconds, and people mean
/// seconds.
pub(crate) fn delay(text: &str) -> Result<Delay, String> {
    let text = text.trim();
    if text != "0" && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text} what? Try {text}s or {text}m"));
    }
    let written = text.parse().map_err(|error: tickwheel_api::ParseDelayError| error.to_string());
    // The API takes milliseconds; a bare number was refused above.
    written.map_err(|why| why.replace("write milliseconds, or numbers", "write numbers"))
}

/// Parses a time: as the API writes it, or as a date and time in this machine's time zone.
pub(crate) fn time(text: &str) -> Result<Timestamp, String> {
    let zone = jiff::tz::TimeZone::system();
    let error = match text.trim().parse::<Timestamp>() {
        Ok(time) => return not_in_seconds(text.trim()).map(|()| time),
        Err(error) => error,
    };
    let local = text.trim().replacen(' ', "T", 1).parse::<jiff::civil::DateTime>().ok();
    let zoned = local.and_then(|local| local.to_zoned(zone).ok());
    let millis = zoned.and_then(|zoned| u64::try_from(zoned.timestamp().as_millisecond()).ok());
    millis
        .map(Timestamp::from_millis)
        .ok_or_else(|| format!("{error}; or in local time like \"2026-12-01 09:00\""))
}

/// Refuses a bare number that is most likely meant in seconds: as milliseconds it is before 1973.
fn not_in_seconds(text: &str) -> Result<(), String> {
    match text.parse::<u64>() {
        Ok(number) if (1..100_000_000_000).contains(&number) => Err(format!(
            "{number} milliseconds are in the year 1973 or earlier: did you mean {number}000?"
        )),
        _ => Ok(()),
    }
}

/// A job id on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IdArg {
    /// A whole id.
    Whole(JobId),
    /// A short id, which the server completes.
    Short(String),
}

/// Parses a whole id, or a possible short one: digits, hyphens, and two dots.
pub(crate) fn id(text: &str) -> Result<IdArg, String> {
    if let Ok(id) = text.parse::<JobId>() {
        return Ok(IdArg::Whole(id));
    }
    let is_part = |c: char| c.is_ascii_hexdigit() || matches!(c, '-' | '.');
    if !text.is_empty() && text.chars().all(is_part) {
        return Ok(IdArg::Short(text.to_owned()));
    }
    Err(format!("{text:?} is not the id of a job, whole or short like 01890a5dac96..9a8057"))
}

/// Parses the id of a dead job. The error for a queue's name says how to give a queue.
pub(crate) fn dead_job(text: &str) -> Result<IdArg, String> {
    id(text).map_err(|error| {
        format!("{error}; the dead jobs of a queue are brought back with --queue {text}")
    })
}

/// A name and a value.
pub(crate) fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a header is given as NAME=VALUE".to_owned()),
    }
}

/// Parses a retry policy: `10s` fixed, `1s..1h` doubling, or `1s,10s,1m` as a list.
pub(crate) fn retry(text: &str) -> Result<Retry, String> {
    if let Some((first, max)) = text.split_once("..") {
        let (first, max) = (delay(first)?, delay(max)?);
        if first > max {
            return Err(format!("{first} is longer than {max}: the shorter one comes first"));
        }
        return Ok(Retry::Exponential(Exponential { first, max, jitter: JITTER }));
    }
    if text.contains(',') {
        return text.split(',').map(delay).collect::<Result<_, _>>().map(Retry::List);
    }
    delay(text).map(Retry::Fixed)
}

/// The default jitter of a queue, so that jobs that failed together are not retried together.
const JITTER: u8 = 20;

/// Parses a retention: an age, a number, both, `nothing` or `forever`.
pub(crate) fn keep(text: &str) -> Result<Keep, String> {
    match text {
        "nothing" => return Ok(Keep { age: None, count: Some(0) }),
        "forever" => return Ok(Keep { age: None, count: None }),
        _ => {}
    }
    let mut keep = Keep::default();
    for part in text.split(',').map(str::trim) {
        let wrong = || {
            format!(
                "{part:?} is neither an age like 7d nor a number of jobs; `nothing` and `forever` \
                 are possible, too"
            )
        };
        if let Ok(count) = part.parse() {
            if keep.count.replace(count).is_some() {
                return Err(format!(
                    "{text:?} has two numbers of jobs; an age has a unit, like 7d"
                ));
            }
        } else if keep.age.replace(part.parse().map_err(|_| wrong())?).is_some() {
            return Err(format!("{text:?} has two ages"));
        }
    }
    Ok(keep)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit() {
        assert_eq!(delay("1h 30m"), Ok(Delay::from_millis(5_400_000)));
        assert_eq!(delay("0"), Ok(Delay::default()));
        assert_eq!(delay("30"), Err("30 what? Try 30s or 30m".to_owned()));
        assert!(retry("1..5s").unwrap_err().contains("1 what?"));
    }

    #[test]
    fn a_time_may_be_local() {
        let zoned = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(time("2026-12-01T09:00:00Z"), Ok(zoned("2026-12-01T09:00:00Z")));
        assert_eq!(time("2026-12-01 09:00:00+02:00"), Ok(zoned("2026-12-01T07:00:00Z")));
        let local: jiff::civil::DateTime = "2026-12-01T09:00".parse().unwrap();
        let zone = jiff::tz::TimeZone::system();
        let wanted = local.to_zoned(zone).unwrap().timestamp().as_millisecond();
        for text in ["2026-12-01 09:00", "2026-12-01T09:00", "2026-12-01 09:00:00"] {
            assert_eq!(time(text).map(|time| time.as_millis().cast_signed()), Ok(wanted));
        }
        assert!(time("tomorrow").unwrap_err().contains("2026-12-01 09:00"));
    }

    #[test]
    fn retries_are_given_in_three_ways() {
        let delay = |text: &str| text.parse::<Delay>().unwrap();
        assert_eq!(retry("10s"), Ok(Retry::Fixed(delay("10s"))));
        let (first, max) = (delay("1s"), delay("1h"));
        assert_eq!(retry("1s..1h"), Ok(Retry::Exponential(Exponential { first, max, jitter: 20 })));
        assert_eq!(retry("1s, 1h"), Ok(Retry::List(vec![first, max])));
        assert!(retry("1h..1s").unwrap_err().contains("longer"));
        assert!(retry("soon").unwrap_err().contains("\"soon\""));
        assert!(retry("1s,").is_err());
    }

    #[test]
    fn finished_jobs_are_kept_by_age_and_number() {
        let week = Some("7d".parse().unwrap());
        assert_eq!(keep("7d"), Ok(Keep { age: week, count: None }));
        assert_eq!(keep("1000"), Ok(Keep { age: None, count: Some(1_000) }));
        assert_eq!(keep("1000,7d"), Ok(Keep { age: week, count: Some(1_000) }));
        assert_eq!(keep("nothing"), Ok(Keep { age: None, count: Some(0) }));
        assert_eq!(keep("forever"), Ok(Keep::default()));
        for wrong in ["", "x", "1,2", "1d,2d", "7d,"] {
            assert!(keep(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_id_may_be_short() {
        let whole = "01890a5d-ac96-774b-bcce-b302099a8057";
        assert_eq!(id(whole), Ok(IdArg::Whole(whole.parse().unwrap())));
        for short in ["0189", "01890a5dac96..9a8057", "01890A5D-AC96"] {
            assert_eq!(id(short), Ok(IdArg::Short(short.to_owned())));
        }
        assert!(id("order").unwrap_err().contains("\"order\""));
        assert!(dead_job("orders").unwrap_err().contains("--queue orders"));
    }

    #[test]
    fn a_header_has_a_name() {
        assert_eq!(header("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(header("a="), Ok(("a".to_owned(), String::new())));
        assert!(header("a").is_err() && header("=b").is_err());
    }
}
