//! The two rows of a schedule: its definition, written when it is put, and its progress, a small row
//! that is written with each job of the schedule.

use std::time::Duration;

use bytes::Bytes;
use tickwheel::cron::{self, Misfire};

use super::codec::{Decoder, Encode, Malformed};
use super::records::Record;
use crate::model::new_job::{NewJob, OnConflict, When};
use crate::model::schedule::{NewSchedule, Timing};
use crate::model::time::Time;

const VERSION: u8 = 1;
/// The headers that name the occurrence of a job.
const SCHEDULE_HEADER: &str = "tickwheel-schedule";
const OCCURRENCE_HEADER: &str = "tickwheel-occurrence";

/// Returns `true` if a job has the headers of this occurrence.
pub(crate) fn is_occurrence(record: &Record, schedule: &str, occurrence: Time) -> bool {
    let has = |place: usize, name: &str, value: &str| {
        record.headers.get(place).is_some_and(|header| header.0 == name && header.1 == value)
    };
    has(0, SCHEDULE_HEADER, schedule)
        && has(1, OCCURRENCE_HEADER, &occurrence.as_millis().to_string())
}

/// The definition of a schedule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScheduleRow {
    pub(crate) timing: Timing,
    pub(crate) misfire: Misfire,
    pub(crate) grace: Duration,
    /// When the timing was last changed.
    pub(crate) created: Time,
    /// The job that each occurrence puts.
    pub(crate) job: NewJob,
}

impl ScheduleRow {
    pub(crate) fn new(schedule: &NewSchedule, created: Time) -> Self {
        let NewSchedule { name: _, timing, job, misfire, grace } = schedule.clone();
        Self { timing, misfire, grace, created, job }
    }

    /// Returns the job of one occurrence, without an id.
    pub(crate) fn job_of(&self, name: &str, occurrence: Time) -> NewJob {
        let delay = match self.job.when {
            When::After(delay) => delay,
            When::At(_) => Duration::ZERO,
        };
        let mut job = self.job.clone();
        job.when = When::At(occurrence.after(delay));
        let occurrence = occurrence.as_millis().to_string();
        job.headers.insert(0, (SCHEDULE_HEADER.to_owned(), name.to_owned()));
        job.headers.insert(1, (OCCURRENCE_HEADER.to_owned(), occurrence));
        job
    }

    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.byte(VERSION);
        match &self.timing {
            Timing::Cron(schedule) => {
                bytes.byte(0);
                bytes.text(&schedule.to_string());
            }
            Timing::Every(period) => {
                bytes.byte(1);
                bytes.duration(*period);
            }
        }
        match self.misfire {
            Misfire::Skip => bytes.byte(0),
            Misfire::Once => bytes.byte(1),
            Misfire::All { limit } => {
                bytes.byte(2);
                bytes.number(limit as u64);
            }
        }
        bytes.duration(self.grace);
        bytes.time(self.created);
        bytes.text(&self.job.queue);
        bytes.byte(match self.job.on_conflict {
            OnConflict::Replace => 0,
            OnConflict::Keep => 1,
            OnConflict::Reject => 2,
        });
        bytes.duration(match self.job.when {
            When::After(delay) => delay,
            When::At(_) => Duration::ZERO,
        });
        let none = Time::default();
        Record::encode(bytes, (0, 0), (none, none), &self.job);
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes, VERSION)?;
        let timing = match decoder.byte()? {
            0 => {
                let text = decoder.text()?;
                // The expression was parsed when it was put. Only its time zone can be missing now.
                let schedule = text.parse::<cron::Schedule>();
                schedule.map_err(|error| format!("{text:?}: {error}"))?.into()
            }
            1 => match decoder.duration()? {
                Duration::ZERO => return Err("a period of zero".into()),
                period => Timing::Every(period),
            },
            other => return Err(format!("timing {other}")),
        };
        let misfire = match decoder.byte()? {
            0 => Misfire::Skip,
            1 => Misfire::Once,
            2 => Misfire::All { limit: decoder.number_as()? },
            other => return Err(format!("misfire policy {other}")),
        };
        let (grace, created) = (decoder.duration()?, decoder.time()?);
        let queue = decoder.text()?;
        let on_conflict = match decoder.byte()? {
            0 => OnConflict::Replace,
            1 => OnConflict::Keep,
            2 => OnConflict::Reject,
            other => return Err(format!("conflict policy {other}")),
        };
        let delay = decoder.duration()?;
        let record = Record::decode(decoder.rest())?;
        let mut job = NewJob::new(queue, record.payload).delay(delay);
        job.on_conflict = on_conflict;
        job.priority = record.priority;
        job.max_attempts = record.max_attempts;
        job.retry = record.retry;
        job.key = record.key;
        job.group = record.group;
        job.headers = record.headers;
        job.on_success = record.on_success;
        job.on_death = record.on_death;
        job.max_total_delay = record.max_total_delay;
        Ok(Self { timing, misfire, grace, created, job })
    }
}

/// The progress of a schedule.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Progress {
    /// All occurrences up to this time are handled.
    pub(crate) handled: Time,
    pub(crate) paused: bool,
    /// The number of jobs that the schedule has put.
    pub(crate) fired: u64,
    /// The last occurrence that put a job.
    pub(crate) last: Option<Time>,
    /// Why the last occurrence put no job.
    pub(crate) problem: Option<String>,
}

impl Progress {
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.byte(VERSION);
        bytes.time(self.handled);
        bytes.byte(u8::from(self.paused));
        bytes.number(self.fired);
        bytes.option(self.last, Encode::time);
        bytes.option(self.problem.as_deref(), Encode::text);
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes, VERSION)?;
        let progress = Self {
            handled: decoder.time()?,
            paused: decoder.flag()?,
            fired: decoder.number()?,
            last: decoder.option(Decoder::time)?,
            problem: decoder.option(Decoder::text)?,
        };
        decoder.end()?;
        Ok(progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::retry::RetryPolicy;
    use proptest::prelude::*;

    fn encoded(write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
        let mut bytes = Vec::new();
        write(&mut bytes);
        bytes.into()
    }

    #[test]
    fn schedules_come_back() {
        let second = Duration::from_secs(1);
        let timings = [
            Timing::cron("30 2 * * MON#1", "europe/berlin").unwrap(),
            Timing::cron("@daily", "+05:30").unwrap(),
            Timing::Every(second),
        ];
        let misfires = [Misfire::Skip, Misfire::Once, Misfire::All { limit: 77 }];
        for (timing, misfire) in timings.into_iter().zip(misfires) {
            let job = NewJob::new("q", "payload")
                .key("key")
                .on_conflict(OnConflict::Keep)
                .group("group")
                .header("a", "b")
                .priority(-128)
                .max_attempts(7)
                .delay(second)
                .retry(RetryPolicy::fixed(second));
            let schedule = NewSchedule::new("s", timing, job).misfire(misfire);
            let row = ScheduleRow::new(&schedule, Time::MAX);
            assert_eq!(ScheduleRow::decode(encoded(|bytes| row.encode(bytes))), Ok(row));
        }
        let progress = Progress {
            handled: Time::MAX,
            paused: true,
            fired: 300,
            last: Some(Time::from_millis(1)),
            problem: Some("no room".into()),
        };
        assert_eq!(Progress::decode(encoded(|bytes| progress.encode(bytes))), Ok(progress));
    }

    #[test]
    fn a_time_zone_that_is_not_there_is_named() {
        let bytes = encoded(|bytes| {
            bytes.byte(VERSION);
            bytes.byte(0);
            bytes.text("CRON_TZ=Mars/Olympus @daily");
        });
        let why = ScheduleRow::decode(bytes).unwrap_err();
        assert!(why.contains("Mars/Olympus"), "{why}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_reader_panic(mut bytes: Vec<u8>, versioned: bool) {
            if versioned && !bytes.is_empty() {
                bytes[0] = VERSION;
            }
            let bytes = Bytes::from(bytes);
            let _ = ScheduleRow::decode(bytes.clone());
            let _ = Progress::decode(bytes);
        }
    }
}
