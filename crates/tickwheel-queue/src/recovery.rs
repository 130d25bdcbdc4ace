//! How the writer survives a store that failed.
//!
//! A store that failed is closed and opened again, each second until that succeeds. Until then
//! everything is refused.
//!
//! A full disk is a failure of its own kind: the store that failed can still be read, and most of
//! the time something can be done about it.
//!
//! * Readers keep the store that failed until it is closed, and wait for the moment that opening it
//!   again takes. Counts come from a new engine, which has read what was committed.
//! * The store is opened again at once, "lean": the reserve is released and goes to the journal, so
//!   that everything but puts works. See `housekeeping`.
//! * Whether the group whose commit failed is durable is known once the store is open. It is told
//!   its outcome if it is, and that nothing was changed if it is not.
//! * If the journal finds no room either, the store is only read until there is some.

use std::time::Duration;

use crate::answer::Promise;
use crate::engine::Engine;
use crate::error::Error;
use crate::housekeeping::{Housekeeping, LEAN, MAX_LEAN};
use crate::hub::{Outcome, Request, Submission};
use crate::store::{StoreError, StoreOptions};
use crate::time::instant_now;
use crate::writer::{Replies, Writer};

/// How long to wait between two attempts to open a store that failed.
const REOPEN: Duration = Duration::from_secs(1);
/// How long to wait for readers that still hold a store that was closed, and how often to look.
const READERS: Duration = Duration::from_secs(10);
const READERS_STEP: Duration = Duration::from_millis(5);

/// A group whose commit found the disk full.
pub(crate) struct InDoubt {
    /// The number of its commit.
    commit: u64,
    replies: Replies,
    why: String,
}

impl Writer {
    /// The commit of a group failed: answers its callers, or keeps them until more is known.
    pub(crate) fn group_failed(&mut self, replies: Replies, error: &StoreError) {
        let fail = |reply: Promise| {
            reply.keep(Outcome::Refused(Error::Failed(error.to_string())));
        };
        // The next step of a sweep must not follow a step that may be lost.
        for sweep in self.left_over.extract_if(.., |it| it.request.is_half_done()) {
            fail(sweep.reply);
        }
        match &self.open {
            Some(open) if is_full(error) && !open.housekeeping.is_compacting() => {
                let (commit, why) = (open.engine.commit(), error.to_string());
                self.in_doubt = Some(InDoubt { commit, replies, why });
            }
            _ => replies.into_iter().for_each(|(reply, _)| fail(reply)),
        }
    }

    pub(crate) fn store_failed(&mut self, error: &StoreError) {
        tracing::error!(%error, "the store failed; it will be opened again");
        self.failures += 1;
        self.last_group = 0;
        self.reopen_at = self.alarm.now();
        let down = if is_full(error) && self.keep_for_readers() {
            self.check_writable().err().unwrap_or(Error::Closed)
        } else {
            let down = Error::Unavailable(error.to_string());
            self.hub.set_store(Err(down.clone()));
            // A compaction may take minutes, and no caller shall wait that long for its answer.
            self.ending = self.open.take().map(|open| open.housekeeping);
            self.answer_in_doubt(None);
            down
        };
        for waiter in self.waiters.take_all() {
            waiter.reply.keep(Outcome::Refused(down.clone()));
        }
        // Sweeps that ended with the group make room.
        self.hold_left_over();
    }

    /// Keeps a store that found the disk full, to be read only; `false` if it cannot be read.
    fn keep_for_readers(&mut self) -> bool {
        let Some(open) = &mut self.open else { return false };
        // The engine is ahead of the store.
        let engine = Engine::open(&*open.store, self.options.engine, self.hub.clock.now());
        let Ok(engine) = engine else { return false };
        open.engine = engine;
        open.has_failed = true;
        if !self.is_lean {
            // Was it opened as usual too early?
            let was_early = open.housekeeping.age(instant_now()) < MAX_LEAN;
            self.lean = if was_early { (2 * self.lean).min(MAX_LEAN) } else { LEAN };
        }
        self.is_lean = true;
        true
    }

    /// Refuses every change while the store can only be read.
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        match &self.open {
            Some(open) if open.has_failed => Err(open.housekeeping.full()),
            Some(open) => open.housekeeping.check_writable(),
            None => Ok(()),
        }
    }

    /// Answers what can be answered without writing, and opens the store again if it failed.
    pub(crate) fn turn_while_full(&mut self, why: &Error) {
        let Some(open) = &mut self.open else { return };
        open.housekeeping.look(&open.store, &mut open.engine, instant_now());
        if open.has_failed && self.reopen_at <= self.alarm.now() {
            self.reopen_at = self.alarm.now() + REOPEN;
            if !open.housekeeping.is_compacting() {
                // What callers have left is taken up in the next turn.
                self.reopen(true);
                return;
            }
        }
        let Some(open) = &self.open else { return };
        for Submission { request, reply, access, .. } in std::mem::take(&mut self.left_over) {
            reply.keep(match (access.check(), request) {
                (Err(error), _) => Outcome::Refused(error),
                (Ok(()), Request::Ask(ask)) => {
                    self.options.answer(open, &ask, &access, self.failures, &self.hub.clock)
                }
                (Ok(()), _) => Outcome::Refused(why.clone()),
            });
        }
        self.hold_left_over();
        self.end_waiting();
        if let Err(error) = self.maybe_open_as_usual() {
            self.store_failed(&error);
        }
    }

    /// Opens a lean store as usual, if it is time for that.
    pub(crate) fn maybe_open_as_usual(&mut self) -> Result<(), StoreError> {
        let Some(open) = &self.open else { return Ok(()) };
        if open.has_failed || !open.housekeeping.wants_opening(&open.engine, instant_now()) {
            return Ok(());
        }
        tracing::info!("there is room on the disk again: tables are written as usual");
        open.store.sync()?;
        self.is_lean = false;
        self.reopen(false);
        Ok(())
    }

    /// Refuses what callers ask for, and tries to open the store again.
    pub(crate) fn turn_while_down(&mut self) {
        if self.reopen_at <= self.alarm.now() {
            self.reopen_at = self.alarm.now() + REOPEN;
            // It holds the store that failed, so that no other can be opened.
            let is_held = self.ending.as_ref().is_some_and(Housekeeping::is_compacting);
            if !is_held && self.reopen(true) {
                return;
            }
        }
        let why = self.hub.store().err().unwrap_or(Error::Closed);
        for submission in std::mem::take(&mut self.left_over) {
            submission.reply.keep(Outcome::Refused(why.clone()));
        }
        self.hold_left_over();
    }

    /// Closes the store and opens it again; `false` if that is not possible now.
    fn reopen(&mut self, after_failure: bool) -> bool {
        self.ending = None;
        let patience = match self.open.take() {
            Some(_) => {
                self.hub.expect_store();
                READERS
            }
            None => Duration::ZERO,
        };
        let options = StoreOptions {
            after_failure,
            reopens: self.opened,
            lean: self.is_lean,
            ..self.options.store
        };
        let until = instant_now() + patience;
        let opened = loop {
            match self.disk.open(&options) {
                // A read that is going on holds it.
                Err(StoreError::Locked) if instant_now() < until => {
                    std::thread::sleep(READERS_STEP);
                }
                opened => break opened,
            }
        };
        if let Err(error) = opened.and_then(|store| self.start(store)) {
            tracing::error!(%error, "the store could not be opened again");
            self.is_lean |= is_full(&error);
            self.hub.set_store(Err(Error::Unavailable(error.to_string())));
            self.answer_in_doubt(None);
            return false;
        }
        let found = self.open.as_ref().map(|open| open.engine.commit());
        self.answer_in_doubt(found);
        true
    }

    /// Answers the group whose commit found the disk full, given the last commit that is there.
    fn answer_in_doubt(&mut self, found: Option<u64>) {
        let Some(InDoubt { commit, replies, why }) = self.in_doubt.take() else { return };
        for (reply, outcome) in replies {
            let outcome = match (outcome, found) {
                (outcome, Some(found)) if found >= commit => outcome,
                (Outcome::Done(_), None) => Outcome::Refused(Error::Failed(why.clone())),
                (Outcome::Done(_), Some(_)) => {
                    let full = self.open.as_ref().map(|open| open.housekeeping.full());
                    Outcome::Refused(full.unwrap_or(Error::Closed))
                }
                (answered, _) => answered,
            };
            if let Some(unwanted) = reply.keep(outcome) {
                self.hub.take_back(unwanted);
            }
        }
    }
}

fn is_full(error: &StoreError) -> bool {
    matches!(error, StoreError::Full(_))
}
