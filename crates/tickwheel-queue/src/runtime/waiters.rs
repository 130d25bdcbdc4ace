//! Workers that wait for jobs, first come, first served within a queue.
//!
//! A worker that gave up is noticed when it is its turn, when somebody's time is over, or when the
//! number of those who wait has doubled since all of them were looked at. So those who gave up are
//! never many more than the others, and a push costs the same on average, however many wait.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use crate::engine::Reserve;
use crate::model::access::Access;
use crate::runtime::reply::Promise;

/// As few as this are not looked at.
const FEW: usize = 64;

#[derive(Default)]
pub(crate) struct Waiters {
    queues: HashMap<String, VecDeque<Waiter>>,
    /// How many there are, those who gave up among them.
    count: usize,
    /// How many there were when all of them were last looked at, or fewer since.
    looked_at: usize,
    /// Nobody's time is over before this.
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
        if self.count >= FEW.max(2 * self.looked_at) {
            self.look_at_all(|_| false);
        }
        self.queue_of(&waiter).push_back(waiter);
    }

    /// Puts one back that was tried in vain.
    pub(crate) fn push_front(&mut self, waiter: Waiter) {
        self.queue_of(&waiter).push_front(waiter);
    }

    /// The queue that this one is about to join.
    fn queue_of(&mut self, waiter: &Waiter) -> &mut VecDeque<Waiter> {
        self.count += 1;
        self.next_timeout = [self.next_timeout, Some(waiter.until)].into_iter().flatten().min();
        self.queues.entry(waiter.reserve.queue.clone()).or_default()
    }

    /// The first who still waits for jobs of this queue.
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
        self.looked_at = self.looked_at.min(self.count);
        if self.queues.is_empty() {
            self.next_timeout = None;
        }
        found
    }

    /// Those who have waited long enough.
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<Waiter> {
        self.look_at_all(|waiter| waiter.until <= now)
    }

    /// Takes some out, and drops those who gave up.
    fn look_at_all(&mut self, is_wanted: impl Fn(&Waiter) -> bool) -> Vec<Waiter> {
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
        self.looked_at = self.count;
        self.next_timeout = self.queues.values().flatten().map(|waiter| waiter.until).min();
        taken
    }

    /// When to look whether somebody has waited long enough: not too late, but maybe too early.
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
    fn those_who_gave_up_do_not_pile_up() {
        let until = instant_now() + Duration::from_secs(3_600);
        let mut waiters = Waiters::default();
        for number in 0..10_000 {
            waiters.push(waiter(&format!("q{}", number % 3), until, Promise::to_nobody()));
            assert!(waiters.count <= FEW, "{} wait", waiters.count);
        }
        // Those who did not give up stay, in their order.
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
    fn everybody_s_time_is_over_in_the_end() {
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
        // Too early, and then right.
        assert!(waiters.next_timeout() <= Some(at(9)) && waiters.expired(at(5)).is_empty());
        assert_eq!(waiters.next_timeout(), Some(at(9)));
        assert_eq!(waiters.expired(at(9)).len(), 1);
        assert_eq!(waiters.next_timeout(), None);
    }
}
