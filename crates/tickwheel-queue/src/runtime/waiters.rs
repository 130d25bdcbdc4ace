//! Workers that wait for jobs, first come, first served within a queue.
//!
//! A worker may wait for several queues at once: its *ticket* is in the line of each of them, and
//! the worker itself is in one table. The first queue that has a job takes the worker out of the
//! table; its tickets in the other lines are then worth nothing and are dropped when their turn
//! comes.
//!
//! A worker that gave up is noticed when it is its turn, when a timeout passes, or when the number of
//! tickets has doubled since all of them were looked at. So worthless tickets are never many more
//! than the others, and a push costs the same on average, however many workers wait.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use crate::engine::Reserve;
use crate::model::access::Access;
use crate::runtime::reply::Promise;

/// Up to this number, tickets are not looked at.
const FEW: usize = 64;

#[derive(Default)]
pub(crate) struct Waiters {
    waiting: HashMap<Ticket, Waiter>,
    lines: HashMap<String, VecDeque<Ticket>>,
    /// The number of tickets in all lines, worthless ones included.
    count: usize,
    /// How many there were when all of them were last looked at, or fewer since.
    looked_at: usize,
    next_ticket: Ticket,
    /// No timeout passes before this.
    next_timeout: Option<Instant>,
}

type Ticket = u64;

pub(crate) struct Waiter {
    pub(crate) reserve: Reserve,
    pub(crate) access: Access,
    pub(crate) until: Instant,
    pub(crate) reply: Promise,
}

impl Waiters {
    /// Adds a worker at the end of the lines of its queues.
    pub(crate) fn push(&mut self, waiter: Waiter) {
        self.enter(waiter, VecDeque::push_back);
    }

    /// Puts a worker back that was tried in vain.
    pub(crate) fn push_front(&mut self, waiter: Waiter) {
        self.enter(waiter, VecDeque::push_front);
    }

    fn enter(&mut self, waiter: Waiter, push: fn(&mut VecDeque<Ticket>, Ticket)) {
        if self.count >= FEW.max(2 * self.looked_at) {
            self.look_at_all(|_| false);
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.next_timeout = [self.next_timeout, Some(waiter.until)].into_iter().flatten().min();
        for queue in waiter.reserve.source.queues() {
            self.count += 1;
            match self.lines.get_mut(queue) {
                Some(line) => push(line, ticket),
                None => drop(self.lines.insert(queue.to_owned(), VecDeque::from([ticket]))),
            }
        }
        self.waiting.insert(ticket, waiter);
    }

    /// Takes out the first worker that still waits for jobs of this queue.
    pub(crate) fn pop(&mut self, queue: &str) -> Option<Waiter> {
        let line = self.lines.get_mut(queue)?;
        let found = loop {
            let Some(ticket) = line.pop_front() else { break None };
            self.count -= 1;
            let waiter = self.waiting.remove(&ticket);
            if let Some(waiter) = waiter.filter(|waiter| !waiter.reply.is_abandoned()) {
                break Some(waiter);
            }
        };
        if line.is_empty() {
            self.lines.remove(queue);
        }
        self.looked_at = self.looked_at.min(self.count);
        if self.waiting.is_empty() {
            self.next_timeout = None;
        }
        found
    }

    /// Takes out the workers whose timeout has passed.
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<Waiter> {
        self.look_at_all(|waiter| waiter.until <= now)
    }

    /// Takes some out, and drops those that gave up, with all worthless tickets.
    fn look_at_all(&mut self, is_wanted: impl Fn(&Waiter) -> bool) -> Vec<Waiter> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut taken = Vec::new();
        for (ticket, waiter) in waiting {
            if waiter.reply.is_abandoned() {
                continue;
            }
            if is_wanted(&waiter) {
                taken.push(waiter);
            } else {
                self.waiting.insert(ticket, waiter);
            }
        }
        self.lines.retain(|_, line| {
            line.retain(|ticket| self.waiting.contains_key(ticket));
            !line.is_empty()
        });
        self.count = self.lines.values().map(VecDeque::len).sum();
        self.looked_at = self.count;
        self.next_timeout = self.waiting.values().map(|waiter| waiter.until).min();
        taken
    }

    /// When to look for timeouts: never too late, but maybe too early.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.next_timeout
    }

    pub(crate) fn take_all(&mut self) -> Vec<Waiter> {
        std::mem::take(self).waiting.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::Source;
    use crate::model::admission::Admission;
    use crate::model::time::instant_now;
    use crate::runtime::reply::{Promise, Reply};

    fn waiter(queue: &str, until: Instant, reply: Promise) -> Waiter {
        waiter_for(&[queue], until, reply)
    }

    fn waiter_for(queues: &[&str], until: Instant, reply: Promise) -> Waiter {
        let source = match queues {
            [queue] => Source::Queue((*queue).into()),
            queues => Source::AnyOf(queues.iter().map(|queue| (*queue).into()).collect()),
        };
        let reserve = Reserve {
            source,
            jobs: 1,
            lease: None,
            lease_of: None,
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
            assert!(waiters.count <= FEW, "{} wait", waiters.count);
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

    #[test]
    fn a_worker_that_waits_for_several_queues_is_served_once() {
        let until = instant_now() + Duration::from_secs(3_600);
        let mut waiters = Waiters::default();
        let replies: Vec<_> = (0..3).map(|_| Reply::promised()).collect();
        let (_replies, mut promises): (Vec<_>, Vec<_>) = replies.into_iter().unzip();
        let mut next = |queues: &[&str]| waiter_for(queues, until, promises.remove(0));
        waiters.push(next(&["a", "b"]));
        waiters.push(next(&["b"]));
        waiters.push(next(&["b", "c"]));
        let names = |waiter: Option<Waiter>| {
            waiter.map(|waiter| waiter.reserve.source.queues().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(names(waiters.pop("a")).as_deref(), Some("a b"));
        let second = waiters.pop("b").unwrap();
        assert_eq!(second.reserve.source.queues().count(), 1);
        // Tried in vain, it stays before the others.
        waiters.push_front(second);
        assert_eq!(names(waiters.pop("b")).as_deref(), Some("b"));
        assert_eq!(names(waiters.pop("c")).as_deref(), Some("b c"));
        assert_eq!(names(waiters.pop("b")), None);
        assert_eq!((waiters.count, waiters.lines.len(), waiters.waiting.len()), (0, 0, 0));
    }
}
