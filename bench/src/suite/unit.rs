//! Units of figures, and how their values are written.

use super::numbers::figure_text;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// For each operation.
    Nanoseconds,
    /// For each operation.
    Microseconds,
    Milliseconds,
    /// For all operations together.
    Seconds,
    /// Processor time in each second.
    MillisecondsPerSecond,
    /// Events in each second.
    PerSecond,
    /// More is better.
    JobsPerSecond,
    /// For each pending timer or known key.
    Bytes,
    /// The size of a file in millions of bytes.
    Megabytes,
    /// Resident memory.
    Mebibytes,
    PercentOfCore,
    /// The used part of an allowed rate. More is better.
    PercentOfRate,
    /// A number of misbehaving timers.
    Timers,
    /// A number of jobs that were handled wrongly.
    Jobs,
    /// A number of requests in a period.
    Requests,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "µs",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::MillisecondsPerSecond => "ms/s",
            Self::PerSecond => "/s",
            Self::JobsPerSecond => "jobs/s",
            Self::Bytes => "bytes",
            Self::Megabytes => "MB",
            Self::Mebibytes => "MiB",
            Self::PercentOfCore => "% of a core",
            Self::PercentOfRate => "% of the rate",
            Self::Timers => "timers",
            Self::Jobs => "jobs",
            Self::Requests => "requests",
        }
    }

    /// Writes a value with its significant digits.
    pub(crate) fn text(self, value: f64) -> String {
        match self {
            Self::JobsPerSecond if value >= 9_950.0 => format!("{:.0}k", value / 1_000.0),
            Self::Bytes | Self::JobsPerSecond | Self::Mebibytes => format!("{value:.0}"),
            _ if self.is_count() => format!("{value:.0}"),
            Self::Seconds
            | Self::Milliseconds
            | Self::MillisecondsPerSecond
            | Self::PercentOfCore
                if value < 9.995 =>
            {
                format!("{value:.2}")
            }
            Self::PercentOfRate => format!("{value:.1}"),
            _ => figure_text(value),
        }
    }

    /// Returns `true` for counts: their worst round is reported, and ratios of them mean nothing.
    pub(crate) fn is_count(self) -> bool {
        matches!(self, Self::Timers | Self::Jobs | Self::Requests)
    }

    /// Returns how many times better one value is than another.
    pub(crate) fn advantage(self, one: f64, other: f64) -> f64 {
        let more_is_better = matches!(self, Self::JobsPerSecond | Self::PercentOfRate);
        if more_is_better { one / other } else { other / one }
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
