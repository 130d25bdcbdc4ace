//! Three nodes, a log, a network and clocks, moved by one seed in one thread.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tickwheel::ManualClock;
use tickwheel_cluster::log::{AppendId, Faults, Log, Position, SimulatedLog};
use tickwheel_cluster::{
    Environment, Heartbeat, Opener, Partition, Peers, Replica, ReplicaOptions, SeedChunks, State,
    trim_point,
};
use tickwheel_queue::store::{MemoryDisk, Table};
use tickwheel_queue::{Queues, Stepper, Time};

use crate::history::History;
use crate::link::Link;

pub(crate) const NODES: usize = 3;
const NAMES: [&str; NODES] = ["a", "b", "c"];
/// When the simulation begins.
const START_MS: u64 = 1_800_000_000_000;
/// Thrown through a node's code to end it at that point.
struct Crash;

/// A queue that the simulation turns by hand.
pub(crate) struct Queue {
    pub(crate) queues: Queues,
    pub(crate) stepper: Stepper,
}

pub(crate) struct Node {
    pub(crate) disk: MemoryDisk,
    pub(crate) peers: Peers,
    /// `None` while the node is down.
    pub(crate) partition: Option<Partition<Queue>>,
    link: SimulatedLog,
    instance: u64,
    /// The node does not run before this time, in milliseconds.
    stopped_until: u64,
    next_tick: u64,
}

pub(crate) struct World {
    rng: Mutex<fastrand::Rng>,
    nodes: Vec<Mutex<Node>>,
    clocks: Vec<ManualClock>,
    /// What each clock showed at first.
    starts: Vec<Instant>,
    log: SimulatedLog,
    now_ms: AtomicU64,
    depth: AtomicUsize,
    /// No more faults.
    is_calm: AtomicBool,
    /// Heartbeats under way: when they arrive, at whom.
    network: Mutex<Vec<(u64, usize, Heartbeat)>>,
    pub(crate) history: Mutex<History>,
    /// Which append was acknowledged at each position, of which node.
    acknowledged: Mutex<BTreeMap<Position, (usize, AppendId)>>,
    pub(crate) violations: Mutex<Vec<String>>,
    pub(crate) planted: Planted,
    takeovers: AtomicU64,
}

/// Faults of the program itself, which the checkers must detect.
#[derive(Debug, Default)]
pub(crate) struct Planted {
    /// The log acknowledges an append now and then without keeping it.
    pub(crate) log_forgets: AtomicBool,
    /// A standby changes a row.
    pub(crate) standby_differs: AtomicBool,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("now_ms", &self.now_ms).finish_non_exhaustive()
    }
}

/// The clocks of a node.
#[derive(Debug)]
struct Clocks {
    world: std::sync::Weak<World>,
    node: usize,
    clock: ManualClock,
    start: Instant,
}

impl Environment for Clocks {
    fn time(&self) -> Time {
        self.clock.wall().into()
    }

    fn elapsed(&self) -> Duration {
        self.clock.now() - self.start
    }

    fn pause(&self, length: Duration) {
        if let Some(world) = self.world.upgrade() {
            world.advance(length.as_millis() as u64);
            world.interrupt(self.node);
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A simulated crash unwinds through locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    /// Ends the process; with its machine, what was not synced is lost.
    fn stop(&mut self, machine: bool) {
        if machine {
            self.disk.crash();
        }
        self.partition = None;
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        fastrand::seed(seed);
        let mut rng = fastrand::Rng::with_seed(seed);
        let log = SimulatedLog::new(rng.u64(..));
        log.never_block();
        // Small records: groups have several parts.
        log.set_max_record_bytes(if rng.bool() { 700 } else { 1 << 20 });
        let clocks: Vec<_> = (0..NODES)
            .map(|_| {
                let clock = ManualClock::new();
                let skew = rng.u64(..400);
                let wall = Duration::from_millis(START_MS + skew);
                clock.set_wall(SystemTime::UNIX_EPOCH + wall);
                clock
            })
            .collect();
        let nodes = NAMES
            .iter()
            .map(|name| {
                Mutex::new(Node {
                    disk: MemoryDisk::new(),
                    peers: Peers::new(*name, 0),
                    partition: None,
                    link: log.connect(),
                    instance: 0,
                    stopped_until: 0,
                    next_tick: 0,
                })
            })
            .collect();
        let world = Arc::new(Self {
            rng: Mutex::new(rng),
            nodes,
            starts: clocks.iter().map(ManualClock::now).collect(),
            clocks,
            log,
            now_ms: AtomicU64::new(0),
            depth: AtomicUsize::new(0),
            is_calm: AtomicBool::new(false),
            network: Mutex::default(),
            history: Mutex::default(),
            acknowledged: Mutex::default(),
            violations: Mutex::default(),
            planted: Planted::default(),
            takeovers: AtomicU64::new(0),
        });
        for node in 0..NODES {
            world.start(node);
        }
        world
    }

    pub(crate) fn node(&self, node: usize) -> MutexGuard<'_, Node> {
        lock(&self.nodes[node])
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn takeovers(&self) -> u64 {
        self.takeovers.load(Ordering::Relaxed)
    }

    /// A random number below a bound.
    pub(crate) fn random(&self, bound: u64) -> u64 {
        lock(&self.rng).u64(..bound)
    }

    /// Whether something happens that has one chance in `odds`.
    pub(crate) fn one_in(&self, odds: u64) -> bool {
        self.random(odds) == 0
    }

    fn chance_of_fault(&self, odds: u64) -> bool {
        !self.is_calm.load(Ordering::Relaxed) && self.one_in(odds)
    }

    /// Lets time pass on all clocks.
    pub(crate) fn advance(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
        for clock in &self.clocks {
            clock.advance(Duration::from_millis(ms));
        }
    }

    /// Starts the process of a node.
    pub(crate) fn start(self: &Arc<Self>, number: usize) {
        let mut node = self.node(number);
        node.instance += 1;
        let clock = self.clocks[number].clone();
        let clocks = Clocks {
            world: Arc::downgrade(self),
            node: number,
            start: self.starts[number],
            clock: clock.clone(),
        };
        let started = clocks.elapsed();
        let link = Link { node: number, log: node.link.connect(), world: Arc::downgrade(self) };
        node.link = link.log.connect();
        let options = ReplicaOptions {
            settle_timeout: Duration::from_secs(2),
            append_pause: Duration::from_millis(200),
            loss_confirmation: Duration::from_secs(30),
            may_create: true,
            ..ReplicaOptions::new(NAMES[number])
        };
        node.peers = Peers::new(NAMES[number], node.instance).started(started);
        let disk = Box::new(node.disk.clone());
        let replica = Replica::new(disk, Arc::new(link), Arc::new(clocks), options);
        let opener: Opener<Queue> = Box::new(move |disk, floor| {
            let builder = Queues::builder().clock(clock.clone()).time_floor(floor);
            let (queues, stepper) = builder.open_stepped(disk)?;
            Ok(Queue { queues, stepper })
        });
        node.partition = Some(Partition::new(0, replica, opener));
        node.stopped_until = 0;
    }

    /// Runs a part of a node's code, in which the node may crash.
    pub(crate) fn run<T>(&self, number: usize, run: impl FnOnce(&mut Node) -> T) -> Option<T> {
        let Ok(mut node) = self.nodes[number].try_lock().or_else(|error| match error {
            std::sync::TryLockError::Poisoned(poisoned) => Ok(poisoned.into_inner()),
            other @ std::sync::TryLockError::WouldBlock => Err(other),
        }) else {
            return None;
        };
        if node.partition.is_none() || node.stopped_until > self.now_ms() {
            return None;
        }
        match catch_unwind(AssertUnwindSafe(|| run(&mut node))) {
            Ok(value) => Some(value),
            Err(payload) if payload.is::<Crash>() => {
                let machine = self.one_in(2);
                node.stop(machine);
                None
            }
            Err(payload) => resume_unwind(payload),
        }
    }

    /// Called by the code of a node between its operations on the log.
    pub(crate) fn interrupt(self: &Arc<Self>, number: usize) {
        if self.chance_of_fault(400) {
            resume_unwind(Box::new(Crash));
        }
        if self.depth.load(Ordering::Relaxed) >= 2 || !self.chance_of_fault(8) {
            return;
        }
        self.depth.fetch_add(1, Ordering::Relaxed);
        // A short interruption, or one that is as long as a stopped process.
        let steps = if self.one_in(10) { 60 } else { 1 + self.random(4) };
        for _ in 0..steps {
            let other = (number + 1 + self.random(2) as usize) % NODES;
            self.pass_time();
            self.tick(other);
        }
        self.depth.fetch_sub(1, Ordering::Relaxed);
    }

    /// Lets some time pass, and what happens by itself in it.
    pub(crate) fn pass_time(self: &Arc<Self>) {
        self.advance(10 + self.random(90));
        self.deliver_heartbeats();
    }

    /// Lets a node do what its threads do.
    pub(crate) fn tick(self: &Arc<Self>, number: usize) {
        let now = self.now_ms();
        let ticked = self.run(number, |node| {
            if node.next_tick <= now {
                node.next_tick = now + 250;
                self.send_heartbeat(number, node);
            }
            let partition = node.partition.as_mut()?;
            let was = partition.state().clone();
            partition.tick(&node.peers);
            if let (State::Standby, State::Owner { .. }) = (&was, partition.state()) {
                self.takeovers.fetch_add(1, Ordering::Relaxed);
            }
            if let Some(queue) = partition.queue_mut() {
                queue.stepper.step();
            }
            Some(matches!(partition.state(), State::NeedsSeed(_)))
        });
        if ticked.flatten() == Some(true) {
            self.seed(number);
        }
        self.check_halted(number);
        if self.planted.standby_differs.load(Ordering::Relaxed) && self.one_in(50) {
            self.tamper(number);
        }
    }

    fn check_halted(&self, number: usize) {
        if let Ok(node) = self.nodes[number].try_lock()
            && let Some(partition) = &node.partition
            && let State::Halted(why) = partition.state()
        {
            self.violation(format!("node {number} halted: {why}"));
        }
    }

    pub(crate) fn violation(&self, what: String) {
        let mut violations = lock(&self.violations);
        if violations.len() < 20 {
            violations.push(what);
        }
    }

    /// Seeds a node from another, as its process would over the network.
    fn seed(self: &Arc<Self>, number: usize) {
        let other = (number + 1 + self.random(2) as usize) % NODES;
        let view = self.run(other, |node| {
            let partition = node.partition.as_ref()?;
            if !matches!(partition.state(), State::Standby | State::Owner { .. }) {
                return None;
            }
            let store = partition.replica().lock().store()?;
            Some(store.view())
        });
        let Some(view) = view.flatten() else { return };
        let cut_short = self.chance_of_fault(3);
        let chunks = SeedChunks::new(view).map(|chunk| chunk.map_err(|error| error.to_string()));
        let chunks = chunks.chain(cut_short.then(|| Err("the connection was lost".to_owned())));
        self.run(number, |node| node.partition.as_mut().map(|it| it.seed(chunks)));
    }

    fn send_heartbeat(&self, number: usize, node: &Node) {
        let Some(partition) = &node.partition else { return };
        let beat = Heartbeat {
            node: NAMES[number].to_owned(),
            instance: node.instance,
            address: String::new(),
            is_draining: false,
            time: self.clocks[number].wall().into(),
            replicas: [(0, partition.beat(&node.peers))].into(),
        };
        for to in 0..NODES {
            if self.chance_of_fault(10) {
                continue;
            }
            let delay = if self.chance_of_fault(20) { self.random(3_000) } else { self.random(20) };
            lock(&self.network).push((self.now_ms() + delay, to, beat.clone()));
        }
    }

    fn deliver_heartbeats(&self) {
        let now = self.now_ms();
        let mut network = lock(&self.network);
        let arrived: Vec<_> = network.extract_if(.., |beat| beat.0 <= now).collect();
        drop(network);
        for (_, to, beat) in arrived {
            // A stopped process reads its heartbeats when it runs again.
            let Ok(mut node) = self.nodes[to].try_lock() else { continue };
            if node.partition.is_some() && node.stopped_until <= now {
                let time = self.clocks[to].wall().into();
                node.peers.heard(beat, Duration::from_millis(now), time);
            }
        }
    }

    /// One random fault.
    pub(crate) fn fault(self: &Arc<Self>) {
        let number = self.random(NODES as u64) as usize;
        match self.random(12) {
            0 | 1 => {
                let machine = self.one_in(2);
                let mut node = self.node(number);
                node.stop(machine);
            }
            2 | 3 => {
                let until = self.now_ms() + self.random(6_000);
                self.node(number).stopped_until = until;
            }
            4 => {
                let cut = self.one_in(2);
                let node = self.node(number);
                node.link.cut(cut);
            }
            5 | 6 => self.log.set_faults(self.random_faults()),
            7 => self.log.set_faults(Faults::default()),
            8 => self.sync_and_trim(number),
            9 => self.wipe(number),
            10 => {
                self.run(number, |node| node.partition.as_mut().map(|it| it.hand_off(None)));
            }
            _ => self.restart_all(),
        }
    }

    fn random_faults(&self) -> Faults {
        let some = || if self.one_in(2) { self.random(30) as f64 / 100.0 } else { 0.0 };
        Faults {
            lost_request: some(),
            lost_answer: some(),
            delayed: some(),
            duplicated: some(),
            stale: some(),
        }
    }

    pub(crate) fn restart_all(self: &Arc<Self>) {
        for number in 0..NODES {
            if self.node(number).partition.is_none() {
                self.start(number);
            }
        }
    }

    /// Nodes sync what they have; an owner trims the log below what two of them have synced.
    pub(crate) fn sync_and_trim(self: &Arc<Self>, number: usize) {
        let mut synced = Vec::new();
        for node in 0..NODES {
            let position = self.run(node, |node| {
                let partition = node.partition.as_mut()?;
                if !matches!(partition.state(), State::Standby | State::Owner { .. }) {
                    return None;
                }
                partition.replica().lock().sync().ok()
            });
            synced.extend(position.flatten());
        }
        let Some(below) = trim_point(&synced) else { return };
        self.run(number, |node| {
            let partition = node.partition.as_mut()?;
            matches!(partition.state(), State::Owner { .. }).then(|| {
                let names = NAMES.iter().map(|name| (*name).to_owned()).collect();
                partition.replica().lock().trim(below, names)
            })
        });
    }

    /// A machine is lost with its disk. Two others must have all that the log has no more.
    fn wipe(self: &Arc<Self>, number: usize) {
        let first = self.log.state().map_or(Position(u64::MAX), |state| state.first);
        let others = (0..NODES).filter(|other| *other != number);
        let have_all = others.into_iter().all(|other| {
            let node = self.node(other);
            node.partition.as_ref().is_some_and(|partition| {
                matches!(partition.state(), State::Standby | State::Owner { .. })
                    && partition.replica().lock().synced().next() >= first
            })
        });
        if !have_all {
            return;
        }
        let mut node = self.node(number);
        node.stop(true);
        node.disk = MemoryDisk::new();
    }

    /// Ends all faults, and lets the cluster come to rest.
    pub(crate) fn calm(self: &Arc<Self>) -> bool {
        self.is_calm.store(true, Ordering::Relaxed);
        self.log.set_faults(Faults::default());
        self.log.deliver_all();
        for number in 0..NODES {
            let mut node = self.node(number);
            node.stopped_until = 0;
            node.link.cut(false);
        }
        self.restart_all();
        for _ in 0..1_500 {
            self.pass_time();
            for number in 0..NODES {
                self.tick(number);
            }
            if self.is_at_rest() {
                return true;
            }
        }
        false
    }

    /// One owner, and all replicas have applied everything.
    fn is_at_rest(&self) -> bool {
        let mut positions = Vec::new();
        let mut owners = 0;
        for number in 0..NODES {
            let node = self.node(number);
            let Some(partition) = &node.partition else { return false };
            owners += usize::from(matches!(partition.state(), State::Owner { .. }));
            let replica = partition.replica().lock();
            positions.extend(replica.applied().map(|applied| applied.tip.position));
        }
        let last = self.log.state().map(|state| state.last).ok();
        owners == 1 && positions.len() == NODES && positions.iter().all(|it| Some(*it) == last)
    }

    /// The node that owns the partition.
    pub(crate) fn owner(&self) -> Option<usize> {
        (0..NODES).find(|number| {
            let node = self.node(*number);
            node.partition
                .as_ref()
                .is_some_and(|partition| matches!(partition.state(), State::Owner { .. }))
        })
    }

    /// All rows of a node's store.
    pub(crate) fn rows(&self, number: usize) -> BTreeMap<(Table, Vec<u8>), Vec<u8>> {
        let node = self.node(number);
        let store = node.partition.as_ref().and_then(|it| it.replica().lock().store());
        let mut rows = BTreeMap::new();
        for (table, store) in Table::ALL.into_iter().zip(std::iter::repeat(store)) {
            let Some(store) = store else { continue };
            for row in store.scan(table, &[], &[u8::MAX; 64]) {
                let (key, value) = row.expect("a memory disk that is open can be read");
                rows.insert((table, key.to_vec()), value.to_vec());
            }
        }
        rows
    }

    /// Changes a row of a standby.
    fn tamper(&self, number: usize) {
        let Ok(node) = self.nodes[number].try_lock() else { return };
        let is_standby = |it: &Partition<Queue>| matches!(it.state(), State::Standby);
        if node.partition.as_ref().is_some_and(is_standby) {
            node.disk.tamper(|rows| {
                if let Some(mut row) = rows.first_entry() {
                    row.insert(bytes::Bytes::from_static(b"tampered"));
                }
            });
        }
    }

    pub(crate) fn lies_about_append(&self) -> bool {
        self.planted.log_forgets.load(Ordering::Relaxed) && self.one_in(40)
    }

    /// Two acknowledged appends at one position must be the same append.
    pub(crate) fn note_append(&self, node: usize, position: Position, id: AppendId) {
        let mut acknowledged = lock(&self.acknowledged);
        let known = *acknowledged.entry(position).or_insert((node, id));
        if known != (node, id) {
            drop(acknowledged);
            self.violation(format!("nodes {} and {node} both own position {position}", known.0));
        }
    }
}
