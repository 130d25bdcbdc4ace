//! Durations, as JSON and the command line write them: milliseconds, or text like `1h30m`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The units in milliseconds, the longest first.
const UNITS: [(&str, u64); 6] = [
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];
/// The longest delay: from 1970 to the end of 9999.
const MAX_MILLIS: u64 = 253_402_300_799_999;

/// A duration: a number of milliseconds, or numbers with units like `1h30m` or `1h 30m`. The units
/// are `ms`, `s`, `m`, `h`, `d` and `w`.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_api::Delay;
///
/// let delay: Delay = "1h30m".parse()?;
/// assert_eq!(delay.0, Duration::from_secs(5_400));
/// assert_eq!(delay.to_string(), "1h30m");
/// assert_eq!(serde_json::from_str::<Delay>("250").unwrap().to_string(), "250ms");
/// assert!("5 minutes".parse::<Delay>().is_err());
/// # Ok::<(), tickwheel_api::ParseDelayError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delay(pub Duration);

impl Delay {
    /// Returns a delay of this many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// Returns the milliseconds, rounded up, at most [`u64::MAX`].
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

impl From<Duration> for Delay {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.as_millis();
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, length) in UNITS {
            if rest >= length {
                write!(f, "{}{unit}", rest / length)?;
                rest %= length;
            }
        }
        Ok(())
    }
}

/// The error for text that is not a duration.
///
/// ```
/// use tickwheel_api::Delay;
/// let error = "soon".parse::<Delay>().unwrap_err();
/// assert!(error.to_string().contains("\"soon\""));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseDelayError {
    text: String,
    is_too_long: bool,
}

impl fmt::Display for ParseDelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_too_long {
            let days = MAX_MILLIS / 86_400_000;
            return write!(f, "{:?} is too long: the maximum is {days}d", self.text);
        }
        write!(
            f,
            "{:?} is not a duration: write milliseconds, or numbers with the units ms, s, m, h, d, \
             w like \"1h30m\"",
            self.text
        )
    }
}

impl std::error::Error for ParseDelayError {}

impl FromStr for Delay {
    type Err = ParseDelayError;

    /// Reads numbers with units, or digits alone for milliseconds.
    fn from_str(text: &str) -> Result<Self, ParseDelayError> {
        let wrong =
            |is_too_long| ParseDelayError { text: text.chars().take(64).collect(), is_too_long };
        match parse(text) {
            Some(millis) if millis <= MAX_MILLIS => Ok(Self::from_millis(millis)),
            Some(_) => Err(wrong(true)),
            None => Err(wrong(false)),
        }
    }
}

fn parse(text: &str) -> Option<u64> {
    if let Ok(millis) = text.parse::<u64>() {
        return (!text.starts_with('+')).then_some(millis);
    }
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.bytes().take_while(u8::is_ascii_lowercase).count();
        let (_, length) = UNITS.iter().find(|(name, _)| *name == &rest[..unit])?;
        rest = &rest[unit..];
        // One space may separate two parts, as in `1h 30m`.
        rest = rest.strip_prefix(' ').filter(|next| !next.is_empty()).unwrap_or(rest);
        total = total.saturating_add(number.saturating_mul(*length));
    }
    (!text.is_empty()).then_some(total)
}

impl Serialize for Delay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = Delay;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration: milliseconds, or text like \"1h30m\"")
            }

            fn visit_u64<E: serde::de::Error>(self, millis: u64) -> Result<Delay, E> {
                millis.to_string().parse().map_err(E::custom)
            }

            fn visit_i64<E: serde::de::Error>(self, millis: i64) -> Result<Delay, E> {
                match u64::try_from(millis) {
                    Ok(whole) => self.visit_u64(whole),
                    Err(_) => Err(E::invalid_value(Unexpected::Signed(millis), &self)),
                }
            }

            fn visit_f64<E: serde::de::Error>(self, millis: f64) -> Result<Delay, E> {
                match super::whole(millis) {
                    Some(whole) => self.visit_u64(whole),
                    None => Err(E::invalid_value(Unexpected::Float(millis), &self)),
                }
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Delay, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Delay {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::{ObjectBuilder, OneOfBuilder, Type};
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^[0-9]{1,6}(ms|s|m|h|d|w)( ?[0-9]{1,6}(ms|s|m|h|d|w)){0,5}$"));
        let number = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0))
            .maximum(Some(MAX_MILLIS as f64));
        OneOfBuilder::new()
            .item(text)
            .item(number)
            .description(Some("Numbers with units (ms, s, m, h, d, w), or milliseconds"))
            .examples(["1h30m".into(), serde_json::json!(250)])
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Delay {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_delay_is_read_back() {
        for millis in [0, 1, 999, 1_000, 61_001, 5_400_000, 90_061_001, 1_209_600_000, MAX_MILLIS] {
            let delay = Delay::from_millis(millis);
            assert_eq!(delay.to_string().parse(), Ok(delay));
            assert_eq!(millis.to_string().parse(), Ok(delay));
        }
    }

    #[test]
    fn parts_may_be_separated_by_a_space() {
        assert_eq!("1h 30m".parse(), Ok(Delay::from_millis(5_400_000)));
        assert_eq!("1d 2h 3ms".parse(), Ok(Delay::from_millis(93_600_003)));
    }

    #[test]
    fn malformed_text_is_refused() {
        for wrong in [
            "",
            "m",
            "5",
            "-5s",
            "5S",
            "1.5h",
            "5 m",
            "5m ",
            " 5m",
            "1h  5m",
            "5x",
            "+5",
            "5é",
            "9999999999999w",
        ] {
            let is_number = wrong == "5";
            assert_eq!(wrong.parse::<Delay>().is_ok(), is_number, "{wrong}");
        }
        for long in ["9999999999999w", "18446744073709551615", "99999999w"] {
            let error = long.parse::<Delay>().unwrap_err().to_string();
            assert_eq!(error, format!("{long:?} is too long: the maximum is 2932896d"));
        }
        let error = serde_json::from_str::<Delay>(&u64::MAX.to_string()).unwrap_err().to_string();
        assert!(error.contains("is too long: the maximum is 2932896d"), "{error}");
        assert!(serde_json::from_str::<Delay>("-1").is_err());
        assert!(serde_json::from_str::<Delay>("1.5").is_err());
        assert!(serde_json::from_str::<Delay>("null").is_err());
        assert_eq!(serde_json::from_str::<Delay>("2e3").unwrap(), Delay::from_millis(2_000));
    }
}
