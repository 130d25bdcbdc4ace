//! The writer: one thread that owns the engine and commits groups of commands.
//!
//! Each turn of its loop takes all requests from the inbox, applies them, commits the changes as
//! one batch with one sync, and only then answers. While it syncs, the next group gathers: this is
//! group commit. After a group with many callers, the writer waits a moment for the same number to
//! come back, so that they share one sync instead of splitting into two groups.
//!
//! Ground rules:
//! * Callers are answered only after the commit.
//! * When a commit fails, every caller of the group is told that the outcome is unknown. The writer
//!   discards engine and store, and refuses requests until the store is open again, which it tries
//!   each second. A command in steps ends between two steps. `store_failure.rs` describes how a
//!   failure is survived, and how a full disk differs.
//! * This thread alone changes the store. It never waits for a caller.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::{self, Engine, EngineOptions, Happened, Outcome, Reserved};
use crate::model::access::Access;
use crate::model::error::Error;
use crate::model::event::{Event, EventId};
use crate::model::stats::Durability;
use crate::model::time::instant_now;
use crate::runtime::alarm::Alarm;
use crate::runtime::core::Core;
use crate::runtime::housekeeping::{Housekeeping, LEAN};
use crate::runtime::reply::Promise;
use crate::runtime::request::{Request, Response, Submission};
use crate::runtime::store_failure::InDoubt;
use crate::runtime::waiters::{Waiter, Waiters};
use crate::store::{Disk, LeftOut, Opened, Persist, Store, StoreError, StoreOptions};

/// A group ends once its batch has this many bytes. The other requests wait for the next group.
const GROUP_BYTES: usize = 16 << 20;
/// The longest time that a worker waits. A longer one would overflow the clock.
const MAX_WAIT: Duration = Duration::from_secs(100 * 365 * 86_400);

pub(crate) struct WriterOptions {
    pub(crate) engine: EngineOptions,
    pub(crate) store: StoreOptions,
    pub(crate) durability: Durability,
    /// How long to wait for the callers of the last group, so that they share one sync.
    pub(crate) patience: Duration,
}

pub(crate) struct Writer {
    pub(crate) core: Arc<Core>,
    pub(crate) disk: Box<dyn Disk>,
    pub(crate) options: WriterOptions,
    pub(crate) open: Option<Open>,
    pub(crate) waiters: Waiters,
    /// Workers for whom rows are read at the start of the next group.
    pub(crate) need_rows: Vec<Waiter>,
    pub(crate) alarm: Alarm,
    /// Submissions for the next group: taken from the inbox, but not applied yet.
    pub(crate) left_over: Vec<Submission>,
    /// The number of callers in the last group.
    pub(crate) last_group: usize,
    pub(crate) failures: u64,
    /// Identity and last commit of the store that is or was open. No other store is opened in its
    /// place.
    pub(crate) opened: Option<Opened>,
    pub(crate) reopen_at: Instant,
    /// The housekeeping of the store that failed, until its last work has ended.
    pub(crate) ending: Option<Housekeeping>,
    /// The group whose commit found the disk full.
    pub(crate) in_doubt: Option<InDoubt>,
    /// Whether to open the store without the threads that write tables.
    pub(crate) is_lean: bool,
    /// How long the store stays lean.
    pub(crate) lean: Duration,
}

/// The open store and its engine.
pub(crate) struct Open {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) engine: Engine,
    pub(crate) housekeeping: Housekeeping,
    /// Whether a commit found the disk full, so that the store can only be read.
    pub(crate) has_failed: bool,
    sync_at: Option<Instant>,
    pub(crate) commits: u64,
    pub(crate) commit_time: tickwheel::Histogram,
}

/// The outcome of serving a worker that asked for jobs.
enum Served {
    Answered,
    /// No job is ready, and the worker's timeout has not passed.
    Waits(Waiter),
    /// Rows must be read before the worker can be answered.
    NeedsRows(Waiter),
}

/// The responses of a group, sent once it is committed.
pub(crate) type Replies = Vec<Reply>;

pub(crate) struct Reply {
    pub(crate) promise: Promise,
    pub(crate) response: Response,
    /// The request to apply again if the commit finds the disk full, in the space of the reserve.
    pub(crate) repeat: Option<(Request, Access)>,
}

impl Writer {
    pub(crate) fn new(
        core: &Arc<Core>,
        disk: Box<dyn Disk>,
        store: Arc<dyn Store>,
        options: WriterOptions,
    ) -> Result<Self, StoreError> {
        let mut writer = Self {
            core: Arc::clone(core),
            disk,
            alarm: Alarm::new(core),
            options,
            open: None,
            waiters: Waiters::default(),
            need_rows: Vec::new(),
            left_over: Vec::new(),
            last_group: 0,
            failures: 0,
            opened: None,
            reopen_at: instant_now(),
            ending: None,
            in_doubt: None,
            is_lean: false,
            lean: LEAN,
        };
        // Salvage concerns this opening only: no repair follows one after a failure.
        let LeftOut { parts, jobs: mut lost } = store.left_out();
        if std::mem::take(&mut writer.options.store.salvage) || store.needs_repair() {
            lost += engine::repair(&*store)?;
            store.repaired()?;
        }
        // A part that cannot be read counts as the jobs that it held, or as one if it held none.
        let damaged = lost.max(parts);
        writer.start(store)?;
        if let Some(open) = &mut writer.open {
            open.engine.tally.damaged += damaged;
        }
        Ok(writer)
    }

    pub(crate) fn start(&mut self, store: Arc<dyn Store>) -> Result<(), StoreError> {
        let mut engine = Engine::open(&*store, self.options.engine, self.core.clock.now())?;
        let now = instant_now();
        let mut housekeeping = Housekeeping::new(self.options.engine.limits.disk, now, self.lean);
        housekeeping.look(&store, &mut engine, now);
        self.core.add_names(engine.queues());
        self.core.events.opened(engine.commit());
        self.opened = Some(Opened { id: store.id(), commit: engine.commit() });
        self.core.set_store(Ok(Arc::clone(&store)));
        self.open = Some(Open {
            store,
            engine,
            housekeeping,
            has_failed: false,
            sync_at: None,
            commits: 0,
            commit_time: tickwheel::Histogram::default(),
        });
        Ok(())
    }

    /// Works until the inbox is closed and empty.
    pub(crate) fn run(mut self) {
        while self.take_submissions() {
            self.step();
        }
        self.close();
    }

    /// One turn of the loop, with what was taken.
    fn step(&mut self) {
        if self.open.is_none() {
            self.turn_while_down();
        } else if let Err(why) = self.check_writable() {
            self.turn_while_full(&why);
        } else if let Err(error) = self.turn() {
            self.store_failed(&error);
        }
    }

    /// Takes what callers have left, without waiting for them, and does one turn of the loop.
    pub(crate) fn step_now(&mut self) {
        self.core.inbox.take(&mut self.left_over, Some(instant_now()), 0, Duration::ZERO);
        self.step();
    }

    pub(crate) fn close(&mut self) {
        self.waiters.take_all();
        self.core.set_store(Err(Error::Closed));
        if let Some(mut ending) = self.ending.take() {
            ending.finish();
        }
        if let Some(mut open) = self.open.take() {
            open.housekeeping.finish();
            if let Err(error) = open.store.sync() {
                tracing::error!(%error, "the last sync failed");
            }
        }
    }

    /// Waits until there is something to do. Returns `false` once the inbox is closed and empty.
    fn take_submissions(&mut self) -> bool {
        let inbox = &self.core.inbox;
        if !self.left_over.is_empty() {
            inbox.take(&mut self.left_over, Some(instant_now()), 0, Duration::ZERO);
            return true;
        }
        let until = self.alarm.set(self.next_wake());
        // Waiting for company pays only if the group shares a sync.
        let patience = match self.options.durability {
            Durability::Sync => self.options.patience,
            Durability::Interval(_) | Durability::None => Duration::ZERO,
        };
        inbox.take(&mut self.left_over, until, self.last_group, patience)
    }

    /// Reports the left-over submissions to the inbox, where they count towards its bounds.
    pub(crate) fn hold_left_over(&self) {
        let bytes = self.left_over.iter().map(|submission| submission.bytes).sum();
        self.core.inbox.hold(self.left_over.len(), bytes);
    }

    /// Returns when the writer must wake up without a request, by the wall clock and by the
    /// monotonic clock.
    fn next_wake(&self) -> (Option<crate::model::time::Time>, Option<Instant>) {
        let Some(open) = &self.open else {
            return (None, Some(self.reopen_at));
        };
        let mut instants =
            [self.waiters.next_timeout(), open.sync_at, open.housekeeping.next_look()];
        if self.check_writable().is_err() {
            // Due jobs cannot be delivered while the disk is full.
            instants[1] = open.has_failed.then_some(self.reopen_at);
            return (None, instants.into_iter().flatten().min());
        }
        (open.engine.next_wake(), instants.into_iter().flatten().min())
    }

    /// Processes one group: apply, commit, answer.
    fn turn(&mut self) -> Result<(), StoreError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let store = Arc::clone(&open.store);
        open.engine.tell_events(self.core.events.wants_events(instant_now));
        open.engine.begin(&*store, self.core.clock.now(), fastrand::u64(..));
        let mut replies = Replies::new();
        // Workers that wait are served before those that have just come.
        self.serve_those_that_needed_rows(&*store, &mut replies);
        self.serve_waiters(&*store, &mut replies);
        self.apply_submissions(&*store, &mut replies);
        self.serve_waiters(&*store, &mut replies);
        self.hold_left_over();
        let callers = replies.len();
        if let Err(error) = self.commit() {
            self.group_failed(replies, &error);
            return Err(error);
        }
        self.last_group = callers;
        for Reply { promise, response, .. } in replies {
            if let Some(unwanted) = promise.keep(response) {
                self.core.take_back(unwanted);
            }
        }
        self.end_waiting();
        self.maybe_open_as_usual()
    }

    fn apply_submissions(&mut self, store: &dyn Store, replies: &mut Replies) {
        let mut submissions = std::mem::take(&mut self.left_over).into_iter();
        for Submission { request, access, reply, bytes } in submissions.by_ref() {
            let Some(open) = &mut self.open else { return };
            match request {
                Request::Command(mut command) => {
                    let is_begun = command.is_half_done();
                    match open.engine.apply(store, &mut command, &access) {
                        Outcome::More => {
                            let request = Request::Command(command);
                            self.left_over.push(Submission { request, access, reply, bytes });
                        }
                        outcome => {
                            let response = Response::Done(outcome);
                            let repeat = (!is_begun).then_some((Request::Command(command), access));
                            replies.push(Reply { promise: reply, response, repeat });
                        }
                    }
                }
                Request::Reserve(reserve, wait) => {
                    let until = self.alarm.now() + wait.min(MAX_WAIT);
                    let waiter = Waiter { reserve, access, until, reply };
                    match self.serve(store, waiter, replies) {
                        Served::Answered => {}
                        Served::Waits(waiter) => self.waiters.push(waiter),
                        Served::NeedsRows(waiter) => self.need_rows.push(waiter),
                    }
                }
                Request::Ask(ask) => {
                    let response = match access.check() {
                        Ok(()) => self.options.answer(
                            open,
                            &ask,
                            &access,
                            self.failures,
                            &self.core.clock,
                        ),
                        Err(error) => Response::Refused(error),
                    };
                    replies.push(Reply { promise: reply, response, repeat: None });
                }
                Request::Read(_) => unreachable!("reads go to the readers"),
            }
            if self.open.as_ref().is_some_and(|open| open.engine.batch_bytes() > GROUP_BYTES) {
                break;
            }
        }
        self.left_over.extend(submissions);
    }

    /// Leases ready jobs to a worker, or returns what it must wait for.
    fn serve(&mut self, store: &dyn Store, waiter: Waiter, replies: &mut Replies) -> Served {
        let Some(open) = &mut self.open else { return Served::Waits(waiter) };
        let jobs = match open.engine.reserve(store, &waiter.reserve, &waiter.access) {
            Ok(Reserved::Jobs(jobs)) => Ok(jobs),
            Ok(Reserved::NeedsRows) => return Served::NeedsRows(waiter),
            Ok(Reserved::NoneReady) if waiter.until > self.alarm.now() => {
                return Served::Waits(waiter);
            }
            Ok(Reserved::NoneReady) => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let Waiter { reserve, access, until, reply } = waiter;
        let wait = until.saturating_duration_since(self.alarm.now());
        let repeat = Some((Request::Reserve(reserve, wait), access));
        replies.push(Reply { promise: reply, response: Response::Deliveries(jobs), repeat });
        Served::Answered
    }

    /// Serves the workers for whom rows were read. A worker that still finds no ready job waits at
    /// the front of its queue.
    fn serve_those_that_needed_rows(&mut self, store: &dyn Store, replies: &mut Replies) {
        let mut waiting = Vec::new();
        for waiter in std::mem::take(&mut self.need_rows) {
            match self.serve(store, waiter, replies) {
                Served::Answered => {}
                Served::Waits(waiter) => waiting.push(waiter),
                Served::NeedsRows(waiter) => self.need_rows.push(waiter),
            }
        }
        for waiter in waiting.into_iter().rev() {
            self.waiters.push_front(waiter);
        }
    }

    /// Leases jobs that have become ready to the workers that wait for them.
    fn serve_waiters(&mut self, store: &dyn Store, replies: &mut Replies) {
        let Some(open) = &mut self.open else { return };
        let woken = open.engine.take_woken();
        let name = |number| Arc::clone(&open.engine.queues()[number as usize].name);
        let names: Vec<_> = woken.into_iter().map(name).collect();
        for name in names {
            while let Some(waiter) = self.waiters.pop(&name) {
                match self.serve(store, waiter, replies) {
                    Served::Answered => {}
                    Served::Waits(waiter) => {
                        self.waiters.push_front(waiter);
                        break;
                    }
                    Served::NeedsRows(waiter) => {
                        self.need_rows.push(waiter);
                        break;
                    }
                }
            }
        }
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let now = instant_now();
        if let Some(batch) = open.engine.finish(&*open.store) {
            let persist = match self.options.durability {
                Durability::Sync => Persist::Sync,
                Durability::Interval(_) | Durability::None => Persist::Buffer,
            };
            open.housekeeping.note(batch);
            open.store.commit(batch, persist)?;
            open.engine.committed();
            self.core.events.committed(events(&self.core, &mut open.engine));
            if persist == Persist::Sync {
                note_durable(&mut self.opened, &open.engine);
            }
            open.commits += 1;
            open.commit_time.record(now.elapsed());
            if let Durability::Interval(interval) = self.options.durability {
                open.sync_at.get_or_insert(now + interval);
            }
            self.core.remove_names(&open.engine.take_removed());
            self.core.add_names(open.engine.queues());
        } else {
            // A group without changes also notices that the store has disappeared.
            open.store.check()?;
        }
        if open.sync_at.is_some_and(|at| at <= now) {
            open.store.sync()?;
            note_durable(&mut self.opened, &open.engine);
            open.sync_at = None;
        }
        open.housekeeping.look(&open.store, &mut open.engine, now);
        Ok(())
    }

    /// Answers waiters whose timeout has passed.
    pub(crate) fn end_waiting(&mut self) {
        if self.waiters.next_timeout().is_none_or(|timeout| timeout > self.alarm.now()) {
            return;
        }
        for waiter in self.waiters.expired(self.alarm.now()) {
            waiter.reply.keep(Response::Deliveries(Ok(Vec::new())));
        }
    }
}

/// Notes that everything up to the engine's last commit is durable.
fn note_durable(opened: &mut Option<Opened>, engine: &Engine) {
    if let Some(opened) = opened {
        opened.commit = engine.commit();
    }
}

/// Returns the events of the last commit, or `None` if there was no listener when its group began.
fn events(core: &Core, engine: &mut Engine) -> Option<Vec<Event>> {
    let happened = engine.take_happened()?;
    let (commit, run, time) = (engine.commit(), core.events.run(), engine.time());
    let queues = engine.queues();
    let event = |(happened, index): (Happened, _)| Event {
        id: EventId { commit, index, run },
        time,
        queue: Arc::clone(&queues[happened.queue as usize].name),
        job: happened.job,
        key: happened.key,
        error: happened.error,
        kind: happened.kind,
    };
    Some(happened.into_iter().zip(1..).map(event).collect())
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::sync::mpsc;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::client::answer::Answer;
    use crate::engine::{Reserve, Source};
    use crate::model::access::EVERYTHING;
    use crate::model::admission::Admission;
    use crate::model::job::Job;
    use crate::model::settings::Limits;
    use crate::model::time::Clock;
    use crate::store::MemoryDisk;

    /// A writer that the test moves by hand.
    fn writer() -> (Arc<Core>, Writer) {
        let disk = MemoryDisk::new();
        let store = disk.open(&StoreOptions::default()).unwrap();
        let core = Core::new(Arc::clone(&store), Clock::default(), 1, Job::bytes);
        let engine = EngineOptions {
            limits: Limits::default(),
            horizon: Duration::from_secs(1),
            near: 100,
            measure: Job::bytes,
            placement: None,
        };
        let options = WriterOptions {
            engine,
            store: StoreOptions::default(),
            durability: Durability::Sync,
            patience: Duration::ZERO,
        };
        let writer = Writer::new(&core, Box::new(disk), store, options).unwrap();
        (core, writer)
    }

    #[test]
    fn no_caller_waits_for_a_compaction_of_a_failed_store() {
        let (core, mut writer) = writer();
        let (end, ended) = mpsc::channel::<()>();
        let compaction = std::thread::spawn(move || assert!(ended.recv().is_err()));
        writer.open.as_mut().unwrap().housekeeping.set_compaction(compaction);
        let reserve = |wait| {
            Request::Reserve(
                Reserve {
                    source: Source::Queue("q".into()),
                    jobs: 1,
                    lease: None,
                    lease_of: None,
                    admission: Admission::default(),
                    worker: None,
                },
                wait,
            )
        };
        let answer = |request| {
            Answer::new(&core, request, &EVERYTHING, |outcome| match outcome {
                Response::Refused(error) => Err(error),
                _ => Ok(()),
            })
        };
        let mut context = Context::from_waker(Waker::noop());
        let mut waits = std::pin::pin!(answer(reserve(Duration::from_secs(999))));
        assert!(waits.as_mut().poll(&mut context).is_pending());
        assert!(writer.take_submissions());
        writer.turn().unwrap();
        assert!(waits.as_mut().poll(&mut context).is_pending());

        writer.store_failed(&StoreError::Io("no".into()));
        let refused = Poll::Ready(Err(Error::Unavailable("no".into())));
        assert_eq!(waits.as_mut().poll(&mut context), refused);
        // Later callers are refused as well, and the store is not opened yet.
        let mut late = std::pin::pin!(answer(reserve(Duration::ZERO)));
        assert!(late.as_mut().poll(&mut context).is_pending());
        assert!(writer.take_submissions());
        writer.turn_while_down();
        assert_eq!(late.as_mut().poll(&mut context), refused);
        assert!(writer.open.is_none());

        drop(end);
        while writer.open.is_none() {
            writer.reopen_at = instant_now();
            writer.turn_while_down();
        }
    }
}
