//! Lists of jobs: the request and its pages.

use std::fmt;
use std::str::FromStr;

use crate::model::error_group::{ErrorGroup, contains};
use crate::model::id::JobId;
use crate::model::job::{ANSWER_BYTES, Job, State};
use crate::model::time::Time;

/// A request for the jobs of one queue.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_queue::{List, NewJob, Queues, State};
///
/// let queues = Queues::in_memory();
/// for order in 0..5 {
///     let job = NewJob::new("orders", "close").key(format!("order-{order}"));
///     queues.put(job.delay(Duration::from_secs(60 * order))).wait()?;
/// }
/// let mut list = List::of("orders").state(State::Scheduled).limit(3);
/// let first = queues.list(list.clone()).wait()?;
/// assert_eq!(first.jobs.len(), 3);
/// list.after = first.next;
/// let second = queues.list(list).wait()?;
/// assert_eq!((second.jobs.len(), second.next), (1, None));
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct List {
    /// The queue.
    pub queue: String,
    /// Only jobs in this state.
    pub state: Option<State>,
    /// Only jobs due at this time or later.
    pub due_from: Time,
    /// Only jobs due at this time or earlier.
    pub due_to: Time,
    /// Only jobs whose key begins with this: live ones, in order of their keys, or those that
    /// finished in `state`.
    pub key_prefix: Option<String>,
    /// Only jobs with this key: the live one, and finished ones that are kept.
    pub key: Option<String>,
    /// Only jobs whose last error contains this text. The case of ASCII letters does not matter.
    pub error: Option<String>,
    /// Only jobs whose last error belongs to the [`ErrorGroup`](crate::ErrorGroup) with this text.
    pub error_group: Option<String>,
    /// Whether to list only scheduled and ready jobs.
    pub only_waiting: bool,
    /// Whether the jobs have their payloads. Without them a page holds more jobs.
    pub payloads: bool,
    /// The largest number of jobs to return, from 1 to 10,000.
    pub limit: usize,
    /// The size in bytes at which a page ends before `limit` is reached, at most 16 MiB. See
    /// [`Builder::measure`](crate::Builder::measure).
    pub bytes: usize,
    /// Where the previous page ended.
    pub after: Option<PageToken>,
}

impl List {
    /// The largest number of jobs in a page.
    pub const MAX_LIMIT: usize = 10_000;

    /// Lists all jobs of a queue, 100 to a page.
    pub fn of(queue: impl Into<String>) -> Self {
        Self {
            queue: queue.into(),
            state: None,
            due_from: Time::default(),
            due_to: Time::MAX,
            key_prefix: None,
            key: None,
            error: None,
            error_group: None,
            only_waiting: false,
            payloads: true,
            limit: 100,
            bytes: ANSWER_BYTES,
            after: None,
        }
    }

    /// Lists only jobs in this state.
    #[must_use]
    pub fn state(mut self, state: State) -> Self {
        self.state = Some(state);
        self
    }

    /// Lists only jobs due between these times, inclusive.
    #[must_use]
    pub fn due(mut self, from: impl Into<Time>, to: impl Into<Time>) -> Self {
        (self.due_from, self.due_to) = (from.into(), to.into());
        self
    }

    /// Lists only jobs with this key: the live one, and finished ones that are kept.
    ///
    /// ```
    /// use tickwheel_queue::{List, NewJob, Queues, Retry, State};
    ///
    /// let queues = Queues::in_memory();
    /// queues.put(NewJob::new("orders", "").key("order-42")).wait()?;
    /// let lease = queues.reserve("orders", 1, None).wait()?[0].lease;
    /// queues.fail(lease, "card declined", Retry::Never).wait()?;
    /// assert_eq!(queues.get(("orders", "order-42")).wait()?, None, "it is not live");
    /// let page = queues.list(List::of("orders").key("order-42")).wait()?;
    /// assert_eq!(page.jobs[0].state, State::Dead);
    /// # Ok::<(), tickwheel_queue::Error>(())
    /// ```
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Lists only jobs whose last error contains this text, whatever the case of ASCII letters.
    #[must_use]
    pub fn error(mut self, text: impl Into<String>) -> Self {
        self.error = Some(text.into());
        self
    }

    /// Returns `true` if an error is wanted; `None` is that of a job without one.
    pub(crate) fn wants_error(&self, error: Option<&str>) -> bool {
        let has = |text: &String| error.is_some_and(|error| contains(error, text));
        let is_in =
            |group: &String| error.is_some_and(|error| ErrorGroup::text_of(error) == *group);
        self.error.as_ref().is_none_or(has) && self.error_group.as_ref().is_none_or(is_in)
    }

    /// Returns `true` if the last error decides.
    pub(crate) fn is_by_error(&self) -> bool {
        self.error.is_some() || self.error_group.is_some()
    }

    /// Returns `true` if a job is wanted.
    pub(crate) fn wants(&self, job: &Job) -> bool {
        let key = job.key.as_deref();
        let begins = |prefix: &String| key.is_some_and(|key| key.starts_with(prefix.as_str()));
        self.state.is_none_or(|state| state == job.state)
            && (!self.only_waiting || matches!(job.state, State::Scheduled | State::Ready))
            && (self.due_from..=self.due_to).contains(&job.due)
            && self.key.as_deref().is_none_or(|wanted| key == Some(wanted))
            && self.key_prefix.as_ref().is_none_or(begins)
            && self.wants_error(job.last_error.as_deref())
    }

    /// Lists only jobs whose key begins with this: live ones, in order of their keys, or those that
    /// finished in the state that is asked for.
    #[must_use]
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = Some(prefix.into());
        self
    }

    /// Sets the largest number of jobs in a page.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }
}

/// A page of a list. Live jobs come first, in order of delivery, then leased, dead, done and
/// cancelled ones.
///
/// ```
/// use tickwheel_queue::{List, Queues};
/// let page = Queues::in_memory().list(List::of("nothing here")).wait()?;
/// assert!(page.jobs.is_empty() && page.next.is_none() && page.damaged.is_empty());
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Where the next page begins; `None` if this is the last.
    pub next: Option<PageToken>,
    /// Jobs that match but cannot be read.
    pub damaged: Vec<JobId>,
    /// Places where the list itself cannot be read, so that jobs may be missing. Opening with
    /// [`salvage`](crate::Builder::salvage) restores them.
    pub gaps: u64,
}

/// Where a page ended. It can be passed to a client and back as text.
///
/// ```
/// use tickwheel_queue::{List, NewJob, PageToken, Queues};
///
/// let queues = Queues::in_memory();
/// for _ in 0..2 {
///     queues.put(NewJob::new("mail", "")).wait()?;
/// }
/// let token = queues.list(List::of("mail").limit(1)).wait()?.next.unwrap();
/// assert_eq!(token.to_string().parse::<PageToken>().unwrap(), token);
/// assert!("nonsense".parse::<PageToken>().is_err());
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageToken {
    /// The part of the index that the page ended in.
    pub(crate) part: u8,
    /// The last row that was examined.
    pub(crate) key: Vec<u8>,
}

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}", self.part)?;
        self.key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for PageToken {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "not a page token: give back what the last page gave".to_owned();
        if !text.is_ascii() || !text.len().is_multiple_of(2) {
            return Err(wrong());
        }
        let bytes: Result<Vec<u8>, _> = (0..text.len())
            .step_by(2)
            .map(|start| u8::from_str_radix(&text[start..start + 2], 16))
            .collect();
        let bytes = bytes.map_err(|_| wrong())?;
        let (&part, key) = bytes.split_first().ok_or_else(wrong)?;
        Ok(Self { part, key: key.to_vec() })
    }
}
