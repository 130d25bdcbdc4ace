//! Retries, rates and retention as one line of a form, in the notation of the command line.

use tickwheel_api::{Delay, Exponential, Keep, Pacing, Retry};

/// The jitter of retries that double, in percent.
const DEFAULT_JITTER: u8 = 20;

fn delay(text: &str) -> Result<Delay, String> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text:?} has no unit: write it like 10s"));
    }
    text.parse::<Delay>().map_err(|error| error.to_string())
}

/// Reads a retry policy: `10s` each time, `1s..1h` doubling, `1s,10s,1m` one by one.
///
/// # Errors
///
/// If the text is none of these; the message says what is wrong.
///
/// ```
/// use tickwheel_page::{format_retry, parse_retry};
/// assert_eq!(format_retry(&parse_retry("1s..1h")?), "1s..1h");
/// assert!(parse_retry("soon").is_err());
/// # Ok::<(), String>(())
/// ```
pub fn parse_retry(text: &str) -> Result<Retry, String> {
    if let Some((first, max)) = text.split_once("..") {
        let (first, max) = (delay(first)?, delay(max)?);
        if first > max {
            return Err(format!("{first} is longer than {max}: the shorter one comes first"));
        }
        return Ok(Retry::Exponential(Exponential { first, max, jitter: DEFAULT_JITTER }));
    }
    if text.contains(',') {
        return text.split(',').map(delay).collect::<Result<_, _>>().map(Retry::List);
    }
    delay(text).map(Retry::Fixed)
}

/// Writes a retry policy as [`parse_retry`] reads it.
///
/// ```
/// use tickwheel_page::{format_retry, parse_retry};
/// assert_eq!(format_retry(&parse_retry("1s, 1m")?), "1s,1m");
/// # Ok::<(), String>(())
/// ```
pub fn format_retry(retry: &Retry) -> String {
    match retry {
        Retry::Fixed(delay) => delay.to_string(),
        Retry::Exponential(Exponential { first, max, .. }) => format!("{first}..{max}"),
        Retry::List(delays) => delays.iter().map(Delay::to_string).collect::<Vec<_>>().join(","),
    }
}

/// Reads how long finished jobs are kept: an age, a number, both, `nothing` or `forever`.
///
/// # Errors
///
/// If the text is none of these; the message says what is wrong.
///
/// ```
/// use tickwheel_page::{format_keep, parse_keep};
/// for text in ["3d,1000", "3d", "1000", "nothing", "forever"] {
///     assert_eq!(format_keep(&parse_keep(text)?), text);
/// }
/// assert!(parse_keep("a while").is_err());
/// # Ok::<(), String>(())
/// ```
pub fn parse_keep(text: &str) -> Result<Keep, String> {
    match text.trim() {
        "nothing" => return Ok(Keep { age: None, count: Some(0) }),
        "forever" => return Ok(Keep::default()),
        _ => {}
    }
    let mut keep = Keep::default();
    for part in text.split(',').map(str::trim) {
        let is_second = if let Ok(count) = part.parse::<u64>() {
            keep.count.replace(count).is_some()
        } else {
            let wrong = |_| {
                format!(
                    "{part:?} is neither an age like 7d nor a number of jobs, `nothing` or `forever`"
                )
            };
            keep.age.replace(delay(part).map_err(wrong)?).is_some()
        };
        if is_second {
            return Err(format!("{text:?} has two ages or two numbers: give at most one of each"));
        }
    }
    Ok(keep)
}

/// Writes how long finished jobs are kept, as [`parse_keep`] reads it.
///
/// ```
/// use tickwheel_api::Keep;
/// assert_eq!(tickwheel_page::format_keep(&Keep { age: None, count: Some(0) }), "nothing");
/// ```
pub fn format_keep(keep: &Keep) -> String {
    match (&keep.age, keep.count) {
        (None, Some(0)) => "nothing".to_owned(),
        (None, None) => "forever".to_owned(),
        (None, Some(count)) => count.to_string(),
        (Some(age), None) => age.to_string(),
        (Some(age), Some(count)) => format!("{age},{count}"),
    }
}

/// Reads pacing from a rate such as `100/1s` and a number of jobs at once; both may be empty.
///
/// # Errors
///
/// If one of them is not what it should be; the message says what is wrong.
///
/// ```
/// use tickwheel_page::{format_pacing, parse_pacing};
/// let pacing = parse_pacing("100/1s", "8")?;
/// assert_eq!(format_pacing(&pacing), ("100/1s".to_owned(), "8".to_owned()));
/// assert!(parse_pacing("100", "").is_err());
/// # Ok::<(), String>(())
/// ```
pub fn parse_pacing(rate: &str, concurrency: &str) -> Result<Pacing, String> {
    let mut pacing = Pacing::default();
    let rate = rate.trim();
    if !rate.is_empty() {
        let wrong = || format!("{rate:?} is not a rate: write it like 100/1s");
        let (starts, window) = rate.split_once('/').ok_or_else(wrong)?;
        pacing.starts =
            Some(starts.trim().parse().ok().filter(|starts| *starts > 0).ok_or_else(wrong)?);
        pacing.window = Some(delay(window)?);
    }
    let concurrency = concurrency.trim();
    if !concurrency.is_empty() {
        let number = concurrency.parse().ok().filter(|number| *number > 0);
        let wrong = || format!("{concurrency:?} must be a whole number from 1 up");
        pacing.concurrency = Some(number.ok_or_else(wrong)?);
    }
    Ok(pacing)
}

/// Writes pacing as [`parse_pacing`] reads it: the rate and the number of jobs at once.
///
/// ```
/// use tickwheel_api::Pacing;
/// assert_eq!(tickwheel_page::format_pacing(&Pacing::default()), (String::new(), String::new()));
/// ```
pub fn format_pacing(pacing: &Pacing) -> (String, String) {
    let rate = match (pacing.starts, &pacing.window) {
        (Some(starts), Some(window)) => format!("{starts}/{window}"),
        _ => String::new(),
    };
    (rate, pacing.concurrency.map_or_else(String::new, |number| number.to_string()))
}
