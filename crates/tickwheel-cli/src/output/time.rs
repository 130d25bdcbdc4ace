//! Times and durations for people.
//!
//! A time is shown twice: relative to now, and by the wall clock. The latter is in the time zone of
//! this machine (`TZ`), with its offset, so that it means the same wherever it is pasted.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Returns "in 30m", "5s ago" or "now", counted from the time of the call: the command may have
/// waited for its answer.
pub(crate) fn relative(millis: u64) -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    between(since.as_millis() as u64, millis)
}

/// Returns the distance from the first time to the second.
fn between(now: u64, millis: u64) -> String {
    let distance = Duration::from_millis(millis.abs_diff(now));
    if distance < Duration::from_millis(500) {
        "now".to_owned()
    } else if millis > now {
        format!("in {}", rough(distance))
    } else {
        format!("{} ago", rough(distance))
    }
}

/// A wall clock.
#[derive(Clone, Debug)]
pub(crate) struct Wall {
    zone: TimeZone,
}

impl Wall {
    pub(crate) fn system() -> Self {
        Self { zone: TimeZone::system() }
    }

    /// Returns the wall clock of another time zone, or the same one if the zone is unknown here.
    pub(crate) fn in_zone(&self, name: Option<&str>) -> Self {
        let zone = name.and_then(|name| TimeZone::get(name).ok());
        Self { zone: zone.unwrap_or_else(|| self.zone.clone()) }
    }

    /// Returns "2026-12-24 18:00:00Z", or with the offset of the time zone.
    pub(crate) fn absolute(&self, millis: u64) -> String {
        let Some(timestamp) =
            i64::try_from(millis).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok())
        else {
            return format!("{millis} ms");
        };
        let zoned = timestamp.to_zoned(self.zone.clone());
        if zoned.offset().is_zero() {
            zoned.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
        } else {
            zoned.strftime("%Y-%m-%d %H:%M:%S%:z").to_string()
        }
    }

    /// Returns the relative and the absolute time.
    pub(crate) fn both(&self, millis: u64) -> String {
        format!("{} ({})", relative(millis), self.absolute(millis))
    }
}

/// In seconds.
const UNITS: [(u128, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];

/// Returns a duration in its two largest units, rounded to the nearest second above ten seconds.
pub(crate) fn rough(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        return format!("{}ms", duration.as_millis());
    }
    if duration < Duration::from_secs(10) {
        let tenths = (duration.as_millis() + 50) / 100;
        let (whole, rest) = (tenths / 10, tenths % 10);
        return if rest == 0 { format!("{whole}s") } else { format!("{whole}.{rest}s") };
    }
    let mut seconds = (duration.as_millis() + 500) / 1_000;
    let mut parts = Vec::new();
    for (size, unit) in UNITS {
        if seconds >= size {
            parts.push(format!("{}{unit}", seconds / size));
            seconds %= size;
        } else if !parts.is_empty() {
            // Only adjacent units are combined: "2d", not "2d 5s".
            break;
        }
        if parts.len() == 2 {
            break;
        }
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_told_in_two_units() {
        let told = |millis| rough(Duration::from_millis(millis));
        assert_eq!(told(0), "0ms");
        assert_eq!(told(999), "999ms");
        assert_eq!(told(1_000), "1s");
        assert_eq!(told(1_540), "1.5s");
        assert_eq!(told(9_970), "10s");
        assert_eq!(told(59_499), "59s");
        assert_eq!(told(59_500), "1m");
        assert_eq!(told(3_599_000), "59m 59s");
        assert_eq!(told(3_600_000), "1h");
        assert_eq!(told(3_605_000), "1h");
        assert_eq!(told(90_061_000), "1d 1h");
        assert_eq!(rough(Duration::MAX), "213503982334601d 7h");
    }

    #[test]
    fn a_time_is_told_from_here() {
        let told = |millis| between(1_000_000_000_000, millis);
        assert_eq!(told(1_000_000_000_000), "now");
        assert_eq!(told(1_000_001_800_000), "in 30m");
        assert_eq!(told(0), "11574d 1h ago");
        assert!(Wall { zone: TimeZone::UTC }.both(0).ends_with(" ago (1970-01-01 00:00:00Z)"));
    }

    #[test]
    fn the_offset_is_told_with_the_time() {
        let wall = Wall { zone: TimeZone::fixed(jiff::tz::offset(2)) };
        assert_eq!(wall.absolute(1_000_000_000_000), "2001-09-09 03:46:40+02:00");
        assert_eq!(wall.absolute(u64::MAX), format!("{} ms", u64::MAX));
    }
}
