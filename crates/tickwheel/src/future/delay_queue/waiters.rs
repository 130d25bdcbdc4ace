//! Futures that wait for the same thing, first come, first served.
//!
//! A future takes a *ticket* when it has to wait. It is woken when it may proceed, and checks when
//! it is polled: it leaves with what it waited for, or waits again with the same ticket, in its old
//! place.
//!
//! Ground rule: a ticket is waiting or woken. A woken future is polled or dropped, and in either
//! case wakes the next one if there is something left for it. That is why `woken` is counted: while
//! it is not zero, no other future needs to be woken.

use core::task::Waker;
use std::collections::BTreeMap;

/// A place in the order of arrival.
#[derive(Debug)]
pub(super) struct Ticket(u64);

#[derive(Default)]
pub(super) struct Waiters {
    waiting: BTreeMap<u64, Waker>,
    woken: usize,
    tickets: u64,
}

impl Waiters {
    /// Returns how many were woken and not polled since.
    pub(super) fn woken(&self) -> usize {
        self.woken
    }

    /// Returns `true` if a future waits.
    pub(super) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns `true` if the future waits already, with this waker.
    pub(super) fn waits_with(&self, ticket: Option<&Ticket>, waker: &Waker) -> bool {
        let known = ticket.and_then(|ticket| self.waiting.get(&ticket.0));
        known.is_some_and(|known| known.will_wake(waker))
    }

    /// Waits, or continues to wait, with this waker. Returns the waker that it replaces.
    pub(super) fn wait(&mut self, ticket: &mut Option<Ticket>, waker: Waker) -> Option<Waker> {
        let is_new = ticket.is_none();
        let ticket = ticket.get_or_insert_with(|| {
            self.tickets += 1;
            Ticket(self.tickets)
        });
        let replaced = self.waiting.insert(ticket.0, waker);
        if !is_new && replaced.is_none() {
            self.woken -= 1;
        }
        replaced
    }

    /// Returns the ticket. The waker must be dropped without the lock.
    pub(super) fn leave(&mut self, ticket: &mut Option<Ticket>) -> Option<Waker> {
        let ticket = ticket.take()?;
        let waker = self.waiting.remove(&ticket.0);
        if waker.is_none() {
            self.woken -= 1;
        }
        waker
    }

    /// Takes out the waker of the future that has waited longest.
    pub(super) fn wake_next(&mut self) -> Option<Waker> {
        let (_, waker) = self.waiting.pop_first()?;
        self.woken += 1;
        Some(waker)
    }
}
