//! The workers that reserved jobs in the last minute.
//!
//! A worker that gives a name is known by it, and a connection of the beanstalkd protocol by the name
//! that its deliveries carry. Workers over HTTP without a name are counted together for each token and
//! address, because a worker may use several connections.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A worker counts for this long after its last request has ended.
const LATELY: Duration = Duration::from_secs(60);
/// The longest wait that is remembered as it is. The beanstalkd protocol has waits without a limit.
const MAX_WAIT: Duration = Duration::from_secs(366 * 24 * 3_600);
/// Workers that are remembered, of all queues together. Each takes about 40 bytes.
const MAX_WORKERS: usize = 20_000;

/// The workers of each queue that reserved jobs in the last minute.
#[derive(Default)]
pub(crate) struct Workers {
    seen: Mutex<Seen>,
    hasher: RandomState,
}

#[derive(Default)]
struct Seen {
    /// When each worker of a queue stops counting, by the hash of its name.
    queues: HashMap<String, HashMap<u64, Instant>>,
    count: usize,
    /// Until this time the count is incomplete, because there were too many workers.
    is_full_until: Option<Instant>,
}

/// The name by which a worker is known.
#[derive(Clone, Copy, Hash)]
pub(crate) enum WorkerName<'a> {
    Given(&'a str),
    Address(&'a str, IpAddr),
}

impl Seen {
    fn note(&mut self, queue: &str, worker: u64, now: Instant, until: Instant) {
        if let Some(known) = self.queues.get_mut(queue).and_then(|it| it.get_mut(&worker)) {
            *known = (*known).max(until);
            return;
        }
        if self.count >= MAX_WORKERS {
            self.forget(now);
        }
        if self.count >= MAX_WORKERS {
            // A wait without a limit must not make the number unknown for ever.
            self.is_full_until = Some(until.min(now + 2 * LATELY));
            return;
        }
        self.queues.entry(queue.to_owned()).or_default().insert(worker, until);
        self.count += 1;
    }

    /// Forgets workers that were not seen in the last minute.
    fn forget(&mut self, now: Instant) {
        self.queues.retain(|_, workers| {
            workers.retain(|_, until| *until > now);
            !workers.is_empty()
        });
        self.count = self.queues.values().map(HashMap::len).sum();
    }
}

impl Workers {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a worker asks for jobs of a queue, and waits for up to this long.
    pub(crate) fn note(&self, queue: &str, worker: WorkerName<'_>, wait: Duration) {
        let now = Instant::now();
        let until = now + wait.min(MAX_WAIT) + LATELY;
        self.seen().note(queue, self.hasher.hash_one(worker), now, until);
    }

    /// Notes that the wait of a worker has ended.
    pub(crate) fn note_end(&self, queue: &str, worker: WorkerName<'_>) {
        let worker = self.hasher.hash_one(worker);
        if let Some(until) = self.seen().queues.get_mut(queue).and_then(|it| it.get_mut(&worker)) {
            *until = Instant::now() + LATELY;
        }
    }

    /// Forgets a worker of a queue at once.
    pub(crate) fn forget(&self, queue: &str, worker: WorkerName<'_>) {
        let worker = self.hasher.hash_one(worker);
        let mut seen = self.seen();
        if let Some(workers) = seen.queues.get_mut(queue)
            && workers.remove(&worker).is_some()
        {
            seen.count -= 1;
        }
    }

    /// Returns the number of workers of each queue that is wanted, and of all these together;
    /// `None` if there were more than can be remembered.
    pub(super) fn count(
        &self,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Option<(HashMap<String, u64>, u64)> {
        let now = Instant::now();
        let mut seen = self.seen();
        seen.forget(now);
        if seen.is_full_until.is_some_and(|until| until > now) {
            return None;
        }
        let wanted = || seen.queues.iter().filter(|(queue, _)| is_wanted(queue));
        let all: HashSet<u64> = wanted().flat_map(|(_, workers)| workers.keys().copied()).collect();
        let each = wanted().map(|(queue, workers)| (queue.clone(), workers.len() as u64));
        Some((each.collect(), all.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_told_apart_by_name_or_address() {
        let workers = Workers::default();
        let address: IpAddr = "127.0.0.1".parse().unwrap();
        for name in [
            WorkerName::Given("a"),
            WorkerName::Given("b"),
            WorkerName::Given("a"),
            WorkerName::Address("", address),
            WorkerName::Address("", address),
        ] {
            workers.note("mail", name, Duration::ZERO);
        }
        workers.note("orders", WorkerName::Given("a"), Duration::ZERO);
        let (each, all) = workers.count(|_| true).unwrap();
        assert_eq!((each["mail"], each["orders"], all), (3, 1, 3));
        let (each, all) = workers.count(|queue| queue == "orders").unwrap();
        assert_eq!((each.get("mail"), all), (None, 1));
    }

    #[test]
    fn a_worker_whose_wait_has_no_limit_counts_until_it_leaves() {
        let workers = Workers::default();
        let name = WorkerName::Given("beanstalk 127.0.0.1:40000");
        let until = |workers: &Workers| *workers.seen().queues["mail"].values().next().unwrap();
        workers.note("mail", name, Duration::MAX);
        assert!(until(&workers) > Instant::now() + MAX_WAIT);
        workers.note_end("mail", name);
        assert!(until(&workers) <= Instant::now() + LATELY);
        workers.forget("mail", name);
        workers.forget("orders", name);
        assert_eq!(workers.count(|_| true).unwrap().1, 0);
        assert_eq!(workers.seen().count, 0);
    }

    #[test]
    fn workers_are_bounded_and_forgotten() {
        let mut seen = Seen::default();
        let now = Instant::now();
        for worker in 0..MAX_WORKERS as u64 + 10 {
            seen.note("mail", worker, now, now + LATELY);
        }
        assert_eq!(seen.count, MAX_WORKERS);
        assert!(seen.is_full_until.is_some());
        seen.note("mail", 1 << 40, now + LATELY, now + 2 * LATELY);
        assert_eq!(seen.count, 1);
    }
}
