//! A listener of events.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::model::access::Access;
use crate::model::event::{Event, EventId, EventsError};
use crate::runtime::event_log::{Cursor, EventLog};
use crate::runtime::reply::thread_waker;

/// A stream of changes of jobs, from now or from an event on: made by
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
/// // A listener that reconnects with an event id resumes after it.
/// let mut events = queues.events(first);
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// assert!(events.next().await?.id > first);
/// # Ok::<(), tickwheel_queue::EventsError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Events {
    log: Arc<EventLog>,
    cursor: Cursor,
    access: Access,
    queue: Option<String>,
    /// Events that were copied from the log and are returned next.
    taken: VecDeque<Event>,
    position: EventId,
}

impl Events {
    pub(crate) fn new(log: &Arc<EventLog>, after: Option<EventId>, access: Access) -> Self {
        let (cursor, position) = log.join(after);
        let (log, taken) = (Arc::clone(log), VecDeque::new());
        Self { log, cursor, access, queue: None, taken, position }
    }

    /// Only events of this queue.
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

    /// Waits for the next event in a task of any runtime. Nothing is lost if the future is dropped.
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
    /// If events were lost, or there will be no more.
    pub async fn next(&mut self) -> Result<Event, EventsError> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Waits for the next event on this thread.
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
    /// If events were lost, or there will be no more.
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

    /// Returns the next event if there is one already.
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

    /// Polls for the next event, for use in a stream or a future of your own.
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
            let (queue, access) = (self.queue.as_deref(), &self.access);
            let is_wanted = |event: &Event| {
                queue.is_none_or(|queue| *queue == *event.queue) && access.allows(&event.queue)
            };
            let waker = context.waker();
            let read = self.log.read(&mut self.cursor, &mut self.taken, is_wanted, waker);
            if self.taken.is_empty() {
                self.position = self.cursor.position;
            }
            if let Err(error) = read {
                return Poll::Ready(Err(error));
            }
        }
        match self.taken.pop_front() {
            Some(event) => {
                self.position = event.id;
                Poll::Ready(Ok(event))
            }
            None => Poll::Pending,
        }
    }

    /// Returns the id after which a listener that reconnects can resume. All events up to it were
    /// returned or belong to other queues, so it advances while this listener's queue is quiet.
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
        self.log.leave(&self.cursor);
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
    use crate::model::event::EventKind;
    use crate::model::id::JobId;
    use crate::model::time::{Time, instant_now};
    use std::time::Duration;

    fn publish(log: &EventLog, commit: u64, count: u32) {
        let run = log.run();
        let events = (1..=count).map(|index| Event {
            id: EventId { commit, index, run },
            time: Time::default(),
            queue: "q".into(),
            key: None,
            error: None,
            job: JobId::from_bytes([0; 16]),
            kind: EventKind::Acked,
        });
        log.committed(Some(events.collect()));
    }

    fn ids(events: &mut Events) -> Vec<Result<(u64, u32), EventsError>> {
        let next = || events.try_next().map(|next| next.map(|it| (it.id.commit, it.id.index)));
        std::iter::from_fn(next).take(1_000).collect()
    }

    #[test]
    fn a_slow_listener_is_told_and_goes_on_from_now() {
        let log = Arc::new(EventLog::new(4));
        let mut events = Events::new(&log, None, Access::default());
        publish(&log, 1, 4);
        assert_eq!(ids(&mut events), [Ok((1, 1)), Ok((1, 2)), Ok((1, 3)), Ok((1, 4))]);
        publish(&log, 2, 5);
        assert_eq!(ids(&mut events), [Err(EventsError::Lost)]);
        publish(&log, 3, 1);
        assert_eq!(ids(&mut events), [Ok((3, 1))]);
    }

    #[test]
    fn one_who_comes_back_goes_on_if_nothing_is_missing() {
        let log = Arc::new(EventLog::new(4));
        let events = Events::new(&log, None, Access::default());
        let start = events.position();
        publish(&log, 7, 4);
        let from = |id| ids(&mut Events::new(&log, Some(id), Access::default()));
        let id = |commit, index| EventId { commit, index, run: log.run() };
        assert_eq!(from(start).len(), 4);
        assert_eq!(from(id(7, 3)), [Ok((7, 4))]);
        assert_eq!(from(id(7, 4)), []);
        for missing in [id(7, 5), id(6, 1), EventId { run: !log.run(), ..id(7, 3) }] {
            assert_eq!(from(missing), [Err(EventsError::Lost)]);
        }
        publish(&log, 8, 1);
        assert_eq!(from(start), [Err(EventsError::Lost)]);
        assert_eq!(from(id(7, 1)).len(), 4);
    }

    #[test]
    fn one_who_came_while_a_group_was_under_way_is_told() {
        let log = Arc::new(EventLog::new(4));
        let recorded = log.wants_events(instant_now);
        let mut events = Events::new(&log, None, Access::default());
        log.committed(recorded.then(Vec::new));
        assert_eq!(ids(&mut events), [Err(EventsError::Lost)]);
        publish(&log, 1, 1);
        log.committed(Some(Vec::new()));
        assert_eq!(ids(&mut events), [Ok((1, 1))]);
    }

    #[test]
    fn nothing_is_recorded_until_somebody_listens_nor_long_after() {
        let log = Arc::new(EventLog::new(4));
        let later = |seconds| move || instant_now() + Duration::from_secs(seconds);
        assert!(!log.wants_events(later(0)));
        let events = Events::new(&log, None, Access::default());
        let start = events.position();
        assert!(log.wants_events(later(1_000)));
        drop(events);
        assert!(log.wants_events(later(59)));
        drop(Events::new(&log, Some(start), Access::default()));
        assert!(!log.wants_events(later(61)));
        // Events meanwhile were not recorded, so the old position is unknown.
        assert_eq!(
            ids(&mut Events::new(&log, Some(start), Access::default())),
            [Err(EventsError::Lost)]
        );
    }

    #[test]
    fn a_store_that_was_opened_again_is_another_run() {
        let log = Arc::new(EventLog::new(4));
        let mut events = Events::new(&log, None, Access::default());
        publish(&log, 5, 2);
        log.opened(6);
        assert_eq!(ids(&mut events), [Err(EventsError::Lost)]);
        publish(&log, 7, 1);
        assert_eq!(ids(&mut events), [Ok((7, 1))]);
        log.close();
        assert_eq!(ids(&mut events)[0], Err(EventsError::Closed));
    }
}
