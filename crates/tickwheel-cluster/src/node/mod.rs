//! A node of a cluster: its threads, and what others may ask of it.
//!
//! One thread per partition calls [`Partition::tick`], syncs, trims and seeds. One more thread
//! exchanges messages with the other nodes. It never waits for a log or a disk, so a node whose
//! append takes long is still heard.
//!
//! | file | what it holds |
//! |---|---|
//! | `message` | what nodes send each other, and the trait [`Transport`] |
//! | `nats`, `postgres` | messages over NATS, or through a table of a `PostgreSQL` database |
//! | `seeding` | rows for a replica that is too far behind, asked for piece by piece |
//! | `wire` | messages as bytes |
//! | `worker` | the thread of a partition |

mod message;
mod nats;
mod postgres;
mod seeding;
mod wire;
mod worker;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;

use crate::environment::Environment;
use crate::partition::{MAX_READ_AGE, Partition, State};
use crate::peers::{HEARTBEAT_INTERVAL, Heartbeat, Peers, ReplicaBeat};
use crate::record::Tip;
use crate::replica::{Counters, ReplicaError};
use crate::store::SharedReplica;

pub use message::{LocalNetwork, Message, Transport};
pub use nats::NatsTransport;
pub use postgres::PostgresTransport;
use seeding::{Pieces, SeedServer};
use worker::Worker;

/// How long the thread of messages waits for one.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(50);
/// How long recovering a partition may take: replacing a stream and one append.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(45);
/// The partition whose log has the rows that all nodes share.
const SHARED_PARTITION: u32 = 0;
/// How long a node waits, after it started and after each partition that it gave away because it owns
/// more than its share. Heartbeats tell of a move well within that time.
const RELIEF_INTERVAL: Duration = Duration::from_secs(3);
/// A partition whose thread did not report for this long is not claimed in heartbeats any more.
const MAX_REPORT_AGE: Duration = Duration::from_secs(30);

/// A running node.
///
/// When it is dropped, it hands its partitions to other nodes and ends its threads.
///
/// ```
/// use std::sync::Arc;
/// use tickwheel_cluster::log::SimulatedLog;
/// use tickwheel_cluster::{LocalNetwork, Machine, Node, Partition, Replica, ReplicaOptions};
/// use tickwheel_queue::{Queues, store::MemoryDisk};
///
/// let log = SimulatedLog::new(1);
/// let machine = Arc::new(Machine::new());
/// let options = ReplicaOptions { may_create: true, ..ReplicaOptions::new("a") };
/// let disk = Box::new(MemoryDisk::new());
/// let replica = Replica::new(disk, Arc::new(log.connect()), machine.clone(), options);
/// let partition = Partition::new(0, replica, Box::new(|disk, floor| {
///     Queues::builder().time_floor(floor).open_disk(disk)
/// }));
///
/// let network = LocalNetwork::new();
/// let address = "http://127.0.0.1:7300";
/// let node = Node::start("a", address, vec![partition], network.connect("a"), machine)?;
/// while node.owner(0).is_none() {
///     std::thread::yield_now();
/// }
/// assert_eq!(node.owner(0).unwrap().node, "a");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Node {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The owner of a partition, as far as a node knows.
///
/// ```
/// # fn forward(node: &tickwheel_cluster::Node) {
/// match node.owner(0) {
///     Some(owner) => println!("{} serves it at {}", owner.node, owner.address),
///     None => println!("no node owns it now"),
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub node: String,
    /// Where it serves HTTP.
    pub address: String,
    /// The epoch in which it is the owner.
    pub epoch: u64,
}

/// What a node knows of one of its partitions; see [`Node::partitions`].
///
/// ```
/// # fn show(node: &tickwheel_cluster::Node) {
/// for (number, status) in node.partitions() {
///     println!("{number}: {:?} at position {}", status.state, status.tip.position);
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PartitionStatus {
    /// What it is doing.
    pub state: State,
    /// What it has applied.
    pub tip: Tip,
    /// What heartbeats tell of it.
    pub beat: ReplicaBeat,
    /// Why the last takeover or the last reading of the log failed, if it did.
    pub trouble: Option<String>,
    /// What its replica has done.
    pub counters: Counters,
}

/// What the threads of a node share.
struct Shared {
    name: String,
    address: String,
    instance: u64,
    environment: Arc<dyn Environment>,
    peers: Mutex<Peers>,
    replicas: BTreeMap<u32, SharedReplica>,
    /// The last report of each partition, and when it came.
    reports: Mutex<BTreeMap<u32, (Duration, PartitionStatus)>>,
    /// What the threads of partitions were asked to do.
    orders: Mutex<VecDeque<(u32, Order)>>,
    /// The partition that this node gave away last because it drains.
    drained: Mutex<Option<u32>>,
    /// When this node may give a partition away because it owns more than its share.
    next_relief: Mutex<Duration>,
    /// Held while a partition is seeded. A node that serves seeds has room for few of them.
    seeding: Mutex<()>,
    is_stopping: AtomicBool,
    wake: (Mutex<()>, Condvar),
}

/// What the thread of a partition is asked to do.
enum Order {
    /// Hand it to a node, or to any.
    HandOff(Option<String>),
    /// Start a new generation from this replica; where to send the outcome.
    Recover(mpsc::Sender<Result<u64, ReplicaError>>),
    /// Put or remove a row that all nodes share.
    Share {
        name: String,
        value: Option<Bytes>,
        /// Whether another node has asked for it. It is not passed on again.
        is_passed_on: bool,
    },
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("name", &self.name).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Poisoning is ignored: no code of a caller runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    /// Starts the threads of a node. `address` is where other nodes reach its HTTP service.
    ///
    /// # Errors
    ///
    /// If the operating system refuses a thread.
    pub fn start<Q: Send + 'static>(
        name: &str,
        address: &str,
        partitions: Vec<Partition<Q>>,
        transport: impl Transport + 'static,
        environment: Arc<dyn Environment>,
    ) -> std::io::Result<Self> {
        let instance = fastrand::u64(..);
        let peers = Peers::new(name, instance).started(environment.elapsed());
        let replica = |it: &Partition<Q>| (it.number(), it.replica().clone());
        let next_relief = Mutex::new(environment.elapsed() + RELIEF_INTERVAL);
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            address: address.to_owned(),
            instance,
            environment,
            peers: Mutex::new(peers),
            replicas: partitions.iter().map(replica).collect(),
            reports: Mutex::default(),
            orders: Mutex::default(),
            drained: Mutex::default(),
            next_relief,
            seeding: Mutex::default(),
            is_stopping: AtomicBool::new(false),
            wake: (Mutex::new(()), Condvar::new()),
        });
        let node = Self { shared: Arc::clone(&shared), threads: Mutex::default() };
        let (outgoing, to_send) = mpsc::channel();
        let mut inboxes = BTreeMap::new();
        for partition in partitions {
            let (pieces, arrived) = mpsc::channel();
            inboxes.insert(partition.number(), pieces);
            let pieces = Pieces::new(outgoing.clone(), arrived);
            let worker = Worker::new(Arc::clone(&shared), partition, pieces);
            node.spawn("tickwheel-partition", move || worker.run())?;
        }
        drop(outgoing);
        let messages =
            Messages { shared, transport, to_send, inboxes, seeds: SeedServer::default() };
        node.spawn("tickwheel-messages", move || messages.run())?;
        Ok(node)
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let thread = std::thread::Builder::new().name(name.to_owned());
        lock(&self.threads).push(thread.spawn(run)?);
        Ok(())
    }

    /// Returns the node's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Returns the owner of a partition, if a node that is alive claims it.
    pub fn owner(&self, partition: u32) -> Option<Owner> {
        self.shared.owner(partition)
    }

    /// Returns the heartbeats of the nodes that are alive, this one first.
    pub fn nodes(&self) -> Vec<Heartbeat> {
        let now = self.shared.environment.elapsed();
        let own = self.shared.heartbeat();
        let peers = lock(&self.shared.peers);
        std::iter::once(own).chain(peers.alive(now).cloned()).collect()
    }

    /// Returns how much the clocks of the nodes that are alive differ from this one's, in
    /// milliseconds.
    pub fn clock_differences_ms(&self) -> BTreeMap<String, u64> {
        let now = self.shared.environment.elapsed();
        let peers = lock(&self.shared.peers);
        let difference =
            |beat: &Heartbeat| Some((beat.node.clone(), peers.clock_difference_ms(&beat.node)?));
        peers.alive(now).filter_map(difference).collect()
    }

    /// Returns what this node knows of its partitions.
    pub fn partitions(&self) -> BTreeMap<u32, PartitionStatus> {
        let reports = lock(&self.shared.reports);
        reports.iter().map(|(number, (_, status))| (*number, status.clone())).collect()
    }

    /// Proves that this node owns a partition, for a read: appends to the log unless the last
    /// append is younger than [`MAX_READ_AGE`]. Blocks for as long as that takes.
    ///
    /// # Errors
    ///
    /// If this node does not own the partition, or could not prove that it does.
    pub fn fence(&self, partition: u32) -> Result<(), ReplicaError> {
        match self.shared.replicas.get(&partition) {
            Some(replica) => replica.lock().fence(MAX_READ_AGE),
            None => Err(ReplicaError::Deposed(format!("there is no partition {partition}"))),
        }
    }

    /// Returns `true` if this node proved less than [`MAX_READ_AGE`] ago that it owns a partition.
    /// Does not wait: while an append is under way, it returns `false`.
    pub fn is_fresh(&self, partition: u32) -> bool {
        let replica = self.shared.replicas.get(&partition).and_then(SharedReplica::try_lock);
        replica.is_some_and(|replica| replica.is_fresh(MAX_READ_AGE))
    }

    /// Asks the thread of a partition to hand it to a node, or to any that is alive. Does nothing
    /// if this node does not own it.
    pub fn hand_off(&self, partition: u32, to: Option<&str>) {
        self.order(partition, Order::HandOff(to.map(str::to_owned)));
    }

    /// Gives all partitions of this node to others, one after the other, and takes no partition
    /// again that another node can take. That ends when the node stops.
    pub fn drain(&self) {
        lock(&self.shared.peers).drain();
        self.shared.wake.1.notify_all();
    }

    /// Starts a new generation of a partition from the replica of this node, which has halted
    /// because the log lost records; see [`Partition::recover`]. Blocks for as long as that takes.
    /// Returns the number of the generation.
    ///
    /// # Errors
    ///
    /// If the replica has not halted, or the generation could not be started.
    pub fn recover(&self, partition: u32) -> Result<u64, ReplicaError> {
        if !self.shared.replicas.contains_key(&partition) {
            return Err(ReplicaError::Deposed(format!("there is no partition {partition}")));
        }
        let (sender, outcome) = mpsc::channel();
        self.order(partition, Order::Recover(sender));
        let late = || ReplicaError::Unavailable("the partition takes too long".into());
        outcome.recv_timeout(RECOVERY_TIMEOUT).unwrap_or_else(|_| Err(late()))
    }

    /// Returns the rows that all nodes share whose names begin with a prefix. Returns `None` while
    /// this node has not read the log to its end. Blocks while an append is under way.
    pub fn shared(&self, prefix: &str) -> Option<BTreeMap<String, Bytes>> {
        let is_current =
            |status: &PartitionStatus| status.beat.is_owner || status.beat.is_candidate;
        let status = self.partitions().remove(&SHARED_PARTITION);
        status.filter(is_current)?;
        let replica = self.shared.replicas.get(&SHARED_PARTITION)?;
        replica.lock().shared(prefix).ok()
    }

    /// Asks for a change of the rows that all nodes share: a new value, or `None` to remove one.
    ///
    /// The request may be lost: repeat it until [`Node::shared`] shows the change.
    pub fn share(&self, name: &str, value: Option<Bytes>) {
        let name = name.to_owned();
        self.order(SHARED_PARTITION, Order::Share { name, value, is_passed_on: false });
    }

    fn order(&self, partition: u32, order: Order) {
        self.shared.order(partition, order);
    }

    /// Hands all partitions to other nodes, and ends the threads. Blocks until they have ended.
    pub fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        self.shared.wake.1.notify_all();
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the node panicked");
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// The owner of a partition, if a node that is alive claims it.
    fn owner(&self, partition: u32) -> Option<Owner> {
        let now = self.environment.elapsed();
        let claims = |beat: &Heartbeat| {
            let claim = beat.replicas.get(&partition).filter(|claim| claim.is_owner)?;
            let (node, address) = (beat.node.clone(), beat.address.clone());
            Some(Owner { node, address, epoch: claim.epoch })
        };
        let own = claims(&self.heartbeat());
        let peers = lock(&self.peers);
        peers.alive(now).filter_map(claims).chain(own).max_by_key(|owner| owner.epoch)
    }

    /// Decides whether a partition that this node owns is given away now, because the node drains.
    /// The one before it must have found an owner.
    fn may_drain(&self, partition: u32) -> bool {
        let mut drained = lock(&self.drained);
        let has_left = |number| self.owner(number).is_some_and(|owner| owner.node != self.name);
        let is_next = drained.is_none_or(|last| last == partition || has_left(last));
        if is_next {
            *drained = Some(partition);
        }
        is_next
    }

    /// The partitions that this node owns, as their threads reported last.
    fn owned(&self) -> Vec<u32> {
        let reports = lock(&self.reports);
        reports.iter().filter(|(_, (_, it))| it.beat.is_owner).map(|(number, _)| *number).collect()
    }

    /// Decides whether a partition is given away now because this node owns more than its share.
    fn may_relieve(&self, now: Duration) -> bool {
        let mut next = lock(&self.next_relief);
        let is_time = now >= *next;
        if is_time {
            *next = now + RELIEF_INTERVAL;
        }
        is_time
    }

    fn order(&self, partition: u32, order: Order) {
        lock(&self.orders).push_back((partition, order));
        self.wake.1.notify_all();
    }

    /// Takes the next order for a partition.
    fn take_order(&self, partition: u32) -> Option<Order> {
        let mut orders = lock(&self.orders);
        let index = orders.iter().position(|(number, _)| *number == partition)?;
        orders.remove(index).map(|(_, order)| order)
    }

    /// What the node tells the others now.
    fn heartbeat(&self) -> Heartbeat {
        let now = self.environment.elapsed();
        let is_draining = lock(&self.peers).is_draining();
        let beat = |(number, (at, status)): (&u32, &(Duration, PartitionStatus))| {
            let mut beat = status.beat.clone();
            if now.saturating_sub(*at) > MAX_REPORT_AGE {
                (beat.is_owner, beat.is_candidate) = (false, false);
            }
            (*number, beat)
        };
        Heartbeat {
            node: self.name.clone(),
            instance: self.instance,
            address: self.address.clone(),
            time: self.environment.time(),
            is_draining,
            replicas: lock(&self.reports).iter().map(beat).collect(),
        }
    }

    /// Sleeps until something is asked of a partition or the time has passed.
    fn sleep(&self, partition: u32, timeout: Duration) {
        let guard = lock(&self.wake.0);
        let has_order = lock(&self.orders).iter().any(|(number, _)| *number == partition);
        if !self.is_stopping() && !has_order {
            drop(self.wake.1.wait_timeout(guard, timeout));
        }
    }
}

/// The thread that exchanges messages with the other nodes.
struct Messages<T> {
    shared: Arc<Shared>,
    transport: T,
    /// What the partitions want to send.
    to_send: mpsc::Receiver<(String, Message)>,
    /// Where pieces of seeds go.
    inboxes: BTreeMap<u32, mpsc::Sender<Message>>,
    seeds: SeedServer,
}

impl<T: Transport> Messages<T> {
    fn run(mut self) {
        let mut next_beat = Duration::ZERO;
        loop {
            // The partitions drop their ends when they have been handed off.
            let is_over = loop {
                match self.to_send.try_recv() {
                    Ok((to, message)) => self.transport.send(Some(&to), message),
                    Err(mpsc::TryRecvError::Empty) => break false,
                    Err(mpsc::TryRecvError::Disconnected) => break true,
                }
            };
            let now = self.shared.environment.elapsed();
            if now >= next_beat || is_over {
                next_beat = now + HEARTBEAT_INTERVAL;
                // The last heartbeat says that the node owns nothing any more.
                self.transport.send(None, Message::Heartbeat(self.shared.heartbeat()));
            }
            if is_over {
                return;
            }
            for message in self.transport.receive(RECEIVE_TIMEOUT) {
                self.take(message);
            }
        }
    }

    fn take(&mut self, message: Message) {
        let environment = &self.shared.environment;
        match message {
            Message::Heartbeat(beat) => {
                let (now, time) = (environment.elapsed(), environment.time());
                lock(&self.shared.peers).heard(beat, now, time);
            }
            Message::SeedRequest { partition, from, session, piece } => {
                let replica = self.shared.replicas.get(&partition);
                let answer = self.seeds.answer(partition, replica, session, piece);
                self.transport.send(Some(&from), answer);
            }
            Message::Share { name, value } => {
                let order = Order::Share { name, value, is_passed_on: true };
                self.shared.order(SHARED_PARTITION, order);
            }
            Message::SeedPiece { partition, .. } => {
                if let Some(inbox) = self.inboxes.get(&partition) {
                    // A partition that does not wait for a seed any more has dropped the other end.
                    let _ = inbox.send(message);
                }
            }
        }
    }
}
