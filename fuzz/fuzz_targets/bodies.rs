//! Sends requests to a real server: bodies of JSON with the API's own field names, and bytes that
//! are nothing.
//!
//! No answer may say that the server failed, every answer is JSON, and every refusal has a code.
#![no_main]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tickwheel_server::{Config, Server, Shutdown};

const ROUTES: &[&str] = &[
    "POST /v1/queues/mail/jobs",
    "POST /v1/queues/mail/reserve",
    "PUT /v1/queues/mail/settings",
    "PATCH /v1/queues/mail/settings",
    "POST /v1/queues/mail/kick",
    "POST /v1/queues/mail/remove-finished",
    "POST /v1/queues/mail/cancel-waiting",
    "POST /v1/queues/mail/bulk",
    "PATCH /v1/queues/mail/groups/eu",
    "POST /v1/queues/mail/keys/order-42/reschedule",
    "PUT /v1/schedules/daily",
    "POST /v1/jobs/batch",
    "POST /v1/jobs/batch/ack",
    "POST /v1/jobs/batch/cancel",
    "POST /v1/jobs/batch/extend",
    "POST /v1/jobs/batch/fail",
    "POST /v1/jobs/batch/import",
    "POST /v1/jobs/batch/kick",
    "POST /v1/jobs/batch/release",
    "POST /v1/jobs/batch/reschedule",
    "POST /v1/jobs/0190163d-8694-739b-aea5-966c26f8ad91/ack",
    "POST /v1/jobs/0190163d-8694-739b-aea5-966c26f8ad91/extend",
    "POST /v1/jobs/0190163d-8694-739b-aea5-966c26f8ad91/fail",
    "POST /v1/jobs/0190163d-8694-739b-aea5-966c26f8ad91/kick",
    "POST /v1/jobs/0190163d-8694-739b-aea5-966c26f8ad91/release",
    "POST /v1/jobs/0190163d-8694-739b-aea5-966c26f8ad91/reschedule",
];

const FIELDS: &[&str] = &[
    "queue",
    "payload",
    "text",
    "base64",
    "delay",
    "due",
    "key",
    "on_conflict",
    "priority",
    "headers",
    "id",
    "max_attempts",
    "retry",
    "fixed",
    "exponential",
    "first",
    "max",
    "jitter",
    "list",
    "group",
    "jobs",
    "items",
    "lease",
    "wait",
    "token",
    "error",
    "result",
    "retention",
    "pacing",
    "starts",
    "window",
    "cron",
    "every",
    "timezone",
    "grace",
    "misfire_limit",
    "misfire",
    "on_success",
    "on_death",
    "state",
    "order",
    "action",
    "filter",
    "error_group",
    "key_prefix",
    "due_from",
    "due_to",
    "dry_run",
    "limit",
    "cursor",
    "paused",
    "concurrency",
    "group_pacing",
    "fair_groups",
    "put",
    "created",
    "attempts",
    "last_error",
    "finished",
    "at",
    "max_total_delay",
    "dead",
    "worker",
    "older_than",
];

#[derive(Debug, Arbitrary)]
struct Case {
    route: u8,
    body: Body,
}

#[derive(Debug, Arbitrary)]
enum Body {
    Json(Json),
    Bytes(Vec<u8>),
}

#[derive(Debug, Arbitrary)]
enum Json {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    /// One of the durations, times and names that the API knows.
    Known(u8),
    List(Vec<Json>),
    Object(Vec<(u8, Json)>),
}

impl From<Json> for Value {
    fn from(json: Json) -> Self {
        const KNOWN: [&str; 11] = [
            "mail",
            "30ms",
            "1h",
            "replace",
            "0 9 * * *",
            "2030-01-01T00:00:00Z",
            "aGk=",
            "dead",
            "retry",
            "reschedule",
            "0190163d-8694-739b-aea5-966c26f8ad91",
        ];
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => value.into(),
            Json::Integer(value) => value.into(),
            Json::Float(value) => value.into(),
            Json::Text(value) => value.into(),
            Json::Known(number) => KNOWN[usize::from(number) % KNOWN.len()].into(),
            Json::List(values) => values.into_iter().map(Self::from).collect(),
            Json::Object(fields) => fields
                .into_iter()
                .map(|(name, value)| {
                    (FIELDS[usize::from(name) % FIELDS.len()].to_owned(), Self::from(value))
                })
                .collect(),
        }
    }
}

fuzz_target!(|case: Case| {
    static SERVER: OnceLock<SocketAddr> = OnceLock::new();
    let address = *SERVER.get_or_init(start);
    let body = match case.body {
        Body::Json(json) => Value::from(json).to_string().into_bytes(),
        Body::Bytes(bytes) => bytes,
    };
    let route = ROUTES[usize::from(case.route) % ROUTES.len()];
    let (status, answer) = request(address, route, &body);
    assert!(status < 500, "{route} {:?}: {answer}", String::from_utf8_lossy(&body));
    if !answer.is_empty() {
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert!(status < 400 || answer["code"].is_string(), "{route}: {status} {answer}");
    }
});

/// Starts the server in threads of its own, with a directory that the process leaves behind.
fn start() -> SocketAddr {
    let data = tempfile::tempdir().expect("a folder").keep();
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = Config { listen, data, reserve: 0, ..Config::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("one");
    let server = runtime.block_on(Server::bind(config)).expect("a server");
    let address = server.local_addr();
    std::thread::spawn(move || runtime.block_on(server.run(Shutdown::new())));
    address
}

fn request(address: SocketAddr, route: &str, body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let head = format!(
        "{route} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).expect("sent");
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    answer.read_line(&mut line).expect("a status line");
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    while line != "\r\n" {
        line.clear();
        answer.read_line(&mut line).expect("a header");
    }
    let mut text = String::new();
    answer.read_to_string(&mut text).expect("a body");
    (status, text)
}
