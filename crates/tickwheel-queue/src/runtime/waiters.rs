//! Workers that wait for jobs, first come, first served within a queue.
//!
//! A worker may give up while it waits. Its entry is removed when its turn comes, when a timeout
//! passes, or when the number of entries has doubled since the last sweep. So abandoned entries
//! never outnumber the others by much, and adding a waiter is O(1) on average.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use crate::engine::Reserve;
use crate::model::access::Access;
use crate::runtime::reply::Promise;

/// Abandoned entries are not swept while there are fewer entries than this.
const MIN_SWEEP: usize = 64;

#[derive(Default)]
pub(crate) struct Waiters {
    queues: HashMap<String, VecDeque<Waiter>>,
    /// The number of entries, abandoned ones included.
    count: usize,
    /// The number of entries after the last sweep, or fewer if some have left since.
    swept: usize,
    /// No timeout passes before this instant.
    next_timeout: Option<Instant>,
}

pub(crate) struct Waiter {
    pub(crate) reserve: Reserve,
    pub(crate) access: Access,
    pub(crate) until: Instant,
    pub(crate) reply: Promise,
}

impl Waiters {
    pub(crate) fn push(&mut self, waiter: Waiter) {
        if self.count >= MIN_SWEEP.max(2 * self.swept) {
            self.sweep(|_| false);
        }
        self.queue_of(&waiter).push_back(waiter);
    }

    /// Returns a waiter to the front of its queue, after no job was ready for it.
    pub(crate) fn push_front(&mut self, waiter: Waiter) {
        self.queue_of(&waiter).push_front(waiter);
    }

    /// Returns the queue that a waiter is about to join, and counts the waiter.
    fn queue_of(&mut self, waiter: &Waiter) -> &mut VecDeque<Waiter> {
        self.count += 1;
        self.next_timeout = [self.next_timeout, Some(waiter.until)].into_iter().flatten().min();
        self.queues.entry(waiter.reserve.queue.clone()).or_default()
    }

    /// Takes out the waiter that has waited longest for jobs of a queue.
    pub(crate) fn pop(&mut self, queue: &str) -> Option<Waiter> {
        let waiting = self.queues.get_mut(queue)?;
        let found = loop {
            let next = waiting.pop_front();
            self.count -= usize::from(next.is_some());
            if next.as_ref().is_none_or(|waiter| !waiter.reply.is_abandoned()) {
                break next;
            }
        };
        if waiting.is_empty() {
            self.queues.remove(queue);
        }
        self.swept = self.swept.min(self.count);
        if self.queues.is_empty() {
            self.next_timeout = None;
        }
        found
    }

    /// Takes out the waiters whose timeout has passed.
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<Waiter> {
        self.sweep(|waiter| waiter.until <= now)
    }

    /// Drops abandoned entries, and takes out those that `is_wanted` selects.
    fn sweep(&mut self, is_wanted: impl Fn(&Waiter) -> bool) -> Vec<Waiter> {
        let mut taken = Vec::new();
        self.queues.retain(|_, waiting| {
            waiting.retain(|waiter| !waiter.reply.is_abandoned());
            if waiting.iter().any(&is_wanted) {
                let (wanted, others) = waiting.drain(..).partition::<Vec<_>, _>(&is_wanted);
                taken.extend(wanted);
                waiting.extend(others);
            }
            !waiting.is_empty()
        });
        self.count = self.queues.values().map(VecDeque::len).sum();
        self.swept = self.count;
        self.next_timeout = self.queues.values().flatten().map(|waiter| waiter.until).min();
        taken
    }

    /// Returns when to call [`expired`](Self::expired) next. It may be too early, never too late.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.next_timeout
    }

    pub(crate) fn take_all(&mut self) -> Vec<Waiter> {
        std::mem::take(self).queues.into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::admission::Admission;
    use crate::model::time::instant_now;
    use crate::runtime::reply::{Promise, Reply};

    fn waiter(queue: &str, until: Instant, reply: Promise) -> Waiter {
        let reserve = Reserve {
            queue: queue.into(),
            jobs: 1,
            lease: None,
            admission: Admission::default(),
            worker: None,
        };
        Waiter { reserve, access: Access::default(), until, reply }
    }

    #[test]
    fn abandoned_waiters_do_not_pile_up() {
        let until = instant_now() + Duration::from_secs(3_600);
        let mut waiters = Waiters::default();
        for number in 0..10_000 {
            waiters.push(waiter(&format!("q{}", number % 3), until, Promise::to_nobody()));
            assert!(waiters.count <= MIN_SWEEP, "{} wait", waiters.count);
        }
        // The other waiters stay, in their order.
        let replies: Vec<_> = (0..1_000).map(|_| Reply::promised()).collect();
        let (_replies, promises): (Vec<_>, Vec<_>) = replies.into_iter().unzip();
        for (number, promise) in promises.into_iter().enumerate() {
            waiters.push(waiter("q", until + Duration::from_secs(number as u64), promise));
            waiters.push(waiter("q", until, Promise::to_nobody()));
        }
        assert!(waiters.count < 2_100, "{} wait", waiters.count);
        let found: Vec<_> = std::iter::from_fn(|| waiters.pop("q")).collect();
        assert_eq!(found.len(), 1_000);
        assert!(found.is_sorted_by_key(|waiter| waiter.until));
    }

    #[test]
    fn every_timeout_passes() {
        let start = instant_now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut waiters = Waiters::default();
        let mut replies = Vec::new();
        for seconds in [5, 3, 9, 3] {
            let (reply, promise) = Reply::promised();
            replies.push(reply);
            waiters.push(waiter("q", at(seconds), promise));
        }
        assert_eq!(waiters.next_timeout(), Some(at(3)));
        assert_eq!(waiters.expired(at(3)).len(), 2);
        assert_eq!(waiters.next_timeout(), Some(at(5)));
        assert_eq!(waiters.pop("q").map(|waiter| waiter.until), Some(at(5)));
        // The next timeout may be too early; after a sweep it is exact.
        assert!(waiters.next_timeout() <= Some(at(9)) && waiters.expired(at(5)).is_empty());
        assert_eq!(waiters.next_timeout(), Some(at(9)));
        assert_eq!(waiters.expired(at(9)).len(), 1);
        assert_eq!(waiters.next_timeout(), None);
    }
}
