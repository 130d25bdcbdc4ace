//! What figures count, and how their values are written.

use super::numbers::figure_text;

/// What a figure counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// Nanoseconds an operation
    Nanoseconds,
    /// Seconds for all
    Seconds,
    /// Milliseconds of lateness
    Milliseconds,
    /// Milliseconds of processor time each second
    MillisecondsPerSecond,
    /// Events each second
    PerSecond,
    /// Bytes a pending timer, or whatever else is kept
    Bytes,
    /// A number of timers
    Timers,
    /// Jobs each second: more is better
    JobsPerSecond,
    /// A number of jobs
    Jobs,
    /// Mebibytes of resident memory
    Mebibytes,
    /// Millions of bytes of a file
    Megabytes,
    /// Percents of one core's time
    PercentOfCore,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::MillisecondsPerSecond => "ms/s",
            Self::PerSecond => "/s",
            Self::Bytes => "bytes",
            Self::Timers => "timers",
            Self::JobsPerSecond => "jobs/s",
            Self::Jobs => "jobs",
            Self::Mebibytes => "MiB",
            Self::Megabytes => "MB",
            Self::PercentOfCore => "% of a core",
        }
    }

    /// A value of this unit with as many digits as mean something.
    pub(crate) fn text(self, value: f64) -> String {
        match self {
            Self::Nanoseconds | Self::PerSecond | Self::Megabytes => figure_text(value),
            Self::JobsPerSecond if value >= 9_950.0 => format!("{:.0}k", value / 1_000.0),
            Self::Bytes | Self::Timers | Self::JobsPerSecond | Self::Jobs | Self::Mebibytes => {
                format!("{value:.0}")
            }
            Self::Seconds
            | Self::Milliseconds
            | Self::MillisecondsPerSecond
            | Self::PercentOfCore => {
                if value < 9.995 {
                    format!("{value:.2}")
                } else {
                    figure_text(value)
                }
            }
        }
    }

    /// How many times better one value is than another.
    pub(crate) fn advantage(self, one: f64, other: f64) -> f64 {
        if self == Self::JobsPerSecond { one / other } else { other / one }
    }
}

#[cfg(test)]
mod tests {
    use super::Unit;

    #[test]
    fn values_are_short() {
        assert_eq!(Unit::Seconds.text(1.754), "1.75");
        assert_eq!(Unit::Milliseconds.text(2_345.6), "2346");
        assert_eq!(Unit::Timers.text(0.0), "0");
        assert_eq!(Unit::Nanoseconds.text(3.44), "3.4");
        assert_eq!(Unit::JobsPerSecond.text(123_456.0), "123k");
        assert_eq!(Unit::JobsPerSecond.text(9_876.5), "9876");
    }

    #[test]
    fn more_jobs_and_fewer_seconds_are_better() {
        assert!((Unit::JobsPerSecond.advantage(200.0, 100.0) - 2.0).abs() < 1e-9);
        assert!((Unit::Seconds.advantage(1.0, 2.0) - 2.0).abs() < 1e-9);
    }
}
