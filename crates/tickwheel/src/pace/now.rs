//! The present, asked for at most once, and only if somebody has to know: asking costs more than
//! most of what is done with the answer.

use core::cell::Cell;

use crate::timer::{Host, Nanos};

pub(super) struct Now<'a> {
    host: &'a Host,
    /// A time that has come.
    known: Cell<Nanos>,
    asked: Cell<bool>,
}

impl<'a> Now<'a> {
    pub(super) fn new(host: &'a Host) -> Self {
        Self::since(host, 0)
    }

    /// The present, which is not before a time that was seen.
    pub(super) fn since(host: &'a Host, known: Nanos) -> Self {
        Self { host, known: Cell::new(known), asked: Cell::new(false) }
    }

    /// A time that has come, without asking.
    #[inline]
    pub(super) fn at_least(&self) -> Nanos {
        self.known.get()
    }

    #[inline]
    pub(super) fn get(&self) -> Nanos {
        if !self.asked.replace(true) {
            self.known.set(self.host.now());
        }
        self.known.get()
    }

    /// Whether a time has come.
    #[inline]
    pub(super) fn has_come(&self, time: Nanos) -> bool {
        time <= self.known.get() || time <= self.get()
    }
}
