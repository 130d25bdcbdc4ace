//! Every system does every workload that it does, on the same work; and the quick form of the whole
//! comparison writes what it is asked for.

use std::process::Command;
use std::thread;

use serde_json::Value;

const SYSTEMS: [&str; 4] = ["tickwheel", "tokio", "async-io", "futures-timer"];

/// Each workload with a figure that only it yields, and who does it.
const WORKLOADS: [(&str, &str, &[&str]); 8] = [
    ("timeout", "timeout-once-cpu", &SYSTEMS),
    ("receive", "receive-cpu", &["tickwheel", "tokio", "async-io", "futures-timer", "bare"]),
    ("sleep", "brief-cpu", &SYSTEMS),
    ("churn", "churn-wall", &SYSTEMS),
    ("reset", "reset-cpu", &SYSTEMS),
    ("fire", "fire-p99", &SYSTEMS),
    ("interval", "interval-cpu", &SYSTEMS),
    ("queue", "pop-cpu", &["tickwheel", "tokio"]),
];

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tickwheel-bench"))
}

fn outcome(system: &str, workload: &str) -> Value {
    let output = program()
        .args(["async-run", "--system", system, "--workload", workload])
        .args(["--timers", "2000", "--seed", "7", "--moves", "2000"])
        .args(["--lead-ms", "500", "--span-ms", "300"])
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
fn every_system_does_what_it_does_on_the_same_work() {
    for (workload, figure, systems) in WORKLOADS {
        let outcomes: Vec<Value> = thread::scope(|scope| {
            let run = |&system| scope.spawn(move || outcome(system, workload));
            let runs: Vec<_> = systems.iter().map(run).collect();
            runs.into_iter().map(|run| run.join().expect("the run succeeds")).collect()
        });
        for (system, outcome) in systems.iter().zip(&outcomes) {
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
fn what_a_system_does_not_do_is_refused() {
    let output = program()
        .args(["async-run", "--system", "async-io", "--workload", "queue", "--timers", "1"])
        .args(["--seed", "7", "--moves", "1", "--lead-ms", "1", "--span-ms", "1"])
        .output()
        .expect("the program starts");
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("async-io does not do"), "{error}");
}

#[test]
fn the_quick_form_shows_a_table_and_goals_and_writes_files() {
    let folder = std::env::temp_dir().join(format!("tickwheel-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the files");
    let (json, svg) = (folder.join("async.json"), folder.join("async.svg"));
    let output = program()
        .args(["async", "--quick", "--timers", "2k", "--peers", "tokio"])
        .args(["--workload", "timeout,receive,queue"])
        .arg("--json")
        .arg(&json)
        .arg("--svg")
        .arg(&svg)
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for part in ["timeout, ready at once", "delay queue: pop", "vs tokio", "## Goals"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let report: Value =
        serde_json::from_slice(&std::fs::read(&json).expect("the file is there")).expect("JSON");
    assert_eq!(report["timers"], 2_000);
    assert!(std::fs::read_to_string(&svg).expect("the chart is there").contains("</svg>"));
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}
