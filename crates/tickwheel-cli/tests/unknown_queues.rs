//! Misspelt names of queues: commands that need a queue refuse an unknown one, workers name it, and
//! neither creates it.

mod rig;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rig::Server;

const MEANT: &str = "did you mean the queue \"mail\"?";

/// A server whose only queue is `mail`.
fn server() -> Server {
    let server = Server::start();
    server.run(&["put", "mail", "x", "--delay", "1h"]).code(0);
    server
}

#[track_caller]
fn assert_only_mail(server: &Server, after: &[&str]) {
    let queues = server.run(&["queue", "ls", "--json"]).json()["queues"].clone();
    let names: Vec<_> = queues.as_array().unwrap().iter().map(|queue| &queue["name"]).collect();
    assert_eq!(names, ["mail"], "after {after:?}");
}

#[test]
fn a_command_that_needs_a_queue_refuses_an_unknown_one() {
    let server = server();
    let commands: [&[&str]; 11] = [
        &["ls", "mial", "--by", "error"],
        &["kick", "--queue", "mial"],
        &["kick", "--queue", "mial", "--error", "x"],
        &["remove-finished", "mial", "--state", "dead", "--yes"],
        &["purge", "mial", "--state", "done", "--yes"],
        &["cancel-waiting", "mial", "--yes"],
        &["queue", "show", "mial"],
        &["queue", "pause", "mial"],
        &["queue", "resume", "mial"],
        &["queue", "rm", "mial"],
        &["queue", "set-group", "mial", "acme", "--pause"],
    ];
    for command in commands {
        let ran = server.run(command);
        assert!(ran.code(3).contains(MEANT), "{command:?} said {}", ran.stderr);
        assert_eq!(ran.stdout, b"", "{command:?}");
        assert_only_mail(&server, command);
    }
    // A list is empty, and says why.
    for list in [&["ls", "mial"][..], &["queue", "groups", "mial"]] {
        let listed = server.run(list);
        assert_eq!(listed.text(), "");
        assert!(listed.stderr.contains(MEANT), "{listed:?}");
        assert_only_mail(&server, list);
    }
    // Programs get the same as a field of the problem.
    let refused = server.run(&["kick", "--queue", "mial", "--json"]).code(3).to_owned();
    let problem: serde_json::Value = serde_json::from_str(&refused).unwrap();
    assert_eq!((&problem["status"], &problem["hint"]), (&404.into(), &MEANT.into()), "{problem}");
    // A name like no other gets no suggestion.
    let refused = server.run(&["cancel-waiting", "invoices", "--yes"]).code(3).to_owned();
    assert!(refused.contains("invoices") && !refused.contains("did you mean"), "{refused}");
}

#[test]
fn reserve_says_that_the_queue_does_not_exist_yet() {
    let server = server();
    let ran = server.run(&["reserve", "mial"]);
    assert_eq!(ran.text(), "");
    assert_eq!(ran.stderr, format!("queue \"mial\" does not exist yet; {MEANT}\n"));
    let ran = server.run(&["reserve", "invoices", "--wait", "10ms"]);
    assert_eq!(ran.text(), "");
    let told = "queue \"invoices\" does not exist yet; its first job creates it\n";
    assert_eq!(ran.stderr, told);
    assert_only_mail(&server, &["reserve"]);
    // A queue that exists and has no ready job.
    assert_eq!(server.run(&["reserve", "mail"]).stderr, "no job of queue \"mail\" is ready\n");
}

#[test]
fn a_worker_names_an_unknown_queue_and_waits_for_its_first_job() {
    let server = server();
    let mut worker = server
        .command()
        .args(["work", "mial", "--", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut told = BufReader::new(worker.stderr.take().expect("a pipe")).lines();
    let mut next = || told.next().expect("a line").expect("UTF-8");
    assert_eq!(next(), format!("queue \"mial\" does not exist yet; {MEANT}"));
    assert!(next().starts_with("working on queue \"mial\""));
    server.run(&["put", "mial", "x"]).code(0);
    rig::until(|| server.metric("tickwheel_jobs_acked_total") == 1);
    worker.kill().expect("it runs");
    worker.wait().expect("it ends");
}
