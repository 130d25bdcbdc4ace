//! The examples of `docs/PUSH.md` that verify a signature, each run by its own language against a
//! request that the server has signed.

use std::process::Command;

use serde_json::json;

use crate::client::{Request, Service};
use crate::target::{Arrived, HttpTarget, text};

const PYTHON: &str = r#"
import os
e = os.environ
headers = {name: e[name] for name in ("webhook-id", "webhook-timestamp", "webhook-signature")}
verify(e["secret"], headers, e["body"].encode())
"#;
const NODE: &str = r"
const e = process.env;
verify(e.secret, e, Buffer.from(e.body));
";
const JAVA: &str = r#"
class Run {
    public static void main(String[] args) throws Exception {
        Map<String, String> e = System.getenv();
        Webhooks.verify(e.get("secret"), e, e.get("body").getBytes(StandardCharsets.UTF_8));
    }
}
"#;

/// The code block of a language.
fn example(language: &str) -> &'static str {
    let document = include_str!("../../../../docs/PUSH.md");
    let start = format!("```{language}\n");
    let (_, rest) = document.split_once(&start).expect("the language has an example");
    rest.split_once("```").expect("the example ends").0
}

/// Runs an example, and returns whether it accepts the request.
fn accepts(
    program: &[&str],
    file: &std::path::Path,
    secret: &str,
    sent: &Arrived,
    body: &str,
) -> bool {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).arg(file).env("secret", secret).env("body", body);
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        command.env(name, sent.header(name).unwrap());
    }
    let output = command.output().unwrap_or_else(|error| panic!("{program:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    let is_refusal = said.contains("wrong signature");
    assert!(output.status.success() || is_refusal, "{program:?} failed:\n{said}");
    output.status.success()
}

#[tokio::test]
async fn the_examples_verify_what_the_server_signs() {
    let target = HttpTarget::start().await;
    let allow = |config: &mut tickwheel_server::Config| {
        config.push.allow = "127.0.0.1".parse().unwrap();
    };
    let service = Service::with(allow).await;
    let added = service.put("/v1/targets/partner", json!({"url": target.url("/")})).await.json();
    let secret = text(&added["secret"]);
    // During a rotation there are two signatures.
    service.post("/v1/targets/partner/rotate", json!({})).await;
    let aim =
        Request::new("PATCH", "/v1/queues/orders/settings").json(&json!({"target": "partner"}));
    assert_eq!(service.send(aim).await.status, 200);
    let body = "{\"note\":\"zażółć\"}";
    service.post("/v1/queues/orders/jobs", json!({"payload": {"note": "zażółć"}})).await;
    let sent = target.wait_for(1).await.remove(0);
    assert_eq!(sent.body, body.as_bytes());
    let folder = tempfile::tempdir().unwrap();
    for (program, language, file, harness) in [
        (&["python3"][..], "python", "verify.py", PYTHON),
        (&["node"], "js", "verify.js", NODE),
        (&["java"], "java", "Run.java", JAVA),
    ] {
        // Python is required by other tests as well; the others need not be installed.
        if language != "python" && Command::new(program[0]).arg("--version").output().is_err() {
            eprintln!("{} is not installed: its example was not run", program[0]);
            continue;
        }
        let path = folder.path().join(file);
        // Java runs the first class of a file, after its imports.
        let source = match example(language).split_once("class Webhooks") {
            Some((imports, class)) => format!("{imports}{harness}class Webhooks{class}"),
            None => format!("{}{harness}", example(language)),
        };
        std::fs::write(&path, source).unwrap();
        assert!(accepts(program, &path, &secret, &sent, body), "{language}");
        assert!(!accepts(program, &path, &secret, &sent, "forged"), "{language}");
        let other = added["secret"].as_str().unwrap().replace("whsec_", "whsec_AAAA");
        assert!(!accepts(program, &path, &other, &sent, body), "{language}");
    }
    service.stop().await;
}
