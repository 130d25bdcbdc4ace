//! Tests of the engine alone: what a group reads, and what its batch holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::{
    Command, Engine, EngineOptions, Outcome, Reserve, Reserved, STEP_BYTES, Source, Sweep,
};
use crate::model::access::{Access, EVERYTHING};
use crate::model::admission::Admission;
use crate::model::error::Error;
use crate::model::id::JobId;
use crate::model::job::{Delivery, Lease};
use crate::model::new_job::{NewJob, When};
use crate::model::settings::{Limits, Order, Pacing, QueueSettings};
use crate::model::time::{Now, Time};
use crate::store::rows;
use crate::store::{Disk, MemoryDisk, Persist, Rows, Store, StoreError, StoreOptions, Table, View};

const SEED: u64 = 7;

/// An engine on a store in memory that counts reads.
struct Bench {
    store: Counted,
    engine: Engine,
    now: Now,
}

struct Counted {
    store: Arc<dyn Store>,
    gets: AtomicUsize,
}

impl View for Counted {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.store.get(table, key)
    }

    fn scan<'a>(&'a self, table: Table, from: &[u8], to: &[u8]) -> Rows<'a> {
        self.store.scan(table, from, to)
    }
}

impl Bench {
    fn new() -> Self {
        Self::holding(500_000)
    }

    /// Makes an engine whose queues hold about this many jobs in memory.
    fn holding(near: usize) -> Self {
        let store = MemoryDisk::new().open(&StoreOptions::default()).expect("it opens");
        let horizon = Duration::from_secs(60);
        let options = EngineOptions {
            limits: Limits::default(),
            horizon,
            near,
            measure: crate::model::job::Job::bytes,
            placement: None,
        };
        let now = Now(Duration::from_secs(1_700_000_000));
        let engine = Engine::open(&*store, options, now).expect("it opens");
        Self { store: Counted { store, gets: AtomicUsize::new(0) }, engine, now }
    }

    /// Applies commands as one group. Returns the outcome of the last one.
    fn group(&mut self, commands: impl IntoIterator<Item = Command>) -> Option<Outcome> {
        self.group_as(&EVERYTHING, commands)
    }

    /// Applies commands as a caller with this access.
    fn group_as(
        &mut self,
        access: &Access,
        commands: impl IntoIterator<Item = Command>,
    ) -> Option<Outcome> {
        self.engine.begin(&self.store, self.now, SEED);
        let apply = |mut command| self.engine.apply(&self.store, &mut command, access);
        let last = commands.into_iter().map(apply).last();
        self.commit();
        last
    }

    /// Commits the group. Returns the bytes of its batch.
    fn commit(&mut self) -> usize {
        let Some(batch) = self.engine.finish(&self.store) else { return 0 };
        self.store.store.commit(batch, Persist::Sync).expect("a commit");
        let bytes = batch.bytes();
        self.engine.committed();
        bytes
    }

    /// Reserves jobs in a group of their own.
    fn take(&mut self, jobs: usize) -> Vec<Delivery> {
        match self.try_take(jobs) {
            Ok(Reserved::Jobs(jobs)) => jobs,
            other => panic!("no deliveries: {other:?}"),
        }
    }

    fn try_take(&mut self, jobs: usize) -> Result<Reserved, Error> {
        self.engine.begin(&self.store, self.now, SEED);
        let lease = Some(Duration::from_secs(60));
        let reserve = Reserve {
            source: Source::Queue("q".to_owned()),
            jobs,
            lease,
            lease_of: None,
            admission: Admission::default(),
            worker: None,
        };
        let reserved = self.engine.reserve(&self.store, &reserve, &EVERYTHING);
        self.commit();
        reserved
    }

    /// Counts the single rows that `act` reads.
    fn gets(&mut self, act: impl FnOnce(&mut Self)) -> usize {
        let before = self.store.gets.load(Ordering::Relaxed);
        act(self);
        self.store.gets.load(Ordering::Relaxed) - before
    }
}

fn configure(settings: QueueSettings) -> Command {
    Command::Configure { queue: "q".to_owned(), settings: Box::new(settings) }
}

fn leases(jobs: &[Delivery]) -> Vec<(Lease, Option<Bytes>)> {
    jobs.iter().map(|job| (job.lease, None)).collect()
}

#[test]
fn a_job_that_its_first_acknowledgement_drops_has_no_history() {
    let mut bench = Bench::new();
    bench.group([Command::Put(vec![NewJob::new("q", "")])]);
    let jobs = bench.take(1);
    bench.engine.begin(&bench.store, bench.now, SEED);
    let gets = bench.gets(|bench| {
        let mut ack = Command::Ack(leases(&jobs));
        bench.engine.apply(&bench.store, &mut ack, &EVERYTHING);
    });
    let key = rows::history(jobs[0].job.id);
    assert_eq!(bench.engine.batch.get(Table::Index, &key), None, "neither written nor removed");
    assert_eq!(gets, 0);
}

#[test]
fn a_job_is_read_once_to_be_held_and_once_to_be_delivered() {
    let held = 10_000;
    for group_pacing in
        [Pacing::default().concurrency(3), Pacing::starts(3, Duration::from_millis(9))]
    {
        let mut bench = Bench::new();
        let jobs = (0..held).map(|_| NewJob::new("q", "").group("g")).collect();
        let settings = QueueSettings { group_pacing, ..QueueSettings::default() };
        bench.group([configure(settings), Command::Put(jobs)]);
        let mut out = bench.take(100);
        assert_eq!(out.len(), 3);
        for _ in 0..100 {
            let gets = bench.gets(|bench| {
                bench.now.0 += Duration::from_millis(10);
                bench.group([Command::Ack(leases(&out))]);
                out = bench.take(100);
            });
            assert_eq!(out.len(), 3);
            assert!(gets <= 6, "{gets} reads for three jobs");
        }
    }
}

#[test]
fn a_group_is_served_while_better_jobs_without_a_group_are_on_disk() {
    let plain = 40;
    let mut bench = Bench::holding(0);
    let order = Order::Priority;
    let settings = QueueSettings { order, fair_groups: true, ..QueueSettings::default() };
    let mut jobs: Vec<_> = (0..plain).map(|_| NewJob::new("q", "").priority(1)).collect();
    jobs.extend((0..3).map(|_| NewJob::new("q", "").group("g")));
    bench.group([configure(settings), Command::Put(jobs)]);
    let mut taken = Vec::new();
    for _ in 0..6 {
        // Rows are read at most once for a job: those that are skipped, and those of the group.
        let tries = (0..3).find_map(|_| match bench.try_take(1) {
            Ok(Reserved::NeedsRows) => None,
            other => Some(other),
        });
        let Some(Ok(Reserved::Jobs(jobs))) = tries else { panic!("no delivery: {tries:?}") };
        taken.extend(jobs.into_iter().map(|delivery| delivery.job.group.is_some()));
    }
    assert_eq!(taken.iter().filter(|grouped| **grouped).count(), 3, "in turn: {taken:?}");
}

#[test]
fn every_job_is_delivered_after_the_order_was_changed() {
    let mut bench = Bench::holding(0);
    let group_pacing = Pacing::default().concurrency(9);
    let settings = |order| QueueSettings { group_pacing, order, ..QueueSettings::default() };
    // The worst jobs are skipped, and they are neither the first nor the last ones.
    let plain = (0..50).map(|number: i8| NewJob::new("q", "").priority(number % 3));
    let jobs: Vec<_> = plain.chain([NewJob::new("q", "").group("g")]).collect();
    let count = jobs.len();
    bench.group([configure(settings(Order::Priority)), Command::Put(jobs)]);
    assert!(bench.try_take(0).is_ok(), "rows are read");
    bench.group([configure(settings(Order::DueTime))]);
    let mut taken = 0;
    loop {
        match bench.try_take(1) {
            Ok(Reserved::Jobs(jobs)) => taken += jobs.len(),
            Ok(Reserved::NeedsRows) => {}
            Ok(Reserved::NoneReady) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(taken, count);
}

#[test]
fn limited_access_reads_no_job_for_an_acknowledgement() {
    let mut bench = Bench::new();
    bench.group([Command::Put((0..10).map(|_| NewJob::new("q", "")).collect())]);
    let jobs = bench.take(10);
    let gets = bench.gets(|bench| {
        let (ours, theirs) = (Access::to(["q"]), Access::to(["other"]));
        let ack = || [Command::Ack(leases(&jobs))];
        let refused = bench.group_as(&theirs, ack());
        assert!(matches!(refused, Some(Outcome::Units(results)) if results[0].is_err()));
        let done = bench.group_as(&ours, ack());
        assert!(matches!(done, Some(Outcome::Units(results)) if results[0].is_ok()));
    });
    assert_eq!(gets, 0);
}

#[test]
fn a_drain_leaves_nothing_of_a_job_that_was_moved_in_the_same_group() {
    let mut bench = Bench::new();
    let (id, due) = (JobId::from_bytes([7; 16]), Time::MAX);
    let rows = |bench: &Bench| -> Vec<Bytes> {
        let rows = bench.store.scan(Table::Index, &[], &[u8::MAX]);
        rows.map(|row| row.expect("a row").0).collect()
    };
    // Afterwards the batch holds only what belongs to the job.
    bench.group([Command::Put(vec![NewJob::new("q", "").at(due)])]);
    bench.group([Command::Drain(Sweep::new("q".to_owned()))]);
    let before = rows(&bench);
    bench.group([Command::Put(vec![NewJob::new("q", "").id(id).at(due)])]);
    let outcome = bench.group([
        Command::Reschedule(vec![(id.into(), When::At(due))]),
        Command::Drain(Sweep::new("q".to_owned())),
    ]);
    assert!(matches!(outcome, Some(Outcome::Count(Ok(1)))), "{outcome:?}");
    assert_eq!(rows(&bench), before);
}

#[test]
fn what_runs_out_at_once_is_dealt_with_in_batches_of_bounded_size() {
    const JOBS: usize = 10_000;
    let mut bench = Bench::new();
    let settings = QueueSettings { max_attempts: 1, ..QueueSettings::default() };
    bench.group([configure(settings)]);
    // With long keys, it does not take a million of them.
    let job = |number| NewJob::new("q", "").key(format!("{number:0500}"));
    bench.group([Command::Put((0..JOBS).map(job).collect())]);
    assert_eq!(bench.take(JOBS).len(), JOBS);
    bench.now.0 += Duration::from_secs(60);
    let mut batches = Vec::new();
    while batches.last() != Some(&0) {
        let next = bench.engine.next_wake();
        assert!(!batches.is_empty() || next.is_some_and(|next| next <= bench.now.time()));
        bench.engine.begin(&bench.store, bench.now, SEED);
        batches.push(bench.commit());
    }
    assert!(batches.iter().all(|bytes| *bytes < STEP_BYTES + 10_000), "{batches:?}");
    assert_eq!(bench.engine.queues()[0].counts().dead, JOBS as u64);
}

#[test]
fn what_ids_are_made_of_tells_nothing_about_tokens() {
    let token_of = |bench: &mut Bench| {
        bench.group([Command::Put(vec![NewJob::new("q", "")])]);
        bench.take(1)[0].lease.token
    };
    // Everything that can be derived from the bits of an id.
    let mut random = fastrand::Rng::with_seed(SEED);
    let known: Vec<u64> = std::iter::repeat_with(|| random.u64(..)).take(1_000).collect();
    let (mut one, mut other) = (Bench::new(), Bench::new());
    let tokens = [token_of(&mut one), token_of(&mut one), token_of(&mut other)];
    for (index, token) in tokens.iter().enumerate() {
        assert!(!known.contains(token), "{token}");
        assert!(!tokens[..index].contains(token), "{tokens:?}");
    }
}
