//! The jobs that every system is given: 200 bytes of JSON with the number of the job and its due
//! time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PAYLOAD: usize = 200;
/// The text before the number of the job, before its due time, before the padding, and at the end.
/// Numbers have 16 hexadecimal digits.
const PARTS: [&str; 4] = ["{\"job\":\"", "\",\"due\":\"", "\",\"fill\":\"", "\"}"];
const DIGITS: usize = 16;
const WEEK: Duration = Duration::from_hours(7 * 24);

/// A job to be put.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// In whole milliseconds of the wall clock.
    pub(crate) due: u64,
    /// The time from creation until the job is due: whole seconds, because beanstalkd accepts
    /// nothing finer.
    pub(crate) delay: Duration,
    pub(crate) key: Option<String>,
    pub(crate) payload: Vec<u8>,
}

impl Job {
    /// Returns a job due `delay` after the millisecond `from`, which must not be in the future.
    pub(crate) fn new(number: u64, from: u64, delay: Duration) -> Self {
        let due = from + delay.as_millis() as u64;
        let mut payload = Vec::with_capacity(PAYLOAD);
        payload.extend_from_slice(PARTS[0].as_bytes());
        payload.extend_from_slice(&digits(number));
        payload.extend_from_slice(PARTS[1].as_bytes());
        payload.extend_from_slice(&digits(due));
        payload.extend_from_slice(PARTS[2].as_bytes());
        payload.resize(PAYLOAD - PARTS[3].len(), b'.');
        payload.extend_from_slice(PARTS[3].as_bytes());
        Self { due, delay, key: None, payload }
    }

    /// Returns a job due in a week.
    pub(crate) fn far(number: u64) -> Self {
        Self::new(number, now_micros() / 1_000, WEEK)
    }

    pub(crate) fn with_key(self, key: String) -> Self {
        Self { key: Some(key), ..self }
    }
}

/// Reads the number of the job and its due time in milliseconds from a payload.
pub(crate) fn read(payload: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(payload).ok().filter(|text| text.len() == PAYLOAD)?;
    let (number, rest) = text.strip_prefix(PARTS[0])?.split_at_checked(DIGITS)?;
    let (due, _) = rest.strip_prefix(PARTS[1])?.split_at_checked(DIGITS)?;
    let value = |digits| u64::from_str_radix(digits, 16).ok();
    Some((value(number)?, value(due)?))
}

/// Formats a number as hexadecimal digits, faster than `format!`: jobs are created while the clock
/// runs.
fn digits(number: u64) -> [u8; DIGITS] {
    let digit = |place| b"0123456789abcdef"[(number >> (60 - 4 * place)) as usize & 15];
    std::array::from_fn(digit)
}

/// Returns the wall clock in microseconds.
pub(crate) fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_tells_what_its_job_is() {
        let job = Job::new(7, 1_000, Duration::from_secs(2));
        assert_eq!(job.payload.len(), PAYLOAD);
        assert_eq!(read(&job.payload), Some((7, 3_000)));
        assert_eq!(read(&job.payload[1..]), None);
        let json: serde_json::Value = serde_json::from_slice(&job.payload).unwrap();
        assert_eq!(json["due"], "0000000000000bb8");
    }
}
