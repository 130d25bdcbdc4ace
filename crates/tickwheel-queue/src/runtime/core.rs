//! The state that the handles, the writer and the readers share.
//!
//! Ground rule: no lock is held while the disk is read or written. A lock protects the reference to
//! the store only because the store is replaced after a failure.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::engine::{Command, Queue, ReleasedJob};
use crate::model::access::Access;
use crate::model::error::Error;
use crate::model::job::Job;
use crate::model::new_job::When;
use crate::model::time::Clock;
use crate::runtime::event_log::EventLog;
use crate::runtime::inbox::Inbox;
use crate::runtime::readers::Readers;
use crate::runtime::reply::{Promise, Reply};
use crate::runtime::request::{Request, Response, Submission};
use crate::store::{Backup, Store};

/// Submissions that wait for the writer.
const MAX_ITEMS: usize = 4_096;
const MAX_BYTES: usize = 64 << 20;

thread_local! {
    /// The address of the core that this thread works for.
    static OWNER: Cell<usize> = const { Cell::new(0) };
}

pub(crate) struct Core {
    pub(crate) inbox: Inbox<Submission>,
    pub(crate) readers: Readers,
    /// The open store, or the reason why there is none.
    store: Mutex<Opened>,
    store_changed: Condvar,
    /// Backups that read the store.
    backups: Mutex<Vec<Weak<Mutex<Option<Backup>>>>>,
    names: RwLock<Names>,
    pub(crate) clock: Clock,
    /// Returns the size of a job in an answer.
    pub(crate) measure: fn(&Job) -> usize,
    pub(crate) events: Arc<EventLog>,
    pub(crate) this: Weak<Self>,
}

/// The store, as readers find it.
enum Opened {
    Store(Arc<dyn Store>),
    /// The store is being opened again, which takes a moment.
    Soon,
    Not(Error),
}

/// How long a read waits for a store that is being opened again before it checks once more.
const MOMENT: Duration = Duration::from_millis(10);

/// The names of queues by number, for readers. Numbers are never used again.
#[derive(Default)]
struct Names {
    by_number: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

impl Core {
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
            backups: Mutex::default(),
            names: RwLock::default(),
            clock,
            measure,
            events: Arc::new(EventLog::new(events)),
            this: this.clone(),
        })
    }

    /// Returns the open store, or `None` if it is still being opened after [`MOMENT`].
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

    /// Makes readers wait, because the closed store will be open again in a moment.
    pub(crate) fn expect_store(&self) {
        self.set_opened(Opened::Soon);
    }

    /// Registers a backup that must end when the store fails. A failed store is opened again only
    /// when nothing reads it, and the client of a backup may be slow.
    pub(crate) fn watch_backup(&self, backup: &Arc<Mutex<Option<Backup>>>) {
        let mut backups = self.backups.lock().unwrap_or_else(PoisonError::into_inner);
        backups.retain(|backup| backup.strong_count() > 0);
        backups.push(Arc::downgrade(backup));
    }

    fn end_backups(&self) {
        let backups =
            std::mem::take(&mut *self.backups.lock().unwrap_or_else(PoisonError::into_inner));
        for backup in backups.iter().filter_map(Weak::upgrade) {
            // Waits at most until the piece that is being read is complete.
            drop(backup.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }

    fn set_opened(&self, opened: Opened) {
        if !matches!(opened, Opened::Store(_)) {
            self.end_backups();
        }
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

    /// Removes the names of removed queues. Their numbers still map to names, for older views.
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

    /// Adds the new queues of `queues`, which holds all queues by number.
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

    /// Marks this thread as one of the queue's own.
    pub(crate) fn claim_thread(&self) {
        OWNER.set(std::ptr::from_ref(self).addr());
    }

    /// Returns `true` on a thread of the queue's own.
    pub(crate) fn owns_thread(&self) -> bool {
        OWNER.get() == std::ptr::from_ref(self).addr()
    }

    /// Sends a request, if there is room for it.
    pub(crate) fn poll_send(
        &self,
        request: &mut Option<Request>,
        access: &Access,
        waker: &Waker,
    ) -> Poll<Result<Arc<Reply>, Error>> {
        let Some(taken) = request.take() else {
            unreachable!("a request is sent once");
        };
        let bytes = taken.bytes();
        let taken = match taken {
            Request::Read(read) => {
                let mut read = Some(read);
                let sent = self.readers.poll_push(&self.this, &mut read, access, bytes, waker);
                *request = read.map(Request::Read);
                return sent;
            }
            taken => taken,
        };
        let (reply, promise) = Reply::promised();
        let access = access.clone();
        let mut submission = Some(Submission { request: taken, access, reply: promise, bytes });
        match self.inbox.poll_push(&mut submission, bytes, waker) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(reply)),
            Poll::Ready(Err(_)) => Poll::Ready(Err(Error::Closed)),
            Poll::Pending => {
                *request = submission.map(|submission| submission.request);
                Poll::Pending
            }
        }
    }

    /// Returns jobs to their queue whose delivery was dropped before the caller received it.
    pub(crate) fn take_back(&self, response: Response) {
        let Response::Deliveries(Ok(deliveries)) = response else { return };
        if deliveries.is_empty() {
            return;
        }
        let now = When::After(Duration::ZERO);
        let released = deliveries
            .iter()
            .map(|delivery| ReleasedJob {
                lease: delivery.lease,
                when: now,
                error: None,
                priority: None,
            })
            .collect();
        let request = Request::Command(Command::Release(released));
        let bytes = request.bytes();
        let (access, reply) = (Access::default(), Promise::to_nobody());
        self.inbox.push_now(Submission { request, access, reply, bytes }, bytes);
    }
}
