//! What the handles, the writer and the readers share.
//!
//! Ground rules: the hub holds no lock while it reads or writes the disk. The store is behind a
//! lock only because it is exchanged when it failed and was opened again.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use crate::access::Access;
use crate::answer::Promise;
use crate::engine::{Command, Outcome as Done, Queue};
use crate::error::Error;
use crate::feed::Feed;
use crate::inbox::Inbox;
use crate::job::Job;
use crate::read::{Page, Read};
use crate::readers::Readers;
use crate::schedule::Schedule;
use crate::stats::{QueueInfo, Stats};
use crate::store::Store;
use crate::time::{Clock, Time};

/// Submissions that wait for the writer.
const MAX_ITEMS: usize = 4_096;
const MAX_BYTES: usize = 64 << 20;

thread_local! {
    /// The address of the hub that this thread works for.
    static OWNER: Cell<usize> = const { Cell::new(0) };
}

pub(crate) struct Hub {
    pub(crate) inbox: Inbox<Submission>,
    pub(crate) readers: Readers,
    /// The open store, or why there is none.
    store: Mutex<Opened>,
    store_changed: Condvar,
    names: RwLock<Names>,
    pub(crate) clock: Clock,
    /// How large a job is in an answer.
    pub(crate) measure: fn(&Job) -> usize,
    pub(crate) feed: Arc<Feed>,
    pub(crate) this: Weak<Self>,
}

/// What readers find of the store.
enum Opened {
    Store(Arc<dyn Store>),
    /// It is being opened again, which takes a moment.
    Soon,
    Not(Error),
}

/// How long a read waits for a store that is being opened again, before it looks once more.
const MOMENT: Duration = Duration::from_millis(10);

/// The names of the queues, for readers. Numbers are only ever added.
#[derive(Default)]
struct Names {
    by_number: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

pub(crate) struct Submission {
    pub(crate) request: Request,
    pub(crate) access: Access,
    pub(crate) reply: Promise,
    /// About how much memory it holds.
    pub(crate) bytes: usize,
}

/// What a caller wants.
pub(crate) enum Request {
    /// A change.
    Command(Command),
    /// Something that is on disk.
    Read(Read),
    /// Something that only the writer knows.
    Ask(Ask),
}

impl Request {
    /// Whether it is a sweep of which some steps are done.
    pub(crate) fn is_half_done(&self) -> bool {
        matches!(self, Self::Command(command) if command.is_half_done())
    }
}

#[derive(Debug)]
pub(crate) enum Ask {
    Stats,
    /// One queue, or all.
    Queues(Option<String>),
}

/// What a caller gets.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done(Done),
    Jobs(Vec<Result<Option<Job>, Error>>),
    Page(Result<Page, Error>),
    Schedules(Result<Vec<Schedule>, Error>),
    Upcoming(Result<Vec<Time>, Error>),
    Stats(Box<Stats>),
    Queues(Vec<QueueInfo>),
    /// Nothing of it was done, or it is unknown.
    Refused(Error),
}

impl Hub {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        events: usize,
        measure: fn(&Job) -> usize,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            inbox: Inbox::new(MAX_ITEMS, MAX_BYTES),
            readers: Readers::default(),
            store: Mutex::new(Opened::Store(store)),
            store_changed: Condvar::new(),
            names: RwLock::default(),
            clock,
            measure,
            feed: Arc::new(Feed::new(events)),
            this: this.clone(),
        })
    }

    /// The open store; `None` if it is still being opened after a moment.
    pub(crate) fn store(&self) -> Result<Option<Arc<dyn Store>>, Error> {
        let mut opened = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*opened, Opened::Soon) {
            if self.owns_thread() {
                return Err(Error::Unavailable("it is being opened on this thread".into()));
            }
            let is_opening = |opened: &mut Opened| matches!(opened, Opened::Soon);
            let waited = self.store_changed.wait_timeout_while(opened, MOMENT, is_opening);
            opened = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        match &*opened {
            Opened::Store(store) => Ok(Some(Arc::clone(store))),
            Opened::Soon => Ok(None),
            Opened::Not(error) => Err(error.clone()),
        }
    }

    pub(crate) fn set_store(&self, store: Result<Arc<dyn Store>, Error>) {
        self.set_opened(match store {
            Ok(store) => Opened::Store(store),
            Err(error) => Opened::Not(error),
        });
    }

    /// Lets readers wait: the store is closed, and will be there again in a moment.
    pub(crate) fn expect_store(&self) {
        self.set_opened(Opened::Soon);
    }

    fn set_opened(&self, opened: Opened) {
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = opened;
        self.store_changed.notify_all();
    }

    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        self.names.read().unwrap_or_else(PoisonError::into_inner).by_number.clone()
    }

    pub(crate) fn name(&self, number: u32) -> Option<Arc<str>> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        names.by_number.get(number as usize).cloned()
    }

    pub(crate) fn number_of(&self, queue: &str) -> Option<u32> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        names.numbers.get(queue).copied()
    }

    /// Forgets the names of queues that were removed. Their numbers keep them, for views that were
    /// taken before.
    pub(crate) fn remove_names(&self, removed: &[(Arc<str>, u32)]) {
        if removed.is_empty() {
            return;
        }
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        for (name, number) in removed {
            if names.numbers.get(name) == Some(number) {
                names.numbers.remove(name);
            }
        }
    }

    /// Adds the queues that are new; all of them are given, by number.
    pub(crate) fn add_names(&self, queues: &[Queue]) {
        let is_new = {
            let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
            queues.len() > names.by_number.len()
        };
        if !is_new {
            return;
        }
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        for queue in &queues[names.by_number.len()..] {
            let number = names.by_number.len() as u32;
            names.by_number.push(Arc::clone(&queue.name));
            if !queue.is_removed {
                names.numbers.insert(Arc::clone(&queue.name), number);
            }
        }
    }

    /// Says that this thread works for the queues.
    pub(crate) fn claim_thread(&self) {
        OWNER.set(std::ptr::from_ref(self).addr());
    }

    /// Whether this thread works for the queues.
    pub(crate) fn owns_thread(&self) -> bool {
        OWNER.get() == std::ptr::from_ref(self).addr()
    }
}
