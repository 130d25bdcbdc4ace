//! Commands that show what happens: `watch` and `stats`.

use serde_json::Value;

use crate::put;
use crate::rig::{self, Server};

#[test]
fn watch_goes_on_when_the_server_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start_on(folder.path());
    let address = server.address().to_owned();
    let watch = |form: &[&str]| {
        let mut watch = server.command();
        watch.args(["watch", "q", "--count", "2"]).args(form);
        std::thread::spawn(move || rig::run(&mut watch, b""))
    };
    let (for_programs, for_people) = (watch(&["--json"]), watch(&[]));
    let watched = |server: &Server| server.metric("tickwheel_http_event_streams") == 2;
    rig::until(|| watched(&server));
    let before = put(&server, &["q", "x"]);
    server.signal("TERM");
    assert!(server.wait().success());
    let server = Server::start_at(folder.path(), &address);
    rig::until(|| watched(&server));
    let after = put(&server, &["q", "y"]);

    let seen = for_programs.join().unwrap().text();
    let seen: Vec<Value> = seen.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<_> = seen.iter().map(|event| event["event"].as_str().unwrap()).collect();
    // Event ids are not valid across a restart: events in between may be missing, so the stream
    // reports a reset.
    assert_eq!(events, ["put", "reset", "put"]);
    assert_eq!((&seen[0]["job"], &seen[2]["job"]), (&before.into(), &after.into()));
    let told = for_people.join().unwrap();
    assert_eq!(told.text().lines().count(), 2, "{told:?}");
    assert_eq!(told.stderr.matches("the connection is lost").count(), 1, "{told:?}");
    assert!(
        told.stderr.contains("some events were lost") && !told.stderr.contains('{'),
        "{told:?}"
    );
}

#[test]
fn watch_shows_what_happens() {
    let server = Server::start();
    let mut watch = server.command();
    watch.args(["watch", "q", "--json", "--count", "3"]);
    let watching = std::thread::spawn(move || rig::run(&mut watch, b""));
    // Events before `watch` is connected are not shown, so jobs are put until it has seen enough.
    while !watching.is_finished() {
        let id = put(&server, &["q", "x", "--delay", "1h"]);
        server.run(&["cancel", &id]).code(0);
    }
    let seen = watching.join().unwrap();
    let mut lines: Vec<Value> =
        seen.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // A stream that is opened during a commit may begin with a reset.
    if lines[0]["event"] == "reset" {
        lines.remove(0);
    }
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|event| event["queue"] == "q"), "{lines:?}");

    // `watch` resumes after an earlier event, in both output forms.
    let first = lines[0]["id"].as_str().map_or_else(|| lines[0]["id"].to_string(), str::to_owned);
    let again = server.run(&["watch", "q", "--json", "--since", &first, "--count", "1"]);
    assert_eq!(again.json(), lines[1]);
    let told = server.run(&["watch", "q", "--since", &first, "--count", "1"]).text();
    assert!(told.contains(lines[1]["job"].as_str().unwrap()), "{told}");
}

#[test]
fn stats_tell_what_happened_lately_and_queues_what_they_did() {
    let server = Server::start();
    put(&server, &["q", "x"]);
    let told = server.run(&["stats", "--since", "5m"]).text();
    assert!(told.contains("In the last") && told.contains("/s)"), "{told}");
    let line = told.lines().find(|line| line.starts_with("put ")).expect("a line");
    assert!(line.split_whitespace().nth(1) == Some("1"), "{told}");
    assert!(server.run(&["stats", "--since", "2h"]).code(2).contains("since"));
    let shown = server.run(&["queue", "show", "q"]).text();
    assert!(shown.contains("oldest ready") && shown.contains("Since the queue"), "{shown}");
}

#[test]
fn stats_are_told() {
    let server = Server::start();
    put(&server, &["q", "x"]);
    let told = server.run(&["stats"]).text();
    assert!(told.contains("put") && told.contains("durability"), "{told}");
}
