//! How the writer survives a failed store.
//!
//! A failed store is closed, and opening it is tried each second until it succeeds. Until then all
//! requests are refused.
//!
//! A full disk differs from other failures: the store can still be read, and space can be freed.
//!
//! * Readers keep the failed store until it is closed, and wait while it is being opened again.
//!   Counts come from a new engine that has read the committed rows.
//! * The store is opened again at once, *lean* (see `housekeeping.rs`): the reserve is released for
//!   the journal, so that every change except a put works.
//! * Once the store is open, it is known whether the group with the failed commit is durable. If it
//!   is, its callers get their answers. If not, its puts are refused, and its other commands are
//!   applied once more, in the space of the reserve. Waiting workers keep waiting.
//! * If the journal finds no room either, the store is read-only until there is some.

use std::time::Duration;

use crate::engine::Engine;
use crate::model::error::Error;
use crate::model::time::instant_now;
use crate::runtime::housekeeping::{Housekeeping, LEAN, MAX_LEAN};
use crate::runtime::reply::Promise;
use crate::runtime::request::{Request, Response, Submission};
use crate::runtime::writer::{Replies, Reply, Writer};
use crate::store::{StoreError, StoreOptions};

/// How long to wait between two attempts to open a store that failed.
const REOPEN: Duration = Duration::from_secs(1);
/// How long to wait for readers that still hold a closed store, and how often to check.
const READERS: Duration = Duration::from_secs(10);
const READERS_STEP: Duration = Duration::from_millis(5);

/// A group whose commit found the disk full.
pub(crate) struct InDoubt {
    /// The number of its commit.
    commit: u64,
    replies: Replies,
    why: String,
    /// Whether its commands may be applied again, which is not so if the store was already lean.
    repeats: bool,
}

impl Writer {
    /// Answers the callers of a group whose commit failed, or keeps them until its outcome is
    /// known.
    pub(crate) fn group_failed(&mut self, replies: Replies, error: &StoreError) {
        let fail = |reply: Promise| {
            reply.keep(Response::Refused(Error::Failed(error.to_string())));
        };
        // The next step of a command must not follow a step that may be lost.
        for sweep in self.left_over.extract_if(.., |it| it.request.is_half_done()) {
            fail(sweep.reply);
        }
        match &self.open {
            Some(open) if is_full(error) && !open.housekeeping.is_compacting() => {
                let (commit, why) = (open.engine.commit(), error.to_string());
                self.in_doubt = Some(InDoubt { commit, replies, why, repeats: !self.is_lean });
            }
            _ => replies.into_iter().for_each(|reply| fail(reply.promise)),
        }
    }

    pub(crate) fn store_failed(&mut self, error: &StoreError) {
        tracing::error!(%error, "the store failed; it will be opened again");
        self.failures += 1;
        self.last_group = 0;
        self.reopen_at = self.alarm.now();
        if let Some(open) = &self.open {
            open.housekeeping.stop_measuring();
        }
        if !is_full(error) || !self.keep_for_readers() {
            // A compaction may take minutes, and callers must not wait that long for an answer.
            self.ending = self.open.take().map(|open| open.housekeeping);
            self.refuse_until_reopened(error);
        }
        // Commands in steps that ended with the group leave room in the inbox.
        self.hold_left_over();
    }

    /// Refuses all requests and waiting workers until the store is open again.
    fn refuse_until_reopened(&mut self, error: &StoreError) {
        let down = Error::Unavailable(error.to_string());
        self.core.set_store(Err(down.clone()));
        self.answer_in_doubt(None);
        self.refuse_waiting(&down);
    }

    /// Refuses all workers that wait for jobs.
    fn refuse_waiting(&mut self, why: &Error) {
        let waiting = std::mem::take(&mut self.need_rows).into_iter();
        for waiter in waiting.chain(self.waiters.take_all()) {
            waiter.reply.keep(Response::Refused(why.clone()));
        }
    }

    /// Keeps a store that found the disk full as read-only. Returns `false` if it cannot be read.
    fn keep_for_readers(&mut self) -> bool {
        let Some(open) = &mut self.open else { return false };
        // The engine has applied what the store has not.
        let engine = Engine::open(&*open.store, self.options.engine, self.core.clock.now());
        let Ok(engine) = engine else { return false };
        open.engine = engine;
        open.has_failed = true;
        if !self.is_lean {
            // The store ran full soon after it was opened as usual: stay lean longer.
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
                // The next turn takes the submissions.
                self.reopen(true);
                return;
            }
        }
        let Some(open) = &self.open else { return };
        for Submission { request, reply, access, .. } in std::mem::take(&mut self.left_over) {
            reply.keep(match (access.check(), request) {
                (Err(error), _) => Response::Refused(error),
                (Ok(()), Request::Ask(ask)) => {
                    self.options.answer(open, &ask, &access, self.failures, &self.core.clock)
                }
                (Ok(()), _) => Response::Refused(why.clone()),
            });
        }
        for waiter in std::mem::take(&mut self.need_rows) {
            waiter.reply.keep(Response::Refused(why.clone()));
        }
        self.hold_left_over();
        self.end_waiting();
        if let Err(error) = self.maybe_open_as_usual() {
            self.store_failed(&error);
        }
    }

    /// Opens a lean store as usual, if that is due.
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

    /// Refuses requests, and tries to open the store again.
    pub(crate) fn turn_while_down(&mut self) {
        if self.reopen_at <= self.alarm.now() {
            self.reopen_at = self.alarm.now() + REOPEN;
            // The compaction holds the failed store, so the store cannot be opened again yet.
            let is_held = self.ending.as_ref().is_some_and(Housekeeping::is_compacting);
            if !is_held && self.reopen(true) {
                return;
            }
        }
        let why = self.core.store().err().unwrap_or(Error::Closed);
        for submission in std::mem::take(&mut self.left_over) {
            submission.reply.keep(Response::Refused(why.clone()));
        }
        self.hold_left_over();
    }

    /// Closes the store and opens it again. Returns `false` if that failed.
    fn reopen(&mut self, after_failure: bool) -> bool {
        self.ending = None;
        let patience = match self.open.take() {
            Some(_) => {
                self.core.expect_store();
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
                // A read in progress still holds the store.
                Err(StoreError::Locked) if instant_now() < until => {
                    std::thread::sleep(READERS_STEP);
                }
                opened => break opened,
            }
        };
        if let Err(error) = opened.and_then(|store| self.start(store)) {
            tracing::error!(%error, "the store could not be opened again");
            self.is_lean |= is_full(&error);
            self.refuse_until_reopened(&error);
            return false;
        }
        let found = self.open.as_ref().map(|open| open.engine.commit());
        self.answer_in_doubt(found);
        true
    }

    /// Answers the group whose commit found the disk full, or applies its commands again. `found`
    /// is the last commit of the store.
    fn answer_in_doubt(&mut self, found: Option<u64>) {
        let Some(InDoubt { commit, replies, why, repeats }) = self.in_doubt.take() else { return };
        let mut again = Vec::new();
        for Reply { promise, response, repeat } in replies {
            let repeat = repeat.filter(|_| repeats).and_then(|(request, access)| {
                request.into_repeat().map(|request| (request, access))
            });
            let response = match (response, found, repeat) {
                (response, Some(found), _) if found >= commit => response,
                (change, None, _) if change.is_of_change() => {
                    Response::Refused(Error::Failed(why.clone()))
                }
                (change, Some(_), Some((request, access))) if change.is_of_change() => {
                    let bytes = request.bytes();
                    again.push(Submission { request, access, reply: promise, bytes });
                    continue;
                }
                (change, Some(_), None) if change.is_of_change() => {
                    let full = self.open.as_ref().map(|open| open.housekeeping.full());
                    Response::Refused(full.unwrap_or(Error::Closed))
                }
                (answered, _, _) => answered,
            };
            if let Some(unwanted) = promise.keep(response) {
                self.core.take_back(unwanted);
            }
        }
        self.left_over.splice(0..0, again);
    }
}

fn is_full(error: &StoreError) -> bool {
    matches!(error, StoreError::Full(_))
}
