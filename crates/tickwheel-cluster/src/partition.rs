//! One partition on one node: follows the log as a standby, takes over, owns, hands off, halts.
//!
//! ```text
//!            catch up            silence, or a hand-off
//! Standby ─────────────▶ Standby ─────────────────────▶ Owner
//!    ▲ ▲ seeded                                          │ │
//!    │ └──────── NeedsSeed ◀── trimmed, new generation   │ │
//!    └───────────────────── append refused, hand-off ◀───┘ │
//! Halted ◀──── the log contradicts the replica ◀───────────┘
//! ```
//!
//! [`Partition::tick`] makes the next step and returns. A thread or a simulation calls it
//! repeatedly. The log alone decides about ownership: a tick only decides whether to *try*.

use std::fmt;
use std::time::Duration;

use tickwheel_queue::{OpenError, TimeFloor};

use crate::peers::{Condition, Heartbeat, MAX_SILENCE, Peers, ReplicaBeat};
use crate::replica::{Replica, ReplicaError};
use crate::store::{ReplicatedDisk, SharedReplica};

/// How much longer than the first candidate the second waits, and so on.
const STAGGER: Duration = Duration::from_millis(500);
/// How often an owner looks for records of a successor.
const OWNER_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often a partition that has halted looks for a new generation.
const RECOVERY_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The age of the last append from which an owner must prove its ownership before it answers a
/// read.
pub const MAX_READ_AGE: Duration = Duration::from_secs(1);

/// Opens a queue on the disk of an owner. The floor goes to
/// [`Builder::time_floor`](tickwheel_queue::Builder::time_floor).
pub type Opener<Q> = Box<dyn FnMut(ReplicatedDisk, TimeFloor) -> Result<Q, OpenError> + Send>;

/// What a partition is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// It follows the log.
    Standby,
    /// It owns the partition, in this epoch.
    Owner {
        /// The epoch.
        epoch: u64,
    },
    /// It lacks records that the log has no more; why.
    NeedsSeed(String),
    /// It contradicts the log; why. An operator has to decide.
    Halted(String),
}

/// One partition on one node. `Q` is the handle of its queue.
///
/// ```
/// use std::sync::Arc;
/// use tickwheel_cluster::log::SimulatedLog;
/// use tickwheel_cluster::{Machine, Partition, Peers, Replica, ReplicaOptions, State};
/// use tickwheel_queue::store::MemoryDisk;
/// use tickwheel_queue::{NewJob, Queues};
///
/// let log = SimulatedLog::new(1);
/// let (disk, machine) = (Box::new(MemoryDisk::new()), Arc::new(Machine::new()));
/// let options = ReplicaOptions { may_create: true, ..ReplicaOptions::new("a") };
/// let replica = Replica::new(disk, Arc::new(log.connect()), machine, options);
/// let mut partition = Partition::new(0, replica, Box::new(|disk, floor| {
///     Queues::builder().time_floor(floor).open_disk(disk)
/// }));
/// // A node listens for the others before it takes over.
/// let peers = Peers::new("a", 1);
/// while *partition.state() == State::Standby {
///     partition.tick(&peers);
/// }
/// let queues = partition.queue().unwrap().clone();
/// queues.put(NewJob::new("mail", "hello")).wait()?; // it is in the log now
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Partition<Q> {
    number: u32,
    replica: SharedReplica,
    opener: Opener<Q>,
    queue: Option<Q>,
    state: State,
    /// Whether the last tick read the log to its end.
    is_caught_up: bool,
    /// When the log last showed something new, or when an owner last looked for a successor, on
    /// the monotonic clock.
    progress: Duration,
    last_position: u64,
    /// Why the last takeover or the last catching up failed.
    trouble: Option<String>,
}

impl<Q> fmt::Debug for Partition<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partition")
            .field("number", &self.number)
            .field("state", &self.state)
            .field("trouble", &self.trouble)
            .finish_non_exhaustive()
    }
}

impl<Q> Partition<Q> {
    /// Returns a standby that has not read anything yet.
    pub fn new(number: u32, replica: Replica, opener: Opener<Q>) -> Self {
        let progress = replica.environment().elapsed();
        Self {
            number,
            replica: SharedReplica::new(replica),
            opener,
            queue: None,
            state: State::Standby,
            is_caught_up: false,
            progress,
            last_position: 0,
            trouble: None,
        }
    }

    /// Returns the partition's number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns what the partition is doing.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns why the last takeover or the last reading of the log failed, if it did.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Returns the queue, while this node owns the partition.
    pub fn queue(&self) -> Option<&Q> {
        self.queue.as_ref()
    }

    /// Returns the queue, to change it, while this node owns the partition.
    pub fn queue_mut(&mut self) -> Option<&mut Q> {
        self.queue.as_mut()
    }

    /// Returns the replica.
    pub fn replica(&self) -> &SharedReplica {
        &self.replica
    }

    /// Returns what heartbeats tell of the replica.
    pub fn beat(&self, peers: &Peers) -> ReplicaBeat {
        let replica = self.replica.lock();
        let tip = replica.applied().map(|applied| applied.tip.clone()).unwrap_or_default();
        let now = replica.environment().elapsed();
        let is_whole = matches!(self.state, State::Standby | State::Owner { .. });
        ReplicaBeat {
            is_owner: replica.owned().is_some(),
            generation: tip.generation,
            epoch: tip.epoch,
            commit: tip.commit,
            position: tip.position,
            synced: replica.synced(),
            condition: match self.state {
                State::Standby | State::Owner { .. } => Condition::Sound,
                State::NeedsSeed(_) => Condition::Seeding,
                State::Halted(_) => Condition::Halted,
            },
            trouble: match &self.state {
                State::NeedsSeed(why) | State::Halted(why) => Some(why.clone()),
                State::Standby | State::Owner { .. } => self.trouble.clone(),
            },
            is_candidate: is_whole && self.is_caught_up && peers.check_ownership(now).is_ok(),
            version: replica.known_version(),
        }
    }

    /// Does the next thing: reads the log, takes over, or notices that ownership has ended.
    pub fn tick(&mut self, peers: &Peers) {
        let mut replica = self.replica.lock();
        let now = replica.environment().elapsed();
        // A node that hears no other does not begin with a new version.
        if let Some(version) = peers.common_version(self.number, now) {
            replica.write_up_to(version);
        }
        drop(replica);
        match self.state {
            State::Owner { epoch } => self.own(epoch, peers),
            State::Standby => self.follow(peers),
            State::Halted(_) => self.look_for_recovery(),
            State::NeedsSeed(_) => {}
        }
    }

    /// Continues if another node has recovered the partition, which an operator asked for.
    fn look_for_recovery(&mut self) {
        let mut replica = self.replica.lock();
        let now = replica.environment().elapsed();
        if now.saturating_sub(self.progress) < RECOVERY_CHECK_INTERVAL {
            return;
        }
        self.progress = now;
        // An error is no news: the partition is halted.
        if replica.find_new_generation().unwrap_or(false) {
            self.state = State::Standby;
            self.trouble = None;
        }
    }

    fn own(&mut self, epoch: u64, peers: &Peers) {
        let mut replica = self.replica.lock();
        let now = replica.environment().elapsed();
        if now.saturating_sub(self.progress) >= OWNER_CHECK_INTERVAL {
            self.progress = now;
            replica.look_for_successor();
        }
        let is_owner = replica.owned() == Some(epoch);
        drop(replica);
        if !is_owner {
            self.lose("an append was refused or could not be settled");
        } else if let Err(why) = peers.check_ownership(now) {
            // Failing to hand off ends ownership as well.
            let _ = self.hand_off(None);
            self.trouble = Some(why);
        }
    }

    fn follow(&mut self, peers: &Peers) {
        let caught_up = self.replica.lock().catch_up();
        self.is_caught_up = matches!(caught_up, Ok(true));
        match caught_up {
            Ok(_) => self.trouble = None,
            Err(error) => {
                self.failed(error);
                return;
            }
        }
        if let Some(epoch) = self.epoch_to_supersede(peers) {
            self.take_over(epoch);
        }
    }

    /// Decides whether this node should try to take over; returns the epoch that it would end.
    fn epoch_to_supersede(&mut self, peers: &Peers) -> Option<u64> {
        let replica = self.replica.lock();
        let applied = replica.applied()?;
        let (me, now) = (replica.node(), replica.environment().elapsed());
        if applied.tip.position.0 != self.last_position {
            (self.last_position, self.progress) = (applied.tip.position.0, now);
        }
        if !self.is_caught_up {
            return None;
        }
        if let Err(why) = peers.check_ownership(now) {
            self.trouble = Some(why);
            return None;
        }
        let end = (applied.tip.generation, applied.tip.position);
        let is_ahead = |beat: &&Heartbeat| {
            let replica = beat.replicas.get(&self.number);
            replica.is_some_and(|replica| (replica.generation, replica.position) > end)
        };
        if let Some(beat) = peers.alive(now).find(is_ahead) {
            // An outdated server has answered, or the log lost records. In that case the other node
            // halts, and an operator decides.
            let position = applied.tip.position;
            let why = format!("the log ends at {position}, but {} has applied more", beat.node);
            self.trouble = Some(why);
            return None;
        }
        let epoch = Some(applied.tip.epoch);
        let is_mine = applied.taken_by == me && !applied.is_handed_off;
        if is_mine || (applied.is_handed_off && applied.handed_to == me) {
            return epoch;
        }
        // A record in the log is a sign of life, like a heartbeat.
        let mut silent_since = self.progress;
        if let Some(owner) = applied.owner() {
            let owns = |beat: &Heartbeat| {
                let claim = beat.replicas.get(&self.number);
                beat.node == owner && claim.is_some_and(|claim| claim.is_owner)
            };
            if peers.alive(now).any(owns) {
                return None;
            }
        } else if !applied.is_handed_off || applied.handed_to.is_empty() {
            // The partition has no owner, so the preferred node need not wait.
            silent_since = silent_since.saturating_sub(MAX_SILENCE);
        }
        let mut candidates = peers.candidates(self.number, now);
        // The last owner takes over again only if nobody else does.
        candidates.sort_by_key(|name| *name == applied.taken_by);
        let rank = candidates.iter().position(|name| name == me)? as u32;
        let patience = MAX_SILENCE + rank * STAGGER;
        (now.saturating_sub(silent_since) >= patience).then_some(applied.tip.epoch)
    }

    /// Takes the partition over from an epoch, and opens its queue.
    fn take_over(&mut self, epoch: u64) {
        let taken = self.replica.lock().take_over(epoch);
        let (epoch, floor) = match taken {
            Ok(epoch) => (epoch, self.replica.lock().floor()),
            Err(error) => {
                self.failed(error);
                return;
            }
        };
        let disk = ReplicatedDisk::new(self.replica.clone(), epoch);
        match (self.opener)(disk, floor) {
            Ok(queue) => {
                self.queue = Some(queue);
                self.state = State::Owner { epoch };
            }
            Err(error) => {
                self.replica.lock().step_down();
                self.trouble = Some(format!("the queue could not be opened: {error}"));
            }
        }
    }

    /// Proves that this node owns the partition, for a read: appends to the log unless the last
    /// append is younger than [`MAX_READ_AGE`].
    ///
    /// # Errors
    ///
    /// If this node does not own the partition, or could not prove that it does.
    pub fn fence(&self) -> Result<(), ReplicaError> {
        self.replica.lock().fence(MAX_READ_AGE)
    }

    /// Closes the queue and hands the partition to a node, or to any that is alive.
    ///
    /// # Errors
    ///
    /// If this node does not own the partition, or if the hand-off may not be in the log. The
    /// partition is a standby afterwards in any case.
    pub fn hand_off(&mut self, to: Option<&str>) -> Result<(), ReplicaError> {
        // Closing the queue finishes what was sent to it.
        self.queue = None;
        let handed = self.replica.lock().hand_off(to);
        self.state = State::Standby;
        self.note_progress();
        handed
    }

    /// Replaces the replica by the rows of another one.
    ///
    /// # Errors
    ///
    /// If that failed: the partition still has to be seeded.
    pub fn seed<E: fmt::Display>(
        &mut self,
        chunks: impl IntoIterator<Item = Result<Vec<u8>, E>>,
    ) -> Result<(), ReplicaError> {
        self.queue = None;
        match self.replica.lock().seed(chunks) {
            Ok(()) => self.state = State::Standby,
            Err(error) => {
                self.state = State::NeedsSeed(error.to_string());
                return Err(error);
            }
        }
        self.note_progress();
        Ok(())
    }

    /// Starts a new generation of the partition from this replica, which has halted because its log
    /// lost records. The stream of the log is replaced: what is left of it is deleted. Returns the
    /// number of the generation.
    ///
    /// # Errors
    ///
    /// If the replica has not halted, the stream could not be replaced, or the takeover could not
    /// be appended.
    pub fn recover(&mut self) -> Result<u64, ReplicaError> {
        if !matches!(self.state, State::Halted(_)) {
            let why = "it has not halted, so there is nothing to recover from";
            return Err(ReplicaError::Deposed(why.into()));
        }
        let mut replica = self.replica.lock();
        replica.replace_log()?;
        let generation = replica.recover()?;
        // The queue is opened by the next takeover, which follows at once.
        replica.step_down();
        drop(replica);
        (self.state, self.trouble) = (State::Standby, None);
        Ok(generation)
    }

    fn lose(&mut self, why: &str) {
        self.queue = None;
        self.replica.lock().step_down();
        self.state = State::Standby;
        self.trouble = Some(why.to_owned());
        self.is_caught_up = false;
        self.note_progress();
    }

    fn note_progress(&mut self) {
        self.progress = self.replica.lock().environment().elapsed();
    }

    fn failed(&mut self, error: ReplicaError) {
        self.trouble = Some(error.to_string());
        match error {
            ReplicaError::NeedsSeed(why) => self.state = State::NeedsSeed(why),
            ReplicaError::Halted(why) => self.state = State::Halted(why),
            _ => {}
        }
    }
}
