//! Poison payloads: values that one JSON parser accepts and another cannot read.
//!
//! A job whose payload breaks the parser of a worker wastes the attempts of all jobs in the same
//! answer. Whatever payload is put, in any form and with any declared type, Python's `json` must be
//! able to read each answer, and the good jobs beside a poisoned one must be processed.

use std::io::Write;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::http::Client;
use crate::report::{Report, Scale};
use crate::rig::Server;

/// The deepest nesting that a payload may have.
const MAX_DEPTH: usize = 128;

/// A Python script that parses one answer on each line and prints those that it cannot parse.
const READER: &str = "
import json, sys
for number, line in enumerate(sys.stdin.buffer):
    try:
        json.loads(line).__repr__().encode('utf-8')
    except Exception as error:
        print(number, type(error).__name__, error)
";

fn poisons() -> Vec<(&'static str, String)> {
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{}1{}", open.repeat(depth), close.repeat(depth))
    };
    vec![
        ("arrays 2,000 deep", nested("[", "]", 2_000)),
        ("arrays 100,000 deep", nested("[", "]", 100_000)),
        ("objects 2,000 deep", nested("{\"a\":", "}", 2_000)),
        ("arrays and objects 400 deep", nested("[{\"a\":", "}]", 200)),
        ("arrays just too deep", nested("[", "]", MAX_DEPTH + 1)),
        ("an integer of 5,000 digits", "9".repeat(5_000)),
        ("a negative integer of 5,000 digits", format!("[-{}]", "9".repeat(5_000))),
        ("a number beyond all floats", "{\"n\":1e400}".to_owned()),
        ("a number with a huge exponent", "[1e99999999999999999999]".to_owned()),
        ("a lone high surrogate", r#""\ud800""#.to_owned()),
        ("a lone low surrogate", r#"["x\udc00y"]"#.to_owned()),
        ("surrogates in the wrong order", r#""\udc00\ud800""#.to_owned()),
        ("a lone surrogate in a key", r#"{"\ud800":1}"#.to_owned()),
    ]
}

pub(crate) fn run(_: &Scale, report: &mut Report) {
    let server = Server::start();
    let client = Client::new(&server);
    let mut answers = Vec::new();
    let mut good = 0;
    let poisons = poisons();
    for (what, poison) in &poisons {
        refuse_as_payload(report, &client, what, poison);
        // The same bytes are accepted as text or bytes, whatever content type they declare.
        for headers in [json!({}), json!({ "content-type": "application/json" })] {
            for job in [
                json!({ "text": poison, "headers": headers }),
                json!({ "base64": STANDARD.encode(poison), "headers": headers }),
            ] {
                let answer = client.post("/v1/queues/mixed/jobs", &job);
                report.check(answer.status == 201, || {
                    format!("{what} as text or base64 with {headers} gave {}", answer.brief())
                });
                answers.push(answer.body);
            }
        }
        client.must("POST", "/v1/queues/mixed/jobs", &json!({ "payload": { "good": good } }));
        good += 1;
    }
    poisons_elsewhere(report, &client);
    fine_values(report, &client);
    answers.extend(read_everything(report, &client, good));
    let unreadable = unreadable(&answers);
    report.check(unreadable.is_empty(), || {
        let which: Vec<_> = unreadable.lines().take(5).collect();
        format!("Python cannot read {} answers: {}", unreadable.lines().count(), which.join("; "))
    });
    report.fact(format!("{} poisons in {} answers", poisons.len(), answers.len()));
}

fn refuse_as_payload(report: &mut Report, client: &Client, what: &str, poison: &str) {
    let job = format!(r#"{{"payload":{poison}}}"#);
    let answer = client.send("POST", "/v1/queues/mixed/jobs", &job);
    report.check(matches!(answer.status, 400 | 422), || {
        format!("{what} as a payload gave {}", answer.brief())
    });
    let batch = format!(r#"{{"jobs":[{{"queue":"mixed","payload":{poison}}}]}}"#);
    let answer = client.send("POST", "/v1/jobs/batch", &batch);
    let item = answer.json()["results"][0]["error"]["status"].as_u64();
    report.check(matches!(answer.status, 400 | 422) || matches!(item, Some(400 | 422)), || {
        format!("{what} as a payload in a batch gave {}", answer.brief())
    });
    let plan = format!(r#"{{"queue":"mixed","cron":"0 3 1 1 *","payload":{poison}}}"#);
    let answer = client.send("PUT", "/v1/schedules/poison", &plan);
    report.check(matches!(answer.status, 400 | 422), || {
        format!("{what} as the payload of a schedule gave {}", answer.brief())
    });
}

/// Tests the texts beside the payload: keys, groups, headers and errors.
fn poisons_elsewhere(report: &mut Report, client: &Client) {
    for body in [
        r#"{"text":"x","key":"\ud800"}"#,
        r#"{"text":"x","group":"\ud800"}"#,
        r#"{"text":"x","headers":{"a":"\ud800"}}"#,
        r#"{"text":"x","headers":{"\ud800":"a"}}"#,
        r#"{"text":"\ud800"}"#,
        r#"{"payload":NaN}"#,
        r#"{"payload":Infinity}"#,
        "{\"payload\":\"\u{1}\"}",
    ] {
        let answer = client.send("POST", "/v1/queues/mixed/jobs", body);
        report.check(matches!(answer.status, 400 | 422), || {
            format!("{body:?} gave {}", answer.brief())
        });
    }
}

/// Checks that payloads that common parsers can read are accepted and returned unchanged.
fn fine_values(report: &mut Report, client: &Client) {
    let deepest = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    for fine in [
        &*deepest,
        "18446744073709551615",
        "-0.5e-300",
        r#""\ud83d\ude00 \u0000""#,
        r#"{"a":null,"a":true}"#,
    ] {
        let job = format!(r#"{{"payload":{fine},"delay":"30d"}}"#);
        let answer = client.send("POST", "/v1/queues/fine/jobs", &job);
        report
            .check(answer.status == 201, || format!("the payload {fine} gave {}", answer.brief()));
        let id = answer.json()["id"].as_str().unwrap_or_default().to_owned();
        let job = client.get(&format!("/v1/jobs/{id}")).text();
        report.check(job.contains(&format!("\"payload\":{fine}")), || {
            format!("the payload {fine} came back as {}", job.chars().take(300).collect::<String>())
        });
    }
}

/// Lists and processes all jobs; the good ones must be delivered at their first attempt.
fn read_everything(report: &mut Report, client: &Client, good: u64) -> Vec<Vec<u8>> {
    let mut answers = vec![client.get("/v1/queues/mixed/jobs?limit=1000").body];
    let mut delivered = 0;
    loop {
        let answer = client.post("/v1/queues/mixed/reserve", &json!({ "limit": 7, "lease": "1h" }));
        let deliveries = answer.json()["deliveries"].as_array().cloned().unwrap_or_default();
        if deliveries.is_empty() {
            answers.push(answer.body);
            break;
        }
        for delivery in &deliveries {
            let id = delivery["job"]["id"].as_str().unwrap_or_default();
            answers.push(client.get(&format!("/v1/jobs/{id}")).body);
            let is_good = delivery["job"]["payload"]["good"].is_u64();
            delivered += u64::from(is_good && delivery["job"]["attempts"] == 1);
        }
        answers.push(answer.body);
    }
    report.check(delivered == good, || format!("{delivered} of {good} good jobs were delivered"));
    answers
}

/// Returns the numbers of the answers that Python cannot parse, with the reasons.
fn unreadable(answers: &[Vec<u8>]) -> String {
    let mut python = Command::new("python3")
        .args(["-c", READER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this attack reads answers with Python: install python3");
    let mut input = python.stdin.take().expect("a pipe");
    let lines = answers.join(&b'\n');
    let writer = std::thread::spawn(move || input.write_all(&lines));
    let output = python.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it is read");
    assert!(output.status.success(), "python3 failed");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
