//! Three NATS servers and three nodes under load and faults, with histories that are checked.
//!
//! Clients send requests to random nodes and record the answers. Meanwhile nodes and NATS servers
//! are killed, stopped, cut off and slowed down, clocks are set wrong, and disks are filled or
//! wiped. At the end everything runs again, the histories are checked, and the rows of all replicas
//! are compared.
//!
//! `--fault NAME` leaves out other kinds. Without `--seconds`, each kind happens once. With it,
//! faults happen at random, every third one together with another. `cargo xtask jepsen --minutes N`
//! runs that form, and `cargo xtask test cluster` the first one.
//!
//! | file | what it holds |
//! |---|---|
//! | `nodes` | the processes and the links between them |
//! | `faults` | the kinds of faults |
//! | `http` | requests, and what their answers mean |
//! | `client` | clients with a queue of their own: what they were told about each job |
//! | `load` | clients that share queues: keys, a schedule, a paced queue, and puts all the time |
//! | `checks` | what must hold |

#[allow(dead_code, reason = "its tests are run by another program")]
mod checks;
mod client;
mod faults;
#[path = "../../../tickwheel-cluster/tests/simulation/history.rs"]
#[allow(dead_code, reason = "the simulation uses all of it")]
mod history;
mod http;
mod load;
#[path = "../hostile/namespace.rs"]
#[allow(dead_code, reason = "the hostile test uses all of it")]
mod namespace;
mod nodes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use checks::{pacing, recovery, registers};
use client::Client;
use faults::{Fault, Kind};
use http::{Counts, Test};
use load::{KeyClient, PacedWorker, Probe, ScheduleWorker};
use nodes::Nodes;

const CLIENTS: usize = 4;
const KEY_CLIENTS: usize = 3;
const PACED_WORKERS: usize = 2;
const PROBES: usize = 3;
/// How long the service may take to accept jobs after a fault: five times what the documentation
/// says, for an unoptimised program on a busy machine.
const RECOVERY_BUDGET_MS: u64 = 60_000;

/// Operations that must have succeeded at least once, or else the test has no value.
const OPERATIONS: [&str; 13] = [
    "put",
    "replace",
    "create",
    "cancel",
    "reschedule",
    "reserve",
    "delivery",
    "ack",
    "fail",
    "extend",
    "read",
    "schedule",
    "put paced",
];

fn main() {
    let seconds = argument("--seconds");
    let seed = argument("--seed").unwrap_or_else(|| fastrand::u64(..1 << 32));
    // Packages are installed first, because that is not possible inside the namespace of an
    // ordinary user.
    tickwheel_test_servers::nats::program().expect("the NATS server");
    tickwheel_test_servers::faketime::library().expect("the library for clocks");
    namespace::enter().expect("a mount namespace");
    let length = seconds.map_or_else(|| "each fault once".to_owned(), |it| format!("{it} s"));
    println!("{length}, seed {seed}");
    let folder = tempfile::tempdir().expect("a folder");
    let mut nodes = Nodes::start(folder.path(), argument("--partitions").unwrap_or(1));
    nodes.await_rest();
    let started = Instant::now();
    let is_over = Arc::new(AtomicBool::new(false));
    let test = Test { addresses: nodes.addresses(), started, is_over };
    let load = Load::start(&test);
    let faults = inflict(&mut nodes, &test, &load.last_put, seconds, seed);
    test.is_over.store(true, Ordering::Relaxed);
    let wrong = load.finish(&mut nodes, &faults);
    for violation in &wrong {
        println!("WRONG: {violation}");
    }
    println!("{} findings; seed {seed}, {:.0} s", wrong.len(), started.elapsed().as_secs_f64());
    if !wrong.is_empty() {
        nodes.print_logs();
        std::process::exit(1);
    }
}

/// The clients, each a thread.
struct Load {
    clients: Vec<JoinHandle<Client>>,
    key_clients: Vec<JoinHandle<KeyClient>>,
    schedule: JoinHandle<ScheduleWorker>,
    paced: Vec<JoinHandle<PacedWorker>>,
    probes: Vec<JoinHandle<Probe>>,
    /// When the last put of a probe was answered.
    last_put: Arc<AtomicU64>,
}

impl Load {
    fn start(test: &Test) -> Self {
        let last_put = Arc::new(AtomicU64::new(0));
        let clients = (0..CLIENTS).map(|number| Client::new(number, test));
        let schedule = ScheduleWorker::new(test);
        let probe = |_| {
            let (probe, last_put) = (Probe::new(test), Arc::clone(&last_put));
            std::thread::spawn(move || probe.run(&last_put))
        };
        Self {
            clients: clients.map(|it| std::thread::spawn(move || it.run())).collect(),
            key_clients: (0..KEY_CLIENTS)
                .map(|_| KeyClient::new(test))
                .map(|it| std::thread::spawn(move || it.run()))
                .collect(),
            schedule: std::thread::spawn(move || schedule.run()),
            paced: (0..PACED_WORKERS)
                .map(|_| PacedWorker::new(test))
                .map(|it| std::thread::spawn(move || it.run()))
                .collect(),
            probes: (0..PROBES).map(probe).collect(),
            last_put,
        }
    }

    /// Waits until the clients have ended, checks everything, and prints what happened.
    fn finish(self, nodes: &mut Nodes, faults: &[recovery::Fault]) -> Vec<String> {
        let clients = join(self.clients);
        let key_clients = join(self.key_clients);
        let mut schedule = self.schedule.join().expect("no client panics");
        let (paced, probes) = (join(self.paced), join(self.probes));
        nodes.await_rest();
        schedule.finish();
        let mut wrong = Vec::new();
        std::thread::scope(|scope| {
            let checks: Vec<_> = clients.iter().map(|it| scope.spawn(move || it.check())).collect();
            wrong.extend(join_scoped(checks));
        });
        let mut keys = BTreeMap::new();
        for client in &key_clients {
            for (key, operations) in &client.keys {
                keys.entry(key.clone()).or_insert_with(Vec::new).extend(operations.clone());
            }
        }
        let (violations, undecided) = registers::check(&keys);
        wrong.extend(violations);
        wrong.extend(schedule.occurrences.check(load::PERIOD_MS));
        let starts: Vec<_> = paced.iter().flat_map(|it| it.starts.clone()).collect();
        wrong.extend(pacing::check(&starts, load::LIMITS));
        let puts: Vec<_> = probes.iter().flat_map(|it| it.puts.clone()).collect();
        let (recoveries, violations) = recovery::check(faults, &puts, RECOVERY_BUDGET_MS);
        wrong.extend(violations);
        let epoch = nodes.epoch();
        wrong.extend(nodes.compare_rows());

        let mut counts = Counts::new();
        let all = (clients.iter().map(|it| &it.http))
            .chain(key_clients.iter().map(|it| &it.http))
            .chain(paced.iter().map(|it| &it.http))
            .chain(probes.iter().map(|it| &it.http))
            .chain([&schedule.http]);
        all.for_each(|http| http::add(&mut counts, &http.counts));
        print_operations(&counts);
        println!(
            "{} keys ({undecided} undecided), {} occurrences, {} paced starts, epoch {epoch}",
            keys.len(),
            schedule.occurrences.len(),
            starts.len()
        );
        print_faults(faults, &recoveries);
        for name in OPERATIONS {
            if counts.get(name).is_none_or(|tally| tally.done == 0) {
                wrong.push(format!("the operation {name:?} never succeeded: nothing was tested"));
            }
        }
        wrong
    }
}

fn join<T>(threads: Vec<JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|it| it.join().expect("no client panics")).collect()
}

fn join_scoped(threads: Vec<std::thread::ScopedJoinHandle<'_, Vec<String>>>) -> Vec<String> {
    threads.into_iter().flat_map(|it| it.join().expect("no check panics")).collect()
}

fn print_operations(counts: &Counts) {
    let all = counts.values().map(|it| it.done + it.refused + it.unknown).sum::<u64>();
    println!("{all} operations (done, refused, unknown):");
    for (name, tally) in counts {
        println!("  {name:<16}{:>8}{:>8}{:>8}", tally.done, tally.refused, tally.unknown);
    }
}

fn print_faults(faults: &[recovery::Fault], recoveries: &recovery::Longest) {
    println!("{} faults (how often, longest time until the next put):", faults.len());
    for (name, longest) in recoveries {
        let count = faults.iter().filter(|it| it.name == *name).count();
        println!("  {name:<64}{count:>5}{longest:>8} ms");
    }
}

/// Inflicts faults, one after the other, each followed by a recovery.
fn inflict(
    nodes: &mut Nodes,
    test: &Test,
    last_put: &AtomicU64,
    seconds: Option<u64>,
    seed: u64,
) -> Vec<recovery::Fault> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut faults = Vec::new();
    let mut kinds = Vec::new();
    loop {
        if kinds.is_empty() {
            let is_over =
                seconds.is_none_or(|it| test.started.elapsed() >= Duration::from_secs(it));
            if is_over && !faults.is_empty() {
                return faults;
            }
            kinds = wanted_kinds();
            random.shuffle(&mut kinds);
        }
        let is_over = seconds.is_some_and(|it| test.started.elapsed() >= Duration::from_secs(it));
        if is_over && faults.len() >= wanted_kinds().len() {
            return faults;
        }
        let first = kinds.pop().expect("there is one").aim(nodes, &mut random);
        let second = random.choice(Kind::ALL).expect("a kind").aim(nodes, &mut random);
        let is_double = seconds.is_some() && random.u8(..3) == 0 && first.goes_with(second);
        let active = if is_double { vec![first, second] } else { vec![first] };
        let name = inflict_together(nodes, &active, &mut random);
        let ended = test.now();
        while last_put.load(Ordering::Relaxed) < ended && test.now() < ended + RECOVERY_BUDGET_MS {
            nodes.restart_ended();
            std::thread::sleep(Duration::from_millis(20));
        }
        faults.push(recovery::Fault { name, ended });
        std::thread::sleep(Duration::from_millis(random.u64(200..2_500)));
    }
}

/// Lets faults begin, last for a while, and end. Returns their name.
fn inflict_together(nodes: &mut Nodes, faults: &[Fault], random: &mut fastrand::Rng) -> String {
    for fault in faults {
        fault.begin(nodes, random);
        std::thread::sleep(Duration::from_millis(random.u64(..500)));
    }
    std::thread::sleep(Duration::from_millis(random.u64(500..5_000)));
    for fault in faults {
        fault.end(nodes);
    }
    let names: Vec<_> = faults.iter().map(|it| it.kind.name()).collect();
    names.join(" + ")
}

/// Returns the kinds of faults that `--fault` selects; all without this option.
fn wanted_kinds() -> Vec<Kind> {
    let name = text_argument("--fault").unwrap_or_default();
    let kinds: Vec<_> = Kind::ALL.into_iter().filter(|kind| kind.name().contains(&name)).collect();
    assert!(!kinds.is_empty(), "there is no fault like {name:?}");
    kinds
}

fn argument(name: &str) -> Option<u64> {
    text_argument(name).map(|text| text.parse().expect("a number"))
}

fn text_argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}
