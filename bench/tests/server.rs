//! The real service and the queue in it do every workload, and the quick comparison without peers
//! comes to its end. The service is built first, as the benchmark does it.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("server-{name}"))
}

fn bench(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_tickwheel-bench");
    Command::new(program).args(arguments).output().expect("the program starts")
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a system yields that is told to do this, with a binary that is none.
fn run(system: &str, workload: &str) -> Output {
    let path = folder(&format!("{system}-{workload}")).display().to_string();
    let fixed = ["server-run", "--time-ms", "100", "--jobs", "600", "--binary", "/no/such/binary"];
    let chosen = ["--system", system, "--workload", workload, "--folder", &path];
    let output = bench(&[&fixed[..], &chosen].concat());
    assert!(!PathBuf::from(path).exists(), "{system} leaves its data behind");
    output
}

#[test]
fn the_embedded_queue_needs_no_service() {
    for (workload, figure) in
        [("put", "put64"), ("put-batch", "put-batch64"), ("lateness", "late-p99")]
    {
        let output = run("embedded", workload);
        assert!(output.status.success(), "{workload}: {}", words(&output));
        let outcome: Value = serde_json::from_slice(&output.stdout).expect("the outcome is JSON");
        let figures = outcome["figures"].as_array().expect("a list of figures");
        let found = figures.iter().find(|pair| pair[0] == figure).expect("the figure");
        assert!(found[1].as_f64().is_some_and(|value| value > 0.0), "{workload}: {outcome}");
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let refused = run("embedded", "pending");
    assert!(!refused.status.success());
    assert!(words(&refused).contains("does not do this"), "{}", words(&refused));
    let missing = run("service", "put");
    assert!(!missing.status.success());
    assert!(words(&missing).contains("/no/such/binary"), "{}", words(&missing));
}

#[test]
fn the_quick_comparison_works_without_peers() {
    let json = folder("quick.json");
    let (path, data) = (json.display().to_string(), folder("quick").display().to_string());
    let output =
        bench(&["server", "--quick", "--peers", "none", "--json", &path, "--folder", &data]);
    assert!(output.status.success(), "{}", words(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("| put, 64 connections") && text.contains("Peers: none"), "{text}");
    let report: Value = serde_json::from_slice(&std::fs::read(&json).expect("it was written"))
        .expect("the report is JSON");
    let series = report["series"].as_array().expect("a list of series");
    let value = |system: &str, figure: &str| {
        let is_it = |it: &&Value| it["system"] == system && it["figure"] == figure;
        series.iter().find(is_it).and_then(|it| it["value"].as_f64())
    };
    for figure in ["put8", "put64", "put-batch8", "put-batch64", "late-p50", "late-p99"] {
        for system in ["service", "embedded"] {
            let found = value(system, figure);
            assert!(found.is_some_and(|value| value > 0.0), "{system} {figure}: {found:?}");
        }
    }
    for figure in ["start-after-kill", "start-after-stop", "memory", "binary"] {
        let found = value("service", figure);
        assert!(found.is_some_and(|value| value > 0.0), "{figure}: {found:?}");
    }
    assert!(value("service", "idle").is_some_and(|percent| percent < 100.0), "{report}");
    assert_eq!(value("service", "early"), Some(0.0));
    assert_eq!(report["goals"].as_array().map(Vec::len), Some(8), "{}", report["goals"]);
}
