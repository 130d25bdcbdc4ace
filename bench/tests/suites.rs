//! Runs of the real program: every system in Rust does every workload on the same work, and quick
//! comparisons complete. The service is built first, as in a benchmark.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;

use serde_json::Value;

fn bench(arguments: &str) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_tickwheel-bench"));
    program.args(arguments.split_whitespace()).output().expect("the program starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs the program, which must succeed, and returns its standard output.
fn succeed(arguments: &str) -> String {
    let output = bench(arguments);
    assert!(output.status.success(), "{arguments}: {}", stderr(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs the program, which must fail, and returns its standard error.
fn fail(arguments: &str) -> String {
    let output = bench(arguments);
    assert!(!output.status.success(), "{arguments} succeeds");
    stderr(&output)
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn outcome(suite: &str, system: &str, workload: &str, settings: &str) -> Value {
    let run = format!("run {suite} --system {system} --workload {workload} {settings}");
    serde_json::from_str(&succeed(&run)).expect("the outcome is JSON")
}

/// Lets systems do a workload at the same time, and checks that they did the same work.
fn same_work(suite: &str, workload: &str, figure: &str, systems: &[&str], settings: &str) {
    let outcomes: Vec<Value> = thread::scope(|scope| {
        let run = |&system| scope.spawn(move || outcome(suite, system, workload, settings));
        let runs: Vec<_> = systems.iter().map(run).collect();
        runs.into_iter().map(|run| run.join().expect("the run succeeds")).collect()
    });
    for (system, outcome) in systems.iter().zip(&outcomes) {
        assert!(outcome["checksum"].is_u64(), "{system}, {workload}: {outcome}");
        assert_eq!(outcome["checksum"], outcomes[0]["checksum"], "{system}, {workload}");
        assert!(outcome["figures"][figure].is_number(), "{system}, {workload}: {outcome}");
        let early = &outcome["figures"]["fire-early"];
        assert!(early.is_null() || *early == 0.0, "{system}, {workload}: {outcome}");
    }
}

#[test]
fn every_timer_does_every_workload_on_the_same_work() {
    let settings = "--timers 2000 --seed 7 --moves 10000 --lead-ms 500 --span-ms 300 --idle-ms 100";
    for (workload, figure, systems) in [
        ("schedule", "schedule-cpu", &["tickwheel", "hashed", "keyed", "tokio", "async-io"][..]),
        ("cancel", "cancel-wall", &["tickwheel", "hashed", "keyed", "tokio", "async-io"]),
        ("churn", "churn-cpu", &["tickwheel", "hashed", "keyed", "tokio", "async-io"]),
        ("reset", "reset-cpu", &["tickwheel", "hashed", "keyed", "tokio", "async-io"]),
        ("two-producers", "two-producers-wall", &["tickwheel", "tokio", "async-io"]),
        ("two-churn", "two-churn-wall", &["tickwheel", "tokio"]),
        ("two-cancel", "two-cancel-wall", &["tickwheel", "tokio"]),
        ("eight-producers", "eight-producers-wall", &["tickwheel", "tokio"]),
        ("eight-churn", "eight-churn-wall", &["tickwheel", "tokio"]),
        ("fire", "fire-p99", &["tickwheel", "inline", "hashed", "tokio", "async-io"]),
        ("idle", "idle-full-switches", &["tickwheel", "hashed", "tokio", "async-io"]),
        ("memory", "memory", &["tickwheel", "keyed", "tokio", "async-io"]),
        ("blocked", "blocked-p99", &["tickwheel", "inline", "tokio", "async-io"]),
    ] {
        same_work("timer", workload, figure, systems, settings);
    }
    let pause = outcome("timer", "tickwheel", "pause", settings);
    for figure in ["pause-schedule", "pause-cancel", "pause-key", "pause-wait"] {
        assert!(pause["figures"][figure].is_number(), "{pause}");
    }
    let netty = format!("run timer --system netty --workload fire {settings}");
    assert!(fail(&netty).contains("harness of its own"));
}

#[test]
fn all_futures_do_every_workload_on_the_same_work() {
    let settings = "--timers 2000 --seed 7 --moves 2000 --lead-ms 500 --span-ms 300";
    let all = ["tickwheel", "tokio", "async-io", "futures-timer", "bare"];
    for (workload, figure, systems) in [
        ("timeout", "timeout-once-cpu", &all[..4]),
        ("receive", "receive-cpu", &all),
        ("sleep", "brief-cpu", &all[..4]),
        ("churn", "churn-wall", &all[..4]),
        ("reset", "reset-cpu", &all[..4]),
        ("fire", "fire-p99", &all[..4]),
        ("fire-stay", "fire-stay-cpu", &all[..4]),
        ("interval", "interval-cpu", &all[..4]),
        ("queue", "pop-cpu", &all[..2]),
    ] {
        same_work("async", workload, figure, systems, settings);
    }
    let refused = fail(&format!("run async --system async-io --workload queue {settings}"));
    assert!(refused.contains("async-io does not do queue"), "{refused}");
}

#[test]
fn our_queue_does_every_workload_and_leaves_nothing_behind() {
    for (workload, system, figure) in [
        ("put", "tickwheel", "put64"),
        ("put-batch", "tickwheel", "put-batch64"),
        ("end-to-end", "tickwheel", "end-to-end"),
        ("cancel", "tickwheel", "cancel"),
        ("lateness", "tickwheel", "late-p99"),
        ("pending", "tickwheel-interval", "restart"),
        ("pending-many", "tickwheel-interval", "memory-many-again"),
    ] {
        let data = folder(&format!("queue-{workload}"));
        let settings = format!("--time-ms 100 --jobs 600 --folder {}", data.display());
        let outcome = outcome("queue", system, workload, &settings);
        assert!(!data.exists(), "{workload} leaves its data behind");
        let value = outcome["figures"][figure].as_f64();
        assert!(value.is_some_and(|value| value > 0.0), "{workload}: {outcome}");
        let early = &outcome["figures"]["early"];
        assert!(early.is_null() || *early == 0.0, "{workload}: {outcome}");
    }
    let refused = fail("run queue --system tickwheel --workload pending --folder /no");
    assert!(refused.contains("tickwheel does not do pending"), "{refused}");
}

#[test]
fn the_embedded_queue_needs_no_service() {
    let settings = |name: &str| {
        let data = folder(&format!("server-{name}"));
        format!("--time-ms 100 --jobs 600 --binary /no/such/binary --folder {}", data.display())
    };
    for (workload, figure) in
        [("put", "put64"), ("put-batch", "put-batch64"), ("lateness", "late-p99")]
    {
        let outcome = outcome("server", "embedded", workload, &settings(workload));
        let value = outcome["figures"][figure].as_f64();
        assert!(value.is_some_and(|value| value > 0.0), "{workload}: {outcome}");
    }
    let missing =
        fail(&format!("run server --system service --workload put {}", settings("missing")));
    assert!(missing.contains("/no/such/binary"), "{missing}");
}

/// Returns the report that a comparison prints, and the one that it writes as JSON.
fn report(arguments: &str, name: &str) -> (String, Value) {
    let json = folder(&format!("{name}.json"));
    let text = succeed(&format!("{arguments} --json {}", json.display()));
    let json = fs::read(&json).expect("the file is written");
    (text, serde_json::from_slice(&json).expect("the report is JSON"))
}

fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn quick_comparisons_show_tables_and_goals_and_write_files() {
    let svg = folder("async.svg");
    let arguments = "async --quick --timers 2k --peers tokio --workload timeout,receive,queue";
    let (text, json) = report(&format!("{arguments} --svg {}", svg.display()), "async");
    contains(&text, &["timeout, ready at once", "delay queue: pop", "vs tokio", "## Goals"]);
    assert_eq!(json["timers"], 2_000);
    assert!(fs::read_to_string(&svg).expect("the chart is written").contains("</svg>"));

    let (text, _) = report("pace --quick --keys 2k", "pace");
    contains(&text, &["submit + dispatch, new key", "forget a key", "check, refused"]);
    contains(&text, &["vs governor", "## Goals"]);

    let (text, json) =
        report("wheel --sizes 1k,3k --rounds 1 --only hierarchical,btree-map", "wheel");
    contains(&text, &["fire over 60 s", "vs best peer", "3k against 1k"]);
    assert_eq!(json["series"][0]["timers"], 1_000);

    let data = folder("queue-quick").display().to_string();
    let (text, json) = report(&format!("queue --quick --peers none --folder {data}"), "queue");
    contains(&text, &["| put, 64 callers", "Peers: none"]);
    assert!(json["series"].as_array().is_some_and(|series| series.len() > 20), "{json}");
}

#[test]
fn the_service_is_compared_and_pushes() {
    let data = folder("server-quick").display().to_string();
    let (text, json) = report(&format!("server --quick --peers none --folder {data}"), "server");
    contains(&text, &["| put, 64 connections", "Peers: none"]);
    let series = json["series"].as_array().expect("a list of series");
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
    assert!(value("service", "idle").is_some_and(|percent| percent < 100.0), "{json}");
    assert_eq!(value("service", "early"), Some(0.0));
    assert_eq!(json["goals"].as_array().map(Vec::len), Some(8), "{}", json["goals"]);

    let data = folder("push-quick").display().to_string();
    let (text, json) = report(&format!("push --quick --folder {data}"), "push");
    contains(&text, &["backlog: deliveries", "vs worker", "## Goals"]);
    assert_eq!(json["goals"].as_array().map(Vec::len), Some(5), "{}", json["goals"]);
}

#[test]
fn a_cluster_is_compared_and_survives_faults() {
    let data = folder("cluster-quick").display().to_string();
    let arguments = format!("cluster --quick --peers direct,scheduled --folder {data}");
    let (text, json) = report(&arguments, "cluster");
    contains(&text, &["put in batches of 100, 64 callers", "vs log alone", "## Goals"]);
    let series = json["series"].as_array().expect("a list of series");
    let value = |system: &str, figure: &str| {
        let is_it = |it: &&Value| it["system"] == system && it["figure"] == figure;
        series.iter().find(is_it).and_then(|it| it["value"].as_f64())
    };
    for system in ["owner", "any", "direct", "direct-each", "scheduled"] {
        let found = value(system, "put-batch64");
        assert!(found.is_some_and(|value| value > 0.0), "{system}: {found:?}");
    }
    for figure in ["end-to-end", "late-p99", "takeover-max", "leader-max", "hand-off-max"] {
        let found = value("owner", figure);
        assert!(found.is_some_and(|value| value > 0.0), "{figure}: {found:?}");
    }
    assert!(value("any", "partitions-1").is_some_and(|value| value > 0.0), "{json}");
    // What `cargo xtask capacity` reads.
    for (system, figure) in [
        ("direct", "append-fixed"),
        ("direct", "append-kb"),
        ("direct", "append-cpu-fixed"),
        ("direct", "append-cpu-kb"),
        ("owner", "log-life"),
        ("owner", "owner-life"),
        ("owner", "standby-life"),
        ("owner", "disk-job"),
    ] {
        assert!(value(system, figure).is_some(), "{system} {figure}: {json}");
    }
    assert_eq!(value("owner", "early"), Some(0.0));
}
