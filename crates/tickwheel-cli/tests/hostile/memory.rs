//! Memory bounds: bodies and answers that are as large as the limits allow, many at a time.
//!
//! The server runs with a limit of its data segment, so one that takes more memory dies.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::http::{Client, read_answer};
use crate::report::{Report, Scale};
use crate::rig::{PATIENCE, Server};

const MIB: u64 = 1 << 20;
/// The limit of `ulimit -d`: beyond it allocations fail and the process dies.
const MAX_DATA: u64 = 768 * MIB;
/// The memory that the server may use: three times the default of `limits.memory`, which leaves
/// room for the store's caches and the allocator.
const MAX_USED: u64 = 3 * 128 * MIB;

pub(crate) fn run(scale: &Scale, report: &mut Report) {
    large_pages(scale, report);
    large_reserves(scale, report);
    unfinished_bodies(scale, report);
    expectations(report);
}

fn start(report: &mut Report) -> Option<(tempfile::TempDir, Server)> {
    let folder = tempfile::tempdir().expect("a folder");
    let limit = format!("-d {}", MAX_DATA / 1_024);
    let args = ["--limits-body-timeout", "10m", "--limits-write-timeout", "10m"];
    match Server::try_start(folder.path(), &limit, &args) {
        Ok(server) => Some((folder, server)),
        Err(log) => {
            report.finding(format!("the server does not start within {MAX_DATA} bytes:\n{log}"));
            None
        }
    }
}

/// Returns the peak memory of a process in bytes.
fn peak(server: &Server) -> u64 {
    let path = format!("/proc/{}/status", server.process());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1_024
}

fn check_alive(report: &mut Report, server: &Server, what: &str) {
    let client = Client::new(server);
    let start = Instant::now();
    let answer = client.try_send("GET", "/healthz", "");
    report.check(answer.is_ok_and(|answer| answer.status == 200), || {
        format!("/healthz was not answered during {what}:\n{}", server.log_tail())
    });
    report.check(start.elapsed() < PATIENCE / 6, || {
        format!("/healthz took {:?} during {what}", start.elapsed())
    });
}

/// Clients that do not read request pages of payloads that are six times as large in JSON.
fn large_pages(scale: &Scale, report: &mut Report) {
    let Some((_folder, mut server)) = start(report) else { return };
    let client = Client::new(&server);
    let payload = "\0".repeat(MIB as usize - 1_024);
    let job = json!({ "text": payload, "delay": "30d" });
    let (jobs, readers) = scale.pick((8, 10), (16, 30));
    for _ in 0..jobs {
        client.must("POST", "/v1/queues/zeros/jobs", &job);
    }
    let mut streams: Vec<TcpStream> = (0..readers)
        .map(|_| {
            let mut stream = client.connect().expect("a connection");
            let head = client.head("GET", "/v1/queues/zeros/jobs?limit=1000");
            stream.write_all((head + "connection: close\r\n\r\n").as_bytes()).expect("it is read");
            stream
        })
        .collect();
    check_alive(report, &server, "large pages");
    let mut whole = 0;
    for stream in &mut streams {
        let answer = match read_answer(stream) {
            Ok(answer) => answer,
            Err(error) => {
                report.finding(format!("a large page broke off: {error}"));
                continue;
            }
        };
        whole += u64::from(answer.status == 200);
        let is_whole = answer.status == 200 && answer.json()["jobs"].is_array();
        let is_refused = answer.status == 503 && answer.has_header("retry-after");
        report.check(is_whole || is_refused, || format!("a large page gave {}", answer.brief()));
    }
    report.check(whole > 0, || "no large page was served".to_owned());
    // All jobs can be read, one after the other.
    let mut seen = 0;
    let mut page = String::new();
    loop {
        let answer = client.get(&format!("/v1/queues/zeros/jobs?limit=1000{page}")).json();
        seen += answer["jobs"].as_array().map_or(0, Vec::len);
        match answer["next"].as_str() {
            Some(next) => page = format!("&page={next}"),
            None => break,
        }
    }
    report.check(seen == jobs, || format!("{seen} of {jobs} large jobs were listed"));
    finish(report, &mut server, &format!("{readers} unread pages"));
}

/// Workers that do not read reserve jobs that are six times as large in JSON.
fn large_reserves(scale: &Scale, report: &mut Report) {
    let Some((_folder, mut server)) = start(report) else { return };
    let client = Client::new(&server);
    let job = json!({ "text": "\0".repeat(MIB as usize - 1_024) });
    let jobs = scale.pick(24, 100);
    for _ in 0..jobs {
        client.must("POST", "/v1/queues/zeros/jobs", &job);
    }
    let mut seen = 0;
    while seen < jobs {
        let mut streams: Vec<TcpStream> = (seen..jobs)
            .map(|_| {
                let mut stream = client.connect().expect("a connection");
                let head = client.head("POST", "/v1/queues/zeros/reserve");
                let rest = "content-length: 0\r\nconnection: close\r\n\r\n";
                stream.write_all((head + rest).as_bytes()).expect("it is read");
                stream
            })
            .collect();
        check_alive(report, &server, "large reserves");
        let before = seen;
        for stream in &mut streams {
            let Ok(answer) = read_answer(stream) else {
                report.finding("an answer to `reserve` broke off: its job is lost".to_owned());
                return;
            };
            if answer.status == 200 {
                let answer = answer.json();
                seen += answer["deliveries"].as_array().map_or(0, Vec::len);
            } else {
                let is_refused = answer.status == 503 && answer.has_header("retry-after");
                report.check(is_refused, || format!("a large reserve gave {}", answer.brief()));
            }
        }
        if seen == before {
            report.finding(format!("{seen} of {jobs} large jobs could be reserved"));
            return;
        }
    }
    finish(report, &mut server, &format!("{jobs} unread reserves"));
}

/// Clients send bodies up to the byte before the last.
fn unfinished_bodies(scale: &Scale, report: &mut Report) {
    let Some((_folder, mut server)) = start(report) else { return };
    let client = Client::new(&server);
    let length = 8 * MIB as usize;
    let count = scale.pick(100, 200);
    let head = client.head_with_body("POST", "/v1/queues/slow/jobs", length) + "\r\n";
    let part = vec![b' '; 64 * 1_024];
    let mut refused = 0;
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut stream = client.connect().expect("a connection");
        stream.set_write_timeout(Some(Duration::from_secs(2))).expect("a socket");
        let mut sent = stream.write_all(head.as_bytes()).is_ok();
        let mut left = length - 1;
        // A server that stops reading does not hold the rest in memory, so a failed write is fine.
        while sent && left > 0 {
            let size = left.min(part.len());
            sent = stream.write_all(&part[..size]).is_ok();
            left -= size;
        }
        refused += usize::from(!sent);
        streams.push(stream);
        if !sent && refused > 3 {
            break;
        }
    }
    check_alive(report, &server, "unfinished bodies");
    let sent = streams.len();
    for stream in streams {
        let _ = stream.shutdown(Shutdown::Both);
    }
    // A small put may be refused while the budget is used up, but not afterwards.
    let start = Instant::now();
    loop {
        let put = client.post("/v1/queues/after/jobs", &json!({ "text": "x" }));
        if put.status == 201 {
            break;
        }
        let told = put.status == 503 && put.has_header("retry-after");
        if !told || start.elapsed() > PATIENCE {
            report.finding(format!("after unfinished bodies a put gave {}", put.brief()));
            break;
        }
    }
    finish(report, &mut server, &format!("{sent} unfinished bodies, {refused} of them refused"));
}

fn finish(report: &mut Report, server: &mut Server, what: &str) {
    let peak = peak(server);
    report.check(peak < MAX_USED, || format!("{what} took {} MiB", peak / MIB));
    server.signal("TERM");
    let status = server.wait();
    report.check(status.success(), || {
        format!("after {what} the server ended with {status}:\n{}", server.log_tail())
    });
    report.fact(format!("{what} took {} MiB", peak / MIB));
}

/// A client that asks first is refused before it sends a body that is too large.
fn expectations(report: &mut Report) {
    let Some((_folder, server)) = start(report) else { return };
    let client = Client::new(&server);
    for (length, is_fine) in [("12", true), ("9000000", false), ("18446744073709551615", false)] {
        let mut stream = client.connect().expect("a connection");
        let head = client.head("POST", "/v1/queues/q/jobs");
        let request = format!(
            "{head}content-type: application/json\r\ncontent-length: {length}\r\n\
             expect: 100-continue\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("it is read");
        let mut first = [0; 12];
        let read = stream.read_exact(&mut first);
        let first = String::from_utf8_lossy(&first).into_owned();
        report.check(read.is_ok(), || format!("length {length} with an expectation got no answer"));
        if is_fine {
            report.check(first.ends_with("100"), || format!("length {length} got {first:?}"));
            stream.write_all(br#"{"text":"x"}"#).expect("it is read");
            let mut rest = String::new();
            let _ = stream.read_to_string(&mut rest);
            report.check(rest.contains("HTTP/1.1 201"), || format!("after 100 Continue: {rest}"));
        } else {
            // A length that exceeds 63 bits is refused after the headers.
            let is_refused = ["400", "413", "431"].iter().any(|status| first.ends_with(status));
            report.check(is_refused, || {
                format!("length {length} with an expectation got {first:?}, not 413")
            });
        }
    }
    report.fact("bodies too large are refused before they are sent".to_owned());
}
