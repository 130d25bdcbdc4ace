//! Groups: served in turn, limited and paused individually, and never delayed by each other.

mod rig;

use std::collections::BTreeMap;
use std::time::Duration;

use rig::{Rig, millis, seconds};
use tickwheel_queue::store::Table;
use tickwheel_queue::{
    Error, GroupInfo, GroupList, GroupPatch, GroupSettings, Limit, List, NewJob, Order, Pacing,
    QueueSettings, Queues, SettingsPatch,
};

fn put(rig: &Rig, count: usize, group: &str) {
    let job = |number| NewJob::new("q", format!("{group}{number}")).group(group);
    for start in (0..count).step_by(10_000) {
        let jobs = (start..count.min(start + 10_000)).map(job);
        rig.queues().put_all(jobs).wait().unwrap();
    }
}

fn configure(rig: &Rig, change: impl FnOnce(&mut QueueSettings)) {
    let mut settings = QueueSettings::default();
    change(&mut settings);
    rig.queues().configure("q", settings).wait().unwrap();
}

fn set(rig: &Rig, group: &str, patch: GroupPatch) {
    rig.queues().patch_group("q", group, patch).wait().unwrap();
}

/// Returns the payloads of the next jobs, with one reserve for each.
fn take(rig: &Rig, jobs: usize) -> Vec<String> {
    let mut taken = Vec::new();
    for _ in 0..jobs {
        let next = rig.queues().reserve("q", 1, seconds(600)).wait().unwrap();
        taken.extend(next.iter().map(|it| String::from_utf8_lossy(&it.job.payload).into_owned()));
    }
    taken
}

fn groups(rig: &Rig) -> Vec<GroupInfo> {
    let list = GroupList { limit: GroupList::MAX_LIMIT, ..GroupList::of("q") };
    rig.queues().groups(list).wait().unwrap().groups
}

/// Returns the name and the waiting, running and held jobs of each group.
fn counts(rig: &Rig) -> Vec<(String, u64, u64, u64)> {
    let counts = |it: GroupInfo| (it.name, it.waiting, it.running, it.held);
    groups(rig).into_iter().map(counts).collect()
}

fn with_little_memory() -> Rig {
    Rig::with(Queues::builder().near(0))
}

#[test]
fn groups_are_served_in_turn() {
    for rig in [Rig::new(), with_little_memory()] {
        configure(&rig, |it| it.fair_groups = true);
        put(&rig, 200, "a");
        put(&rig, 3, "b");
        rig.put("plain", millis(0));
        put(&rig, 2, "c");
        let first = take(&rig, 9);
        assert_eq!(first, ["a0", "b0", "plain", "c0", "a1", "b1", "c1", "a2", "b2"]);
        assert_eq!(take(&rig, 2), ["a3", "a4"]);
        // A late customer waits for one job of each other customer, not for their backlogs.
        put(&rig, 100, "d");
        assert_eq!(take(&rig, 4), ["a5", "d0", "a6", "d1"]);
        let all = rig.take(7).len();
        assert_eq!(all, 200 - 7 + 98);
    }
}

#[test]
fn a_group_with_one_job_at_a_time_does_not_starve_a_backlog() {
    let rig = Rig::new();
    configure(&rig, |it| it.fair_groups = true);
    put(&rig, 100, "backlog");
    let mut of_backlog = 0;
    for _ in 0..40 {
        if !groups(&rig).iter().any(|group| group.name == "t" && group.waiting > 0) {
            put(&rig, 1, "t");
        }
        let jobs = rig.queues().reserve("q", 1, seconds(60)).wait().unwrap();
        of_backlog += usize::from(jobs[0].job.group.as_deref() == Some("backlog"));
        rig.queues().ack(jobs[0].lease).wait().unwrap();
    }
    assert_eq!(of_backlog, 20, "every other job");
}

#[test]
fn a_paused_group_is_held_until_it_is_resumed_also_across_a_crash() {
    for mut rig in [Rig::new(), with_little_memory()] {
        put(&rig, 50, "a");
        set(&rig, "a", GroupPatch::default().paused(true));
        put(&rig, 50, "a");
        put(&rig, 2, "b");
        rig.put("plain", millis(0));
        assert_eq!(take(&rig, 9), ["b0", "b1", "plain"]);
        rig.crash();
        assert_eq!(take(&rig, 1), [""; 0]);
        let held = [("a".to_owned(), 100, 0, 100), ("b".to_owned(), 0, 2, 0)];
        assert_eq!(counts(&rig), held);
        set(&rig, "a", GroupPatch::default().paused(false));
        let taken = rig.names();
        assert_eq!(taken.len(), 100);
        assert_eq!(taken[..2], ["a0", "a1"]);
        assert_eq!(counts(&rig), [("b".to_owned(), 0, 2, 0)]);
    }
}

#[test]
fn the_limits_of_a_group_replace_those_of_the_queue() {
    let mut rig = Rig::new();
    configure(&rig, |it| it.group_pacing = Pacing::default().concurrency(1));
    for group in ["a", "b", "c"] {
        put(&rig, 5, group);
    }
    set(&rig, "b", GroupPatch::default().pacing(Some(Pacing::starts(2, seconds(10)))));
    set(&rig, "c", GroupPatch::default().pacing(Some(Pacing::default())));
    let started = |rig: &Rig| {
        let mut started: BTreeMap<String, usize> = BTreeMap::new();
        for job in rig.take(100) {
            *started.entry(job.job.group.unwrap_or_default()).or_default() += 1;
        }
        started.into_iter().collect::<Vec<_>>()
    };
    let first = [("a".to_owned(), 1), ("b".to_owned(), 2), ("c".to_owned(), 5)];
    assert_eq!(started(&rig), first);
    rig.crash();
    assert_eq!(started(&rig), []);
    rig.clock.advance(millis(10_001));
    assert_eq!(started(&rig), [("b".to_owned(), 2)]);
    // The queue's own limit applies again, and more jobs of `b` are running than it allows.
    set(&rig, "b", GroupPatch::default().pacing(None));
    rig.clock.advance(millis(10_001));
    assert_eq!(started(&rig), []);
    assert_eq!(groups(&rig)[1].settings, GroupSettings::default());
}

#[test]
fn held_jobs_can_be_cancelled_moved_replaced_and_drained() {
    let mut rig = with_little_memory();
    set(&rig, "a", GroupPatch::default().paused(true));
    let mut ids = Vec::new();
    for number in 0..100 {
        let job = NewJob::new("q", number.to_string()).group("a").key(number.to_string());
        ids.push(rig.queues().put(job).wait().unwrap().id);
    }
    rig.queues().cancel(ids[0]).wait().unwrap();
    rig.queues().cancel(ids[99]).wait().unwrap();
    rig.queues().reschedule(ids[50], seconds(60)).wait().unwrap();
    let replaced = NewJob::new("q", "replaced").group("b").key("60");
    rig.queues().put(replaced).wait().unwrap();
    let held = [("a".to_owned(), 97, 0, 96), ("b".to_owned(), 1, 0, 0)];
    assert_eq!(counts(&rig), held);
    rig.crash();
    assert_eq!(counts(&rig), held);
    set(&rig, "a", GroupPatch::default().paused(false));
    let mut expected: Vec<String> = (1..99).map(|number| number.to_string()).collect();
    expected.retain(|name| name != "50" && name != "60");
    let names = rig.names();
    let of_a: Vec<&String> = names.iter().filter(|name| *name != "replaced").collect();
    assert_eq!(of_a, expected.iter().collect::<Vec<_>>());
    set(&rig, "a", GroupPatch::default().paused(true));
    put(&rig, 70, "a");
    assert_eq!(rig.queues().drain("q").wait(), Ok(71));
    assert_eq!(counts(&rig), [("a".to_owned(), 0, 0, 0)]);
    set(&rig, "a", GroupPatch::default().paused(false));
    rig.clock.advance(seconds(100));
    assert_eq!(rig.names(), [""; 0]);
    assert_eq!(counts(&rig), []);
    let is_of_group = |key: &[u8]| (15..=17).contains(&key[0]);
    let rows = rig
        .dump()
        .into_iter()
        .filter(|((table, key), _)| *table != Table::Jobs && is_of_group(key));
    assert_eq!(rows.count(), 0, "nothing of the groups is left");
}

#[test]
fn priority_order_holds_within_groups_of_which_few_jobs_are_in_memory() {
    let rig = with_little_memory();
    configure(&rig, |it| it.order = Order::Priority);
    set(&rig, "a", GroupPatch::default().pacing(Some(Pacing::default().concurrency(1))));
    for number in 0..60_u64 {
        let job = NewJob::new("q", number.to_string()).group("a").priority((number % 3) as i8);
        rig.queues().put(job).wait().unwrap();
        rig.clock.advance(millis(1));
    }
    let mut expected: Vec<u64> = (0..60).collect();
    expected.sort_by_key(|number| std::cmp::Reverse(number % 3));
    let mut taken = Vec::new();
    loop {
        let jobs = rig.queues().reserve("q", 5, seconds(60)).wait().unwrap();
        let Some(job) = jobs.first() else { break };
        assert_eq!(jobs.len(), 1);
        taken.push(String::from_utf8_lossy(&job.job.payload).parse::<u64>().unwrap());
        if taken.len() == 30 {
            // From here on the order is by due time.
            let patch = SettingsPatch { order: Some(Order::DueTime), ..SettingsPatch::default() };
            rig.queues().patch_settings("q", patch).wait().unwrap();
            expected[30..].sort_unstable();
        }
        rig.queues().ack(job.lease).wait().unwrap();
    }
    assert_eq!(taken, expected);
}

/// Puts many jobs of a held group, then one of another group, and prints how many milliseconds late
/// that one is delivered.
fn lateness_beside(held: usize) {
    let mut rig = Rig::with(Queues::builder().near(1_000));
    set(&rig, "held", GroupPatch::default().paused(true));
    put(&rig, held, "held");
    let is_next = |rig: &Rig, name: &str| {
        let job = NewJob::new("q", name.to_owned()).group("quick").delay(millis(5));
        rig.queues().put(job).wait().unwrap();
        rig.clock.advance(millis(5));
        let before = rig.queues().stats().wait().unwrap().commits;
        let jobs = rig.queues().reserve("q", 10, seconds(60)).wait().unwrap();
        assert_eq!(jobs.len(), 1);
        assert_eq!(jobs[0].job.payload, name.as_bytes());
        // The writer needed no additional commits to skip the held jobs.
        let commits = rig.queues().stats().wait().unwrap().commits - before;
        assert!(commits <= 2, "{commits} commits for one delivery");
        rig.queues().ack(jobs[0].lease).wait().unwrap();
    };
    is_next(&rig, "first");
    let in_memory = rig.queues().stats().wait().unwrap().in_memory;
    assert!(in_memory <= 1_000, "{in_memory} jobs in memory");
    rig.crash();
    is_next(&rig, "after a crash");
    assert_eq!(counts(&rig), [("held".to_owned(), held as u64, 0, held as u64)]);
    // Held jobs are listed like other jobs.
    let page = rig.queues().list(List::of("q").limit(10)).wait().unwrap();
    assert_eq!((page.jobs.len(), &*page.jobs[9].payload), (10, &b"held9"[..]));
    set(&rig, "held", GroupPatch::default().paused(false));
    assert_eq!(take(&rig, 3), ["held0", "held1", "held2"]);
}

#[test]
fn many_held_jobs_do_not_delay_another_group() {
    lateness_beside(20_000);
}

#[test]
#[ignore = "takes minutes: `cargo test --test queue_groups -- --ignored`"]
fn a_million_held_jobs_do_not_delay_another_group() {
    lateness_beside(1_000_000);
}

#[test]
fn many_jobs_of_one_group_that_are_due_at_once_do_not_delay_another_group() {
    let rig = Rig::with(Queues::builder().near(1_000));
    configure(&rig, |it| it.group_pacing = Pacing::default().concurrency(1));
    let job = |group: &str| NewJob::new("q", group.to_owned()).group(group);
    for _ in 0..2 {
        let many = (0..10_000).map(|_| job("many").delay(seconds(100)));
        rig.queues().put_all(many).wait().unwrap();
    }
    rig.queues().put(job("other").delay(Duration::from_millis(100_001))).wait().unwrap();
    // Waits until the writer has read all jobs within the horizon, which it does before they are
    // due.
    rig.queues().stats().wait().unwrap();
    rig.clock.advance(millis(100_001));
    assert_eq!(take(&rig, 3), ["many", "other"]);
    let stats = rig.queues().stats().wait().unwrap();
    assert!(stats.in_memory <= 2_100, "{} jobs in memory", stats.in_memory);
}

#[test]
fn a_salvage_restores_the_rows_of_groups() {
    let mut rig = Rig::new();
    put(&rig, 10, "a");
    put(&rig, 5, "b");
    set(&rig, "a", GroupPatch::default().paused(true));
    let leased = rig.queues().reserve("q", 2, seconds(600)).wait().unwrap();
    assert_eq!(leased.len(), 2);
    let before = counts(&rig);
    assert_eq!(before, [("a".to_owned(), 10, 0, 10), ("b".to_owned(), 3, 2, 0)]);
    rig.salvaged(|rows| {
        // Loses half of the grouped rows and all counts, and turns due rows into those of format 1.
        let mut seen = 0;
        rows.retain(|(table, key), value| match (table, key[0]) {
            (Table::Counters, 16) => false,
            (Table::Index, 17) => {
                seen += 1;
                seen % 2 == 0
            }
            (Table::Index, 3) => {
                *value = value.slice(..17);
                true
            }
            _ => true,
        });
        assert_eq!(seen, 13);
        let stray = b"\x11\0\0\0\0stray\xff\x7f\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01";
        rows.insert((Table::Index, stray[..].into()), vec![0; 17].into());
    });
    assert_eq!(counts(&rig), before);
    assert_eq!(rig.names(), ["b2", "b3", "b4"]);
    set(&rig, "a", GroupPatch::default().paused(false));
    assert_eq!(rig.names().len(), 10);
}

#[test]
fn jobs_of_format_1_join_their_groups_when_they_are_held() {
    let mut rig = Rig::new();
    put(&rig, 2_500, "a");
    put(&rig, 2, "b");
    rig.closed(|rig| {
        rig.disk.tamper(|rows| {
            rows.retain(|(_, key), _| !matches!(key[0], 16 | 17) || key.len() == 16);
            for ((table, key), value) in rows.iter_mut() {
                if *table == Table::Index && key[0] == 3 {
                    *value = value.slice(..17);
                }
            }
        });
    });
    configure(&rig, |it| it.group_pacing = Pacing::default().concurrency(1));
    assert_eq!(take(&rig, 3), ["a0", "b0"]);
    rig.crash();
    configure(&rig, |_| {});
    let rest = rig.names();
    assert_eq!(rest.len(), 2_500);
    assert_eq!((&*rest[0], &*rest[2_499]), ("a1", "b1"));
}

#[test]
fn wrong_settings_of_groups_are_refused() {
    let rig = Rig::new();
    let patch = |group: &str, pacing| {
        let patch = GroupPatch::default().pacing(Some(pacing));
        rig.queues().patch_group("q", group, patch).wait().unwrap_err()
    };
    let field = |error| match error {
        Error::Invalid { field, .. } => field,
        other => panic!("{other}"),
    };
    assert_eq!(field(patch("", Pacing::default())), "group");
    assert_eq!(field(patch("a", Pacing::default().concurrency(0))), "pacing.concurrency");
    assert_eq!(field(patch("a", Pacing::starts(0, seconds(1)))), "pacing.starts");
    let long = patch(&"g".repeat(513), Pacing::default());
    assert!(matches!(long, Error::OverLimit { limit: Limit::Group, .. }), "{long}");
    let list = GroupList { limit: 0, ..GroupList::of("q") };
    assert_eq!(field(rig.queues().groups(list).wait().unwrap_err()), "limit");
    assert_eq!(rig.queues().queue("q").wait(), Ok(None), "nothing was made");
}
