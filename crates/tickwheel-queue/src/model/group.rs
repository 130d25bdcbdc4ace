//! Groups of a queue: their settings, and how callers see them.

use crate::model::settings::Pacing;

/// The settings of one group of a queue.
///
/// ```
/// use tickwheel_queue::{GroupPatch, NewJob, Pacing, Queues};
///
/// let queues = Queues::in_memory();
/// queues.put_all((0..3).map(|_| NewJob::new("mail", "").group("acme"))).wait()?;
/// let slow = GroupPatch::default().pacing(Some(Pacing::default().concurrency(1)));
/// let settings = queues.patch_group("mail", "acme", slow).wait()?;
/// assert_eq!(settings.pacing, Some(Pacing::default().concurrency(1)));
/// assert_eq!(queues.reserve("mail", 10, None).wait()?.len(), 1);
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSettings {
    /// The pace of the group. `None` means the queue's
    /// [`group_pacing`](crate::QueueSettings::group_pacing).
    pub pacing: Option<Pacing>,
    /// Whether the jobs of the group are held until it is resumed.
    pub paused: bool,
}

impl GroupSettings {
    /// The largest number of groups of a queue that may have settings; they are kept in memory.
    pub const MAX_GROUPS: u64 = 10_000;
}

/// A change of a group's settings. Fields that are `None` stay as they are.
///
/// See [`GroupSettings`] for an example.
///
/// ```
/// use tickwheel_queue::GroupPatch;
/// let patch = GroupPatch::default().paused(true).pacing(None);
/// assert_eq!((patch.paused, patch.pacing), (Some(true), Some(None)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupPatch {
    /// See [`GroupSettings::pacing`]; `Some(None)` returns to the queue's.
    #[allow(clippy::option_option, reason = "no change differs from no limits of its own")]
    pub pacing: Option<Option<Pacing>>,
    /// See [`GroupSettings::paused`].
    pub paused: Option<bool>,
}

impl GroupPatch {
    /// Sets the pace of the group; `None` returns to the queue's.
    #[must_use]
    pub fn pacing(mut self, pacing: Option<Pacing>) -> Self {
        self.pacing = Some(pacing);
        self
    }

    /// Pauses the group, or resumes it.
    #[must_use]
    pub fn paused(mut self, paused: bool) -> Self {
        self.paused = Some(paused);
        self
    }

    /// Returns the settings with the given fields changed.
    pub(crate) fn apply(self, settings: GroupSettings) -> GroupSettings {
        GroupSettings {
            pacing: self.pacing.unwrap_or(settings.pacing),
            paused: self.paused.unwrap_or(settings.paused),
        }
    }
}

/// A group of a queue: its settings and its numbers of live jobs.
///
/// ```
/// use tickwheel_queue::{GroupList, GroupPatch, NewJob, Queues};
///
/// let queues = Queues::in_memory();
/// queues.put(NewJob::new("mail", "").group("acme")).wait()?;
/// queues.patch_group("mail", "acme", GroupPatch::default().paused(true)).wait()?;
/// let page = queues.groups(GroupList::of("mail")).wait()?;
/// let acme = &page.groups[0];
/// assert_eq!((acme.waiting, acme.running, acme.held), (1, 0, 1));
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupInfo {
    /// Its name.
    pub name: String,
    /// What is set for it.
    pub settings: GroupSettings,
    /// Jobs that wait for their time or for a worker, held ones included.
    pub waiting: u64,
    /// Leased jobs.
    pub running: u64,
    /// Jobs that are due but not delivered, because the group is paused or at one of its limits.
    pub held: u64,
}

/// Which groups to list, of one queue: those with live jobs or settings, by name.
///
/// ```
/// use tickwheel_queue::{GroupList, NewJob, Queues};
///
/// let queues = Queues::in_memory();
/// for customer in ["acme", "initech"] {
///     queues.put(NewJob::new("mail", "").group(customer)).wait()?;
/// }
/// let list = GroupList { limit: 1, ..GroupList::of("mail") };
/// let first = queues.groups(list.clone()).wait()?;
/// assert_eq!((&*first.groups[0].name, first.next.as_deref()), ("acme", Some("acme")));
/// let second = queues.groups(GroupList { after: first.next, ..list }).wait()?;
/// assert_eq!((&*second.groups[0].name, second.next), ("initech", None));
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupList {
    /// The queue.
    pub queue: String,
    /// Only groups whose name begins with this.
    pub prefix: String,
    /// The name of the last group of the previous page.
    pub after: Option<String>,
    /// The largest number of groups to return, from 1 to 1,000.
    pub limit: usize,
}

impl GroupList {
    /// The largest number of groups in a page.
    pub const MAX_LIMIT: usize = 1_000;

    /// All groups of a queue, 100 to a page.
    pub fn of(queue: impl Into<String>) -> Self {
        Self { queue: queue.into(), prefix: String::new(), after: None, limit: 100 }
    }
}

/// A page of a list of groups. See [`GroupList`] for an example.
///
/// ```
/// use tickwheel_queue::{GroupList, Queues};
/// let page = Queues::in_memory().groups(GroupList::of("nothing here")).wait()?;
/// assert!(page.groups.is_empty() && page.next.is_none());
/// # Ok::<(), tickwheel_queue::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupPage {
    /// The groups, by name.
    pub groups: Vec<GroupInfo>,
    /// The name of the last group examined, if more may follow: the `after` of the next page.
    pub next: Option<String>,
}
