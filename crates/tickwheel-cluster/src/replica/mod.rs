//! One node's copy of a partition: a local store and how far it has applied the log.
//!
//! A replica is a *standby* or the *owner*. A standby reads the log and commits the same rows as
//! the owner. [`Replica::take_over`] makes it the owner; from then on [`Replica::commit`] appends
//! each batch to the log before it commits the batch locally.
//!
//! Ground rules:
//! * The log is the truth. Local commits are buffered; what a crash loses is read from the log
//!   again. The row that holds [`Applied`] is in the same batch as the rows that it covers.
//! * Every append follows the last record that this replica has read, so an owner has applied
//!   everything before its own takeover.
//! * An append that cannot be settled ends ownership: the replica discards what it assumed about
//!   the end of the log and reads it again. So does a failed local commit.
//! * A replica that contradicts its log halts. It never repairs that by itself.

mod owner;
mod standby;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tickwheel_queue::TimeFloor;
use tickwheel_queue::store::replication::{POSITION_KEY, shared_key, shared_name};
use tickwheel_queue::store::{Disk, Store, StoreError, StoreOptions, Table};

use crate::environment::Environment;
use crate::log::{Log, LogError, Position, StreamId};
use crate::position::Applied;
use crate::record::{Follower, Tip, VERSION};

pub use owner::trim_point;

/// How a replica is set up.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_cluster::ReplicaOptions;
///
/// // The first node of a new cluster, which gives ownership up sooner than others.
/// let options = ReplicaOptions {
///     settle_timeout: Duration::from_secs(5),
///     may_create: true,
///     ..ReplicaOptions::new("node-a")
/// };
/// assert_eq!(options.node, "node-a");
/// ```
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// The name of this node, which its takeovers carry.
    pub node: String,
    /// How long an append whose answer is lost is repeated before ownership is given up.
    pub settle_timeout: Duration,
    /// The pause between two attempts to append.
    pub append_pause: Duration,
    /// How long the log must appear to end before the applied position until the replica halts.
    /// An out-of-date server may answer for a while.
    pub loss_confirmation: Duration,
    /// Whether this replica may start a partition on a stream without records.
    pub may_create: bool,
    /// The newest version of records that this node reads and writes. Defaults to
    /// [`VERSION`]; tests of upgrades set a newer one.
    pub known_version: u8,
    /// How the local store is opened.
    pub store: StoreOptions,
}

impl ReplicaOptions {
    /// Returns the options of a node: appends are repeated for 15 seconds, every 50 ms, a loss is
    /// confirmed for 20 seconds, and no partition is created.
    pub fn new(node: impl Into<String>) -> Self {
        Self {
            node: node.into(),
            settle_timeout: Duration::from_secs(15),
            append_pause: Duration::from_millis(50),
            loss_confirmation: Duration::from_secs(20),
            may_create: false,
            known_version: VERSION,
            store: StoreOptions::default(),
        }
    }
}

/// Why a replica cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplicaError {
    /// The log does not answer. Trying again may help.
    Unavailable(String),
    /// Records that the replica needs were trimmed, or it was seeded only in part: it has to be
    /// seeded from another replica.
    NeedsSeed(String),
    /// The replica contradicts its log. An operator has to decide; `tickwheel cluster recover`
    /// starts a new generation.
    Halted(String),
    /// A newer version of Tickwheel wrote the log.
    Newer(String),
    /// The local store failed.
    Local(StoreError),
    /// Another node owns the partition, or may own it.
    Deposed(String),
    /// Log and replica are empty, and this node may not start a partition.
    NotCreated,
}

impl fmt::Display for ReplicaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => write!(f, "the log is unavailable: {why}"),
            Self::NeedsSeed(why) => write!(f, "the replica has to be seeded: {why}"),
            Self::Halted(why) => write!(f, "the replica has halted: {why}"),
            Self::Newer(why) => write!(f, "a newer version wrote the log: {why}"),
            Self::Local(error) => write!(f, "the local store failed: {error}"),
            Self::Deposed(why) => write!(f, "this node does not own the partition: {why}"),
            Self::NotCreated => f.write_str(
                "the log is empty and so is this replica: if this is a new cluster, start one node \
                 with --cluster-create",
            ),
        }
    }
}

impl std::error::Error for ReplicaError {}

impl From<StoreError> for ReplicaError {
    fn from(error: StoreError) -> Self {
        Self::Local(error)
    }
}

/// One node's copy of a partition.
///
/// ```
/// use std::sync::Arc;
/// use tickwheel_cluster::log::SimulatedLog;
/// use tickwheel_cluster::{Machine, Replica, ReplicaOptions};
/// use tickwheel_queue::store::{MemoryDisk, Table, View, WriteBatch};
///
/// let log = SimulatedLog::new(1);
/// let replica = |node: &str| {
///     let (disk, machine) = (Box::new(MemoryDisk::new()), Arc::new(Machine::new()));
///     let options = ReplicaOptions { may_create: true, ..ReplicaOptions::new(node) };
///     Replica::new(disk, Arc::new(log.connect()), machine, options)
/// };
/// let (mut owner, mut standby) = (replica("a"), replica("b"));
/// owner.take_over(0)?;
/// let mut batch = WriteBatch::new();
/// batch.put(Table::Jobs, b"job 7", b"its payload");
/// owner.commit(&batch)?;
///
/// standby.catch_up()?;
/// assert!(standby.store().unwrap().get(Table::Jobs, b"job 7")?.is_some());
/// // The standby takes over, and the former owner's next append is refused.
/// standby.take_over(1)?;
/// assert!(owner.commit(&batch).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Replica {
    options: ReplicaOptions,
    log: Arc<dyn Log>,
    environment: Arc<dyn Environment>,
    disk: Box<dyn Disk>,
    local: Option<Local>,
    /// The time of the last record, which the owner's present never falls short of.
    floor: TimeFloor,
    /// The epoch in which this replica is the owner.
    owned: Option<u64>,
    /// When the last append that succeeded began, on the monotonic clock.
    last_append: Option<Duration>,
    /// Since when the log has appeared to end before the applied position.
    lost_since: Option<Duration>,
    /// A reason to halt. It stays until the process ends.
    halted: Option<String>,
    /// The log may have been rewritten at the end of this replica, which is checked once.
    is_verified: bool,
    /// The last record that allowed a trim allowed it below this position.
    trimmable: Position,
    counters: Counters,
    /// The version of the records that it appends.
    write_version: u8,
}

/// What a replica has done since it was opened; [`Replica::counters`] returns it.
///
/// ```
/// use tickwheel_cluster::Counters;
///
/// let counters = Counters { appends: 100, repeated: 3, ..Counters::default() };
/// println!("{} % of the appends were repeated", 100 * counters.repeated / counters.appends);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records that were appended.
    pub appends: u64,
    /// Appends that had to be repeated.
    pub repeated: u64,
    /// The time that these appends took together, repetitions included, in microseconds.
    pub append_micros: u64,
    /// Takeovers of this replica.
    pub takeovers: u64,
    /// Groups of rows that were applied as a standby.
    pub applied: u64,
}

/// The open local store, and what this replica knows of the log.
struct Local {
    store: Arc<dyn Store>,
    /// What the store says.
    applied: Applied,
    /// After the last record that was read or appended.
    follower: Follower,
    /// Everything up to here is durable in the local store.
    synced: Position,
    /// Whether the store is complete. It is not while it is seeded.
    is_seeded: bool,
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("applied", &self.applied).finish_non_exhaustive()
    }
}

impl Replica {
    /// Returns a replica on a disk; nothing is opened yet.
    pub fn new(
        disk: Box<dyn Disk>,
        log: Arc<dyn Log>,
        environment: Arc<dyn Environment>,
        options: ReplicaOptions,
    ) -> Self {
        Self {
            options,
            log,
            environment,
            disk,
            local: None,
            floor: TimeFloor::default(),
            owned: None,
            last_append: None,
            lost_since: None,
            halted: None,
            is_verified: false,
            trimmable: Position::START,
            counters: Counters::default(),
            write_version: 1,
        }
    }

    /// Returns the state after the last record that was applied, if the store is open.
    pub fn applied(&self) -> Option<&Applied> {
        self.local.as_ref().map(|local| &local.applied)
    }

    /// Returns the position up to which everything is durable in the local store.
    pub fn synced(&self) -> Position {
        self.local.as_ref().map_or(Position::START, |local| local.synced)
    }

    /// Returns the epoch in which this replica is the owner, if it is.
    pub fn owned(&self) -> Option<u64> {
        self.owned
    }

    /// Returns what the replica has done since it was opened.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the time of the last record, for the queue's clock.
    pub fn floor(&self) -> TimeFloor {
        self.floor.clone()
    }

    /// Returns the local store, if it is open.
    pub fn store(&self) -> Option<Arc<dyn Store>> {
        self.local.as_ref().map(|local| Arc::clone(&local.store))
    }

    /// Returns the rows of [`Replica::put_shared`] whose names begin with a prefix, as far as this
    /// replica has applied the log.
    ///
    /// # Errors
    ///
    /// If the local store cannot be read.
    pub fn shared(&self, prefix: &str) -> Result<BTreeMap<String, Bytes>, ReplicaError> {
        let Some(local) = &self.local else { return Ok(BTreeMap::new()) };
        let from = shared_key(prefix);
        // No name contains the byte 255, which UTF-8 does not have.
        let to = [&from[..], &[u8::MAX]].concat();
        let mut found = BTreeMap::new();
        for row in local.store.scan(Table::Index, &from, &to) {
            let (key, value) = row?;
            found.extend(shared_name(&key).map(|name| (name.to_owned(), value)));
        }
        Ok(found)
    }

    pub(crate) fn log(&self) -> Arc<dyn Log> {
        Arc::clone(&self.log)
    }

    /// Where the next record is expected.
    pub(crate) fn next_position(&self) -> Position {
        self.local.as_ref().map_or(Position::START, |local| local.follower.next_position())
    }

    pub(crate) fn node(&self) -> &str {
        &self.options.node
    }

    pub(crate) fn environment(&self) -> Arc<dyn Environment> {
        Arc::clone(&self.environment)
    }

    /// Sets the version of the records that this replica appends, as far as it knows that version.
    ///
    /// An owner appends records of the newest version that all live nodes read. A node that cannot
    /// read a record stops there, and cannot take the partition over.
    pub fn write_up_to(&mut self, version: u8) {
        self.write_version = version.clamp(1, self.options.known_version);
    }

    /// Returns the newest version of records that this replica reads.
    pub fn known_version(&self) -> u8 {
        self.options.known_version
    }

    /// The end of the log, where the next records are drafted.
    fn end(&mut self) -> Result<Tip, ReplicaError> {
        let version = self.write_version;
        Ok(Tip { version, ..self.local()?.follower.end().clone() })
    }

    /// Gives up ownership without telling the log. Whatever was not acknowledged is discarded.
    pub fn step_down(&mut self) {
        self.owned = None;
        self.last_append = None;
        if let Some(local) = &mut self.local {
            local.follower = local.follower.at(local.applied.tip.clone());
        }
    }

    /// Gives up ownership and closes the local store, which the next use opens again. A store that
    /// was opened on a full disk stays careful until then.
    pub(crate) fn close_local(&mut self) {
        self.step_down();
        self.local = None;
    }

    /// Opens the local store, if it is not open.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, holds a queue that is not a replica, or was seeded only in part.
    pub fn open_local(&mut self) -> Result<(), ReplicaError> {
        self.check_halted()?;
        if self.local.is_some() {
            return self.check_seeded();
        }
        self.step_down();
        let store = self.disk.open(&self.options.store)?;
        let row = store.get(Table::Index, POSITION_KEY)?;
        let is_used = |store: &dyn Store| {
            let first = |table| store.scan(table, &[], &[u8::MAX; 16]).next();
            Table::ALL.into_iter().any(|table| first(table).is_some())
        };
        let seeded = match row.map(Applied::decode) {
            Some(Ok(applied)) => applied,
            Some(Err(error)) => {
                return Err(ReplicaError::Local(StoreError::Damaged(error.to_string())));
            }
            None if is_used(&*store) => {
                return Err(self.halt(
                    "the directory holds a queue that is not a replica of this partition: move it \
                     away",
                ));
            }
            None => Some(Applied::new(StreamId::new(""))),
        };
        // A store whose seeding did not end is opened all the same, to be seeded again.
        let is_seeded = seeded.is_some();
        let applied = seeded.unwrap_or_else(|| Applied::new(StreamId::new("")));
        self.floor.raise(applied.tip.time);
        self.is_verified = false;
        self.local = Some(Local {
            store,
            follower: Follower::new(applied.tip.clone()).knowing(self.options.known_version),
            synced: applied.tip.position,
            is_seeded,
            applied,
        });
        self.check_seeded()
    }

    fn check_seeded(&self) -> Result<(), ReplicaError> {
        match &self.local {
            Some(local) if !local.is_seeded => {
                Err(ReplicaError::NeedsSeed("the last seeding did not end".into()))
            }
            _ => Ok(()),
        }
    }

    fn local(&mut self) -> Result<&mut Local, ReplicaError> {
        let closed = || ReplicaError::Local(StoreError::Io("the local store is closed".into()));
        self.local.as_mut().ok_or_else(closed)
    }

    fn check_halted(&self) -> Result<(), ReplicaError> {
        self.halted.clone().map_or(Ok(()), |why| Err(ReplicaError::Halted(why)))
    }

    fn halt(&mut self, why: impl Into<String>) -> ReplicaError {
        let why = why.into();
        self.step_down();
        self.halted = Some(why.clone());
        ReplicaError::Halted(why)
    }

    fn log_error(&mut self, error: LogError) -> ReplicaError {
        match error {
            LogError::Unavailable(why) => ReplicaError::Unavailable(why),
            LogError::Trimmed { .. } => ReplicaError::NeedsSeed(error.to_string()),
            LogError::Lost { .. } => {
                let now = self.environment.elapsed();
                let since = *self.lost_since.get_or_insert(now);
                if now.saturating_sub(since) < self.options.loss_confirmation {
                    return ReplicaError::Unavailable(error.to_string());
                }
                self.halt(error.to_string())
            }
            error => self.halt(error.to_string()),
        }
    }
}
