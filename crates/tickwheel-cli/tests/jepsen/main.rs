//! Three NATS servers and three nodes under load and faults, with a history that is checked.
//!
//! Each client works on a queue of its own through random nodes: it puts, cancels, reserves,
//! acknowledges, fails, extends and reads jobs, and notes what it was told. Meanwhile nodes and NATS
//! servers are killed, and stopped and continued. At the end everything runs again; every job is
//! looked up, the histories are checked by the rules of the simulation, and the rows of all replicas
//! are compared.
//!
//! `cargo xtask jepsen --minutes N` runs it; `cargo xtask test cluster` runs a short form.

#[path = "../../../tickwheel-cluster/tests/simulation/history.rs"]
#[allow(dead_code, reason = "the simulation uses all of it")]
mod history;

mod client;
mod nodes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::Client;
use history::Outcome;
use nodes::{Nodes, Target};

const CLIENTS: usize = 6;

fn main() {
    let seconds = argument("--seconds").unwrap_or(40);
    let seed = argument("--seed").unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("{CLIENTS} clients for {seconds} s, faults of seed {seed}");
    let folder = tempfile::tempdir().expect("a folder");
    let mut nodes = Nodes::start(folder.path());
    nodes.await_rest();
    let is_over = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let addresses = nodes.addresses();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (is_over, addresses) = (Arc::clone(&is_over), addresses.clone());
            std::thread::spawn(move || {
                let mut client = Client::new(number, addresses, started);
                while !is_over.load(Ordering::Relaxed) {
                    client.act();
                }
                client
            })
        })
        .collect();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut faults = BTreeMap::new();
    while started.elapsed() < Duration::from_secs(seconds) {
        let fault = random_fault(&mut random);
        *faults.entry(fault.0).or_insert(0_u32) += 1;
        nodes.inflict(fault.1, random.usize(..3), fault.2, &mut random);
        std::thread::sleep(Duration::from_millis(random.u64(500..4_000)));
    }
    is_over.store(true, Ordering::Relaxed);
    let clients: Vec<_> = clients.into_iter().map(|it| it.join().expect("no panic")).collect();
    nodes.await_rest();
    let (mut operations, mut unknown, mut wrong) = (0, 0, Vec::new());
    for client in clients {
        let history = client.history();
        operations += history.len();
        unknown += history.count(Outcome::Unknown);
        wrong.extend(history.check(&client.final_states()));
    }
    let epoch = nodes.epoch();
    wrong.extend(nodes.compare_rows());
    println!(
        "{operations} operations, {unknown} with an unknown outcome; faults: {faults:?}; epoch {epoch}"
    );
    for violation in &wrong {
        println!("WRONG: {violation}");
    }
    assert!(wrong.is_empty(), "{} promises were broken", wrong.len());
    assert!(operations > 100, "too few operations");
}

/// A fault: its name, whom it hits, and whether the process is killed or only stopped.
fn random_fault(random: &mut fastrand::Rng) -> (&'static str, Target, bool) {
    match random.u8(..6) {
        0 | 1 => ("node killed", Target::Node, true),
        2 | 3 => ("node stopped", Target::Node, false),
        4 => ("NATS server killed", Target::Server, true),
        _ => ("NATS server stopped", Target::Server, false),
    }
}

fn argument(name: &str) -> Option<u64> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name).skip(1);
    Some(arguments.next()?.parse().expect("a number"))
}
