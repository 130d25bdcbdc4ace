//! Reading schedules from a snapshot of the store.

use bytes::Bytes;

use crate::engine::unreadable;
use crate::model::access::Access;
use crate::model::error::Error;
use crate::model::occurrences::Occurrences;
use crate::model::schedule::Schedule;
use crate::model::time::Time;
use crate::model::validation::check_times;
use crate::store::schedules::{Progress, ScheduleRow};
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View, rows};

/// A schedule as stored on disk.
struct Stored {
    name: String,
    row: ScheduleRow,
    progress: Progress,
}

impl Stored {
    fn read(view: &dyn View, name: &str, row: Bytes) -> Result<Self, Error> {
        let damaged = |why| Error::DamagedSchedule { name: name.to_owned(), why };
        let row = ScheduleRow::decode(row).map_err(damaged)?;
        let progress = view.get(Table::Index, &rows::progress(name)).map_err(unreadable)?;
        let progress =
            progress.ok_or_else(|| damaged("how far it has come is not there".into()))?;
        let progress = Progress::decode(progress).map_err(damaged)?;
        Ok(Self { name: name.to_owned(), row, progress })
    }

    /// Returns the future occurrences.
    fn upcoming(&self, now: Time) -> impl Iterator<Item = Time> {
        let occurrences = Occurrences { timing: &self.row.timing, created: self.row.created };
        let next = move |time: &Time| occurrences.next_after(*time);
        std::iter::successors(next(&self.progress.handled.max(now)), next)
    }

    fn into_schedule(self, now: Time) -> Schedule {
        let next = if self.progress.paused { None } else { self.upcoming(now).next() };
        let Self { name, row, progress } = self;
        let ScheduleRow { timing, misfire, grace, created, job } = row;
        let Progress { handled: _, paused, fired, last, problem } = progress;
        Schedule { name, timing, job, misfire, grace, created, paused, next, last, fired, problem }
    }
}

/// Returns one schedule in a list, which is empty if there is none.
pub(crate) fn one(
    view: &dyn View,
    now: Time,
    name: &str,
    access: &Access,
) -> Result<Vec<Schedule>, Error> {
    let stored = visible(view, name, access)?;
    Ok(stored.map(|stored| stored.into_schedule(now)).into_iter().collect())
}

/// Returns the schedules after this name that the caller may see, without damaged ones. The one
/// whose row reaches `bytes` bytes in total is the last.
pub(crate) fn after(
    view: &dyn View,
    now: Time,
    name: Option<&str>,
    bytes: usize,
    access: &Access,
) -> Result<Vec<Schedule>, Error> {
    // No name contains a zero byte, so this is the first key after that of the name.
    let from = name.map_or(vec![rows::SCHEDULE], |name| [&*rows::schedule(name), &[0]].concat());
    let (mut schedules, mut read) = (Vec::new(), 0);
    for row in Tolerant::new(view, Table::Index, &from, &[rows::SCHEDULE + 1]) {
        let (key, value) = match row {
            Ok(row) => row,
            Err(StoreError::Damaged(_)) => continue,
            Err(error) => return Err(unreadable(error)),
        };
        let Some(name) = rows::read_name(&key) else { continue };
        let size = key.len() + value.len();
        match Stored::read(view, name, value) {
            Ok(stored) if access.allows(&stored.row.job.queue) => {
                schedules.push(stored.into_schedule(now));
                read += size;
                if read >= bytes {
                    break;
                }
            }
            Ok(_) | Err(Error::DamagedSchedule { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(schedules)
}

/// Returns the next occurrences of a schedule, at most `times` of them.
pub(crate) fn next_times(
    view: &dyn View,
    now: Time,
    name: &str,
    times: usize,
    access: &Access,
) -> Result<Vec<Time>, Error> {
    check_times(times)?;
    let stored = visible(view, name, access)?;
    let stored = stored.ok_or_else(|| Error::NoSuchSchedule(name.to_owned()))?;
    Ok(stored.upcoming(now).take(times).collect())
}

/// Returns a schedule, or `None` if there is none that the caller may see. A caller with limited
/// access does not see an unreadable one, because it may belong to any queue.
fn visible(view: &dyn View, name: &str, access: &Access) -> Result<Option<Stored>, Error> {
    let row = view.get(Table::Index, &rows::schedule(name)).map_err(|error| match error {
        StoreError::Damaged(why) => Error::DamagedSchedule { name: name.to_owned(), why },
        other => unreadable(other),
    });
    let stored = row.and_then(|row| row.map(|row| Stored::read(view, name, row)).transpose());
    match stored {
        Err(Error::DamagedSchedule { .. }) if access.is_limited() => Ok(None),
        stored => Ok(stored?.filter(|stored| access.allows(&stored.row.job.queue))),
    }
}
