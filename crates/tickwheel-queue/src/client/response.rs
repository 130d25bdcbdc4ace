//! Converts the response to a request into the result of an operation.

use crate::engine::{Outcome, Put};
use crate::model::activity::Activity;
use crate::model::error::Error;
use crate::model::error_group::ErrorPage;
use crate::model::group::{GroupPage, GroupSettings};
use crate::model::id::JobId;
use crate::model::idempotency::PutOnce;
use crate::model::job::{Delivery, Job, State};
use crate::model::list::Page;
use crate::model::sample::Sample;
use crate::model::schedule::{PutSchedule, Schedule};
use crate::model::settings::QueueSettings;
use crate::model::stats::{QueueInfo, Stats};
use crate::model::target::StoredTarget;
use crate::model::time::Time;
use crate::model::upcoming::DueCount;
use crate::model::wheel::WheelInfo;
use crate::runtime::request::Response;

type Many<T> = Result<Vec<Result<T, Error>>, Error>;

/// Panics for a response to another request: request and conversion are paired in one place.
fn mismatch<T>(outcome: Response) -> Result<T, Error> {
    match outcome {
        Response::Refused(error) | Response::Done(Outcome::Refused(error)) => Err(error),
        other => unreachable!("{other:?} is not what was asked for"),
    }
}

/// Returns the result of a list with one item.
fn only<T>(results: Many<T>) -> Result<T, Error> {
    match results?.pop() {
        Some(result) => result,
        None => unreachable!("one item has one result"),
    }
}

pub(crate) fn ids(outcome: Response) -> Result<Vec<JobId>, Error> {
    if let Response::Ids(ids) = outcome { ids } else { mismatch(outcome) }
}

pub(crate) fn puts(outcome: Response) -> Many<Put> {
    if let Response::Done(Outcome::Puts(results, spent)) = outcome {
        drop(spent);
        Ok(results)
    } else {
        mismatch(outcome)
    }
}

pub(crate) fn put_once(outcome: Response) -> Result<PutOnce, Error> {
    if let Response::Done(Outcome::PutOnce(result, spent)) = outcome {
        drop(spent);
        result
    } else {
        mismatch(outcome)
    }
}

pub(crate) fn put(outcome: Response) -> Result<Put, Error> {
    only(puts(outcome))
}

pub(crate) fn states(outcome: Response) -> Many<State> {
    if let Response::Done(Outcome::States(results)) = outcome {
        Ok(results)
    } else {
        mismatch(outcome)
    }
}

pub(crate) fn state(outcome: Response) -> Result<State, Error> {
    only(states(outcome))
}

pub(crate) fn times(outcome: Response) -> Many<Time> {
    if let Response::Done(Outcome::Times(results)) = outcome {
        Ok(results)
    } else {
        mismatch(outcome)
    }
}

pub(crate) fn time(outcome: Response) -> Result<Time, Error> {
    only(times(outcome))
}

pub(crate) fn units(outcome: Response) -> Many<()> {
    if let Response::Done(Outcome::Units(results)) = outcome {
        Ok(results)
    } else {
        mismatch(outcome)
    }
}

pub(crate) fn unit(outcome: Response) -> Result<(), Error> {
    only(units(outcome))
}

pub(crate) fn deliveries(outcome: Response) -> Result<Vec<Delivery>, Error> {
    if let Response::Deliveries(jobs) = outcome { jobs } else { mismatch(outcome) }
}

pub(crate) fn delivery(outcome: Response) -> Result<Option<Delivery>, Error> {
    Ok(deliveries(outcome)?.pop())
}

pub(crate) fn next_id(outcome: Response) -> Result<Option<JobId>, Error> {
    if let Response::Next(id) = outcome { Ok(id) } else { mismatch(outcome) }
}

pub(crate) fn count(outcome: Response) -> Result<u64, Error> {
    if let Response::Done(Outcome::Count(count)) = outcome { count } else { mismatch(outcome) }
}

pub(crate) fn group(outcome: Response) -> Result<GroupSettings, Error> {
    if let Response::Done(Outcome::Group(settings)) = outcome {
        settings
    } else {
        mismatch(outcome)
    }
}

pub(crate) fn groups(outcome: Response) -> Result<GroupPage, Error> {
    if let Response::Groups(page) = outcome { page } else { mismatch(outcome) }
}

pub(crate) fn settings(outcome: Response) -> Result<QueueSettings, Error> {
    if let Response::Done(Outcome::Settings(settings)) = outcome {
        settings.map(|settings| *settings)
    } else {
        mismatch(outcome)
    }
}

pub(crate) fn put_schedule(outcome: Response) -> Result<PutSchedule, Error> {
    if let Response::Done(Outcome::Schedule(put)) = outcome { put } else { mismatch(outcome) }
}

pub(crate) fn schedules(outcome: Response) -> Result<Vec<Schedule>, Error> {
    if let Response::Schedules(schedules) = outcome { schedules } else { mismatch(outcome) }
}

pub(crate) fn schedule(outcome: Response) -> Result<Option<Schedule>, Error> {
    Ok(schedules(outcome)?.pop())
}

pub(crate) fn upcoming(outcome: Response) -> Result<Vec<Time>, Error> {
    if let Response::Upcoming(times) = outcome { times } else { mismatch(outcome) }
}

pub(crate) fn targets(outcome: Response) -> Result<Vec<StoredTarget>, Error> {
    if let Response::Targets(targets) = outcome { targets } else { mismatch(outcome) }
}

pub(crate) fn target(outcome: Response) -> Result<Option<StoredTarget>, Error> {
    Ok(targets(outcome)?.pop())
}

pub(crate) fn jobs(outcome: Response) -> Many<Option<Job>> {
    if let Response::Jobs(results) = outcome { Ok(results) } else { mismatch(outcome) }
}

pub(crate) fn job(outcome: Response) -> Result<Option<Job>, Error> {
    only(jobs(outcome))
}

pub(crate) fn page(outcome: Response) -> Result<Page, Error> {
    if let Response::Page(page) = outcome { page } else { mismatch(outcome) }
}

pub(crate) fn stats(outcome: Response) -> Result<Stats, Error> {
    if let Response::Stats(stats) = outcome { Ok(*stats) } else { mismatch(outcome) }
}

pub(crate) fn activity(outcome: Response) -> Result<Activity, Error> {
    if let Response::Activity(activity) = outcome {
        activity.map(|activity| *activity)
    } else {
        mismatch(outcome)
    }
}

pub(crate) fn sample(outcome: Response) -> Result<Sample, Error> {
    if let Response::Sample(sample) = outcome { Ok(*sample) } else { mismatch(outcome) }
}

pub(crate) fn wheel(outcome: Response) -> Result<WheelInfo, Error> {
    if let Response::Wheel(wheel) = outcome { Ok(*wheel) } else { mismatch(outcome) }
}

pub(crate) fn due_counts(outcome: Response) -> Result<Vec<DueCount>, Error> {
    if let Response::DueCounts(counts) = outcome { counts } else { mismatch(outcome) }
}

pub(crate) fn errors(outcome: Response) -> Result<ErrorPage, Error> {
    if let Response::Errors(page) = outcome { page } else { mismatch(outcome) }
}

pub(crate) fn queues(outcome: Response) -> Result<Vec<QueueInfo>, Error> {
    if let Response::Queues(queues) = outcome { Ok(queues) } else { mismatch(outcome) }
}

pub(crate) fn queue(outcome: Response) -> Result<Option<QueueInfo>, Error> {
    Ok(queues(outcome)?.pop())
}
