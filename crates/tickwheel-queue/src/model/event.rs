//! What happens to jobs, as those who listen are told it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::model::id::JobId;
use crate::model::time::Time;

/// The place of an event in the order of all: grows from event to event, also across restarts.
///
/// As text it is the number of the commit, the number of the event in it, and a word that tells
/// one run of the feed from others.
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
    /// Differs from one run of the feed to the next.
    pub(crate) run: u32,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{:08x}", self.commit, self.index, self.run)
    }
}

/// A text that is not the id of an event.
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
        write!(f, "{:?} is not an event's id: take one that an event had", self.0)
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
        // What a number may be written as besides, such as `+1`, is not what was given out.
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
    /// Its place in the order of all.
    pub id: EventId,
    /// When it happened.
    pub time: Time,
    /// The queue of the job.
    pub queue: Arc<str>,
    /// The job.
    pub job: JobId,
    /// What happened.
    pub kind: EventKind,
}

/// What can happen to a job. That its time comes is no event: becoming ready writes nothing, and
/// the due time was told before.
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
    /// It was cancelled, since another was put with its key.
    Replaced {
        /// The other one.
        by: JobId,
    },
    /// It was given another due time.
    Rescheduled {
        /// When it is due.
        due: Time,
    },
    /// A worker got it.
    Leased {
        /// How often it was delivered so far.
        attempts: u32,
        /// When the lease ends.
        until: Time,
    },
    /// Its worker asked for more time.
    Extended {
        /// When the lease ends.
        until: Time,
    },
    /// Its worker has done it.
    Acked,
    /// An attempt failed, and it will be tried again.
    Failed {
        /// When it is due.
        due: Time,
    },
    /// Its lease ran out, and it will be tried again.
    Expired {
        /// When it is, and was, due.
        due: Time,
    },
    /// Its worker gave it back unused.
    Released {
        /// When it is due.
        due: Time,
    },
    /// Its last attempt failed, or it cannot be read.
    Dead {
        /// How often it was delivered.
        attempts: u32,
    },
    /// It was cancelled.
    Cancelled,
    /// It was dead, and was brought back.
    Kicked {
        /// When it is due.
        due: Time,
    },
}

impl EventKind {
    /// Its name, in small letters.
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
    /// Some events were lost for this listener: it was too slow, or the id that it wanted to go on
    /// from is too old or of another run, or the store failed. Look at the jobs anew; events go on
    /// with what happens from now.
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
