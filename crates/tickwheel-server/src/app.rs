//! The state that all requests share.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, SystemTime};

use tickwheel_cluster::{Node, PartitionStatus};
use tickwheel_queue::{Queues, Time};

use crate::api::{Cluster, Code};
use crate::auth::{Caller, Gate};
use crate::clock::ManualTime;
use crate::cluster;
use crate::config::Config;
use crate::http::memory::Memory;
use crate::idempotency::OldMarkers;
use crate::insight::Insight;
use crate::limits::RateLimits;
use crate::metrics::HttpCounts;
use crate::problem::Failure;
use crate::push::Push;
use crate::shutdown::Shutdown;
use crate::telemetry::Telemetry;
use crate::tokens::Scope;

/// Requests without a valid token that an address may make in a burst, and then per second. Further
/// ones are answered with 429.
const REFUSALS: (u32, u32) = (20, 1);

/// The state that all requests share. Clones share it.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

struct Shared {
    common: Arc<Common>,
    queues: Queues,
    shutdown: Shutdown,
    old_markers: OldMarkers,
    push: Arc<Push>,
    insight: Insight,
    /// The partition of a cluster that the queues are.
    partition: Option<u32>,
}

/// What a service has whether or not it has queues: a node of a cluster gets and loses them.
pub(crate) struct Common {
    config: Config,
    manual_time: Option<Arc<ManualTime>>,
    gate: Arc<Gate>,
    requests: RateLimits<Client>,
    refusals: RateLimits<IpAddr>,
    memory: Memory,
    shutdown: Shutdown,
    counts: HttpCounts,
    documents: Documents,
    telemetry: Telemetry,
    /// The node of a cluster that the service is, once it runs.
    cluster_node: OnceLock<Weak<Node>>,
}

/// The key of a client's rate limit.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Client {
    Token(String),
    Address(IpAddr),
}

/// Documents that are generated once.
pub(crate) struct Documents {
    pub(crate) openapi: bytes::Bytes,
    pub(crate) page: bytes::Bytes,
    /// `METHOD /path` of each route that has parameters in its query.
    pub(crate) with_query: HashSet<String>,
}

impl Common {
    pub(crate) fn new(
        config: Config,
        manual_time: Option<Arc<ManualTime>>,
        gate: Arc<Gate>,
        shutdown: Shutdown,
        routes: Vec<String>,
        documents: Documents,
        telemetry: Telemetry,
    ) -> Arc<Self> {
        let rate = config.limits.rate;
        Arc::new(Self {
            manual_time,
            gate,
            requests: RateLimits::new(rate, rate),
            refusals: RateLimits::new(REFUSALS.0, REFUSALS.1),
            memory: Memory::new(config.limits.memory),
            shutdown,
            counts: HttpCounts::new(routes),
            documents,
            telemetry,
            cluster_node: OnceLock::new(),
            config,
        })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Returns the signal that ends the process.
    pub(crate) fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    pub(crate) fn counts(&self) -> &HttpCounts {
        &self.counts
    }

    /// Returns the memory budget of bodies and answers in flight.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns the recorder of traces.
    pub(crate) fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    pub(crate) fn set_cluster_node(&self, node: &Arc<Node>) {
        let _is_first = self.cluster_node.set(Arc::downgrade(node));
    }

    /// Describes the cluster, if the service is a node of one.
    pub(crate) fn cluster(&self) -> Option<Cluster> {
        let node = self.cluster_node.get()?.upgrade()?;
        Some(cluster::describe(&node, self.config.cluster.as_ref()?))
    }
}

impl App {
    /// Adds queues to a service. `shutdown` is the signal that ends its use of them.
    pub(crate) fn new(
        common: Arc<Common>,
        queues: Queues,
        old_markers: OldMarkers,
        push: Arc<Push>,
        shutdown: Shutdown,
        partition: Option<u32>,
    ) -> Self {
        let insight = Insight::default();
        Self(Arc::new(Shared { common, queues, shutdown, old_markers, push, insight, partition }))
    }

    /// Returns `true` if the queues are one of several partitions of a cluster.
    pub(crate) fn is_one_of_several(&self) -> bool {
        self.0.partition.is_some_and(|partition| partition > 0)
            || self.cluster().is_some_and(|cluster| cluster.partitions.len() > 1)
    }

    /// Returns what this node knows of the partition of a cluster that the queues are.
    pub(crate) fn partition(&self) -> Option<(u32, PartitionStatus)> {
        let (number, node) = (self.0.partition?, self.0.common.cluster_node.get()?.upgrade()?);
        node.partitions().remove(&number).map(|status| (number, status))
    }

    /// Returns the queues, for operations of the service itself.
    pub(crate) fn queues(&self) -> &Queues {
        &self.0.queues
    }

    /// Returns the queues with the caller's access, or refuses a caller without the scope.
    pub(crate) fn queues_for(&self, caller: &Caller, scope: Scope) -> Result<Queues, Failure> {
        caller.has(scope)?;
        Ok(self.0.queues.limited_to(caller.access().clone()))
    }

    /// Returns the push targets.
    pub(crate) fn push(&self) -> &Arc<Push> {
        &self.0.push
    }

    /// What is kept for operators.
    pub(crate) fn insight(&self) -> &Insight {
        &self.0.insight
    }

    /// Returns the recorder of traces.
    pub(crate) fn telemetry(&self) -> &Telemetry {
        self.0.common.telemetry()
    }

    pub(crate) fn config(&self) -> &Config {
        &self.0.common.config
    }

    /// Returns the limits of jobs.
    pub(crate) fn queue_limits(&self) -> &tickwheel_queue::Limits {
        &self.0.common.config.queue_limits
    }

    /// Returns the present in whole milliseconds, as the queue does.
    pub(crate) fn now(&self) -> Time {
        begun(self.wall())
    }

    /// Returns the present with fractions of a millisecond.
    pub(crate) fn wall(&self) -> SystemTime {
        wall(self.0.common.manual_time.as_deref())
    }

    /// Returns the manual clock, if the service uses one.
    pub(crate) fn manual_time(&self) -> Option<&Arc<ManualTime>> {
        self.0.common.manual_time.as_ref()
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.0.common.gate
    }

    pub(crate) fn shutdown(&self) -> &Shutdown {
        &self.0.shutdown
    }

    pub(crate) fn counts(&self) -> &HttpCounts {
        &self.0.common.counts
    }

    /// Returns the memory budget of bodies and answers in flight.
    pub(crate) fn memory(&self) -> &Memory {
        &self.0.common.memory
    }

    pub(crate) fn old_markers(&self) -> OldMarkers {
        self.0.old_markers
    }

    /// Describes the cluster, if the service is a node of one.
    pub(crate) fn cluster(&self) -> Option<Cluster> {
        self.0.common.cluster()
    }

    pub(crate) fn documents(&self) -> &Documents {
        &self.0.common.documents
    }

    /// Refuses a client that exceeds its rate limit.
    pub(crate) fn check_rate(&self, caller: &Caller, address: IpAddr) -> Result<(), Failure> {
        let Some(wait) = self.wait_for_rate(caller, address) else { return Ok(()) };
        let rate = self.0.common.config.limits.rate;
        let why = format!("more than {rate} requests in a second: wait for {wait:?}");
        Err(Failure::new(Code::RateLimited, why).retry_after(wait.as_secs() + 1))
    }

    /// Counts a request; how long to wait before it is repeated if the client asks too fast.
    pub(crate) fn wait_for_rate(&self, caller: &Caller, address: IpAddr) -> Option<Duration> {
        let client = match caller {
            Caller::Token(known) => Client::Token(known.token.id.clone()),
            Caller::Anyone(_) => Client::Address(neighbourhood(address)),
        };
        self.0.common.requests.take(&client).err()
    }

    /// Returns the answer to a request without a valid token: why it is refused, or that its
    /// address has made too many such requests. A valid token is always accepted: secrets are too
    /// long to be guessed, and a client with a wrong one must not lock out others behind the same
    /// proxy.
    pub(crate) fn refuse(&self, address: IpAddr, refusal: Failure) -> Failure {
        if self.0.common.refusals.take(&neighbourhood(address)).is_ok() {
            return refusal;
        }
        let why = "too many requests without a valid token came from this address: wait a second";
        Failure::new(Code::RateLimited, why).retry_after(1)
    }
}

/// Returns what the clock shows.
pub(crate) fn wall(manual_time: Option<&ManualTime>) -> SystemTime {
    manual_time.map_or_else(SystemTime::now, |time| time.clock().wall())
}

/// Returns the millisecond that has begun, as the queue does when it decides what is due.
pub(crate) fn begun(time: SystemTime) -> Time {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the address for rate limits. An IPv6 client usually owns a /64, so the limit is per /64.
pub(crate) fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(network.into())
        }
        address @ IpAddr::V4(_) => address,
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
}
