//! The jobs as a listener knows them from events alone.

use std::collections::BTreeMap;

use tickwheel_queue::{Event, EventId, EventKind, Events, EventsError, JobId, State};

#[derive(Default)]
pub(crate) struct Story {
    events: Option<Events>,
    last: Option<EventId>,
    /// The state and the due time of each job; waiting jobs are `Scheduled`.
    pub(crate) jobs: BTreeMap<JobId, (State, u64)>,
}

impl Story {
    /// Listens to queues that were just opened and contain `jobs`.
    pub(crate) fn listen(&mut self, events: Events, jobs: BTreeMap<JobId, (State, u64)>) {
        self.events = Some(events);
        self.jobs = jobs;
    }

    pub(crate) fn stop(&mut self) {
        if let Some(mut events) = self.events.take() {
            assert_eq!(events.wait().map(drop), Err(EventsError::Closed), "all was told before");
        }
    }

    /// Applies all events so far.
    pub(crate) fn catch_up(&mut self) {
        let Some(mut events) = self.events.take() else { return };
        while let Some(event) = events.try_next() {
            self.tell(&event.expect("nothing is lost"));
        }
        self.events = Some(events);
    }

    fn tell(&mut self, event: &Event) {
        assert!(self.last < Some(event.id), "{:?} after {:?}", event.id, self.last);
        self.last = Some(event.id);
        let id = event.job;
        let was = self.jobs.get(&id).copied();
        let due_was = was.map_or(0, |(_, due)| due);
        let (before, after) = match event.kind {
            EventKind::Put { due } => (None, Some((State::Scheduled, due.as_millis()))),
            EventKind::Replaced { .. } | EventKind::Cancelled => (was, None),
            EventKind::Rescheduled { due } => {
                (Some((State::Scheduled, due_was)), Some((State::Scheduled, due.as_millis())))
            }
            EventKind::Leased { .. } => {
                (Some((State::Scheduled, due_was)), Some((State::Leased, due_was)))
            }
            EventKind::Extended { .. } => {
                (Some((State::Leased, due_was)), Some((State::Leased, due_was)))
            }
            EventKind::Acked => (Some((State::Leased, due_was)), None),
            EventKind::Failed { due }
            | EventKind::Expired { due }
            | EventKind::Released { due } => {
                (Some((State::Leased, due_was)), Some((State::Scheduled, due.as_millis())))
            }
            EventKind::Dead { .. } => {
                (Some((State::Leased, due_was)), Some((State::Dead, due_was)))
            }
            EventKind::Kicked { due } => {
                (Some((State::Dead, due_was)), Some((State::Scheduled, due.as_millis())))
            }
            other => panic!("{other:?} is new here"),
        };
        assert_eq!(was, before, "{id}: {:?}", event.kind);
        match after {
            Some(after) => drop(self.jobs.insert(id, after)),
            None => drop(self.jobs.remove(&id)),
        }
    }
}
