//! A rolling upgrade across one version of records: nodes of both versions work on one log.
//!
//! The newer version is that of a program that does not exist yet: it has the same layout, and the
//! present program refuses it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tickwheel_cluster::log::{Log, Position, SimulatedLog};
use tickwheel_cluster::record::VERSION;
use tickwheel_cluster::{
    Environment, HEARTBEAT_INTERVAL, Heartbeat, Opener, Partition, Peers, Replica, ReplicaOptions,
    State,
};
use tickwheel_queue::store::MemoryDisk;
use tickwheel_queue::{JobId, NewJob, Queues, Time};

const NEW: u8 = VERSION + 1;
/// Rounds of heartbeats after which something that has not happened will not: half a minute.
const ROUNDS: u32 = 120;

/// A clock that the test moves. Pausing moves it as well.
#[derive(Clone, Debug, Default)]
struct TestClock(Arc<AtomicU64>);

impl Environment for TestClock {
    fn time(&self) -> Time {
        Time::from_millis(1_800_000_000_000 + self.0.load(Ordering::Relaxed))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn pause(&self, length: Duration) {
        self.0.fetch_add(length.as_millis() as u64, Ordering::Relaxed);
    }
}

struct Node {
    partition: Partition<Queues>,
    peers: Peers,
}

struct Cluster {
    clock: TestClock,
    log: SimulatedLog,
    disks: BTreeMap<&'static str, MemoryDisk>,
    nodes: BTreeMap<&'static str, Node>,
}

impl Cluster {
    /// Three nodes, each of a version.
    fn start(versions: [u8; 3]) -> Self {
        let log = SimulatedLog::new(1);
        log.never_block();
        let (disks, nodes) = (BTreeMap::new(), BTreeMap::new());
        let mut cluster = Self { clock: TestClock::default(), log, disks, nodes };
        for (name, version) in ["a", "b", "c"].into_iter().zip(versions) {
            cluster.launch(name, version);
        }
        cluster
    }

    /// Starts a node on its disk, in place of one that runs.
    fn launch(&mut self, name: &'static str, version: u8) {
        self.nodes.remove(name);
        let disk = Box::new(self.disks.entry(name).or_default().clone());
        let clock = Arc::new(self.clock.clone());
        let options = ReplicaOptions {
            may_create: true,
            known_version: version,
            ..ReplicaOptions::new(name)
        };
        let replica = Replica::new(disk, Arc::new(self.log.connect()), clock, options);
        let opener: Opener<Queues> =
            Box::new(|disk, floor| Queues::builder().time_floor(floor).open_disk(disk));
        let peers = Peers::new(name, 1).started(self.clock.elapsed());
        self.nodes.insert(name, Node { partition: Partition::new(0, replica, opener), peers });
    }

    /// All nodes hear each other, and make their next step.
    fn round(&mut self) {
        self.clock.pause(HEARTBEAT_INTERVAL);
        let (now, time) = (self.clock.elapsed(), self.clock.time());
        let beat = |(name, node): (&&str, &Node)| Heartbeat {
            node: (*name).to_owned(),
            instance: 1,
            time,
            replicas: [(0, node.partition.beat(&node.peers))].into(),
            ..Heartbeat::default()
        };
        let beats: Vec<_> = self.nodes.iter().map(beat).collect();
        for node in self.nodes.values_mut() {
            for beat in &beats {
                node.peers.heard(beat.clone(), now, time);
            }
            node.partition.tick(&node.peers);
        }
    }

    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        for _ in 0..ROUNDS {
            if is_so(self) {
                return;
            }
            self.round();
        }
        let states: Vec<_> = self.nodes.values().map(|node| &node.partition).collect();
        panic!("still not: {what}: {states:?}");
    }

    fn is_owner(&self, name: &str) -> bool {
        let node = self.nodes.get(name);
        node.is_some_and(|it| matches!(it.partition.state(), State::Owner { .. }))
    }

    /// Moves the partition to a node.
    fn move_to(&mut self, name: &'static str) {
        self.until("a node owns the partition", |it| it.nodes.keys().any(|name| it.is_owner(name)));
        let owner = *self.nodes.keys().find(|name| self.is_owner(name)).unwrap();
        if owner != name {
            self.until("the new owner could take over", |it| {
                it.nodes[name].partition.beat(&it.nodes[name].peers).is_candidate
            });
            let node = self.nodes.get_mut(owner).unwrap();
            node.partition.hand_off(Some(name)).unwrap();
        }
        self.until("the node owns the partition", |it| it.is_owner(name));
    }

    fn put(&self, name: &str) -> JobId {
        let queues = self.nodes[name].partition.queue().expect("the node owns the partition");
        queues.put(NewJob::new("mail", "hello")).wait().unwrap().id
    }

    fn has(&self, name: &str, id: JobId) -> bool {
        let queues = self.nodes[name].partition.queue().expect("the node owns the partition");
        queues.get(id).wait().unwrap().is_some()
    }

    fn position(&self, name: &str) -> Option<Position> {
        let replica = self.nodes[name].partition.replica().lock();
        replica.applied().map(|applied| applied.tip.position)
    }

    /// Waits until all nodes have applied the whole log.
    fn await_all(&mut self) {
        self.until("all nodes have applied the log", |it| {
            let last = it.log.state().unwrap().last;
            it.nodes.keys().all(|name| it.position(name) == Some(last))
        });
    }

    /// The versions of all records.
    fn versions(&self) -> Vec<u8> {
        let last = self.log.state().unwrap().last;
        let mut versions = Vec::new();
        while versions.len() < last.0 as usize {
            let next = Position(versions.len() as u64 + 1);
            versions.extend(self.log.read(next, 1 << 20).unwrap().iter().map(|it| it.record[0]));
        }
        versions
    }
}

#[test]
fn records_of_a_new_version_appear_when_all_nodes_read_them() {
    let mut cluster = Cluster::start([VERSION, VERSION, NEW]);
    // The upgraded node owns the partition, and nodes of the old version follow it.
    cluster.move_to("c");
    let first = cluster.put("c");
    cluster.await_all();
    // One of them takes over from it, and it follows.
    cluster.move_to("a");
    assert!(cluster.has("a", first));
    let second = cluster.put("a");
    cluster.await_all();
    cluster.move_to("c");

    cluster.launch("a", NEW);
    cluster.await_all();
    cluster.put("c");
    assert!(cluster.versions().iter().all(|version| *version == VERSION));

    cluster.launch("b", NEW);
    cluster.until("records of the new version appear", |it| {
        it.put("c");
        it.versions().last() == Some(&NEW)
    });
    cluster.await_all();
    cluster.move_to("b");
    assert!(cluster.has("b", first) && cluster.has("b", second));
}

#[test]
fn a_node_of_the_old_version_refuses_new_records_and_does_not_take_over() {
    let mut cluster = Cluster::start([NEW, NEW, NEW]);
    cluster.move_to("c");
    cluster.until("records of the new version appear", |it| {
        it.put("c");
        it.versions().last() == Some(&NEW)
    });
    let id = cluster.put("c");
    cluster.await_all();

    // It has applied everything as the new version, and must not go on from there.
    cluster.launch("a", VERSION);
    cluster.until("the old node says why it does not follow", |it| {
        it.nodes["a"].partition.trouble().is_some_and(|why| why.contains("upgrade this node"))
    });
    let later = cluster.put("c");
    // It is the only one that is left.
    cluster.nodes.retain(|name, _| *name == "a");
    let records = cluster.versions().len();
    for _ in 0..ROUNDS {
        cluster.round();
        assert_eq!(*cluster.nodes["a"].partition.state(), State::Standby);
    }
    assert_eq!(cluster.versions().len(), records);
    // Upgraded, it continues where it stopped.
    cluster.launch("a", NEW);
    cluster.until("the upgraded node takes over", |it| it.is_owner("a"));
    assert!(cluster.has("a", id) && cluster.has("a", later));
}
