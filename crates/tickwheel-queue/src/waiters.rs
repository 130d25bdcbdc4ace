//! Workers that wait for jobs, first come, first served within a queue.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use crate::answer::Promise;
use crate::engine::Reserve;

#[derive(Default)]
pub(crate) struct Waiters {
    queues: HashMap<String, VecDeque<Waiter>>,
}

pub(crate) struct Waiter {
    pub(crate) reserve: Reserve,
    pub(crate) until: Instant,
    pub(crate) reply: Promise,
}

impl Waiters {
    pub(crate) fn push(&mut self, waiter: Waiter) {
        let queue = self.queues.entry(waiter.reserve.queue.clone()).or_default();
        queue.push_back(waiter);
    }

    /// Puts one back that was tried in vain.
    pub(crate) fn push_front(&mut self, waiter: Waiter) {
        let queue = self.queues.entry(waiter.reserve.queue.clone()).or_default();
        queue.push_front(waiter);
    }

    /// The first who still waits for jobs of this queue.
    pub(crate) fn pop(&mut self, queue: &str) -> Option<Waiter> {
        let waiting = self.queues.get_mut(queue)?;
        let found = loop {
            match waiting.pop_front() {
                Some(waiter) if waiter.reply.is_abandoned() => {}
                found => break found,
            }
        };
        if waiting.is_empty() {
            self.queues.remove(queue);
        }
        found
    }

    /// Those who have waited long enough, and those who gave up.
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<Waiter> {
        let mut expired = Vec::new();
        self.queues.retain(|_, waiting| {
            let all = std::mem::take(waiting);
            for waiter in all {
                if waiter.until <= now || waiter.reply.is_abandoned() {
                    expired.push(waiter);
                } else {
                    waiting.push_back(waiter);
                }
            }
            !waiting.is_empty()
        });
        expired
    }

    /// When the first has waited long enough.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.queues.values().flatten().map(|waiter| waiter.until).min()
    }

    pub(crate) fn take_all(&mut self) -> Vec<Waiter> {
        self.queues.drain().flat_map(|(_, waiting)| waiting).collect()
    }
}
