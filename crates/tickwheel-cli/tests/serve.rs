//! `serve` from its start to its end: ports, directories, signals, logs.

mod rig;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use rig::{Server, tickwheel, until};
use serde_json::Value;

#[test]
fn a_used_port_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let ran = tickwheel(&["serve", "--listen", &address, "--data", data]);
    assert!(ran.code(1).contains(&address), "{}", ran.stderr);
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    // Not even root can create a directory where a file is.
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    for data in [file.clone(), file.join("data")] {
        let data = data.to_str().unwrap();
        let ran = tickwheel(&["serve", "--listen", "127.0.0.1:0", "--data", data]);
        assert!(ran.code(1).contains(data), "{}", ran.stderr);
    }
}

#[test]
fn a_directory_in_use_is_named() {
    let server = Server::start();
    let data = server.folder().to_str().unwrap();
    let ran = tickwheel(&["serve", "--listen", "127.0.0.1:0", "--data", data]);
    assert!(ran.code(1).contains(data), "{}", ran.stderr);
    assert!(ran.stderr.contains("process") || ran.stderr.contains("use"), "{}", ran.stderr);
    server.run(&["ls"]).code(0);
}

#[test]
fn another_address_needs_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let ran = tickwheel(&["serve", "--listen", "0.0.0.0:0", "--data", data]);
    assert!(
        ran.stderr.contains("--insecure") && ran.stderr.contains("token new"),
        "{}",
        ran.stderr
    );
    assert_ne!(ran.code, 0);
}

#[test]
fn a_signal_ends_it_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    for signal in ["TERM", "INT"] {
        let mut server = Server::start_on(folder.path());
        server.run(&["put", "q", signal, "--delay", "1h"]).code(0);
        server.signal(signal);
        assert!(server.wait().success(), "{}", server.log());
        assert_eq!(server.run(&["ls"]).code, 6);
    }
    let server = Server::start_on(folder.path());
    let jobs = server.run(&["ls", "q", "--json"]).json();
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 2);
}

#[test]
fn what_is_in_flight_is_answered_before_the_end() {
    let mut server = Server::start();
    let mut waiting = server.command();
    waiting.args(["reserve", "q", "--wait", "30s", "--json"]);
    server.run(&["queue", "set", "q", "--lease", "1m"]).code(0);
    let waiting = std::thread::spawn(move || rig::run(&mut waiting, b""));
    server.until_in_flight(1);
    let start = Instant::now();
    server.signal("TERM");
    assert!(server.wait().success());
    assert!(start.elapsed() < Duration::from_secs(20), "the end waits for idle workers");
    // The worker gets an answer, not a lost connection.
    let ran = waiting.join().unwrap();
    assert!(matches!(ran.code, 0 | 7), "{ran:?}");
}

#[test]
fn a_half_sent_request_does_not_delay_the_end() {
    let mut server = Server::start();
    let mut half_open = std::net::TcpStream::connect(server.address()).unwrap();
    std::io::Write::write_all(&mut half_open, b"POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{").unwrap();
    server.until_in_flight(1);
    let start = Instant::now();
    server.signal("TERM");
    assert!(server.wait().success());
    // The body has 30 seconds to arrive, and the grace period is as long; neither delays the end.
    assert!(start.elapsed() < Duration::from_secs(20), "{}", server.log());
}

#[test]
fn the_log_is_for_people_or_for_programs() {
    let mut server = Server::start_with(&["--log", "json"]);
    server.run(&["put", "q", "x"]).code(0);
    server.signal("TERM");
    server.wait();
    let log = server.log();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect();
    assert!(lines.iter().any(|line| line["message"].to_string().contains("listening on http://")));
    assert!(lines.iter().all(|line| line["level"].is_string() && line["timestamp"].is_string()));

    let quiet = {
        let mut server = Server::start_with(&["--access-log", "none"]);
        server.run(&["put", "q", "x"]).code(0);
        server.signal("TERM");
        server.wait();
        server.log()
    };
    assert!(quiet.contains("listening on http://") && !quiet.contains("/v1/queues"), "{quiet}");
    assert!(!quiet.contains('\u{1b}'), "colours are for terminals");
}

#[test]
fn flags_over_environment_over_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.toml");
    std::fs::write(&file, "[limits]\npayload = 10\n").unwrap();
    let server = Server::start_with(&["--config", file.to_str().unwrap()]);
    assert!(server.run(&["put", "q", "12345678901"]).code(1).contains("10"));
    let server =
        Server::start_with(&["--config", file.to_str().unwrap(), "--limits-payload", "20"]);
    server.run(&["put", "q", "12345678901"]).code(0);
}

#[test]
fn the_log_has_the_trace_of_a_request() {
    let server = Server::start_with(&["--log", "json"]);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let answer = ureq::get(format!("{}/v1/queues", server.url))
        .header("traceparent", format!("00-{trace}-b7ad6b7169203331-01"))
        .call();
    assert!(answer.is_ok(), "{answer:?}");
    let wanted = format!("\"trace_id\":\"{trace}\"");
    until(|| server.log().lines().any(|line| line.contains("answered") && line.contains(&wanted)));
    // An invalid trace header is not logged.
    let answer = ureq::get(format!("{}/v1/stats", server.url)).header("traceparent", "x").call();
    assert!(answer.is_ok(), "{answer:?}");
    until(|| server.log().lines().any(|line| line.contains("/v1/stats")));
    assert!(
        !server.log().lines().any(|line| line.contains("/v1/stats") && line.contains("trace_id"))
    );
}
