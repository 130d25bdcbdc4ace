//! The log of committed events, for listeners.
//!
//! The writer appends to a ring in memory, and each listener reads it at its own pace. The oldest
//! events are evicted. A listener that had not read them is told that it lost events; the writer
//! never waits for one.
//!
//! Ground rules:
//! * Events are recorded while there is a listener, and for [`LINGER`] after the last one left.
//!   At other times the engine skips each event with one comparison.
//! * The ring is one uninterrupted *run*. When events may be missing, because they were not
//!   recorded or the store was opened again after a failure, a new run begins. Ids of earlier runs
//!   are unknown then.
//! * An event is added after its commit, and before callers are answered.
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
    /// The id of the event before the first one in the ring.
    before: EventId,
    /// The id of the last event, or the beginning of the run.
    last: EventId,
    listeners: usize,
    /// When the last listener left.
    idle_since: Option<Instant>,
    wakers: HashMap<u64, Waker>,
    next_listener: u64,
    closed: bool,
}

/// A listener's position in the log.
pub(crate) struct Cursor {
    listener: u64,
    /// The number of the next event to read.
    next: u64,
    /// Whether events before `next` were lost and the listener does not know it yet.
    is_lost: bool,
    /// The last event that was read or skipped.
    pub(crate) position: EventId,
}

impl LogState {
    /// Returns the number of the next event.
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

    /// Returns the number of the event after `id`, if no event between them is missing.
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

    /// Begins a new run after the store was opened at this commit.
    pub(crate) fn opened(&self, commit: u64) {
        let mut state = self.lock();
        state.begin_run(commit);
        wake(state);
    }

    /// Returns `true` if events are to be recorded. The writer asks before each group.
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

    /// Adds the events of a commit, in the order of their ids. If they were not recorded, listeners
    /// that arrived meanwhile are told that events are missing.
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

    /// Returns the run of new events.
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
