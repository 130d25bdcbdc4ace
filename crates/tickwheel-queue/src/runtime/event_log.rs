//! The log of events: what was committed, for all who listen.
//!
//! The writer appends to a ring in memory, and each listener walks along it by itself. What falls
//! out of the ring is gone: a listener who had not read it is told that it lost something, and
//! the writer never waits.
//!
//! Ground rules:
//! * Events are recorded while there is a listener, and for [`LINGER`] after the last one left.
//!   At other times the engine skips each event with one comparison.
//! * The ring is one uninterrupted *run*. Whenever events may be missing in it (the recording was
//!   off, the store failed and was opened again) a new run begins, and ids of other runs are not
//!   found.
//! * An event is in the ring before anybody is answered about the commit, and never before the
//!   commit.
//! * Wakers are called after the lock is released.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::model::event::{Event, EventId, EventsError};
use crate::model::time::instant_now;

/// How long events are recorded after the last listener left, so that a listener that reconnects
/// misses none.
const LINGER: Duration = Duration::from_secs(60);
/// Events that a listener copies at a time.
const READ_EVENTS: usize = 128;

pub(crate) struct EventLog {
    capacity: usize,
    is_recording: AtomicBool,
    state: Mutex<LogState>,
}

struct LogState {
    ring: VecDeque<Event>,
    /// The number of the first event in the ring, counted over all runs.
    first: u64,
    /// What came right before the first event of the ring.
    before: EventId,
    /// The last event, or where it begins.
    last: EventId,
    listeners: usize,
    /// When the last listener left.
    idle_since: Option<Instant>,
    wakers: HashMap<u64, Waker>,
    next_listener: u64,
    closed: bool,
}

/// Where a listener is in the log.
pub(crate) struct Cursor {
    listener: u64,
    /// The number of the next event to read.
    next: u64,
    /// Whether events before `next` are missing, and the listener has not been told yet.
    is_lost: bool,
    /// The last event that was read or skipped.
    pub(crate) position: EventId,
}

impl LogState {
    /// The number of the next event.
    fn end(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    /// Forgets all events. No listener can resume from them.
    fn begin_run(&mut self, commit: u64) {
        self.first = self.end() + 1;
        self.ring = VecDeque::new();
        self.last = EventId { commit, index: 0, run: fastrand::u32(..) };
        self.before = self.last;
    }

    /// The number of the event after this one, if there is nothing missing in between.
    fn after(&self, id: EventId) -> Option<u64> {
        if id == self.before {
            return Some(self.first);
        }
        let place = self.ring.binary_search_by_key(&id, |event| event.id).ok()?;
        Some(self.first + place as u64 + 1)
    }
}

impl EventLog {
    pub(crate) fn new(capacity: usize) -> Self {
        let start = EventId { commit: 0, index: 0, run: fastrand::u32(..) };
        let state = LogState {
            ring: VecDeque::new(),
            first: 0,
            before: start,
            last: start,
            listeners: 0,
            idle_since: None,
            wakers: HashMap::new(),
            next_listener: 0,
            closed: false,
        };
        Self { capacity, is_recording: AtomicBool::new(false), state: state.into() }
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store was opened, with this as its last commit.
    pub(crate) fn opened(&self, commit: u64) {
        let mut state = self.lock();
        state.begin_run(commit);
        wake(state);
    }

    /// Whether events shall be recorded. Asked by the writer before each group.
    pub(crate) fn wants_events(&self, now: impl FnOnce() -> Instant) -> bool {
        if !self.is_recording.load(Ordering::Acquire) {
            return false;
        }
        let mut state = self.lock();
        if state.idle_since.is_none_or(|since| now() < since + LINGER) {
            return true;
        }
        state.idle_since = None;
        let commit = state.last.commit;
        state.begin_run(commit);
        self.is_recording.store(false, Ordering::Release);
        false
    }

    /// Adds the events of a commit, whose ids are in order. If they were not recorded, whoever
    /// has begun to listen since is told that something is missing.
    pub(crate) fn committed(&self, events: Option<Vec<Event>>) {
        match events {
            Some(events) if events.is_empty() => {}
            Some(events) => self.publish(events),
            None if self.is_recording.load(Ordering::Acquire) => {
                let commit = self.lock().last.commit;
                self.opened(commit);
            }
            None => {}
        }
    }

    fn publish(&self, events: Vec<Event>) {
        let mut state = self.lock();
        for event in events {
            if state.ring.len() == self.capacity
                && let Some(oldest) = state.ring.pop_front()
            {
                state.before = oldest.id;
                state.first += 1;
            }
            state.last = event.id;
            state.ring.push_back(event);
        }
        wake(state);
    }

    /// The run that ids of new events carry.
    pub(crate) fn run(&self) -> u32 {
        self.lock().last.run
    }

    /// Ends the log: listeners that have read everything get [`EventsError::Closed`].
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        wake(state);
    }

    /// Adds a listener that starts after an event, or at the end of the log. Returns its cursor
    /// and the position that it starts from.
    pub(crate) fn join(&self, after: Option<EventId>) -> (Cursor, EventId) {
        let mut state = self.lock();
        state.listeners += 1;
        state.idle_since = None;
        if !self.is_recording.swap(true, Ordering::AcqRel) {
            let commit = state.last.commit;
            state.begin_run(commit);
        }
        let listener = state.next_listener;
        state.next_listener += 1;
        let found = after.map_or(Some(state.end()), |id| state.after(id));
        let position = after.filter(|_| found.is_some()).unwrap_or(state.last);
        let next = found.unwrap_or(state.end());
        (Cursor { listener, next, is_lost: found.is_none(), position }, position)
    }

    /// Removes a listener.
    pub(crate) fn leave(&self, cursor: &Cursor) {
        let mut state = self.lock();
        state.wakers.remove(&cursor.listener);
        state.listeners -= 1;
        if state.listeners == 0 {
            state.idle_since = Some(instant_now());
        }
    }

    /// Copies the next events that a listener wants. If there are none, keeps its waker.
    pub(crate) fn read(
        &self,
        cursor: &mut Cursor,
        taken: &mut VecDeque<Event>,
        is_wanted: impl Fn(&Event) -> bool,
        waker: &Waker,
    ) -> Result<(), EventsError> {
        let mut state = self.lock();
        if cursor.is_lost || cursor.next < state.first {
            cursor.is_lost = false;
            cursor.next = state.end();
            cursor.position = state.last;
            return Err(EventsError::Lost);
        }
        let from = (cursor.next - state.first) as usize;
        for event in state.ring.range(from..) {
            cursor.next += 1;
            if is_wanted(event) {
                taken.push_back(event.clone());
                if taken.len() == READ_EVENTS {
                    return Ok(());
                }
            }
        }
        if taken.is_empty() {
            cursor.position = state.last;
            if state.closed {
                return Err(EventsError::Closed);
            }
            state.wakers.insert(cursor.listener, waker.clone());
        }
        Ok(())
    }
}

fn wake(mut state: MutexGuard<'_, LogState>) {
    let wakers = std::mem::take(&mut state.wakers);
    drop(state);
    wakers.into_values().for_each(Waker::wake);
}
