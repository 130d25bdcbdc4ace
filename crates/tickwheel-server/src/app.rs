//! What all requests share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tickwheel_queue::{Queues, Time};
use tokio::sync::{Mutex, OwnedRwLockReadGuard, RwLock};

use crate::api::Code;
use crate::auth::{Caller, Gate};
use crate::config::Config;
use crate::http::memory::Memory;
use crate::idempotency::Markers;
use crate::limits::Buckets;
use crate::metrics::HttpCounts;
use crate::problem::Failure;
use crate::shutdown::Shutdown;
use crate::tokens::Scope;

/// Requests without a valid token that an address may make at once, and then in a second, before
/// the answer is only that they are too many.
const REFUSALS: (u32, u32) = (20, 1);

/// What all requests share. Clones are the same.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

struct Shared {
    queues: Queues,
    config: Config,
    gate: Arc<Gate>,
    requests: Buckets<Client>,
    refusals: Buckets<IpAddr>,
    memory: Memory,
    shutdown: Shutdown,
    counts: HttpCounts,
    markers: Markers,
    /// Whoever changes a part of a queue's settings reads them first, and nobody in between.
    settings: Mutex<()>,
    documents: Documents,
    /// Held by what has to be finished before the queue is closed.
    busy: Arc<RwLock<()>>,
}

/// Whose requests are counted together.
#[derive(PartialEq, Eq, Hash)]
enum Client {
    Token(String),
    Address(IpAddr),
}

/// Documents that are made once.
pub(crate) struct Documents {
    pub(crate) openapi: bytes::Bytes,
    pub(crate) page: bytes::Bytes,
}

impl App {
    pub(crate) fn new(
        queues: Queues,
        config: Config,
        gate: Arc<Gate>,
        shutdown: Shutdown,
        routes: Vec<String>,
        documents: Documents,
    ) -> Self {
        let rate = config.limits.rate;
        Self(Arc::new(Shared {
            queues,
            gate,
            requests: Buckets::new(rate, rate),
            refusals: Buckets::new(REFUSALS.0, REFUSALS.1),
            memory: Memory::new(config.limits.memory),
            shutdown,
            counts: HttpCounts::new(routes),
            markers: Markers::default(),
            settings: Mutex::default(),
            documents,
            busy: Arc::default(),
            config,
        }))
    }

    /// The queues, for what the service does by itself.
    pub(crate) fn queues(&self) -> &Queues {
        &self.0.queues
    }

    /// The queues as far as a caller may touch them; refused if it has no such scope at all.
    pub(crate) fn queues_for(&self, caller: &Caller, scope: Scope) -> Result<Queues, Failure> {
        caller.has(scope)?;
        Ok(self.0.queues.limited_to(caller.access().clone()))
    }

    pub(crate) fn config(&self) -> &Config {
        &self.0.config
    }

    /// The limits of jobs, as clients see them.
    pub(crate) fn queue_limits(&self) -> &tickwheel_queue::Limits {
        &self.0.config.queue_limits
    }

    /// Whether a put may find no room.
    pub(crate) fn can_be_full(&self) -> bool {
        let limits = self.queue_limits();
        limits.pending < u64::MAX || limits.disk < u64::MAX
    }

    /// The present, as the queue has it.
    pub(crate) fn now(&self) -> Time {
        match &self.0.config.clock {
            Some(clock) => clock.wall().into(),
            None => now(),
        }
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.0.gate
    }

    pub(crate) fn shutdown(&self) -> &Shutdown {
        &self.0.shutdown
    }

    pub(crate) fn counts(&self) -> &HttpCounts {
        &self.0.counts
    }

    /// What bodies and answers in flight may take.
    pub(crate) fn memory(&self) -> &Memory {
        &self.0.memory
    }

    pub(crate) fn markers(&self) -> &Markers {
        &self.0.markers
    }

    pub(crate) fn settings_lock(&self) -> &Mutex<()> {
        &self.0.settings
    }

    pub(crate) fn documents(&self) -> &Documents {
        &self.0.documents
    }

    /// For work that has to be finished before the queue is closed.
    pub(crate) async fn busy(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.0.busy).read_owned().await
    }

    /// Waits for such work.
    pub(crate) async fn not_busy(&self) {
        drop(self.0.busy.write().await);
    }

    /// Refuses a client who asks too fast.
    pub(crate) fn check_rate(&self, caller: &Caller, address: IpAddr) -> Result<(), Failure> {
        let client = match caller {
            Caller::Token(known) => Client::Token(known.token.id.clone()),
            Caller::Anyone(_) => Client::Address(neighbourhood(address)),
        };
        self.0.requests.take(client, Instant::now()).map_err(|wait| {
            let rate = self.0.config.limits.rate;
            let why = format!("more than {rate} requests in a second: wait for {wait:?}");
            Failure::new(Code::RateLimited, why).retry_after(wait.as_secs() + 1)
        })
    }

    /// What to answer to a request without a valid token: why it is refused, or that there were
    /// too many such requests from its address. A valid one is always let in: secrets are too long
    /// to be guessed, and somebody with a wrong one must not lock out all who share a proxy.
    pub(crate) fn refuse(&self, address: IpAddr, refusal: Failure) -> Failure {
        if self.0.refusals.take(neighbourhood(address), Instant::now()).is_ok() {
            return refusal;
        }
        let why = "too many requests without a valid token came from this address: wait a second";
        Failure::new(Code::RateLimited, why).retry_after(1)
    }
}

/// Returns the millisecond that has begun, as the queue does when it decides what is due.
fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// What counts as one address. An IPv6 client usually owns a /64, so that is one.
pub(crate) fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(network.into())
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// Locks by name, for as long as somebody holds or waits for one.
#[derive(Default)]
pub(crate) struct NamedLocks {
    locks: std::sync::Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

impl NamedLocks {
    /// Does something while nobody else does something of the same name.
    pub(crate) async fn with<T>(&self, name: &str, work: impl Future<Output = T>) -> T {
        let lock = {
            let mut locks = self.all();
            Arc::clone(locks.entry(name.to_owned()).or_default())
        };
        let _cleanup = Cleanup { locks: self, name };
        let _held = lock.lock().await;
        work.await
    }

    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Mutex<()>>>> {
        self.locks.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Forgets a lock that nobody else has, also if the request is dropped half-way.
struct Cleanup<'a> {
    locks: &'a NamedLocks,
    name: &'a str,
}

impl Drop for Cleanup<'_> {
    fn drop(&mut self) {
        let mut locks = self.locks.all();
        // One is the map's, one is that of the request which ends.
        if locks.get(self.name).is_some_and(|lock| Arc::strong_count(lock) <= 2) {
            locks.remove(self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_version_6_counts_as_one_address() {
        let of = |text: &str| neighbourhood(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }

    #[tokio::test]
    async fn a_name_is_held_by_one_and_forgotten_after_the_last() {
        let locks = NamedLocks::default();
        let inside = std::cell::Cell::new(0);
        let work = || async {
            inside.set(inside.get() + 1);
            assert_eq!(inside.get(), 1);
            tokio::task::yield_now().await;
            inside.set(inside.get() - 1);
        };
        tokio::join!(locks.with("a", work()), locks.with("a", work()), locks.with("a", work()));
        assert!(locks.all().is_empty());
    }
}
