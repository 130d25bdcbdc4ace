//! What clients were told, and the rules that it must keep.
//!
//! Clients act one after the other. An operation whose outcome is unknown may have taken effect at
//! any time before the next acknowledged operation, or not at all.

use std::collections::{BTreeMap, BTreeSet};

use tickwheel_queue::{JobId, State};

/// How far clocks of nodes that may own a partition differ, doubled: a delay is counted on one
/// clock and ends on another.
const TOLERANCE_MS: u64 = 2 * 500 + 200;
/// The age of an answer of a fenced read, with the same tolerance for the clock.
const READ_AGE_MS: u64 = 1_000;

/// How an operation ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// It certainly had no effect.
    Refused,
    Unknown,
}

/// An operation of a client, at the simulation's time in milliseconds.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Put {
        id: JobId,
        key: Option<u32>,
        delay_ms: u64,
    },
    Cancel {
        id: JobId,
    },
    Reschedule {
        id: JobId,
        delay_ms: u64,
    },
    /// One delivered job of a `reserve`.
    Delivered {
        id: JobId,
        token: u64,
        lease_ms: u64,
    },
    Ack {
        id: JobId,
        token: u64,
    },
    Fail {
        id: JobId,
    },
    Extend {
        id: JobId,
        token: u64,
        lease_ms: u64,
    },
    Read {
        id: JobId,
        found: Option<State>,
    },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    events: Vec<(Span, Event, Outcome)>,
}

/// When an operation was sent, and when its answer arrived, in milliseconds. It took effect
/// somewhere between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) sent: u64,
    pub(crate) answered: u64,
}

/// Whether a job has ended in a certain way.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Ended {
    #[default]
    No,
    Maybe,
    Certainly,
}

impl From<Outcome> for Ended {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::Certainly,
            Outcome::Refused => Self::No,
            Outcome::Unknown => Self::Maybe,
        }
    }
}

/// What the history says about one job.
#[derive(Default)]
struct Fate {
    put_at: Option<u64>,
    /// The put certainly had no effect.
    was_refused: bool,
    due_ms: u64,
    /// The earliest due time of changes whose outcome is unknown: they may take effect any time.
    maybe_due_ms: Option<u64>,
    /// Whether it was cancelled or replaced.
    cancelled: Ended,
    acked: Ended,
    /// The lease that is certainly live, and until when.
    lease: Option<(u64, u64)>,
}

impl Fate {
    /// The time before which the job is certainly not due.
    fn due_ms(&self) -> u64 {
        self.maybe_due_ms.map_or(self.due_ms, |maybe| maybe.min(self.due_ms))
    }

    /// Whether the job must be live: it was put, and nothing can have ended it.
    fn must_live(&self) -> bool {
        self.put_at.is_some() && self.cancelled == Ended::No && self.acked == Ended::No
    }
}

impl History {
    pub(crate) fn note(&mut self, span: Span, event: Event, outcome: Outcome) {
        self.events.push((span, event, outcome));
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn count(&self, outcome: Outcome) -> usize {
        self.events.iter().filter(|event| event.2 == outcome).count()
    }

    /// Jobs that clients know of.
    pub(crate) fn jobs(&self) -> BTreeSet<JobId> {
        let put = |event: &(Span, Event, Outcome)| match event.1 {
            Event::Put { id, .. } => Some(id),
            _ => None,
        };
        self.events.iter().filter_map(put).collect()
    }

    /// Checks the history against the final state of all jobs, and returns what is wrong.
    pub(crate) fn check(&self, finally: &BTreeMap<JobId, State>) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut fates: BTreeMap<JobId, Fate> = BTreeMap::new();
        // The job that has each key, and those that may have it.
        let mut keys: BTreeMap<u32, BTreeSet<JobId>> = BTreeMap::new();
        for (at, event, outcome) in &self.events {
            Self::step(*at, event, *outcome, &mut fates, &mut keys, &mut wrong);
        }
        for (id, fate) in &fates {
            let state = finally.get(id);
            let is_live = state.is_some_and(|state| state.is_live());
            if fate.was_refused && state.is_some() {
                wrong.push(format!("the put of {id} was refused, but the job is {state:?}"));
            }
            if fate.must_live() {
                if !is_live {
                    wrong.push(format!("the acknowledged put of {id} is lost: {state:?}"));
                }
            } else if fate.cancelled.max(fate.acked) == Ended::Certainly && is_live {
                wrong.push(format!("{id} has ended, but is {state:?}"));
            }
        }
        for (key, holders) in keys {
            let live = |id: &&JobId| finally.get(id).is_some_and(|state| state.is_live());
            let holders: Vec<_> = holders.iter().filter(live).collect();
            if holders.len() > 1 {
                wrong.push(format!("key {key} has several live jobs: {holders:?}"));
            }
        }
        wrong
    }

    fn step(
        Span { sent, answered: at }: Span,
        event: &Event,
        outcome: Outcome,
        fates: &mut BTreeMap<JobId, Fate>,
        keys: &mut BTreeMap<u32, BTreeSet<JobId>>,
        wrong: &mut Vec<String>,
    ) {
        match *event {
            Event::Put { id, key, delay_ms } => {
                if let Some(key) = key
                    && outcome != Outcome::Refused
                {
                    let holders = keys.entry(key).or_default();
                    for older in holders.iter() {
                        let older = fates.entry(*older).or_default();
                        older.cancelled = older.cancelled.max(outcome.into());
                        older.lease = None;
                    }
                    if outcome == Outcome::Done {
                        holders.clear();
                    }
                    holders.insert(id);
                }
                let fate = fates.entry(id).or_default();
                fate.due_ms = sent + delay_ms;
                fate.put_at = (outcome == Outcome::Done).then_some(at);
                fate.was_refused = outcome == Outcome::Refused;
            }
            Event::Cancel { id } if outcome != Outcome::Refused => {
                let fate = fates.entry(id).or_default();
                fate.cancelled = fate.cancelled.max(outcome.into());
                fate.lease = None;
            }
            Event::Reschedule { id, delay_ms } if outcome != Outcome::Refused => {
                let fate = fates.entry(id).or_default();
                let due = sent + delay_ms;
                if outcome == Outcome::Done {
                    fate.due_ms = due;
                } else {
                    fate.maybe_due_ms = Some(fate.maybe_due_ms.map_or(due, |it| it.min(due)));
                }
            }
            Event::Delivered { id, token, lease_ms } => {
                let fate = fates.entry(id).or_default();
                if fate.was_refused {
                    wrong.push(format!("{id} was delivered at {at}, but its put was refused"));
                }
                if fate.cancelled == Ended::Certainly {
                    wrong.push(format!("{id} was delivered at {at} after it was cancelled"));
                }
                if fate.acked == Ended::Certainly {
                    wrong.push(format!("{id} was delivered at {at} after it was acknowledged"));
                }
                if at + TOLERANCE_MS < fate.due_ms() {
                    wrong.push(format!("{id} was due at {}, delivered at {at}", fate.due_ms()));
                }
                if let Some((other, until)) = fate.lease
                    && other != token
                    && at + TOLERANCE_MS < until
                {
                    wrong.push(format!("{id} was delivered at {at} while leased until {until}"));
                }
                fate.lease = Some((token, sent + lease_ms));
            }
            Event::Ack { id, token } if outcome != Outcome::Refused => {
                let fate = fates.entry(id).or_default();
                if outcome == Outcome::Done {
                    if fate.acked == Ended::Certainly {
                        wrong.push(format!("{id} was acknowledged twice, at {at} again"));
                    }
                    if fate.lease.is_some_and(|(other, _)| other != token) {
                        wrong.push(format!("{id} was acknowledged at {at} with a stale lease"));
                    }
                }
                fate.acked = fate.acked.max(outcome.into());
                fate.lease = None;
            }
            Event::Fail { id } if outcome != Outcome::Refused => {
                fates.entry(id).or_default().lease = None;
            }
            Event::Extend { id, token, lease_ms } if outcome != Outcome::Refused => {
                let fate = fates.entry(id).or_default();
                if fate.lease.is_some_and(|(other, _)| other == token) {
                    // An extension may also shorten a lease, so an unknown one proves nothing.
                    let until = (outcome == Outcome::Done).then_some((token, sent + lease_ms));
                    fate.lease = until;
                }
            }
            Event::Read { id, found } => {
                let fate = fates.entry(id).or_default();
                let is_old = fate.put_at.is_some_and(|put| put + READ_AGE_MS < sent);
                let is_there = found.is_some_and(State::is_live);
                if is_old && fate.must_live() && !is_there {
                    wrong.push(format!("a read at {at} does not find {id}: {found:?}"));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u8) -> JobId {
        JobId::from_bytes([number; 16])
    }

    fn at(time: u64) -> Span {
        Span { sent: time, answered: time }
    }

    fn put(number: u8) -> (Span, Event, Outcome) {
        (at(0), Event::Put { id: job(number), key: None, delay_ms: 0 }, Outcome::Done)
    }

    fn delivered(time: u64, token: u64) -> (Span, Event, Outcome) {
        (at(time), Event::Delivered { id: job(1), token, lease_ms: 10_000 }, Outcome::Done)
    }

    fn ack(time: u64, token: u64) -> (Span, Event, Outcome) {
        (at(time), Event::Ack { id: job(1), token }, Outcome::Done)
    }

    /// What the checker says about a history, if job 1 is in this state at its end.
    fn verdict(
        events: impl IntoIterator<Item = (Span, Event, Outcome)>,
        state: Option<State>,
    ) -> String {
        let history = History { events: events.into_iter().collect() };
        let finally = state.map(|state| (job(1), state)).into_iter().collect();
        history.check(&finally).join("\n")
    }

    #[test]
    fn a_correct_history_passes() {
        let events = [put(1), delivered(5, 7), ack(9, 7)];
        assert_eq!(verdict(events, Some(State::Done)), "");
        assert_eq!(verdict([put(1)], Some(State::Ready)), "");
    }

    #[test]
    fn a_lost_put_is_detected() {
        assert!(verdict([put(1)], None).contains("is lost"));
        let unknown = (at(0), put(1).1, Outcome::Unknown);
        assert_eq!(verdict([unknown], None), "");
    }

    #[test]
    fn a_delivery_after_a_cancel_is_detected() {
        let cancel = (at(3), Event::Cancel { id: job(1) }, Outcome::Done);
        let found = verdict([put(1), cancel, delivered(5, 7)], None);
        assert!(found.contains("after it was cancelled"), "{found}");
    }

    #[test]
    fn an_ended_job_that_lives_is_detected() {
        let cancel = (at(3), Event::Cancel { id: job(1) }, Outcome::Done);
        assert!(verdict([put(1), cancel], Some(State::Ready)).contains("has ended"));
    }

    #[test]
    fn two_acknowledgements_are_detected() {
        let events = [put(1), delivered(5, 7), ack(9, 7), ack(10, 7)];
        assert!(verdict(events, None).contains("acknowledged twice"));
    }

    #[test]
    fn a_delivery_after_an_acknowledgement_is_detected() {
        let events = [put(1), delivered(5, 7), ack(9, 7), delivered(30_000, 8)];
        assert!(verdict(events, None).contains("after it was acknowledged"));
    }

    #[test]
    fn two_live_leases_are_detected() {
        let events = [put(1), delivered(5, 7), delivered(6_000, 8)];
        assert!(verdict(events, Some(State::Leased)).contains("while leased until"));
        let later = [put(1), delivered(5, 7), delivered(10_100, 8)];
        assert_eq!(verdict(later, Some(State::Leased)), "");
    }

    #[test]
    fn a_stale_lease_is_detected() {
        let events = [put(1), delivered(5, 7), delivered(10_100, 8), ack(10_200, 7)];
        assert!(verdict(events, None).contains("stale lease"));
    }

    #[test]
    fn an_early_delivery_is_detected() {
        let late = Event::Put { id: job(1), key: None, delay_ms: 5_000 };
        let events = [(at(0), late, Outcome::Done), delivered(3_000, 7)];
        assert!(verdict(events, Some(State::Leased)).contains("was due at"));
    }

    #[test]
    fn a_refused_put_that_took_effect_is_detected() {
        let refused = (at(0), put(1).1, Outcome::Refused);
        assert!(verdict([refused.clone()], Some(State::Ready)).contains("was refused"));
        assert!(verdict([refused.clone(), delivered(5, 7)], None).contains("put was refused"));
        assert_eq!(verdict([refused], None), "");
    }

    #[test]
    fn a_delivery_before_the_new_due_time_is_detected() {
        let reschedule =
            |outcome| (at(0), Event::Reschedule { id: job(1), delay_ms: 5_000 }, outcome);
        let leased = Some(State::Leased);
        let early = [put(1), reschedule(Outcome::Done), delivered(3_000, 7)];
        assert!(verdict(early, leased).contains("was due at"));
        let unknown = [put(1), reschedule(Outcome::Unknown), delivered(3_000, 7)];
        assert_eq!(verdict(unknown, leased), "");
        // A change whose answer was lost may take effect after another one.
        let later = (at(1), Event::Reschedule { id: job(1), delay_ms: 9_000 }, Outcome::Done);
        let both = [put(1), reschedule(Outcome::Unknown), later, delivered(5_100, 7)];
        assert_eq!(verdict(both, leased), "");
    }

    #[test]
    fn a_stale_read_is_detected() {
        let read = (at(2_000), Event::Read { id: job(1), found: None }, Outcome::Done);
        assert!(verdict([put(1), read], Some(State::Ready)).contains("does not find"));
    }

    #[test]
    fn two_live_jobs_with_one_key_are_detected() {
        let keyed = |number| {
            (at(0), Event::Put { id: job(number), key: Some(3), delay_ms: 0 }, Outcome::Unknown)
        };
        let history = History { events: vec![keyed(1), keyed(2)] };
        let finally = [(job(1), State::Ready), (job(2), State::Ready)].into();
        assert!(history.check(&finally).join("\n").contains("several live jobs"));
        let replaced = History {
            events: vec![(at(0), keyed(1).1, Outcome::Done), (at(1), keyed(2).1, Outcome::Done)],
        };
        assert!(replaced.check(&finally).join("\n").contains("has ended"));
    }
}
