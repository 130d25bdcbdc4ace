//! Futures that stand in line for something, first come, first served.
//!
//! A future takes a *ticket* when it has to wait. It is woken when its turn may have come, and
//! then looks for itself: it leaves with what it came for, or waits on with the same ticket, in
//! its old place.
//!
//! Ground rule: a ticket waits, or was woken. Whoever was woken looks or leaves, and in either
//! case sees to the next in line. That is why `woken` is counted: as long as there are some,
//! nobody else needs to be woken for what they may take.

use core::task::Waker;
use std::collections::BTreeMap;

/// A place in line.
#[derive(Debug)]
pub(super) struct Ticket(u64);

#[derive(Default)]
pub(super) struct Waiters {
    waiting: BTreeMap<u64, Waker>,
    woken: usize,
    tickets: u64,
}

impl Waiters {
    /// How many were woken and did not look yet.
    pub(super) fn woken(&self) -> usize {
        self.woken
    }

    /// Whether somebody waits.
    pub(super) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether somebody waits already, to be woken by this waker.
    pub(super) fn waits_with(&self, ticket: Option<&Ticket>, waker: &Waker) -> bool {
        let known = ticket.and_then(|ticket| self.waiting.get(&ticket.0));
        known.is_some_and(|known| known.will_wake(waker))
    }

    /// Waits, or waits on, to be woken by this waker. Gives the one that it replaces.
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

    /// Gives the ticket back. What comes of it is to be dropped without the lock.
    pub(super) fn leave(&mut self, ticket: &mut Option<Ticket>) -> Option<Waker> {
        let ticket = ticket.take()?;
        let waker = self.waiting.remove(&ticket.0);
        if waker.is_none() {
            self.woken -= 1;
        }
        waker
    }

    /// The next in line, to be woken.
    pub(super) fn wake_next(&mut self) -> Option<Waker> {
        let (_, waker) = self.waiting.pop_first()?;
        self.woken += 1;
        Some(waker)
    }
}
