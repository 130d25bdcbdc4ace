//! Which connections are open, and which of them wait for their clients.
//!
//! A connection is *new* until its first request has arrived, *busy* while a request is answered,
//! *receiving* while it waits for the rest of a request's body, and *idle* between requests. A
//! connection that waits costs its client nothing, so it must not keep other clients out.
//!
//! Ground rules:
//! * New connections have a budget of their own, in total and per address. A connection beyond it
//!   replaces the oldest new one.
//! * When there are too many connections, the one that has waited longest for its client is closed:
//!   a new one, else an idle or receiving one. A busy connection is never closed. If all are busy, the
//!   new connection is refused.
//! * A connection closes itself when it is asked to. It first reads what has arrived, and stays if
//!   that makes it busy.
//! * A request changes two atomics. The lock is taken when a connection begins, ends, or sends its
//!   first request.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::memory::Share;
use crate::app::neighbourhood;

/// The number of new connections that is always allowed, whatever the limit.
const FEW: usize = 16;
/// The maximum number of connections that were asked to close and are still open. With more, no
/// connection is accepted.
const MAX_CLOSING: usize = 64;

/// All connections of the service.
pub(crate) struct Connections {
    state: Mutex<State>,
    /// A logical clock, which shows which connection has waited longest.
    time: AtomicU64,
    /// Notified when a connection has ended.
    ended: Notify,
    limit: usize,
    max_new: usize,
    max_new_per_address: usize,
}

#[derive(Default)]
struct State {
    open: HashMap<u64, Arc<Presence>>,
    next: u64,
    /// New connections, oldest first.
    new: BTreeMap<u64, IpAddr>,
    new_of: HashMap<IpAddr, BTreeSet<u64>>,
    /// The number of open connections that were asked to close.
    closing: usize,
}

/// The state of a connection that others see.
#[derive(Default)]
struct Presence {
    is_new: AtomicBool,
    is_busy: AtomicBool,
    /// The connection waits for the rest of a request's body.
    is_receiving: AtomicBool,
    /// The client does not read fast enough. That has a time limit of its own.
    is_stalled: AtomicBool,
    /// When the connection began to wait.
    since: AtomicU64,
    is_closing: AtomicBool,
    close: Notify,
}

impl Presence {
    /// Returns `true` if the connection waits for its client, and so can be closed.
    fn is_waiting(&self) -> bool {
        let is = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        if is(&self.is_busy) { is(&self.is_receiving) } else { !is(&self.is_stalled) }
    }
}

impl State {
    /// Asks a connection to close.
    fn close(&mut self, id: u64) {
        self.not_new(id);
        if let Some(presence) = self.open.get(&id)
            && !presence.is_closing.swap(true, Ordering::AcqRel)
        {
            self.closing += 1;
            presence.close.notify_one();
        }
    }

    fn not_new(&mut self, id: u64) {
        if let Some(address) = self.new.remove(&id)
            && let Some(ids) = self.new_of.get_mut(&address)
        {
            ids.remove(&id);
            if ids.is_empty() {
                self.new_of.remove(&address);
            }
        }
    }

    fn oldest_new(&self) -> Option<u64> {
        self.new.first_key_value().map(|(id, _)| *id)
    }

    /// Returns the connection that has waited longest for its client: a new one, if there is one.
    fn longest_waiting(&self) -> Option<u64> {
        let others = || {
            self.open
                .iter()
                .filter(|(_, it)| it.is_waiting() && !it.is_closing.load(Ordering::Acquire))
                .min_by_key(|(_, it)| it.since.load(Ordering::Relaxed))
                .map(|(id, _)| *id)
        };
        self.oldest_new().or_else(others)
    }
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let few = FEW.min(limit);
        Arc::new(Self {
            state: Mutex::default(),
            time: AtomicU64::new(0),
            ended: Notify::new(),
            limit,
            max_new: few.max(limit / 2),
            max_new_per_address: few.max(limit / 4),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a place for a new connection, for which another may be asked to close; `None` if all
    /// others are busy.
    pub(crate) fn enter(self: &Arc<Self>, address: SocketAddr) -> Option<Place> {
        let from = neighbourhood(address.ip());
        let mut state = self.lock();
        let of_address =
            state.new_of.get(&from).filter(|ids| ids.len() >= self.max_new_per_address);
        let replaced = match of_address {
            Some(ids) => ids.first().copied(),
            None if state.new.len() >= self.max_new => state.oldest_new(),
            None => None,
        };
        if let Some(id) = replaced {
            state.close(id);
        }
        if state.open.len() - state.closing >= self.limit {
            let longest = state.longest_waiting()?;
            state.close(longest);
        }
        let id = state.next;
        state.next += 1;
        let presence = Arc::new(Presence::default());
        presence.is_new.store(true, Ordering::Relaxed);
        state.open.insert(id, Arc::clone(&presence));
        state.new.insert(id, from);
        state.new_of.entry(from).or_default().insert(id);
        Some(Place { connections: Arc::clone(self), presence, id, address })
    }

    /// Waits until few connections are closing. Each of them still has its file descriptor.
    pub(crate) async fn settled(&self) {
        loop {
            let ended = self.ended.notified();
            if self.lock().closing < MAX_CLOSING {
                return;
            }
            ended.await;
        }
    }
}

/// The place of a connection among the others, until it is dropped.
pub(crate) struct Place {
    connections: Arc<Connections>,
    presence: Arc<Presence>,
    id: u64,
    address: SocketAddr,
}

impl Place {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the connection is asked to close.
    pub(crate) async fn asked_to_close(&self) {
        self.presence.close.notified().await;
    }

    /// Returns `true` if the connection waits for its client. Otherwise closing it would lose an
    /// answer.
    pub(crate) fn is_waiting(&self) -> bool {
        self.presence.is_waiting()
    }

    /// Returns `true` if an answer is being sent, or a complete request has arrived.
    pub(crate) fn is_busy(&self) -> bool {
        let is = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        is(&self.presence.is_busy) || is(&self.presence.is_stalled)
    }

    /// Keeps a connection that was asked to close, because it is busy.
    pub(crate) fn stay(&self) {
        if self.presence.is_closing.swap(false, Ordering::AcqRel) {
            self.connections.lock().closing -= 1;
            self.connections.ended.notify_waiters();
        }
    }

    /// Returns the flag that shows that the client does not read fast enough.
    pub(crate) fn stall(self: &Arc<Self>) -> StallFlag {
        StallFlag(Arc::clone(&self.presence))
    }

    /// Notes that a request has arrived.
    pub(crate) fn begin(self: &Arc<Self>) -> Visit {
        if self.presence.is_new.swap(false, Ordering::AcqRel) {
            self.connections.lock().not_new(self.id);
        }
        self.presence.is_busy.store(true, Ordering::Release);
        Visit(Arc::new(Request { place: Arc::clone(self), body: Mutex::new(None) }))
    }

    fn wait_from_now(&self) {
        let now = self.connections.time.fetch_add(1, Ordering::Relaxed);
        self.presence.since.store(now, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.connections.lock();
        state.not_new(self.id);
        state.open.remove(&self.id);
        if self.presence.is_closing.load(Ordering::Acquire) {
            state.closing -= 1;
        }
        drop(state);
        self.connections.ended.notify_waiters();
    }
}

/// A flag that shows that a client does not read fast enough.
#[derive(Default)]
pub(crate) struct StallFlag(Arc<Presence>);

impl StallFlag {
    pub(crate) fn set(&self, is_stalled: bool) {
        self.0.is_stalled.store(is_stalled, Ordering::Release);
    }
}

/// A request on a connection. Clones are the same.
#[derive(Clone)]
pub(crate) struct Visit(Arc<Request>);

struct Request {
    place: Arc<Place>,
    /// The memory of its body, until the answer is made.
    body: Mutex<Option<Share>>,
}

impl Visit {
    pub(crate) fn address(&self) -> SocketAddr {
        self.0.place.address
    }

    /// Keeps the share of the body until the answer is made.
    pub(crate) fn keep(&self, share: Share) {
        *self.0.body.lock().unwrap_or_else(PoisonError::into_inner) = Some(share);
    }

    /// Marks the connection as waiting for the rest of a body, until the returned value is dropped.
    pub(crate) fn receiving(&self) -> Receiving {
        self.0.place.wait_from_now();
        self.0.place.presence.is_receiving.store(true, Ordering::Release);
        Receiving(self.clone())
    }

    /// Marks the connection as answering, until the returned value is dropped.
    pub(crate) fn answering(&self) -> Answering {
        Answering(Arc::clone(&self.0.place))
    }
}

/// A connection waits for the rest of a request's body.
pub(crate) struct Receiving(Visit);

impl Drop for Receiving {
    fn drop(&mut self) {
        self.0.0.place.presence.is_receiving.store(false, Ordering::Release);
    }
}

/// A request is answered.
pub(crate) struct Answering(Arc<Place>);

impl Drop for Answering {
    fn drop(&mut self) {
        let place = &self.0;
        place.wait_from_now();
        place.presence.is_busy.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(connections: &Arc<Connections>, address: &str) -> Option<Arc<Place>> {
        connections.enter(SocketAddr::new(address.parse().unwrap(), 1)).map(Arc::new)
    }

    fn is_asked(place: &Place) -> bool {
        place.presence.is_closing.load(Ordering::Acquire)
    }

    #[test]
    fn the_oldest_new_connection_makes_room_and_one_that_asked_stays() {
        let connections = Connections::new(64);
        let asked = from(&connections, "10.0.0.1").unwrap();
        drop(asked.begin().answering());
        let new: Vec<_> = (0..32).map(|_| from(&connections, "10.0.0.1").unwrap()).collect();
        // A quarter of all connections may be new ones of one address.
        let closing = new.iter().filter(|place| is_asked(place)).count();
        assert_eq!(closing, 16);
        assert!(new[..16].iter().all(|place| is_asked(place)));
        assert!(!is_asked(&asked));
        // Others have room, until half of all connections are new ones.
        let others: Vec<_> =
            (0..17).map(|host| from(&connections, &format!("10.0.1.{host}")).unwrap()).collect();
        assert!(is_asked(&new[16]) && !is_asked(&new[17]));
        assert!(others.iter().all(|place| !is_asked(place)));
    }

    #[test]
    fn at_the_limit_the_longest_idle_is_closed_and_no_busy_one() {
        let connections = Connections::new(3);
        let places: Vec<_> = (0..3).map(|_| from(&connections, "10.0.0.1").unwrap()).collect();
        let answers: Vec<_> = places.iter().map(|place| place.begin().answering()).collect();
        assert!(from(&connections, "10.0.0.2").is_none());
        let mut answers = answers.into_iter();
        let first = answers.next();
        drop(answers.next());
        drop(first);
        let fourth = from(&connections, "10.0.0.2").unwrap();
        assert!(is_asked(&places[1]) && !is_asked(&places[0]));
        drop(fourth);
        // One that waits for the rest of a body can be closed as well.
        let visit = places[0].begin();
        let _answering = visit.answering();
        let _receiving = visit.receiving();
        let fifth = from(&connections, "10.0.0.2").unwrap();
        let _busy = fifth.begin();
        assert!(!is_asked(&places[0]));
        let _sixth = from(&connections, "10.0.0.2").unwrap();
        assert!(is_asked(&places[0]) && !is_asked(&places[2]) && !is_asked(&fifth));
    }

    #[tokio::test]
    async fn one_that_became_busy_stays() {
        let connections = Connections::new(1);
        let place = from(&connections, "10.0.0.1").unwrap();
        let newcomer = from(&connections, "10.0.0.1").unwrap();
        place.asked_to_close().await;
        let _busy = place.begin().answering();
        assert!(!place.is_waiting());
        place.stay();
        assert!(!is_asked(&place));
        drop(newcomer);
        assert!(from(&connections, "10.0.0.1").is_none());
    }
}
