//! Failed jobs on the command line: lists, groups, retries, and the errors in `get` and `watch`.

mod rig;

use rig::Server;
use serde_json::Value;

/// Puts a job, lets it fail, and returns its id.
fn fail(server: &Server, key: &str, error: &str, how: &[&str]) -> String {
    server.run(&["put", "mail", "hello", "--key", key]).code(0);
    let answer = server.run(&["reserve", "mail", "--wait", "10s", "--json"]).json();
    let delivery = &answer["deliveries"][0];
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let (id, token) = (text(&delivery["job"]["id"]), text(&delivery["token"]));
    let args: Vec<&str> =
        ["fail", &id, &token, "--error", error].into_iter().chain(how.iter().copied()).collect();
    server.run(&args).code(0);
    id
}

#[test]
fn lists_show_why_jobs_failed() {
    let server = Server::start();
    fail(&server, "a", "connection refused by 10.0.0.7\n  at send (mail.js:7)", &["--dead"]);
    fail(&server, "b", "connection refused by 10.0.0.8", &["--delay", "1h"]);
    fail(&server, "c", "no such address", &["--dead"]);
    let dead = server.run(&["ls", "mail", "--state", "dead"]).text();
    assert!(dead.lines().next().unwrap().ends_with("error"), "{dead}");
    assert!(dead.contains("connection refused") && dead.contains("no such address"), "{dead}");
    assert!(!dead.contains("at send") && dead.lines().all(|line| line.chars().count() <= 80));
    let retrying = server.run(&["ls", "mail", "--state", "scheduled"]).text();
    assert!(retrying.contains("connection refused"), "{retrying}");
    // A list without errors shows payloads.
    server.run(&["put", "other", "hello"]).code(0);
    let fresh = server.run(&["ls", "other"]).text();
    assert!(fresh.contains("payload") && fresh.contains("hello"), "{fresh}");

    let found = server.run(&["ls", "mail", "--error", "REFUSED", "--json"]).json();
    assert_eq!(found["jobs"].as_array().unwrap().len(), 2);
    let groups = server.run(&["ls", "mail", "--by", "error"]).text();
    assert!(groups.contains("connection refused by #"), "{groups}");
    let all = server.run(&["ls", "--by", "error", "--json"]).json();
    assert_eq!(
        (&all["groups"][0]["count"], &all["groups"][0]["queue"]),
        (&2.into(), &"mail".into())
    );
    server.run(&["ls", "mail", "--by", "error", "--state", "dead"]).code(2);
    assert!(server.run(&["ls", "mial", "--by", "error"]).code(3).contains("mail"));
}

#[test]
fn dead_jobs_are_kicked_by_their_error() {
    let server = Server::start();
    for number in 0..3 {
        fail(&server, &number.to_string(), &format!("timeout after {number} s"), &["--dead"]);
    }
    fail(&server, "x", "no such address", &["--dead"]);
    let kick = |args: &[&str]| {
        let args: Vec<&str> = ["kick", "--queue", "mail"].iter().chain(args).copied().collect();
        server.run(&args)
    };
    assert_eq!(kick(&["--error", "timeout", "--dry-run"]).text(), "3 jobs would be kicked\n");
    assert_eq!(kick(&["--dry-run"]).text(), "4 jobs would be kicked\n");
    assert_eq!(kick(&["--error", "timeout", "--limit", "1"]).text(), "1 job is ready again\n");
    let rest = kick(&["--error-group", "timeout after # s", "--json"]).json();
    assert_eq!((&rest["matched"], &rest["changed"]), (&2.into(), &2.into()));
    assert_eq!(kick(&["--error", "nothing"]).text(), "0 jobs are ready again\n");
    let dead = server.run(&["ls", "mail", "--state", "dead", "--json"]).json();
    assert_eq!(dead["jobs"].as_array().unwrap().len(), 1);
    server.run(&["kick", "--error", "timeout"]).code(2);
    assert!(server.run(&["kick", "--queue", "mial", "--error", "x"]).code(3).contains("mail"));
}

#[test]
fn get_shows_stack_traces_numbers_and_keys_as_they_are() {
    let server = Server::start();
    let payload = r#"{"zebra":12345678901234567890,"apple":1.10,"nested":{"b":[],"a":-0}}"#;
    server.run(&["put", "mail", payload, "--key", "k"]).code(0);
    let shown = server.run(&["get", "mail", "k"]).text();
    let expected = "\
{
  \"zebra\": 12345678901234567890,
  \"apple\": 1.10,
  \"nested\": {
    \"b\": [],
    \"a\": -0
  }
}
";
    assert!(shown.ends_with(expected), "{shown}");
    server.run(&["cancel", "mail", "k"]).code(0);
    let id = fail(&server, "t", "Error: no route\n    at send (mail.js:7)\n\u{1b}[2J", &["--dead"]);
    let shown = server.run(&["get", &id]).text();
    assert!(shown.contains("\nLast error\nError: no route\n    at send (mail.js:7)\n"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn a_finished_job_is_found_by_its_key() {
    let server = Server::start();
    let first = fail(&server, "order-42", "no", &["--dead"]);
    let second = fail(&server, "order-42", "no again", &["--dead"]);
    assert_ne!(first, second);
    let shown = server.run(&["get", "mail", "order-42"]);
    assert!(shown.text().contains(&second), "{}", shown.text());
    assert!(server.run(&["get", "mail", "order-42", "--json"]).json()["id"] == second.as_str());
    let listed = server.run(&["ls", "mail", "--key", "order-42", "--json"]).json();
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 2);
    server.run(&["get", "mail", "order-43"]).code(3);
}

#[test]
fn watch_shows_keys_and_errors_and_is_filtered() {
    let server = Server::start();
    let mut watch = server.command();
    watch.args(["watch", "--queue", "mail", "--event", "failed,dead", "-n", "2"]);
    let watch = std::thread::spawn(move || rig::run(&mut watch, b""));
    rig::until(|| server.metric("tickwheel_http_event_streams") == 1);
    fail(&server, "order-1", "connection refused\n  at send()", &["--delay", "1h"]);
    fail(&server, "order-2", "no such address", &["--dead"]);
    let shown = watch.join().unwrap().text();
    let lines: Vec<&str> = shown.lines().collect();
    let [failed, dead] = &lines[..] else { panic!("{lines:?}") };
    assert!(failed.contains("failed") && failed.contains("order-1"), "{failed}");
    assert!(failed.ends_with("connection refused"), "{failed}");
    assert!(dead.contains("dead") && dead.ends_with("no such address"), "{dead}");
    assert!(server.run(&["watch", "--event", "exploded"]).code(2).contains("exploded"));
}
