//! Our own queue does every workload, and the quick comparison without peers comes to its end.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// Each workload with a system of ours that does it and a figure that only it yields.
const WORKLOADS: [(&str, &str, &str); 7] = [
    ("put", "tickwheel", "put64"),
    ("put-batch", "tickwheel", "put-batch64"),
    ("end-to-end", "tickwheel", "end-to-end"),
    ("cancel", "tickwheel", "cancel"),
    ("lateness", "tickwheel", "late-p99"),
    ("pending", "tickwheel-interval", "restart"),
    ("pending-many", "tickwheel-interval", "memory-many-again"),
];

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("queue-{name}"))
}

fn bench(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_tickwheel-bench");
    Command::new(program).args(arguments).output().expect("the program starts")
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn our_queue_does_every_workload() {
    for (workload, system, figure) in WORKLOADS {
        let folder = folder(workload);
        let path = folder.display().to_string();
        let output = bench(&[
            "queue-run",
            "--system",
            system,
            "--workload",
            workload,
            "--time-ms",
            "100",
            "--jobs",
            "600",
            "--folder",
            &path,
        ]);
        assert!(output.status.success(), "{workload}: {}", words(&output));
        assert!(!folder.exists(), "{workload} leaves its data behind");
        let outcome: Value = serde_json::from_slice(&output.stdout).expect("the outcome is JSON");
        let figures = outcome["figures"].as_array().expect("a list of figures");
        let value = |name| figures.iter().find(|pair| pair[0] == name).map(|pair| pair[1].clone());
        let found = value(figure).unwrap_or_default();
        assert!(found.as_f64().is_some_and(|value| value > 0.0), "{workload}: {outcome}");
        assert_eq!(value("early").unwrap_or(0.0.into()), 0.0, "{workload}: {outcome}");
    }
}

#[test]
fn a_system_does_only_what_it_does() {
    let path = folder("refused").display().to_string();
    let output = bench(&[
        "queue-run",
        "--system",
        "tickwheel",
        "--workload",
        "pending",
        "--time-ms",
        "1",
        "--jobs",
        "1",
        "--folder",
        &path,
    ]);
    assert!(!output.status.success());
    assert!(words(&output).contains("does not do this"), "{}", words(&output));
}

#[test]
fn the_quick_comparison_works_without_peers() {
    let json = folder("quick.json");
    let (path, data) = (json.display().to_string(), folder("quick").display().to_string());
    let output =
        bench(&["queue", "--quick", "--peers", "none", "--json", &path, "--folder", &data]);
    assert!(output.status.success(), "{}", words(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("| put, 64 callers") && text.contains("Peers: none"), "{text}");
    let report: Value = serde_json::from_slice(&std::fs::read(&json).expect("it was written"))
        .expect("the report is JSON");
    assert!(report["series"].as_array().is_some_and(|series| series.len() > 20), "{report}");
}
