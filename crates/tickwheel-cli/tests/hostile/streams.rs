//! Streams: a tenant that follows events learns nothing about other tenants.
//!
//! Streams never end, so the authorization matrix cannot call them. Here a token for `a-*` follows
//! them while things happen to `a-own` and to `b-secret`.

use std::io::{Read, Write};
use std::sync::mpsc;

use serde_json::json;

use crate::http::Client;
use crate::report::{Report, Scale};
use crate::rig::{Server, until};
use crate::tokens::Token;

/// Streams that show what the caller may see.
const FILTERED: [&str; 3] = ["/v1/events", "/v1/queues/a-own/events", "/v1/live"];
/// Routes without a stream for this caller: of a foreign queue, of a queue that does not exist, and of
/// all targets.
const REFUSED: [&str; 3] =
    ["/v1/queues/b-secret/events", "/v1/queues/b-nothing/events", "/v1/target-events"];

pub(crate) fn run(_: &Scale, report: &mut Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Token::new(folder.path(), &["admin"], "*");
    let reader = Token::new(folder.path(), &["read"], "a-*");
    let producer = Token::new(folder.path(), &["produce"], "a-*");
    let server = Server::start_on(folder.path());
    let client = Client::new(&server);
    let root = client.with_token(&root.secret);
    for path in FILTERED {
        follow(report, &client.with_token(&reader.secret), &root, path);
    }
    let mut refusals = Vec::new();
    for path in REFUSED {
        let answer = client.with_token(&reader.secret).get(path);
        report.check(matches!(answer.status, 403 | 404), || {
            format!("read: GET {path} gave {}", answer.brief())
        });
        let detail = answer.json()["detail"].to_string();
        refusals.push((answer.status, detail.replace("b-secret", "?").replace("b-nothing", "?")));
    }
    report.check(refusals[0] == refusals[1], || {
        format!("a foreign queue differs from an unknown one: {refusals:?}")
    });
    for path in FILTERED.iter().chain(&REFUSED) {
        let answer = client.with_token(&producer.secret).get(path);
        report
            .check(answer.status == 403, || format!("produce: GET {path} gave {}", answer.brief()));
    }
    report.fact(format!("{} streams, followed or refused", 2 * (FILTERED.len() + REFUSED.len())));
}

/// Follows a stream until it tells of the caller's own queue. Nothing foreign may be in it by then.
fn follow(report: &mut Report, caller: &Client, root: &Client, path: &str) {
    let mut stream = caller.connect().expect("a connection");
    let request = caller.head("GET", path) + "connection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("it is read");
    let (sender, heard_own) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let (mut heard, mut bytes) = (String::new(), [0; 4096]);
        while !heard.contains("a-own") {
            match stream.read(&mut bytes) {
                Ok(read @ 1..) => heard += &String::from_utf8_lossy(&bytes[..read]),
                _ => break,
            }
        }
        let _ = sender.send(());
        heard
    });
    let put = json!({ "text": "secret", "delay": "30d", "key": "b-key" });
    until(|| {
        root.must("POST", "/v1/queues/b-secret/jobs", &put);
        root.must("POST", "/v1/queues/a-own/jobs", &json!({ "text": "x", "delay": "30d" }));
        heard_own.try_recv().is_ok()
    });
    let heard = reader.join().expect("no panic");
    report.check(heard.starts_with("HTTP/1.1 200") && heard.contains("a-own"), || {
        format!("GET {path} told nothing of the caller's own queue: {heard}")
    });
    report.check(!heard.contains("b-secret") && !heard.contains("b-key"), || {
        format!("GET {path} told of a foreign queue: {heard}")
    });
}
