//! The forms of output: tables, JSON, colours and pipes.

use serde_json::{Value, json};

use crate::put;
use crate::rig::Server;

#[test]
fn a_list_fits_a_terminal_of_80_columns() {
    let server = Server::start();
    let long = "a text that is much longer than what one line of a terminal can show of it";
    for key in ["a-key-that-is-longer-than-its-column", "日本語の長いキーは二倍の幅を取る"]
    {
        server.run(&["put", "q", long, "--key", key, "--delay", "700h"]).code(0);
    }
    server.run(&["put", "q", long, "--key", "now"]).code(0);
    let width =
        |text: &str| text.chars().map(|c| if c > '\u{2e80}' { 2 } else { 1 }).sum::<usize>();
    let reserved = server.run(&["reserve", "q"]).text();
    for line in server.run(&["ls", "q"]).text().lines().chain(reserved.lines()) {
        assert!(width(line) <= 80, "{} columns: {line}", width(line));
    }
    assert!(reserved.contains("a text") && reserved.contains('…'), "{reserved}");
}

#[test]
fn json_is_the_answer_of_the_api() {
    let server = Server::start();
    let put = server.run(&[
        "put",
        "a",
        "[1.0,123456789012345678901234567890]",
        "--delay",
        "1h",
        "--json",
    ]);
    let put = put.json();
    assert_eq!(put["outcome"], "created");
    assert!(put["due_ms"].is_u64() && put["due"].is_string());
    let id = put["id"].as_str().unwrap();
    // Numbers keep their exact text.
    assert!(
        server.run(&["get", id, "--json"]).text().contains("[1.0,123456789012345678901234567890]")
    );
    let page = server.run(&["ls", "a", "--json"]).json();
    assert_eq!((&page["jobs"][0]["id"], &page["next"]), (&json!(id), &Value::Null));
    assert_eq!(server.run(&["cancel", id, "--json"]).json(), json!({ "was": "scheduled" }));
    assert_eq!(server.run(&["reserve", "a", "--json"]).json(), json!({ "deliveries": [] }));
    let queues = server.run(&["queue", "ls", "--json"]).json();
    assert_eq!(queues["queues"][0]["name"], "a");
    assert!(server.run(&["stats", "--json"]).json().is_object());
    // The options may also come first.
    assert!(server.run(&["--json", "ls"]).json().is_object());
}

#[test]
fn no_job_writes_to_the_terminal_of_its_reader() {
    let server = Server::start();
    let id = put(&server, &["q", "\u{1b}]0;owned\u{7}", "--key", "\u{1b}[2J", "--delay", "1h"]);
    for args in [vec!["get", &id], vec!["ls", "q"]] {
        let shown = server.run(&args).text();
        assert!(!shown.contains('\u{1b}') && shown.contains(r"\u{1b}"), "{shown:?}");
    }
}

#[test]
fn colours_are_for_terminals_or_on_demand() {
    let server = Server::start();
    put(&server, &["q", "x"]);
    assert!(!server.run(&["ls", "q"]).text().contains('\u{1b}'));
    assert!(server.run(&["ls", "q", "--color", "always"]).text().contains("\u{1b}[32m"));
    assert!(!server.run(&["ls", "q", "--color", "never"]).text().contains('\u{1b}'));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let server = Server::start();
    put(&server, &["q", "x"]);
    let mut child = server
        .command()
        .args(["ls", "q"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
