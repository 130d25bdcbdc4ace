//! The threads that read for async tasks.
//!
//! A task must not wait for the disk, so these threads do its reads. A thread that calls
//! [`wait`](crate::Answer::wait) reads by itself.
//!
//! Ground rules:
//! * A read proceeds in bounded steps ([`Reading::step`]). An unfinished read goes to the end of
//!   its line, so that every read gets its turn.
//! * First steps and later steps have a line each, and the two lines are served in turn. So a
//!   lookup waits for one step of a long list, however many long lists are in progress.
//! * The number of waiting reads is bounded. A task that finds no room is woken when there is some.
//! * Wakers are called after the lock is released.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;

use crate::model::access::Access;
use crate::model::error::Error;
use crate::runtime::core::Core;
use crate::runtime::reading::{Read, Reading};
use crate::runtime::reply::{Promise, Reply};

/// Waiting reads, and the memory of their requests.
const MAX_WAITING: usize = 1_024;
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Reads mostly wait for the disk, so two threads pay off on one core. More than four would slow
/// down the writer.
const THREADS: std::ops::RangeInclusive<usize> = 2..=4;

/// The waiting reads, and the threads that serve them.
#[derive(Default)]
pub(crate) struct Readers {
    lines: Mutex<Lines>,
    arrived: Condvar,
}

#[derive(Default)]
struct Lines {
    /// Reads without a completed step.
    new: VecDeque<Task>,
    /// Reads with at least one completed step.
    begun: VecDeque<Task>,
    /// Which line is next when both have reads.
    is_turn_of_begun: bool,
    /// The memory of the requests in `new`.
    bytes: usize,
    /// Wakers of tasks that found no room.
    blocked: Vec<Waker>,
    /// Started by the first read.
    threads: Vec<JoinHandle<()>>,
    is_closed: bool,
}

/// A read, and the promise to its caller.
struct Task {
    reading: Reading,
    promise: Promise,
    bytes: usize,
}

impl Lines {
    fn next(&mut self) -> Option<Task> {
        let from_begun = !self.begun.is_empty() && (self.is_turn_of_begun || self.new.is_empty());
        self.is_turn_of_begun = !from_begun;
        if from_begun {
            return self.begun.pop_front();
        }
        let task = self.new.pop_front()?;
        self.bytes -= task.bytes;
        Some(task)
    }
}

impl Readers {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a read, or registers the waker if there is no room.
    pub(crate) fn poll_push(
        &self,
        core: &Weak<Core>,
        read: &mut Option<Read>,
        access: &Access,
        bytes: usize,
        waker: &Waker,
    ) -> Poll<Result<Arc<Reply>, Error>> {
        let mut lines = self.lock();
        if lines.threads.is_empty() && !lines.is_closed {
            start(core, &mut lines);
        }
        if lines.is_closed {
            return Poll::Ready(Err(Error::Closed));
        }
        let waiting = lines.new.len();
        // A request that alone exceeds the bound is accepted when no other waits.
        if waiting >= MAX_WAITING || (waiting > 0 && lines.bytes + bytes > MAX_WAITING_BYTES) {
            if !lines.blocked.iter().any(|other| other.will_wake(waker)) {
                lines.blocked.push(waker.clone());
            }
            return Poll::Pending;
        }
        let Some(read) = read.take() else { unreachable!("a read is handed over once") };
        let (reply, promise) = Reply::promised();
        let reading = Reading::new(read, access.clone());
        lines.new.push_back(Task { reading, promise, bytes });
        lines.bytes += bytes;
        drop(lines);
        self.arrived.notify_one();
        Poll::Ready(Ok(reply))
    }

    /// Serves reads until the readers are stopped.
    fn work(&self, core: &Core) {
        let mut lines = self.lock();
        loop {
            let Some(mut task) = lines.next() else {
                if lines.is_closed {
                    return;
                }
                lines = self.arrived.wait(lines).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let blocked = std::mem::take(&mut lines.blocked);
            drop(lines);
            blocked.into_iter().for_each(Waker::wake);
            let unfinished = if task.promise.is_abandoned() {
                None
            } else if let Some(outcome) = task.reading.step(core) {
                task.promise.keep(outcome);
                None
            } else {
                Some(task)
            };
            lines = self.lock();
            lines.begun.extend(unfinished);
        }
    }

    /// Refuses new reads, finishes the others, and ends the threads.
    pub(crate) fn stop(&self) {
        let (threads, blocked) = {
            let mut lines = self.lock();
            lines.is_closed = true;
            (std::mem::take(&mut lines.threads), std::mem::take(&mut lines.blocked))
        };
        self.arrived.notify_all();
        blocked.into_iter().for_each(Waker::wake);
        // The last handle may be dropped by a waker, on one of these threads.
        let this = std::thread::current().id();
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != this) {
            drop(thread.join());
        }
    }
}

/// Starts the threads. If none can be started, reads are refused.
fn start(core: &Weak<Core>, lines: &mut Lines) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..cores.clamp(*THREADS.start(), *THREADS.end()) {
        let core = core.clone();
        let work = move || {
            if let Some(core) = core.upgrade() {
                core.readers.work(&core);
            }
        };
        match std::thread::Builder::new().name("tickwheel-reader".into()).spawn(work) {
            Ok(thread) => lines.threads.push(thread),
            Err(error) => {
                tracing::error!(%error, "a reader's thread could not be started");
                lines.is_closed = lines.threads.is_empty();
                break;
            }
        }
    }
}
