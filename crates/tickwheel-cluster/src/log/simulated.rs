//! A log in memory, with faults that a seed decides.
//!
//! A run in one thread is deterministic: the same seed and the same calls give the same answers.
//! Requests that a fault has delayed wait in a list. Each later operation delivers some of them, in
//! any order, as a network does.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{AppendError, AppendId, Entry, Log, LogError, LogState, Position, StreamId};

/// A record may have one MiB, as on a NATS server with default settings.
const MAX_RECORD_BYTES: usize = 1 << 20;

/// How likely each fault is, from 0 (never, the default) to 1 (always).
///
/// ```
/// use bytes::Bytes;
/// use tickwheel_cluster::log::{AppendError, AppendId, Faults, Log, Position, SimulatedLog};
///
/// let log = SimulatedLog::new(7);
/// log.set_faults(Faults { lost_answer: 1.0, ..Faults::default() });
/// let record = Bytes::from("a record");
/// let append = || log.append(Position::START, AppendId::of(&record), &record);
/// assert!(matches!(append(), Err(AppendError::Unknown(_))));
/// // The network has recovered. Repeating the append settles what happened.
/// log.set_faults(Faults::default());
/// assert_eq!(append(), Ok(Position(1)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// A request never arrives, and the caller gets no answer.
    pub lost_request: f64,
    /// A request takes effect, but its answer is lost.
    pub lost_answer: f64,
    /// An append arrives later, or never; the caller gets no answer.
    pub delayed: f64,
    /// An append arrives once more, later.
    pub duplicated: f64,
    /// An out-of-date server answers: a read misses the newest records, and an append is refused
    /// with [`AppendError::PastEnd`].
    pub stale: f64,
}

/// A handle on a simulated log. Handles of one log share its records, its faults and its seed; a
/// clone also shares the connection.
///
/// ```
/// use bytes::Bytes;
/// use tickwheel_cluster::log::{AppendId, Log, Position, SimulatedLog};
///
/// let node_a = SimulatedLog::new(42);
/// let node_b = node_a.connect();
/// let record = Bytes::from("hello");
/// node_a.append(Position::START, AppendId::of(&record), &record)?;
/// assert_eq!(node_b.read(Position(1), 1024)?[0].record, record);
///
/// // Node b loses its connection; node a does not notice.
/// node_b.cut(true);
/// assert!(node_b.state().is_err());
/// assert_eq!(node_a.state()?.last, Position(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SimulatedLog {
    shared: Arc<Shared>,
    client: u64,
    /// The stream that this handle was opened on.
    incarnation: u64,
}

struct Shared {
    world: Mutex<World>,
    appended: Condvar,
    clients: AtomicU64,
}

struct World {
    rng: fastrand::Rng,
    faults: Faults,
    /// Instead of `faults`, for single handles.
    own_faults: HashMap<u64, Faults>,
    blocking: bool,
    max_record_bytes: usize,
    incarnation: u64,
    /// The position of the first of `records`.
    first: u64,
    records: VecDeque<(AppendId, Bytes)>,
    in_flight: Vec<Request>,
    cut: HashSet<u64>,
}

/// An append under way.
#[derive(Clone)]
struct Request {
    incarnation: u64,
    after: Position,
    id: AppendId,
    record: Bytes,
}

impl SimulatedLog {
    /// Creates an empty log whose faults are decided by a seed.
    pub fn new(seed: u64) -> Self {
        let world = World {
            rng: fastrand::Rng::with_seed(seed),
            faults: Faults::default(),
            own_faults: HashMap::new(),
            blocking: true,
            max_record_bytes: MAX_RECORD_BYTES,
            incarnation: 1,
            first: 1,
            records: VecDeque::new(),
            in_flight: Vec::new(),
            cut: HashSet::new(),
        };
        let shared = Shared {
            world: Mutex::new(world),
            appended: Condvar::new(),
            clients: AtomicU64::new(1),
        };
        Self { shared: Arc::new(shared), client: 0, incarnation: 1 }
    }

    /// Opens another handle on the stream that is there now.
    #[must_use]
    pub fn connect(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            client: self.shared.clients.fetch_add(1, Ordering::Relaxed),
            incarnation: self.world().incarnation,
        }
    }

    /// Sets how likely faults are from now on, for all handles.
    pub fn set_faults(&self, faults: Faults) {
        let mut world = self.world();
        world.faults = faults;
        world.own_faults.clear();
    }

    /// Sets how likely faults are from now on for this handle only.
    pub fn set_own_faults(&self, faults: Faults) {
        self.world().own_faults.insert(self.client, faults);
    }

    /// Sets the size of the largest record; 1 MiB at first.
    pub fn set_max_record_bytes(&self, max: usize) {
        self.world().max_record_bytes = max;
    }

    /// Lets [`Log::wait`] return at once, for simulations that run in one thread.
    pub fn never_block(&self) {
        self.world().blocking = false;
    }

    /// Cuts the connection of this handle, or restores it.
    pub fn cut(&self, cut: bool) {
        let mut world = self.world();
        if cut {
            world.cut.insert(self.client);
        } else {
            world.cut.remove(&self.client);
        }
    }

    /// Delivers all delayed and duplicated requests now.
    pub fn deliver_all(&self) {
        let mut world = self.world();
        while !world.in_flight.is_empty() {
            world.deliver_one();
        }
        self.shared.appended.notify_all();
    }

    /// Returns how many requests are still under way.
    pub fn in_flight(&self) -> usize {
        self.world().in_flight.len()
    }

    /// Loses all records after a position, as servers do that acknowledge before they sync.
    pub fn lose_after(&self, last: Position) {
        let mut world = self.world();
        let kept = last.next().0.saturating_sub(world.first) as usize;
        world.records.truncate(kept);
        world.first = world.first.min(last.next().0);
    }

    /// Removes all records; positions continue.
    pub fn empty(&self) {
        let mut world = self.world();
        world.first = world.last().next().0;
        world.records.clear();
    }

    /// Deletes the stream and creates it again. Open handles keep belonging to the old one.
    pub fn recreate(&self) {
        let mut world = self.world();
        world.incarnation += 1;
        world.first = 1;
        world.records.clear();
        self.shared.appended.notify_all();
    }

    fn world(&self) -> MutexGuard<'_, World> {
        // Poisoning is ignored: no code of a caller runs under the lock.
        self.shared.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock and delivers what arrives before an operation. Fails if this handle is cut
    /// off, or if it belongs to another stream.
    fn begin(&self) -> Result<MutexGuard<'_, World>, LogError> {
        let mut world = self.world();
        if world.deliver_some() {
            self.shared.appended.notify_all();
        }
        if world.cut.contains(&self.client) {
            return Err(LogError::Unavailable("the connection is cut".into()));
        }
        if world.incarnation != self.incarnation {
            return Err(LogError::Recreated {
                expected: stream_id(self.incarnation),
                found: stream_id(world.incarnation),
            });
        }
        Ok(world)
    }

    /// Begins a read, whose request or answer may be lost.
    fn begin_read(&self) -> Result<MutexGuard<'_, World>, LogError> {
        let mut world = self.begin()?;
        let faults = world.faults_of(self.client);
        if world.chance(faults.lost_request) || world.chance(faults.lost_answer) {
            return Err(no_answer());
        }
        Ok(world)
    }
}

impl Log for SimulatedLog {
    fn state(&self) -> Result<LogState, LogError> {
        let mut world = self.begin_read()?;
        let stream = stream_id(world.incarnation);
        let last = world.visible_end(self.client);
        Ok(LogState { stream, first: Position(world.first), last })
    }

    fn append(
        &self,
        after: Position,
        id: AppendId,
        record: &Bytes,
    ) -> Result<Position, AppendError> {
        let mut world = self.begin().map_err(|error| match error {
            LogError::Unavailable(_) => AppendError::Unknown(error),
            error => AppendError::Failed(error),
        })?;
        let max = world.max_record_bytes;
        if record.len() > max {
            return Err(AppendError::TooLarge { max });
        }
        let faults = world.faults_of(self.client);
        let incarnation = world.incarnation;
        let request = Request { incarnation, after, id, record: record.clone() };
        if world.chance(faults.lost_request) {
            return Err(AppendError::Unknown(no_answer()));
        }
        if world.chance(faults.delayed) {
            world.in_flight.push(request);
            return Err(AppendError::Unknown(no_answer()));
        }
        if after > Position::START && world.chance(faults.stale) {
            let last = Position(world.rng.u64(..after.0));
            return Err(AppendError::PastEnd { last });
        }
        let outcome = world.apply(&request);
        if world.chance(faults.duplicated) {
            world.in_flight.push(request);
        }
        self.shared.appended.notify_all();
        if world.chance(faults.lost_answer) {
            return Err(AppendError::Unknown(no_answer()));
        }
        outcome
    }

    fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Entry>, LogError> {
        let mut world = self.begin_read()?;
        // A caller that asks for position 0 has not applied anything.
        let from = from.max(Position(1));
        if from.0 < world.first {
            return Err(LogError::Trimmed { first: Position(world.first) });
        }
        let end = world.visible_end(self.client);
        let mut entries = Vec::new();
        let mut bytes = 0;
        for number in from.0..=end.0 {
            let (id, record) = world.records[(number - world.first) as usize].clone();
            bytes += record.len();
            if bytes > max_bytes && !entries.is_empty() {
                break;
            }
            entries.push(Entry { position: Position(number), id, record });
        }
        Ok(entries)
    }

    fn wait(&self, from: Position, timeout: Duration) -> Result<(), LogError> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let world = self.begin()?;
            let left = deadline.map_or(Duration::MAX, |it| it.duration_since(Instant::now()));
            if !world.blocking || world.last() >= from || left.is_zero() {
                return Ok(());
            }
            let waited = self.shared.appended.wait_timeout(world, left);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn trim(&self, below: Position) -> Result<(), LogError> {
        let mut world = self.begin()?;
        let faults = world.faults_of(self.client);
        if world.chance(faults.lost_request) {
            return Err(no_answer());
        }
        let last = world.last();
        if below > last {
            return Err(LogError::TrimPastEnd { last });
        }
        while world.first < below.0 {
            world.first += 1;
            world.records.pop_front();
        }
        if world.chance(faults.lost_answer) { Err(no_answer()) } else { Ok(()) }
    }

    fn max_record_bytes(&self) -> usize {
        self.world().max_record_bytes
    }

    fn reopen(&self) -> Result<Arc<dyn Log>, LogError> {
        let mut world = self.world();
        if world.cut.contains(&self.client) {
            return Err(LogError::Unavailable("the connection is cut".into()));
        }
        world.deliver_some();
        Ok(Arc::new(Self { incarnation: world.incarnation, ..self.clone() }))
    }

    fn replace(&self) -> Result<Arc<dyn Log>, LogError> {
        self.recreate();
        self.reopen()
    }
}

impl World {
    fn last(&self) -> Position {
        Position(self.first + self.records.len() as u64 - 1)
    }

    fn faults_of(&self, client: u64) -> Faults {
        self.own_faults.get(&client).copied().unwrap_or(self.faults)
    }

    /// Where the log ends for a read, which an out-of-date server may answer.
    fn visible_end(&mut self, client: u64) -> Position {
        let last = self.last();
        let stale = self.faults_of(client).stale;
        if self.chance(stale) { Position(self.rng.u64(self.first - 1..=last.0)) } else { last }
    }

    /// Draws a random number only if the fault is possible, so that a run without faults does not
    /// depend on the seed.
    fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.f64() < probability
    }

    /// Appends the record of a request if its condition holds.
    fn apply(&mut self, request: &Request) -> Result<Position, AppendError> {
        let Request { incarnation, after, id, record } = request;
        let last = self.last();
        if *incarnation != self.incarnation {
            return Err(AppendError::Failed(LogError::Recreated {
                expected: stream_id(*incarnation),
                found: stream_id(self.incarnation),
            }));
        }
        if *after > last {
            return Err(AppendError::PastEnd { last });
        }
        if *after == last {
            self.records.push_back((*id, record.clone()));
            return Ok(after.next());
        }
        match after.next().0.checked_sub(self.first) {
            None => Err(AppendError::Unknown(LogError::Trimmed { first: Position(self.first) })),
            Some(index) if self.records[index as usize].0 == *id => Ok(after.next()),
            Some(_) => Err(AppendError::Conflict { last }),
        }
    }

    /// Delivers each request under way with a probability of one in four; says whether any was.
    fn deliver_some(&mut self) -> bool {
        let mut delivered = false;
        for _ in 0..self.in_flight.len() {
            if self.rng.u8(..4) == 0 {
                self.deliver_one();
                delivered = true;
            }
        }
        delivered
    }

    /// Delivers one of the requests under way. Its answer has no receiver any more.
    fn deliver_one(&mut self) {
        let index = self.rng.usize(..self.in_flight.len());
        let request = self.in_flight.swap_remove(index);
        let _unheard = self.apply(&request);
    }
}

impl fmt::Debug for SimulatedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let world = self.world();
        f.debug_struct("SimulatedLog")
            .field("client", &self.client)
            .field("incarnation", &world.incarnation)
            .field("first", &world.first)
            .field("last", &world.last())
            .field("in_flight", &world.in_flight.len())
            .field("faults", &world.faults)
            .finish_non_exhaustive()
    }
}

fn stream_id(incarnation: u64) -> StreamId {
    StreamId::new(format!("simulated-{incarnation}"))
}

fn no_answer() -> LogError {
    LogError::Unavailable("no answer".into())
}
