//! What a node hears of the others: who is alive, how far their replicas are, and their clocks.
//!
//! Heartbeats only decide who *tries* to take over. Whether a takeover succeeds is decided by the
//! log, so a wrong impression costs time and never data.

use std::collections::BTreeMap;
use std::time::Duration;

use tickwheel_queue::Time;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::log::Position;

/// How often a node sends a heartbeat.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(250);
/// A node that was silent for this long counts as dead.
pub const MAX_SILENCE: Duration = Duration::from_millis(1_500);
/// How much a node's clock may differ from those of its peers.
pub const MAX_CLOCK_SKEW: Duration = Duration::from_millis(500);

/// What a node tells the others, several times a second.
///
/// ```
/// use tickwheel_cluster::Heartbeat;
///
/// let beat = Heartbeat { node: "a".into(), instance: 7, ..Heartbeat::default() };
/// assert!(beat.replicas.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// The name of the node.
    pub node: String,
    /// A number that each start of a node draws anew.
    pub instance: u64,
    /// Where the node serves HTTP.
    pub address: String,
    /// Whether the node gives its partitions away, and takes others only if nobody else can.
    pub is_draining: bool,
    /// The time of its wall clock.
    pub time: Time,
    /// Its replicas, by partition.
    pub replicas: BTreeMap<u32, ReplicaBeat>,
}

/// What a node tells of one of its replicas.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_cluster::{Heartbeat, Peers, ReplicaBeat};
///
/// let mut peers = Peers::new("a", 1);
/// let mut hear = |node: &str, is_candidate| {
///     let replicas = [(7, ReplicaBeat { is_candidate, ..ReplicaBeat::default() })].into();
///     let beat = Heartbeat { node: node.into(), replicas, ..Heartbeat::default() };
///     peers.heard(beat, Duration::ZERO, Default::default());
/// };
/// hear("b", true);
/// hear("c", false); // it has to be seeded first
/// let mut candidates = peers.candidates(7, Duration::ZERO);
/// candidates.sort();
/// assert_eq!(candidates, ["a", "b"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaBeat {
    /// Whether the node owns the partition, in this epoch.
    pub is_owner: bool,
    /// The last generation that it has applied.
    pub generation: u64,
    /// The last epoch that it has applied.
    pub epoch: u64,
    /// The last group of rows that it has applied.
    pub commit: u64,
    /// The last position that it has applied.
    pub position: Position,
    /// The last position that is durable in its local store.
    pub synced: Position,
    /// Whether it may become the owner: it is complete, and its node's clock is right.
    pub is_candidate: bool,
    /// The newest version of records that it reads; 0 for nodes that do not tell, which read 1.
    pub version: u8,
    /// Whether it can follow the log.
    pub condition: Condition,
    /// What is wrong with it, for people.
    pub trouble: Option<String>,
}

/// Whether a replica can follow the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// It follows the log, or owns the partition.
    #[default]
    Sound,
    /// It lacks records that the log has no more, and gets its rows from another node.
    Seeding,
    /// It contradicts the log. An operator has to decide.
    Halted,
}

/// What a node knows of the others.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_cluster::{Heartbeat, Peers};
///
/// let mut peers = Peers::new("a", 1);
/// let beat = Heartbeat { node: "b".into(), ..Heartbeat::default() };
/// peers.heard(beat, Duration::from_secs(10), Default::default());
/// assert!(peers.is_alive("b", Duration::from_secs(11)));
/// assert!(!peers.is_alive("b", Duration::from_secs(12)));
/// ```
#[derive(Clone, Debug)]
pub struct Peers {
    node: String,
    instance: u64,
    nodes: BTreeMap<String, Peer>,
    /// When this node started, on the monotonic clock.
    started: Duration,
    /// Whether this node gives its partitions away.
    is_draining: bool,
    /// Another node has this one's name; when it was last heard.
    double: Option<Duration>,
}

#[derive(Clone, Debug)]
struct Peer {
    heard: Duration,
    /// How much its clock differs from this node's, in milliseconds.
    skew: u64,
    beat: Heartbeat,
}

impl Peers {
    /// Returns the view of a node that has heard nothing yet.
    pub fn new(node: impl Into<String>, instance: u64) -> Self {
        Self {
            node: node.into(),
            instance,
            nodes: BTreeMap::new(),
            started: Duration::ZERO,
            is_draining: false,
            double: None,
        }
    }

    /// Sets when this node started, on the monotonic clock; zero without this. Until it has
    /// listened for [`MAX_SILENCE`], it does not know enough to own a partition.
    #[must_use]
    pub fn started(mut self, now: Duration) -> Self {
        self.started = now;
        self
    }

    /// Makes this node give its partitions away.
    pub fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Returns `true` if this node gives its partitions away.
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Notes a heartbeat. `now` is on the monotonic clock, `time` on the wall clock.
    pub fn heard(&mut self, beat: Heartbeat, now: Duration, time: Time) {
        if beat.node == self.node {
            if beat.instance != self.instance {
                self.double = Some(now);
            }
            return;
        }
        let skew = beat.time.as_millis().abs_diff(time.as_millis());
        self.nodes.insert(beat.node.clone(), Peer { heard: now, skew, beat });
    }

    /// Returns `true` if the node was heard less than [`MAX_SILENCE`] ago.
    pub fn is_alive(&self, node: &str, now: Duration) -> bool {
        self.last_heard(node).is_some_and(|heard| now.saturating_sub(heard) < MAX_SILENCE)
    }

    /// Returns when a node was last heard.
    pub fn last_heard(&self, node: &str) -> Option<Duration> {
        self.nodes.get(node).map(|peer| peer.heard)
    }

    /// Returns how much a node's clock differs from this one's, in milliseconds, if it was heard.
    pub fn clock_difference_ms(&self, node: &str) -> Option<u64> {
        self.nodes.get(node).map(|peer| peer.skew)
    }

    /// Returns the last heartbeats of the nodes that are alive.
    pub fn alive(&self, now: Duration) -> impl Iterator<Item = &Heartbeat> {
        let is_alive = move |peer: &&Peer| now.saturating_sub(peer.heard) < MAX_SILENCE;
        self.nodes.values().filter(is_alive).map(|peer| &peer.beat)
    }

    /// Returns the newest version of records that all other live replicas of a partition read, if
    /// there are any.
    pub fn common_version(&self, partition: u32, now: Duration) -> Option<u8> {
        let version = |beat: &Heartbeat| beat.replicas.get(&partition).map(|it| it.version.max(1));
        self.alive(now).filter_map(version).min()
    }

    /// Returns why this node must not own a partition now: it has just started, most of its live
    /// peers have another time, or another node has its name.
    ///
    /// # Errors
    ///
    /// The reason, for people.
    pub fn check_ownership(&self, now: Duration) -> Result<(), String> {
        if now.saturating_sub(self.started) < MAX_SILENCE {
            return Err("it has just started, and listens for the others first".into());
        }
        if self.double.is_some_and(|heard| now.saturating_sub(heard) < 4 * MAX_SILENCE) {
            return Err(format!("another node is called {:?} too: rename one", self.node));
        }
        let is_alive = |peer: &&Peer| now.saturating_sub(peer.heard) < MAX_SILENCE;
        let alive = self.nodes.values().filter(is_alive).count();
        let limit = MAX_CLOCK_SKEW.as_millis() as u64;
        let off = |peer: &&Peer| peer.skew > limit;
        let differing = self.nodes.values().filter(is_alive).filter(off).count();
        if 2 * differing > alive {
            return Err(format!(
                "the clock differs by more than {limit} ms from {differing} of {alive} peers: \
                 synchronise it"
            ));
        }
        Ok(())
    }

    /// Returns the node that should get one of this node's partitions, so that all nodes own about as
    /// many. `owned` are this node's partitions; the one that moves is part of the answer.
    ///
    /// Only the node with the most partitions gives one away, and only to a node that has at least
    /// two fewer. So a partition that an operator moved stays where it is while the numbers differ by
    /// one at most, and nothing moves in a cluster with one partition.
    pub fn relief(&self, owned: &[u32], now: Duration) -> Option<(u32, String)> {
        if self.is_draining || owned.len() < 2 || self.check_ownership(now).is_err() {
            return None;
        }
        let count = |beat: &Heartbeat| beat.replicas.values().filter(|it| it.is_owner).count();
        let is_more = |beat: &Heartbeat| (count(beat), &beat.node) > (owned.len(), &self.node);
        if self.alive(now).any(is_more) {
            return None;
        }
        let fewest = self.alive(now).filter(|beat| !beat.is_draining).map(count).min()?;
        if fewest + 2 > owned.len() {
            return None;
        }
        let needs_one = |name: &String| {
            let beat = self.nodes.get(name).map(|peer| &peer.beat);
            beat.is_some_and(|beat| !beat.is_draining && count(beat) == fewest)
        };
        // Of all moves, one that makes the most preferred node an owner.
        owned
            .iter()
            .filter_map(|number| {
                let candidates = self.candidates(*number, now);
                let rank = candidates.iter().position(needs_one)?;
                Some((rank, *number, candidates[rank].clone()))
            })
            .min()
            .map(|(_, number, name)| (number, name))
    }

    /// Returns the nodes that could own a partition, this one included, the preferred one first.
    ///
    /// Nodes are ordered by a hash of their name and the partition, so each partition prefers its
    /// nodes in an order of its own, and a node that joins or leaves moves few partitions. Nodes
    /// that give their partitions away come last.
    pub fn candidates(&self, partition: u32, now: Duration) -> Vec<String> {
        let mut nodes: Vec<_> = self
            .alive(now)
            .filter(|beat| beat.replicas.get(&partition).is_some_and(|it| it.is_candidate))
            .map(|beat| (beat.is_draining, beat.node.clone()))
            .chain([(self.is_draining, self.node.clone())])
            .collect();
        let score = |name: &String| xxh3_64_with_seed(name.as_bytes(), u64::from(partition));
        nodes.sort_by_cached_key(|(is_draining, name)| {
            (*is_draining, std::cmp::Reverse(score(name)), name.clone())
        });
        nodes.into_iter().map(|(_, name)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(10);

    /// What node a knows when b and c own these of six partitions.
    fn peers(b: &[u32], c: &[u32]) -> Peers {
        let mut peers = Peers::new("a", 1);
        for (node, owned) in [("b", b), ("c", c)] {
            let replica = |number| ReplicaBeat {
                is_owner: owned.contains(&number),
                is_candidate: true,
                ..ReplicaBeat::default()
            };
            let replicas = (0..6).map(|number| (number, replica(number))).collect();
            let beat = Heartbeat { node: node.into(), replicas, ..Heartbeat::default() };
            peers.heard(beat, NOW, Time::default());
        }
        peers
    }

    #[test]
    fn partitions_are_given_to_nodes_with_two_fewer() {
        let (number, to) = peers(&[4, 5], &[]).relief(&[0, 1, 2, 3], NOW).unwrap();
        assert!(number < 4);
        assert_eq!(to, "c");
        // The numbers differ by one.
        assert_eq!(peers(&[2, 3], &[4]).relief(&[0, 1], NOW), None);
        assert_eq!(peers(&[], &[]).relief(&[0], NOW), None);
        // Another node has more.
        assert_eq!(peers(&[3, 4, 5], &[]).relief(&[0, 1], NOW), None);
        // Of two with the same number, one gives.
        assert_eq!(peers(&[2, 3], &[]).relief(&[0, 1], NOW), None);
    }

    #[test]
    fn nodes_that_drain_or_are_incomplete_get_nothing() {
        let mut own = peers(&[], &[]);
        assert!(own.relief(&[0, 1, 2], NOW).is_some());
        own.drain();
        assert_eq!(own.relief(&[0, 1, 2], NOW), None);
        let mut others = peers(&[], &[]);
        for name in ["b", "c"] {
            let mut beat = others.nodes[name].beat.clone();
            beat.replicas.values_mut().for_each(|it| it.is_candidate = false);
            others.heard(beat, NOW, Time::default());
        }
        assert_eq!(others.relief(&[0, 1, 2], NOW), None);
    }
}
