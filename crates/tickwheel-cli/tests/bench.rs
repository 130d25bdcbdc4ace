//! `bench`: its figures, its refusals, and its clean-up.
#![cfg(unix)]

mod rig;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rig::{Server, tickwheel, until};
use serde_json::{Value, json};

fn queues(server: &Server) -> Vec<Value> {
    let list = server.run(&["queue", "ls", "--json"]).json();
    list["queues"].as_array().expect("queues").clone()
}

#[test]
fn puts_are_counted_and_their_queue_is_removed() {
    let server = Server::start();
    let args = ["bench", "--rate", "500", "--duration", "400ms", "--connections", "4", "--json"];
    let said = server.run(&args).json();
    assert_eq!((&said["jobs_put"], &said["mode"]), (&json!(200), &json!("put")));
    assert_eq!((&said["errors"], &said["early"]), (&json!({}), &json!(0)));
    let put = &said["latency_us"]["put"];
    assert_eq!(put["count"], 200);
    assert!(put["p50"].as_u64() > Some(0) && put["p50"].as_u64() <= put["max"].as_u64());
    assert!(said["latency_us"].get("lateness").is_none());
    assert_eq!(server.metric("tickwheel_jobs_put_total"), 200);
    assert_eq!(queues(&server), [] as [Value; 0]);
    // The server can be given as an argument, and the default output is a table.
    let url = server.url.clone();
    let shown = tickwheel(&["bench", &url, "--rate", "100", "--duration", "100ms"]).text();
    assert!(shown.contains("10 jobs put") && shown.contains("p99.9"), "{shown}");
    assert!(shown.lines().any(|line| line.starts_with("put ")), "{shown}");
}

#[test]
fn every_job_comes_back_after_its_delay() {
    let server = Server::start();
    let load = ["--rate", "200", "--duration", "500ms", "--delay", "100ms", "--batch", "10"];
    let args = [&["bench", "--mode", "end-to-end", "--json", "--workers", "2"][..], &load].concat();
    let said = server.run(&args).json();
    assert_eq!((&said["jobs_put"], &said["jobs_acked"]), (&json!(100), &json!(100)));
    assert_eq!((&said["errors"], &said["early"]), (&json!({}), &json!(0)));
    let latency = &said["latency_us"];
    assert_eq!(latency["lateness"]["count"], 100);
    assert!(latency["put_to_ack"]["p50"].as_u64() >= Some(99_000), "{latency}");
    assert_eq!(queues(&server), [] as [Value; 0]);
}

#[test]
fn a_queue_that_exists_is_not_flooded_by_mistake() {
    let server = Server::start();
    server.run(&["put", "mail", "mine", "--delay", "1h"]).code(0);
    let load = ["bench", "--queue", "mail", "--rate", "100", "--duration", "100ms"];
    assert!(server.run(&load).code(2).contains("exists"));
    let end_to_end = [&load[..], &["--yes", "--mode", "end-to-end"]].concat();
    assert!(server.run(&end_to_end).code(2).contains("1 pending job"));
    assert_eq!(server.metric("tickwheel_jobs_put_total"), 1);
    let agreed = [&load[..], &["--yes", "--json"]].concat();
    assert_eq!(server.run(&agreed).json()["jobs_put"], 10);
    // The benchmark cancels its own jobs and leaves the others.
    let queue = server.run(&["queue", "show", "mail", "--json"]).json();
    assert_eq!(queue["jobs"]["scheduled"], 1);
    let wrong = ["bench", "--duration", "10ms"];
    assert!(server.run(&wrong).code(2).contains("between 100ms and 1h, got 10ms"));
}

#[test]
fn refused_jobs_are_errors() {
    let server = Server::start_with(&["--limits-payload", "1KiB"]);
    let load = ["bench", "--rate", "50", "--duration", "100ms", "--payload-bytes", "4096"];
    for batch in ["1", "5"] {
        let ran = server.run(&[&load[..], &["--json", "--batch", batch]].concat());
        assert!(ran.code(1).contains("5 jobs failed"));
        let said: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
        let errors = said["errors"].as_object().expect("errors");
        assert_eq!(errors.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), 5);
        assert_eq!(said["jobs_put"], 0);
    }
}

#[test]
fn an_interrupted_bench_cleans_up() {
    let server = Server::start();
    let mut command = server.command();
    command.args(["bench", "--rate", "100", "--duration", "1h"]);
    let mut bench = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
    until(|| server.metric("tickwheel_jobs_put_total") > 0);
    let interrupt = format!("kill -INT {}", bench.id());
    assert!(Command::new("sh").args(["-c", &interrupt]).status().expect("a shell").success());
    let mut shown = String::new();
    bench.stdout.take().expect("a pipe").read_to_string(&mut shown).expect("text");
    assert!(bench.wait().expect("it ends").success());
    assert!(shown.contains("put in "), "{shown}");
    assert_eq!(queues(&server), [] as [Value; 0]);
}

/// Serves only the requests of a benchmark, and stalls once before it answers a put.
fn serve_stalling(stream: TcpStream, has_stalled: &AtomicBool, stall: Duration) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        let (status, body) = if first.starts_with("GET /v1/clock") {
            ("200 OK", json!({ "now": "1970-01-01T00:00:00Z", "now_ms": 0, "manual": false }))
        } else if first.starts_with("POST") {
            if !has_stalled.swap(true, Ordering::Relaxed) {
                std::thread::sleep(stall);
            }
            ("201 Created", json!({ "id": "0190163d-8694-739b-aea5-966c26f8ad91" }))
        } else {
            let problem = json!({
                "type": "/problems/not-found", "title": "Not found", "status": 404,
                "code": "not-found", "detail": "there is no such queue"
            });
            ("404 Not Found", problem)
        };
        let body = body.to_string();
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
        writer.write_all((head + &body).as_bytes()).ok()?;
    }
}

#[test]
fn a_stall_shows_in_all_requests_that_fell_into_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        static HAS_STALLED: AtomicBool = AtomicBool::new(false);
        for stream in listener.incoming().flatten() {
            let stall = Duration::from_millis(800);
            std::thread::spawn(move || serve_stalling(stream, &HAS_STALLED, stall));
        }
    });
    let load = ["--rate", "100", "--duration", "1s", "--connections", "1", "--json"];
    let said = tickwheel(&[&["bench", &url][..], &load].concat()).json();
    let put = &said["latency_us"]["put"];
    // One request in a hundred is slow. A closed loop would report a fast median.
    assert_eq!(put["count"], 100);
    assert!(put["p50"].as_u64() > Some(200_000), "{said}");
    assert!(put["max"].as_u64() >= Some(790_000), "{said}");
}
