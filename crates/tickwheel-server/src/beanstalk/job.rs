//! Jobs as this port puts them: the line of the `put` goes along in a header.
//!
//! The header `beanstalk-put` holds `pri delay ttr`. From it come the length of a lease, which a
//! queue has no place for in a job, and what `stats-job` shows.

use std::time::Duration;

use bytes::Bytes;
use tickwheel_queue::{Attempt, AttemptOutcome, Job, NewJob, Order, State};

use super::command::Put;
use super::priority;

const HEADER: &str = "beanstalk-put";

/// What a job was put with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) pri: u32,
    pub(super) delay: u32,
    pub(super) ttr: u32,
}

impl Terms {
    /// Returns the terms in the headers of a job; `None` if it was not put here.
    pub(super) fn of(headers: &[(String, String)]) -> Option<Self> {
        let (_, value) = headers.iter().find(|(name, _)| name == HEADER)?;
        let mut numbers = value.split(' ').map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Self { pri: next()?, delay: next()?, ttr: next()? })
    }

    /// The time to run.
    pub(super) fn lease(self) -> Duration {
        Duration::from_secs(self.ttr.max(1).into())
    }
}

/// Returns the length of a job's lease; `None` if its queue decides.
pub(super) fn lease_of(headers: &[(String, String)]) -> Option<Duration> {
    Terms::of(headers).map(Terms::lease)
}

/// Returns the job of a `put`. It is never given up, however often its time runs out, and a tube
/// that comes into being with it delivers by priority.
pub(super) fn new_job(put: Put, tube: &str, body: Bytes) -> NewJob {
    let Put { pri, delay, ttr, .. } = put;
    let mut job = NewJob::new(tube, body)
        .delay(Duration::from_secs(delay.into()))
        .priority(priority::of_pri(pri))
        .max_attempts(u32::MAX)
        .queue_order(Order::Priority);
    job.headers = vec![(HEADER.to_owned(), format!("{pri} {delay} {}", ttr.max(1)))];
    job
}

/// The state of a job in the words of the protocol; `None` if the protocol does not know such jobs.
pub(super) fn state_name(state: State) -> Option<&'static str> {
    match state {
        State::Scheduled => Some("delayed"),
        State::Ready => Some("ready"),
        State::Leased => Some("reserved"),
        State::Dead => Some("buried"),
        State::Done | State::Cancelled => None,
    }
}

/// What `stats-job` shows of the past of a job. It comes from the history of its attempts, which
/// keeps the last 20.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) reserves: usize,
    pub(super) timeouts: usize,
    pub(super) releases: usize,
    pub(super) buries: usize,
    pub(super) kicks: usize,
}

impl Past {
    pub(super) fn of(job: &Job) -> Self {
        let count = |outcome| job.history.iter().filter(|it| it.outcome == outcome).count();
        let is_leased = job.state == State::Leased;
        let buries = count(AttemptOutcome::Failed);
        // Each burial but the present one was ended by a kick.
        let kicks = buries.saturating_sub(usize::from(job.state == State::Dead));
        Self {
            reserves: job.history.len() + usize::from(is_leased),
            timeouts: count(AttemptOutcome::Expired),
            releases: count(AttemptOutcome::Released),
            buries,
            kicks,
        }
    }
}

/// Returns the delay in seconds that a job was put or last released with.
pub(super) fn delay_of(job: &Job) -> u64 {
    let released = |last: &&Attempt| last.outcome == AttemptOutcome::Released;
    match job.history.last().filter(released) {
        Some(last) => job.due.since(last.ended).as_secs(),
        None => Terms::of(&job.headers).map_or(0, |terms| terms.delay.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_carries_the_line_of_its_put() {
        let put = Put { pri: 65_536, delay: 3, ttr: 0, bytes: 2 };
        let job = new_job(put, "mail", "hi".into());
        let terms = Terms::of(&job.headers).unwrap();
        assert_eq!(terms, Terms { pri: 65_536, delay: 3, ttr: 1 });
        assert_eq!(lease_of(&job.headers), Some(Duration::from_secs(1)));
        for wrong in ["", "1 2", "a b c", "1 2 99999999999"] {
            let headers = [(HEADER.to_owned(), wrong.to_owned())];
            assert_eq!(Terms::of(&headers), None, "{wrong}");
        }
        assert_eq!(Terms::of(&[]), None);
    }
}
