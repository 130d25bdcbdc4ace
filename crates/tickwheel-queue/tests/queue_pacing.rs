//! Pacing: no window contains more deliveries than allowed, wherever it begins, even across
//! restarts.

mod rig;

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use rig::{Rig, millis, seconds};
use tickwheel_queue::{Lease, NewJob, Pacing, QueueSettings, Queues, Time};

fn paced(pacing: Pacing, group_pacing: Pacing) -> Rig {
    let rig = Rig::new();
    let settings = QueueSettings { pacing, group_pacing, ..QueueSettings::default() };
    rig.queues().configure("q", settings).wait().unwrap();
    rig
}

fn put(rig: &Rig, count: usize, group: &str) {
    let job = || NewJob::new("q", group.to_owned()).group(group);
    rig.queues().put_all((0..count).map(|_| job())).wait().unwrap();
}

/// Returns the groups and leases of all jobs that may be delivered now.
fn take(rig: &Rig) -> Vec<(String, Lease)> {
    let deliveries = rig.take(100).into_iter();
    deliveries.map(|job| (job.job.group.unwrap_or_default(), job.lease)).collect()
}

#[test]
fn a_queue_gives_out_so_many_in_a_window_and_goes_on_after_it() {
    let mut rig = paced(Pacing::starts(3, seconds(1)), Pacing::default());
    put(&rig, 7, "g");
    assert_eq!(take(&rig).len(), 3);
    rig.clock.advance(millis(600));
    rig.crash();
    assert_eq!(take(&rig).len(), 0);
    rig.clock.advance(millis(400));
    assert_eq!(take(&rig).len(), 0, "a window has both its ends");
    rig.clock.advance(millis(1));
    assert_eq!(take(&rig).len(), 3);
}

#[test]
fn a_blocked_group_does_not_hold_up_the_others() {
    let rig = paced(Pacing::default(), Pacing::starts(1, seconds(1)));
    put(&rig, 3, "a");
    put(&rig, 1, "b");
    rig.put("without a group", millis(0));
    let groups: Vec<String> = take(&rig).into_iter().map(|(group, _)| group).collect();
    assert_eq!(groups, ["a", "b", ""]);
    rig.clock.advance(millis(1_001));
    assert_eq!(take(&rig).len(), 1);
    // A held job can be cancelled like any other.
    assert_eq!(rig.queues().drain("q").wait(), Ok(1));
    rig.clock.advance(seconds(5));
    assert_eq!(take(&rig).len(), 0);
}

#[test]
fn more_held_jobs_than_memory_takes_do_not_delay_the_rest() {
    // Memory for 16 jobs, and a hundred jobs of a group of which one may run at a time.
    let rig = Rig::with(Queues::builder().near(0));
    let group_pacing = Pacing::default().concurrency(1);
    let settings = QueueSettings { group_pacing, ..QueueSettings::default() };
    rig.queues().configure("q", settings).wait().unwrap();
    put(&rig, 100, "slow");
    put(&rig, 1, "quick");
    let first = take(&rig);
    let groups: Vec<&str> = first.iter().map(|(group, _)| &**group).collect();
    assert_eq!(groups, ["slow", "quick"]);
    let stats = rig.queues().stats().wait().unwrap();
    assert!(stats.in_memory <= 2 * 16 + 1, "{}", stats.in_memory);
    let mut leases = first;
    let mut delivered = 0;
    while let Some((_, lease)) = leases.pop() {
        delivered += 1;
        rig.queues().ack(lease).wait().unwrap();
        leases.extend(take(&rig));
    }
    assert_eq!(delivered, 101);
}

#[test]
fn concurrency_is_kept_until_a_lease_ends() {
    let mut rig = paced(Pacing::default().concurrency(3), Pacing::default().concurrency(2));
    put(&rig, 5, "a");
    put(&rig, 5, "b");
    let out = take(&rig);
    assert_eq!(out.iter().filter(|(group, _)| group == "a").count(), 2);
    assert_eq!(out.len(), 3);
    rig.crash();
    assert_eq!(take(&rig).len(), 0, "leases count across a restart");
    rig.queues().ack(out[0].1).wait().unwrap();
    assert_eq!(take(&rig).len(), 1);
}

#[test]
fn a_waiting_worker_gets_the_job_when_the_pace_allows() {
    let rig = paced(Pacing::starts(1, seconds(1)), Pacing::default());
    put(&rig, 2, "g");
    assert_eq!(take(&rig).len(), 1);
    std::thread::scope(|scope| {
        let queues = rig.queues();
        let worker = scope.spawn(|| queues.reserve_within("q", 1, None, seconds(500)).wait());
        while !worker.is_finished() {
            rig.clock.advance(millis(100));
            std::thread::yield_now();
        }
        assert_eq!(worker.join().unwrap().unwrap().len(), 1);
    });
}

#[test]
fn a_shorter_window_counts_at_once_and_so_does_a_longer_one() {
    let settings = |whole: bool, window| {
        let (pacing, none) = (Pacing::starts(1, window), Pacing::default());
        let (pacing, group_pacing) = if whole { (pacing, none) } else { (none, pacing) };
        QueueSettings { pacing, group_pacing, ..QueueSettings::default() }
    };
    for whole in [false, true] {
        let rig = Rig::new();
        let set = |window| {
            rig.queues().configure("q", settings(whole, window)).wait().unwrap();
        };
        set(seconds(3_600));
        put(&rig, 4, "g");
        assert_eq!(take(&rig).len(), 1);
        assert_eq!(take(&rig).len(), 0);
        set(seconds(1));
        assert_eq!(take(&rig).len(), 0, "the shorter window is not over");
        rig.clock.advance(millis(1_001));
        assert_eq!(take(&rig).len(), 1, "it is over, whole queue: {whole}");
        set(seconds(10));
        rig.clock.advance(seconds(10));
        assert_eq!(take(&rig).len(), 0, "the longer window is not over");
        rig.clock.advance(millis(1));
        assert_eq!(take(&rig).len(), 1, "it is over, whole queue: {whole}");
        // A window in the past ends at once.
        rig.clock.advance(seconds(5));
        set(seconds(4));
        assert_eq!(take(&rig).len(), 1);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put { count: usize, group: u8 },
    Take,
    Advance(u64),
    Ack(usize),
    Restart,
    SetBack(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1..6_usize, 0..3_u8).prop_map(|(count, group)| Step::Put { count, group }),
        5 => Just(Step::Take),
        5 => (0..400_u64).prop_map(Step::Advance),
        2 => (0..100_usize).prop_map(Step::Ack),
        1 => Just(Step::Restart),
        1 => (0..2_000_u64).prop_map(Step::SetBack),
    ]
}

/// A step of the test of concurrency limits for groups.
#[derive(Clone, Debug)]
enum Act {
    Put(u8),
    Take(usize),
    Ack(usize),
    Release(usize),
    Cancel(usize),
    Concurrency(u32),
    Restart,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..3_u8).prop_map(Act::Put),
        6 => (1..5_usize).prop_map(Act::Take),
        4 => (0..100_usize).prop_map(Act::Ack),
        2 => (0..100_usize).prop_map(Act::Release),
        3 => (0..100_usize).prop_map(Act::Cancel),
        1 => (1..4_u32).prop_map(Act::Concurrency),
        1 => Just(Act::Restart),
    ]
}

/// Returns the jobs that a worker must get: the first ones whose groups are below their limit.
fn expected(
    waiting: &BTreeMap<usize, u8>,
    out: &BTreeMap<usize, (u8, Lease)>,
    (limit, at_most): (u32, usize),
) -> Vec<usize> {
    let mut leased = [0; 3];
    for (group, _) in out.values() {
        leased[usize::from(*group)] += 1;
    }
    let may_go = |(_, group): &(&usize, &u8)| {
        let leased = &mut leased[usize::from(**group)];
        *leased += 1;
        *leased <= limit
    };
    waiting.iter().filter(may_go).map(|(job, _)| *job).take(at_most).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn groups_go_on_in_order_whatever_becomes_of_their_jobs(
        acts in prop::collection::vec(act(), 1..120),
    ) {
        let mut limit = 2;
        let mut rig = paced(Pacing::default(), Pacing::default().concurrency(limit));
        let (mut ids, mut waiting, mut out) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        // In the end every job must be delivered.
        let rest = (0..200).flat_map(|_| [Act::Take(100), Act::Ack(0)]);
        for act in acts.into_iter().chain(rest) {
            let nth = |number: usize, len: usize| number.checked_rem(len);
            match act {
                Act::Put(group) => {
                    let job = NewJob::new("q", ids.len().to_string()).group(group.to_string());
                    waiting.insert(ids.len(), group);
                    ids.push(rig.queues().put(job).wait().unwrap().id);
                }
                Act::Take(at_most) => {
                    let jobs = rig.queues().reserve("q", at_most, None).wait().unwrap();
                    let name = |job: &[u8]| std::str::from_utf8(job).unwrap().parse().unwrap();
                    let taken: Vec<usize> = jobs.iter().map(|job| name(&job.job.payload)).collect();
                    prop_assert_eq!(&taken, &expected(&waiting, &out, (limit, at_most)));
                    for (job, delivery) in taken.iter().zip(&jobs) {
                        let group = waiting.remove(job).unwrap();
                        out.insert(*job, (group, delivery.lease));
                    }
                }
                Act::Ack(number) => {
                    let Some(index) = nth(number, out.len()) else { continue };
                    let job = *out.keys().nth(index).unwrap();
                    rig.queues().ack(out.remove(&job).unwrap().1).wait().unwrap();
                }
                Act::Release(number) => {
                    let Some(index) = nth(number, out.len()) else { continue };
                    let job = *out.keys().nth(index).unwrap();
                    let (group, lease) = out.remove(&job).unwrap();
                    rig.queues().release(lease, millis(0)).wait().unwrap();
                    waiting.insert(job, group);
                }
                Act::Cancel(number) => {
                    let Some(index) = nth(number, waiting.len()) else { continue };
                    let job = *waiting.keys().nth(index).unwrap();
                    rig.queues().cancel(ids[job]).wait().unwrap();
                    waiting.remove(&job);
                }
                Act::Concurrency(new) => {
                    limit = new;
                    let group_pacing = Pacing::default().concurrency(limit);
                    let settings = QueueSettings { group_pacing, ..QueueSettings::default() };
                    rig.queues().configure("q", settings).wait().unwrap();
                }
                Act::Restart => rig.crash(),
            }
        }
        prop_assert!(waiting.is_empty() && out.is_empty());
    }

    #[test]
    fn no_window_holds_more_than_it_may(steps in prop::collection::vec(step(), 1..60)) {
        const QUEUE: (usize, u64) = (5, 300);
        const GROUP: (usize, u64) = (2, 500);
        let pacing = |(starts, window)| Pacing::starts(starts as u32, millis(window));
        let mut rig = paced(pacing(QUEUE), pacing(GROUP));
        // Uses monotonic time: a wall clock that is set back must not allow more starts.
        let start = rig.clock.now();
        let mut all: Vec<u64> = Vec::new();
        let mut groups: HashMap<String, Vec<u64>> = HashMap::new();
        let mut leases = Vec::new();
        for step in steps {
            match step {
                Step::Put { count, group } => put(&rig, count, &group.to_string()),
                Step::Take => {
                    let now = (rig.clock.now() - start).as_millis() as u64;
                    for (group, lease) in take(&rig) {
                        all.push(now);
                        groups.entry(group).or_default().push(now);
                        leases.push(lease);
                    }
                }
                Step::Advance(by) => rig.clock.advance(millis(by)),
                Step::Ack(number) if !leases.is_empty() => {
                    let lease = leases.swap_remove(number % leases.len());
                    // The lease may have expired.
                    drop(rig.queues().ack(lease).wait());
                }
                Step::Ack(_) => {}
                Step::Restart => rig.crash(),
                Step::SetBack(by) => {
                    let wall = Time::from(rig.clock.wall()).as_millis() - by;
                    rig.clock.set_wall(Time::from_millis(wall).into());
                }
            }
        }
        let fits = |times: &[u64], (limit, window): (usize, u64)| {
            times.windows(limit + 1).all(|starts| starts[limit] - starts[0] > window)
        };
        prop_assert!(fits(&all, QUEUE), "{:?}", all);
        for times in groups.values() {
            prop_assert!(fits(times, GROUP), "{:?}", times);
        }
    }
}
