//! Nodes with threads, directories and a network, on a simulated log.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tickwheel_cluster::log::SimulatedLog;
use tickwheel_cluster::{
    LocalNetwork, Machine, Node, Opener, Partition, Replica, ReplicaOptions, State,
};
use tickwheel_queue::store::Directory;
use tickwheel_queue::{Error, JobId, NewJob, Queues};

/// How long a test waits for an event before it gives up.
const PATIENCE: Duration = Duration::from_secs(120);

/// A node, and the queue that it opens when it is the owner.
struct Rig {
    node: Node,
    queues: Arc<Mutex<Option<Queues>>>,
    log: SimulatedLog,
}

fn start(name: &str, log: &SimulatedLog, network: &LocalNetwork, folder: &Path) -> Rig {
    let machine = Arc::new(Machine::new());
    let link = log.connect();
    let log = link.connect();
    let options = ReplicaOptions {
        may_create: true,
        settle_timeout: Duration::from_secs(1),
        ..ReplicaOptions::new(name)
    };
    let disk = Box::new(Directory::new(folder));
    let replica = Replica::new(disk, Arc::new(link), machine.clone(), options);
    let queues = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&queues);
    let opener: Opener<Queues> = Box::new(move |disk, floor| {
        let queues = Queues::builder().time_floor(floor).open_disk(disk)?;
        *slot.lock().unwrap() = Some(queues.clone());
        Ok(queues)
    });
    let partition = Partition::new(0, replica, opener);
    let address = format!("http://{name}");
    let node = Node::start(name, &address, vec![partition], network.connect(name), machine);
    Rig { node: node.unwrap(), queues, log }
}

impl Rig {
    fn is_owner(&self) -> bool {
        matches!(self.state(), Some(State::Owner { .. }))
    }

    fn state(&self) -> Option<State> {
        self.node.partitions().remove(&0).map(|status| status.state)
    }

    /// The queue. Nothing is kept of it, so that the node can close it.
    fn put(&self, text: &str) -> Result<JobId, Error> {
        let queues = self.queues.lock().unwrap().clone().expect("the node owns the partition");
        let put = queues.put(NewJob::new("mail", text.to_owned())).wait();
        put.map(|put| put.id)
    }

    fn has(&self, id: JobId) -> bool {
        let queues = self.queues.lock().unwrap().clone().expect("the node owns the partition");
        queues.get(id).wait().is_ok_and(|job| job.is_some())
    }

    /// Lets the node close its queue.
    fn forget_queue(&self) {
        *self.queues.lock().unwrap() = None;
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "still not: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The index of the node that owns the partition.
fn owner(nodes: &[Rig]) -> usize {
    let mut found = None;
    until("one node owns the partition", || {
        found = nodes.iter().position(Rig::is_owner);
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_node_that_stops_hands_its_partition_over() {
    let (log, network) = (SimulatedLog::new(1), LocalNetwork::new());
    let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let names = ["a", "b", "c"];
    let mut nodes: Vec<_> = names
        .iter()
        .zip(&folders)
        .map(|(name, folder)| start(name, &log, &network, folder.path()))
        .collect();
    let first = owner(&nodes);
    let id = nodes[first].put("hello").unwrap();
    until("all nodes know the owner", || {
        nodes.iter().all(|it| it.node.owner(0).is_some_and(|owner| owner.node == names[first]))
    });
    let stopped = nodes.remove(first);
    stopped.forget_queue();
    stopped.node.stop();
    let second = owner(&nodes);
    assert!(nodes[second].has(id));
    nodes[second].put("again").unwrap();
    nodes.iter().for_each(Rig::forget_queue);
}

#[test]
fn a_node_that_is_cut_off_is_replaced_and_follows_later() {
    let (log, network) = (SimulatedLog::new(2), LocalNetwork::new());
    let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let names = ["a", "b", "c"];
    let nodes: Vec<_> = names
        .iter()
        .zip(&folders)
        .map(|(name, folder)| start(name, &log, &network, folder.path()))
        .collect();
    let first = owner(&nodes);
    let id = nodes[first].put("hello").unwrap();
    network.cut(names[first], true);
    nodes[first].log.cut(true);
    let others = || nodes.iter().enumerate().filter(|(index, _)| *index != first);
    until("another node takes over", || others().any(|(_, it)| it.is_owner()));
    let (_, second) = others().find(|(_, it)| it.is_owner()).unwrap();
    assert!(second.has(id));
    let after = second.put("after").unwrap();
    // The old owner cannot acknowledge anything.
    let refused = nodes[first].put("late");
    assert!(refused.is_err(), "{refused:?}");

    nodes[first].forget_queue();
    network.cut(names[first], false);
    nodes[first].log.cut(false);
    let tip = |rig: &Rig| rig.node.partitions().remove(&0).map(|status| status.tip);
    until("the old owner has applied everything", || {
        nodes[first].state() == Some(State::Standby) && tip(&nodes[first]) == tip(second)
    });
    assert!(second.has(after));
    nodes.iter().for_each(Rig::forget_queue);
}

#[test]
fn a_node_that_lost_its_disk_is_seeded_by_another() {
    let (log, network) = (SimulatedLog::new(3), LocalNetwork::new());
    let folders: Vec<_> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
    let first = start("a", &log, &network, folders[0].path());
    until("the node owns the partition", || first.is_owner());
    let large = "x".repeat(300_000);
    let ids: Vec<_> = (0..6).map(|_| first.put(&large).unwrap()).collect();
    // The log keeps nothing of it.
    let last = first.node.partitions().remove(&0).unwrap().tip.position;
    tickwheel_cluster::log::Log::trim(&log, last).unwrap();

    let second = start("b", &log, &network, folders[1].path());
    let tip = |rig: &Rig| rig.node.partitions().remove(&0).map(|status| status.tip);
    until("the new node has everything", || {
        second.state() == Some(State::Standby) && tip(&second) == tip(&first)
    });
    // A node that has just started takes nothing, and the first one then owns the partition again.
    until("the new node owns the partition", || {
        if first.is_owner() {
            first.node.hand_off(0, Some("b"));
            first.forget_queue();
        }
        second.is_owner()
    });
    assert!(ids.iter().all(|id| second.has(*id)));
    second.forget_queue();
}

#[test]
fn the_last_owner_takes_over_again_if_nobody_else_does() {
    let (log, network) = (SimulatedLog::new(4), LocalNetwork::new());
    let folder = tempfile::tempdir().unwrap();
    let alone = start("a", &log, &network, folder.path());
    until("the node owns the partition", || alone.is_owner());
    let id = alone.put("hello").unwrap();
    alone.forget_queue();
    alone.node.hand_off(0, Some("b"));
    let later = Some(State::Owner { epoch: 2 });
    until("the node owns the partition again", || alone.state() == later);
    assert!(alone.has(id));
    alone.forget_queue();
}

#[test]
fn rows_that_nodes_share_reach_all_of_them() {
    let (log, network) = (SimulatedLog::new(5), LocalNetwork::new());
    let folders: Vec<_> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
    let nodes: Vec<_> = ["a", "b"]
        .iter()
        .zip(&folders)
        .map(|(name, folder)| start(name, &log, &network, folder.path()))
        .collect();
    let other = &nodes[1 - owner(&nodes)].node;
    let have = |wanted: &[(&str, &str)]| {
        nodes.iter().all(|it| {
            it.node.shared("x/").is_some_and(|rows| {
                rows.iter()
                    .map(|(name, value)| (&name[..], &value[..]))
                    .eq(wanted.iter().map(|(name, value)| (*name, value.as_bytes())))
            })
        })
    };
    // A request may be lost, so it is repeated.
    until("both have the rows", || {
        other.share("x/1", Some("one".into()));
        other.share("y/2", Some("another".into()));
        have(&[("x/1", "one")])
    });
    until("both have removed the row", || {
        other.share("x/1", None);
        have(&[])
    });
    nodes.iter().for_each(Rig::forget_queue);
}
