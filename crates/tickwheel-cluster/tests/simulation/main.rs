//! A cluster of three nodes in one thread, with faults that a seed decides.
//!
//! Every run of a seed is the same, but for the ids of stores and the tokens of leases, on which
//! nothing depends. `cargo xtask simulate --seeds N` runs more seeds than the test does, and
//! `--seed S` runs one and prints what happens.

mod history;
mod link;
mod workload;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use history::Outcome;
use workload::Clients;
use world::{NODES, World, lock};

/// Steps of a run before the faults end.
const STEPS: u64 = 400;

/// What a run did, and what was wrong.
struct Report {
    violations: Vec<String>,
    operations: usize,
    unknown: usize,
    takeovers: u64,
}

fn simulate(seed: u64, plant: impl FnOnce(&World)) -> Report {
    let world = World::new(seed);
    plant(&world);
    let mut clients = Clients::default();
    for _ in 0..STEPS {
        world.pass_time();
        match world.random(20) {
            0 => world.fault(),
            1..=9 => clients.act(&world),
            _ => world.tick(world.random(NODES as u64) as usize),
        }
    }
    let is_at_rest = world.calm();
    check(&world, is_at_rest);
    let history = lock(&world.history);
    Report {
        violations: std::mem::take(&mut *lock(&world.violations)),
        operations: history.len(),
        unknown: history.count(Outcome::Unknown),
        takeovers: world.takeovers(),
    }
}

fn check(world: &Arc<World>, is_at_rest: bool) {
    if !is_at_rest {
        let states: Vec<_> = (0..NODES)
            .map(|number| world.node(number).partition.as_ref().map(|it| format!("{it:?}")))
            .collect();
        world.violation(format!("the cluster does not come to rest: {states:?}"));
        return;
    }
    let rows: Vec<_> = (0..NODES).map(|number| world.rows(number)).collect();
    for number in 1..NODES {
        if rows[number] != rows[0] {
            world.violation(format!("the rows of nodes 0 and {number} differ"));
        }
    }
    let Some(owner) = world.owner() else { return };
    let history = lock(&world.history).clone();
    let node = world.node(owner);
    let queue = node.partition.as_ref().and_then(|it| it.queue());
    let Some(queue) = queue else { return };
    let mut finally = BTreeMap::new();
    for id in history.jobs() {
        if let Ok(Some(job)) = queue.queues.get(id).wait() {
            finally.insert(id, job.state);
        }
    }
    drop(node);
    for violation in history.check(&finally) {
        world.violation(violation);
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn no_seed_breaks_a_promise() {
    if let Ok(seed) = std::env::var("TICKWHEEL_SEED") {
        let seed = seed.parse().expect("TICKWHEEL_SEED is a number");
        let report = simulate(seed, |_| {});
        println!(
            "seed {seed}: {} operations, {} unknown, {} takeovers",
            report.operations, report.unknown, report.takeovers
        );
        assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
        return;
    }
    let (first, seeds) = (number("TICKWHEEL_FIRST_SEED", 0), number("TICKWHEEL_SEEDS", 1_000));
    let (mut operations, mut unknown, mut takeovers) = (0, 0, 0);
    for seed in first..first + seeds {
        let report = simulate(seed, |_| {});
        assert!(
            report.violations.is_empty(),
            "run it again with `cargo xtask simulate --seed {seed}`: {:#?}",
            report.violations
        );
        operations += report.operations;
        unknown += report.unknown;
        takeovers += report.takeovers;
    }
    println!(
        "{seeds} seeds: {operations} operations, {unknown} of them with an unknown outcome, \
         {takeovers} takeovers"
    );
    assert!(takeovers > 2 * seeds, "the faults cause too few takeovers: {takeovers}");
    assert!(unknown > 0, "the faults leave no outcome unknown");
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 1..20 {
        let (first, second) = (simulate(seed, |_| {}), simulate(seed, |_| {}));
        assert_eq!(first.operations, second.operations, "seed {seed}");
        assert_eq!(first.unknown, second.unknown, "seed {seed}");
        assert_eq!(first.takeovers, second.takeovers, "seed {seed}");
    }
}

/// Runs seeds until a planted fault is detected; how the violations describe it.
fn detected(plant: fn(&World), expected: &[&str]) {
    for seed in 0..50 {
        let violations = simulate(seed, plant).violations.join("\n");
        if expected.iter().any(|text| violations.contains(text)) {
            return;
        }
    }
    panic!("no run reported any of {expected:?}");
}

#[test]
fn a_log_that_forgets_an_acknowledged_append_is_detected() {
    detected(
        |world| world.planted.log_forgets.store(true, Ordering::Relaxed),
        &["is lost", "both own position", "rest"],
    );
}

#[test]
fn a_standby_with_another_row_is_detected() {
    detected(|world| world.planted.standby_differs.store(true, Ordering::Relaxed), &["differ"]);
}
