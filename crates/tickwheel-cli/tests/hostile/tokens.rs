//! Tokens that are removed while their callers wait.
//!
//! A long poll and an event stream are open when their token is removed. As soon as the server
//! refuses the token anywhere, neither of them may return a job or an event.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc;

use serde_json::json;

use crate::http::Client;
use crate::report::{Report, Scale};
use crate::rig::{Server, tickwheel, until};

/// A token that `tickwheel token new` created.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) id: String,
    pub(crate) secret: String,
}

impl Token {
    pub(crate) fn new(data: &Path, scopes: &[&str], queue: &str) -> Self {
        let data = data.to_str().expect("UTF-8");
        let mut args = vec!["token", "new", "--json", "--name", "hostile", "--data", data];
        args.extend(["--queue", queue]);
        for scope in scopes {
            args.extend(["--scope", scope]);
        }
        let made = tickwheel(&args).json();
        let text = |name: &str| made[name].as_str().expect("a text").to_owned();
        Self { id: text("id"), secret: text("token") }
    }

    /// Removes the token, and waits until the server refuses it.
    fn remove(&self, data: &Path, caller: &Client) {
        let data = data.to_str().expect("UTF-8");
        tickwheel(&["token", "rm", &self.id, "--data", data]).code(0);
        until(|| caller.get("/v1/queues").status == 401);
    }
}

pub(crate) fn run(scale: &Scale, report: &mut Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Token::new(folder.path(), &["admin"], "*");
    let server = Server::start_on(folder.path());
    let root = Client::new(&server).with_token(&root.secret);
    let rounds = scale.rounds(2, 20);
    for _ in 0..rounds {
        removed_during_a_poll(report, &server, &root);
        removed_during_a_stream(report, &server, &root);
    }
    report.fact(format!("{rounds} long polls and streams whose token was removed"));
}

fn removed_during_a_poll(report: &mut Report, server: &Server, root: &Client) {
    let token = Token::new(server.folder(), &["admin"], "a-*");
    let caller = Client::new(server).with_token(&token.secret);
    until(|| caller.get("/v1/queues").status == 200);
    let mut poll = caller.connect().expect("a connection");
    let body = r#"{"wait":"60s","lease":"1s"}"#;
    let head = caller.head_with_body("POST", "/v1/queues/a-poll/reserve", body.len());
    poll.write_all(format!("{head}\r\n{body}").as_bytes()).expect("it is read");
    // The request for the metric counts as well.
    until(|| root.metric("tickwheel_http_requests_in_flight") > 1);
    token.remove(server.folder(), &caller);
    root.must("POST", "/v1/queues/a-poll/jobs", &json!({ "text": "secret" }));
    // If the poll gets the job, its lease expires, and the job comes here with a second attempt.
    let wait = json!({ "wait": "60s", "lease": "1h" });
    let delivered = root.must("POST", "/v1/queues/a-poll/reserve", &wait);
    let job = &delivered["deliveries"][0]["job"];
    report.check(job["attempts"] == 1, || {
        format!("a long poll of a removed token got a job, which then came as {delivered}")
    });
    let ended = json!({ "token": delivered["deliveries"][0]["token"] });
    root.must("POST", &format!("/v1/jobs/{}/ack", job["id"].as_str().unwrap_or_default()), &ended);
}

fn removed_during_a_stream(report: &mut Report, server: &Server, root: &Client) {
    let token = Token::new(server.folder(), &["read"], "a-*");
    let caller = Client::new(server).with_token(&token.secret);
    until(|| caller.get("/v1/queues").status == 200);
    let mut stream = caller.connect().expect("a connection");
    let request = caller.head("GET", "/v1/events") + "connection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("it is read");
    let mut heard = String::new();
    // The stream is open once it sends something.
    let (sender, opened) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read) = stream.read(&mut bytes) {
            if read == 0 {
                break;
            }
            heard += &String::from_utf8_lossy(&bytes[..read]);
            if heard.contains("event: put") {
                let _ = sender.send(());
            }
        }
        heard
    });
    let put = json!({ "text": "x", "delay": "30d" });
    until(|| {
        root.must("POST", "/v1/queues/a-before/jobs", &put);
        opened.try_recv().is_ok()
    });
    token.remove(server.folder(), &caller);
    root.must("POST", "/v1/queues/a-after/jobs", &put);
    let heard = reader.join().expect("no panic");
    report.check(!heard.contains("a-after"), || {
        "an event stream of a removed token told of a job".to_owned()
    });
}
