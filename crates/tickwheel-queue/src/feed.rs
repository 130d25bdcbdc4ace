//! The feed of events: what was committed, for all who listen.
//!
//! The writer appends to a ring in memory, and each listener walks along it by itself. What falls
//! out of the ring is gone: a listener who had not read it is told that it lost something, and
//! the writer never waits.
//!
//! Ground rules:
//! * Nothing is recorded until somebody listens, and again from a while after the last one left:
//!   until then the engine passes each event over with one comparison.
//! * The ring is one uninterrupted *run*. Whenever events may be missing in it (the recording was
//!   off, the store failed and was opened again) a new run begins, and ids of other runs are not
//!   found.
//! * An event is in the ring before anybody is answered about the commit, and never before the
//!   commit.
//! * Wakers are called after the lock is released.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::access::Access;
use crate::answer::thread_waker;
use crate::event::{Event, EventId, EventsError};
use crate::id::random;
use crate::time::instant_now;

/// How long recording goes on when nobody listens, so that a listener who comes back misses
/// nothing.
const LINGER: Duration = Duration::from_secs(60);
/// Events that a listener takes at a time.
const TAKE: usize = 128;

pub(crate) struct Feed {
    capacity: usize,
    is_recording: AtomicBool,
    state: Mutex<State>,
}

struct State {
    ring: VecDeque<Event>,
    /// The number of the first event in the ring, counted over all runs.
    first: u64,
    /// What came right before the first event of the ring.
    before: EventId,
    /// The last event, or where it begins.
    last: EventId,
    listeners: usize,
    /// Since when nobody listens.
    idle_since: Option<Instant>,
    wakers: HashMap<u64, Waker>,
    next_listener: u64,
    closed: bool,
}

impl State {
    /// The number of the next event.
    fn end(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    /// Forgets what there was. Nobody can go on from there.
    fn begin_run(&mut self, commit: u64) {
        self.first = self.end() + 1;
        self.ring = VecDeque::new();
        self.last = EventId { commit, index: 0, run: random() as u32 };
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

impl Feed {
    pub(crate) fn new(capacity: usize) -> Self {
        let start = EventId { commit: 0, index: 0, run: random() as u32 };
        let state = State {
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

    fn lock(&self) -> MutexGuard<'_, State> {
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

    /// There will be no more.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        wake(state);
    }
}

fn wake(mut state: MutexGuard<'_, State>) {
    let wakers = std::mem::take(&mut state.wakers);
    drop(state);
    wakers.into_values().for_each(Waker::wake);
}

/// What happens to jobs from now on, or from an event on: made by
/// [`Queues::events`](crate::Queues::events).
///
/// ```
/// use tickwheel_queue::{NewJob, Queues};
///
/// let queues = Queues::in_memory();
/// let mut events = queues.events(None);
/// queues.put(NewJob::new("mail", "one")).wait()?;
/// queues.put(NewJob::new("mail", "two")).wait()?;
/// let first = events.wait()?.id;
/// drop(events);
///
/// // Somebody who comes back goes on where it was.
/// let mut events = queues.events(first);
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// assert!(events.next().await?.id > first);
/// # Ok::<(), tickwheel_queue::EventsError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Events {
    feed: Arc<Feed>,
    number: u64,
    access: Access,
    queue: Option<String>,
    /// The number of the next event to take.
    next: u64,
    is_lost: bool,
    taken: VecDeque<Event>,
    position: EventId,
}

impl Events {
    pub(crate) fn new(feed: &Arc<Feed>, from: Option<EventId>, access: Access) -> Self {
        let mut state = feed.lock();
        state.listeners += 1;
        state.idle_since = None;
        if !feed.is_recording.swap(true, Ordering::AcqRel) {
            let commit = state.last.commit;
            state.begin_run(commit);
        }
        let number = state.next_listener;
        state.next_listener += 1;
        let found = from.map_or(Some(state.end()), |id| state.after(id));
        Self {
            feed: Arc::clone(feed),
            number,
            access,
            queue: None,
            next: found.unwrap_or(state.end()),
            is_lost: found.is_none(),
            taken: VecDeque::new(),
            position: from.filter(|_| found.is_some()).unwrap_or(state.last),
        }
    }

    /// Only those of one queue.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let mut events = queues.events(None).of_queue("mail");
    /// queues.put(NewJob::new("orders", "")).wait()?;
    /// queues.put(NewJob::new("mail", "")).wait()?;
    /// assert_eq!(&*events.wait()?.queue, "mail");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn of_queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// The next event, for a task of any runtime. Nothing is lost if the future is dropped.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    /// # runtime.block_on(async {
    /// let queues = Queues::in_memory();
    /// let mut events = queues.events(None);
    /// let put = queues.put(NewJob::new("mail", "hello")).await?;
    /// assert_eq!(events.next().await?.job, put.id);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// If some were lost, or there will be no more.
    pub async fn next(&mut self) -> Result<Event, EventsError> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The next event, for a thread, which waits for it.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let mut events = queues.events(None);
    /// let put = queues.put(NewJob::new("mail", "hello")).wait()?;
    /// assert_eq!(events.wait()?.job, put.id);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If some were lost, or there will be no more.
    pub fn wait(&mut self) -> Result<Event, EventsError> {
        let waker = thread_waker();
        let mut context = Context::from_waker(&waker);
        loop {
            match self.poll_next(&mut context) {
                Poll::Ready(next) => return next,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    /// The next event if there is one already; `None` if not.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let mut events = queues.events(None);
    /// assert_eq!(events.try_next(), None);
    /// queues.put(NewJob::new("mail", "hello")).wait()?;
    /// assert!(matches!(events.try_next(), Some(Ok(_)))); // there as soon as it was answered
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn try_next(&mut self) -> Option<Result<Event, EventsError>> {
        match self.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(next) => Some(next),
            Poll::Pending => None,
        }
    }

    /// The next event, for those who write a stream or a future of their own.
    ///
    /// ```
    /// use std::task::{Context, Poll, Waker};
    /// use tickwheel_queue::Queues;
    ///
    /// let queues = Queues::in_memory();
    /// let mut events = queues.events(None);
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert_eq!(events.poll_next(&mut context), Poll::Pending);
    /// ```
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Event, EventsError>> {
        if self.access.is_revoked() {
            return Poll::Ready(Err(EventsError::Revoked));
        }
        if self.taken.is_empty() {
            let feed = Arc::clone(&self.feed);
            let mut state = feed.lock();
            if self.is_lost || self.next < state.first {
                self.is_lost = false;
                self.next = state.end();
                self.position = state.last;
                return Poll::Ready(Err(EventsError::Lost));
            }
            self.take(&state);
            if self.taken.is_empty() {
                self.position = state.last;
                if state.closed {
                    return Poll::Ready(Err(EventsError::Closed));
                }
                state.wakers.insert(self.number, context.waker().clone());
                return Poll::Pending;
            }
        }
        match self.taken.pop_front() {
            Some(event) => {
                self.position = event.id;
                Poll::Ready(Ok(event))
            }
            None => unreachable!("some were taken"),
        }
    }

    fn take(&mut self, state: &State) {
        let from = (self.next - state.first) as usize;
        for event in state.ring.range(from..) {
            self.next += 1;
            let is_wanted = self.queue.as_ref().is_none_or(|queue| **queue == *event.queue);
            if is_wanted && self.access.allows(&event.queue) {
                self.taken.push_back(event.clone());
                if self.taken.len() == TAKE {
                    return;
                }
            }
        }
    }

    /// Everything up to here was given, or is of other queues: where somebody who comes back may
    /// go on. Of use when a queue is quiet and others are not.
    ///
    /// ```
    /// use tickwheel_queue::{NewJob, Queues};
    ///
    /// let queues = Queues::in_memory();
    /// let mut events = queues.events(None).of_queue("quiet");
    /// let before = events.position();
    /// queues.put(NewJob::new("mail", "")).wait()?;
    /// assert_eq!(events.try_next(), None);
    /// assert!(events.position() > before);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    pub fn position(&self) -> EventId {
        self.position
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let mut state = self.feed.lock();
        state.wakers.remove(&self.number);
        state.listeners -= 1;
        if state.listeners == 0 {
            state.idle_since = Some(instant_now());
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events")
            .field("queue", &self.queue)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use crate::id::JobId;
    use crate::time::Time;

    fn publish(feed: &Feed, commit: u64, count: u32) {
        let run = feed.run();
        let events = (1..=count).map(|index| Event {
            id: EventId { commit, index, run },
            time: Time::default(),
            queue: "q".into(),
            job: JobId::from_bytes([0; 16]),
            kind: EventKind::Acked,
        });
        feed.committed(Some(events.collect()));
    }

    fn ids(events: &mut Events) -> Vec<Result<(u64, u32), EventsError>> {
        let next = || events.try_next().map(|next| next.map(|it| (it.id.commit, it.id.index)));
        std::iter::from_fn(next).take(1_000).collect()
    }

    #[test]
    fn a_slow_listener_is_told_and_goes_on_from_now() {
        let feed = Arc::new(Feed::new(4));
        let mut events = Events::new(&feed, None, Access::default());
        publish(&feed, 1, 4);
        assert_eq!(ids(&mut events), [Ok((1, 1)), Ok((1, 2)), Ok((1, 3)), Ok((1, 4))]);
        publish(&feed, 2, 5);
        assert_eq!(ids(&mut events), [Err(EventsError::Lost)]);
        publish(&feed, 3, 1);
        assert_eq!(ids(&mut events), [Ok((3, 1))]);
    }

    #[test]
    fn one_who_comes_back_goes_on_if_nothing_is_missing() {
        let feed = Arc::new(Feed::new(4));
        let events = Events::new(&feed, None, Access::default());
        let start = events.position();
        publish(&feed, 7, 4);
        let from = |id| ids(&mut Events::new(&feed, Some(id), Access::default()));
        let id = |commit, index| EventId { commit, index, run: feed.run() };
        assert_eq!(from(start).len(), 4);
        assert_eq!(from(id(7, 3)), [Ok((7, 4))]);
        assert_eq!(from(id(7, 4)), []);
        for missing in [id(7, 5), id(6, 1), EventId { run: !feed.run(), ..id(7, 3) }] {
            assert_eq!(from(missing), [Err(EventsError::Lost)]);
        }
        publish(&feed, 8, 1);
        assert_eq!(from(start), [Err(EventsError::Lost)]);
        assert_eq!(from(id(7, 1)).len(), 4);
    }

    #[test]
    fn one_who_came_while_a_group_was_under_way_is_told() {
        let feed = Arc::new(Feed::new(4));
        let recorded = feed.wants_events(instant_now);
        let mut events = Events::new(&feed, None, Access::default());
        feed.committed(recorded.then(Vec::new));
        assert_eq!(ids(&mut events), [Err(EventsError::Lost)]);
        publish(&feed, 1, 1);
        feed.committed(Some(Vec::new()));
        assert_eq!(ids(&mut events), [Ok((1, 1))]);
    }

    #[test]
    fn nothing_is_recorded_until_somebody_listens_nor_long_after() {
        let feed = Arc::new(Feed::new(4));
        let later = |seconds| move || instant_now() + Duration::from_secs(seconds);
        assert!(!feed.wants_events(later(0)));
        let events = Events::new(&feed, None, Access::default());
        let start = events.position();
        assert!(feed.wants_events(later(1_000)));
        drop(events);
        assert!(feed.wants_events(later(59)));
        drop(Events::new(&feed, Some(start), Access::default()));
        assert!(!feed.wants_events(later(61)));
        // What happened meanwhile is not there, so the old place is not either.
        assert_eq!(
            ids(&mut Events::new(&feed, Some(start), Access::default())),
            [Err(EventsError::Lost)]
        );
    }

    #[test]
    fn a_store_that_was_opened_again_is_another_run() {
        let feed = Arc::new(Feed::new(4));
        let mut events = Events::new(&feed, None, Access::default());
        publish(&feed, 5, 2);
        feed.opened(6);
        assert_eq!(ids(&mut events), [Err(EventsError::Lost)]);
        publish(&feed, 7, 1);
        assert_eq!(ids(&mut events), [Ok((7, 1))]);
        feed.close();
        assert_eq!(ids(&mut events)[0], Err(EventsError::Closed));
    }
}
