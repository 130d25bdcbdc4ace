//! A replica and its log, one scenario at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tickwheel_cluster::log::{AppendId, Faults, Log, Position, SimulatedLog};
use tickwheel_cluster::record::Tip;
use tickwheel_cluster::{
    Environment, Heartbeat, MAX_READ_AGE, Opener, Partition, Peers, Replica, ReplicaBeat,
    ReplicaError, ReplicaOptions, SeedChunks, State,
};
use tickwheel_queue::store::{Disk, MemoryDisk, StoreOptions, Table, WriteBatch};
use tickwheel_queue::{NewJob, Queues, Time};

/// When the tests begin.
const START_MS: u64 = 1_800_000_000_000;

/// A clock that the test moves. Pausing moves it as well.
#[derive(Clone, Debug, Default)]
struct TestClock(Arc<AtomicU64>);

impl TestClock {
    fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Environment for TestClock {
    fn time(&self) -> Time {
        Time::from_millis(START_MS + self.0.load(Ordering::Relaxed))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn pause(&self, length: Duration) {
        self.advance(length);
    }
}

/// A node with a disk of its own.
struct Rig {
    clock: TestClock,
    log: SimulatedLog,
}

impl Rig {
    fn new() -> Self {
        let log = SimulatedLog::new(1);
        log.never_block();
        Self { clock: TestClock::default(), log }
    }

    fn options(node: &str) -> ReplicaOptions {
        ReplicaOptions { may_create: true, ..ReplicaOptions::new(node) }
    }

    fn replica(&self, node: &str, disk: &MemoryDisk) -> Replica {
        self.replica_with(disk, Self::options(node))
    }

    fn replica_with(&self, disk: &MemoryDisk, options: ReplicaOptions) -> Replica {
        let log = Arc::new(self.log.connect());
        Replica::new(Box::new(disk.clone()), log, Arc::new(self.clock.clone()), options)
    }

    /// A replica that owns the partition and has committed a row.
    fn owner(&self, disk: &MemoryDisk) -> Replica {
        let mut replica = self.replica("a", disk);
        replica.take_over(0).unwrap();
        replica.commit(&row(b"key", b"value")).unwrap();
        replica
    }
}

fn row(key: &[u8], value: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(Table::Jobs, key, value);
    batch
}

fn read(replica: &Replica, key: &[u8]) -> Option<Bytes> {
    replica.store().unwrap().get(Table::Jobs, key).unwrap()
}

#[test]
fn a_standby_has_the_rows_of_the_owner() {
    let rig = Rig::new();
    let mut owner = rig.owner(&MemoryDisk::new());
    let mut standby = rig.replica("b", &MemoryDisk::new());
    assert_eq!(standby.catch_up(), Ok(true));
    assert_eq!(read(&standby, b"key").as_deref(), Some(&b"value"[..]));
    assert_eq!(standby.applied(), owner.applied());
    // A group of several records takes effect as a whole.
    rig.log.set_max_record_bytes(100);
    owner.commit(&row(b"large", &[7; 1_000])).unwrap();
    assert_eq!(standby.catch_up(), Ok(true));
    assert_eq!(read(&standby, b"large").map(|value| value.len()), Some(1_000));
    assert_eq!(standby.applied(), owner.applied());
}

#[test]
fn a_deposed_owner_commits_nothing_more() {
    let rig = Rig::new();
    let mut owner = rig.owner(&MemoryDisk::new());
    let mut next = rig.replica("b", &MemoryDisk::new());
    assert_eq!(next.take_over(1), Ok(2));
    let refused = owner.commit(&row(b"late", b""));
    assert!(matches!(refused, Err(ReplicaError::Deposed(_))), "{refused:?}");
    assert_eq!(owner.owned(), None);
    assert_eq!(owner.catch_up(), Ok(true));
    assert_eq!(read(&owner, b"late"), None);
    assert_eq!(owner.applied(), next.applied());
}

#[test]
fn a_takeover_of_an_epoch_that_has_ended_is_refused() {
    let rig = Rig::new();
    let _owner = rig.owner(&MemoryDisk::new());
    rig.replica("b", &MemoryDisk::new()).take_over(1).unwrap();
    let late = rig.replica("c", &MemoryDisk::new()).take_over(1);
    assert!(matches!(late, Err(ReplicaError::Deposed(_))), "{late:?}");
}

#[test]
fn an_append_whose_answer_is_lost_is_settled() {
    let rig = Rig::new();
    let mut owner = rig.owner(&MemoryDisk::new());
    rig.log.set_faults(Faults { lost_answer: 0.7, ..Faults::default() });
    for number in 0..20_u8 {
        owner.commit(&row(&[number], b"")).unwrap();
    }
    assert!(owner.counters().repeated > 0);
    rig.log.set_faults(Faults::default());
    let mut standby = rig.replica("b", &MemoryDisk::new());
    standby.catch_up().unwrap();
    assert_eq!(standby.applied(), owner.applied());
}

#[test]
fn an_append_that_cannot_be_settled_ends_ownership() {
    let rig = Rig::new();
    let mut owner = rig.owner(&MemoryDisk::new());
    rig.log.set_faults(Faults { delayed: 1.0, ..Faults::default() });
    let unknown = owner.commit(&row(b"unknown", b""));
    assert!(matches!(unknown, Err(ReplicaError::Unavailable(_))), "{unknown:?}");
    assert_eq!(owner.owned(), None);
    // The append arrives later. The same node takes over again, and has the row.
    rig.log.set_faults(Faults::default());
    rig.log.deliver_all();
    assert_eq!(owner.take_over(1), Ok(2));
    assert_eq!(read(&owner, b"unknown").as_deref(), Some(&b""[..]));
}

#[test]
fn a_takeover_drops_a_group_that_is_not_complete() {
    let rig = Rig::new();
    let mut owner = rig.owner(&MemoryDisk::new());
    let tip = owner.applied().unwrap().tip.clone();
    let draft = tip.group(&[1; 500], tip.time, 100);
    let first = &draft.records[0];
    rig.log.append(tip.position, AppendId::of(first), first).unwrap();
    let mut next = rig.replica("b", &MemoryDisk::new());
    assert_eq!(next.take_over(1), Ok(2));
    assert_eq!(next.applied().unwrap().tip.commit, tip.commit);
    assert!(owner.commit(&row(b"late", b"")).is_err());
    assert_eq!(owner.catch_up(), Ok(true));
    assert_eq!(owner.applied(), next.applied());
}

#[test]
fn an_empty_log_is_not_started_silently() {
    let rig = Rig::new();
    let options = ReplicaOptions::new("a");
    let mut replica = rig.replica_with(&MemoryDisk::new(), options);
    assert_eq!(replica.take_over(0), Err(ReplicaError::NotCreated));
    assert_eq!(rig.log.state().unwrap().last, Position::START);
}

#[test]
fn a_replica_halts_when_its_log_has_lost_records() {
    let rig = Rig::new();
    let disk = MemoryDisk::new();
    let owner = rig.owner(&disk);
    drop(owner);
    rig.log.lose_after(Position(1));
    let mut replica = rig.replica("a", &disk);
    // One answer proves nothing: the server may be out of date.
    let first = replica.catch_up();
    assert!(matches!(first, Err(ReplicaError::Unavailable(_))), "{first:?}");
    rig.clock.advance(Duration::from_secs(21));
    let halted = replica.catch_up().unwrap_err();
    assert!(halted.to_string().contains("lost records"), "{halted}");
    assert_eq!(replica.take_over(1), Err(halted));
}

#[test]
fn a_replica_halts_when_its_log_was_rewritten() {
    let rig = Rig::new();
    let disk = MemoryDisk::new();
    drop(rig.owner(&disk));
    rig.log.lose_after(Position(1));
    let mut other = rig.replica("b", &MemoryDisk::new());
    other.take_over(1).unwrap();
    let mut replica = rig.replica("a", &disk);
    let halted = replica.catch_up().unwrap_err();
    assert!(halted.to_string().contains("another record at position"), "{halted}");
}

#[test]
fn a_recreated_stream_is_refused() {
    let rig = Rig::new();
    let disk = MemoryDisk::new();
    drop(rig.owner(&disk));
    rig.log.recreate();
    let mut replica = rig.replica("a", &disk);
    let halted = replica.catch_up().unwrap_err();
    assert!(halted.to_string().contains("created again"), "{halted}");
    // So is one on which another cluster has begun.
    rig.replica("b", &MemoryDisk::new()).take_over(0).unwrap();
    let halted = rig.replica("a", &disk).catch_up();
    assert!(matches!(halted, Err(ReplicaError::Halted(_) | ReplicaError::Local(_))), "{halted:?}");
}

#[test]
fn a_directory_of_another_queue_is_refused() {
    let rig = Rig::new();
    let disk = MemoryDisk::new();
    let queues = Queues::builder().open_disk(disk.clone()).unwrap();
    queues.put(NewJob::new("mail", "hello")).wait().unwrap();
    drop(queues);
    let refused = rig.replica("a", &disk).catch_up().unwrap_err();
    assert!(refused.to_string().contains("not a replica"), "{refused}");
}

#[test]
fn a_newer_record_is_neither_applied_nor_superseded() {
    let rig = Rig::new();
    drop(rig.owner(&MemoryDisk::new()));
    let newer = Bytes::from(vec![u8::MAX; 100]);
    rig.log.append(Position(2), AppendId::of(&newer), &newer).unwrap();
    let mut standby = rig.replica("b", &MemoryDisk::new());
    let refused = standby.catch_up();
    assert!(matches!(refused, Err(ReplicaError::Newer(_))), "{refused:?}");
    assert!(matches!(standby.take_over(1), Err(ReplicaError::Newer(_))));
    assert_eq!(rig.log.state().unwrap().last, Position(3));
}

#[test]
fn recovery_starts_a_new_generation_from_one_replica() {
    let rig = Rig::new();
    let disks: Vec<_> = (0..3).map(|_| MemoryDisk::new()).collect();
    let mut owner = rig.owner(&disks[0]);
    let mut equal = rig.replica("b", &disks[1]);
    let mut behind = rig.replica("c", &disks[2]);
    behind.catch_up().unwrap();
    owner.commit(&row(b"newest", b"")).unwrap();
    equal.catch_up().unwrap();
    drop((owner, equal, behind));
    rig.log.recreate();

    let mut recovered = rig.replica("a", &disks[0]);
    assert!(recovered.catch_up().is_err());
    assert_eq!(recovered.recover(), Ok(1));
    recovered.commit(&row(b"after", b"")).unwrap();
    assert!(recovered.recover().is_err(), "the stream has records by now");

    let mut equal = rig.replica("b", &disks[1]);
    assert_eq!(equal.catch_up(), Ok(true));
    assert_eq!(read(&equal, b"after").as_deref(), Some(&b""[..]));
    let mut behind = rig.replica("c", &disks[2]);
    let refused = behind.catch_up();
    assert!(matches!(refused, Err(ReplicaError::NeedsSeed(_))), "{refused:?}");
    behind.seed(SeedChunks::new(recovered.store().unwrap().view())).unwrap();
    assert_eq!(behind.catch_up(), Ok(true));
    assert_eq!(behind.applied(), recovered.applied());
    assert_eq!(read(&behind, b"newest").as_deref(), Some(&b""[..]));
}

#[test]
fn a_trimmed_log_is_continued_from_a_seed() {
    let rig = Rig::new();
    let mut owner = rig.owner(&MemoryDisk::new());
    let last = owner.sync().unwrap();
    owner.trim(last, vec!["a".into(), "b".into()]).unwrap();
    let disk = MemoryDisk::new();
    let mut late = rig.replica("c", &disk);
    let refused = late.catch_up();
    assert!(matches!(refused, Err(ReplicaError::NeedsSeed(_))), "{refused:?}");
    // A seed that is cut short is noticed, also after a restart.
    let chunks = SeedChunks::new(owner.store().unwrap().view());
    let cut = chunks.map(|chunk| chunk.map_err(|error| error.to_string()));
    let refused = late.seed(cut.chain([Err("the connection was lost".to_owned())]));
    assert!(matches!(refused, Err(ReplicaError::NeedsSeed(_))), "{refused:?}");
    drop(late);
    let mut late = rig.replica("c", &disk);
    assert!(matches!(late.catch_up(), Err(ReplicaError::NeedsSeed(_))));
    late.seed(SeedChunks::new(owner.store().unwrap().view())).unwrap();
    assert_eq!(late.catch_up(), Ok(true));
    assert_eq!(late.applied(), owner.applied());
}

#[test]
fn what_a_power_failure_takes_is_read_from_the_log_again() {
    let rig = Rig::new();
    let disk = MemoryDisk::new();
    let owner = rig.owner(&disk);
    disk.crash();
    drop(owner);
    let store = disk.open(&StoreOptions::default()).unwrap();
    assert_eq!(store.get(Table::Jobs, b"key"), Ok(None));
    drop(store);
    let mut replica = rig.replica("a", &disk);
    assert_eq!(replica.take_over(1), Ok(2));
    assert_eq!(read(&replica, b"key").as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_read_is_fenced() {
    let rig = Rig::new();
    let mut owner = rig.owner(&MemoryDisk::new());
    let appends = owner.counters().appends;
    assert_eq!(owner.fence(MAX_READ_AGE), Ok(()));
    assert_eq!(owner.counters().appends, appends);
    rig.clock.advance(MAX_READ_AGE);
    assert!(!owner.is_fresh(MAX_READ_AGE));
    assert_eq!(owner.fence(MAX_READ_AGE), Ok(()));
    assert_eq!(owner.counters().appends, appends + 1);
    // A zombie cannot prove anything.
    rig.replica("b", &MemoryDisk::new()).take_over(1).unwrap();
    rig.clock.advance(MAX_READ_AGE);
    assert!(owner.fence(MAX_READ_AGE).is_err());
    assert!(!owner.is_fresh(MAX_READ_AGE));
}

#[test]
fn leases_outlast_an_outage() {
    let rig = Rig::new();
    let disks = [MemoryDisk::new(), MemoryDisk::new()];
    let open = |node: &str, disk: &MemoryDisk| {
        let clock = tickwheel::ManualClock::new();
        clock.set_wall(rig.clock.time().into());
        let opener: Opener<Queues> = Box::new(move |disk, floor| {
            Queues::builder().clock(clock.clone()).time_floor(floor).open_disk(disk)
        });
        Partition::new(0, rig.replica(node, disk), opener)
    };
    let mut first = open("a", &disks[0]);
    rig.clock.advance(Duration::from_secs(10));
    first.tick(&Peers::new("a", 1));
    let queues = first.queue().expect("nobody else wants the partition").clone();
    let id = queues.put(NewJob::new("mail", "hello")).wait().unwrap().id;
    queues.reserve("mail", 1, Duration::from_secs(20)).wait().unwrap();
    let until = |queues: &Queues| queues.get(id).wait().unwrap().unwrap().leased_until.unwrap();
    let before = until(&queues);
    drop((queues, first));

    rig.clock.advance(Duration::from_secs(60));
    let mut second = open("b", &disks[1]);
    second.tick(&Peers::new("b", 1));
    rig.clock.advance(Duration::from_secs(10));
    second.tick(&Peers::new("b", 1));
    let queues = second.queue().expect("the owner is silent").clone();
    assert!(until(&queues).since(before) >= Duration::from_secs(60));
    drop(queues);
}

#[test]
fn a_node_with_a_wrong_clock_does_not_take_over() {
    let rig = Rig::new();
    let opener: Opener<Queues> = Box::new(|disk, _| Queues::builder().open_disk(disk));
    let mut partition = Partition::new(0, rig.replica("a", &MemoryDisk::new()), opener);
    rig.clock.advance(Duration::from_secs(10));
    let mut peers = Peers::new("a", 1);
    let mut hear = |skew_ms: u64| {
        let time = rig.clock.time().after(Duration::from_millis(skew_ms));
        let replicas = [(0, ReplicaBeat::default())].into();
        let beat = Heartbeat { node: "b".into(), time, replicas, ..Heartbeat::default() };
        peers.heard(beat, rig.clock.elapsed(), rig.clock.time());
        peers.clone()
    };
    partition.tick(&hear(501));
    assert_eq!(*partition.state(), State::Standby);
    assert!(partition.trouble().unwrap().contains("clock"), "{partition:?}");
    partition.tick(&hear(500));
    assert_eq!(*partition.state(), State::Owner { epoch: 1 });
    // An owner whose clock has become wrong gives the partition up.
    partition.tick(&hear(501));
    assert_eq!(*partition.state(), State::Standby);
    assert!(partition.queue().is_none());
}

#[test]
fn a_node_does_not_take_over_while_another_has_applied_more_than_the_log_contains() {
    let rig = Rig::new();
    let opener: Opener<Queues> = Box::new(|disk, _| Queues::builder().open_disk(disk));
    let mut partition = Partition::new(0, rig.replica("a", &MemoryDisk::new()), opener);
    rig.clock.advance(Duration::from_secs(10));
    let mut peers = Peers::new("a", 1);
    let mut hear = |position| {
        let replica = ReplicaBeat { position: Position(position), ..ReplicaBeat::default() };
        let (time, replicas) = (rig.clock.time(), [(0, replica)].into());
        let beat = Heartbeat { node: "b".into(), time, replicas, ..Heartbeat::default() };
        peers.heard(beat, rig.clock.elapsed(), rig.clock.time());
        peers.clone()
    };
    partition.tick(&hear(1));
    assert_eq!(*partition.state(), State::Standby);
    assert!(partition.trouble().unwrap().contains("b has applied more"), "{partition:?}");
    partition.tick(&hear(0));
    assert_eq!(*partition.state(), State::Owner { epoch: 1 });
}

#[test]
fn the_time_of_records_never_decreases() {
    let rig = Rig::new();
    rig.clock.advance(Duration::from_secs(100));
    let owner = rig.owner(&MemoryDisk::new());
    let time = owner.applied().unwrap().tip.time;
    let behind = Rig { clock: TestClock::default(), log: rig.log.connect() };
    let mut next = behind.replica("b", &MemoryDisk::new());
    next.take_over(1).unwrap();
    assert_eq!(next.applied().unwrap().tip.time, time);
    assert_eq!(next.floor().time(), time);
    assert!(Tip::START.time < time);
}

#[test]
fn a_queue_that_opens_its_store_again_ends_its_ownership() {
    let rig = Rig::new();
    let disks = Arc::new(std::sync::Mutex::new(Vec::new()));
    let slot = Arc::clone(&disks);
    // The queue is a disk that was opened once, as a queue does.
    let opener: Opener<()> = Box::new(move |disk, _| {
        disk.open(&StoreOptions::default()).expect("an owner's disk can be opened");
        slot.lock().unwrap().push(disk);
        Ok(())
    });
    let mut partition = Partition::new(0, rig.replica("a", &MemoryDisk::new()), opener);
    rig.clock.advance(Duration::from_secs(10));
    let peers = Peers::new("a", 1);
    partition.tick(&peers);
    assert_eq!(*partition.state(), State::Owner { epoch: 1 });
    let again = disks.lock().unwrap()[0].open(&StoreOptions::default());
    assert!(again.is_err());
    partition.tick(&peers);
    assert_eq!(*partition.state(), State::Standby);
    partition.tick(&peers);
    assert_eq!(*partition.state(), State::Owner { epoch: 2 });
}
