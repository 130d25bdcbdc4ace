//! Connection floods, half-sent requests, and requests that two parsers read differently.
//!
//! The timeouts are set to ten minutes, so the flood does not end by itself. A client that is
//! served in the meantime is served in spite of the flood.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;

use serde_json::json;

use crate::http::{Client, read_answer};
use crate::report::{Report, Scale};
use crate::rig::{Server, until};

/// The number of connections: more than the usual soft limit of descriptors.
const FLOOD: usize = 1_100;
const PATIENT: [&str; 6] =
    ["--limits-header-timeout", "10m", "--limits-body-timeout", "10m", "--shutdown-grace", "10m"];

pub(crate) fn run(_: &Scale, report: &mut Report) {
    raise_own_limit();
    flood(report, "idle", "");
    flood(report, "slow-header", "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow: ");
    flood_with_bodies(report);
    half_sent_at_the_end(report);
    ambiguous_requests(report);
}

/// Allows this process the descriptors of a flood.
fn raise_own_limit() {
    let itself = std::process::id().to_string();
    let output = Command::new("prlimit").args(["--pid", &itself, "--nofile=8192:"]).output();
    let raised = output.is_ok_and(|output| output.status.success());
    assert!(
        raised,
        "cannot raise the limit of open files to 8,192: raise its hard limit, `ulimit -Hn`"
    );
}

fn start() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::try_start(folder.path(), "-Sn 1024", &PATIENT);
    (folder, server.unwrap_or_else(|log| panic!("the server does not start:\n{log}")))
}

/// Opens connections that send only this.
fn open_flood(client: &Client, opening: &str) -> Vec<TcpStream> {
    let open = |_| {
        let mut stream = client.connect().ok()?;
        // The server may have closed the connection.
        let _ = stream.write_all(opening.as_bytes());
        Some(stream)
    };
    (0..FLOOD).filter_map(open).collect()
}

/// Puts, reserves and acknowledges a job; returns an error if a request fails.
fn work_once(client: &Client, queue: &str) -> Result<(), String> {
    let text = |answer: crate::http::Answer| answer.brief();
    let failed = |error: std::io::Error| error.to_string();
    let put = client
        .try_send("POST", &format!("/v1/queues/{queue}/jobs"), r#"{"text":"x"}"#)
        .map_err(failed)?;
    if put.status != 201 {
        return Err(format!("a put got {}", text(put)));
    }
    let reserve = format!("/v1/queues/{queue}/reserve");
    let given = client.try_send("POST", &reserve, r#"{"wait":"30s"}"#).map_err(failed)?;
    let delivery = given.json()["deliveries"][0].clone();
    let Some(id) = delivery["job"]["id"].as_str() else {
        return Err(format!("a reserve got {}", text(given)));
    };
    let body = json!({ "token": delivery["token"] }).to_string();
    let acked = client.try_send("POST", &format!("/v1/jobs/{id}/ack"), &body).map_err(failed)?;
    if acked.status != 200 {
        return Err(format!("an ack got {}", text(acked)));
    }
    Ok(())
}

fn flood(report: &mut Report, kind: &str, opening: &str) {
    let (_folder, server) = start();
    let attacker = Client::new(&server);
    let mut streams = open_flood(&attacker, opening);
    let opened = streams.len();
    for (address, name) in [(2, "another address"), (1, "the attacker's address")] {
        let client = attacker.at_address(address);
        for _ in 0..5 {
            if let Err(why) = work_once(&client, "normal") {
                report.finding(format!(
                    "a client at {name} during {opened} {kind} connections: {why}"
                ));
                break;
            }
            // The flood keeps its connections alive by single bytes.
            for stream in &mut streams {
                let _ = stream.write(if opening.is_empty() { b"" } else { b"x" });
            }
        }
    }
    let log = server.log();
    report.check(!log.contains("os error 24"), || {
        "the server ran out of file descriptors".to_owned()
    });
    drop(streams);
    if let Err(why) = work_once(&attacker, "after") {
        report.finding(format!("after the {kind} flood: {why}"));
    }
    report.fact(format!("{opened} {kind} connections"));
}

/// One address sends requests whose bodies never end; a client at another address must be served.
fn flood_with_bodies(report: &mut Report) {
    let (_folder, server) = start();
    let attacker = Client::new(&server);
    let opening = attacker.head_with_body("POST", "/v1/queues/slow/jobs", 1_000) + "\r\n{";
    let streams = open_flood(&attacker, &opening);
    if let Err(why) = work_once(&attacker.at_address(2), "normal") {
        report.finding(format!("a client at another address during unfinished bodies: {why}"));
    }
    report.fact(format!("{} unfinished bodies", streams.len()));
}

/// SIGTERM ends the server although requests are incomplete.
fn half_sent_at_the_end(report: &mut Report) {
    let (_folder, mut server) = start();
    let client = Client::new(&server);
    // Starts before the incomplete requests, which may count as in flight as well.
    let waiting = client.clone();
    let poll = std::thread::spawn(move || {
        waiting.try_send("POST", "/v1/queues/q/reserve", r#"{"wait":"55s"}"#)
    });
    until(|| client.metric("tickwheel_http_requests_in_flight") > 1);
    let body = client.head_with_body("POST", "/v1/queues/slow/jobs", 1_000) + "\r\n{";
    let openings = ["", "GET /v1/que", "GET /healthz HTTP/1.1\r\nhost: localhost\r\n", &body];
    let streams: Vec<TcpStream> = openings
        .iter()
        .flat_map(|opening| std::iter::repeat_n(opening, 20))
        .map(|opening| {
            let mut stream = client.connect().expect("a connection");
            stream.write_all(opening.as_bytes()).expect("it is read");
            stream
        })
        .collect();
    // Connections are accepted in order, so after this request all of them are accepted.
    until(|| client.metric("tickwheel_http_connections") as usize > streams.len());
    server.signal("TERM");
    let status = server.wait();
    report.check(status.success(), || {
        format!("the server ended with {status}: {}", server.log_tail())
    });
    let answer = poll.join().expect("no panic");
    report.check(answer.as_ref().is_ok_and(|answer| answer.status == 200), || {
        format!("a worker that waited at SIGTERM got {answer:?}")
    });
    report.fact(format!("{} half-sent requests at SIGTERM", streams.len()));
}

/// Requests that a proxy and the server could read differently.
fn ambiguous_requests(report: &mut Report) {
    let (_folder, server) = start();
    let client = Client::new(&server);
    let get = |lines: &str| format!("GET /v1/queues HTTP/1.1\r\n{lines}connection: close\r\n\r\n");
    let post = |lines: &str, body: &str| {
        format!(
            "POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             {lines}connection: close\r\n\r\n{body}"
        )
    };
    let job = r#"{"text":"x"}"#;
    let requests = [
        ("two hosts", get("host: localhost\r\nhost: localhost\r\n")),
        ("two different hosts", get("host: localhost\r\nhost: evil.example\r\n")),
        ("no host", get("")),
        ("a foreign host", get("host: evil.example\r\n")),
        ("two lengths", post("content-length: 12\r\ncontent-length: 5\r\n", job)),
        ("a negative length", post("content-length: -1\r\n", job)),
        ("a length with a sign", post("content-length: +12\r\n", job)),
        ("an unknown encoding", post("transfer-encoding: gzip\r\n", job)),
        ("a chunk without size", post("transfer-encoding: chunked\r\n", "zz\r\n\r\n")),
        ("a folded header", get("host: localhost\r\nx-a: b\r\n c: d\r\n")),
        ("a space before the colon", get("host : localhost\r\n")),
        ("a bare NUL", get("host: localhost\r\nx-a: \0\r\n")),
    ];
    for (what, request) in &requests {
        let mut stream = client.connect().expect("a connection");
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.shutdown(Shutdown::Write);
        let refused = match read_answer(&mut stream) {
            Ok(answer) => (400..500).contains(&answer.status) || answer.status == 501,
            // A closed connection counts as a refusal.
            Err(_) => true,
        };
        report.check(refused, || format!("a request with {what} was accepted"));
    }
    // Length and chunks at once: the answer closes the connection, so nothing can be smuggled.
    let smuggled = format!(
        "POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 4\r\ntransfer-encoding: chunked\r\n\r\nc\r\n{job}\r\n0\r\n\r\n\
         GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    );
    let mut stream = client.connect().expect("a connection");
    let _ = stream.write_all(smuggled.as_bytes());
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers);
    let count = String::from_utf8_lossy(&answers).matches("HTTP/1.1 ").count();
    report.check(count <= 1, || "a request with both length and chunks was followed".to_owned());
    report.fact(format!("{} ambiguous requests", requests.len() + 1));
}
