//! The jobs that every system is given: 200 bytes, of which the first 16 say which job it is and
//! when it is due.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PAYLOAD: usize = 200;
const WEEK: Duration = Duration::from_hours(7 * 24);

/// A job to be put.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// In whole milliseconds of the wall clock.
    pub(super) due: u64,
    /// How long after its making that is: in whole seconds, because beanstalkd knows no other.
    pub(super) delay: Duration,
    pub(super) key: Option<String>,
    pub(super) payload: Vec<u8>,
}

impl Job {
    /// A job due so long after a whole millisecond, which must not be in the future.
    pub(super) fn new(number: u64, from: u64, delay: Duration) -> Self {
        let due = from + delay.as_millis() as u64;
        let mut payload = vec![b'.'; PAYLOAD];
        payload[..8].copy_from_slice(&number.to_be_bytes());
        payload[8..16].copy_from_slice(&due.to_be_bytes());
        Self { due, delay, key: None, payload }
    }

    /// A job due in a week.
    pub(super) fn far(number: u64) -> Self {
        Self::new(number, now_micros() / 1_000, WEEK)
    }

    pub(super) fn with_key(self, key: String) -> Self {
        Self { key: Some(key), ..self }
    }
}

/// What a payload says: the number of the job, and when it is due in milliseconds.
pub(super) fn read(payload: &[u8]) -> Option<(u64, u64)> {
    let (number, rest) = payload.split_first_chunk()?;
    let (due, _) = rest.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), u64::from_be_bytes(*due)))
}

/// The wall clock in microseconds.
pub(super) fn now_micros() -> u64 {
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
        assert_eq!(read(&job.payload[..15]), None);
    }
}
