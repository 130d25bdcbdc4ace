//! A plain model of schedules, and random histories that are played on it and on a queue.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tickwheel_queue::cron::Misfire;
use tickwheel_queue::{JobId, Time};

use crate::rig::{self, Rig, millis};
use crate::{START, every, jobs, put, set_clock};

/// A plain schedule, which examines its occurrences one by one.
#[derive(Clone, Debug)]
struct Model {
    period: u64,
    created: u64,
    handled: u64,
    misfire: Misfire,
    grace: u64,
    paused: bool,
    fired: u64,
}

impl Model {
    /// Returns the occurrences that get a job now.
    fn due(&mut self, now: u64) -> Vec<u64> {
        if self.paused {
            return Vec::new();
        }
        let times = (1..).map(|number| self.created + number * self.period);
        let due: Vec<u64> =
            times.take_while(|time| *time <= now).filter(|time| *time > self.handled).collect();
        let Some((&first, &last)) = due.first().zip(due.last()) else { return due };
        self.handled = last;
        let put = match self.misfire {
            _ if now - first <= self.grace => due,
            Misfire::Skip if now - last > self.grace => Vec::new(),
            Misfire::Skip | Misfire::Once => vec![last],
            Misfire::All { limit } => due[due.len().saturating_sub(limit)..].to_vec(),
        };
        self.fired += put.len() as u64;
        put
    }
}

/// A step of a random history.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Put { name: u8, period: u64, misfire: Misfire, grace: u64 },
    Remove(u8),
    Pause(u8, bool),
    Forward(u64),
    Back(u64),
    Work,
    Restart,
    Crash,
}

/// Returns a random step.
pub(crate) fn step() -> impl Strategy<Value = Step> {
    let misfire = prop_oneof![
        Just(Misfire::Skip),
        Just(Misfire::Once),
        (1..8_usize).prop_map(|limit| Misfire::All { limit })
    ];
    let period = prop_oneof![Just(1_000), Just(7_000), 500..30_000_u64];
    prop_oneof![
        3 => (0..3_u8, period, misfire, prop_oneof![Just(0), Just(1_000), Just(9_000_u64)])
            .prop_map(|(name, period, misfire, grace)| Step::Put { name, period, misfire, grace }),
        1 => (0..3_u8).prop_map(Step::Remove),
        1 => (0..3_u8, any::<bool>()).prop_map(|(name, paused)| Step::Pause(name, paused)),
        8 => prop_oneof![1..3_000_u64, 1..60_000_u64].prop_map(Step::Forward),
        2 => (1..100_000_u64).prop_map(Step::Back),
        3 => Just(Step::Work),
        3 => Just(Step::Restart),
        3 => Just(Step::Crash),
    ]
}

/// A queue with schedules, and the model of each.
pub(crate) struct Run {
    rig: Rig,
    now: u64,
    schedules: BTreeMap<u8, Model>,
    /// The jobs that must be in the queue.
    jobs: BTreeMap<JobId, u64>,
}

impl Default for Run {
    fn default() -> Self {
        Self { rig: Rig::new(), now: START, schedules: BTreeMap::new(), jobs: BTreeMap::new() }
    }
}

impl Run {
    /// Performs a step on the queue and on the models.
    pub(crate) fn take(&mut self, step: &Step) {
        match *step {
            Step::Put { name, period, misfire, grace } => {
                let schedule = every(&name.to_string(), millis(period));
                put(&self.rig, schedule.misfire(misfire).grace(millis(grace)));
                let mut new = Model {
                    period,
                    created: self.now,
                    handled: self.now,
                    misfire,
                    grace,
                    paused: false,
                    fired: 0,
                };
                if let Some(old) = self.schedules.get(&name) {
                    new.paused = old.paused;
                    if old.period == period {
                        new.created = old.created;
                        new.handled = old.handled;
                        new.fired = old.fired;
                    }
                }
                self.schedules.insert(name, new);
            }
            Step::Remove(name) => {
                let removed = self.rig.queues().remove_schedule(name.to_string()).wait();
                assert_eq!(removed.is_ok(), self.schedules.remove(&name).is_some());
            }
            Step::Pause(name, paused) => {
                let (queues, text) = (self.rig.queues(), name.to_string());
                let answer =
                    if paused { queues.pause_schedule(text) } else { queues.resume_schedule(text) };
                assert_eq!(answer.wait().is_ok(), self.schedules.contains_key(&name));
                let now = self.now;
                if let Some(model) = self.schedules.get_mut(&name)
                    && model.paused != paused
                {
                    model.paused = paused;
                    model.handled = model.handled.max(now);
                }
            }
            Step::Forward(by) => self.set_clock(self.now + by),
            Step::Back(by) => self.set_clock(self.now.saturating_sub(by).max(START)),
            Step::Work => {
                for delivery in self.rig.take(100) {
                    let id = delivery.job.id;
                    assert!(self.jobs.remove(&id).is_some(), "{id} was done or never put");
                    self.rig.queues().ack(delivery.lease).wait().expect("an ack");
                }
            }
            Step::Restart => self.rig.restart(),
            Step::Crash => self.rig.crash(),
        }
        self.catch_up();
    }

    fn set_clock(&mut self, now: u64) {
        set_clock(&self.rig, now - START);
        self.now = now;
    }

    fn catch_up(&mut self) {
        for (name, schedule) in &mut self.schedules {
            for time in schedule.due(self.now) {
                let id = rig::occurrence_id(&name.to_string(), Time::from_millis(time));
                if self.jobs.insert(id, time).is_some() {
                    // After the schedule was removed and put again with the clock set back, the
                    // occurrence already has its job.
                    schedule.fired -= 1;
                }
            }
        }
    }

    /// Compares the jobs and schedules of the queue with those of the models.
    pub(crate) fn compare(&self) {
        let found: BTreeMap<JobId, u64> =
            jobs(&self.rig).iter().map(|job| (job.id, job.due.as_millis())).collect();
        assert_eq!(found, self.jobs);
        let schedules = self.rig.queues().schedules().wait().expect("schedules");
        assert_eq!(schedules.len(), self.schedules.len());
        for (found, (name, model)) in schedules.iter().zip(&self.schedules) {
            assert_eq!((&found.name, found.paused), (&name.to_string(), model.paused));
            assert_eq!((found.created.as_millis(), found.fired), (model.created, model.fired));
            let from = model.handled.max(self.now);
            let next = model.created
                + ((from - model.created.min(from)) / model.period + 1) * model.period;
            let next = (!model.paused).then_some(Time::from_millis(next));
            assert_eq!(found.next, next);
        }
    }
}
