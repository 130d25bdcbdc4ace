//! Commands for queues, groups and schedules.

use serde_json::{Value, json};

use crate::rig::Server;
use crate::{put, reserve};

#[test]
fn cancelling_what_waits_asks_first() {
    let server = Server::start();
    put(&server, &["q", "x", "--delay", "1h"]);
    assert!(server.run(&["cancel-waiting", "q"]).code(2).contains("--yes"));
    assert_eq!(server.run(&["cancel-waiting", "q", "--yes"]).text(), "1 job cancelled\n");
    // The earlier name of the command still works.
    assert_eq!(server.run(&["drain", "q", "--yes"]).text(), "0 jobs cancelled\n");
}

#[test]
fn a_queue_with_jobs_is_removed_by_force_only() {
    let server = Server::start();
    put(&server, &["q", "x", "--delay", "1h"]);
    let refused = server.run(&["queue", "rm", "q"]);
    assert!(refused.stderr.contains("has 1 job:"), "{}", refused.stderr);
    let removed = server.run(&["queue", "rm", "q", "--force"]).text();
    assert_eq!(removed, "queue \"q\" is removed, with 1 job\n");
    assert!(server.run(&["queue", "rm", "q"]).stderr.contains("there is no queue"));
}

#[test]
fn queues_are_set_paused_and_shown() {
    let server = Server::start();
    let set = [
        "queue",
        "set",
        "calls",
        "--lease",
        "2m",
        "--max-attempts",
        "5",
        "--retry",
        "1s,10s,1m",
        "--starts",
        "100",
        "--window",
        "1s",
        "--concurrency",
        "7",
        "--group-concurrency",
        "2",
        "--keep-done",
        "7d,1000",
        "--keep-dead",
        "forever",
        "--keep-cancelled",
        "nothing",
    ];
    server.run(&set).code(0);
    let settings = server.run(&["queue", "show", "calls", "--json"]).json()["settings"].clone();
    assert_eq!((&settings["lease"], &settings["max_attempts"]), (&json!("2m"), &json!(5)));
    assert_eq!(settings["retry"], json!({ "list": ["1s", "10s", "1m"] }));
    assert_eq!(settings["pacing"]["starts"], 100);
    assert_eq!(settings["pacing"]["concurrency"], 7);
    assert_eq!(settings["group_pacing"]["concurrency"], 2);

    // Settings that are not named are unchanged.
    server.run(&["queue", "set", "calls", "--no-pacing", "--retry", "30s"]).code(0);
    let settings = server.run(&["queue", "show", "calls", "--json"]).json()["settings"].clone();
    assert_eq!(
        (&settings["lease"], &settings["retry"]),
        (&json!("2m"), &json!({ "fixed": "30s" }))
    );
    assert!(settings["pacing"]["starts"].is_null(), "{settings}");
    assert_eq!(settings["group_pacing"]["concurrency"], 2);

    put(&server, &["calls", "x"]);
    assert_eq!(server.run(&["queue", "pause", "calls"]).text(), "queue \"calls\" is paused\n");
    assert_eq!(server.run(&["reserve", "calls"]).text(), "");
    let shown = server.run(&["queue", "show", "calls"]).text();
    for part in ["paused", "2m", "every 30s", "ready"] {
        assert!(shown.contains(part), "{part} is not in:\n{shown}");
    }
    assert_eq!(server.run(&["queue", "resume", "calls"]).text(), "queue \"calls\" is resumed\n");
    reserve(&server, "calls");
    assert!(server.run(&["queue", "ls"]).text().contains("calls"));
    assert!(server.run(&["ls"]).text().contains("calls"));
    assert!(server.run(&["queue", "set", "calls"]).code(2).contains("--lease"));
}

#[test]
fn only_a_queue_that_exists_is_paused() {
    let server = Server::start();
    server.run(&["put", "mail", "x"]).code(0);
    let said = server.run(&["queue", "pause", "mial"]).code(3).to_owned();
    assert!(said.contains("did you mean the queue \"mail\"?"), "{said}");
    assert!(!server.run(&["queue", "ls"]).text().contains("mial"));
    server.run(&["queue", "pause", "mail"]).code(0);
    let reserved = server.run(&["reserve", "mail"]);
    reserved.code(0);
    assert!(reserved.stderr.contains("queue \"mail\" is paused"), "{reserved:?}");
}

#[test]
fn groups_are_listed_paused_and_limited() {
    let server = Server::start();
    for group in ["acme", "acme", "initech"] {
        put(&server, &["calls", "x", "--group", group]);
    }
    let set = |args: &[&str]| server.run(&[&["queue", "set-group", "calls"], args].concat());
    let shown = set(&["acme", "--pause"]).text();
    assert!(shown.contains("acme") && shown.contains("paused"), "{shown}");
    reserve(&server, "calls");
    assert_eq!(server.run(&["reserve", "calls"]).text(), "", "acme is paused");
    let page = server.run(&["queue", "groups", "calls", "--json"]).json();
    let counts =
        |group: &Value| (group["name"].clone(), group["waiting"].clone(), group["running"].clone());
    assert_eq!(counts(&page["groups"][0]), (json!("acme"), json!(2), json!(0)));
    assert_eq!(counts(&page["groups"][1]), (json!("initech"), json!(0), json!(1)));
    assert_eq!(page["groups"][0]["held"], 2);

    set(&["acme", "--resume", "--starts", "5", "--window", "1m"]).code(0);
    let group = set(&["acme", "--concurrency", "1", "--json"]).json();
    assert_eq!(group["pacing"], json!({"starts": 5, "window": "1m", "concurrency": 1}));
    reserve(&server, "calls");
    assert_eq!(server.run(&["reserve", "calls"]).text(), "", "one of acme is out");
    set(&["acme", "--queue-pacing"]).code(0);
    reserve(&server, "calls");

    let table = server.run(&["queue", "groups", "calls", "--limit", "1", "--all"]).text();
    assert!(table.contains("acme") && table.contains("initech"), "{table}");
    let table = server.run(&["queue", "groups", "calls", "--prefix", "in"]).text();
    assert!(!table.contains("acme") && table.contains("initech"), "{table}");
    assert_eq!(server.run(&["queue", "groups", "calls", "--prefix", "x"]).text(), "");
    assert!(set(&["acme"]).code(2).contains("--pause"));
    server.run(&["queue", "set", "calls", "--fair-groups", "true"]).code(0);
    let shown = server.run(&["queue", "show", "calls"]).text();
    assert!(shown.contains("served in turn"), "{shown}");
}

#[test]
fn schedules_come_and_go() {
    let server = Server::start();
    let cron = ["--cron", "0 9 * * MON-FRI", "--timezone", "Europe/Berlin"];
    let add = ["schedule", "add", "report", "--queue", "mail", r#"{"report":true}"#];
    let added = server.run(&add.iter().chain(&cron).copied().collect::<Vec<_>>());
    let words = "At 09:00 on Monday through Friday, Europe/Berlin\nnext in ";
    assert!(added.text().contains(words), "{added:?}");
    let every = ["schedule", "add", "ping", "--queue", "calls", "--every", "200ms", "x"];
    server.run(&every).code(0);
    let listed = server.run(&["schedule", "ls"]).text();
    assert!(listed.contains("report") && listed.contains("ping"), "{listed}");
    let next = server.run(&["schedule", "next", "report", "-n", "3"]).text();
    assert_eq!(next.lines().count(), 3, "{next}");
    let is_local = |line: &str| line.contains(" 09:00:00+0") && line.contains("in ");
    assert!(next.lines().all(is_local), "in the time zone of the schedule: {next}");
    let paused = server.run(&["schedule", "pause", "report"]).text();
    assert_eq!(paused, "schedule \"report\" is paused\n");
    assert!(server.run(&["schedule", "show", "report"]).text().contains("paused"));
    let resumed = server.run(&["schedule", "resume", "report"]).text();
    assert!(resumed.contains("is resumed, next in "), "{resumed}");
    assert!(server.run(&["schedule", "pause", "reprot"]).code(3).contains("did you mean"));
    assert!(server.run(&["schedule", "show", "report"]).text().contains("Europe/Berlin"));
    assert!(server.run(&["schedule", "show", "report", "--json"]).json().is_object());
    // The schedule puts a job each time.
    reserve(&server, "calls");
    assert_eq!(server.run(&["schedule", "rm", "ping"]).text(), "schedule \"ping\" is removed\n");
    assert!(server.run(&["schedule", "show", "ping"]).code(3).contains("ping"));
    assert!(
        server
            .run(&["schedule", "rm", "reprot"])
            .code(3)
            .contains("did you mean the schedule \"report\"?")
    );
    let wrong = ["schedule", "add", "bad", "--queue", "mail", "--cron", "0 99 * * *", "x"];
    let said = server.run(&wrong).code(2).to_owned();
    assert!(said.contains("\n  0 99 * * *\n    ^^"), "{said}");
}
