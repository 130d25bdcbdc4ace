//! From the outcome of a request to what its caller was promised.

use crate::engine::{Outcome as Done, Put};
use crate::error::Error;
use crate::hub::Outcome;
use crate::job::{Delivery, Job, State};
use crate::read::Page;
use crate::schedule::{PutSchedule, Schedule};
use crate::stats::{QueueInfo, Stats};
use crate::time::Time;

type Many<T> = Result<Vec<Result<T, Error>>, Error>;

/// The outcome of another request: cannot be, since request and conversion are paired in one place.
fn mismatch<T>(outcome: Outcome) -> Result<T, Error> {
    match outcome {
        Outcome::Refused(error) | Outcome::Done(Done::Refused(error)) => Err(error),
        other => unreachable!("{other:?} is not what was asked for"),
    }
}

/// The only result of a list of one.
fn only<T>(results: Many<T>) -> Result<T, Error> {
    match results?.pop() {
        Some(result) => result,
        None => unreachable!("one item has one result"),
    }
}

pub(crate) fn puts(outcome: Outcome) -> Many<Put> {
    if let Outcome::Done(Done::Puts(results, spent)) = outcome {
        drop(spent);
        Ok(results)
    } else {
        mismatch(outcome)
    }
}

pub(crate) fn put(outcome: Outcome) -> Result<Put, Error> {
    only(puts(outcome))
}

pub(crate) fn states(outcome: Outcome) -> Many<State> {
    if let Outcome::Done(Done::States(results)) = outcome { Ok(results) } else { mismatch(outcome) }
}

pub(crate) fn state(outcome: Outcome) -> Result<State, Error> {
    only(states(outcome))
}

pub(crate) fn times(outcome: Outcome) -> Many<Time> {
    if let Outcome::Done(Done::Times(results)) = outcome { Ok(results) } else { mismatch(outcome) }
}

pub(crate) fn time(outcome: Outcome) -> Result<Time, Error> {
    only(times(outcome))
}

pub(crate) fn units(outcome: Outcome) -> Many<()> {
    if let Outcome::Done(Done::Units(results)) = outcome { Ok(results) } else { mismatch(outcome) }
}

pub(crate) fn unit(outcome: Outcome) -> Result<(), Error> {
    only(units(outcome))
}

pub(crate) fn deliveries(outcome: Outcome) -> Result<Vec<Delivery>, Error> {
    if let Outcome::Done(Done::Deliveries(jobs)) = outcome { jobs } else { mismatch(outcome) }
}

pub(crate) fn count(outcome: Outcome) -> Result<u64, Error> {
    if let Outcome::Done(Done::Count(count)) = outcome { count } else { mismatch(outcome) }
}

pub(crate) fn put_schedule(outcome: Outcome) -> Result<PutSchedule, Error> {
    if let Outcome::Done(Done::Schedule(put)) = outcome { put } else { mismatch(outcome) }
}

pub(crate) fn schedules(outcome: Outcome) -> Result<Vec<Schedule>, Error> {
    if let Outcome::Schedules(schedules) = outcome { schedules } else { mismatch(outcome) }
}

pub(crate) fn schedule(outcome: Outcome) -> Result<Option<Schedule>, Error> {
    Ok(schedules(outcome)?.pop())
}

pub(crate) fn upcoming(outcome: Outcome) -> Result<Vec<Time>, Error> {
    if let Outcome::Upcoming(times) = outcome { times } else { mismatch(outcome) }
}

pub(crate) fn jobs(outcome: Outcome) -> Many<Option<Job>> {
    if let Outcome::Jobs(results) = outcome { Ok(results) } else { mismatch(outcome) }
}

pub(crate) fn job(outcome: Outcome) -> Result<Option<Job>, Error> {
    only(jobs(outcome))
}

pub(crate) fn page(outcome: Outcome) -> Result<Page, Error> {
    if let Outcome::Page(page) = outcome { page } else { mismatch(outcome) }
}

pub(crate) fn stats(outcome: Outcome) -> Result<Stats, Error> {
    if let Outcome::Stats(stats) = outcome { Ok(*stats) } else { mismatch(outcome) }
}

pub(crate) fn queues(outcome: Outcome) -> Result<Vec<QueueInfo>, Error> {
    if let Outcome::Queues(queues) = outcome { Ok(queues) } else { mismatch(outcome) }
}

pub(crate) fn queue(outcome: Outcome) -> Result<Option<QueueInfo>, Error> {
    Ok(queues(outcome)?.pop())
}
