//! Retry policies: the delay between the attempts of a job.

use std::time::Duration;

use crate::model::id::JobId;

/// The delay between the attempts of a job.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{JobId, RetryPolicy};
///
/// let id = JobId::from_bytes([1; 16]);
/// let seconds = Duration::from_secs;
/// let doubling = RetryPolicy::exponential(seconds(1), seconds(60));
/// assert_eq!(doubling.delay(id, 1), seconds(1));
/// assert_eq!(doubling.delay(id, 4), seconds(8));
/// assert_eq!(doubling.delay(id, 400), seconds(60));
///
/// let list = RetryPolicy::list([seconds(1), seconds(30)]);
/// assert_eq!(list.delay(id, 3), seconds(30)); // the last goes for all the rest
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Always the same delay.
    Fixed(Duration),
    /// A delay that doubles each time.
    Exponential {
        /// The delay after the first attempt.
        first: Duration,
        /// The longest delay, without jitter.
        max: Duration,
        /// Adds up to this many percent at random, at most 100, so that jobs that failed together
        /// are not retried together.
        jitter: u8,
    },
    /// A list of up to 1,000 delays. The last one is for all further attempts.
    List(Vec<Duration>),
}

impl RetryPolicy {
    /// The largest number of delays in a list, which is stored with each job that has one.
    pub const MAX_DELAYS: usize = 1_000;

    /// The largest jitter, in percent.
    pub const MAX_JITTER: u8 = 100;

    /// Returns how much memory it holds beside itself.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::List(delays) => size_of_val(&delays[..]),
            Self::Fixed(_) | Self::Exponential { .. } => 0,
        }
    }

    /// Creates a policy with a fixed delay.
    pub fn fixed(delay: Duration) -> Self {
        Self::Fixed(delay)
    }

    /// Creates a policy that doubles the delay up to a maximum, without jitter.
    pub fn exponential(first: Duration, max: Duration) -> Self {
        Self::Exponential { first, max, jitter: 0 }
    }

    /// Creates a policy with a list of delays.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{JobId, RetryPolicy};
    /// let policy = RetryPolicy::list([]);
    /// assert_eq!(policy.delay(JobId::from_bytes([0; 16]), 1), Duration::ZERO);
    /// ```
    pub fn list(delays: impl IntoIterator<Item = Duration>) -> Self {
        Self::List(delays.into_iter().collect())
    }

    /// Returns the delay after the given attempt, counted from 1. The jitter of a job and attempt
    /// is always the same, because the engine is deterministic.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_queue::{JobId, RetryPolicy};
    ///
    /// let second = Duration::from_secs(1);
    /// let policy = RetryPolicy::Exponential { first: second, max: second, jitter: 50 };
    /// let delay = policy.delay(JobId::from_bytes([9; 16]), 1);
    /// assert!(delay >= second && delay <= second * 3 / 2);
    /// ```
    pub fn delay(&self, id: JobId, attempt: u32) -> Duration {
        let attempt = attempt.max(1);
        match self {
            Self::Fixed(delay) => *delay,
            Self::Exponential { first, max, jitter } => {
                let doubled = first.checked_mul(2_u32.saturating_pow(attempt - 1));
                let delay = doubled.unwrap_or(*max).min(*max);
                let seed = id.as_bytes()[8..].try_into().map_or(0, u64::from_be_bytes);
                let mut random = fastrand::Rng::with_seed(seed ^ u64::from(attempt));
                let chance = random.u64(..1_000);
                let percent = u64::from((*jitter).min(100));
                let thousandths = (percent * chance / 100) as u32;
                // Dividing first avoids an overflow.
                delay.saturating_add(delay / 1_000 * thousandths)
            }
            Self::List(delays) => {
                let index = (attempt as usize - 1).min(delays.len().saturating_sub(1));
                delays.get(index).copied().unwrap_or_default()
            }
        }
    }
}

impl Default for RetryPolicy {
    /// One second, doubling up to an hour, with up to 20 % of jitter.
    fn default() -> Self {
        Self::Exponential {
            first: Duration::from_secs(1),
            max: Duration::from_secs(3_600),
            jitter: 20,
        }
    }
}

/// What happens to a job whose attempt failed.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{NewJob, Queues, Retry, State};
///
/// let queues = Queues::in_memory();
/// let id = queues.put(NewJob::new("mail", "hello")).wait()?.id;
/// let delivery = &queues.reserve("mail", 1, Duration::from_secs(30)).wait()?[0];
/// queues.fail(delivery.lease, "no such address", Retry::Never).wait()?;
/// assert_eq!(queues.get(id).wait()?.unwrap().state, State::Dead);
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// It is retried as its policy says, until its attempts are used up.
    #[default]
    ByPolicy,
    /// It is retried after this delay, if it has an attempt left.
    After(Duration),
    /// It is dead at once.
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extreme_delays_do_not_overflow() {
        let id = JobId::from_bytes([255; 16]);
        for attempt in [0, 1, 33, u32::MAX] {
            for (first, max) in [(Duration::MAX, Duration::MAX), (Duration::ZERO, Duration::MAX)] {
                let policy = RetryPolicy::Exponential { first, max, jitter: 255 };
                let _ = policy.delay(id, attempt);
            }
        }
    }

    #[test]
    fn jitter_spreads_jobs_within_its_bounds() {
        let second = Duration::from_secs(1);
        let policy = RetryPolicy::Exponential { first: second, max: second, jitter: 20 };
        let delays: Vec<_> =
            (0..=255).map(|byte| policy.delay(JobId::from_bytes([byte; 16]), 1)).collect();
        assert!(delays.iter().all(|delay| (second..=second * 12 / 10).contains(delay)));
        assert!(delays.iter().max() > delays.iter().min());
    }
}
