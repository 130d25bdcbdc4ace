//! The curl commands of docs/SERVER.md work as they are written, and answer what is written there.

mod rig;

use std::io::{BufRead, BufReader};

use rig::Server;
use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../docs/SERVER.md");
// What the document has in place of the id and the token of a delivery.
const ID: &str = "019a8…";
const TOKEN: &str = "5f0c1d9e7a3b2468";

/// A command of the document, with the answer below it.
struct Example {
    line: String,
    answer: String,
}

/// The curl commands in the blocks of the document, in their order.
fn examples() -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for block in DOCUMENT.split("```sh\n").skip(1) {
        let block = block.split("```").next().expect("the end of a block").replace("\\\n", " ");
        let mut is_answer = false;
        for line in block.lines() {
            if line.starts_with("curl ") {
                examples.push(Example { line: line.to_owned(), answer: String::new() });
                is_answer = true;
            } else if let Some(part) = line.strip_prefix('#').filter(|_| is_answer) {
                examples.last_mut().expect("a command").answer.push_str(part.trim());
            } else {
                is_answer = false;
            }
        }
    }
    examples
}

/// A request as curl would send it. Not every machine has curl.
struct Request {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

impl Request {
    fn parse(line: &str) -> Self {
        let (mut method, mut url, mut headers, mut body) = (None, None, Vec::new(), None);
        let mut words = words(line).into_iter().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().unwrap_or_else(|| panic!("{line}"));
            match &*word {
                "-s" | "-sN" => {}
                "-X" => method = Some(value()),
                "-d" => body = Some(value()),
                "-H" => {
                    let header = value();
                    let (name, value) = header.split_once(": ").expect("a header");
                    headers.push((name.to_owned(), value.to_owned()));
                }
                word if word.starts_with("localhost:7300/") => url = Some(word.to_owned()),
                word => panic!("{word} in {line}"),
            }
        }
        let default = if body.is_some() { "POST" } else { "GET" };
        let method = method.unwrap_or_else(|| default.to_owned());
        Self { method, url: url.expect("an address"), headers, body }
    }

    fn send(&self, server: &Server) -> ureq::http::Response<ureq::Body> {
        let url = self.url.replace("localhost:7300", &server.url);
        let mut request = ureq::http::Request::builder().method(&*self.method).uri(&url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(self.body.clone().unwrap_or_default()).expect("a request");
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        let answer = agent.run(request).expect("the server answers");
        let status = answer.status();
        assert!(status.is_success(), "{} {url}: {status}", self.method);
        answer
    }
}

/// The words of a line as a shell reads them: the document uses single quotes only.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (place, part) in line.split('\'').enumerate() {
        if place % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// The fields of a JSON text in their order, with the values that are the same in each run: names
/// and truth values, but no times, ids and numbers.
fn fields(json: &str) -> Vec<(&str, Option<&str>)> {
    let mut fields = Vec::new();
    for (end, _) in json.match_indices("\":") {
        let name = &json[json[..end].rfind('"').expect("a name") + 1..end];
        let value = json[end + 2..].split([',', '}', ']']).next().expect("a value");
        let is_fixed =
            !value.contains(|c: char| c == '…' || c == '{' || c == '[' || c.is_ascii_digit());
        fields.push((name, (is_fixed && !value.is_empty()).then_some(value)));
    }
    fields
}

/// Checks that an answer has the fields that the document shows, in that order, and their values.
#[track_caller]
fn assert_like(answer: &str, shown: &str) {
    let found = fields(answer);
    let mut rest = found.iter();
    for (name, value) in fields(shown) {
        let same = rest.find(|(it, _)| *it == name);
        let (_, found) = same.unwrap_or_else(|| panic!("no {name:?} of\n{shown}\nin\n{answer}"));
        if value.is_some() {
            assert_eq!(*found, value, "{name:?} of\n{shown}\nin\n{answer}");
        }
    }
}

/// Brings the server to where the example begins.
fn prepare(server: &Server, request: &Request) {
    match request.url.split_once('/').expect("a path").1 {
        "v1/queues/orders/reserve" => {
            server.run(&["put", "orders", "x"]).code(0);
        }
        "v1/queues/mail/errors" => {
            server.run(&["put", "mail", "x"]).code(0);
            let reserved = server.run(&["reserve", "mail", "--json"]).json();
            let part = |value: &Value| value.as_str().expect("a text").to_owned();
            let delivery = &reserved["deliveries"][0];
            let (id, token) = (part(&delivery["job"]["id"]), part(&delivery["token"]));
            server.run(&["fail", &id, &token, "-e", "10.0.0.7:25 refused", "--dead"]).code(0);
        }
        _ => {}
    }
}

#[test]
fn the_commands_of_the_document_work() {
    let server = Server::start();
    let manual = Server::start_with(&["--clock", "manual"]);
    let examples = examples();
    assert_eq!(examples.len(), DOCUMENT.matches("curl -s").count(), "every command is found");
    let mut delivery = Value::Null;
    for Example { line, answer: shown } in examples {
        let mut request = Request::parse(&line);
        prepare(&server, &request);
        if let Some(body) = request.body.as_mut().filter(|body| body.contains(TOKEN)) {
            *body = body.replace(TOKEN, delivery["token"].as_str().expect("a token"));
            request.url = request.url.replace(ID, delivery["job"]["id"].as_str().expect("an id"));
        }
        let server = if line.contains("/v1/clock") { &manual } else { &server };
        let mut answer = request.send(server);
        if line.contains("-sN") {
            server.run(&["put", "orders", "x", "--delay", "1h"]).code(0);
            assert_event(answer.body_mut().as_reader());
            continue;
        }
        let answer = answer.body_mut().read_to_string().expect("an answer");
        assert_like(&answer, &shown);
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        if line.contains("/reserve") {
            delivery = answer["deliveries"][0].clone();
        } else if line.contains("/settings") {
            assert_eq!(answer["settings"]["pacing"]["starts"], 100, "the queue is new: {answer}");
        } else if line.contains("/next") {
            assert_eq!(answer["next"].as_array().map(Vec::len), Some(3), "{answer}");
        }
    }
}

/// Checks that the first put in a stream of events is like the one of the document.
fn assert_event(stream: impl std::io::Read) {
    let shown = DOCUMENT.split("```\n").find(|block| block.starts_with("event: put\n"));
    let shown = shown.expect("an event in the document");
    let mut event = String::new();
    for line in BufReader::new(stream).lines() {
        let line = line.expect("a line");
        if !line.starts_with(':') {
            event.push_str(&line);
            event.push('\n');
        }
        if line.starts_with("data: ") && event.contains("event: put\n") {
            break;
        }
        if line.is_empty() {
            event.clear();
        }
    }
    let data = |text: &str| text.lines().find(|line| line.starts_with("data: ")).map(str::to_owned);
    assert!(event.starts_with("event: put\nid: "), "{event}");
    assert_like(&data(&event).expect("data"), &data(shown).expect("data"));
}
