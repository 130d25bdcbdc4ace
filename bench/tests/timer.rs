//! Every timer that is written in Rust does every workload, on the same work.

use std::process::Command;
use std::thread;

use serde_json::Value;

const SYSTEMS: [&str; 5] = ["tickwheel", "inline", "hashed", "tokio", "async-io"];

/// Each workload with a figure that only it yields.
const WORKLOADS: [(&str, &str); 13] = [
    ("schedule", "schedule-cpu"),
    ("cancel", "cancel-wall"),
    ("churn", "churn-cpu"),
    ("reset", "reset-cpu"),
    ("two-producers", "two-producers-wall"),
    ("two-churn", "two-churn-wall"),
    ("two-cancel", "two-cancel-wall"),
    ("eight-producers", "eight-producers-wall"),
    ("eight-churn", "eight-churn-wall"),
    ("fire", "fire-p99"),
    ("idle", "idle-full-switches"),
    ("memory", "memory"),
    ("blocked", "blocked-p99"),
];

fn outcome(system: &str, workload: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_tickwheel-bench"))
        .args(["timer-run", "--system", system, "--workload", workload])
        .args(["--timers", "2000", "--seed", "7", "--moves", "10000"])
        .args(["--lead-ms", "500", "--span-ms", "300", "--idle-ms", "100"])
        .output()
        .expect("the program starts");
    assert!(
        output.status.success(),
        "{system}, {workload}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("the outcome is JSON")
}

#[test]
fn every_system_does_every_workload_on_the_same_work() {
    for (workload, figure) in WORKLOADS {
        let outcomes = thread::scope(|scope| {
            let runs = SYSTEMS.map(|system| scope.spawn(move || outcome(system, workload)));
            runs.map(|run| run.join().expect("the run succeeds"))
        });
        for (system, outcome) in SYSTEMS.iter().zip(&outcomes) {
            assert!(outcome["checksum"].is_u64(), "{system}, {workload}: {outcome}");
            assert_eq!(outcome["checksum"], outcomes[0]["checksum"], "{system}, {workload}");
            assert!(outcome["figures"][figure].is_number(), "{system}, {workload}: {outcome}");
            if workload == "fire" {
                assert_eq!(outcome["figures"]["fire-early"], 0.0, "{system}");
            }
        }
    }
}

#[test]
fn the_longest_calls_of_our_timer_are_found() {
    let outcome = outcome("tickwheel", "pause");
    for figure in ["pause-schedule", "pause-cancel", "pause-key", "pause-wait"] {
        assert!(outcome["figures"][figure].is_number(), "{outcome}");
    }
}

#[test]
fn a_peer_in_another_language_is_not_run_here() {
    let output = Command::new(env!("CARGO_BIN_EXE_tickwheel-bench"))
        .args(["timer-run", "--system", "netty", "--workload", "fire", "--timers", "1"])
        .args(["--seed", "7", "--moves", "1", "--lead-ms", "1", "--span-ms", "1", "--idle-ms", "1"])
        .output()
        .expect("the program starts");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("harness of its own"));
}
