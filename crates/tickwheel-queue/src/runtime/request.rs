//! The requests that callers send to the writer and the readers, and the responses.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Command, Outcome, Reserve};
use crate::model::access::Access;
use crate::model::activity::Activity;
use crate::model::error::Error;
use crate::model::error_group::ErrorPage;
use crate::model::group::GroupPage;
use crate::model::id::JobId;
use crate::model::job::{Delivery, Job, JobRef};
use crate::model::list::Page;
use crate::model::sample::Sample;
use crate::model::schedule::Schedule;
use crate::model::stats::{QueueInfo, Stats};
use crate::model::target::StoredTarget;
use crate::model::time::Time;
use crate::model::upcoming::DueCount;
use crate::model::wheel::WheelInfo;
use crate::runtime::reading::Read;
use crate::runtime::reply::Promise;

pub(crate) struct Submission {
    pub(crate) request: Request,
    pub(crate) access: Access,
    pub(crate) reply: Promise,
    /// The memory that it holds, roughly.
    pub(crate) bytes: usize,
}

/// A request of a caller.
pub(crate) enum Request {
    /// Change something.
    Command(Command),
    /// Lease ready jobs, waiting up to this long for the first one.
    Reserve(Reserve, Duration),
    /// Read rows from disk.
    Read(Read),
    /// Read state that only the writer has in memory.
    Ask(Ask),
}

impl Request {
    /// Returns `true` for a command in steps of which at least one is committed.
    pub(crate) fn is_half_done(&self) -> bool {
        matches!(self, Self::Command(command) if command.is_half_done())
    }

    /// Returns the request to apply again after the commit with its first application was lost, or
    /// `None` if it cannot be applied again.
    pub(crate) fn into_repeat(self) -> Option<Self> {
        match self {
            Self::Command(command) => command.into_repeat().map(Self::Command),
            Self::Reserve(..) => Some(self),
            Self::Read(_) | Self::Ask(_) => None,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Ask {
    Stats,
    /// The activity in a window of this length that ends now.
    Activity(Duration),
    /// One queue, or all.
    Queues(Option<String>),
    /// The next job of a queue.
    Next(String),
    /// The counters of all queues together, of queues in which something happened since a time, and
    /// of the named ones.
    Sample(Time, Vec<Arc<str>>),
    /// What the timing wheel holds.
    Wheel,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Response {
    Done(Outcome),
    Deliveries(Result<Vec<Delivery>, Error>),
    Jobs(Vec<Result<Option<Job>, Error>>),
    Ids(Result<Vec<JobId>, Error>),
    Page(Result<Page, Error>),
    Groups(Result<GroupPage, Error>),
    Schedules(Result<Vec<Schedule>, Error>),
    Upcoming(Result<Vec<Time>, Error>),
    Targets(Result<Vec<StoredTarget>, Error>),
    Stats(Box<Stats>),
    Activity(Result<Box<Activity>, Error>),
    Queues(Vec<QueueInfo>),
    Next(Option<JobId>),
    Sample(Box<Sample>),
    Wheel(Box<WheelInfo>),
    DueCounts(Result<Vec<DueCount>, Error>),
    Errors(Result<ErrorPage, Error>),
    /// The request was not applied, or its outcome is unknown.
    Refused(Error),
}

impl Response {
    /// Returns `true` if it reports a change, which counts only once it is committed.
    pub(crate) fn is_of_change(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Deliveries(_))
    }
}

impl Request {
    /// Returns roughly how much memory the request holds, including its submission.
    pub(crate) fn bytes(&self) -> usize {
        const FIXED: usize = 256;
        let more = match self {
            Self::Command(command) => command.bytes(),
            Self::Reserve(reserve, _) => {
                let names = reserve.source.queues().map(str::len).sum::<usize>();
                names + reserve.worker.as_ref().map_or(0, |name| name.len())
            }
            Self::Read(Read::Get(jobs)) => jobs.iter().map(JobRef::bytes).sum(),
            Self::Read(Read::List(list)) => {
                let texts = [&list.key_prefix, &list.key, &list.error, &list.error_group];
                let texts = texts.into_iter().flatten();
                list.queue.len() + texts.map(String::len).sum::<usize>()
            }
            Self::Read(Read::Groups(list)) => list.queue.len() + list.prefix.len(),
            Self::Read(
                Read::Schedule(name)
                | Read::Schedules(Some(name), _)
                | Read::NextTimes(name, _)
                | Read::Targets(Some(name)),
            )
            | Self::Ask(Ask::Queues(Some(name)) | Ask::Next(name)) => name.len(),
            Self::Read(Read::Schedules(None, _) | Read::Ids(_) | Read::Targets(None))
            | Self::Ask(Ask::Stats | Ask::Activity(_) | Ask::Queues(None) | Ask::Wheel) => 0,
            Self::Read(Read::CountDue(counting)) => counting.bytes(),
            Self::Read(Read::Errors(grouping)) => grouping.bytes(),
            Self::Ask(Ask::Sample(_, names)) => names.iter().map(|name| name.len()).sum(),
        };
        FIXED + more
    }
}
