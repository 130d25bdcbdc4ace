//! The events that listeners get: what happened to jobs.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::model::id::JobId;
use crate::model::time::Time;

/// The position of an event in the order of all events. It grows from event to event, also across
/// restarts.
///
/// As text it is the number of the commit, the number of the event in it, and a number that
/// identifies the run of the event log.
///
/// ```
/// use tickwheel_queue::EventId;
///
/// let id: EventId = "17-1-00c0ffee".parse()?;
/// assert_eq!(id.to_string(), "17-1-00c0ffee");
/// assert!(id < "17-2-00c0ffee".parse()? && id < "18-1-00000000".parse()?);
/// assert!("17".parse::<EventId>().is_err());
/// # Ok::<(), tickwheel_queue::ParseEventIdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    pub(crate) commit: u64,
    /// From 1 in each commit.
    pub(crate) index: u32,
    /// Identifies the run of the event log.
    pub(crate) run: u32,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{:08x}", self.commit, self.index, self.run)
    }
}

/// The error for a text that is not an event id.
///
/// ```
/// use tickwheel_queue::EventId;
/// let error = "yesterday".parse::<EventId>().unwrap_err();
/// assert!(error.to_string().contains("yesterday"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseEventIdError(String);

impl fmt::Display for ParseEventIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not an event id: use the id of an event that was received", self.0)
    }
}

impl std::error::Error for ParseEventIdError {}

impl FromStr for EventId {
    type Err = ParseEventIdError;

    fn from_str(text: &str) -> Result<Self, ParseEventIdError> {
        let parse = || {
            let mut parts = text.split('-');
            let commit = parts.next()?.parse().ok()?;
            let index = parts.next()?.parse().ok()?;
            let run = parts.next().filter(|run| run.len() == 8)?;
            let run = u32::from_str_radix(run, 16).ok()?;
            parts.next().is_none().then_some(Self { commit, index, run })
        };
        // The parser accepts other forms of a number, such as `+1`, which an id never has.
        let id = parse().filter(|id: &Self| id.to_string() == text);
        id.ok_or_else(|| ParseEventIdError(text.chars().take(64).collect()))
    }
}

/// Something that happened to a job.
///
/// ```
/// use tickwheel_queue::{EventKind, NewJob, Queues};
///
/// let queues = Queues::in_memory();
/// let mut events = queues.events(None);
/// let id = queues.put(NewJob::new("mail", "hello")).wait()?.id;
/// let event = events.wait()?;
/// assert_eq!((event.job, &*event.queue), (id, "mail"));
/// assert!(matches!(event.kind, EventKind::Put { .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The position in the order of all events.
    pub id: EventId,
    /// When it happened.
    pub time: Time,
    /// The queue of the job.
    pub queue: Arc<str>,
    /// The job.
    pub job: JobId,
    /// The key of the job.
    pub key: Option<Arc<str>>,
    /// The error of the attempt that failed or whose lease expired: its first 256 bytes.
    pub error: Option<Arc<str>>,
    /// What happened.
    pub kind: EventKind,
}

/// The kinds of events. A job that becomes ready causes no event: becoming ready writes nothing,
/// and an earlier event has told the due time.
///
/// ```
/// use tickwheel_queue::EventKind;
/// assert_eq!(EventKind::Acked.as_str(), "acked");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// It was put, by a caller or by a schedule.
    Put {
        /// When it is due.
        due: Time,
    },
    /// It was cancelled because another job was put with its key.
    Replaced {
        /// The other job.
        by: JobId,
    },
    /// It was given another due time.
    Rescheduled {
        /// When it is due.
        due: Time,
    },
    /// A worker got it.
    Leased {
        /// The number of deliveries so far.
        attempts: u32,
        /// When the lease ends.
        until: Time,
    },
    /// Its worker extended the lease.
    Extended {
        /// When the lease ends.
        until: Time,
    },
    /// Its worker acknowledged it.
    Acked,
    /// An attempt failed, and it will be tried again.
    Failed {
        /// When it is due.
        due: Time,
    },
    /// Its lease expired, and it will be tried again.
    Expired {
        /// When it is, and was, due.
        due: Time,
    },
    /// Its worker released it.
    Released {
        /// When it is due.
        due: Time,
    },
    /// Its last attempt failed, or it cannot be read.
    Dead {
        /// The number of deliveries.
        attempts: u32,
    },
    /// It was cancelled.
    Cancelled,
    /// It was dead and is ready again.
    Kicked {
        /// When it is due.
        due: Time,
    },
}

impl EventKind {
    /// Returns the name, in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Put { .. } => "put",
            Self::Replaced { .. } => "replaced",
            Self::Rescheduled { .. } => "rescheduled",
            Self::Leased { .. } => "leased",
            Self::Extended { .. } => "extended",
            Self::Acked => "acked",
            Self::Failed { .. } => "failed",
            Self::Expired { .. } => "expired",
            Self::Released { .. } => "released",
            Self::Dead { .. } => "dead",
            Self::Cancelled => "cancelled",
            Self::Kicked { .. } => "kicked",
        }
    }
}

/// Why there is no next event.
///
/// ```
/// use tickwheel_queue::{EventsError, Queues};
///
/// let queues = Queues::in_memory();
/// let mut events = queues.events(None);
/// drop(queues);
/// assert_eq!(events.wait(), Err(EventsError::Closed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventsError {
    /// Events were lost for this listener: it was too slow, the id to resume from is too old or
    /// from another run, or the store failed. Read the jobs again; the next events are those from
    /// now on.
    Lost,
    /// The queues were closed: there will be no more.
    Closed,
    /// The listener's [`Access`](crate::Access) was revoked.
    Revoked,
}

impl fmt::Display for EventsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => "some events were lost: look at the jobs anew, and go on from now",
            Self::Closed => "the queue is closed",
            Self::Revoked => "access was revoked",
        })
    }
}

impl std::error::Error for EventsError {}
