//! The examples of `docs/PUSH.md` that verify a signature, each run in its own language against a
//! request that the server has signed.
//!
//! A language that is not installed is left out, unless `TICKWHEEL_EVERY_LANGUAGE` is set:
//! `cargo xtask clients signatures` installs all of them and sets it.

use std::path::Path;
use std::process::Command;

use hyper::HeaderMap;
use standardwebhooks::WebhookError;

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

const GO: &str = r#"
package main

import (
	"fmt"
	"os"
)

func main() {
	headers := map[string]string{}
	for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
		headers[name] = os.Getenv(name)
	}
	if err := verify(os.Getenv("secret"), headers, []byte(os.Getenv("body"))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
"#;
const PHP: &str = r#"
ini_set("display_errors", "stderr");
$headers = [];
foreach (["webhook-id", "webhook-timestamp", "webhook-signature"] as $name) {
    $headers[$name] = getenv($name);
}
verify(getenv("secret"), $headers, getenv("body"));
"#;

// A literal copy of the example for Rust.
fn verify(secret: &str, headers: &HeaderMap, body: &[u8]) -> Result<(), WebhookError> {
    standardwebhooks::Webhook::new(secret)?.verify(body, headers)
}

const DOCUMENT: &str = include_str!("../../../../docs/PUSH.md");

/// Returns the code block of a language.
fn example(language: &str) -> &'static str {
    let start = format!("```{language}\n");
    let (_, rest) = DOCUMENT.split_once(&start).expect("the language has an example");
    rest.split_once("```").expect("the example ends").0
}

/// The commands for an example: one that checks whether the language is installed, one that runs
/// the files, and the files.
struct Program {
    language: &'static str,
    version: [&'static str; 2],
    command: &'static [&'static str],
    files: Vec<(&'static str, String)>,
}

fn programs() -> Vec<Program> {
    let with = |language, harness| format!("{}{harness}", example(language));
    // Java runs the first class of a file, after its imports.
    let (imports, class) = example("java").split_once("class Webhooks").expect("the class");
    let java = format!("{imports}{JAVA}class Webhooks{class}");
    vec![
        Program {
            language: "python",
            version: ["python3", "--version"],
            command: &["python3", "verify.py"],
            files: vec![("verify.py", with("python", PYTHON))],
        },
        Program {
            language: "js",
            version: ["node", "--version"],
            command: &["node", "verify.js"],
            files: vec![("verify.js", with("js", NODE))],
        },
        Program {
            language: "java",
            version: ["java", "--version"],
            command: &["java", "Run.java"],
            files: vec![("Run.java", java)],
        },
        Program {
            language: "go",
            version: ["go", "version"],
            command: &["go", "run", "main.go", "verify.go"],
            files: vec![("verify.go", example("go").to_owned()), ("main.go", GO.to_owned())],
        },
        Program {
            language: "php",
            version: ["php", "--version"],
            command: &["php", "verify.php"],
            files: vec![("verify.php", with("php", PHP))],
        },
    ]
}

/// Runs an example, and returns whether it accepts the request.
fn accepts(program: &Program, folder: &Path, secret: &str, sent: &Arrived, body: &str) -> bool {
    let mut command = Command::new(program.command[0]);
    command.args(&program.command[1..]).current_dir(folder);
    command.env("secret", secret).env("body", body);
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        command.env(name, sent.header(name).unwrap());
    }
    let language = program.language;
    let output = command.output().unwrap_or_else(|error| panic!("{language}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    let is_refusal = said.contains("wrong signature");
    assert!(output.status.success() || is_refusal, "{language} failed:\n{said}");
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
    let other = secret.replace("whsec_", "whsec_AAAA");
    let is_this = include_str!("verify.rs").contains(example("rust,ignore"));
    assert!(is_this, "the example for Rust is the function verify of this file");
    let mut headers = HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        headers.insert(name, sent.header(name).unwrap().parse().unwrap());
    }
    verify(&secret, &headers, body.as_bytes()).unwrap();
    verify(&secret, &headers, b"forged").unwrap_err();
    for program in programs() {
        let language = program.language;
        let is_installed =
            Command::new(program.version[0]).arg(program.version[1]).output().is_ok();
        // Other tests need Python as well.
        let is_required =
            language == "python" || std::env::var_os("TICKWHEEL_EVERY_LANGUAGE").is_some();
        if !is_installed && !is_required {
            eprintln!(
                "{language} is not installed; cargo xtask clients signatures runs its example"
            );
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        for (name, source) in &program.files {
            std::fs::write(folder.path().join(name), source).unwrap();
        }
        assert!(accepts(&program, folder.path(), &secret, &sent, body), "{language}");
        assert!(!accepts(&program, folder.path(), &secret, &sent, "forged"), "{language}");
        assert!(!accepts(&program, folder.path(), &other, &sent, body), "{language}");
    }
    service.stop().await;
}
